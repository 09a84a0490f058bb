"""Rank correlation against scipy, and against the vocabulary paper's own numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr

from palpate.stats import average_ranks, spearman

# Tables 8 and 9: word, rank by the clinicians, by BioClinicalBERT ("language") and by tf-idf + xgboost.
WORDS = [
    ("chemotherapy", 1, 15, 25),
    ("hypoglycemia", 2, 3, 12),
    ("tumor", 3, 19, 40),
    ("overdose", 3, 1, 2),
    ("dementia", 3, 2, 16),
    ("anticoagulation", 6, 36, 36),
    ("delirium", 6, 26, 17),
    ("debridement", 6, 7, 10),
    ("arrhythmia", 6, 5, 20),
    ("pancreatic", 6, 4, 35),
    ("amputation", 6, 10, 23),
    ("fall", 6, 6, 3),
    ("cardiovascular", 13, 17, 45),
    ("neurosurgery", 13, 31, 33),
    ("diabetes", 13, 39, 24),
    ("ablation", 16, 11, 15),
    ("expired", 16, 21, 1),
    ("dehydrated", 16, 25, 41),
    ("palpitations", 16, 8, 28),
    ("obesity", 16, 41, 34),
    ("wheeze", 21, 14, 27),
    ("vaccination", 21, 47, 48),
    ("arthritis", 21, 22, 30),
    ("pain", 21, 27, 32),
    ("dysfunction", 21, 23, 8),
    ("urinary", 26, 24, 5),
    ("faint", 26, 46, 42),
    ("refills", 26, 9, 19),
    ("immunizations", 26, 38, 39),
    ("blood", 26, 34, 9),
    ("family", 26, 35, 37),
    ("diarrhea", 32, 16, 22),
    ("female", 32, 18, 44),
    ("prescribed", 32, 30, 7),
    ("medication", 32, 45, 29),
    ("electrolytes", 32, 40, 43),
    ("allergies", 32, 12, 46),
    ("aspirin", 32, 13, 6),
    ("increase", 32, 48, 4),
    ("tylenol", 40, 20, 13),
    ("care", 40, 37, 26),
    ("benign", 40, 29, 38),
    ("mother", 40, 28, 31),
    ("cartridge", 40, 44, 14),
    ("labor", 40, 43, 49),
    ("moderate", 40, 49, 47),
    ("tablet", 40, 33, 21),
    ("mg", 40, 42, 11),
    ("patient", 40, 32, 18),
]


@pytest.mark.parametrize(("column", "published"), [(2, 0.57547), (3, 0.12595)])
def test_the_papers_correlations(column, published):
    """Table 2 prints 0.5754 and 0.1259; the ranks of Tables 8 and 9 give them, ties averaged."""
    manual, model = [word[1] for word in WORDS], [word[column] for word in WORDS]
    assert len(WORDS) == 49
    assert sorted(model) == list(range(1, 50))
    assert round(spearman(manual, model), 5) == published


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=30))
def test_equals_scipy(pairs):
    a, b = np.array(pairs, float).T
    np.testing.assert_array_equal(average_ranks(a), rankdata(a))
    if len(set(a)) > 1 and len(set(b)) > 1:
        assert spearman(a, b) == pytest.approx(spearmanr(a, b).statistic, abs=1e-12)
    else:
        assert math.isnan(spearman(a, b))


def test_ends_and_errors():
    assert spearman([1, 2, 3], [10, 20, 30]) == 1.0
    assert spearman([1, 2, 3], [3, 2, 1]) == -1.0
    assert math.isnan(spearman([1], [1]))
    with pytest.raises(ValueError, match="3 values but b has 2"):
        spearman([1, 2, 3], [1, 2])
    with pytest.raises(ValueError, match="finite"):
        spearman([1, math.nan], [1, 2])
    with pytest.raises(ValueError, match="one dimension"):
        average_ranks([[1, 2]])
