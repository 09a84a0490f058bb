"""Subgroups: coverage of every interval and of the largest gap, false alarms over 20 groups, power, wrong verdicts.

Patients are positive with a given probability; their scores are normal, shifted for positives so that the AUROC is
known, and turned into calibrated probabilities. Groups are drawn at random, of unequal sizes; three notes of a patient
share half of their variance, and a patient stays in one group. A planted gap is a lower AUROC in one group.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from palpate.audits.kit.differences import ContrastTerm, difference_interval
from palpate.audits.kit.rows import RowWriter
from palpate.audits.subgroups import Subgroups
from palpate.audits.subgroups.gaps import FAIRNESS, GAPS, gap_rows
from palpate.audits.subgroups.measures import METRICS, Cases, Columns, GroupMeasures, Resampled, measure_groups
from palpate.audits.subgroups.plan import Partition
from palpate.audits.subgroups.risks import column_risks
from palpate.cases.cohort import Cohort
from palpate.results import AuditResult, ModelPredictions, Predictions
from palpate.stats import percentile_interval
from validity import COVERAGE, FALSE_ALARMS, WRONG_VERDICTS, Cell

Floats = NDArray[np.float64]
_REPLICATES = 300
_THRESHOLD = 0.3
_SHARES = (0.40, 0.25, 0.20, 0.10, 0.05)
"""Of five groups."""
_RATES = ("sensitivity", "specificity", "ppv", "npv", "flag_rate", "prevalence")
KINDS = {
    "AUROC": ("auroc",),
    "AUPRC": ("auprc",),
    "rates": _RATES,
    "Brier score": ("brier",),
    "O:E": ("oe_ratio",),
    "observed less predicted": ("calibration_in_the_large", "mean_score"),
    "calibration error": ("adaptive_calibration_error",),
}


class Setting(NamedTuple):
    """What is simulated."""

    n_patients: int
    prevalence: float
    n_groups: int
    n_notes: int = 1
    auroc: float = 0.80
    planted: float = 0.0
    """By how much the AUROC of group 1 is lower."""

    def __str__(self) -> str:
        notes = "" if self.n_notes == 1 else f", {self.n_notes} notes each"
        gap = "" if self.planted == 0 else f", AUROC lower by {self.planted:g} in one group"
        level = "" if self.auroc == 0.80 else f", AUROC {self.auroc:g}"
        return (
            f"{self.n_patients:,} patients, {self.prevalence:.0%} positive, {self.n_groups} groups{notes}{level}{gap}"
        )


class Drawn(NamedTuple):
    """One simulated data set."""

    y_true: NDArray[np.bool_]
    risk: Floats
    group: NDArray[np.int64]
    patient: NDArray[np.int64]


def _shift(auroc: float) -> float:
    return math.sqrt(2) * NormalDist().inv_cdf(auroc)


def draw(setting: Setting, rng: np.random.Generator) -> Drawn:
    """Cases of one data set."""
    n = setting.n_patients
    shares = np.asarray(_SHARES if setting.n_groups == 5 else [1 / setting.n_groups] * setting.n_groups)
    # As many patients in each group as its share says: at least 300 are 300.
    group = rng.permutation(np.repeat(np.arange(len(shares)), np.round(shares * n).astype(int)))[:n]
    n = len(group)
    positive = rng.random(n) < setting.prevalence
    patient = np.repeat(np.arange(n), setting.n_notes)
    shift = np.where(group == 1, _shift(setting.auroc - setting.planted), _shift(setting.auroc))
    share = 0.5 if setting.n_notes > 1 else 0.0
    own = rng.normal(size=n)
    noise = math.sqrt(share) * own[patient] + math.sqrt(1 - share) * rng.normal(size=len(patient))
    y_true, by_note = positive[patient], shift[patient]
    odds = math.log(setting.prevalence / (1 - setting.prevalence))
    score = noise + by_note * y_true
    return Drawn(y_true, 1 / (1 + np.exp(-(odds + by_note * score - by_note**2 / 2))), group[patient], patient)


def measured(data: Drawn, n_replicates: int, seed: int) -> tuple[Partition, GroupMeasures]:
    """The groups of one data set, measured as the audit does."""
    partition = Partition("site", tuple(f"site={k}" for k in range(data.group.max() + 1)), data.group)
    y_true = data.y_true.astype(np.uint8)[:, None]
    how = Resampled("patient", 10, n_replicates, seed)
    cases = Cases(y_true, data.risk[None, :, None], np.full((1, 1), _THRESHOLD), data.patient, how)
    answers = {"m": ModelPredictions(("ill",), data.risk[:, None], np.ones(len(y_true), bool))}
    columns = Columns.of([partition], len(y_true))
    return partition, next(iter(measure_groups(cases, columns, ("ill",), Predictions(answers))))


@cache
def truth(prevalence: float, auroc: float) -> dict[str, float]:
    """Every metric of a calibrated model, from 2,000,000 cases."""
    data = draw(Setting(2_000_000, prevalence, 1, auroc=auroc), np.random.default_rng(7))
    _, found = measured(data, 0, 0)
    known = {name: float(found.parts[0].point[0, k, 0]) for k, name in enumerate(METRICS)}
    return {**known, "adaptive_calibration_error": 0.0, "oe_ratio": 1.0, "calibration_in_the_large": 0.0}


class Held(NamedTuple):
    """How often each interval held, by its name."""

    hits: dict[str, list[bool]]

    def add(self, what: str, low: float, high: float, wanted: float) -> None:
        if low == low:
            self.hits.setdefault(what, []).append(bool(low - 1e-9 <= wanted <= high + 1e-9))

    def rate(self, what: str) -> tuple[float, int]:
        found = self.hits.get(what, [])
        return (float(np.mean(found)) if found else math.nan), len(found)


def coverage(setting: Setting, n_samples: int, seed: int) -> Held:
    """Levels in the smallest group, differences to the rest, largest gaps and fairness summaries."""
    rng, held = np.random.default_rng([seed, setting.n_patients, setting.n_groups, setting.n_notes]), Held({})
    usual = truth(setting.prevalence, setting.auroc)
    lower = truth(setting.prevalence, round(setting.auroc - setting.planted, 6))
    writer = RowWriter("subgroups")
    for _ in range(n_samples):
        partition, found = measured(draw(setting, rng), _REPLICATES, int(rng.integers(2**60)))
        last = partition.groups[-1]
        if found.lacking(found.columns.groups[last]) is None:
            part, contrast = found.part(last), found.columns.contrasts[-1]
            spread = part.spread(0.95)
            terms = [ContrastTerm(part, "m", 1.0), ContrastTerm(found.parts[contrast.against], "m", -1.0)]
            low, high, _ = difference_interval(terms, 0.95)
            for k, name in enumerate(METRICS):
                held.add(name, spread.low[0, k, 0], spread.high[0, k, 0], usual[name])
                if not setting.planted and name != "adaptive_calibration_error":
                    held.add(f"{name}, rest", low[k, 0], high[k, 0], 0.0)
        _add_gaps(held, writer, partition, found, usual, lower)
    return held


def risk_coverage(setting: Setting, n_samples: int, seed: int) -> Held:
    """The core set of the smallest group: a calibrated model has intercept 0 and slope 1 there."""
    rng, held = np.random.default_rng([seed, setting.n_patients, 77]), Held({})
    usual = truth(setting.prevalence, setting.auroc)
    odds = _THRESHOLD / (1 - _THRESHOLD)
    hits = usual["sensitivity"] * setting.prevalence
    false = (1 - usual["specificity"]) * (1 - setting.prevalence)
    known = {"calibration_intercept": 0.0, "calibration_slope": 1.0, "net_benefit": hits - odds * false}
    for _ in range(n_samples):
        data = draw(setting, rng)
        partition, found = measured(data, 100, int(rng.integers(2**60)))
        column = found.columns.groups[partition.groups[-1]]
        if found.lacking(column) is not None:
            continue
        how = Resampled("patient", 10, _REPLICATES, int(rng.integers(2**60)))
        y_true = data.y_true.astype(np.uint8)[:, None]
        cases = Cases(y_true, data.risk[None, :, None], np.full((1, 1), _THRESHOLD), data.patient, how)
        answers = {"m": ModelPredictions(("ill",), data.risk[:, None], np.ones(len(y_true), bool))}
        part = column_risks(cases, found, 0, column, partition.groups[-1], Predictions(answers))
        spread = part.spread(0.95)
        for name, wanted in known.items():
            k = part.metrics.index(name)
            held.add(name, spread.low[0, k, 0], spread.high[0, k, 0], wanted)
    return held


def _add_gaps(
    held: Held, writer: RowWriter, partition: Partition, found: GroupMeasures, usual: Any, lower: Any
) -> None:
    rows = {row.metric: row for row in gap_rows(writer, found, partition, "m")}
    for name in GAPS:
        row, wanted = rows[f"{name}_gap"], abs(usual[name] - lower[name])
        if row.low is not None and row.high is not None and row.value is not None:
            held.add(f"{name}_gap", row.low, row.high, wanted)
            held.hits.setdefault(f"{name}_gap, too high", []).append(row.value > wanted + 1e-9)
            held.hits.setdefault(f"{name}_gap, shown", []).append(row.low > 0)
    for name, rates in FAIRNESS.items():
        ratios = [_ratio(usual[rate], lower[rate], complement=rate == "specificity") for rate in rates]
        row = rows[f"{name}_ratio"]
        if row.low is not None and row.high is not None:
            held.add(f"{name}_ratio", row.low, row.high, min(ratios))
        row = rows[f"{name}_difference"]
        if row.low is not None and row.high is not None:
            held.add(f"{name}_difference", row.low, row.high, max(abs(usual[rate] - lower[rate]) for rate in rates))
    parts = [found.part(group) for group in found.enough(partition)]
    aurocs = np.stack([part.values[0, METRICS.index("auroc"), 0] for part in parts])
    naive = percentile_interval(np.ptp(aurocs, axis=0))
    held.add("naive", float(naive.low), float(naive.high), abs(usual["auroc"] - lower["auroc"]))


def _ratio(first: float, second: float, *, complement: bool) -> float:
    one, other = (1 - first, 1 - second) if complement else (first, second)
    return min(one, other) / max(one, other)


def cells(n_samples: int, seed: int, *, thin: bool = False) -> Iterator[Cell]:
    """Coverage in each setting, then whole audits: false alarms, power and verdicts."""
    settings = [
        Setting(1500, 0.3, 5),
        Setting(1500, 0.1, 5, 3),
        Setting(2000, 0.3, 20),
        Setting(1500, 0.3, 5, planted=0.08),
    ]
    if not thin:
        settings += [Setting(1500, 0.1, 5), Setting(4000, 0.1, 20), Setting(600, 0.3, 2), Setting(4000, 0.3, 20, 3)]
        settings += [Setting(6000, 0.1, 20, planted=0.08), Setting(1500, 0.3, 5, auroc=0.95)]
    for setting in settings:
        yield from _coverage_cells(setting, coverage(setting, min(n_samples, 100) if thin else n_samples, seed))
    for setting in (Setting(1500, 0.3, 5), Setting(1500, 0.3, 5, 3)):
        held = risk_coverage(setting, min(n_samples, 100) if thin else n_samples, seed)
        for name in ("calibration_intercept", "calibration_slope", "net_benefit"):
            what = f"coverage of {name.replace('_', ' ')}, in the smallest group"
            yield Cell(what, str(setting), *held.rate(name), at_least=COVERAGE)
    n_audits = min(n_samples, 60 if thin else 400)
    yield from _audit_cells(n_audits, seed)
    power = [Setting(1200, 0.3, 5, planted=0.08), Setting(6000, 0.3, 20, planted=0.08)]
    yield from _power_cells(n_audits, seed, power[:1] if thin else power)


def _coverage_cells(setting: Setting, held: Held) -> Iterator[Cell]:
    """The metric that is covered least, of each kind."""
    where = str(setting)
    for suffix, what in (("", "in the smallest group"), (", rest", "difference to all others")):
        for kind, metrics in KINDS.items():
            rates = [held.rate(f"{metric}{suffix}") for metric in metrics]
            known = [each for each in rates if each[1] >= 20]
            if known:
                yield Cell(f"coverage of {kind}, {what}", where, *min(known), at_least=COVERAGE)
    names = {
        "largest gap of AUROC": ["auroc_gap"],
        "largest gap of rates and risks": [f"{name}_gap" for name in GAPS[1:]],
    }
    names["fairness differences"] = [f"{name}_difference" for name in FAIRNESS]
    names["fairness ratios"] = [f"{name}_ratio" for name in FAIRNESS]
    for what, chosen in names.items():
        known = [each for each in map(held.rate, chosen) if each[1] >= 20]
        if known:
            yield Cell(f"coverage of {what}", where, *min(known), at_least=COVERAGE)
    yield Cell("largest gap of AUROC estimated too high", where, *held.rate("auroc_gap, too high"), at_most=0.5)
    yield Cell("the percentile interval of that gap holds the truth, for comparison", where, *held.rate("naive"))


def _audit(data: Drawn, **options: Any) -> AuditResult:
    """The audit itself."""
    n = len(data.y_true)
    cases = pl.DataFrame(
        {
            "case_id": [str(k) for k in range(n)],
            "patient_id": [str(k) for k in data.patient],
            "cohort": ["here"] * n,
            "site": [f"s{k:02}" for k in data.group],
        }
    )
    cohort = Cohort(cases, ("ill",), sparse.csc_array(data.y_true.astype(np.uint8)[:, None]), ("site",))
    audit = Subgroups(by=("site",), n_replicates=_REPLICATES, threshold=_THRESHOLD, **options)
    plan = audit.plan(cohort, np.random.default_rng(0))
    answers = {"m": ModelPredictions(("ill",), data.risk[plan.variants.parent][:, None], np.ones(n, bool))}
    return audit.analyse(plan, Predictions(answers), np.random.default_rng(int(data.y_true.sum())))


def _audit_cells(n_samples: int, seed: int) -> Iterator[Cell]:
    """20 equal groups, and one that is worse by 0.08 or by the margin."""
    rng = np.random.default_rng([seed, 5])
    equal = Setting(4000, 0.3, 20)
    alarms: dict[str, list[bool]] = {}
    for _ in range(n_samples):
        result = _audit(draw(equal, rng))
        rows = result.estimates.filter(pl.col("reference").is_not_null())
        for metric in ("auroc", "sensitivity", "specificity", "ppv", "flag_rate", "calibration_in_the_large"):
            alarms.setdefault(f"difference of {metric}", []).append(
                bool(rows.filter(metric=metric)["significant"].any())
            )
        for answer in result.answers:
            told = answer.verdict in ("concern", "caution")
            alarms.setdefault(f'"concern" or "caution", {answer.question}', []).append(told)
        heard = any(answer.verdict in ("concern", "caution") for answer in result.answers)
        alarms.setdefault('"concern" or "caution", any of these questions', []).append(heard)
        gap = result.estimates.filter(metric="auroc_gap").row(0, named=True)
        alarms.setdefault("largest gap of AUROC above 0", []).append(gap["low"] > 0)
    for what, found in alarms.items():
        rate = float(np.mean(found))
        yield Cell(f"family-wise false alarms, {what}", str(equal), rate, n_samples, at_most=FALSE_ALARMS)


def _power_cells(n_samples: int, seed: int, settings: list[Setting]) -> Iterator[Cell]:
    for setting in settings:
        rng = np.random.default_rng([seed, 8, setting.n_patients])
        found: dict[str, list[bool]] = {"worse": [], "gap": []}
        for _ in range(n_samples):
            result = _audit(draw(setting, rng))
            row = result.estimates.filter(metric="auroc", reference="all others", group="site=s01").row(0, named=True)
            found["worse"].append(bool(row["significant"]) and row["value"] < 0)
            gap = result.estimates.filter(metric="auroc_gap").row(0, named=True)
            found["gap"].append(gap["low"] > 0)
        where = f"{setting}, of 300 patients"
        yield Cell("power, difference of AUROC", where, float(np.mean(found["worse"])), n_samples)
        yield Cell("power, largest gap of AUROC", where, float(np.mean(found["gap"])), n_samples)
    margin, rng = Setting(1200, 0.3, 5, planted=0.03), np.random.default_rng([seed, 9])
    told = [
        next(answer.verdict for answer in _audit(draw(margin, rng)).answers if answer.question == "worse")
        for _ in range(n_samples)
    ]
    for verdict in ("acceptable", "concern"):
        rate = float(np.mean([each == verdict for each in told]))
        yield Cell(f'wrong "{verdict}", worse', f"{margin}: on the margin", rate, n_samples, at_most=WRONG_VERDICTS)
