"""What the performance audit shows: tables and charts, made from its estimates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from palpate.audits.performance.findings import DECISIONS, HEADLINE, METRIC_NAMES, Story, number
from palpate.results import Axis, Chart, Column, Estimate, Table


def blocks_of(story: Story) -> tuple[Table | Chart, ...]:
    """The section's tables and charts."""
    blocks: list[Table | Chart] = [_overview(story), _headline_table(story)]
    blocks += [_differences_chart(story), _differences_table(story)] if story.pairs else []
    blocks += _drop_blocks(story) if len(story.populations) > 1 else []
    blocks += [_calibration(story), _decisions_table(story)]
    blocks += [_label_table(story)] if len(story.labels) > 1 else []
    blocks += [_checkpoint_table(story)] if story.families else []
    return tuple(blocks)


def _cell(row: Estimate | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if row is None else (row.value, row.low, row.high)


def _points(rows: Sequence[Estimate | None], **more: Any) -> list[dict[str, Any]]:
    """Estimates as chart data; what can't be computed stays in the table and is not drawn."""
    return [
        {
            "label": row.label,
            "model": row.model,
            "population": row.group,
            "value": row.value,
            "low": row.low,
            "high": row.high,
            "n": row.n,
            "n_positive": row.n_positive,
            "significant": row.significant,
            **more,
        }
        for row in rows
        if row is not None and row.value is not None
    ]


def _overview(story: Story) -> Chart:
    many = len(story.labels) > 1
    labels = [*story.labels, "macro", "micro"] if many else [story.overall]
    rows = [
        story.find("auroc", model=model, label=label, group=population)
        for population in story.populations
        for label in labels
        for model in story.models
    ]
    first = story.find("auroc", model=story.models[0])
    return Chart(
        kind="forest",
        title="AUROC of each model",
        caption=f"Points are computed on the data; bars are {story.level:.0%} bootstrap intervals. 0.5 is chance.",
        description=f"AUROC with interval for {len(story.models)} models"
        + (f", overall {number(first.value)} for {first.model}." if first else "."),
        x=Axis(field="value", title="AUROC (0.5 = chance, 1 = perfect)"),
        y=Axis(field="label" if many else "model", title="Label" if many else "Model"),
        series="model",
        facet="population" if len(story.populations) > 1 else None,
        reference=0.5,
        data=tuple(_points(rows)),
    )


def _headline_table(story: Story) -> Table:
    columns = [Column(name="Model"), Column(name="Cohort"), Column(name="Cases", kind="integer")]
    columns += [Column(name="Positive", kind="integer")]
    columns += [Column(name=_metric(story, metric), kind="interval") for metric in HEADLINE]
    rows = []
    for population in story.populations:
        for model in story.models:
            found = {metric: story.find(metric, model=model, group=population) for metric in HEADLINE}
            first = found["auroc"]
            counts = (first.n, first.n_positive) if first else (0, 0)
            rows.append((model, population, *counts, *(_cell(found[metric]) for metric in HEADLINE)))
    what = f"of '{story.overall}'" if len(story.labels) == 1 else _averaging(story)
    return Table(
        title="Discrimination and calibration",
        caption=f"Metrics {what}, with {story.level:.0%} intervals. "
        "Lower is better for Brier score and calibration error.",
        columns=tuple(columns),
        rows=tuple(rows),
    )


def _averaging(story: Story) -> str:
    n, total = story.n_averaged, len(story.labels)
    which = "all" if n == total else f"{n} of"
    return f"averaged over {which} {total} labels (macro: those with enough patients in every cohort)"


def _metric(story: Story, metric: str) -> str:
    if metric == "sensitivity_at_specificity":
        return f"Sensitivity at {story.specificity:.0%} specificity"
    return METRIC_NAMES[metric]


def _differences_chart(story: Story) -> Chart:
    data: list[dict[str, Any]] = []
    for model, reference in story.pairs:
        for metric in HEADLINE:
            row = story.find(metric, model=model, reference=reference)
            data += _points([row], metric=_metric(story, metric), pair=f"{model} − {reference}")
    return Chart(
        kind="forest",
        title="Differences between models",
        caption="Paired on the same resampled patients; an interval that holds 0 is compatible with no difference.",
        description="Differences in six metrics for every pair of models, with intervals.",
        x=Axis(field="value", title="Difference (first model less second)"),
        y=Axis(field="metric", title="Metric"),
        series="pair",
        reference=0.0,
        data=tuple(data),
    )


def _difference_row(story: Story, row: Estimate, what: str) -> tuple[Any, ...]:
    return (
        what,
        row.label,
        row.group,
        _metric(story, row.metric),
        _cell(row),
        row.p_value,
        row.significant,
        row.reason or "",
    )


_DIFFERENCE_COLUMNS = (
    Column(name="Label"),
    Column(name="Cohort"),
    Column(name="Metric"),
    Column(name="Difference", kind="interval"),
    Column(name="p, corrected", kind="p_value"),
    Column(name="Significant", kind="flag"),
    Column(name="Why not computed"),
)


def _differences_table(story: Story) -> Table:
    rows = [
        _difference_row(story, row, f"{row.model} − {row.reference}")
        for row in story.rows
        if row.reference in story.models and row.metric in HEADLINE
    ]
    return Table(
        title="Every pair of models",
        caption=f"p-values are corrected ({story.correction}) over the pairs, labels and averages "
        "of a metric in a cohort.",
        columns=(Column(name="Models"), *_DIFFERENCE_COLUMNS),
        rows=tuple(rows),
        collapsed=len(rows) > 20,
    )


def _drop_blocks(story: Story) -> list[Table | Chart]:
    main = story.populations[0]
    rows = [row for row in story.rows if row.reference == main and row.metric in HEADLINE]
    overall = [row for row in rows if row.label == story.overall and row.metric == "auroc"]
    chart = Chart(
        kind="forest",
        title=f"What is lost outside {main}",
        caption=f"AUROC in the other cohort less AUROC in {main}; the two are resampled independently.",
        description=f"Change of AUROC from {main} to the other cohorts, for each model.",
        x=Axis(field="value", title="Change of AUROC (negative = worse elsewhere)"),
        y=Axis(field="model", title="Model"),
        series="population",
        reference=0.0,
        data=tuple(_points(overall)),
    )
    table = Table(
        title=f"Other cohorts against {main}",
        caption=f"p-values are corrected ({story.correction}) over the models, cohorts and labels of a metric. "
        "AUPRC, PPV and Brier score move with the prevalence alone; AUROC and Brier skill can be compared.",
        columns=(Column(name="Model"), *_DIFFERENCE_COLUMNS),
        rows=tuple(_difference_row(story, row, row.model) for row in rows),
        collapsed=len(rows) > 20,
    )
    return [chart, table]


def _calibration(story: Story) -> Chart:
    data = [
        {
            "x": float(x),
            "y": float(y),
            "low": float(low),
            "high": float(high),
            "n": round(float(n)),
            "model": model,
            "panel": " · ".join(
                part for part, several in ((label, len(story.labels) > 1), (population, True)) if several
            ),
        }
        for population, model, label, curve in story.curves
        for x, y, low, high, n in zip(
            curve.mean_score, curve.observed, curve.low, curve.high, curve.weight, strict=True
        )
        if x == x and y == y
    ]
    return Chart(
        kind="line",
        title="Calibration",
        caption="Bins hold equal numbers of cases; bands are Wilson intervals. "
        "On the diagonal, 20% predicted is 20% observed.",
        description="Observed share of positive cases against the mean predicted probability, for each model.",
        x=Axis(field="x", title="Mean predicted probability", percent=True),
        y=Axis(field="y", title="Observed share of positive cases", percent=True),
        series="model",
        facet="panel" if len({row["panel"] for row in data}) > 1 else None,
        diagonal=True,
        data=tuple(data),
    )


def _decisions_table(story: Story) -> Table:
    columns = [Column(name="Model"), Column(name="Cohort"), Column(name="Threshold", kind="number")]
    columns += [Column(name="How it was chosen")]
    columns += [Column(name=METRIC_NAMES[metric], kind="interval") for metric in DECISIONS]
    rows = []
    for population in story.populations:
        for model in story.models:
            member = story.families.get(model, [model])[0]
            threshold = story.threshold.get(member) if len(story.labels) == 1 and model not in story.families else None
            found = (story.find(metric, model=model, group=population) for metric in DECISIONS)
            rows.append((model, population, threshold, story.threshold_origin[member], *map(_cell, found)))
    return Table(
        title="Decisions at the threshold",
        caption="A case is called positive when its probability is at least the threshold, "
        "which is held fixed in the resamples."
        + (" Each label has its own threshold; numbers are means over the labels." if len(story.labels) > 1 else ""),
        columns=tuple(columns),
        rows=tuple(rows),
    )


def _label_table(story: Story) -> Table:
    columns = [
        Column(name="Label"),
        Column(name="Cohort"),
        Column(name="Model"),
        Column(name="Positive", kind="integer"),
    ]
    columns += [Column(name=_metric(story, metric), kind="interval") for metric in HEADLINE]
    columns += [Column(name="Why not computed")]
    wanted = [
        row for row in story.rows if row.reference is None and row.metric in HEADLINE and row.model in story.models
    ]
    key = lambda row: (row.group, row.label, row.model)  # noqa: E731
    rows = []
    for (group, label, model), found in groupby(sorted(wanted, key=key), key):
        cells = {row.metric: row for row in found}
        first = cells["auroc"]
        values = (_cell(cells[metric]) for metric in HEADLINE)
        rows.append((label, group, model, first.n_positive, *values, first.reason or ""))
    return Table(
        title="Every label",
        caption="macro: mean over labels. micro: all pairs of case and label in one heap.",
        columns=tuple(columns),
        rows=tuple(rows),
        collapsed=True,
    )


def _checkpoint_table(story: Story) -> Table:
    rows = []
    for family, members in story.families.items():
        for population in story.populations:
            for metric in HEADLINE:
                mean = story.find(metric, model=family, group=population)
                sd = story.find(f"{metric}_sd", model=family, group=population)
                each = [story.find(metric, model=name, group=population) for name in members]
                listed = ", ".join(number(row.value) for row in each if row is not None)
                cells = (mean.value if mean else None, sd.value if sd else None)
                rows.append((family, population, _metric(story, metric), len(members), *cells, listed))
    return Table(
        title="Checkpoints of one model",
        caption="Mean and standard deviation over checkpoints (seeds). "
        "The intervals elsewhere are of the mean, over patients.",
        columns=(
            Column(name="Model"),
            Column(name="Cohort"),
            Column(name="Metric"),
            Column(name="Checkpoints", kind="integer"),
            Column(name="Mean", kind="number"),
            Column(name="SD", kind="number"),
            Column(name="Each"),
        ),
        rows=tuple(rows),
    )
