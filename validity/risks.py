"""The core set for risks (`performance`) and recalibration: coverage of intervals, false alarms and power.

Patients and scores are those of `validity.performance`. Risks are right (*calibrated*), too extreme and too high (log
odds times 1.6, plus 0.4), too timid and too low (times 0.6, minus 0.5), or *bent* (the mean of p and its square), so
that the true calibration curve is known. The truth of Emax is the largest true distance among the sample's own risks;
all others are those of 400,000 patients. A pair is a calibrated model and a distorted one on the same patients, and a
cohort is compared with another one of the same kind. Recalibration is fitted on as many other patients. The length that
an interval needs is 3.92 standard deviations of the estimates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, logit

from palpate.audits.kit.differences import ContrastTerm, difference_interval
from palpate.audits.kit.risks import CORE, CaseRisks, RiskReplicates, measure_risks
from palpate.audits.recalibration import Recalibration
from palpate.cases.cohort import Cohort
from palpate.results import ModelPredictions, Predictions
from validity import COVERAGE, FALSE_ALARMS, Cell
from validity.performance import Setting, draw

Floats = NDArray[np.float64]
_THRESHOLD, _RANGE, _REPLICATES = 0.2, (0.01, 0.5), 400
_LINES = {"calibrated": (1.0, 0.0), "extreme": (1.6, 0.4), "timid": (0.6, -0.5)}
SHAPES = (*_LINES, "bent")
GROUPS = {
    "calibration intercept": ("calibration_intercept",),
    "calibration slope": ("calibration_slope",),
    "O:E": ("oe_ratio",),
    "ICI": ("ici",),
    "E50 and E90": ("e50", "e90"),
    "Emax": ("emax",),
    "net benefit at a threshold": ("net_benefit",),
    "mean net benefit over a range": ("mean_net_benefit",),
}


_NEEDED = 0.8
"""Of an interval's length, what chance needs at least. One that is too short needs all of it: coverage tells."""
_COMPARED = {"": "", ", paired": "difference of models, ", ", cohorts": "difference of cohorts, "}


def distorted(p: Floats, shape: str) -> Floats:
    """Right risks as a model with this flaw gives them."""
    if shape == "bent":
        return np.asarray(0.5 * p + 0.5 * p**2)
    stretch, shift = _LINES[shape]
    return np.asarray(expit(stretch * logit(np.clip(p, 1e-12, 1 - 1e-12)) + shift))


def true_share(q: Floats, shape: str) -> Floats:
    """How often the outcome comes where such a model says q."""
    if shape == "bent":
        return np.asarray(np.sqrt(0.25 + 2.0 * q) - 0.5)
    stretch, shift = _LINES[shape]
    return np.asarray(expit((logit(np.clip(q, 1e-12, 1 - 1e-12)) - shift) / stretch))


def part_of(setting: Setting, shape: str, rng: np.random.Generator, n: int, n_replicates: int) -> RiskReplicates:
    """The audit's own measures of many samples, each a label: of a calibrated model and of a distorted one."""
    y_true, p, patient = draw(setting, rng, n)
    risks = np.stack([p[0], distorted(p[1], shape)])
    limits = np.full((2, n), _THRESHOLD)
    cases = CaseRisks("simulated", y_true.astype(np.uint8), risks, limits, patient, int(rng.integers(2**60)))
    part = measure_risks(cases, ("calibrated", "distorted"), [str(k) for k in range(n)], _RANGE, n_replicates)
    worst = np.abs(true_share(risks[1], shape) - risks[1]).max(axis=0)
    return replace(part, averaged=tuple(map(repr, worst.tolist())))  # kept with the part, for `coverage`


def truth_of(setting: Setting, shape: str) -> Floats:
    """[model, metric] of the core set; Emax is unknown, because each sample has its own."""
    return _truth(setting._replace(n_patients=400_000, n_notes=1, shape="equal"), shape)


@cache
def _truth(large: Setting, shape: str) -> Floats:
    y_true, p, patient = draw(large, np.random.default_rng(7), 1)
    found = np.full((2, len(CORE)), np.nan)
    for m, own in enumerate(("calibrated", shape)):
        risk = distorted(p[m : m + 1], own)
        cases = CaseRisks("large", y_true.astype(np.uint8), risk, np.full((1, 1), _THRESHOLD), patient, 0)
        found[m] = measure_risks(cases, ("m",), ("y",), _RANGE, 2).point[0, : len(CORE), 0]
        gap = np.abs(true_share(risk, own) - risk).ravel()
        found[m, 3:7] = gap.mean(), *np.quantile(gap, (0.5, 0.9)), np.nan
    return found


def coverage(setting: Setting, shape: str, n_samples: int, seed: int) -> dict[str, list[bool]]:
    """Whether each interval holds the truth: of levels, of the difference of models, and of that of cohorts."""
    truth, rng, hits = truth_of(setting, shape), np.random.default_rng(seed), dict[str, list[bool]]()
    at_once = 10 if setting.shape == "uneven" else 100
    for first in range(0, n_samples, at_once):
        part = part_of(setting, shape, rng, min(at_once, n_samples - first), _REPLICATES)
        spread = part.spread(0.95)
        pair = difference_interval([ContrastTerm(part, "distorted", 1.0), ContrastTerm(part, "calibrated", -1.0)], 0.95)
        other = _next(part)
        moved = difference_interval(
            [ContrastTerm(part, "distorted", 1.0), ContrastTerm(other, "distorted", -1.0)], 0.95
        )
        for k, metric in enumerate(CORE):
            own = np.asarray([float(each) for each in part.averaged]) if metric == "emax" else truth[1, k]
            ends = {metric: (spread.low[1, k], spread.high[1, k], own)}
            if metric != "emax":
                ends[f"{metric}, paired"] = (pair[0][k], pair[1][k], truth[1, k] - truth[0, k])
                ends[f"{metric}, cohorts"] = (moved[0][k], moved[1][k], 0.0)
            for what, (low, high, wanted) in ends.items():
                known = ~np.isnan(low)
                inside = (low <= wanted + 1e-9) & (wanted <= high + 1e-9)
                hits.setdefault(what, []).extend(inside[known].tolist())
    return hits


def _next(part: RiskReplicates) -> RiskReplicates:
    """The same samples, each in the place of the one before: another cohort for each."""
    return replace(
        part,
        point=np.roll(part.point, -1, axis=2),
        values=np.roll(part.values, -1, axis=2),
        n=np.roll(part.n, -1),
        n_positive=np.roll(part.n_positive, -1),
        n_units=np.roll(part.n_units, -1, axis=1),
    )


def cells(n_samples: int, seed: int, *, thin: bool = False) -> Iterator[Cell]:
    """Coverage at each size, the worst setting of each; then recalibration."""
    for n_patients in (60, 500) if thin else (60, 100, 200, 500, 1000):
        shares = (0.10, 0.30) if thin or n_patients < 100 else (0.05, 0.10, 0.30)
        levels = (0.8,) if thin else (0.6, 0.8, 0.95)
        chosen = product(shares, levels, ((1, "equal"), (3, "equal")), SHAPES)
        settings = [(Setting(n_patients, s, a, *notes), shape) for s, a, notes, shape in chosen]
        yield from _coverage_cells(settings, f"{n_patients} patients, 1 or 3 notes each", n_samples, seed)
    uneven = [(Setting(n, 0.1, 0.8, 5, "uneven"), shape) for n in (200, 500) for shape in ("calibrated", "extreme")]
    where = "uneven numbers of notes, 200 patients and more"
    yield from _coverage_cells(uneven[: 2 if thin else None], where, n_samples, seed)
    yield from _length_cells(min(n_samples, 100 if thin else 400), seed, (0.8, 0.95))
    yield from _recalibration_cells(min(n_samples, 60 if thin else 400), seed)


def _length_cells(n_samples: int, seed: int, levels: tuple[float, ...]) -> Iterator[Cell]:
    """Whether intervals are too long: 1.96 standard deviations of the estimates, over half of one."""
    for level, shape in product(levels, ("calibrated", "extreme")):
        setting = Setting(500, 0.3, level, 1)
        part = part_of(setting, shape, np.random.default_rng(seed), n_samples, _REPLICATES)
        spread = part.spread(0.95)
        for metric in ("calibration_intercept", "oe_ratio"):
            k = CORE.index(metric)
            half = (spread.high[1, k] - spread.low[1, k]) / 2.0
            found = min(1.96 * float(np.nanstd(part.point[1, k], ddof=1)) / float(np.nanmean(half)), 1.0)
            what = f"length that {metric.replace('_', ' ')} needs, as a share of its interval"
            yield Cell(what, f"500 patients, {setting}, {shape}", found, n_samples, at_least=_NEEDED)


def _coverage_cells(settings: list[tuple[Setting, str]], where: str, n_samples: int, seed: int) -> Iterator[Cell]:
    found = {each: coverage(*each, n_samples, seed) for each in settings}
    for group, metrics in GROUPS.items():
        for suffix, what in (
            ("", ""),
            (", paired", "difference of models, "),
            (", cohorts", "difference of cohorts, "),
        ):
            rates = [
                (float(np.mean(held[f"{metric}{suffix}"])), len(held[f"{metric}{suffix}"]), f"{setting}, {shape}")
                for (setting, shape), held in found.items()
                for metric in metrics
                if f"{metric}{suffix}" in held and len(held[f"{metric}{suffix}"]) >= min(50, n_samples)
            ]
            if rates:
                rate, n, worst = min(rates)
                yield Cell(f"coverage of {what}{group}", f"{where}; least at {worst}", rate, n, at_least=COVERAGE)


def _recalibration_cells(n_samples: int, seed: int) -> Iterator[Cell]:
    """Whole audits: 400 patients to fit on and 400 to test on."""
    rng, told = np.random.default_rng(seed), dict[str, list[str]]()
    for _ in range(n_samples):
        y_true, p, _ = draw(Setting(800, 0.3, 0.8, 1), rng, 1)
        for shape in ("calibrated", "extreme"):
            told.setdefault(shape, []).append(_recalibrated(y_true, distorted(p[0], shape)))
    helps = {shape: float(np.mean(["shown to help" in each for each in found])) for shape, found in told.items()}
    harm = max(float(np.mean(["shown to harm" in each for each in found])) for found in told.values())
    where = "fitted on 400 patients, tested on 400, 30% positive"
    yield Cell("false alarms, recalibration shown to help", f"calibrated; {where}", helps["calibrated"], n_samples,
               at_most=FALSE_ALARMS)  # fmt: skip
    yield Cell("false alarms, recalibration shown to harm", where, harm, n_samples, at_most=FALSE_ALARMS)
    yield Cell("power, recalibration shown to help", f"log odds × 1.6 + 0.4; {where}", helps["extreme"], n_samples)


def _recalibrated(y_true: NDArray[np.bool_], p: Floats) -> str:
    n = len(y_true)
    ids = [str(k) for k in range(n)]
    split = ["validation" if k < n // 2 else "test" for k in range(n)]
    cases = pl.DataFrame({"case_id": ids, "patient_id": ids, "split": split, "cohort": ["here"] * n})
    cohort = Cohort(cases, ("label",), sparse.csc_array(y_true.astype(np.uint8)))
    audit = Recalibration(n_replicates=_REPLICATES, threshold=_THRESHOLD)
    plan = audit.plan(cohort, np.random.default_rng(0))
    answers = {"m": ModelPredictions(("label",), p[plan.variants.parent], np.ones(n, bool))}
    result = audit.analyse(plan, Predictions(answers), np.random.default_rng(int(y_true.sum())))
    return result.findings[0].sentence
