"""Operating points: coverage of decisions, workload, net benefit and hours; wrong verdicts on requirements.

Patients are positive with a given probability; their scores are normal, shifted for positives so that the AUROC is
known, and turned into calibrated probabilities; a second model has its own noise. Capacities are chosen on a validation
split of half as many patients, or on the audited cases themselves, and the truth is that of the threshold that was
chosen. Stays have two to six predictions, four hours apart, that share half of their variance, and a patient has two
stays; risks rise towards an event within four hours after the last one.
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

from palpate.audits.operating import Operating
from palpate.cases.cohort import Cohort
from palpate.results import AuditResult, ModelPredictions, Predictions
from validity import COVERAGE, WRONG_VERDICTS, Cell

Floats = NDArray[np.float64]
_REPLICATES = 300
_FIXED = 0.3
_RATES = ("sensitivity", "specificity", "ppv", "npv", "flag_rate", "alerts_per_100")
_TIMED = ("alerts_per_stay", "alerts_per_flagged_stay", "hours_to_alert", "lead_time_hours")
_KINDS = {
    "rates": _RATES,
    "number needed to evaluate": ("number_needed_to_evaluate",),
    "net benefit": ("net_benefit",),
}
_WARD = 0.45


class Setting(NamedTuple):
    """What is simulated."""

    n_patients: int
    prevalence: float
    n_notes: int = 1
    validation: bool = True
    auroc: float = 0.80

    def __str__(self) -> str:
        notes = "" if self.n_notes == 1 else f", {self.n_notes} notes each"
        where = "" if self.validation else ", no validation split"
        ranks = "" if self.auroc == 0.80 else f", AUROC {self.auroc:g}"
        return f"{self.n_patients:,} patients, {self.prevalence:.0%} positive{notes}{where}{ranks}"


class Drawn(NamedTuple):
    """Cases of two models."""

    y_true: NDArray[np.bool_]
    risk: Floats
    """[model, case]"""
    patient: NDArray[np.int64]


def draw(setting: Setting, n: int, rng: np.random.Generator) -> Drawn:
    """Cases of n patients; the second model ranks a little worse."""
    positive = rng.random(n) < setting.prevalence
    patient = np.repeat(np.arange(n), setting.n_notes)
    share = 0.5 if setting.n_notes > 1 else 0.0
    y_true = positive[patient]
    odds = math.log(setting.prevalence / (1 - setting.prevalence))
    own = rng.normal(size=n)
    risks = []
    for lost in (0.0, 0.05):
        shift = math.sqrt(2) * NormalDist().inv_cdf(setting.auroc - lost)
        noise = math.sqrt(share) * own[patient] + math.sqrt(1 - share) * rng.normal(size=len(patient))
        score = noise + shift * y_true
        risks.append(1 / (1 + np.exp(-(odds + shift * score - shift**2 / 2))))
    return Drawn(y_true, np.stack(risks), patient)


@cache
def _population(setting: Setting) -> list[tuple[Floats, Floats]]:
    """Sorted risks of many positives and negatives, for each model."""
    data = draw(setting._replace(n_notes=1), 1_500_000, np.random.default_rng(7))
    return [(np.sort(risk[data.y_true]), np.sort(risk[~data.y_true])) for risk in data.risk]


def truth(setting: Setting, model: int, threshold: float) -> dict[str, float]:
    """Every metric at a threshold."""
    positive, negative = _population(setting)[model]
    hit = 1 - float(np.searchsorted(positive, threshold)) / len(positive)
    false = 1 - float(np.searchsorted(negative, threshold)) / len(negative)
    p = setting.prevalence
    flagged = p * hit + (1 - p) * false
    ppv = p * hit / flagged if flagged else math.nan
    return {
        "sensitivity": hit,
        "specificity": 1 - false,
        "ppv": ppv,
        "npv": (1 - p) * (1 - false) / (1 - flagged),
        "flag_rate": flagged,
        "alerts_per_100": 100 * flagged,
        "number_needed_to_evaluate": 1 / ppv if ppv else math.nan,
        "net_benefit": p * hit - (1 - p) * false * threshold / (1 - threshold),
    }


class Hits:
    """How often each interval held, by its name."""

    def __init__(self) -> None:
        self.found: dict[str, list[bool]] = {}

    def add(self, what: str, row: dict[str, Any], wanted: float) -> None:
        low, high = row["pointwise_low"], row["pointwise_high"]
        low, high = (row["low"], row["high"]) if low is None else (low, high)
        if low is not None and high is not None and not math.isnan(wanted):
            self.found.setdefault(what, []).append(bool(low - 1e-9 <= wanted <= high + 1e-9))

    def rate(self, what: str) -> tuple[float, int]:
        found = self.found.get(what, [])
        return (float(np.mean(found)) if found else math.nan), len(found)


def _audit(audit: Operating, cases: pl.DataFrame, y: NDArray[Any], risk: Floats, attributes: Any = ()) -> AuditResult:
    cohort = Cohort(cases, ("ill",), sparse.csc_array(y.astype(np.uint8)[:, None]), tuple(attributes))
    plan = audit.plan(cohort, np.random.default_rng(0))
    rows = plan.variants.parent
    answers = {
        f"m{k}": ModelPredictions(("ill",), each[rows][:, None], np.ones(len(rows), bool))
        for k, each in enumerate(risk)
    }
    return audit.analyse(plan, Predictions(answers), np.random.default_rng(int(y.sum())))


def audited(setting: Setting, rng: np.random.Generator, **options: Any) -> AuditResult:
    """The audit of one data set."""
    data = draw(setting, setting.n_patients, rng)
    split = np.full(len(data.patient), "test", dtype=object)
    if setting.validation:
        more = draw(setting, setting.n_patients // 2, rng)
        data = Drawn(
            np.append(data.y_true, more.y_true),
            np.concatenate([data.risk, more.risk], axis=1),
            np.append(data.patient, more.patient + setting.n_patients),
        )
        split = np.append(split, np.full(len(more.patient), "validation", dtype=object))
    n = len(data.patient)
    cases = pl.DataFrame(
        {
            "cohort": ["here"] * n,
            "case_id": [str(k) for k in range(n)],
            "patient_id": [str(k) for k in data.patient],
            "split": [str(name) for name in split],
        }
    )
    return _audit(Operating(n_replicates=_REPLICATES, **options), cases, data.y_true, data.risk)


def coverage(setting: Setting, n_samples: int, seed: int) -> Hits:
    """Levels of both models and their difference, at a fixed threshold and at a capacity."""
    rng, hits = np.random.default_rng([seed, setting.n_patients, setting.n_notes, int(setting.validation)]), Hits()
    for _ in range(n_samples):
        result = audited(setting, rng, thresholds={"fixed": _FIXED}, capacity={"flag": 0.05})
        rows = result.estimates.to_dicts()
        at = {
            (row["group"], row["model"]): row["value"]
            for row in rows
            if row["metric"] == "threshold" and row["group"] != "own"
        }
        known = {key: truth(setting, int(key[1][1:]), value) for key, value in at.items()}
        for row in rows:
            where = (row["group"], row["model"])
            if where not in known or row["metric"] not in known[where]:
                continue
            wanted, kind = known[where][row["metric"]], row["metric"]
            if row["reference"] is not None:
                wanted, kind = wanted - known[row["group"], row["reference"]][row["metric"]], f"{kind}, difference"
            hits.add(f"{row['group']}: {kind}", row, wanted)
    return hits


def _coverage_cells(setting: Setting, hits: Hits) -> Iterator[Cell]:
    """The metric that is covered least, of each kind."""
    for point, what in (("fixed", f"at {_FIXED}"), ("flag 5%", "at a capacity of 5%")):
        for kind, metrics in _KINDS.items():
            for suffix, of in (("", ""), (", difference", ", difference between models")):
                known = [hits.rate(f"{point}: {metric}{suffix}") for metric in metrics]
                known = [each for each in known if each[1] >= 20]
                if known:
                    yield Cell(f"coverage of {kind}{of}, {what}", str(setting), *min(known), at_least=COVERAGE)


class Ward(NamedTuple):
    """Stays with several predictions."""

    stay: NDArray[np.int64]
    hour: Floats
    event: Floats
    """Of each prediction's stay."""
    ill: NDArray[np.bool_]
    risk: Floats


def draw_ward(n_stays: int, rng: np.random.Generator) -> Ward:
    """Two stays a patient, whose scores share a part."""
    length = rng.integers(2, 7, n_stays)
    stay = np.repeat(np.arange(n_stays), length)
    hour = 4.0 * (np.arange(len(stay)) - np.repeat(np.cumsum(length) - length, length))
    ill = (rng.random(n_stays) < 0.3)[stay]
    shared = rng.normal(size=n_stays // 2 + 1)[stay // 2] * 0.5 + rng.normal(size=n_stays)[stay] * 0.5
    score = shared + math.sqrt(0.5) * rng.normal(size=len(stay)) + ill * (0.3 + 0.06 * hour)
    event = 4.0 * length - 4.0 + rng.uniform(0.1, 4.0, n_stays)
    return Ward(stay, np.asarray(hour, np.float64), event[stay], ill, 1 / (1 + np.exp(1.0 - score)))


def drawn_unequally(ward: Ward, rng: np.random.Generator) -> tuple[Ward, Floats]:
    """All stays with the outcome and one in four of the others, and what each stands for."""
    kept = (rng.random(ward.stay.max() + 1) < 0.25)[ward.stay] | ward.ill
    return Ward(*(each[kept] for each in ward)), np.where(ward.ill[kept], 1.0, 4.0)


def _ward_table(ward: Ward) -> pl.DataFrame:
    start = np.datetime64("2024-01-01T00:00:00", "ms")
    time = start + (ward.hour * 3.6e6).astype("timedelta64[ms]")
    event = start + (ward.event * 3.6e6).astype("timedelta64[ms]")
    return pl.DataFrame(
        {
            "cohort": ["here"] * len(ward.stay),
            "case_id": [str(k) for k in range(len(ward.stay))],
            "patient_id": [str(k // 2) for k in ward.stay],
            "stay_id": [str(k) for k in ward.stay],
            "time": pl.Series(time).cast(pl.Datetime("us")),
            "event": pl.Series(event).cast(pl.Datetime("us")).cast(pl.String),
        }
    )


@cache
def ward_truth() -> dict[str, float]:
    """From 400,000 stays."""
    ward = draw_ward(400_000, np.random.default_rng(7))
    start = np.flatnonzero(np.append(True, ward.stay[1:] != ward.stay[:-1]))
    alert = ward.risk >= _WARD
    count = np.add.reduceat(alert.astype(float), start)
    first = np.minimum.reduceat(np.where(alert, ward.hour, np.inf), start)
    flagged, ill = count > 0, ward.ill[start]
    return {
        "alerts_per_stay": float(count.mean()),
        "alerts_per_flagged_stay": float(count[flagged].mean()),
        "hours_to_alert": float(np.median(first[flagged])),
        "lead_time_hours": float(np.median((ward.event[start] - first)[flagged & ill])),
        "sensitivity": float(flagged[ill].mean()),
        "flag_rate": float(flagged.mean()),
        "ppv": float(ill[flagged].mean()),
    }


def _ward_cells(n_stays: int, n_samples: int, seed: int, *, weighted: bool = False) -> Iterator[Cell]:
    rng, hits = np.random.default_rng([seed, n_stays]), Hits()
    audit = Operating(n_replicates=_REPLICATES, thresholds={"ward": _WARD}, event_time="event")
    for _ in range(n_samples):
        ward = draw_ward(n_stays, rng)
        if weighted:
            ward, weight = drawn_unequally(ward, rng)
        table = _ward_table(ward)
        table = table.with_columns(sampling_weight=pl.Series(weight)) if weighted else table
        result = _audit(audit, table, ward.ill, ward.risk[None], ("event",))
        for row in result.estimates.filter(group="ward").to_dicts():
            if row["metric"] in ward_truth():
                hits.add(row["metric"], row, ward_truth()[row["metric"]])
    where = f"{n_stays} stays, 2 a patient" + (", one in four without the outcome kept and weighed" if weighted else "")
    for metric in ward_truth():
        rate, n = hits.rate(metric)
        if n >= 20:
            name = metric.replace("_", " ")
            yield Cell(f"coverage of {name}, by stay", where, rate, n, at_least=COVERAGE)


def _verdict_cells(n_samples: int, seed: int) -> Iterator[Cell]:
    """Requirements that hold exactly: neither verdict would be right."""
    setting = Setting(600, 0.2)
    known = truth(setting, 0, _FIXED)
    required = {name: known[name] for name in ("sensitivity", "alerts_per_100", "number_needed_to_evaluate")}
    rng, told = np.random.default_rng([seed, 11]), dict[str, list[str]]()
    for _ in range(n_samples):
        result = audited(setting, rng, thresholds={"fixed": _FIXED}, required=required)
        for answer in result.answers:
            if answer.model == "m0":
                told.setdefault(answer.question, []).append(answer.verdict)
    for question, verdicts in told.items():
        for verdict in ("acceptable", "concern"):
            rate = float(np.mean([each == verdict for each in verdicts]))
            where = f"{setting}: exactly as required"
            yield Cell(
                f'wrong "{verdict}", {question.replace("_", " ")}', where, rate, n_samples, at_most=WRONG_VERDICTS
            )


def cells(n_samples: int, seed: int, *, thin: bool = False) -> Iterator[Cell]:
    """Coverage in each setting, by stay, and verdicts."""
    settings = [Setting(300, 0.2), Setting(300, 0.1, 3), Setting(600, 0.2, validation=False)]
    if not thin:
        settings += [Setting(120, 0.3), Setting(2000, 0.1), Setting(1000, 0.05), Setting(600, 0.2, auroc=0.95)]
    n = min(n_samples, 150) if thin else n_samples
    for setting in settings:
        yield from _coverage_cells(setting, coverage(setting, n, seed))
    for n_stays in (200,) if thin else (60, 200, 800):
        yield from _ward_cells(n_stays, n, seed)
    yield from _ward_cells(600, n, seed, weighted=True)
    yield from _verdict_cells(n, seed)
