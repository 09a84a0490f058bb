"""The vocabulary audit's answers: two questions, and what keeps them from being settled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.answers import Question
from palpate.audits.kit.rows import EstimateIndex
from palpate.audits.kit.wording import number
from palpate.audits.vocabulary.clinicians import CLINICIANS, ClinicianPanel
from palpate.audits.vocabulary.correlations import FEWEST_FOR_INTERVAL
from palpate.audits.vocabulary.estimates import REMOVAL
from palpate.audits.vocabulary.frequency import SchemeScores
from palpate.audits.vocabulary.intervals import FEWEST_PATIENTS, Floats
from palpate.audits.vocabulary.measures import SwapEffects
from palpate.audits.vocabulary.plan import PlannedSwaps, Swaps
from palpate.cases.edits import Ints
from palpate.results import Estimate
from palpate.results.verdicts import Answer, Effect, rounded_up

LOW_ALPHA = 0.40
"""Below it the raters hardly agree, and agreement with their mean says little."""
MOSTLY_OUTSIDE = 0.50
"""A word whose swaps a model could mostly not see says nothing about it."""


@dataclass(frozen=True, eq=False)
class VocabularyAnalysis:
    """What findings and blocks are made from."""

    estimates: EstimateIndex
    """By default of the overall label, and of the clinicians as a group."""
    planned: PlannedSwaps
    effects: SwapEffects
    sensitivity: Mapping[str, Floats]
    """[words] of each model."""
    rank: Mapping[str, Floats]
    """[words] of each model, among all words."""
    schemes: SchemeScores
    labels: Sequence[str]
    """The labels with rows of their own."""
    panel: ClinicianPanel | None
    unwanted: Ints
    """The words that no clinician would use."""
    n_patients: int
    """Whose notes are audited."""
    not_audited: Sequence[str]
    """Words that were rated and are not audited."""
    unsettled: NDArray[np.bool_] | None
    """[words] Which words the budget left open; None without a budget."""
    level: float
    correction: str
    top: int
    """Words in each model's plot."""

    @property
    def models(self) -> tuple[str, ...]:
        """The models that are compared."""
        return self.effects.predictions.compared

    @property
    def swaps(self) -> Swaps:
        """The swaps that were scored."""
        return self.planned.swaps

    @property
    def words(self) -> tuple[str, ...]:
        """The audited words."""
        return self.swaps.words

    @property
    def n_notes(self) -> Ints:
        """[words] Notes that the scores rest on."""
        counts: Ints = self.effects.layout.n_notes[0]
        return counts

    def panel_rank(self, model: str) -> Floats:
        """A model's ranks among the words that clinicians rated."""
        return self.panel.rank_of(self.sensitivity[model]) if self.panel else np.full(len(self.words), np.nan)

    @property
    def rated_panel(self) -> ClinicianPanel | None:
        """The clinicians, where there is a word that is both rated and scored."""
        return self.panel if self.panel is not None and self.panel.rated.any() else None


def agreement_question(margin: float) -> Question:
    """Judged by how much worse a model agrees with the clinicians than one of them with the others."""
    return Question("agreement", "Does it weigh words as clinicians do?", "agreement", margin, harm=-1)


def spurious_question(margin: float) -> Question:
    """Judged by the mean absolute change of the risk when such a word is taken out, for all of them at once."""
    asks = "Does it hang on a word that no clinician would use?"
    return Question("spurious", asks, "shift", margin, percent=True)


def vocabulary_answers(analysis: VocabularyAnalysis, margins: Mapping[str, float]) -> tuple[Answer, ...]:
    """The audit's cells of the scorecard."""
    agreement, spurious = agreement_question(margins["agreement"]), spurious_question(margins["shift"])
    answers: list[Answer | None] = []
    for model in analysis.models:
        gap = analysis.estimates.find("rater_agreement", model, reference=CLINICIANS)
        why = why_no_agreement(analysis, gap)
        effect = agreement.effect(gap, 0, n_family=len(analysis.models), reason=why)
        answer = agreement.answer(model, [effect or _not_asked(agreement, why)])
        # The interval is over words, so more patients would not make it narrower.
        answers.append(None if answer is None else answer.model_copy(update={"needed": None}))
        nothing = _not_asked(spurious, _NOBODY_SAID if analysis.panel is None else _ALL_MATTER)
        # Of words that move the risk alike, the one with the widest interval decides.
        effects = sorted(spurious_effects(analysis, spurious, model), key=lambda each: -(each.high or 0.0))
        answers.append(_if_unmoved(spurious.answer(model, effects or [nothing]), analysis.n_patients))
    return tuple(answer for answer in answers if answer is not None)


def _if_unmoved(answer: Answer | None, n_patients: int) -> Answer | None:
    """The interval of a word that moved nobody shrinks with the number of patients, not with its root."""
    if answer is None or answer.value != 0.0 or answer.needed is None or not answer.margin:
        return answer
    return answer.model_copy(update={"needed": rounded_up(n_patients * (answer.high or 0.0) / answer.margin)})


def _not_asked(question: Question, why: str | None) -> Effect:
    return Effect("", None, None, None, question.margin, 0, why)


_NO_RATINGS = "no clinicians' ratings were given (`raters:`)"
_NOBODY_SAID = "nobody said which words do not matter: give clinicians' ratings (`raters:`) or a list (`unwanted:`)"
_ALL_MATTER = "the clinicians think none of the audited words unimportant"


def why_no_agreement(analysis: VocabularyAnalysis, gap: Estimate | None) -> str | None:
    """Why a model can't be held against the clinicians; None where it can."""
    if analysis.panel is None:
        return _NO_RATINGS
    n_rated, n_judged = int(analysis.panel.rated.sum()), int(analysis.panel.judged.sum())
    if len(analysis.panel.raters) < 2:
        return "with one rater, the clinicians' own agreement is unknown"
    if n_judged < FEWEST_FOR_INTERVAL:
        few = f"only {n_judged} of {n_rated} rated words are in the notes of at least {FEWEST_PATIENTS} patients"
        return f"{few}, and {FEWEST_FOR_INTERVAL} are needed"
    alpha = analysis.estimates.value("krippendorff_alpha", CLINICIANS)
    if alpha is None or alpha < LOW_ALPHA:
        return f"the clinicians hardly agree with each other (Krippendorff's alpha {number(alpha, digits=2)})"
    if gap is None or gap.value is None:
        return None if gap is None else gap.reason
    return None


def spurious_effects(analysis: VocabularyAnalysis, question: Question, model: str) -> list[Effect]:
    """One effect for each word that no clinician would use; the intervals hold for all of them and all models."""
    still = not np.nan_to_num(analysis.sensitivity[model]).any()
    effects = []
    for word in (analysis.words[w] for w in analysis.unwanted):
        row = analysis.estimates.find(REMOVAL, model, group=word)
        outside = analysis.estimates.value("outside_window", model, group=word) or 0.0
        why = "the model could not see most of the swaps" if outside > MOSTLY_OUTSIDE else None
        why = "the model reacts to none of the words" if still and row is not None and row.value is not None else why
        n_family = len(analysis.unwanted) * len(analysis.models)
        effect = question.effect(row, analysis.n_patients, n_family=n_family, reason=why)
        effects += [] if effect is None else [effect._replace(label=word)]
    return effects
