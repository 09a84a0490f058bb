"""The characteristics audit's tables and charts, made from its estimates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from palpate.audits.characteristics.age_blocks import age_blocks, put_together
from palpate.audits.characteristics.answers import CharacteristicsAnalysis
from palpate.audits.characteristics.arm_measures import ArmMeasures
from palpate.audits.characteristics.arms import ACTIONS
from palpate.audits.characteristics.contrasts import what_differs
from palpate.audits.characteristics.estimates import DIFFERENCE as DIFFERENCES
from palpate.audits.characteristics.estimates import FLIPS, GAP, REVERSALS, TRAINING
from palpate.audits.kit.altered import shifts_table, windows_table
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
from palpate.audits.kit.wording import number
from palpate.results import ALL_LABELS, Axis, Chart, Estimate, Examples, Table

MOST_HEAT_COLUMNS = 20
NOT_MENTIONED = "no mention"
_FURTHEST = (
    "Notes whose prediction moves furthest from that for the note as written, with the group and label for which each "
    "moves furthest."
)
_GROUP_COLUMNS = columns(
    ("Mean probability", "interval"),
    ("Decisions flipped", "percent", "against the group that this one is compared with"),
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
            blocks += age_blocks(analysis, found)
        blocks.append(_group_table(analysis, found))
    blocks += [_flips(analysis), _amplification(analysis), _coverage(analysis), *_reasons(analysis)]
    blocks += [_actions(analysis), _windows(analysis)]
    blocks += [_seeds(analysis)] if analysis.ensembles else []
    blocks += [shifts_table(analysis, "Altered to", _FURTHEST)] if analysis.shifts else []
    blocks += [examples] if examples is not None else []
    return tuple(blocks)


def _heatmap(analysis: CharacteristicsAnalysis, found: ArmMeasures) -> Chart:
    arm = found.arm
    rows = [
        (group, analysis.estimates.find("deviation", model, label=label, group=name))
        for model in analysis.models
        for label in analysis.by_effect(found)
        for group, name in zip(arm.groups, arm.group_names, strict=True)
    ]
    return _heat(
        found,
        rows,
        title=f"{arm.name.capitalize()}: labels by group",
        caption=f"Mean probability of a group less the mean of the other groups, over the same {len(arm.rows):,} "
        f"notes. The labels that differ most come first. {what_differs(arm)}",
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
        for label in analysis.by_effect(found)
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
    drawn: list[tuple[float, list[dict[str, Any]]]] = []
    for group, name, against in zip(arm.groups, arm.group_names, arm.against_names, strict=True):
        rows = [analysis.estimates.find(DIFFERENCES, model, group=name, reference=against) for model in analysis.models]
        size = max((abs(row.value) for row in rows if row is not None and row.value is not None), default=0.0)
        drawn.append((size, [each for row in rows for each in point(row, group=group)]))
    data = [each for _, points in sorted(drawn, key=lambda pair: -pair[0]) for each in points]
    return forest(
        f"{arm.name.capitalize()}: change of the mean probability",
        f"Each group less '{arm.groups[arm.reference]}' (or what is named below) in the same notes, with "
        f"{analysis.level:.0%} intervals that hold for {analysis.family} at once; the largest first. "
        f"{what_differs(arm)}",
        f"Paired differences of the mean predicted probability between groups of {arm.name}.",
        x=Axis(field="value", title="Difference of the mean probability"),
        y=Axis(field="group", title=arm.name.capitalize()),
        reference=0.0,
        data=data,
    )


def _group_table(analysis: CharacteristicsAnalysis, found: ArmMeasures) -> Table:
    """The paper's Tables 2 and 3, with intervals: every model, label and group."""
    arm, find = found.arm, analysis.estimates.find
    rows: list[tuple[Any, ...]] = []
    for label in analysis.by_effect(found):
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
        f"{_same_notes(found)} Reference: {arm.reference_name}. {what_differs(arm)} "
        f"Intervals and p-values of the differences hold for {analysis.family} at once ({analysis.correction}). "
        "Rows of the training data are observed rates.",
        columns(*headings, *_GROUP_COLUMNS),
        rows,
    )


def _same_notes(found: ArmMeasures) -> str:
    arm = found.arm
    if found.sets is None:
        return f"The same {len(arm.rows):,} notes in each group."
    few, most = int(arm.n_possible.min()), int(arm.n_possible.max())
    return (
        f"{len(arm.rows):,} notes; {few:,} to {most:,} of them can have each age. The mean probability is put together "
        f"{put_together(found)} Flips are over the notes that can have both ages."
    )


def _group_cells(
    analysis: CharacteristicsAnalysis, found: ArmMeasures, model: str, label: str, g: int
) -> tuple[Any, ...]:
    arm, index = found.arm, analysis.estimates
    group = arm.group_names[g]
    return (
        arm.groups[g],
        interval_cell(index.find("mean_probability", model, label=label, group=group)),
        index.value("flip_rate", model, label=label, group=group, reference=arm.against_names[g]),
        index.value("flip_rate", model, label=label, group=group, reference=arm.as_written),
        *difference_cells(index.find("difference", model, label=label, group=group, reference=arm.against_names[g])),
    )


def _flips(analysis: CharacteristicsAnalysis) -> Table:
    """For each model and characteristic, the group and label for which most decisions flip."""
    rows = []
    for found in analysis.arms:
        for model in analysis.models:
            flips = [row for row in analysis.compared(FLIPS, model, found) if row.value is not None]
            worst, origin = analysis.worst_flips(flips, model)
            if worst is None:
                continue
            mean = sum(row.value or 0.0 for row in flips) / len(flips)
            where = (worst.group.partition("=")[2], worst.label)
            rows.append((model, found.arm.name, mean, *where, interval_cell(worst), origin))
    return table(
        "Decisions that flip",
        "Share of notes whose decision differs from that for the group it is compared with: on average over groups and "
        f"labels, and where it is highest, with an interval that holds for {analysis.family} at once.",
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


def _coverage(analysis: CharacteristicsAnalysis) -> Table:
    """How many notes could be altered."""
    rows: list[tuple[Any, ...]] = []
    partly = any(found.arm.partly for found in analysis.arms)
    for arm in (found.arm for found in analysis.arms):
        silent = sum(n for reason, n in arm.left_out.items() if NOT_MENTIONED in reason)
        said, n = arm.n_notes - silent, len(arm.rows)
        row = (arm.name, arm.n_notes, said, n, n / said if said else None)
        rows.append((*row, sum(arm.partly.values())) if partly else row)
    return table(
        "How many notes could be altered",
        "Notes that could be altered to every group, as a share of those that mention the characteristic or have a "
        f"place for a mention.{' A note has the ages that do not contradict it, if these are two or more.' * partly}",
        columns(
            "Characteristic",
            ("Notes", "integer"),
            ("With a mention or a place for one", "integer"),
            ("Altered", "integer"),
            ("Share", "percent"),
            *((("To some ages only", "integer"),) if partly else ()),
        ),
        rows,
    )


def _reasons(analysis: CharacteristicsAnalysis) -> list[Table]:
    """Why notes could not be altered, by count."""
    rows = [
        (found.arm.name, what, reason, n, n / found.arm.n_notes)
        for found in analysis.arms
        for what, counts in (("left out", found.arm.left_out), ("some ages left out", found.arm.partly))
        for reason, n in counts.items()
    ]
    caption = (
        "Each note that was left out counts once, with the first reason. A note that can have some ages only counts "
        "once, with the reason that excludes most of the others."
    )
    headings = columns("Characteristic", "What", "Because", ("Notes", "integer"), ("Of all notes", "percent"))
    return [table("Why notes could not be altered", caption, headings, rows)] if rows else []


def _actions(analysis: CharacteristicsAnalysis) -> Table:
    rows: list[tuple[Any, ...]] = []
    for arm in (found.arm for found in analysis.arms):
        for g, group in enumerate(arm.groups):
            why = "; ".join(f"{reason} ({int(n[g]):,})" for reason, n in sorted(arm.reasons.items()) if n[g])
            n_skipped = arm.n_notes - int(arm.n_possible[g])
            rows.append((arm.name, group, *(int(n) for n in arm.actions[g]), n_skipped, why))
    return table(
        "What was done to the notes",
        "A note that can't be altered to one group is left out of all groups of its characteristic, so that all groups "
        "hold the same patients; of the ages, each note has those that do not contradict it. The reasons are those "
        "given for the group.",
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
    caption = "Altered notes in which every edit lies beyond the text that the model reads."
    return windows_table(windows, "Characteristic", "Altered notes", caption, collapsed=False)


def _seeds(analysis: CharacteristicsAnalysis) -> Table:
    """For each ensemble and characteristic, the spread over seeds of its largest difference and flips."""
    rows: list[tuple[Any, ...]] = []
    for (name, members), found in product(analysis.ensembles.items(), analysis.arms):
        by_year = found.arm.name == "age" and len(found.years) > 0
        for metric, words in (
            (GAP if by_year else DIFFERENCES, "gap to the neighbours" if by_year else "difference"),
            (REVERSALS if by_year else FLIPS, "reversed decisions" if by_year else "flipped decisions"),
        ):
            known = [row for row in analysis.compared(metric, name, found) if row.value is not None]
            if not known:
                continue
            worst = max(known, key=lambda row: abs(row.value or 0.0))
            where = {"label": worst.label, "group": worst.group, "reference": worst.reference}
            each = ", ".join(number(analysis.estimates.value(metric, member, **where)) for member in members)
            sd = analysis.estimates.value(f"{metric}_sd", name, **where)
            rows.append((name, worst.group, worst.label, words, len(members), worst.value, sd, each))
    return table(
        "Seeds of one model",
        "Mean and standard deviation over seeds, where the mean is largest. All tables and charts show the mean of the "
        "seeds' numbers; their intervals are over patients.",
        columns(
            "Model",
            "Group",
            "Label",
            "Measure",
            ("Seeds", "integer"),
            ("Mean", "number"),
            ("SD", "number"),
            "Each",
        ),
        rows,
        collapsed=False,
    )
