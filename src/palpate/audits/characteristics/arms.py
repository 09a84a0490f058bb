"""Arms of the characteristics audit: one characteristic, its groups, and the notes that are in all of them.

An arm is what the paper calls its test groups of one characteristic (Section 3, "Sample alterations"): the same
patients, once for each group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.cases.edits import Ints

ACTIONS = ("changed", "added", "kept")
AS_WRITTEN = "as written"
OLDEST = 90
"""Where "90+" stands on an axis of ages."""


@dataclass(frozen=True, eq=False)
class Arm:
    """One characteristic, or a combination of several such as `gender+ethnicity`."""

    name: str
    groups: tuple[str, ...]
    reference: int
    """Which group the others are compared with."""
    rows: Ints
    """The cohort's rows that are in every group."""
    first: int
    """The variant of note k in group g is first + k * len(groups) + g."""
    n_notes: int = 0
    """How many notes were tried."""
    actions: Ints = field(default_factory=lambda: np.zeros((0, len(ACTIONS)), np.int64))
    """[group, action] over the notes that are in."""
    reasons: Mapping[str, Ints] = field(default_factory=dict)
    """Why notes were skipped: for each reason, in how many notes it was given for each group."""

    def group_name(self, group: int) -> str:
        """A group as the table of estimates has it: `gender=female`."""
        return f"{self.name}={self.groups[group]}"

    @property
    def as_written(self) -> str:
        """The notes of this arm, unaltered."""
        return f"{self.name}={AS_WRITTEN}"

    @property
    def stop(self) -> int:
        """The first variant behind those of this arm."""
        return self.first + len(self.rows) * len(self.groups)

    def cut(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rows of the plan's variants as [note, group, ...]."""
        part = values[self.first : self.stop]
        return part.reshape(len(self.rows), len(self.groups), *values.shape[1:])

    @property
    def ages(self) -> tuple[int, ...] | None:
        """The groups as numbers, where they are ages; "90+" is 90."""
        return ages_of(self.groups) if self.name == "age" else None


class ObservedGroups(NamedTuple):
    """Which group of an arm each training case belongs to."""

    rows: Ints
    """The training cases, as rows of the cohort."""
    group: Ints
    """Index of the group, -1 where it is not known or not audited."""
    origin: str
    """Where the groups come from, in words."""
    reason: str | None = None
    """Why there are none."""


class Memory(NamedTuple):
    """What the plan remembers until the answers are there."""

    arms: tuple[Arm, ...]
    original: Ints
    """[cohort row] the variant that is the note as written; -1 where none is planned."""
    validation: slice
    observed: tuple[ObservedGroups, ...]
    """One an arm."""


def age_number(group: str) -> int:
    """A group of ages as a number: "63" is 63, "90+" is 90."""
    return int(group.rstrip("+"))


def ages_of(groups: tuple[str, ...]) -> tuple[int, ...]:
    """Groups of ages as numbers."""
    return tuple(age_number(group) for group in groups)


def age_run(groups: tuple[str, ...]) -> Ints:
    """The longest run of equally spaced single ages, as indices of groups in order of age; "90+" is no single age."""
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
