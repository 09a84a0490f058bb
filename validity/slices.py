"""Slices: false alarms where no slice is worse, coverage of what was found by searching, power, wrong verdicts.

Patients are positive with a given probability; their scores are normal, shifted for positives so that the AUROC is
known, and turned into risks. Five attributes of two to four values are drawn at random. In one null setting the values
of an attribute differ in how often the outcome occurs. In another the scores know of it: every slice has the same
AUROC, but cases of different values are easier to tell apart than those within one, so the AUROC of a slice is lower
than that of all others together, and truly so. That is shown, not bounded. A planted slice is one of two conditions in
which the AUROC is lower.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from palpate.audits.slices import Slices
from palpate.cases.cohort import Cohort
from palpate.results import AuditResult, ModelPredictions, Predictions
from validity import COVERAGE, WRONG_VERDICTS, Cell

Floats = NDArray[np.float64]
_REPLICATES = 300
_AUROC = 0.80
_SHARES = {"a": (0.6, 0.4), "b": (0.25, 0.45, 0.3), "c": (0.4, 0.2, 0.25, 0.15), "d": (0.5, 0.5), "e": (0.7, 0.2, 0.1)}
PLANTED = {"a": 1, "b": 0}
"""A tenth of the patients."""
NAMED = "a=1, b=0"
_ALARMS = 0.05


class Setting(NamedTuple):
    """What is simulated."""

    n_patients: int
    gap: float = 0.0
    """By how much the AUROC of the planted slice is lower."""
    n_notes: int = 1
    mixed: str = ""
    """In what the values of an attribute differ: `prevalence`, or `prevalence and scores`."""
    prevalence: float = 0.3

    def __str__(self) -> str:
        notes = "" if self.n_notes == 1 else f", {self.n_notes} notes each"
        mixed = f", values differ in {self.mixed}" if self.mixed else ""
        gap = f", AUROC lower by {self.gap:g} in a tenth" if self.gap else ""
        return f"{self.n_patients:,} patients, {self.prevalence:.0%} positive{notes}{mixed}{gap}"


class Drawn(NamedTuple):
    """One simulated data set."""

    cohort: Cohort
    risk: Floats


def _shift(auroc: float) -> float:
    return math.sqrt(2) * NormalDist().inv_cdf(auroc)


def draw(setting: Setting, rng: np.random.Generator) -> Drawn:
    """Cases of one data set."""
    n = setting.n_patients
    values = {name: rng.choice(len(shares), n, p=shares) for name, shares in _SHARES.items()}
    inside = np.all([values[name] == value for name, value in PLANTED.items()], axis=0)
    odds = math.log(setting.prevalence / (1 - setting.prevalence)) + (0.8 * (values["c"] - 1) if setting.mixed else 0.0)
    positive = rng.random(n) < 1 / (1 + np.exp(-odds))
    patient = np.repeat(np.arange(n), setting.n_notes)
    share = 0.5 if setting.n_notes > 1 else 0.0
    noise = math.sqrt(share) * rng.normal(size=n)[patient] + math.sqrt(1 - share) * rng.normal(size=len(patient))
    shift = np.where(inside, _shift(_AUROC - setting.gap), _shift(_AUROC))[patient]
    score = noise + shift * positive[patient] + (0.8 * values["c"][patient] if "scores" in setting.mixed else 0.0)
    cases = pl.DataFrame(
        {
            "case_id": [str(k) for k in range(len(patient))],
            "patient_id": [str(k) for k in patient],
            "cohort": ["here"] * len(patient),
            **{name: [str(value) for value in column[patient]] for name, column in values.items()},
        }
    )
    y = sparse.csc_array(positive[patient].astype(np.uint8)[:, None])
    return Drawn(Cohort(cases, ("ill",), y, tuple(_SHARES)), 1 / (1 + np.exp(1.8 - score)))


def audited(data: Drawn, seed: int, **options: Any) -> AuditResult:
    """The audit itself."""
    audit = Slices(**{"n_replicates": _REPLICATES, **options})
    plan = audit.plan(data.cohort, np.random.default_rng(seed))
    n = len(data.risk)
    answers = {"m": ModelPredictions(("ill",), data.risk[:, None], np.ones(n, bool))}
    return audit.analyse(plan, Predictions(answers), np.random.default_rng(seed + 1))


def cells(n_samples: int, seed: int, *, thin: bool = False) -> Iterator[Cell]:
    """False alarms and coverage, power, and verdicts on the margin."""
    n = min(n_samples, 100) if thin else n_samples
    nothing = [Setting(1500), Setting(1000, n_notes=3), Setting(1500, mixed="prevalence")]
    for k, setting in enumerate(nothing):
        yield from _silence(setting, n, [seed, k], depth=2)
    if not thin:
        yield from _silence(Setting(1500, mixed="prevalence and scores"), n, [seed, 6], depth=2, at_most=1.0)
        yield from _silence(Setting(3000), n, [seed, 7], depth=3)
        yield from _silence(Setting(3000, prevalence=0.1), n, [seed, 8], depth=2)
    planted = (
        [Setting(4000, 0.15)] if thin else [Setting(n, gap) for n in (2000, 4000, 10_000) for gap in (0.1, 0.15, 0.2)]
    )
    for k, setting in enumerate(planted):
        yield from _power(setting, min(n, 100), [seed, 20 + k])
    yield from _margin(Setting(40_000, 0.03), min(n, 50 if thin else 100), [seed, 40])


def _silence(setting: Setting, n: int, seed: list[int], *, depth: int, at_most: float = _ALARMS) -> Iterator[Cell]:
    """No slice is worse: alarms of any kind, and how often the intervals of slices found by searching hold 0."""
    rng = np.random.default_rng(seed)
    alarms: list[bool] = []
    verdicts: list[bool] = []
    held: list[bool] = []
    for _ in range(n):
        result = audited(draw(setting, rng), int(rng.integers(2**40)), depth=depth)
        rows = result.estimates.filter(pl.col("reference").is_not_null())
        alarms.append(bool(rows["significant"].any()))
        verdicts.append(result.answers[0].verdict in ("concern", "caution"))
        known = rows.filter(pl.col("pointwise_low").is_not_null())
        held += ((known["pointwise_low"] <= 0) & (known["pointwise_high"] >= 0)).to_list()
    where = f"{setting}, depth {depth}"
    what = "family-wise false alarms" if at_most == _ALARMS else "narrower slices are confirmed"
    yield Cell(f"{what}, any slice", where, float(np.mean(alarms)), n, at_most=at_most)
    yield Cell(f'{what}, "concern" or "caution"', where, float(np.mean(verdicts)), n, at_most=at_most)
    if held and at_most == _ALARMS:
        what = "coverage of the difference of slices that were found"
        yield Cell(what, where, float(np.mean(held)), len(held), at_least=COVERAGE)


def _power(setting: Setting, n: int, seed: list[int]) -> Iterator[Cell]:
    """The planted slice: named exactly, confirmed at all, and how much of what was confirmed overlaps it."""
    rng = np.random.default_rng(seed)
    exact, shown, concerned = [], [], []
    for _ in range(n):
        result = audited(draw(setting, rng), int(rng.integers(2**40)))
        rows = result.estimates.filter(
            pl.col("reference").is_not_null() & pl.col("significant") & (pl.col("value") < 0)
        )
        groups = [set(group.split(", ")) for group in rows["group"]]
        exact.append(NAMED in rows["group"].to_list())
        wanted = set(NAMED.split(", "))
        shown.append(any(group <= wanted or group >= wanted for group in groups))
        concerned.append(result.answers[0].verdict == "concern")
    yield Cell("power, the planted slice is confirmed under its own name", str(setting), float(np.mean(exact)), n)
    yield Cell("power, it or a part or whole of it is confirmed", str(setting), float(np.mean(shown)), n)
    yield Cell('power, "concern"', str(setting), float(np.mean(concerned)), n)


def _margin(setting: Setting, n: int, seed: list[int]) -> Iterator[Cell]:
    """A slice that is worse by exactly the margin: neither "acceptable" nor "concern" is right."""
    rng = np.random.default_rng(seed)
    options = {"by": tuple(PLANTED), "n_replicates": 200}
    told = [audited(draw(setting, rng), int(rng.integers(2**40)), **options).answers[0].verdict for _ in range(n)]
    for verdict in ("acceptable", "concern"):
        rate = float(np.mean([each == verdict for each in told]))
        where = f"{setting}: on the margin"
        yield Cell(f'wrong "{verdict}"', where, rate, n, at_most=WRONG_VERDICTS)
