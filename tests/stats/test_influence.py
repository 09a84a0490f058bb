"""Replicates from influences against resampling, on 20,000 cases: standard errors, correlations, percentiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from palpate.stats import METRICS, NOISE, bootstrap
from palpate.stats.arguments import check_rows
from palpate.stats.bootstrap import Replicates
from palpate.stats.precision.influence import can_stand_for_resamples

NAMES = (*METRICS, NOISE)
N = 20_000


def sample(kind: str, seed: int = 0, n: int = N) -> dict[str, Any]:
    """Two models on correlated noise; 1 to a few rows per patient."""
    rng = np.random.default_rng(seed)
    patient = np.arange(n) if kind == "alone" else np.sort(rng.integers(0, n // 3, n))
    own = rng.normal(size=n)
    shared = rng.normal(size=n)[patient]
    y = rng.random(n) < 0.12
    scores = []
    for shift in (1.4, 1.1):
        noise = 0.6 * shared + 0.5 * own + np.sqrt(1 - 0.61) * rng.normal(size=n)
        latent = noise + shift * y
        if kind == "tied":
            latent = np.round(2 * latent) / 2
        scores.append(1 / (1 + np.exp(-(-2.2 + 1.5 * latent))))
    found: dict[str, Any] = {"y_true": y, "y_score": np.stack(scores), "patient": patient, "threshold": 0.3}
    if kind == "weighted":
        found["weight"] = rng.lognormal(0, 0.7, n)
    if kind == "masked":
        found["rows"] = rng.random(n) < 0.6
    if kind == "case":
        found["unit"] = "case"
    return found


def both(kind: str) -> tuple[Replicates, Replicates]:
    given = sample(kind)
    found = [
        bootstrap(**given, metrics=NAMES, n_replicates=3_000, rng=5, method=method)
        for method in ("resample", "influence")
    ]
    return found[0], found[1]


@pytest.mark.parametrize("kind", ["alone", "clustered", "tied", "weighted", "masked", "case"])
def test_standard_errors_are_those_of_resampling(kind: str) -> None:
    drawn, moved = both(kind)
    np.testing.assert_array_equal(drawn.point, moved.point)
    ratios = []
    for k, name in enumerate(NAMES):
        ours, theirs = (each.values[:, k, 0] for each in (moved, drawn))
        if kind == "case" and name == "prevalence":
            assert ours.std(axis=1).max() < 1e-12, "rows are drawn within classes"
            continue
        np.testing.assert_allclose(ours.std(axis=1), theirs.std(axis=1), rtol=0.06, err_msg=f"{kind} {name}")
        assert np.all(np.abs(ours.mean(axis=1) - theirs.mean(axis=1)) < 0.15 * theirs.std(axis=1) + 1e-12), name
        difference = (ours[0] - ours[1]).std() / (theirs[0] - theirs[1]).std() if name != "prevalence" else 1.0
        # Two simulations of 3,000 each, of ratios that vary by 1.8% (54 of them, mean 1.009, highest 1.054).
        assert difference == pytest.approx(1.0, abs=0.09), f"{kind} {name}, paired"
        ratios.append(difference)
        reach = theirs.std(axis=1)
        for share in (0.025, 0.975):
            ends = [np.quantile(each, share, axis=1) for each in (ours, theirs)]
            assert np.all(np.abs(ends[0] - ends[1]) < 0.3 * reach + 1e-12), f"{kind} {name} at {share}"
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.03), f"{kind}, paired, over all metrics"


def test_metrics_vary_together_as_in_resamples() -> None:
    drawn, moved = both("clustered")
    places = [k for k, name in enumerate(NAMES) if name not in (NOISE, "adaptive_calibration_error")]
    ours, theirs = (np.corrcoef(each.values[0, places, 0]) for each in (moved, drawn))
    np.testing.assert_allclose(ours, theirs, atol=0.08)


def test_labels_of_one_call_and_of_two_share_their_random_numbers() -> None:
    given = sample("clustered")
    one = bootstrap(**given, n_replicates=50, rng=9, method="influence")
    twice = {
        **given,
        "y_true": np.stack([given["y_true"]] * 2, axis=1),
        "y_score": np.stack([given["y_score"]] * 2, -1),
    }
    two = bootstrap(**twice, n_replicates=50, rng=9, method="influence")
    np.testing.assert_allclose(two.values[:, :, 1], one.values[:, :, 0], atol=1e-12)
    again = bootstrap(**given, n_replicates=50, rng=10, method="influence")
    assert not np.allclose(again.values, one.values)


def test_undefined_metrics_stay_undefined() -> None:
    n = 3_000
    y, score = np.zeros(n, bool), np.random.default_rng(0).random(n)
    found = bootstrap(
        y, score, patient=np.arange(n), metrics=NAMES, threshold=2.0, rng=0, n_replicates=20, method="influence"
    )
    for name in ("auroc", "auprc", "sensitivity", "ppv", "brier_skill_score", "sensitivity_at_specificity"):
        assert np.isnan(found.values[0, NAMES.index(name)]).all(), name
    assert not np.isnan(found.values[0, NAMES.index("brier")]).any()


def test_auto_resamples_what_is_small_or_rare() -> None:
    n = 30_000
    rng = np.random.default_rng(1)
    y = np.stack([rng.random(n) < 0.2, np.arange(n) < 20], axis=1)
    score = rng.random((1, n, 2))
    rows = check_rows(
        y, score, ("auroc",), threshold=None, unit="patient", patient=np.arange(n), rows=None, weight=None
    )
    assert can_stand_for_resamples(rows, 10_000).tolist() == [True, False], "20 positives are too few"
    assert can_stand_for_resamples(rows, 1_000).tolist() == [False, False], "quickly resampled"
    few = rows._replace(unit=rows.unit // 60, sizes=rows.sizes // 60)
    assert can_stand_for_resamples(few, 10_000).tolist() == [False, False], "500 patients are too few"


def test_small_groups_beside_large_ones_are_resampled_by_themselves() -> None:
    given = sample("clustered", n=30_000)
    del given["threshold"]
    small = np.random.default_rng(2).random(30_000) < 0.02
    masks = np.stack([np.ones(30_000, bool), small], axis=1)
    wide = {
        "y_true": np.broadcast_to(given["y_true"][:, None], masks.shape),
        "y_score": np.broadcast_to(given["y_score"][:, :, None], (2, *masks.shape)),
    }
    found = bootstrap(**wide, patient=given["patient"], rows=masks, rng=3, n_replicates=10_000, method="auto")
    alone = bootstrap(**given, rows=small, rng=3, n_replicates=2_000)
    np.testing.assert_allclose(found.values[:, 0, 1].std(axis=1), alone.values[:, 0, 0].std(axis=1), rtol=0.05)
    np.testing.assert_allclose(found.point[:, 0, 1], alone.point[:, 0, 0])
