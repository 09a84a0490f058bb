"""Refusals and unreadable answers, by arm and by group of patients."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from palpate.audits.subgroups import Subgroups
from palpate.cases.cohort import Cohort
from palpate.cases.edits import VariantsBuilder
from palpate.results import AuditResult, ModelPredictions, Plan, Predictions, Table, estimates_frame
from palpate.results.plan import AnswerKind, ModelFacts, Outcomes
from palpate.run.answering import with_answering

N = 40


def cohort() -> Cohort:
    frame = pl.DataFrame(
        {
            "case_id": [f"c{k}" for k in range(N)],
            "patient_id": [f"p{k}" for k in range(N)],
            "text": [f"note {k}" for k in range(N)],
            "sex": ["f" if k % 2 else "m" for k in range(N)],
            "ill": [k % 3 == 0 for k in range(N)],
        }
    )
    return Cohort.from_frame(frame, labels=["ill"], attributes=["sex"])


def predicted(kind: NDArray[np.int8], *, missing: bool = True) -> ModelPredictions:
    silent = (kind != AnswerKind.ANSWERED)[:, None]
    p = np.where(silent, np.nan if missing else 0.0, 0.5)
    nothing = np.full(p.shape, np.nan)
    outcomes = Outcomes(kind[:, None], nothing, nothing)
    return ModelPredictions(("ill",), p, np.ones(len(p), bool), outcomes=outcomes, facts=ModelFacts(may_miss=missing))


def told(name: str, plan: Plan[object], scored: dict[str, ModelPredictions]) -> AuditResult:
    bare = AuditResult(audit=name, estimates=estimates_frame([]), blocks=(), findings=())
    (result,) = with_answering([bare], {name: plan}, {name: Predictions(scored)})
    return result


def shares(result: AuditResult, metric: str = "refusal_share") -> dict[str, dict[str, float]]:
    rows = result.estimates.filter((pl.col("metric") == metric) & pl.col("reference").is_null())
    return {row["group"]: row for row in rows.iter_rows(named=True)}


def apart(result: AuditResult, metric: str, *, bounds: bool = False) -> dict[str, float | tuple[float, float]]:
    """Differences, or the ends of their intervals."""
    rows = result.estimates.filter((pl.col("metric") == metric) & pl.col("reference").is_not_null())
    return {row["group"]: (row["low"], row["high"]) if bounds else row["value"] for row in rows.iter_rows(named=True)}


def test_many_arms_are_all_counted_and_the_worst_are_shown() -> None:
    table, builder = cohort(), VariantsBuilder(N)
    for arm in range(150):
        for row in range(N):
            builder.add(row, f"arm {arm}")
    variants = builder.build()
    kind = np.zeros(len(variants), np.int8)
    kind[variants.rows_of("arm 117")[:10]] = AnswerKind.REFUSED
    kind[variants.rows_of("arm 149")[:4]] = AnswerKind.UNREADABLE
    result = told("robustness", Plan(table, variants, ("ill",)), {"llm": predicted(kind)})
    found = shares(result)
    assert len(found) == 151
    assert found["arm 117"]["value"] == pytest.approx(0.25)
    assert found["all"]["value"] == pytest.approx(10 / (150 * N))
    assert shares(result, "unreadable_share")["arm 149"]["value"] == pytest.approx(0.1)
    (block,) = result.blocks
    assert isinstance(block, Table)
    arms = [row[1] for row in block.rows]
    assert len(arms) == 60
    assert {"all", "arm 0", "arm 117", "arm 149"} <= set(arms)
    assert "Of 151 arms these are the 60" in block.caption


def test_groups_of_patients_are_counted_and_compared() -> None:
    table = cohort()
    plan = Subgroups(by=("sex",)).plan(table, np.random.default_rng(0))
    kind = np.zeros(N, np.int8)
    kind[0:24:2] = AnswerKind.REFUSED
    kind[1] = AnswerKind.REFUSED
    kind[3] = AnswerKind.UNREADABLE
    result = told("subgroups", plan, {"llm": predicted(kind)})
    found = shares(result)
    assert (found["sex=m"]["value"], found["sex=m"]["n"]) == (pytest.approx(12 / 20), 20)
    assert found["sex=f"]["value"] == pytest.approx(1 / 20)
    assert shares(result, "unreadable_share")["sex=f"]["value"] == pytest.approx(1 / 20)
    assert apart(result, "refusal_share") == {"sex=m": pytest.approx(11 / 20), "sex=f": pytest.approx(-11 / 20)}
    assert apart(result, "unreadable_share") == {"sex=m": pytest.approx(-1 / 20), "sex=f": pytest.approx(1 / 20)}
    said = [finding.sentence for finding in result.findings if "refuses" in finding.sentence]
    assert len(said) == 1
    assert "more often in 'sex=m' than in all others, by 55.0 percentage points" in said[0]
    (block,) = result.blocks
    assert isinstance(block, Table)
    assert {"sex=m", "sex=f"} <= {row[1] for row in block.rows}


def test_groups_that_are_answered_unreadably_are_found() -> None:
    plan = Subgroups(by=("sex",)).plan(cohort(), np.random.default_rng(0))
    kind = np.zeros(N, np.int8)
    kind[1:33:2] = AnswerKind.UNREADABLE  # 16 of the 20 women
    kind[0] = AnswerKind.NO_CHOICE  # one of the 20 men
    result = told("subgroups", plan, {"llm": predicted(kind)})
    assert apart(result, "refusal_share") == {}
    assert apart(result, "unreadable_share") == {"sex=m": pytest.approx(-15 / 20), "sex=f": pytest.approx(15 / 20)}
    low, high = apart(result, "unreadable_share", bounds=True)["sex=f"]
    assert 0 < low < 15 / 20 < high < 1
    assert "llm gives no readable answer more often in 'sex=f' than in all others, by 75.0 percentage" in said(result)
    assert "refuses" not in said(result)


def test_arms_are_compared_in_refusals_and_in_unreadable_answers() -> None:
    builder = VariantsBuilder(N)
    for arm in ("as written", "male", "female"):
        for row in range(N):
            builder.add(row, arm)
    variants = builder.build()
    kind = np.zeros(len(variants), np.int8)
    kind[variants.rows_of("as written")[:2]] = AnswerKind.UNREADABLE
    kind[variants.rows_of("male")[:20]] = AnswerKind.UNREADABLE
    kind[variants.rows_of("female")[20:23]] = AnswerKind.REFUSED
    result = told("robustness", Plan(cohort(), variants, ("ill",)), {"llm": predicted(kind)})
    assert apart(result, "unreadable_share") == {"male": pytest.approx(18 / 40), "female": pytest.approx(-2 / 40)}
    assert apart(result, "refusal_share") == {"female": pytest.approx(3 / 40)}
    low, _ = apart(result, "unreadable_share", bounds=True)["male"]
    assert low > 0
    assert "llm gives no readable answer more often in 'male' than in 'as written', by 45.0" in said(result)
    (block,) = result.blocks
    assert isinstance(block, Table)
    assert [column.name for column in block.columns].count("No answer, difference") == 1


def test_each_policy_has_its_own_words() -> None:
    kind = np.zeros(N, np.int8)
    kind[:4], kind[4:6] = AnswerKind.REFUSED, AnswerKind.UNREADABLE
    plan = Subgroups(by=("sex",)).plan(cohort(), np.random.default_rng(0))
    mixed = predicted(kind)
    mixed.p[:4] = 0.0
    alone = told("subgroups", plan, {"c": mixed})
    assert "refusals count as negative answers and answers that cannot be read count as missing scores." in said(alone)
    both = told("subgroups", plan, {"a": predicted(kind), "b": predicted(kind, missing=False), "c": mixed})
    assert "they count as missing scores." in said(both)
    assert "they count as negative answers, but all 6 negative ones are left out of comparisons" in said(both)
    only = told("subgroups", plan, {"b": predicted(kind, missing=False)})
    assert "they count as negative answers." in said(only)


def said(result: AuditResult) -> str:
    return " ".join(finding.sentence for finding in result.findings)
