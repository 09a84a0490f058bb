"""The cases that are measured where scores are missing: for each label, those that every model scored.

A score that is missing for one label takes nothing from the others. A model that shares no scored case with the others
is left out of that label; a model that is left out of every label is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from palpate.audits.kit.missing.shares import Mask
from palpate.cases.edits import Ints
from palpate.results import ModelPredictions, Predictions

_FILLED = 0.5
"""What stands where there is no score; it is never counted."""


def missing_of(predictions: Predictions, model: str) -> Mask:
    """Where a model has no score, [variant, label]; an ensemble has none where a member has none."""
    return np.asarray(np.any([np.isnan(predictions.scored[each].p) for each in predictions.members(model)], axis=0))


class Gaps(NamedTuple):
    """Which of the cases that are measured count for which label, where that is not all of them for all."""

    known: Mask
    """[case, label]: every model that is compared on the label has a score."""
    unscored: Mask
    """[scored model, label]: the model is left out of the label."""

    def at(self, rows: slice | Ints) -> Gaps:
        """Those of some cases."""
        return self._replace(known=self.known[rows])


class CompleteCases(NamedTuple):
    """The cases that every model scored, label by label, and the models that are left."""

    keep: Mask
    """Rows of the plan's variants that count for some label."""
    known: Mask
    """[variant, label]: which rows count for the label."""
    predictions: Predictions
    """Of the rows that are kept, without missing scores: what stands in their place does not count."""
    left_out: tuple[str, ...]
    """Models that share no scored case with the others, or have no score at all."""
    lacks: Mapping[str, tuple[int, ...]]
    """Of the other models: the labels that they are left out of."""

    @property
    def gaps(self) -> Gaps | None:
        """What the measures must leave out; None where every case that is kept counts for every label."""
        known = self.known[self.keep]
        if known.all() and not self.lacks:
            return None
        unscored = np.zeros((len(self.predictions.scored), known.shape[1]), bool)
        places = {name: k for k, name in enumerate(self.predictions.scored)}
        for model, labels in self.lacks.items():
            for member in self.predictions.members(model):
                unscored[places[member], list(labels)] = True
        return Gaps(known, unscored)


def complete_cases(predictions: Predictions, audited: Sequence[Ints]) -> CompleteCases:
    """For each label the cases that all models scored; models are left out, those that lack most first, until there is
    one.

    `audited` are rows of the variants, one set for each population.
    """
    lacking = {name: missing_of(predictions, name) for name in predictions.compared}
    rows = np.concatenate([np.asarray(part) for part in audited])
    shape = next(iter(lacking.values())).shape
    known, lacks = np.zeros(shape, bool), {name: list[int]() for name in lacking}
    for j in range(shape[1]):
        names = list(lacking)
        while names:
            known[:, j] = ~np.any([lacking[name][:, j] for name in names], axis=0)
            if known[rows, j].any():
                break
            worst = max(names, key=lambda name: int(lacking[name][rows, j].sum()))
            names.remove(worst)
            lacks[worst].append(j)
    left_out = tuple(name for name, labels in lacks.items() if len(labels) == shape[1])
    some = {name: tuple(labels) for name, labels in lacks.items() if labels and name not in left_out}
    keep = np.asarray(known.any(axis=1))
    members = [each for name in lacking if name not in left_out for each in predictions.members(name)]
    kept = {each: _at(predictions.scored[each], keep) for each in predictions.scored if each in members}
    return CompleteCases(keep, known, Predictions(kept), left_out, some)


def _at(answers: ModelPredictions, keep: Mask) -> ModelPredictions:
    p = answers.p[keep]
    return replace(answers, p=np.where(np.isnan(p), _FILLED, p), seen=answers.seen[keep])
