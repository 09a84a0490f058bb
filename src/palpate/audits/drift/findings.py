"""The drift audit's findings: a sentence per question and model, changes that are shown, and what limits them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from palpate.audits.drift.answers import DriftAnalysis, span
from palpate.audits.drift.estimates import CHANGES, TRENDS
from palpate.audits.drift.measures import POPULATION
from palpate.audits.drift.plan import FIRST, LATEST
from palpate.audits.kit.wording import counted, interval, listed, number, p_value, percent, quoted, settled_by
from palpate.results import METRIC_NAMES, Estimate, Finding
from palpate.results.verdicts import Answer

_QUESTION = {"auroc": "worse", "sensitivity": "missed", "calibration_in_the_large": "risks"}
_WORDS = {
    "auroc": "AUROC",
    "sensitivity": "sensitivity",
    "ppv": "PPV",
    "calibration_in_the_large": "observed less predicted risk",
    "flag_rate": "share flagged",
    "prevalence": "prevalence",
    "mean_score": "mean risk",
}


def drift_findings(analysis: DriftAnalysis, answers: Sequence[Answer]) -> tuple[Finding, ...]:
    """The answers in words, then changes at a date, trends, and caveats."""
    return (
        *(
            Finding(
                sentence=_SENTENCES[answer.question](analysis, answer), kind=answer.verdict, question=answer.question
            )
            for answer in answers
        ),
        *_slopes(analysis),
        *_changes(analysis),
        *_trends(analysis),
        *_few(analysis),
        *_caveats(analysis),
    )


def _slopes(analysis: DriftAnalysis) -> Iterator[Finding]:
    """Risks that became too extreme, or too timid, though they may be right on average."""
    for label in analysis.labels:
        for model in analysis.models:
            row = analysis.estimates.find("calibration_slope", model, label=label, group=LATEST, reference=FIRST)
            if row is None or row.value is None or not row.significant:
                continue
            slopes = [
                analysis.estimates.value("calibration_slope", model, label=label, group=g) for g in (FIRST, LATEST)
            ]
            more = "more extreme than the outcomes bear out" if row.value < 0 else "more timid than before"
            of = "" if len(analysis.labels) == 1 else f" for '{label}'"
            yield Finding(
                sentence=f"The risks of {model}{of} have become {more}: calibration slope {number(slopes[0])} to "
                f"{number(slopes[1])} {_compared(analysis)} (change {number(row.value, signed=True)}, "
                f"{interval(row, signed=True)}).",
                kind="caution" if row.value < 0 else "fact",
                question="risks",
            )


def _compared(analysis: DriftAnalysis) -> str:
    return f"in {span(analysis.periods.latest)} against {span(analysis.periods.first)}"


def _size(analysis: DriftAnalysis, answer: Answer) -> str:
    value = number(answer.value, signed=True)
    if answer.low is None or answer.high is None:
        return f"change {value}"
    low, high = (number(end, signed=True) for end in (answer.low, answer.high))
    return f"change {value}, {analysis.level:.0%} interval {low} to {high}"


def _lost(analysis: DriftAnalysis, answer: Answer, metric: str, loses: str) -> str:
    model, when = answer.model, _compared(analysis)
    of = f" for {answer.label}" if answer.label else ""
    margin = f"{abs(answer.margin or 0):g}"
    if answer.value is None:
        return f"Whether {model} {loses}{of} {when} cannot be told: {answer.reason}."
    size = _size(analysis, answer)
    told = {
        "acceptable": f"The {metric} of {model}{of} has not fallen by {margin} or more {when} ({size})",
        "concern": f"{model} {loses}{of} by more than {margin} {when} ({size})",
        "caution": f"{model} {loses}{of} {when}; whether by more than {margin} is open ({size})",
        "unsettled": f"Whether {model} {loses}{of} by more than {margin} {when} cannot be told ({size})"
        + settled_by(answer),
    }
    return f"{told[answer.verdict]}."


def _worse(analysis: DriftAnalysis, answer: Answer) -> str:
    return _lost(analysis, answer, "AUROC", "separates patients worse")


def _missed(analysis: DriftAnalysis, answer: Answer) -> str:
    return _lost(analysis, answer, "sensitivity", "misses more of those with the outcome")


def _risks(analysis: DriftAnalysis, answer: Answer) -> str:
    model, when = answer.model, _compared(analysis)
    of = f" for {answer.label}" if answer.label else ""
    margin = f"{abs(answer.margin or 0):g}"
    if answer.value is None:
        return f"Whether the risks of {model}{of} have drifted {when} cannot be told: {answer.reason}."
    size, side = _size(analysis, answer), "lower" if answer.value > 0 else "higher"
    drifted = f"Against what is observed, the risks of {model}{of} have become {side}"
    told = {
        "acceptable": f"The mean risk of {model}{of} has drifted by less than {margin} {when} ({size})",
        "concern": f"{drifted}, by more than {margin}, {when} ({size})",
        "caution": f"{drifted} {when}; whether by more than {margin} is open ({size})",
        "unsettled": f"Whether the risks of {model}{of} have drifted by more than {margin} {when} cannot be told "
        f"({size}){settled_by(answer)}",
    }
    return f"{told[answer.verdict]}."


_SENTENCES = {"worse": _worse, "missed": _missed, "risks": _risks}


def change_rows(analysis: DriftAnalysis) -> list[tuple[str, Estimate]]:
    """(metric, row) of every test for a change; of what does not depend on the model, the first model's only."""
    names = {change: metric for metric, change in CHANGES.items()}
    rows = [(names[row.metric], row) for row in analysis.estimates if row.metric in names]
    return [(metric, row) for metric, row in rows if metric != "prevalence" or row.model == analysis.models[0]]


def _changes(analysis: DriftAnalysis) -> Iterator[Finding]:
    """The dates at which something changed; corrected over all dates, metrics, models and labels."""
    tested = change_rows(analysis)
    shown = [(metric, row) for metric, row in tested if row.significant]
    for metric, row in shown:
        of = "" if len(analysis.labels) == 1 else f" for '{row.label}'"
        whose = "The prevalence" if metric == "prevalence" else f"The {_WORDS[metric]} of {row.model}"
        yield Finding(
            sentence=f"{whose}{of} has changed, by most from {row.group} on: {number(row.value, signed=True)} against "
            f"before ({interval(row, signed=True)}{p_value(row)} over all dates).",
            kind="caution" if _harmful(metric, row) else "fact",
            question=_QUESTION.get(metric),
        )
    known = [row for _, row in tested if row.p_value is not None]
    if known and not shown:
        yield Finding(
            sentence=f"No change at any date is shown, of {counted(len(known), 'number')} that were tested over "
            f"{len(analysis.periods.names)} periods; a small or recent one would not be seen."
        )
    moved = [metric for metric, row in shown if metric in POPULATION]
    if moved and not any(metric in _QUESTION for metric, _ in shown):
        yield Finding(
            sentence="The patients have changed, and no change of how the model does on them is shown.",
        )


def _harmful(metric: str, row: Estimate) -> bool:
    """A fall of the AUROC or of the sensitivity, and risks that drift either way."""
    return metric in _QUESTION and (metric == "calibration_in_the_large" or (row.value or 0.0) < 0)


def _trends(analysis: DriftAnalysis) -> Iterator[Finding]:
    names = {trend: metric for metric, trend in TRENDS.items()}
    for row in analysis.estimates:
        if row.metric in names and row.significant and names[row.metric] in _QUESTION:
            of = "" if len(analysis.labels) == 1 else f" for '{row.label}'"
            metric = names[row.metric]
            yield Finding(
                sentence=f"The {_WORDS[metric]} of {row.model}{of} has a trend of {number(row.value, signed=True)} a "
                f"year ({interval(row, signed=True)}{p_value(row)}).",
                question=_QUESTION[metric],
            )


def _few(analysis: DriftAnalysis) -> Iterator[Finding]:
    """Periods that are too small, and for which labels, where not for all."""
    labels: dict[str, list[str]] = {}
    for label, period in analysis.few:
        if period in analysis.periods.names:
            labels.setdefault(period, []).append(label)
    for own in dict.fromkeys(tuple(each) for each in labels.values()):
        names = [period for period, each in labels.items() if tuple(each) == own]
        of = "" if len(own) == len(analysis.labels) else f" for {quoted(own)}"
        yield Finding(
            sentence=f"{counted(len(names), 'period has', 'periods have')} too few patients or events{of} to say "
            f"anything about: {quoted(names)}. Longer periods would (`every`).",
            kind="caveat",
            question="worse",
        )


def _caveats(analysis: DriftAnalysis) -> Iterator[Finding]:
    if analysis.n_untimed:
        total = analysis.n_untimed + sum(1 for _ in analysis.periods.code)
        yield Finding(
            sentence=f"{counted(analysis.n_untimed, 'case')} ({percent(analysis.n_untimed / total)}) without a time "
            f"{'is' if analysis.n_untimed == 1 else 'are'} left out.",
            kind="caveat",
            question="worse",
        )
    models = analysis.thresholds.optimistic_among(analysis.models, analysis.ensembles)
    if models:
        yield Finding(
            sentence=f"The threshold of {listed(models)} was chosen on the audited cases of all periods together: give "
            "a validation split or the threshold that is used.",
            kind="caveat",
            question="missed",
        )
    if analysis.left_out:
        yield Finding(
            sentence=f"{len(analysis.left_out):,} of {len(analysis.left_out) + len(analysis.labels):,} labels, the "
            "less frequent ones, are not audited over time (`most_common`).",
            kind="caveat",
            question="worse",
        )


def metric_name(metric: str) -> str:
    """Of a level, a change or a trend."""
    for names in (CHANGES, TRENDS):
        for plain, other in names.items():
            if metric == other:
                return METRIC_NAMES[plain]
    return METRIC_NAMES[metric]
