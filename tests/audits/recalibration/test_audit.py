"""The recalibration audit on planted miscalibration, against plain fits, and with wrong input."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
import pytest
from scipy import sparse
from scipy.special import expit, logit

from palpate.audits.recalibration import MAPS, Recalibration
from palpate.audits.recalibration.measures import BEFORE
from palpate.cases.cohort import Cohort
from palpate.errors import CohortError, ConfigError
from palpate.results import AuditResult, ModelPredictions, Predictions, Table
from palpate.stats import brier
from palpate.stats.risks.recalibration import fit_map
from tests.audits.performance.test_weights import weighted as with_weights

QUICK = Recalibration(n_replicates=300, threshold=0.3)


def planted(
    n: int = 4_000, seed: int = 0, *, a: float = 0.8, b: float = 1.8, share: float = 0.5
) -> tuple[Cohort, np.ndarray, np.ndarray]:
    """A cohort, the right risks, and those of a model whose log odds are stretched by b and moved by a."""
    rng = np.random.default_rng(seed)
    patient = np.arange(n) // 2
    right = expit(rng.normal(size=(n, 1)) + rng.normal(size=n)[patient][:, None] - 1.0)
    y = (rng.random((n, 1)) < right).astype(np.uint8)
    split = np.where(patient < share * n / 2, "validation", "test")
    frame = pl.DataFrame(
        {"case_id": [f"c{k}" for k in range(n)], "patient_id": [f"p{k}" for k in patient], "split": split}
    )
    cohort = Cohort(frame.with_columns(pl.lit("home").alias("cohort")), ("died",), sparse.csc_array(y))
    return cohort, right, expit(a + b * logit(right))


def run(
    audit: Recalibration, cohort: Cohort, scores: dict[str, np.ndarray], **more: Mapping[str, object]
) -> AuditResult:
    plan = audit.plan(cohort, np.random.default_rng(0))
    rows = plan.variants.parent
    answers = {
        name: ModelPredictions(cohort.labels, p[rows], np.ones(len(rows), bool), **more.get(name, {}))  # type: ignore[arg-type]
        for name, p in scores.items()
    }
    return audit.analyse(plan, Predictions(answers), np.random.default_rng(1))


def number(
    result: AuditResult, metric: str, group: str, reference: str | None = None, **where: str
) -> dict[str, object]:
    rows = result.estimates.filter(
        pl.col("metric") == metric,
        pl.col("group") == group,
        pl.col("reference").is_null() if reference is None else pl.col("reference") == reference,
        *(pl.col(key) == value for key, value in where.items()),
    )
    assert rows.height == 1, rows
    return rows.row(0, named=True)


def told(result: AuditResult) -> str:
    return " ".join(finding.sentence for finding in result.findings)


def test_planted_miscalibration_is_undone_on_other_patients_and_shown() -> None:
    cohort, _, wrong = planted()
    result = run(QUICK, cohort, {"m": wrong})
    slope = number(result, "calibration_slope", "slope")
    assert slope["low"] < 1.0 < slope["high"]  # type: ignore[operator]
    assert number(result, "calibration_slope", BEFORE)["high"] < 0.8  # type: ignore[operator]
    change = number(result, "brier", "slope", BEFORE)
    assert change["significant"] is True
    assert change["high"] < 0  # type: ignore[operator]
    assert number(result, "ici", "slope", BEFORE)["high"] < 0  # type: ignore[operator]
    assert "it is shown to help" in told(result)
    maps = result.tables[MAPS].filter(method="slope").row(0, named=True)
    assert (maps["intercept"], maps["slope"]) == pytest.approx((-0.8 / 1.8, 1 / 1.8), abs=0.12)


def test_numbers_are_those_of_maps_fitted_on_the_validation_split_alone() -> None:
    cohort, _, wrong = planted(1_200)
    result = run(QUICK, cohort, {"m": wrong})
    y, p = cohort.y.toarray()[:, 0], wrong[:, 0]
    fit, test = slice(0, 600), slice(600, 1_200)
    for method in ("intercept", "slope", "isotonic"):
        after = fit_map(y[fit], p[fit], method=method).apply(p[test])
        assert number(result, "brier", method)["value"] == pytest.approx(brier(y[test], after), abs=1e-12), method
        assert number(result, "oe_ratio", method)["value"] == pytest.approx(y[test].sum() / after.sum(), abs=1e-9)
    assert number(result, "brier", BEFORE)["value"] == pytest.approx(brier(y[test], p[test]), abs=1e-12)
    assert number(result, "brier", BEFORE)["n"] == 600


def test_right_risks_are_left_alone_or_gain_nothing() -> None:
    cohort, right, _ = planted(seed=3)
    result = run(QUICK, cohort, {"m": right})
    assert "shown to help" not in told(result)
    assert number(result, "brier", "slope", BEFORE)["significant"] is False


def test_shifts_and_stretches_keep_the_auroc() -> None:
    cohort, _, wrong = planted(1_200)
    result = run(QUICK, cohort, {"m": wrong})
    for method in ("intercept", "slope"):
        row = number(result, "auroc", method, BEFORE)
        assert (row["value"], row["low"], row["high"]) == (0.0, 0.0, 0.0)


def test_a_shift_changes_slope_and_intercept_by_what_is_known_without_doubt() -> None:
    cohort, _, p = planted()
    result = run(QUICK, cohort, {"m": p})
    shift = result.tables[MAPS].filter(method="intercept")["intercept"][0]
    for metric, change in (("calibration_slope", 0.0), ("calibration_intercept", -shift)):
        row = number(result, metric, "intercept", BEFORE)
        assert [row[end] for end in ("value", "low", "high")] == [change] * 3
        assert (row["p_value"], row["reason"]) == (None, "the same in any patients, so not tested")
        stretched = number(result, metric, "slope", BEFORE)
        assert stretched["low"] < stretched["value"] < stretched["high"]
    b = result.tables[MAPS].filter(method="slope")["slope"][0]
    slope, change = number(result, "calibration_slope", BEFORE), number(result, "calibration_slope", "slope", BEFORE)
    ends = sorted((1 / b - 1) * slope[end] for end in ("low", "high"))
    assert [change["pointwise_low"], change["pointwise_high"]] == pytest.approx(ends)


def test_few_events_give_a_reason_and_no_map() -> None:
    cohort, _, wrong = planted(80)
    result = run(QUICK, cohort, {"m": wrong})
    row = number(result, "brier", "isotonic")
    assert row["value"] is None
    assert "needs 50 patients" in str(row["reason"])
    maps = result.tables[MAPS].filter(method="isotonic").row(0, named=True)
    assert "fewer than 50 patients" in maps["reason"]
    assert maps["slope"] is None


def test_scores_that_are_all_the_same_cannot_be_recalibrated_by_slope() -> None:
    cohort, _, wrong = planted(1_200)
    result = run(QUICK, cohort, {"m": np.full_like(wrong, 0.3)})
    assert number(result, "brier", "slope")["value"] is None
    assert number(result, "brier", "intercept")["value"] is not None


def test_patients_in_both_splits_are_told() -> None:
    cohort, _, wrong = planted(400)
    cases = cohort.cases.with_columns(patient_id=pl.Series([f"p{k % 100}" for k in range(400)]))
    result = run(QUICK, Cohort(cases, cohort.labels, cohort.y), {"m": wrong})
    assert "100 patients are both in the validation split and among the held-out cases" in told(result)


def test_an_ensemble_is_recalibrated_as_its_mean_risk() -> None:
    cohort, _, wrong = planted(1_200)
    seeds = {f"s{k}": expit(logit(wrong) + 0.2 * k) for k in range(2)}
    result = run(QUICK, cohort, seeds, **{name: {"ensemble": "m"} for name in seeds})
    mean = np.mean(list(seeds.values()), axis=0)[600:, 0]
    assert number(result, "brier", BEFORE, model="m")["value"] == pytest.approx(
        brier(cohort.y.toarray()[600:, 0], mean)
    )
    assert set(result.estimates["model"]) == {"m"}


def test_weights_are_used() -> None:
    cohort, _, wrong = planted(1_200)
    times = np.random.default_rng(4).integers(1, 4, 1_200)
    again = np.repeat(np.arange(1_200), times)
    cases = cohort.cases[again].with_columns(pl.Series("case_id", [f"r{k}" for k in range(len(again))]))
    repeated = run(QUICK, Cohort(cases, cohort.labels, cohort.y.tocsr()[again].tocsc()), {"m": wrong[again]})
    weighted = run(QUICK, with_weights(cohort, times), {"m": wrong})
    for method in (BEFORE, "slope"):
        for metric in ("brier", "ici", "calibration_slope"):
            ours, theirs = (number(each, metric, method)["value"] for each in (weighted, repeated))
            assert ours == pytest.approx(theirs, abs=1e-7), (method, metric)
    # The least risk of steps is 1 / (cases + 2), and a weight is not another case.
    ours, theirs = (number(each, "brier", "isotonic")["value"] for each in (weighted, repeated))
    assert ours == pytest.approx(theirs, abs=2e-5)
    plain = number(run(QUICK, cohort, {"m": wrong}), "brier", "isotonic")["value"]
    assert plain != pytest.approx(theirs, abs=2e-4)


def test_blocks_have_before_and_after() -> None:
    cohort, _, wrong = planted(1_200)
    result = run(QUICK, cohort, {"m": wrong})
    table = next(block for block in result.blocks if block.title == "Before and after")
    assert isinstance(table, Table)
    assert [row[2] for row in table.rows] == [BEFORE, "intercept", "slope", "isotonic"]
    assert sum(row[3] == "yes" for row in table.rows) == 1


def test_without_a_validation_split_it_is_refused_in_one_sentence() -> None:
    cohort, _, _ = planted(100)
    none = Cohort(cohort.cases.drop("split"), cohort.labels, cohort.y)
    with pytest.raises(CohortError, match="cohort 'home' has no validation split to fit a recalibration on"):
        QUICK.plan(none, np.random.default_rng(0))
    with pytest.raises(CohortError, match="cannot be tested on"):
        Recalibration(split="validation").plan(cohort, np.random.default_rng(0))


def test_wrong_options_are_refused() -> None:
    cohort, _, _ = planted(100)
    with pytest.raises(ConfigError, match="name at least one method, each once"):
        Recalibration(methods=("slope", "slope")).plan(cohort, np.random.default_rng(0))
    with pytest.raises(ConfigError, match="the range must rise"):
        Recalibration(net_benefit=(0.4, 0.2)).plan(cohort, np.random.default_rng(0))
