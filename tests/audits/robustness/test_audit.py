"""The whole robustness audit on models with a planted reaction, and on one without."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from pydantic import TypeAdapter

from palpate.audits.robustness import Robustness
from palpate.cases.cohort import Cohort
from palpate.models import Model
from palpate.perturb.robustness.own import from_function
from palpate.results import AuditResult
from palpate.run.directory import RunDirectory
from palpate.testing import KeywordModel, check_declared, run_audit

from .written_notes import RuleModel, cohort

QUICK = Robustness(threshold=0.5)


def risk(text: str) -> float:
    """By the number of the patient, which nothing changes."""
    number = re.search(r"(?<![A-Za-z])\d+", text)
    return 0.6 if number and int(number[0]) % 5 == 0 else 0.2


STEADY = RuleModel(risk, "steady")


def one(result: AuditResult, metric: str, **where: str) -> dict[str, object]:
    found = result.estimates.filter(pl.col("metric") == metric, *(pl.col(c) == v for c, v in where.items())).to_dicts()
    assert len(found) == 1, found
    return found[0]


def verdicts(result: AuditResult, model: str = "m") -> dict[str, str]:
    return {answer.question: answer.verdict for answer in result.answers if answer.model == model}


@pytest.fixture(scope="module")
def notes() -> Cohort:
    return cohort(700)


def test_a_steady_model_is_acceptable_in_every_question(notes: Cohort) -> None:
    result = run_audit(QUICK, notes, {"m": STEADY})
    # "Tylenol" stands in 1 of 5 notes only: too few patients to exclude that 2 of 100 decisions flip.
    assert verdicts(result) == {
        **dict.fromkeys(("spelling", "layout", "denials"), "acceptable"),
        "wording": "unsettled",
    }
    assert result.answers[2].label == "generics, generic names"
    quick = run_audit(replace(QUICK, perturb=("brands", "contractions")), cohort(900), {"m": STEADY})
    assert verdicts(quick) == {"wording": "acceptable"}
    sentence = quick.findings[0].sentence
    assert "excluded for brands and contractions" in sentence
    assert "No prediction changed." in sentence


def test_a_model_that_reacts_to_a_typo_is_found_with_its_size(notes: Cohort) -> None:
    words = set(re.findall(r"[a-z]+", " ".join(notes.texts).lower()))

    def rule(text: str) -> float:
        odd = any(word not in words for word in re.findall(r"[a-z]+", text.lower()))
        return min(risk(text) + 0.35 * odd, 1.0)

    result = run_audit(replace(QUICK, perturb=("typos", "case")), notes, {"m": RuleModel(rule, "typo")})
    row = one(result, "difference", group="typos=2%")
    assert row["value"] == pytest.approx(0.35)
    flipped = one(result, "flip_rate", group="typos=2%")["value"]
    assert flipped == pytest.approx(np.mean([risk(text) == 0.2 for text in notes.texts]))
    assert verdicts(result) == {"spelling": "concern", "layout": "acceptable"}
    doses = [f.sentence for f in result.findings if f.kind == "fact"]
    assert any(sentence.startswith("m: typos in 1%, 2% and 5% of the words flip ") for sentence in doses)
    assert any("a dose is at least one word, and these notes are short" in sentence for sentence in doses)


def test_a_model_that_reacts_to_a_brand_name_is_found_with_its_size(notes: Cohort) -> None:
    brands = ("Lasix", "Zoloft", "Glucophage")
    model = RuleModel(lambda text: risk(text) + 0.3 * any(brand in text for brand in brands), "brand")
    result = run_audit(replace(QUICK, perturb=("brands", "generics")), notes, {"m": model})
    assert one(result, "difference", group="brands=brand names")["value"] == pytest.approx(0.3)
    assert one(result, "difference", group="generics=generic names")["value"] == 0.0
    assert verdicts(result) == {"wording": "concern"}
    answer = result.answers[0]
    assert answer.label == "brands, brand names"
    assert "writing the note with brand names of medicines" in result.findings[0].sentence


def test_a_denial_is_judged_in_its_direction_only(notes: Cohort) -> None:
    def taken_for_a_finding(text: str) -> float:
        return risk(text) + 0.35 * (len(re.findall(r"\bNo ", text)) > 0)

    added = replace(QUICK, perturb=("denial_added",))
    wrong = run_audit(added, notes, {"m": RuleModel(taken_for_a_finding, "finding")})
    assert one(wrong, "difference", group="denial_added=added")["value"] == pytest.approx(0.35)
    assert one(wrong, "wrong_flip_rate", group="denial_added=added")["value"] == pytest.approx(
        np.mean([risk(text) == 0.2 for text in notes.texts])
    )
    assert verdicts(wrong) == {"denials": "concern"}
    assert "the wrong way" in wrong.findings[0].sentence
    right = run_audit(added, notes, {"m": RuleModel(lambda t: risk(t) - 0.15 * (" No " in t), "read")})
    assert one(right, "difference", group="denial_added=added")["value"] == pytest.approx(-0.15)
    assert verdicts(right) == {"denials": "acceptable"}
    turned = run_audit(
        replace(added, expects={"denial_added": "up only"}), notes, {"m": RuleModel(taken_for_a_finding, "finding")}
    )
    assert verdicts(turned) == {"denials": "acceptable"}
    removed = run_audit(
        replace(QUICK, perturb=("denial_removed",)),
        notes,
        {"m": RuleModel(lambda t: risk(t) + 0.35 * ("Denies" in t), "word")},
    )
    assert one(removed, "difference", group="denial_removed=removed")["value"] == pytest.approx(-0.35)
    assert verdicts(removed) == {"denials": "concern"}


def test_the_tolerance_of_a_perturbation_is_its_margin(notes: Cohort) -> None:
    model = RuleModel(lambda text: 0.2 + 0.01 * (len(text) % 2) + 0.06 * (text.upper() == text), "capitals")
    audit = replace(QUICK, perturb=("one_line",), perturbations=(from_function(str.upper, name="shout"),))
    strict = run_audit(audit, notes, {"m": model})
    assert verdicts(strict)["own"] == "concern"
    loose = run_audit(replace(audit, tolerance={"shout": 0.1}), notes, {"m": model})
    assert verdicts(loose)["own"] == "acceptable"


def test_too_few_patients_are_left_out_unless_asked_for() -> None:
    few = cohort(40)
    result = run_audit(QUICK, few, {"m": STEADY})
    said = [f.sentence for f in result.findings if f.kind == "caveat" and f.question == "wording"]
    assert any("fewer than 30 patients" in s and "generics" in s and "no contractions (0 patients)" in s for s in said)
    asked = run_audit(replace(QUICK, perturb=("generics",)), few, {"m": STEADY})
    assert verdicts(asked) == {"wording": "unsettled"}
    assert "only" in (asked.answers[0].reason or "")
    none = run_audit(replace(QUICK, perturb=("no_contractions",)), few, {"m": STEADY})
    assert verdicts(none) == {"wording": "unsettled"}
    assert one(none, "difference")["reason"] == "no note could be written so"


def test_edits_beyond_the_window_leave_the_answer_unsettled(notes: Cohort) -> None:
    model = KeywordModel({"weakness": 2.0}, -1.0, labels=["ill"], window_words=20)
    result = run_audit(replace(QUICK, perturb=("irrelevant", "denial_added", "contractions")), notes, {"m": model})
    assert one(result, "outside_window", group="irrelevant")["value"] == 1.0
    assert verdicts(result)["wording"] == "unsettled"
    assert "outside its window" in (result.answers[0].reason or "")


def test_intervals_are_by_patient() -> None:
    model = RuleModel(lambda text: 0.2 + 0.2 * ("Lasix" in text) * (hash_of(text) % 2), "half")
    single = run_audit(replace(QUICK, perturb=("brands",)), cohort(300), {"m": model})
    copies = Cohort.from_frame(
        pl.concat([cohort(300).cases.select("patient_id"), pl.DataFrame({"text": cohort(300).texts})], how="horizontal")
        .with_columns(ill=pl.lit(0))
        .pipe(lambda f: pl.concat([f, f, f]))
        .with_row_index("case_id"),
        labels=["ill"],
    )
    tripled = run_audit(replace(QUICK, perturb=("brands",)), copies, {"m": model})
    for end in ("low", "high"):
        a, b = (one(each, "difference", group="brands=brand names")[end] for each in (single, tripled))
        assert a == pytest.approx(b, abs=1e-3)


def hash_of(text: str) -> int:
    return int(re.search(r"number (\d+)", text)[1])  # type: ignore[index]


def test_ensembles_labels_and_blocks(notes: Cohort) -> None:
    table = notes.cases.select("case_id", "patient_id").with_columns(
        text=pl.Series(list(notes.texts)), ill=pl.Series([k % 2 for k in range(700)]), frail=pl.Series([0, 1] * 350)
    )
    two = Cohort.from_frame(table, labels=["ill", "frail"])
    seeds: list[Model] = [
        KeywordModel({"furosemide": {"ill": w, "frail": 0.0}}, -1.0, labels=["ill", "frail"]) for w in (1.0, 3.0)
    ]
    audit = replace(QUICK, perturb=("brands", "typos"), include_text=True)
    result = run_audit(audit, two, {"m": seeds, "n": seeds[0]})
    assert one(result, "difference_sd", model="m", label="ill", group="brands=brand names")["value"] > 0  # type: ignore[operator]
    mean = one(result, "difference", model="m", label="ill", group="brands=brand names")["value"]
    members = [
        one(result, "difference", model=f"m[{k}]", label="ill", group="brands=brand names")["value"] for k in (1, 2)
    ]
    assert mean == pytest.approx(np.mean(members))
    assert {answer.model for answer in result.answers} == {"m", "n"}
    check_declared(audit, result)
    titles = [block.title for block in result.blocks]
    assert "What was altered" in titles
    assert "Decisions that flip, by dose" in titles


def test_options_are_checked_and_written_down() -> None:
    adapter = TypeAdapter(Robustness)
    made = adapter.validate_python({"perturb": ["typos"], "doses": [0.1], "expects": {"typos": "down only"}})
    assert made.questions == ("spelling",)
    assert Robustness().questions == ("spelling", "layout", "wording", "denials")
    with pytest.raises(ValueError, match="expects"):
        adapter.validate_python({"expects": {"typos": "sideways"}})


def test_replacements_that_hold_note_text_are_not_written(tmp_path: Path) -> None:
    few = cohort(30)
    for include, expected in ((False, 0), (True, 30)):
        plan = replace(QUICK, perturb=("case",), include_text=include).plan(few, np.random.default_rng(0))
        out = RunDirectory(tmp_path / str(include))
        out.write_variants("robustness", plan)
        written = pl.read_parquet(tmp_path / str(include) / "variants" / "robustness.parquet")
        shown = written.filter(pl.col("replacement").is_not_null(), group="case=lower case")
        assert shown["case_id"].n_unique() == expected
        assert written.filter(group="case=lower case")["start"].null_count() == 0
