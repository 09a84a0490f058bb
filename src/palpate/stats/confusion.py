"""What a decision rule gets right and wrong, with weights; nan where a denominator is 0.

A row is predicted positive if its score is at least the threshold (chest X-ray context paper, Section 3.5:
local and global thresholds); a threshold of nan, as for a label without positives, gives nan.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from palpate.stats import inputs as _inputs
from palpate.stats.inputs import Floats, divide


class Confusion(NamedTuple):
    """Masses of the four outcomes: counts, or sums of weights."""

    tp: float
    fp: float
    tn: float
    fn: float


class ClassScores(NamedTuple):
    """Arrays of two: of class 0 and of class 1."""

    precision: Floats
    recall: Floats
    f1: Floats
    support: Floats


def confusion(y_true: ArrayLike, y_pred: ArrayLike, *, weight: ArrayLike | None = None) -> Confusion:
    """Masses of true and false positives and negatives, from predictions of 0 and 1."""
    positive, predicted, mass = _inputs.scored(y_true, _inputs.binary(y_pred, name="y_pred"), weight)
    alarm = predicted > 0
    return Confusion(
        tp=float(mass[positive & alarm].sum()),
        fp=float(mass[~positive & alarm].sum()),
        tn=float(mass[~positive & ~alarm].sum()),
        fn=float(mass[positive & ~alarm].sum()),
    )


def _at(y_true: ArrayLike, y_score: ArrayLike, threshold: float, weight: ArrayLike | None) -> Confusion:
    table = confusion(y_true, _inputs.finite(y_score, name="y_score") >= threshold, weight=weight)
    return table if threshold == threshold else Confusion(*[float("nan")] * 4)


def sensitivity_at_threshold(
    y_true: ArrayLike, y_score: ArrayLike, *, threshold: float, weight: ArrayLike | None = None
) -> float:
    """The share of positives that score at least the threshold; nan without positives."""
    table = _at(y_true, y_score, threshold, weight)
    return divide(table.tp, table.tp + table.fn)


def specificity_at_threshold(
    y_true: ArrayLike, y_score: ArrayLike, *, threshold: float, weight: ArrayLike | None = None
) -> float:
    """The share of negatives that score below the threshold; nan without negatives."""
    table = _at(y_true, y_score, threshold, weight)
    return divide(table.tn, table.tn + table.fp)


def ppv(y_true: ArrayLike, y_score: ArrayLike, *, threshold: float, weight: ArrayLike | None = None) -> float:
    """The share of predicted positives that are positive; nan if none is predicted."""
    table = _at(y_true, y_score, threshold, weight)
    return divide(table.tp, table.tp + table.fp)


def npv(y_true: ArrayLike, y_score: ArrayLike, *, threshold: float, weight: ArrayLike | None = None) -> float:
    """The share of predicted negatives that are negative; nan if none is predicted."""
    table = _at(y_true, y_score, threshold, weight)
    return divide(table.tn, table.tn + table.fn)


def precision_recall_f1(y_true: ArrayLike, y_pred: ArrayLike, *, weight: ArrayLike | None = None) -> ClassScores:
    """Precision, recall and F1 of class 0 and of class 1, from predictions of 0 and 1.

    F1 is 2TP / (2TP + FP + FN): undefined only if the class is neither present nor predicted.
    """
    tp, fp, tn, fn = confusion(y_true, y_pred, weight=weight)
    return ClassScores(
        precision=np.array([divide(tn, tn + fn), divide(tp, tp + fp)]),
        recall=np.array([divide(tn, tn + fp), divide(tp, tp + fn)]),
        f1=np.array([divide(2 * tn, 2 * tn + fp + fn), divide(2 * tp, 2 * tp + fp + fn)]),
        support=np.array([tn + fp, tp + fn]),
    )
