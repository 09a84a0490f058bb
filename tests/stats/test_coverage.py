"""Whether 95% intervals hold the truth 95% of the time, on simulated patients whose true AUROC is known."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from palpate.stats import bootstrap, percentile_interval

pytestmark = pytest.mark.slow

N_SETS, N_PATIENTS, ROWS_EACH, N_REPLICATES = 1_000, 500, 2, 1_000
SHIFTS = (1.2, 0.9)  # of the positives' scores, by model
TRUTH = [NormalDist().cdf(shift / math.sqrt(2)) for shift in SHIFTS]


def simulate(g):
    """Two rows a patient that share most of their score, scored by two models that share much of theirs.

    A score is normal with variance 1 in either class, moved by `shift` in the positives: a pair of rows of different
    patients is ranked rightly with probability Phi(shift / sqrt(2)).
    """
    y = np.repeat(g.random(N_PATIENTS) < 0.4, ROWS_EACH)
    patient = np.repeat(np.arange(N_PATIENTS), ROWS_EACH)
    of_patient = np.repeat(g.normal(size=N_PATIENTS), ROWS_EACH)
    scores = []
    both = g.normal(size=y.size)
    for shift in SHIFTS:
        noise = math.sqrt(0.6) * of_patient + math.sqrt(0.2) * both + math.sqrt(0.2) * g.normal(size=y.size)
        scores.append(noise + shift * y)
    return y, np.array(scores), patient


@pytest.fixture(scope="module")
def covered():
    """For each simulated set: is the truth inside? [AUROC of either model, their difference, AUROC by case]."""
    g = np.random.default_rng(2024)
    inside = []
    for _ in range(N_SETS):
        y, scores, patient = simulate(g)
        r = bootstrap(y, scores, patient=patient, n_replicates=N_REPLICATES, rng=g)
        naive = bootstrap(y, scores, unit="case", n_replicates=N_REPLICATES, rng=g)
        values = [*r.values[:, 0, 0], r.values[0, 0, 0] - r.values[1, 0, 0], naive.values[0, 0, 0]]
        low, high = percentile_interval(np.array(values))
        truth = np.array([*TRUTH, TRUTH[0] - TRUTH[1], TRUTH[0]])
        inside.append((low <= truth) & (truth <= high))
    return np.mean(inside, axis=0)


def test_auroc_interval_covers(covered):
    assert 0.93 <= covered[0] <= 0.97
    assert 0.93 <= covered[1] <= 0.97


def test_paired_difference_interval_covers(covered):
    assert 0.93 <= covered[2] <= 0.97


def test_resampling_rows_as_if_independent_covers_too_little(covered):
    """Two rows of a patient are not two patients: the interval by cases is too narrow here."""
    assert covered[3] < 0.92
