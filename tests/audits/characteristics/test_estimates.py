"""From predictions to estimates and findings, on plans made by hand and models known in closed form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from palpate.audits.characteristics import Characteristics
from palpate.audits.characteristics.observed import ObservedGroups, by_attributes
from palpate.audits.characteristics.plan import AlteredNotes
from palpate.cases.cohort import Cohort
from palpate.kit import training_rows
from palpate.results import AuditResult, Chart, Examples, Plan, Predictions, Table
from palpate.testing import KeywordModel
from tests.audits.characteristics.altered_notes import GENDER, answer, gender_plan, notes

QUICK = Characteristics(n_replicates=300, threshold=0.4)
SEXIST = KeywordModel({"woman": 0.7, "man": -0.2, "nonbinary": -1.1, "fever": 1.3}, bias=-1.0)


def analysed(plan: Plan[AlteredNotes], audit: Characteristics = QUICK, **models: KeywordModel) -> AuditResult:
    answers = {name: answer(plan, model) for name, model in models.items()}
    return audit.analyse(plan, Predictions(answers), np.random.default_rng(1))


def value(result: AuditResult, metric: str, **where: str | None) -> dict[str, object]:
    rows = result.estimates.filter(pl.col("metric") == metric)
    for column, wanted in {"reference": None, **where}.items():
        rows = rows.filter(pl.col(column).is_null() if wanted is None else pl.col(column) == wanted)
    assert rows.height == 1, rows
    return rows.row(0, named=True)


def closed_form(cohort: Cohort, plan: Plan[AlteredNotes], weight: float, bias: float = -1.0) -> np.ndarray:
    """What a model that adds `weight` for the patient's gender predicts for each audited note."""
    texts = [cohort.texts[int(row)] for row in plan.memory.arms[0].rows]
    return 1 / (1 + np.exp(-(bias + weight + 1.3 * np.asarray(["fever" in text for text in texts]))))


def test_numbers_are_the_closed_form_of_a_model_with_weights_on_gender() -> None:
    cohort = notes()
    plan = gender_plan(cohort)
    result = analysed(plan, m=SEXIST)
    p = {
        group: closed_form(cohort, plan, weight)
        for group, weight in {"female": 0.7, "male": -0.2, "nonbinary": -1.1}.items()
    }
    others = {group: np.mean([p[other].mean() for other in p if other != group]) for group in p}
    for group, answers in p.items():
        name = f"gender={group}"
        assert value(result, "mean_probability", group=name)["value"] == pytest.approx(answers.mean(), abs=1e-12)
        assert value(result, "deviation", group=name)["value"] == pytest.approx(
            answers.mean() - others[group], abs=1e-12
        )
        if group == "male":
            continue
        row = value(result, "difference", group=name, reference="gender=male")
        assert row["value"] == pytest.approx((answers - p["male"]).mean(), abs=1e-12)
        assert row["low"] <= row["value"] <= row["high"]  # type: ignore[operator]
        assert row["significant"] is True
        flips = value(result, "flip_rate", group=name, reference="gender=male")
        assert flips["value"] == pytest.approx(((answers >= 0.4) != (p["male"] >= 0.4)).mean(), abs=1e-12)
    own = np.asarray(["woman" in cohort.texts[int(row)] for row in plan.memory.arms[0].rows])
    written = np.where(own, p["female"], p["male"])
    found = value(result, "mean_probability", group="gender=as written")
    assert found["value"] == pytest.approx(written.mean(), abs=1e-12)
    flips = value(result, "flip_rate", group="gender=female", reference="gender=as written")
    assert flips["value"] == pytest.approx(((p["female"] >= 0.4) != (written >= 0.4)).mean(), abs=1e-12)


@pytest.mark.parametrize(
    "model",
    [KeywordModel({"fever": 2.0, "aspirin": 1.0}), KeywordModel({"woman": 3.0, "Patient": 1.0}, window_words=4)],
)
def test_a_model_that_cannot_see_the_characteristic_gives_exactly_0(model: KeywordModel) -> None:
    result = analysed(gender_plan(notes()), m=model)
    moved = result.estimates.filter(pl.col("metric").is_in(["difference", "deviation", "flip_rate"]))
    assert moved.height == 2 + 3 + 5
    assert moved["value"].to_list() == [0.0] * moved.height
    assert (moved["low"] <= 0).all()
    assert (moved["high"] > 0).all(), "patients who were not seen may differ"
    assert not result.estimates["significant"].any()
    assert result.findings[0].kind == "unsettled", "0 of 60 patients do not exclude 2% of flips"
    assert "cannot be told from these data" in result.findings[0].sentence


def test_edits_outside_the_window_are_counted_and_reported() -> None:
    result = analysed(gender_plan(notes()), m=KeywordModel({"fever": 1.0}, window_words=4))
    row = value(result, "outside_window", group="gender", model="m")
    assert row["value"] == 1.0
    assert result.answers[0].verdict == "unsettled"
    assert result.answers[0].reason == "100% of the edits lie outside its window"
    assert [finding.kind for finding in result.findings] == ["unsettled"], "said once"
    seen = analysed(gender_plan(notes()), m=SEXIST)
    assert value(seen, "outside_window", group="gender")["value"] == 0.0
    assert not any("window" in finding.sentence for finding in seen.findings)


def test_a_family_is_a_question_or_the_run() -> None:
    found = {}
    for alter, family in ((("gender",), "question"), (("gender", "ethnicity"), "question"),
                          (("gender", "ethnicity"), "run")):  # fmt: skip
        audit = replace(QUICK, alter=alter, observed="none", family=family)  # type: ignore[arg-type]
        plan = audit.plan(notes(), np.random.default_rng(0))
        result = analysed(plan, audit, m=KeywordModel({"woman": 0.05, "fever": 3.0}, labels=("ill",)))
        found[len(alter), family] = value(result, "difference", group="gender=female", reference="gender=male")
    alone, beside, whole = found[1, "question"], found[2, "question"], found[2, "run"]
    assert alone == beside, "another characteristic costs this one nothing"
    assert (alone["n_family"], whole["n_family"]) == (4, 8)
    assert whole["p_value"] == pytest.approx(2 * alone["p_value"], rel=1e-9)  # type: ignore[operator]
    assert whole["pointwise_low"] == alone["pointwise_low"]
    assert whole["low"] < alone["low"] < alone["pointwise_low"] < alone["value"]  # type: ignore[operator]


@pytest.mark.parametrize("correction", ["bonferroni", "holm", "benjamini-hochberg"])
def test_tests_and_intervals_agree_whatever_the_correction(correction: str) -> None:
    cohort = notes(400, labels=("ill", "frail"))
    weights = {"woman": {"ill": 0.02, "frail": 0.4}, "nonbinary": {"ill": -0.01}, "fever": {"ill": 3.0, "frail": 1.0}}
    model = KeywordModel(weights, labels=("ill", "frail"))
    audit = replace(QUICK, correction=correction)  # type: ignore[arg-type]
    rows = analysed(gender_plan(cohort), audit, m=model).estimates.filter(pl.col("p_value").is_not_null())
    assert rows.height == 4
    outside = (rows["low"] > 0) | (rows["high"] < 0)
    assert outside.to_list() == (rows["p_value"] < 0.05).to_list() == rows["significant"].to_list()
    assert rows["significant"].n_unique() == 2


def test_many_labels_are_one_family_and_labels_do_not_mix() -> None:
    cohort = notes(labels=("ill", "frail"))
    model = KeywordModel({"woman": {"ill": 0.5}, "falls": {"frail": 1.0}}, labels=("frail", "ill"))
    result = analysed(gender_plan(cohort), m=model)
    ill = value(result, "difference", label="ill", group="gender=female", reference="gender=male")
    frail = value(result, "difference", label="frail", group="gender=female", reference="gender=male")
    assert frail["value"] == 0.0
    assert frail["p_value"] == 1.0
    assert ill["significant"] is True
    alone = analysed(gender_plan(notes(labels=("ill",))), m=KeywordModel({"woman": 0.5}, labels=("ill",)))
    single = value(alone, "difference", group="gender=female", reference="gender=male")
    assert ill["value"] == pytest.approx(single["value"], abs=1e-12)
    assert (ill["n_family"], single["n_family"]) == (4, 2), "twice as many tests"
    heat = next(block for block in result.blocks if isinstance(block, Chart) and block.kind == "heatmap")
    assert {(row["label"], row["group"]) for row in heat.data} == {
        (label, group) for label in ("ill", "frail") for group in ("female", "male", "nonbinary")
    }
    assert heat.facet == "model"


def test_labels_in_blocks_give_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    cohort = notes(labels=("ill", "frail"))
    model = KeywordModel({"woman": {"ill": 0.5, "frail": -0.3}}, labels=("ill", "frail"))
    observed = by_attributes(GENDER, cohort, training_rows(cohort))
    whole = analysed(gender_plan(cohort, observed=observed), m=model)
    monkeypatch.setattr("palpate.audits.characteristics.arm_measures.COLUMNS_PER_BLOCK", 1)
    parts = analysed(gender_plan(cohort, observed=observed), m=model)
    assert_frame_equal(whole.estimates, parts.estimates, abs_tol=1e-12, rel_tol=1e-9)


def test_the_same_seed_gives_the_same_result() -> None:
    plan = gender_plan(notes())
    assert analysed(plan, m=SEXIST).estimates.equals(analysed(plan, m=SEXIST).estimates)


def test_observed_rates_and_amplification() -> None:
    """A model whose effect of gender is that of the training data has an amplification near 1, a stronger one more."""
    cohort = notes(6000, seed=4)
    plan = gender_plan(cohort, observed=by_attributes(GENDER, cohort, training_rows(cohort)))
    like = KeywordModel({"fever": 2.0, "woman": 0.5}, bias=-1.5)
    result = analysed(
        plan, like=like, more=KeywordModel({"fever": 2.0, "woman": 2.0}, bias=-1.5), blind=KeywordModel({})
    )
    train = training_rows(cohort)
    female = (cohort.cases["gender"][train] == "F").to_numpy()
    y = cohort.y_true(train)[:, 0]
    row = value(result, "observed_rate", group="gender=female", model="training data")
    assert row["value"] == pytest.approx(y[female].mean())
    assert row["n"] == female.sum()
    row = value(result, "observed_deviation", group="gender=female", model="training data")
    assert row["value"] == pytest.approx(y[female].mean() - y[~female].mean())
    assert (
        value(result, "observed_rate", group="gender=nonbinary", model="training data")["reason"] == "no training case"
    )
    rows = {name: value(result, "amplification", group="gender", model=name) for name in ("like", "more", "blind")}
    assert rows["like"]["low"] < 1 < rows["like"]["high"]  # type: ignore[operator]
    assert rows["more"]["low"] > 1.5  # type: ignore[operator]
    assert rows["blind"]["value"] == 0.0
    assert any("more amplifies the differences by gender" in finding.sentence for finding in result.findings)


def test_what_can_not_be_observed_says_why() -> None:
    result = analysed(gender_plan(notes()), m=SEXIST)
    assert value(result, "amplification", group="gender")["reason"] == "not asked for"
    few = notes(120)
    result = analysed(gender_plan(few, observed=by_attributes(GENDER, few, training_rows(few))), m=SEXIST)
    assert "training cases" in str(value(result, "amplification", group="gender")["reason"])


def test_the_findings_are_about_an_ensemble_and_not_its_members() -> None:
    plan = gender_plan(notes())
    weights = (0.2, 0.6)
    answers = {
        f"bert[{k}]": answer(plan, KeywordModel({"woman": w}), ensemble="bert") for k, w in enumerate(weights, start=1)
    }
    result = QUICK.analyse(plan, Predictions(answers), np.random.default_rng(1))
    rows = {
        name: value(result, "difference", model=name, group="gender=female", reference="gender=male")
        for name in ("bert[1]", "bert[2]", "bert")
    }
    assert rows["bert"]["value"] == pytest.approx(sum(1 / (1 + np.exp(-w)) - 0.5 for w in weights) / 2, abs=1e-12)
    assert all("[" not in finding.sentence.split(":")[0] for finding in result.findings)
    spread = value(result, "difference_sd", model="bert", group="gender=female", reference="gender=male")
    assert spread["value"] == pytest.approx(np.std([rows[f"bert[{k}]"]["value"] for k in (1, 2)], ddof=1))  # type: ignore[misc]
    seeds = next(block for block in result.blocks if block.title == "Seeds of one model")
    assert isinstance(seeds, Table)
    assert seeds.rows[0][5:7] == (rows["bert"]["value"], spread["value"])


def test_an_ensemble_decides_whatever_another_model_lacks() -> None:
    """A model without a threshold of its own takes none away from the others."""
    cohort = notes(labels=("ill",))
    plan = gender_plan(replace(cohort, y=cohort.y * 0))
    answers = {f"bert[{k}]": replace(answer(plan, SEXIST, ensemble="bert"), threshold=0.5) for k in (1, 2)}
    answers["bare"] = answer(plan, SEXIST)
    result = replace(QUICK, threshold="auto").analyse(plan, Predictions(answers), np.random.default_rng(1))
    flips = {
        name: value(result, "flip_rate", model=name, group="gender=female", reference="gender=male")
        for name in ("bert[1]", "bert", "bare")
    }
    assert flips["bert[1]"]["value"] is not None
    assert flips["bert"]["value"] == flips["bert[1]"]["value"]
    assert (flips["bare"]["value"], flips["bare"]["reason"]) == (None, "no threshold")


def test_too_few_patients_have_no_interval_and_settle_nothing() -> None:
    result = analysed(gender_plan(notes(60)), m=SEXIST)
    row = value(result, "difference", group="gender=female", reference="gender=male")
    assert (row["low"], row["p_value"], row["reason"]) == (None, None, "no interval: fewer than 30 patients")
    answer = result.answers[0]
    assert (answer.verdict, answer.reason) == (
        "unsettled",
        "only 15 patients with a note that could be altered, and 30 are needed",
    )
    assert result.findings[0].sentence == (
        "m: whether gender changes the answer cannot be told from these data "
        "(only 15 patients with a note that could be altered, and 30 are needed)."
    )
    known = result.estimates.filter(pl.col("value").is_not_null(), pl.col("metric") != "outside_window")
    assert known["low"].null_count() == known["high"].null_count() == known.height
    assert set(known["reason"]) == {"no interval: fewer than 30 patients"}


def test_no_note_could_be_altered() -> None:
    cohort = notes()
    cases = cohort.cases.with_columns(pl.lit("Nobody is named.").alias("text"))
    plan = gender_plan(replace(cohort, cases=cases))
    result = analysed(plan, m=KeywordModel({"woman": 1.0}))
    row = value(result, "difference", group="gender", model="m")
    assert row["value"] is None
    assert row["n"] == 0
    assert row["reason"] == "no note could be altered to every group"
    assert (result.answers[0].verdict, result.answers[0].reason) == ("unsettled", row["reason"])
    assert "mostly because: no mention" in result.findings[1].sentence


def test_one_class_has_no_threshold() -> None:
    cohort = notes(labels=("ill",))
    nobody = replace(cohort, y=cohort.y * 0)
    result = analysed(gender_plan(nobody), replace(QUICK, threshold="recall"), m=SEXIST)
    row = value(result, "flip_rate", group="gender=female", reference="gender=male")
    assert row["value"] is None
    assert row["reason"] == "no threshold"
    assert value(result, "difference", group="gender=female", reference="gender=male")["value"] is not None


def test_no_note_text_unless_asked_for() -> None:
    cohort = notes()
    plan = gender_plan(cohort)
    result = analysed(plan, m=SEXIST)
    shown = "".join(block.model_dump_json() for block in result.blocks)
    assert "presents with" not in shown
    assert "aspirin" not in shown
    shifts = next(block for block in result.blocks if block.title == "Largest single shifts")
    assert isinstance(shifts, Table)
    assert len(shifts.rows) == QUICK.examples
    cases = cohort.cases["case_id"].to_list()
    model, case, group, label, before, after, shift = shifts.rows[0]
    row = cases.index(case)
    variant = np.flatnonzero((plan.variants.parent == row) & (plan.variants.group > 0))
    answers = answer(plan, SEXIST).p[variant, 0]
    assert (model, label) == ("m", "ill")
    assert group in plan.variants.group_names
    assert after in answers
    assert shift == pytest.approx(after - before)
    arm, all_answers = plan.memory.arms[0], answer(plan, SEXIST).p
    everything = np.abs(arm.cut(all_answers) - all_answers[plan.memory.original[arm.rows]][:, None])
    assert abs(shift) == pytest.approx(everything.max())  # type: ignore[arg-type]
    told = analysed(plan, replace(QUICK, include_text=True), m=SEXIST)
    examples = [block for block in told.blocks if isinstance(block, Examples)]
    assert len(examples) == 1
    assert examples[0].has_note_text
    _, group, before_text, after_text = examples[0].rows[0]
    assert before_text != after_text
    assert group.partition("=")[2].replace("female", "woman") in after_text


def test_actions_and_reasons_are_shown_for_each_group() -> None:
    result = analysed(gender_plan(notes()), m=SEXIST)
    table = next(block for block in result.blocks if block.title == "What was done to the notes")
    assert isinstance(table, Table)
    n = sum(1 for row in notes().rows(split="test"))
    for row in table.rows:
        assert sum(row[2:5]) == n  # type: ignore[arg-type]
    assert [row[1] for row in table.rows] == ["female", "male", "nonbinary"]


def test_groups_without_a_training_case_stay_visible() -> None:
    cohort = notes(1200)
    rows = training_rows(cohort)
    observed = ObservedGroups(rows, np.where(np.arange(len(rows)) % 2, 0, 2), "a coin")
    result = analysed(gender_plan(cohort, observed=observed), m=SEXIST)
    row = value(result, "observed_rate", group="gender=male", model="training data")
    assert row["n"] == 0
    assert row["value"] is None
    assert row["reason"] == "no training case"
