"""The numbers of one model in one arm, on arrays: against slow versions and closed forms."""

from __future__ import annotations

import numpy as np

from palpate.audits.characteristics.measures import Sums, measure_model
from palpate.kit import Resampling
from palpate.stats.clustered import units_of
from palpate.stats.curves import NO_EFFECT, roughness

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


def test_everything_equals_the_slow_version() -> None:
    p, original, threshold, patient = answers()
    n_groups = p.shape[1]
    units = units_of(patient)
    reference, years = 2, np.arange(4)
    sums = Sums.of(p, original, threshold, reference=reference, units=units, years=years)
    found = measure_model(sums, units, RESAMPLING, years=years)
    mean, decided = p.mean(axis=0), p >= threshold
    others = [np.delete(mean, g, axis=0).mean(axis=0) for g in range(n_groups)]
    reversed_at = [(decided[:, g] != decided[:, g - 1]) & (decided[:, g] != decided[:, g + 1]) for g in (1, 2)]
    for name, value in {
        "mean_probability": mean,
        "as_written": original.mean(axis=0, keepdims=True),
        "deviation": mean - np.stack(others),
        "difference": mean - mean[reference],
        "flip_rate": (decided != decided[:, [reference]]).mean(axis=0),
        "flip_rate_from_written": (decided != (original >= threshold)[:, None]).mean(axis=0),
        "gap": np.stack([mean[g] - (mean[g - 1] + mean[g + 1]) / 2 for g in (1, 2)]),
        "reversals": np.stack([each.mean(axis=0) for each in reversed_at]),
    }.items():
        np.testing.assert_allclose(getattr(found, name).value, value, atol=1e-12, err_msg=name)
    assert found.reversals.value.max() > 0


def test_a_line_of_any_slope_has_no_gap_and_no_reversal() -> None:
    rng = np.random.default_rng(0)
    p = np.clip(0.2 + rng.random((50, 1)) * np.linspace(0, 0.6, 72), 0, 1)[..., None]
    units, years = units_of(np.arange(50)), np.arange(72)
    sums = Sums.of(p, p[:, 0], np.full(1, 0.4), reference=30, units=units, years=years)
    found = measure_model(sums, units, RESAMPLING, years=years)
    assert np.abs(found.gap.value).max() < 1e-12
    assert found.reversals.value.max() == 0.0
    assert found.flip_rate.value.max() > 0.1


def test_a_model_that_does_not_see_the_characteristic_is_exactly_0() -> None:
    p, _, threshold, patient = answers(n_groups=73)
    blind = np.repeat(p[:, :1], 73, axis=1)
    units = units_of(patient)
    run = np.arange(72)
    sums = Sums.of(blind, blind[:, 0], threshold, reference=40, units=units)
    found = measure_model(sums, units, RESAMPLING, run=run)
    for name in ("deviation", "difference", "flip_rate", "flip_rate_from_written"):
        assert (getattr(found, name).value == 0).all(), name
        low, high = getattr(found, name).ends(0.05)
        assert (high > 0).all(), "an unseen patient may differ"
        assert (low <= 0).all()
    assert found.difference.p_value().min() == 1.0
    assert found.curve is not None
    rough = roughness(found.curve)
    assert np.isnan(rough.share).all()
    assert set(rough.reason) == {NO_EFFECT}


def test_an_ensembles_numbers_are_the_mean_of_its_members() -> None:
    p, original, threshold, patient = answers()
    q = answers(seed=3)[0]
    units = units_of(patient)
    each = [Sums.of(x, original, threshold, reference=1, units=units) for x in (p, q)]
    found = [measure_model(sums, units, RESAMPLING) for sums in (*each, Sums.mean(each))]
    for name in ("mean_probability", "deviation", "difference", "flip_rate"):
        a, b, both = (getattr(part, name).value for part in found)
        np.testing.assert_allclose(both, (a + b) / 2, atol=1e-12)
