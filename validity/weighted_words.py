"""Words of notes with sampling weights: one patient in ten stands for eight, weights have a long tail, or patients of
whom a word changes much are sampled five times as often as the others. The truth is that of everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from palpate.audits.vocabulary.measures import MEASURES, SwapLayout, WordScores, score_words
from validity import COVERAGE, Cell

if TYPE_CHECKING:
    from validity.vocabulary import Hospital

Floats = NDArray[np.float64]
Rng = np.random.Generator
SAMPLINGS = ("one in ten stands for eight", "a long tail", "by change")


def weighted_word_cells(
    n_samples: int, rng: Rng, draw: Callable[[str, int], Hospital], *, thin: bool
) -> Iterator[Cell]:
    """Scores and signed scores; `draw` makes a hospital of a kind and a number of patients of each word."""
    for n_patients in (30,) if thin else (10, 30, 100):
        for kind in ("smooth", "skewed"):
            for sampling in SAMPLINGS:
                held: list[NDArray[np.bool_]] = []
                while sum(len(each) for each in held) < n_samples:
                    made = draw(kind, n_patients * (3 if sampling == "by change" else 1))
                    found = _scored(made, *_sampled(sampling, np.abs(made.signed), rng))
                    low, high = found.low[0, :2, 0], found.high[0, :2, 0]
                    held.append(((low <= made.truth) & (made.truth <= high)).T[~np.isnan(low).any(axis=0)])
                rates, n = np.concatenate(held).mean(axis=0), len(np.concatenate(held))
                setting = f"{n_patients} patients, {kind}, 1 note, sampling weights: {sampling}"
                for name, rate in zip(MEASURES[:2], rates.tolist(), strict=True):
                    yield Cell(f"coverage of {name}, weighted", setting, rate, n, at_least=COVERAGE)


def _sampled(sampling: str, change: Floats, rng: Rng) -> tuple[NDArray[np.bool_], Floats]:
    """[word, patient] who is in the sample, and what each stands for."""
    everybody = np.ones(change.shape, bool)
    if sampling == "by change":
        rank = np.argsort(np.argsort(change, axis=1), axis=1) / change.shape[1]
        chance = (1.0 + 4.0 * rank) / 9.0  # a third of the patients on average
        return rng.random(change.shape) < chance, 1.0 / chance
    if sampling == "a long tail":
        return everybody, rng.gamma(0.7, size=change.shape)
    return everybody, np.where(rng.random(change.shape) < 0.1, 8.0, 1.0)


def _scored(made: Hospital, taken: NDArray[np.bool_], weight: Floats) -> WordScores:
    """What the audit makes of the sampled patients."""
    word, patient = (each.astype(np.int64) for each in np.nonzero(taken))
    slot, own, notes = np.arange(len(word)), weight[taken], made.notes[taken]
    n_words, n_patients = taken.shape
    layout = SwapLayout(
        (), slot, slot, slot, word, patient, n_words, n_patients, notes=(notes * own)[None], counted=notes[None]
    )
    flips = made.flips[taken] * own
    sums = np.stack([np.abs(made.signed[taken]) * own, made.signed[taken] * own, flips, flips])
    return score_words("y", sums[None, :, None], layout, 0.95)
