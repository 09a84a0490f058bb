"""The performance audit's tables and charts, made from its estimates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from palpate.audits.kit.risks import CORE
from palpate.audits.kit.rows import pairs_of
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
from palpate.audits.performance.answers import PerformanceAnalysis
from palpate.audits.performance.populations import PROBABILITY, RANKING
from palpate.audits.performance.risk_blocks import risk_blocks
from palpate.results import MACRO, METRIC_NAMES, MICRO, Axis, Chart, Column, Estimate, Table
from palpate.stats import THRESHOLD_METRICS

HEADLINE = (*RANKING, *PROBABILITY)
DECISIONS = ("sensitivity", "specificity", "ppv", "npv")
_DIFFERENCE = columns("Label", "Cohort", "Metric", *DIFFERENCE)


def performance_blocks(analysis: PerformanceAnalysis) -> tuple[Table | Chart, ...]:
    """The section's tables and charts."""
    blocks: list[Table | Chart] = [_overview(analysis), _headline_table(analysis)]
    blocks += [_differences_chart(analysis), _differences_table(analysis)] if len(analysis.models) > 1 else []
    blocks += _drop_blocks(analysis) if len(analysis.populations) > 1 else []
    blocks += [_calibration(analysis), *risk_blocks(analysis), *_decision_tables(analysis)]
    blocks += [_label_table(analysis)] if len(analysis.labels) > 1 else []
    blocks += [_seeds_table(analysis)] if analysis.ensembles else []
    return tuple(blocks)


def _points(rows: Sequence[Estimate | None]) -> list[dict[str, Any]]:
    return [each for row in rows for each in point(row, population=row.group if row else "")]


def _overview(analysis: PerformanceAnalysis) -> Chart:
    many, find = len(analysis.labels) > 1, analysis.estimates.find
    labels = [*analysis.labels, MACRO, MICRO] if many else [analysis.estimates.label]
    rows = [
        find("auroc", model, label=label, group=population)
        for population in analysis.populations
        for label in labels
        for model in analysis.models
    ]
    first = find("auroc", analysis.models[0])
    return forest(
        "AUROC of each model",
        f"Points are computed on the data; bars are {analysis.level:.0%} intervals. 0.5 is chance.",
        f"AUROC with interval for {len(analysis.models)} models"
        + (f", overall {number(first.value)} for {first.model}." if first else "."),
        x=Axis(field="value", title="AUROC (0.5 = chance, 1 = perfect)"),
        y=Axis(field="label" if many else "model", title="Label" if many else "Model"),
        facet="population" if len(analysis.populations) > 1 else None,
        reference=0.5,
        data=_points(rows),
    )


def _headline_table(analysis: PerformanceAnalysis) -> Table:
    rows = []
    for population in analysis.populations:
        for model in analysis.models:
            found = [analysis.estimates.find(metric, model, group=population) for metric in HEADLINE]
            counts = (found[0].n, found[0].n_positive) if found[0] else (0, 0)
            rows.append((model, population, *counts, *map(interval_cell, found)))
    what = f"of '{analysis.estimates.label}'" if len(analysis.labels) == 1 else _averaging(analysis)
    return table(
        "Discrimination and calibration",
        f"Metrics {what}, with {analysis.level:.0%} intervals. Lower is better for Brier score and calibration error."
        + (" A model of several seeds has the mean of its seeds' metrics." if analysis.ensembles else ""),
        columns("Model", "Cohort", ("Cases", "integer"), ("Positive", "integer"), *_intervals(analysis, HEADLINE)),
        rows,
        collapsed=False,
    )


def _averaging(analysis: PerformanceAnalysis) -> str:
    n, total = len(analysis.averaged), len(analysis.labels)
    if n == 1:
        return f"of '{analysis.averaged[0]}', the only one of {total} labels with enough patients in every cohort"
    which = "all" if n == total else f"{n} of"
    return f"averaged over {which} {total} labels (macro: those with enough patients in every cohort)"


def _metric(analysis: PerformanceAnalysis, metric: str) -> str:
    if metric == "sensitivity_at_specificity":
        return f"Sensitivity at {analysis.specificity:.0%} specificity"
    return METRIC_NAMES[metric]


def _intervals(analysis: PerformanceAnalysis, metrics: Sequence[str]) -> tuple[Column, ...]:
    return columns(*((_metric(analysis, metric), "interval") for metric in metrics))


def _differences_chart(analysis: PerformanceAnalysis) -> Chart:
    data: list[dict[str, Any]] = []
    for model, reference in pairs_of(analysis.models):
        for metric in HEADLINE:
            row = analysis.estimates.find(metric, model, reference=reference)
            data += point(row, metric=_metric(analysis, metric), pair=f"{model} − {reference}")
    return forest(
        "Differences between models",
        "Paired on the same resampled patients; an interval that contains 0 is compatible with no difference.",
        f"Differences in {len(HEADLINE)} metrics for every pair of models, with intervals.",
        x=Axis(field="value", title="Difference (first model less second)"),
        y=Axis(field="metric", title="Metric"),
        series="pair",
        reference=0.0,
        data=data,
    )


def _difference_row(analysis: PerformanceAnalysis, row: Estimate, what: str) -> tuple[Any, ...]:
    return (what, row.label, row.group, _metric(analysis, row.metric), *difference_cells(row))


def _corrected(analysis: PerformanceAnalysis, over: str) -> str:
    if analysis.family == "run":
        over = "all comparisons of the audit. "
    return f"p-values and intervals are corrected ({analysis.correction}) over {over}"


def _differences_table(analysis: PerformanceAnalysis) -> Table:
    listed = (*HEADLINE, *CORE)
    found = (row for row in analysis.estimates if row.reference in analysis.models and row.metric in listed)
    rows = [
        _difference_row(analysis, row, f"{row.model} − {row.reference}") for row in harm_first(found, either_way=True)
    ]
    return table(
        "Every pair of models",
        _corrected(analysis, "the pairs, labels and averages of a metric in a cohort; the overall number on its own. ")
        + "By metric, the largest difference first.",
        columns("Models", *_DIFFERENCE),
        rows,
    )


def _drop_blocks(analysis: PerformanceAnalysis) -> list[Table | Chart]:
    main = analysis.populations[0]
    listed = (*HEADLINE, *CORE)
    rows = harm_first(row for row in analysis.estimates if row.reference == main and row.metric in listed)
    overall = [row for row in rows if row.label == analysis.estimates.label and row.metric == "auroc"]
    chart = forest(
        f"Change of AUROC outside {main}",
        f"AUROC in the other cohort less AUROC in {main}; the two are resampled independently. The largest loss first.",
        f"Change of AUROC from {main} to the other cohorts, for each model.",
        x=Axis(field="value", title="Change of AUROC (negative = worse elsewhere)"),
        y=Axis(field="model", title="Model"),
        series="population",
        reference=0.0,
        data=_points(overall),
    )
    listing = table(
        f"Other cohorts against {main}",
        _corrected(analysis, "the models, cohorts and labels of a metric; the overall number on its own. ")
        + "Rows of two models compare their changes. "
        "AUPRC, PPV, Brier score and net benefit change with the prevalence alone; AUROC, Brier skill and calibration "
        "can be compared. "
        "By metric, the largest loss first.",
        columns("Model", *_DIFFERENCE),
        [
            *(_difference_row(analysis, row, row.model) for row in rows),
            *(
                _difference_row(analysis, row, f"{row.model} − {row.reference}")
                for row in harm_first(row for row in analysis.estimates if row.metric == "auroc_drop")
            ),
        ],
    )
    return [chart, listing]


def _calibration(analysis: PerformanceAnalysis) -> Chart:
    data: list[dict[str, Any]] = []
    for population, model, label, curve in analysis.curves:
        panel = f"{label} · {population}" if len(analysis.labels) > 1 else population
        data += calibration_points(curve, model=model, panel=panel)
    several = len({row["panel"] for row in data}) > 1
    chart = calibration_chart("Calibration", data, series="model", facet="panel" if several else None)
    if not analysis.ensembles:
        return chart
    seeds = " A model of several seeds is drawn as the mean of its seeds' curves, in the widest of their bands."
    return chart.model_copy(update={"caption": chart.caption + seeds})


def _decision_tables(analysis: PerformanceAnalysis) -> list[Table]:
    """What a threshold does, and behind it, closed, the numbers that mix its errors with the prevalence."""
    return [
        _decisions_table(
            analysis,
            "Decisions at the threshold",
            "A case is called positive when its probability is at least the threshold, "
            "which is held fixed in the resamples."
            + (
                " Each label has its own threshold; numbers are means over the labels."
                if len(analysis.labels) > 1
                else ""
            ),
            DECISIONS,
            collapsed=False,
        ),
        _decisions_table(
            analysis,
            "F1, precision and recall of both classes",
            "At the same threshold. F1 leaves out the cases that are rightly called negative and weighs both errors "
            "alike, whatever they cost; to choose a model, read AUROC, calibration and net benefit.",
            [metric for metric in THRESHOLD_METRICS if metric not in DECISIONS],
            collapsed=True,
        ),
    ]


def _decisions_table(
    analysis: PerformanceAnalysis, title: str, caption: str, metrics: Sequence[str], *, collapsed: bool
) -> Table:
    names = list(analysis.thresholds.origin)
    rows = []
    for population in analysis.populations:
        for model in analysis.models:
            member = analysis.ensembles.get(model, [model])[0]
            single = len(analysis.labels) == 1 and model not in analysis.ensembles
            value = float(analysis.thresholds.values[names.index(member), 0]) if single else None
            threshold = None if value is None or value != value else value
            found = (analysis.estimates.find(metric, model, group=population) for metric in metrics)
            rows.append((model, population, threshold, analysis.thresholds.origin[member], *map(interval_cell, found)))
    return table(
        title,
        caption,
        columns(
            "Model",
            "Cohort",
            ("Threshold", "number"),
            "How it was chosen",
            *_intervals(analysis, metrics),
        ),
        rows,
        collapsed=collapsed,
    )


def _label_table(analysis: PerformanceAnalysis) -> Table:
    wanted = [row for row in analysis.estimates if row.reference is None and row.metric in HEADLINE]
    wanted = [row for row in wanted if row.model in analysis.models]
    key = lambda row: (row.group, row.label, row.model)  # noqa: E731
    rows = []
    for (group, label, model), found in groupby(sorted(wanted, key=key), key):
        cells = {row.metric: row for row in found}
        first = cells["auroc"]
        values = (interval_cell(cells[metric]) for metric in HEADLINE)
        rows.append((label, group, model, first.n_positive, *values, reason_of(first)))
    return table(
        "Every label",
        "macro: mean over labels. micro: all case–label pairs pooled.",
        columns(
            "Label", "Cohort", "Model", ("Positive", "integer"), *_intervals(analysis, HEADLINE), "Why not computed"
        ),
        rows,
        collapsed=True,
    )


def _seeds_table(analysis: PerformanceAnalysis) -> Table:
    value = analysis.estimates.value
    rows = []
    for name, members in analysis.ensembles.items():
        for group in analysis.populations:
            for metric in HEADLINE:
                numbers = (value(metric, name, group=group), value(f"{metric}_sd", name, group=group))
                each = ", ".join(number(value(metric, member, group=group)) for member in members)
                rows.append((name, group, _metric(analysis, metric), len(members), *numbers, each))
    return table(
        "Seeds of one model",
        "Mean and standard deviation over seeds. The intervals elsewhere are intervals of the mean, over patients.",
        columns("Model", "Cohort", "Metric", ("Seeds", "integer"), ("Mean", "number"), ("SD", "number"), "Each"),
        rows,
        collapsed=False,
    )
