"""Which of the models, and why: how they compare, in words made from their verdicts alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from palpate.report import typeset
from palpate.report.headline import Measured
from palpate.results.verdicts import VERDICTS, Answer, ScorecardRow

HARMS: Mapping[str, str] = {
    "data.leakage": "audited patients are not new to it",
    "data.labels": "audited cases lack an outcome",
    "performance.separation": "it does not separate patients as required",
    "performance.calibration": "its risks are wrong",
    "performance.travel": "it loses AUROC in another cohort",
    "performance.comparison": "its AUROC is lower than another model's",
    "vocabulary.agreement": "it does not weigh words as clinicians do",
    "vocabulary.spurious": "it hangs on the word '{}', which no clinician would use",
    "evidence.pointing": "it does not point where coders point",
    "evidence.faithfulness": "its answers do not rest on the words it points at",
    "context.held_equal": "it loses AUROC when the history is held equal",
    "context.high_risk": "it is worse for patients at high risk",
}
"""What a concern means, by audit and question, with a place for what decides; other questions are quoted."""
PATTERNS: Mapping[str, str] = {
    r"Does (the .+|a .+) change the answer\?": r"\1 changes its answer",
    r"Do (the .+) change the answer\?": r"\1 change its answer",
    r"Does it handle (.+)\?": r"it handles \1 worse than held-out cases",
}
"""The same for questions that an audit makes by a pattern."""
_MOST_HARMS = 3
_MOST_MODELS = 4
_NAMED_MODELS = 2
"""With more models, what decides is left to the table: the sentence would be too long to read."""
_PLURALS = {"concern": "concerns", "caution": "cautions"}


def counts(rows: Iterable[ScorecardRow], model: str) -> dict[str, int]:
    """How many answers of a model have each verdict, the worst first; verdicts that it has not are left out."""
    found = [row.answers[model].verdict for row in rows if model in row.answers]
    return {verdict: found.count(verdict) for verdict in VERDICTS if verdict in found}


def tally(rows: Iterable[ScorecardRow], model: str) -> str:
    """`2 concerns, 1 caution, 3 unsettled, 4 acceptable`."""
    return ", ".join(_counted(n, verdict) for verdict, n in counts(rows, model).items())


def _counted(n: int, verdict: str) -> str:
    return f"{n} {verdict if n == 1 else _PLURALS.get(verdict, verdict)}"


def choose(rows: Sequence[ScorecardRow], models: Sequence[str], measured: Measured | None) -> str:
    """What sets the models apart: the concerns of each, what is open, and whether their main metric differs."""
    if len(models) < 2:
        return ""
    if len(models) > _MOST_MODELS:
        free = [name for name in models if "concern" not in counts(rows, name)]
        shown = f": {_names(free)}" if free else ""
        verdicts = f"{len(free)} of {len(models)} models {'has' if len(free) == 1 else 'have'} no concern{shown}"
    else:
        verdicts = "; ".join(_standing(rows, name, named=len(models) == _NAMED_MODELS) for name in models)
    return " ".join(part for part in (f"{verdicts}.", _metrics(models, measured)) if part)


def _names(names: Sequence[str]) -> str:
    shown = [typeset.shorten(name, 60) for name in names[:_MOST_MODELS]]
    more = len(names) - len(shown)
    return typeset.listing([*shown, f"{more} more"] if more else shown)


def _standing(rows: Sequence[ScorecardRow], model: str, *, named: bool) -> str:
    """`a has no concern (4 cautions, 1 unsettled)`, or `b has 2 concerns (1 caution): it ..., and it ...`."""
    found = counts(rows, model)
    n = found.get("concern", 0)
    others = [_counted(found[verdict], verdict) for verdict in ("caution", "unsettled") if verdict in found]
    standing = f"{typeset.shorten(model, 60)} has {_counted(n, 'concern') if n else 'no concern'}"
    standing += f" ({', '.join(others)})" if others else ""
    harms = [
        harm_of(row.audit, row.answers[model], named=named)
        for row in rows
        if model in row.answers and row.answers[model].verdict == "concern"
    ]
    told = [*harms[:_MOST_HARMS], *([f"{n - _MOST_HARMS} more"] if n > _MOST_HARMS else [])]
    return f"{standing}: {', and '.join([', '.join(told[:-1]), told[-1]] if told[1:] else told)}" if told else standing


def harm_of(audit: str, answer: Answer, *, named: bool = True) -> str:
    """What a concern means, in words; where several things were judged, with the one that decides, if `named`."""
    matches = ((re.fullmatch(pattern, answer.asks), words) for pattern, words in PATTERNS.items())
    made = next((found.expand(words) for found, words in matches if found), f"“{answer.asks}”")
    words = HARMS.get(f"{audit}.{answer.question}", made)
    label = typeset.shorten(answer.label, 80) if named else ""
    if words == HARMS["vocabulary.spurious"]:
        return words.format(label) if label else "it hangs on a word that no clinician would use"
    return f"{words} (worst: {label})" if label and answer.n_labels > 1 else words


def _metrics(models: Sequence[str], measured: Measured | None) -> str:
    """Whether the main metric tells the models apart, by the tests between them in the first cohort."""
    levels = [] if measured is None else [row for name in models if (row := measured.level(name)) is not None]
    values = [row["value"] for row in levels if row["value"] is not None]
    if measured is None or len(values) < len(models):
        return ""
    pairs = [
        row
        for row in measured.pairs
        if row["group"] == measured.groups[0] and row["model"] in models and row["reference"] in models
    ]
    what = f"{'mean ' if measured.is_mean else ''}AUROCs{measured.where}"
    numbers = typeset.listing([typeset.number(value) for value in values])
    apart = [row for row in pairs if row["significant"]]
    if apart:
        shown = [_above(row) for row in apart[:_MOST_HARMS]]
        more = [f"{len(apart) - len(shown)} more pairs differ"] if len(apart) > len(shown) else []
        return f"Their {what} are {numbers}: {typeset.listing([*shown, *more])}."
    if len(pairs) < len(models) * (len(models) - 1) // 2 or any(row["significant"] is None for row in pairs):
        return f"Their {what} are {numbers}."
    return f"Their {what} cannot be told apart ({numbers})."


def _above(row: Mapping[str, Any]) -> str:
    better, worse = ("model", "reference") if row["value"] > 0 else ("reference", "model")
    return f"that of {typeset.shorten(row[better], 60)} is higher than that of {typeset.shorten(row[worse], 60)}"
