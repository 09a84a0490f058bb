"""The operating audit against scikit-learn and slow plain Python."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import sparse
from sklearn import metrics as sk

from palpate.audits.operating import Operating
from palpate.audits.operating.measures import AlertSampling, Decided, flag_curve, measure_points
from palpate.audits.operating.points import AlertPoint
from palpate.cases.cohort import Cohort
from palpate.errors import CohortError, ConfigError
from palpate.results import ModelPredictions, Predictions
from tests.audits.operating.planted import QUICK, cases, find, run


def held_out(cohort, p):  # type: ignore[no-untyped-def]
    rows = cohort.rows(split="test")
    return cohort.y_true(rows)[:, 0].astype(bool), p[rows]


def test_every_number_of_a_fixed_threshold() -> None:
    cohort, p = cases()
    result = run(Operating(thresholds={"vendor": 0.3}, **QUICK), cohort, {"m": p})
    y, score = held_out(cohort, p)
    flag = score >= 0.3
    tn, fp, fn, tp = sk.confusion_matrix(y, flag).ravel()
    expected = {
        "threshold": 0.3,
        "sensitivity": tp / (tp + fn),
        "specificity": tn / (tn + fp),
        "ppv": tp / (tp + fp),
        "npv": tn / (tn + fn),
        "flag_rate": flag.mean(),
        "alerts_per_100": 100 * flag.mean(),
        "number_needed_to_evaluate": (tp + fp) / tp,
        "net_benefit": tp / len(y) - fp / len(y) * 0.3 / 0.7,
    }
    for metric, value in expected.items():
        row = find(result, metric, "vendor")
        assert row["value"] == pytest.approx(value), metric
        assert row["n"] == len(y)
        assert row["n_positive"] == y.sum()
        if metric != "threshold":
            assert row["low"] < value < row["high"], metric


def test_sampling_weights_of_the_cohort_weigh_every_rate_and_the_thresholds() -> None:
    cohort, p = cases()
    weight = np.random.default_rng(8).lognormal(0, 1, len(p))
    weighted = replace(cohort, cases=cohort.cases.with_columns(sampling_weight=pl.Series(weight)))
    result = run(Operating(thresholds={"vendor": 0.3}, **QUICK), weighted, {"m": p})
    rows = cohort.rows(split="test")
    (y, score), w = held_out(cohort, p), weight[rows]
    tn, fp, fn, tp = sk.confusion_matrix(y, score >= 0.3, sample_weight=w).ravel()
    expected = {
        "sensitivity": tp / (tp + fn),
        "specificity": tn / (tn + fp),
        "ppv": tp / (tp + fp),
        "flag_rate": (tp + fp) / w.sum(),
        "net_benefit": tp / w.sum() - fp / w.sum() * 0.3 / 0.7,
    }
    for metric, value in expected.items():
        row = find(result, metric, "vendor")
        assert row["value"] == pytest.approx(value), metric
        assert row["low"] < value < row["high"], metric
        assert row["n"] == len(y)


def test_intervals_in_other_units_are_those_of_the_rates() -> None:
    cohort, p = cases()
    result = run(Operating(thresholds={"vendor": 0.3}, **QUICK), cohort, {"m": p})
    flag, per_100 = find(result, "flag_rate", "vendor"), find(result, "alerts_per_100", "vendor")
    assert per_100["low"] == pytest.approx(100 * flag["low"])
    ppv, needed = find(result, "ppv", "vendor"), find(result, "number_needed_to_evaluate", "vendor")
    assert needed["low"] == pytest.approx(1 / ppv["high"])
    assert needed["high"] == pytest.approx(1 / ppv["low"])


def test_a_capacity_is_chosen_on_the_validation_split_without_looking_at_outcomes() -> None:
    cohort, p = cases()
    result = run(Operating(capacity={"flag": (0.05, 0.25)}, **QUICK), cohort, {"m": p})
    validation = np.sort(p[cohort.rows(split="validation")])[::-1]
    _, score = held_out(cohort, p)
    for share, name in ((0.05, "flag 5%"), (0.25, "flag 25%")):
        k = min(range(1, len(validation) + 1), key=lambda n: (abs(n / len(validation) - share), n))
        threshold = validation[k - 1]
        assert find(result, "threshold", name)["value"] == threshold
        assert find(result, "flag_rate", name)["value"] == pytest.approx((score >= threshold).mean())
    assert "flags 5% on the validation split" in str(result.provenance["points"])


def test_a_capacity_by_the_day_counts_the_cohorts_days() -> None:
    cohort, p = cases(800)  # five a day, in all splits together
    result = run(Operating(capacity={"per_day": 1}, **QUICK), cohort, {"m": p})
    same = run(Operating(capacity={"flag": 0.2}, **QUICK), cohort, {"m": p})
    assert find(result, "threshold", "1 a day")["value"] == find(same, "threshold", "flag 20%")["value"]
    row = find(result, "alerts_per_day", "1 a day")
    assert row["value"] == pytest.approx(5 * find(result, "flag_rate", "1 a day")["value"])


def test_a_capacity_by_the_day_counts_the_patients_that_weights_stand_for() -> None:
    """A case of weight 3 is three patients of that day: the same threshold and alerts a day as with copies."""
    cohort, p = cases(600)
    weight = np.random.default_rng(2).integers(1, 4, 600)
    weighted = replace(cohort, cases=cohort.cases.with_columns(sampling_weight=pl.Series(weight.astype(float))))
    again = np.repeat(np.arange(600), weight)
    copied = cohort.cases[again.tolist()].with_columns(
        case_id=pl.Series([f"c{k}" for k in range(len(again))]), patient_id=pl.Series([f"p{k}" for k in again])
    )
    copies = Cohort(copied, cohort.labels, sparse.csc_array(cohort.y.toarray()[again]))
    audit = Operating(capacity={"per_day": 2}, **QUICK)
    found, wanted = run(audit, weighted, {"m": p}), run(audit, copies, {"m": p[again]})
    for metric in ("threshold", "flag_rate", "alerts_per_day"):
        values = [find(each, metric, "2 a day")["value"] for each in (found, wanted)]
        assert values[0] == pytest.approx(values[1], abs=1e-12), metric


def test_weights_that_are_no_counts_of_patients_are_refused_for_a_capacity_by_the_day() -> None:
    cohort, _ = cases(300)
    weight = np.random.default_rng(2).uniform(0.2, 1.8, 300)
    weighted = replace(cohort, cases=cohort.cases.with_columns(sampling_weight=pl.Series(weight)))
    with pytest.raises(ConfigError, match="how many patients each case stands for, 1 or more, and the smallest is 0"):
        Operating(capacity={"per_day": 2}).plan(weighted, np.random.default_rng(0))
    Operating(capacity={"flag": 0.1}).plan(weighted, np.random.default_rng(0))


def test_more_a_day_than_there_are_is_no_limit() -> None:
    cohort, p = cases(300)
    result = run(Operating(capacity={"per_day": 20}, **QUICK), cohort, {"m": p})
    assert find(result, "flag_rate", "20 a day")["value"] == 1.0
    assert any("'20 a day' is no limit: the cohort has 5.0 patients a day" in f.sentence for f in result.findings)


def test_tied_scores_at_a_capacity_are_told() -> None:
    cohort, p = cases()
    result = run(Operating(capacity={"flag": 0.05}, **QUICK), cohort, {"coarse": np.round(p, 0) * 0.8 + 0.1})
    told = [f.sentence for f in result.findings if f.kind == "caveat" and "tied" in f.sentence]
    assert len(told) == 1
    assert "more than 5.0%" in told[0]


def test_the_own_threshold_is_the_models() -> None:
    cohort, p = cases()
    result = run(Operating(**QUICK), cohort, {"m": p}, own=0.4)
    assert find(result, "threshold", "own")["value"] == 0.4
    recall = run(Operating(threshold="recall", target_recall=0.9, **QUICK), cohort, {"m": p})
    rows = cohort.rows(split="validation")
    y = cohort.y_true(rows)[:, 0].astype(bool)
    assert (p[rows][y] >= find(recall, "threshold", "own")["value"]).mean() >= 0.9


def test_models_are_compared_on_the_same_resamples() -> None:
    cohort, p = cases()
    rng = np.random.default_rng(5)
    weak = np.clip(p + rng.normal(0, 0.35, len(p)), 0.001, 0.999)
    result = run(Operating(thresholds={"vendor": 0.3}, **QUICK), cohort, {"good": p, "weak": weak, "copy": p})
    for metric in ("sensitivity", "ppv", "flag_rate", "alerts_per_100", "number_needed_to_evaluate", "net_benefit"):
        row = find(result, metric, "vendor", model="weak", reference="good")
        levels = [find(result, metric, "vendor", model=name)["value"] for name in ("weak", "good")]
        assert row["value"] == pytest.approx(levels[0] - levels[1]), metric
        assert row["low"] <= row["value"] <= row["high"], metric
        assert row["significant"] is not None, metric
        same = find(result, metric, "vendor", model="copy", reference="good")
        assert same["value"] == pytest.approx(0, abs=1e-12)
        assert same["significant"] is False or same["p_value"] is None
    assert find(result, "net_benefit", "vendor", model="weak", reference="good")["pointwise_high"] < 0


def test_seeds_are_averaged() -> None:
    cohort, p = cases()
    other = np.clip(p * 0.9, 0, 1)
    seeds = {"m[1]": p, "m[2]": other}
    options = {"thresholds": {"vendor": 0.3}, **QUICK}
    result = run(Operating(**options), cohort, seeds, ensembles=dict.fromkeys(seeds, "m"))
    for metric in ("sensitivity", "net_benefit", "alerts_per_100"):
        whole = find(result, metric, "vendor", model="m")
        parts = [find(result, metric, "vendor", model=name)["value"] for name in seeds]
        assert whole["value"] == pytest.approx(np.mean(parts))
        assert whole["low"] < whole["value"] < whole["high"]


def test_weights_count_as_copies() -> None:
    cohort, p = cases(300, split=False)
    y = cohort.y_true(np.arange(300))
    weight = np.random.default_rng(3).integers(1, 4, 300).astype(float)
    point = AlertPoint("vendor", np.full((1, 1), 0.3), {"m": "given"})
    answers = Predictions({"m": ModelPredictions(("ill",), p[:, None], np.ones(300, bool))})
    decided = Decided(y, p[None, :, None], cohort.patients, weight)
    part = next(measure_points(decided, [point], ("ill",), answers, AlertSampling("patient", 100, 0)))[0]
    flag = p >= 0.3
    assert part.point[0, 0, 0] == pytest.approx(sk.recall_score(y[:, 0], flag, sample_weight=weight))
    assert part.point[0, 2, 0] == pytest.approx(sk.precision_score(y[:, 0], flag, sample_weight=weight))
    assert part.point[0, 4, 0] == pytest.approx(np.average(flag, weights=weight))


def test_curves_are_those_of_all_thresholds() -> None:
    rng = np.random.default_rng(0)
    y, score = (rng.random(200) < 0.4).astype(np.uint8), np.round(rng.random(200), 1)
    flagged, sensitivity, ppv = flag_curve(y, score, np.ones(200))
    slow = {}
    for t in np.unique(score):
        flag = score >= t
        slow[round(float(flag.mean()), 9)] = (sk.recall_score(y, flag), sk.precision_score(y, flag))
    for share, recall, precision in zip(flagged, sensitivity, ppv, strict=True):
        assert slow[round(float(share), 9)] == pytest.approx((recall, precision))


def test_requirements_are_questions_and_nothing_else_is() -> None:
    cohort, p = cases(3000)
    assert run(Operating(thresholds={"vendor": 0.3}, **QUICK), cohort, {"m": p}).answers == ()
    required = {"sensitivity": 0.5, "alerts_per_100": 10.0}
    result = run(Operating(thresholds={"vendor": 0.3}, required=required, **QUICK), cohort, {"m": p})
    verdicts = {answer.question: answer for answer in result.answers}
    assert verdicts["sensitivity"].verdict == "acceptable"
    assert verdicts["alerts_per_100"].verdict == "concern"
    assert verdicts["alerts_per_100"].margin == 10.0
    assert verdicts["sensitivity"].asks == "Does it find at least 50% of the patients with the outcome?"
    told = [f.sentence for f in result.findings if f.question == "alerts_per_100"]
    assert told[0].startswith("The number of alerts per 100 of m at 'vendor' is not at most 10")


def test_requirements_are_asked_at_the_points_that_are_named() -> None:
    cohort, p = cases(2000)
    audit = Operating(
        thresholds={"low": 0.1, "high": 0.9}, required={"sensitivity": 0.6}, required_at=("low",), **QUICK
    )
    assert run(audit, cohort, {"m": p}).answers[0].verdict == "acceptable"
    everywhere = Operating(thresholds={"low": 0.1, "high": 0.9}, required={"sensitivity": 0.6}, **QUICK)
    answer = run(everywhere, cohort, {"m": p}).answers[0]
    assert answer.verdict == "concern"
    assert answer.label == "at 'high'"


def test_a_threshold_that_flags_nobody_has_reasons() -> None:
    cohort, p = cases()
    result = run(Operating(thresholds={"never": 1.0}, **QUICK), cohort, {"m": np.minimum(p, 0.99)})
    assert find(result, "sensitivity", "never")["value"] == 0.0
    for metric in ("ppv", "number_needed_to_evaluate", "net_benefit"):
        row = find(result, metric, "never")
        assert row["value"] is None
        assert row["reason"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"thresholds": {"vendor": 1.3}}, "option 'thresholds': 'vendor' is 1.3, and a threshold lies between 0 and 1"),
        ({"thresholds": {"vendor": -0.1}}, "'vendor' is -0.1"),
        ({"thresholds": {"own": 0.3}}, "two operating points are named 'own'"),
        ({"capacity": {"per_day": (3, 3)}}, "option 'capacity': two operating points are named '3 a day'; give each"),
        ({"thresholds": {"a=b": 0.3}}, "'a=b' cannot be the name of a threshold"),
        ({"capacity": {"flag": 5}}, "`flag` is 5, and a share lies between 0 and 1; write 0.05 for 5%"),
        ({"capacity": {"per_day": 0}}, "`per_day` is 0, and must be above 0"),
        ({"required": {"sensibility": 0.8}}, "'sensibility' cannot be required; did you mean `sensitivity`?"),
        ({"required": {"ppv": 0.1}, "required_at": ("vendro",)}, "there is no point 'vendro'"),
    ],
)
def test_options_that_cannot_be_meant(options: dict, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        Operating(**options).check_options()
    assert said in str(error.value)


def test_a_capacity_by_the_day_needs_times() -> None:
    cohort, _ = cases()
    bare = type(cohort).from_frame(
        cohort.cases.drop("cohort", "time").with_columns(pl.lit(1).alias("ill")), labels=["ill"]
    )
    with pytest.raises(ConfigError, match="`per_day` needs the cohort's `time:`"):
        Operating(capacity={"per_day": 20}).plan(bare, np.random.default_rng(0))


def test_an_unknown_split_is_one_sentence() -> None:
    cohort, _ = cases()
    with pytest.raises(CohortError, match="no case in split 'train'"):
        Operating(split="train").plan(cohort, np.random.default_rng(0))


def test_the_same_seed_gives_the_same_numbers() -> None:
    cohort, p = cases(300)
    first, second = (run(Operating(**QUICK), cohort, {"m": p}).estimates for _ in range(2))
    assert first.equals(second)


def test_a_shift_since_the_validation_split_is_told_and_chance_is_not() -> None:
    audit = Operating(capacity={"flag": 0.2}, **QUICK)
    told = 0
    for seed in range(12):
        cohort, p = cases(600, seed=seed)
        told += any("have shifted" in f.sentence for f in run(audit, cohort, {"m": p}).findings)
    assert told <= 1
    cohort, p = cases(2000)
    later = np.where(cohort.cases["split"] == "test", np.minimum(p * 1.5, 1), p)
    sentences = [f.sentence for f in run(audit, cohort, {"m": later}).findings if "have shifted" in f.sentence]
    assert len(sentences) == 1
    assert "more than the 20% that the threshold was chosen for" in sentences[0]
