"""The scorecard, first on the first screen: questions down the side, models across, a verdict in each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from palpate.report import typeset
from palpate.report.headline import audited
from palpate.results import AuditResult
from palpate.results.verdicts import MEANINGS, VERDICTS, Answer

WORDS: Mapping[str, str] = {verdict: verdict.capitalize() for verdict in VERDICTS}
METRICS_IN_WORDS: Mapping[str, str] = {
    "auroc": "AUROC",
    "constant_labels": "labels with one outcome only",
    "calibration": "calibration error",
    "agreement": "less than the clinicians' own agreement",
    "shift": "change of the risk",
    "flips": "decisions flipped",
    "evidence_f1": "token F1",
    "faithfulness": "fall of the probability",
    "known_notes": "notes seen before",
    "known_patients": "patients seen before",
}
"""What the number in a cell is, by the name of its margin; other names are words already."""
_MOST_MODELS = 12


class AnswerView(NamedTuple):
    """One answer: the verdict as a word, the number with its interval, and what decides."""

    verdict: str
    word: str
    number: str
    margin: str
    details: tuple[str, ...]


class QuestionView(NamedTuple):
    """One row: the question, the section that answers it, and one cell per model (None: not asked)."""

    audit: str
    asks: str
    cells: tuple[AnswerView | None, ...]


class ScorecardView(NamedTuple):
    """The whole table."""

    models: tuple[str, ...]
    questions: tuple[QuestionView, ...]
    legend: tuple[tuple[str, str, str], ...]
    """Verdict, its word, and what it means: of the verdicts that are there."""


def view_scorecard(results: Sequence[AuditResult], manifest: Mapping[str, Any]) -> ScorecardView | None:
    """The scorecard of a run; None where no audit answers a question."""
    cells: dict[tuple[str, str], dict[str, Answer]] = {}
    for result in results:
        for answer in result.answers:
            cells.setdefault((result.audit, answer.asks), {})[answer.model] = answer
    if not cells:
        return None
    named = {model for row in cells.values() for model in row}
    models = [name for name in audited(manifest) if name in named] or sorted(named)
    models = models[:_MOST_MODELS]
    questions = tuple(
        QuestionView(audit, asks, tuple(_cell(row[name]) if name in row else None for name in models))
        for (audit, asks), row in sorted(cells.items(), key=lambda item: _rank(item[1]))
    )
    there = {cell.verdict for question in questions for cell in question.cells if cell is not None}
    legend = tuple((name, WORDS[name], MEANINGS[name]) for name in VERDICTS if name in there)
    return ScorecardView(tuple(typeset.shorten(name, 60) for name in models), questions, legend)


def _rank(row: Mapping[str, Answer]) -> int:
    """The worst verdict of a question: the questions that decide come first, the others in the order of the audits."""
    return min(VERDICTS.index(answer.verdict) for answer in row.values())


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
    of = METRICS_IN_WORDS.get(answer.metric, answer.metric.replace("_", " "))
    of = f"difference of {of}" if answer.metric == "auroc" and not answer.required else of
    return f"{of}, {'required' if answer.required else 'margin'} {shown}".replace("-", typeset.MINUS)


def details_of(answer: Answer) -> tuple[str, ...]:
    """Which label decides, what is unsettled, and what would settle it."""
    told = []
    if answer.label is not None and answer.n_labels > 1 and answer.value != 0:
        told.append(f"worst of {answer.n_labels}: {typeset.shorten(answer.label, 60)}")
    if answer.n_unsettled and answer.verdict != "unsettled":
        told.append(f"{typeset.count_of(answer.n_unsettled, answer.unit)} unsettled")
    if answer.reason:
        told.append(typeset.shorten(answer.reason, 200))
    elif answer.verdict in ("unsettled", "caution") and answer.needed is not None:
        where = "" if answer.where is None else f" in {typeset.shorten(answer.where, 60)}"
        told.append(f"about {typeset.integer(answer.needed)} patients{where} would settle it")
    return tuple(told)
