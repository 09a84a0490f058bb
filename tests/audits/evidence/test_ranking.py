"""Measures without a threshold, by frequency of the code and for some note categories; each against a plain count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import average_precision_score

from palpate.errors import ConfigError
from tests.audits.evidence.evidence_charts import (
    CODES,
    SAYS,
    ExplainingModel,
    audit,
    charts,
    knower,
    notes_table,
    quick,
    row,
    table,
    value,
)

ONLY: dict[str, Any] = {"faithfulness": False}


def test_word_auprc_and_precision_at_k_are_the_plain_count(tmp_path: Path) -> None:
    """A model that scores the code's words 0.8 and tablets 0.1, chart by chart and word by word."""
    cohort, gold = charts(80)
    result = audit(quick(gold, **ONLY), cohort, tmp_path, toy=ExplainingModel(SAYS))
    expected: dict[str, list[float]] = {"word_auprc": [], "precision_at_1": [], "recall_at_1": []}
    splits, texts = cohort.cases["split"].to_list(), dict(zip(cohort.cases["case_id"], cohort.texts, strict=True))
    ids = cohort.cases["case_id"].to_list()
    for case, code, start, end in gold.iter_rows():
        if splits[ids.index(case)] != "test":
            continue
        says, text, at, y, score = SAYS[code], texts[case], 0, [], []
        phrase = next(iter(says)).split()
        for word in text.split():
            at = text.index(word, at)
            y.append(int(start <= at < end))
            plain = word.strip(".")
            score.append(0.8 if plain in phrase else 0.1 if plain == "tablet" else 0.0)
            at += len(word)
        expected["word_auprc"].append(average_precision_score(y, score))
        top = np.array(score) == max(score)
        hit = float(np.array(y)[top].mean())
        expected["precision_at_1"].append(hit)
        expected["recall_at_1"].append(hit / sum(y))
    for metric, values in expected.items():
        assert value(result, metric) == pytest.approx(np.mean(values)), metric
        found = row(result, metric)
        assert found["n"] == len(values)
    assert any(block.title == "Ranking of words, without a threshold" for block in result.blocks)


def test_tables_without_scores_have_no_ranking_and_better_scores_a_better_one(tmp_path: Path) -> None:
    cohort, gold = charts(120)
    worse = {code: {"tablet": 0.9, "daily": 0.6} for code in CODES}
    models = {"good": ExplainingModel(SAYS), "bad": ExplainingModel(worse), "plain": knower()}
    result = audit(quick(gold, predicted={"plain": table(gold)}, **ONLY), cohort, tmp_path, **models)
    assert row(result, "word_auprc", model="plain")["reason"] == "the evidence has no scores"
    difference = row(result, "word_auprc", model="bad", reference="good")
    assert difference["high"] < 0
    assert value(result, "spans_touched", model="plain") == 1.0
    assert value(result, "spans_touched", model="bad") == 0.0


def test_by_frequency_of_the_code_and_for_categories_together(tmp_path: Path) -> None:
    cohort, gold = charts(80)
    places = [
        (case, 10 * k + j, name, *((0, len(text) // 2) if j == 0 else (len(text) // 2, len(text))))
        for k, (case, text) in enumerate(zip(cohort.cases["case_id"], cohort.texts, strict=True))
        for j, name in enumerate(("Nursing", "Radiology"))
    ]
    notes = notes_table(pl.DataFrame(places, schema=["case_id", "note_id", "category", "start", "end"], orient="row"))
    evidence = quick(gold, notes=notes, categories=("Nursing", "Radiology"), **ONLY)
    result = audit(evidence, cohort, tmp_path, toy=ExplainingModel(SAYS))
    both = value(result, "token_f1", group="categories=Nursing, Radiology")
    assert both == pytest.approx(value(result, "token_f1"))
    groups = set(result.estimates["group"])
    assert {"frequency=1 to 9", "frequency=10 to 99"} & groups
    with pytest.raises(ConfigError, match="no note has the category 'Letters'") as refused:
        audit(quick(gold, notes=notes, categories=("Letters",)), cohort, tmp_path / "no", toy=knower())
    assert "Nursing, Radiology" in str(refused.value)


def test_a_model_that_points_at_nothing_is_not_said_to_rest_on_it(tmp_path: Path) -> None:
    """No score reaches the threshold, though without the highest ones the probability falls."""
    cohort, gold = charts(200)
    faint = {code: dict.fromkeys(says, 0.01) for code, says in SAYS.items()}
    result = audit(quick(gold, threshold=0.5, scale="raw"), cohort, tmp_path, toy=ExplainingModel(faint))
    told = " ".join(finding.sentence for finding in result.findings)
    assert "points at nothing" in told
    assert "rest on the words it points at" not in told
    (answer,) = (each for each in result.answers if each.question == "faithfulness")
    assert (answer.verdict, answer.reason) == ("unsettled", "it points at nothing")


def test_nor_one_that_points_at_nothing_in_most_charts(tmp_path: Path) -> None:
    cohort, gold = charts(200)
    rare = gold.with_columns(score=pl.when(pl.int_range(pl.len()) % 20 == 0).then(0.9).otherwise(0.3))
    result = audit(quick(gold, threshold=0.5, predicted={"toy": table(rare)}), cohort, tmp_path, toy=knower())
    told = " ".join(finding.sentence for finding in result.findings)
    assert "rest on the words it points at" not in told
    (answer,) = (each for each in result.answers if each.question == "faithfulness")
    assert answer.verdict == "unsettled"
    assert "of the charts with evidence" in str(answer.reason)


def test_false_evidence_elsewhere_hides_no_missed_chart(tmp_path: Path) -> None:
    """Marks for codes that a chart does not have are no marks for those that it has."""
    cohort, gold = charts(60)
    other = {code: CODES[(k + 1) % len(CODES)] for k, code in enumerate(CODES)}
    wrong = gold.with_columns(pl.col("label").replace_strict(other))
    wrong = wrong.join(gold.select("case_id", "label"), on=["case_id", "label"], how="anti")
    options = {"predicted": {"toy": table(wrong)}, "faithfulness": False, "explain": "none"}
    found = {
        codes: audit(quick(gold, codes=codes, **options), cohort, tmp_path / codes, toy=knower())
        for codes in ("gold", "all")
    }
    assert value(found["gold"], "charts_missed") == value(found["all"], "charts_missed") == 1.0
    assert value(found["all"], "codes_false") == 1.0
    assert value(found["gold"], "codes_false") is None
