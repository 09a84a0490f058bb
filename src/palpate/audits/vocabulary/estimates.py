"""The vocabulary audit's numbers as rows: one per model, word, label and measure.

Scores of two models can't be compared, because their probabilities have different ranges (vocabulary paper, Section
2.3.4); their ranks can. So models differ in `rank` only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, get_args

import numpy as np

from palpate.audits.kit.metrics import ensemble_spread
from palpate.audits.kit.resampling import Family
from palpate.audits.kit.rows import RowWriter, corrected, one_family, pairs_of
from palpate.audits.vocabulary.clinicians import (
    ClinicianPanel,
    clinician_agreement,
    in_a_clinicians_place,
    model_agreement,
    rank_gaps,
    rater_agreement,
)
from palpate.audits.vocabulary.correlations import WordCorrelations
from palpate.audits.vocabulary.frequency import SchemeScores, frequency_rows
from palpate.audits.vocabulary.intervals import FEWEST_PATIENTS, Floats
from palpate.audits.vocabulary.measures import MEASURES, SwapEffects, WordScores, score_words
from palpate.audits.vocabulary.plan import Swaps
from palpate.audits.vocabulary.removals import Removals, score_removals
from palpate.audits.vocabulary.substitutes import OWN, Filter
from palpate.cases.edits import Ints
from palpate.results import Estimate, finite
from palpate.stats import interval_p_value

REMOVAL = "removal"
METRICS = (
    *MEASURES,
    *(f"{measure}_{name}" for measure in MEASURES for name in (*get_args(Filter), OWN)),
    *(REMOVAL, "rank", "outside_window", "clinician_agreement", "model_agreement"),
    *("krippendorff_alpha", "kendall_w", "rater_agreement", "frequency_pearson", "frequency_spearman"),
)
_ROUNDING = 0.5
"""Ranks are whole numbers, so even one that is certain is known up to half a rank only."""
FEW_PATIENTS = f"no interval: fewer than {FEWEST_PATIENTS} patients have the word"


class VocabularyRows(NamedTuple):
    """All estimates, and the compared models' scores and ranks of the words for the overall label."""

    rows: list[Estimate]
    sensitivity: dict[str, Floats]
    rank: dict[str, Floats]


def vocabulary_rows(
    words: WordRows,
    shown: Sequence[str],
    panel: ClinicianPanel | None,
    schemes: SchemeScores,
    over_words: WordCorrelations,
    family: Family,
) -> VocabularyRows:
    """All rows; differences are corrected together, for all labels."""
    effects = words.effects
    overall = effects.overall_label
    rows, tested = list[Estimate](), list[Estimate]()
    both = zip(effects.by_label(shown), words.removals.effects.by_label(shown), strict=True)
    for (label, sums), (_, removed) in both:
        scores = score_words(label, sums, effects.layout, words.level)
        sensitivity, rank = effects.by_compared(scores.value[:, 0, 0]), effects.by_compared(scores.rank)
        rows += words.levels(scores)
        rows += words.taken_out(label, removed, sums)
        tested += words.rank_differences(scores)
        rows += model_agreement(label, sensitivity, over_words)
        if panel is not None:
            levels, pairs = clinician_agreement(panel, label, sensitivity, over_words)
            rows += levels
            tested += pairs
    # The overall label comes last, so these are its scores.
    rows += [*words.spread(scores), *words.outside(overall)]
    if panel is not None:
        rows += rank_gaps(panel, words.swaps.words, overall, sensitivity, words.writer)
        levels, gaps = in_a_clinicians_place(panel, overall, sensitivity, over_words)
        rows += [*levels, *rater_agreement(panel, overall, over_words)]
        tested += gaps
    tested += frequency_rows(schemes, overall, over_words)
    correction = over_words.resampling.correction
    rows += corrected(tested, correction, words.writer.level, headline=overall, family_of=one_family(family))
    return VocabularyRows(rows, sensitivity, rank)


@dataclass(frozen=True, eq=False)
class WordRows:
    """Writes the estimates that are about single words: what they are, and why one is not there."""

    writer: RowWriter
    swaps: Swaps
    effects: SwapEffects
    removals: Removals
    level: Floats | float
    """Of the intervals: one for all words, or one for each."""

    def levels(self, scores: WordScores) -> Iterator[Estimate]:
        """Every measure of every model and word, overall and within each filter, and the ranks."""
        models, layout = self.effects.predictions.names, self.effects.layout
        parts = ("", *(f"_{name}" for name in self.swaps.filters))
        for m, k, j in np.ndindex(scores.value.shape[:3]):
            ends = (scores.low[m, k, j], scores.high[m, k, j])
            metric = f"{MEASURES[k]}{parts[j]}"
            yield from self._rows(models[m], metric, scores.label, scores.value[m, k, j], ends, n=layout.n_notes[j])
        for m, model in enumerate(models):
            ends = (scores.rank_low[m], scores.rank_high[m])
            yield from self._rows(model, "rank", scores.label, scores.rank[m], ends)

    def rank_differences(self, scores: WordScores) -> Iterator[Estimate]:
        """Each pair of models, word by word, from the intervals of the two ranks; p is not corrected yet."""
        names = self.effects.predictions.names
        for model, reference in pairs_of(self.effects.predictions.compared):
            a, b = names.index(model), names.index(reference)
            difference, low, high = rank_difference_interval(scores, scores, a, b)
            yield from self._rows(model, "rank", scores.label, difference, (low, high), reference=reference)

    def spread(self, scores: WordScores) -> Iterator[Estimate]:
        """The standard deviation over an ensemble's members of each word's score and rank."""
        predictions = self.effects.predictions
        sensitivity, rank = (ensemble_spread(values, predictions) for values in (scores.value[:, 0, 0], scores.rank))
        for name in predictions.ensembles:
            yield from self._rows(name, "sensitivity_sd", scores.label, sensitivity[name])
            yield from self._rows(name, "rank_sd", scores.label, rank[name])

    def outside(self, label: str) -> Iterator[Estimate]:
        """The share of each word's swaps that a model can't see; `n` is the number of swaps."""
        for model, shares in zip(self.effects.predictions.names, self.effects.outside(), strict=True):
            yield from self._rows(model, "outside_window", label, shares, n=self.effects.layout.n_swaps)

    def taken_out(self, label: str, removed: Floats, swapped: Floats) -> Iterator[Estimate]:
        """What each word that no clinician would use does to each model; the sums are those of one label."""
        about, only = self.removals.effects, self.removals.words
        found = score_removals(removed, about.layout, swapped, self.effects.layout, self.level)
        for m, model in enumerate(about.predictions.names):
            value, *ends = (each[m] for each in found)
            yield from self._rows(model, REMOVAL, label, value, (ends[0], ends[1]), n=self.removals.n_notes, only=only)

    def _rows(
        self,
        model: str,
        metric: str,
        label: str,
        values: Floats,
        interval: tuple[Floats, Floats] | None = None,
        *,
        n: Ints | None = None,
        reference: str | None = None,
        only: Ints | None = None,
    ) -> Iterator[Estimate]:
        """One row per word, or per word in `only`; a difference from `reference` is tested by its interval."""
        n = self.effects.layout.n_notes[0] if n is None else n
        for w in range(len(self.swaps.words)) if only is None else only.tolist():
            word, value, n_notes = self.swaps.words[w], finite(values[w]), int(n[w])
            ends = None if interval is None else (finite(interval[0][w]), finite(interval[1][w]))
            reason, p_value = None, None
            if value is None:
                reason = self._why_undefined(w, n_notes)
            elif ends is not None and (ends[0] is None or ends[1] is None):
                reason = FEW_PATIENTS
            elif interval is not None and reference is not None:
                p_value = float(interval_p_value(value, interval[0][w], interval[1][w], level=self.writer.level))
            about = (model, metric, label, word)
            yield self.writer.row(
                *about, value, n=n_notes, interval=ends, reference=reference, p_value=p_value, reason=reason
            )

    def _why_undefined(self, word: int, n: int) -> str:
        if not self.effects.has_score[word]:
            return self.swaps.reasons[word] or "no swap was made"
        return "no substitute of this filter" if n == 0 else "no threshold could be found"


def rank_difference_interval(scores: WordScores, others: WordScores, a: int, b: int) -> tuple[Floats, Floats, Floats]:
    """[words] The rank of model `a` less that of model `b`, and its interval from those of the ranks (MOVER)."""
    rank, other = scores.rank[a], others.rank[b]

    def arm(of: Floats, end: Floats) -> Floats:
        return np.maximum(np.abs(of - end), _ROUNDING)

    below = np.hypot(arm(rank, scores.rank_low[a]), arm(other, others.rank_high[b]))
    above = np.hypot(arm(rank, scores.rank_high[a]), arm(other, others.rank_low[b]))
    return rank - other, rank - other - below, rank - other + above
