"""Arms: a characteristic, its groups, the group that the others are compared with, and the notes that were altered.

An arm is what the paper calls the test groups of one characteristic (Section 3, "Sample alterations"): the same
patients, once for each group. Of the ages, a note has those that do not contradict it (`possible`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from palpate.cases import scratch
from palpate.cases.edits import Ints
from palpate.errors import ConfigError

ACTIONS = ("changed", "added", "kept")
AS_WRITTEN = "as written"
NONE = "none"
"""The group of notes that do not mention the characteristic."""
AS_IS = -1
"""Stands for the note as written where a group is compared with that."""
MENTION = "transgender"
YOUNGEST = 18
"""The notes are about adults: children are described in other words."""
OLDEST = 90
"""Where "90+" stands on an axis of ages."""


@dataclass(frozen=True)
class ArmSpec:
    """The characteristics of an arm, and its groups: one value for each characteristic."""

    parts: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]

    @property
    def name(self) -> str:
        """`gender`, or `gender+ethnicity`."""
        return "+".join(self.parts)

    @property
    def names(self) -> tuple[str, ...]:
        """The groups in words."""
        return tuple("+".join(group) for group in self.groups)

    def mappings(self) -> list[dict[str, str]]:
        """Each group as characteristic -> value."""
        return [dict(zip(self.parts, group, strict=True)) for group in self.groups]

    def values(self, part: int) -> list[str]:
        """The values that one of the characteristics takes."""
        return list(dict.fromkeys(group[part] for group in self.groups))


@dataclass(frozen=True, eq=False)
class Arm:
    """One characteristic, or a combination such as `gender+ethnicity`, with the notes that were altered."""

    name: str
    groups: tuple[str, ...]
    reference: int
    """Which group the others are compared with."""
    rows: Ints
    """The rows of the cohort that were altered: to every group or, of ages, to those that are `possible`."""
    first: int
    """The first variant; they are in order of notes, and in each note in order of groups."""
    n_notes: int = 0
    """How many notes were tried."""
    actions: Ints = field(default_factory=lambda: np.zeros((0, len(ACTIONS)), np.int64))
    """[group, action] over the notes that are in."""
    reasons: Mapping[str, Ints] = field(default_factory=dict)
    """Why notes were skipped: for each reason, in how many notes it was given for each group."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """How many notes were left out, by the reason given first."""
    contrasts: tuple[int, ...] = ()
    """The group that each one is compared with, AS_IS for the note as written; by default all with the reference."""
    possible: NDArray[np.bool_] | None = None
    """[note, group] whether the note could be altered to the group, where notes differ in that; None: all to all."""
    partly: Mapping[str, int] = field(default_factory=dict)
    """How many notes could be altered to some groups only, by the reason that excludes most groups."""

    @cached_property
    def group_names(self) -> tuple[str, ...]:
        """The groups as the table of estimates has them: `gender=female`."""
        return tuple(f"{self.name}={group}" for group in self.groups)

    @cached_property
    def against(self) -> Ints:
        """[group] the group that it is compared with, or AS_IS."""
        return np.asarray(self.contrasts or [self.reference] * len(self.groups), dtype=np.int64)

    @cached_property
    def against_names(self) -> tuple[str, ...]:
        """The same as the table of estimates has it."""
        return tuple(self.as_written if k == AS_IS else self.group_names[k] for k in self.against.tolist())

    @property
    def reference_name(self) -> str:
        """The reference group as the table of estimates has it."""
        return self.group_names[self.reference]

    @property
    def as_written(self) -> str:
        """The notes of this arm, unaltered."""
        return f"{self.name}={AS_WRITTEN}"

    @property
    def stop(self) -> int:
        """The first variant after those of this arm."""
        n = len(self.rows) * len(self.groups) if self.possible is None else int(self.possible.sum())
        return self.first + n

    @cached_property
    def n_possible(self) -> Ints:
        """[group] how many notes could be altered to it."""
        return np.full(len(self.groups), len(self.rows)) if self.possible is None else self.possible.sum(axis=0)

    def variant(self, note: int, group: int) -> int:
        """The variant that is the k-th note in the g-th group, which must be possible."""
        if self.possible is None:
            return self.first + note * len(self.groups) + group
        return self.first + int(self.possible[:note].sum() + self.possible[note, :group].sum())

    def cut(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values of the plan's variants as [note, group, ...]; NaN where the note could not be altered to the group."""
        part, shape = values[self.first : self.stop], (len(self.rows), len(self.groups), *values.shape[1:])
        if self.possible is None:
            return part.reshape(shape)
        whole: NDArray[np.float64] = scratch.filled(shape, np.nan)
        whole[self.possible] = part
        return whole


def arm_specs(alter: Sequence[str], groups: Mapping[str, tuple[str, ...]]) -> list[ArmSpec]:
    """The arms that `alter` names, from the groups of their characteristics."""
    specs = []
    for name in alter:
        parts = tuple(part.strip() for part in name.split("+"))
        if len(set(parts)) < len(parts):
            raise ConfigError(f"audit 'characteristics', option 'alter': '{name}' names a characteristic twice")
        combinations = tuple(product(*(groups[part] for part in parts)))
        if len(combinations) < 2:
            raise ConfigError(f"audit 'characteristics', option 'alter': '{name}' has fewer than two groups")
        specs.append(ArmSpec(parts, combinations))
    if not specs:
        raise ConfigError("audit 'characteristics', option 'alter' names no characteristic")
    if len({spec.name for spec in specs}) < len(specs):
        raise ConfigError("audit 'characteristics', option 'alter' names a characteristic twice")
    return specs


def age_groups(ages: Sequence[int | str]) -> tuple[str, ...]:
    """The ages as groups, checked: whole years below 90, and "90+"."""
    groups = tuple(str(age) for age in ages)
    for group in groups:
        if group != "90+" and not (re.fullmatch("[0-9]{1,2}", group) and YOUNGEST <= int(group) < OLDEST):
            raise ConfigError(
                f"audit 'characteristics', option 'ages': '{group}' can't be written into a note",
                hint=f"use whole years from {YOUNGEST} to {OLDEST - 1} and '90+'",
            )
    if len(set(groups)) < len(groups):
        raise ConfigError("audit 'characteristics', option 'ages': an age is given twice")
    return tuple(sorted(groups, key=age_number))


def age_number(group: str) -> int:
    """A group of ages as a number: "63" is 63, "90+" is 90."""
    return int(group.rstrip("+"))


def references(
    specs: Sequence[ArmSpec], chosen: Mapping[str, str | int], stated: Mapping[str, Sequence[str | None]]
) -> list[int]:
    """The reference group of every arm.

    By default male; no mention, where a characteristic may go unmentioned; and the age nearest to the median of the
    ages that the training notes (or the audited ones) state, so that few notes are moved far. A combination takes the
    references of its parts.
    """
    for name in chosen:
        if not any(name in spec.parts for spec in specs):
            raise ConfigError(f"audit 'characteristics', option 'reference': '{name}' is not altered")
    out = []
    for spec in specs:
        each = []
        for k, part in enumerate(spec.parts):
            groups = spec.values(k)
            wanted = str(chosen[part]) if part in chosen else _default_reference(part, groups, stated.get(part, ()))
            if wanted not in groups:
                hint = f"the groups are: {', '.join(groups)}"
                raise ConfigError(f"audit 'characteristics', option 'reference': {part} has no '{wanted}'", hint=hint)
            each.append(wanted)
        out.append(spec.groups.index(tuple(each)))
    return out


def _default_reference(part: str, groups: Sequence[str], stated: Sequence[str | None]) -> str:
    if part == "age":
        ages = [age_number(age) for age in stated if age is not None]
        middle = float(np.median(ages)) if ages else (age_number(groups[0]) + age_number(groups[-1])) / 2
        return min(groups, key=lambda group: abs(age_number(group) - middle))
    if part == "gender" and "male" in groups:
        return "male"
    return NONE if NONE in groups else groups[0]


def age_run(groups: Sequence[str]) -> Ints:
    """The longest run of equally spaced single ages (not "90+"), as indices of groups in order of age."""
    order = sorted((age_number(group), k) for k, group in enumerate(groups) if not group.endswith("+"))
    best: list[int] = []
    begin = 0
    for k in range(1, len(order) + 1):
        step = order[begin + 1][0] - order[begin][0] if begin + 1 < len(order) else 0
        if k == len(order) or (k > begin + 1 and order[k][0] - order[k - 1][0] != step):
            run = [index for _, index in order[begin:k]]
            best = run if len(run) > len(best) else best
            begin = k - 1
    return np.asarray(best, dtype=np.int64)
