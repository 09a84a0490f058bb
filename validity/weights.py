"""Sampling weights of kinds that no interval was fitted to: who is sampled depends on a stratum, on chance or on risk.

`validity.performance` samples positives three times as often, with weights that vary by note. Here a patient's notes
have one weight: patients with an event are all kept, and one in ten of the others (*by outcome*), one patient in ten
stands for eight (*strata*), weights vary with a long tail (*gamma*, shape 0.7), or patients of high risk are sampled
five times as often as those of low risk (*by risk*). The truth is that of everybody.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Sample = tuple[NDArray[np.bool_], Floats, NDArray[np.int64]]
KINDS = ("by outcome", "strata", "gamma", "by risk")


def draw_weighted(
    kind: str, draw_patients: Callable[[int], Sample], n_patients: int, rng: np.random.Generator
) -> tuple[Sample, Floats]:
    """About `n_patients` sampled patients and the weight of each note; `draw_patients` draws from all of them."""
    if kind == "by risk":
        return _by_risk(draw_patients(3 * n_patients), rng)
    if kind == "by outcome":
        return _by_outcome(draw_patients(4 * n_patients), rng)
    sample = draw_patients(n_patients)
    own = np.where(rng.random(n_patients) < 0.1, 8.0, 1.0) if kind == "strata" else rng.gamma(0.7, size=n_patients)
    return sample, np.asarray(own[sample[2]])


def _by_risk(everybody: Sample, rng: np.random.Generator) -> tuple[Sample, Floats]:
    _, risk, patient = everybody
    mean = np.bincount(patient, weights=risk[0, :, 0]) / np.bincount(patient)
    rank = np.argsort(np.argsort(mean)) / len(mean)
    chance = (1.0 + 4.0 * rank) / 9.0  # a third of the patients on average
    return _taken(everybody, chance, rng)


def _by_outcome(everybody: Sample, rng: np.random.Generator) -> tuple[Sample, Floats]:
    y_true, _, patient = everybody
    has_event = np.bincount(patient, weights=y_true[:, 0]) > 0
    return _taken(everybody, np.where(has_event, 1.0, 0.1), rng)


def _taken(everybody: Sample, chance: Floats, rng: np.random.Generator) -> tuple[Sample, Floats]:
    """Patients sampled with these chances, who stand for as many as there were of each."""
    y_true, risk, patient = everybody
    rows = (rng.random(len(chance)) < chance)[patient]
    code = np.unique(patient[rows], return_inverse=True)[1].astype(np.int64)
    return (y_true[rows], risk[:, rows], code), np.asarray(1.0 / chance[patient[rows]])
