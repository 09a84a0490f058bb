"""Estimates as table cells, table columns and chart points: the pieces that every audit's blocks are made of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from palpate.results import LOWER_IS_BETTER, Axis, Chart, Column, Estimate, Table
from palpate.results.blocks import Cell
from palpate.stats import CalibrationCurve

Interval = tuple[float | None, float | None, float | None]
Kind = Literal["text", "number", "integer", "percent", "p_value", "interval", "flag"]
NO_INTERVAL: Interval = (None, None, None)
LONG = 20
"""Rows above which a table starts closed."""


ColumnSpec = str | tuple[str, Kind] | tuple[str, Kind, str] | Column


def columns(*names: ColumnSpec) -> tuple[Column, ...]:
    """Table columns: a name is a text column, `("Cases", "integer")` has a kind, and a third part is its hint."""
    return tuple(_column(name) for name in names)


def _column(name: ColumnSpec) -> Column:
    if isinstance(name, Column):
        return name
    if isinstance(name, str):
        return Column(name=name)
    return Column(name=name[0], kind=name[1], hint=name[2] if len(name) == 3 else "")


TESTED = columns(("p, corrected", "p_value"), ("Significant", "flag"), "Why not computed")
"""What `tested_cells` fills."""
DIFFERENCE = columns(("Difference", "interval"), *TESTED)
"""What `difference_cells` fills."""


def interval_cell(row: Estimate | None, scale: float = 1.0) -> Interval:
    """An estimate in an interval column."""
    if row is None:
        return NO_INTERVAL
    value, low, high = (None if part is None else scale * part for part in (row.value, row.low, row.high))
    return value, low, high


def tested_cells(row: Estimate | None) -> tuple[float | None, bool | None, str]:
    """A comparison's p-value, whether it is significant, and why it is not there."""
    return (None, None, "") if row is None else (row.p_value, row.significant, row.reason or "")


def difference_cells(row: Estimate | None, scale: float = 1.0) -> tuple[Cell, ...]:
    """A comparison's interval, and what `tested_cells` says."""
    return (interval_cell(row, scale), *tested_cells(row))


def harm_first(rows: Iterable[Estimate], *, by_model: bool = False, either_way: bool = False) -> list[Estimate]:
    """Differences with the largest loss first, within each metric (and model, if asked), which keep their order.

    `either_way`: the largest difference first, where neither side is the worse one. What has no value comes last.
    """

    def kept(row: Estimate) -> tuple[str, str]:
        return (row.model if by_model else "", row.metric)

    def harm(row: Estimate) -> float:
        if row.value is None:
            return -math.inf
        return abs(row.value) if either_way else row.value if row.metric in LOWER_IS_BETTER else -row.value

    rows = list(rows)
    places = {key: place for place, key in enumerate(dict.fromkeys(map(kept, rows)))}
    return sorted(rows, key=lambda row: (places[kept(row)], -harm(row)))


def reason_of(row: Estimate | None) -> str:
    """Why an estimate, or a part of it, is not there."""
    return "" if row is None else row.reason or ""


def table(title: str, caption: str, names: Sequence[Column], rows: Sequence[tuple[Cell, ...]], **more: Any) -> Table:
    """A table; long ones start closed unless `collapsed` says otherwise."""
    collapsed = more.pop("collapsed", len(rows) > LONG)
    return Table(title=title, caption=caption, columns=tuple(names), rows=tuple(rows), collapsed=collapsed, **more)


def point(row: Estimate | None, scale: float = 1.0, **fields: Any) -> list[dict[str, Any]]:
    """An estimate as chart data, with further fields; what cannot be computed is not drawn and stays in the table."""
    if row is None or row.value is None:
        return []
    value, low, high = interval_cell(row, scale)
    drawn = {
        "model": row.model,
        "label": row.label,
        "group": row.group,
        "value": value,
        "low": low,
        "high": high,
        "n": row.n,
        "n_positive": row.n_positive,
        "significant": row.significant,
    }
    return [{**drawn, **fields}]


def forest(
    title: str, caption: str, description: str, *, x: Axis, y: Axis, data: Sequence[dict[str, Any]], **more: Any
) -> Chart:
    """A forest chart: one line per point, in the colour of its model; differences have the reference 0."""
    series = more.pop("series", "model")
    return Chart(
        kind="forest",
        title=title,
        caption=caption,
        description=description,
        x=x,
        y=y,
        series=series,
        data=tuple(data),
        **more,
    )


def calibration_points(curve: CalibrationCurve, **fields: Any) -> list[dict[str, Any]]:
    """The bins of a calibration curve as data of `calibration_chart`, with further fields; empty bins are left out."""
    bins = zip(curve.mean_score, curve.observed, curve.low, curve.high, curve.weight, strict=True)
    return [
        {"x": float(x), "y": float(y), "low": float(low), "high": float(high), "n": round(float(n)), **fields}
        for x, y, low, high, n in bins
        if x == x and y == y
    ]


def calibration_chart(title: str, data: Sequence[dict[str, Any]], *, series: str, facet: str | None = None) -> Chart:
    """The observed share of positive cases against the predicted probability."""
    return Chart(
        kind="line",
        title=title,
        caption="Bins hold equal numbers of cases; bands are Wilson intervals. "
        "On the diagonal, 20% predicted is 20% observed.",
        description=f"Observed share of positive cases against the mean predicted probability, for each {series}.",
        x=Axis(field="x", title="Mean predicted probability", percent=True),
        y=Axis(field="y", title="Observed share of positive cases", percent=True),
        series=series,
        facet=facet,
        diagonal=True,
        data=tuple(data),
    )
