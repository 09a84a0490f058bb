"""A bidirectional n-gram model: which words fit between two words to the left and two to the right.

It replaces the paper's masked language model (vocabulary-sensitivity, section 2.3) if there is none, and is fitted on
the training notes in seconds. With l2 l1 _ r1 r2 around the place,

    score(w) = P(w | l2 l1) * P(w | r1 r2) / P(w)

which is proportional to P(w | l2 l1, r1 r2) if left and right are independent given w. Each side is interpolated by
Witten and Bell's rule, with c(h, w) counts, n(h) = sum of c(h, w) over w and d(h) = number of different w after h:

    P(w | l2 l1) = (c(l2 l1, w) + d(l2 l1) * P(w | l1)) / (n(l2 l1) + d(l2 l1))
    P(w | l1)    = (c(l1, w) + d(l1) * P(w)) / (n(l1) + d(l1))
    P(w)         = c(w) / n

and P(w | r1 r2) likewise, with what comes before r1 and r1 r2. A history that was never seen backs off to the shorter
one.

Signs are ignored. Numbers are one class, words in fewer than `min_texts` notes another, and the edges of a note a
third; classes serve as context and are never proposed, so a name that occurs in few notes is not even stored.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.cases.edits import Ints
from palpate.errors import InputError
from palpate.perturb.words import Hits
from palpate.perturb.words.likeliest import likeliest_words
from palpate.perturb.words.tokens import Tokenised, is_plain_word, normalise_word, pieces, tokenise

Small = NDArray[np.int32]
CONTEXT = 4


class Followers(NamedTuple):
    """The words next to each history: `word[first[h] : first[h + 1]]`, sorted, and how often each occurs.

    `order` has the same indices, the likeliest word first; it is empty for histories of two words.
    """

    first: Ints
    total: Ints
    word: Small
    times: Small
    order: Small


class Side(NamedTuple):
    """One direction: histories of one word, by its code, and of two words, by their place in `pairs`."""

    one: Followers
    pairs: Ints
    two: Followers


class _Codes(dict[str, int]):
    """Maps words as written in texts to codes, with classes for numbers and for unknown words."""

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__()
        self._known = {word: code for code, word in enumerate(words)}

    def __missing__(self, token: str) -> int:
        word = normalise_word(token)
        code = self[token] = self._known.get(word, _class_of(word, len(self._known)))
        return code


def _class_of(word: str, n_words: int) -> int:
    """Codes that follow those of the words: numbers, then rare words and non-words, then the edges of notes."""
    return n_words if word.lstrip(".")[:1].isdigit() else n_words + 1


@dataclass(frozen=True, eq=False)
class NgramModel:
    """The fitted model; `words` are those it may propose, most frequent first, then alphabetically."""

    words: tuple[str, ...]
    p_word: NDArray[np.float64]
    left: Side
    right: Side

    @classmethod
    def fit(cls, texts: Sequence[str] | Tokenised, *, min_texts: int = 5, without: Collection[str] = ()) -> NgramModel:
        """Count the texts. Words in fewer than `min_texts` of them are never proposed (a rare word may be a name), nor
        those of `without`."""
        tokenised = texts if isinstance(texts, Tokenised) else tokenise(texts)
        count, n_texts = tokenised.counts()
        plain = np.asarray([is_plain_word(word) and word not in without for word in tokenised.words], dtype=bool)
        kept = np.flatnonzero(plain & (n_texts >= min_texts))
        if not len(kept):
            raise InputError(
                f"no word occurs in at least {min_texts} training notes, so there is nothing to propose",
                hint="give more notes, a masked language model, or other filters",
            )
        kept = kept[np.argsort(-count[kept], kind="stable")]
        words = tuple(tokenised.words[code] for code in kept)
        n_words = len(words)
        code_of = np.asarray([_class_of(word, n_words) for word in tokenised.words], dtype=np.int32)
        code_of[kept] = np.arange(n_words)
        line, at = _padded(code_of[tokenised.codes], tokenised.first, edge=n_words + 2)
        left, right = (_side(line, at, step, n_words + 3) for step in (-1, 1))
        return cls(words, count[kept] / len(tokenised.codes), left, right)

    def contexts(self, texts: Sequence[str], hits: Hits) -> Ints:
        """The codes around each hit: two words to the left, l2 and l1, and two to the right, r1 and r2."""
        codes = _Codes(self.words)
        edge = [len(self.words) + 2] * 2
        out = np.empty((len(hits.text), CONTEXT), dtype=np.int64)
        for text, rows in hits.by_text():
            cut = pieces(texts[text])
            ends = np.cumsum(np.fromiter(map(len, cut), dtype=np.int64, count=len(cut)))
            around = np.asarray([*edge, *map(codes.__getitem__, cut[1::2]), *edge], dtype=np.int64)
            # How many words end before the hit, and how many begin before its end; two edges come first.
            left = np.searchsorted(ends[1::2], hits.start[rows], side="right")
            right = np.searchsorted(ends[:-1:2], hits.end[rows], side="left") + 2
            out[rows] = np.column_stack([around[left], around[left + 1], around[right], around[right + 1]])
        return out

    def at(self, contexts: Ints, n: int, *, group: Ints | None = None, exclude: Sequence[Ints] = ()) -> Ints:
        """Up to n codes for each context, best first, ties to the more frequent word, then -1.

        The codes in `exclude[group[i]]` are excluded for context i. Equal rows are computed once.
        """
        groups = np.zeros(len(contexts), dtype=np.int64) if group is None else group
        rows, which = np.unique(np.column_stack([contexts, groups]), axis=0, return_inverse=True)
        barred = [np.unique(codes) for codes in exclude] or [np.zeros(0, dtype=np.int64)]
        first = np.concatenate([[0], np.cumsum([len(codes) for codes in barred])]).astype(np.int64)
        best = likeliest_words(
            rows,
            self._pair_rows(self.left, rows[:, 0], rows[:, 1]),
            self._pair_rows(self.right, rows[:, 3], rows[:, 2]),
            self.left,
            self.right,
            self.p_word,
            np.concatenate(barred).astype(np.int64),
            first,
            n,
        )
        return np.asarray(best)[which.ravel()]

    def likeliest(self, texts: Sequence[str], hits: Hits, n: int, *, exclude: Sequence[Ints] = ()) -> Ints:
        """Up to n codes for each hit, best first, then -1; `exclude[hits.word[i]]` are excluded."""
        group = hits.word if len(exclude) else None
        return self.at(self.contexts(texts, hits), n, group=group, exclude=exclude)

    def _pair_rows(self, side: Side, far: Ints, near: Ints) -> Ints:
        """Where the history of two words is, or -1."""
        key = near * (len(self.words) + 3) + far
        place = np.minimum(np.searchsorted(side.pairs, key), len(side.pairs) - 1)
        return np.where(side.pairs[place] == key, place, -1)


def _padded(codes: Small, first: Ints, *, edge: int) -> tuple[Ints, Ints]:
    """All texts concatenated, with two edges between them, and where their words are."""
    n_texts = len(first) - 1
    at = np.arange(len(codes)) + 2 * (np.repeat(np.arange(n_texts), np.diff(first)) + 1)
    line = np.full(len(codes) + 2 * (n_texts + 1), edge, dtype=np.int64)
    line[at] = codes
    return line, at


def _side(line: Ints, at: Ints, step: int, n_codes: int) -> Side:
    """Counts of words with what comes before them (`step` -1) or after them (+1)."""
    key = line[at + step]
    key *= n_codes
    one_history, one_word, one_count = _tally(key + line[at], n_codes)
    key += line[at + 2 * step]
    pair_history, pair_word, pair_count = _tally(key * n_codes + line[at], n_codes)
    starts = np.flatnonzero(np.concatenate([[True], pair_history[1:] != pair_history[:-1]]))
    one = _followers(np.searchsorted(one_history, np.arange(n_codes + 1)), one_word, one_count)
    two = _followers(np.append(starts, len(pair_history)), pair_word, pair_count)
    n_total = np.bincount(line[at], minlength=n_codes)
    return Side(one._replace(order=_by_likelihood(one, one_history, n_total)), pair_history[starts], two)


def _by_likelihood(one: Followers, history: Ints, n_total: Ints) -> Small:
    """Indices by P(word | history), in whole numbers so that ties are exact: c(h, w) n + d(h) c(w)."""
    different = np.diff(one.first)[history]
    likelihood = one.times * n_total.sum() + different * n_total[one.word]
    return np.lexsort((-likelihood, history)).astype(np.int32)


def _tally(keys: Ints, n_codes: int) -> tuple[Ints, Small, Small]:
    """Distinct (history, word) pairs in order, and how often each occurs."""
    keys.sort()
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    count = np.diff(np.append(starts, len(keys))).astype(np.int32)
    history, word = np.divmod(keys[starts], n_codes)
    return history, word.astype(np.int32), count


def _followers(first: Ints, word: Small, count: Small) -> Followers:
    running = np.concatenate([[0], np.cumsum(count, dtype=np.int64)])
    total = running[first[1:]] - running[first[:-1]]
    return Followers(first.astype(np.int64), total, word, count, np.zeros(0, dtype=np.int32))
