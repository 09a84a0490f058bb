"""What a model card measures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from palpate.train.cards import best_f1

torch = pytest.importorskip("torch")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 6)), min_size=1, max_size=12))
def test_the_best_f1_is_the_best_of_all_thresholds(cells: list[tuple[int, int]]) -> None:
    y, p = np.array([[cell[0] for cell in cells]]), np.array([[cell[1] / 7 for cell in cells]])
    found = best_f1(y, p)
    scores = {t: f1_score(y[0], p[0] >= t, zero_division=0) for t in np.unique(p)}
    assert found.f1 == pytest.approx(max(scores.values()))
    assert found.threshold == max(t for t, f1 in scores.items() if f1 == pytest.approx(found.f1))
