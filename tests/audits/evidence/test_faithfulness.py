"""Faithfulness beside plausibility: planted models land in their corner, and drops are the closed form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from palpate.results import AuditResult
from palpate.testing import CountingModel, KeywordModel
from tests.audits.evidence.evidence_charts import (
    CODES,
    PHRASES,
    ExplainingModel,
    audit,
    charts,
    knower,
    quick,
    row,
    table,
    value,
)

AREA = "mean over fractions"


def other_words() -> KeywordModel:
    """A model that knows the codes by words that no coder would mark."""
    return KeywordModel({"tablet": dict.fromkeys(CODES, 0.8)}, bias=-0.5, labels=CODES)


def corner(result: AuditResult, model: str) -> tuple[float, dict[str, object]]:
    return value(result, "token_f1", model=model), row(
        result, "comprehensiveness_aopc", group=AREA, model=model, reference="random evidence"
    )


def test_planted_models_land_in_their_corners(tmp_path: Path) -> None:
    cohort, gold = charts(240)
    text = dict(zip(cohort.cases["case_id"], cohort.texts, strict=True))
    said = pl.DataFrame(
        [
            (case, code, at, at + 6, 0.9)
            for case, note in text.items()
            for code in CODES
            for at in range(len(note))
            if note.startswith("tablet", at)
        ],
        schema=["case_id", "label", "start", "end", "score"],
        orient="row",
    )
    right = table(gold.with_columns(score=pl.lit(0.9)))
    evidence = quick(
        gold,
        predicted={"both": right, "plausible": right, "faithful": table(said)},
        code_threshold=0.5,
    )
    models = {"both": knower(), "plausible": other_words(), "faithful": other_words()}
    result = audit(evidence, cohort, tmp_path, **models)
    f1, drop = corner(result, "both")
    assert f1 > 0.99
    assert drop["low"] > 0.1  # type: ignore[operator]
    assert drop["significant"]
    f1, drop = corner(result, "plausible")
    assert f1 > 0.99
    assert abs(drop["value"]) < 0.03  # type: ignore[arg-type]
    f1, drop = corner(result, "faithful")
    assert f1 < 0.1
    assert drop["low"] > 0.03  # type: ignore[operator]
    told = [finding.sentence for finding in result.findings]
    assert any(sentence.startswith("plausible: its evidence is plausible, but") for sentence in told)
    assert any(sentence.startswith("both: its predictions rest on the words it points at") for sentence in told)
    verdicts = {(answer.question, answer.model): answer.verdict for answer in result.answers}
    assert verdicts["pointing", "both"] == verdicts["faithfulness", "both"] == "acceptable"
    assert verdicts["pointing", "plausible"] == "acceptable"
    assert verdicts["faithfulness", "plausible"] in ("concern", "unsettled")
    assert verdicts["pointing", "faithful"] == "concern"
    assert verdicts["faithfulness", "faithful"] == "acceptable"
    (plane,) = [block for block in result.blocks if block.title == "Plausible and faithful"]
    assert {point["model"] for point in plane.data} == set(models)  # type: ignore[union-attr]
    for point in plane.data:  # type: ignore[union-attr]
        assert point["x_low"] <= point["plausible"] <= point["x_high"]
        assert point["low"] <= point["faithful"] <= point["high"]


def test_drops_are_the_closed_form(tmp_path: Path) -> None:
    """One word decides each code: without it p falls from sigmoid(2) to sigmoid(-2); with nothing else it stays."""
    cohort, gold = charts(120)
    says = {code: {PHRASES[code].split()[-1]: 0.9} for code in CODES}
    result = audit(quick(gold, fractions=(0.01, 0.5)), cohort, tmp_path, toy=ExplainingModel(says))
    fall = 1 / (1 + np.exp(-2)) - 1 / (1 + np.exp(2))
    for group in ("1% of the words", "50% of the words", "marked words", AREA):
        metric = "_aopc" if group == AREA else ""
        assert value(result, f"comprehensiveness{metric}", group=group) == pytest.approx(fall, abs=1e-12)
        assert value(result, f"sufficiency{metric}", group=group) == pytest.approx(0.0, abs=1e-12)
    random = value(result, "comprehensiveness_random", group="50% of the words")
    assert 0.3 * fall < random < 0.7 * fall
    one = row(result, "comprehensiveness", group="1% of the words")
    assert one["n"] == int(cohort.y_true(cohort.rows(split="test")).sum())


def test_evidence_without_scores_is_removed_whole(tmp_path: Path) -> None:
    cohort, gold = charts(120)
    result = audit(quick(gold, predicted={"toy": table(gold)}), cohort, tmp_path, toy=knower())
    fall = 1 / (1 + np.exp(-2)) - 1 / (1 + np.exp(2))
    assert value(result, "comprehensiveness", group="marked words") == pytest.approx(fall, abs=1e-12)
    assert value(result, "comprehensiveness_aopc", group=AREA) == pytest.approx(fall, abs=1e-12)
    assert result.estimates.filter(metric="comprehensiveness", group="5% of the words").is_empty()


def test_pairs_are_a_sample_of_whole_charts_and_the_cost_is_told(tmp_path: Path) -> None:
    cohort, gold = charts(120)
    counting = CountingModel(knower())
    evidence = quick(gold, predicted={"toy": table(gold)}, faithfulness_pairs=10)
    result = audit(evidence, cohort, tmp_path, toy=counting)
    assert row(result, "comprehensiveness", group="marked words")["n"] <= 10
    asked = result.provenance["models"]["toy"]["texts_asked"]
    assert asked <= 4 * 10
    n_charts = result.provenance["charts"] + result.provenance["validation_charts"]
    assert counting.rows <= asked + n_charts


def test_a_model_that_predicts_nothing_says_so(tmp_path: Path) -> None:
    cohort, gold = charts(60)
    evidence = quick(gold, predicted={"toy": table(gold)}, code_threshold=1.0)
    found = row(audit(evidence, cohort, tmp_path, toy=knower()), "comprehensiveness_aopc", group=AREA)
    assert found["value"] is None
    assert "predicts no label" in found["reason"]


def test_words_beyond_the_window_are_never_taken_out(tmp_path: Path) -> None:
    """Random words are drawn from what the model reads, or evidence would look better than it is."""
    cohort, gold = charts(120, n_words=60)
    model = KeywordModel({"tablet": dict.fromkeys(CODES, 0.8)}, bias=-0.5, labels=CODES, window_words=20)
    evidence = quick(gold, predicted={"toy": table(gold)}, code_threshold=0.1)
    result = audit(evidence, cohort, tmp_path, toy=model)
    drop = row(result, "comprehensiveness", group="marked words", reference="random evidence")
    assert drop["value"] < 0
    assert value(result, "comprehensiveness", group="marked words") == pytest.approx(0.0, abs=1e-12)


def test_close_fractions_keep_their_own_rows(tmp_path: Path) -> None:
    cohort, gold = charts(48)
    evidence = quick(gold, predicted={"toy": table(gold.with_columns(score=pl.lit(0.9)))}, fractions=(0.05, 0.054, 0.5))
    result = audit(evidence, cohort, tmp_path, toy=knower())
    rows = result.estimates.filter(pl.col("metric") == "comprehensiveness", pl.col("reference").is_null())
    shares = [name for name in rows["group"] if name.endswith("of the words")]
    assert shares == ["5% of the words", "5.4% of the words", "50% of the words"]


def test_by_patient_the_intervals_are_by_patient(tmp_path: Path) -> None:
    """A table that marks what matters in both charts of every other patient: drops go by patient."""
    cohort, gold = charts(240)
    start = pl.col("end") - 2
    blind = pl.col("case_id").str.slice(1).cast(pl.Int64) // 2 % 8 < 4
    marked = gold.with_columns(start=pl.when(blind).then(start).otherwise("start"))
    width = {}
    for unit in ("chart", "patient"):
        evidence = quick(gold, predicted={"toy": table(marked)}, unit=unit)
        result = audit(evidence, cohort, tmp_path / unit, toy=knower())
        found = row(result, "comprehensiveness", group="marked words")
        width[unit] = found["high"] - found["low"]
    assert width["patient"] > 1.15 * width["chart"]
