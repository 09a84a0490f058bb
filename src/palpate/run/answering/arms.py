"""What one model was asked by one audit: the arms of its variants, and the groups of its patients."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.missing.shares import LabelCases
from palpate.audits.kit.rows import RowWriter
from palpate.cases.edits import Ints
from palpate.results.plan import AnswerKind, Outcomes

ALL_ARMS = "all"


class AskedGroups(NamedTuple):
    """One way to divide the patients."""

    rows: dict[str, Ints]
    """Of each group."""
    reference: str | None = None
    """The group that the others are compared with; None: each is compared with all others."""


class AskedArms(NamedTuple):
    """What one model was asked by one audit, one row per variant that it was asked about."""

    writer: RowWriter
    model: str
    arms: dict[str, Ints]
    """Rows of each arm; where there are several, all together first."""
    patient: Ints
    weight: NDArray[np.float64]
    outcomes: Outcomes
    p: NDArray[np.float64]
    labels: tuple[str, ...]
    groups: tuple[AskedGroups, ...] = ()
    lacking: NDArray[np.bool_] | None = None
    """Rows that another model of the run has no score for."""

    @property
    def altered(self) -> list[str]:
        """The arms, without all together."""
        return [arm for arm in self.arms if arm != ALL_ARMS or len(self.arms) == 1]

    def hit(self, metric: str, j: int) -> NDArray[np.bool_]:
        """Where the outcome of a label is a refusal, or nothing that can be read."""
        kind = self.outcomes.kind[:, j]
        return np.asarray(kind == AnswerKind.REFUSED if metric == "refusal_share" else kind > AnswerKind.REFUSED)

    def cases(self, rows: Ints, hit: NDArray[np.bool_]) -> LabelCases:
        """Some rows, with their patients numbered."""
        own = np.unique(self.patient[rows], return_inverse=True)[1].astype(np.int64)
        return LabelCases("", hit[rows], np.ones(len(rows), bool), own, self.weight[rows])

    def shown(self, most: int) -> list[str]:
        """The arms that a table has room for: all together, the first one, and those with least answers."""
        names = list(self.arms)
        if len(names) <= most:
            return names
        silent = (self.outcomes.kind != AnswerKind.ANSWERED).mean(axis=1)
        share = {name: float(silent[rows].mean()) for name, rows in self.arms.items()}
        kept = {*names[:2], *sorted(names[2:], key=lambda name: -share[name])[: most - 2]}
        return [name for name in names if name in kept]
