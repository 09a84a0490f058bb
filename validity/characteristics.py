"""The characteristics audit on simulated patients whose true change of risk and true flips are known.

Risks are logistic. In `usual risks` patients differ moderately; in `a few carry the risk` most are near 0 and few are
high, so that a change of the log-odds moves the risk of few. Every note's logit moves with the group, by another amount
in every patient, and a note's own noise comes on top. In `one in twenty reacts` the others do not change; it is
measured from 100 patients on, because one sample of 60 in twenty has no such patient, and no interval can know of them.
Verdicts are safe all the same: 0 of 60 decisions exclude little.

Coverage is measured with one label per data set: labels share patients' numbers of notes, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from palpate import Cohort
from palpate.audits.characteristics import Characteristics
from palpate.audits.characteristics.measures import ModelMeasures, Sums, measure_model
from palpate.audits.characteristics.observed import ObservedGroups, amplification, deviations, observed_rates
from palpate.audits.characteristics.plan import AlteredNotes
from palpate.audits.kit.resampling import Resampling
from palpate.results import AuditResult, ModelPredictions, Plan, Predictions
from palpate.results.verdicts import MARGINS
from palpate.stats import percentile_interval
from palpate.stats.clustered import Units, units_of
from palpate.stats.curves import curve_variance, roughness
from validity import COVERAGE, FALSE_ALARMS, WRONG_VERDICTS, Cell, age_ranges

Floats = NDArray[np.float64]
Rng = np.random.Generator
THRESHOLD = 0.3
N_REPLICATES = 400
SHIFT, FLIPS = MARGINS["shift"].value, MARGINS["flips"].value


def cells(n_samples: int, seed: int, *, thin: bool = False) -> Iterator[Cell]:
    """Coverage of every interval that is printed, then the audit as a whole."""
    rng = np.random.default_rng(seed)
    yield from _means_and_shares(n_samples, rng, (30, 100) if thin else (30, 60, 100, 300))
    yield from _rare_flips(n_samples, rng, (30, 100) if thin else (30, 60, 100, 300))
    yield from _curves(n_samples, rng, (100,) if thin else (100, 400))
    yield from age_ranges.cells(n_samples, rng, (100,) if thin else (100, 400))
    yield from _observed(n_samples, rng, (300,) if thin else (300, 2000))
    yield from _false_alarms(n_samples, rng, thin=thin)
    yield from _power(n_samples, rng, (300,) if thin else (100, 300, 1000))
    yield from _wrong_verdicts(n_samples, rng, (300,) if thin else (60, 300, 1000))


# --- patients -----------------------------------------------------------------------------------------------------


class Risks(NamedTuple):
    """A population of patients: their log-odds, and how far the second group moves them."""

    name: str
    base: Callable[[Rng, tuple[int, ...]], Floats]
    moved: Callable[[Rng, tuple[int, ...]], Floats]


POPULATIONS = (
    Risks("usual risks", lambda rng, n: rng.normal(-1.5, 1.0, n), lambda rng, n: rng.normal(0.2, 0.2, n)),
    Risks("a few carry the risk", lambda rng, n: rng.normal(-5.0, 2.0, n), lambda rng, n: rng.normal(0.5, 0.2, n)),
    Risks("nobody moves on average", lambda rng, n: rng.normal(-2.0, 1.5, n), lambda rng, n: rng.normal(0.0, 0.3, n)),
    Risks(
        "one in twenty reacts",
        lambda rng, n: rng.normal(-2.0, 1.0, n),
        lambda rng, n: np.where(rng.random(n) < 0.05, 1.5, 0.0) + rng.normal(0, 0.01, n),
    ),
)


def patients(rng: Rng, n: int, notes: str) -> Units:
    """Patients with one note, or with one to five."""
    return units_of(np.repeat(np.arange(n), 1 if notes == "one note" else rng.integers(1, 6, n)))


def predictions(rng: Rng, risks: Risks, units: Units, n_labels: int) -> Floats:
    """[note, group, label]: the reference group, one that moves, and one that is noise only."""
    n, own = (len(units.size), n_labels), (len(units.code), 3, n_labels)
    base, moved = risks.base(rng, n)[units.code], risks.moved(rng, n)[units.code]
    groups = np.stack([base, base + moved, base], axis=1)
    return np.asarray(expit(groups + 0.1 * rng.normal(size=own)))


def measured(p: Floats, units: Units, **more: object) -> ModelMeasures:
    sums = Sums.of(p, p[:, 1], np.full(p.shape[2], THRESHOLD), reference=0, units=units)
    return measure_model(sums, units, Resampling(n_replicates=N_REPLICATES), **more)  # type: ignore[arg-type]


def _means_and_shares(n_samples: int, rng: Rng, sizes: Sequence[int]) -> Iterator[Cell]:
    for risks in POPULATIONS:
        whole = units_of(np.arange(1_000_000))
        truth = measured(predictions(rng, risks, whole, 1), whole)
        for n in (size for size in sizes if size >= 100 or risks.name != "one in twenty reacts"):
            for notes in ("one note", "1 to 5 notes"):
                units = patients(rng, n, notes)
                found = measured(predictions(rng, risks, units, n_samples), units)
                setting = f"{n} patients, {notes}, {risks.name}"
                for what, name, group in (
                    ("a mean probability", "mean_probability", 1),
                    ("a difference", "difference", 1),
                    ("a deviation", "deviation", 2),
                    ("flipped decisions", "flip_rate", 1),
                ):
                    value = getattr(truth, name).value[group, 0]
                    low, high = (end[group] for end in getattr(found, name).ends(0.05))
                    rate = float(np.mean((low <= value) & (value <= high)))
                    yield Cell(f"coverage of {what}", setting, rate, n_samples, COVERAGE)


def _rare_flips(n_samples: int, rng: Rng, sizes: Sequence[int]) -> Iterator[Cell]:
    """Decisions that flip in few patients, in all of their notes or in single ones."""
    for n in sizes:
        for share in (0.005, 0.02, 0.1):
            for notes, together in (("one note", True), ("1 to 5 notes, alike", True), ("1 to 5 notes", False)):
                units = patients(rng, n, notes)
                size = (n if together else len(units.code), n_samples)
                flipped = rng.random(size) < share
                moved = np.where(flipped[units.code] if together else flipped, 0.02, 0.0)
                found = measured(
                    np.stack([np.full_like(moved, THRESHOLD - 0.01), THRESHOLD - 0.01 + moved], axis=1), units
                )
                low, high = (end[1] for end in found.flip_rate.ends(0.05))
                rate = float(np.mean((low <= share) & (share <= high)))
                yield Cell(
                    "coverage of rare flips", f"{n} patients, {notes}, {share:.1%} flip", rate, n_samples, COVERAGE
                )


def _curves(n_samples: int, rng: Rng, sizes: Sequence[int]) -> Iterator[Cell]:
    """An age curve with a slope and noise of its own; patients follow it more or less, and have noise of their own."""
    ages, batch = np.linspace(-1, 1, 72), 20
    for n in sizes:
        for noise in (0.003, 0.01, 0.03):
            own = noise * rng.normal(size=72)
            truth = curve_variance(0.1 * ages + own)
            bend = own[35] - (own[34] + own[36]) / 2
            held = []
            units = units_of(np.arange(n))
            for _ in range(-(-n_samples // batch)):
                follows = np.exp(rng.normal(-0.125, 0.5, (n, 1, batch)))
                p = 0.4 + (0.1 * ages + own)[:, None] * follows + 0.05 * rng.normal(size=(n, 72, batch))
                sums = Sums.of(p, p[:, 0], np.full(batch, 0.4), reference=30, units=units, years=np.arange(72))
                resampling = Resampling(n_replicates=N_REPLICATES, seed=int(rng.integers(2**31)))
                found = measure_model(sums, units, resampling, run=np.arange(72), years=np.arange(72))
                rough = roughness(found.curve)  # type: ignore[arg-type]
                gap = [end[34] for end in found.gap.ends(0.05)]
                share, jump = percentile_interval(rough.share_values), percentile_interval(rough.jump_values)
                value, size = float(truth.noise / truth.total), float(np.sqrt(truth.noise))
                held.append(
                    [(low <= at) & (at <= high) for (low, high), at in ((gap, bend), (share, value), (jump, size))]
                )
            rates = np.concatenate(held, axis=1).mean(axis=1)
            for what, rate in zip(("an age against its neighbours", "roughness", "an age jump"), rates, strict=True):
                setting = f"{n} patients, 72 ages, noise {noise:g}"
                yield Cell(f"coverage of {what}", setting, float(rate), len(held) * batch, COVERAGE)


def _observed(n_samples: int, rng: Rng, sizes: Sequence[int]) -> Iterator[Cell]:
    """Three groups in the training data, and a model that repeats half of what it saw there."""
    batch, slope = 50, 0.5
    for n, alike in ((n, alike) for n in sizes for alike in (False, True)):
        rates = np.asarray([0.02, 0.10, 0.20])
        truth, held, slopes = deviations(rates[:, None])[:, 0], [], []
        units = units_of(np.repeat(np.arange(n), 1 if not alike else rng.integers(1, 6, n)))
        for _ in range(-(-n_samples // batch)):
            group = rng.integers(0, 3, n)[units.code]
            size = (n if alike else len(units.code), batch)
            drawn = rng.normal(size=size)[units.code] if alike else rng.normal(size=size)
            y = (drawn < ndtri(rates[group])[:, None]).astype(np.uint8)
            resampling = Resampling(n_replicates=N_REPLICATES, seed=int(rng.integers(2**31)))
            groups = ObservedGroups(np.arange(len(group)), group, "simulated")
            seen = observed_rates(groups, y, units, n_groups=3, resampling=resampling)
            held.append(
                [
                    (seen.low[1] <= rates[1]) & (rates[1] <= seen.high[1]),
                    (seen.deviation_low[0] <= truth[0]) & (truth[0] <= seen.deviation_high[0]),
                ]
            )
            audited = units_of(np.arange(200))
            follows = np.exp(rng.normal(-0.125, 0.5, (200, 1, batch)))
            p = 0.3 + slope * rates[None, :, None] * follows + 0.02 * rng.normal(size=(200, 3, batch))
            products = measured(p, audited, observed=seen).products
            squares, drawn_squares = (seen.deviation**2).sum(axis=0), (seen.deviation_values**2).sum(axis=0)
            for j in range(batch):
                point, values = products.point[j], products.values[j]  # type: ignore[union-attr]
                slopes.append(amplification(point, values, squares[j], drawn_squares[j], level=0.95))
        found = np.concatenate(held, axis=1).mean(axis=1)
        setting = f"{n} training patients, {'1 to 5 notes, alike' if alike else 'one note'}, rates 2, 10, 20%"
        for what, rate in zip(("an observed rate", "an observed deviation"), found, strict=True):
            yield Cell(f"coverage of {what}", setting, float(rate), len(held) * batch, COVERAGE)
        known = [each for each in slopes if np.isfinite(each.low)]
        if len(known) >= min(n_samples, 200):
            rate = float(np.mean([each.low <= slope <= each.high for each in known]))
            yield Cell("coverage of amplification", setting, rate, len(known), COVERAGE)


# --- the whole audit ----------------------------------------------------------------------------------------------

GENDER = Characteristics(alter=("gender",), observed="none", threshold=THRESHOLD, n_replicates=100, examples=0)
AGE = replace(GENDER, alter=("age",), ages=tuple(range(40, 60)))


class Bench:
    """One audit of notes that name their patient; predictions are put in place of a model's."""

    def __init__(
        self, audit: Characteristics, n: int, n_labels: int = 1, notes: int = 1, *, smokers: bool = False
    ) -> None:
        """Smokers have smoked for up to 40 years, so that they can't have every age."""
        self.n, self.n_labels, self.notes = n, n_labels, notes
        rows, labels = n * notes, [f"label {j}" for j in range(n_labels)]
        frame = pl.DataFrame(
            {
                "case_id": [f"c{k}" for k in range(rows)],
                "patient_id": [f"p{k // notes}" for k in range(rows)],
                "text": [
                    f"Patient is a 59 year old man who fell. He has smoked for {1 + k % 40} years."
                    if smokers
                    else f"Patient is a {40 + k % 20} year old man who fell."
                    for k in range(rows)
                ],
                **{label: [k % 2 for k in range(rows)] for label in labels},
            }
        )
        cohort = Cohort.from_frame(frame, labels=labels, name="simulated")
        self.audit = audit
        self.plan: Plan[AlteredNotes] = audit.plan(cohort, np.random.default_rng(0))

    def audited(self, p: Floats, rng: Rng) -> AuditResult:
        """The audit of a model that predicts p[note, group, label], or p[patient, group, label] for all notes."""
        memory = self.plan.memory
        arm, p = memory.arms[0], np.repeat(p, self.notes, axis=0) if len(p) == self.n else p
        whole = np.zeros((len(self.plan.variants), self.n_labels))
        whole[arm.first : arm.stop] = (p if arm.possible is None else p[arm.possible]).reshape(-1, self.n_labels)
        whole[memory.original[arm.rows]] = p[:, arm.reference]
        answers = ModelPredictions(self.plan.labels, whole, np.ones(len(whole), dtype=np.bool_))
        return self.audit.analyse(self.plan, Predictions({"m": answers}), rng)

    def groups(self, reference: Floats, female: Floats) -> Floats:
        """[note, group, label] of an audit of gender: women differ, transgender or not; nobody else does."""
        return np.stack([female, reference, female, reference, reference], axis=1)


def _false_alarms(n_samples: int, rng: Rng, *, thin: bool) -> Iterator[Cell]:
    """A model that cannot see the characteristic, and one that any edit disturbs, but no group more than another."""
    for what, audit, n, notes, noise in (
        ("gender, 8 labels, 100 patients, blind", GENDER, 100, 1, 0.0),
        ("gender, 8 labels, 30 patients, noise", GENDER, 30, 1, 0.3),
        ("20 ages, 8 labels, 100 patients who can have different ages, noise", AGE, 100, 1, 0.3),
        ("gender, 8 labels, 100 patients with 3 notes, noise", GENDER, 100, 3, 0.3),
        ("20 ages, 8 labels, 60 patients, noise", AGE, 60, 1, 0.3),
        ("20 ages, 8 labels, 300 patients, noise", AGE, 300, 1, 0.3),
    )[: 3 if thin else None]:
        bench = Bench(audit, n, 8, notes, smokers="different ages" in what)
        n_groups = len(bench.plan.memory.arms[0].groups)
        metric = "neighbour_gap" if audit is AGE else "difference"
        alarms = 0
        for _ in range(n_samples):
            base = np.repeat(rng.normal(-3.0, 1.5, (n, 1, 8)), notes, axis=0)
            p = expit(base + noise * rng.normal(size=(n * notes, n_groups, 8)))
            found = bench.audited(p, rng).estimates.filter(pl.col("metric") == metric)
            alarms += bool(found["significant"].any())
        yield Cell("family-wise false alarms", what, alarms / n_samples, n_samples, at_most=FALSE_ALARMS)


PUBLISHED = (
    ("CORe, transgender", 0.245, -0.016),
    ("CORe, White", 0.243, -0.008),
    ("PubMedBERT, transgender", 0.333, -0.007),
    ("BioBERT, African American", 0.120, -0.004),
)
"""Mean mortality risk and its change in the characteristics paper's Tables 2 and 3 (9,829 notes)."""


def logits(rng: Rng, n: int, mean: float, change: float) -> tuple[Floats, Floats]:
    """Log-odds of patients and by how much each moves, so that the mean risk and its change are as given."""
    middle, size = _calibrated(mean, change)
    return middle + 1.2 * rng.normal(size=(n, 1)), size * np.exp(rng.normal(-0.125, 0.5, (n, 1)))


@cache
def _calibrated(mean: float, change: float) -> tuple[float, float]:
    fixed = np.random.default_rng(0)
    spread, unequal = fixed.normal(size=1_000_000), np.exp(fixed.normal(-0.125, 0.5, 1_000_000))
    middle = _solve(lambda at: float(expit(at + 1.2 * spread).mean()), mean, -12.0, 4.0)
    size = _solve(lambda at: float(expit(middle + 1.2 * spread + at * unequal).mean()), mean + change, -6.0, 6.0)
    return middle, size


def _solve(rising: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < wanted else (low, middle)
    return (low + high) / 2


def _power(n_samples: int, rng: Rng, sizes: Sequence[int]) -> Iterator[Cell]:
    for n in sizes:
        bench = Bench(GENDER, n)
        for name, mean, change in PUBLISHED:
            shown, said = 0, []
            for _ in range(n_samples):
                base, moved = logits(rng, n, mean, change)
                noise = 0.3 * rng.normal(size=(2, n, 1))
                result = bench.audited(bench.groups(expit(base + noise[0]), expit(base + moved + noise[1])), rng)
                rows = result.estimates.filter(metric="difference", group="gender=female")
                shown += bool(rows["significant"][0])
                said.append(result.answers[0].verdict)
            setting = f"{n} patients, mean risk {mean:g}, change {change:g} ({name})".replace("-", "−")
            yield Cell("power: the change is seen", setting, shown / n_samples, n_samples)
            if abs(change) > SHIFT:
                yield Cell('power: "concern"', setting, said.count("concern") / n_samples, n_samples)


def _wrong_verdicts(n_samples: int, rng: Rng, sizes: Sequence[int]) -> Iterator[Cell]:
    """Exactly at the margin, "acceptable" is wrong, and so is "concern"."""

    def few(n: int, labels: int) -> tuple[Floats, Floats]:
        """One patient in fifty carries the whole change."""
        base = expit(rng.normal(-1.0, 0.5, (n, labels))) * 0.2
        return base, base + np.where(rng.random((n, labels)) < 0.02, SHIFT / 0.02, 0.0)

    def usual(n: int, labels: int) -> tuple[Floats, Floats]:
        pairs = [logits(rng, n, 0.12, SHIFT) for _ in range(labels)]
        base, moved = (np.concatenate([pair[k] for pair in pairs], axis=1) for k in (0, 1))
        return expit(base), expit(base + moved)

    def flipped(n: int, labels: int) -> tuple[Floats, Floats]:
        near = rng.random((n, labels)) < FLIPS
        base = np.where(near, THRESHOLD - 0.005, 0.1 + 0.1 * rng.random((n, labels)))
        return base, base + np.where(near, 0.01, 0.0)

    quiet = replace(GENDER, threshold=0.99)
    for n in sizes:
        for name, audit, draw, n_labels in (
            ("mean change at the margin", quiet, usual, 1),
            ("mean change at the margin in 8 labels", quiet, usual, 8),
            ("one in fifty carries the change", quiet, few, 1),
            ("flips at the margin", GENDER, flipped, 1),
        ):
            bench, said = Bench(audit, n, n_labels), []
            for _ in range(n_samples):
                reference, female = draw(n, n_labels)
                said.append(bench.audited(bench.groups(reference, female), rng).answers[0].verdict)
            yield from _wrong(said, f"{n} patients, {name}")
        for who, smokers in (("patients", False), ("patients who can have different ages", True)):
            bench, said = Bench(AGE, n, smokers=smokers), []
            for _ in range(n_samples):
                # A cliff at one birthday for as many as the margin allows; the others never come near the threshold.
                near = rng.random((n, 1, 1)) < FLIPS
                p = np.where(near, THRESHOLD - 0.002, 0.1 + 0.1 * rng.random((n, 1, 1)))
                p = p + np.where(near & (np.arange(20) >= 10)[None, :, None], 0.004, 0.0)
                said.append(bench.audited(p, rng).answers[0].verdict)
            yield from _wrong(said, f"{n} {who}, flips at one birthday at the margin")


def _wrong(said: Sequence[str], setting: str) -> Iterator[Cell]:
    for verdict in ("acceptable", "concern"):
        rate = said.count(verdict) / len(said)
        yield Cell(f'wrong "{verdict}"', setting, rate, len(said), at_most=WRONG_VERDICTS)
