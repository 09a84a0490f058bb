"""The vocabulary audit on simulated words: how far swaps move each patient, and what clinicians think of the words.

`smooth` changes are those of a logistic model whose patients differ in risk, `skewed` ones are lognormal (sigma 1: a
few patients carry most of the change), `trees` move half of the patients and leave the others where they are. A
hospital has 49 words whose scores spread as in the paper's Table 6. Clinicians' ratings are a word's importance with
noise, cut to 1 to 5; a model's scores are another noisy copy of it. Whole audits, in which words are taken out of notes
(`removed_words`): clinicians think five words important, and a sound model reads only those, wherever they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import norm, rankdata

from palpate.audits.kit.resampling import Resampling
from palpate.audits.kit.rows import RowWriter, corrected
from palpate.audits.vocabulary import Budget
from palpate.audits.vocabulary.answers import agreement_question, spurious_question
from palpate.audits.vocabulary.clinicians import (
    CLINICIANS,
    ClinicianPanel,
    clinician_agreement,
    in_a_clinicians_place,
    rater_agreement,
)
from palpate.audits.vocabulary.correlations import WordCorrelations
from palpate.audits.vocabulary.estimates import rank_difference_interval
from palpate.audits.vocabulary.measures import MEASURES, SwapLayout, WordScores, score_words
from palpate.perturb.words import Ratings
from palpate.results import Estimate
from palpate.results.verdicts import MARGINS
from palpate.stats import interval_p_value
from validity import COVERAGE, FALSE_ALARMS, WRONG_VERDICTS, Cell
from validity.removed_words import removal_cells
from validity.weighted_words import weighted_word_cells

Floats = NDArray[np.float64]
N_WORDS = 49
KINDS = ("smooth", "skewed", "trees")
_WRITER = RowWriter("vocabulary")
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(99)
_RISK_MEAN, _RISK_SD = -2.5, 1.3
_THRESHOLD = 0.15


def cells(n_samples: int, seed: int, *, thin: bool = False) -> Iterator[Cell]:
    """Scores, ranks, correlations, budgets; false alarms and power; verdicts."""
    rng = np.random.default_rng(seed)
    yield from _score_cells(n_samples, rng, thin=thin)
    yield from _budget_cells(n_samples, rng, thin=thin)
    yield from _correlation_cells(n_samples, rng, thin=thin)
    yield from _rank_tests(n_samples, rng, thin=thin)
    yield from _spurious_cells(n_samples, rng, thin=thin)
    yield from removal_cells(n_samples, rng, thin=thin)
    yield from _agreement_cells(n_samples, rng, thin=thin)
    drawn = np.random.default_rng([seed, 16])  # its own, so that the cells above stay as they are
    yield from weighted_word_cells(
        n_samples, drawn, lambda kind, n: hospital(kind, spread_scores(drawn), n, drawn), thin=thin
    )


# --- words ----------------------------------------------------------------------------------------------------


class Hospital(NamedTuple):
    """Patients of some words, and the true score of each word."""

    signed: Floats
    """[word, patient] Sums over the patient's notes of the signed change; all of one sign."""
    flips: Floats
    notes: Floats
    truth: Floats
    true_flips: Floats

    def first(self, n: int) -> Hospital:
        """The first n patients of each word."""
        return self._replace(signed=self.signed[:, :n], flips=self.flips[:, :n], notes=self.notes[:, :n])

    def scores(self, level: Floats | float = 0.95) -> WordScores:
        """What the audit makes of them."""
        n_words, n_patients = self.signed.shape
        slot = np.arange(n_words * n_patients)
        notes = self.notes.reshape(1, -1)
        layout = SwapLayout((), slot, slot, slot, slot // n_patients, slot % n_patients, n_words, n_patients, notes)
        measures = (np.abs(self.signed), self.signed, self.flips, self.flips)
        sums = np.stack([part.reshape(1, -1) for part in measures])[None]
        return score_words("y", sums, layout, level)


def hospital(kind: str, truth: Floats, n_patients: int, rng: np.random.Generator, *, most_notes: int = 1) -> Hospital:
    """Words with true scores `truth`; notes of one patient differ little from each other."""
    shape = (len(truth), n_patients)
    notes = rng.integers(1, most_notes + 1, size=shape).astype(np.float64)
    logit = rng.normal(_RISK_MEAN, _RISK_SD, size=shape)
    if kind == "smooth":
        weight = np.interp(truth, *_weights())[:, None]
        each = expit(logit + weight) - expit(logit)
    elif kind == "skewed":
        each = truth[:, None] * rng.lognormal(-0.5, 1.0, size=shape)
    else:
        each = 2.0 * truth[:, None] * rng.lognormal(-0.32, 0.8, size=shape) * (rng.random(shape) < 0.5)
    flips = ((expit(logit) < _THRESHOLD) & (expit(logit) + each >= _THRESHOLD)).astype(np.float64)
    sigma = 0.25 / np.sqrt(notes) if most_notes > 1 else np.zeros(shape)
    return Hospital(
        each * notes * rng.lognormal(-(sigma**2) / 2, sigma), flips * notes, notes, truth, _true_flips(kind, truth)
    )


@cache
def _weights() -> tuple[Floats, Floats]:
    """Scores of the smooth model, and the coefficients that give them."""
    weight = np.linspace(0.0, 4.0, 400)
    risk = _RISK_MEAN + _RISK_SD * _NODES
    change = expit(risk[None] + weight[:, None]) - expit(risk[None])
    return change @ _WEIGHTS / _WEIGHTS.sum(), weight


def _true_flips(kind: str, truth: Floats) -> Floats:
    """The true share of flipped notes of the smooth model; the others are not asked for it."""
    if kind != "smooth":
        return np.full(len(truth), np.nan)
    edge, weight = np.log(_THRESHOLD / (1 - _THRESHOLD)), np.interp(truth, *_weights())
    return np.asarray(norm.cdf((edge - _RISK_MEAN) / _RISK_SD) - norm.cdf((edge - weight - _RISK_MEAN) / _RISK_SD))


def spread_scores(rng: np.random.Generator, n_words: int = N_WORDS) -> Floats:
    """True scores that spread as those of the paper's Table 6: 0.1 to 3 points."""
    return np.asarray(np.clip(0.006 * rng.lognormal(0.0, 0.9, size=n_words), 0.0005, 0.2))


def _inside(low: Floats, high: Floats, truth: Floats) -> NDArray[np.bool_]:
    return (low <= truth) & (truth <= high)


def _score_cells(n_samples: int, rng: np.random.Generator, *, thin: bool) -> Iterator[Cell]:
    sizes = (5, 10, 30) if thin else (5, 10, 30, 100)
    for n_patients in sizes:
        for kind in KINDS:
            for most_notes in (1, 3):
                yield from _one_size(n_samples, rng, kind, n_patients, most_notes)


def _one_size(n_samples: int, rng: np.random.Generator, kind: str, n_patients: int, most_notes: int) -> Iterator[Cell]:
    """At least `n_samples` words, in hospitals of 49."""
    n_hospitals = max(2, -(-n_samples // N_WORDS))
    found: dict[str, list[NDArray[np.bool_]]] = {name: [] for name in ("score", "signed", "flips", "rank")}
    given = []
    for _ in range(n_hospitals):
        made = hospital(kind, spread_scores(rng), n_patients, rng, most_notes=most_notes)
        scores = made.scores()
        truths = {"score": made.truth, "signed": made.truth, "flips": made.true_flips}
        for (name, truth), k in zip(truths.items(), range(3), strict=True):
            found[name].append(_inside(scores.low[0, k, 0], scores.high[0, k, 0], truth))
        found["rank"].append(_inside(scores.rank_low[0], scores.rank_high[0], rankdata(-made.truth)))
        given.append(~np.isnan(scores.low[0, 0, 0]))
    n = n_hospitals * N_WORDS
    setting = f"{n_patients} patients, {kind}, {'1 note' if most_notes == 1 else f'1 to {most_notes} notes'}"
    if not np.any(given):
        yield Cell("intervals of scores given", setting, float(np.mean(given)), n, at_most=0.0)
        return
    names = {"score": MEASURES[0], "signed": MEASURES[1], "flips": MEASURES[2], "rank": "rank"}
    for name, hits in found.items():
        if name != "flips" or kind == "smooth":
            yield Cell(f"coverage of {names[name]}", setting, float(np.mean(hits)), n, at_least=COVERAGE)


# --- budgets --------------------------------------------------------------------------------------------------


def _budget_cells(n_samples: int, rng: np.random.Generator, *, thin: bool) -> Iterator[Cell]:
    """Runs that stop when intervals are narrow, or when it is clear which words are on top."""
    n_hospitals = max(2, -(-n_samples // N_WORDS))
    goals: list[tuple[str, float | None, int | None]] = [("until narrower than 0.5 points", 0.005, None)]
    goals += [] if thin else [("until the first 10 are known", None, 10)]
    for name, width, top in goals:
        for kind in KINDS:
            hits = [_budget_run(kind, width, top, rng) for _ in range(n_hospitals)]
            score, rank = np.mean(hits, axis=(0, 2))
            setting, n = f"budget {name}, {kind}", n_hospitals * N_WORDS
            yield Cell("coverage of sensitivity", setting, float(score), n, at_least=COVERAGE)
            yield Cell("coverage of rank", setting, float(rank), n, at_least=COVERAGE)


def _budget_run(kind: str, width: float | None, top: int | None, rng: np.random.Generator) -> NDArray[np.bool_]:
    """[score and rank, word] Whether the intervals hold the truth when the run stops; by the rule of the audit."""
    budget = Budget(notes=50, width=width, top=top)
    made = hospital(kind, spread_scores(rng), 800, rng)
    level = budget.level(0.95, np.full(N_WORDS, 800))
    n = np.full(N_WORDS, budget.notes)
    while True:
        taken = np.arange(800)[None] < n[:, None]
        scores = made._replace(signed=made.signed * taken, flips=made.flips * taken, notes=made.notes * taken).scores(
            level
        )
        settled = np.zeros(N_WORDS, dtype=bool)
        if width is not None:
            settled |= scores.high[0, 0, 0] - scores.low[0, 0, 0] < width
        if top is not None:
            settled |= (scores.rank_high[0] <= top) | (scores.rank_low[0] > top)
        more = ~settled & (n < 800)
        if not more.any():
            break
        n = np.where(more, 2 * n, n)
    in_score = _inside(scores.low[0, 0, 0], scores.high[0, 0, 0], made.truth)
    return np.stack([in_score, _inside(scores.rank_low[0], scores.rank_high[0], rankdata(-made.truth))])


# --- clinicians -----------------------------------------------------------------------------------------------


class Panel(NamedTuple):
    """How much of a rating, and of each model's score, is the word's importance."""

    rater: float
    models: tuple[float, ...]

    def draw(self, n_words: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """[words, 3 raters] ratings and [models, words] scores."""
        importance = rng.normal(size=n_words)

        def noisy(load: float, *shape: int) -> Floats:
            return np.asarray(load * importance + np.sqrt(1 - load**2) * rng.normal(size=(*shape, n_words)))

        ratings = np.clip(np.rint(3 + 1.2 * noisy(self.rater, 3)), 1, 5).T
        return ratings, np.exp(np.stack([noisy(load) for load in self.models]))


def _measured(ratings: Floats, models: Floats, seed: int, *, slow: bool, n_replicates: int = 300) -> list[Estimate]:
    """The audit's rows about agreement."""
    words = tuple(map(str, range(len(ratings))))
    panel = ClinicianPanel.of(Ratings(words, ("a", "b", "c"), ratings), words, np.ones(len(words), dtype=bool))
    over_words = WordCorrelations(_WRITER, Resampling(n_replicates=n_replicates, seed=seed))
    sensitivity = {f"m{k}": scores for k, scores in enumerate(models)}
    levels, pairs = clinician_agreement(panel, "y", sensitivity, over_words)
    places, gaps = in_a_clinicians_place(panel, "y", sensitivity, over_words)
    own = rater_agreement(panel, "y", over_words) if slow else []
    return [*levels, *places, *own, *corrected([*pairs, *gaps], "bonferroni", 0.95, headline="y")]


def _key(row: Estimate) -> str:
    what = {"krippendorff_alpha": "Krippendorff's alpha", "kendall_w": "Kendall's W"}
    name = what.get(row.metric, row.metric.replace("_", " "))
    return name if row.reference is None else f"difference of {name}"


@cache
def _truth(panel: Panel) -> dict[tuple[str, str, str | None], float]:
    """The values in a hospital of very many words."""
    ratings, models = panel.draw(40_000, np.random.default_rng(1))
    rows = _measured(ratings, models, 0, slow=True, n_replicates=1)
    return {(row.metric, row.model, row.reference): row.value or 0.0 for row in rows if row.group == CLINICIANS}


def _correlation_cells(n_samples: int, rng: np.random.Generator, *, thin: bool) -> Iterator[Cell]:
    panels = [Panel(0.8, (0.0, 0.6)), Panel(0.9, (0.95, 0.3))]
    for n_words in (10, 49) if thin else (10, 20, 49):
        for panel in panels[:1] if thin else panels:
            truth, hits = _truth(panel), dict[str, list[bool]]()
            for k in range(n_samples):
                ratings, models = panel.draw(n_words, rng)
                for row in _measured(ratings, models, k, slow=k < n_samples // 2, n_replicates=200):
                    if row.group == CLINICIANS and row.value is not None and row.low is not None:
                        low = row.low if row.pointwise_low is None else row.pointwise_low
                        high = row.high if row.pointwise_high is None else row.pointwise_high
                        held = low <= truth[row.metric, row.model, row.reference] <= (high or 0.0)
                        hits.setdefault(_key(row), []).append(held)
            setting = f"{n_words} words, 3 raters"
            for name, held_by in hits.items():
                rate = float(np.mean(held_by))
                yield Cell(f"coverage of {name}", setting, rate, min(len(held_by), n_samples), at_least=COVERAGE)


# --- tests ----------------------------------------------------------------------------------------------------


def _rank_tests(n_samples: int, rng: np.random.Generator, *, thin: bool) -> Iterator[Cell]:
    """Two models that react to the words alike: some word's ranks differ significantly."""
    for n_patients in (10, 100) if thin else (10, 30, 100):
        alarms = []
        for _ in range(min(n_samples, 400)):
            truth = spread_scores(rng)
            pair = [hospital("skewed", truth, n_patients, rng).scores() for _ in range(2)]
            difference, low, high = rank_difference_interval(pair[0], pair[1], 0, 0)
            p = interval_p_value(difference, low, high)
            rows = [
                _WRITER.row(
                    "a",
                    "rank",
                    "y",
                    str(w),
                    difference[w],
                    n=1,
                    interval=(low[w], high[w]),
                    reference="b",
                    p_value=p[w],
                )
                for w in range(N_WORDS)
            ]
            alarms.append(any(row.significant for row in corrected(rows, "bonferroni", 0.95)))
        setting = f"{N_WORDS} words, {n_patients} patients each, skewed"
        yield Cell(
            "false alarms: ranks of two models", setting, float(np.mean(alarms)), len(alarms), at_most=FALSE_ALARMS
        )


# --- verdicts -------------------------------------------------------------------------------------------------


def _spurious_verdict(made: Hospital, n_words: int) -> str:
    """The audit's answer when all the words are ones that no clinician would use, for one model."""
    question = spurious_question(MARGINS["shift"].value)
    scores = made.scores()
    effects = []
    for w in range(n_words):
        ends = (scores.low[0, 0, 0, w], scores.high[0, 0, 0, w])
        row = _WRITER.row("m", "removal", "y", str(w), scores.value[0, 0, 0, w], n=1, interval=ends)
        effects.append(question.effect(row, 100, n_family=n_words))
    answer = question.answer("m", effects)
    return "" if answer is None else answer.verdict


def _spurious_cells(n_samples: int, rng: np.random.Generator, *, thin: bool) -> Iterator[Cell]:
    """24 words that no clinician would use, as in the paper; the margin is 1 point."""
    margin, n_words = MARGINS["shift"].value, 24
    others = np.linspace(0.0005, 0.4 * margin, n_words - 1)
    asked = (
        (
            'wrong "concern": spurious, all words just below the margin',
            np.full(n_words, 0.99 * margin),
            "concern",
            True,
        ),
        ('wrong "acceptable": spurious, one word just above it', np.append(others, 1.01 * margin), "acceptable", True),
        ('power: "concern" for a word that moves the risk by 5 points', np.append(others, 0.05), "concern", False),
        ('power: "acceptable" where no word moves it by 0.4', np.append(others, 0.4 * margin), "acceptable", False),
    )
    for kind in KINDS:
        for n_patients in (10, 50) if thin else (10, 50, 300):
            for what, truth, wanted, is_wrong in asked:
                made = (hospital(kind, truth, n_patients, rng) for _ in range(n_samples))
                rate = np.mean([_spurious_verdict(each, n_words) == wanted for each in made])
                setting = f"{n_words} unwanted words, {n_patients} patients each, {kind}"
                yield Cell(what, setting, float(rate), n_samples, at_most=WRONG_VERDICTS if is_wrong else 1.0)


def _agreement_verdict(panel: Panel, n_words: int, rng: np.random.Generator) -> str:
    """The audit's answer for one model."""
    question = agreement_question(MARGINS["agreement"].value)
    rows = _measured(*panel.draw(n_words, rng), int(rng.integers(2**31)), slow=False)
    gap = next(row for row in rows if row.reference == CLINICIANS)
    answer = question.answer("m0", [question.effect(gap, 0, n_family=1)])
    return "" if answer is None else answer.verdict


def _agreement_cells(n_samples: int, rng: np.random.Generator, *, thin: bool) -> Iterator[Cell]:
    """A model in a clinician's place whose shortfall is the margin; and the paper's two models."""
    at_margin = _at_gap(0.8, -MARGINS["agreement"].value)
    weak, good = _at_level(0.8, 0.13), _at_level(0.8, 0.58)
    asked = (
        ('wrong "concern": agreement, shortfall at the margin', at_margin, "concern", True),
        ('wrong "acceptable": agreement, shortfall at the margin', at_margin, "acceptable", True),
        ('power: "concern" for a rank correlation of 0.13 (paper: xgboost)', weak, "concern", False),
        ('power: "acceptable" for a rank correlation of 0.58 (paper: BERT)', good, "acceptable", False),
    )
    for n_words in (49,) if thin else (20, 49, 200):
        for what, panel, wanted, is_wrong in asked:
            rate = np.mean([_agreement_verdict(panel, n_words, rng) == wanted for _ in range(n_samples)])
            setting = f"{n_words} words, 3 raters who agree by 0.66"
            yield Cell(what, setting, float(rate), n_samples, at_most=WRONG_VERDICTS if is_wrong else 1.0)
    for name, models, at_most in (
        ("false alarms: agreement of two models", (good, good), FALSE_ALARMS),
        ("power: agreement 0.58 against 0.13 (paper)", (good, weak), 1.0),
    ):
        both, found = Panel(0.8, (models[0].models[0], models[1].models[0])), []
        for k in range(n_samples):
            rows = _measured(*both.draw(N_WORDS, rng), k, slow=False)
            found.append(any(row.significant for row in rows if row.metric == "clinician_agreement" and row.reference))
        yield Cell(name, f"{N_WORDS} words, 3 raters", float(np.mean(found)), n_samples, at_most=at_most)


def _at_gap(rater: float, gap: float) -> Panel:
    """The panel whose model falls short of a clinician by `gap`."""
    return _search(rater, lambda truth: truth["rater_agreement", "m0", CLINICIANS] < gap)


def _at_level(rater: float, level: float) -> Panel:
    """The panel whose model agrees with the mean of the clinicians by `level`."""
    return _search(rater, lambda truth: truth["clinician_agreement", "m0", None] < level)


def _search(rater: float, too_low: Callable[[dict[tuple[str, str, str | None], float]], bool]) -> Panel:
    low, high = 0.0, 1.0
    for _ in range(9):
        middle = (low + high) / 2
        low, high = (middle, high) if too_low(_quick_truth(Panel(rater, (middle,)))) else (low, middle)
    return Panel(rater, (high,))


@cache
def _quick_truth(panel: Panel) -> dict[tuple[str, str, str | None], float]:
    ratings, models = panel.draw(100_000, np.random.default_rng(2))
    rows: Sequence[Estimate] = _measured(ratings, models, 0, slow=False, n_replicates=1)
    return {(row.metric, row.model, row.reference): row.value or 0.0 for row in rows}
