"""Vocabulary: which words move the prediction, and do clinicians agree that they should?

The sensitivity score of the vocabulary paper (Section 2.3): a word is swapped for others, and the score is the mean
change of the probability over filters and over the notes that contain the word. Here with intervals, with a budget that
stops when enough is known (its Section 4 names the cost as the open problem), and with clinicians' ratings (its
Section 3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import BeforeValidator, Field

from palpate.audits.kit.measured import Correction
from palpate.audits.kit.scope import training_rows, validation_rows
from palpate.audits.kit.thresholds import ThresholdRule, check_rule
from palpate.audits.vocabulary.analysis import analyse_swaps
from palpate.audits.vocabulary.findings import Settings
from palpate.audits.vocabulary.inputs import NobodyLends, RatingSheet, WordsTold, as_sheet, by_patient, choose_common
from palpate.audits.vocabulary.measures import AVERAGE, Swaps, unsettled_words
from palpate.audits.vocabulary.plan import (
    ALL,
    FIRST,
    Chosen,
    Pairs,
    Universe,
    chosen_variants,
    offers_of,
    some_offers,
)
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints
from palpate.errors import CohortError, ConfigError
from palpate.perturb.words import Hits, check_words, find_words
from palpate.perturb.words.ngrams import NgramModel
from palpate.perturb.words.substitutes import (
    ContextModel,
    Substitutes,
    context_substitutes,
    own_substitutes,
    uniform_substitutes,
    unigram_substitutes,
    whole_words,
)
from palpate.results import AuditResult, Finding, KnownWords, ModelKnowledge, ModelPredictions, Plan

Filter = Literal["uniform", "unigram", "context"]
OWN = "own"
_TOP = 10
_EVERY_NOTE = np.iinfo(np.int64).max // 2


@dataclass(frozen=True)
class Budget:
    """Score some notes, look, and go on only with the words that are not settled."""

    notes: Annotated[int, Field(ge=2)] = 50
    """Notes for each word in the first turn; a word that is not settled gets twice as many in the next."""
    filters: Annotated[int, Field(ge=1)] = 3
    """Substitutes for each note, drawn anew for each note from all filters."""
    width: Annotated[float, Field(gt=0)] | None = None
    """A word is settled when the interval of its score is narrower than this, for every model."""
    top: Annotated[int, Field(ge=1)] | None = None
    """A word is settled when it surely is, or surely is not, among the first `top`, for every model. With `width` too,
    either is enough; with neither, `top` is 10."""
    turns: Annotated[int, Field(ge=1)] = 12
    """At most so many turns."""

    @property
    def goals(self) -> dict[str, Any]:
        """What settles a word."""
        neither = self.width is None and self.top is None
        return {"width": self.width, "top": _TOP if neither else self.top}


class _Memory(NamedTuple):
    universe: Universe
    swaps: Swaps
    n_notes: Ints
    """How many notes each word may have so far."""
    turn: int
    """The first is 1."""
    validation: slice
    """Rows of the plan's variants that hold the validation split."""
    origin: Mapping[str, str]
    """Where each family's substitutes come from, in words."""


@dataclass(frozen=True)
class Vocabulary:
    """Sensitivity of models to words, against clinicians' ratings."""

    name: ClassVar[str] = "vocabulary"

    words: tuple[str, ...] | Literal["frequent", "predictive", "vocabulary"] | None = field(
        default=None, metadata={"file": "words"}
    )
    """A file or a list; or chosen from the training split: the most `frequent`, the most `predictive` (chi-squared), or
    the whole `vocabulary` above `min_notes`. Default: the words that were rated, else `predictive`."""
    n_words: Annotated[int, Field(ge=1)] = 50
    min_notes: Annotated[int, Field(ge=1)] = 20
    """Words are chosen from those that are in at least so many training notes."""
    raters: Annotated[RatingSheet | None, BeforeValidator(as_sheet)] = field(default=None, metadata={"file": "ratings"})
    """Clinicians' ratings: a file with a column `word` and a column a rater, scores 1 to 5."""
    filters: Annotated[tuple[Filter, ...], Field(min_length=1)] = ("uniform", "unigram", "context")
    per_filter: Annotated[int, Field(ge=1)] = 5
    replacements: dict[str, tuple[str, ...]] | None = field(default=None, metadata={"file": "replacements"})
    """Your own substitutes, as a further filter: a file with the columns `word` and `replacement`."""
    vocabulary: tuple[str, ...] | None = field(default=None, metadata={"file": "words"})
    """What `uniform` draws from; default: the whole words that the models know, else those of the training notes."""
    language_model: str | None = None
    """A masked language model for `context`, as hf:FOLDER; default: n-grams of the training notes."""
    swap: Literal["first", "all"] = FIRST
    """Which occurrences are swapped."""
    diagnostic_notes: Annotated[int, Field(ge=0)] = 100
    """Notes a word for the other way of swapping, to see how frequency matters; 0: leave it out."""
    keep_case: bool = True
    """A substitute is written as the word was: lower, Capitalised or CAPITALS."""
    budget: Budget | None = None
    """Default: score everything."""
    labels: tuple[str, ...] | None = None
    cohort: str | None = None
    """Which cohort's notes; the first by default."""
    split: str = "test"
    threshold: Annotated[float, Field(ge=0, le=1)] | Literal["auto", "recall", "youden"] = "auto"
    """Where a probability becomes a decision, as in the performance audit."""
    target_recall: Annotated[float, Field(gt=0, le=1)] = 0.70
    n_replicates: Annotated[int, Field(ge=100)] = 10_000
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    correction: Correction = "bonferroni"
    top: Annotated[int, Field(ge=1)] = 25
    """How many words the plot shows."""
    labels_shown: Annotated[int, Field(ge=1)] = 20
    """Of many labels, the most frequent ones get rows of their own; the average is over all."""

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan:
        """The plan without help from models: `uniform` draws from the training notes' words."""
        return self.plan_with(cohort, rng, NobodyLends())

    def plan_with(self, cohort: Cohort, rng: np.random.Generator, lender: ModelKnowledge) -> Plan:
        """The audited notes and their swaps; the first turn of them if there is a budget."""
        rows, labels = self._audited(cohort)
        check_rule(self._rule, cohort)
        texts = [cohort.texts[row] for row in rows.tolist()]
        training = self._training(cohort, rows)
        told = WordsTold.of(cohort, np.union1d(training[0], rows))
        words = self._words(cohort, training, labels, told)
        hits = find_words(texts, words, occurrences="all")
        pairs = Pairs.of(hits)
        offered, origin = self._substitutes(cohort, texts, words, hits, pairs, training, told, rng, lender)
        offers, pool = offers_of(pairs, offered)
        if self.budget is not None:
            offers = some_offers(offers, self.budget.filters, rng)
        universe = Universe(
            words=words,
            families=tuple(offered),
            texts=texts,
            rows=rows,
            hits=hits,
            pairs=pairs,
            offers=offers,
            substitutes=pool,
            draw=rng.random(len(pairs.note)),
            keep_case=self.keep_case,
        )
        n_notes = np.full(len(words), self.budget.notes if self.budget else _EVERY_NOTE, dtype=np.int64)
        return self._turn(cohort, labels, universe, n_notes, origin, turn=1)

    def plan_again(self, plan: Plan, predictions: dict[str, ModelPredictions], rng: np.random.Generator) -> Plan | None:
        """Twice the notes for words that are not settled yet; None when all are, or no notes are left."""
        memory: _Memory = plan.memory
        budget = self.budget
        if budget is None or memory.turn >= budget.turns:
            return None
        unsettled = unsettled_words(memory.swaps, plan, predictions, **budget.goals, level=self.level, rng=rng)
        unsettled &= memory.n_notes < memory.swaps.n_notes
        if not unsettled.any():
            return None
        n_notes = np.where(unsettled, 2 * memory.n_notes, memory.n_notes)
        return self._turn(plan.cohort, plan.labels, memory.universe, n_notes, memory.origin, turn=memory.turn + 1)

    def analyse(self, plan: Plan, predictions: dict[str, ModelPredictions], rng: np.random.Generator) -> AuditResult:
        """Scores, ranks and their intervals; agreement with clinicians; how frequency matters."""
        memory: _Memory = plan.memory
        schemes = {FIRST: "first occurrence", ALL: "all occurrences"}
        settings = Settings(
            level=self.level,
            n_replicates=self.n_replicates,
            correction=self.correction,
            top=self.top,
            labels_shown=self.labels_shown,
            threshold=self._rule,
            schemes=(schemes[self._schemes[0]], schemes[self._schemes[1]]),
        )
        ratings = None if self.raters is None else self.raters.ratings
        result = analyse_swaps(
            swaps=memory.swaps,
            plan=plan,
            predictions=predictions,
            ratings=ratings,
            settings=settings,
            rng=rng,
        )
        provenance = {**result.provenance, "substitutes": dict(memory.origin)}
        unsettled = self._unsettled(plan, predictions, rng)
        return replace(result, provenance=provenance, findings=(*result.findings, *unsettled))

    def without_turns(self) -> Vocabulary:
        """The audit without its budget, which asks for all that any turn might."""
        return replace(self, budget=None)

    def _unsettled(
        self, plan: Plan, predictions: dict[str, ModelPredictions], rng: np.random.Generator
    ) -> tuple[Finding, ...]:
        """What the budget left open."""
        if self.budget is None:
            return ()
        memory: _Memory = plan.memory
        swaps = memory.swaps
        still = unsettled_words(swaps, plan, predictions, **self.budget.goals, level=self.level, rng=rng)
        words = [f"'{swaps.words[k]}'" for k in np.flatnonzero(still)]
        if not words:
            return (Finding(sentence=f"The budget settled all {len(swaps.words)} words."),)
        listed = ", ".join(words[:5]) + (f" and {len(words) - 5} more" if len(words) > 5 else "")
        sentence = f"The budget left {len(words)} of {len(swaps.words)} words unsettled: {listed}."
        if np.all(memory.n_notes[still] >= swaps.n_notes[still]):
            sentence = (
                f"{len(words)} of {len(swaps.words)} words are unsettled though all their notes were scored: {listed}."
            )
        return (Finding(sentence=sentence),)

    @property
    def _rule(self) -> ThresholdRule:
        return ThresholdRule(self.threshold, self.target_recall)

    @property
    def _schemes(self) -> tuple[str, str]:
        """What is swapped: as asked, and the other way, for the diagnostic."""
        return (FIRST, ALL) if self.swap == FIRST else (ALL, FIRST)

    def _audited(self, cohort: Cohort) -> tuple[Ints, tuple[str, ...]]:
        """The audited notes' rows, and the labels."""
        if not cohort.has_text:
            raise CohortError("the cohort has no text to swap words in", hint="set `text:` of the cohort")
        name = self.cohort or cohort.names[0]
        if name not in cohort.names:
            raise ConfigError(f"audit 'vocabulary': there is no cohort '{name}'", hint=", ".join(cohort.names))
        unknown = [label for label in self.labels or () if label not in cohort.labels]
        if unknown:
            raise ConfigError(f"audit 'vocabulary': the cohort has no label '{unknown[0]}'")
        labels = tuple(self.labels or cohort.labels)
        if len(labels) > 1 and AVERAGE in labels:
            raise ConfigError(
                f"audit 'vocabulary': '{AVERAGE}' names the mean over labels; give the label another name"
            )
        rows = cohort.rows(cohort=name, split=self.split)
        if not len(rows):
            raise CohortError(f"cohort '{name}' has no case in split '{self.split}'", hint="set `split:` of the audit")
        return rows, labels

    def _training(self, cohort: Cohort, rows: Ints) -> tuple[Ints, str]:
        """The notes that words and substitutes are learned from, and what they are."""
        training = training_rows(cohort)
        if len(training):
            return training, "the training notes"
        return rows, "the audited notes themselves, because there is no training split"

    def _words(
        self, cohort: Cohort, training: tuple[Ints, str], labels: Sequence[str], told: WordsTold
    ) -> tuple[str, ...]:
        """The target words."""
        if isinstance(self.words, tuple):
            if not self.words:
                raise ConfigError("audit 'vocabulary': `words` names no word", hint="give some, or `words: predictive`")
            return check_words(self.words)
        if self.words is None and self.raters is not None:
            return check_words(self.raters.words)
        how = self.words or "predictive"
        return choose_common(cohort, training[0], labels, told, how=how, n=self.n_words, min_notes=self.min_notes)

    def _substitutes(
        self,
        cohort: Cohort,
        texts: Sequence[str],
        words: tuple[str, ...],
        hits: Hits,
        pairs: Pairs,
        training: tuple[Ints, str],
        told: WordsTold,
        rng: np.random.Generator,
        lender: ModelKnowledge,
    ) -> tuple[dict[str, tuple[Substitutes, bool]], dict[str, str]]:
        """For each family its substitutes and whether their rows are pairs; and where they come from."""
        origin: dict[str, str] = {}
        offered: dict[str, tuple[Substitutes, bool]] = {}
        for family in dict.fromkeys(self.filters):
            if family == "uniform":
                known, origin[family] = self._vocabulary(told, training[1], lender)
                offered[family] = uniform_substitutes(words, known, self.per_filter, rng), False
            elif family == "unigram":
                found = unigram_substitutes(words, hits, texts, self.per_filter, allowed=told.is_common)
                offered[family] = found, False
                origin[family] = "the most frequent words of the audited notes that contain the word"
            else:
                model: ContextModel
                if self.language_model is not None:
                    model = lender.context_model(self.language_model)
                    origin[family] = f"the masked language model {self.language_model}"
                else:
                    # A patient's notes are one text here, so that a word counts by patients.
                    model = NgramModel.fit(by_patient(cohort, training[0]), min_texts=told.fewest)
                    origin[family] = f"n-grams of {training[1]}"
                first = hits.take(pairs.first_hit[:-1])
                offered[family] = context_substitutes(words, first, texts, model, self.per_filter), True
        if self.replacements is not None:
            offered[OWN] = own_substitutes(words, self.replacements), False
            origin[OWN] = "given"
        return offered, origin

    def _vocabulary(self, told: WordsTold, where: str, lender: ModelKnowledge) -> tuple[tuple[str, ...], str]:
        """What `uniform` draws from, and where that is from."""
        if self.vocabulary is not None:
            given = whole_words(self.vocabulary)
            if not given:
                raise ConfigError("audit 'vocabulary': `vocabulary` has no whole word", hint="give words of letters")
            return given, "the given vocabulary"
        known: KnownWords = lender.vocabulary()
        learned = (word for word in known.learned if told.is_common(word))
        general = (word for word in known.general if not told.is_rare(word))
        words = tuple(sorted({*learned, *general}))
        if words:
            return words, "the words that the models know"
        return tuple(word for word in told.n_patients if told.is_common(word)), f"words of {where}"

    def _turn(
        self,
        cohort: Cohort,
        labels: tuple[str, ...],
        universe: Universe,
        n_notes: Ints,
        origin: Mapping[str, str],
        *,
        turn: int,
    ) -> Plan:
        """The plan in which word k has at most `n_notes[k]` notes."""
        pairs, offers = universe.pairs, universe.offers
        main = np.flatnonzero(universe.take_notes(n_notes)[offers.pair])
        few = np.minimum(n_notes, self.diagnostic_notes)
        other = np.flatnonzero(universe.take_notes(few)[offers.pair])
        chosen = Chosen(np.concatenate([main, other]), np.repeat([0, 1], [len(main), len(other)]))
        validation = validation_rows(cohort)
        notes = np.unique(pairs.note[offers.pair[main]])
        if not len(validation) and isinstance(self.threshold, str):
            notes = np.arange(len(universe.rows))  # the threshold comes from all audited notes, as in `performance`
        unedited = np.concatenate([universe.rows[notes], validation])
        variants, row = chosen_variants(universe, chosen, self._schemes, unedited=unedited)
        original = np.full(len(cohort), -1, dtype=np.int64)
        original[universe.rows[notes]] = np.arange(len(notes))
        n_words = len(universe.words)
        n_of_word = np.bincount(pairs.word, minlength=n_words)
        offered = np.bincount(pairs.word[offers.pair], minlength=n_words)
        pair = offers.pair[chosen.offer]
        swaps = Swaps(
            words=universe.words,
            families=universe.families,
            word=pairs.word[pair],
            note=universe.rows[pairs.note[pair]],
            family=offers.family[chosen.offer],
            scheme=chosen.scheme,
            variant=row,
            original=original,
            n_occurrences=np.bincount(universe.hits.word, minlength=n_words),
            n_notes=n_of_word,
            reasons=tuple(map(_reason, n_of_word.tolist(), offered.tolist())),
        )
        memory = _Memory(universe, swaps, n_notes, turn, slice(len(notes), len(unedited)), origin)
        return Plan(cohort, variants, labels, cases=universe.rows, memory=memory)


def _reason(n_notes: int, n_offers: int) -> str | None:
    if not n_notes:
        return "in no note"
    return None if n_offers else "no substitute"
