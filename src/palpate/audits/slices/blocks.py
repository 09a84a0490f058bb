"""The slices audit's table and chart, made from its estimates."""

from __future__ import annotations

from palpate.audits.kit.tables import DIFFERENCE, columns, difference_cells, forest, interval_cell, point, table
from palpate.audits.slices.answers import SliceAnalysis
from palpate.audits.slices.findings import TOLD
from palpate.results import METRIC_NAMES, Axis, Chart, Table
from palpate.results.blocks import Cell


def slice_blocks(analysis: SliceAnalysis) -> tuple[Table | Chart, ...]:
    """The slices that were tested; nothing is drawn where there is none."""
    rows = [row for row in analysis.estimates if row.reference is not None]
    blocks: list[Table | Chart] = [_tested(analysis)]
    if any(row.value is not None for row in rows):
        blocks.insert(0, _chart(analysis))
    return tuple(blocks)


def _chart(analysis: SliceAnalysis) -> Chart:
    metric, _ = TOLD[analysis.how.metric]
    worse = {-1: " (negative = worse)", 1: " (positive = worse)", 0: ""}[analysis.question.harm]
    data = [
        each
        for (model, label), found in analysis.found.items()
        for name in found.names
        for each in point(analysis.row(model, label, name))
    ]
    return forest(
        f"Slices that looked worst, on the other half of the patients: {metric}",
        "Each slice less all others. Intervals hold for all slices at once; one that contains 0 was not confirmed.",
        f"Difference of {metric} between each tested slice and all others, for each model.",
        x=Axis(field="value", title=f"Difference of {metric}{worse}"),
        y=Axis(field="group", title="Slice"),
        facet="label" if len(analysis.labels) > 1 else None,
        reference=0.0,
        data=data,
    )


def _tested(analysis: SliceAnalysis) -> Table:
    metric = METRIC_NAMES[analysis.metric]
    rows: list[tuple[Cell, ...]] = []
    for (model, label), found in analysis.found.items():
        for name, each in zip(found.names, found.searched.found, strict=True):
            level, row = analysis.row(model, label, name, None), analysis.row(model, label, name)
            n, events = (0, 0) if row is None else (row.n, row.n_positive)
            counts = (found.n_patients[name], n, events)
            rows.append((model, label, name, *counts, each.value, interval_cell(level), *difference_cells(row)))
    searched = sum(found.searched.n_slices for found in analysis.found.values())
    return table(
        "Slices that were tested",
        f"{searched:,} slices were searched on one half of the patients. Those that looked worst there, without those "
        "that others explain, were tested on the other half, which the numbers are about; differences are to all "
        f"other cases, with p-values and intervals corrected ({analysis.correction}) over all tested slices.",
        columns(
            "Model",
            "Label",
            "Slice",
            ("Patients", "integer"),
            ("Cases", "integer"),
            ("Events", "integer"),
            (f"{metric} where it was found", "number"),
            (metric, "interval"),
            *DIFFERENCE,
        ),
        rows,
        collapsed=False,
    )
