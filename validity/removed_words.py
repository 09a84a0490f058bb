"""The vocabulary audit on simulated notes, from plan to verdict: whose words are those that a swap moves the risk by?

Notes are bags of words. Clinicians think five of them important, and a sound model reads only those, wherever they
stand: as substitutes too. In the small vocabulary a third of all substitutes is read; in the large one, of 250 further
words, few are, but the most frequent words of the notes are among them. Any edit also shifts the model's log-odds a
little at random, as it does with language models: by about 0.6 points of risk, which is below the margin of 1 point.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import expit

from palpate.audits.vocabulary import RatingSheet, Vocabulary
from palpate.audits.vocabulary.plan import PlannedSwaps
from palpate.cases.cohort import Cohort
from palpate.results import AuditResult, ModelPredictions, Plan, Predictions
from palpate.results.verdicts import MARGINS
from validity import COVERAGE, WRONG_VERDICTS, Cell

Floats = NDArray[np.float64]
READ = {"sepsis": 1.5, "stroke": 1.5, "dementia": 1.2, "cancer": 1.0, "fall": 0.8}
PLAIN = ("tablet", "monday", "nurse", "window", "seen", "today")
PLANTED, WEIGHT = "larkspur", 1.5
_BIAS, _SHAKE = -2.5, 0.05
_N_COMMON = 8
_POWER, _HARD = 0.80, 0.95


class _Setting(NamedTuple):
    """How many further words the notes are made of, and how many notes are audited."""

    name: str
    n_fillers: int
    n_notes: int


class _Found(NamedTuple):
    """What one audit said, true or not."""

    swaps_accuse: bool
    """Whether the swaps of an unread word would accuse the sound model."""
    accused: bool
    planted: bool
    """Whether the odd model is said to hang on the planted word."""
    covers_unread: bool
    covers_planted: bool


def removal_cells(n_samples: int, rng: np.random.Generator, *, thin: bool) -> Iterator[Cell]:
    """A model that reads approved words only, and one that reads a planted word too."""
    sizes = (100,) if thin else (100, 300)
    n_samples = min(n_samples, 60 if thin else 200)  # whole audits
    for setting in (_Setting(*each, n) for each in (("small", 5), ("large", 250)) for n in sizes):
        found = [_one_audit(setting, int(seed)) for seed in rng.integers(2**31, size=n_samples)]
        rate = _Found(*np.mean(found, axis=0).tolist())
        about = f"{setting.name} vocabulary, {setting.n_notes} notes"
        wrong = 'wrong "concern": spurious, a model that reads approved words only'
        accused = "swaps alone move an unread word beyond the margin"
        yield Cell(accused, about, rate.swaps_accuse, n_samples, at_least=_HARD)
        yield Cell(wrong, about, rate.accused, n_samples, at_most=WRONG_VERDICTS)
        yield Cell('power: "concern" for a planted word', about, rate.planted, n_samples, at_least=_POWER)
        yield Cell("coverage of removal, unread word", about, rate.covers_unread, n_samples, at_least=COVERAGE)
        yield Cell("coverage of removal, planted word", about, rate.covers_planted, n_samples, at_least=COVERAGE)


def _one_audit(setting: _Setting, seed: int) -> _Found:
    rng = np.random.default_rng(seed)
    cohort = _notes(setting, rng)
    words = (*READ, *PLAIN, PLANTED)
    sheet = RatingSheet(words, ("a", "b"), tuple((5.0, 4.0) if word in READ else (1.0, 2.0) for word in words))
    audit = Vocabulary(raters=sheet, n_replicates=20, diagnostic_notes=0, threshold=0.5)
    plan = audit.plan(cohort, rng)
    sound, odd = (_answers(plan, weights, rng) for weights in (READ, {**READ, PLANTED: WEIGHT}))
    result = audit.analyse(plan, Predictions({"sound": sound, "odd": odd}), rng)
    said = {each.model: each for each in result.answers if each.question == "spurious"}
    truth = _true_changes()
    return _Found(
        _swaps_accuse(result),
        said["sound"].verdict == "concern",
        (said["odd"].verdict, said["odd"].label) == ("concern", PLANTED),
        _covers(result, "sound", PLAIN[0], truth[0]),
        _covers(result, "odd", PLANTED, truth[1]),
    )


@cache
def _true_changes() -> tuple[float, float]:
    """How far taking out an unread word moves the sound model, and the planted one the odd model, in many notes."""
    rng = np.random.default_rng(1)
    weights = np.asarray([*READ.values(), *(0.0 for _ in PLAIN)])
    counts = rng.multinomial(_N_COMMON, np.full(len(weights), 1 / len(weights)), size=400_000)
    logit, shaken = _BIAS + counts @ weights, rng.normal(0.0, _SHAKE, size=len(counts))
    has_plain = counts[:, len(READ)] > 0
    unread = np.abs(expit(logit + shaken) - expit(logit))[has_plain]
    return float(unread.mean()), float(np.abs(expit(logit + shaken) - expit(logit + WEIGHT)).mean())


def _covers(result: AuditResult, model: str, word: str, truth: float) -> bool:
    row = result.estimates.filter(metric="removal", model=model, group=word).row(0, named=True)
    return bool(row["low"] <= truth <= row["high"])


def _swaps_accuse(result: AuditResult) -> bool:
    """Whether some unread word's score lies beyond the margin, by its interval."""
    rows = result.estimates.filter(pl.col("group").is_in(PLAIN), metric="sensitivity", model="sound")
    return bool((rows["low"] > MARGINS["shift"].value).any())


def _notes(setting: _Setting, rng: np.random.Generator) -> Cohort:
    """One note per patient, a third of them for training; the planted word stands in a third of them."""
    fillers = [f"word{_letters(k)}" for k in range(setting.n_fillers)]
    common = [*READ, *PLAIN]
    n = setting.n_notes + setting.n_notes // 2
    texts = []
    for _ in range(n):
        words = [
            *rng.choice(common, size=_N_COMMON),
            *rng.choice(fillers, size=8),
            *([PLANTED] * int(rng.random() < 1 / 3)),
        ]
        texts.append(" ".join(rng.permutation(words)))
    split = np.where(np.arange(n) < setting.n_notes, "test", "train")
    return Cohort.from_frame(pl.DataFrame({"text": texts, "split": split, "ill": np.arange(n) % 2}), labels=["ill"])


def _letters(k: int) -> str:
    return "".join("abcdefghij"[int(digit)] for digit in str(k))


def _answers(plan: Plan[PlannedSwaps], weights: dict[str, float], rng: np.random.Generator) -> ModelPredictions:
    """The risks of all variants under a model that adds up the words that it reads, from the edits alone."""
    variants, cohort = plan.variants, plan.cohort
    notes = np.asarray([sum(weights.get(word, 0.0) for word in text.split()) for text in cohort.texts])
    inserted = np.asarray([weights.get(text.lower(), 0.0) for text in variants.replacements])
    spans = zip(
        np.repeat(variants.parent, variants.n_edits).tolist(),
        variants.start.tolist(),
        variants.end.tolist(),
        strict=True,
    )
    taken = [weights.get(cohort.texts[row][start:end].strip(), 0.0) for row, start, end in spans]
    row = np.repeat(np.arange(len(variants)), variants.n_edits)
    moved = np.bincount(row, weights=inserted[variants.replacement] - np.asarray(taken), minlength=len(variants))
    shaken = rng.normal(0.0, _SHAKE, size=len(variants)) * (variants.n_edits > 0)
    p = expit(_BIAS + notes[variants.parent] + moved + shaken)
    return ModelPredictions(("ill",), p[:, None], np.ones(len(p), dtype=bool))
