"""The scorecard, first on the first screen: questions down the side, models across, a verdict in each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from palpate.report import typeset
from palpate.report.choice import choose, tally
from palpate.report.findings import SUMMARY_KINDS, anchor, group_findings
from palpate.report.headline import Measured, audited, measure
from palpate.results import AuditResult
from palpate.results.verdicts import MEANINGS, VERDICTS, Answer, scorecard_rows

WORDS: Mapping[str, str] = {verdict: verdict.capitalize() for verdict in VERDICTS}
METRICS_IN_WORDS: Mapping[str, str] = {
    "auroc": "AUROC",
    "constant_labels": "labels with one outcome only",
    "calibration": "calibration error",
    "calibration_in_the_large": "observed less predicted risk",
    "alerts_per_100": "alerts per 100",
    "ppv": "PPV",
    "npv": "NPV",
    "lead_time_hours": "median lead time in hours",
    "agreement": "agreement with clinicians, against their own",
    "shift": "change of the risk",
    "flips": "decisions flipped",
    "evidence_f1": "token F1",
    "faithfulness": "fall of the probability",
    "known_notes": "notes seen before",
    "known_patients": "patients seen before",
    "known_cases": "cases of patients seen before",
}
"""What the number in a cell is, by the name of its margin; other names are words already."""
_MOST_MODELS = 12
_NEAR = 0.1
"""As a share of the interval's width."""


class AnswerView(NamedTuple):
    """One answer: the verdict as a word, the number with its interval, and what decides."""

    verdict: str
    word: str
    number: str
    margin: str
    details: tuple[str, ...]


class QuestionView(NamedTuple):
    """One row: the question, where it is answered in words, and one cell per model (None: not asked)."""

    audit: str
    asks: str
    anchor: str
    cells: tuple[AnswerView | None, ...]


class ModelHead(NamedTuple):
    """The head of a column: the model, its main metric where that was measured, and how many verdicts of each kind."""

    name: str
    metric: str
    number: str
    tally: str


class ScorecardView(NamedTuple):
    """The whole table."""

    choice: str
    """How the models compare, in words; empty for a single one."""
    models: tuple[str, ...]
    heads: tuple[ModelHead, ...]
    questions: tuple[QuestionView, ...]
    legend: tuple[tuple[str, str, str], ...]
    """Verdict, its word, and what it means: of the verdicts that are there."""


def view_scorecard(results: Sequence[AuditResult], manifest: Mapping[str, Any]) -> ScorecardView | None:
    """The scorecard of a run; None where no audit answers a question."""
    rows = scorecard_rows({result.audit: result.answers for result in results})
    if not rows:
        return None
    named = {model for row in rows for model in row.answers}
    models = [name for name in audited(manifest) if name in named] or sorted(named)
    models = models[:_MOST_MODELS]
    told = {(g.audit, g.question): g.here for result in results for g in group_findings(result, SUMMARY_KINDS)}
    questions = tuple(
        QuestionView(
            row.audit,
            row.asks,
            told.get((row.audit, row.question), anchor("audit", row.audit, row.question)),
            tuple(_cell(row.answers[name]) if name in row.answers else None for name in models),
        )
        for row in rows
    )
    there = {cell.verdict for question in questions for cell in question.cells if cell is not None}
    legend = tuple((name, WORDS[name], MEANINGS[name]) for name in VERDICTS if name in there)
    measured = measure(results, manifest)
    heads = tuple(_head(name, tally(rows, name), measured) for name in models)
    return ScorecardView(choose(rows, models, measured), tuple(head.name for head in heads), heads, questions, legend)


def _head(model: str, tallied: str, measured: Measured | None) -> ModelHead:
    """With `AUROC in home` and `0.712 (0.690–0.734)`: in the first cohort; empty where it was not measured."""
    row = None if measured is None else measured.level(model)
    metric, number = "", ""
    if measured is not None and row is not None and row["value"] is not None:
        metric = f"{'mean ' if measured.is_mean else ''}AUROC{measured.where}"
        number = typeset.interval(row["value"], row["low"], row["high"])
    return ModelHead(typeset.shorten(model, 60), metric, number, tallied)


def _cell(answer: Answer) -> AnswerView:
    return AnswerView(answer.verdict, WORDS[answer.verdict], number_of(answer), margin_of(answer), details_of(answer))


def number_of(answer: Answer) -> str:
    """The key number with its interval; a count of all cases has none."""
    if answer.value is None:
        return ""
    if answer.low == answer.value == answer.high:
        return typeset.interval(answer.value, None, None, as_percent=answer.percent)
    return typeset.interval(answer.value, answer.low, answer.high, as_percent=answer.percent)


def margin_of(answer: Answer) -> str:
    """What the number is, and the margin that it is held against."""
    if answer.margin is None:
        return ""
    points = f"{100 * answer.margin:g}"
    shown = f"{points} {'point' if points in ('1', '-1') else 'points'}" if answer.percent else f"{answer.margin:g}"
    shown = f"{points}%" if answer.percent and answer.required else shown
    of = METRICS_IN_WORDS.get(answer.metric, answer.metric.replace("_", " "))
    of = f"difference of {of}" if answer.metric == "auroc" and not answer.required else of
    return f"{of}, {'required' if answer.required else 'margin'} {shown}".replace("-", typeset.MINUS)


def details_of(answer: Answer) -> tuple[str, ...]:
    """What decides of all that is judged, how much of it is unsettled, and what would settle it."""
    told = []
    if answer.label is not None and answer.n_labels > 1 and answer.value:
        told.append(f"worst of {answer.n_labels}: {typeset.shorten(answer.label, 120)}")
    if answer.n_unsettled and answer.n_labels > 1:
        told.append(f"{answer.n_unsettled} of {answer.n_labels} unsettled")
    told.append(answer.reason or _settling(answer))
    return tuple(filter(None, told))


def _settling(answer: Answer) -> str:
    """What it would take to settle an open answer; why that is not known for one that is unsettled."""
    if answer.verdict not in ("unsettled", "caution"):
        return ""
    if answer.needed is not None:
        where = "" if answer.where is None else f" in {typeset.shorten(answer.where, 60)}"
        return f"about {typeset.integer(answer.needed)} patients{where} would settle it"
    if _on_margin(answer):
        return "no number of patients would settle it: the estimate lies on the margin"
    return "how many patients would settle it is not known" if answer.verdict == "unsettled" else ""


def _on_margin(answer: Answer) -> bool:
    """Whether the estimate is so near to the margin that a far narrower interval would still contain both."""
    if answer.value is None or answer.low is None or answer.high is None or answer.margin is None:
        return False
    return abs(answer.value - answer.margin) <= _NEAR * (answer.high - answer.low)
