"""The robustness audit's tables and charts, made from its estimates."""

from __future__ import annotations

from typing import Any

from palpate.audits.kit.altered import shifts_table, windows_table
from palpate.audits.kit.tables import (
    DIFFERENCE,
    columns,
    difference_cells,
    forest,
    interval_cell,
    point,
    table,
)
from palpate.audits.robustness.answers import QUESTIONS, RobustnessAnalysis
from palpate.audits.robustness.estimates import ABSOLUTE, LEVEL, flips_of
from palpate.audits.robustness.estimates import DIFFERENCE as DIFFERENCES
from palpate.audits.robustness.measures import PerturbedMeasures
from palpate.results import Axis, Chart, Estimate, Examples, Table

_MOST_REASONS = 3
_LOWEST_TOP = 0.05
"""How high the axis of flips is at least: below that, its percents would repeat."""


def robustness_blocks(analysis: RobustnessAnalysis, examples: Examples | None) -> tuple[Table | Chart | Examples, ...]:
    """The section's tables and charts."""
    blocks: list[Table | Chart | Examples] = []
    for question in analysis.questions:
        drawn = [found for found in analysis.asking(question) if found.models]
        if drawn:
            blocks.append(_changes(analysis, question, drawn))
    blocks += [_flips(analysis), *_doses(analysis), _numbers(analysis), _notes(analysis), _windows(analysis)]
    blocks += [_seeds(analysis)] if analysis.ensembles else []
    furthest = "Notes whose prediction moves furthest, for each perturbation."
    blocks += [shifts_table(analysis, "Written", furthest)] if analysis.shifts else []
    blocks += [examples] if examples is not None else []
    return tuple(blocks)


def _label_of(analysis: RobustnessAnalysis, found: PerturbedMeasures) -> str:
    """The label that a perturbation moves most, for any model."""
    rows = [row for model in analysis.models for row in analysis.compared(DIFFERENCES, model, found)]
    return max(rows, key=lambda row: abs(row.value or 0.0)).label if rows else analysis.labels[0]


def _changes(analysis: RobustnessAnalysis, question: str, arms: list[PerturbedMeasures]) -> Chart:
    data: list[dict[str, Any]] = []
    for found in arms:
        label = _label_of(analysis, found)
        for group, name in zip(found.arm.groups, found.arm.group_names, strict=True):
            words = _words(found, group) if analysis.single else f"{_words(found, group)} ({label})"
            for model in analysis.models:
                where = {"label": label, "group": name, "reference": found.arm.as_written}
                data += point(analysis.estimates.find(DIFFERENCES, model, **where), group=words)
    most = "" if analysis.single else " Each with the label that it moves most."
    return forest(
        f"{QUESTIONS[question]} Change of the mean probability",
        f"The notes written differently, less the same notes as they were written, with {analysis.level:.0%} intervals "
        f"that hold for {analysis.family} at once.{most}",
        "Paired differences of the mean predicted probability for each way of writing the notes.",
        x=Axis(field="value", title="Change of the mean probability"),
        y=Axis(field="group", title="Written"),
        reference=0.0,
        data=data,
    )


def _words(found: PerturbedMeasures, group: str) -> str:
    name = found.arm.name.replace("_", " ")
    return f"{name}, {group}" if len(found.arm.groups) > 1 else name


def _doses(analysis: RobustnessAnalysis) -> list[Chart]:
    """Flips against the dose, for perturbations that have doses."""
    data: list[dict[str, Any]] = []
    for found in analysis.measured:
        if found.arm.perturbation.slips is None or not found.models or len(analysis.doses) < 2:
            continue
        label = _label_of(analysis, found)
        for dose, name in zip(analysis.doses, found.arm.group_names, strict=True):
            for model in analysis.models:
                where = {"label": label, "group": name, "reference": found.arm.as_written}
                row = analysis.estimates.find(flips_of(found), model, **where)
                if row is not None and row.value is not None:
                    ends = {"low": row.low, "high": row.high}
                    data.append({"x": dose, "y": row.value, "model": model, "errors": found.arm.name, **ends})
    if not data:
        return []
    highest = max(max(each["y"], each["high"] or 0.0) for each in data)
    chart = Chart(
        kind="line",
        title="Decisions that flip, by dose",
        caption="Share of decisions that change when so many of the words are misspelt; the words of a dose are among "
        "those of the higher ones.",
        description="Share of flipped decisions against the share of misspelt words.",
        x=Axis(field="x", title="Misspelt words", percent=True),
        y=Axis(field="y", title="Decisions that flip", percent=True, low=0.0, high=max(highest, _LOWEST_TOP)),
        series="model",
        facet="errors",
        data=tuple(data),
    )
    return [chart]


def _flips(analysis: RobustnessAnalysis) -> Table:
    """For each model and perturbation, the group and label for which most decisions flip."""
    rows = []
    for found in analysis.measured:
        for model in analysis.models:
            worst, origin = analysis.worst_flips(analysis.compared(flips_of(found), model, found), model)
            if worst is None:
                continue
            expected = found.arm.perturbation.expects
            where = (worst.group.partition("=")[2], worst.label)
            rows.append((found.arm.name, expected, model, *where, interval_cell(worst), worst.n, origin))
    return table(
        "Decisions that flip",
        "Share of notes whose decision changes, where it is highest. Where a denial is added or removed, only changes "
        f"against the expected direction count. Intervals hold for {analysis.family} at once.",
        columns(
            "Perturbation",
            "Expected",
            "Model",
            "Highest for",
            "Label",
            ("Flipped there", "interval"),
            ("Notes", "integer"),
            "Threshold",
        ),
        rows,
        collapsed=False,
    )


def _numbers(analysis: RobustnessAnalysis) -> Table:
    """Every model, label and group."""
    rows: list[tuple[Any, ...]] = []
    for found in (each for each in analysis.measured if each.models):
        for label in analysis.labels:
            first = () if analysis.single else (label,)
            for model in analysis.models:
                for g in range(len(found.arm.groups)):
                    rows.append((*first, *_cells(analysis, found, model, label, g)))
    headings = () if analysis.single else ("Label",)
    return table(
        "Every way of writing",
        "Mean change of the probability, up or down (difference) and whichever way it goes (absolute change), and "
        f"decisions that flip. Differences are corrected over {analysis.family} ({analysis.correction}).",
        columns(
            *headings,
            "Perturbation",
            "Model",
            "Written",
            ("Mean probability", "interval"),
            ("Absolute change", "interval"),
            ("Flipped", "percent"),
            *DIFFERENCE,
        ),
        rows,
    )


def _cells(analysis: RobustnessAnalysis, found: PerturbedMeasures, model: str, label: str, g: int) -> tuple[Any, ...]:
    arm = found.arm
    group = arm.group_names[g]

    def find(metric: str, reference: str | None = arm.as_written) -> Estimate | None:
        return analysis.estimates.find(metric, model, label=label, group=group, reference=reference)

    flips = find(flips_of(found))
    return (
        arm.name,
        model,
        arm.groups[g],
        interval_cell(find(LEVEL, None)),
        interval_cell(find(ABSOLUTE)),
        None if flips is None else flips.value,
        *difference_cells(find(DIFFERENCES)),
    )


def _notes(analysis: RobustnessAnalysis) -> Table:
    rows: list[tuple[Any, ...]] = []
    for found in analysis.measured:
        arm = found.arm
        listed = list(arm.reasons.items())
        why = "; ".join(f"{reason} ({n:,})" for reason, n in listed[:_MOST_REASONS])
        rest = sum(n for _, n in listed[_MOST_REASONS:])
        why += f"; other ({rest:,})" if rest else ""
        question = QUESTIONS[arm.perturbation.question]
        tolerance = analysis.tolerance(found)
        counts = (len(arm.rows), found.n_units, arm.n_notes - len(arm.rows))
        rows.append((arm.name, question, arm.perturbation.expects, tolerance, *counts, why))
    return table(
        "What was done to the notes",
        "A note that allows a perturbation is in all of its groups; one that does not is in none. Expected: the same "
        "prediction (INV), or one that may go one way only (DIR).",
        columns(
            "Perturbation",
            "Question",
            "Expected",
            ("Tolerance", "number"),
            ("Notes", "integer"),
            ("Patients", "integer"),
            ("Left out", "integer"),
            "Reasons",
        ),
        rows,
        collapsed=False,
    )


def _windows(analysis: RobustnessAnalysis) -> Table:
    windows = [
        (model, found.arm.name, window)
        for found in analysis.measured
        for model in analysis.models
        if (window := analysis.window(model, found)).n_outside
    ]
    caption = (
        "Notes in which every edit lies beyond the text that the model reads; perturbations that a model saw in every "
        "note are not listed."
    )
    return windows_table(windows, "Perturbation", "Perturbed notes", caption)


def _seeds(analysis: RobustnessAnalysis) -> Table:
    """For each ensemble and perturbation, the spread over seeds of its largest difference and flips."""
    rows: list[tuple[Any, ...]] = []
    for name, members in analysis.ensembles.items():
        for found in analysis.measured:
            for metric in (DIFFERENCES, flips_of(found)):
                known = [row for row in analysis.compared(metric, name, found) if row.value is not None]
                if not known:
                    continue
                worst = max(known, key=lambda row: abs(row.value or 0.0))
                where = {"label": worst.label, "group": worst.group, "reference": worst.reference}
                sd = analysis.estimates.value(f"{metric}_sd", name, **where)
                rows.append((name, worst.group, worst.label, metric, len(members), worst.value, sd))
    return table(
        "Seeds of one model",
        "Mean and standard deviation over seeds, where the mean is largest.",
        columns("Model", "Group", "Label", "Measure", ("Seeds", "integer"), ("Mean", "number"), ("SD", "number")),
        rows,
    )
