"""The characteristics audit's numbers on arrays: against slow versions, closed forms and planted curves."""

from __future__ import annotations

import numpy as np
import pytest

from palpate.audits.characteristics.ages import NO_EFFECT, Roughness, mean_roughness, roughness
from palpate.audits.characteristics.arms import ObservedGroups, age_run
from palpate.audits.characteristics.measures import Curve, Resampling, Sums, measure
from palpate.audits.characteristics.observed import amplification, deviations, observed_rates
from palpate.stats import percentile_interval, resample_counts
from palpate.stats.clustered import sum_by_unit, tally_replicates, units_of
from palpate.stats.curves import CurveVariance, curve_variance
from palpate.stats.intervals import sign_flip_p_value

RESAMPLING = Resampling(n_replicates=150, level=0.9, seed=7)


def answers(n: int = 60, n_groups: int = 4, n_labels: int = 3, seed: int = 0) -> tuple[np.ndarray, ...]:
    """p[note, group, label], as written, thresholds, patients with one to three notes."""
    rng = np.random.default_rng(seed)
    effect = rng.normal(0, 0.3, (n_groups, n_labels))
    logit = rng.normal(-1, 1, (n, 1, n_labels)) + effect + rng.normal(0, 0.1, (n, n_groups, n_labels))
    p = 1 / (1 + np.exp(-logit))
    original = p[np.arange(n), rng.integers(n_groups, size=n)]
    patient = np.sort(rng.integers(0, n // 2, size=n))
    return p, original, np.full(n_labels, 0.3), rng.permutation(patient)


def test_everything_equals_the_slow_version_on_the_same_resamples() -> None:
    p, original, threshold, patient = answers()
    n, n_groups, n_labels = p.shape
    units = units_of(patient)
    reference = 2
    found = measure(
        Sums.of(p, original, threshold, reference=reference, units=units), units, RESAMPLING, reference=reference
    )

    def slow(rows: np.ndarray) -> dict[str, np.ndarray]:
        mean = p[rows].mean(axis=0)
        others = [np.delete(mean, g, axis=0).mean(axis=0) for g in range(n_groups)]
        flipped = (p[rows] >= threshold) != (p[rows][:, [reference]] >= threshold)
        from_written = (p[rows] >= threshold) != (original[rows] >= threshold)[:, None]
        return {
            "mean_probability": mean,
            "as_written": original[rows].mean(axis=0, keepdims=True),
            "deviation": mean - np.stack(others),
            "difference": mean - mean[reference],
            "flip_rate": flipped.mean(axis=0),
            "flip_rate_from_written": from_written.mean(axis=0),
        }

    counts = resample_counts(rng=7, n_replicates=150, patient=patient)
    resampled = [slow(np.repeat(np.arange(n), row)) for row in counts]
    for name, value in slow(np.arange(n)).items():
        values = np.stack([each[name] for each in resampled], axis=-1)
        low, high = percentile_interval(values, level=0.9)
        spread = getattr(found, name)
        np.testing.assert_allclose(spread.value, value, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(spread.low, low, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(spread.high, high, atol=1e-12, err_msg=name)
    moved = p - p[:, [reference]]
    by_patient = np.stack([moved[patient == u].sum(axis=0) for u in np.unique(patient)])
    flat = sign_flip_p_value(by_patient.reshape(-1, n_groups * n_labels), rng=7, n_replicates=150)
    expected = flat.reshape(n_groups, n_labels)
    expected[reference] = np.nan
    np.testing.assert_array_equal(found.p_value, expected)


def test_a_model_that_does_not_see_the_characteristic_is_exactly_0() -> None:
    p, _, threshold, patient = answers(n_groups=73)
    blind = np.repeat(p[:, :1], 73, axis=1)
    units = units_of(patient)
    run = np.arange(72)
    sums = Sums.of(blind, blind[:, 0], threshold, reference=40, units=units)
    found = measure(sums, units, RESAMPLING, reference=40, run=run)
    for name in ("deviation", "difference", "flip_rate", "flip_rate_from_written"):
        for ends in getattr(found, name):
            assert (ends == 0).all(), name
    assert np.nanmin(found.p_value) == 1.0
    assert found.curve is not None
    rough = roughness(found.curve)
    assert np.isnan(rough.share).all()
    assert set(rough.reason) == {NO_EFFECT}


def test_few_patients_have_no_interval_and_no_test() -> None:
    p, original, threshold, _ = answers(n=9)
    for patient, interval in ((np.zeros(9), False), (np.arange(9), True)):
        units = units_of(patient)
        sums = Sums.of(p, original, threshold, reference=0, units=units)
        found = measure(sums, units, RESAMPLING, reference=0)
        assert np.isnan(found.p_value).all()
        assert np.isfinite(found.difference.low[1:]).all() == interval


def test_checkpoints_are_averaged_as_their_numbers_are() -> None:
    p, original, threshold, patient = answers()
    q = answers(seed=3)[0]
    units = units_of(patient)
    each = [Sums.of(x, original, threshold, reference=1, units=units) for x in (p, q)]
    found = [measure(sums, units, RESAMPLING, reference=1) for sums in (*each, Sums.mean(each))]
    for name in ("mean_probability", "deviation", "difference", "flip_rate"):
        a, b, both = (getattr(part, name).value for part in found)
        np.testing.assert_allclose(both, (a + b) / 2, atol=1e-12)


def test_deviation_is_equation_1() -> None:
    mean = np.random.default_rng(0).random((5, 2))
    expected = [mean[i] - sum(mean[j] for j in range(5) if j != i) / 4 for i in range(5)]
    np.testing.assert_allclose(deviations(mean), expected, atol=1e-15)
    np.testing.assert_allclose(deviations(mean - mean[3]), expected, atol=1e-15)
    assert np.isnan(deviations(mean[:1])).all()


# -- curves ---------------------------------------------------------------------------------------------


def planted_curve(
    *, trend: float, noise: float, jitter: float, n: int = 400, seed: int = 0
) -> tuple[CurveVariance, Roughness]:
    """A model whose curve is a trend and a noise of its own, the same for all notes, and jitter of each note."""
    rng = np.random.default_rng(seed)
    ages = np.linspace(-1, 1, 72)
    own = noise * rng.normal(size=72)
    p = 0.4 + trend * ages + own + jitter * rng.normal(size=(n, 72))
    units = units_of(np.arange(n))
    sums = Sums.of(p[..., None], p[:, :1], np.full(1, 0.5), reference=30, units=units)
    found = measure(sums, units, Resampling(600, 0.95, seed), reference=30, run=np.arange(72))
    assert found.curve is not None
    return curve_variance(0.4 + trend * ages + own), roughness(found.curve)


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.04])
def test_roughness_is_that_of_the_curve_and_not_of_the_notes(noise: float) -> None:
    truth, rough = planted_curve(trend=0.1, noise=noise, jitter=0.15)
    share, jump = rough.spreads(0.95)
    planted = float(truth.noise / truth.total)
    assert share.low[0] <= planted <= share.high[0]
    assert share.value[0] == pytest.approx(planted, abs=0.03)
    assert jump.low[0] <= float(np.sqrt(truth.noise)) + 1e-4
    assert jump.value[0] == pytest.approx(float(np.sqrt(truth.noise)), abs=0.002)


def test_roughness_of_checkpoints_is_the_mean_of_theirs() -> None:
    parts = [planted_curve(trend=0.1, noise=0.05, jitter=0.05, seed=seed)[1] for seed in (1, 2)]
    both = mean_roughness(parts)
    assert both.share[0] == pytest.approx((parts[0].share[0] + parts[1].share[0]) / 2)


def test_a_curve_within_its_chance_has_no_roughness() -> None:
    flat = Curve(np.array([1e-6]), np.array([1e-6]), np.full((1, 9), 4e-6), np.full((1, 9), 4e-6))
    assert np.isnan(roughness(flat).share[0])
    assert "no more than chance" in str(roughness(flat).reason[0])


def test_the_ages_that_make_a_curve() -> None:
    groups = ("90+", *(str(age) for age in range(18, 90)))
    assert [groups[k] for k in age_run(groups)] == [str(age) for age in range(18, 90)]
    assert [("30", "20", "40", "41")[k] for k in age_run(("30", "20", "40", "41"))] == ["20", "30", "40"]
    assert len(age_run(("90+",))) == 0
    assert [("20", "21", "40", "50", "60")[k] for k in age_run(("20", "21", "40", "50", "60"))] == ["40", "50", "60"]


# -- the training split ---------------------------------------------------------------------------------


def training(n: int = 900, seed: int = 0) -> tuple[ObservedGroups, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    group = rng.choice([-1, 0, 1, 2], size=n, p=[0.1, 0.5, 0.38, 0.02])
    rate = np.array([[0.2, 0.5], [0.4, 0.45], [0.1, 0.1], [0.3, 0.3]])[group]
    y = (rng.random((n, 2)) < rate).astype(np.uint8)
    return ObservedGroups(np.arange(n), group, "notes"), y, rng.integers(0, n // 2, size=n)


def test_observed_rates_and_deviations_equal_the_slow_version() -> None:
    groups, y, patient = training()
    units = units_of(patient)
    found = observed_rates(groups, y, units, n_groups=4, seed=5, n_replicates=80, level=0.9)
    for g in range(4):
        there = groups.group == g
        assert found.n[g] == there.sum()
        assert found.n_positive[g].tolist() == y[there].sum(axis=0).tolist()
        if there.any():
            np.testing.assert_allclose(found.rate[g], y[there].mean(axis=0))
    assert found.known.tolist() == [0, 1], "the third group has too few cases, the fourth none"
    assert np.isnan(found.rate[3]).all()
    counts = resample_counts(rng=5, n_replicates=80, patient=patient)
    for r, row in enumerate(counts):
        rows = np.repeat(np.arange(len(y)), row)
        rates = [y[rows][groups.group[rows] == g].mean(axis=0) for g in (0, 1)]
        np.testing.assert_allclose(found.deviation_values[0, :, r], rates[0] - rates[1], atol=1e-12)


def test_tallies_equal_counting() -> None:
    from scipy import sparse

    rng = np.random.default_rng(0)
    table = rng.integers(0, 3, size=(40, 6))
    drawn = tally_replicates(sparse.csr_array(table), rng=3, n_replicates=25)
    counts = resample_counts(rng=3, n_replicates=25, patient=np.arange(40))
    np.testing.assert_array_equal(drawn, (counts @ table).T)
    patient = rng.integers(0, 9, size=40)
    slow = [table[patient == u].sum(axis=0) for u in np.unique(patient)]
    np.testing.assert_array_equal(sum_by_unit(table, units_of(patient)), slow)


@pytest.mark.parametrize("slope", [0.0, 0.3, 1.0, 2.5, -1.0])
def test_amplification_is_the_planted_slope_in_spite_of_noise_in_what_is_observed(slope: float) -> None:
    """The model deviates by `slope` times the true deviation; the observed ones are as noisy as their replicates."""
    rng = np.random.default_rng(1)
    hits, plain = [], []
    for _ in range(200):
        true = 0.05 * rng.normal(size=60)
        observed = true + 0.03 * rng.normal(size=60)
        values = observed[:, None] + 0.03 * rng.normal(size=(60, 300))
        model = slope * true
        found = amplification(
            float(model @ observed), model @ values, float(observed @ observed), (values**2).sum(axis=0), level=0.95
        )
        hits.append((found.value, found.low <= slope <= found.high))
        plain.append(float(model @ observed / (observed @ observed)))
    assert np.mean([value for value, _ in hits]) == pytest.approx(slope, abs=0.03 + 0.05 * abs(slope))
    assert np.mean([held for _, held in hits]) > 0.85
    if slope:
        assert abs(np.mean(plain)) < 0.8 * abs(slope), "the plain slope is flattened"


def test_no_amplification_of_observed_differences_that_are_chance() -> None:
    rng = np.random.default_rng(2)
    observed = 0.01 * rng.normal(size=10)
    values = observed[:, None] + 0.04 * rng.normal(size=(10, 400))
    found = amplification(1e-3, np.full(400, 1e-3), float(observed @ observed), (values**2).sum(axis=0), level=0.95)
    assert np.isnan(found).all()
