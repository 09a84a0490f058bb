"""What came of asking a language model, in every audit: refusals, answers that say nothing, and how noisy answers are.

Whatever an audit measures, a model that refuses more often when the patient is described differently behaves
differently. So each audit gets, for each arm of its variants, the share of refusals and of answers that could not be
read, with an interval by patient, and how far an altered arm differs from the first one, paired by patient. Where the
choices' log-probabilities are read, their whole mass; where several answers are averaged, their standard error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.missing.shares import LabelCases, rate_by_patient
from palpate.audits.kit.rows import RowWriter
from palpate.audits.kit.tables import columns, interval_cell, table
from palpate.audits.kit.wording import number, percent
from palpate.cases.edits import Ints
from palpate.models import Model
from palpate.models.ledger import AsksForAnswers
from palpate.results import AuditResult, Estimate, Finding, ModelPredictions, Plan, Predictions, Table, estimates_frame
from palpate.results.plan import AnswerKind, Outcomes
from palpate.stats.score_intervals import student_quantile

REFUSED, UNREADABLE = "refusal_share", "unreadable_share"
MASS, NOISE = "choice_mass", "answer_standard_error"
ANSWER_METRICS = (REFUSED, UNREADABLE, MASS, NOISE)
"""What any audit of a language model has beside its own metrics."""
ALL_ARMS = "all"
_MOST_ARMS = 60
_FEW_VALUES, _FEWEST_CASES = 12, 30
_LOW_MASS = 0.9
_REPLICATES = 2000
_LEVEL = 0.95


class AskedArms(NamedTuple):
    """What one model was asked by one audit, one row per variant that it was asked about."""

    writer: RowWriter
    model: str
    arms: dict[str, Ints]
    """Rows of each arm."""
    patient: Ints
    weight: NDArray[np.float64]
    outcomes: Outcomes
    p: NDArray[np.float64]
    labels: tuple[str, ...]

    def hit(self, metric: str, j: int) -> NDArray[np.bool_]:
        """Where the outcome of a label is a refusal, or nothing that can be read."""
        kind = self.outcomes.kind[:, j]
        return np.asarray(kind == AnswerKind.REFUSED if metric == REFUSED else kind > AnswerKind.REFUSED)

    def cases(self, rows: Ints, hit: NDArray[np.bool_]) -> LabelCases:
        """Some rows, with their patients numbered."""
        own = np.unique(self.patient[rows], return_inverse=True)[1].astype(np.int64)
        return LabelCases("", hit[rows], np.ones(len(rows), bool), own, self.weight[rows])


def with_answering(
    results: Sequence[AuditResult], plans: Mapping[str, Plan[Any]], predictions: Mapping[str, Predictions]
) -> list[AuditResult]:
    """The results, in the order of the plans, with what came of asking language models."""
    done, told = [], set[str]()
    for name, result in zip(plans, results, strict=True):
        for model, each in predictions[name].scored.items():
            asked = _asked(name, plans[name], model, each)
            if asked is not None:
                result = _added(result, asked, told)
        done.append(result)
    return done


def spending_of(model: Model) -> dict[str, Any]:
    """What a run has spent on a model, for the manifest."""
    if not isinstance(model, AsksForAnswers):
        return {}
    spent = model.spent()
    return {"spent": spent._asdict() | {"cost": model.cost(spent)}}


def _asked(audit: str, plan: Plan[Any], model: str, each: ModelPredictions) -> AskedArms | None:
    if each.outcomes is None or not len(plan.variants):
        return None
    rows = np.flatnonzero((each.outcomes.kind >= 0).all(axis=1))
    if not len(rows):
        return None
    variants, n_cases = plan.variants, len(plan.cohort)
    # A text that the audit made up is a patient of its own.
    codes = np.unique(plan.cohort.patients, return_inverse=True)[1]
    patient = np.concatenate([codes, np.arange(len(variants.made)) + n_cases])[variants.parent[rows]]
    given = plan.cohort.weights
    weight = np.concatenate([np.ones(n_cases) if given is None else given, np.ones(len(variants.made))])
    arms = {name: np.flatnonzero(variants.group[rows] == k) for k, name in enumerate(variants.group_names)}
    arms = {name: own for name, own in arms.items() if len(own)}
    if len(arms) > 1:
        few = arms if len(arms) <= _MOST_ARMS else {}
        arms = {ALL_ARMS: np.arange(len(rows)), **few}
    outcomes = each.outcomes.take(rows, np.arange(len(each.labels)))
    writer = RowWriter(audit, _LEVEL)
    return AskedArms(
        writer,
        model,
        arms,
        patient.astype(np.int64),
        weight[variants.parent[rows]],
        outcomes,
        each.p[rows],
        each.labels,
    )


def _added(result: AuditResult, asked: AskedArms, told: set[str]) -> AuditResult:
    rows = [*outcome_shares(asked), *refusal_differences(asked), *_means(asked)]
    findings = [*_findings(asked, rows)]
    if asked.model not in told:
        findings += _about_scores(asked, rows)
        told.add(asked.model)
    columns_of = result.estimates.columns
    return replace(
        result,
        estimates=result.estimates.vstack(estimates_frame(rows).select(columns_of)),
        blocks=(*result.blocks, _block(asked, rows)),
        findings=(*result.findings, *findings),
    )


# --- numbers ------------------------------------------------------------------------------------------------


def outcome_shares(asked: AskedArms) -> Iterator[Estimate]:
    """The shares of refusals and of answers that say nothing, in each arm."""
    for arm, rows in asked.arms.items():
        for j, label in enumerate(asked.labels):
            for metric in (REFUSED, UNREADABLE):
                cases = asked.cases(rows, asked.hit(metric, j))
                rate = rate_by_patient(cases.missing, cases.positive, cases, _LEVEL)
                ends = (rate.low, rate.high)
                yield asked.writer.row(
                    asked.model, metric, label, arm, rate.value, n=rate.n, interval=ends, reason=rate.reason
                )


def refusal_differences(asked: AskedArms) -> Iterator[Estimate]:
    """How much more often each arm is refused than the first one; intervals hold for all arms and labels at once."""
    arms = [arm for arm in asked.arms if arm != ALL_ARMS]
    compared = (len(arms) - 1) * len(asked.labels)
    for j, label in enumerate(asked.labels):
        hit = asked.hit(REFUSED, j)
        for arm in arms[1:]:
            if not hit[asked.arms[arm]].any() and not hit[asked.arms[arms[0]]].any():
                continue
            value, low, high, n = _difference(asked, hit, asked.arms[arm], asked.arms[arms[0]], compared)
            yield asked.writer.row(
                asked.model, REFUSED, label, arm, value, n=n, interval=(low, high), reference=arms[0]
            )


def _difference(
    asked: AskedArms, hit: NDArray[np.bool_], rows: Ints, reference: Ints, compared: int
) -> tuple[float, float, float, int]:
    """The difference of two shares of the same patients, from how far each patient moves it."""
    n_patients = int(asked.patient.max()) + 1
    moves, value = np.zeros(n_patients), 0.0
    for part, sign in ((rows, 1.0), (reference, -1.0)):
        weight = asked.weight[part]
        sums = np.bincount(asked.patient[part], weight * hit[part], n_patients)
        masses = np.bincount(asked.patient[part], weight, n_patients)
        share = float(sums.sum() / masses.sum())
        moves += sign * (sums - share * masses) / masses.sum()
        value += sign * share
    level = 1 - (1 - _LEVEL) / compared
    known = max(len(np.unique(asked.patient[np.concatenate([rows, reference])])), 2)
    reach = float(student_quantile(known - 1, level))
    spread = reach * float(np.sqrt((moves**2).sum() * known / (known - 1)))
    # Where hardly anybody is answered differently, so may be somebody else: as much as a share of none leaves open.
    nobody = asked.cases(rows, np.zeros(len(hit), bool))
    spread = max(spread, rate_by_patient(nobody.missing, nobody.positive, nobody, level).high)
    return value, max(value - spread, -1.0), min(value + spread, 1.0), len(rows)


def _means(asked: AskedArms) -> Iterator[Estimate]:
    for metric, values in ((MASS, asked.outcomes.mass), (NOISE, asked.outcomes.noise)):
        for arm, rows in asked.arms.items():
            for j, label in enumerate(asked.labels):
                known = rows[~np.isnan(values[rows, j])]
                if len(known):
                    yield asked.writer.mean(
                        *(asked.model, metric, label, arm, values[known, j], asked.patient[known]),
                        rng=0,
                        n_replicates=_REPLICATES,
                    )


# --- words --------------------------------------------------------------------------------------------------


def _findings(asked: AskedArms, rows: Sequence[Estimate]) -> Iterator[Finding]:
    """Refusals and unreadable answers of this audit, and arms that differ in them."""
    first = next(iter(asked.arms))
    level = [row for row in rows if row.group == first and row.reference is None]
    for j, label in enumerate(asked.labels):
        found = {row.metric: row for row in level if row.label == label and row.metric in (REFUSED, UNREADABLE)}
        refused, unread = found[REFUSED], found[UNREADABLE]
        if not refused.value and not unread.value:
            continue
        silent = asked.outcomes.kind[:, j] != AnswerKind.ANSWERED
        counted = "missing scores" if np.isnan(asked.p[silent, j]).all() else "negative answers"
        about = f" about '{label}'" if len(asked.labels) > 1 else ""
        said = (
            f"{asked.model} refused {_share(refused)} of the questions{about} and gave no answer that can be read to "
        )
        yield Finding(sentence=f"{said}{_share(unread)}; they count as {counted}.", kind="caveat")
    for row in rows:
        if row.reference is not None and row.low is not None and row.high is not None and row.low * row.high > 0:
            more = "more" if (row.value or 0) > 0 else "less"
            points = f"{abs(row.value or 0) * 100:.1f} percentage points"
            yield Finding(
                sentence=f"{asked.model} refuses {more} often in '{row.group}' than in '{row.reference}', by {points} "
                f"({row.level:.0%} interval {100 * row.low:+.1f} to {100 * row.high:+.1f}, for all arms at once).",
                kind="caution",
            )


def _share(row: Estimate) -> str:
    if row.low is None:
        return percent(row.value)
    return f"{percent(row.value)} ({row.level:.0%} interval {percent(row.low)} to {percent(row.high)})"


def _about_scores(asked: AskedArms, rows: Sequence[Estimate]) -> Iterator[Finding]:
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


def _block(asked: AskedArms, rows: Sequence[Estimate]) -> Table:
    index = {(row.metric, row.label, row.group, row.reference is None): row for row in rows}
    shown = []
    for arm, own in asked.arms.items():
        for label in asked.labels:
            found = [index.get((metric, label, arm, True)) for metric in (REFUSED, UNREADABLE)]
            change = index.get((REFUSED, label, arm, False))
            more = [index.get((metric, label, arm, True)) for metric in (MASS, NOISE)]
            cells = [None if each is None else interval_cell(each, 100.0) for each in (*found, change)]
            shown.append((label, arm, len(own), *cells, *(None if each is None else each.value for each in more)))
    return table(
        f"Answers of {asked.model}",
        "Questions that were refused, and answers that could not be read, by patient, with intervals; the difference "
        "to the first arm is in percentage points, and its interval holds for all arms at once.",
        columns(
            *("Label", "Arm", ("Questions", "integer"), ("Refused (%)", "interval"), ("No answer (%)", "interval")),
            *(("Refused, difference", "interval"), ("Mass of the choices", "number"), ("Standard error", "number")),
        ),
        shown,
        collapsed=True,
    )
