"""The operating audit's tables and charts, made from its estimates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from palpate.audits.kit.tables import (
    DIFFERENCE,
    ColumnSpec,
    columns,
    difference_cells,
    harm_first,
    interval_cell,
    reason_of,
    table,
)
from palpate.audits.operating.answers import AlertAnalysis
from palpate.audits.operating.estimates import BENEFIT, NEEDED, PER_100, PER_DAY, THRESHOLD
from palpate.audits.operating.measures import RATES, AlertCurve
from palpate.results import METRIC_NAMES, Axis, Chart, Table

_SHOWN = (PER_100, NEEDED, "sensitivity", "ppv", "specificity", "npv", BENEFIT)


def operating_blocks(analysis: AlertAnalysis) -> tuple[Table | Chart, ...]:
    """The section's tables and charts."""
    blocks: list[Table | Chart] = [_points(analysis)]
    if analysis.timed:
        blocks.append(_stays(analysis))
    if analysis.curves:
        blocks += [_workload(analysis), _yield(analysis)]
    if len(analysis.models) > 1:
        blocks.append(_models(analysis))
    blocks.append(_origins(analysis))
    return tuple(blocks)


def _points(analysis: AlertAnalysis) -> Table:
    unit = analysis.planned.unit
    per_day = any(row.metric == PER_DAY for row in analysis.estimates)
    shown = (PER_100, PER_DAY, *_SHOWN[1:]) if per_day else _SHOWN
    rows = []
    for label in analysis.labels:
        for point in analysis.points:
            for model in analysis.models:
                found = [analysis.estimates.find(name, model, label=label, group=point.name) for name in shown]
                threshold = analysis.estimates.value(THRESHOLD, model, label=label, group=point.name)
                why = next(filter(None, map(reason_of, found)), "")
                rows.append((label, point.name, model, threshold, *map(interval_cell, found), why))
    stays = ""
    if analysis.planned.has_stays:
        first = "one of its predictions reaches it" if analysis.combine == "max" else "its first prediction reaches it"
        stays = f" A stay is flagged if {first}."
    return table(
        "Operating points",
        f"What flagging at each threshold means, with {analysis.level:.0%} intervals by patient, each on its own. "
        f"The number needed to evaluate is how many flagged {unit} are looked at to find one with the outcome. Net "
        f"benefit counts a false alarm as threshold / (1 − threshold) of a found case.{stays}",
        columns(
            "Label",
            "Point",
            "Model",
            ("Threshold", "number"),
            *((METRIC_NAMES[name], "interval") for name in shown),
            "Why not computed",
        ),
        rows,
        collapsed=False,
    )


def _stays(analysis: AlertAnalysis) -> Table:
    rows = []
    for label in analysis.labels:
        for point in analysis.points:
            for model in analysis.models:
                found = [analysis.estimates.find(name, model, label=label, group=point.name) for name in analysis.timed]
                why = next(filter(None, map(reason_of, found)), "")
                cells = [cell for row in found for cell in (interval_cell(row), 0 if row is None else row.n)]
                rows.append((label, point.name, model, *cells, why))
    heads: list[ColumnSpec] = []
    for name in analysis.timed:
        heads += [(METRIC_NAMES[name], "interval"), ("Stays", "integer")]
    return table(
        "Alerts over time",
        "Means of alerts; medians of hours. Lead time is from the first alert to the event, in stays with the outcome "
        "that were flagged before it. Beside each number, the stays that it is about.",
        columns("Label", "Point", "Model", *heads, "Why not computed"),
        rows,
        collapsed=False,
    )


def _curve_chart(
    analysis: AlertAnalysis,
    title: str,
    caption: str,
    x: tuple[str, str, Callable[[AlertCurve], Any]],
    y: tuple[str, str, Callable[[AlertCurve], Any]],
) -> Chart:
    """A line per model, with its operating points marked."""
    data: list[dict[str, Any]] = []
    for curve in analysis.curves:
        data += [
            {"x": float(a), "y": float(b), "model": curve.model, "label": curve.label}
            for a, b in zip(x[2](curve), y[2](curve), strict=True)
        ]
        for point in analysis.points:
            where = [
                analysis.estimates.value(metric, curve.model, label=curve.label, group=point.name)
                for metric in (x[0], y[0])
            ]
            if None not in where:
                data.append(
                    {
                        "x": where[0],
                        "y": where[1],
                        "model": curve.model,
                        "label": curve.label,
                        "marked": True,
                        "text": point.name,
                    }
                )
    return Chart(
        kind="line",
        title=title,
        caption=caption,
        description=f"{y[1]} against {x[1]} for each model, with the operating points marked.",
        x=Axis(field="x", title=x[1], percent=True, low=0.0, high=1.0),
        y=Axis(field="y", title=y[1], percent=True, low=0.0, high=1.0),
        series="model",
        facet="label" if len(analysis.labels) > 1 else None,
        data=tuple(data),
    )


def _workload(analysis: AlertAnalysis) -> Chart:
    return _curve_chart(
        analysis,
        "What flagging more finds",
        f"Of the {analysis.planned.unit} with the outcome, the share that is flagged, as more are flagged. Marks are "
        "the operating points.",
        ("flag_rate", f"Share of {analysis.planned.unit} flagged", lambda curve: curve.flagged),
        ("sensitivity", "Sensitivity", lambda curve: curve.sensitivity),
    )


def _yield(analysis: AlertAnalysis) -> Chart:
    return _curve_chart(
        analysis,
        "What finding more costs",
        "Of those who are flagged, the share with the outcome, as more of the outcomes are found. Marks are the "
        "operating points.",
        ("sensitivity", "Sensitivity", lambda curve: curve.sensitivity),
        ("ppv", "PPV", lambda curve: curve.ppv),
    )


def _models(analysis: AlertAnalysis) -> Table:
    wanted = (*RATES[:4], PER_100, NEEDED, BENEFIT, *analysis.timed)
    found = [row for row in analysis.estimates if row.reference in analysis.models and row.metric in wanted]
    return table(
        "Models compared at each point",
        f"Paired on the same resampled patients; corrected ({analysis.correction}) over the points, pairs and labels "
        "of a metric. Hours are compared in stays that both models flag.",
        columns("Models", "Label", "Point", "Metric", *DIFFERENCE),
        [
            (f"{row.model} − {row.reference}", row.label, row.group, METRIC_NAMES[row.metric], *difference_cells(row))
            for row in harm_first(found, either_way=True)
        ],
        collapsed=True,
    )


def _origins(analysis: AlertAnalysis) -> Table:
    rows = [
        (point.name, model, point.how[analysis.ensembles.get(model, [model])[0]])
        for point in analysis.points
        for model in analysis.models
    ]
    return table(
        "Where the thresholds come from", "", columns("Point", "Model", "Threshold"), rows, collapsed=len(rows) > 6
    )
