"""Intervals of word scores: closed forms for few patients and skewed changes, instead of a bootstrap.

A word's score is a mean over notes, a ratio of sums over patients. Most changes are small and a few are large, so a
bootstrap of 5 or 10 patients is far too sure of itself. Here the lower end is Student's, with the patients as units.
The upper end is Student's on a log scale, and wider by 1 + 1.5 g / sqrt(n) for skewness g and n patients: the one large
change that was not drawn can only lie above.

If fewer than `FEWEST_MOVED` patients' predictions moved at all, their changes say little about the others'. Then the
lower end is 0, and the upper end is Wilson's upper limit of the share of patients who move, times how far those of the
strongest word move on average.

The coverage of all this, and that it needs `FEWEST_PATIENTS`, is measured by `validity/vocabulary.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from palpate.audits.kit.resampling import FEWEST_FOR_TEST
from palpate.cases.edits import Ints
from palpate.stats import Interval

Floats = NDArray[np.float64]

FEWEST_PATIENTS = FEWEST_FOR_TEST
"""A word in the notes of fewer patients has a score and no interval."""
FEWEST_MOVED = 5
_NO_CHANGE = 1e-12
"""A smaller change is rounding."""
_MOST_EXPONENT = 700.0
_NARROWEST = 0.01
_LEAST_LEFT = 0.1
"""What a patient's share of the weight leaves to the others, at least, where its residual is divided by it."""
_SKEWED, _SKEWED_LOG = 5.0, 1.5
"""How much skewness widens an interval, and one on a log scale; found by simulation."""
_WEIGHED = 0.25
"""The power of what unequal weights leave of the patients by which a signed change is less sure; simulated."""


class PatientSums(NamedTuple):
    """What the notes of each pair of word and patient sum to, and how many notes they are."""

    total: Floats
    notes: Floats
    """Or their sampling weights, by which the totals are weighted too."""
    word: Ints
    n_words: int
    counted: Floats | None = None
    """With sampling weights, how many notes they are."""


class Moments(NamedTuple):
    """[words] What an interval is made from."""

    value: Floats
    n_patients: Floats
    n_effective: Floats
    """As many patients of one note each would say as much as these, some of whom have more notes, or weight, than
    others."""
    n_moved: Floats
    size: Floats
    """The mean change of the patients whose prediction moved."""
    error: Floats
    skewness: Floats
    """Of the mean: that of the patients over the root of their number."""
    share_moved: Floats
    """Of the patients whose prediction moved; with weights, of the notes if that is more."""
    kept: Floats
    """The share of the patients that unequal weights leave (Kish); 1 without weights."""


def moments(sums: PatientSums) -> Moments:
    """Moments of the ratio sum(total) / sum(notes) over patients, for each word."""

    def by_word(values: Floats) -> Floats:
        return np.bincount(sums.word, weights=values, minlength=sums.n_words).astype(np.float64)

    has_note = sums.notes > 0
    moved = np.abs(sums.total) > _NO_CHANGE
    n, n_notes, n_moved = map(by_word, (has_note.astype(np.float64), sums.notes, moved.astype(np.float64)))
    value = _ratio(by_word(sums.total), n_notes)
    residual = np.where(has_note, sums.total - np.nan_to_num(value)[sums.word] * sums.notes, 0.0)
    if sums.counted is not None:  # a heavy patient draws the mean to itself, and leaves itself a small residual
        heavy, usual = (_left(own, by_word(own)[sums.word]) for own in (sums.notes, sums.counted))
        residual = residual * usual / heavy
    second, third = by_word(residual**2), by_word(residual**3)
    error = np.sqrt(second * _ratio(n, n - 1.0)) / np.where(n_notes > 0, n_notes, 1.0)
    adjusted = np.sqrt(n * np.maximum(n - 1.0, 0.0)) * _ratio(np.ones_like(n), n - 2.0)
    skewness = np.nan_to_num(_ratio(third, second**1.5) * adjusted)
    own = np.abs(_ratio(sums.total, sums.notes))
    effective = np.nan_to_num(_ratio(n_notes**2, by_word(sums.notes**2)))
    share, kept = _ratio(n_moved, n), np.ones_like(n)
    if sums.counted is not None:
        share = np.fmax(share, _ratio(by_word(np.where(moved, sums.notes, 0.0)), n_notes))
        equal = np.nan_to_num(_ratio(by_word(sums.counted) ** 2, by_word(sums.counted**2)))
        kept = np.minimum(np.where(equal > 0, effective / np.where(equal > 0, equal, 1.0), 1.0), 1.0)
        skewness = skewness / np.maximum(kept, _LEAST_LEFT)  # of so few patients it is seen too small
    return Moments(
        value,
        n,
        effective,
        n_moved,
        np.nan_to_num(_ratio(by_word(np.where(moved, own, 0.0)), n_moved)),
        error,
        skewness,
        share,
        kept,
    )


def _left(own: Floats, every: Floats) -> Floats:
    """The share of the notes, or of their weight, that a patient leaves to the others."""
    return np.maximum(1.0 - np.nan_to_num(_ratio(own, every)), _LEAST_LEFT)


def strongest_change(found: Moments) -> float:
    """How far the patients of the strongest word move on average."""
    seen = found.size[found.n_moved >= FEWEST_MOVED]
    return float(seen.max()) if seen.size else float(found.size.max(initial=0.0))


def change_interval(found: Moments, level: Floats | float, *, strongest: float = 0.0) -> Interval:
    """Of mean absolute changes; NaN for a single patient. `strongest` is that of other words, where it is known."""
    q = _quantile(found, level)
    exponent = q * _ratio(found.error, found.value) * (1.0 + _SKEWED_LOG * np.maximum(found.skewness, 0.0))
    high = found.value * np.exp(np.minimum(exponent, _MOST_EXPONENT))
    low = np.maximum(found.value - q * found.error, 0.0)
    few = found.n_moved < FEWEST_MOVED
    return _defined(found, np.where(few, 0.0, low), np.where(few, _unmoved(found, q, strongest), high))


def signed_interval(found: Moments, level: Floats | float) -> Interval:
    """Of mean signed changes: Student's, wider on the side to which they are skewed, and under unequal weights."""
    q = _quantile(found, level) / np.maximum(found.kept, _LEAST_LEFT) ** _WEIGHED
    arms = [q * found.error * (1.0 + _SKEWED * np.maximum(sign * found.skewness, 0.0)) for sign in (-1.0, 1.0)]
    few, most = found.n_moved < FEWEST_MOVED, _unmoved(found, q)
    return _defined(found, np.where(few, -most, found.value - arms[0]), np.where(few, most, found.value + arms[1]))


def rate_interval(found: Moments, level: Floats | float) -> Interval:
    """Of shares of flipped decisions: Wilson's, for the number of patients with one note who would vary as much."""
    q = _quantile(found, level)
    share = np.clip(found.value, 0.0, 1.0)
    n = found.n_patients * found.kept
    effective = np.minimum(_ratio(share * (1.0 - share), found.error**2), n)
    low, high = _wilson(share, np.where(effective > 0, effective, n), q)
    return _defined(found, np.where(found.n_moved < FEWEST_MOVED, 0.0, low), high)


def rank_interval(value: Floats, found: Interval) -> Interval:
    """[words] The ranks that each word may have, when one word surely ranks before another if the difference of their
    scores is (Zou and Donner 2008); `found` are intervals of the scores. NaN where a word has no score.

    Rank 1 is the highest score. A word without an interval is surely before or behind no other.
    """
    known = np.flatnonzero(~np.isnan(value))
    score = value[known]
    below, above = (
        np.where(np.isnan(arm), np.inf, arm) for arm in (score - found.low[known], found.high[known] - score)
    )
    low, high = np.full((2, len(value)), np.nan)
    for k, word in enumerate(known):
        behind = score[k] - score > np.hypot(below[k], above)
        before = score - score[k] > np.hypot(below, above[k])
        low[word], high[word] = 1 + before.sum(), len(known) - behind.sum()
    return Interval(low, high)


def one_sided(level: Floats | float) -> Floats:
    """The level of the two-sided interval each of whose ends holds with `level`."""
    return np.maximum(2.0 * np.asarray(level, np.float64) - 1.0, _NARROWEST)


def _unmoved(found: Moments, q: Floats, strongest: float = 0.0) -> Floats:
    """The largest mean change that is plausible where few patients' predictions moved."""
    strongest = max(strongest, strongest_change(found))
    share = _wilson(found.share_moved, found.n_patients * found.kept, q)[1]
    return np.asarray(share * np.maximum(found.size, strongest))


def _wilson(share: Floats, n: Floats, q: Floats) -> tuple[Floats, Floats]:
    part = _ratio(q * q, n)
    middle, half = (
        (share + part / 2.0) / (1.0 + part),
        np.sqrt(part * (share * (1.0 - share) + part / 4.0)) / (1.0 + part),
    )
    return np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)


def _quantile(found: Moments, level: Floats | float) -> Floats:
    return np.asarray(stdtrit(np.maximum(found.n_effective - 1.0, 1.0), 0.5 + np.asarray(level, np.float64) / 2.0))


def _defined(found: Moments, low: Floats, high: Floats) -> Interval:
    known = ~np.isnan(found.value) & (found.n_patients > 1)
    return Interval(np.where(known, low, np.nan), np.where(known, high, np.nan))


def _ratio(above: Floats, below: Floats) -> Floats:
    out = np.full(np.broadcast(above, below).shape, np.nan)
    np.divide(above, below, out=out, where=np.asarray(below) > 0)
    return out
