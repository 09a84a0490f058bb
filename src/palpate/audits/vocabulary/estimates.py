"""The vocabulary audit's numbers as rows: one per model, word, label and measure.

Scores of two models can't be compared, because their probabilities have different ranges (vocabulary paper, Section
2.3.4); their ranks can. So models differ in `rank` only, paired on the same resampled patients.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import erfc

from palpate.audits.kit.metrics import ensemble_spread
from palpate.audits.kit.resampling import FEWEST_FOR_TEST, Resampling, not_tested
from palpate.audits.kit.rows import RowWriter, corrected, pairs_of
from palpate.audits.vocabulary.clinicians import (
    ClinicianPanel,
    clinician_agreement,
    model_agreement,
    rank_gaps,
    rater_agreement,
)
from palpate.audits.vocabulary.correlations import WordCorrelations
from palpate.audits.vocabulary.frequency import SchemeScores, frequency_rows
from palpate.audits.vocabulary.measures import MEASURES, Floats, SwapEffects, WordScores, score_words
from palpate.audits.vocabulary.plan import Swaps
from palpate.cases.edits import Ints
from palpate.results import Estimate, finite
from palpate.stats import bootstrap_p_value, percentile_interval

_WORDS_AT_A_TIME = 200


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
    by_patient: Resampling,
    over_words: WordCorrelations,
) -> VocabularyRows:
    """All rows, label by label, so that only one label's replicates are in memory."""
    effects = words.effects
    overall = effects.overall_label
    rows, differences, agreements = list[Estimate](), list[Estimate](), list[Estimate]()
    for label, sums in effects.by_label(shown):
        scores = score_words(label, sums, effects.layout, by_patient)
        sensitivity, rank = effects.by_compared(scores.value[:, 0, 0]), effects.by_compared(scores.rank)
        rows += words.levels(scores)
        differences += words.rank_differences(scores)
        rows += model_agreement(label, sensitivity, over_words)
        if panel is not None:
            levels, pairs = clinician_agreement(panel, label, sensitivity, over_words)
            rows += levels
            agreements += pairs
        if panel is not None and label == overall:
            rows += rank_gaps(panel, words.swaps.words, label, sensitivity, words.writer)
        if label == overall:
            rows += [*words.spread(scores), *words.outside(label)]
        del scores
    for family in (differences, agreements):
        rows += corrected(family, by_patient.correction, by_patient.level, headline=overall)
    rows += [] if panel is None else rater_agreement(panel, overall, over_words)
    frequency = frequency_rows(schemes, overall, over_words)
    rows += corrected(frequency, by_patient.correction, by_patient.level, headline=overall)
    # The overall label comes last, so these are its scores.
    return VocabularyRows(rows, sensitivity, rank)


@dataclass(frozen=True, eq=False)
class WordRows:
    """Writes the estimates that are about single words: what they are, and why one is not there."""

    writer: RowWriter
    swaps: Swaps
    effects: SwapEffects

    def levels(self, scores: WordScores) -> Iterator[Estimate]:
        """Every measure of every model and word, overall and within each filter, and the ranks."""
        models, layout = self.effects.predictions.names, self.effects.layout
        parts = ("", *(f"_{name}" for name in self.swaps.filters))
        for m, k, j in np.ndindex(scores.value.shape[:3]):
            ends = (scores.low[m, k, j], scores.high[m, k, j])
            metric = f"{MEASURES[k]}{parts[j]}"
            yield from self._rows(models[m], metric, scores.label, scores.value[m, k, j], ends, n=layout.n_notes[j])
        for m, model in enumerate(models):
            low, high, _ = self._resampled(scores.ranks[m])
            yield from self._rows(model, "rank", scores.label, scores.rank[m], (low, high))

    def rank_differences(self, scores: WordScores) -> Iterator[Estimate]:
        """Each pair of models, word by word; p is not corrected yet."""
        names = self.effects.predictions.names
        for model, reference in pairs_of(self.effects.predictions.compared):
            a, b = names.index(model), names.index(reference)
            low, high, p_value = self._resampled(scores.ranks[a], scores.ranks[b])
            difference = scores.rank[a] - scores.rank[b]
            yield from self._rows(model, "rank", scores.label, difference, (low, high), versus=(reference, p_value))

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

    def _resampled(self, ranks: Floats, other: Floats | None = None) -> tuple[Floats, Floats, Floats]:
        """[words] Interval of the ranks, or of their difference from others with its p-value; from [word, replicate].

        Some words at a time: sorting all replicates at once would take their memory again.
        """
        low, high, p_value = np.full((3, len(ranks)), np.nan)
        for first in range(0, len(ranks), _WORDS_AT_A_TIME):
            part = slice(first, first + _WORDS_AT_A_TIME)
            values = ranks[part] if other is None else ranks[part] - other[part]
            low[part], high[part] = percentile_interval(values, level=self.writer.level)
            if other is not None:
                p_value[part] = _p_of_ranks(values)
        return low, high, p_value

    def _rows(
        self,
        model: str,
        metric: str,
        label: str,
        values: Floats,
        interval: tuple[Floats, Floats] | None = None,
        *,
        n: Ints | None = None,
        versus: tuple[str, Floats] | None = None,
    ) -> Iterator[Estimate]:
        """One row per word; `versus` is the reference of a difference, and the p-values."""
        layout = self.effects.layout
        n = layout.n_notes[0] if n is None else n
        for w, word in enumerate(self.swaps.words):
            value, n_notes = finite(values[w]), int(n[w])
            ends = None if interval is None else (finite(interval[0][w]), finite(interval[1][w]))
            few = versus is not None and layout.n_patients_of[w] < FEWEST_FOR_TEST
            reason = not_tested("patients have the word") if few else None
            if value is None:
                reason = self._why_undefined(w, n_notes)
            elif ends is not None and ends[0] is None:
                reason = "no interval: too few patients have the word in a note"
            reference, p_value = (None, None) if versus is None else (versus[0], None if few else float(versus[1][w]))
            about = (model, metric, label, word)
            yield self.writer.row(
                *about, value, n=n_notes, interval=ends, reference=reference, p_value=p_value, reason=reason
            )

    def _why_undefined(self, word: int, n: int) -> str:
        if not self.effects.has_score[word]:
            return self.swaps.reasons[word] or "no swap was made"
        return "no substitute of this filter" if n == 0 else "no threshold could be found"


def _p_of_ranks(values: Floats) -> Floats:
    """P-values of "no difference" from replicates of differences of ranks, [word, replicate].

    Ranks are whole numbers. A difference that is the same in all resamples has the spread of rounding (variance 1/12)
    rather than none, so a plain one stays significant when it is corrected for hundreds of words.
    """
    if values.shape[-1] == 0:
        return np.full(len(values), np.nan)
    counted = bootstrap_p_value(values)
    defined = ~np.isnan(values)
    n = np.maximum(defined.sum(axis=-1), 1)
    mean = np.where(defined, values, 0.0).sum(axis=-1) / n
    variance = (np.where(defined, values - mean[:, None], 0.0) ** 2).sum(axis=-1) / n + 1 / 12
    one_side = np.minimum((values <= 0).sum(axis=-1), (values >= 0).sum(axis=-1)) == 0
    normal = erfc(np.abs(mean) / np.sqrt(2 * variance))
    return np.asarray(np.where(one_side, np.minimum(counted, normal), counted))
