"""Beyond the paper: what the model adds to the context, what acting on it is worth, and what can be trusted.

Gains are AUROCs of a logistic regression on the logits of model and context, out of fold by patient, less the AUROC of
the context alone. Decision curves have the pre-test probability as the clinician's alternative to the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.context.groups import MATCHED, REWEIGHTED, WHOLE, constant_labels
from palpate.audits.context.measures import PRETEST, Cases, Measuring, matched_rows
from palpate.cases.edits import Ints
from palpate.stats import (
    Balance,
    WeightWarning,
    balance,
    context_gain,
    context_weights,
    decision_curves,
    weight_warnings,
)

Floats = NDArray[np.float64]
BOTH = "{model} and history"
UNMATCHED = 0.55
"""Where the matched cases' pre-test probability has a higher AUROC than this, the pairs are not alike."""
_MOST_REPLICATES = 2000
"""Of decision curves, which are many."""


class Spread(NamedTuple):
    """A number for each label, on the data and on its resamples."""

    point: Floats
    """[label]"""
    values: Floats
    """[label, replicate]"""


class Gain(NamedTuple):
    """One model beside the context."""

    auroc_with_context: Spread
    auroc_gain_over_context: Spread
    """Both together less the context alone."""
    auroc_model_over_context: Spread
    """The model alone less the context alone."""
    p_both: Floats
    """[case, label]"""


class Curve(NamedTuple):
    """Net benefit for one label."""

    label: int
    names: tuple[str, ...]
    thresholds: Floats
    point: Floats
    """[name, threshold]"""
    values: Floats


class BalanceRow(NamedTuple):
    """How the context lies in the two classes of a label, in one group."""

    label: str
    group: str
    found: Balance
    n: int
    n_positive: int
    effective: tuple[float, float]
    """Effective numbers of positives and negatives."""
    warnings: tuple[WeightWarning, ...]
    """Why numbers under these weights are not to be relied on."""
    reason: str | None

    @property
    def unlike(self) -> bool:
        """Whether pairs were made that are not alike."""
        return self.group == MATCHED and self.found.auroc > UNMATCHED

    @property
    def doubtful(self) -> bool:
        """Whether the history is not held equal here."""
        return bool(self.warnings) or self.unlike


class Beyond(NamedTuple):
    """Everything that the paper does not have."""

    gains: Mapping[str, Gain]
    curves: Sequence[Curve]
    balance: Sequence[BalanceRow]
    n: Ints
    n_positive: Ints
    n_units: Ints
    """[label] patients of the smaller class."""

    @property
    def doubtful(self) -> frozenset[tuple[str, str]]:
        """(group, label) where the history is not held equal: pairs that are not alike, weights that mean nothing."""
        return frozenset((row.group, row.label) for row in self.balance if row.doubtful)


def look_beyond(
    cases: Cases,
    families: Mapping[str, Sequence[str]],
    measuring: Measuring,
    thresholds: Sequence[float],
    n_units: Ints,
    reasons: Sequence[str | None],
) -> Beyond:
    """Gains of all models, curves of all labels, balance in all settings."""
    gains = _gains(cases, measuring)
    gains |= {family: _mean([gains[name] for name in members]) for family, members in families.items()}
    hidden = {name for members in families.values() for name in members}
    shown = [name for name in gains if name not in hidden]
    return Beyond(
        gains=gains,
        curves=[
            _curve(cases, j, gains, families, shown, measuring, thresholds)
            for j in range(len(cases.labels))
            if thresholds and cases.known[:, j].any()
        ],
        balance=[row for j in range(len(cases.labels)) for row in _balances(cases, j, measuring, reasons[j])],
        n=cases.known.sum(axis=0, dtype=np.int64),
        n_positive=(cases.known & (cases.y_true > 0)).sum(axis=0, dtype=np.int64),
        n_units=n_units.min(axis=0),
    )


def _gains(cases: Cases, measuring: Measuring) -> dict[str, Gain]:
    patient = cases.patient if measuring.unit == "patient" else np.arange(len(cases.patient))
    out = {}
    for m, name in enumerate(cases.models):
        found = context_gain(
            cases.y_true,
            cases.y_score[m],
            cases.p,
            patient=patient,
            rng=measuring.seed,
            rows=cases.known,
            n_replicates=measuring.n_replicates,
        )
        out[name] = Gain(
            Spread(found.point[2], found.values[2]),
            Spread(found.gain, found.gain_values),
            Spread(found.point[1] - found.point[0], found.values[1] - found.values[0]),
            found.p_both,
        )
    return out


def _mean(gains: Sequence[Gain]) -> Gain:
    """Of the checkpoints of a model."""

    def mean(name: str) -> Spread:
        parts: list[Spread] = [getattr(gain, name) for gain in gains]
        return Spread(np.mean([part.point for part in parts], axis=0), np.mean([part.values for part in parts], axis=0))

    return Gain(
        mean("auroc_with_context"),
        mean("auroc_gain_over_context"),
        mean("auroc_model_over_context"),
        np.mean([gain.p_both for gain in gains], axis=0),
    )


def _curve(
    cases: Cases,
    j: int,
    gains: Mapping[str, Gain],
    families: Mapping[str, Sequence[str]],
    shown: Sequence[str],
    measuring: Measuring,
    thresholds: Sequence[float],
) -> Curve:
    rows = cases.known[:, j]
    names, p = [PRETEST], [cases.p[:, j]]
    for name in shown:
        members = [cases.models.index(each) for each in families.get(name, [name])]
        names.append(name)
        p.append(cases.y_score[members, :, j].mean(axis=0))
        both = gains[name].p_both[:, j]
        if not np.isnan(both[rows]).any():
            names.append(BOTH.format(model=name))
            p.append(np.where(rows, both, 0.5))
    patient = cases.patient if measuring.unit == "patient" else np.arange(len(cases.patient))
    found = decision_curves(
        cases.y_true[:, j],
        np.stack(p),
        patient=patient,
        rng=measuring.seed,
        thresholds=thresholds,
        rows=rows,
        n_replicates=min(_MOST_REPLICATES, measuring.n_replicates),
    )
    point = np.concatenate([found.net_benefit, found.treat_all[None]])
    values = np.concatenate([found.values, found.treat_all_values[None]])
    return Curve(j, (*names, "acting on everybody"), found.thresholds, point, values)


def _balances(cases: Cases, j: int, measuring: Measuring, reason: str | None) -> list[BalanceRow]:
    """Before, matched, and re-weighted."""
    usable = cases.known & ~constant_labels(cases.p, cases.known)
    rows = np.flatnonzero(cases.known[:, j])
    p, y, varies = cases.p[rows, j], cases.y_true[rows, j], bool(usable[:, j].any())
    why = reason or "one class is missing, or the pre-test probability does not vary"
    paired = matched_rows(_only(cases, j), usable[:, [j]], measuring.caliper)[rows, 0]
    weights = context_weights(p, y, clip=measuring.clip)
    both = varies and 0 < int(y.sum()) < len(y)
    settings: list[tuple[str, Floats | None, tuple[float, float], tuple[WeightWarning, ...]]] = [
        (WHOLE, None, (float(y.sum()), float(len(y) - y.sum())), ()),
        (MATCHED, paired.astype(np.float64), (float(paired.sum()) / 2, float(paired.sum()) / 2), ()),
        (
            REWEIGHTED,
            weights.weight * varies,
            (weights.effective_positives, weights.effective_negatives) if varies else (float("nan"), float("nan")),
            weight_warnings(p, y, weights.weight) if both else (),
        ),
    ]
    out = []
    for group, weight, effective, warnings in settings:
        used = weight > 0 if weight is not None else np.ones(len(y), bool)
        found = balance(p, y, weight=weight) if len(y) else Balance(*[float("nan")] * 5)
        counts = int(used.sum()), int(y[used].sum())
        out.append(BalanceRow(cases.labels[j], group, found, *counts, effective, warnings, why))
    return out


def _only(cases: Cases, j: int) -> Cases:
    return cases._replace(p=cases.p[:, [j]], y_true=cases.y_true[:, [j]])
