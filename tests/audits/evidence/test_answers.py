"""The evidence audit's cells of the scorecard: verdicts on planted evidence, and why some stay open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from palpate.results import AuditResult
from palpate.results.verdicts import Answer
from tests.audits.evidence.evidence_charts import audit, charts, knower, quick, row, table

PLAIN: dict[str, Any] = {"faithfulness": False, "explain": "none"}


def answers(result: AuditResult, model: str = "toy") -> dict[str, Answer]:
    return {answer.question: answer for answer in result.answers if answer.model == model}


def elsewhere(gold: pl.DataFrame) -> pl.DataFrame:
    """Evidence of one letter: pieces of words never match."""
    return gold.with_columns(end=pl.col("start") + 1)


def test_evidence_that_beats_chance_is_acceptable_and_evidence_elsewhere_a_concern(tmp_path: Path) -> None:
    cohort, gold = charts(400)
    predicted = {"good": table(gold), "bad": table(elsewhere(gold))}
    result = audit(quick(gold, predicted=predicted, **PLAIN), cohort, tmp_path, good=knower(), bad=knower())
    good, bad = answers(result, "good")["pointing"], answers(result, "bad")["pointing"]
    assert good.asks == "Does it point where coders point, more than chance would?"
    assert (good.verdict, good.margin, good.required) == ("acceptable", 0.05, True)
    assert bad.verdict == "concern"
    told = {finding.kind: finding.sentence for finding in result.findings if finding.question == "pointing"}
    assert "It beats random words by more than 0.050" in told["acceptable"]
    assert "It does not beat random words by 0.050" in told["concern"]
    assert set(answers(result, "good")) == {"pointing"}  # nothing was taken out, so nothing is said of faithfulness


def test_few_charts_leave_it_unsettled_and_say_how_many_would_do(tmp_path: Path) -> None:
    cohort, gold = charts(400)
    some = pl.concat([gold.filter(pl.int_range(pl.len()) % 9 == 0), elsewhere(gold)]).unique(["case_id", "label"])
    result = audit(quick(gold, predicted={"toy": table(some)}, max_charts=8, **PLAIN), cohort, tmp_path, toy=knower())
    found = answers(result)["pointing"]
    assert (found.verdict, found.needed) == ("unsettled", None)
    assert found.reason is not None
    assert found.reason.startswith("only 8 charts; about ")
    (told,) = (finding.sentence for finding in result.findings if finding.kind == "unsettled")
    assert "cannot be told" in told
    assert found.reason in told


def test_where_coders_agreement_is_known_a_model_is_asked_for_as_much(tmp_path: Path) -> None:
    cohort, gold = charts(400)
    half = gold.filter(pl.int_range(pl.len()) % 2 == 0)
    for coder_f1, verdict in ((0.98, "concern"), (0.3, "acceptable")):
        evidence = quick(gold, predicted={"toy": table(half)}, coder_f1=coder_f1, **PLAIN)
        result = audit(evidence, cohort, tmp_path / verdict, toy=knower())
        found = answers(result)["pointing"]
        assert found.asks == "Does it point where coders point, as well as another coder?"
        assert (found.verdict, found.margin) == (verdict, pytest.approx(coder_f1 - 0.05))
        assert found.value == row(result, "token_f1")["value"]


def test_what_could_not_be_seen_is_unsettled_with_its_reason(tmp_path: Path) -> None:
    cohort, gold = charts(80)
    result = audit(quick(gold, explain="none"), cohort, tmp_path / "none", toy=knower())
    found = answers(result)["pointing"]
    assert found.verdict == "unsettled"
    assert "no table of its evidence is given" in (found.reason or "")
    quiet = audit(quick(gold, predicted={"toy": table(gold)}, code_threshold=1.0), cohort, tmp_path / "q", toy=knower())
    found = answers(quiet)["faithfulness"]
    assert found.verdict == "unsettled"
    assert "it predicts no label" in (found.reason or "")


def test_margins_and_families_are_the_runs(tmp_path: Path) -> None:
    cohort, gold = charts(80)
    predicted = {"toy": table(gold), "other": table(elsewhere(gold))}
    strict = quick(gold, predicted=predicted, margins={"evidence_f1": 0.9}, **PLAIN)
    models = {"toy": knower(), "other": knower()}
    assert answers(audit(strict, cohort, tmp_path / "strict", **models))["pointing"].verdict == "unsettled"
    sizes = {}
    for family in ("question", "run"):
        result = audit(quick(gold, predicted=predicted, family=family, **PLAIN), cohort, tmp_path / family, **models)
        found = row(result, "token_f1", reference="random evidence")
        sizes[family] = found["n_family"]
        assert found["significant"] == (found["low"] > 0 or found["high"] < 0)
        assert found["low"] < found["pointwise_low"]
    assert sizes["question"] == 2
    assert sizes["run"] > 30


def test_limits_of_the_answer_are_caveats_of_its_question(tmp_path: Path) -> None:
    cohort, gold = charts(80)
    sure = gold.with_columns(completeness=pl.lit("sufficient"))
    result = audit(
        quick(sure, predicted={"toy": table(gold.head(30))}, **PLAIN), cohort, tmp_path, toy=knower(window_words=20)
    )
    caveats = [finding for finding in result.findings if finding.kind == "caveat"]
    assert {finding.question for finding in caveats} == {"pointing"}
    told = " ".join(finding.sentence for finding in caveats)
    for what in ("beyond the first 20 words", "marks no word in", "lower bounds"):
        assert what in told
