"""Differences of metrics between models, between populations, and of both at once, as rows.

A difference gets its interval from those of the numbers that it is made of (`contrast_interval`), scaled by how they
vary together over the resamples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.metrics import ERROR, Floats, MetricReplicates, allow_for_bias
from palpate.audits.kit.resampling import FEWEST_FOR_INTERVAL, not_tested
from palpate.audits.kit.rows import RowWriter, pairs_of
from palpate.results import MACRO, Estimate, finite
from palpate.stats.intervals import Interval
from palpate.stats.risks.core import DISTANCES
from palpate.stats.score_intervals import contrast_interval, defined_error


class ContrastTerm(NamedTuple):
    """One model on one population, in a difference."""

    part: MetricReplicates
    model: str
    weight: float

    @property
    def place(self) -> int:
        """Where the model stands in its part."""
        return self.part.models.index(self.model)


def model_differences(writer: RowWriter, part: MetricReplicates, models: Sequence[str]) -> list[Estimate]:
    """Every pair of models, paired on the same resamples; not corrected yet (see `corrected`)."""
    return [
        row
        for model, reference in pairs_of(models)
        for row in difference_rows(
            writer, [ContrastTerm(part, model, 1.0), ContrastTerm(part, reference, -1.0)], reference
        )
    ]


def population_differences(
    writer: RowWriter, part: MetricReplicates, reference: MetricReplicates, models: Sequence[str]
) -> list[Estimate]:
    """One population less another, for each model; not corrected yet (see `corrected`)."""
    return [
        row
        for model in models
        for row in difference_rows(
            writer, [ContrastTerm(part, model, 1.0), ContrastTerm(reference, model, -1.0)], reference.population
        )
    ]


def drop_differences(
    writer: RowWriter, part: MetricReplicates, main: MetricReplicates, models: Sequence[str], metric: str
) -> list[Estimate]:
    """How much more one model changes between two populations than another: `auroc_drop`, for every pair of models."""
    rows = []
    for model, reference in pairs_of(models):
        terms = [
            ContrastTerm(part, model, 1.0),
            ContrastTerm(main, model, -1.0),
            ContrastTerm(part, reference, -1.0),
            ContrastTerm(main, reference, 1.0),
        ]
        rows += [
            replace(row, metric=f"{metric}_drop")
            for row in difference_rows(writer, terms, reference)
            if row.metric == metric
        ]
    return rows


def difference_rows(writer: RowWriter, terms: Sequence[ContrastTerm], reference: str) -> Iterator[Estimate]:
    """The sum of the terms (weight x number), one row per metric and label of the first term's population."""
    part = terms[0].part
    others = [term.part for term in terms if term.part is not part]
    point = np.sum([term.weight * term.part.point[term.place] for term in terms], axis=0)
    low, high, same = difference_interval(terms, writer.level)
    for k, j in product(part.reported, range(len(part.labels))):
        value, below = finite(point[k, j]), finite(low[k, j])
        untested = below is None or part.untested(j) or any(other.untested(j) for other in others)
        reason = part.reason(j, value=value, low=below, metric=part.metrics[k])
        for other in others:
            if value is None and int(other.n_positive[j]) in (0, int(other.n[j])):
                reason = f"{other.reason(j, value=None, low=None)} in {other.population}"
            elif value is not None and below is None and int(other.n_units[:, j].min()) < FEWEST_FOR_INTERVAL:
                reason = f"{other.reason(j, value=0.0, low=None)} in {other.population}"
        reason = next(filter(None, (term.part.without_score(term.model, j) for term in terms)), reason)
        if untested and reason is None:
            reason = f"{not_tested()} with or without the label"
        yield writer.row(
            terms[0].model,
            part.metrics[k],
            part.labels[j],
            part.population,
            value,
            n=int(part.n[j]),
            n_positive=int(part.n_positive[j]),
            interval=(0.0, 0.0) if same[j] and below is not None else (below, high[k, j]),
            reference=reference,
            p_value=None if untested else 1.0,  # `corrected` derives it from the interval
            reason=reason,
        )


def difference_interval(terms: Sequence[ContrastTerm], level: float) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Ends of the interval, [metric, label], and for which labels two models gave the same answers."""
    part = terms[0].part
    spreads = [term.part.spread(level) for term in terms]
    places = [term.place for term in terms]
    values = np.sum([t.weight * t.part.values[m] for t, m in zip(terms, places, strict=True)], axis=0)
    errors = [spread.error[m] for spread, m in zip(spreads, places, strict=True)]
    error = defined_error(values)
    for k in (part.metrics.index(name) for name in (ERROR, *DISTANCES) if name in part.metrics):
        # Chance alone makes calibration errors, and their difference, so only their own intervals are trusted.
        error[k] = np.sqrt(np.sum([t.weight**2 * own[k] ** 2 for t, own in zip(terms, errors, strict=True)], axis=0))
    ends = contrast_interval(
        [term.part.point[m] for term, m in zip(terms, places, strict=True)],
        [Interval(spread.low[m], spread.high[m]) for spread, m in zip(spreads, places, strict=True)],
        errors,
        [term.weight for term in terms],
        error,
        n_units=np.min([term.part.n_units.min(axis=0) for term in terms], axis=0),
    )
    for k in (part.metrics.index(name) for name in DISTANCES if name in part.metrics):
        # They are biased, each by itself, and a difference of two by as much as both: where both hold, so does this.
        for own, with_more, with_less in ((ends.low, "low", "high"), (ends.high, "high", "low")):
            own[k] = np.sum(
                [
                    term.weight * getattr(spread, with_more if term.weight > 0 else with_less)[m][k]
                    for term, spread, m in zip(terms, spreads, places, strict=True)
                ],
                axis=0,
            )
    if part.labels == (MACRO,):
        point = np.sum([t.weight * t.part.point[m] for t, m in zip(terms, places, strict=True)], axis=0)
        allow_for_bias(part.metrics, Interval(ends.low[None], ends.high[None]), point[None], values[None])
    return ends.low, ends.high, np.nanmax(np.abs(values), axis=(0, 2), initial=0.0) == 0
