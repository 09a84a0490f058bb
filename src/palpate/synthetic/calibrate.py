"""Intercepts that give the published prevalences, found on a reference population that does not depend on the seed.

The reference patients are the same for every hospital, so the first patients of a hospital do not depend on its size.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.synthetic.patients import Intercepts, SyntheticPatient, population, simulate
from palpate.synthetic.plants import Plants, Site

Floats = NDArray[np.float64]
_REFERENCE_PATIENTS = (1500, 3000, 6000)
_REFERENCE_SEED = 20_230_617
_START = Intercepts(readmission=-5.2, mortality=-4.2)


class Calibration(NamedTuple):
    """Intercepts, the reference patients, and how well the latent logits discriminate."""

    intercepts: Intercepts
    patients: tuple[SyntheticPatient, ...]
    auroc_readmission: float
    auroc_mortality: float


@lru_cache(maxsize=8)
def calibrate(plants: Plants, site: Site) -> Calibration:
    """Solve for the intercepts; twice, because they determine who is readmitted."""
    intercepts = _START
    for n_patients in _REFERENCE_PATIENTS[:-1]:
        patients = _reference(n_patients, plants, site, intercepts)
        adults = [stay for patient in patients if not patient.newborn for stay in patient.stays]
        mortality = np.array([stay.logit_mortality for stay in adults])
        readmission = np.array([stay.logit_readmission for stay in adults if not stay.died])
        targets = population()
        intercepts = Intercepts(
            readmission=intercepts.readmission + shift_to(readmission, targets["readmission"][site]),
            mortality=intercepts.mortality + shift_to(mortality, targets["mortality"][site]),
        )
    patients = _reference(_REFERENCE_PATIENTS[-1], plants, site, intercepts)
    adults = [stay for patient in patients if not patient.newborn for stay in patient.stays]
    return Calibration(
        intercepts=intercepts,
        patients=patients,
        auroc_readmission=expected_auroc(np.array([stay.logit_readmission for stay in adults if not stay.died])),
        auroc_mortality=expected_auroc(np.array([stay.logit_mortality for stay in adults])),
    )


def _reference(n_patients: int, plants: Plants, site: Site, intercepts: Intercepts) -> tuple[SyntheticPatient, ...]:
    seed = _REFERENCE_SEED
    return tuple(simulate(n_patients, seed=seed, site=site, source="reference", plants=plants, intercepts=intercepts))


def shift_to(logits: Floats, prevalence: float) -> float:
    """What has to be added to the logits to make their mean probability `prevalence`, by bisection."""
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        if probability(logits + middle).mean() < prevalence:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def probability(logits: Floats) -> Floats:
    """Logistic function of an array."""
    result: Floats = 1.0 / (1.0 + np.exp(-logits))
    return result


def expected_auroc(logits: Floats) -> float:
    """The expected AUROC of the logits themselves on outcomes drawn from them."""
    p = probability(np.sort(logits))
    below = np.concatenate([[0.0], np.cumsum(1 - p)[:-1]])
    return float((p * (below + (1 - p) / 2)).sum() / (p.sum() * (1 - p).sum()))
