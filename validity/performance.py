"""Performance: coverage of every interval, false alarms over labels and models, power, and wrong verdicts.

Patients are positive with a given probability; their scores are normal, shifted for positives so that the AUROC is
known, and turned into calibrated probabilities. Three notes of a patient share half of their variance. A second model
shares 60% of the first one's noise. Where the spread is unequal, scores of positives vary 2.5 times as much; tied
scores are rounded to whole numbers. Where notes are uneven, a patient has 1 to dozens (1 and a negative binomial with
mean 4 and dispersion 0.5), which share 90% of their variance. Where cases are weighted, three times as many positives
are sampled as there are, and weights undo that; they vary by a lognormal factor (0.8) besides. Many samples are one
call: each is a label of one population. Influences stand for resamples from 1,000 patients and 30 of a class on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from palpate.audits.kit.differences import ContrastTerm, difference_interval
from palpate.audits.kit.metrics import MetricReplicates
from palpate.audits.kit.missing.shares import DIFFERENCE, SHARE, LabelCases, share_rows
from palpate.audits.kit.rows import RowWriter
from palpate.audits.performance import Performance
from palpate.audits.performance.measures import Labels, measure, measure_labels
from palpate.audits.performance.populations import METRICS, Measuring, Population, ScoreTable
from palpate.cases.cohort import Cohort
from palpate.results import MACRO, MICRO, AuditResult, ModelPredictions, Predictions
from validity import COVERAGE, FALSE_ALARMS, WRONG_VERDICTS, Cell
from validity.weights import KINDS, draw_weighted

Floats = NDArray[np.float64]
PERFECT = 1.0
_WEIGHED = ((300, 0.1, 0.75, 1), (600, 0.05, 0.9, 1), (300, 0.25, 0.7, 2))
"""Patients, share of positives, AUROC and notes of each, with weights of several kinds."""
_MANY = (2000, 0.1, 0.8, 1)
"""Enough that weights by outcome count for what they tell."""
_REPLICATES = 300
_AT_ONCE = 250
_MEASURING = Measuring(0.95, 10, "patient", _REPLICATES)
GROUPS = {
    "AUROC": ("auroc",),
    "AUPRC": ("auprc",),
    "sensitivity, specificity, recall": ("sensitivity", "specificity", "recall_0", "recall_1"),
    "PPV, NPV, precision": ("ppv", "npv", "precision_0", "precision_1"),
    "F1": ("f1_0", "f1_1"),
    "sensitivity at specificity": ("sensitivity_at_specificity",),
    "Brier score": ("brier",),
    "Brier skill": ("brier_skill_score",),
    "calibration error": ("adaptive_calibration_error",),
}


class Setting(NamedTuple):
    """What is simulated."""

    n_patients: int
    share: float
    """Of patients who are positive."""
    auroc: float
    n_notes: int
    shape: str = "equal"

    @property
    def sampled(self) -> float:
        """The share of the sampled patients who are positive."""
        return min(3 * self.share, 0.6) if self.shape == "weighted" else self.share

    def weights(self, positive: NDArray[np.bool_], rng: np.random.Generator) -> Floats | None:
        """What makes the sample stand for all patients; None where it does as it is."""
        if self.shape != "weighted":
            return None
        undone = np.where(positive, self.share / self.sampled, (1 - self.share) / (1 - self.sampled))
        return np.asarray(undone * rng.lognormal(0.0, 0.8, len(positive)))

    def notes(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """How many notes each patient has."""
        if self.shape == "uneven":
            return 1 + rng.negative_binomial(0.5, 0.5 / 4.5, self.n_patients)
        return np.full(self.n_patients, self.n_notes)

    def __str__(self) -> str:
        auroc = "perfect separation" if self.auroc == PERFECT else f"AUROC {self.auroc:g}"
        return f"{self.share:.0%} positive, {auroc}"


def draw(
    setting: Setting, rng: np.random.Generator, n_samples: int
) -> tuple[NDArray[np.bool_], Floats, NDArray[np.int64]]:
    """Outcomes [note, sample], the probabilities of two models [model, note, sample], and the patient of each note."""
    patient = np.repeat(np.arange(setting.n_patients), setting.notes(rng))
    positive = (rng.random((setting.n_patients, n_samples)) < setting.sampled)[patient]
    spread = {"unequal": 2.5}.get(setting.shape, 1.0)
    calibrated = 7.0 if setting.auroc == PERFECT else math.sqrt(2) * NormalDist().inv_cdf(setting.auroc)
    shift = calibrated * math.sqrt((1 + spread**2) / 2)
    common = _noise(setting, rng, patient, n_samples)
    scores = []
    for _ in range(2):
        noise = math.sqrt(0.6) * common + math.sqrt(0.4) * _noise(setting, rng, patient, n_samples)
        score = np.where(positive, shift + spread * noise, noise)
        scores.append(np.round(score) if setting.shape == "tied" else score)
    odds = math.log(setting.share / (1 - setting.share)) + calibrated * np.stack(scores) - calibrated**2 / 2
    return positive, 1 / (1 + np.exp(-np.clip(odds, -30, 30))), patient


def _noise(setting: Setting, rng: np.random.Generator, patient: NDArray[np.int64], n_samples: int) -> Floats:
    own = rng.normal(size=(len(patient), n_samples))
    if setting.n_notes == 1:
        return own
    share = 0.9 if setting.shape == "uneven" else 0.5
    shared = rng.normal(size=(setting.n_patients, n_samples))[patient]
    return math.sqrt(share) * shared + math.sqrt(1 - share) * own


def part_of(setting: Setting, rng: np.random.Generator, n_samples: int, threshold: float, n: int) -> MetricReplicates:
    """The audit's own measures of many samples, each as a label of one population, on `n` resamples."""
    weight: Floats | None
    if setting.shape in KINDS:
        plain = setting._replace(shape="equal")
        sample, weight = draw_weighted(
            setting.shape, lambda n: draw(plain._replace(n_patients=n), rng, n_samples), setting.n_patients, rng
        )
        y_true, y_score, patient = sample
    else:
        y_true, y_score, patient = draw(setting, rng, n_samples)
        weight = setting.weights(y_true[:, 0], rng)
    limits = np.full((2, n_samples), threshold)
    scores, drawn = ScoreTable(list(y_score)), int(rng.integers(2**60))
    population = Population("simulated", y_true.astype(np.uint8), scores, limits, patient, drawn)
    population = population._replace(weight=weight)
    names = [str(k) for k in range(n_samples)]
    how = replace(_MEASURING, method="influence" if setting.shape == "influence" else "resample")
    return measure_labels(population, names, np.arange(n_samples), ("a", "b"), how, n)


def truth_of(setting: Setting) -> tuple[Floats, float]:
    """The metrics of half a million patients at the threshold that finds 70% of them, and that threshold."""
    shape = "equal" if setting.shape in ("uneven", "weighted", "influence", *KINDS) else setting.shape
    large = setting._replace(n_patients=500_000, n_notes=1, shape=shape)
    y_true, y_score, _ = draw(large, np.random.default_rng(7), 1)
    threshold = float(np.quantile(y_score[0][y_true], 0.3))
    return part_of(large, np.random.default_rng(7), 1, threshold, 0).point[0, :, 0], threshold


class Held(NamedTuple):
    """How often an interval held the truth, and how many intervals there were."""

    rate: float
    n: int


def coverage(setting: Setting, n_samples: int, seed: int) -> dict[str, Held]:
    """Of levels, of the paired difference of two models of equal truth, and of that of two cohorts."""
    truth, threshold = truth_of(setting)
    rng, hits = np.random.default_rng(seed), dict[str, list[NDArray[np.bool_]]]()
    # All samples of a call have the same numbers of notes, and the same weights.
    at_once = {"uneven": 10, "influence": 10, **dict.fromkeys(("weighted", *KINDS), 1)}.get(setting.shape, _AT_ONCE)
    previous = part_of(setting, rng, 1, threshold, _REPLICATES) if at_once == 1 else None
    for first in range(0, n_samples, at_once):
        part = part_of(setting, rng, min(at_once, n_samples - first), threshold, _REPLICATES)
        spread = part.spread(0.95)
        pair = difference_interval([ContrastTerm(part, "a", 1.0), ContrastTerm(part, "b", -1.0)], 0.95)
        other = _next(part) if previous is None else previous
        moved = difference_interval([ContrastTerm(part, "a", 1.0), ContrastTerm(other, "a", -1.0)], 0.95)
        previous = None if previous is None else part
        for k, metric in enumerate(METRICS):
            for what, low, high, wanted in (
                (metric, spread.low[0, k], spread.high[0, k], truth[k]),
                (f"{metric}, paired", pair[0][k], pair[1][k], 0.0),
                (f"{metric}, cohorts", moved[0][k], moved[1][k], 0.0),
            ):
                known = ~np.isnan(low)
                inside = (low <= wanted + 1e-9) & (wanted <= high + 1e-9)
                hits.setdefault(what, []).append(inside[known])
    return {what: Held(float(np.concatenate(each).mean()), sum(map(len, each))) for what, each in hits.items()}


def _next(part: MetricReplicates) -> MetricReplicates:
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
    """Coverage at each size, the worst setting of each; then averages, false alarms, power and verdicts."""
    sizes = (60, 500) if thin else (60, 100, 200, 500)
    shares = (0.05, 0.30) if thin else (0.05, 0.10, 0.30)
    levels = (0.6, 0.95) if thin else (0.6, 0.8, 0.95, PERFECT)
    for n_patients, n_notes in product(sizes, (1, 3)):
        settings = [Setting(n_patients, *each, n_notes) for each in product(shares, levels)]
        where = f"{n_patients} patients, {_notes(n_notes)}"
        yield from _coverage_cells(settings, where, n_samples, seed)
    for shape in ("unequal", "tied"):
        chosen = product(sizes[::3], shares[::2], (0.6, 0.95))
        settings = [Setting(n, share, auroc, 1, shape) for n, share, auroc in chosen]
        yield from _coverage_cells(settings, f"{shape} scores, {sizes[0]} patients and more", n_samples, seed)
    settings = [Setting(n, share, 0.8, 5, "uneven") for n, share in ((200, 0.05), (200, 0.3), (500, 0.1))]
    yield from _coverage_cells(
        settings[: 1 if thin else None], "uneven numbers of notes, 200 patients and more", n_samples, seed
    )
    settings = [
        Setting(n, share, auroc, notes, "weighted")
        for n, share, auroc, notes in ((200, 0.05, 0.8, 1), (500, 0.1, 0.95, 1), (500, 0.2, 0.6, 3), (200, 0.2, 0.8, 3))
    ]
    yield from _coverage_cells(
        settings[:: 2 if thin else 1], "sampling weights, 200 patients and more", n_samples, seed
    )
    for kind in KINDS[-1:] if thin else KINDS:
        settings = [
            Setting(n, share, auroc, notes, kind)
            for n, share, auroc, notes in (*_WEIGHED, *([_MANY] if kind == "by outcome" else []))
        ]
        where = f"weights of another kind ({kind}), 300 patients and more"
        yield from _coverage_cells(settings[: 1 if thin else None], where, n_samples, seed + 1)
    yield from _length_cells(min(n_samples, 100 if thin else 400), seed)
    settings = [
        Setting(1000, share, auroc, notes, "influence")
        for share, auroc, notes in ((0.05, 0.6, 1), (0.05, 0.95, 1), (0.3, 0.8, 3), (0.1, 0.8, 3))
    ]
    where = "influences in place of resamples, 1000 patients"
    yield from _coverage_cells(settings[:: 2 if thin else 1], where, n_samples, seed)
    yield from _missing_cells(n_samples, seed)
    n_audits = min(n_samples, 60 if thin else 400)
    yield from _average_cells(n_audits, seed)
    yield from _audit_cells(n_audits, seed)


def _notes(n: int) -> str:
    return "1 note each" if n == 1 else f"{n} notes each"


def _coverage_cells(settings: list[Setting], where: str, n_samples: int, seed: int) -> Iterator[Cell]:
    """One cell per group of metrics: the setting in which it is covered least."""
    found = {setting: coverage(setting, n_samples, seed) for setting in settings}
    for group, metrics in GROUPS.items():
        for suffix, what in (
            ("", ""),
            (", paired", "difference of models, "),
            (", cohorts", "difference of cohorts, "),
        ):
            rates = [(held[f"{metric}{suffix}"], setting) for setting, held in found.items() for metric in metrics]
            worst, setting = min(rates, key=lambda each: each[0].rate)
            yield Cell(
                f"coverage of {what}{group}", f"{where}; least at {setting}", worst.rate, worst.n, at_least=COVERAGE
            )


def _length_cells(n_samples: int, seed: int) -> Iterator[Cell]:
    """What chance needs of an interval's length where weights depend on the outcome: 3.92 standard deviations."""
    setting, rng = Setting(*_MANY, "by outcome"), np.random.default_rng(seed)
    _, threshold = truth_of(setting)
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(n_samples):
        part = part_of(setting, rng, 1, threshold, _REPLICATES)
        spread = part.spread(0.95)
        for metric in ("ppv", "npv", "f1_1"):
            k = METRICS.index(metric)
            found.setdefault(metric, []).append((part.point[0, k, 0], spread.high[0, k, 0] - spread.low[0, k, 0]))
    for metric, each in found.items():
        values, lengths = np.asarray(each).T
        needed = min(3.92 * float(values.std(ddof=1)) / float(lengths.mean()), 1.0)
        what = f"length that {metric} needs, as a share of its interval"
        yield Cell(
            what, f"weights by outcome, {setting.n_patients:,} patients, {setting}", needed, n_samples, at_least=0.8
        )


def _missing_cells(n_samples: int, seed: int) -> Iterator[Cell]:
    """How many scores are missing, and whether more often in positives: as often in both, with weights."""
    rng, writer = np.random.default_rng(seed), RowWriter("performance")
    for n_patients, n_notes, share, positive in ((60, 1, 0.05, 0.3), (200, 3, 0.03, 0.3), (200, 3, 0.3, 0.1)):
        patient, limit = np.repeat(np.arange(n_patients), n_notes), NormalDist().inv_cdf(share)
        held: dict[str, list[bool]] = {SHARE: [], DIFFERENCE: []}
        for _ in range(n_samples):
            shared, own = rng.normal(size=n_patients)[patient], rng.normal(size=len(patient))
            missing = (own if n_notes == 1 else math.sqrt(0.5) * (shared + own)) < limit
            outcome, weight = (rng.random(n_patients) < positive)[patient], rng.lognormal(0, 0.5, len(patient))
            for row in share_rows(writer, LabelCases("here", missing, outcome, patient, weight), "a", "ill"):
                if row.metric in held and row.low is not None and row.high is not None:
                    held[row.metric].append(row.low <= (share if row.metric == SHARE else 0.0) <= row.high)
        where = f"{n_patients} patients, {_notes(n_notes)}, {share:.0%} missing, sampling weights"
        for metric, each in held.items():
            what = metric.replace("_", " ")
            yield Cell(f"coverage of {what}", where, float(np.mean(each)), len(each), at_least=COVERAGE)


def _average_cells(n_samples: int, seed: int) -> Iterator[Cell]:
    """Means over labels, and all pairs pooled: 300 patients, 6 labels."""
    shares, n = np.linspace(0.08, 0.3, 6), 300
    labels = Labels(tuple(f"label{k}" for k in range(6)), np.arange(6), np.arange(0))

    def population(rng: np.random.Generator, n_patients: int, threshold: Floats) -> Population:
        drawn = [draw(Setting(n_patients, share, 0.8, 1), rng, 1) for share in shares]
        y_true = np.concatenate([y for y, _, _ in drawn], axis=1).astype(np.uint8)
        y_score = ScoreTable(list(np.concatenate([p for _, p, _ in drawn], axis=2)))
        return Population("simulated", y_true, y_score, threshold, np.arange(n_patients), int(rng.integers(2**60)))

    threshold = np.tile(shares, (2, 1))
    large = population(np.random.default_rng(7), 300_000, threshold)
    truth = measure([large], labels, ("a", "b"), replace(_MEASURING, n_replicates=0)).parts[0]
    rng, hits = np.random.default_rng(seed), list[dict[str, bool]]()
    for _ in range(n_samples):
        parts = measure([population(rng, n, threshold)], labels, ("a", "b"), _MEASURING).parts[0]
        held: dict[str, bool] = {}
        for name, part, known in zip(("macro", "micro"), parts[1:], truth[1:], strict=True):
            wanted = known.point
            if name == "macro":
                assert part.kept is not None
                weight = part.kept / np.maximum(part.kept.sum(axis=1, keepdims=True), 1)
                wanted = (np.nan_to_num(truth[0].point) * weight).sum(axis=2, keepdims=True)
            spread = part.spread(0.95)
            pair = difference_interval([ContrastTerm(part, "a", 1.0), ContrastTerm(part, "b", -1.0)], 0.95)
            for k, metric in enumerate(METRICS):
                held[f"{name} {metric}"] = bool(spread.low[0, k, 0] <= wanted[0, k, 0] <= spread.high[0, k, 0])
                held[f"{name} {metric}, paired"] = bool(pair[0][k, 0] <= 0 <= pair[1][k, 0])
        hits.append(held)
    for group, metrics in GROUPS.items():
        for name, suffix in product(("macro", "micro"), ("", ", paired")):
            rate = min(float(np.mean([held[f"{name} {metric}{suffix}"] for held in hits])) for metric in metrics)
            what = f"difference of models, {name} {group}" if suffix else f"{name} {group}"
            yield Cell(f"coverage of {what}", "300 patients, 6 labels of 8–30%", rate, n_samples, at_least=COVERAGE)


def _audit(scores: dict[str, Floats], y_true: NDArray[Any], **options: Any) -> AuditResult:
    """The audit itself on cases without text, one note per patient."""
    n, n_labels = y_true.shape
    ids = [str(k) for k in range(n)]
    cases = pl.DataFrame({"case_id": ids, "patient_id": ids, "cohort": ["here"] * n})
    labels = tuple(f"label{k}" for k in range(n_labels))
    cohort = Cohort(cases, labels, sparse.csc_array(y_true.astype(np.uint8)))
    audit = Performance(n_replicates=_REPLICATES, threshold=0.3, **options)
    plan = audit.plan(cohort, np.random.default_rng(0))
    rows = plan.variants.parent
    answers = {name: ModelPredictions(labels, p[rows], np.ones(n, bool)) for name, p in scores.items()}
    return audit.analyse(plan, Predictions(answers), np.random.default_rng(int(y_true.sum())))


def _models(rng: np.random.Generator, n: int, shifts: dict[str, float], n_labels: int) -> tuple[Any, dict[str, Floats]]:
    """Correlated models with given AUROCs, calibrated on 30% positives."""
    y_true = rng.random((n, n_labels)) < 0.3
    common, scores = rng.normal(size=y_true.shape), {}
    for name, auroc in shifts.items():
        shift = math.sqrt(2) * NormalDist().inv_cdf(auroc)
        score = math.sqrt(0.6) * common + math.sqrt(0.4) * rng.normal(size=y_true.shape) + shift * y_true
        scores[name] = 1 / (1 + np.exp(-(math.log(3 / 7) + shift * score - shift**2 / 2)))
    return y_true, scores


def _audit_cells(n_samples: int, seed: int) -> Iterator[Cell]:
    """Whole audits: three models on four labels, and verdicts at the margin, where they are wrong most often."""
    rng = np.random.default_rng(seed)
    alarms: dict[str, list[bool]] = {"AUROC": [], "calibration error": [], "mean calibration error over labels": []}
    for _ in range(n_samples):
        y_true, scores = _models(rng, 200, dict.fromkeys("abc", 0.8), 4)
        rows = _audit(scores, y_true).estimates.filter(pl.col("reference").is_not_null())
        each = ~pl.col("label").is_in([MACRO])
        error = rows.filter(metric="adaptive_calibration_error")
        alarms["AUROC"].append(bool(rows.filter(each, metric="auroc")["significant"].any()))
        alarms["calibration error"].append(bool(error.filter(each)["significant"].any()))
        alarms["mean calibration error over labels"].append(bool(error.filter(~each)["significant"].any()))
    for what, found in alarms.items():
        setting = f"3 equal models, 200 patients, 4 labels and {MICRO}"
        rate = float(np.mean(found))
        yield Cell(f"family-wise false alarms, {what}", setting, rate, n_samples, at_most=FALSE_ALARMS)
    told: dict[tuple[str, str], list[str]] = {}
    for _ in range(n_samples):
        y_true, scores = _models(rng, 500, {"good": 0.80, "worse": 0.77, "poor": 0.70}, 1)
        for pair in (("good", "worse"), ("good", "poor")):
            result = _audit({name: scores[name] for name in pair}, y_true, required={"auroc": 0.77})
            for answer in result.answers:
                told.setdefault((answer.question, f"{answer.model} of {pair}"), []).append(answer.verdict)
        off = {"off": np.clip(scores["good"] + 0.05, 0, 1)}
        for answer in _audit(off, y_true).answers:
            told.setdefault((answer.question, "off"), []).append(answer.verdict)
    yield from _verdict_cells(told, n_samples)


def _verdict_cells(told: dict[tuple[str, str], list[str]], n: int) -> Iterator[Cell]:
    def share(question: str, who: str, *verdicts: str) -> float:
        return float(np.mean([verdict in verdicts for verdict in told[question, who]]))

    worse, poor = "worse of ('good', 'worse')", "poor of ('good', 'poor')"
    at_margin = "500 patients, AUROC 0.77 against 0.80: on the margin"
    for verdict in ("acceptable", "concern"):
        rate = share("comparison", worse, verdict)
        yield Cell(f'wrong "{verdict}", comparison', at_margin, rate, n, at_most=WRONG_VERDICTS)
        rate = share("separation", worse, verdict)
        yield Cell(f'wrong "{verdict}", separation', "AUROC 0.77, required 0.77", rate, n, at_most=WRONG_VERDICTS)
    rate = share("calibration", "off", "acceptable")
    yield Cell('wrong "acceptable", calibration', "risks 5 points too high", rate, n, at_most=WRONG_VERDICTS)
    rate = share("calibration", "good of ('good', 'poor')", "concern", "caution")
    yield Cell('wrong "concern" or "caution", calibration', "calibrated", rate, n, at_most=WRONG_VERDICTS)
    rate = share("comparison", poor, "concern", "caution")
    yield Cell("power, comparison", "500 patients, AUROC 0.70 against 0.80", rate, n, at_least=0.8)
    rate = share("separation", "good of ('good', 'worse')", "acceptable")
    yield Cell("power, separation", "500 patients, AUROC 0.80, required 0.77", rate, n)
