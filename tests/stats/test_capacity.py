"""The threshold that flags as many as can be looked at, against a slow search over all scores."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.stats import capacity_threshold

SCORES = st.lists(st.integers(0, 10), min_size=1, max_size=40)


@given(SCORES, st.integers(0, 20))
def test_no_other_threshold_is_nearer(scores: list[int], twentieths: int) -> None:
    share = Fraction(twentieths, 20)
    found = capacity_threshold(np.asarray(scores) / 10, float(share))
    flagged = {t: Fraction(sum(s >= t for s in scores), len(scores)) for t in set(scores)}
    nearest = min(abs(f - share) for f in flagged.values())
    best = max(t for t, f in flagged.items() if abs(f - share) == nearest)
    assert found.threshold == best / 10
    assert found.flagged == pytest.approx(float(flagged[best]))


@given(SCORES, st.integers(1, 19), st.data())
def test_weights_are_copies(scores: list[int], twentieths: int, data: st.DataObject) -> None:
    weight = data.draw(st.lists(st.integers(1, 3), min_size=len(scores), max_size=len(scores)))
    weighted = capacity_threshold(scores, twentieths / 20, weight=weight)
    copied = capacity_threshold(np.repeat(scores, weight), twentieths / 20)
    assert weighted == pytest.approx(copied)


def test_tied_scores_are_flagged_together() -> None:
    assert capacity_threshold([0.9, 0.9, 0.9, 0.1], 0.5) == (0.9, 0.75)
    assert capacity_threshold([0.0] * 96 + [0.4] * 4, 0.05) == (0.4, 0.04)


def test_without_rows_nothing_is_known() -> None:
    assert math.isnan(capacity_threshold([], 0.1).threshold)
    with pytest.raises(ValueError, match="share"):
        capacity_threshold([0.1], 1.5)
