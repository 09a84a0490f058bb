"""Sampling weights in the characteristics audit: a note of weight 3 counts as three notes of its patient do."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from palpate.audits.characteristics import Characteristics
from palpate.cases.cohort import Cohort
from palpate.results import AuditResult, Predictions
from palpate.testing import KeywordModel
from tests.audits.characteristics.altered_notes import answer, frame
from tests.audits.characteristics.test_age_ranges import AUDIT as AGES
from tests.audits.characteristics.test_age_ranges import YearsModel, smokers

PLAIN = Characteristics(alter=("gender",), n_replicates=100, threshold=0.4)
COMPARED = [
    "difference",
    "flip_rate",
    "mean_probability",
    "deviation",
    "neighbour_gap",
    "neighbour_flips",
    "year_flips",
]


def audited(audit: Characteristics, cohort: Cohort, weight: np.ndarray | None) -> AuditResult:
    if weight is not None:
        cohort = Cohort.from_frame(
            cohort.cases.drop("cohort").with_columns(
                ill=pl.Series(cohort.y.toarray()[:, 0]), sampling_weight=pl.Series(weight.astype(float))
            ),
            labels=["ill"],
            name="home",
        )
    model = YearsModel(60) if audit is AGES else KeywordModel({"she": 1.0, "fever": 0.7, "falls": -0.4})
    plan = audit.plan(cohort, np.random.default_rng(0))
    return audit.analyse(plan, Predictions({"m": answer(plan, model)}), np.random.default_rng(1))


def repeated(cohort: Cohort, weight: np.ndarray) -> Cohort:
    times = np.repeat(np.arange(len(cohort)), weight)
    table = cohort.cases.drop("cohort").with_columns(ill=pl.Series(cohort.y.toarray()[:, 0]))[times.tolist()]
    renamed = table.with_columns(case_id=pl.Series([f"r{k}" for k in range(table.height)]))
    return Cohort.from_frame(renamed, labels=["ill"], name="home")


@pytest.mark.parametrize("audit", [PLAIN, AGES], ids=["gender", "ages that differ by note"])
def test_a_weight_counts_as_so_many_notes_of_the_patient(audit: Characteristics) -> None:
    table = frame(240).drop("split", "frail", "age", "gender")
    cohort = smokers() if audit is AGES else Cohort.from_frame(table, labels=["ill"], name="home")
    weight = np.random.default_rng(2).integers(0, 4, len(cohort))
    ours, theirs = audited(audit, cohort, weight), audited(audit, repeated(cohort, weight), None)
    keys = ["metric", "label", "group", "reference"]
    both = ours.estimates.join(theirs.estimates, on=keys, suffix="_repeated", nulls_equal=True)
    both = both.filter(pl.col("metric").is_in(COMPARED), pl.col("value").is_not_null())
    assert both.height > (20 if audit is AGES else 4)
    for end in ("value", "low", "high", "p_value"):
        found, wanted = (both[name].cast(pl.Float64).fill_null(-9.0).to_numpy() for name in (end, f"{end}_repeated"))
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12, err_msg=end)
    if audit is AGES:
        rough = [each.estimates.filter(metric="roughness").row(0, named=True) for each in (ours, theirs)]
        assert [rough[0][end] for end in ("value", "low")] == pytest.approx(
            [rough[1][end] for end in ("value", "low")], rel=1e-9
        )
    plain = audited(audit, cohort, None).estimates.filter(pl.col("metric").is_in(COMPARED), pl.col("value") != 0)
    assert (
        not both.join(plain, on=keys, nulls_equal=True, suffix="_plain")
        .select((pl.col("value") - pl.col("value_plain")).abs() < 1e-9)
        .to_series()
        .all()
    ), "or weights would not matter"
