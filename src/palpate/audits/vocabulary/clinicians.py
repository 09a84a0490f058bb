"""Whether clinicians would sign a model's attention (vocabulary paper, Section 3 and Appendix E.3).

Clinicians rate words from 1 to 5; a word's overall rank is that of its mean rating. A model agrees with them as far as
the ranks of its sensitivities do, by Spearman's correlation with average ranks. Words are resampled for intervals, the
same ones for all models, so that two models are compared as paired. How well the clinicians agree with each other is
the most that can be asked of a model: Krippendorff's alpha, Kendall's W, and each rater against the mean of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.measured import FEWEST_FOR_TEST
from palpate.audits.vocabulary.measures import rank_words
from palpate.perturb.words import Ratings, normalise_word
from palpate.results import Estimate, finite
from palpate.stats import (
    bootstrap_p_value,
    kendall_w,
    krippendorff_alpha,
    percentile_interval,
    resample_counts,
    resampled_pearson,
    resampled_ranks,
    spearman,
)

Floats = NDArray[np.float64]

CLINICIANS = "clinicians"
FEWEST_WORDS = 3
MOST_RATER_REPLICATES = 1_000
"""Resamples for the raters' own agreement, which is slow to compute and needs no fine p-values."""
_BYTES_PER_CHUNK = 32_000_000


class Correlation(NamedTuple):
    """A correlation over words, on the data and on resampled words."""

    value: float
    replicates: Floats
    n: int
    reason: str | None


@dataclass(frozen=True)
class Resampling:
    """How words are resampled; one seed, so that everything over the same words is paired."""

    audit: str
    level: float
    n_replicates: int
    seed: int

    def row(self, found: Correlation, *, model: str, metric: str, label: str, group: str) -> Estimate:
        """A correlation as an estimate."""
        low, high = percentile_interval(found.replicates, level=self.level)
        value, below, above = finite(found.value), finite(low), finite(high)
        missing = "no interval: undefined in more than 5% of the resamples" if below is None else None
        return Estimate(
            audit=self.audit,
            model=model,
            metric=metric,
            label=label,
            group=group,
            value=value,
            low=below if value is not None else None,
            high=above if value is not None else None,
            level=self.level,
            n=found.n,
            reason=found.reason if value is None else missing,
        )

    def difference(
        self, a: Correlation, b: Correlation, *, model: str, reference: str, metric: str, label: str, group: str
    ) -> Estimate:
        """One correlation less another over the same resampled words; p is not corrected yet."""
        told = len(a.replicates) == len(b.replicates)
        replicates = a.replicates - b.replicates if told else np.zeros(0)
        both = Correlation(a.value - b.value, replicates, min(a.n, b.n), a.reason or b.reason)
        row = self.row(both, model=model, metric=metric, label=label, group=group)
        tested = row.value is not None and both.n >= FEWEST_FOR_TEST
        p_value = finite(bootstrap_p_value(both.replicates, tail="normal")) if tested else None
        few = f"not tested: fewer than {FEWEST_FOR_TEST} words"
        reason = row.reason or (None if tested else few)
        return Estimate(**{**vars(row), "reference": reference, "p_value": p_value, "reason": reason})

    def correlate(self, ranked: Floats, other: Floats, *, kind: Literal["spearman", "pearson"]) -> Correlation:
        """Of the ranks of `ranked` with the ranks (Spearman) or the values (Pearson) of `other`; NaN is left out.

        Ranks are taken anew in each resample.
        """
        known = ~(np.isnan(ranked) | np.isnan(other))
        a, b = np.round(ranked[known], 12), np.round(other[known], 12)
        n = len(a)
        if n < FEWEST_WORDS:
            return Correlation(np.nan, np.zeros(0), n, f"fewer than {FEWEST_WORDS} words can be compared")
        for values, what in (
            (a, "every word moves the model alike"),
            (b, "the other side does not tell the words apart"),
        ):
            if np.all(values == values[0]):
                return Correlation(np.nan, np.zeros(0), n, what)

        def values_of(counts: NDArray[np.int32]) -> Floats:
            second = resampled_ranks(b, counts) if kind == "spearman" else b
            return resampled_pearson(resampled_ranks(a, counts), second, counts)

        point = float(values_of(np.ones((1, n), np.int32))[0])
        parts = [values_of(counts) for counts in self.draws(n, self.n_replicates)]
        return Correlation(point, np.concatenate(parts) if parts else np.zeros(0), n, None)

    def draws(self, n_words: int, n_replicates: int) -> Iterator[NDArray[np.int32]]:
        """How often each word is drawn, some resamples at a time."""
        step = max(1, _BYTES_PER_CHUNK // (8 * n_words))
        for first in range(0, n_replicates, step):
            n = min(step, n_replicates - first)
            yield resample_counts(rng=self.seed, n_replicates=n, patient=np.arange(n_words), first=first)


def ratings_of(ratings: Ratings, words: Sequence[str]) -> Floats:
    """[words, raters] The ratings of the audited words; NaN where a word has none."""
    place = {normalise_word(word): k for k, word in enumerate(ratings.words)}
    out = np.full((len(words), len(ratings.raters)), np.nan)
    for k, word in enumerate(words):
        found = place.get(normalise_word(word))
        if found is not None:
            out[k] = ratings.scores[found]
    return out


def mean_ratings(scores: Floats) -> Floats:
    """[words] The mean over the raters who rated a word; NaN where none did."""
    known = ~np.isnan(scores)
    n = known.sum(axis=1)
    out = np.full(len(scores), np.nan)
    np.divide(np.where(known, scores, 0.0).sum(axis=1), n, out=out, where=n > 0)
    return out


@dataclass(frozen=True, eq=False)
class Panel:
    """The clinicians' view of the words that are both rated and scored; NaN elsewhere."""

    scores: Floats
    """[words, raters]"""
    raters: tuple[str, ...]
    mean: Floats
    rank: Floats
    """[words] Among the words that both sides have; 1 is the most important."""

    @classmethod
    def of(cls, ratings: Ratings, words: Sequence[str], scored: NDArray[np.bool_]) -> Panel:
        """The panel for the audited words; `scored` says which of them have a sensitivity."""
        scores = np.where(scored[:, None], ratings_of(ratings, words), np.nan)
        mean = mean_ratings(scores)
        return cls(scores, ratings.raters, mean, rank_words(mean))

    @property
    def rated(self) -> NDArray[np.bool_]:
        """[words] Which words both sides have."""
        return ~np.isnan(self.mean)

    def rank_of(self, sensitivity: Floats) -> Floats:
        """A model's ranks among the words that both sides have."""
        return rank_words(np.where(self.rated, sensitivity, np.nan))


def agreement(
    panel: Panel, label: str, models: Sequence[str], sensitivity: Floats, how: Resampling
) -> tuple[list[Estimate], list[Estimate]]:
    """Each model against the clinicians, and the differences between models, not corrected yet."""
    found = [how.correlate(row, panel.mean, kind="spearman") for row in sensitivity]
    about = {"metric": "clinician_agreement", "label": label, "group": CLINICIANS}
    levels = [how.row(each, model=name, **about) for name, each in zip(models, found, strict=True)]
    pairs = [
        how.difference(found[b], found[a], model=models[b], reference=models[a], **about)
        for b in range(len(models))
        for a in range(b)
    ]
    return levels, pairs


def model_agreement(label: str, models: Sequence[str], sensitivity: Floats, how: Resampling) -> list[Estimate]:
    """Every model against every other, over all words with a score; `group` names the other."""
    return [
        how.row(
            how.correlate(sensitivity[b], sensitivity[a], kind="spearman"),
            model=models[b],
            metric="model_agreement",
            label=label,
            group=models[a],
        )
        for b in range(len(models))
        for a in range(b)
    ]


def rank_gaps(
    panel: Panel, words: Sequence[str], label: str, models: Sequence[str], sensitivity: Floats, how: Resampling
) -> list[Estimate]:
    """The clinicians' rank of each word, and each model's rank less that, among the words that both sides have."""
    n = int(panel.rated.sum())
    why = "the word was not rated, or is not in the notes"

    def row(model: str, metric: str, word: int, value: float, reference: str | None) -> Estimate:
        number = finite(value)
        return Estimate(
            audit=how.audit,
            model=model,
            metric=metric,
            label=label,
            group=words[word],
            reference=reference,
            value=number,
            n=n,
            reason=why if number is None else None,
        )

    rows = [row(CLINICIANS, "rank", k, panel.rank[k], None) for k in range(len(words))]
    for name, scores in zip(models, sensitivity, strict=True):
        gap = panel.rank_of(scores) - panel.rank
        rows += [row(name, "rank", k, gap[k], CLINICIANS) for k in range(len(words))]
    return rows


def rater_agreement(panel: Panel, label: str, how: Resampling) -> list[Estimate]:
    """How well the clinicians agree with each other: the ceiling for a model."""
    table = panel.scores[panel.rated]
    complete = table[~np.isnan(table).any(axis=1)]
    one = "there is only one rater"
    alike = "the raters do not tell the words apart"
    few = f"fewer than {FEWEST_WORDS} words"
    measures: list[tuple[str, str, Floats, Callable[[Floats], float], str]] = [
        ("krippendorff_alpha", CLINICIANS, table, lambda rows: krippendorff_alpha(rows.T, level="ordinal"), few),
        ("kendall_w", CLINICIANS, complete, lambda rows: kendall_w(rows.T), f"{few} are rated by all raters"),
        ("rater_agreement", CLINICIANS, table, _mean_against_others, few),
    ]
    for j, rater in enumerate(panel.raters):
        measures.append(("rater_agreement", rater, table, partial(_against_others, rater=j), few))
    out = []
    for metric, group, rows, measure, too_few in measures:
        n_replicates = min(how.n_replicates, MOST_RATER_REPLICATES)
        found = Correlation(np.nan, np.zeros(0), len(rows), too_few)
        if table.shape[1] < 2:
            found = found._replace(reason=one)
        elif len(rows) >= FEWEST_WORDS:
            found = _measure(rows, measure, how, n_replicates)._replace(reason=alike)
        out.append(how.row(found, model=CLINICIANS, metric=metric, label=label, group=group))
    return out


def _measure(rows: Floats, measure: Callable[[Floats], float], how: Resampling, n_replicates: int) -> Correlation:
    values = [
        measure(np.repeat(rows, count, axis=0)) for counts in how.draws(len(rows), n_replicates) for count in counts
    ]
    return Correlation(measure(rows), np.asarray(values, dtype=np.float64), len(rows), None)


def _against_others(rows: Floats, rater: int) -> float:
    """Spearman of one rater with the mean of the others, over the words that both have."""
    others = mean_ratings(np.delete(rows, rater, axis=1))
    known = ~(np.isnan(rows[:, rater]) | np.isnan(others))
    return spearman(rows[known, rater], others[known])


def _mean_against_others(rows: Floats) -> float:
    values = [_against_others(rows, j) for j in range(rows.shape[1])]
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def frequency_correlations(
    schemes: Sequence[str],
    sensitivity: Sequence[Floats],
    models: Sequence[str],
    n_occurrences: NDArray[np.int64],
    label: str,
    how: Resampling,
) -> list[Estimate]:
    """Rank against frequency under each scheme, and the other scheme less the audit's own (Appendix E.1).

    `sensitivity` is [model, word] for each scheme, over the words that all schemes have. Rank 1 is the most sensitive,
    so a negative correlation says that frequent words come first.
    """
    frequency = n_occurrences.astype(np.float64)
    rows = []
    for m, model in enumerate(models):
        for kind in ("pearson", "spearman"):
            metric = f"frequency_{kind}"
            found = [how.correlate(-scores[m], frequency, kind=kind) for scores in sensitivity]
            rows += [
                how.row(each, model=model, metric=metric, label=label, group=scheme)
                for scheme, each in zip(schemes, found, strict=True)
            ]
            if len(found) > 1:
                about = {"model": model, "metric": metric, "label": label}
                rows.append(how.difference(found[1], found[0], reference=schemes[0], group=schemes[1], **about))
    return rows
