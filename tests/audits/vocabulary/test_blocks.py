"""What the audit shows: tables and charts."""

from __future__ import annotations

import polars as pl
import pytest

from palpate.report.charts import draw
from palpate.results import AuditResult, Chart, Table
from tests.audits.vocabulary.audited_words import (
    IMPORTANT,
    MODELS,
    WORDS,
    block,
    rated,
    run,
    sentences,
    value,
)
from tests.audits.vocabulary.vocabulary_cases import Case, build, hospital, random_notes


def test_blocks_can_be_drawn_and_tables_fit_their_columns(result: AuditResult) -> None:
    titles = [each.title for each in result.blocks]
    assert titles[:4] == [
        "Words that move logistic",
        "Words that move xgboost",
        "Model against clinicians",
        "Largest disagreements with the clinicians",
    ]
    for each in result.blocks:
        if isinstance(each, Chart):
            assert draw(each).panels
            assert each.data
        elif isinstance(each, Table):
            assert {len(row) for row in each.rows} == {len(each.columns)}, each.title


def test_the_plot_is_ordered_by_rank_in_percentage_points(result: AuditResult) -> None:
    chart = block(result, "Words that move xgboost")
    assert isinstance(chart, Chart)
    assert chart.data[0]["word"] == "larkspur"
    values = [row["value"] for row in chart.data]
    assert values == sorted(values, reverse=True)
    estimate = value(result, "sensitivity", model="xgboost", group="larkspur")
    assert chart.data[0]["value"] == pytest.approx(100 * estimate["value"])  # type: ignore[operator]
    assert chart.data[0]["n"] == estimate["n"]


def test_disagreements_go_both_ways(result: AuditResult) -> None:
    table = block(result, "Largest disagreements with the clinicians")
    assert isinstance(table, Table)
    ours = [row for row in table.rows if row[0] == "xgboost"]
    more = [row[2] for row in ours if row[1] == "model more than clinicians"]
    less = [row[2] for row in ours if row[1] == "clinicians more than model"]
    assert more[0] == "larkspur"
    assert not {"window", "carpet", "corridor"} & set(more), "a word that does nothing gets no weight"
    assert less[0] in IMPORTANT


def test_few_words_in_the_plot(audited: Case) -> None:
    some = run(audited, MODELS, rated(words=("pencil", "sepsis")), top=2, n_replicates=100)
    chart = block(some, "Words that move logistic")
    assert isinstance(chart, Chart)
    assert [row["word"] for row in chart.data] == ["sepsis", "stroke"]
    assert "10 weaker words" in chart.caption
    assert "can't be computed: fewer than 3 words can be compared" in sentences(some, "warning")


def test_the_frequency_diagnostic_shows_both_schemes(result: AuditResult) -> None:
    schemes = set(result.estimates.filter(pl.col("metric") == "frequency_pearson")["group"])
    assert schemes == {"first occurrence", "all occurrences"}
    chart = block(result, "Rank and frequency")
    assert isinstance(chart, Chart)
    assert chart.facet == "panel"
    assert {row["panel"] for row in chart.data} == {f"{m} · {s}" for m in MODELS for s in schemes}


def test_one_scheme_only_is_shown_alone() -> None:
    small = build(hospital(random_notes(60, WORDS)), WORDS, both_schemes=False)
    found = run(small, {"m": MODELS["xgboost"]})
    chart = block(found, "Rank and frequency")
    assert isinstance(chart, Chart)
    assert chart.facet is None


def test_no_note_text_is_in_the_result(result: AuditResult) -> None:
    told = "".join(each.model_dump_json() for each in result.blocks) + sentences(result)
    assert "walks" not in told
    assert "eats" not in told
