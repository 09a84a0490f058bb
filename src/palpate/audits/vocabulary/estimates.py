"""The vocabulary audit's numbers as estimates: one row a model, word, label and measure.

Scores of two models can't be compared, because their probabilities have different ranges (vocabulary paper, Section
2.3.4); their ranks can. So models differ in `rank` only, paired on the same resampled patients.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import erfc

from palpate.audits.kit.measured import FEWEST_FOR_TEST
from palpate.audits.vocabulary.measures import MEASURES, Contestants, Floats, Layout, Scores, Swaps
from palpate.results import Estimate, finite
from palpate.stats import bootstrap_p_value, percentile_interval

_WORDS_AT_A_TIME = 200
_FEW = "no interval: too few patients have the word in a note"


@dataclass(frozen=True)
class Scribe:
    """Writes estimates of words: what they are about, and why one is not there."""

    audit: str
    swaps: Swaps
    layout: Layout
    contestants: Contestants
    level: float

    def levels(self, scores: Scores) -> Iterator[Estimate]:
        """Every measure of every model and word, overall and by family of filters, and the ranks."""
        names = [
            measure if pool is None else f"{measure}_{pool}"
            for measure in MEASURES
            for pool in (None, *self.layout.families)
        ]
        shape = (len(self.contestants.names), len(names), self.layout.n_words)
        value, low, high = (part.reshape(shape) for part in (scores.value, scores.low, scores.high))
        n = np.tile(self.layout.n_notes, (len(MEASURES), 1))
        for m, k, w in np.ndindex(shape):
            numbers = (float(part[m, k, w]) for part in (value, low, high))
            yield self._row(self.contestants.names[m], names[k], scores.label, w, *numbers, n=int(n[k, w]))
        below, above = (np.empty(scores.rank.shape) for _ in range(2))
        for m, part in self._parts(len(scores.rank)):
            below[m, part], above[m, part] = percentile_interval(scores.ranks[m, part], level=self.level)
        for m, w in np.ndindex(scores.rank.shape):
            numbers = (float(part[m, w]) for part in (scores.rank, below, above))
            yield self._row(self.contestants.names[m], "rank", scores.label, w, *numbers)

    def rank_differences(self, scores: Scores) -> Iterator[Estimate]:
        """Each pair of models, word by word; p is not corrected yet."""
        names, compared = self.contestants.names, self.contestants.compared
        for second in range(1, len(compared)):
            for first in range(second):
                a, b = names.index(compared[second]), names.index(compared[first])
                point = scores.rank[a] - scores.rank[b]
                for _, part in self._parts(1):
                    values = scores.ranks[a, part] - scores.ranks[b, part]
                    low, high = percentile_interval(values, level=self.level)
                    p_value = _p_of_ranks(values)
                    for k, w in enumerate(range(part.start, part.stop)):
                        numbers = (float(point[w]), float(low[k]), float(high[k]))
                        row = self._row(names[a], "rank", scores.label, w, *numbers)
                        yield self._tested(row, names[b], w, float(p_value[k]))

    def _parts(self, n_models: int) -> Iterator[tuple[int, slice]]:
        """Some words of each model at a time: sorting all replicates at once would take their memory again."""
        for m in range(n_models):
            for first in range(0, self.layout.n_words, _WORDS_AT_A_TIME):
                yield m, slice(first, min(first + _WORDS_AT_A_TIME, self.layout.n_words))

    def _tested(self, row: Estimate, reference: str, word: int, p_value: float) -> Estimate:
        few = int(self.layout.n_patients_of[word]) < FEWEST_FOR_TEST
        tested = row.value is not None and not few
        reason = row.reason or (f"not tested: fewer than {FEWEST_FOR_TEST} patients have the word" if few else None)
        more = {"reference": reference, "p_value": finite(p_value) if tested else None, "reason": reason}
        return Estimate(**{**vars(row), **more})

    def outside(self, label: str) -> list[Estimate]:
        """The share of each word's swaps that a model can't see; `n` is the number of swaps."""
        shares = self.contestants.outside(self.layout)
        n = self.layout.n_swaps
        return [
            self._row(self.contestants.names[m], "outside_window", label, w, float(shares[m, w]), n=int(n[w]))
            for m, w in np.ndindex(shares.shape)
        ]

    def spread(self, scores: Scores) -> list[Estimate]:
        """The standard deviation over a model's checkpoints of each word's score and rank."""
        rows = []
        for family, members in self.contestants.families.items():
            place = [self.contestants.names.index(name) for name in members]
            for metric, values in (("sensitivity_sd", scores.value[place, 0, 0]), ("rank_sd", scores.rank[place])):
                sd = values.std(axis=0, ddof=1)
                rows += [self._row(family, metric, scores.label, w, float(sd[w])) for w in range(len(sd))]
        return rows

    def _row(
        self,
        model: str,
        metric: str,
        label: str,
        word: int,
        value: float,
        low: float | None = None,
        high: float | None = None,
        *,
        n: int | None = None,
    ) -> Estimate:
        number = finite(value)
        below, above = (finite(low), finite(high)) if number is not None else (None, None)
        n = int(self.layout.n_notes[0, word]) if n is None else n
        reason = None
        if number is None:
            reason = self._why_not(word, n)
        elif low is not None and below is None:
            reason = _FEW
        return Estimate(
            audit=self.audit,
            model=model,
            metric=metric,
            label=label,
            group=self.swaps.words[word],
            value=number,
            low=below,
            high=above,
            level=self.level if low is not None else None,
            n=n,
            reason=reason,
        )

    def _why_not(self, word: int, n: int) -> str:
        if self.layout.n_patients_of[word] == 0:
            return self.swaps.reasons[word] or ("in no note" if not self.swaps.n_notes[word] else "no swap was made")
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


def shared_words(sensitivity: Sequence[Floats]) -> list[Floats]:
    """The scores under several schemes, NaN for words that some scheme lacks: ranks are then among the same words."""
    known = ~np.isnan(np.concatenate(sensitivity)).any(axis=0)
    return [np.where(known, scores, np.nan) for scores in sensitivity]
