"""What the slices audit knows about its question: the cells of the scorecard.

Slices that were tested on the other half can be shown to be worse. That none is worse is another matter: it takes an
interval below the margin for every slice that was searched, all at once, over all patients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy.special import ndtri

from palpate.audits.kit.answers import Question
from palpate.audits.kit.rows import EstimateIndex
from palpate.audits.kit.thresholds import Thresholds
from palpate.audits.slices.measures import NAMES, REST, WHOLE, SliceFound
from palpate.audits.slices.plan import Sliced
from palpate.audits.slices.search import HARM, Searching
from palpate.results import Estimate
from palpate.results.verdicts import Answer, Effect

NOT_ALL = "slices that were not tested may be worse"
_POWER = 0.84
"""Standard errors beyond the limit that give a power of 80%."""
_SHARE = 0.1

ASKS = {"worse": "Is there a group of patients for whom it is worse than for the rest?"}
"""The question in a clinician's words."""


@dataclass(frozen=True)
class SliceAnalysis:
    """What answers, findings and blocks are made from."""

    estimates: EstimateIndex
    sliced: Sliced
    how: Searching
    found: Mapping[tuple[str, str], SliceFound]
    """By model and label."""
    models: Sequence[str]
    labels: Sequence[str]
    correction: str
    thresholds: Thresholds
    ensembles: Mapping[str, Sequence[str]]
    left_out: Sequence[str]
    """Labels of the cohort that are not searched."""

    @property
    def metric(self) -> str:
        """The metric's name among the estimates."""
        return NAMES[self.how.metric]

    @property
    def question(self) -> Question:
        """Is there a group for whom it is worse?"""
        return Question(
            "worse",
            ASKS["worse"],
            self.metric,
            self.how.margin,
            harm=HARM[self.how.metric],
            percent=self.how.metric == "sensitivity",
        )

    def row(self, model: str, label: str, name: str, reference: str | None = REST) -> Estimate | None:
        """A tested slice less all others, or its level."""
        return self.estimates.find(self.metric, model, label=label, group=name, reference=reference)

    def named(self, name: str, label: str) -> str:
        """The slice, and the label where there are several."""
        return name if len(self.labels) == 1 else f"{name}, '{label}'"

    def effects(self, model: str) -> list[Effect]:
        """Slices that were tested; where none is shown to be worse, what is excluded for all of them at once."""
        tested = [effect for label in self.labels for effect in self._tested(model, label)]
        if any(effect.verdict in ("concern", "caution") for effect in tested):
            return tested
        bounds = [self._bound(model, label) for label in self.labels]
        known = [effect for effect in bounds if effect is not None]
        if len(known) == len(bounds):
            return known
        return tested or [Effect("", None, None, None, self.how.margin, 0, self._none(model))]

    def _tested(self, model: str, label: str) -> list[Effect]:
        found = self.found[model, label]
        effects = []
        for name in found.names:
            row = self.row(model, label, name)
            effect = self.question.effect(row, found.n_patients[name])
            if row is None or effect is None:
                continue
            if effect.verdict not in ("concern", "caution"):
                effect = effect._replace(reason=effect.reason or (row.reason if row.p_value is None else NOT_ALL))
            effects.append(effect._replace(label=self.named(name, label), where=name))
        return effects

    def _bound(self, model: str, label: str) -> Effect | None:
        found = self.found[model, label].searched
        if found.bound is None:
            return None
        _, harm, low, high, n_patients = found.bound
        name, sign = self.named(found.bound_name, label), HARM[self.how.metric] or 1
        return Effect(name, harm, low, high, self.how.margin, n_patients, sign=sign, where=found.bound_name)

    def _none(self, model: str) -> str:
        n = sum(self.found[model, label].searched.n_slices for label in self.labels)
        if n == 0:
            return f"no slice has {self.how.smallest} patients and {self.how.fewest_events} events to be searched"
        return f"none of {n:,} slices looks worse on the half that was searched, but {NOT_ALL}"

    def visible(self, model: str, label: str) -> float | None:
        """How much worse a slice of a tenth of the patients must be to be shown in 8 of 10 audits."""
        whole = self.estimates.find(self.metric, model, label=label, group=WHOLE)
        if whole is None or whole.low is None or whole.high is None:
            return None
        error = (whole.high - whole.low) / 2 / float(-ndtri((1 - self.how.level) / 2))
        n_tested = max(1, sum(len(each.names) for each in self.found.values()))
        limit = float(-ndtri((1 - self.how.level) / 2 / n_tested))
        return (limit + _POWER) * error * math.sqrt(1 / _SHARE + 1 / (1 - _SHARE))


def slice_answers(analysis: SliceAnalysis) -> tuple[Answer, ...]:
    """One answer for each model."""
    found = [analysis.question.answer(model, analysis.effects(model)) for model in analysis.models]
    return tuple(answer for answer in found if answer is not None)
