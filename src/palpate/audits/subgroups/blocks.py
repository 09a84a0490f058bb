"""The subgroups audit's tables and charts, made from its estimates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from palpate.audits.kit.tables import (
    DIFFERENCE,
    calibration_chart,
    calibration_points,
    columns,
    difference_cells,
    forest,
    harm_first,
    interval_cell,
    point,
    reason_of,
    table,
)
from palpate.audits.kit.wording import number
from palpate.audits.subgroups.answers import SubgroupAnalysis, comparison_words
from palpate.audits.subgroups.estimates import MODEL_GAP
from palpate.audits.subgroups.findings import extremes
from palpate.audits.subgroups.gaps import FAIRNESS, GAPS
from palpate.audits.subgroups.measures import DECISIONS, METRICS, RANKING, WHOLE
from palpate.audits.subgroups.risks import RISK_METRICS, RISKS_COMPARED
from palpate.results import METRIC_NAMES, Axis, Chart, Column, Estimate, Table
from palpate.results.blocks import Cell

MANY_GROUPS = 40
"""Above it, charts begin with the groups that are worst: not all of them are drawn."""
SHOWN = (*(name for name in METRICS if name != "mean_score"), *RISK_METRICS)
FAIRNESS_NAMES = {
    "demographic_parity": ("Demographic parity", "equal shares are flagged"),
    "equal_opportunity": ("Equal opportunity", "equal sensitivity"),
    "equalized_odds": ("Equalised odds", "equal sensitivity and specificity; the worse of the two"),
    "predictive_parity": ("Predictive parity", "equal PPV"),
}


def subgroup_blocks(analysis: SubgroupAnalysis) -> tuple[Table | Chart, ...]:
    """The section's tables and charts."""
    blocks: list[Table | Chart] = [_overview(analysis), _groups(analysis)]
    if analysis.contrasts:
        blocks += [_chart_of_differences(analysis), _gap_table(analysis), _fairness_table(analysis)]
        blocks += [_difference_table(analysis)]
    if analysis.curves:
        blocks.insert(3, _calibration(analysis))
    if len(analysis.models) > 1:
        blocks.append(_model_table(analysis))
    return tuple(blocks)


def _facet(analysis: SubgroupAnalysis) -> str | None:
    return "label" if len(analysis.labels) > 1 else None


def _points(rows: Sequence[Estimate | None]) -> list[dict[str, Any]]:
    return [each for row in rows for each in point(row)]


def _charted(analysis: SubgroupAnalysis) -> list[str]:
    """The groups in their order; those with the largest loss first where a chart can't show all of them."""
    if len(analysis.groups) <= MANY_GROUPS:
        return analysis.groups
    lowest: dict[str, float] = {}
    for model in analysis.models:
        for contrast, row in analysis.compared("auroc", model):
            lowest[contrast.group] = min(lowest.get(contrast.group, math.inf), row.value or 0.0)
    return sorted(analysis.groups, key=lambda group: lowest.get(group, math.inf))


def _worst_first(analysis: SubgroupAnalysis) -> str:
    return "" if len(analysis.groups) <= MANY_GROUPS else " The groups with the largest loss come first."


def _overview(analysis: SubgroupAnalysis) -> Chart:
    find = analysis.estimates.find
    rows = [
        find("auroc", model, label=label, group=group)
        for label in analysis.labels
        for group in _charted(analysis)
        for model in analysis.models
    ]
    whole = find("auroc", analysis.models[0], label=analysis.labels[0], group=WHOLE)
    return forest(
        "AUROC in each group",
        f"Bars are {analysis.level:.0%} intervals, each on its own. Groups without enough patients are in the table."
        + _worst_first(analysis),
        f"AUROC with interval for {len(analysis.groups)} groups and {len(analysis.models)} models; "
        f"over all cases {number(whole.value if whole else None)} for {analysis.models[0]}.",
        x=Axis(field="value", title="AUROC (0.5 = chance, 1 = perfect)"),
        y=Axis(field="group", title="Group"),
        facet=_facet(analysis),
        reference=whole.value if whole is not None and len(analysis.labels) == len(analysis.models) == 1 else None,
        data=_points(rows),
    )


def _groups(analysis: SubgroupAnalysis) -> Table:
    rows = []
    for label in analysis.labels:
        for model in analysis.models:
            for group in (WHOLE, *analysis.groups):
                found = {name: analysis.estimates.find(name, model, label=label, group=group) for name in SHOWN}
                first = found["auroc"]
                counts = (analysis.n_patients[group], first.n if first else 0, first.n_positive if first else 0)
                why = "" if first is None else reason_of(first)
                rows.append((label, model, group, *counts, *map(interval_cell, found.values()), why))
    return table(
        "Every group",
        f"With {analysis.level:.0%} intervals by patient, each on its own. AUPRC, PPV, NPV and Brier score change with "
        "the prevalence alone, and so does the net benefit at the threshold, in events per case. O:E is the number of "
        "events over the number that was predicted, and the intercept its counterpart in log odds: above 1, and above "
        "0, risks are too low. A slope below 1 means risks that are too extreme. The calibration error and the ICI are "
        "larger in smaller groups by chance alone.",
        columns(
            "Label",
            "Model",
            "Group",
            ("Patients", "integer"),
            ("Cases", "integer"),
            ("Events", "integer"),
            *_intervals(SHOWN),
            "Why not computed",
        ),
        rows,
        collapsed=False,
    )


def _intervals(metrics: Sequence[str]) -> tuple[Column, ...]:
    return columns(*((METRIC_NAMES[metric], "interval") for metric in metrics))


def _chart_of_differences(analysis: SubgroupAnalysis) -> Chart:
    place = {group: k for k, group in enumerate(_charted(analysis))}
    rows = [row for model in analysis.models for _, row in analysis.compared("auroc", model)]
    rows.sort(key=lambda row: place[row.group])
    return forest(
        f"AUROC of each group less that of {comparison_words(analysis)}",
        "Intervals hold for all groups at once; one that contains 0 is compatible with no difference."
        + _worst_first(analysis),
        "Difference of AUROC between each group and what it is compared with, for each model.",
        x=Axis(field="value", title="Difference of AUROC (negative = worse for this group)"),
        y=Axis(field="group", title="Group"),
        facet=_facet(analysis),
        reference=0.0,
        data=_points(rows),
    )


def _calibration(analysis: SubgroupAnalysis) -> Chart:
    several = len({curve.model for curve in analysis.curves}) > 1
    data = [
        point
        for each in analysis.curves
        for point in calibration_points(
            each.curve, group=each.group, by=f"{each.partition} · {each.model}" if several else each.partition
        )
    ]
    title = "Calibration by group" + (f", '{analysis.labels[0]}'" if len(analysis.labels) > 1 else "")
    facet = "by" if len({row["by"] for row in data}) > 1 else None
    return calibration_chart(title, data, series="group", facet=facet)


def _gap_table(analysis: SubgroupAnalysis) -> Table:
    find, rows = analysis.estimates.find, []
    for label in analysis.labels:
        for partition in analysis.partitions:
            for model in analysis.models:
                for metric in GAPS:
                    gap = find(f"{metric}_gap", model, label=label, group=partition.name)
                    seen = find(f"{metric}_gap_seen", model, label=label, group=partition.name)
                    ends = extremes(analysis, partition, metric, model, label)
                    between = [f"{row.group} ({number(row.value)})" for row in ends] or ["", ""]
                    value = None if seen is None else seen.value
                    cells = (METRIC_NAMES[metric], interval_cell(gap), value, *between, reason_of(gap))
                    rows.append((label, partition.name, model, *cells))
    return table(
        "The largest gap",
        "The highest of several noisy numbers less the lowest is too large by chance alone: equal groups always show a "
        "gap (as seen). The largest gap allows for that; its interval holds for all pairs of groups at once, and "
        "starts at 0 where the groups may all be equal.",
        columns(
            "Label",
            "By",
            "Model",
            "Metric",
            ("Largest gap", "interval"),
            ("As seen", "number"),
            "Lowest",
            "Highest",
            "Why not computed",
        ),
        rows,
    )


def _fairness_table(analysis: SubgroupAnalysis) -> Table:
    find = analysis.estimates.find
    rows: list[tuple[Cell, ...]] = []
    for label in analysis.labels:
        for partition in analysis.partitions:
            for model in analysis.models:
                for name in FAIRNESS:
                    kinds = ("difference", "ratio")
                    found = [find(f"{name}_{kind}", model, label=label, group=partition.name) for kind in kinds]
                    what, meaning = FAIRNESS_NAMES[name]
                    why = reason_of(found[0]) or reason_of(found[1])
                    rows.append((label, partition.name, model, what, meaning, *map(interval_cell, found), why))
    return table(
        "Fairness summaries",
        "Differences are the highest rate less the lowest, ratios the lowest over the highest, as in fairlearn, at the "
        "threshold; intervals allow for the choice of the extremes. They cannot all be equal at once where prevalences "
        "differ; which one matters depends on what the flag is for.",
        columns(
            "Label",
            "By",
            "Model",
            "Summary",
            "Asks for",
            ("Difference", "interval"),
            ("Ratio", "interval"),
            "Why not computed",
        ),
        rows,
    )


def _difference_table(analysis: SubgroupAnalysis) -> Table:
    wanted = (*RANKING, *DECISIONS, "brier", "oe_ratio", "calibration_in_the_large", *RISKS_COMPARED)
    references = {contrast.reference for contrast in analysis.contrasts}
    found = [row for row in analysis.estimates if row.reference in references and row.metric in wanted]
    over = (
        "over the groups, models and labels of a metric; those of AUROC and sensitivity, which answer questions, hold "
        "for all questions of this audit together"
    )
    return table(
        f"Each group against {comparison_words(analysis)}",
        f"p-values and intervals are corrected ({analysis.correction}) {_over(analysis, over)}. "
        "By metric, the largest loss first.",
        columns("Model", "Label", "Group", "Against", "Metric", *DIFFERENCE),
        [
            (row.model, row.label, row.group, row.reference, METRIC_NAMES[row.metric], *difference_cells(row))
            for row in harm_first(found)
        ],
        collapsed=True,
    )


def _over(analysis: SubgroupAnalysis, question: str) -> str:
    """What is corrected together: with `family: run` everything, whatever the question."""
    return "over all comparisons of this audit" if analysis.family == "run" else question


def _model_table(analysis: SubgroupAnalysis) -> Table:
    found = [row for row in analysis.estimates if row.reference in analysis.models]
    names = {**METRIC_NAMES, MODEL_GAP: "Difference of AUROC to the others"}
    return table(
        "Models compared within groups",
        f"Paired on the same resampled patients; corrected ({analysis.correction}) "
        f"{_over(analysis, 'over the groups, pairs and labels of a metric')}.",
        columns("Models", "Label", "Group", "Metric", *DIFFERENCE),
        [
            (f"{row.model} − {row.reference}", row.label, row.group, names[row.metric], *difference_cells(row))
            for row in harm_first(found, either_way=True)
        ],
        collapsed=True,
    )
