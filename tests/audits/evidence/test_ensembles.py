"""A model of several seeds: its evidence is the mean over them, with strata, shares and faithfulness."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from palpate.results import AuditResult
from palpate.testing import KeywordModel
from tests.audits.evidence.evidence_charts import CODES, audit, charts, knower, quick, row, table, value

AREA = "mean over fractions"
PLAIN: dict[str, Any] = {"faithfulness": False, "explain": "none"}


def rows_of(result: AuditResult, model: str) -> pl.DataFrame:
    """All numbers of a model, without its name and without the spread over seeds."""
    rows = result.estimates.filter(pl.col("model") == model, ~pl.col("metric").str.ends_with("_sd"))
    return rows.drop("model", "n", "p_value", "significant").sort("metric", "group", "reference", nulls_last=True)


def systems(gold: pl.DataFrame) -> pl.DataFrame:
    return gold.with_columns(
        code_system=pl.when(pl.col("label") == "J18").then(pl.lit("ICD-9")).otherwise(pl.lit("ICD-10"))
    )


def test_an_ensemble_is_reported_as_mean_and_spread_of_its_members(tmp_path: Path) -> None:
    cohort, gold = charts(80)
    gold = systems(gold)
    parts = {"toy[1]": table(gold), "toy[2]": table(gold.filter(pl.col("label") != "J18"))}
    result = audit(quick(gold, predicted=parts, **PLAIN), cohort, tmp_path, toy=[knower(), knower()])
    each = [value(result, "token_f1", model=name) for name in parts]
    assert value(result, "token_f1_sd") == pytest.approx(np.std(each, ddof=1), abs=1e-12)
    for metric, group in (
        ("token_f1", "all"),
        ("token_f1_by_code", "all"),
        ("chance_token_f1", "all"),
        ("codes_missed", "all"),
        ("span_recall", "length=1 word"),
        ("token_f1", "code system=ICD-10"),
        ("token_recall", "code system=ICD-9"),
    ):
        mean = np.mean([value(result, metric, model=name, group=group) for name in parts])
        assert value(result, metric, group=group) == pytest.approx(mean, abs=1e-12), (metric, group)
    assert value(result, "token_recall", group="code system=ICD-9") == 0.5
    assert row(result, "span_recall", group="length=1 word")["low"] < 1
    gain = row(result, "token_f1", reference="random evidence")
    drawn = value(result, "token_f1", group="random evidence")
    assert gain["value"] == pytest.approx(value(result, "token_f1") - drawn, abs=1e-12)
    assert gain["significant"]


def test_an_ensemble_of_equal_members_has_their_numbers_in_every_group(tmp_path: Path) -> None:
    cohort, gold = charts(80)
    scored = table(systems(gold).filter(pl.col("label") != "A41").with_columns(score=pl.lit(0.9)))
    window = {"window_words": 30}
    evidence = quick(systems(gold), predicted={"toy": scored})
    result = audit(evidence, cohort, tmp_path, toy=[knower(**window), knower(**window)])
    mean, one = rows_of(result, "toy"), rows_of(result, "toy[1]")
    groups = {"length=2 words", "code system=ICD-9", "window=beyond", AREA, "5% of the words", "marked words"}
    assert groups <= set(mean["group"])
    # Members are not compared with random evidence one by one.
    mean = mean.filter(~(pl.col("reference") == "random evidence").fill_null(False) | (pl.col("group") != "all"))
    assert mean.select("metric", "group", "reference").equals(one.select("metric", "group", "reference"))
    alone = [pl.coalesce(f"pointwise_{end}", end).alias(end) for end in ("low", "high")]  # families differ in size
    mean, one = mean.with_columns(alone), one.with_columns(alone)
    for column in ("value", "low", "high"):
        np.testing.assert_allclose(mean[column].to_numpy(), one[column].to_numpy(), rtol=0, atol=1e-12)


def test_members_of_different_faithfulness_have_their_mean(tmp_path: Path) -> None:
    """The one rests on what is marked, the other on other words: half the drop."""
    cohort, gold = charts(160)
    predicted = {"toy": table(gold), "alone": table(gold)}
    evidence = quick(gold, predicted=predicted, code_threshold=0.5)
    other = KeywordModel({"tablet": dict.fromkeys(CODES, 0.8)}, bias=-0.5, labels=CODES)
    result = audit(evidence, cohort, tmp_path, toy=[knower(), other], alone=knower())
    for reference in (None, "random evidence"):
        found = [
            row(result, "comprehensiveness_aopc", group=AREA, model=name, reference=reference)
            for name in ("toy", "toy[1]", "toy[2]")
        ]
        mean = (found[1]["value"] + found[2]["value"]) / 2
        assert found[0]["value"] == pytest.approx(mean, abs=1e-12)
        assert found[0]["low"] - 1e-12 <= mean <= found[0]["high"] + 1e-12
        assert found[0]["n"] == found[1]["n"] + found[2]["n"]
    # Two models are tested, `toy` and `alone`, and apart from them two members: p is corrected for two, not four.
    single = audit(quick(gold, predicted={"alone": table(gold)}), cohort, tmp_path / "single", alone=knower())
    beyond: dict[str, Any] = {"group": AREA, "reference": "random evidence"}
    raw = row(single, "comprehensiveness_aopc", model="alone", **beyond)["p_value"]
    for name in ("toy[1]", "alone"):
        assert row(result, "comprehensiveness_aopc", model=name, **beyond)["p_value"] == pytest.approx(2 * raw, rel=0.1)


def test_the_findings_are_about_the_model_and_not_about_each_seed(tmp_path: Path) -> None:
    cohort, gold = charts(80)
    models = [KeywordModel({"tablet": 1.0}, bias=0.1 * k, labels=CODES) for k in range(2)]
    evidence = quick(gold, predicted={"toy": table(gold.with_columns(score=pl.lit(0.9)))})
    result = audit(evidence, cohort, tmp_path, toy=models)
    said = [finding.sentence for finding in result.findings]
    assert any(
        line.startswith("toy: its evidence is plausible, but whether its predictions rest on it cannot be told")
        for line in said
    ), said
    assert not any("toy[" in line for line in said), said
    (plane,) = [block for block in result.blocks if block.title == "Plausible and faithful"]
    assert [point["model"] for point in plane.data] == ["toy"]  # type: ignore[union-attr]
    (numbers,) = [block for block in result.blocks if block.title == "Faithfulness in numbers"]
    assert {line[0] for line in numbers.rows} == {"toy", "toy[1]", "toy[2]"}  # type: ignore[union-attr]


def test_an_ensemble_with_a_member_without_evidence_stays_visible(tmp_path: Path) -> None:
    cohort, gold = charts(40)
    evidence = quick(gold, predicted={"toy[1]": table(gold)}, explain="none", code_threshold=0.5)
    result = audit(evidence, cohort, tmp_path, toy=[knower(), knower()], other=knower())
    found = row(result, "token_f1")
    assert found["value"] is None
    assert "explain: none" in found["reason"]
    assert value(result, "token_f1", model="toy[1]") == 1.0
    assert any(finding.sentence.startswith("toy: no token F1 of evidence") for finding in result.findings)


def test_an_ensemble_with_a_member_that_predicts_nothing_has_no_mean_faithfulness(tmp_path: Path) -> None:
    cohort, gold = charts(40)
    silent = KeywordModel({"tablet": 0.0}, bias=-3.0, labels=CODES)
    evidence = quick(gold, predicted={"toy": table(gold)}, code_threshold=0.5)
    result = audit(evidence, cohort, tmp_path, toy=[knower(), silent])
    found = row(result, "comprehensiveness_aopc", group=AREA)
    assert found["value"] is None
    assert "predicts no label" in found["reason"]
    assert value(result, "comprehensiveness_aopc", group=AREA, model="toy[1]") > 0
