"""A clinician's review of altered notes: a random sample of them, and what was said about it.

The notes are drawn at random, not by how much a model reacts to them, because the error rate of the alterations is what
is asked. A patient gives one note at most, so that the marks are independent of each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from palpate.cases.edits import Edit
from palpate.perturb.characteristics.alterer import Alterer

MARKS = ("right", "wrong", "unsure", "")
"""What a note may be marked with; the last is not marked."""


class SampledNote(NamedTuple):
    """An altered note: its row, and its edits."""

    row: int
    edits: tuple[Edit, ...]


class ReviewSample(NamedTuple):
    """The altered notes of a random sample, and what became of the notes that were read for it."""

    notes: tuple[SampledNote, ...]
    n_read: int
    n_kept: int
    """Notes that say the group already, so that nothing is altered."""
    reasons: Mapping[str, int]
    """Why notes were skipped, the most common reason first."""


@dataclass(frozen=True)
class AlterationReview:
    """How many alterations of a random sample a clinician found right and wrong."""

    to: dict[str, str]
    """The groups that the notes were altered to, by characteristic."""
    right: int
    wrong: int
    unsure: int = 0
    unmarked: int = 0
    reviewer: str = ""
    cohort: str = ""
    """The file that the notes are from."""
    palpate: str = ""
    """The version that altered them."""

    @property
    def characteristic(self) -> str:
        """The name of the audit's arm: `gender`, `gender+ethnicity`."""
        return "+".join(self.to)

    @property
    def group(self) -> str:
        """`gender=female`"""
        return ", ".join(f"{name}={group}" for name, group in self.to.items())


def sample_alterations(
    texts: Sequence[str],
    patients: Sequence[object],
    alterer: Alterer,
    to: Mapping[str, str],
    *,
    n: int,
    rng: np.random.Generator,
) -> ReviewSample:
    """Read notes in random order until `n` of them are altered, at most one per patient."""
    sampled: list[SampledNote] = []
    seen: set[object] = set()
    reasons: Counter[str] = Counter()
    n_read = n_kept = 0
    for row in rng.permutation(len(texts)).tolist():
        if len(sampled) == n:
            break
        if patients[row] in seen:
            continue
        seen.add(patients[row])
        n_read += 1
        outcome = alterer.edits(alterer.plan(texts[row]), dict(to))
        if outcome.action == "skipped":
            reasons[outcome.reason or "no reason"] += 1
        elif not outcome.edits:
            n_kept += 1
        else:
            sampled.append(SampledNote(row, tuple(outcome.edits)))
    return ReviewSample(tuple(sampled), n_read, n_kept, dict(reasons.most_common()))
