"""The numbers of one model in one arm, on arrays: against slow versions and closed forms."""

from __future__ import annotations

import numpy as np

from palpate.audits.characteristics.measures import Sums, measure_model
from palpate.kit import Resampling
from palpate.stats import percentile_interval, resample_counts
from palpate.stats.clustered import units_of
from palpate.stats.curves import NO_EFFECT, roughness
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
    found = measure_model(
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
    found = measure_model(sums, units, RESAMPLING, reference=40, run=run)
    for name in ("deviation", "difference", "flip_rate", "flip_rate_from_written"):
        for ends in getattr(found, name):
            assert (ends == 0).all(), name
    assert np.nanmin(found.p_value) == 1.0
    assert found.curve is not None
    rough = roughness(found.curve)
    assert np.isnan(rough.share).all()
    assert set(rough.reason) == {NO_EFFECT}


def test_few_patients_are_not_tested() -> None:
    p, original, threshold, _ = answers(n=10)
    for n, tested in ((9, False), (10, True)):
        units = units_of(np.arange(n))
        sums = Sums.of(p[:n], original[:n], threshold, reference=0, units=units)
        found = measure_model(sums, units, RESAMPLING, reference=0)
        assert np.isfinite(found.p_value[1:]).all() == tested
        assert np.isnan(found.p_value[0]).all()


def test_an_ensembles_numbers_are_the_mean_of_its_members() -> None:
    p, original, threshold, patient = answers()
    q = answers(seed=3)[0]
    units = units_of(patient)
    each = [Sums.of(x, original, threshold, reference=1, units=units) for x in (p, q)]
    found = [measure_model(sums, units, RESAMPLING, reference=1) for sums in (*each, Sums.mean(each))]
    for name in ("mean_probability", "deviation", "difference", "flip_rate"):
        a, b, both = (getattr(part, name).value for part in found)
        np.testing.assert_allclose(both, (a + b) / 2, atol=1e-12)
