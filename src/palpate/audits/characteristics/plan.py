"""From notes to variants: every note is scanned once and then altered to every group of every arm.

A note that can't be altered to one group of an arm is left out of all of its groups (the paper's code kept it in the
earlier groups, so that groups held different patients). Ages are the exception: there are 73 of them, nearly every note
contradicts some ("quit smoking in 1985"), and each comparison takes the notes that can be written at all of the ages
that it compares. So a note is altered to all ages that do not contradict it, if these are two or more.

Variants are written into columns, note by note, so that each costs a few bytes, altered or not.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from palpate.audits.characteristics.arms import ACTIONS, Arm, ArmSpec
from palpate.audits.characteristics.contrasts import contrasts
from palpate.audits.characteristics.observed import ObservedGroups
from palpate.audits.kit.scope import validation_rows
from palpate.cases import scratch
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Edit, Ints, Skip, Variants
from palpate.cases.parallel import each_part
from palpate.errors import ConfigError
from palpate.perturb.characteristics import NAMES, Alterer, Contradictory, Definition, Sure
from palpate.privacy import hides
from palpate.results import Plan

SKIPPED = "skipped"
FEWEST_FOR_PROCESSES, NOTES_PER_PART = 2_000, 250
"""Notes from which several processes pay, and how many one gets at a time."""
FEWEST_AGES = 2
"""A note that can be written at one age only compares nothing."""


class AltersNotes(Protocol):
    """What the plan needs of `palpate.perturb.characteristics.Alterer`."""

    def plan(self, text: str) -> Any:
        """Scan a note, once for all groups."""
        ...

    def edits(self, found: Any, group: Mapping[str, str]) -> tuple[Sequence[Edit], str, str | None]:
        """The edits that put the note's patient into these groups, the action, and the reason for a skip."""
        ...


class AlteredNotes(NamedTuple):
    """What the plan remembers until the predictions are there."""

    arms: tuple[Arm, ...]
    original: Ints
    """[row of the cohort] the variant that is the note as written; -1 where none is planned."""
    validation: slice
    observed: tuple[ObservedGroups, ...]
    """One per arm."""


def note_alterer(
    alter: Sequence[str], definitions: Sequence[Definition], contradictory: Contradictory, sure: Sure = "strict"
) -> Alterer:
    """The text engine, for the characteristics that `alter` names and no others."""
    own = {definition.name: definition for definition in definitions}
    if len(own) < len(definitions):
        raise ConfigError("audit 'characteristics', option 'definitions': a characteristic is defined twice")
    known = dict.fromkeys((*NAMES, *own))
    asked = dict.fromkeys(part.strip() for name in alter for part in name.split("+"))
    unknown = next((part for part in asked if part not in known), None)
    if unknown is not None:
        raise ConfigError(
            f"audit 'characteristics', option 'alter': unknown characteristic '{unknown}'",
            hint=f"use one of: {', '.join(known)}; define others in `definitions`",
            at=("alter",),
        )
    return Alterer([own.get(part, part) for part in asked], contradictory=contradictory, sure=sure)


def stated_groups(texts: Sequence[str], rows: Ints, alterer: Alterer) -> dict[str, list[str | None]]:
    """The group that each note gives its patient, for each characteristic; None where it says nothing."""
    parts = [([texts[row] for row in some], alterer) for some in _parts(rows)]
    present = [each for found in each_part(_present, parts) for each in found]
    return {part: [each[part] for each in present] for part in alterer.characteristics}


def _present(texts: Sequence[str], alterer: Alterer) -> list[Mapping[str, str | None]]:
    return [alterer.detection(alterer.plan(text)).present for text in texts]


def _parts(rows: Ints) -> list[list[int]]:
    """The rows in parts for several processes; few of them are one part, which this process does."""
    size = len(rows) if len(rows) < FEWEST_FOR_PROCESSES else NOTES_PER_PART
    return [rows[first : first + size].tolist() for first in range(0, len(rows), max(size, 1))]


@dataclass
class _ArmVariants:
    """The variants of one arm while they are collected, note by note."""

    spec: ArmSpec
    mappings: list[dict[str, str]] = field(init=False)
    rows: list[int] = field(default_factory=list)
    n_edits: list[int] = field(default_factory=list)
    edits: array[int] = field(default_factory=lambda: array("q"))
    """Start, end and index of the replacement of each edit, one after the other: there may be millions."""
    actions: Ints = field(init=False)
    reasons: dict[str, Ints] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    possible: list[list[bool]] = field(default_factory=list)
    """For each note that is in, whether it could be altered to each group."""
    partly: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.mappings = self.spec.mappings()
        self.actions = np.zeros((len(self.spec.groups), len(ACTIONS)), dtype=np.int64)

    def add(self, row: int, alterer: AltersNotes, found: Any, replacements: dict[str, int]) -> str | None:
        """Alter one note to all groups, or return why it is left out: a group can't be made, or nearly no age can."""
        outcomes = [alterer.edits(found, groups) for groups in self.mappings]
        skipped = [(g, why or "no reason given") for g, (_, action, why) in enumerate(outcomes) if action == SKIPPED]
        for g, reason in skipped:
            self.reasons.setdefault(reason, np.zeros(len(outcomes), dtype=np.int64))[g] += 1
        fewest = FEWEST_AGES if self.spec.parts == ("age",) else len(outcomes)
        if len(outcomes) - len(skipped) < fewest:
            self.left_out[skipped[0][1]] += 1
            return skipped[0][1]
        if skipped:
            self.partly[Counter(reason for _, reason in skipped).most_common(1)[0][0]] += 1
        self.rows.append(row)
        self.possible.append([action != SKIPPED for _, action, _ in outcomes])
        for g, (edits, action, _) in enumerate(outcomes):
            if action == SKIPPED:
                continue
            self.actions[g, ACTIONS.index(action)] += 1
            self.n_edits.append(len(edits))
            for start, end, text in edits:
                self.edits.extend((start, end, replacements.setdefault(text, len(replacements))))
        return None


class _JoinedArm:
    """The variants of one arm of all notes, whose columns are in files where they are large."""

    def __init__(self, spec: ArmSpec) -> None:
        self.counted = _ArmVariants(spec)
        """How the notes fared; its variants are in the columns."""
        self.n_edits, self.edits = scratch.Growing(), scratch.Growing()
        self._possible = [np.zeros((0, len(spec.groups)), dtype=np.bool_)]

    def extend(self, more: _ArmVariants, places: Ints) -> None:
        """Take over what was collected from later notes, whose replacements have these places here."""
        edits = np.frombuffer(more.edits, np.int64).reshape(-1, 3).copy()
        edits[:, 2] = places[edits[:, 2]]
        self.edits.extend(edits.reshape(-1))
        self.n_edits.extend(more.n_edits)
        self._possible.append(np.asarray(more.possible, np.bool_).reshape(-1, self._possible[0].shape[1]))
        own = self.counted
        own.rows += more.rows
        own.actions += more.actions
        own.left_out.update(more.left_out)
        own.partly.update(more.partly)
        for reason, counts in more.reasons.items():
            known = own.reasons.setdefault(reason, np.zeros_like(counts))
            known += counts

    def arm(self, reference: int, first: int, n_notes: int) -> Arm:
        """The finished arm, whose variants begin at `first`."""
        own = self.counted
        return Arm(
            own.spec.name,
            own.spec.names,
            reference,
            np.asarray(own.rows, dtype=np.int64),
            first,
            n_notes,
            own.actions,
            own.reasons,
            dict(own.left_out.most_common()),
            contrasts(own.spec, reference),
            np.concatenate(self._possible) if own.partly else None,
            dict(own.partly.most_common()),
        )


@hides("replacements")
class _AlteredPart(NamedTuple):
    """What was made of some of the notes."""

    parts: list[_ArmVariants]
    replacements: list[str]
    skips: list[Skip]


def _altered(rows: Sequence[int], texts: Sequence[str], specs: Sequence[ArmSpec], alterer: AltersNotes) -> _AlteredPart:
    """Some notes in every group of every arm; in a process of its own where there are many."""
    parts = [_ArmVariants(spec) for spec in specs]
    replacements: dict[str, int] = {}
    skips: list[Skip] = []
    for row, text in zip(rows, texts, strict=True):
        found = alterer.plan(text)
        for part in parts:
            reason = part.add(row, alterer, found, replacements)
            if reason is not None:
                skips.append(Skip(row, f"{part.spec.name}: {reason}"))
    return _AlteredPart(parts, list(replacements), skips)


def alter_notes(
    cohort: Cohort,
    rows: Ints,
    labels: tuple[str, ...],
    *,
    specs: Sequence[ArmSpec],
    references: Sequence[int],
    observed: Sequence[ObservedGroups],
    alterer: AltersNotes,
) -> Plan[AlteredNotes]:
    """The notes in `rows` in every group of every arm, then as written, then the validation split for the threshold."""
    texts, parts = cohort.texts, [_JoinedArm(spec) for spec in specs]
    replacements: dict[str, int] = {}
    skips: list[Skip] = []
    asked = [(some, [texts[row] for row in some], tuple(specs), alterer) for some in _parts(rows)]
    for made in each_part(_altered, asked):
        places = np.asarray([replacements.setdefault(text, len(replacements)) for text in made.replacements], np.int64)
        for part, more in zip(parts, made.parts, strict=True):
            part.extend(more, places)
        skips += made.skips
    arms: list[Arm] = []
    for part, reference in zip(parts, references, strict=True):
        arms.append(part.arm(reference, arms[-1].stop if arms else 0, len(rows)))
    inside, validation = np.unique(np.concatenate([arm.rows for arm in arms])), validation_rows(cohort)
    first = arms[-1].stop
    last = first + len(inside)
    original = np.full(len(texts), -1, dtype=np.int64)
    original[inside] = np.arange(first, last)
    return Plan(
        cohort,
        _variants(parts, arms, np.concatenate([inside, validation]), replacements),
        labels,
        skips=tuple(skips),
        cases=rows,
        memory=AlteredNotes(tuple(arms), original, slice(last, last + len(validation)), tuple(observed)),
    )


def _variants(
    parts: Sequence[_JoinedArm], arms: Sequence[Arm], unaltered: Ints, replacements: Mapping[str, int]
) -> Variants:
    """The columns of all arms and then of the notes as written."""
    last = arms[-1].stop
    n_rows = last + len(unaltered)
    parent, group, first_edit = (scratch.empty(n, np.int64) for n in (n_rows, n_rows, n_rows + 1))
    first_edit[0] = 0
    before = 1
    for part, arm in zip(parts, arms, strict=True):
        first_edit[arm.first + 1 : arm.stop + 1] = part.n_edits.values()
        _fill(arm, before, parent, group)
        before += len(arm.groups)
    parent[last:], group[last:], first_edit[last + 1 :] = unaltered, 0, 0
    np.cumsum(first_edit, out=first_edit)
    columns = [scratch.empty(int(first_edit[-1]), np.int64) for _ in range(3)]
    at = 0
    for part in parts:
        edits = part.edits.values().reshape(-1, 3)
        for column, own in zip(columns, edits.T, strict=True):
            column[at : at + len(edits)] = own
        at += len(edits)
    start, end, replacement = columns
    return Variants(
        parent=parent,
        first_edit=first_edit,
        start=start,
        end=end,
        replacement=replacement,
        replacements=tuple(replacements),
        group=group,
        group_names=("original", *(name for arm in arms for name in arm.group_names)),
    )


def _fill(arm: Arm, before: int, parent: Ints, group: Ints) -> None:
    """Which note and group each variant of an arm is; so many groups come before its own."""
    at, n_groups = arm.first, len(arm.groups)
    for some in scratch.parts(len(arm.rows), max(1, scratch.AT_ONCE // n_groups)):
        possible = np.ones((some.stop - some.start, n_groups)) if arm.possible is None else arm.possible[some]
        note, g = np.nonzero(possible)
        parent[at : at + len(note)], group[at : at + len(note)] = arm.rows[some][note], before + g
        at += len(note)
