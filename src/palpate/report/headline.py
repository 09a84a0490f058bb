"""The first screen: what was audited, on whom, how good it is, and what a reader should know.

Reads the manifest and the `performance` estimates; tolerates a manifest that lacks any of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl

from palpate.report import typeset
from palpate.report.marks import SHAPES, colour
from palpate.results import AuditResult, Finding

METRIC = "auroc"
MAX_MODELS = 20
MAX_PREVALENCES = 6
MAX_DIFFERENCES = 45
SHOWN_FINDINGS = 10
TONES = {"warning": "Concern", "good": "Reassuring", "neutral": "Note"}
_WHOLE_GROUPS = ("", "all", "overall", "everyone", "test")


class Level(NamedTuple):
    """One model's main metric; `left`, `point` and `right` are percentages along a bar."""

    model: str
    colour: str
    shape: str
    text: str
    left: float | None
    point: float | None
    right: float | None
    reason: str


class Difference(NamedTuple):
    """Two models compared: `model` minus `reference`."""

    model: str
    reference: str
    text: str
    p_value: str
    verdict: str


class Comparison(NamedTuple):
    """The strip of models on one scale, and their differences."""

    what: str
    levels: tuple[Level, ...]
    differences: tuple[Difference, ...]
    low: str
    high: str
    n: str
    interval: str


class FindingView(NamedTuple):
    """A finding with the word for its tone and the audit that it links to."""

    tone: str
    word: str
    sentence: str
    audit: str


@dataclass(frozen=True)
class CohortView:
    """On whom: one cohort of the run."""

    name: str
    facts: tuple[tuple[str, str], ...]
    prevalences: tuple[tuple[str, str, str], ...]
    more: int


def models_of(manifest: Mapping[str, Any]) -> list[str]:
    """The names of the run's models, in its order: a model's place is its colour."""
    return [str(model.get("name", "")) for model in manifest.get("models") or []]


def view_findings(results: Sequence[AuditResult]) -> list[FindingView]:
    """All findings; what to worry about comes first, and otherwise the order of the audits stays."""
    found = [(result.audit, finding) for result in results for finding in result.findings]
    found.sort(key=lambda pair: pair[1].tone != "warning")
    return [view_finding(finding, audit) for audit, finding in found]


def view_finding(finding: Finding, audit: str) -> FindingView:
    """A finding in its tone's word."""
    return FindingView(finding.tone, TONES[finding.tone], typeset.shorten(finding.sentence, 600), audit)


def view_cohort(cohort: Mapping[str, Any]) -> CohortView:
    """How many cases and patients, and how many of them have each label."""
    n = typeset.as_count(cohort.get("n"))
    patients = typeset.as_count(cohort.get("n_patients"))
    facts = [("Cases", typeset.integer(n)), ("Patients", typeset.integer(patients))]
    splits = cohort.get("splits") or {}
    if splits:
        shown = ", ".join(f"{name} {typeset.integer(size)}" for name, size in list(splits.items())[:6])
        facts.append(("Split", shown))
    labels = [dict(label) for label in cohort.get("labels") or []]
    ranked = sorted(labels, key=lambda label: -(typeset.as_number(label.get("n_positive")) or 0))
    prevalences = [_prevalence(label, n) for label in ranked[:MAX_PREVALENCES]]
    total = typeset.as_count(cohort.get("n_labels")) or len(labels)
    name = str(cohort.get("name", ""))
    return CohortView(name, tuple(facts), tuple(prevalences), max(0, total - len(prevalences)))


def _prevalence(label: Mapping[str, Any], n: int | None) -> tuple[str, str, str]:
    positive = typeset.as_number(label.get("n_positive"))
    share = typeset.percent(positive / n) if n and positive is not None else typeset.MISSING
    return str(label.get("name", "")), share, typeset.integer(positive)


def compare(results: Sequence[AuditResult], models: Sequence[str]) -> Comparison | None:
    """The main metric of each model and the differences between models; None if it was not measured."""
    estimates = _main_rows(results)
    if estimates is None:
        return None
    names = list(models) or estimates["model"].unique(maintain_order=True).to_list()
    levels = estimates.filter(pl.col("reference").is_null()).unique("model", keep="first", maintain_order=True)
    by_model = {row["model"]: row for row in levels.to_dicts()}
    rows = [by_model[name] for name in names if name in by_model][:MAX_MODELS]
    pairs = estimates.filter(pl.col("reference").is_in(names) & pl.col("value").is_not_null())
    low, high = _bounds(rows)
    counts = sorted({row["n"] for row in rows if row["n"] is not None})
    label = rows[0]["label"] if rows else ""
    return Comparison(
        what=f"AUROC, mean over labels ({label})" if label in ("macro", "micro") else f"AUROC for {label}",
        levels=tuple(_level(row, names.index(row["model"]), low, high) for row in rows),
        differences=tuple(_difference(row) for row in pairs.head(MAX_DIFFERENCES).to_dicts()),
        low=f"{low:.2f}",
        high=f"{high:.2f}",
        n=f"{typeset.integer(counts[0])} cases" if len(counts) == 1 else "",
        interval=_interval_name(rows),
    )


def _main_rows(results: Sequence[AuditResult]) -> pl.DataFrame | None:
    """The rows of the main metric: over all labels, or of the only one, and of the whole group."""
    frames = [result.estimates for result in results if result.audit == "performance"]
    if not frames:
        return None
    rows = frames[0].filter(pl.col("metric").str.to_lowercase() == METRIC)
    labels = rows["label"].unique(maintain_order=True).to_list()
    chosen = next((name for name in ("macro", "micro") if name in labels), labels[0] if len(labels) == 1 else None)
    if chosen is None:
        return None
    rows = rows.filter(pl.col("label") == chosen)
    groups = rows["group"].fill_null("").unique(maintain_order=True).to_list()
    whole = next((name for name in _WHOLE_GROUPS if name in groups), None)
    if whole is None:
        whole = rows.sort("n", descending=True, nulls_last=True)["group"].fill_null("")[0]
    return rows.filter(pl.col("group").fill_null("") == whole)


def _bounds(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Ends of the common scale, at whole twentieths around the intervals."""
    found = [row[end] for row in rows for end in ("low", "value", "high") if row[end] is not None]
    if not found:
        return 0.5, 1.0
    return math.floor(min(found) * 20) / 20, max(math.ceil(max(found) * 20), math.floor(min(found) * 20) + 1) / 20


def _level(row: Mapping[str, Any], rank: int, low: float, high: float) -> Level:
    def along(value: float | None) -> float | None:
        return None if value is None else round(100 * (value - low) / (high - low), 2)

    return Level(
        model=typeset.shorten(row["model"], 80),
        colour=colour(rank),
        shape=SHAPES[rank % len(SHAPES)],
        text=typeset.interval(row["value"], row["low"], row["high"]),
        left=along(row["low"]),
        point=along(row["value"]),
        right=along(row["high"]),
        reason=row["reason"] or "",
    )


def _difference(row: Mapping[str, Any]) -> Difference:
    """The words for a difference: a reader should not have to know what the sign means."""
    model, reference = (typeset.shorten(row[name], 80) for name in ("model", "reference"))
    value = row["value"]
    better, worse = (model, reference) if value > 0 else (reference, model)
    verdict = f"{better} is better than {worse}"
    if row["significant"] is False:
        verdict = "No clear difference"
    elif row["significant"] is None:
        verdict = "Not tested"
    text = typeset.interval(value, row["low"], row["high"])
    return Difference(model, reference, text, typeset.p_value(row["p_value"]), verdict)


def _interval_name(rows: Sequence[Mapping[str, Any]]) -> str:
    levels = {row["level"] for row in rows if row["level"] is not None}
    return f"{100 * levels.pop():g}% interval" if len(levels) == 1 else "interval"
