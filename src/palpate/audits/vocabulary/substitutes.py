"""What the audited words are replaced with: the paper's three kinds of filters (Section 2.3.5), and the user's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from palpate.audits.vocabulary.plan import NoteWords
from palpate.audits.vocabulary.words import AuditedNotes, texts_by_patient
from palpate.errors import ConfigError
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
from palpate.results import KnownWords, ModelKnowledge

Filter = Literal["uniform", "unigram", "context"]
OWN = "own"


class NoModelKnowledge:
    """For planning without models."""

    def vocabulary(self) -> KnownWords:
        """No words are known."""
        return KnownWords((), ())

    def context_model(self, source: str, options: Mapping[str, Any] | None = None) -> ContextModel:  # noqa: ARG002
        """There is none."""
        raise ConfigError(f"the language model '{source}' cannot be loaded here: this plan is made without models")


class SubstituteOptions(NamedTuple):
    """The audit's options that say what words are replaced with."""

    filters: Sequence[Filter]
    per_filter: int
    replacements: Mapping[str, tuple[str, ...]] | None
    vocabulary: tuple[str, ...] | None
    language_model: str | Mapping[str, str | bool] | None


class OfferedSubstitutes(NamedTuple):
    """Each filter's substitutes and whether their rows are pairs of note and word (otherwise they are words)."""

    by_filter: Mapping[str, tuple[Substitutes, bool]]
    origin: Mapping[str, str]
    """Where each filter's substitutes come from, in words."""


def find_substitutes(
    options: SubstituteOptions,
    notes: AuditedNotes,
    words: Sequence[str],
    pairs: NoteWords,
    knowledge: ModelKnowledge,
    rng: np.random.Generator,
) -> OfferedSubstitutes:
    """What every filter offers for the words."""
    n = options.per_filter
    offered: dict[str, tuple[Substitutes, bool]] = {}
    origin: dict[str, str] = {}
    for name in dict.fromkeys(options.filters):
        if name == "uniform":
            known, origin[name] = _known_words(options, notes, knowledge)
            offered[name] = uniform_substitutes(words, known, n, rng), False
        elif name == "unigram":
            common = notes.counts.is_common
            offered[name] = unigram_substitutes(words, pairs.hits, notes.texts, n, allowed=common), False
            origin[name] = "the most frequent words of the audited notes that contain the word"
        else:
            model, origin[name] = _context_model(options, notes, knowledge)
            offered[name] = context_substitutes(words, pairs.first_hits, notes.texts, model, n), True
    if options.replacements is not None:
        offered[OWN], origin[OWN] = (own_substitutes(words, options.replacements), False), "given"
    return OfferedSubstitutes(offered, origin)


def _known_words(
    options: SubstituteOptions, notes: AuditedNotes, knowledge: ModelKnowledge
) -> tuple[tuple[str, ...], str]:
    """What `uniform` draws from, and where that comes from."""
    if options.vocabulary is not None:
        given = whole_words(options.vocabulary)
        if not given:
            raise ConfigError("audit 'vocabulary': `vocabulary` has no whole word", hint="give words of letters")
        return given, "the given vocabulary"
    known, counts = knowledge.vocabulary(), notes.counts
    learned = (word for word in known.learned if counts.is_common(word))
    general = (word for word in known.general if not counts.is_rare(word))
    words = tuple(sorted({*learned, *general}))
    if words:
        return words, "the words that the models know"
    return tuple(word for word in counts.n_patients if counts.is_common(word)), f"words of {notes.training_name}"


def _context_model(
    options: SubstituteOptions, notes: AuditedNotes, knowledge: ModelKnowledge
) -> tuple[ContextModel, str]:
    """What `context` asks, and what that is."""
    if options.language_model is not None:
        named = options.language_model
        more = {"source": named} if isinstance(named, str) else dict(named)
        source = more.pop("source", None)
        if not isinstance(source, str):
            raise ConfigError("audit 'vocabulary': `language_model` has no `source`", hint="write {source: hf:FOLDER}")
        return knowledge.context_model(source, more), f"the masked language model {source}"
    # A patient's notes are one text here, so that a word counts by patients.
    texts = texts_by_patient(notes.cohort, notes.training)
    return NgramModel.fit(
        texts, min_texts=notes.counts.fewest, without=notes.counts.names
    ), f"n-grams of {notes.training_name}"
