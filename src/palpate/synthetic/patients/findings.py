"""The 13 chest X-ray labels: how the history predicts them, how a picture shows them, and what two models predict.

Given the label, the picture does not depend on the history; the sticker in its corner does. So an honest model keeps
its AUROC when positives and negatives are matched on the history, and one that reads the sticker loses a known part.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from palpate.files import read_resource
from palpate.synthetic.calibrate import calibrate, probability, shift_to
from palpate.synthetic.patients.conditions import condition_names
from palpate.synthetic.plants import Plants, Site

Floats = NDArray[np.float64]
_GRID = 300


@lru_cache(maxsize=1)
def cxr_table() -> Any:
    """The contents of cxr.yaml."""
    return read_resource("palpate.synthetic.patients", "cxr.yaml")


@lru_cache(maxsize=1)
def labels() -> tuple[str, ...]:
    """The 13 labels, in the order of the published file."""
    return tuple(cxr_table()["labels"])


@dataclass(frozen=True)
class Findings:
    """Everything needed to draw labels and image signals, and what can be expected of the two models."""

    prevalence: Floats
    signal: Floats
    weights: Floats
    """Conditions x labels; they include the history effect."""
    intercept: Floats
    mean: Floats
    sd: Floats
    shortcut: float
    shortcut_signal: Floats
    """The model that relies on the sticker sees less of the picture, so that both models have the same AUROC."""
    auroc: dict[str, Floats]

    def pretest(self, history: Set[str]) -> Floats:
        """Log-odds of each label given the history."""
        rows = [k for k, name in enumerate(condition_names()) if name in history]
        total: Floats = self.intercept + self.weights[rows].sum(axis=0)
        return total

    def standard(self, pretest: Floats) -> Floats:
        """The history's log-odds in standard deviations of the reference studies; 0 if it says nothing."""
        return np.divide(pretest - self.mean, self.sd, out=np.zeros_like(pretest), where=self.sd > 0)

    def honest(self, signal: Floats) -> Floats:
        """Calibrated probabilities from the picture alone."""
        base = np.log(self.prevalence / (1 - self.prevalence))
        return probability(base + self.signal * signal - self.signal**2 / 2)

    def leaning(self, signal: Floats, standard: Floats) -> Floats:
        """Probabilities of the model that adds what the sticker says."""
        mu, base = self.shortcut_signal, np.log(self.prevalence / (1 - self.prevalence))
        return probability(base + mu * (signal + self.shortcut * standard) - mu**2 / 2)


@lru_cache(maxsize=8)
def findings(plants: Plants, site: Site) -> Findings:
    """Calibrated on the reference population to give the published prevalences."""
    table = cxr_table()["labels"]
    index = {name: k for k, name in enumerate(condition_names())}
    weights = np.zeros((len(index), len(table)))
    for column, row in enumerate(table.values()):
        for name, weight in row["history"].items():
            weights[index[name], column] = plants.history_effect * weight
    prevalence = np.array([row["prevalence"] for row in table.values()])
    history = _histories(plants, site, index)
    logits = history @ weights
    intercept = np.array([shift_to(logits[:, k], prevalence[k]) for k in range(len(table))])
    mean = logits.mean(axis=0) + intercept
    sd = np.where(np.ptp(logits, axis=0) > 0, logits.std(axis=0), 0.0)
    made = Findings(
        prevalence=prevalence,
        signal=np.array([row["signal"] for row in table.values()]),
        weights=weights,
        intercept=intercept,
        mean=mean,
        sd=sd,
        shortcut=plants.visual_shortcut,
        shortcut_signal=np.zeros(len(table)),
        auroc={},
    )
    made.auroc.update(_expected(made, logits + intercept))
    return made


def _histories(plants: Plants, site: Site, index: dict[str, int]) -> Floats:
    stays = [stay for patient in calibrate(plants, site).patients for stay in patient.stays if stay.index > 0]
    history = np.zeros((len(stays), len(index)))
    for row, stay in enumerate(stays):
        history[row, [index[name] for name in stay.history]] = 1.0
    return history


def _expected(made: Findings, pretest: Floats) -> dict[str, Floats]:
    """AUROC per label of the context alone and of both models, on all studies and on matched ones; sets the signals."""
    rows: dict[str, list[float]] = {"context": [], "honest": [], "shortcut": [], "shortcut_matched": []}
    standard = made.standard(pretest)
    for k in range(pretest.shape[1]):
        p = probability(pretest[:, k])
        cut = made.shortcut * standard[:, k]
        positive, negative = _quantiles(cut, p), _quantiles(cut, 1 - p)
        honest = float(ndtr(made.signal[k] / math.sqrt(2)))
        mu = made.shortcut_signal[k] = _signal_for(honest, positive, negative)
        rows["context"].append(_above(_quantiles(standard[:, k], p), _quantiles(standard[:, k], 1 - p)))
        rows["honest"].append(honest)
        rows["shortcut"].append(_auroc(mu, positive, negative))
        rows["shortcut_matched"].append(_auroc(mu, positive, positive))
    return {name: np.array(values) for name, values in rows.items()}


def _auroc(mu: float, positive: Floats, negative: Floats) -> float:
    """AUROC of a signal that is `mu` standard deviations apart, to which the shortcut's share is added."""
    return float(ndtr((mu + positive[:, None] - negative[None, :]) / math.sqrt(2)).mean())


def _signal_for(auroc: float, positive: Floats, negative: Floats) -> float:
    """The signal with which the shortcut model reaches an AUROC; 0 if the shortcut alone is enough."""
    low, high = 0.0, 6.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if _auroc(middle, positive, negative) < auroc else (low, middle)
    return (low + high) / 2


def _quantiles(values: Floats, weight: Floats) -> Floats:
    """An equally weighted sample that represents the weighted values."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weight[order])
    at = np.searchsorted(total, (np.arange(_GRID) + 0.5) / _GRID * total[-1])
    picked: Floats = values[order][np.minimum(at, len(values) - 1)]
    return picked


def _above(positive: Floats, negative: Floats) -> float:
    greater = positive[:, None] > negative[None, :]
    equal = positive[:, None] == negative[None, :]
    return float(greater.mean() + equal.mean() / 2)


def names_of(values: Iterable[float]) -> dict[str, float]:
    """One rounded number per label, for truth.json."""
    return {label: round(float(value), 6) for label, value in zip(labels(), values, strict=True)}
