"""Vocabulary: which words move the prediction, and do clinicians agree that they should?

The sensitivity score of the vocabulary paper (Section 2.3): a word is swapped for others, and the score is the mean
change of the probability over the substitutes and over the notes that contain the word. Here with intervals, with a
budget that stops when enough is known (its Section 4 names the cost as the open problem), and with clinicians' ratings
(its Section 3).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from palpate.audits.kit.resampling import Correction, Family, Resampling
from palpate.audits.kit.rows import EstimateIndex, RowWriter
from palpate.audits.kit.scope import (
    Count,
    Level,
    Recall,
    Replicates,
    Threshold,
    audited_cohort,
    audited_labels,
    audited_rows,
    most_frequent_labels,
    require_text,
)
from palpate.audits.kit.thresholds import ThresholdRule, check_rule, decide_thresholds
from palpate.audits.vocabulary.answers import VocabularyAnalysis, vocabulary_answers
from palpate.audits.vocabulary.blocks import vocabulary_blocks
from palpate.audits.vocabulary.clinicians import CLINICIANS, ClinicianPanel, RatingSheet, as_sheet, unwanted_words
from palpate.audits.vocabulary.correlations import WordCorrelations
from palpate.audits.vocabulary.estimates import METRICS, WordRows, vocabulary_rows
from palpate.audits.vocabulary.findings import vocabulary_findings
from palpate.audits.vocabulary.frequency import score_schemes
from palpate.audits.vocabulary.intervals import FEWEST_PATIENTS, Floats
from palpate.audits.vocabulary.measures import SwapEffects, lay_out, note_weights, unsettled_words
from palpate.audits.vocabulary.plan import (
    ALL,
    FIRST,
    CandidateSwaps,
    NoteWords,
    PlannedSwaps,
    Substitutions,
    plan_swaps,
)
from palpate.audits.vocabulary.removals import Removals
from palpate.audits.vocabulary.substitutes import Filter, NoModelKnowledge, SubstituteOptions, find_substitutes
from palpate.audits.vocabulary.words import AuditedNotes, choose_common_words
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints
from palpate.errors import ConfigError, InputError
from palpate.perturb.words import check_words, find_words, normalise_word
from palpate.results import MACRO, AuditResult, ModelKnowledge, Plan, Predictions, estimates_frame
from palpate.results.verdicts import margins_with

__all__ = ["Budget", "RatingSheet", "Vocabulary"]

_TOP = 10
_EVERY_NOTE = np.iinfo(np.int64).max // 2


@dataclass(frozen=True)
class Budget:
    """Score some notes, look, and go on only with the words that are not settled."""

    notes: Annotated[int, Field(ge=2)] = 50
    """Notes for each word in the first turn; a word that is not settled gets twice as many in the next."""
    filters: Count = 3
    """Substitutes for each note, drawn anew for each note from all filters."""
    width: Annotated[float, Field(gt=0)] | None = None
    """A word is settled when the interval of its score is narrower than this, for every model."""
    top: Count | None = None
    """A word is settled when it surely is, or surely is not, among the first `top`, for every model. With `width` too,
    either is enough; with neither, `top` is 10."""
    turns: Count = 12
    """At most this many turns."""

    @property
    def goals(self) -> dict[str, Any]:
        """What settles a word."""
        neither = self.width is None and self.top is None
        return {"width": self.width, "top": _TOP if neither else self.top}

    def level(self, level: float, n_notes: Ints) -> Floats:
        """[words] The level of each word's intervals, so that they hold whenever the budget stops.

        A word that may be looked at k times has intervals of 1 - (1 - level) / k; k is known from the number of notes
        that contain it.
        """
        doublings = np.ceil(np.log2(np.maximum(n_notes / self.notes, 1.0)))
        return np.asarray(1.0 - (1.0 - level) / np.minimum(1.0 + doublings, self.turns))


@dataclass(frozen=True)
class Vocabulary:
    """Sensitivity of models to words, against clinicians' ratings.

    >>> Vocabulary(words=("sepsis",)).words
    ('sepsis',)
    """

    name: ClassVar[str] = "vocabulary"
    unweighted_because: ClassVar[str] = ""
    weighted_except: ClassVar[str] = "how often a word occurs"
    metrics: ClassVar[tuple[str, ...]] = METRICS
    questions: ClassVar[tuple[str, ...]] = ("agreement", "spurious")
    beside_models: ClassVar[tuple[str, ...]] = (CLINICIANS,)

    words: tuple[str, ...] | Literal["frequent", "predictive", "vocabulary"] | None = field(
        default=None, metadata={"file": "words"}
    )
    """A file or a list; or chosen from the training split: the most `frequent`, the most `predictive` (chi-squared), or
    the whole `vocabulary` above `min_notes`. Default: the words that were rated, else `predictive`."""
    n_words: Count = 50
    min_notes: Count = 20
    """Words are chosen from those that are in at least this many training notes."""
    raters: Annotated[RatingSheet | None, BeforeValidator(as_sheet)] = field(default=None, metadata={"file": "ratings"})
    """Clinicians' ratings: a file with a column `word` and one column per rater, scores 1 to 5, or as a
    column `scale` states."""
    filters: Annotated[tuple[Filter, ...], Field(min_length=1)] = ("uniform", "unigram", "context")
    per_filter: Count = 5
    """Substitutes from each filter."""
    replacements: dict[str, tuple[str, ...]] | None = field(default=None, metadata={"file": "replacements"})
    """Your own substitutes, as a further filter: a file with the columns `word` and `replacement`."""
    vocabulary: tuple[str, ...] | None = field(default=None, metadata={"file": "words"})
    """What `uniform` draws from; default: the whole words that the models know, else those of the training notes."""
    language_model: str | dict[str, str | bool] | None = None
    """A masked language model for `context`, as hf:FOLDER, or as {source: hf:FOLDER, device: ..., dtype: ..., trust:
    ...}; default: n-grams of the training notes."""
    swap: Literal["first", "all"] = FIRST
    """Which occurrences are swapped."""
    diagnostic_notes: Annotated[int, Field(ge=0)] = 100
    """Notes per word that are also swapped the other way, to see how frequency matters; 0: leave it out."""
    keep_case: bool = True
    """A substitute is written as the word was: lower, Capitalised or CAPITALS."""
    budget: Budget | None = None
    """Default: score everything."""
    labels: tuple[str, ...] | None = None
    """Which labels of the cohort; all by default."""
    cohort: str | None = None
    """Which cohort's notes; the first by default."""
    split: str = "test"
    """Which split is held out; a cohort without splits is used whole."""
    threshold: Threshold = "auto"
    """Where a probability becomes a decision, as in the performance audit."""
    target_recall: Recall = 0.70
    n_replicates: Replicates = 10_000
    level: Level = 0.95
    correction: Correction = "bonferroni"
    family: Family = "question"
    """Which comparisons are corrected together: those of one kind (the ranks of all words and pairs of models), or all
    of the audit (`run`)."""
    unwanted: tuple[str, ...] | None = field(default=None, metadata={"file": "words"})
    """Words that no clinician would use, a file or a list; by default those that the raters put in the lower half."""
    margins: dict[str, float] = field(default_factory=dict)
    """The smallest effects that matter, set for the whole run."""
    top: Count = 25
    """How many words the plot shows."""
    labels_shown: Count = 20
    """Of many labels, the most frequent ones get rows of their own; the average is over all."""

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan[PlannedSwaps]:
        """The plan without help from models: `uniform` draws from the training notes' words."""
        return self.plan_with(cohort, rng, NoModelKnowledge())

    def plan_with(self, cohort: Cohort, rng: np.random.Generator, knowledge: ModelKnowledge) -> Plan[PlannedSwaps]:
        """The audited notes and their swaps; only the first turn of them if there is a budget."""
        require_text(self.name, cohort)
        name = audited_cohort(self.name, cohort, self.cohort)
        labels = audited_labels(self.name, cohort, self.labels, reserved=(MACRO,))
        check_rule(self._rule, cohort)
        notes = AuditedNotes.of(cohort, audited_rows(self.name, cohort, name, self.split))
        words = self._words(notes, labels)
        pairs = NoteWords.of(find_words(notes.texts, words, occurrences="all"))
        options = SubstituteOptions(
            self.filters, self.per_filter, self.replacements, self.vocabulary, self.language_model
        )
        offered = find_substitutes(options, notes, words, pairs, knowledge, rng)
        substitutions, substitutes = Substitutions.of(pairs, offered.by_filter)
        if self.budget is not None:
            substitutions = substitutions.sample(self.budget.filters, rng)
        candidates = CandidateSwaps(
            words=words,
            filters=tuple(offered.by_filter),
            origin=offered.origin,
            notes=notes,
            labels=labels,
            pairs=pairs,
            substitutions=substitutions,
            substitutes=substitutes,
            draw=rng.random(len(pairs.note)),
            schemes=(FIRST, ALL) if self.swap == FIRST else (ALL, FIRST),
            keep_case=self.keep_case,
            diagnostic_notes=self.diagnostic_notes,
            finds_threshold=isinstance(self.threshold, str),
            removed=self._removed(words, np.bincount(pairs.word[substitutions.pair], minlength=len(words)) > 0),
        )
        n_notes = np.full(len(words), self.budget.notes if self.budget else _EVERY_NOTE, dtype=np.int64)
        return plan_swaps(candidates, n_notes, turn=1)

    def plan_again(
        self,
        plan: Plan[PlannedSwaps],
        predictions: Predictions,
        rng: np.random.Generator,  # noqa: ARG002  (nothing is random)
    ) -> Plan[PlannedSwaps] | None:
        """Twice the notes for words that are not settled yet; None when all are, or no notes are left."""
        memory = plan.memory
        if self.budget is None or memory.turn >= self.budget.turns:
            return None
        unsettled = self._unsettled(plan, predictions)
        unsettled &= ~memory.all_scored
        if not unsettled.any():
            return None
        n_notes = np.where(unsettled, 2 * memory.n_notes, memory.n_notes)
        return plan_swaps(memory.candidates, n_notes, turn=memory.turn + 1)

    def without_turns(self) -> Vocabulary:
        """The audit without its budget, which asks for everything that any turn might ask for."""
        return replace(self, budget=None)

    def analyse(self, plan: Plan[PlannedSwaps], predictions: Predictions, rng: np.random.Generator) -> AuditResult:
        """Scores, ranks and their intervals; agreement with clinicians; how frequency matters."""
        swaps, patients = plan.memory.swaps, plan.cohort.patients
        thresholds = decide_thresholds(
            plan, predictions.scored, rule=self._rule, validation=plan.memory.validation, main=swaps.originals
        )
        weight = note_weights(plan)
        effects = SwapEffects(lay_out(swaps, patients, weight=weight), predictions, thresholds, plan.labels)
        schemes = score_schemes(swaps, patients, effects, weight)
        y_true = plan.cohort.y_true(plan.variants.parent[swaps.originals], plan.labels)
        shown = most_frequent_labels(plan.labels, y_true.sum(axis=0, dtype=np.int64), self.labels_shown)
        panel = self._panel(swaps.words, effects.has_score, effects.layout.n_patients_of >= FEWEST_PATIENTS)
        unwanted = unwanted_words(swaps.words, self.unwanted, panel)
        writer = RowWriter(self.name, self.level)
        resampling = Resampling(self.level, self.n_replicates, self.correction, seed=int(rng.integers(2**63)))
        removals = Removals.of(unwanted, swaps, patients, effects, weight)
        word_rows = WordRows(writer, swaps, effects, removals, self._levels(plan))
        found = vocabulary_rows(word_rows, shown, panel, schemes, WordCorrelations(writer, resampling), self.family)
        analysis = VocabularyAnalysis(
            estimates=EstimateIndex(found.rows, label=effects.overall_label, group=CLINICIANS),
            planned=plan.memory,
            effects=effects,
            sensitivity=found.sensitivity,
            rank=found.rank,
            schemes=schemes,
            labels=shown,
            panel=panel,
            unwanted=unwanted,
            n_patients=len(np.unique(patients[plan.cases])),
            not_audited=() if self.raters is None else self.raters.not_among(swaps.words),
            unsettled=None if self.budget is None else self._unsettled(plan, predictions),
            level=self.level,
            correction=self.correction,
            top=self.top,
        )
        answers = vocabulary_answers(analysis, margins_with(self.margins))
        return AuditResult(
            audit=self.name,
            estimates=estimates_frame(found.rows),
            blocks=vocabulary_blocks(analysis),
            findings=vocabulary_findings(analysis, answers),
            provenance={
                "threshold": thresholds.origin,
                "n_swaps": len(effects.layout.variant),
                "n_replicates": self.n_replicates,
                "n_patients": effects.layout.n_patients,
                "labels_shown": len(shown),
                "unit": "patient for scores and ranks, word for correlations",
                "substitutes": dict(plan.memory.candidates.origin),
            },
            answers=answers,
        )

    def _panel(
        self, words: tuple[str, ...], scored: NDArray[np.bool_], enough: NDArray[np.bool_] | None = None
    ) -> ClinicianPanel | None:
        """The clinicians, if there are any."""
        ratings = None if self.raters is None else self.raters.ratings
        return None if ratings is None else ClinicianPanel.of(ratings, words, scored, enough)

    def _removed(self, words: tuple[str, ...], scored: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """[words] Which words are taken out of their notes: those that no clinician would use."""
        return np.isin(np.arange(len(words)), unwanted_words(words, self.unwanted, self._panel(words, scored)))

    def _levels(self, plan: Plan[PlannedSwaps]) -> Floats | float:
        """The level of the words' intervals."""
        return self.level if self.budget is None else self.budget.level(self.level, plan.memory.swaps.n_notes)

    def _unsettled(self, plan: Plan[PlannedSwaps], predictions: Predictions) -> NDArray[np.bool_]:
        """[words] Which words the budget has not settled yet."""
        goals = {} if self.budget is None else self.budget.goals
        return unsettled_words(plan, predictions, **goals, level=self._levels(plan))

    @property
    def _rule(self) -> ThresholdRule:
        return ThresholdRule(self.threshold, self.target_recall)

    def _words(self, notes: AuditedNotes, labels: tuple[str, ...]) -> tuple[str, ...]:
        """The words to audit: those that are asked for, and those that no clinician would use."""
        words = self._asked_words(notes, labels)
        known = {normalise_word(word) for word in words}
        return (*words, *(word for word in self._checked(self.unwanted or ()) if normalise_word(word) not in known))

    def _asked_words(self, notes: AuditedNotes, labels: tuple[str, ...]) -> tuple[str, ...]:
        if isinstance(self.words, tuple):
            if not self.words:
                raise ConfigError("audit 'vocabulary': `words` is empty", hint="list some, or use `words: predictive`")
            return self._checked(self.words)
        if self.words is None and self.raters is not None:
            return self._checked(self.raters.words)
        how = self.words or "predictive"
        return choose_common_words(
            notes.cohort, notes.training, labels, notes.counts, how=how, n=self.n_words, min_notes=self.min_notes
        )

    def _checked(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """The words without needless blanks; what is wrong with them names the audit."""
        try:
            return check_words(words)
        except InputError as error:
            raise ConfigError(f"audit '{self.name}': {error}") from error
