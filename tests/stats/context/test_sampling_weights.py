"""Sampling weights where a pre-test probability is known: whole weights are repeated rows, others scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sk
from sklearn.linear_model import LogisticRegression

from palpate.stats import (
    balance,
    bootstrap,
    context_gain,
    context_weights,
    decision_curves,
    matched_bootstrap,
    matched_share,
    quantile_strata,
    resample_counts,
    reweighted_bootstrap,
)
from palpate.stats.context.incremental import combine_logits, patient_folds
from palpate.stats.context.pretest_model import calibrator
from palpate.stats.risks.net_benefit import net_benefit

METRICS = ("auroc", "auprc", "brier_skill_score", "adaptive_calibration_error", "sensitivity", "specificity")
N = 240
RNG = np.random.default_rng(8)
PATIENT = RNG.integers(0, 90, N)
P = RNG.beta(1.5, 3.0, N)
ill = (RNG.random(N) < P).astype(np.uint8)
SCORE = 1 / (1 + np.exp(-(1.2 * ill + np.log(P / (1 - P)) + RNG.normal(size=N))))
TIMES = RNG.integers(1, 5, N)
WEIGHT = RNG.lognormal(0, 1, N)
AGAIN = np.repeat(np.arange(N), TIMES)


def test_strata_hold_shares_of_the_weight() -> None:
    ours, theirs = quantile_strata(P, weight=TIMES / 3.0), quantile_strata(P[AGAIN])
    np.testing.assert_array_equal(ours.edges, theirs.edges)
    np.testing.assert_array_equal(ours.stratum[AGAIN], theirs.stratum)
    assert ours.size.sum() == N
    assert (quantile_strata(P).edges != ours.edges).any()
    even = quantile_strata(P, weight=np.full(N, 0.3))
    np.testing.assert_array_equal(even.edges, quantile_strata(P).edges)


def test_context_weights_are_those_of_repeated_rows() -> None:
    ours, theirs = context_weights(P, ill, weight=TIMES), context_weights(P[AGAIN], ill[AGAIN])
    assert ours.prevalence == pytest.approx(theirs.prevalence, rel=1e-12)
    np.testing.assert_allclose(ours.weight / N, np.bincount(AGAIN, theirs.weight) / len(AGAIN), rtol=1e-12)
    assert ours.effective_size < context_weights(P, ill).effective_size


def test_balance_is_that_of_repeated_rows() -> None:
    ours = balance(P, ill, weight=TIMES, before=TIMES)
    np.testing.assert_allclose(ours, balance(P[AGAIN], ill[AGAIN]), rtol=1e-9)
    assert balance(P, ill, weight=np.ones(N), before=np.full(N, 2.0)).smd == pytest.approx(
        balance(P, ill).smd, rel=1e-12
    )


def test_reweighted_points_are_those_of_repeated_rows() -> None:
    shared = {"metrics": METRICS, "threshold": 0.5, "rng": 3, "n_replicates": 0}
    ours = reweighted_bootstrap(ill, SCORE, P, patient=PATIENT, weight=TIMES / 2.0, **shared)  # type: ignore[arg-type]
    theirs = reweighted_bootstrap(ill[AGAIN], SCORE[AGAIN], P[AGAIN], patient=PATIENT[AGAIN], **shared)  # type: ignore[arg-type]
    np.testing.assert_allclose(ours.point, theirs.point, rtol=1e-9)


def test_every_reweighted_replicate_has_the_prevalence_of_its_weights() -> None:
    found = reweighted_bootstrap(
        ill, SCORE, P, patient=PATIENT, weight=WEIGHT, rng=5, n_replicates=6, metrics=METRICS[:3]
    )
    counts = resample_counts(rng=5, n_replicates=6, patient=PATIENT)
    for k in range(6):
        mass = counts[k] * WEIGHT
        share = mass[ill == 1].sum() / mass.sum()
        mass = mass * np.where(ill == 1, share / P, (1 - share) / (1 - P))
        base = np.average(ill, weights=mass)
        expected = (
            sk.roc_auc_score(ill, SCORE, sample_weight=mass),
            sk.average_precision_score(ill, SCORE, sample_weight=mass),
            1 - sk.brier_score_loss(ill, SCORE, sample_weight=mass) / (base * (1 - base)),
        )
        np.testing.assert_allclose(found.values[0, :, 0, k], expected, rtol=1e-9)


def matched_mass(counts: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The slow way: match the rows drawn, then weigh each class to the number of pairs."""
    drawn = np.repeat(np.arange(N), counts)
    mass = np.bincount(drawn, matched_share(P[drawn], ill[drawn], caliper=0.05), minlength=N) * weight
    for side in (0, 1):
        pairs = matched_share(P[drawn], ill[drawn], caliper=0.05)[ill[drawn] == side].sum()
        mass[ill == side] *= pairs / mass[ill == side].sum()
    return mass


def test_matched_rows_are_weighed_and_half_of_them_are_positive() -> None:
    found = matched_bootstrap(
        ill, SCORE, P, patient=PATIENT, weight=WEIGHT, caliper=0.05, rng=5, n_replicates=6, metrics=METRICS[:3]
    )
    counts = resample_counts(rng=5, n_replicates=6, patient=PATIENT)
    points = np.concatenate([found.point[0], found.values[0, :, 0]], axis=1)
    for k, times in enumerate([np.ones(N, int), *counts]):
        mass = matched_mass(times, WEIGHT)
        assert mass[ill == 1].sum() == pytest.approx(mass[ill == 0].sum())
        expected = (
            sk.roc_auc_score(ill, SCORE, sample_weight=mass),
            sk.average_precision_score(ill, SCORE, sample_weight=mass),
            1 - sk.brier_score_loss(ill, SCORE, sample_weight=mass) / 0.25,
        )
        np.testing.assert_allclose(points[:, k], expected, rtol=1e-9)


def test_weights_by_label_alone_leave_the_matched_numbers_as_they_are() -> None:
    """In a case-control sample, a pair is a pair whatever its two cases stand for."""
    shared = {"patient": PATIENT, "caliper": 0.05, "rng": 5, "n_replicates": 5, "metrics": METRICS[:4]}
    plain = matched_bootstrap(ill, SCORE, P, **shared)  # type: ignore[arg-type]
    ours = matched_bootstrap(ill, SCORE, P, weight=np.where(ill == 1, 1.0, 10.0), **shared)  # type: ignore[arg-type]
    np.testing.assert_allclose(ours.values, plain.values, rtol=1e-9)


def test_model_and_history_together_are_fitted_with_the_weights() -> None:
    found = combine_logits(ill, SCORE, P, patient=PATIENT, rng=np.random.default_rng(1), weight=7 * WEIGHT)
    fold = patient_folds(PATIENT, ill > 0, n_folds=5, rng=np.random.default_rng(1))
    logits = np.log(np.column_stack([SCORE / (1 - SCORE), P / (1 - P)]))
    inside = fold != 2
    scaled = (logits - logits[inside].mean(axis=0)) / logits[inside].std(axis=0)
    own = WEIGHT[inside] / WEIGHT[inside].mean()
    fit = LogisticRegression(C=1.0, tol=1e-8, solver="newton-cholesky").fit(scaled[inside], ill[inside], own)
    np.testing.assert_allclose(found[~inside], fit.predict_proba(scaled[~inside])[:, 1], rtol=1e-9)


def test_the_gain_is_measured_with_the_weights() -> None:
    found = context_gain(ill, SCORE, P, patient=PATIENT, rng=4, weight=WEIGHT, n_replicates=10)
    for k, score in enumerate((P, SCORE, found.p_both[:, 0])):
        assert found.point[k, 0] == pytest.approx(sk.roc_auc_score(ill, score, sample_weight=WEIGHT), abs=1e-12)
    same = bootstrap(ill, SCORE, patient=PATIENT, weight=WEIGHT, rng=4, n_replicates=10)
    np.testing.assert_array_equal(found.values[1, 0], same.values[0, 0, 0])


def test_net_benefit_is_that_of_the_weights() -> None:
    at = [0.1, 0.3]
    found = decision_curves(ill, SCORE, patient=PATIENT, rng=4, thresholds=at, weight=WEIGHT, n_replicates=4)
    counts = resample_counts(rng=4, n_replicates=4, patient=PATIENT)
    for t, threshold in enumerate(at):
        assert found.net_benefit[0, t] == pytest.approx(net_benefit(ill, SCORE, threshold=threshold, weight=WEIGHT))
        everybody = net_benefit(ill, np.ones(N), threshold=threshold, weight=WEIGHT)
        assert found.treat_all[t] == pytest.approx(everybody)
        drawn = [net_benefit(ill, SCORE, threshold=threshold, weight=WEIGHT * times) for times in counts]
        np.testing.assert_allclose(found.values[0, t], drawn, rtol=1e-9)


def test_calibration_learns_from_weights_as_from_repeated_rows() -> None:
    score = np.log(SCORE / (1 - SCORE))
    ours = calibrator(score, ill, weight=TIMES.astype(float))
    theirs = calibrator(score[AGAIN], ill[AGAIN])
    np.testing.assert_allclose(ours(score), theirs(score), rtol=1e-5)
    assert np.abs(ours(score) - calibrator(score, ill)(score)).max() > 1e-3
