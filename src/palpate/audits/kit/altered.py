"""Notes altered in several ways: what the findings and blocks of such audits are made of, and what is alike in them.

For audits that compare the same notes, altered and as they were (`paired`): which effect is told with which words, why
a question is open, which edits a model never saw, and which notes moved furthest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from palpate.audits.kit.answers import JudgedEffect
from palpate.audits.kit.paired import WindowCount
from palpate.audits.kit.rows import EstimateIndex
from palpate.audits.kit.shifts import Shift, altered_excerpts, largest_shifts
from palpate.audits.kit.tables import columns, table
from palpate.audits.kit.thresholds import ThresholdRule, Thresholds, decide_thresholds
from palpate.audits.kit.wording import interval, listed, number, percent, quoted
from palpate.results import Estimate, Examples, Finding, Plan, Predictions, Table
from palpate.results.verdicts import Answer, margins_with

MOST_UNSEEN = 0.5
"""Of the edits: if a model did not see more than that, nothing is acceptable."""
Words = Callable[[Estimate], str]
"""What an estimate is about, in words."""


class SeenThroughWindow(Protocol):
    """The measures of one way to alter the notes."""

    @property
    def windows(self) -> Mapping[str, WindowCount]:
        """By scored model."""
        ...


class AlteringAudit(Protocol):
    """The options of an audit that alters notes."""

    @property
    def level(self) -> float:
        """Of the intervals."""
        ...

    @property
    def correction(self) -> str:
        """For many comparisons."""
        ...

    @property
    def margins(self) -> dict[str, float]:
        """Those that differ from the defaults."""
        ...

    @property
    def examples(self) -> int:
        """How many notes that moved furthest are listed."""
        ...

    @property
    def include_text(self) -> bool:
        """Whether note text was asked for."""
        ...


def altered_thresholds(plan: Plan[Any], predictions: Predictions, rule: ThresholdRule) -> Thresholds:
    """Where probabilities become decisions; the plan's memory has `validation`, and `original` as in `of`."""
    memory = plan.memory
    main = memory.original[memory.original >= 0]
    return decide_thresholds(plan, predictions.scored, rule=rule, validation=memory.validation, main=main)


@dataclass(frozen=True, eq=False)
class AlteredAnalysis:
    """What answers, findings and blocks are made from."""

    estimates: EstimateIndex
    models: Sequence[str]
    ensembles: Mapping[str, Sequence[str]]
    labels: Sequence[str]
    left_out: Sequence[str]
    """Labels of the cohort that are not audited."""
    level: float
    correction: str
    threshold_origin: Mapping[str, str]
    """By scored model."""
    shifts: Sequence[Shift]
    margins: Mapping[str, float]
    family: str
    """What intervals hold for, in words."""

    @classmethod
    def of(
        cls,
        audit: AlteringAudit,
        plan: Plan[Any],
        predictions: Predictions,
        rows: Sequence[Estimate],
        threshold_origin: Mapping[str, str],
        **more: Any,
    ) -> Self:
        """From the audit's options, the plan, whose memory has `arms` and `original`, the predictions and estimates."""
        return cls(
            estimates=EstimateIndex(rows, label=plan.labels[0]),
            models=predictions.compared,
            ensembles=predictions.ensembles,
            labels=plan.labels,
            left_out=[label for label in plan.cohort.labels if label not in plan.labels],
            level=audit.level,
            correction=audit.correction,
            threshold_origin=threshold_origin,
            shifts=largest_shifts(plan, predictions, plan.memory.arms, plan.memory.original, audit.examples),
            margins=margins_with(audit.margins),
            **more,
        )

    def excerpts(self, audit: AlteringAudit, plan: Plan[Any]) -> Examples | None:
        """What was altered in the notes that moved furthest, only if note text was asked for."""
        return altered_excerpts(plan, self.shifts) if audit.include_text and self.shifts else None

    @property
    def single(self) -> bool:
        """Whether the task has one label (mortality, readmission)."""
        return len(self.labels) == 1

    def window(self, model: str, found: SeenThroughWindow) -> WindowCount:
        """How many altered notes lie outside a model's window; for an ensemble, over all of its members."""
        each = [found.windows[member] for member in self.ensembles.get(model, [model])]
        return WindowCount(*(sum(counts) for counts in zip(*each, strict=True)))

    def unseen(self, model: str, found: SeenThroughWindow) -> str | None:
        """Why harm could not have been seen, if a model saw too few of the edits."""
        share = self.window(model, found).share or 0.0
        return f"{percent(share)} of the edits lie outside its window" if share > MOST_UNSEEN else None

    def risk(self, label: str) -> str:
        """What is predicted, in a sentence."""
        return "the predicted risk" if self.single else f"the predicted risk of '{label}'"

    def worst_flips(self, flips: Iterable[Estimate], model: str) -> tuple[Estimate | None, str]:
        """The flips where they are most, if there are any, and where the model's threshold comes from."""
        known = [row for row in flips if row.value is not None]
        origin = self.threshold_origin[self.ensembles.get(model, [model])[0]]
        return max(known, key=lambda row: row.value or 0.0, default=None), origin


# --- sentences ----------------------------------------------------------------------------------------------------


def margin_words(judged: JudgedEffect) -> str:
    """`margin of 2%`, `margin of 0.01`."""
    size = judged.question.margin
    return f"margin of {f'{100 * size:g}%' if judged.question.percent else f'{size:g}'}"


def change_words(
    analysis: AlteredAnalysis, row: Estimate, *, flips: bool, how: str = "", with_interval: bool = False
) -> str:
    """What an alteration does to decisions (`flips`) or to the risk; `how` follows the decisions."""
    if flips:
        of = "" if analysis.single else f" about '{row.label}'"
        held = row.reason if row.low is None else f"{row.level:.0%} interval {percent(row.low)} to {percent(row.high)}"
        return f"flips {percent(row.value)} of decisions{of}{how}{f' ({held})' if with_interval else ''}"
    value = row.value or 0.0
    moves = f"{'raises' if value > 0 else 'lowers'} {analysis.risk(row.label)} by {number(abs(value))}"
    held = f" ({interval(row, signed=True)})" if with_interval else ""
    return f"{moves if value else f'does not move {analysis.risk(row.label)}'}{held}"


def effect_words(
    analysis: AlteredAnalysis, worst: JudgedEffect, judged: Sequence[JudgedEffect], alteration: Words, how: Words
) -> str:
    """The effect that decides and, for the same label and groups, the other measure, with their intervals."""
    if worst.row is None:  # never: an effect that is shown has an estimate
        return ""

    def words(each: JudgedEffect, row: Estimate) -> str:
        return change_words(analysis, row, flips=each.question.percent, how=how(row), with_interval=True)

    told = [words(worst, worst.row)]
    for each in judged:
        other = each.row
        if other is None or other.value is None or each.question.metric == worst.question.metric:
            continue
        if (other.label, other.group, other.reference) == (worst.row.label, worst.row.group, worst.row.reference):
            told.append(words(each, other))
    return f"{alteration(worst.row)} {listed(told)}"


def shown_words(answer: Answer, worst: JudgedEffect, effects: str) -> str:
    """The end of the sentence about a concern or a caution."""
    if answer.verdict == "concern":
        return f"{effects}: an effect beyond the {margin_words(worst)} is shown."
    return f"{effects}: whether that is beyond the {margin_words(worst)} is open."


def open_words(answer: Answer, worst: JudgedEffect, seen: Words) -> str:
    """Why a question is open: nothing could be seen, or harm is still possible; `seen` is what was."""
    row = worst.row
    if answer.reason or row is None or worst.effect.high is None:
        return f" ({answer.reason or 'no estimate'})."
    end = worst.effect.sign * (worst.most if worst.most == worst.effect.high else -worst.most)
    most = f"{percent(end)} are" if worst.question.percent else f"{number(end, signed=True)} is"
    needed = "" if answer.needed is None else f" About {answer.needed:,} patients would settle it."
    return f": {seen(row)}, but {most} possible ({margin_words(worst)}).{needed}"


def unseen_findings(
    analysis: AlteredAnalysis, found: SeenThroughWindow, edits: str, question: str, limit: Callable[[str], str | None]
) -> list[Finding]:
    """Edits that a model did not see, where the answer does not say so itself (`limit`, by model)."""
    shares = [(model, analysis.window(model, found).share) for model in analysis.models]
    missed = [
        f"{model} never saw {percent(share)} of {edits}"
        for model, share in shares
        if share and not (limit(model) or "").endswith("window")
    ]
    if not missed:
        return []
    sentence = f"{listed(missed)}: they lie outside the window and change nothing."
    return [Finding(sentence=sentence, kind="caveat", question=question)]


def labels_left_out(analysis: AlteredAnalysis) -> list[Finding]:
    """Labels of the cohort that nothing is said about."""
    names = analysis.left_out
    if not names:
        return []
    n = len(names) + len(analysis.labels)
    sentence = f"{len(names)} of {n} labels were not tested, and the answers say nothing about them: {quoted(names)}."
    return [Finding(sentence=sentence, kind="caveat")]


# --- tables -------------------------------------------------------------------------------------------------------


def windows_table(
    rows: Sequence[tuple[str, str, WindowCount]], what: str, notes: str, caption: str, **more: Any
) -> Table:
    """From model, alteration and count; `what` the alterations are, and what the altered `notes` are called."""
    return table(
        "Edits that a model never saw",
        f"{caption} They count as no change, because for the model there is none.",
        columns("Model", what, (notes, "integer"), ("Outside the window", "integer"), ("Share", "percent")),
        [(model, name, *window, window.share) for model, name, window in rows],
        **more,
    )


def shifts_table(analysis: AlteredAnalysis, altered: str, caption: str) -> Table:
    """The notes that moved furthest."""
    rows = [
        (each.model, each.case_id, each.group, each.label, each.before, each.after, each.after - each.before)
        for each in analysis.shifts
    ]
    return table(
        "Largest single shifts",
        caption,
        columns("Model", "Case", altered, "Label", ("Before", "number"), ("After", "number"), ("Shift", "number")),
        rows,
    )
