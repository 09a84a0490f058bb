"""Sentences from a run's results for one model, each with the row that it comes from.

A number is quoted with its interval, as the report prints it. What the run did not measure is said as such, because an
empty field would look like an oversight.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from palpate.report import typeset
from palpate.report.cards.audited import Run, alone, not_in, of_kind
from palpate.report.cards.entries import Statement
from palpate.report.cards.facts import EVALUATION_KIND, KINDS
from palpate.report.scorecard import details_of, margin_of, number_of
from palpate.results import METRIC_NAMES, Table

CORE = (
    "auroc", "auprc", "calibration_intercept", "calibration_slope", "oe_ratio", "ici", "brier", "net_benefit",
    "sensitivity", "specificity", "ppv", "npv",
)  # fmt: skip
MOST_LABELS = 5
SAFETY = ("robustness", "drift", "capabilities", "vocabulary", "context", "evidence")
BEHAVIOUR = ("characteristics",)
DECISIONS = "Decisions at the threshold"
DEVELOPMENT = "development"
_FAIR = {
    "auroc_gap": "Largest gap of AUROC between groups, less what chance makes",
    "equal_opportunity_difference": "Equal opportunity difference",
    "equalized_odds_difference": "Equalised odds difference",
    "demographic_parity_difference": "Demographic parity difference",
}


def measure(run: Run, facts: Mapping[str, Any]) -> dict[str, tuple[Statement, ...]]:
    """Everything that a card may quote, by key; keys are those that the formats' lists use."""
    kinds = facts.get(EVALUATION_KIND)
    found = {
        "test_data": _test_data(run),
        "validity": _validity(run),
        "fairness": _fairness(run),
        "safety": _answers(run, SAFETY, "robustness, drift, capabilities or another audit of its behaviour"),
        "answers": _answers(run, tuple(run.results), "any audit that answers a question"),
        "behaviour": _answers(run, BEHAVIOUR, "`characteristics`, which alters age, gender and ethnicity"),
        "warnings": _warnings(run),
        "imbalance": _prevalence(run),
        "thresholds": _thresholds(run),
        "method": _method(run),
        "population": _population(run),
        "development_difference": _development_difference(run),
        "clusters": _clusters(run),
        "cluster_method": _cluster_method(run),
        "fairness_method": _fairness_method(run),
        "data_checks": _findings(run, "data", "Data checks"),
        "recalibration": _findings(run, "recalibration", "Recalibration"),
    }
    for kind in KINDS:
        found[f"validity_{kind}"] = of_kind(run, kinds, kind, _validity)
        found[f"fairness_{kind}"] = of_kind(run, kinds, kind, _fairness)
        found[f"data_{kind}"] = of_kind(run, kinds, kind, _test_data)
        found[f"method_{kind}"] = of_kind(run, kinds, kind, lambda run, _: _method(run))
    return {key: run.small.told(statements) for key, statements in found.items()}


def source_of(row: Mapping[str, Any]) -> str:
    """The row of an estimate, so that anybody can find it."""
    parts = [f"{name}={row[name]}" for name in ("metric", "model", "label", "group", "reference") if row.get(name)]
    return f"results/{row['audit']}.parquet: {', '.join(parts)}"


def _estimate(row: Mapping[str, Any], where: str) -> Statement:
    name = METRIC_NAMES.get(row["metric"]) or _FAIR.get(row["metric"]) or row["metric"].replace("_", " ")
    text = f"{name}{where}: {typeset.interval(row['value'], row['low'], row['high'])}"
    if row["value"] is None:
        text = f"{name}{where}: not known ({row['reason']})"
    number = {"name": row["metric"], **{key: row[key] for key in ("value", "low", "high", "level", "n", "n_positive")}}
    number |= {key: row[key] for key in ("label", "group") if row[key]}
    return Statement(f"{text}.", source_of(row), number)


def _absent(what: str) -> tuple[Statement, ...]:
    return (Statement(f"Not measured: this run has no {what}.", "manifest.json: audits"),)


def _test_data(run: Run, only: Sequence[str] | None = None) -> tuple[Statement, ...]:
    statements = []
    for cohort in run.cohorts:
        if only is not None and cohort["name"] not in only:
            continue
        labels = [_positives(run, label, cohort) for label in (cohort.get("labels") or [])[:MOST_LABELS]]
        more = f" and {cohort['n_labels'] - MOST_LABELS:,} more labels" if cohort["n_labels"] > MOST_LABELS else ""
        statements.append(
            Statement(
                f"Cohort '{cohort['name']}': {typeset.count_of(cohort['n'], 'case')} of "
                f"{typeset.count_of(cohort['n_patients'], 'patient')}; positive: {', '.join(labels)}{more}.",
                f"manifest.json: cohorts, {cohort['name']}",
            )
        )
    return tuple(statements)


def _positives(run: Run, label: Mapping[str, Any], cohort: Mapping[str, Any]) -> str:
    few = run.small.positives(label["name"], label["n_positive"], cohort["n"])
    told = few or f"{typeset.integer(label['n_positive'])} ({_share(label, cohort)})"
    return f"{label['name']} {told}"


def _share(label: Mapping[str, Any], cohort: Mapping[str, Any]) -> str:
    return typeset.percent(label["n_positive"] / cohort["n"]) if cohort["n"] else "no cases"


def _validity(run: Run, only: Sequence[str] | None = None) -> tuple[Statement, ...]:
    """The verdicts, where they are about these cohorts, and the numbers."""
    told = only is None or {str(cohort["name"]) for cohort in run.cohorts} <= set(only)
    answers = _answers(run, ("performance",), "") if told else ()
    return (*(each for each in answers if each.source.startswith("scorecard")), *_numbers(run, only))


def _numbers(run: Run, only: Sequence[str] | None = None) -> tuple[Statement, ...]:
    rows = run.rows("performance")
    if not rows.height:
        return _absent("audit `performance` of this model")
    rows = rows.filter(pl.col("metric").is_in(CORE))
    if only is not None:
        rows = rows.filter(pl.col("group").is_in(only))
    labels = rows["label"].unique(maintain_order=True).to_list()
    chosen = labels if len(labels) <= MOST_LABELS else labels[:MOST_LABELS]
    groups = rows["group"].unique(maintain_order=True).to_list()
    statements = []
    for label in chosen:
        for group in groups:
            own = {row["metric"]: row for row in rows.filter(label=label, group=group).iter_rows(named=True)}
            where = f", {label}" + (f", cohort {group}" if len(groups) > 1 else "")
            statements += [_estimate(own[metric], where) for metric in CORE if metric in own]
    statements += _decisions(run, only)
    if len(labels) > len(chosen):
        left = f"{len(labels) - len(chosen):,} more labels are in the results."
        statements.append(Statement(left, "results/performance.parquet"))
    return tuple(statements)


def _decisions(run: Run, only: Sequence[str] | None = None) -> tuple[Statement, ...]:
    """At which threshold sensitivity, specificity and the like were measured, and how it was chosen."""
    blocks = run.results["performance"].blocks if "performance" in run.results else ()
    table = next((each for each in blocks if isinstance(each, Table) and each.title == DECISIONS), None)
    if table is None:
        return ()
    names = [column.name for column in table.columns]
    rows = [dict(zip(names, row, strict=True)) for row in table.rows]
    own = [row for row in rows if row.get("Model") == run.model and (only is None or row.get("Cohort") in only)]
    told = dict.fromkeys((row.get("Label"), row.get("Threshold"), row.get("How it was chosen")) for row in own)
    return tuple(
        Statement(
            f"Decisions{f' about {label}' if label else ''} at {_threshold(value)} ({how}).",
            f"results/performance.json: {DECISIONS}, {run.model}",
        )
        for label, value, how in told
    )


def _threshold(value: object) -> str:
    return "a threshold of each label's own" if value is None else f"a threshold of {typeset.number(value)}"


def _fairness(run: Run, only: Sequence[str] | None = None) -> tuple[Statement, ...]:
    if "subgroups" not in run.results:
        return _absent("audit `subgroups`; nothing is known of differences between groups of patients")
    elsewhere = () if only is None else not_in(run, "subgroups", only)
    if elsewhere:
        return elsewhere
    rows = run.rows("subgroups", metric="auroc").filter(pl.col("group").str.contains("="))
    groups = [_estimate(row, f", {row['label']}, {row['group']}") for row in rows.iter_rows(named=True)]
    gaps = run.rows("subgroups").filter(pl.col("metric").is_in(list(_FAIR)))
    summaries = [_estimate(row, f", {row['label']}, by {row['group']}") for row in gaps.iter_rows(named=True)]
    how = run.results["subgroups"].provenance.get("threshold", {}).get(run.model)
    told = (
        (Statement(f"Decisions in groups: threshold that {how}.", "results/subgroups.json: provenance"),) if how else ()
    )
    return (*_answers(run, ("subgroups",), "answer"), *groups, *told, *summaries)


def _answers(run: Run, audits: Sequence[str], needed: str) -> tuple[Statement, ...]:
    """The model's cells of the scorecard."""
    statements = []
    for audit in audits:
        for answer in run.results[audit].answers if audit in run.results else ():
            if answer.model == run.model:
                told = [number_of(answer), margin_of(answer), *details_of(answer), alone(run, audit)]
                text = f"{answer.asks} {answer.verdict.capitalize()}: {'; '.join(filter(None, told))}."
                statements.append(Statement(text, f"scorecard.json: {audit}.{answer.question}, {run.model}"))
    return tuple(statements) or _absent(needed if needed != "answer" else "answer about groups for this model")


def _warnings(run: Run) -> tuple[Statement, ...]:
    """What was found to be a concern or a caution, what limits the answers, and what is open."""
    statements = [
        Statement(finding.sentence, f"results/{audit}.json: findings")
        for audit, result in run.results.items()
        for finding in result.findings
        if finding.kind in ("concern", "caution", "caveat") and about_model(finding.sentence, run)
    ]
    open_ones = [
        answer.asks
        for result in run.results.values()
        for answer in result.answers
        if answer.model == run.model and answer.verdict == "unsettled"
    ]
    if open_ones:
        text = f"Not settled by these data: {' '.join(open_ones)}"
        statements.append(Statement(text, f"scorecard.json: {run.model}"))
    none = Statement("No audit of this run found a concern, a caution or a caveat.", "scorecard.json, results/*.json")
    return tuple(statements) or (none,)


def about_model(sentence: str, run: Run) -> bool:
    """Whether a finding is about this model, or about no model by name; "b is worse than a" is about b."""
    names = sorted((str(each["name"]) for each in run.manifest.get("models", [])), key=len, reverse=True)
    if not names:
        return True
    # The longest name first, and none within a longer word: v1.1 is not v1.10, and its point ends no sentence.
    named = re.compile(rf"(?<![\w.-])(?P<than>than )?(?P<name>{'|'.join(map(re.escape, names))})(?![\w-]|\.\w)")
    found = [(hit["name"], hit["than"] is not None) for hit in named.finditer(sentence)]
    return not found or (run.model, False) in found


def _prevalence(run: Run) -> tuple[Statement, ...]:
    return tuple(
        Statement(
            f"Positive in cohort '{cohort['name']}': {_positives(run, label, cohort)}; the cases were audited as they "
            "are, without resampling of classes.",
            f"manifest.json: cohorts, {cohort['name']}",
        )
        for cohort in run.cohorts
        for label in (cohort.get("labels") or [])[:MOST_LABELS]
    )


def _thresholds(run: Run) -> tuple[Statement, ...]:
    rows = run.rows("operating", metric="threshold")
    statements = [_estimate(row, f", {row['label']}, {row['group']}") for row in rows.iter_rows(named=True)]
    for model in run.manifest.get("models", []):
        if model["name"] == run.model and model.get("threshold") is not None:
            text = f"The model's own threshold: {typeset.number(model['threshold'])}."
            statements.append(Statement(text, f"manifest.json: models, {run.model}"))
    statements += _decisions(run)
    return tuple(statements) or _absent("audit `operating` and no threshold that the model states")


def _method(run: Run) -> tuple[Statement, ...]:
    audits = Statement(f"Audits: {', '.join(run.results)}.", "manifest.json: audits")
    if "performance" not in run.results:
        return *_absent("audit `performance`"), audits
    options = run.manifest.get("audits", {}).get("performance", {})
    units = f"{options.get('n_replicates', 'no')} replicates, resampled by {options.get('unit', 'patient')}"
    text = (
        f"Measured with palpate {run.manifest.get('palpate')}, seed {run.manifest.get('seed')}: "
        f"{', '.join(METRIC_NAMES.get(metric, metric) for metric in CORE)}, with "
        f"{100 * options.get('level', 0.95):g}% intervals ({units}; score intervals where events are few)."
    )
    return Statement(text, "manifest.json: audits"), audits


def _population(run: Run) -> tuple[Statement, ...]:
    if run.table1 is None:
        return _absent("Table 1 (audit `data`)")
    n = run.table1.height
    text = f"Table 1 of the report has the audited cases by cohort, split and group, with missing values ({n:,} rows)."
    return Statement(text, "results/data.table1.parquet"), *_test_data(run)


def _development_difference(run: Run) -> tuple[Statement, ...]:
    if "data" not in run.results:
        return _absent("audit `data`, which compares development and evaluation")
    rows = run.rows("data", metric="standardised_difference", reference=DEVELOPMENT).unique(
        "group", maintain_order=True
    )
    rows = rows.filter(pl.col("value").is_not_null()).sort(pl.col("value").abs(), descending=True).head(MOST_LABELS)
    if not rows.height:
        return _absent("development cases to compare with, or attributes")
    return tuple(
        Statement(
            f"Standardised difference of {row['group']} between the training split and the audited cases: "
            f"{typeset.number(row['value'])}.",
            source_of(row),
        )
        for row in rows.iter_rows(named=True)
    )


def _fairness_method(run: Run) -> tuple[Statement, ...]:
    """By what groups were made and what was compared; the numbers are results."""
    if "subgroups" not in run.results:
        return _absent("audit `subgroups`; nothing is known of differences between groups of patients")
    by = run.manifest.get("audits", {}).get("subgroups", {}).get("by") or ()
    made = f" by {', '.join(map(str, by))}" if by else ""
    measures = ", ".join(name[0].lower() + name[1:] for name in _FAIR.values())
    text = f"Groups{made} were compared: AUROC in each with its interval, risks and decisions in each, {measures}."
    return (Statement(text, "manifest.json: audits, subgroups"),)


def _cluster_method(run: Run) -> tuple[Statement, ...]:
    names = [str(cohort["name"]) for cohort in run.cohorts]
    text = "One cohort was audited; differences between centres were not examined, unless they are among the groups."
    if len(names) > 1:
        text = f"Each of the cohorts {', '.join(names)} was measured by itself."
    return Statement(text, "manifest.json: cohorts"), *_fairness_method(run)


def _clusters(run: Run) -> tuple[Statement, ...]:
    """What was measured in each cohort, and the verdicts about groups, whose numbers are with those of fairness."""
    if len(run.cohorts) < 2 and "subgroups" not in run.results:
        return _absent("second cohort and no audit `subgroups`: heterogeneity was not examined")
    parts = _answers(run, ("subgroups",), "answer") if "subgroups" in run.results else ()
    return (*_numbers(run), *parts) if len(run.cohorts) > 1 else parts


def _findings(run: Run, audit: str, name: str) -> tuple[Statement, ...]:
    if audit not in run.results:
        return _absent(f"audit `{audit}`")
    found = [each for each in run.results[audit].findings if about_model(each.sentence, run)]
    said = tuple(Statement(each.sentence, f"results/{audit}.json: findings") for each in found)
    return said or (Statement(f"{name}: nothing was found.", f"results/{audit}.json"),)
