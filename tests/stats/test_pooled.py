"""Micro averages by one walk, against the walks of the bootstrap (which orders rows for its resamples)."""

from __future__ import annotations

import numpy as np
import pytest

from palpate.stats import THRESHOLD_METRICS, bootstrap
from palpate.stats.precision.pooled import PooledMetrics, pooled_decisions, pooled_metrics


@pytest.mark.parametrize("digits", [1, 2, 15])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_they_are_those_of_the_bootstrap(digits: int, share: float) -> None:
    rng = np.random.default_rng(digits)
    y = (rng.random((70, 3)) < share).astype(np.uint8)
    p = rng.random((70, 3)).round(digits)
    names = PooledMetrics._fields
    expected = bootstrap(y.reshape(-1, 1), p.reshape(-1, 1), metrics=names, unit="case", rng=0, n_replicates=1).point
    for n_threads in (1, 3):
        found = pooled_metrics(y, p, n_threads=n_threads)
        np.testing.assert_allclose(found, expected[0, :, 0], rtol=1e-13)


def test_decisions_are_those_of_the_bootstrap(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    y, p = (rng.random((50, 4)) < 0.4).astype(np.uint8), rng.random((50, 4)).round(2)
    threshold = np.array([0.2, 0.5, np.nan, 2.0])
    decided = (p >= np.nan_to_num(threshold, nan=np.inf)).astype(float).reshape(-1, 1)
    expected = bootstrap(
        y.reshape(-1, 1), decided, metrics=THRESHOLD_METRICS, threshold=0.5, unit="case", rng=0, n_replicates=1
    ).point
    monkeypatch.setattr("palpate.stats.precision.pooled._AT_ONCE", 40)
    found = pooled_decisions(y, p, threshold)
    assert list(found) == list(THRESHOLD_METRICS)
    assert list(found.values()) == expected[0, :, 0].tolist()
