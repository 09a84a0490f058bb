"""Bag-of-words models score an edit from the difference that it makes to the counts.

A parent is tokenised once. An edit is tokenised with its surroundings only: out to the next blank on both
sides, and n - 1 tokens further where there are n-grams. The parent's counts plus the difference are exactly
the counts of the edited text (`counts`). Where tf-idf weights go into logistic regression (`linear`) or
XGBoost's trees (`trees`), what a parent and its edited copies have in common is computed once too. For any other
classifier, count rows go through the pipeline's own later steps. Entries that become zero are dropped: to XGBoost
an absent entry is a missing value.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.pipeline import Pipeline

from palpate.cases.edits import Inputs, Ints
from palpate.models import Probabilities
from palpate.models.bagofwords.counts import Counted, WordCounts
from palpate.models.bagofwords.linear import linear_of
from palpate.models.bagofwords.tfidf import weights_of
from palpate.models.bagofwords.token_patterns import is_local
from palpate.models.bagofwords.trees import forest_of
from palpate.models.classes import ClassOptions
from palpate.models.estimators import EstimatorModel

BLOCK_ROWS = 1024
"""Count rows that go through a pipeline at a time."""
BLOCK_PARENTS = 256
"""Parents whose counts are held at a time."""
PROBES, WORDS_OF_A_PROBE = 64, 40
TOLERANCE = 1e-6
ROWS_WORTH_A_THREAD = 512
"""With fewer, waking a thread takes longer than the work."""
_one_at_a_time = threading.RLock()

Scorer = Callable[[Counted], Probabilities]


def estimator_model(estimator: Any, options: ClassOptions, *, fingerprint: str, file: Path) -> EstimatorModel:
    """The model for a fitted estimator; it scores from count differences where that gives the same numbers."""
    kind = BagOfWordsModel if _counts_words(estimator) else EstimatorModel
    return kind(estimator, options, fingerprint=fingerprint, file=file)


def _counts_words(estimator: Any) -> bool:
    """Whether a pipeline starts with a word counter whose tokens never span a blank."""
    if not isinstance(estimator, Pipeline) or len(estimator.steps) < 2:
        return False
    first = estimator[0]
    return (
        type(first) in (CountVectorizer, TfidfVectorizer)
        and first.input == "content"
        and first.analyzer == "word"
        and first.tokenizer is None
        and first.preprocessor is None
        and first.strip_accents in (None, "ascii", "unicode")
        and is_local(first.token_pattern)
    )


class BagOfWordsModel(EstimatorModel):
    """A pipeline whose first step counts words."""

    uses_edits = True
    rows_per_call = 16_384

    def __init__(self, estimator: Any, options: ClassOptions, *, fingerprint: str, file: Path) -> None:
        super().__init__(estimator, options, fingerprint=fingerprint, file=file)
        self._words = WordCounts(estimator[0])
        self._tfidf = estimator[0]._tfidf if isinstance(estimator[0], TfidfVectorizer) else None
        self._later = estimator[1:]
        fast = self._fast_scorer()
        self.scores_differences = fast is not None and self._agrees(fast)
        """Whether rows are scored from their parents' scores; if not, their counts go through the pipeline."""
        # Looking a score up takes as long as computing it, and storing it twice as long; the bits are the same.
        vars(self).update(cached=not self.scores_differences)
        self._score: Scorer = fast if fast is not None and self.scores_differences else self._score_rows

    def predict(self, inputs: Inputs) -> Probabilities:
        """Probabilities of the edited texts, which are never built."""
        answers = np.zeros((len(inputs), len(self.labels)))
        with threads_for(len(inputs)):
            for rows in _blocks(inputs):
                answers[rows] = self._score(self._words.count(inputs, rows))
        return answers

    def _score_rows(self, counted: Counted) -> Probabilities:
        """Count rows through the later steps of the pipeline; equal rows once."""
        distinct, inverse = counted.distinct()
        size = min(self.rows_per_call, BLOCK_ROWS)
        blocks = []
        for first in range(0, len(distinct), size):
            rows = self._words.matrix(counted, distinct[first : first + size])
            if self._tfidf is not None:
                rows = self._tfidf.transform(rows, copy=False)
            blocks.append(self._ask(self._later, rows))
        return np.concatenate(blocks)[inverse]

    def _fast_scorer(self) -> Scorer | None:
        """How to score from differences, if all steps are of supported types."""
        steps = [step for _, step in self._later.steps]
        known = weights_of(self._estimator[0], steps, self._words.n_columns)
        if known is None or len(known[1]) != 1:
            return None
        weights, (classifier,) = known
        linear = linear_of(classifier, self._words.n_columns)
        if linear is not None:
            return lambda counted: self._ask(linear.link, linear.scores(counted, weights))
        forest = forest_of(classifier, self._words.n_columns)
        return None if forest is None else lambda counted: forest.probabilities(counted, weights)

    def _agrees(self, fast: Scorer) -> bool:
        """Whether the scores equal the pipeline's on texts of its own words: a new version may compute differently."""
        words = sorted(self._words.vocabulary)
        rng = np.random.default_rng(0)
        drawn = rng.integers(0, len(words), size=(PROBES, WORDS_OF_A_PROBE))
        inputs = Inputs.from_texts([" ".join(words[k] for k in row[: 1 + n]) for n, row in enumerate(drawn)])
        with threads_for(len(inputs)):
            counted = self._words.count(inputs, np.arange(len(inputs)))
            ours, theirs = fast(counted), self._score_rows(counted)
        return ours.shape == theirs.shape and bool(np.all(np.abs(ours - theirs) <= TOLERANCE))


def _blocks(inputs: Inputs) -> Iterator[Ints]:
    """The rows in the order of their parents, a few parents at a time."""
    order = np.argsort(inputs.parent, kind="stable")
    opens = np.flatnonzero(np.diff(inputs.parent[order], prepend=-1))
    return (rows for rows in np.split(order, opens[BLOCK_PARENTS::BLOCK_PARENTS]) if len(rows))


@contextmanager
def threads_for(n_rows: int) -> Iterator[None]:
    """One thread for little work; never more than a worker's share of the cores, which is in OMP_NUM_THREADS."""
    with _one_at_a_time:  # Numba's work queue cannot be entered twice
        before = int(numba.get_num_threads())
        share = os.environ.get("OMP_NUM_THREADS", "")
        allowed = min(before, int(share)) if share.isdecimal() else before
        numba.set_num_threads(max(1, min(allowed, n_rows // ROWS_WORTH_A_THREAD)))
        try:
            yield
        finally:
            numba.set_num_threads(before)
