"""Intervals of the calibration error hold it, for models that are calibrated and models that are not."""

from __future__ import annotations

import numpy as np
import pytest

from palpate.stats import NOISE, adaptive_calibration_error, bootstrap, error_interval, percentile_interval

METRICS = ("adaptive_calibration_error", NOISE)


def draw(g: np.random.Generator, n: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    """Labels, and a model that is calibrated but for a shift of its log-odds."""
    logit = g.normal(-1.2, 1.2, n)
    y = g.random(n) < 1 / (1 + np.exp(-logit))
    return y, 1 / (1 + np.exp(-logit - shift))


@pytest.mark.parametrize("shift", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("n", [300, 2000])
def test_it_holds_the_true_error(n: int, shift: float) -> None:
    truth = 0.0 if shift == 0 else adaptive_calibration_error(*draw(np.random.default_rng(1), 1_000_000, shift))
    g, n_sets, inside, by_percentiles = np.random.default_rng(2), 100, 0, 0
    for _ in range(n_sets):
        y, p = draw(g, n, shift)
        found = bootstrap(y, p, metrics=METRICS, patient=np.arange(n), rng=g, n_replicates=300)
        point, (error, noise) = found.point[0, 0, 0], found.values[0, :, 0]
        low, high = error_interval(point, error, noise)
        inside += low <= truth <= high
        assert low <= point <= high
        low, high = percentile_interval(error)
        by_percentiles += low <= truth <= high
    assert inside >= 92
    assert inside >= by_percentiles
    if shift == 0:
        assert by_percentiles == 0, "what this is for"
