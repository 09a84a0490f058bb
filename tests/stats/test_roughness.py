"""Age curves: roughness against planted curves, and the ages that make a curve."""

from __future__ import annotations

import numpy as np
import pytest

from palpate.audits.characteristics.arms import age_run
from palpate.audits.characteristics.measures import Sums, measure_model
from palpate.kit import Resampling
from palpate.stats import percentile_interval
from palpate.stats.clustered import units_of
from palpate.stats.curves import AgeCurve, CurveVariance, Roughness, curve_variance, mean_roughness, roughness


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
    found = measure_model(sums, units, Resampling(n_replicates=600, seed=seed), run=np.arange(72))
    assert found.curve is not None
    return curve_variance(0.4 + trend * ages + own), roughness(found.curve)


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.04])
def test_roughness_is_that_of_the_curve_and_not_of_the_notes(noise: float) -> None:
    truth, rough = planted_curve(trend=0.1, noise=noise, jitter=0.15)
    (share_low, share_high), (jump_low, _) = map(percentile_interval, (rough.share_values[0], rough.jump_values[0]))
    planted = float(truth.noise / truth.total)
    assert share_low <= planted <= share_high
    assert rough.share[0] == pytest.approx(planted, abs=0.03)
    assert jump_low <= float(np.sqrt(truth.noise)) + 1e-4
    assert rough.jump[0] == pytest.approx(float(np.sqrt(truth.noise)), abs=0.002)


def test_roughness_of_an_ensemble_is_the_mean_of_its_members() -> None:
    parts = [planted_curve(trend=0.1, noise=0.05, jitter=0.05, seed=seed)[1] for seed in (1, 2)]
    both = mean_roughness(parts)
    assert both.share[0] == pytest.approx((parts[0].share[0] + parts[1].share[0]) / 2)


def test_a_curve_within_its_chance_has_no_roughness() -> None:
    flat = AgeCurve(np.array([1e-6]), np.array([1e-6]), np.full((1, 9), 4e-6), np.full((1, 9), 4e-6))
    assert np.isnan(roughness(flat).share[0])
    assert "no more than chance" in str(roughness(flat).reason[0])


def test_the_ages_that_make_a_curve() -> None:
    groups = ("90+", *(str(age) for age in range(18, 90)))
    assert [groups[k] for k in age_run(groups)] == [str(age) for age in range(18, 90)]
    assert [("30", "20", "40", "41")[k] for k in age_run(("30", "20", "40", "41"))] == ["20", "30", "40"]
    assert len(age_run(("90+",))) == 0
    assert [("20", "21", "40", "50", "60")[k] for k in age_run(("20", "21", "40", "50", "60"))] == ["40", "50", "60"]
