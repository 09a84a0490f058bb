"""Slices against scikit-learn and the jackknife over patients, one slice at a time."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from palpate.stats.groups.slices import (
    NOWHERE,
    SliceCases,
    SliceMeasure,
    all_slices,
    combinations_of,
    slice_mask,
)


def cases(n: int, seed: int, *, notes: int = 1, ties: bool = False, mean: bool = False) -> SliceCases:
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    score = rng.normal(size=n) + y
    score = np.round(score) if ties else score
    return SliceCases(y, score, np.arange(n) // notes, rng.random(n) if mean else None)


def slow(data: SliceCases, mask: np.ndarray) -> float:
    if data.value is not None:
        return float(data.value[mask].mean())
    return float(roc_auc_score(data.y_true[mask], data.y_score[mask]))


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.booleans(), st.booleans(), st.sampled_from([1, 3]))
def test_every_slice_is_what_scikit_learn_says(seed: int, ties: bool, mean: bool, notes: int) -> None:
    data = cases(300, seed, notes=notes, ties=ties, mean=mean)
    rng = np.random.default_rng(seed)
    sizes = [2, 3, 4]
    codes = [rng.integers(0, size, 300) for size in sizes]
    codes[2][rng.random(300) < 0.3] = NOWHERE
    table = all_slices(SliceMeasure(data), codes, sizes, combinations_of(3, 0, 3), fewest_patients=3, fewest_of_class=2)
    found = {}
    for k in range(len(table.stats.n)):
        found[table.conditions(k)] = k
    wanted = 0
    for depth in (1, 2, 3):
        for chosen in combinations(range(3), depth):
            for values in product(*(range(sizes[a]) for a in chosen)):
                conditions = tuple(zip(chosen, values, strict=True))
                mask = slice_mask(conditions, codes)
                positive = int(data.y_true[mask].sum())
                patients = len(np.unique(data.patient[mask]))
                if patients < 3 or min(positive, int(mask.sum()) - positive) < 2:
                    assert conditions not in found
                    continue
                wanted += 1
                k = found[conditions]
                assert (table.mask(k, codes) == mask).all()
                assert table.stats.n[k] == mask.sum()
                assert table.stats.n_positive[k] == positive
                assert table.stats.n_patients[k] == patients
                assert table.stats.value[k] == pytest.approx(slow(data, mask), abs=1e-12)
    assert wanted == len(found)


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("notes", [1, 4])
def test_the_standard_error_is_that_of_leaving_out_patients(mean: bool, notes: int) -> None:
    data = cases(800, 5, notes=notes, mean=mean)
    value, variance, n, positive, patients = SliceMeasure(data).one(np.ones(800, bool))
    assert (n, positive, patients) == (800, int(data.y_true.sum()), 800 // notes)
    left_out = np.asarray([slow(data, data.patient != patient) for patient in range(patients)])
    jackknife = (patients - 1) / patients * ((left_out - left_out.mean()) ** 2).sum()
    assert variance == pytest.approx(jackknife, rel=0.05)
    assert value == pytest.approx(slow(data, np.ones(800, bool)))


def test_undefined_where_there_is_one_class_or_no_case() -> None:
    data = SliceCases(np.asarray([True, True, False]), np.asarray([0.1, 0.2, 0.3]), np.arange(3))
    found = SliceMeasure(data).stats(np.asarray([0, 0, NOWHERE]), 2)
    assert np.isnan(found.value).all()
    assert found.n.tolist() == [2, 0]


def test_combinations() -> None:
    assert list(combinations_of(2, 0, 2)) == [(0,), (1,), (0, 1)]
    with_words = set(combinations_of(2, 2, 3))
    assert {(0,), (2,), (0, 2), (0, 1, 3), (2, 3)} <= with_words
    assert (0, 2, 3) not in with_words  # one word beside attributes
