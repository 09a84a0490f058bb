"""What the model adds to the history, and what acting on it is worth: incremental value (beyond the context paper).

Gains are AUROCs of a logistic regression on the logits of model and history, out of fold by patient, less the AUROC of
the history alone. Decision curves have the pre-test probability as the clinician's alternative to the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.context.cases import AuditedCases, ContextMeasuring
from palpate.audits.context.groups import PRETEST
from palpate.audits.kit.metrics import append_ensembles, class_units, weighing
from palpate.cases.edits import Ints
from palpate.results import Predictions
from palpate.stats import Interval, context_gain, decision_curves, standard_error
from palpate.stats.score_intervals import Counts, Weighing, auroc_interval

Floats = NDArray[np.float64]
WITH_CONTEXT, OVER_CONTEXT, MODEL_OVER_CONTEXT = GAINS = (
    "auroc_with_context",
    "auroc_gain_over_context",
    "auroc_model_over_context",
)
"""AUROC of model and history together; that less the history alone; and the model alone less the history alone."""
MODEL_AND_HISTORY = "{model} and history"
EVERYBODY = "acting on everybody"
_MOST_REPLICATES = 2000
"""For decision curves, of which there are many."""


class NetBenefit(NamedTuple):
    """Decision curves of one label."""

    label: int
    names: tuple[str, ...]
    """The history, each model, each model with the history, and acting on everybody."""
    thresholds: Floats
    point: Floats
    """[name, threshold]"""
    values: Floats
    """[name, threshold, replicate]"""


class IncrementalValue(NamedTuple):
    """What models add to the history."""

    models: tuple[str, ...]
    """The scored models, then the ensembles."""
    point: Floats
    """[model, one of `GAINS`, label]"""
    values: Floats
    """[model, one of `GAINS`, label, replicate]"""
    curves: Sequence[NetBenefit]
    n: Ints
    """[label] cases with a pre-test probability, and positive ones."""
    n_positive: Ints
    n_units: Ints
    """[2, label] patients with a positive case, and with a negative one."""
    weighing: Weighing | None = None
    """What sampling weights leave of the cases' precision."""

    @property
    def counts(self) -> Counts:
        """Cases and patients of each label."""
        return Counts(self.n, self.n_positive, self.n_units, weighing=self.weighing)

    def auroc(self, models: Sequence[str], terms: Mapping[str, float], level: float) -> AurocTerm:
        """A sum of `GAINS`, [model, label], that is an AUROC."""
        places = [self.models.index(name) for name in models]
        parts = [(GAINS.index(name), sign) for name, sign in terms.items()]
        point = np.sum([sign * self.point[places, k] for k, sign in parts], axis=0)
        values = np.sum([sign * self.values[places, k] for k, sign in parts], axis=0)
        error, counts = standard_error(values), self.counts
        units = (counts.units[0], counts.units[1])
        ends = auroc_interval(point, error, counts.positive, counts.negative, units, level=level)
        return AurocTerm(point, ends, error)


class AurocTerm(NamedTuple):
    """AUROCs with their intervals and bootstrap standard errors."""

    point: Floats
    ends: Interval
    error: Floats


BOTH, HISTORY, MODEL = (
    {WITH_CONTEXT: 1.0},
    {WITH_CONTEXT: 1.0, OVER_CONTEXT: -1.0},
    {WITH_CONTEXT: 1.0, OVER_CONTEXT: -1.0, MODEL_OVER_CONTEXT: 1.0},
)
"""Which sums of `GAINS` are the AUROCs of both together, of the history alone, and of the model alone."""


def spread_refits(point: Floats, values: Floats, again: Sequence[Floats]) -> Floats:
    """The replicates, each with how far one of the points measured again lies from the first, with either sign."""
    if not len(again) or not values.shape[-1]:
        return values
    apart = np.nan_to_num(np.stack([each - point for each in again], axis=-1))
    both = np.concatenate([apart, -apart], axis=-1)
    return np.asarray(values + both[..., np.arange(values.shape[-1]) % both.shape[-1]])


def gain_points(cases: AuditedCases, measuring: ContextMeasuring) -> Floats:
    """[model, one of `GAINS`, label] without resamples."""
    return np.stack([_gain(cases, y_score, measuring, n_replicates=0)[0] for y_score in cases.y_score])


def _gain(
    cases: AuditedCases, y_score: Floats, measuring: ContextMeasuring, n_replicates: int
) -> tuple[Floats, Floats, Floats]:
    """The gains of one model, on the data and on its resamples; and the predictions of model and history together."""
    found = context_gain(
        cases.y_true,
        y_score,
        cases.p,
        patient=_units(cases, measuring),
        rng=measuring.resampling.seed,
        rows=cases.known,
        weight=cases.weight,
        n_replicates=n_replicates,
    )
    return (
        np.stack([found.point[2], found.gain, found.point[1] - found.point[0]]),
        np.stack([found.values[2], found.gain_values, found.values[1] - found.values[0]]),
        found.p_both,
    )


def _units(cases: AuditedCases, measuring: ContextMeasuring) -> Ints:
    return cases.patient if measuring.resampling.unit == "patient" else np.arange(len(cases.patient))


def incremental_value(
    cases: AuditedCases,
    predictions: Predictions,
    measuring: ContextMeasuring,
    thresholds: Sequence[float],
    again: Sequence[Floats] = (),
) -> IncrementalValue:
    """The gains of all models, and the decision curves of all labels; `again`: the gains with refits of the history."""
    patient = _units(cases, measuring)
    n = measuring.resampling.n_replicates
    point, values, together = map(
        np.stack, zip(*(_gain(cases, y_score, measuring, n) for y_score in cases.y_score), strict=True)
    )
    values = spread_refits(point, values, again)
    p_both = append_ensembles(together, predictions)
    return IncrementalValue(
        models=predictions.names,
        point=append_ensembles(point, predictions),
        values=append_ensembles(values, predictions),
        curves=[
            _curves(cases, j, p_both[:, :, j], predictions, patient, measuring, thresholds)
            for j in range(len(cases.labels))
            if thresholds and cases.known[:, j].any()
        ],
        n=cases.known.sum(axis=0, dtype=np.int64),
        n_positive=(cases.known & (cases.y_true > 0)).sum(axis=0, dtype=np.int64),
        n_units=class_units(cases.y_true, cases.patient, measuring.resampling.unit, cases.known),
        weighing=weighing(cases.y_true, cases.weight, cases.known),
    )


def _curves(
    cases: AuditedCases,
    j: int,
    p_both: Floats,
    predictions: Predictions,
    patient: Ints,
    measuring: ContextMeasuring,
    thresholds: Sequence[float],
) -> NetBenefit:
    rows = cases.known[:, j]
    names, p = [PRETEST], [cases.p[:, j]]
    for name in predictions.compared:
        members = [cases.models.index(member) for member in predictions.members(name)]
        names.append(name)
        p.append(cases.y_score[members, :, j].mean(axis=0))
        both = p_both[predictions.names.index(name)]
        if not np.isnan(both[rows]).any():
            names.append(MODEL_AND_HISTORY.format(model=name))
            p.append(np.where(rows, both, 0.5))
    found = decision_curves(
        cases.y_true[:, j],
        np.stack(p),
        patient=patient,
        rng=measuring.resampling.seed,
        thresholds=thresholds,
        rows=rows,
        weight=cases.weight,
        n_replicates=min(_MOST_REPLICATES, measuring.resampling.n_replicates),
    )
    point = np.concatenate([found.net_benefit, found.treat_all[None]])
    values = np.concatenate([found.values, found.treat_all_values[None]])
    return NetBenefit(j, (*names, EVERYBODY), found.thresholds, point, values)
