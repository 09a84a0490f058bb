"""Labels apart: where scores are missing for some labels of a case, each label is measured on the cases that have its
own.

An audit that measures one label after the other, and only then corrects and judges over all, can take the labels in
parts: each has its plan and predictions without a missing score. Without missing scores there is one part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from palpate.audits.kit.thresholds import Thresholds
from palpate.results import AuditResult, Plan, Predictions

M = TypeVar("M")


class LabelPart(NamedTuple, Generic[M]):
    """Some labels with the cases that all models scored for them."""

    plan: Plan[M]
    """Its labels are those of the part."""
    predictions: Predictions


@runtime_checkable
class LabelByLabel(Protocol):
    """An audit that can take its labels in parts."""

    def analyse_apart(self, plan: Plan[Any], parts: Sequence[LabelPart[Any]], rng: np.random.Generator) -> AuditResult:
        """What `analyse` says, with each label on the cases of its part; `plan` is that of all cases and labels.

        The parts have the labels of `plan` in its order, and the same models.
        """
        ...


def divided_labels(labels: Sequence[str], predictions: Predictions) -> list[tuple[tuple[str, ...], Predictions]]:
    """The labels, in their order, in runs that lack the same scores of all models together, with the models' scores."""
    gone = np.any([np.isnan(each.p) for each in predictions.scored.values()], axis=0)
    starts = [j for j in range(1, len(labels)) if (gone[:, j] != gone[:, j - 1]).any()]
    divided = []
    for columns in np.split(np.arange(len(labels)), starts):
        own = tuple(labels[j] for j in columns)
        scored = {m: replace(each, labels=own, p=each.p[:, columns]) for m, each in predictions.scored.items()}
        divided.append((own, Predictions(scored)))
    return divided


def joined_thresholds(found: Sequence[Thresholds]) -> Thresholds:
    """The thresholds of parts as those of all labels."""
    if len(found) == 1:
        return found[0]
    values = np.concatenate([each.values for each in found], axis=1)
    return Thresholds(values, found[0].origin, frozenset(chain.from_iterable(each.optimistic for each in found)))
