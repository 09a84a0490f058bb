"""The first screen: what was audited, on whom, how good it is, and what a reader should know.

Reads the manifest and the estimates of `performance`, or else of `context`; tolerates a manifest that lacks any of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl

from palpate.report import typeset
from palpate.report.marks import SHAPES, colour
from palpate.results import MACRO, MICRO, AuditResult, headline_label

METRIC = "auroc"
MEASURED_BY = ("performance", "context")
"""Audits that measure it over all cases, the first choice first."""
MAX_LEVELS = 20
MAX_PREVALENCES = 6
MAX_DIFFERENCES = 45
_WHOLE_GROUPS = ("", "all", "overall", "everyone", "test")


class LevelView(NamedTuple):
    """One model's main metric; `left`, `point` and `right` are percentages along a bar."""

    model: str
    where: str
    """The cohort, where there are several."""
    colour: str
    shape: str
    text: str
    left: float | None
    point: float | None
    right: float | None
    reason: str


class DifferenceView(NamedTuple):
    """Two models compared: `model` minus `reference`."""

    model: str
    reference: str
    text: str
    p_value: str
    verdict: str


class ComparisonView(NamedTuple):
    """The strip of models on one scale, and their differences."""

    what: str
    levels: tuple[LevelView, ...]
    differences: tuple[DifferenceView, ...]
    low: str
    high: str
    n: str
    interval: str
    n_more: int
    """Differences that are shown only in the section."""


@dataclass(frozen=True)
class CohortView:
    """On whom: one cohort of the run."""

    name: str
    facts: tuple[tuple[str, str], ...]
    prevalences: tuple[tuple[str, str, str], ...]
    more: int


def audited(manifest: Mapping[str, Any]) -> list[str]:
    """The models of a run, in its order; an ensemble stands for its members."""
    models = manifest.get("models") or []
    return list(dict.fromkeys(str(model.get("ensemble") or model.get("name", "")) for model in models))


def models_of(manifest: Mapping[str, Any]) -> list[str]:
    """Every name of a model, members of ensembles last: the position decides the colour."""
    names = [str(model.get("name", "")) for model in manifest.get("models") or []]
    return list(dict.fromkeys([*audited(manifest), *names]))


def view_cohort(cohort: Mapping[str, Any]) -> CohortView:
    """How many cases and patients, and how many of them have each label."""
    n = typeset.as_count(cohort.get("n"))
    patients = typeset.as_count(cohort.get("n_patients"))
    facts = [("Cases audited", typeset.integer(n)), ("Patients", typeset.integer(patients))]
    splits, table = cohort.get("splits") or {}, typeset.as_count(cohort.get("n_table"))
    if table is not None and table != n:
        shown = ", ".join(f"{name} {typeset.integer(size)}" for name, size in list(splits.items())[:6])
        facts.append(("Out of", f"{typeset.integer(table)} cases" + (f" ({shown})" if shown else "")))
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


class Measured(NamedTuple):
    """The main metric's rows: each model in each cohort, and the differences between models."""

    label: str
    audit: str
    groups: list[str]
    names: list[str]
    rows: list[dict[str, Any]]
    pairs: list[dict[str, Any]]

    @property
    def is_mean(self) -> bool:
        """Whether it is a mean over labels."""
        return self.label in (MACRO, MICRO)

    @property
    def where(self) -> str:
        """` in home`, the first cohort, where there are several."""
        return f" in {typeset.shorten(self.groups[0], 60)}" if len(self.groups) > 1 else ""

    def level(self, model: str) -> dict[str, Any] | None:
        """A model's row in the first cohort."""
        return next((row for row in self.rows if (row["group"], row["model"]) == (self.groups[0], model)), None)


def measure(results: Sequence[AuditResult], manifest: Mapping[str, Any]) -> Measured | None:
    """The main metric in the run's order of cohorts and models; None if it was not measured."""
    estimates = _main_rows(results)
    if estimates is None or estimates.is_empty():
        return None
    groups = _groups(estimates, [str(cohort.get("name", "")) for cohort in manifest.get("cohorts") or []])
    names = audited(manifest) or estimates["model"].unique(maintain_order=True).to_list()
    found = {(row["group"], row["model"]): row for row in estimates.filter(pl.col("reference").is_null()).to_dicts()}
    rows = [found[group, name] for group in groups for name in names if (group, name) in found]
    pairs = _pairs(estimates, names, groups)
    return Measured(estimates["label"][0], estimates["audit"][0], groups, names, rows, pairs)


def compare(results: Sequence[AuditResult], manifest: Mapping[str, Any]) -> ComparisonView | None:
    """The main metric of each model and the differences between models; None if it was not measured."""
    measured = measure(results, manifest)
    if measured is None:
        return None
    rows, pairs, label = measured.rows[:MAX_LEVELS], measured.pairs, measured.label
    low, high = _bounds(rows)
    several = len({row["group"] for row in rows}) > 1
    counts = {row["n"] for row in rows}
    return ComparisonView(
        what=f"AUROC, mean over labels ({label})" if measured.is_mean else f"AUROC for {label}",
        levels=tuple(_level(row, measured.names.index(row["model"]), low, high, several=several) for row in rows),
        differences=tuple(_difference(row, several=several) for row in pairs[:MAX_DIFFERENCES]),
        n_more=max(0, len(pairs) - MAX_DIFFERENCES),
        low=f"{low:.2f}",
        high=f"{high:.2f}",
        # The context audit's mean over labels counts pairs of a case and a label.
        n=typeset.count_of(counts.pop(), "case") if len(counts) == 1 and measured.audit == MEASURED_BY[0] else "",
        interval=_interval_name(rows),
    )


def _pairs(estimates: pl.DataFrame, names: Sequence[str], groups: Sequence[str]) -> list[dict[str, Any]]:
    """The differences between models in every cohort: the first cohort's, then the others', significant ones first."""
    wanted = pl.col("reference").is_in(names) & pl.col("group").is_in(groups) & pl.col("value").is_not_null()
    rows = estimates.filter(wanted).to_dicts()
    return sorted(rows, key=lambda row: (groups.index(row["group"]) > 0, row["significant"] is not True))


def _main_rows(results: Sequence[AuditResult]) -> pl.DataFrame | None:
    """The rows of the main metric: over all labels, or of the only one."""
    frames = [result.estimates for name in MEASURED_BY for result in results if result.audit == name]
    if not frames:
        return None
    rows = frames[0].filter(pl.col("metric").str.to_lowercase() == METRIC).with_columns(pl.col("group").fill_null(""))
    labels = rows["label"].unique(maintain_order=True).to_list()
    chosen = headline_label(labels)
    return None if chosen is None else rows.filter(pl.col("label") == chosen)


def _groups(estimates: pl.DataFrame, cohorts: Sequence[str]) -> list[str]:
    """The cohorts in the run's order; without any, whatever group stands for everyone."""
    present = estimates["group"].unique(maintain_order=True).to_list()
    named = [name for name in cohorts if name in present]
    whole = [name for name in _WHOLE_GROUPS if name in present]
    return named or whole[:1] or present[:1]


def _bounds(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Ends of the common scale, at whole twentieths around the intervals."""
    found = [row[end] for row in rows for end in ("low", "value", "high") if row[end] is not None]
    if not found:
        return 0.5, 1.0
    return math.floor(min(found) * 20) / 20, max(math.ceil(max(found) * 20), math.floor(min(found) * 20) + 1) / 20


def _level(row: Mapping[str, Any], rank: int, low: float, high: float, *, several: bool) -> LevelView:
    def along(value: float | None) -> float | None:
        return None if value is None else round(100 * (value - low) / (high - low), 2)

    return LevelView(
        model=typeset.shorten(row["model"], 80),
        where=f"{typeset.shorten(row['group'], 60)}, n\u00a0=\u00a0{typeset.integer(row['n'])}" if several else "",
        colour=colour(rank),
        shape=SHAPES[rank % len(SHAPES)],
        text=typeset.interval(row["value"], row["low"], row["high"]),
        left=along(row["low"]),
        point=along(row["value"]),
        right=along(row["high"]),
        reason=row["reason"] or "",
    )


def _difference(row: Mapping[str, Any], *, several: bool) -> DifferenceView:
    """The words for a difference: a reader should not have to know what the sign means."""
    model, reference = (typeset.shorten(row[name], 80) for name in ("model", "reference"))
    value = row["value"]
    better, worse = (model, reference) if value > 0 else (reference, model)
    verdict = f"{better} is better than {worse}"
    if row["significant"] is False:
        verdict = f"{model} and {reference} cannot be told apart"
    elif row["significant"] is None:
        verdict = f"{model} and {reference} were not tested"
    verdict += f" in {typeset.shorten(row['group'], 60)}" if several else ""
    text = typeset.interval(value, row["low"], row["high"])
    return DifferenceView(model, reference, text, typeset.p_value(row["p_value"]), verdict)


def _interval_name(rows: Sequence[Mapping[str, Any]]) -> str:
    levels = {row["level"] for row in rows if row["level"] is not None}
    return f"{100 * levels.pop():g}% interval" if len(levels) == 1 else "interval"
