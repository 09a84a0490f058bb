"""Models of tf-idf weights: a vocabulary learned from the training notes only (vocabulary paper, Appendix B.2).

A word that occurs in the notes of only a few patients may identify one of them (a name, a village), so it is kept out
of the vocabulary, and thus out of every file of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from palpate.errors import CohortError
from palpate.perturb.words.names import find_names
from palpate.stats.context.pretest_model import frequent_words, rows_with
from palpate.train.notes import Notes
from palpate.train.options import Listed, TrainOptions, listed

PATIENTS_OF_A_SHOWN_WORD = 10
"""Words of fewer patients are not shown in a model card."""
READS_WORDS = "It reads which words a note has, not their order: negated and historical findings count as present."
_SHOWN = 20


class WordOptions(TrainOptions):
    """Which words a model reads."""

    max_features: int | None = Field(default=10_000, ge=1)
    """The most words or n-grams to keep, by frequency; None: all."""
    min_df: int = Field(default=1, ge=1)
    """Words in fewer training notes are left out."""
    min_patients: int = Field(default=5, ge=1)
    """Words in the training notes of fewer patients are left out: they may identify someone."""
    max_df: float = Field(default=1.0, gt=0, le=1)
    """Words in a larger share of the training notes are left out."""
    ngrams: Annotated[tuple[int, int], BeforeValidator(listed)] = (1, 1)
    """The shortest and the longest n-gram, in words."""
    sublinear: bool = False
    """Count n as 1 + log n."""
    vocabulary: Listed[str] | None = None
    """Read only these words (lower case; n-grams with spaces between their words)."""
    exclude_words: Listed[str] = ()
    """Never read these words, nor n-grams that contain one of them."""


class FittedWords(NamedTuple):
    """A fitted vectorizer, the training notes as its weights, and how many patients have each word."""

    vectorizer: Any
    x: Any
    names: NDArray[Any]
    n_patients: NDArray[np.int64]
    people: frozenset[str] = frozenset()
    """Words that look like names of people."""

    def forget_address(self) -> None:
        """Before writing: scikit-learn stores a memory address at each use, a different one in every run."""
        vars(self.vectorizer).pop("_stop_words_id", None)


def fit_words(notes: Notes, options: WordOptions) -> FittedWords:
    """Choose the vocabulary and the weights of its words from the training notes."""
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

    counter = CountVectorizer(ngram_range=_ngrams(options))
    try:
        counts = counter.fit_transform(notes.texts)
    except ValueError:
        raise CohortError("the training notes have no words") from None
    names = counter.get_feature_names_out()
    n_patients = rows_with(counts, notes.patients)
    kept = frequent_words(
        counts,
        min_rows=options.min_df,
        max_share=options.max_df,
        most=options.max_features,
        allowed=(n_patients >= options.min_patients) & _wanted(names, options),
    )
    if not len(kept):
        raise CohortError(
            "no word of the training notes is left for the vocabulary",
            hint=f"lower `min_patients` ({options.min_patients}) or `min_df`, or check `vocabulary`",
        )
    vectorizer = TfidfVectorizer(
        vocabulary={str(word): place for place, word in enumerate(names[kept])},
        ngram_range=_ngrams(options),
        sublinear_tf=options.sublinear,
    )
    x = vectorizer.fit_transform(notes.texts)
    vectorizer.vocabulary_ = vectorizer.vocabulary  # one object, so that it is written once
    single = {part for name in names[kept] for part in str(name).split()}
    return FittedWords(vectorizer, x, names[kept], n_patients[kept], find_names(notes.texts, single))


def _ngrams(options: WordOptions) -> tuple[int, int]:
    shortest, longest = options.ngrams
    return max(1, shortest), max(1, shortest, longest)


def _wanted(names: NDArray[Any], options: WordOptions) -> NDArray[np.bool_]:
    only = None if options.vocabulary is None else {word.lower() for word in options.vocabulary}
    never = {word.lower() for word in options.exclude_words}
    tokens = (str(name) for name in names)
    wanted = [(only is None or name in only) and not never.intersection((name, *name.split())) for name in tokens]
    return np.asarray(wanted, dtype=bool)


def shown(words: FittedWords, weight: Sequence[float] | NDArray[np.float64]) -> tuple[tuple[str, float], ...]:
    """The words of largest weight among those of at least ten patients, without names of people."""
    values = np.asarray(weight, dtype=np.float64)
    nobody = np.asarray([words.people.isdisjoint(str(name).split()) for name in words.names], dtype=bool)
    allowed = np.flatnonzero((words.n_patients >= PATIENTS_OF_A_SHOWN_WORD) & (values != 0) & nobody)
    order = allowed[np.argsort(-np.abs(values[allowed]), kind="stable")][:_SHOWN]
    return tuple((str(words.names[k]), round(float(values[k]), 4)) for k in order)
