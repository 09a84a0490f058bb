"""How predicted risks are distributed among cases with and without the outcome."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from palpate.stats.inputs import Floats
from palpate.stats.risks.smooth import check_risks


class RiskDistribution(NamedTuple):
    """Shares of the cases with the outcome, and of those without, whose risk is in each bin; nan if there are none."""

    edges: Floats
    with_outcome: Floats
    without_outcome: Floats


def risk_distribution(
    y_true: ArrayLike, y_score: ArrayLike, *, n_bins: int = 20, weight: ArrayLike | None = None
) -> RiskDistribution:
    """Histograms of risks over [0, 1] in bins of equal width, one for each outcome; each sums to 1."""
    if n_bins < 1:
        raise ValueError("n_bins must be at least 1")
    y, risk, mass = check_risks(y_true, y_score, weight)
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    shares = []
    for side in (y == 1.0, y == 0.0):
        total = float(mass[side].sum())
        counts = np.histogram(risk[side], bins=edges, weights=mass[side])[0].astype(np.float64)
        shares.append(counts / total if total > 0 else np.full(n_bins, np.nan))
    return RiskDistribution(edges, *shares)
