"""The slices that were found, on the other half of the patients: each against all others there, with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.differences import population_differences
from palpate.audits.kit.metrics import MetricReplicates, class_units, cluster_sizes, level_rows, weighing
from palpate.audits.kit.rows import RowWriter
from palpate.audits.kit.scope import Unit
from palpate.audits.kit.wording import counted
from palpate.audits.slices.plan import Sliced
from palpate.audits.slices.search import Metric, Searched, Searching, search_slices, slice_cases
from palpate.results import Estimate, Plan, Predictions
from palpate.stats import bootstrap
from palpate.stats.groups.slices import slice_mask

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
REST, WHOLE = "all others", "all"
NAMES = {
    "auroc": "auroc",
    "sensitivity": "sensitivity",
    "calibration": "calibration_in_the_large",
    "brier": "brier",
}
"""What the metric is called among the estimates."""
FEWEST_PATIENTS, FEWEST_EVENTS = 10, 5


class SliceResampling(NamedTuple):
    """How intervals are made."""

    n_replicates: int
    unit: Unit
    seed: int


class SliceFound(NamedTuple):
    """What is known of one model and label, beside the estimates."""

    searched: Searched
    names: tuple[str, ...]
    """The slices that were tested, in the order of the search."""
    n_patients: Mapping[str, int]
    """Of each, on the other half."""
    n_others: int
    """All patients of the other half."""


def examine(
    writer: RowWriter,
    plan: Plan[Sliced],
    predictions: Predictions,
    threshold: Floats,
    how: Searching,
    resampling: SliceResampling,
) -> tuple[list[Estimate], dict[tuple[str, str], SliceFound]]:
    """Search one half of the patients and measure what was found on the other, for each model and label."""
    sliced = plan.memory
    cases = plan.variants.parent[sliced.main]
    y_true, patient, other = plan.cohort.y_true(cases, plan.labels), plan.cohort.patients[cases], ~sliced.search
    weight = plan.cohort.weights_of(cases[other])
    rows: list[Estimate] = []
    found = {}
    for m, model in enumerate(predictions.compared):
        for j, label in enumerate(plan.labels):
            y, score, cut = y_true[:, j], predictions[model].p[sliced.main, j], float(threshold[m, j])
            searched = search_slices(slice_cases(y > 0, score, cut, patient, how.metric), sliced, how)
            masks = {sliced.named(each.pairs): slice_mask(each.pairs, sliced.codes)[other] for each in searched.found}
            rest = Confirming(model, label, y[other], score[other], cut, patient[other], how.metric, resampling, weight)
            rows += confirm(writer, rest, list(masks.items()))
            sizes = {name: len(np.unique(rest.patient[mask])) for name, mask in masks.items()}
            found[model, label] = SliceFound(searched, tuple(masks), sizes, len(np.unique(rest.patient)))
    return rows, found


class Confirming(NamedTuple):
    """One model and label on the half that was not searched."""

    model: str
    label: str
    y_true: NDArray[np.uint8]
    y_score: Floats
    threshold: float
    patient: NDArray[np.int64]
    metric: Metric
    how: SliceResampling
    weight: Floats | None = None
    """Sampling weights with a mean of 1; None where all cases count alike."""


def confirm(writer: RowWriter, cases: Confirming, slices: Sequence[tuple[str, Mask]]) -> Iterator[Estimate]:
    """Levels of all cases and of each slice, and each slice less all others; not corrected yet."""
    masks = [np.ones(len(cases.y_true), bool)]
    for _, mask in slices:
        masks += [mask, ~mask]
    parts = _parts(cases, np.stack(masks, axis=1))
    yield from level_rows(writer, parts[0])
    for k, (name, mask) in enumerate(slices):
        part, rest = (replace(parts[2 * k + j], population=called) for j, called in ((1, name), (2, REST)))
        lacking = _lacking(cases, mask)
        if lacking is None:
            yield from level_rows(writer, part)
            yield from population_differences(writer, part, rest, [cases.model])
            continue
        for reference in (None, REST):
            yield writer.row(
                cases.model,
                NAMES[cases.metric],
                cases.label,
                name,
                None,
                n=int(mask.sum()),
                n_positive=int(cases.y_true[mask].sum()),
                reference=reference,
                reason=lacking,
            )


def _lacking(cases: Confirming, mask: Mask) -> str | None:
    """Why nothing can be said about a slice on this half; None if there are enough."""
    patients = len(np.unique(cases.patient[mask]))
    if patients < FEWEST_PATIENTS:
        return f"not enough: {counted(patients, 'patient')} in the other half, at least {FEWEST_PATIENTS} are needed"
    positive = int(cases.y_true[mask].sum())
    for n, which in ((positive, "with"), (int(mask.sum()) - positive, "without")):
        if n < FEWEST_EVENTS:
            here = f"{counted(n, 'case')} {which} '{cases.label}' in the other half"
            return f"not enough: {here}, at least {FEWEST_EVENTS} are needed"
    return None


def _parts(cases: Confirming, masks: Mask) -> list[MetricReplicates]:
    """One for each column of the masks, on shared resamples."""
    shape = masks.shape
    y_true = np.broadcast_to(cases.y_true[:, None], shape)
    metrics = ("prevalence", "mean_score") if cases.metric == "calibration" else (cases.metric,)
    found = bootstrap(
        y_true,
        np.broadcast_to(cases.y_score[:, None], shape),
        metrics=metrics,
        threshold=cases.threshold,
        unit=cases.how.unit,
        patient=cases.patient,
        rows=masks,
        weight=cases.weight,
        n_replicates=cases.how.n_replicates,
        rng=cases.how.seed,
    )
    point, values = found.point, found.values
    if cases.metric == "calibration":
        point, values = (each[:, :1] - each[:, 1:] for each in (point, values))
    units = class_units(y_true, cases.patient, cases.how.unit, masks)
    sizes = cluster_sizes(y_true, cases.patient, cases.how.unit, masks, cases.weight)
    return [
        MetricReplicates(
            population=WHOLE,
            models=(cases.model,),
            metrics=(NAMES[cases.metric],),
            labels=(cases.label,),
            point=point[:, :, k : k + 1],
            values=values[:, :, k : k + 1],
            n=masks.sum(axis=0, dtype=np.int64)[k : k + 1],
            n_positive=(masks & (y_true > 0)).sum(axis=0, dtype=np.int64)[k : k + 1],
            n_units=units[:, k : k + 1],
            sizes=sizes[:, k : k + 1],
            weighing=weighing(y_true[:, k : k + 1], cases.weight, masks[:, k : k + 1]),
        )
        for k in range(shape[1])
    ]
