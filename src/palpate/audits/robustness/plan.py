"""From notes to variants: every note as each perturbation writes it.

A note is in all groups of a perturbation (all doses, small letters and capitals) or in none, and the reason is kept. A
note is read once for all perturbations; its random numbers depend on the seed, the perturbation and its own text only.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.scope import validation_rows
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints, Skip, VariantsBuilder
from palpate.errors import ConfigError, closest
from palpate.perturb.robustness import BUILT_IN, Expectation, Perturbation, WrittenNote, note_stream, perturbed
from palpate.results import Plan

ORIGINAL = "original"
_WORD = re.compile("[a-z]{4,}")


@dataclass(frozen=True, eq=False)
class PerturbedArm:
    """One perturbation, and the notes that it could write."""

    perturbation: Perturbation
    groups: tuple[str, ...]
    rows: Ints
    """The rows of the cohort that are in every group."""
    variants: Ints
    """[note, group]"""
    n_notes: int
    """How many notes were tried."""
    reasons: Mapping[str, int]
    """Why notes were left out, and how many."""
    asked: bool
    """Whether the user asked for it by name."""
    shares: tuple[float, ...] = ()
    """What share of a note's words was misspelt at each dose, on average."""

    @property
    def name(self) -> str:
        """The perturbation's."""
        return self.perturbation.name

    @cached_property
    def group_names(self) -> tuple[str, ...]:
        """The groups as the table of estimates has them: `typos=2%`."""
        return tuple(f"{self.name}={group}" for group in self.groups)

    @property
    def as_written(self) -> str:
        """The notes of this arm, unaltered."""
        return f"{self.name}=as written"

    def variant(self, note: int, group: int) -> int:
        """The variant that is the k-th note in the g-th group."""
        return int(self.variants[note, group])

    def cut(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values of the plan's variants as [note, group, ...]."""
        return np.asarray(values[self.variants])


class PerturbedNotes(NamedTuple):
    """What the plan remembers until the predictions are there."""

    arms: tuple[PerturbedArm, ...]
    original: Ints
    """[row of the cohort] the variant that is the note as written; -1 where none is planned."""
    validation: Ints


def chosen_perturbations(
    names: Sequence[str] | None,
    own: Sequence[Perturbation],
    expects: Mapping[str, Expectation],
    tolerance: Mapping[str, float],
) -> list[Perturbation]:
    """The perturbations that are asked for, all by default, with what the user expects of them."""
    unknown = next((name for name in names or () if name not in BUILT_IN), None)
    if unknown is not None:
        hint = closest(unknown, BUILT_IN, all_are="the perturbations are")
        raise ConfigError(f"audit 'robustness', option 'perturb': unknown perturbation '{unknown}'", hint=hint)
    chosen = [*(BUILT_IN[name] for name in (BUILT_IN if names is None else names)), *own]
    twice = next((name for name, n in Counter(each.name for each in chosen).items() if n > 1), None)
    if twice is not None:
        raise ConfigError(f"audit 'robustness': perturbation '{twice}' is given twice")
    if not chosen:
        raise ConfigError("audit 'robustness', option 'perturb' names no perturbation")
    known = [each.name for each in chosen]
    for option, given in (("expects", expects), ("tolerance", tolerance)):
        other = next((name for name in given if name not in known), None)
        if other is not None:
            hint = closest(other, known, all_are="this audit has")
            raise ConfigError(f"audit 'robustness', option '{option}': '{other}' is no perturbation of it", hint=hint)
    return [
        replace(each, expects=expects.get(each.name, each.expects), tolerance=tolerance.get(each.name, each.tolerance))
        for each in chosen
    ]


@dataclass
class _ArmNotes:
    """One arm while its notes are collected."""

    perturbation: Perturbation
    groups: tuple[str, ...]
    rows: list[int] = field(default_factory=list)
    variants: list[int] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    shares: list[list[float]] = field(default_factory=list)

    def arm(self, n_notes: int, *, asked: bool) -> PerturbedArm:
        rows, variants = np.asarray(self.rows, dtype=np.int64), np.asarray(self.variants, dtype=np.int64)
        variants = variants.reshape(len(rows), len(self.groups))
        reasons = dict(sorted(self.reasons.items(), key=lambda item: -item[1]))
        shares = tuple(np.mean(self.shares, axis=0).tolist()) if self.shares else ()
        return PerturbedArm(self.perturbation, self.groups, rows, variants, n_notes, reasons, asked, shares)


def perturb_notes(
    cohort: Cohort,
    rows: Ints,
    labels: tuple[str, ...],
    *,
    perturbations: Sequence[Perturbation],
    asked: bool,
    doses: Sequence[float],
    seed: int,
    private: bool,
) -> Plan[PerturbedNotes]:
    """The notes in `rows` as each perturbation writes them, as they were written, and the validation split."""
    texts = cohort.texts
    known = known_words([texts[row] for row in rows.tolist()]) if any(each.slips for each in perturbations) else set()
    builder = VariantsBuilder(n_cases=len(cohort))
    parts = [_ArmNotes(each, each.groups(doses)) for each in perturbations]
    original = np.full(len(texts), -1, dtype=np.int64)
    skips: list[Skip] = []
    for row in rows.tolist():
        note = WrittenNote(texts[row])
        original[row] = builder.add(row, ORIGINAL)
        for part in parts:
            rng = note_stream(seed, part.perturbation, note)
            found = perturbed(part.perturbation, note, rng, doses=doses, known=known)
            if isinstance(found, str):
                part.reasons[found] += 1
                skips.append(Skip(row, f"{part.perturbation.name}: {found}"))
                continue
            part.rows.append(row)
            if part.perturbation.slips is not None:
                part.shares.append([len(edits) / max(note.n_words, 1) for edits in found])
            names = (f"{part.perturbation.name}={group}" for group in part.groups)
            part.variants += [builder.add(row, name, edits) for name, edits in zip(names, found, strict=True)]
    validation = [builder.add(row, ORIGINAL) for row in validation_rows(cohort).tolist()]
    return Plan(
        cohort,
        builder.build(),
        labels,
        skips=tuple(skips),
        cases=rows,
        memory=PerturbedNotes(
            tuple(part.arm(len(rows), asked=asked or part.perturbation.name not in BUILT_IN) for part in parts),
            original,
            np.asarray(validation, dtype=np.int64),
        ),
        private=private,
    )


def known_words(texts: Sequence[str]) -> set[str]:
    """The words that the notes use, in small letters: a slip that makes one of them would change what is said."""
    known: set[str] = set()
    for text in texts:
        known.update(_WORD.findall(text.lower()))
    return known
