"""Whether clinicians would endorse what a model reacts to (vocabulary paper, Section 3 and Appendix E.3).

Clinicians rate words, from 1 to 5 unless their sheet states another scale; a word's overall rank is that of its mean
rating. A model agrees with them as far as the ranks of its sensitivities do, by Spearman's correlation with average
ranks. How well the clinicians agree with each other is the most that can be asked of a model: Krippendorff's alpha,
Kendall's W, and each rater against the mean of the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.rows import RowWriter, pairs_of
from palpate.audits.vocabulary.correlations import FEWEST_WORDS, Correlation, WordCorrelations
from palpate.audits.vocabulary.intervals import Floats
from palpate.audits.vocabulary.measures import rank_words
from palpate.cases.edits import Ints
from palpate.perturb.words import USUAL_SCALE, Ratings, RatingScale, normalise_word
from palpate.results import Estimate
from palpate.stats import kendall_w, krippendorff_alpha, resampled_spearman

CLINICIANS = "clinicians"
ONE_RATER = "there is only one rater"
MOST_RATER_REPLICATES = 1_000
"""Resamples for alpha and W, which are slow to compute and need no fine p-values."""


@dataclass(frozen=True)
class RatingSheet:
    """Clinicians' ratings as plain values, because an audit's fields are its saved spec."""

    words: tuple[str, ...]
    raters: tuple[str, ...]
    scores: tuple[tuple[float | None, ...], ...]
    scale: RatingScale = USUAL_SCALE

    @property
    def ratings(self) -> Ratings:
        """As an array; NaN where a rater gave none."""
        scores = [[np.nan if score is None else score for score in row] for row in self.scores]
        return Ratings(self.words, self.raters, np.asarray(scores, dtype=np.float64), self.scale)

    def not_among(self, words: Sequence[str]) -> list[str]:
        """The rated words that are not among `words`."""
        known = {normalise_word(word) for word in words}
        return [word for word in self.words if normalise_word(word) not in known]


def as_sheet(value: Any) -> Any:
    """Ratings from a file as a sheet; anything else as it is."""
    if not isinstance(value, Ratings):
        return value
    scores = tuple(tuple(None if np.isnan(x) else float(x) for x in row) for row in value.scores)
    return RatingSheet(value.words, value.raters, scores, value.scale)


def ratings_of(ratings: Ratings, words: Sequence[str]) -> Floats:
    """[words, raters] The ratings of the audited words; NaN where a word has none."""
    rated = {normalise_word(word): scores for word, scores in zip(ratings.words, ratings.scores, strict=True)}
    none = np.full(len(ratings.raters), np.nan)
    return np.stack([rated.get(normalise_word(word), none) for word in words])


def mean_ratings(scores: Floats) -> Floats:
    """[words] The mean over the raters who rated a word; NaN where none did."""
    known = ~np.isnan(scores)
    n = known.sum(axis=1)
    out = np.full(len(scores), np.nan)
    np.divide(np.where(known, scores, 0.0).sum(axis=1), n, out=out, where=n > 0)
    return out


@dataclass(frozen=True, eq=False)
class ClinicianPanel:
    """The clinicians' view of the words that are both rated and scored; NaN elsewhere."""

    scores: Floats
    """[words, raters]"""
    raters: tuple[str, ...]
    mean: Floats
    rank: Floats
    """[words] Among the words that are both rated and scored; 1 is the most important."""
    judged: NDArray[np.bool_]
    """[words] Rated and in the notes of enough patients: the words on which a model is held against the clinicians."""
    scale: RatingScale = USUAL_SCALE

    @classmethod
    def of(
        cls, ratings: Ratings, words: Sequence[str], scored: NDArray[np.bool_], enough: NDArray[np.bool_] | None = None
    ) -> ClinicianPanel:
        """The panel for the audited words; `scored`: which have a sensitivity, `enough`: of enough patients."""
        scores = np.where(scored[:, None], ratings_of(ratings, words), np.nan)
        mean = mean_ratings(scores)
        judged = ~np.isnan(mean) & (scored if enough is None else enough)
        return cls(scores, ratings.raters, mean, rank_words(mean), judged, ratings.scale)

    @property
    def unimportant(self) -> NDArray[np.bool_]:
        """[words] Which words no clinician would use: in the lower half of the rated words, and of the scale."""
        lower = self.rank > (self.rated.sum() + 1) / 2
        return np.asarray(lower & (self.mean < self.scale.middle))

    @property
    def rated(self) -> NDArray[np.bool_]:
        """[words] Which words are both rated and scored."""
        return ~np.isnan(self.mean)

    def rank_of(self, sensitivity: Floats) -> Floats:
        """A model's ranks among the words that are both rated and scored."""
        return rank_words(np.where(self.rated, sensitivity, np.nan))


def unwanted_words(words: Sequence[str], listed: Sequence[str] | None, panel: ClinicianPanel | None) -> Ints:
    """The words that no clinician would use: listed, or else those that the raters think unimportant."""
    if listed is not None:
        wanted = {normalise_word(word) for word in listed}
        return np.flatnonzero([normalise_word(word) in wanted for word in words])
    return np.flatnonzero(panel.unimportant) if panel is not None else np.zeros(0, dtype=np.int64)


def clinician_agreement(
    panel: ClinicianPanel, label: str, sensitivity: Mapping[str, Floats], over_words: WordCorrelations
) -> tuple[list[Estimate], list[Estimate]]:
    """Each model against the clinicians, and the differences between models, not corrected yet."""
    about = ("clinician_agreement", label, CLINICIANS)
    found = {name: over_words.correlate(scores, panel.mean, kind="spearman") for name, scores in sensitivity.items()}
    levels = [over_words.row(each, name, *about) for name, each in found.items()]
    pairs = [
        over_words.difference(found[model], found[reference], model, *about, reference=reference)
        for model, reference in pairs_of(list(found))
    ]
    return levels, pairs


def model_agreement(label: str, sensitivity: Mapping[str, Floats], over_words: WordCorrelations) -> list[Estimate]:
    """Every model against every other, over all words with a score; `group` names the other."""
    rows = []
    for model, other in pairs_of(list(sensitivity)):
        found = over_words.correlate(sensitivity[model], sensitivity[other], kind="spearman")
        rows.append(over_words.row(found, model, "model_agreement", label, other))
    return rows


def rank_gaps(
    panel: ClinicianPanel, words: Sequence[str], label: str, sensitivity: Mapping[str, Floats], writer: RowWriter
) -> list[Estimate]:
    """The clinicians' rank of each word, and each model's rank less that, among the words both rated and scored."""
    n, why = int(panel.rated.sum()), "the word was not rated, or is not in the notes"

    def rows(model: str, ranks: Floats, reference: str | None = None) -> Iterator[Estimate]:
        for word, rank in zip(words, ranks.tolist(), strict=True):
            reason = why if math.isnan(rank) else None
            yield writer.row(model, "rank", label, word, rank, n=n, reference=reference, reason=reason)

    gaps = {name: panel.rank_of(scores) - panel.rank for name, scores in sensitivity.items()}
    return [*rows(CLINICIANS, panel.rank), *(row for name in gaps for row in rows(name, gaps[name], CLINICIANS))]


def rater_agreement(panel: ClinicianPanel, label: str, over_words: WordCorrelations) -> list[Estimate]:
    """How well the clinicians agree with each other: the ceiling for a model."""
    table = panel.scores[panel.rated]
    complete = table[~np.isnan(table).any(axis=1)]
    few = f"fewer than {FEWEST_WORDS} words"
    measures: list[tuple[str, Floats, Callable[[Floats], float], str]] = [
        ("krippendorff_alpha", table, lambda rows: krippendorff_alpha(rows.T, level="ordinal"), few),
        ("kendall_w", complete, lambda rows: kendall_w(rows.T), f"{few} are rated by all raters"),
    ]
    out = []
    for metric, rows, measure, too_few in measures:
        found = Correlation(np.nan, np.zeros(0), len(rows), too_few)
        if table.shape[1] < 2:
            found = found._replace(reason=ONE_RATER)
        elif len(rows) >= FEWEST_WORDS:
            found = _measure(rows, measure, over_words)
        out.append(over_words.row(found, CLINICIANS, metric, label, CLINICIANS))
    every = range(len(panel.raters))
    for group, raters in ((CLINICIANS, every), *((panel.raters[j], (j,)) for j in every)):
        found = _in_place(table, None, raters, over_words)
        out.append(over_words.row(found, CLINICIANS, "rater_agreement", label, group))
    return out


def _measure(rows: Floats, measure: Callable[[Floats], float], over_words: WordCorrelations) -> Correlation:
    n_replicates = min(over_words.resampling.n_replicates, MOST_RATER_REPLICATES)
    draws = over_words.draws(len(rows), n_replicates)
    values = [measure(np.repeat(rows, count, axis=0)) for counts in draws for count in counts]
    replicates = np.asarray(values, dtype=np.float64)
    return Correlation(measure(rows), replicates, len(rows), "the raters do not tell the words apart")


def in_a_clinicians_place(
    panel: ClinicianPanel, label: str, sensitivity: Mapping[str, Floats], over_words: WordCorrelations
) -> tuple[list[Estimate], list[Estimate]]:
    """How well each model agrees with the other clinicians when it takes the place of one, and that less how well the
    clinician agreed; averaged over the clinicians, on the words of enough patients. Not corrected yet.

    Against the mean of all of them a model would have the easier task: a mean of more raters is less noisy.
    """
    about = ("rater_agreement", label, CLINICIANS)
    table, every = panel.scores[panel.judged], range(len(panel.raters))
    own = _in_place(table, None, every, over_words)
    levels, gaps = [], []
    for name, scores in sensitivity.items():
        found = _in_place(table, scores[panel.judged], every, over_words)
        levels.append(over_words.row(found, name, *about))
        gaps.append(over_words.difference(found, own, name, *about, reference=CLINICIANS))
    return levels, gaps


def _in_place(table: Floats, model: Floats | None, raters: Sequence[int], over_words: WordCorrelations) -> Correlation:
    """Spearman of each rater, or of a model in the rater's place, with the mean of the others; the mean over raters.

    `table` is [words, raters]. A model is compared on the words that the rater rated.
    """
    n, none = len(table), np.zeros(0)
    if table.shape[1] < 2:
        return Correlation(np.nan, none, n, ONE_RATER)
    pairs = []
    for j in raters:
        others = mean_ratings(np.delete(table, j, axis=1))
        known = ~(np.isnan(table[:, j]) | np.isnan(others))
        first = table[:, j] if model is None else model
        if known.sum() >= FEWEST_WORDS and np.ptp(table[known, j]) > 0:
            pairs.append((known, np.round(first[known], 12), np.round(others[known], 12)))
    if not pairs:
        return Correlation(np.nan, none, n, f"fewer than {FEWEST_WORDS} words that the rater tells apart")

    def values_of(counts: NDArray[np.int32]) -> Floats:
        each = [resampled_spearman(first, second, counts[:, known]) for known, first, second in pairs]
        return np.asarray(np.mean(each, axis=0))

    value = float(values_of(np.ones((1, n), np.int32))[0])
    if np.isnan(value):
        why = "the other raters do not tell the words apart" if model is None else "every word moves the model alike"
        return Correlation(np.nan, none, n, why)
    draws = over_words.draws(n, over_words.resampling.n_replicates)
    return Correlation(value, np.concatenate([values_of(counts) for counts in draws]), n)
