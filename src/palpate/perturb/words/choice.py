"""Choosing target words from the training notes, if the user has none (vocabulary-sensitivity, section 2.3.1).

Stop words are English words with little meaning beyond grammar; they are not chosen unless the caller says so. The list
was written for this project. It leaves out negations ("no", "not", "without", "denies") and words of time ("before",
"after", "since") on purpose: in a note they carry meaning, and a model's reaction to them is of interest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from palpate.cases.edits import Ints
from palpate.errors import InputError
from palpate.perturb.words.tokens import Tokenised, is_plain_word, normalise_word, presence, tokenise

Floats = NDArray[np.float64]
Choice = Literal["frequent", "predictive", "vocabulary"]

_LISTED = """
a an the
i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers
herself it its itself they them their theirs themselves one ones
this that these those such same other others another each every either both all any some
who whom whose which what when where why how whatever whichever whoever
and or but nor so yet if then than though although because while whereas whether as
of in on at by for from to into onto upon with within about above below over under between among through
throughout during toward towards via per against across along around out up down off
am is are was were be been being have has had having do does did done doing
can could may might must shall should will would ought
isn't aren't wasn't weren't hasn't haven't hadn't doesn't don't didn't can't couldn't won't wouldn't shouldn't
here there also too very quite rather just only even still again ever more most much many few less least own
however therefore thus hence otherwise else etc
"""

STOP_WORDS = frozenset(_LISTED.split())


class WordCount(NamedTuple):
    """How often a word occurs, and in how many texts."""

    n: int
    n_texts: int


class ChosenWords(NamedTuple):
    """Target words, best first, with the numbers behind the choice; `statistic` is NaN unless `predictive`."""

    words: tuple[str, ...]
    n: Ints
    n_texts: Ints
    statistic: Floats


def count_words(texts: Sequence[str]) -> dict[str, WordCount]:
    """Every word of the texts except numbers, in alphabetical order."""
    tokenised = tokenise(texts)
    columns = zip(tokenised.words, *(column.tolist() for column in tokenised.counts()), strict=True)
    return {word: WordCount(n, n_texts) for word, n, n_texts in columns if is_plain_word(word)}


def choose_words(
    texts: Sequence[str],
    y: Any = None,
    *,
    how: Choice,
    n: int | None = 49,
    min_texts: int = 5,
    stop_words: Iterable[str] = STOP_WORDS,
    min_letters: int = 2,
) -> ChosenWords:
    """Target words from the training notes.

    `frequent`: those with the most occurrences. `predictive`: those whose presence in a note has the largest
    Pearson chi-squared (2 x 2, uncorrected) with a label; `y[text]` or `y[text, label]`, dense or sparse, and with
    several labels the largest value counts. `vocabulary`: all words, most frequent first, whatever `n` is.

    Stop words, numbers, words of fewer than `min_letters` and words in fewer than `min_texts` notes (a rare word
    may be a name) are never chosen. Ties are broken alphabetically.
    """
    tokenised = tokenise(texts)
    count, n_texts = tokenised.counts()
    never = {normalise_word(word) for word in stop_words}
    allowed = [is_plain_word(w) and len(w) >= min_letters and w not in never for w in tokenised.words]
    kept = np.flatnonzero(np.asarray(allowed, dtype=bool) & (n_texts >= min_texts))
    statistic = np.full(len(kept), np.nan)
    score = count[kept].astype(np.float64)
    if how == "predictive":
        score = statistic = _chi_squared(tokenised, kept, y)
        defined = ~np.isnan(score)
        kept, score, statistic = kept[defined], score[defined], statistic[defined]
    if not len(kept):
        raise InputError(
            "no word of the training notes can be chosen", hint=f"lower `min_texts` ({min_texts}) or give the words"
        )
    order = np.argsort(-score, kind="stable")[: None if how == "vocabulary" else n]
    kept = kept[order]
    names = tuple(tokenised.words[code] for code in kept)
    return ChosenWords(names, count[kept], n_texts[kept], statistic[order])


def _chi_squared(tokenised: Tokenised, kept: Ints, y: Any) -> Floats:
    """The largest statistic over the labels; NaN for a word that occurs in all notes."""
    n = len(tokenised.first) - 1
    labels = _label_matrix(y, n)
    positive: Floats = np.asarray(labels.sum(axis=0), dtype=np.float64).ravel()
    varies = (positive > 0) & (positive < n)
    if not varies.any():
        raise InputError("no label varies in the training notes, so no word predicts one")
    present = presence(tokenised)[:, kept]
    both = (present.T @ labels[:, np.flatnonzero(varies)]).toarray()
    with_word = np.asarray(present.sum(axis=0)).ravel()[:, None]
    positive = positive[varies][None, :]
    below = with_word * (n - with_word) * positive * (n - positive)
    with np.errstate(invalid="ignore", divide="ignore"):
        # (ad - bc) of the 2 x 2 table is n times the excess of the joint count.
        value = np.where(below > 0, n * (n * both - with_word * positive) ** 2 / below, np.nan)
    return np.asarray(value.max(axis=1), dtype=np.float64)


def _label_matrix(y: Any, n: int) -> Any:
    """The labels as a sparse matrix, [text, label]."""
    given: Any = y if sparse.issparse(y) else np.asarray([] if y is None else y, dtype=np.float64)
    if given.shape[0] != n:
        raise InputError(f"there are {n} notes, but labels for {given.shape[0]}")
    return sparse.csr_array(given if given.ndim == 2 else given.reshape(n, -1), dtype=np.float64)
