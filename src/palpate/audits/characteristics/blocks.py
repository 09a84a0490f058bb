"""The characteristics audit's tables and charts, made from its estimates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from palpate.audits.characteristics.arms import ACTIONS, age_number
from palpate.audits.characteristics.estimates import TRAINING
from palpate.audits.characteristics.findings import CharacteristicsAnalysis
from palpate.audits.characteristics.measures import ArmMeasures
from palpate.audits.kit.tables import (
    DIFFERENCE,
    columns,
    difference_cells,
    forest,
    interval_cell,
    point,
    reason_of,
    table,
)
from palpate.results import ALL_LABELS, Axis, Chart, Estimate, Examples, Table

MOST_HEAT_COLUMNS = 20
_MOST_CURVES = 8
_FEWEST_DRAWN = 10
"""Training cases of one age below which its observed rate is not drawn: it would be 0 or 1 by chance."""
_GROUP_COLUMNS = columns(
    ("Mean probability", "interval"),
    ("Decisions flipped", "percent", "against the reference group"),
    ("Flipped from the note as written", "percent"),
    *DIFFERENCE,
)


def characteristics_blocks(
    analysis: CharacteristicsAnalysis, examples: Examples | None
) -> tuple[Table | Chart | Examples, ...]:
    """The section's tables and charts."""
    blocks: list[Table | Chart | Examples] = []
    for found in analysis.arms:
        if not len(found.arm.rows):
            continue
        few = len(found.arm.groups) <= MOST_HEAT_COLUMNS
        if few and analysis.single:
            blocks.append(_differences_chart(analysis, found))
        elif few:
            blocks += [_heatmap(analysis, found), *_observed_heatmap(analysis, found)]
        if found.arm.name == "age":
            blocks.append(_curves(analysis, found))
            blocks += [_roughness_table(analysis, found)] if found.run is not None else []
        blocks.append(_group_table(analysis, found))
    blocks += [_flips(analysis), _amplification(analysis), _actions(analysis), _windows(analysis)]
    blocks += [_shifts(analysis)] if analysis.shifts else []
    blocks += [examples] if examples is not None else []
    return tuple(blocks)


def _heatmap(analysis: CharacteristicsAnalysis, found: ArmMeasures) -> Chart:
    arm = found.arm
    rows = [
        (group, analysis.estimates.find("deviation", model, label=label, group=name))
        for model in analysis.models
        for label in analysis.labels
        for group, name in zip(arm.groups, arm.group_names, strict=True)
    ]
    return _heat(
        found,
        rows,
        title=f"{arm.name.capitalize()}: labels by group",
        caption=f"Mean probability of a group less the mean of the other groups, over the same {len(arm.rows):,} "
        "notes. Only the mention in the note differs.",
        description=f"For each model, how much the predicted probability of {len(analysis.labels)} labels deviates "
        f"between {len(arm.groups)} groups.",
        facet="model",
    )


def _observed_heatmap(analysis: CharacteristicsAnalysis, found: ArmMeasures) -> list[Chart]:
    """The training data in a chart of their own: their deviations are about ten times larger than a model's."""
    arm, rates = found.arm, found.observed
    if rates is None:
        return []
    rows = [
        (
            f"{arm.groups[g]} ({int(rates.n[g]):,})",
            analysis.estimates.find("observed_deviation", TRAINING, label=label, group=name),
        )
        for label in analysis.labels
        for g, name in enumerate(arm.group_names)
    ]
    if all(row is None or row.value is None for _, row in rows):
        return []
    return [
        _heat(
            found,
            rows,
            title=f"{arm.name.capitalize()} in the training data",
            caption="Observed rate of a group less the mean of the other groups; numbers of cases in parentheses; "
            f"groups by {found.training.origin}. The groups differ in more than the mention.",
            description="How the observed label rates deviate between groups in the training split.",
        )
    ]


def _heat(found: ArmMeasures, rows: Sequence[tuple[str, Estimate | None]], **more: Any) -> Chart:
    """A heat map of labels by group, from the groups' headings and estimates; a cell that is undefined stays empty."""
    data = [
        {"label": row.label, "group": group, "model": row.model, "value": row.value, "low": row.low, "high": row.high}
        for group, row in rows
        if row is not None
    ]
    x, y = Axis(field="group", title=found.arm.name.capitalize()), Axis(field="label", title="Label")
    return Chart(kind="heatmap", x=x, y=y, reference=0.0, data=tuple(data), **more)


def _differences_chart(analysis: CharacteristicsAnalysis, found: ArmMeasures) -> Chart:
    arm = found.arm
    data: list[dict[str, Any]] = []
    for group, name in zip(arm.groups, arm.group_names, strict=True):
        for model in analysis.models:
            row = analysis.estimates.find("difference", model, group=name, reference=arm.reference_name)
            data += point(row, group=group)
    return forest(
        f"{arm.name.capitalize()}: change of the mean probability",
        f"Each group less '{arm.groups[arm.reference]}' in the same notes, with {analysis.level:.0%} intervals.",
        f"Paired differences of the mean predicted probability between groups of {arm.name}.",
        x=Axis(field="value", title=f"Difference to '{arm.groups[arm.reference]}'"),
        y=Axis(field="group", title=arm.name.capitalize()),
        reference=0.0,
        data=data,
    )


def _group_table(analysis: CharacteristicsAnalysis, found: ArmMeasures) -> Table:
    """The paper's Tables 2 and 3, with intervals: every model, label and group."""
    arm, find = found.arm, analysis.estimates.find
    rows: list[tuple[Any, ...]] = []
    for label in analysis.labels:
        first = () if analysis.single else (label,)
        for model in analysis.models:
            written = find("mean_probability", model, label=label, group=arm.as_written)
            rows.append((*first, model, "(as written)", interval_cell(written), None, None, *difference_cells(None)))
            rows += [(*first, model, *_group_cells(analysis, found, model, label, g)) for g in range(len(arm.groups))]
        for group, name in zip(arm.groups, arm.group_names, strict=True):
            rate = find("observed_rate", TRAINING, label=label, group=name)
            if rate is not None:
                named = f"{group} (n {rate.n:,})"
                rows.append((*first, TRAINING, named, interval_cell(rate), None, None, *difference_cells(None)))
    headings = ("Model", arm.name.capitalize()) if analysis.single else ("Label", "Model", arm.name.capitalize())
    return table(
        f"{arm.name.capitalize()}: every group",
        f"The same {len(arm.rows):,} notes in each group. Reference: {arm.reference_name}. p-values are corrected "
        f"({analysis.correction}) over the labels and groups of a model, and the characteristics. Rows of the training "
        "data are observed rates.",
        columns(*headings, *_GROUP_COLUMNS),
        rows,
    )


def _group_cells(
    analysis: CharacteristicsAnalysis, found: ArmMeasures, model: str, label: str, g: int
) -> tuple[Any, ...]:
    arm, index = found.arm, analysis.estimates
    group = arm.group_names[g]
    return (
        arm.groups[g],
        interval_cell(index.find("mean_probability", model, label=label, group=group)),
        index.value("flip_rate", model, label=label, group=group, reference=arm.reference_name),
        index.value("flip_rate", model, label=label, group=group, reference=arm.as_written),
        *difference_cells(index.find("difference", model, label=label, group=group, reference=arm.reference_name)),
    )


def _most_common(analysis: CharacteristicsAnalysis, found: ArmMeasures) -> list[str]:
    """The labels whose age curves are drawn: those with most positive notes."""
    model = analysis.models[0]

    def n_positive(label: str) -> int:
        row = analysis.estimates.find("mean_probability", model, label=label, group=found.arm.as_written)
        return (row.n_positive or 0) if row is not None else 0

    return sorted(analysis.labels, key=n_positive, reverse=True)[:_MOST_CURVES]


def _curves(analysis: CharacteristicsAnalysis, found: ArmMeasures) -> Chart:
    arm, find = found.arm, analysis.estimates.find
    shown = _most_common(analysis, found)
    data: list[dict[str, Any]] = []
    for label in shown:
        for group, name in zip(arm.groups, arm.group_names, strict=True):
            rows = [find("mean_probability", model, label=label, group=name) for model in analysis.models]
            observed = find("observed_rate", TRAINING, label=label, group=name)
            rows += [observed] if observed is not None and observed.n >= _FEWEST_DRAWN else []
            data += [drawn for row in rows for drawn in point(row, age=age_number(group))]
    several = len(analysis.labels) > len(shown)
    return Chart(
        kind="line",
        title="Age curves",
        caption="Mean probability when nothing but the age in the note is changed, over the same notes; "
        f"'{TRAINING}': observed rate of the training cases of that age (ages with {_FEWEST_DRAWN} or more)."
        + (f" The {len(shown)} most common labels." if several else ""),
        description="Mean predicted probability against the age written in the note, for each model.",
        x=Axis(field="age", title="Age in the note (90 = 90 and over)"),
        y=Axis(field="value", title="Mean probability", percent=True),
        series="model",
        facet="label" if len(shown) > 1 else None,
        data=tuple(data),
    )


def _roughness_table(analysis: CharacteristicsAnalysis, found: ArmMeasures) -> Table:
    groups = found.arm.groups
    rows: list[tuple[Any, ...]] = []
    for model in analysis.models:
        for label, step in zip(analysis.labels, analysis.steps(model, found), strict=True):
            rough, jump = (
                analysis.estimates.find(metric, model, label=label, group="age") for metric in ("roughness", "age_jump")
            )
            where = f"{groups[step.group]} to {groups[step.next_group]}"
            rows.append((model, label, interval_cell(rough), interval_cell(jump), where, step.change, reason_of(rough)))
    return table(
        "How rough the age curves are",
        "Roughness: the share of the curve's variance that is noise between neighbouring ages: 0 for a straight line, "
        "1 for white noise, more where neighbours alternate. Jump: the noise's standard deviation.",
        columns(
            "Model",
            "Label",
            ("Roughness", "interval"),
            ("Jump", "interval"),
            "Sharpest step",
            ("Change there", "number"),
            "Why not computed",
        ),
        rows,
    )


def _flips(analysis: CharacteristicsAnalysis) -> Table:
    """For each model and characteristic, the group and label for which most decisions flip."""
    rows = []
    for found in analysis.arms:
        for model in analysis.models:
            flips = analysis.compared("flip_rate", model, found.arm)
            if not flips:
                continue
            worst = max(flips, key=lambda row: row.value or 0.0)
            mean = sum(row.value or 0.0 for row in flips) / len(flips)
            origin = analysis.threshold_origin[analysis.ensembles.get(model, [model])[0]]
            where = (worst.group.partition("=")[2], worst.label)
            rows.append((model, found.arm.name, mean, *where, interval_cell(worst), origin))
    return table(
        "Decisions that flip",
        "Share of notes whose decision differs from that for the reference group: on average over groups and labels, "
        "and where it is highest.",
        columns(
            "Model",
            "Characteristic",
            ("On average", "percent"),
            "Highest for group",
            "Label",
            ("Flipped there", "interval"),
            "Threshold",
        ),
        rows,
        collapsed=False,
    )


def _amplification(analysis: CharacteristicsAnalysis) -> Table:
    labels: Sequence[str] = analysis.labels if analysis.single else (ALL_LABELS, *analysis.labels)
    rows = [
        (model, found.arm.name, label, interval_cell(row), row.n, reason_of(row))
        for found in analysis.arms
        for label in labels
        for model in analysis.models
        if (row := analysis.estimates.find("amplification", model, label=label, group=found.arm.name)) is not None
    ]
    origins = (f"{found.arm.name}: {found.training.reason or found.training.origin}" for found in analysis.arms)
    return table(
        "Does the model amplify the training data?",
        "Slope of the model's deviations on the observed ones: 1 = as far apart as in the training data, below 1 = "
        "muted, above 1 = amplified, below 0 = reversed. Groups in the training data differ in more than the mention, "
        f"so 1 is not an ideal. Source of the groups: {'; '.join(origins)}.",
        columns(
            "Model",
            "Characteristic",
            "Label",
            ("Amplification", "interval"),
            ("Training cases", "integer"),
            "Why not computed",
        ),
        rows,
    )


def _actions(analysis: CharacteristicsAnalysis) -> Table:
    rows: list[tuple[Any, ...]] = []
    for arm in (found.arm for found in analysis.arms):
        n_skipped = arm.n_notes - len(arm.rows)
        for g, group in enumerate(arm.groups):
            why = "; ".join(f"{reason} ({int(n[g]):,})" for reason, n in sorted(arm.reasons.items()) if n[g])
            rows.append((arm.name, group, *(int(n) for n in arm.actions[g]), n_skipped, why))
    return table(
        "What was done to the notes",
        "A note that can't be altered to one group is left out of all groups of its characteristic, so that all groups "
        "hold the same patients. The reasons are those given for the group.",
        columns(
            "Characteristic",
            "Group",
            *((action.capitalize(), "integer") for action in ACTIONS),
            ("Left out", "integer"),
            "Reasons",
        ),
        rows,
    )


def _windows(analysis: CharacteristicsAnalysis) -> Table:
    windows = [
        (model, found.arm.name, analysis.window(model, found)) for found in analysis.arms for model in analysis.models
    ]
    return table(
        "Edits that a model never saw",
        "Altered notes in which every edit lies beyond the text that the model reads. They count as no change, because "
        "for the model there is none.",
        columns(
            "Model",
            "Characteristic",
            ("Altered notes", "integer"),
            ("Outside the window", "integer"),
            ("Share", "percent"),
        ),
        [(model, name, *window, window.share) for model, name, window in windows],
        collapsed=False,
    )


def _shifts(analysis: CharacteristicsAnalysis) -> Table:
    rows = [
        (each.model, each.case_id, each.group, each.label, each.before, each.after, each.after - each.before)
        for each in analysis.shifts
    ]
    return table(
        "Largest single shifts",
        "Notes whose prediction moves furthest from that for the note as written, with the group and label for which "
        "each moves furthest.",
        columns("Model", "Case", "Altered to", "Label", ("Before", "number"), ("After", "number"), ("Shift", "number")),
        rows,
    )
