"""Whether the history is held equal: how it lies in positive and negative cases before, matched, and re-weighted.

Weights and pairs that do not hold the history equal make a number meaningless; it is then reported, but not tested.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.context.cases import AuditedCases, matched_mass
from palpate.audits.context.groups import MATCHED, REWEIGHTED, WHOLE
from palpate.stats import Balance, WeightWarning, balance, context_weights, effective_size, weight_warnings

Floats = NDArray[np.float64]
UNMATCHED = 0.55
"""Above this AUROC of the matched cases' pre-test probability, or as far below one half, the pairs are not alike."""
_UNKNOWN = float("nan")


class BalanceRow(NamedTuple):
    """How the history lies in the two classes of a label, in one group."""

    label: str
    group: str
    found: Balance
    n: int
    n_positive: int
    effective: tuple[float, float]
    """Effective numbers of positives and negatives."""
    warnings: tuple[WeightWarning, ...]
    """Why numbers under these weights are not reliable."""
    reason: str
    """Why there is no balance, where there is none."""

    @property
    def unlike(self) -> bool:
        """Whether pairs were made that are not alike."""
        return self.group == MATCHED and abs(self.found.auroc - 0.5) > UNMATCHED - 0.5

    @property
    def reversed(self) -> bool:
        """Whether pairs are not alike in the other way: those without the label have the higher probabilities."""
        return self.unlike and self.found.auroc < 0.5


def unreliable(rows: Iterable[BalanceRow]) -> frozenset[tuple[str, str]]:
    """(group, label) where the history is not held equal: pairs that are not alike, weights that mean nothing."""
    return frozenset((row.group, row.label) for row in rows if row.warnings or row.unlike)


def balance_rows(cases: AuditedCases, clip: tuple[float, float], reasons: Sequence[str | None]) -> list[BalanceRow]:
    """For each label: before, matched, and re-weighted. `reasons` say why a label has no pre-test probability."""
    mass = matched_mass(cases)
    return [row for j, reason in enumerate(reasons) for row in _label_rows(cases, mass[:, j], j, clip, reason)]


def _label_rows(
    cases: AuditedCases, mass: Floats, j: int, clip: tuple[float, float], reason: str | None
) -> list[BalanceRow]:
    rows = np.flatnonzero(cases.known[:, j])
    p, y, share, varies = cases.p[rows, j], cases.y_true[rows, j], cases.share[rows, j], cases.usable[:, j].any()
    n, n_positive = len(y), int(y.sum())
    drawn = None if cases.weight is None else cases.weight[rows]
    weights = context_weights(p, y, clip=clip, weight=drawn)
    effective = (weights.effective_positives, weights.effective_negatives) if varies else (_UNKNOWN, _UNKNOWN)
    warnings = weight_warnings(p, y, weights.weight) if varies and 0 < n_positive < n else ()
    whole = np.ones(n) if drawn is None else drawn
    before, matched = (
        tuple(float(np.nan_to_num(effective_size(each[y == side]))) for side in (1, 0)) for each in (whole, mass[rows])
    )
    settings: list[tuple[str, Floats, tuple[float, ...], tuple[WeightWarning, ...]]] = [
        (WHOLE, whole, before, ()),
        (MATCHED, mass[rows], matched, ()),
        (REWEIGHTED, weights.weight * varies, effective, warnings),
    ]
    why = reason or "one class is missing, or the pre-test probability does not vary"
    out = []
    for group, weight, sizes, warned in settings:
        used = share if group == MATCHED else weight > 0
        counts = round(float(used.sum())), round(float(used[y == 1].sum()))
        found = balance(p, y, weight=weight, before=drawn) if n else Balance(*[_UNKNOWN] * 5)
        out.append(BalanceRow(cases.labels[j], group, found, *counts, (sizes[0], sizes[1]), warned, why))
    return out
