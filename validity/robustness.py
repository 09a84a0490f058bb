"""The robustness audit on notes that the text engine perturbs, with predictions whose true reaction is known.

The notes are made; what is simulated is the model. A patient's log-odds have a spread of their own, and a note's noise
comes on top. A planted model reacts in some of the notes that are written differently: `one in five reacts` moves the
risk of those by 0.25, over the threshold or not. `blind` sees nothing; `noise` is disturbed by any writing, by the
original as much as by the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from palpate import Cohort
from palpate.audits.kit.paired import MeanArrays, ShareArrays
from palpate.audits.robustness import Robustness
from palpate.audits.robustness.plan import PerturbedNotes
from palpate.results import AuditResult, ModelPredictions, Plan, Predictions
from palpate.results.verdicts import MARGINS
from palpate.stats.clustered import sum_by_unit, units_of
from validity import COVERAGE, WRONG_VERDICTS, Cell

Floats = NDArray[np.float64]
Rng = np.random.Generator
THRESHOLD = 0.3
MOST_ALARMS = 0.05
"""Family-wise, as the corrected tests claim."""
SHIFT, FLIPS = MARGINS["shift"].value, MARGINS["flips"].value
TYPOS = Robustness(perturb=("typos", "ocr"), threshold=THRESHOLD, examples=0)
BRANDS = replace(TYPOS, perturb=("brands", "abbreviations"))
DENIALS = replace(TYPOS, perturb=("denial_added", "denial_removed"))
PLANTED = (("a typo", TYPOS, "typos"), ("a brand name", BRANDS, "brands"), ("an added denial", DENIALS, "denial_added"))


WEIGHTS = ("one in ten stands for eight", "a long tail", "by risk", "a factor of 2")
_FLIPS_ABOVE = 1.9


def cells(n_samples: int, seed: int, *, thin: bool = False) -> Iterator[Cell]:
    """Coverage of the planted sizes, false alarms, robust models, planted ones, and verdicts at the margin."""
    rng = np.random.default_rng(seed)
    yield from _planted(n_samples, rng, (300,) if thin else (60, 300, 1000))
    yield from _false_alarms(n_samples, rng, thin=thin)
    yield from _robust(n_samples, rng, (700,) if thin else (700, 2000))
    yield from _wrong_verdicts(n_samples, rng, (300,) if thin else (60, 300, 1000))
    yield from weighted_cells(n_samples, rng, (300,) if thin else (60, 300))


class Bench:
    """One audit of notes that allow all of its perturbations; predictions are put in place of a model's."""

    def __init__(self, audit: Robustness, n: int, n_labels: int = 1, notes: int = 1) -> None:
        self.n, self.n_labels, self.notes = n, n_labels, notes
        rows, labels = n * notes, [f"label {j}" for j in range(n_labels)]
        text = "Seen for hypertension. He denies tremor. He takes furosemide every morning and feels well otherwise."
        frame = pl.DataFrame(
            {
                "case_id": [f"c{k}" for k in range(rows)],
                "patient_id": [f"p{k // notes}" for k in range(rows)],
                "text": [f"Visit {k}. {text}" for k in range(rows)],
                **{label: [k % 2 for k in range(rows)] for label in labels},
            }
        )
        self.audit = audit
        cohort = Cohort.from_frame(frame, labels=labels, name="simulated")
        self.plan: Plan[PerturbedNotes] = audit.plan(cohort, np.random.default_rng(0))
        assert all(len(arm.rows) == rows for arm in self.plan.memory.arms)

    def base(self, rng: Rng, mean: float = -2.0) -> Floats:
        """Log-odds, [note, label]: a patient's own, for all of its notes."""
        return np.repeat(rng.normal(mean, 1.2, (self.n, self.n_labels)), self.notes, axis=0)

    def audited(self, written: Floats, moved: dict[str, Floats], rng: Rng) -> AuditResult:
        """The audit of a model that predicts `written` [note, label], and `moved` for the groups of some arms."""
        memory = self.plan.memory
        whole = np.zeros((len(self.plan.variants), self.n_labels))
        whole[memory.original[memory.original >= 0]] = written
        for arm in memory.arms:
            p = moved.get(arm.name, np.repeat(written[:, None], len(arm.groups), axis=1))
            whole[arm.variants] = np.broadcast_to(p, (*arm.variants.shape, self.n_labels))
        answers = ModelPredictions(self.plan.labels, whole, np.ones(len(whole), dtype=np.bool_))
        return self.audit.analyse(self.plan, Predictions({"m": answers}), rng)


def _planted(n_samples: int, rng: Rng, sizes: Sequence[int]) -> Iterator[Cell]:
    """A model that reacts in one of five notes: its size is in the interval, and the verdict is "concern"."""
    for n in sizes:
        for notes in (1, 3):
            for what, audit, arm in PLANTED:
                bench, held, said = Bench(audit, n, notes=notes), [], []
                truth = _truth()
                for _ in range(n_samples):
                    written, after = _reacting(bench, rng)
                    result = bench.audited(written, {arm: after[:, None]}, rng)
                    group = next(each for each in bench.plan.memory.arms if each.name == arm).group_names[-1]
                    flips = "wrong_flip_rate" if audit is DENIALS else "flip_rate"
                    for metric in ("difference", flips):
                        row = result.estimates.filter(metric=metric, group=group).row(0, named=True)
                        held.append(row["pointwise_low"] <= truth[metric] <= row["pointwise_high"])
                    said.append(result.answers[0].verdict)
                setting = f"{n} patients with {notes} {'note' if notes == 1 else 'notes'}, one in five reacts to {what}"
                rates = np.reshape(held, (-1, 2)).mean(axis=0)
                yield Cell("coverage of a planted change", setting, float(rates[0]), n_samples, COVERAGE)
                yield Cell("coverage of planted flips", setting, float(rates[1]), n_samples, COVERAGE)
                asked = 0.8 if n >= 300 else 0.0
                yield Cell('planted: "concern"', setting, said.count("concern") / n_samples, n_samples, asked)


def _reacting(bench: Bench, rng: Rng) -> tuple[Floats, Floats]:
    """Predictions as written, and where one in five patients reacts by 0.25."""
    written = expit(bench.base(rng)) * 0.75
    reacts = np.repeat(rng.random((bench.n, bench.n_labels)) < 0.2, bench.notes, axis=0)
    return written, written + 0.25 * reacts


def _truth() -> dict[str, float]:
    """The size of the planted reaction in a population."""
    rng = np.random.default_rng(0)
    written = expit(rng.normal(-2.0, 1.2, 2_000_000)) * 0.75
    crossing = float(np.mean((written < THRESHOLD) & (written + 0.25 >= THRESHOLD))) * 0.2
    return {"difference": 0.05, "flip_rate": crossing, "wrong_flip_rate": crossing}


def _false_alarms(n_samples: int, rng: Rng, *, thin: bool) -> Iterator[Cell]:
    """A model that sees nothing, and one that any writing disturbs, the original as much as the others."""
    for what, audit, n, notes, noise in (
        ("typos, 8 labels, 100 patients, blind", TYPOS, 100, 1, 0.0),
        ("typos, 8 labels, 30 patients, noise", TYPOS, 30, 1, 0.3),
        ("terms, 8 labels, 100 patients with 3 notes, noise", BRANDS, 100, 3, 0.3),
        ("denials, 8 labels, 300 patients, noise", DENIALS, 300, 1, 0.3),
    )[: 2 if thin else None]:
        bench = Bench(audit, n, 8, notes)
        alarms = concerns = 0
        for _ in range(n_samples):
            base = bench.base(rng)
            moved = {
                arm.name: expit(base[:, None] + noise * rng.normal(size=(len(base), len(arm.groups), 8)))
                for arm in bench.plan.memory.arms
            }
            written = expit(base + noise * rng.normal(size=base.shape))
            result = bench.audited(written, moved if noise else {}, rng)
            found = result.estimates.filter(pl.col("metric") == "difference")
            alarms += bool(found["significant"].any())
            concerns += any(answer.verdict == "concern" and answer.metric == "shift" for answer in result.answers)
        yield Cell("family-wise false alarms", what, alarms / n_samples, n_samples, at_most=MOST_ALARMS)
        yield Cell('false "concern" about the risk', what, concerns / n_samples, n_samples, at_most=WRONG_VERDICTS)


def _robust(n_samples: int, rng: Rng, sizes: Sequence[int]) -> Iterator[Cell]:
    """A robust model comes out acceptable, and so does one that an added denial moves the right way."""
    for n in sizes:
        for what, audit, moves in (
            ("sees no typo", TYPOS, 0.0),
            ("moves by 0.002 with brand names", BRANDS, 0.002),
            ("lowers the risk by 0.1 for a denial", DENIALS, -0.1),
        ):
            bench, said = Bench(audit, n), []
            for _ in range(n_samples):
                written = 0.12 + 0.1 * rng.random((n, 1))
                arm = audit.perturb[0] if audit.perturb else ""
                result = bench.audited(written, {arm: (written + moves)[:, None]}, rng)
                said.append(result.answers[0].verdict)
            rate = said.count("acceptable") / n_samples
            yield Cell('robust: "acceptable"', f"{n} patients, {what}", rate, n_samples, at_least=0.95)


def _wrong_verdicts(n_samples: int, rng: Rng, sizes: Sequence[int]) -> Iterator[Cell]:
    """Exactly at the margin, "acceptable" is wrong, and so is "concern"."""

    def shifted(n: int) -> tuple[Floats, Floats]:
        """One patient in ten carries the whole change."""
        written = expit(rng.normal(-1.0, 0.5, (n, 1))) * 0.2
        return written, written + np.where(rng.random((n, 1)) < 0.1, SHIFT / 0.1, 0.0)

    def flipped(n: int) -> tuple[Floats, Floats]:
        near = rng.random((n, 1)) < FLIPS
        written = np.where(near, THRESHOLD - 0.005, 0.1 + 0.1 * rng.random((n, 1)))
        return written, written + np.where(near, 0.01, 0.0)

    for n in sizes:
        for name, audit, draw in (
            ("mean change at the margin", replace(TYPOS, threshold=0.99), shifted),
            ("flips at the margin", TYPOS, flipped),
            ("a denial that raises the risk by the margin", replace(DENIALS, threshold=0.99), shifted),
        ):
            bench, said = Bench(audit, n), []
            arm = audit.perturb[0] if audit.perturb else ""
            for _ in range(n_samples):
                written, after = draw(n)
                said.append(bench.audited(written, {arm: after[:, None]}, rng).answers[0].verdict)
            for verdict in ("acceptable", "concern"):
                rate = said.count(verdict) / n_samples
                yield Cell(f'wrong "{verdict}"', f"{n} patients, {name}", rate, n_samples, at_most=WRONG_VERDICTS)


def weighted_cells(n_samples: int, rng: Rng, sizes: Sequence[int]) -> Iterator[Cell]:
    """Sampling weights: a mean change and a share of flips that hang on the patient, as who is sampled may do."""
    flips = float(ndtr(-_FLIPS_ABOVE / np.sqrt(2.0)))
    for n in sizes:
        for notes in (1, 3):
            for kind in WEIGHTS:
                held = []
                for _ in range(n_samples):
                    own, weight = _sampled(kind, n, rng)
                    patient = np.repeat(np.arange(len(own)), notes)
                    units = units_of(patient, (weight / weight.mean())[patient])
                    noise = rng.normal(size=(2, len(patient)))
                    change = 0.02 + 0.05 * (own[patient] + 0.7 * noise[0])
                    mean = MeanArrays.of(sum_by_unit(change, units)[:, None], units, 1.0)
                    share = ShareArrays.of(sum_by_unit(own[patient] + noise[1] > _FLIPS_ABOVE, units)[:, None], units)
                    for found, truth in ((mean, 0.02), (share, flips)):
                        low, high = found.ends(0.05)
                        held.append(bool(low[0] <= truth <= high[0]))
                rates = np.reshape(held, (-1, 2)).mean(axis=0)
                setting = f"{n} patients with {notes} {'note' if notes == 1 else 'notes'}, sampling weights: {kind}"
                yield Cell("coverage of a change, weighted", setting, float(rates[0]), n_samples, COVERAGE)
                yield Cell("coverage of flips, weighted", setting, float(rates[1]), n_samples, COVERAGE)


def _sampled(kind: str, n: int, rng: Rng) -> tuple[Floats, Floats]:
    """What is particular to each sampled patient, and its weight."""
    if kind == "by risk":
        own = rng.normal(size=6 * n)
        chance = (1.0 + 4.0 * np.argsort(np.argsort(own)) / len(own)) / 18.0
        taken = rng.random(len(own)) < chance
        return own[taken], 1.0 / chance[taken]
    own = rng.normal(size=n)
    if kind == "one in ten stands for eight":
        return own, np.where(rng.random(n) < 0.1, 8.0, 1.0)
    return own, rng.gamma(0.7, size=n) if kind == "a long tail" else np.exp(rng.uniform(0.0, np.log(2.0), n))
