"""What a target word is replaced with, by filter family (vocabulary-sensitivity, sections 2.3 and 2.3.5).

    uniform   words drawn uniformly from a model's vocabulary
    unigram   the most frequent words of the notes that contain the target
    context   the likeliest words at this position, by a `ContextModel`
    own       the user's own replacements

A family never proposes the target itself, a form of it ("smoked" for "smokes"), a word that contains it ("non-smoker"
for "smoker"), a special token or a piece of a word. The user's own replacements are taken as they are; only the target
itself is refused. If fewer words than requested are left, fewer are proposed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse

from palpate.cases.edits import Ints
from palpate.errors import InputError
from palpate.perturb.words import Hits
from palpate.perturb.words.inflections import Forms, gives_away
from palpate.perturb.words.tokens import Tokenised, is_plain_word, normalise_word, occurrence_counts, pieces, tokenise

_SPECIAL = re.compile(r"\[[^\]]*\]|<[^>]*>|\{[^}]*\}")
_WORDPIECE, _BYTE_LEVEL, _SENTENCEPIECE = "##", "\u0120", "\u2581"
_CELLS_AT_ONCE = 20_000_000
_DRAWN_AT_ONCE = 32


class Substitutes(NamedTuple):
    """Replacements in columns: row i may be replaced with `pool[k]` for each k in `choice[i]` that is not -1.

    A row is a target word or, if the family depends on the position, a hit.
    """

    choice: Ints
    pool: tuple[str, ...]

    def of(self, row: int) -> list[str]:
        """The replacements of one row, in order."""
        return [self.pool[k] for k in self.choice[row] if k >= 0]


class ContextModel(Protocol):
    """Says which words are likeliest at a position, like `NgramModel` and the masked language models."""

    @property
    def words(self) -> tuple[str, ...]:
        """The words that it may propose."""

    def likeliest(self, texts: Sequence[str], hits: Hits, n: int, *, exclude: Sequence[Ints] = ()) -> Ints:
        """Up to n indices into `words` for each hit, best first, then -1; `exclude[hits.word[i]]` are excluded."""


# --- vocabularies -------------------------------------------------------------------------------------------


def whole_words(vocabulary: Iterable[str], *, min_letters: int = 2, phrases: bool = False) -> tuple[str, ...]:
    """The words of a model's vocabulary that can be used in a note on their own, in its order, each once.

    Word pieces ("##ing", or every token without the mark if the vocabulary marks the beginnings of words), special
    tokens ("[CLS]", "<s>", "[unused1]"), numbers, control characters and, unless `phrases`, n-grams are left out.
    """
    listed = list(vocabulary)
    mark = next((mark for mark in (_BYTE_LEVEL, _SENTENCEPIECE) if any(t.startswith(mark) for t in listed)), "")
    kept: dict[str, str] = {}
    for token in listed:
        word = whole_word(token, mark=mark, min_letters=min_letters, phrases=phrases)
        if word is not None:
            kept.setdefault(normalise_word(word), word)
    return tuple(kept.values())


def whole_word(token: str, *, mark: str = "", min_letters: int = 2, phrases: bool = False) -> str | None:
    """The word that a token of a vocabulary stands for, or None; `mark` is what the first piece of a word begins with.

    A byte-level vocabulary encodes letters beyond ASCII as other letters; such tokens are left out.
    """
    if not token.startswith(mark) or token.startswith(_WORDPIECE) or _SPECIAL.fullmatch(token):
        return None
    word = token.removeprefix(mark)
    if mark == _BYTE_LEVEL and not word.isascii():
        return None
    if any(unicodedata.category(character).startswith("C") for character in word):
        return None
    parts = pieces(word)
    gaps, found = parts[::2], parts[1::2]
    if not found or any(gaps[:1] + gaps[-1:]) or any(gap not in (" ", "-") for gap in gaps[1:-1]):
        return None
    if (" " in gaps and not phrases) or not all(is_plain_word(normalise_word(part)) for part in found):
        return None
    return word if sum(map(str.isalpha, word)) >= min_letters else None


# --- families -----------------------------------------------------------------------------------------------


def uniform_substitutes(
    words: Sequence[str], vocabulary: Sequence[str], n: int, rng: np.random.Generator
) -> Substitutes:
    """For each target, n words of the vocabulary, drawn uniformly and without replacement.

    The vocabulary should come from `whole_words`. Each target draws from its own stream of random numbers, so its
    words do not depend on the targets after it.
    """
    choice = np.full((len(words), n), -1, dtype=np.int64)
    for row, (word, own) in enumerate(zip(words, rng.spawn(len(words)), strict=True)):
        drawn = _draw(word, vocabulary, n, own)
        choice[row, : len(drawn)] = drawn
    return Substitutes(choice, tuple(vocabulary))


def _draw(word: str, vocabulary: Sequence[str], n: int, rng: np.random.Generator) -> list[int]:
    """The first n words of a random order that do not give the target away."""
    drawn: list[int] = []
    # A few extra draws are nearly always enough; only if not, the whole vocabulary is shuffled.
    for size in (min(n + _DRAWN_AT_ONCE, len(vocabulary)), len(vocabulary)):
        order = rng.choice(len(vocabulary), size=size, replace=False).tolist() if size else []
        drawn = [k for k in order if not gives_away(vocabulary[k], word)][:n]
        if len(drawn) == n:
            break
    return drawn


def unigram_substitutes(
    words: Sequence[str],
    hits: Hits,
    texts: Sequence[str] | Tokenised,
    n: int,
    *,
    allowed: Callable[[str], bool] = lambda _: True,
) -> Substitutes:
    """For each target, the n most frequent words of the notes that contain it; ties are broken alphabetically.

    Stop words are included, as in the paper; numbers and signs are not. Only words that are `allowed` are proposed: a
    rare word may be a name.
    """
    tokenised = texts if isinstance(texts, Tokenised) else tokenise(texts)
    counts = occurrence_counts(tokenised)
    plain = np.asarray([is_plain_word(w) and len(w) > 1 and allowed(w) for w in tokenised.words], dtype=bool)
    kept = np.flatnonzero(plain)
    pool = tuple(tokenised.words[code] for code in kept)
    counts = counts[:, kept]
    forms = Forms(pool)
    choice = np.full((len(words), n), -1, dtype=np.int64)
    at_once = max(1, _CELLS_AT_ONCE // max(len(pool), 1))
    for first in range(0, len(words), at_once):
        rows = range(first, min(first + at_once, len(words)))
        chosen = (hits.word >= rows.start) & (hits.word < rows.stop)
        total = _total_counts(hits.take(chosen), counts, rows)
        for row in rows:
            excluded = forms.of(words[row])
            best = _largest(total[row - first], n, excluded)
            choice[row, : len(best)] = best
    return Substitutes(choice, pool)


def _total_counts(hits: Hits, counts: Any, rows: range) -> Ints:
    """[target, word]: how often the words occur in the texts of each target."""
    pairs = np.unique(np.column_stack([hits.word - rows.start, hits.text]), axis=0)
    ones = np.ones(len(pairs), dtype=np.int64)
    has = sparse.csr_array((ones, (pairs[:, 0], pairs[:, 1])), shape=(len(rows), counts.shape[0]))
    total: Any = has @ counts
    return np.asarray(total.toarray(), dtype=np.int64)


def _largest(count: Ints, n: int, excluded: Ints) -> Ints:
    """The indices of the n largest counts above 0; ties go to the lower index."""
    count = count.copy()
    count[excluded] = 0
    size = len(count)
    key = count * size + (size - 1 - np.arange(size))
    k = min(n, size)
    top = np.argpartition(-key, k - 1)[:k] if k else np.zeros(0, dtype=np.int64)
    top = top[np.argsort(-key[top])]
    return np.asarray(top[count[top] > 0], dtype=np.int64)


def context_substitutes(
    words: Sequence[str], hits: Hits, texts: Sequence[str], model: ContextModel, n: int
) -> Substitutes:
    """For each hit, the n words that the model finds likeliest at that place."""
    forms = Forms(model.words)
    choice = model.likeliest(texts, hits, n, exclude=[forms.of(word) for word in words])
    return Substitutes(choice, model.words)


def own_substitutes(words: Sequence[str], replacements: Mapping[str, Sequence[str]]) -> Substitutes:
    """The user's replacements for each target; words are compared without case."""
    given: dict[str, list[str]] = {}
    for word, offered in replacements.items():
        for text in offered:
            if normalise_word(text) == normalise_word(word):
                raise InputError(f"the replacement of '{word}' is the word itself", hint="give another word")
            given.setdefault(normalise_word(word), []).append(text)
    rows = [list(dict.fromkeys(given.get(normalise_word(word), ()))) for word in words]
    pool = {text: k for k, text in enumerate(dict.fromkeys(text for row in rows for text in row))}
    choice = np.full((len(words), max(map(len, rows), default=0)), -1, dtype=np.int64)
    for row, offered in enumerate(rows):
        choice[row, : len(offered)] = [pool[text] for text in offered]
    return Substitutes(choice, tuple(pool))


# --- in the text --------------------------------------------------------------------------------------------


def match_case(replacement: str, original: str) -> str:
    """The replacement in the case of the word it replaces: ALL CAPS, Capitalised, or unchanged."""
    return _CASES[_case_of(original)](replacement)


def _case_of(text: str) -> int:
    letters = [character for character in text if character.isalpha()]
    if len(letters) > 1 and text.isupper():
        return 2
    return int(bool(letters) and letters[0].isupper() and not any(map(str.isupper, letters[1:])))


_CASES = (str, lambda text: text[:1].title() + text[1:], str.upper)
