"""The core set of measures for predicted risks as metrics of models x labels: levels, differences and averages as rows.

See `palpate.stats.risks`. Shared by the audits that report it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.metrics import MetricReplicates, class_units, cluster_sizes, weighing
from palpate.audits.kit.resampling import FEWEST_FOR_INTERVAL
from palpate.audits.kit.scope import Share, Unit
from palpate.errors import ConfigError
from palpate.results import MACRO, Predictions
from palpate.stats import macro_average
from palpate.stats.precision import Weighing
from palpate.stats.risks.core import CORE, DISTANCES, HIDDEN, core_replicates
from palpate.stats.risks.intervals import FEWEST_EVENTS, distance_interval, risk_intervals
from palpate.stats.score_intervals import Spread

__all__ = [
    "CORE",
    "DISTANCES",
    "BenefitRange",
    "CaseRisks",
    "RiskReplicates",
    "ScoredCases",
    "check_range",
    "measure_risks",
    "risk_average",
    "risks_of_part",
]
BenefitRange = tuple[Share, Share]
"""The thresholds over which net benefit is drawn and averaged, from low to high."""
Floats = NDArray[np.float64]
MOST_REPLICATES = 2_000
"""Enough: replicates of the core set are drawn from its standard errors, and not from refits."""
_UNUSED = (0.01, 0.5)
"""The range of thresholds of a mean net benefit that is not reported."""
_CANCELS = ("calibration_intercept", "calibration_slope", "oe_ratio")
_NEEDS_EVENTS = ("calibration_slope", *DISTANCES)


class RiskReplicates(MetricReplicates):
    """The core set of every model and label on one population; the metrics are `CORE`, and `HIDDEN`, not reported."""

    @property
    def reported(self) -> range:
        """The core set."""
        return range(len(CORE))

    def reason(self, label: int, *, value: float | None, low: float | None, metric: str = "") -> str | None:
        """Why a number or its interval is missing; None if both are there."""
        mixed = 0 < int(self.n_positive[label]) < int(self.n[label])
        if value is None and mixed and not self.why_undefined:
            if metric == "net_benefit":
                return "no threshold below 1"
            if metric in _NEEDS_EVENTS:
                return "no finite curve: the risks are all the same, or separate the outcomes completely"
            return "undefined: all risks are 0"
        fewest = int(self.n_units[:, label].min())
        if value is not None and low is None and not self.why_no_interval and fewest >= FEWEST_FOR_INTERVAL:
            which = "patients with or without the label"
            if metric in _NEEDS_EVENTS and fewest < FEWEST_EVENTS:
                return f"no interval: fewer than {FEWEST_EVENTS} {which}"
            return f"no interval: too few {which}"
        return super().reason(label, value=value, low=low, metric=metric)

    def _label_spread(self, level: float) -> Spread:
        return risk_intervals(self.metrics, self.point, self.values, self.counts, level=level)

    def _with_error_interval(self, spread: Spread, level: float) -> Spread:
        """A mean of distances is as biased as they are, so its interval is not made from theirs."""
        if self.values.shape[-1]:
            for name in DISTANCES:
                k, noise = self.metrics.index(name), self.metrics.index(f"{name}_noise")
                ends = distance_interval(
                    name, self.point[:, k], self.values[:, k], self.values[:, noise], self.counts, level=level
                )
                for own, end in zip(spread[:2], ends, strict=True):
                    own[:, k] = np.where(np.isnan(own[:, k]), np.nan, end)
        return spread


class CaseRisks(NamedTuple):
    """Cases of one population with every model's risks."""

    population: str
    y_true: NDArray[np.uint8]
    """[case, label]"""
    y_score: Floats
    """[model, case, label]"""
    threshold: Floats
    """[model, label]; NaN where there is none."""
    patient: NDArray[np.int64]
    seed: int
    unit: Unit = "patient"
    weight: Floats | None = None
    """[case]"""

    @property
    def counts(self) -> dict[str, Any]:
        """Rows and patients, as `MetricReplicates` takes them."""
        return {
            "n": np.full(self.y_true.shape[1], len(self.y_true)),
            "n_positive": self.y_true.sum(axis=0, dtype=np.int64),
            "n_units": class_units(self.y_true, self.patient, self.unit),
            "sizes": cluster_sizes(self.y_true, self.patient, self.unit, weight=self.weight),
            "weighing": weighing(self.y_true, self.weight),
        }


def check_range(audit: str, benefit: BenefitRange) -> None:
    """Refuse a range of thresholds that does not rise."""
    low, high = benefit
    if not low < high:
        raise ConfigError(
            f"audit '{audit}', option 'net_benefit': the range must rise, and {low:g} is not below {high:g}",
            hint="such as [0.01, 0.5]",
            at=("net_benefit",),
        )


def measure_risks(
    cases: CaseRisks, models: Sequence[str], labels: Sequence[str], benefit: tuple[float, float], n_replicates: int
) -> RiskReplicates:
    """The core set of every model and label."""
    found = core_replicates(
        cases.y_true,
        cases.y_score,
        threshold=cases.threshold,
        benefit=benefit,
        patient=cases.patient,
        rng=cases.seed,
        unit=cases.unit,
        weight=cases.weight,
        n_replicates=min(n_replicates, MOST_REPLICATES),
    )
    return RiskReplicates(
        cases.population, tuple(models), found.metrics, tuple(labels), found.point, found.values, **cases.counts
    )


def risk_average(part: RiskReplicates, kept: NDArray[np.bool_], why_undefined: str, n_positive: int) -> RiskReplicates:
    """The mean over labels as a label of its own; `kept` says which labels each metric is averaged over.

    Intercepts, slopes and O:E of different labels would cancel out, so they are not averaged.
    """
    averaged = kept.copy()
    averaged[[CORE.index(name) for name in _CANCELS]] = False
    used = averaged[: len(CORE)].any(axis=0)
    return RiskReplicates(
        population=part.population,
        models=part.models,
        metrics=(*CORE, *HIDDEN),
        labels=(MACRO,),
        point=macro_average(np.where(averaged, part.point, np.nan), axis=2)[:, :, None],
        values=macro_average(np.where(averaged[..., None], part.values, np.nan), axis=2)[:, :, None],
        n=part.n[:1],
        n_positive=np.asarray([n_positive]),
        n_units=part.n_units[:, used].min(axis=1, keepdims=True) if used.any() else np.zeros((2, 1), np.int64),
        why_undefined=why_undefined,
        over=part,
        kept=averaged,
    )


def joined_labels(parts: Sequence[RiskReplicates]) -> RiskReplicates:
    """Labels that were measured one by one, side by side."""
    first = parts[0]
    weighed = [part.weighing for part in parts if part.weighing is not None]
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts], axis=axis)
        for name, axis in (("point", 2), ("values", 2), ("n", 0), ("n_positive", 0), ("n_units", 1), ("sizes", 1))
    }
    gone = [part.unscored for part in parts if part.unscored is not None]
    return replace(
        first,
        labels=tuple(label for part in parts for label in part.labels),
        weighing=Weighing(*(np.concatenate(each, axis=-1) for each in zip(*weighed, strict=True))) if weighed else None,
        unscored=np.concatenate(gone, axis=1) if gone else None,
        **joined,
    )


class ScoredCases(Protocol):
    """Cases with every scored model's risks, as audits of parts of them have."""

    @property
    def y_true(self) -> NDArray[np.uint8]:
        """[case, label]"""

    @property
    def y_score(self) -> Floats:
        """[model, case, label]"""

    @property
    def threshold(self) -> Floats:
        """[model, label]"""

    @property
    def patient(self) -> NDArray[np.int64]:
        """Of each case."""

    @property
    def weight(self) -> Floats | None:
        """Of each case, where they were not drawn with equal chances."""


def risks_of_part(
    cases: ScoredCases,
    rows: NDArray[np.int64],
    label: tuple[int, str],
    predictions: Predictions,
    *,
    name: str,
    unit: Unit,
    seed: int,
    n_replicates: int,
) -> MetricReplicates:
    """The core set of some of the cases, for one label (its place and its name), of all models and ensembles."""
    place, label_name = label
    own = CaseRisks(
        name,
        cases.y_true[rows][:, [place]],
        cases.y_score[:, rows][:, :, [place]],
        cases.threshold[:, [place]],
        cases.patient[rows],
        seed % 2**63,
        unit,
        None if cases.weight is None else cases.weight[rows],
    )
    part = measure_risks(own, tuple(predictions.scored), (label_name,), _UNUSED, n_replicates)
    return part.with_ensembles(predictions)
