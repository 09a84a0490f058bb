"""What the core set shows about predicted risks, in sentences: too high or low, too extreme or timid, worth acting on.

Facts beside the verdict on calibration: each is told only where its interval leaves no doubt, over all labels at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from palpate.audits.kit.rows import wider_ends
from palpate.audits.kit.wording import interval, number, percent, quoted
from palpate.audits.performance.answers import PerformanceAnalysis, too_few
from palpate.audits.performance.risks import useful_range
from palpate.results import Estimate, Finding

_RIGHT = 1.0
"""The O:E and the calibration slope of right risks."""


def risk_facts(analysis: PerformanceAnalysis, models: Sequence[str]) -> Iterator[Finding]:
    """For each of some models, in the first cohort."""
    for model in models:
        yield from _deviation(analysis, model, "oe_ratio", "O:E", ("too high on average", "too low on average"))
        slope = ("too extreme: high risks are too high and low ones too low", "too timid: too close to the average")
        yield from _deviation(analysis, model, "calibration_slope", "calibration slope", slope)
        yield from _benefit(analysis, model)


def _deviation(
    analysis: PerformanceAnalysis, model: str, metric: str, name: str, said: tuple[str, str]
) -> Iterator[Finding]:
    """Below and above 1, where that is shown."""
    below: list[Estimate] = []
    above: list[Estimate] = []
    for label in analysis.judged:
        row = analysis.estimates.find(metric, model, label=label)
        if row is None or row.low is None or analysis.odd(model, label):
            continue
        low, high = wider_ends(row, analysis.family_of(len(analysis.models)), analysis.level)
        if high < _RIGHT:
            below.append(row)
        elif low > _RIGHT:
            above.append(row)
    for rows, words in zip((below, above), said, strict=True):
        if not rows:
            continue
        furthest = max(rows, key=lambda row: abs((row.value or _RIGHT) - _RIGHT))
        labels = [row.label for row in rows]
        where = "" if len(analysis.labels) == 1 else f" for {quoted(labels)}"
        which = f"for '{furthest.label}' " if len(rows) > 1 else ""
        yield Finding(
            sentence=f"The risks of {model}{where} are {words} "
            f"({name} {which}{number(furthest.value)}, {interval(furthest)}).",
            question="calibration",
        )


def _benefit(analysis: PerformanceAnalysis, model: str) -> Iterator[Finding]:
    """Where acting on a model is worth more than acting on all and on none; only for a single label."""
    row = analysis.estimates.find("auroc", model)
    if len(analysis.labels) > 1 or row is None or too_few(row):
        return
    drawn = analysis.core.benefit[0]
    shown = useful_range(drawn, analysis.models.index(model))
    low, high = (percent(end) for end in analysis.net_benefit)
    if shown is None:
        sentence = (
            f"Between risks of {low} and {high}, acting on {model} is at no threshold shown to be worth more than "
            "acting on all patients or on none (net benefit)."
        )
    else:
        sentence = (
            f"Acting on {model} is shown to be worth more than acting on all patients or on none at thresholds from "
            f"{percent(shown[0])} to {percent(shown[1])} (net benefit; looked at from {low} to {high})."
        )
    yield Finding(sentence=sentence, question="separation")
