"""The drift audit's tables and charts, made from its estimates."""

from __future__ import annotations

from typing import Any

from palpate.audits.drift.answers import DriftAnalysis, span
from palpate.audits.drift.estimates import TRENDS
from palpate.audits.drift.findings import change_rows, metric_name
from palpate.audits.drift.measures import METRICS
from palpate.audits.drift.plan import FIRST, LATEST, WHOLE
from palpate.audits.drift.risks import RISKS
from palpate.audits.kit.tables import (
    DIFFERENCE,
    columns,
    difference_cells,
    harm_first,
    interval_cell,
    point,
    reason_of,
    table,
)
from palpate.results import METRIC_NAMES, Axis, Chart, Table

_RATES = ("sensitivity", "ppv", "flag_rate", "prevalence")
SHOWN = (*METRICS, *RISKS)


def drift_blocks(analysis: DriftAnalysis) -> tuple[Table | Chart, ...]:
    """The section's tables and charts."""
    label = "" if len(analysis.labels) == 1 else f", '{analysis.labels[0]}'"
    blocks: list[Table | Chart] = [
        _chart(analysis, f"AUROC over time{label}", ("auroc",), "AUROC (0.5 = chance, 1 = perfect)"),
        _chart(
            analysis,
            f"Observed less predicted risk over time{label}",
            ("calibration_in_the_large",),
            "Observed less predicted risk",
            reference=0.0,
        ),
        _chart(analysis, f"Decisions over time{label}", _RATES, "Share", percent=True),
        _periods(analysis),
        _ends(analysis),
        _changes(analysis),
    ]
    if len(analysis.models) > 1:
        blocks.append(_models(analysis))
    return tuple(blocks)


def _chart(analysis: DriftAnalysis, title: str, metrics: tuple[str, ...], name: str, **more: Any) -> Chart:
    """A line per model over the periods, for the first label; several metrics are panels of one chart."""
    percent = more.pop("percent", False)
    data = [
        each
        for metric in metrics
        for model in analysis.models
        for k, period in enumerate(analysis.periods.names)
        for each in point(
            analysis.estimates.find(metric, model, label=analysis.labels[0], group=period),
            period=k,
            metric=METRIC_NAMES[metric],
            text=period,
        )
    ]
    return Chart(
        kind="line",
        title=title,
        caption=f"Bands are {analysis.level:.0%} intervals by patient, each on its own. Periods without enough "
        "patients are in the table.",
        description=f"{name} of each model in {len(analysis.periods.names)} periods.",
        x=Axis(field="period", title="Period", labels=analysis.periods.names),
        y=Axis(field="value", title=name, percent=percent),
        series="model",
        facet="metric" if len(metrics) > 1 else None,
        data=tuple(data),
        **more,
    )


def _periods(analysis: DriftAnalysis) -> Table:
    rows = []
    for label in analysis.labels:
        for model in analysis.models:
            for period in (WHOLE, *analysis.periods.names):
                found = {name: analysis.estimates.find(name, model, label=label, group=period) for name in SHOWN}
                first = found["auroc"]
                counts = (analysis.n_patients[period], first.n if first else 0, first.n_positive if first else 0)
                why = reason_of(first)
                rows.append((label, model, period, *counts, *map(interval_cell, found.values()), why))
    return table(
        "Every period",
        f"With {analysis.level:.0%} intervals by patient, each on its own. PPV and Brier score change with the "
        "prevalence alone. O:E is the number of events over the number that was predicted: above 1, risks are too low. "
        "A calibration slope below 1 says that risks are too extreme.",
        columns(
            "Label",
            "Model",
            "Period",
            ("Patients", "integer"),
            ("Cases", "integer"),
            ("Events", "integer"),
            *((METRIC_NAMES[metric], "interval") for metric in SHOWN),
            "Why not computed",
        ),
        rows,
    )


def _ends(analysis: DriftAnalysis) -> Table:
    found = [row for row in analysis.estimates if row.group == LATEST and row.reference == FIRST]
    return table(
        "The latest periods against the first",
        f"{span(analysis.periods.latest)} less {span(analysis.periods.first)}; corrected ({analysis.correction}) over "
        "the models and labels of a metric. Patients who are seen in both count in the intervals.",
        columns("Model", "Label", "Metric", *DIFFERENCE),
        [(row.model, row.label, METRIC_NAMES[row.metric], *difference_cells(row)) for row in harm_first(found)],
    )


def _changes(analysis: DriftAnalysis) -> Table:
    rows = []
    for metric, row in change_rows(analysis):
        slope = analysis.estimates.find(TRENDS[metric], row.model, label=row.label, group=WHOLE)
        trend = (interval_cell(slope), None if slope is None else slope.p_value)
        cells = (interval_cell(row), row.p_value, row.significant)
        why = reason_of(row) or reason_of(slope)
        rows.append((row.model, row.label, METRIC_NAMES[metric], row.group, *cells, *trend, why))
    return table(
        "Changes at a date, and trends",
        "The date at which what came after differs most from what came before. Its p-value and interval hold for all "
        "dates, metrics, models and labels at once, so that the search does not raise false alarms; the size of a "
        "change that was searched for is likely exaggerated. Trends are per year.",
        columns(
            "Model",
            "Label",
            "Metric",
            "From",
            ("Change", "interval"),
            ("p, corrected", "p_value"),
            ("Significant", "flag"),
            ("Trend", "interval"),
            ("p of the trend, corrected", "p_value"),
            "Why not computed",
        ),
        rows,
        collapsed=False,
    )


def _models(analysis: DriftAnalysis) -> Table:
    found = [row for row in analysis.estimates if row.reference in analysis.models]
    return table(
        f"Models compared in the latest periods, {span(analysis.periods.latest)}",
        f"Paired on the same resampled patients; corrected ({analysis.correction}) over the pairs and labels of a "
        "metric.",
        columns("Models", "Label", "Metric", *DIFFERENCE),
        [
            (f"{row.model} − {row.reference}", row.label, metric_name(row.metric), *difference_cells(row))
            for row in harm_first(found, either_way=True)
        ],
        collapsed=True,
    )
