"""The gate: conditions on estimates and verdicts, judged after a run, so that a pipeline can stop.

A condition on a number must hold in every row that matches. Rows are levels unless `reference` is chosen, and of the
headline label (the only one, or `macro`) unless `label` is; `label=*` is every label. A number that cannot be computed
fails its condition. `no concern` holds when no cell of the scorecard (of one audit) is a concern, and no finding is a
concern about the data or a model as a whole; `is acceptable` asks for more: the answer to a question must be acceptable
for every model, so "unsettled" fails. An ensemble that has no rows of its own passes when every member does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
import polars as pl

from palpate.results import LOWER_IS_BETTER, AuditResult, headline_label
from palpate.run.conditions import OPERATORS, Bound, Condition, IsAcceptable, NoConcern, NoDrop
from palpate.run.directory import RunDirectory
from palpate.stats import percentile_interval

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""Characters that XML does not allow."""


class Judgement(NamedTuple):
    """One condition, judged."""

    condition: str
    passed: bool
    detail: str


def judge(
    conditions: Sequence[Condition], results: Sequence[AuditResult], manifest: Mapping[str, Any]
) -> list[Judgement]:
    """Every condition, in order."""
    by_name = {result.audit: result for result in results}
    return [_judge(condition, by_name, manifest) for condition in conditions]


def _judge(condition: Condition, results: Mapping[str, AuditResult], manifest: Mapping[str, Any]) -> Judgement:
    if isinstance(condition, Bound):
        return _judge_bound(condition, results, manifest)
    if isinstance(condition, NoDrop):
        return _judge_drop(condition, results, manifest)
    if isinstance(condition, NoConcern):
        return _judge_concern(condition, results)
    return _judge_acceptable(condition, results)


def _judge_concern(condition: NoConcern, results: Mapping[str, AuditResult]) -> Judgement:
    chosen = [result for result in results.values() if condition.audit in (None, result.audit)]
    answers = [(result.audit, answer) for result in chosen for answer in result.answers]
    concerns = [f"{audit}.{each.question} · {each.model}" for audit, each in answers if each.verdict == "concern"]
    concerns += [
        f"{result.audit}: {finding.sentence.split(': ')[0].rstrip('.')}"
        for result in chosen
        for finding in result.findings
        if finding.kind == "concern" and finding.question is None
    ]
    if concerns:
        return Judgement(condition.text, False, "concern: " + _first(concerns))
    if not answers:
        return Judgement(condition.text, False, "no question was answered")
    return Judgement(condition.text, True, f"none of {len(answers)} answers is a concern")


def _judge_acceptable(condition: IsAcceptable, results: Mapping[str, AuditResult]) -> Judgement:
    result = results.get(condition.audit)
    answers = [] if result is None else [each for each in result.answers if each.question == condition.question]
    if not answers:
        known = [] if result is None else sorted({each.question for each in result.answers})
        detail = f"'{condition.question}' was not answered in this run; answered were: {', '.join(known) or 'none'}"
        return Judgement(condition.text, False, detail)
    if condition.model is not None:
        answers = [each for each in answers if each.model == condition.model]
        if not answers:
            return Judgement(condition.text, False, f"unknown model '{condition.model}'")
    others = [f"{each.model}: {each.verdict}" for each in answers if each.verdict != "acceptable"]
    detail = _first(others) if others else f"acceptable for {len(answers)} model{'s' if len(answers) > 1 else ''}"
    return Judgement(condition.text, not others, detail)


def _first(parts: Sequence[str], most: int = 5) -> str:
    return "; ".join(parts[:most]) + (f"; and {len(parts) - most} more" if len(parts) > most else "")


def _judge_bound(condition: Bound, results: Mapping[str, AuditResult], manifest: Mapping[str, Any]) -> Judgement:
    result = results.get(condition.audit)
    if result is None:
        return Judgement(condition.text, False, f"no result of audit '{condition.audit}'")
    rows = _matching(condition, result.estimates, manifest)
    if rows.is_empty():
        return Judgement(condition.text, False, _why_nothing_matches(condition, result.estimates))
    compare = OPERATORS[condition.operator]
    failed = []
    for row in rows.iter_rows(named=True):
        value = row[condition.field]
        if value is None:
            failed.append(f"{_name(row)}: not computed ({row['reason'] or 'null'})")
        elif not compare(value, condition.bound):
            failed.append(f"{_name(row)}: {condition.field} is {value:.4g}")
    if failed:
        return Judgement(condition.text, False, _first(failed))
    return Judgement(condition.text, True, f"holds in {rows.height} estimate{'s' if rows.height > 1 else ''}")


def _why_nothing_matches(condition: Bound, estimates: pl.DataFrame) -> str:
    """Names the first word of the condition that is not in the table, and what is there instead."""
    for column, word in {"metric": condition.metric, **condition.filters}.items():
        known = sorted(estimates[column].drop_nulls().unique())
        if word not in known and word != "*":
            listed = ", ".join(known[:12]) + (f" and {len(known) - 12} more" if len(known) > 12 else "")
            return f"unknown {column} '{word}'; the results have: {listed}"
    return "no estimate matches metric, model and label together"


def _matching(condition: Bound, estimates: pl.DataFrame, manifest: Mapping[str, Any]) -> pl.DataFrame:
    rows = estimates.filter(pl.col("metric") == condition.metric)
    chosen = dict(condition.filters)
    if "reference" not in chosen:
        rows = rows.filter(pl.col("reference").is_null())
    rows = _of_models(rows, chosen.pop("model", None), manifest)
    if chosen.get("label") == "*":
        del chosen["label"]
    elif "label" not in chosen:
        overall = headline_label(rows["label"].unique().to_list())
        chosen |= {"label": overall} if overall is not None else {}
    for name, value in chosen.items():
        rows = rows.filter(pl.col(name) == value)
    return rows


def _of_models(rows: pl.DataFrame, model: str | None, manifest: Mapping[str, Any]) -> pl.DataFrame:
    """The rows of one model, or of all of them; the members stand for an ensemble that has no rows of its own.

    Without a model in the condition, other names in that column (clinicians, training data, the pre-test probability)
    are left out.
    """
    members: dict[str, list[str]] = {}
    for entry in manifest.get("models", []):
        members.setdefault(entry.get("ensemble") or entry["name"], []).append(entry["name"])
    names = list(members) if model is None else [model]
    if not names:
        return rows
    known = set(rows["model"].unique())
    wanted = [each for name in names for each in ([name] if name in known else members.get(name, [name]))]
    return rows.filter(pl.col("model").is_in(wanted))


def _name(row: Mapping[str, Any]) -> str:
    parts = [
        row["model"],
        row["label"],
        row["group"],
        f"against {row['reference']}" if row["reference"] else "",
    ]
    return " · ".join(part for part in parts if part)


def _judge_drop(condition: NoDrop, results: Mapping[str, AuditResult], manifest: Mapping[str, Any]) -> Judgement:
    """The headline metric of each model against the same model in an earlier run.

    The same cohort and seed give the same resamples, so the difference is paired; otherwise the two are independent.
    """
    earlier = RunDirectory(condition.run)
    earlier_result = earlier.read_result("performance")
    before, now = earlier_result.replicates, results.get("performance")
    if before is None or now is None or now.replicates is None:
        return Judgement(condition.text, False, "both runs need a performance audit")
    then = earlier.read_manifest()
    paired = then.get("audits", {}).get("performance") == manifest.get("audits", {}).get("performance") and all(
        then["fingerprints"].get(key) == manifest["fingerprints"].get(key) for key in ("cohort", "seed")
    )
    both = now.replicates.join(before, on=["model", "metric", "label", "group"], suffix="_before")
    both = both.filter(pl.col("metric") == condition.metric)
    wanted = now.replicates.filter(pl.col("metric") == condition.metric)
    alone = wanted.join(both, on=["model", "metric", "label", "group"], how="anti")
    if not alone.is_empty():
        model, group = alone.select("model", "group").row(0)
        return Judgement(
            condition.text, False, f"{model} · {group}: the earlier run does not have this model, label and cohort"
        )
    worse, told = False, []
    for row in both.iter_rows(named=True):
        interval = difference_interval(row["values"], row["values_before"])
        if interval is None:
            return Judgement(condition.text, False, f"{row['model']} · {row['group']}: no interval to compare")
        low, high = interval
        worse |= (low > 0) if condition.metric in LOWER_IS_BETTER else (high < 0)
        change = _value(now.estimates, row) - _value(earlier_result.estimates, row)
        told.append(f"{row['model']} · {row['group']}: {change:+.4f} ({low:+.4f} to {high:+.4f})")
    how = "paired" if paired else "independent resamples"
    return Judgement(condition.text, not worse, f"{'; '.join(told)} [{how}]")


def difference_interval(now: list[float], before: list[float]) -> tuple[float, float] | None:
    """The 95% interval of the difference between two sets of replicates."""
    n = min(len(now), len(before))
    low, high = percentile_interval(np.asarray(now[:n]) - np.asarray(before[:n]))
    return None if np.isnan(low) else (float(low), float(high))


def _value(estimates: pl.DataFrame, row: Mapping[str, Any]) -> float:
    same = [pl.col(name) == row[name] for name in ("model", "metric", "label", "group")]
    return float(estimates.filter(*same, pl.col("reference").is_null())["value"][0])


def junit(judgements: Sequence[Judgement]) -> str:
    """The judgements as JUnit XML, which pipelines show."""
    failures = sum(not judgement.passed for judgement in judgements)
    suite = ElementTree.Element(
        "testsuite", name="palpate gate", tests=str(len(judgements)), failures=str(failures), errors="0"
    )
    for judgement in judgements:
        name = _CONTROL.sub("?", judgement.condition)
        case = ElementTree.SubElement(suite, "testcase", classname="palpate.gate", name=name)
        detail = _CONTROL.sub("?", judgement.detail)
        if not judgement.passed:
            ElementTree.SubElement(case, "failure", message=detail).text = detail
        else:
            ElementTree.SubElement(case, "system-out").text = detail
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
