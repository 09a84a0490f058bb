"""The performance audit against scikit-learn, and on planted truth."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import sparse
from sklearn import metrics as sk

from palpate.audits.performance import Performance
from palpate.cases.cohort import Cohort, stack
from palpate.errors import CohortError, ConfigError
from palpate.results import AuditResult, Chart, ModelPredictions, Predictions, Table
from tests.conftest import notes_frame


def simulated(
    n: int = 600, *, n_labels: int = 1, seed: int = 0, name: str = "home", split: bool = True, shift: float = 1.5
) -> tuple[Cohort, np.ndarray]:
    """A cohort without text, and scores that tell its labels apart; two cases a patient."""
    rng = np.random.default_rng(seed)
    y = (rng.random((n, n_labels)) < np.linspace(0.3, 0.1, n_labels)).astype(np.uint8)
    latent = rng.normal(size=(n, n_labels)) + shift * y
    frame = pl.DataFrame({"case_id": [f"{name}{k}" for k in range(n)], "patient_id": [f"p{k // 2}" for k in range(n)]})
    if split:
        frame = frame.with_columns(pl.Series("split", np.where(np.arange(n) < n // 3, "validation", "test")))
    cases = frame.with_columns(pl.lit(name).alias("cohort"))
    labels = tuple(f"label{k}" for k in range(n_labels))
    return Cohort(cases, labels, sparse.csc_array(y)), 1 / (1 + np.exp(1.0 - latent))


def run(audit: Performance, cohort: Cohort, scores: dict[str, np.ndarray], **more: object) -> AuditResult:
    plan = audit.plan(cohort, np.random.default_rng(0))
    rows = plan.variants.parent
    answers = {
        name: ModelPredictions(cohort.labels, p[rows], np.ones(len(rows), bool), **more.get(name, {}))  # type: ignore[call-overload]
        for name, p in scores.items()
    }
    return audit.analyse(plan, Predictions(answers), np.random.default_rng(1))


def value(result: AuditResult, metric: str, **where: str | None) -> dict[str, object]:
    rows = result.estimates.filter(pl.col("metric") == metric)
    where = {"reference": None, **where}
    for column, wanted in where.items():
        rows = rows.filter(pl.col(column).is_null() if wanted is None else pl.col(column) == wanted)
    assert rows.height == 1, rows
    return rows.row(0, named=True)


QUICK = Performance(n_replicates=200)


def test_values_are_scikit_learns_on_the_test_split() -> None:
    cohort, p = simulated()
    row = slice(200, 600)
    y, score = cohort.y.toarray()[row, 0], p[row, 0]
    result = run(Performance(n_replicates=200, threshold=0.4), cohort, {"m": p})
    decided = score >= 0.4
    expected = {
        "auroc": sk.roc_auc_score(y, score),
        "auprc": sk.average_precision_score(y, score),
        "brier": sk.brier_score_loss(y, score),
        "brier_skill_score": 1 - sk.brier_score_loss(y, score) / (y.mean() * (1 - y.mean())),
        "sensitivity": sk.recall_score(y, decided),
        "specificity": sk.recall_score(y, decided, pos_label=0),
        "ppv": sk.precision_score(y, decided),
        "npv": sk.precision_score(y, decided, pos_label=0),
        "f1_1": sk.f1_score(y, decided),
        "f1_0": sk.f1_score(y, decided, pos_label=0),
        "recall_0": sk.recall_score(y, decided, pos_label=0),
        "precision_1": sk.precision_score(y, decided),
    }
    for metric, wanted in expected.items():
        found = value(result, metric, model="m")
        assert found["value"] == pytest.approx(wanted, abs=1e-12), metric
        assert found["n"] == 400
        assert found["low"] < found["value"] < found["high"]  # type: ignore[operator]


def test_macro_and_micro() -> None:
    cohort, p = simulated(n_labels=4)
    result = run(QUICK, cohort, {"m": p})
    y, score = cohort.y.toarray()[200:], p[200:]
    each = [sk.roc_auc_score(y[:, k], score[:, k]) for k in range(4)]
    assert value(result, "auroc", label="macro")["value"] == pytest.approx(np.mean(each), abs=1e-12)
    assert value(result, "auroc", label="micro")["value"] == pytest.approx(
        sk.roc_auc_score(y.ravel(), score.ravel()), abs=1e-12
    )
    assert value(result, "auprc", label="micro")["n"] == 1600


def test_micro_decisions_use_each_labels_own_threshold() -> None:
    cohort, p = simulated(n_labels=3)
    result = run(Performance(n_replicates=200, threshold="youden"), cohort, {"m": p})
    from palpate.stats import youden_threshold

    y = cohort.y.toarray()
    threshold = [youden_threshold(y[:200, k], p[:200, k]) for k in range(3)]
    decided = p[200:] >= threshold
    assert value(result, "f1_1", label="micro")["value"] == pytest.approx(
        sk.f1_score(y[200:].ravel(), decided.ravel()), abs=1e-12
    )


def test_threshold_reaches_the_recall_on_the_validation_split() -> None:
    cohort, p = simulated()
    result = run(Performance(n_replicates=200, threshold="recall", target_recall=0.7), cohort, {"m": p})
    y, score = cohort.y.toarray()[:200, 0], p[:200, 0]
    told = next(block for block in result.blocks if block.title == "Decisions at the threshold")
    threshold = told.rows[0][2]  # type: ignore[union-attr]
    assert sk.recall_score(y, score >= threshold) >= 0.7
    assert sk.recall_score(y, score > threshold) < 0.7
    assert "70% recall on the validation split" in str(told.rows[0][3])  # type: ignore[union-attr]


def test_the_models_own_threshold_goes_first() -> None:
    cohort, p = simulated()
    result = run(QUICK, cohort, {"m": p}, m={"threshold": 0.9})
    y, score = cohort.y.toarray()[200:, 0], p[200:, 0]
    assert value(result, "sensitivity")["value"] == pytest.approx(sk.recall_score(y, score >= 0.9), abs=1e-12)


def test_two_models_are_compared_as_paired() -> None:
    cohort, p = simulated(n=1200)
    rng = np.random.default_rng(5)
    near = np.clip(p + rng.normal(scale=1e-3, size=p.shape), 0, 1)
    noise = rng.random(p.shape)
    result = run(Performance(n_replicates=500), cohort, {"good": p, "near": near, "noise": noise})
    same = value(result, "auroc", model="near", reference="good")
    worse = value(result, "auroc", model="noise", reference="good")
    width = same["high"] - same["low"]  # type: ignore[operator]
    alone = value(result, "auroc", model="good")
    assert width < 0.2 * (alone["high"] - alone["low"])  # type: ignore[operator]
    assert worse["significant"] is True
    assert worse["high"] < 0  # type: ignore[operator]
    assert "noise has a lower AUROC than good" in " ".join(f.sentence for f in result.findings)


def test_identical_models_do_not_differ() -> None:
    cohort, p = simulated()
    row = value(run(QUICK, cohort, {"a": p, "b": p.copy()}), "auroc", model="b", reference="a")
    assert (row["value"], row["low"], row["high"], row["p_value"], row["significant"]) == (0.0, 0.0, 0.0, 1.0, False)


def test_the_drop_between_cohorts() -> None:
    home, p_home = simulated(n=900, seed=1, name="home")
    away, p_away = simulated(n=900, seed=2, name="away", split=False, shift=0.0)
    both = stack([home, away])
    result = run(Performance(n_replicates=500), both, {"m": np.concatenate([p_home, p_away])})
    drop = value(result, "auroc", group="away", reference="home")
    levels = [value(result, "auroc", group=name)["value"] for name in ("away", "home")]
    assert drop["value"] == pytest.approx(levels[0] - levels[1])  # type: ignore[operator]
    assert drop["significant"] is True
    assert value(result, "auroc", group="away")["n"] == 900
    assert any("loses" in f.sentence and f.kind == "concern" and f.question == "travel" for f in result.findings)


def test_differences_are_listed_with_the_largest_loss_first() -> None:
    home, p_home = simulated(n=600, seed=1, name="home")
    away, p_away = simulated(n=600, seed=2, name="away", split=False, shift=0.0)
    rng = np.random.default_rng(5)
    both, p = stack([home, away]), np.concatenate([p_home, p_away])
    models = {"noise": rng.random(p.shape), "good": p, "fair": np.clip(p + rng.normal(scale=0.3, size=p.shape), 0, 1)}
    blocks = {block.title: block for block in run(QUICK, both, models).blocks}

    def differences(title: str, metric: str) -> list[float]:
        block = blocks[title]
        assert isinstance(block, Table)
        names = [column.name for column in block.columns]
        return [row[names.index("Difference")][0] for row in block.rows if row[names.index("Metric")] == metric]  # type: ignore[index, misc]

    pairs = [abs(value) for value in differences("Every pair of models", "AUROC")]
    assert pairs == sorted(pairs, reverse=True)
    assert "the largest difference first" in blocks["Every pair of models"].caption
    assert differences("Other cohorts against home", "AUROC") == sorted(
        differences("Other cohorts against home", "AUROC")
    )
    errors = differences("Other cohorts against home", "Brier score")
    assert errors == sorted(errors, reverse=True)
    drawn = blocks["Change of AUROC outside home"]
    assert isinstance(drawn, Chart)
    assert [row["value"] for row in drawn.data] == sorted(row["value"] for row in drawn.data)
    assert drawn.data[0]["model"] != "noise"


def test_checkpoints_are_one_model_with_mean_and_sd() -> None:
    cohort, p = simulated()
    rng = np.random.default_rng(3)
    seeds = {f"xgb[{k}]": np.clip(p + rng.normal(scale=0.1, size=p.shape), 0, 1) for k in (1, 2, 3)}
    result = run(QUICK, cohort, {"solo": p, **seeds}, **{name: {"ensemble": "xgb"} for name in seeds})
    each = [value(result, "auroc", model=name)["value"] for name in seeds]
    assert value(result, "auroc", model="xgb")["value"] == pytest.approx(np.mean(each))  # type: ignore[arg-type]
    assert value(result, "auroc_sd", model="xgb")["value"] == pytest.approx(np.std(each, ddof=1))  # type: ignore[arg-type]
    assert value(result, "auroc", model="xgb", reference="solo")["low"] is not None
    assert result.estimates.filter(pl.col("reference") == "xgb[1]").is_empty()


def test_the_interval_of_a_calibration_error_holds_the_truth_and_the_estimate() -> None:
    rng = np.random.default_rng(3)
    cohort, _ = simulated(900, n_labels=4)
    p = rng.uniform(0.1, 0.6, (900, 4))
    y = (rng.random(p.shape) < p).astype(np.uint8)
    calibrated = Cohort(cohort.cases, cohort.labels, sparse.csc_array(y))
    scores = {"a-1": p, "a-2": np.clip(p + rng.normal(0, 1e-3, p.shape), 0, 1), "off": p + 0.3}
    result = run(QUICK, calibrated, scores, **{"a-1": {"ensemble": "a"}, "a-2": {"ensemble": "a"}})
    rows = result.estimates.filter(pl.col("reference").is_null(), metric="adaptive_calibration_error")
    assert set(rows["label"]) == {*cohort.labels, "macro", "micro"}
    assert set(rows["model"]) == {"a-1", "a-2", "a", "off"}
    assert ((rows["low"] <= rows["value"]) & (rows["value"] <= rows["high"])).all()
    off = pl.col("model") == "off"
    assert (rows.filter(~off)["low"] == 0).all(), "a calibrated model's true error is 0"
    assert rows.filter(off)["low"].min() > 0.2  # type: ignore[operator]
    assert not result.estimates["metric"].str.contains("noise").any()


def test_a_label_without_positives_is_null_with_its_reason() -> None:
    cohort, p = simulated(n_labels=2)
    y = cohort.y.toarray()
    y[200:, 1] = 0
    broken = Cohort(cohort.cases, cohort.labels, sparse.csc_array(y))
    result = run(QUICK, broken, {"a": p, "b": p})
    row = value(result, "auroc", model="a", label="label1")
    assert (row["value"], row["low"], row["reason"]) == (None, None, "no positive case")
    assert value(result, "auroc", model="b", label="label1", reference="a")["reason"] == "no positive case"
    assert value(result, "auroc", model="a", label="macro")["value"] is not None


def test_many_labels_get_intervals_for_the_most_frequent_only() -> None:
    cohort, p = simulated(n_labels=30)
    result = run(Performance(n_replicates=100, labels_with_intervals=5), cohort, {"m": p})
    rows = result.estimates.filter(pl.col("metric") == "auroc", ~pl.col("label").is_in(["macro", "micro"]))
    assert rows.height == 30
    assert rows["low"].is_not_null().sum() == 5
    why = rows.filter(pl.col("low").is_null())["reason"].unique().to_list()
    assert why == ["no interval: not among the 5 most frequent labels"]
    assert value(result, "auroc", label="macro")["low"] is not None


def test_the_same_seed_gives_the_same_table() -> None:
    cohort, p = simulated()
    one, two = run(QUICK, cohort, {"m": p}), run(QUICK, cohort, {"m": p})
    assert one.estimates.equals(two.estimates)
    assert one.blocks == two.blocks


def test_unknown_label_and_empty_split() -> None:
    cohort, _ = simulated()
    with pytest.raises(ConfigError, match="no label 'x'"):
        Performance(labels=("x",)).plan(cohort, np.random.default_rng(0))
    with pytest.raises(CohortError, match="has no case in split 'train'"):
        Performance(split="train").plan(cohort, np.random.default_rng(0))
    plain = Cohort.from_frame(notes_frame().drop("split"), labels=["ill"])
    with pytest.raises(CohortError, match="no validation split"):
        Performance(threshold="recall").plan(plain, np.random.default_rng(0))


def noise(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random(shape)


def test_a_plain_difference_stays_significant_among_hundreds_of_comparisons() -> None:
    cohort, p = simulated(n=600, n_labels=13, shift=4.0)
    models = {"good": p, **{f"noise{k}": noise(p.shape, k) for k in range(6)}}
    result = run(QUICK, cohort, models)
    rows = result.estimates.filter(pl.col("metric") == "auroc", pl.col("reference") == "good")
    assert rows.height == 6 * 15
    assert rows["significant"].all()


def test_the_drop_of_the_macro_average_compares_the_same_labels() -> None:
    home, p_home = simulated(n=900, n_labels=2, seed=1, name="home")
    away, p_away = simulated(n=900, n_labels=2, seed=2, name="away", split=False)
    y = away.y.toarray()
    y[:, 1] = 0
    p_home[:, 1] = home.y.toarray()[:, 1]
    both = stack([home, Cohort(away.cases, away.labels, sparse.csc_array(y))])
    result = run(QUICK, both, {"m": np.concatenate([p_home, p_away])})
    drop = value(result, "auroc", label="macro", group="away", reference="home")
    alone = value(result, "auroc", label="label0", group="away", reference="home")
    assert drop["value"] == pytest.approx(alone["value"])
    assert not any("over 2 labels" in finding.sentence for finding in result.findings)


def test_macro_intervals_hold_their_estimate_when_many_labels_are_rare() -> None:
    rng = np.random.default_rng(0)
    n, n_labels = 400, 60
    y = (rng.random((n, n_labels)) < np.geomspace(0.3, 0.003, n_labels)).astype(np.uint8)
    p = 1 / (1 + np.exp(2.0 - rng.normal(size=y.shape) - 1.5 * y))
    cases = pl.DataFrame({"case_id": [str(k) for k in range(n)], "patient_id": [str(k) for k in range(n)]})
    cohort = Cohort(
        cases.with_columns(cohort=pl.lit("c")), tuple(f"l{k}" for k in range(n_labels)), sparse.csc_array(y)
    )
    result = run(Performance(n_replicates=400, labels_with_intervals=60), cohort, {"m": p})
    for metric in ("auroc", "auprc", "brier", "brier_skill_score", "sensitivity", "ppv", "f1_1"):
        row = value(result, metric, label="macro")
        assert row["low"] <= row["value"] <= row["high"], metric  # type: ignore[operator]


@pytest.mark.parametrize(("n_patients", "tested"), [(1, False), (2, False), (60, True)])
def test_a_handful_of_patients_gives_no_test(n_patients: int, tested: bool) -> None:
    cohort, p = simulated(n=240, split=False)
    cases = cohort.cases.with_columns(patient_id=pl.Series([f"p{k % n_patients}" for k in range(240)]))
    few = Cohort(cases, cohort.labels, cohort.y)
    row = value(run(QUICK, few, {"a": p, "b": noise(p.shape, 3)}), "auroc", model="b", reference="a")
    assert (row["p_value"] is not None) is tested
    assert (row["low"] is not None) is (n_patients > 1)
    assert row["reason"] is None if tested else "fewer than" in str(row["reason"])


def test_a_cohort_of_one_class_says_so() -> None:
    cohort, p = simulated()
    negative = Cohort(cohort.cases, cohort.labels, sparse.csc_array(np.zeros((600, 1), dtype=np.uint8)))
    result = run(Performance(n_replicates=200, threshold=0.5), negative, {"m": p})
    assert result.findings[0].sentence == "AUROC of m in home cannot be computed: no positive case."
    assert {finding.kind for finding in result.findings} == {"unsettled"}


def test_averages_name_is_refused_as_a_label() -> None:
    cohort, _ = simulated(n_labels=2)
    odd = Cohort(cohort.cases, ("macro", "b"), cohort.y)
    with pytest.raises(ConfigError, match="is the name of an average"):
        QUICK.plan(odd, np.random.default_rng(0))


def test_a_missing_interval_is_told_as_such() -> None:
    cohort, p = simulated(n=240, split=False)
    cases = cohort.cases.with_columns(patient_id=pl.lit("one"))
    result = run(QUICK, Cohort(cases, cohort.labels, cohort.y), {"m": p})
    assert "no interval: fewer than 2 patients" in result.findings[0].sentence
    assert "unknown" not in result.findings[0].sentence


def answers(result: AuditResult) -> dict[tuple[str, str], str]:
    return {(answer.question, answer.model): answer.verdict for answer in result.answers}


def test_the_scorecard_says_what_is_shown_excluded_and_open() -> None:
    home, scores = simulated(900, shift=1.6, split=False)
    away, elsewhere = simulated(900, shift=0.5, seed=1, name="away", split=False)
    both = stack([home, away])
    p = np.concatenate([scores, elsewhere])
    rng = np.random.default_rng(5)
    guess = rng.random(p.shape)
    audit = Performance(n_replicates=400, required={"auroc": 0.7})
    found = answers(run(audit, both, {"good": p, "guess": guess}))
    assert found["separation", "good"] == "acceptable"
    assert found["separation", "guess"] == "concern"
    assert found["travel", "good"] == "concern"
    assert found["comparison", "good"] == "acceptable"
    assert found["comparison", "guess"] == "concern"
    assert found["calibration", "guess"] == "concern"


def test_three_positives_settle_nothing() -> None:
    cohort, _ = simulated(60, split=False)
    y = np.zeros((60, 1), np.uint8)
    y[:3] = 1
    few = Cohort(cohort.cases, cohort.labels, sparse.csc_array(y))
    result = run(Performance(n_replicates=200), few, {"perfect": 0.02 + 0.8 * y.astype(float)})
    (separation, calibration) = result.answers
    assert separation.verdict == "unsettled"
    assert calibration.verdict != "acceptable"
    assert separation.reason == "only 3 cases of one class"
    result = run(Performance(n_replicates=200), few, {"high": 0.3 + 0.6 * y.astype(float)})
    assert result.answers[1].verdict == "concern", "but a risk of 30% for 57 patients without the outcome is shown"


def test_risks_of_0_are_not_acceptable_however_rare_the_outcome() -> None:
    """A model that predicts a millionth of the risk is off by the prevalence, and by no more than that."""
    rng = np.random.default_rng(3)
    risk = 1 / (1 + np.exp(-(-4.5 + rng.normal(size=(3000, 1)))))
    cohort, _ = simulated(3000, split=False)
    rare = Cohort(cohort.cases, cohort.labels, sparse.csc_array((rng.random((3000, 1)) < risk).astype(np.uint8)))
    found = run(Performance(n_replicates=200), rare, {"right": risk, "millionth": risk * 1e-6})
    right, wrong = (answer for answer in found.answers if answer.question == "calibration")
    assert right.margin == wrong.margin == pytest.approx(0.011, abs=0.002), "half of the prevalence"
    assert right.verdict in ("acceptable", "unsettled")
    assert wrong.verdict == "concern"
    assert any("off by more than 0.011 on average" in finding.sentence for finding in found.findings)


def test_an_inverted_seed_is_told_although_the_mean_hides_it() -> None:
    cohort, p = simulated(600, split=False)
    seeds = {"m@1": p, "m@2": p, "m@3": 1 - p}
    found = run(QUICK, cohort, seeds, **{name: {"ensemble": "m"} for name in seeds})
    told = [each.sentence for each in found.findings if "the wrong way round" in each.sentence]
    assert len(told) == 1
    assert told[0].startswith("m@3 ranks patients the wrong way round")


def test_a_margin_decides() -> None:
    cohort, p = simulated(900, split=False)
    scores = {"a": p, "b": np.clip(p + 1e-4 * np.random.default_rng(0).normal(size=p.shape), 0, 1)}
    assert answers(run(Performance(n_replicates=200), cohort, scores))["comparison", "b"] == "acceptable"
    strict = Performance(n_replicates=200, margins={"auroc": 1e-9})
    assert answers(run(strict, cohort, scores))["comparison", "b"] in ("unsettled", "caution", "concern")


def sentences(result: AuditResult, kind: str, question: str | None = None) -> list[str]:
    return [each.sentence for each in result.findings if each.kind == kind and each.question == question]


def test_perfect_separation_of_a_few_has_a_real_width() -> None:
    cohort, _ = simulated(60, split=False)
    y = np.zeros((60, 1), np.uint8)
    y[:6] = 1
    few = Cohort(cohort.cases, cohort.labels, sparse.csc_array(y))
    result = run(Performance(n_replicates=200, threshold=0.5), few, {"perfect": 0.1 + 0.8 * y.astype(float)})
    for metric, widest in (("auroc", 0.95), ("auprc", 0.8), ("sensitivity", 0.8), ("ppv", 0.8), ("specificity", 0.99)):
        row = value(result, metric)
        assert (row["value"], row["high"]) == (1.0, 1.0), metric
        assert row["low"] < widest, metric  # type: ignore[operator]
    assert value(result, "brier")["high"] > 0.02  # type: ignore[operator]


def test_two_perfect_models_are_not_shown_to_be_equal() -> None:
    cohort, _ = simulated(60, split=False)
    y = np.zeros((60, 1), np.uint8)
    y[:12] = 1
    few = Cohort(cohort.cases, cohort.labels, sparse.csc_array(y))
    scores = {"a": 0.1 + 0.8 * y, "b": 0.2 + 0.7 * y + 0.001 * np.random.default_rng(0).random(y.shape)}
    row = value(run(QUICK, few, scores), "auroc", model="b", reference="a")
    assert row["low"] < -0.02 < 0.02 < row["high"]  # type: ignore[operator]


def test_an_inverted_model_is_of_the_first_rank() -> None:
    cohort, p = simulated(n_labels=3)
    result = run(QUICK, cohort, {"good": p, "inverted": 1 - p})
    (alarm,) = [each for each in sentences(result, "concern") if "wrong way" in each]
    assert alarm.startswith("inverted ranks patients the wrong way round for 'label0', 'label1' and 'label2' in home")
    assert "`positive:`" in alarm
    assert not any("inverted" in each.sentence and "recalibrate" in each.sentence for each in result.findings)


def test_an_inverted_model_among_many_is_alarmed_by_its_own_interval() -> None:
    cohort, p = simulated(120, shift=0.55, split=False, seed=2)
    others = {f"m{k}": np.random.default_rng(k).random(p.shape) for k in range(8)}
    result = run(Performance(n_replicates=300), cohort, {"inverted": 1 - p, **others})
    row = value(result, "auroc", model="inverted")
    assert 0.46 < row["high"] < 0.5  # type: ignore[operator]
    assert [each for each in sentences(result, "concern") if each.startswith("inverted ranks patients the wrong way")]
    told = [each.sentence for each in result.findings if each.question == "separation"]
    assert not any("inverted" in each for each in told)


@pytest.mark.parametrize(("threshold", "who"), [(0.0, "everybody"), (1.0, "nobody")])
def test_a_threshold_that_divides_nobody_is_of_the_first_rank(threshold: float, who: str) -> None:
    cohort, p = simulated()
    result = run(QUICK, cohort, {"m": p}, m={"threshold": threshold})
    assert sentences(result, "concern") == [
        f"m flags {who} in home at its threshold (stored with the model): set `threshold:` to one that divides "
        "patients, or check its probabilities."
    ]


def test_scores_that_are_no_probabilities_are_of_the_first_rank() -> None:
    cohort, p = simulated()
    scores = {"m": p, "same": np.full(p.shape, 0.3), "decides": (p > 0.5).astype(float)}
    found = sentences(run(QUICK, cohort, scores), "concern")
    assert any(each.startswith("same gives every case the same score:") for each in found)
    assert any(each.startswith("decides gives only 0 and 1:") for each in found)
    assert not any(each.startswith("m ") for each in found)


def test_decisions_at_a_threshold_chosen_on_the_audited_cases_are_called_optimistic() -> None:
    cohort, p = simulated(split=False)
    (caveat,) = sentences(run(QUICK, cohort, {"m": p}), "caveat")
    assert "optimistic: its threshold was chosen on the audited cases" in caveat
    split, p = simulated()
    assert not sentences(run(QUICK, split, {"m": p}), "caveat")


def test_who_loses_more_is_an_estimate() -> None:
    home, p_home = simulated(n=1200, seed=1, name="home")
    away, _ = simulated(n=1200, seed=2, name="away", split=False)
    rng = np.random.default_rng(4)
    steady, fragile = (1 / (1 + np.exp(1 - rng.normal(size=(1200, 1)) - k * away.y.toarray())) for k in (1.5, 0.2))
    scores = {"steady": np.concatenate([p_home, steady]), "fragile": np.concatenate([p_home, fragile])}
    result = run(Performance(n_replicates=400), stack([home, away]), scores)
    row = value(result, "auroc_drop", model="fragile", reference="steady", group="away")
    drops = [value(result, "auroc", model=m, group="away", reference="home")["value"] for m in ("fragile", "steady")]
    assert row["value"] == pytest.approx(drops[0] - drops[1])  # type: ignore[operator]
    assert row["significant"] is True
    assert row["high"] < 0  # type: ignore[operator]
    assert any("fragile changes for the worse by" in each for each in sentences(result, "fact", "travel"))


def test_each_question_is_answered_once_per_model_and_cohorts_do_not_hide_each_other() -> None:
    parts = [simulated(n=600, seed=k, name=name, split=False) for k, name in enumerate(("home", "near", "far"))]
    scores = np.concatenate([p for _, p in parts])
    scores[1200:] = np.random.default_rng(0).random(scores[1200:].shape)
    result = run(QUICK, stack([cohort for cohort, _ in parts]), {"a": scores, "b": scores[::-1].copy()})
    asked = [(answer.question, answer.model) for answer in result.answers]
    assert len(asked) == len(set(asked)) == 8
    travel = next(answer for answer in result.answers if (answer.question, answer.model) == ("travel", "a"))
    assert (travel.verdict, travel.label) == ("concern", "to far")
    told = [each.sentence for each in result.findings]
    assert len(told) == len(set(told))
    assert all(each.question is not None for each in result.findings if each.kind in ("acceptable", "unsettled"))


def test_labels_behind_the_mean_are_named_and_counted() -> None:
    cohort, p = simulated(n_labels=4)
    y = cohort.y.toarray()
    y[200:, 3] = 0
    y[200:203, 3] = 1
    p[:, 2] = np.random.default_rng(0).random(len(p))
    odd = Cohort(cohort.cases, cohort.labels, sparse.csc_array(y))
    result = run(Performance(n_replicates=200, required={"auroc": 0.7}), odd, {"m": p})
    (answer,) = [each for each in result.answers if each.question == "separation"]
    assert (answer.verdict, answer.label, answer.n_labels, answer.n_unsettled) == ("concern", "label2", 4, 1)
    assert answer.value == value(result, "auroc", label="label2")["value"]
    (told,) = sentences(result, "concern", "separation")
    assert told.startswith("m does not separate patients as required (0.7) for 'label2': AUROC 0.")
    assert (
        "Of 4 labels: 1 concern ('label2'), 1 unsettled ('label3') and 2 acceptable; mean AUROC over 3 labels" in told
    )
    (caveat,) = sentences(result, "caveat", "separation")
    assert caveat.startswith("1 of 4 labels has fewer than 10 cases of one class")


def test_a_label_that_cannot_be_tested_leaves_the_answer_open() -> None:
    cohort, p = simulated(n_labels=3, shift=2.5)
    y = cohort.y.toarray()
    y[200:, 2] = 0
    y[200:203, 2] = 1
    result = run(QUICK, Cohort(cohort.cases, cohort.labels, sparse.csc_array(y)), {"m": p, "n": p**2})
    for answer in result.answers:
        assert answer.verdict != "acceptable", answer
        assert answer.n_labels == 3
    separation = result.answers[0]
    assert separation.n_unsettled >= 1
    assert (separation.verdict, separation.label) == ("unsettled", "label2")
    assert separation.reason == "only 3 cases of one class"


def test_of_thousands_of_labels_the_frequent_ones_are_judged_and_the_rest_counted() -> None:
    cohort, p = simulated(n_labels=30, shift=3.0)
    result = run(Performance(n_replicates=200, labels_with_intervals=3), cohort, {"m": p, "n": np.sqrt(p)})
    separation = result.answers[0]
    assert (separation.verdict, separation.n_labels, separation.n_unsettled) == ("acceptable", 3, 0)
    (told, _) = sentences(result, "acceptable", "separation")
    assert "Of the 3 most frequent of 30 labels: 3 acceptable; mean AUROC over" in told
    (caveat,) = sentences(result, "caveat", "separation")
    assert caveat.startswith("27 of 30 labels are not judged one by one")
    assert max(len(each.sentence) for each in result.findings) < 420


def test_a_mean_over_one_label_is_that_label() -> None:
    cohort, p = simulated(n_labels=2)
    y = cohort.y.toarray()
    y[200:, 1] = 0
    y[200:203, 1] = 1
    scores = {"m": p, "n": np.clip(p + 0.1 * noise(p.shape, 1), 0, 1)}
    result = run(QUICK, Cohort(cohort.cases, cohort.labels, sparse.csc_array(y)), scores)
    own, mean = (result.estimates.filter(label=label).drop("label") for label in ("label0", "macro"))
    assert mean.height > 40
    assert own.equals(mean)
    assert not any("1 labels" in each.sentence for each in result.findings)


def test_scores_that_cannot_be_judged_are_told_once() -> None:
    cohort, p = simulated()
    scores = {"m": p, "same": np.full(p.shape, 0.3), "decides": (p > 0.5).astype(float)}
    result = run(QUICK, cohort, scores)
    for answer in result.answers:
        if answer.model != "m":
            assert answer.verdict == "unsettled", answer
            assert answer.reason in ("same gives every case the same score", "decides gives only 0 and 1")
    assert answers(result)["separation", "m"] == "acceptable"
    pairs = run(QUICK, cohort, {**scores, "near": p**1.01})
    assert answers(pairs)["comparison", "m"] == "acceptable"
    for name in ("same", "decides"):
        about = [each for each in result.findings if name in each.sentence]
        assert any(each.kind == "concern" for each in about)
        assert {each.question for each in about} == {None}, about


def test_family_run_widens_what_the_question_does_not() -> None:
    cohort, p = simulated(n_labels=3)
    scores = {"a": p, "b": np.clip(p + 0.1 * np.random.default_rng(0).normal(size=p.shape), 0, 1)}
    widths = {}
    for family in ("question", "run"):
        row = value(
            run(Performance(n_replicates=200, family=family), cohort, scores),  # type: ignore[arg-type]
            "auroc",
            label="macro",
            model="b",
            reference="a",
        )
        widths[family] = row["high"] - row["low"]  # type: ignore[operator]
        assert row["pointwise_low"] is not None
    assert widths["run"] > 1.3 * widths["question"]


def test_macro_calibration_errors_of_calibrated_models_do_not_differ() -> None:
    """One model is sharp, one dull, both are calibrated: chance alone makes their errors differ."""
    rng = np.random.default_rng(11)
    cohort, _ = simulated(500, n_labels=6, split=False)
    sharp = rng.beta(0.4, 0.8, (500, 6))
    y = (rng.random(sharp.shape) < sharp).astype(np.uint8)
    calibrated = Cohort(cohort.cases, cohort.labels, sparse.csc_array(y))
    scores = {"sharp": sharp, "dull": np.full(sharp.shape, 1 / 3) + 1e-4 * rng.random(sharp.shape)}
    result = run(Performance(n_replicates=300, threshold=0.5), calibrated, scores)
    rows = result.estimates.filter(pl.col("reference").is_not_null(), metric="adaptive_calibration_error")
    assert set(rows["label"]) == {*cohort.labels, "macro", "micro"}
    assert not rows["significant"].any()


def test_several_seeds_are_one_curve() -> None:
    cohort, p = simulated()
    seeds = {f"xgb[{k}]": np.clip(p + 0.05 * noise(p.shape, k), 0, 1) for k in (1, 2, 3)}
    result = run(QUICK, cohort, {"solo": p, **seeds}, **{name: {"ensemble": "xgb"} for name in seeds})
    chart = next(block for block in result.blocks if block.title == "Calibration")
    assert {row["model"] for row in chart.data} == {"solo", "xgb"}  # type: ignore[union-attr]
    assert "mean of its seeds' curves" in chart.caption
