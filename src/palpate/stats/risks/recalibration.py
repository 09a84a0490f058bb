"""Recalibration: a map from a model's risks to risks that come true, fitted on patients who are not audited.

*intercept* moves all log odds by one number, *slope* (logistic recalibration, Cox 1958) moves and stretches them, and
*isotonic* is the step function that rises with the risk and fits best (Zadrozny and Elkan 2002); of n cases it gives no
risk below 1 / (n + 2), because no number of patients shows a certainty. The first two keep the order of patients;
isotonic makes ties.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from palpate.stats.inputs import Floats
from palpate.stats.risks import check_risks, log_odds
from palpate.stats.risks.logistic import fit_logistic

Method = Literal["intercept", "slope", "isotonic"]
METHODS: tuple[Method, ...] = ("intercept", "slope", "isotonic")


class RiskMap(NamedTuple):
    """A fitted map: log odds are multiplied by `slope` and `intercept` is added, or risks are looked up in steps."""

    method: Method
    intercept: float
    slope: float
    risk: Floats
    """Of an isotonic map: where the steps begin and end, from low to high; between two, the line that joins them."""
    recalibrated: Floats

    @property
    def known(self) -> bool:
        """Whether there is a map: outcomes that are separated have none."""
        return bool(np.isfinite(self.intercept) and np.isfinite(self.slope))

    def apply(self, y_score: ArrayLike) -> Floats:
        """The recalibrated risks."""
        risk = np.asarray(y_score, np.float64)
        if self.method == "isotonic":
            return np.asarray(np.interp(risk, self.risk, self.recalibrated))
        return np.asarray(expit(self.intercept + self.slope * log_odds(risk)))


def fit_map(y_true: ArrayLike, y_score: ArrayLike, *, method: Method, weight: ArrayLike | None = None) -> RiskMap:
    """The map of one method from outcomes and risks [n]; not `known` with one class, or if all risks are the same."""
    y, risk, mass = check_risks(y_true, y_score, weight)
    none = np.zeros(0)
    used = risk[mass > 0]
    if method == "intercept":
        fit = fit_logistic(np.ones((y.size, 1)), y, mass, offset=log_odds(risk))
        return RiskMap(method, float(fit.coefficients[0]), 1.0, none, none)
    flat = used.size == 0 or bool((used == used[0]).all()) or float(mass @ y) in (0.0, float(mass.sum()))
    if flat:
        return RiskMap(method, float("nan"), float("nan"), none, none)
    if method == "slope":
        fit = fit_logistic(np.column_stack([np.ones(y.size), log_odds(risk)]), y, mass)
        intercept, slope = (float(each) for each in fit.coefficients)
        return RiskMap(method, intercept, slope, none, none)
    if method != "isotonic":
        raise ValueError(f"unknown method {method!r}; the methods are {', '.join(METHODS)}")
    from sklearn.isotonic import IsotonicRegression

    least = 1.0 / (used.size + 2.0)
    fitted = IsotonicRegression(y_min=least, y_max=1.0 - least, out_of_bounds="clip").fit(risk, y, sample_weight=mass)
    return RiskMap(method, 0.0, 1.0, fitted.X_thresholds_.astype(np.float64), fitted.y_thresholds_.astype(np.float64))
