"""What sampling weights leave of the cases, against Kish's formula written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.stats import NOISE, bootstrap
from palpate.stats.arguments import METRICS
from palpate.stats.precision import Counts, class_units, cluster_sizes, weighing
from palpate.stats.score_intervals import metric_intervals


def kish(w: np.ndarray) -> float:
    return float(w.sum() ** 2 / (w**2).sum())


def test_effective_rows_are_kishs() -> None:
    rng = np.random.default_rng(0)
    y = (rng.random((200, 2)) < 0.3).astype(np.uint8)
    w, rows = rng.lognormal(0, 1, 200), rng.random((200, 2)) < 0.7
    for mask in (None, rows):
        used = np.ones_like(rows) if mask is None else mask
        counts = Counts(
            used.sum(axis=0),
            (y * used).sum(axis=0, dtype=np.int64),
            class_units(y, np.arange(200), "case", mask),
            weighing=weighing(y, w, mask),
        )
        for j in range(2):
            positive, negative = (w[used[:, j] & (y[:, j] == side)] for side in (1, 0))
            both = w[used[:, j]]
            assert counts.positive[j] == pytest.approx(kish(positive))
            assert counts.negative[j] == pytest.approx(kish(negative))
            assert counts.total[j] == pytest.approx(kish(both))
            assert counts.prevalence[j] == pytest.approx(positive.sum() / both.sum())
            assert counts.units[0, j] == pytest.approx(kish(positive)), "one row per case: as many as rows"


def test_equal_weights_change_nothing() -> None:
    rng = np.random.default_rng(1)
    y = (rng.random((90, 1)) < 0.4).astype(np.uint8)
    p, patient = rng.random((90, 1)), np.arange(90) // 3
    names = (*METRICS[:16], NOISE)
    found = []
    for w in (None, np.full(90, 3.0)):
        drawn = bootstrap(y, p, metrics=names, threshold=0.5, patient=patient, rng=5, n_replicates=80, weight=w)
        sizes = cluster_sizes(y, patient, "patient", weight=w)
        units = class_units(y, patient, "patient")
        counts = Counts(np.array([90]), y.sum(axis=0, dtype=np.int64), units, sizes, weighing(y, w))
        found.append(metric_intervals(names, drawn.point, drawn.values, counts))
    for plain, weighted in zip(*found, strict=True):
        np.testing.assert_allclose(weighted, plain, atol=1e-9)


def test_weighted_cluster_sizes() -> None:
    y = np.array([[1], [1], [1], [1], [0]], np.uint8)
    patient, w = np.array([0, 0, 1, 2, 2]), np.array([1.0, 1.0, 2.0, 4.0, 1.0])
    # Patients of positives weigh 2, 2 and 4: effective rows over effective patients.
    rows, patients = kish(w[:4]), kish(np.array([2.0, 2.0, 4.0]))
    assert cluster_sizes(y, patient, "patient", weight=w)[0, 0] == pytest.approx(rows / patients)


@given(st.integers(0, 10_000))
def test_weighted_intervals_hold_their_estimate(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(6, 60))
    y = (rng.random((n, 2)) < rng.uniform(0.1, 0.6)).astype(np.uint8)
    p = np.clip(rng.random((n, 2)).round(int(rng.integers(0, 3))), 0, 1)
    patient = rng.integers(0, max(n // int(rng.integers(1, 4)), 2), n)
    w = np.where(rng.random(n) < 0.2, 0.0, rng.lognormal(0, float(rng.uniform(0, 2)), n))
    if not w.any():
        w[0] = 1.0
    names = (*METRICS[:16], NOISE)
    drawn = bootstrap(y, p, metrics=names, threshold=0.5, patient=patient, rng=seed, n_replicates=60, weight=w)
    counts = Counts(
        np.full(2, n),
        y.sum(axis=0, dtype=np.int64),
        class_units(y, patient, "patient"),
        cluster_sizes(y, patient, "patient", weight=w),
        weighing(y, w),
    )
    low, high, _ = metric_intervals(names, drawn.point, drawn.values, counts)
    for k, name in enumerate(names[:-1]):
        known = ~np.isnan(low[:, k])
        value, below, above = (each[:, k][known] for each in (drawn.point, low, high))
        assert ((below <= value + 1e-9) & (value <= above + 1e-9)).all(), name
        assert (above <= 1 + 1e-9).all(), name
