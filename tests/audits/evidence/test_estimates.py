"""Numbers of the evidence audit that cannot be computed: null, each with its reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from tests.audits.evidence.evidence_charts import audit, charts, knower, quick, row, table, value

PLAIN: dict[str, Any] = {"faithfulness": False, "explain": "none"}


def unexplained(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows without a value, or without the interval that rows with a level have, and without a reason."""
    lacks = pl.col("value").is_null() | (pl.col("level").is_not_null() & pl.col("low").is_null())
    return rows.filter(lacks, pl.col("reason").is_null())


def test_a_single_chart_has_no_interval_and_every_undefined_number_has_a_reason(tmp_path: Path) -> None:
    cohort, gold = charts(40)
    sure = gold.with_columns(completeness=pl.lit("sufficient"))
    predicted = {"toy": table(gold), "mute": table(gold.head(0))}
    models = {"toy": knower(), "mute": knower(window_words=10_000)}
    result = audit(
        quick(sure, predicted=predicted, max_charts=1, charts="annotated", **PLAIN), cohort, tmp_path, **models
    )
    rows = result.estimates
    assert rows["low"].is_null().all()
    assert rows["high"].is_null().all()
    assert unexplained(rows).is_empty()
    why = row(result, "token_f1")["reason"]
    assert why.startswith("no interval: fewer than 2 charts")
    assert "a lower bound" in why
    assert row(result, "token_recall")["reason"] == why.partition(";")[0]


def test_what_one_chart_has_alone_has_no_interval_and_says_why(tmp_path: Path) -> None:
    """Evidence in one chart only: it does not show how precision varies."""
    cohort, gold = charts(80)
    case = gold.filter(pl.col("case_id").is_in(cohort.cases.filter(split="test")["case_id"].to_list()))["case_id"][0]
    predicted = {"toy": table(gold.filter(pl.col("case_id") == case)), "other": table(gold)}
    result = audit(
        quick(gold, predicted=predicted, codes="all", **PLAIN), cohort, tmp_path, toy=knower(), other=knower()
    )
    assert unexplained(result.estimates).is_empty()
    for metric, reference in (("token_precision", None), ("codes_false", None), ("token_precision", "random evidence")):
        found = row(result, metric, reference=reference)
        assert found["value"] is not None
        assert found["low"] is found["high"] is None
        assert found["reason"] == "no interval: fewer than 2 charts"


def test_gold_without_a_word_is_counted_apart_and_told(tmp_path: Path) -> None:
    cohort, gold = charts(40)
    test = cohort.cases.filter(pl.col("split") == "test")["case_id"].to_list()
    length = {case: len(text) for case, text in zip(cohort.cases["case_id"], cohort.texts, strict=True)}
    full_stops = [(case, "J18", length[case] - 1, length[case]) for case in test[:2]]
    more = pl.concat([gold, pl.DataFrame(full_stops, schema=gold.schema, orient="row")])
    for rows, told in ((gold, None), (more.head(-1), "1 gold span has no word"), (more, "2 gold spans have no word")):
        folder = tmp_path / str(len(rows))
        result = audit(quick(rows, predicted={"toy": table(gold)}, **PLAIN), cohort, folder, toy=knower())
        assert value(result, "token_f1") == 1.0
        assert result.provenance["gold_spans_without_a_word"] == len(rows) - len(gold)
        said = [finding.sentence for finding in result.findings if "no word" in finding.sentence]
        assert len(said) == (told is not None)
        assert all(line.startswith(str(told)) for line in said)
