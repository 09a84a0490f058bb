"""Drift: false alarms of the change-point test, power, coverage over time, and wrong verdicts.

Cases are spread evenly over the periods; patients are positive with a given probability, their scores are normal,
shifted for positives so that the AUROC is known, and turned into calibrated probabilities. Three notes of a patient
share half of their variance and stand in neighbouring periods. A planted change begins half-way: a lower AUROC, risks
that shift, risks that become more extreme, or another prevalence. Every audit tests seven numbers at every date: an
alarm is any that is significant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from palpate.audits.drift import Drift
from palpate.audits.drift.estimates import change_estimates, trend_estimates
from palpate.audits.drift.measures import TimedCases, all_series
from palpate.audits.drift.plan import Periods
from palpate.audits.kit.rows import RowWriter, corrected
from palpate.cases.cohort import Cohort
from palpate.results import AuditResult, ModelPredictions, Predictions
from validity import COVERAGE, WRONG_VERDICTS, Cell

Floats = NDArray[np.float64]
_REPLICATES = 200
_THRESHOLD = 0.3
_FALSE_ALARMS = 0.05
"""Of the change-point test, over all dates and numbers."""
_TESTED = ("auroc", "sensitivity", "ppv", "calibration_in_the_large", "flag_rate", "prevalence", "mean_score")


class Setting(NamedTuple):
    """What is simulated."""

    n_patients: int
    prevalence: float
    n_months: int = 12
    n_notes: int = 1
    auroc: float = 0.80
    later_auroc: float | None = None
    later_prevalence: float | None = None
    shift: float = 0.0
    """Of all risks, in log odds, from half-way on."""
    stretch: float = 1.0
    """What the log odds are multiplied by from half-way on."""

    def __str__(self) -> str:
        notes = "" if self.n_notes == 1 else f", {self.n_notes} notes each"
        told = f"{self.n_patients:,} patients, {self.prevalence:.0%} positive, {self.n_months} months{notes}"
        told += "" if self.later_auroc is None else f", AUROC {self.auroc:g} then {self.later_auroc:g}"
        told += "" if self.later_prevalence is None else f", then {self.later_prevalence:.0%} positive"
        told += "" if self.stretch == 1.0 else f", then log odds times {self.stretch:g}"
        return told + ("" if not self.shift else f", risks shift by {self.shift:g} in log odds")


class Drawn(NamedTuple):
    """One simulated data set."""

    y_true: NDArray[np.bool_]
    risk: Floats
    month: NDArray[np.int64]
    patient: NDArray[np.int64]


def _separation(auroc: float) -> float:
    return math.sqrt(2) * NormalDist().inv_cdf(auroc)


def draw(setting: Setting, rng: np.random.Generator) -> Drawn:
    """Cases of one data set."""
    n, notes = setting.n_patients, setting.n_notes
    patient = np.repeat(np.arange(n), notes)
    first = rng.integers(0, setting.n_months, n)
    month = np.minimum(first[patient] + np.tile(np.arange(notes), n), setting.n_months - 1)
    later = month >= setting.n_months // 2
    chance = np.where(later, setting.later_prevalence or setting.prevalence, setting.prevalence)
    y_true = (rng.random(n) if notes > 1 else rng.random(len(patient)))[patient if notes > 1 else slice(None)] < chance
    usual = _separation(setting.auroc)
    by_case = np.where(later, _separation(setting.later_auroc or setting.auroc), usual)
    share = 0.5 if notes > 1 else 0.0
    noise = math.sqrt(share) * rng.normal(size=n)[patient] + math.sqrt(1 - share) * rng.normal(size=len(patient))
    odds = math.log(setting.prevalence / (1 - setting.prevalence))
    logit = odds + usual * (noise + by_case * y_true) - usual**2 / 2 + np.where(later, setting.shift, 0.0)
    logit = np.where(later, setting.stretch, 1.0) * logit
    return Drawn(y_true, 1 / (1 + np.exp(-logit)), month, patient)


def audited(data: Drawn, **options: Any) -> AuditResult:
    """The audit itself."""
    n = len(data.y_true)
    time = [datetime(2022 + int(m) // 12, 1 + int(m) % 12, 15) for m in data.month]
    cases = pl.DataFrame(
        {
            "cohort": ["here"] * n,
            "case_id": [str(k) for k in range(n)],
            "patient_id": [str(k) for k in data.patient],
            "time": pl.Series(time, dtype=pl.Datetime("us")),
        }
    )
    cohort = Cohort(cases, ("ill",), sparse.csc_array(data.y_true.astype(np.uint8)[:, None]))
    audit = Drift(every="month", n_replicates=_REPLICATES, threshold=_THRESHOLD, **options)
    plan = audit.plan(cohort, np.random.default_rng(0))
    answers = {"m": ModelPredictions(("ill",), data.risk[plan.variants.parent][:, None], np.ones(n, bool))}
    return audit.analyse(plan, Predictions(answers), np.random.default_rng(int(data.y_true.sum())))


class Told(NamedTuple):
    """What the tests say, by metric."""

    changed: dict[str, bool]
    since: dict[str, int]
    trend: dict[str, bool]


def tested(data: Drawn, n_months: int, rng: np.random.Generator) -> Told:
    """The tests of the audit, without its bootstrap."""
    y_true, score = data.y_true.astype(np.uint8)[:, None], data.risk[None, :, None]
    cases = TimedCases(y_true, score, np.full((1, 1), _THRESHOLD), data.patient)
    answers = {"m": ModelPredictions(("ill",), data.risk[:, None], np.ones(len(y_true), bool))}
    names = tuple(str(k) for k in range(n_months))
    periods = Periods(names, data.month, "month", 1)
    series = all_series(cases, periods, ("ill",), Predictions(answers))
    writer = RowWriter("drift")
    changes = change_estimates(writer, series, cases.patient, periods, rng)
    trends = corrected(
        list(trend_estimates(writer, series, cases.patient, periods)), "bonferroni", 0.95, family_of=lambda _: "trends"
    )
    return Told(
        {each.metric: bool(row.significant) for each, row in zip(series, changes, strict=True)},
        {each.metric: int(row.group or -1) for each, row in zip(series, changes, strict=True)},
        {each.metric: bool(row.significant) for each, row in zip(series, trends, strict=True)},
    )


def _alarm_cells(setting: Setting, n_samples: int, seed: int) -> Iterator[Cell]:
    """Where nothing changes, no number may be said to have changed."""
    rng = np.random.default_rng([seed, setting.n_patients, setting.n_months, setting.n_notes])
    told = [tested(draw(setting, rng), setting.n_months, rng) for _ in range(n_samples)]
    for what, rate in (
        ("a change of any number at any date", np.mean([any(each.changed.values()) for each in told])),
        ("a trend of any number", np.mean([any(each.trend.values()) for each in told])),
    ):
        yield Cell(f"false alarms, {what}", str(setting), float(rate), n_samples, at_most=_FALSE_ALARMS)


def _coverage_cells(setting: Setting, n_samples: int, seed: int) -> Iterator[Cell]:
    """Of whole audits: the latest periods against the first."""
    rng = np.random.default_rng([seed, setting.n_patients, 2])
    covered: dict[str, list[bool]] = {}
    for _ in range(n_samples):
        for row in audited(draw(setting, rng)).estimates.filter(group="latest", reference="first").to_dicts():
            if row["pointwise_low"] is not None:
                covered.setdefault(row["metric"], []).append(row["pointwise_low"] <= 0 <= row["pointwise_high"])
    rates = [float(np.mean(found)) for found in covered.values() if len(found) >= 20]
    if rates:
        what = "coverage of the change from the first to the latest periods, lowest of the metrics"
        yield Cell(what, str(setting), min(rates), n_samples, at_least=COVERAGE)


def _spared_cells(setting: Setting, spared: tuple[str, ...], n_samples: int, seed: int) -> Iterator[Cell]:
    """What does not change may not be said to, though other numbers do."""
    rng = np.random.default_rng([seed, setting.n_patients, 3])
    told = [tested(draw(setting, rng), setting.n_months, rng) for _ in range(n_samples)]
    for metric in _TESTED:
        rate, name = float(np.mean([each.changed[metric] for each in told])), metric.replace("_", " ")
        if metric in spared:
            yield Cell(f"false alarms, a change of {name}", str(setting), rate, n_samples, at_most=_FALSE_ALARMS)
        elif metric in ("auroc", "calibration_in_the_large", "prevalence"):
            yield Cell(f"power, a change of {name}", str(setting), rate, n_samples)


def _power_cells(setting: Setting, n_samples: int, seed: int) -> Iterator[Cell]:
    rng = np.random.default_rng([seed, setting.n_patients, 5])
    told = [tested(draw(setting, rng), setting.n_months, rng) for _ in range(n_samples)]
    found = [each for each in told if each.changed["auroc"]]
    yield Cell("power, a change of auroc", str(setting), len(found) / n_samples, n_samples)
    if found:
        near = [abs(each.since["auroc"] - setting.n_months // 2) <= 2 for each in found]
        yield Cell("of those, the date is right within two months", str(setting), float(np.mean(near)), len(near))


def _slope_cells(setting: Setting, n_samples: int, seed: int) -> Iterator[Cell]:
    """Of whole audits: what is said about risks that became more extreme, or more timid."""
    rng = np.random.default_rng([seed, setting.n_patients, 6])
    told = [
        any("calibration slope" in each.sentence for each in audited(draw(setting, rng)).findings)
        for _ in range(n_samples)
    ]
    rate, quiet = float(np.mean(told)), setting.stretch == 1.0
    what = "false alarms" if quiet else "power"
    most = _FALSE_ALARMS if quiet else 1.0
    yield Cell(f"{what}, a change of the calibration slope", str(setting), rate, n_samples, at_most=most)


def _verdict_cells(n_samples: int, seed: int) -> Iterator[Cell]:
    """A fall by the margin: neither verdict would be right."""
    setting = Setting(1500, 0.3, later_auroc=0.77)
    rng = np.random.default_rng([seed, 8])
    told = [
        next(answer.verdict for answer in audited(draw(setting, rng)).answers if answer.question == "worse")
        for _ in range(n_samples)
    ]
    for verdict in ("acceptable", "concern"):
        rate = float(np.mean([each == verdict for each in told]))
        yield Cell(f'wrong "{verdict}", worse', f"{setting}: on the margin", rate, n_samples, at_most=WRONG_VERDICTS)


def cells(n_samples: int, seed: int, *, thin: bool = False) -> Iterator[Cell]:
    """False alarms, what is spared, power; then whole audits: coverage and verdicts."""
    n = min(n_samples, 150) if thin else n_samples
    quiet = [Setting(600, 0.1), Setting(400, 0.2, n_notes=3)]
    if not thin:
        quiet += [Setting(300, 0.3, 6), Setting(2000, 0.05, 24), Setting(1200, 0.2, auroc=0.95), Setting(1000, 0.2, 36)]
    for setting in quiet:
        yield from _alarm_cells(setting, n, seed)
    yield from _spared_cells(Setting(2000, 0.2, later_prevalence=0.4, shift=-1.0), ("auroc",), n, seed)
    if not thin:
        yield from _spared_cells(Setting(2000, 0.2, shift=0.7), ("auroc", "prevalence"), n, seed)
        yield from _spared_cells(Setting(2000, 0.2, later_prevalence=0.3), ("auroc", "sensitivity"), n, seed)
    for n_patients in (2000,) if thin else (600, 1200, 2000, 4000):
        yield from _power_cells(Setting(n_patients, 0.2, later_auroc=0.70), n, seed)
    n_audits = min(n_samples, 60 if thin else 200)
    for setting in (Setting(400, 0.2, n_notes=3),) if thin else (Setting(400, 0.2, n_notes=3), Setting(600, 0.1)):
        yield from _coverage_cells(setting, n_audits, seed)
    slopes = [Setting(600, 0.2), Setting(1000, 0.2, stretch=1.6)]
    if not thin:
        slopes += [Setting(400, 0.3, n_notes=3), Setting(1500, 0.1, shift=0.7), Setting(2000, 0.05, auroc=0.9)]
    for setting in slopes:
        yield from _slope_cells(setting, n_audits, seed)
    yield from _verdict_cells(n_audits, seed)
