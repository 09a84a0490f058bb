"""Rank against frequency, when the first occurrence of a word is swapped and when all are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr

from palpate.audits.vocabulary.correlations import WordCorrelations
from palpate.audits.vocabulary.frequency import SchemeScores, frequency_rows
from palpate.kit import Resampling, RowWriter


def test_frequency_is_correlated_with_the_rank_under_both_schemes() -> None:
    """If all occurrences are swapped, the score grows with frequency; if only the first is, it does not."""
    rng = np.random.default_rng(0)
    frequency = np.round(10 ** rng.uniform(1, 4, size=60)).astype(int)
    first, every = rng.random(60), rng.random(60) * frequency
    over_words = WordCorrelations(RowWriter("vocabulary"), Resampling(n_replicates=1_000, seed=3))
    rows = frequency_rows(SchemeScores({"first": {"m": first}, "all": {"m": every}}, frequency), "y", over_words)
    found = {(row.metric, row.group, row.reference): row for row in rows}
    rank = rankdata(-every)
    pearson = found["frequency_pearson", "all", None]
    assert pearson.value == pytest.approx(np.corrcoef(rank, frequency)[0, 1])
    assert found["frequency_spearman", "all", None].value == pytest.approx(spearmanr(rank, frequency).statistic)
    assert pearson.high is not None
    assert pearson.high < 0
    level = found["frequency_pearson", "first", None]
    assert (level.low or 0) < 0 < (level.high or 0)
    change = found["frequency_pearson", "all", "first"]
    assert change.value == pytest.approx((pearson.value or 0) - (level.value or 0))
    assert change.p_value is not None
    assert change.p_value < 0.05
