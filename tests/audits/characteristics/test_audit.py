"""The whole characteristics audit: notes altered by the text engine, models known in closed form, blocks."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import numpy as np
import polars as pl
import pytest
from pydantic import TypeAdapter

from palpate.audits.characteristics import Characteristics
from palpate.audits.characteristics.plan import AlteredNotes
from palpate.cases.cohort import Cohort, stack
from palpate.cases.edits import Inputs, splice
from palpate.errors import CohortError, ConfigError
from palpate.models import Model, Probabilities
from palpate.perturb.characteristics import load_definition
from palpate.report.html import render
from palpate.results import AuditResult, Chart, Plan, Predictions, Table
from palpate.testing import KeywordModel
from tests.audits.characteristics.altered_notes import ETHNICITIES, answer, frame, notes

QUICK = Characteristics(n_replicates=200, threshold=0.4)


class AgeModel(Model):
    """sigmoid of a function of the age that the note gives, and of the rest of the note, which varies by `spread`."""

    def __init__(self, logit: np.ndarray, spread: float = 0.0) -> None:
        self.labels, self.fingerprint, self.logit, self.spread = ("ill",), "age", logit, spread

    def predict(self, inputs: Inputs) -> Probabilities:
        found = [re.search(r"(\d+\+?) year old", text) for text in inputs.texts]
        fever = np.asarray(["fever" in text for text in inputs.texts])
        ages = [int(match[1].rstrip("+")) if match else 0 for match in found]
        rest = [crc32(text.partition("year old")[2].encode()) / 2**32 - 0.5 for text in inputs.texts]
        return 1 / (1 + np.exp(-(self.logit[ages] + fever + self.spread * np.asarray(rest))))[:, None]


def run(audit: Characteristics, cohort: Cohort, **models: Model) -> tuple[Plan[AlteredNotes], AuditResult]:
    plan = audit.plan(cohort, np.random.default_rng(0))
    answers = {name: answer(plan, model) for name, model in models.items()}
    return plan, audit.analyse(plan, Predictions(answers), np.random.default_rng(1))


def rows(result: AuditResult, metric: str, **where: str) -> list[dict[str, object]]:
    found = result.estimates.filter(pl.col("metric") == metric, *(pl.col(c) == v for c, v in where.items()))
    return found.to_dicts()


def one(result: AuditResult, metric: str, **where: str) -> dict[str, object]:
    found = rows(result, metric, **where)
    assert len(found) == 1, found
    return found[0]


@pytest.fixture(scope="module")
def default() -> tuple[Plan[AlteredNotes], AuditResult]:
    """Gender, 73 ages and ethnicity, with two models."""
    cohort = notes(180)
    women = KeywordModel({"woman": 0.3, "she": 0.2, "asian": -0.5, "fever": 1.0}, bias=-1.0)
    smooth = AgeModel(0.03 * (np.arange(91) - 65.0))
    return run(QUICK, cohort, women=women, smooth=smooth)


def test_every_note_is_in_every_group_of_every_arm(default: tuple[Plan[AlteredNotes], AuditResult]) -> None:
    plan, _ = default
    arms = {arm.name: arm for arm in plan.memory.arms}
    test = plan.cohort.rows(split="test")
    assert {name: len(arm.groups) for name, arm in arms.items()} == {"gender": 5, "age": 73, "ethnicity": 5}
    for arm in arms.values():
        assert arm.rows.tolist() == test.tolist()
    assert len(plan.variants) == 83 * len(test) + len(test) + len(plan.cohort.rows(split="validation"))
    assert arms["ethnicity"].groups == ETHNICITIES


def test_the_texts_say_what_their_group_says(default: tuple[Plan[AlteredNotes], AuditResult]) -> None:
    plan, _ = default
    text = lambda v: splice(plan.cohort.texts[int(plan.variants.parent[v])], plan.variants.edits(int(v)))  # noqa: E731
    for v in plan.variants.rows_of("gender=female"):
        assert " woman who" in text(v) or " female who" in text(v) or " lady who" in text(v)
        assert ". She takes" in text(v)
    for v in plan.variants.rows_of("age=73"):
        assert "Patient is a 73 year old" in text(v)
    for v in plan.variants.rows_of("age=18"):
        assert "Patient is an 18 year old" in text(v)
    for v in plan.variants.rows_of("ethnicity=none"):
        assert not re.search(r"White|African|Hispanic|Asian", text(v))


def test_differences_of_gender_are_the_closed_form(default: tuple[Plan[AlteredNotes], AuditResult]) -> None:
    plan, result = default
    fever = np.asarray(["fever" in plan.cohort.texts[int(row)] for row in plan.memory.arms[0].rows])
    asian = np.asarray(["Asian" in plan.cohort.texts[int(row)] for row in plan.memory.arms[0].rows])
    base = -1.0 + 1.0 * fever - 0.5 * asian
    expected = (1 / (1 + np.exp(-(base + 0.5))) - 1 / (1 + np.exp(-base))).mean()
    found = one(result, "difference", model="women", group="gender=female")
    assert found["reference"] == "gender=male"
    assert found["value"] == pytest.approx(expected, abs=1e-12)
    assert found["significant"] is True
    for group in ("White", "African American", "Hispanic"):
        assert one(result, "difference", model="women", group=f"ethnicity={group}")["value"] == 0.0
    assert one(result, "difference", model="women", group="ethnicity=Asian")["significant"] is True
    assert all(row["value"] == 0.0 for row in rows(result, "difference", model="women") if "age=" in str(row["group"]))


def test_age_curves_and_their_roughness(default: tuple[Plan[AlteredNotes], AuditResult]) -> None:
    plan, result = default
    reference = plan.memory.arms[1].groups[plan.memory.arms[1].reference]
    train = plan.cohort.cases.filter(pl.col("split") == "train")["age"]
    assert abs(int(reference) - float(train.median())) <= 0.5  # type: ignore[arg-type]
    rough = one(result, "roughness", model="smooth")
    assert rough["value"] == pytest.approx(0, abs=1e-3)
    assert one(result, "roughness", model="women")["reason"] == "the prediction does not change with age"
    curve = next(block for block in result.blocks if isinstance(block, Chart) and block.title == "Age curves")
    assert {row["model"] for row in curve.data} >= {"women", "smooth"}
    assert [row["age"] for row in curve.data if row["model"] == "smooth"] == list(range(18, 91))
    noise = np.random.default_rng(0).normal(0, 0.6, 91)
    _, result = run(replace(QUICK, alter=("age",)), notes(600), noisy=AgeModel(0.01 * np.arange(91) + noise))
    rough = one(result, "roughness", model="noisy")
    assert rough["low"] > 0.5  # type: ignore[operator]
    told = next(finding for finding in result.findings if "neighbouring ages" in finding.sentence)
    assert (told.kind, told.question) == ("concern", "age")


def test_the_first_screen_and_the_section(default: tuple[Plan[AlteredNotes], AuditResult]) -> None:
    _, result = default
    sentences = [finding.sentence for finding in result.findings]
    assert any(s.startswith("women: naming the patient female instead of male") for s in sentences)
    assert any(s.startswith("smooth: ") and "Over all ages, the predicted risk goes from" in s for s in sentences)
    assert [(f.question, f.sentence.partition(":")[0]) for f in result.findings[:6]] == [
        (name, model) for name in ("gender", "age", "ethnicity") for model in ("women", "smooth")
    ]
    titles = [block.title for block in result.blocks]
    for title in ("Gender: every group", "Age curves",
                  "Ages that stand out from their neighbours", "How rough the age curves are", "Decisions that flip",
                  "Does the model amplify the training data?", "What was done to the notes"):  # fmt: skip
        assert title in titles
    table = next(block for block in result.blocks if block.title == "Ethnicity: every group")
    assert isinstance(table, Table)
    told = {(row[0], row[1]): row for row in table.rows}
    assert told["women", "Asian"][5] == tuple(
        one(result, "difference", model="women", group="ethnicity=Asian")[end] for end in ("value", "low", "high")
    )
    page = render({"title": "t", "models": [], "cohorts": []}, [result])
    assert "Age curves" in page


def test_observed_from_notes_equals_observed_from_attributes() -> None:
    cohort = notes(480)
    alter = replace(QUICK, alter=("gender", "age"))
    _, by_notes = run(alter, cohort, m=KeywordModel({"woman": 1.0}))
    _, by_attributes = run(replace(alter, observed="attributes"), cohort, m=KeywordModel({"woman": 1.0}))
    for metric in ("observed_rate", "observed_deviation"):
        assert rows(by_notes, metric) == rows(by_attributes, metric)
    _, none = run(replace(alter, observed="none"), cohort, m=KeywordModel({"woman": 1.0}))
    assert rows(none, "observed_rate") == []
    assert {row["reason"] for row in rows(none, "amplification")} == {"not asked for"}


def test_combinations() -> None:
    audit = replace(QUICK, alter=("gender+ethnicity",), observed="none", reference={"ethnicity": "White"})
    plan, result = run(audit, notes(), m=KeywordModel({"woman": 0.5, "asian": -0.7, "fever": 1.0}))
    arm = plan.memory.arms[0]
    assert len(arm.groups) == 25
    assert arm.groups[arm.reference] == "male+White"
    fever = np.asarray(["fever" in plan.cohort.texts[int(row)] for row in arm.rows])
    expected = (1 / (1 + np.exp(-(fever - 0.2))) - 1 / (1 + np.exp(-1.0 * fever))).mean()
    row = one(result, "difference", group="gender+ethnicity=female+Asian")
    assert row["reference"] == "gender+ethnicity=male+White"
    assert row["value"] == pytest.approx(expected, abs=1e-12)


def test_a_definition_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "veteran.yaml"
    file.write_text(
        "name: service\ninsert: [noun]\ngroups:\n  none: {}\n  veteran: {adjective: [veteran]}\n", encoding="utf-8"
    )
    audit = replace(QUICK, alter=("service",), definitions=(load_definition(file),))
    plan, result = run(audit, notes(), m=KeywordModel({"veteran": 1.0, "fever": 0.5}))
    fever = np.asarray(["fever" in plan.cohort.texts[int(row)] for row in plan.memory.arms[0].rows])
    expected = (1 / (1 + np.exp(-(1 + 0.5 * fever))) - 1 / (1 + np.exp(-0.5 * fever))).mean()
    row = one(result, "difference", group="service=veteran")
    assert row["reference"] == "service=none"
    assert row["value"] == pytest.approx(expected, abs=1e-12)
    assert one(result, "observed_rate", group="service=none")["n"] == len(plan.cohort.rows(split="train"))


def test_contradictory_notes_are_left_out_of_all_groups_or_altered() -> None:
    table = frame().with_row_index()
    pregnant = (pl.col("index") % 10 == 0) & pl.col("text").str.contains("woman")
    text = pl.when(pregnant).then(pl.col("text") + " She is pregnant.").otherwise(pl.col("text"))
    cohort = Cohort.from_frame(table.with_columns(text=text).drop("index", "frail"), labels=["ill"], name="home")
    audit = replace(QUICK, alter=("gender",), observed="none")
    plan, result = run(audit, cohort, m=KeywordModel({"woman": 1.0}))
    arm = plan.memory.arms[0]
    test = cohort.rows(split="test")
    left_out = [row for row in test if "pregnant" in cohort.texts[row]]
    assert left_out
    assert arm.rows.tolist() == [row for row in test if row not in left_out]
    assert {skip.case for skip in plan.skips} == set(left_out)
    for g in range(3):
        assert plan.variants.parent[plan.variants.rows_of(arm.group_names[g])].tolist() == arm.rows.tolist()
    actions = next(block for block in result.blocks if block.title == "What was done to the notes")
    assert isinstance(actions, Table)
    assert {row[1]: row[5] for row in actions.rows} == dict.fromkeys(arm.groups, len(left_out))
    male = next(row for row in actions.rows if row[1] == "male")
    assert f"({len(left_out)})" in str(male[6])
    plan, _ = run(replace(audit, contradictory="alter"), cohort, m=KeywordModel({"woman": 1.0}))
    assert plan.memory.arms[0].rows.tolist() == test.tolist()


def test_the_most_common_labels_are_audited() -> None:
    cohort = notes(labels=("ill", "frail"))
    counts = cohort.y_true(cohort.rows(split="test")).sum(axis=0)
    audit = replace(QUICK, alter=("gender",), most_common=1)
    assert audit.plan(cohort, np.random.default_rng(0)).labels == (cohort.labels[int(counts.argmax())],)
    assert replace(audit, labels=("frail", "ill")).plan(cohort, np.random.default_rng(0)).labels == ("frail", "ill")


def test_another_cohort_can_be_audited_with_the_first_ones_training_split() -> None:
    home = notes(480)
    away = Cohort.from_frame(frame(60, seed=5).drop("frail", "split"), labels=["ill"], name="away")
    both = stack([home, away])
    plan = replace(QUICK, alter=("gender",), cohort="away").plan(both, np.random.default_rng(0))
    assert set(plan.memory.arms[0].rows) == set(both.rows(cohort="away"))
    assert set(plan.memory.observed[0].rows) == set(both.rows(cohort="home", split="train"))
    with pytest.raises(ConfigError, match="unknown cohort 'abroad'; the cohorts are: home, away"):
        replace(QUICK, cohort="abroad").plan(both, np.random.default_rng(0))


def test_wrong_options_are_refused_before_any_work() -> None:
    cohort, rng = notes(), np.random.default_rng(0)
    for audit, error, said in (
        (replace(QUICK, alter=("colour",)), ConfigError, "unknown characteristic 'colour'; use one of: gender, age"),
        (replace(QUICK, labels=("dead",)), ConfigError, "no label 'dead'"),
        (replace(QUICK, ages=(30, 200)), ConfigError, "'200' can't be written"),
        (replace(QUICK, split="nowhere"), CohortError, "no case in split 'nowhere'"),
        (replace(QUICK, reference={"gender": "x"}), ConfigError, "gender has no 'x'"),
    ):
        with pytest.raises(error, match=said):
            audit.plan(cohort, rng)
    table = Cohort.from_frame(frame().drop("frail", "text"), labels=["ill"], name="home")
    with pytest.raises(CohortError, match="audit 'characteristics' reads notes"):
        QUICK.plan(table, rng)


def test_options_as_they_are_written_in_a_file() -> None:
    options = {
        "alter": ["age", "gender+ethnicity"],
        "ages": [30, 60, "90+"],
        "reference": {"age": 60},
        "threshold": 0.2,
    }
    audit = TypeAdapter(Characteristics).validate_python(options)
    plan = audit.plan(notes(), np.random.default_rng(0))
    assert plan.memory.arms[0].groups == ("30", "60", "90+")
    assert plan.memory.arms[0].reference == 1
    assert audit.ages == (30, 60, "90+")


def test_few_ages_have_no_roughness() -> None:
    audit = replace(QUICK, alter=("age",), ages=(30, 60), observed="none")
    _, result = run(audit, notes(), m=AgeModel(0.01 * np.arange(91)))
    assert one(result, "roughness")["reason"] == "fewer than 10 equally spaced ages"
