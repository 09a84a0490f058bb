"""Tables and charts of the core set for predicted risks: smooth calibration, net benefit, and who has which risk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from palpate.audits.kit.risks import CORE
from palpate.audits.kit.rows import pairs_of
from palpate.audits.kit.tables import columns, interval_cell, reason_of, table
from palpate.audits.kit.wording import percent
from palpate.audits.performance.answers import PerformanceAnalysis
from palpate.results import MACRO, METRIC_NAMES, Axis, Chart, Table
from palpate.results.blocks import Cell
from palpate.stats.risks.net_benefit import Band

ALL, NONE = "act on all", "act on none"
_HINTS = {
    "calibration_intercept": "0 is right; above 0, risks are too low on average",
    "calibration_slope": "1 is right; below 1, risks are too extreme; above 1, too timid",
    "oe_ratio": "cases with the outcome for each that was expected; 1 is right",
    "ici": "mean distance between predicted risk and the smooth curve",
    "e50": "half of the cases are closer to the smooth curve than that",
    "e90": "nine of ten cases are closer to the smooth curve than that",
    "emax": "the largest distance from the smooth curve",
    "net_benefit": "true positives less false ones at their price, per case, at the threshold",
    "mean_net_benefit": "net benefit, averaged over the range of thresholds",
}


def risk_blocks(analysis: PerformanceAnalysis) -> list[Table | Chart]:
    """What is beside the binned calibration curve."""
    blocks: list[Table | Chart] = [_smooth(analysis), _core_table(analysis), _benefit(analysis)]
    blocks += [_benefit_differences(analysis)] if len(analysis.models) > 1 else []
    return [*blocks, _distribution(analysis)]


def _core_table(analysis: PerformanceAnalysis) -> Table:
    """One row per model, cohort and label; the mean over labels first."""
    several = len(analysis.labels) > 1
    labels = [MACRO, *analysis.judged] if several else [analysis.estimates.label]
    rows: list[tuple[Cell, ...]] = []
    for population in analysis.populations:
        for label in labels:
            for model in analysis.models:
                found = [analysis.estimates.find(name, model, label=label, group=population) for name in CORE]
                why = next((reason for reason in map(reason_of, found) if reason), "")
                rows.append((model, population, label, *map(interval_cell, found), why))
    low, high = analysis.net_benefit
    named = [(METRIC_NAMES[name], "interval", _HINTS[name]) for name in CORE]
    return table(
        "Calibration and net benefit",
        "Intercept, slope and O:E of right risks are 0, 1 and 1; the distances from the smooth curve (ICI, E50, E90, "
        "Emax) are 0, and chance alone makes them larger, which their intervals allow for. "
        "Net benefit is at each model's own threshold, and cannot be compared between thresholds; the mean is over "
        f"thresholds from {percent(low)} to {percent(high)}.",
        columns("Model", "Cohort", "Label", *named, "Why not computed"),  # type: ignore[arg-type]
        rows,
    )


def _panel(analysis: PerformanceAnalysis, population: str, label: str) -> str:
    return f"{label} · {population}" if len(analysis.labels) > 1 else population


def _band_rows(x: np.ndarray[Any, np.dtype[np.float64]], band: Band, **fields: Any) -> Iterator[dict[str, Any]]:
    for at, y, low, high in zip(x, *band, strict=True):
        if np.isfinite(y):
            yield {"x": float(at), "y": float(y), "low": float(low), "high": float(high), **fields}


def _smooth(analysis: PerformanceAnalysis) -> Chart:
    data: list[dict[str, Any]] = []
    for drawn in analysis.core.risks:
        panel = _panel(analysis, drawn.population, drawn.label)
        data += _band_rows(drawn.line.risk, drawn.line.observed, model=drawn.model, panel=panel)
    seeds = " A model of several seeds is drawn as the mean of its seeds' curves, in the widest of their bands."
    return Chart(
        kind="line",
        title="Smooth calibration curve",
        caption="Restricted cubic splines of the log odds, between the 1st and the 99th percentile of the risks; bands "
        f"are {analysis.level:.0%} intervals by patient at each risk. Below the diagonal, risks are too high."
        + (seeds if analysis.ensembles else ""),
        description="Observed share of positive cases against the predicted probability, smoothed, for each model.",
        x=Axis(field="x", title="Predicted probability", percent=True),
        y=Axis(field="y", title="Observed share of positive cases", percent=True),
        series="model",
        facet=_facet(data),
        diagonal=True,
        data=tuple(data),
    )


def _facet(data: list[dict[str, Any]]) -> str | None:
    return "panel" if len({row["panel"] for row in data}) > 1 else None


def _benefit(analysis: PerformanceAnalysis) -> Chart:
    data: list[dict[str, Any]] = []
    for drawn in analysis.core.benefit:
        panel, at = _panel(analysis, drawn.population, drawn.label), drawn.curves.thresholds
        for k, name in enumerate((*analysis.models, ALL)):
            band = Band(*(each[k] for each in drawn.curves.benefit))
            data += _band_rows(at, band, strategy=name, panel=panel)
        data += [{"x": float(x), "y": 0.0, "strategy": NONE, "panel": panel} for x in (at[0], at[-1])]
    best = max((row["y"] for row in data), default=0.1)
    kept = [{**row, "low": max(row["low"], -best / 2)} if "low" in row else row for row in data if row["y"] > -best / 2]
    low, high = analysis.net_benefit
    return Chart(
        kind="line",
        title="Net benefit",
        caption=f"What acting at a risk from {percent(low)} to {percent(high)} is worth, in true positives per case: "
        "whoever acts at 20% accepts four false alarms for each true positive. A model is of use where its curve is "
        f"above both '{ALL}' and '{NONE}'. Bands are {analysis.level:.0%} intervals by patient at each threshold; "
        "curves are cut off far below 0.",
        description="Net benefit over decision thresholds of each model, of acting on all and of acting on none.",
        x=Axis(field="x", title="Risk at which one acts", percent=True, low=low, high=high),
        y=Axis(field="y", title="Net benefit per case"),
        series="strategy",
        facet=_facet(kept),
        data=tuple(kept),
    )


def _benefit_differences(analysis: PerformanceAnalysis) -> Chart:
    data: list[dict[str, Any]] = []
    for drawn in analysis.core.benefit:
        for model, reference in pairs_of(analysis.models):
            pair = (analysis.models.index(model), analysis.models.index(reference))
            panel = _panel(analysis, drawn.population, drawn.label)
            named = f"{model} − {reference}"
            data += _band_rows(drawn.curves.thresholds, drawn.curves.pairs[pair], pair=named, panel=panel)
    low, high = analysis.net_benefit
    return Chart(
        kind="line",
        title="Net benefit of one model less another",
        caption="Paired on the same patients; bands hold for each threshold alone: some part of a whole curve leaves "
        "them by chance. The difference of the mean over the range is tested in the table of pairs.",
        description="Difference in net benefit over decision thresholds, for every pair of models.",
        x=Axis(field="x", title="Risk at which one acts", percent=True, low=low, high=high),
        y=Axis(field="y", title="Difference in net benefit per case"),
        series="pair",
        facet=_facet(data),
        reference=0.0,
        data=tuple(data),
    )


def _distribution(analysis: PerformanceAnalysis) -> Chart:
    data: list[dict[str, Any]] = []
    for drawn in analysis.core.risks:
        edges, *shares = drawn.distribution
        panel = f"{drawn.model} · {_panel(analysis, drawn.population, drawn.label)}"
        for name, share in zip(("with the outcome", "without it"), shares, strict=True):
            data += [
                {"start": float(a), "end": float(b), "count": 100 * float(c), "cases": name, "panel": panel}
                for a, b, c in zip(edges[:-1], edges[1:], share, strict=True)
                if c > 0
            ]
    return Chart(
        kind="histogram",
        title="Who has which risk",
        caption="How predicted risks are distributed among cases with the outcome and those without; each adds up "
        "to 100%. The less they overlap, the better the model separates.",
        description="Distribution of the predicted risk by outcome, for each model.",
        x=Axis(field="start", title="Predicted probability", low=0.0, high=1.0, percent=True),
        y=Axis(field="count", title="% of cases"),
        series="cases",
        facet=_facet(data),
        data=tuple(data),
    )
