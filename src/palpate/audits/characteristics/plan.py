"""From notes to variants: every note is read once and then altered to every group of every arm.

A note that can't be altered to one group of an arm is left out of all of its groups (the paper's code kept it in the
groups before, so that groups held different patients). Variants are written into columns, note by note; altered or not,
a text costs a few bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from palpate.audits.characteristics.arms import ACTIONS, Arm
from palpate.audits.characteristics.groups import ArmSpec
from palpate.cases.edits import Edit, Ints, Skip, Variants

SKIPPED = "skipped"


class ReadsNotes(Protocol):
    """The text engine, as the plan uses it."""

    def read(self, text: str) -> Any:
        """What there is to know about a note; found once, used for all groups."""
        ...

    def present(self, found: Any) -> Mapping[str, str | None]:
        """The group that the note gives its patient, for each characteristic; None where it says nothing."""
        ...

    def edits(self, found: Any, groups: Mapping[str, str]) -> tuple[Sequence[Edit], str, str | None]:
        """The edits that make the note one of these groups, the action, and the reason of a skip."""
        ...


class Altered(NamedTuple):
    """All arms, as columns of `Variants`, and the notes that were left out."""

    arms: tuple[Arm, ...]
    variants: Variants
    original: Ints
    """[cohort row] the variant that is the note as written, -1 where none."""
    validation: slice
    skips: tuple[Skip, ...]


@dataclass
class _Columns:
    """The variants of one arm while they are collected; note-major."""

    spec: ArmSpec
    mappings: list[dict[str, str]] = field(init=False)
    rows: list[int] = field(default_factory=list)
    n_edits: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    replacement: list[int] = field(default_factory=list)
    actions: Ints = field(init=False)
    reasons: dict[str, Ints] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.mappings = self.spec.mappings()
        self.actions = np.zeros((len(self.spec.groups), len(ACTIONS)), dtype=np.int64)

    def add(self, row: int, reader: ReadsNotes, found: Any, words: dict[str, int]) -> str | None:
        """Alter one note to all groups; if one can't be made, forget the note and give the reason."""
        made = [reader.edits(found, groups) for groups in self.mappings]
        skipped = [(g, reason or "no reason given") for g, (_, action, reason) in enumerate(made) if action == SKIPPED]
        if skipped:
            for g, reason in skipped:
                self.reasons.setdefault(reason, np.zeros(len(made), dtype=np.int64))[g] += 1
            return skipped[0][1]
        self.rows.append(row)
        for g, (edits, action, _) in enumerate(made):
            self.actions[g, ACTIONS.index(action)] += 1
            self.n_edits.append(len(edits))
            for start, end, text in edits:
                self.start.append(start)
                self.end.append(end)
                self.replacement.append(words.setdefault(text, len(words)))
        return None

    def arm(self, reference: int, first: int, n_notes: int) -> Arm:
        return Arm(
            name=self.spec.name,
            groups=self.spec.names,
            reference=reference,
            rows=np.asarray(self.rows, dtype=np.int64),
            first=first,
            n_notes=n_notes,
            actions=self.actions,
            reasons=dict(self.reasons),
        )


def alter_notes(
    texts: Sequence[str],
    rows: Ints,
    specs: Sequence[ArmSpec],
    references: Sequence[int],
    reader: ReadsNotes,
    *,
    validation: Ints,
) -> Altered:
    """Alter the notes in `rows` to all groups of all arms; `validation` rows are added as they are."""
    columns = [_Columns(spec) for spec in specs]
    words: dict[str, int] = {}
    skips: list[Skip] = []
    for row in rows.tolist():
        found = reader.read(texts[row])
        for part in columns:
            reason = part.add(row, reader, found, words)
            if reason is not None:
                skips.append(Skip(row, f"{part.spec.name}: {reason}"))
    arms, first = [], 0
    for part, reference in zip(columns, references, strict=True):
        arms.append(part.arm(reference, first, len(rows)))
        first = arms[-1].stop
    inside = np.unique(np.concatenate([arm.rows for arm in arms]))
    original = np.full(len(texts), -1, dtype=np.int64)
    original[inside] = first + np.arange(len(inside))
    variants = _variants(columns, arms, np.concatenate([inside, validation]), words)
    return Altered(
        tuple(arms), variants, original, slice(first + len(inside), first + len(inside) + len(validation)), tuple(skips)
    )


def _variants(columns: Sequence[_Columns], arms: Sequence[Arm], unaltered: Ints, words: Mapping[str, int]) -> Variants:
    names = ["original", *(arm.group_name(g) for arm in arms for g in range(len(arm.groups)))]
    before = np.cumsum([1, *(len(arm.groups) for arm in arms)])
    parent = [np.repeat(arm.rows, len(arm.groups)) for arm in arms]
    group = [np.tile(at + np.arange(len(arm.groups)), len(arm.rows)) for at, arm in zip(before, arms, strict=False)]
    counts = np.concatenate([*(_ints(part.n_edits) for part in columns), np.zeros(len(unaltered), np.int64)])
    return Variants(
        parent=np.concatenate([*parent, unaltered]),
        first_edit=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        start=np.concatenate([_ints(part.start) for part in columns]),
        end=np.concatenate([_ints(part.end) for part in columns]),
        replacement=np.concatenate([_ints(part.replacement) for part in columns]),
        replacements=tuple(words),
        group=np.concatenate([*group, np.zeros(len(unaltered), np.int64)]),
        group_names=tuple(names),
    )


def _ints(values: Sequence[int]) -> Ints:
    return np.asarray(values, dtype=np.int64)
