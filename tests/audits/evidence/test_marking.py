"""From scores to evidence: thresholds, scales, words and spans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from palpate import Cohort
from palpate.audits.evidence.marking import Marking, runs, score_words
from palpate.cases.cohort import stack
from palpate.errors import CohortError
from palpate.results import no_attributions
from tests.audits.evidence.evidence_charts import (
    CODES,
    PHRASES,
    SAYS,
    ExplainingModel,
    audit,
    charts,
    knower,
    notes_table,
    quick,
    table,
    value,
)

PLAIN: dict[str, Any] = {"faithfulness": False, "explain": "none"}
ONLY: dict[str, Any] = {"faithfulness": False}


def test_the_threshold_is_the_best_on_the_validation_split(tmp_path: Path) -> None:
    cohort, gold = charts(80)
    scored = gold.with_columns(score=pl.lit(0.6))
    text = dict(zip(cohort.cases["case_id"], cohort.texts, strict=True))
    noise = gold.select(
        "case_id",
        "label",
        start=pl.lit(0),
        end=pl.col("case_id").map_elements(lambda case: len(text[case].split()[0]), return_dtype=pl.Int64),
        score=pl.lit(0.3),
    )
    both = pl.concat(
        [scored.with_columns(pl.col("start", "end").cast(pl.Int64)), noise.with_columns(pl.col("start").cast(pl.Int64))]
    )
    result = audit(quick(gold, predicted={"toy": table(both)}, **PLAIN), cohort, tmp_path, toy=knower())
    about = result.provenance["models"]["toy"]
    assert about["threshold"] == 0.58  # the highest that 0.6 is greater than
    assert "validation" in about["threshold_from"]
    assert value(result, "token_f1") > 0.97
    lower = quick(gold, predicted={"toy": table(both)}, threshold=0.29, **PLAIN)
    given = audit(lower, cohort, tmp_path / "given", toy=knower())
    assert given.provenance["models"]["toy"]["threshold_from"] == "given"
    assert value(given, "token_precision") < 0.8
    high = audit(
        quick(gold, predicted={"toy": table(both)}, threshold=5.0, **PLAIN), cohort, tmp_path / "h", toy=knower()
    )
    for found, series in ((given, {"toy", "toy: threshold 0.29"}), (high, {"toy"})):
        (curve,) = [block for block in found.blocks if block.title.startswith("The score above which")]
        assert {point["model"] for point in curve.data} == series  # type: ignore[union-attr]


def test_without_a_validation_split_scores_need_a_threshold(tmp_path: Path) -> None:
    cohort, gold = charts(40)
    frame = cohort.cases.with_columns(split=pl.lit("test"))
    whole = Cohort(frame, cohort.labels, cohort.y)
    scored = table(gold.with_columns(score=pl.lit(0.6)))
    with pytest.raises(CohortError, match="threshold"):
        audit(quick(gold, predicted={"toy": scored}, **PLAIN), whole, tmp_path, toy=knower())
    result = audit(quick(gold, predicted={"toy": scored}, threshold=0.5, **PLAIN), whole, tmp_path / "b", toy=knower())
    assert value(result, "token_f1") == 1.0


def test_the_threshold_comes_from_the_validation_split_of_the_audited_cohort(tmp_path: Path) -> None:
    first, _ = charts(20, seed=1)
    second, gold = charts(80)
    cases = first.cases.with_columns(
        pl.lit("near").alias("cohort"), pl.concat_str(pl.lit("n"), "case_id").alias("case_id")
    )
    both = stack([Cohort(cases, first.labels, first.y), second])
    evidence = quick(gold, predicted={"toy": table(gold.with_columns(score=pl.lit(0.6)))}, cohort="cohort", **PLAIN)
    result = audit(evidence, both, tmp_path, toy=knower())
    assert result.provenance["validation_charts"] > 0
    assert "validation" in result.provenance["models"]["toy"]["threshold_from"]


@pytest.mark.parametrize(
    ("origin", "step", "expected"),
    [("attention", "auto", 0.02), ("tagging", "auto", 0.05), ("a table", "auto", 0.02), ("tagging", 0.1, 0.1)],
)
def test_thresholds_are_tried_in_the_steps_of_the_paper(origin: str, step: Any, expected: float) -> None:
    assert Marking(None, step, "auto").step_for(origin) == expected


def test_pieces_of_words_become_words(tmp_path: Path) -> None:
    cohort, gold = charts(48)
    pieces = {code: {part: 0.9 for word in PHRASES[code].split() for part in (word[:3], word[3:])} for code in CODES}
    result = audit(quick(gold, **ONLY), cohort, tmp_path, toy=ExplainingModel(pieces))
    assert value(result, "token_recall") == 1.0
    assert value(result, "span_recall") == 1.0


def test_scores_without_a_scale_are_relative_to_the_strongest_word(tmp_path: Path) -> None:
    cohort, gold = charts(48)
    large = {code: {word: 40.0 * score for word, score in SAYS[code].items()} for code in CODES}
    result = audit(quick(gold, **ONLY), cohort, tmp_path, toy=ExplainingModel(large))
    assert result.provenance["models"]["toy"]["scores"] == "relative"
    assert value(result, "token_f1") == 1.0


def test_no_pieces_are_no_words() -> None:
    cohort, gold = charts(8)
    plan = quick(gold, threshold=0.5).plan(cohort, np.random.default_rng(0))
    scored, scale = score_words(plan.memory.charts, no_attributions(), "pointing", "auto")
    assert len(scored.word) == 0
    assert scale == "raw"


def test_attention_that_never_reaches_a_threshold_points_at_nothing_and_says_what_to_do(tmp_path: Path) -> None:
    cohort, gold = charts(48)
    faint = {code: {word: score / 100 for word, score in SAYS[code].items()} for code in CODES}
    result = audit(quick(gold, **ONLY), cohort, tmp_path, toy=ExplainingModel(faint))
    assert value(result, "token_recall") == 0.0
    assert any("scale: relative" in finding.sentence for finding in result.findings)
    scaled = audit(quick(gold, scale="relative", **ONLY), cohort, tmp_path / "b", toy=ExplainingModel(faint))
    assert value(scaled, "token_f1") == 1.0


def test_a_predicted_span_ends_with_its_note_and_with_its_chart() -> None:
    frame = pl.DataFrame({"case_id": ["a", "b"], "text": ["one two three four", "five six"], "J18": [1, 1]})
    cohort = Cohort.from_frame(frame, labels=["J18"])
    gold = pl.DataFrame({"case_id": ["a"], "label": ["J18"], "start": [0], "end": [3]})
    places = pl.DataFrame(
        {
            "case_id": ["a", "a", "b"],
            "note_id": ["1", "2", "3"],
            "category": ["x", "y", "x"],
            "start": [0, 8, 0],
            "end": [7, 18, 8],
        }
    )
    plan = quick(gold, notes=notes_table(places), threshold=0.5).plan(cohort, np.random.default_rng(0))
    found = runs(plan.memory.charts, np.arange(6), np.zeros(6, np.int64))
    assert list(zip(found.note.tolist(), found.begin.tolist(), found.end.tolist(), strict=True)) == [
        (0, 0, 7),
        (0, 8, 18),
        (1, 0, 8),
    ]
