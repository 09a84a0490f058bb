"""The training split: which group a case belongs to, the rates of the groups, and amplification."""

from __future__ import annotations

import numpy as np
import pytest

from palpate.audits.characteristics.arms import ArmSpec, age_groups
from palpate.audits.characteristics.observed import (
    ObservedGroups,
    amplification,
    by_attributes,
    by_notes,
    deviations,
    group_of,
    observed_rates,
    recorded,
)
from palpate.kit import Resampling, training_rows
from palpate.stats import resample_counts
from palpate.stats.clustered import units_of
from tests.audits.characteristics.altered_notes import GENDER, GenderWords, notes


def test_an_age_belongs_to_the_nearest_audited_one() -> None:
    every = age_groups((*range(18, 90), "90+"))
    assert group_of("age", "63", every) == "63"
    assert group_of("age", "17", every) is None
    assert group_of("age", "90+", every) == group_of("age", "94", every) == "90+"
    tens = age_groups((20, 30, 40))
    assert [group_of("age", age, tens) for age in ("14", "15", "24", "26", "45", "46")] == [
        None, "20", "20", "30", "40", None,
    ]  # fmt: skip
    assert group_of("age", "93", tens) is None
    assert group_of("age", None, tens) is None
    assert group_of("ethnicity", None, ("none", "White")) == "none"
    assert group_of("gender", None, ("female", "male")) is None
    assert group_of("insurance", "Private", ("none", "private", "Medicare")) == "private"
    assert group_of("insurance", "Government", ("none", "private", "Medicare")) is None


def test_what_is_recorded_in_the_words_of_a_note() -> None:
    assert [recorded("gender", value) for value in ("F", "male", "Transgender female", "", None)] == [
        "female", "male", "trans woman", None, None,
    ]  # fmt: skip
    said = ("Transgender man", "MTF", "female-to-male", "Transgender", "Non-binary", "X", "genderqueer", "unknown")
    assert [recorded("gender", value) for value in said] == [
        "trans man", "trans woman", "trans man", "transgender", "non-binary", "non-binary", "non-binary", None,
    ]  # fmt: skip
    assert recorded("age", 63.9) == "63"
    assert recorded("age", 91.4) == "90+"
    assert recorded("age", float("nan")) is None
    said = (
        "WHITE - RUSSIAN",
        "BLACK/AFRICAN AMERICAN",
        "HISPANIC OR LATINO",
        "ASIAN - CHINESE",
        "UNKNOWN/NOT SPECIFIED",
    )
    assert [recorded("ethnicity", value) for value in said] == ["White", "African American", "Hispanic", "Asian", None]


@pytest.mark.parametrize(
    ("value", "group"),
    [
        ("CAUCASIAN", "White"),
        ("White or Caucasian", "White"),
        ("WHITE - BRAZILIAN", "White"),
        ("White, not Hispanic", "White"),
        ("WHITE (NON-HISPANIC)", "White"),
        ("Not Hispanic or Latino", None),
        ("NOT HISPANIC/LATINO", None),
        ("Non-Hispanic", None),
        ("non-Hispanic Black", "African American"),
        ("Black or African American, not Hispanic or Latino", "African American"),
        ("BLACK/CAPE VERDEAN", "African American"),
        ("BLACK/AFRICAN", "African American"),
        ("HISPANIC/LATINO - PUERTO RICAN", "Hispanic"),
        ("White Hispanic", "Hispanic"),
        ("ASIAN - ASIAN INDIAN", "Asian"),
        ("Asian/Pacific Islander", "Asian"),
        ("Non-White", None),
        ("White, Asian", None),
        ("AMERICAN INDIAN/ALASKA NATIVE", None),
        ("MULTI RACE ETHNICITY", None),
        ("PORTUGUESE", None),
        ("OTHER", None),
        ("UNABLE TO OBTAIN", None),
        ("PATIENT DECLINED TO ANSWER", None),
        ("", None),
    ],
)
def test_recorded_ethnicities(value: str, group: str | None) -> None:
    assert recorded("ethnicity", value) == group


@pytest.mark.parametrize(
    ("value", "group"),
    [
        ("> 89", "90+"),
        (">89", "90+"),
        (">= 90", "90+"),
        ("over 89", "90+"),
        ("90+", "90+"),
        ("63 years", "63"),
        ("63 y/o", "63"),
        ("63.7", "63"),
        (300, "90+"),
        (307.2, "90+"),
        (0, "0"),
        ("unknown", None),
        ("", None),
        ("6 months", None),
        ("> 60", None),
        ("60+", None),
        (-4, None),
        (200, None),
        (float("inf"), None),
    ],
)
def test_recorded_ages(value: object, group: str | None) -> None:
    assert recorded("age", value) == group


def test_training_groups_from_attributes_and_from_notes() -> None:
    cohort = notes()
    rows = training_rows(cohort)
    assert (cohort.cases["split"][rows] == "train").all()
    alterer = GenderWords()
    said = {"gender": [alterer.present(cohort.texts[row])["gender"] for row in rows]}
    by_text, by_column = by_notes(GENDER, rows, said), by_attributes(GENDER, cohort, rows)
    assert by_text.group.tolist() == by_column.group.tolist()
    assert set(by_text.group) == {0, 1}
    both = ArmSpec(("gender", "age"), tuple((g, a) for g in ("female", "male") for a in ("30", "60")))
    pairs = by_attributes(both, cohort, rows)
    for row, group in zip(rows, pairs.group, strict=True):
        age, gender = cohort.cases["age"][int(row)], recorded("gender", cohort.cases["gender"][int(row)])
        near = "30" if 15 <= age <= 45 else "60" if 45 < age <= 75 else None
        assert group == (both.groups.index((gender, near)) if near else -1)
    assert by_attributes(ArmSpec(("ethnicity",), (("none",), ("White",))), cohort, rows).reason == (
        "the cohort has no attribute 'ethnicity'"
    )


def test_deviation_is_equation_1() -> None:
    mean = np.random.default_rng(0).random((5, 2))
    expected = [mean[i] - sum(mean[j] for j in range(5) if j != i) / 4 for i in range(5)]
    np.testing.assert_allclose(deviations(mean), expected, atol=1e-15)
    np.testing.assert_allclose(deviations(mean - mean[3]), expected, atol=1e-15)
    assert np.isnan(deviations(mean[:1])).all()


def training(n: int = 900, seed: int = 0) -> tuple[ObservedGroups, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    group = rng.choice([-1, 0, 1, 2], size=n, p=[0.1, 0.5, 0.38, 0.02])
    rate = np.array([[0.2, 0.5], [0.4, 0.45], [0.1, 0.1], [0.3, 0.3]])[group]
    y = (rng.random((n, 2)) < rate).astype(np.uint8)
    return ObservedGroups(np.arange(n), group, "notes"), y, rng.integers(0, n // 2, size=n)


def test_observed_rates_and_deviations_equal_the_slow_version() -> None:
    groups, y, patient = training()
    units = units_of(patient)
    found = observed_rates(groups, y, units, n_groups=4, resampling=Resampling(0.9, 80, seed=5))
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
