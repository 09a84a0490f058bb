"""Correlations over words, with intervals that resample words.

Everything over the same words is computed on the same resamples, so two correlations are compared as paired.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.resampling import FEWEST_FOR_TEST, Resampling
from palpate.audits.kit.rows import RowWriter
from palpate.results import Estimate
from palpate.stats import (
    correlation_difference_interval,
    correlation_interval,
    interval_p_value,
    resample_counts,
    resampled_pearson,
    resampled_ranks,
)

Floats = NDArray[np.float64]

FEWEST_WORDS = 3
"""For a correlation."""
FEWEST_FOR_INTERVAL = FEWEST_FOR_TEST
"""Words below which a correlation has no interval: it would not hold what it claims."""
_BYTES_PER_CHUNK = 32_000_000


class Correlation(NamedTuple):
    """A correlation over words, on the data and on resampled words."""

    value: float
    replicates: Floats
    n: int
    reason: str | None = None


@dataclass(frozen=True)
class WordCorrelations:
    """Computes correlations over words and writes them as estimates."""

    writer: RowWriter
    resampling: Resampling

    def correlate(self, ranked: Floats, other: Floats, *, kind: Literal["spearman", "pearson"]) -> Correlation:
        """Of the ranks of `ranked` with the ranks (Spearman) or the values (Pearson) of `other`; NaN is left out.

        Ranks are taken anew in each resample.
        """
        known = ~(np.isnan(ranked) | np.isnan(other))
        a, b = np.round(ranked[known], 12), np.round(other[known], 12)
        n, none = len(a), np.zeros(0)
        if n < FEWEST_WORDS:
            return Correlation(np.nan, none, n, f"fewer than {FEWEST_WORDS} words can be compared")
        if np.all(a == a[0]):
            return Correlation(np.nan, none, n, "every word moves the model alike")
        if np.all(b == b[0]):
            return Correlation(np.nan, none, n, "the other side does not tell the words apart")

        def values_of(counts: NDArray[np.int32]) -> Floats:
            second = resampled_ranks(b, counts) if kind == "spearman" else b
            return resampled_pearson(resampled_ranks(a, counts), second, counts)

        point = float(values_of(np.ones((1, n), np.int32))[0])
        parts = [values_of(counts) for counts in self.draws(n, self.resampling.n_replicates)]
        return Correlation(point, np.concatenate(parts) if parts else none, n)

    def draws(self, n_words: int, n_replicates: int) -> Iterator[NDArray[np.int32]]:
        """How often each word is drawn, some resamples at a time."""
        step = max(1, _BYTES_PER_CHUNK // (8 * n_words))
        for first in range(0, n_replicates, step):
            n = min(step, n_replicates - first)
            yield resample_counts(rng=self.resampling.seed, n_replicates=n, patient=np.arange(n_words), first=first)

    def row(
        self, found: Correlation, model: str, metric: str, label: str, group: str, *, reference: str | None = None
    ) -> Estimate:
        """A correlation as an estimate, or with `reference` a difference of two, whose p-value is not corrected yet."""
        interval_of = correlation_interval if reference is None else correlation_difference_interval
        low, high, p_value, reason = np.nan, np.nan, None, found.reason
        if not np.isnan(found.value):
            reason = f"no interval: fewer than {FEWEST_FOR_INTERVAL} words"
            if found.n >= FEWEST_FOR_INTERVAL:
                ends = interval_of(found.value, found.replicates, found.n, level=self.writer.level)
                low, high = float(ends.low), float(ends.high)
                reason = "no interval: undefined in more than 5% of the resamples" if np.isnan(low) else None
            if reference is not None:
                p_value = float(interval_p_value(found.value, low, high, level=self.writer.level))
        return self.writer.row(
            model,
            metric,
            label,
            group,
            found.value,
            n=found.n,
            interval=(low, high),
            reference=reference,
            p_value=p_value,
            reason=reason,
        )

    def difference(
        self, a: Correlation, b: Correlation, model: str, metric: str, label: str, group: str, *, reference: str
    ) -> Estimate:
        """One correlation less another over the same resampled words."""
        paired = len(a.replicates) == len(b.replicates)
        replicates = a.replicates - b.replicates if paired else np.zeros(0)
        both = Correlation(a.value - b.value, replicates, min(a.n, b.n), a.reason or b.reason)
        return self.row(both, model, metric, label, group, reference=reference)
