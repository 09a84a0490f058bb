"""Part of the characteristics audit: notes that differ in the ages that they can have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from palpate.audits.characteristics.age_ranges import AgeSets, AgeSums, measure_ages
from palpate.audits.characteristics.measures import ModelMeasures
from palpate.audits.kit.resampling import Resampling
from palpate.stats.clustered import units_of
from validity import COVERAGE, Cell

Floats = NDArray[np.float64]
Rng = np.random.Generator
THRESHOLD = 0.3
N_AGES, AT = 40, 25
COMPARED = (
    *(("a difference of ages", "difference", age) for age in (5, 15, 35)),
    ("a mean probability at an age", "mean_probability", 10),
    *(("an age against its neighbours", "gap", age) for age in (8, 30)),
    ("decisions reversed at an age", "reversals", 12),
    ("decisions that a year flips", "steps", 20),
    ("decisions flipped between ages", "flip_rate", 10),
)
"""What is said, the measure, and the age (or year) of it."""


def ranged(rng: Rng, n: int, n_samples: int) -> tuple[Floats, NDArray[np.bool_]]:
    """[patient, age, sample] risks that rise with age, and the ages that each patient's note can have.

    Who can't be young is at a higher risk and moves more with age, so a mean over the notes of each age would be wrong.
    """
    youngest = np.minimum(rng.geometric(0.08, n), 30) - 1
    old = (youngest / 30)[:, None, None]
    ages = np.linspace(-1, 1, N_AGES)[None, :, None]
    slope = np.exp(rng.normal(-0.125, 0.5, (n, 1, n_samples))) * (0.3 + old)
    noise = 0.1 * rng.normal(size=(n, N_AGES, n_samples))
    logit = rng.normal(-1.5, 1.0, (n, 1, n_samples)) + old + slope * ages + noise
    return np.asarray(expit(logit)), np.arange(N_AGES) >= youngest[:, None]


def measured_ages(p: Floats, possible: NDArray[np.bool_]) -> ModelMeasures:
    """One note per patient."""
    years = np.arange(N_AGES)
    sets = AgeSets.of(possible, AT, years, units_of(np.arange(len(p))))
    seen = np.where(possible[..., None], p, np.nan)
    sums = AgeSums.of(seen, p[:, -1], np.full(p.shape[2], THRESHOLD), sets, years)
    return measure_ages(sums, sets, Resampling(), run=None, observed=None)


def cells(n_samples: int, rng: Rng, sizes: Sequence[int]) -> Iterator[Cell]:
    """Notes that differ in the ages that they can have: each comparison is over the notes that can have its ages."""
    batch, whole = 5, measured_ages(*ranged(rng, 300_000, 1))
    truth = [float(getattr(whole, name).value[at, 0]) for _, name, at in COMPARED]
    for n in sizes:
        held: list[list[bool]] = [[] for _ in COMPARED]
        for _ in range(-(-n_samples // batch)):
            found = measured_ages(*ranged(rng, n, batch))
            for hits, (_, name, at), true in zip(held, COMPARED, truth, strict=True):
                low, high = (end[at] for end in getattr(found, name).ends(0.05))
                known = np.isfinite(getattr(found, name).value[at])
                hits += ((low <= true) & (true <= high))[known].tolist()
        for hits, (what, _, at) in zip(held, COMPARED, strict=True):
            setting = f"{n} patients who can have different ages, age {at + 1} of {N_AGES}"
            if hits:
                yield Cell(f"coverage of {what}", setting, float(np.mean(hits)), len(hits), COVERAGE)
