"""The tables and charts about age: curves, the ages that stand out from their neighbours, and roughness."""

from __future__ import annotations

from typing import Any

from palpate.audits.characteristics.answers import CharacteristicsAnalysis
from palpate.audits.characteristics.arm_measures import ArmMeasures
from palpate.audits.characteristics.arms import age_number
from palpate.audits.characteristics.estimates import GAP, REVERSALS, STEPS, TRAINING
from palpate.audits.kit.tables import columns, difference_cells, interval_cell, point, reason_of, table
from palpate.results import Axis, Chart, Table

_MOST_CURVES = 8
_FEWEST_DRAWN = 10
"""Training cases of one age below which its observed rate is not drawn: it would be 0 or 1 by chance."""


def age_blocks(analysis: CharacteristicsAnalysis, found: ArmMeasures) -> list[Table | Chart]:
    """What only age has."""
    blocks: list[Table | Chart] = [_curves(analysis, found)]
    blocks += [_neighbours_table(analysis, found)] if len(found.years) else []
    blocks += [_roughness_table(analysis, found)] if found.run is not None else []
    return blocks


def put_together(found: ArmMeasures) -> str:
    """How a curve is made of notes that differ in the ages that they can have."""
    reference = found.arm.groups[found.arm.reference]
    return (
        f"from the reference age {reference} up and down: each step to the next age is the mean over the notes that "
        "can have both ages, and the steps are added up as in a life table, so that no age has another mix of notes."
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
        caption="Mean probability when nothing but the age in the note is changed, "
        + ("over the same notes; " if found.sets is None else f"{put_together(found)} ")
        + f"'{TRAINING}': observed rate of the training cases of that age (ages with {_FEWEST_DRAWN} or more)."
        + (f" The {len(shown)} most common labels." if several else ""),
        description="Mean predicted probability against the age written in the note, for each model.",
        x=Axis(field="age", title="Age in the note (90 = 90 and over)"),
        y=Axis(field="value", title="Mean probability", percent=True),
        series="model",
        facet="label" if len(shown) > 1 else None,
        data=tuple(data),
    )


def _neighbours_table(analysis: CharacteristicsAnalysis, found: ArmMeasures) -> Table:
    """For each model and label, the age that stands out most from its neighbours."""
    rows: list[tuple[Any, ...]] = []
    for model in analysis.models:
        gaps, flips, steps = (analysis.compared(metric, model, found) for metric in (GAP, REVERSALS, STEPS))
        for label in analysis.labels:
            gap = max((row for row in gaps if row.label == label), key=lambda row: abs(row.value or 0.0))
            flip = max((row for row in flips if row.label == label), key=lambda row: row.value or 0.0)
            step = max((row for row in steps if row.label == label), key=lambda row: row.value or 0.0, default=None)
            where = [row.group.partition("=")[2] for row in (gap, flip)]
            year = (
                "" if step is None else f"{(step.reference or '').partition('=')[2]} to {step.group.partition('=')[2]}"
            )
            cells = (where[0], *difference_cells(gap)[:-1], where[1], interval_cell(flip), year, interval_cell(step))
            rows.append((model, label, *cells))
    rows.sort(key=lambda row: -abs(row[3][0] or 0.0))
    return table(
        "Ages that stand out from their neighbours",
        "Age may change a risk, but no single year should. Gap: the mean probability at an age less the mean of those "
        "at the ages before and after, where it is largest. Reversed: notes whose decision at an age differs from "
        "that at both neighbours, where they are most. Flipped in a year: notes whose decision changes in it, less the "
        f"mean of the years before and after, where that is most. Intervals hold for {analysis.family} at once.",
        columns(
            "Model",
            "Label",
            "Age",
            ("Gap", "interval"),
            ("p, corrected", "p_value"),
            ("Significant", "flag"),
            "Age, decisions",
            ("Reversed", "interval"),
            "Year",
            ("Flipped in it", "interval"),
        ),
        rows,
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
