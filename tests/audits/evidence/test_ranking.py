"""Measures without a threshold, by frequency of the code and for some note categories; each against a plain count."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import average_precision_score

from palpate import Cohort
from palpate.config import make_audit
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


def test_categories_are_not_given_as_notes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="option 'notes' is a table: give its file; name categories") as refused:
        make_audit("evidence", {"notes": ["discharge", "physician"]}, folder=tmp_path)
    assert "`categories:`" in str(refused.value)


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


def two_notes(cohort: Cohort) -> pl.DataFrame:
    """Every chart is a discharge summary and a radiology report, cut at a blank in the middle."""
    rows = []
    for k, (case, text) in enumerate(zip(cohort.cases["case_id"], cohort.texts, strict=True)):
        middle = text.index(" ", len(text) // 2)
        rows += [(case, f"{k}a", "Discharge summary", 0, middle), (case, f"{k}b", "Radiology", middle, len(text))]
    return pl.DataFrame(rows, schema=["case_id", "note_id", "category", "start", "end"], orient="row")


def test_every_stratum_is_a_plain_count(tmp_path: Path) -> None:
    """Average precision by note category, length, chapter and frequency, word by word with scikit-learn."""
    cohort, gold = charts(120)
    places = two_notes(cohort)
    options = {"notes": notes_table(places), "categories": ("discharge", "radiology"), "threshold": 0.3}
    noisy = {code: {**says, "walking": 0.85, "daily": 0.3} for code, says in SAYS.items()}
    result = audit(quick(gold, **options), cohort, tmp_path, toy=ExplainingModel(noisy))
    number = {case: k for k, case in enumerate(cohort.cases["case_id"])}
    middle = dict(places.filter(category="Discharge summary").select("case_id", "end").iter_rows())
    test = {case for case, split in zip(cohort.cases["case_id"], cohort.cases["split"], strict=True) if split == "test"}
    y = cohort.y_true(np.flatnonzero(np.array(cohort.cases["split"]) == "train"), CODES).sum(axis=0)
    chapter = {"J18": "respiratory system", "A41": "infections", "I50": "circulatory system"}
    found: dict[str, list[float]] = {}
    for case, label, start, end in gold.iter_rows():
        if case not in test:
            continue
        text = cohort.texts[number[case]]
        words = [(m.start(), m.end()) for m in re.finditer(r"\w+", text)]
        right = [start <= a and b <= end for a, b in words]
        said = [(text.find(phrase), len(phrase), score) for phrase, score in noisy[label].items() if phrase in text]
        score = [max([s for at, n, s in said if at <= a and b <= at + n], default=-1.0) for a, b in words]
        note = [a >= middle[case] for a, _ in words]
        side = start >= middle[case]
        ap = average_precision_score(right, score)
        part = [k for k, here in enumerate(note) if here == side]
        here = average_precision_score([right[k] for k in part], [score[k] for k in part])
        found.setdefault(f"category={'Radiology' if side else 'Discharge summary'}", []).append(here)
        n = y[CODES.index(label)]
        groups = [f"length={min(sum(right), 3)}{'+' if sum(right) > 2 else ''} word{'s' * (sum(right) > 1)}"]
        groups += [f"frequency={'1 to 9' if n < 10 else '10 to 99'}", f"chapter={chapter.get(label)}"]
        for group in (*groups, "categories=discharge, radiology", "all"):
            found.setdefault(group, []).append(ap)
    assert len(found) >= 10
    for group, values in found.items():
        if group != "chapter=None":
            assert value(result, "word_auprc", group=group) == pytest.approx(np.mean(values)), group
    for metric in ("precision_at_5", "recall_at_10", "sensitivity_n", "comprehensiveness_aopc", "spans_touched"):
        for group in found:
            if group not in ("all", "chapter=None"):
                assert row(result, metric, group=group)["n"] > 0, (metric, group)
    shown = next(block for block in result.blocks if block.title == "Ranking and faithfulness by group")
    assert {str(cells[1]) for cells in shown.rows} >= {"Radiology", "3+ words", "infections"}


def test_faithfulness_by_stratum_is_that_of_its_pairs(tmp_path: Path) -> None:
    cohort, gold = charts(120)
    result = audit(quick(gold, threshold=0.3), cohort, tmp_path, toy=ExplainingModel(SAYS))
    parts = [
        row(result, "comprehensiveness_aopc", group=f"chapter={name}")
        for name in ("respiratory system", "infections", "circulatory system", "endocrine and metabolic")
    ]
    whole = row(result, "comprehensiveness_aopc", group="mean over fractions")
    assert sum(part["n"] for part in parts) == whole["n"]
    assert sum(part["n"] * part["value"] for part in parts) == pytest.approx(whole["n"] * whole["value"])
    assert all(part["p_value"] is None for part in parts)
    told = result.provenance["models"]["toy"]["faithfulness"]
    assert told["taken"] == told["predicted"] <= told["codes_in_question"]
    caption = next(block.caption for block in result.blocks if block.title == "Faithfulness in numbers")
    assert f"toy predicts {told['predicted']:,} of {told['codes_in_question']:,} codes in question" in caption


def test_random_evidence_is_what_is_expected_and_not_a_draw(tmp_path: Path) -> None:
    """Token scores of random words are exact, whatever the seed; the verdict rests on them."""
    cohort, gold = charts(60)
    short = gold.with_columns(pl.col("end") - 3)
    evidence = quick(gold, predicted={"toy": table(pl.concat([gold, short]))}, **ONLY, explain="none")
    result = audit(evidence, cohort, tmp_path, toy=knower())
    marked = gold.join(pl.DataFrame({"case_id": cohort.cases["case_id"], "split": cohort.cases["split"]}), on="case_id")
    number = {case: k for k, case in enumerate(cohort.cases["case_id"])}
    hits = total = 0.0
    for case, _, start, end, split in marked.iter_rows():
        if split == "test":
            text = cohort.texts[number[case]]
            g = len(text[start:end].split())
            hits, total = hits + g * g / len(re.findall(r"\w+", text)), total + g
    assert value(result, "token_f1", group="random evidence") == pytest.approx(hits / total)
    assert value(result, "chance_token_f1") == value(result, "token_f1", group="random evidence")
    gain = row(result, "token_f1", reference="random evidence")
    assert gain["value"] == pytest.approx(1.0 - hits / total)
    spans = row(result, "span_f1", group="random evidence")
    assert 0 <= spans["value"] < 0.1


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
