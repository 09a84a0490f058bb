"""The subgroups audit against scikit-learn group by group, and on planted truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from sklearn import metrics as sk

from palpate.audits.subgroups import Subgroups
from palpate.audits.subgroups.estimates import AS_QUESTIONS
from palpate.audits.subgroups.measures import METRICS
from palpate.cases.cohort import Cohort
from palpate.results import AuditResult, Chart, Table
from palpate.stats import adaptive_calibration_error
from palpate.testing import check_declared
from tests.audits.subgroups.planted import find, planted, run

QUICK = {"n_replicates": 200, "threshold": 0.4}


@pytest.fixture(scope="module")
def result() -> AuditResult:
    cohort, p = planted(worse=0.3)
    audit = Subgroups(by=("gender", "race", "age", ("gender", "race")), **QUICK)
    found = run(audit, cohort, {"m": p, "same": p})
    check_declared(audit, found)
    return found


def test_every_metric_of_a_group_is_scikit_learns(result: AuditResult) -> None:
    cohort, p = planted(worse=0.3)
    both = (cohort.cases["gender"] == "f") & (cohort.cases["race"] == "b").fill_null(False)
    for group, rows in {"all": None, "race=b": cohort.cases["race"] == "b", "gender=f, race=b": both}.items():
        mask = np.ones(len(p), bool) if rows is None else rows.fill_null(False).to_numpy()
        y, score = cohort.y.toarray()[mask, 0], p[mask]
        flagged = score >= 0.4
        tn, fp, fn, tp = sk.confusion_matrix(y, flagged).ravel()
        expected = {
            "auroc": sk.roc_auc_score(y, score),
            "auprc": sk.average_precision_score(y, score),
            "sensitivity": tp / (tp + fn),
            "specificity": tn / (tn + fp),
            "ppv": tp / (tp + fp),
            "npv": tn / (tn + fn),
            "flag_rate": flagged.mean(),
            "brier": sk.brier_score_loss(y, score),
            "oe_ratio": y.sum() / score.sum(),
            "calibration_in_the_large": y.mean() - score.mean(),
            "adaptive_calibration_error": adaptive_calibration_error(y, score),
            "prevalence": y.mean(),
            "mean_score": score.mean(),
        }
        assert set(expected) == set(METRICS)
        for metric, value in expected.items():
            row = find(result, metric, group, model="m")
            assert row["value"] == pytest.approx(value, abs=1e-12), metric
            assert row["low"] <= row["value"] <= row["high"], metric
            assert (row["n"], row["n_positive"]) == (mask.sum(), y.sum())
        patients = cohort.cases["patient_id"].filter(pl.Series(mask)).n_unique()
        assert find(result, "patients", group, model="m")["value"] == patients


def test_a_planted_difference_is_found_and_judged(result: AuditResult) -> None:
    row = find(result, "auroc", "race=b", reference="all others", model="m")
    level = find(result, "auroc", "race=b", model="m")["value"]
    assert row["value"] < -0.1
    assert row["significant"]
    assert row["high"] < 0
    cohort, p = planted(worse=0.3)
    others = ~(cohort.cases["race"] == "b").fill_null(False).to_numpy()
    rest = sk.roc_auc_score(cohort.y.toarray()[others, 0], p[others])
    assert row["value"] == pytest.approx(level - rest)
    worse = next(answer for answer in result.answers if (answer.question, answer.model) == ("worse", "m"))
    assert worse.verdict == "concern"
    assert worse.label is not None
    assert "race=b" in worse.label
    assert any("race=b" in finding.sentence and finding.kind == "concern" for finding in result.findings)


def test_the_largest_gap_is_smaller_than_it_seems_and_its_interval_holds_it(result: AuditResult) -> None:
    for by in ("gender", "race", "age", "gender × race"):
        gap = find(result, "auroc_gap", by, model="m")
        seen = find(result, "auroc_gap_seen", by, model="m")["value"]
        assert 0 <= gap["low"] <= gap["value"] <= seen <= gap["high"]
    assert find(result, "auroc_gap", "gender", model="m")["low"] == 0
    assert find(result, "auroc_gap", "race", model="m")["low"] > 0.03


def test_two_groups_are_one_comparison_seen_from_both_sides(result: AuditResult) -> None:
    one, other = (find(result, "auroc", f"gender={g}", reference="all others", model="m") for g in "fm")
    assert (one["value"], one["low"], one["high"]) == (-other["value"], -other["high"], -other["low"])
    assert one["p_value"] == other["p_value"]
    groups = 1 + 4 + 4 + 8  # genders count once; races and their intersections include missing ones
    beside = find(result, "brier", "gender=f", reference="all others", model="m")
    assert beside["n_family"] <= 2 * groups
    assert one["n_family"] <= 2 * groups * AS_QUESTIONS, "AUROC shares the level with the other questions"
    assert one["n_family"] > 2 * groups - 8


def test_equal_models_do_not_differ_in_any_group(result: AuditResult) -> None:
    rows = result.estimates.filter(reference="m")
    assert rows.height
    assert (rows["value"].drop_nulls().abs() == 0).all()
    assert not rows["significant"].any()


def test_missing_values_are_a_group_and_small_groups_stay_with_their_reason(result: AuditResult) -> None:
    assert find(result, "patients", "race=missing", model="m")["value"] > 0
    few = result.estimates.filter(
        pl.col("reason").str.starts_with("not enough"), pl.col("reference").is_null(), metric="auroc", model="m"
    )
    assert few.height
    assert few["value"].is_null().all()
    assert (few["n"] > 0).all()
    table = next(block for block in result.blocks if block.title == "Every group")
    assert isinstance(table, Table)
    assert sum("not enough" in str(row[-1]) for row in table.rows) == 2 * few.height
    assert any(finding.kind == "caveat" and few["group"][0] in finding.sentence for finding in result.findings)


def test_the_section_has_forest_charts_and_tables(result: AuditResult) -> None:
    charts = [block for block in result.blocks if isinstance(block, Chart)]
    assert [chart.kind for chart in charts] == ["forest", "forest", "line"]
    assert {row["group"] for row in charts[0].data} >= {"gender=f", "race=b"}
    drawn = {row["group"] for row in charts[2].data}
    assert {"gender=f", "race=b", "age=missing"} & drawn == {"gender=f", "race=b"}
    titles = [block.title for block in result.blocks]
    assert "The largest gap" in titles
    assert "Fairness summaries" in titles


def test_captions_say_what_is_corrected_together(result: AuditResult) -> None:
    cohort, p = planted(worse=0.3)
    whole = run(Subgroups(by=("gender",), family="run", **QUICK), cohort, {"m": p, "same": p})
    for title in ("Each group against", "Models compared within groups"):
        by_question, as_one = (
            next(block.caption for block in each.blocks if block.title.startswith(title)) for each in (result, whole)
        )
        assert "over all comparisons of this audit." in as_one
        assert "of a metric" not in as_one
        assert "labels of a metric" in by_question
    tested = whole.estimates.filter(pl.col("n_family").is_not_null(), pl.col("reference").is_not_null())
    assert tested["n_family"].n_unique() == 1


def test_a_reference_group_is_what_the_others_are_compared_with() -> None:
    cohort, p = planted(worse=0.3)
    result = run(Subgroups(by=("race", "gender"), reference=("race=a",), **QUICK), cohort, {"m": p})
    row = find(result, "auroc", "race=b", reference="race=a")
    levels = [find(result, "auroc", f"race={g}")["value"] for g in "ba"]
    assert row["value"] == pytest.approx(levels[0] - levels[1])
    assert result.estimates.filter(group="race=a", metric="auroc").filter(pl.col("reference").is_not_null()).height == 0
    assert find(result, "auroc", "gender=f", reference="all others")["value"] is not None


def test_one_class_in_a_group_is_a_row_with_its_reason() -> None:
    cohort, p = planted()
    y = cohort.y.toarray()[:, 0] * ~(cohort.cases["race"] == "c").fill_null(False).to_numpy()
    frame = cohort.cases.drop("cohort").with_columns(pl.Series("ill", y))
    cohort = Cohort.from_frame(frame, labels=["ill"], attributes=["race"])
    result = run(Subgroups(by=("race",), **QUICK), cohort, {"m": p})
    row = find(result, "auroc", "race=c")
    assert row["value"] is None
    assert row["reason"] == "not enough: 0 cases with 'ill', at least 5 are needed"
    assert find(result, "auroc", "race=c", reference="all others")["reason"] == row["reason"]


def test_an_attribute_with_one_group_has_no_comparison() -> None:
    cohort, p = planted(200)
    frame = cohort.cases.drop("cohort").with_columns(
        pl.lit("here").alias("site"), pl.Series("ill", cohort.y.toarray()[:, 0])
    )
    cohort = Cohort.from_frame(frame, labels=["ill"], attributes=["site"])
    result = run(Subgroups(**QUICK), cohort, {"m": p})
    assert find(result, "auroc_gap", "site")["reason"] == "fewer than two groups with enough patients"
    compared = [answer for answer in result.answers if answer.question != "risks"]
    assert {(each.verdict, each.reason) for each in compared} == {
        ("unsettled", "there is no second group with enough patients to compare with")
    }


@pytest.mark.parametrize(
    ("scores", "why"),
    [(np.full(400, 0.2), "m gives every case the same score"), (np.arange(400) % 2 * 1.0, "m gives only 0 and 1")],
    ids=["constant", "decisions"],
)
def test_scores_that_are_no_probabilities_are_not_acceptable(scores: np.ndarray, why: str) -> None:
    cohort, _ = planted(400)
    result = run(Subgroups(by=("gender",), **QUICK), cohort, {"m": scores})
    told = {answer.question: answer for answer in result.answers}
    assert (told["worse"].verdict, told["worse"].reason) == ("unsettled", why)
    assert (told["missed"].verdict, told["missed"].reason) == ("unsettled", why)
    assert any(why in finding.sentence for finding in result.findings)


def test_seeds_of_a_model_are_one_model() -> None:
    cohort, p = planted(400)
    scores = {"m[1]": p, "m[2]": np.clip(p + 0.01, 0, 1)}
    result = run(Subgroups(by=("gender",), **QUICK), cohort, scores)
    mean = np.mean([find(result, "brier", "gender=f", model=name)["value"] for name in scores])
    assert find(result, "brier", "gender=f", model="m")["value"] == pytest.approx(mean)
    assert {answer.model for answer in result.answers} == {"m"}


def test_several_labels_are_audited_one_by_one() -> None:
    cohort, p = planted(400)
    other = (np.arange(400) % 3 == 0).astype(int)
    frame = cohort.cases.drop("cohort").with_columns(
        pl.Series("ill", cohort.y.toarray()[:, 0]), pl.Series("other", other)
    )
    cohort = Cohort.from_frame(frame, labels=["ill", "other"], attributes=["gender"])
    result = run(Subgroups(by=("gender",), **QUICK), cohort, {"m": np.stack([p, p], axis=1)})
    mask = (cohort.cases["gender"] == "f").to_numpy()
    row = find(result, "auroc", "gender=f", label="other")
    assert row["value"] == pytest.approx(sk.roc_auc_score(other[mask], p[mask]))


def test_the_same_seed_gives_the_same_numbers() -> None:
    cohort, p = planted(300)
    first, second = (run(Subgroups(by=("gender",), **QUICK), cohort, {"m": p}).estimates for _ in range(2))
    assert first.equals(second)


def test_differences_between_models_are_paired_on_the_same_patients() -> None:
    """A model and nearly the same model: how much more one falls behind in a group is known far better than by how
    much each does."""
    cohort, p = planted(worse=0.3)
    nearly = 1 / (1 + np.exp(-(np.log(p / (1 - p)) + 0.1 * np.random.default_rng(2).normal(size=len(p)))))
    audit = Subgroups(by=("race",), n_replicates=300, threshold=0.3)
    result = run(audit, cohort, {"m": p, "nearly": nearly})
    own = find(result, "auroc", "race=b", reference="all others", model="m")
    between = find(result, "auroc_difference", "race=b", reference="m", model="nearly")
    level = find(result, "auroc", "race=b", reference="m", model="nearly")
    width = own["pointwise_high"] - own["pointwise_low"]
    assert 0 < between["pointwise_high"] - between["pointwise_low"] < width / 3
    assert 0 < level["pointwise_high"] - level["pointwise_low"] < width / 3


def test_the_core_set_of_a_group_is_that_of_other_packages() -> None:
    """Slope and intercept by an unpenalised logistic regression, net benefit by counting; of the group's cases only."""
    sm = pytest.importorskip("statsmodels.api", reason="statsmodels is not installed")
    cohort, p = planted(2400)
    result = run(Subgroups(by=("gender",), n_replicates=200, threshold=0.3), cohort, {"m": p, "half": p / 2})
    y = cohort.y.toarray().ravel()
    for model, risk in (("m", p), ("half", p / 2)):
        for value in ("f", "m"):
            rows = (cohort.cases["gender"] == value).to_numpy()
            logit = np.log(risk[rows] / (1 - risk[rows]))
            fit = sm.Logit(y[rows], sm.add_constant(logit)).fit(disp=0)
            alone = sm.GLM(y[rows], np.ones(rows.sum()), family=sm.families.Binomial(), offset=logit).fit()
            flagged = risk[rows] >= 0.3
            hits, false = (flagged & (y[rows] == 1)).mean(), (flagged & (y[rows] == 0)).mean()
            group = {"group": f"gender={value}", "model": model}
            assert find(result, "calibration_slope", **group)["value"] == pytest.approx(fit.params[1], abs=1e-6)
            assert find(result, "calibration_intercept", **group)["value"] == pytest.approx(alone.params[0], abs=1e-6)
            benefit = find(result, "net_benefit", **group)
            assert benefit["value"] == pytest.approx(hits - false * 0.3 / 0.7)
            assert benefit["low"] < benefit["value"] < benefit["high"]
    first, second = (find(result, "calibration_intercept", f"gender={each}", model="half") for each in "fm")
    apart = find(result, "calibration_intercept", "gender=f", model="half", reference="all others")
    assert apart["value"] == pytest.approx(first["value"] - second["value"])
    between = find(result, "net_benefit", "gender=f", model="half", reference="m")
    assert between["pointwise_low"] <= between["value"] <= between["pointwise_high"]
    for metric in ("ici", "e50", "e90", "emax"):
        assert find(result, metric, "gender=f", model="m")["value"] is not None
    assert "calibration_slope" in Subgroups.metrics
    assert "Calibration slope" in [column.name for column in result.blocks[1].columns]  # type: ignore[union-attr]


def test_the_core_set_of_a_group_is_compared_with_all_others() -> None:
    """Of three groups: the slope of the others is that of one regression over them."""
    sm = pytest.importorskip("statsmodels.api", reason="statsmodels is not installed")
    cohort, p = planted(2400)
    third = np.arange(len(cohort)) % 3
    named = replace(
        cohort, cases=cohort.cases.with_columns(pl.Series("ward", [f"w{k}" for k in third])), attributes=("ward",)
    )
    result = run(Subgroups(n_replicates=200, threshold=0.3), named, {"m": p})
    y, logit = cohort.y.toarray().ravel(), np.log(p / (1 - p))
    slopes = [
        sm.Logit(y[rows], sm.add_constant(logit[rows])).fit(disp=0).params[1] for rows in (third == 0, third != 0)
    ]
    found = find(result, "calibration_slope", "ward=w0", model="m", reference="all others")
    assert found["value"] == pytest.approx(slopes[0] - slopes[1], abs=1e-6)
    assert found["low"] < found["value"] < found["high"]
    assert find(result, "net_benefit", "ward=w0", model="m", reference="all others")["value"] is not None


def test_groups_that_differ_in_their_spelling_only_are_named() -> None:
    cohort, p = planted()
    gender = cohort.cases["gender"].to_list()
    typed = [("F " if k % 7 == 0 else "F") if each == "f" else each for k, each in enumerate(gender)]
    mixed = replace(
        cohort,
        cases=cohort.cases.with_columns(
            gender=pl.Series([w.lower() if k % 5 == 0 else w for k, w in enumerate(typed)])
        ),
    )
    told = [f.sentence for f in run(Subgroups(by=("gender",), n_replicates=100), mixed, {"m": p}).findings]
    assert sum("differ in capital letters or blanks only" in each for each in told) == 1
    crossed = Subgroups(by=(("gender", "race"), "gender"), n_replicates=100)
    told = [f.sentence for f in run(crossed, mixed, {"m": p}).findings if "capital letters" in f.sentence]
    assert len(told) == 1, "not once more for each intersection"
    assert ", race=" not in told[0]
    plain = [f.sentence for f in run(Subgroups(by=("gender",), n_replicates=100), cohort, {"m": p}).findings]
    assert not any("capital letters" in each for each in plain)
