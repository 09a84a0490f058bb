"""Several checkpoints of one model (seeds): their mean as a model of its own, and their spread.

The vocabulary paper reports its models so (Table 1: mean and standard deviation over five seeds).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from palpate.audits.kit.measured import Measured
from palpate.results import Estimate, ModelPredictions, finite


def families_of(predictions: Mapping[str, ModelPredictions]) -> dict[str, list[str]]:
    """Checkpoints by the model that they belong to."""
    families: dict[str, list[str]] = {}
    for name, answers in predictions.items():
        if answers.family is not None:
            families.setdefault(answers.family, []).append(name)
    return families


def members_of(families: Mapping[str, Sequence[str]]) -> set[str]:
    """All checkpoints that belong to a model with several."""
    return {name for members in families.values() for name in members}


def with_families(part: Measured, families: Mapping[str, Sequence[str]]) -> Measured:
    """The mean over a model's checkpoints as a further model."""
    point, values, names = [part.point], [part.values], list(part.models)
    for family, members in families.items():
        index = [part.models.index(name) for name in members]
        point.append(part.point[index].mean(axis=0, keepdims=True))
        values.append(part.values[index].mean(axis=0, keepdims=True))
        names.append(family)
    if len(names) == len(part.models):
        return part
    return replace(part, models=tuple(names), point=np.concatenate(point), values=np.concatenate(values))


def spread(audit: str, measured: Sequence[Sequence[Measured]], families: Mapping[str, Sequence[str]]) -> list[Estimate]:
    """The standard deviation over the checkpoints of a model, a row a metric (`auroc_sd`)."""
    rows = []
    for part in (part for parts in measured for part in parts):
        for family, members in families.items():
            sd = part.point[[part.models.index(name) for name in members]].std(axis=0, ddof=1)
            rows += [
                Estimate(
                    audit=audit,
                    model=family,
                    metric=f"{part.metrics[k]}_sd",
                    label=part.labels[j],
                    group=part.population,
                    value=finite(sd[k, j]),
                    n=int(part.n[j]),
                    n_positive=int(part.n_positive[j]),
                    reason=part.reason(j, value=finite(sd[k, j]), low=0.0),
                )
                for k, j in product(part.told, range(len(part.labels)))
            ]
    return rows
