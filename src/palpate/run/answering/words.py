"""Sentences and the table about a language model's answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from palpate.audits.kit.tables import columns, interval_cell, table
from palpate.audits.kit.wording import number, percent
from palpate.results import Estimate, Finding, Table
from palpate.run.answering.arms import AskedArms
from palpate.run.answering.shares import MASS, MOST_SHOWN, NOISE, OTHERS, OUTCOMES, REFUSED, UNREADABLE

_FEW_VALUES, _FEWEST_CASES = 12, 30
_LOW_MASS = 0.9


def about_answers(asked: AskedArms, rows: Sequence[Estimate]) -> Iterator[Finding]:
    """Refusals and unreadable answers of this audit, and arms that differ in them."""
    first = next(iter(asked.arms))
    level = [row for row in rows if row.group == first and row.reference is None]
    for j, label in enumerate(asked.labels):
        found = {row.metric: row for row in level if row.label == label and row.metric in OUTCOMES}
        refused, unread = found[REFUSED], found[UNREADABLE]
        if not refused.value and not unread.value:
            continue
        about = f" about '{label}'" if len(asked.labels) > 1 else ""
        said = (
            f"{asked.model} refused {_share(refused)} of the questions{about} and gave no answer that can be read to "
        )
        yield Finding(sentence=f"{said}{_share(unread)}; {_policy(asked, j)}.", kind="caveat")
    for row in rows:
        if row.reference is not None and row.low is not None and row.high is not None and row.low * row.high > 0:
            group = row.group not in asked.arms
            if group and row.reference == OTHERS and row.low < 0:
                continue  # it is more often so in the others, which is said of them
            more = "more" if (row.value or 0) > 0 else "less"
            does = f"refuses {more} often" if row.metric == REFUSED else f"gives no readable answer {more} often"
            points = f"{abs(row.value or 0) * 100:.1f} percentage points"
            other = row.reference if row.reference == OTHERS else f"'{row.reference}'"
            yield Finding(
                sentence=f"{asked.model} {does} in '{row.group}' than in {other}, by {points} "
                f"({row.level:.0%} interval {100 * row.low:+.1f} to {100 * row.high:+.1f}, for all "
                f"{'groups' if group else 'arms'} at once).",
                kind="caution",
            )


def _policy(asked: AskedArms, j: int) -> str:
    """What becomes of refusals and of unreadable answers, each by itself, and which of them are in no number."""
    told, negative = {}, np.zeros(len(asked.p), bool)
    for metric, name in ((REFUSED, "refusals"), (UNREADABLE, "answers that cannot be read")):
        hit = asked.hit(metric, j)
        if hit.any():
            missing = bool(np.isnan(asked.p[hit, j]).all())
            told[name] = "missing scores" if missing else "negative answers"
            negative |= hit & ~np.isnan(asked.p[:, j])
    kinds = set(told.values())
    said = (
        f"they count as {kinds.pop()}"
        if len(kinds) == 1
        else " and ".join(f"{k} count as {v}" for k, v in told.items())
    )
    left_out, n = 0 if asked.lacking is None else int((negative & asked.lacking).sum()), int(negative.sum())
    if not left_out:
        return said
    which = f"all {n:,} negative ones" if left_out == n else f"{left_out:,} of the {n:,} negative ones"
    return f"{said}, but {which} are left out of comparisons, because another model has no score for these cases"


def _share(row: Estimate) -> str:
    if row.low is None:
        return percent(row.value)
    return f"{percent(row.value)} ({row.level:.0%} interval {percent(row.low)} to {percent(row.high)})"


def about_scores(asked: AskedArms, rows: Sequence[Estimate]) -> Iterator[Finding]:
    """What limits every number of a language model, said once."""
    values = np.unique(asked.p[~np.isnan(asked.p)])
    if len(asked.p) >= _FEWEST_CASES and 1 < len(values) <= _FEW_VALUES:
        shown = ", ".join(f"{value:g}" for value in values[:4].round(3)) + (", …" if len(values) > 4 else "")
        yield Finding(
            sentence=f"{asked.model} gives only {len(values)} different scores ({shown}): a change that does not move "
            "its answer from one to the next cannot be seen. `parser: logprobs`, `parser: number` or more `samples` "
            "give finer scores.",
            kind="caveat",
        )
    first = next(iter(asked.arms))
    for row in rows:
        if row.group != first or row.reference is not None or row.value is None:
            continue
        if row.metric == NOISE:
            yield Finding(
                sentence=f"Each score of {asked.model} is the mean of {asked.outcomes.samples} answers, with a "
                f"standard error of {number(row.value)} on average: asked again, the same note gets another "
                "score. Intervals include that; counts of changed decisions count it as change.",
                kind="caveat",
            )
        if row.metric == MASS and row.value < _LOW_MASS:
            yield Finding(
                sentence=f"The choices have {percent(row.value)} of the probability of {asked.model}'s first token on "
                "average: the rest would have been another answer, of which nothing is known.",
                kind="caveat",
            )


def answers_table(asked: AskedArms, rows: Sequence[Estimate]) -> Table:
    """Refusals and unreadable answers by arm and by group; of many arms, those with least answers."""
    index = {(row.metric, row.label, row.group, row.reference is None): row for row in rows}
    arms = asked.shown(MOST_SHOWN)
    groups = [each for division in asked.groups for each in division.rows.items()]
    shown = []
    for arm, own in (*((arm, asked.arms[arm]) for arm in arms), *groups):
        for label in asked.labels:
            found = [index.get((metric, label, arm, True)) for metric in OUTCOMES]
            changes = [index.get((metric, label, arm, False)) for metric in OUTCOMES]
            more = [index.get((metric, label, arm, True)) for metric in (MASS, NOISE)]
            cells = [None if each is None else interval_cell(each, 100.0) for each in (*found, *changes)]
            shown.append((label, arm, len(own), *cells, *(None if each is None else each.value for each in more)))
    left_out = (
        f" Of {len(asked.arms):,} arms these are the {len(arms)} with the largest shares; the results have all of them."
        if len(arms) < len(asked.arms)
        else ""
    )
    return table(
        f"Answers of {asked.model}",
        "Questions that were refused, and answers that could not be read, by patient, with intervals. Differences are "
        "in percentage points, of an arm to the first one, of a group of patients to its reference or to all others; "
        f"their intervals hold for all at once.{left_out}",
        columns(
            *("Label", "Arm or group", ("Questions", "integer"), ("Refused (%)", "interval")),
            *(("No answer (%)", "interval"), ("Refused, difference", "interval")),
            ("No answer, difference", "interval"),
            *(("Mass of the choices", "number"), ("Standard error", "number")),
        ),
        shown,
        collapsed=True,
    )
