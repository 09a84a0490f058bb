"""What the characteristics audit shows: heat maps, tables by group, age curves over the observed ones, flips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from palpate.audits.characteristics.ages import sharpest_step
from palpate.audits.characteristics.analysis import ArmAnalysis
from palpate.audits.characteristics.arms import ACTIONS
from palpate.audits.characteristics.estimates import ALL_LABELS, TRAINING
from palpate.audits.characteristics.findings import Story
from palpate.results import Axis, Chart, Column, Estimate, Examples, Table

MOST_HEAT_COLUMNS = 20
_MOST_CURVES = 8
_FEWEST_DRAWN = 10
"""Training cases of one age below which its observed rate is not drawn: it would be 0 or 1 by chance."""
_DIFFERENCE = (
    Column(name="Mean probability", kind="interval"),
    Column(name="Difference to the reference", kind="interval"),
    Column(name="p, corrected", kind="p_value"),
    Column(name="Significant", kind="flag"),
    Column(name="Decisions flipped", kind="percent", hint="against the reference group"),
    Column(name="Flipped from the note as written", kind="percent"),
)


def blocks_of(story: Story, examples: Examples | None) -> tuple[Table | Chart | Examples, ...]:
    """The section's tables and charts."""
    blocks: list[Table | Chart | Examples] = []
    for number, found in enumerate(story.arms):
        if not len(found.arm.rows):
            continue
        few = len(found.arm.groups) <= MOST_HEAT_COLUMNS
        if not story.single and few:
            blocks.append(_heatmap(story, found))
            blocks += _observed_heatmap(story, number)
        if story.single and few:
            blocks.append(_forest(story, found))
        if found.arm.ages is not None:
            blocks.append(_curves(story, found))
            blocks += _rough_table(story, found)
        blocks.append(_group_table(story, number))
    blocks += [_flips(story), _amplification(story), _actions(story), _windows(story)]
    blocks += [_shifts(story)] if story.shifts else []
    blocks += [examples] if examples is not None else []
    return tuple(blocks)


def _cell(row: Estimate | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if row is None else (row.value, row.low, row.high)


def _value(row: Estimate | None) -> float | None:
    return None if row is None else row.value


def _heatmap(story: Story, found: ArmAnalysis) -> Chart:
    arm = found.arm
    data = [
        {"label": label, "group": arm.groups[g], "model": model, "value": row.value, "low": row.low, "high": row.high}
        for model in story.models
        for label in story.labels
        for g in range(len(arm.groups))
        if (row := story.find("deviation", model, label, arm.group_name(g))) is not None
    ]
    return Chart(
        kind="heatmap",
        title=f"{arm.name.capitalize()}: labels by group",
        caption=f"Mean probability of a group less the mean of the other groups, over the same {len(arm.rows):,} "
        "notes. Only the mention in the note differs.",
        description=f"For each model, how much the predicted probability of {len(story.labels)} labels deviates "
        f"between {len(arm.groups)} groups.",
        x=Axis(field="group", title=arm.name.capitalize()),
        y=Axis(field="label", title="Label"),
        facet="model",
        reference=0.0,
        data=tuple(data),
    )


def _observed_heatmap(story: Story, number: int) -> list[Chart]:
    """The training data apart: their deviations are about ten times larger than a model's."""
    found = story.arms[number]
    arm, rates = found.arm, found.observed
    if rates is None:
        return []
    data = []
    for label in story.labels:
        for g, group in enumerate(arm.groups):
            row = story.find("observed_deviation", TRAINING, label, arm.group_name(g))
            if row is not None:
                named = f"{group} ({int(rates.n[g]):,})"
                data.append({"label": label, "group": named, "value": row.value, "low": row.low, "high": row.high})
    chart = Chart(
        kind="heatmap",
        title=f"{arm.name.capitalize()} in the training data",
        caption=f"Observed rate of a group less the mean of the other groups; numbers of cases in parentheses; groups "
        f"by {story.observed[number].origin}. The groups differ in more than the mention.",
        description="How the observed label rates deviate between groups in the training split.",
        x=Axis(field="group", title=arm.name.capitalize()),
        y=Axis(field="label", title="Label"),
        reference=0.0,
        data=tuple(data),
    )
    return [chart] if any(row["value"] is not None for row in data) else []


def _forest(story: Story, found: ArmAnalysis) -> Chart:
    arm = found.arm
    reference = arm.group_name(arm.reference)
    rows = [
        (arm.groups[g], model, row)
        for g in range(len(arm.groups))
        for model in story.models
        if (row := story.find("difference", model, story.labels[0], arm.group_name(g), reference)) is not None
    ]
    data = [
        {"group": group, "model": model, "value": row.value, "low": row.low, "high": row.high, "n": row.n,
         "significant": row.significant}
        for group, model, row in rows
    ]  # fmt: skip
    return Chart(
        kind="forest",
        title=f"{arm.name.capitalize()}: change of the mean probability",
        caption=f"Each group less '{arm.groups[arm.reference]}' in the same notes, with {story.level:.0%} intervals.",
        description=f"Paired differences of the mean predicted probability between groups of {arm.name}.",
        x=Axis(field="value", title=f"Difference to '{arm.groups[arm.reference]}'"),
        y=Axis(field="group", title=arm.name.capitalize()),
        series="model",
        reference=0.0,
        data=tuple(data),
    )


def _group_table(story: Story, number: int) -> Table:
    """The paper's Tables 2 and 3, with intervals: every model, label and group."""
    found = story.arms[number]
    arm = found.arm
    reference = arm.group_name(arm.reference)
    rows: list[tuple[Any, ...]] = []
    for label in story.labels:
        for model in story.models:
            first = () if story.single else (label,)
            written = story.find("mean_probability", model, label, arm.as_written)
            rows.append((*first, model, "(as written)", _cell(written), (None, None, None), None, None, None, None))
            rows += [(*first, model, *_group_cells(story, found, model, label, g)) for g in range(len(arm.groups))]
        rows += _observed_rows(story, found, label)
    columns = [Column(name="Model"), Column(name=arm.name.capitalize()), *_DIFFERENCE]
    return Table(
        title=f"{arm.name.capitalize()}: every group",
        caption=f"The same {len(arm.rows):,} notes in each group. Reference: {reference}. p-values are corrected "
        f"({story.correction}) over the labels and groups of a model, and the characteristics. Rows of the training "
        "data are observed rates.",
        columns=tuple(columns if story.single else [Column(name="Label"), *columns]),
        rows=tuple(rows),
        collapsed=len(rows) > 20,
    )


def _group_cells(story: Story, found: ArmAnalysis, model: str, label: str, g: int) -> tuple[Any, ...]:
    arm = found.arm
    group, reference = arm.group_name(g), arm.group_name(arm.reference)
    difference = story.find("difference", model, label, group, reference)
    return (
        arm.groups[g],
        _cell(story.find("mean_probability", model, label, group)),
        _cell(difference),
        None if difference is None else difference.p_value,
        None if difference is None else difference.significant,
        _value(story.find("flip_rate", model, label, group, reference)),
        _value(story.find("flip_rate", model, label, group, arm.as_written)),
    )


def _observed_rows(story: Story, found: ArmAnalysis, label: str) -> list[tuple[Any, ...]]:
    first = () if story.single else (label,)
    rows: list[tuple[Any, ...]] = []
    for g, group in enumerate(found.arm.groups):
        row = story.find("observed_rate", TRAINING, label, found.arm.group_name(g))
        if row is not None:
            named = f"{group} (n {row.n:,})"
            rows.append((*first, TRAINING, named, _cell(row), (None, None, None), None, None, None, None))
    return rows


def _curves(story: Story, found: ArmAnalysis) -> Chart:
    arm = found.arm
    ages = arm.ages or ()
    shown = list(story.labels[:_MOST_CURVES])
    data = []
    for label in shown:
        for g, age in enumerate(ages):
            rows = [story.find("mean_probability", model, label, arm.group_name(g)) for model in story.models]
            observed = story.find("observed_rate", TRAINING, label, arm.group_name(g))
            rows += [observed] if observed is not None and observed.n >= _FEWEST_DRAWN else []
            data += [
                {"age": age, "value": row.value, "low": row.low, "high": row.high, "n": row.n, "model": row.model,
                 "label": label}
                for row in rows
                if row is not None and row.value is not None
            ]  # fmt: skip
    several = len(story.labels) > len(shown)
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


def _rough_table(story: Story, found: ArmAnalysis) -> list[Table]:
    if found.run is None:
        return []
    rows = []
    for model in story.models:
        steps = sharpest_step(found.measures[model].mean_probability.value, found.run)
        for j, label in enumerate(story.labels):
            rough, jump = (story.find(metric, model, label, "age") for metric in ("roughness", "age_jump"))
            groups = found.arm.groups
            pair = f"{groups[steps[j].group]} to {groups[steps[j].next_group]}"
            why = (rough.reason if rough else None) or ""
            rows.append((model, label, _cell(rough), _cell(jump), pair, steps[j].change, why))
    return [
        Table(
            title="How rough the age curves are",
            caption="Roughness: the share of the curve's variance that is noise between neighbouring ages: 0 for a "
            "straight line, 1 for white noise, more where neighbours alternate. Jump: the noise's standard deviation.",
            columns=(
                Column(name="Model"),
                Column(name="Label"),
                Column(name="Roughness", kind="interval"),
                Column(name="Jump", kind="interval"),
                Column(name="Sharpest step"),
                Column(name="Change there", kind="number"),
                Column(name="Why not computed"),
            ),
            rows=tuple(rows),
            collapsed=len(rows) > 20,
        )
    ]


def _flips(story: Story) -> Table:
    """For each model and characteristic, the group and label for which most decisions flip."""
    rows = []
    for found in story.arms:
        reference = found.arm.group_name(found.arm.reference)
        for model in story.models:
            made = [
                row
                for g in range(len(found.arm.groups))
                for label in story.labels
                if (row := story.find("flip_rate", model, label, found.arm.group_name(g), reference)) is not None
                and row.value is not None
            ]
            if not made:
                continue
            worst = max(made, key=lambda row: row.value or 0.0)
            mean = sum(row.value or 0.0 for row in made) / len(made)
            member = story.families.get(model, [model])[0]
            where = (worst.group.partition("=")[2], worst.label)
            rows.append((model, found.arm.name, mean, *where, _cell(worst), story.threshold_origin[member]))
    return Table(
        title="Decisions that flip",
        caption="Share of notes whose decision differs from that of the reference group: on average over groups and "
        "labels, and where it is highest.",
        columns=(
            Column(name="Model"),
            Column(name="Characteristic"),
            Column(name="On average", kind="percent"),
            Column(name="Highest for group"),
            Column(name="Label"),
            Column(name="Flipped there", kind="interval"),
            Column(name="Threshold"),
        ),
        rows=tuple(rows),
    )


def _amplification(story: Story) -> Table:
    labels: Sequence[str] = story.labels if story.single else (ALL_LABELS, *story.labels)
    rows = [
        (model, found.arm.name, label, _cell(row), row.n, row.reason or "")
        for found in story.arms
        for label in labels
        for model in story.models
        if (row := story.find("amplification", model, label, found.arm.name)) is not None
    ]
    origins = "; ".join(
        f"{found.arm.name}: {groups.reason or groups.origin}"
        for found, groups in zip(story.arms, story.observed, strict=True)
    )
    return Table(
        title="Does the model amplify the training data?",
        caption="Slope of the model's deviations on the observed ones: 1 = as far apart as in the training data, below "
        "1 = muted, above 1 = amplified, below 0 = turned round. Groups in the training data differ in more than the "
        f"mention, so 1 is no ideal. Groups by ({origins}).",
        columns=(
            Column(name="Model"),
            Column(name="Characteristic"),
            Column(name="Label"),
            Column(name="Amplification", kind="interval"),
            Column(name="Training cases", kind="integer"),
            Column(name="Why not computed"),
        ),
        rows=tuple(rows),
        collapsed=len(rows) > 20,
    )


def _actions(story: Story) -> Table:
    rows: list[tuple[Any, ...]] = []
    for found in story.arms:
        arm = found.arm
        n_skipped = arm.n_notes - len(arm.rows)
        for g, group in enumerate(arm.groups):
            why = "; ".join(f"{reason} ({int(n[g]):,})" for reason, n in sorted(arm.reasons.items()) if n[g])
            rows.append((arm.name, group, *(int(n) for n in arm.actions[g]), n_skipped, why))
    return Table(
        title="What was done to the notes",
        caption="A note that can't be altered to one group is left out of all groups of its characteristic, so that "
        "all groups hold the same patients. The reasons are those given for the group.",
        columns=(
            Column(name="Characteristic"),
            Column(name="Group"),
            *(Column(name=action.capitalize(), kind="integer") for action in ACTIONS),
            Column(name="Left out", kind="integer"),
            Column(name="Reasons"),
        ),
        rows=tuple(rows),
        collapsed=len(rows) > 20,
    )


def _seen(story: Story, model: str, found: ArmAnalysis) -> tuple[int, int]:
    """Altered notes, and those outside the window; of several checkpoints the sum."""
    each = [found.seen[name] for name in story.families.get(model, [model])]
    return sum(seen.n_altered for seen in each), sum(seen.n_outside for seen in each)


def _windows(story: Story) -> Table:
    rows = [
        (model, found.arm.name, *_seen(story, model, found), story.outside(model, found))
        for found in story.arms
        for model in story.models
    ]
    return Table(
        title="Edits that a model never saw",
        caption="Altered notes all of whose edits lie behind the text that the model reads. "
        "They count as no change, because for the model there is none.",
        columns=(
            Column(name="Model"),
            Column(name="Characteristic"),
            Column(name="Altered notes", kind="integer"),
            Column(name="Outside the window", kind="integer"),
            Column(name="Share", kind="percent"),
        ),
        rows=tuple(rows),
    )


def _shifts(story: Story) -> Table:
    rows = tuple(
        (shift.model, shift.case_id, shift.group, shift.label, shift.before, shift.after,
         shift.after - shift.before)
        for shift in story.shifts
    )  # fmt: skip
    return Table(
        title="Largest single shifts",
        caption="Notes whose prediction moves furthest from that of the note as written; the furthest group and label "
        "of each note.",
        columns=(
            Column(name="Model"),
            Column(name="Case"),
            Column(name="Altered to"),
            Column(name="Label"),
            Column(name="Before", kind="number"),
            Column(name="After", kind="number"),
            Column(name="Shift", kind="number"),
        ),
        rows=rows,
        collapsed=len(rows) > 20,
    )
