"""The audit's estimates: every number once, differences paired, thresholds as elsewhere."""

from __future__ import annotations

import polars as pl

from palpate.results import AuditResult
from palpate.testing import KeywordModel
from tests.audits.vocabulary.audited_words import (
    MODELS,
    SPURIOUS,
    rated,
    run,
    value,
)
from tests.audits.vocabulary.vocabulary_cases import Case


def test_every_number_is_once_in_the_table_and_a_missing_one_has_its_reason(result: AuditResult) -> None:
    keys = ["model", "metric", "label", "group", "reference"]
    assert result.estimates.select(keys).is_duplicated().sum() == 0
    missing = result.estimates.filter(pl.col("value").is_null())
    assert missing["reason"].is_not_null().all()
    assert value(result, "sensitivity", model="xgboost", group="absent")["reason"] == "in no note"
    assert value(result, "rank", model="xgboost", group="absent")["n"] == 0
    metrics = {"sensitivity", "signed_change", "flip_rate", "rank", "sensitivity_uniform", "flip_rate_context"}
    assert metrics <= set(result.estimates["metric"])


def test_rank_differences_are_paired_and_corrected_over_words(audited: Case, result: AuditResult) -> None:
    rows = result.estimates.filter(pl.col("metric") == "rank", pl.col("reference") == "logistic")
    assert rows.height == 13
    larkspur = rows.filter(pl.col("group") == "larkspur").row(0, named=True)
    both = [value(result, "rank", model=name, group="larkspur")["value"] for name in ("xgboost", "logistic")]
    assert larkspur["value"] == both[0] - both[1]  # type: ignore[operator]
    assert larkspur["significant"] is True
    none = run(audited, {"a": MODELS["xgboost"], "b": KeywordModel(SPURIOUS, bias=-1.0)}, n_replicates=100)
    same = none.estimates.filter(pl.col("metric") == "rank", pl.col("reference") == "a", pl.col("value").is_not_null())
    assert (same["value"] == 0).all()
    assert not same["significant"].any()


def test_flips_use_the_thresholds_of_the_performance_audit(audited: Case) -> None:
    never = run(audited, {"m": MODELS["xgboost"]}, threshold=1.0)
    assert (never.estimates.filter(pl.col("metric") == "flip_rate")["value"].drop_nulls() == 0).all()
    found = run(audited, {"m": MODELS["xgboost"]})
    assert found.provenance["threshold"] == {"m": "reaches 70% recall on the validation split"}
    assert value(found, "flip_rate", group="larkspur")["value"] > 0  # type: ignore[operator]


def test_the_same_seed_gives_the_same_result(audited: Case, result: AuditResult) -> None:
    again = run(audited, MODELS, rated())
    assert again.estimates.equals(result.estimates)
    assert (again.blocks, again.findings) == (result.blocks, result.findings)
