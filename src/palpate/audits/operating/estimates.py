"""The operating audit's numbers as rows: decisions at every point, workload, net benefit, and alerts within stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.differences import model_differences
from palpate.audits.kit.metrics import MetricReplicates, level_rows
from palpate.audits.kit.resampling import MeanInterval, means_with_intervals
from palpate.audits.kit.rows import RowWriter, pairs_of
from palpate.audits.operating.measures import ALERTS, RATES, AlertSampling
from palpate.audits.operating.points import AlertPoint
from palpate.audits.operating.stays import MEDIANS, TimedAlerts, median_with_interval, paired
from palpate.results import Estimate, finite
from palpate.stats.intervals import Interval
from palpate.stats.score_intervals import contrast_interval, defined_error

Floats = NDArray[np.float64]
THRESHOLD, PER_100, NEEDED, BENEFIT, PER_DAY = (
    "threshold",
    "alerts_per_100",
    "number_needed_to_evaluate",
    "net_benefit",
    "alerts_per_day",
)
DECISIONS = (THRESHOLD, PER_100, NEEDED, *RATES, BENEFIT, PER_DAY)
_NO_BENEFIT = "undefined: at a threshold of 1, no false alarm is worth a found case"
_NONE_FOUND = "undefined: nobody who is flagged has the outcome"
_PER_SEED = "every seed has its own"


@dataclass(frozen=True)
class PointRows:
    """One label at one point: the metrics of all models, and how they become rows."""

    writer: RowWriter
    part: MetricReplicates
    threshold: Floats
    """Of each scored model."""
    members: Mapping[str, Sequence[int]]
    """The places of the scored models behind each name."""

    def row(self, model: str, metric: str, value: float | None, *, reason: str | None, **more: object) -> Estimate:
        """A number about all decisions."""
        part = self.part
        return self.writer.row(
            model,
            metric,
            part.labels[0],
            part.population,
            value,
            n=int(part.n[0]),
            n_positive=int(part.n_positive[0]),
            reason=reason,
            **more,  # type: ignore[arg-type]
        )

    def levels(self, per_day: float | None) -> Iterator[Estimate]:
        """Every number of every model."""
        for model in self.part.models:
            own = self.threshold[list(self.members[model])]
            same = bool((own == own[0]).all())
            yield self.row(model, THRESHOLD, float(own[0]) if same else None, reason=None if same else _PER_SEED)
        for level in level_rows(self.writer, self.part):
            if level.metric in ALERTS:
                continue
            yield level
            if level.metric == "flag_rate":
                yield scaled(level, 100.0, PER_100)
                if per_day is not None:
                    yield scaled(level, per_day, PER_DAY)
            if level.metric == "ppv":
                yield self._needed(level)
        for model in self.part.models:
            yield self._benefit(model, None)

    def differences(self, models: Sequence[str]) -> Iterator[Estimate]:
        """Every pair of models, paired on the same resamples; not corrected yet."""
        tested = {}
        for row in model_differences(self.writer, self.part, models):
            if row.metric in ALERTS:
                continue
            tested[row.metric, row.model, row.reference] = row
            yield row
            if row.metric == "flag_rate":
                yield scaled(row, 100.0, PER_100)
        for model, reference in pairs_of(models):
            like = tested["ppv", model, reference]
            yield self._needed_difference(model, reference, like)
            row = self._benefit(model, reference)
            like = tested["flag_rate", model, reference]
            reason = row.reason or like.reason
            yield replace(row, p_value=like.p_value if row.value is not None else None, reason=reason)

    def _needed(self, ppv: Estimate) -> Estimate:
        """How many of those who are flagged must be looked at to find one with the outcome: 1 / PPV."""
        if not ppv.value:
            reason = ppv.reason if ppv.value is None else _NONE_FOUND
            return replace(ppv, metric=NEEDED, value=None, low=None, high=None, reason=reason)
        low, high = (None if not end else 1.0 / end for end in (ppv.high, ppv.low))
        known = low is not None and high is not None
        reason = ppv.reason if known or ppv.reason else "no interval: PPV may be 0"
        return replace(
            ppv,
            metric=NEEDED,
            value=1.0 / ppv.value,
            low=low if known else None,
            high=high if known else None,
            reason=reason,
        )

    def _needed_difference(self, model: str, reference: str, ppv: Estimate) -> Estimate:
        places = [self.part.models.index(name) for name in (model, reference)]
        k = self.part.metrics.index("ppv")
        spread = self.part.spread(self.writer.level)
        value, low, high, error = (each[places, k, 0] for each in (self.part.point, *spread))
        if np.isnan(value).any() or (value <= 0).any() or ppv.value is None:
            return replace(ppv, metric=NEEDED, value=None, low=None, high=None, p_value=None, reason=_NONE_FOUND)
        inverse = self.part.values[places, k, 0]
        inverse = np.divide(1.0, inverse, out=np.full(inverse.shape, np.nan), where=inverse > 0)
        if ppv.low is None or (low <= 0).any() or np.isnan(low).any():
            reason = ppv.reason or "no interval: PPV may be 0"
            gone = float(1.0 / value[0] - 1.0 / value[1])
            return replace(ppv, metric=NEEDED, value=gone, low=None, high=None, p_value=None, reason=reason)
        own = error / value**2
        # Inverses of few numbers have long tails, so nothing is gained from what the two models share.
        ends = contrast_interval(
            list(1.0 / value),
            [Interval(1.0 / high[m], 1.0 / low[m]) for m in range(2)],
            list(own),
            [1.0, -1.0],
            np.maximum(defined_error(inverse[0] - inverse[1]), np.hypot(*own)),
            n_units=self.part.n_units.min(),
        )
        found = float(1.0 / value[0] - 1.0 / value[1])
        return replace(ppv, metric=NEEDED, value=found, low=float(ends.low), high=float(ends.high))

    def _benefit(self, model: str, reference: str | None) -> Estimate:
        """True alerts less false ones, which count for threshold / (1 - threshold); of an ensemble, its members' mean.

        With a reference, the difference. The interval comes from those of the shares of true and of false alerts.
        """
        sides = [(model, 1.0)] + ([] if reference is None else [(reference, -1.0)])
        terms = [(m, sign / len(self.members[name])) for name, sign in sides for m in self.members[name]]
        places = [m for m, _ in terms]
        own = self.threshold[places]
        if np.isnan(own).any() or (own >= 1.0).any():
            reason = self.part.why_undefined if np.isnan(own).any() else _NO_BENEFIT
            return self.row(model, BENEFIT, None, reason=reason, reference=reference, interval=(None, None))
        share = np.asarray([sign for _, sign in terms])
        true, false = (self.part.metrics.index(name) for name in ALERTS)
        cost = own / (1.0 - own)
        spread = self.part.spread(self.writer.level)
        weights = np.concatenate([share, -share * cost])
        where = [(m, true) for m in places] + [(m, false) for m in places]
        point = np.asarray([self.part.point[m, k, 0] for m, k in where])
        values = np.stack([self.part.values[m, k, 0] for m, k in where])
        ends = contrast_interval(
            list(point),
            [Interval(spread.low[m, k, 0], spread.high[m, k, 0]) for m, k in where],
            [spread.error[m, k, 0] for m, k in where],
            list(weights),
            defined_error(weights @ values),
            n_units=self.part.n_units.min() if reference is not None else np.inf,
        )
        value, low = finite(weights @ point), finite(ends.low)
        return self.row(
            model,
            BENEFIT,
            value,
            reason=self.part.reason(0, value=value, low=low),
            interval=(low, float(ends.high)),
            reference=reference,
        )


def scaled(row: Estimate, factor: float, metric: str) -> Estimate:
    """The same number in another unit."""
    value, low, high = (None if each is None else factor * each for each in (row.value, row.low, row.high))
    return replace(row, metric=metric, value=value, low=low, high=high)


def timed_rows(
    writer: RowWriter,
    found: TimedAlerts,
    label: str,
    point: AlertPoint,
    names: Sequence[str],
    models: Sequence[str],
    how: AlertSampling,
) -> tuple[list[Estimate], list[Estimate]]:
    """Levels and paired differences of everything about a stay's time; differences are not corrected yet."""
    pairs = [(names.index(model), names.index(reference)) for model, reference in pairs_of(models)]
    levels: list[Estimate] = []
    differences: list[Estimate] = []
    for metric, values in found.values.items():
        own = _intervals(metric, values, found, how, writer.level)
        levels += [_timed(writer, names[m], metric, label, point.name, each) for m, each in enumerate(own)]
        both = np.stack([paired(values, *pair) for pair in pairs]) if pairs else np.zeros((0, values.shape[1]))
        for (m, reference), each in zip(pairs, _intervals(metric, both, found, how, writer.level), strict=True):
            row = _timed(writer, names[m], metric, label, point.name, each, names[reference])
            differences.append(writer.enough(row, each.n_patients, tested=True))
    return levels, differences


def _intervals(metric: str, values: Floats, found: TimedAlerts, how: AlertSampling, level: float) -> list[MeanInterval]:
    patient, weight = found.patient, found.weight
    if metric in MEDIANS:
        return [median_with_interval(each, patient, level=level, weight=weight) for each in values]
    if not len(values):
        return []
    return means_with_intervals(
        values.T, patient, rng=how.seed, n_replicates=how.n_replicates, level=level, weight=weight
    )


def _timed(
    writer: RowWriter, model: str, metric: str, label: str, point: str, found: MeanInterval, against: str | None = None
) -> Estimate:
    return writer.row(
        model,
        metric,
        label,
        point,
        found.value,
        n=found.n,
        interval=(found.low, found.high),
        reference=against,
        p_value=None if against is None or np.isnan(found.low) else 1.0,  # `corrected` derives it from the interval
        reason=found.reason,
    )
