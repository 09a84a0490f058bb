"""The recalibration audit's tables and charts."""

from __future__ import annotations

from typing import Any

from palpate.audits.kit.tables import columns, difference_cells, forest, interval_cell, point, table
from palpate.audits.kit.wording import counted, number, percent
from palpate.audits.recalibration.findings import RecalibrationAnalysis
from palpate.audits.recalibration.measures import BEFORE, METRICS, FittedMap
from palpate.results import METRIC_NAMES, Axis, Chart, Table
from palpate.results.blocks import Cell

_SHOWN = ("calibration_intercept", "calibration_slope", "oe_ratio", "ici", "brier", "net_benefit")


def recalibration_blocks(analysis: RecalibrationAnalysis) -> tuple[Table | Chart, ...]:
    """How far risks are off before and after, the maps, every number and every change."""
    return (_chart(analysis), _levels(analysis), _maps(analysis), _changes(analysis))


def formula(found: FittedMap) -> str:
    """A map in words."""
    if found.why_not is not None:
        return found.why_not
    if found.name == "isotonic":
        return f"steps: {counted(len(found.map.risk), 'point')}, joined by lines"
    a, b = found.map.intercept, found.map.slope
    sign = "−" if a < 0 else "+"
    return f"log odds × {number(b, digits=4)} {sign} {number(abs(a), digits=4)}"


def _chart(analysis: RecalibrationAnalysis) -> Chart:
    data: list[dict[str, Any]] = []
    for offer in analysis.offers:
        for method in analysis.methods:
            row = analysis.estimates.find("ici", offer.model, label=offer.label, group=method)
            data += point(row, named=analysis.named(offer), method=method)
    return forest(
        "How far risks are off, before and after",
        f"ICI on the held-out cases: the mean distance between predicted risk and smooth calibration curve; bars are "
        f"{analysis.level:.0%} intervals by patient. Maps are fitted on the validation split.",
        "Mean distance between predicted and observed risk before and after each method.",
        x=Axis(field="value", title="ICI (0 = risks are right)", low=0.0),
        y=Axis(field="named", title="Model"),
        series="method",
        data=data,
    )


def _levels(analysis: RecalibrationAnalysis) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for offer in analysis.offers:
        for method in analysis.methods:
            found = [analysis.estimates.find(name, offer.model, label=offer.label, group=method) for name in _SHOWN]
            own = next((each for each in offer.maps if each.name == method), None)
            chosen = "yes" if method == offer.chosen else ""
            why = "" if own is None else own.why_not or ""
            rows.append((offer.model, offer.label, method, chosen, *map(interval_cell, found), why))
    return table(
        "Before and after",
        f"On the {analysis.n_test:,} held-out cases of {analysis.cohort} (split {analysis.split}). 'Best in "
        "validation' had the least log loss on patients of the validation split that it was not fitted on. The "
        "threshold of net benefit is the same before and after.",
        columns(
            "Model",
            "Label",
            "Method",
            "Best in validation",
            *((METRIC_NAMES[name], "interval") for name in _SHOWN),
            "Why not computed",
        ),
        rows,
        collapsed=False,
    )


def _maps(analysis: RecalibrationAnalysis) -> Table:
    rows = [
        (offer.model, offer.label, each.name, formula(each), offer.n, offer.n_patients, offer.n_positive)
        for offer in analysis.offers
        for each in offer.maps
    ]
    return table(
        "The maps",
        "From the model's risk p, log odds are ln(p / (1 − p)). The command palpate recalibration RUN --out card.md "
        "writes them in full, for whoever maintains the model.",
        columns(
            "Model", "Label", "Method", "Map", ("Cases", "integer"), ("Patients", "integer"), ("Positive", "integer")
        ),
        rows,
    )


def _changes(analysis: RecalibrationAnalysis) -> Table:
    low, high = analysis.benefit
    rows = [
        (row.model, row.label, row.group, METRIC_NAMES[row.metric], *difference_cells(row))
        for metric in METRICS
        for row in analysis.estimates
        if row.metric == metric and row.reference == BEFORE
    ]
    return table(
        "What each method changes",
        "After less before, paired on the same patients; p-values and intervals are corrected over the models, labels "
        f"and methods of a metric. Mean net benefit is over thresholds from {percent(low)} to {percent(high)}.",
        columns("Model", "Label", "Method", "Metric", ("Difference", "interval"), *_tested()),
        rows,
    )


def _tested() -> tuple[Any, ...]:
    return (("p, corrected", "p_value"), ("Significant", "flag"), "Why not computed")
