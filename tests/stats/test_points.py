"""Metrics on the data without an order of the rows, against the walks that resampling takes."""

from __future__ import annotations

import numpy as np
import pytest

from palpate.stats import NOISE, bootstrap
from palpate.stats.arguments import METRICS
from palpate.stats.precision import points


@pytest.mark.parametrize("digits", [1, 15])
@pytest.mark.parametrize("unit", ["patient", "case"])
def test_they_are_those_of_the_walks(digits: int, unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(digits)
    y = (rng.random((90, 5)) < np.array([0.0, 0.1, 0.5, 0.9, 1.0])).astype(np.uint8)
    p = rng.random((2, 90, 5)).round(digits)
    threshold = np.array([[0.5, 0.2, np.nan, 0.5, 2.0], [0.1, 0.5, 0.5, 0.0, 0.3]])
    options = {"metrics": (*METRICS, NOISE), "threshold": threshold, "unit": unit, "patient": np.arange(90) // 3}
    expected = bootstrap(y, p, rng=0, n_replicates=1, **options).point
    taken = []
    monkeypatch.setattr(points, "_of_one", lambda *a, own=points._of_one: taken.append(1) or own(*a))
    for few in (0, 10**9):
        monkeypatch.setattr(points, "_FEW", few)
        found = bootstrap(y, p, rng=0, n_replicates=0, **options)
        np.testing.assert_allclose(found.point, expected, rtol=1e-13)
        assert found.values.shape == (*expected.shape, 0)
    assert len(taken) == 2 * 2 * 5


def test_weights_and_parts_of_the_rows_are_walked() -> None:
    rng = np.random.default_rng(2)
    y, p, weight = rng.random(60) < 0.4, rng.random(60), rng.random(60)
    some = rng.random(60) < 0.7
    for own in ({"weight": weight}, {"rows": some}):
        found = bootstrap(y, p, rng=0, metrics=("auroc", "brier"), unit="case", n_replicates=0, **own).point
        expected = bootstrap(y, p, rng=0, metrics=("auroc", "brier"), unit="case", n_replicates=1, **own).point
        np.testing.assert_array_equal(found, expected)
