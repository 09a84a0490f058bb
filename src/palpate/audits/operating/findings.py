"""The operating audit's findings: what each model does at each point, the requirements, and what limits them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import ndtri

from palpate.audits.kit.wording import counted, interval, listed, number, percent, quoted, settled_by
from palpate.audits.operating.answers import REQUIREMENTS, AlertAnalysis
from palpate.audits.operating.estimates import BENEFIT, NEEDED, PER_100
from palpate.audits.operating.points import AlertPoint
from palpate.results import Estimate, Finding
from palpate.results.verdicts import Answer
from palpate.stats import widen_interval

_MOST_SENTENCES = 12
_OFF = 0.10
"""A share that misses the capacity by more than a tenth of it is told."""


def operating_findings(analysis: AlertAnalysis, answers: Sequence[Answer]) -> tuple[Finding, ...]:
    """The requirements in words, then what each point means for the ward, and caveats."""
    return (
        *(
            Finding(sentence=_required(analysis, answer), kind=answer.verdict, question=answer.question)
            for answer in answers
        ),
        *_points(analysis),
        *_lead(analysis),
        *_capacity(analysis),
        *_useless(analysis),
        *_thresholds(analysis),
        *_left_out(analysis),
    )


def _required(analysis: AlertAnalysis, answer: Answer) -> str:
    asked, what = REQUIREMENTS[answer.question], _WHAT[answer.question]
    shown = percent if asked.percent else number
    required = analysis.required[answer.question]
    value = f"{100 * required:g}%" if asked.percent else f"{required:g}"
    bound = f"{'at most' if asked.harm > 0 else 'at least'} {value}"
    where = f" {answer.label}" if answer.label else f" at '{analysis.judged[0]}'"
    if answer.value is None:
        return f"Whether {what} of {answer.model}{where} is {bound} cannot be told: {answer.reason}."
    size = shown(answer.value)
    if answer.low is not None and answer.high is not None:
        size += f", {analysis.level:.0%} interval {shown(answer.low)} to {shown(answer.high)}"
    told = {
        "acceptable": f"{what} of {answer.model}{where} is {bound}, as required ({size})",
        "concern": f"{what} of {answer.model}{where} is not {bound}, as required ({size})",
        "unsettled": f"whether {what} of {answer.model}{where} is {bound} cannot be told ({size}){settled_by(answer)}",
    }
    sentence = told[answer.verdict if answer.verdict in told else "unsettled"]
    return f"{sentence[0].upper()}{sentence[1:]}."


_WHAT = {
    "sensitivity": "the sensitivity",
    "specificity": "the specificity",
    "ppv": "the PPV",
    "npv": "the NPV",
    "net_benefit": "the net benefit",
    "alerts_per_100": "the number of alerts per 100",
    "alerts_per_day": "the number of alerts per day",
    "number_needed_to_evaluate": "the number needed to evaluate",
    "alerts_per_stay": "the number of alerts per stay",
    "lead_time_hours": "the median lead time in hours",
}


def _points(analysis: AlertAnalysis) -> Iterator[Finding]:
    """What each model does at each point, for the first label."""
    label, told = analysis.labels[0], 0
    of = "" if len(analysis.labels) == 1 else f" for '{label}'"
    total = len(analysis.points) * len(analysis.models)
    for point in analysis.points:
        for model in analysis.models:
            rows = {
                name: analysis.estimates.find(name, model, label=label, group=point.name)
                for name in (PER_100, "sensitivity", NEEDED)
            }
            alerts, hits, needed = rows.values()
            if alerts is None or hits is None or alerts.value is None or hits.value is None:
                continue
            if told == _MOST_SENTENCES:
                yield Finding(sentence=f"{total - told} more are in the table of operating points.")
                return
            told += 1
            yield Finding(sentence=_at(analysis, point, model, alerts, hits, needed) + f"{of}.")


def _at(
    analysis: AlertAnalysis, point: AlertPoint, model: str, alerts: Estimate, hits: Estimate, needed: Estimate | None
) -> str:
    row = analysis.estimates.find("threshold", model, label=alerts.label, group=point.name)
    at = "" if row is None or row.value is None else f" (threshold {number(row.value)})"
    sentence = (
        f"At '{point.name}'{at}, {model} flags {number(alerts.value, digits=1)} of 100 {analysis.planned.unit} "
        f"({interval(alerts, digits=1)}) and finds {percent(hits.value)} of those with the outcome "
        f"({_percent_interval(hits)})"
    )
    if needed is not None and needed.value is not None:
        sentence += f"; one in {number(needed.value, digits=1)} of those it flags has the outcome"
    return sentence


def _percent_interval(row: Estimate) -> str:
    if row.low is None:
        return row.reason or "no interval"
    return f"{row.level or 0.95:.0%} interval {percent(row.low)} to {percent(row.high)}"


def _lead(analysis: AlertAnalysis) -> Iterator[Finding]:
    if "lead_time_hours" not in analysis.timed:
        return
    for point in analysis.points:
        for model in analysis.models:
            row = analysis.estimates.find("lead_time_hours", model, group=point.name)
            if row is not None and row.value is not None:
                yield Finding(
                    sentence=f"At '{point.name}', half of the first alerts of {model} that come before an event come "
                    f"at least {number(row.value, digits=1)} hours before it ({interval(row, digits=1)}; "
                    f"{counted(row.n, 'event')})."
                )


def _capacity(analysis: AlertAnalysis) -> Iterator[Finding]:
    """Where tied scores, or other patients, make the flagged share another one than the capacity."""
    for point in analysis.points:
        if point.capacity is None or point.flagged is None:
            continue
        if point.capacity >= 1.0 and analysis.planned.per_day is not None:
            yield Finding(
                sentence=f"'{point.name}' is no limit: the cohort has {number(analysis.planned.per_day, digits=1)} "
                f"{analysis.planned.unit} a day. If the table is a sample of them, give a share (`flag: 0.05`).",
                kind="caveat",
            )
            continue
        for model in analysis.models:
            yield from _missed_capacity(analysis, point, model, point.capacity)


def _missed_capacity(analysis: AlertAnalysis, point: AlertPoint, model: str, capacity: float) -> Iterator[Finding]:
    place = list(analysis.scored).index(analysis.ensembles.get(model, [model])[0])
    for j, label in enumerate(analysis.labels):
        of = "" if len(analysis.labels) == 1 else f" for '{label}'"
        chosen = float(point.flagged[place, j]) if point.flagged is not None else capacity
        if abs(chosen - capacity) > _OFF * capacity:
            more = "more" if chosen > capacity else "less"
            where = "the validation split" if analysis.on_validation else "the audited cases"
            yield Finding(
                sentence=f"At '{point.name}'{of}, {model} flags {percent(chosen)} of {where}, {more} than "
                f"{percent(capacity)}: scores are tied at the threshold, and it cannot tell these "
                f"{analysis.planned.unit} apart.",
                kind="caveat",
            )
            continue
        row = analysis.estimates.find("flag_rate", model, label=label, group=point.name)
        if row is not None and row.value is not None and _shifted(analysis, row, capacity):
            more = "more" if row.value > capacity else "fewer"
            yield Finding(
                sentence=f"At '{point.name}'{of}, {model} flags {percent(row.value)} of the audited "
                f"{analysis.planned.unit} ({_percent_interval(row)}), {more} than the {percent(capacity)} that the "
                "threshold was chosen for: its scores have shifted since the validation split.",
                kind="caveat",
            )


def _shifted(analysis: AlertAnalysis, row: Estimate, capacity: float) -> bool:
    """Whether more or fewer are flagged than on the validation split, beyond what chance does to both.

    The threshold is as uncertain as the share above it was there; the interval holds for all points, models and labels.
    """
    if row.value is None or row.low is None or row.high is None or not analysis.on_validation:
        return False
    n = len(np.unique(analysis.planned.validation.patient))
    chosen = float(ndtri(0.5 + analysis.level / 2.0)) * math.sqrt(capacity * (1.0 - capacity) / n)
    ends = (row.value - math.hypot(row.value - row.low, chosen), row.value + math.hypot(row.high - row.value, chosen))
    n_capacities = sum(point.capacity is not None for point in analysis.points)
    n_family = n_capacities * len(analysis.models) * len(analysis.labels)
    low, high = widen_interval(row.value, *ends, n_family, level=analysis.level)
    return not float(low) <= capacity <= float(high)


def _useless(analysis: AlertAnalysis) -> Iterator[Finding]:
    """Points at which acting on nobody would do more good.

    A capacity says nothing about what a false alarm costs, so net benefit judges only thresholds that were chosen.
    """
    for label in analysis.labels:
        for point in (each for each in analysis.points if each.capacity is None):
            for model in analysis.models:
                row = analysis.estimates.find(BENEFIT, model, label=label, group=point.name)
                if row is not None and row.high is not None and row.high < 0:
                    of = "" if len(analysis.labels) == 1 else f" for '{label}'"
                    yield Finding(
                        sentence=f"At '{point.name}'{of}, {model} does more harm than flagging nobody, if a false "
                        f"alarm costs what the threshold says: net benefit {number(row.value, signed=True)} "
                        f"({interval(row, signed=True)}).",
                        kind="caveat",
                    )


def _thresholds(analysis: AlertAnalysis) -> Iterator[Finding]:
    models = analysis.own.optimistic_among(analysis.models, analysis.ensembles)
    if models:
        yield Finding(
            sentence=f"The threshold '{analysis.points[0].name}' of {listed(models)} was chosen on the audited cases "
            "themselves, so its numbers are optimistic: give a validation split or the threshold that is used.",
            kind="caveat",
        )
    capacities = [point.name for point in analysis.points if point.capacity is not None]
    if capacities and not analysis.on_validation:
        yield Finding(
            sentence=f"The cohort has no validation split, so the thresholds of {quoted(capacities)} were chosen on "
            "the audited cases: how far the flagged share drifts on other patients is not seen here.",
            kind="caveat",
        )


def _left_out(analysis: AlertAnalysis) -> Iterator[Finding]:
    planned = analysis.planned
    if planned.n_late:
        gone = counted(planned.n_unpredicted, "stay has", "stays have") if planned.n_unpredicted else ""
        yield Finding(
            sentence=f"{counted(planned.n_late, 'prediction')} at or after the event "
            f"{'does' if planned.n_late == 1 else 'do'} not count"
            + (
                f"; {gone} no earlier prediction that counts and {'is' if planned.n_unpredicted == 1 else 'are'} left "
                "out, all with an event: counted as missed, they would lower the sensitivity"
            )
            * bool(gone)
            + ".",
            kind="caveat",
        )
    if planned.n_undecided:
        yield Finding(
            sentence=f"{counted(planned.n_undecided, 'stay is', 'stays are')} left out: the first prediction, which "
            "alone decides, has no score or a sampling weight of 0.",
            kind="caveat",
        )
    if planned.n_mixed:
        yield Finding(
            sentence=f"The cases of {counted(planned.n_mixed, 'stay')} have different sampling weights: the largest of "
            "them is the stay's, in all numbers.",
            kind="caveat",
        )
    if analysis.left_out:
        yield Finding(
            sentence=f"{len(analysis.left_out):,} of {len(analysis.left_out) + len(analysis.labels):,} labels, the "
            "less frequent ones, are not audited at operating points (`most_common`).",
            kind="caveat",
        )
