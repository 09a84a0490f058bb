"""Identical and near-identical texts between two collections, in time proportional to their length.

Two texts are identical if they have the same words in the same order; case, spacing and punctuation do not count.

Two texts are near-identical if much of the *wording* of one stands in the other (`Wording.alike`): its runs of `RUN`
words, with all numbers alike, because de-identification moves dates. A changed word breaks no more than three runs, the
order of paragraphs does not matter, and a text that was cut or continued is contained in the other. A run that k other
texts have too counts 1/√(1 + k), so that a hospital's templates make no copies. Resemblance and containment of runs:
Broder (1997); rare words count more: Spärck Jones (1972).

Candidates come from an index of the runs that at least two texts have: each text asks with its rarest ones, and those
that answer most often are compared exactly. How many texts have a run is counted in a hash table of bounded size; two
runs in one place count as one, which makes both seem a little less rare. No step draws random numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.compiled import njit

RUN = 3
"""Words in a run."""
FEWEST_SHARED = 5.0
"""Runs, as they count, that two near-identical texts have in common at least; below, it may be chance."""
LEAST_OF_TEXT = 0.5
"""Of the similarity asked for: how much of a text an older one must make up that it contains."""
_ASKED = 128
"""Runs by which a text asks for candidates, the rarest first."""
_MOST_ANSWERS = 200
"""Texts that one run leads to; the same first ones for every run."""
_COMPARED = 4
"""Candidates that are compared exactly, those that share most of the runs first."""
_FEWEST_VOTES = 3
_LARGEST_TABLE = 1 << 26
_PLANES = 1 << 16
_DIGIT = np.uint32(ord("0"))
_FNV, _FNV_PRIME = np.uint64(14_695_981_039_346_656_037), np.uint64(1_099_511_628_211)
_MIX = np.uint64(0xFF51AFD7ED558CCD)
_S32, _S33 = np.uint64(32), np.uint64(33)
_ROW_BITS = np.uint64(24)
_ROW = np.uint64((1 << 24) - 1)

Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]


class Sketches(NamedTuple):
    """Texts by what decides whether two of them are identical."""

    exact: Hashes
    """A hash of the words in order: equal for identical texts."""
    n_words: Ints

    def take(self, rows: Ints) -> Sketches:
        """The sketches of some texts."""
        return Sketches(self.exact[rows], self.n_words[rows])


def sketch(texts: Sequence[str]) -> Sketches:
    """The sketches of some texts, in one pass over each."""
    table = _characters()
    exact, n_words = np.zeros(len(texts), np.uint64), np.zeros(len(texts), np.int64)
    for row, text in enumerate(texts):
        words, exact[row] = _words(_codes(text), table)
        n_words[row] = len(words)
    return Sketches(exact, n_words)


def first_identical(texts: Sketches, among: Sketches) -> Ints:
    """For each text the first identical one `among` others, or -1."""
    values, first = np.unique(among.exact, return_index=True)
    if not len(values):
        return np.full(len(texts.exact), -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(values, texts.exact), len(values) - 1)
    return np.where(values[place] == texts.exact, first[place], -1).astype(np.int64)


class Wording(NamedTuple):
    """How many texts of a collection have each run of words."""

    counts: NDArray[np.uint16]
    """By the last bits of the run's hash."""

    @classmethod
    def of(cls, texts: Iterable[str], *, n_words: int) -> Wording:
        """Of distinct texts, which have `n_words` words in all; identical ones would make their wording seem common."""
        size = min(_LARGEST_TABLE, 1 << max(16, (2 * n_words).bit_length()))
        counts = np.zeros(size, np.uint16)
        for text in texts:
            _count(runs_of(text), counts)
        return cls(counts)

    def shared(self, text: Hashes, other: Hashes) -> tuple[float, float, float]:
        """How much two texts of the collection share, and how much either has in all, by their runs."""
        both, first, second = _shared(text, other, self.counts)
        return float(both), float(first), float(second)

    def alike(self, text: Hashes, other: Hashes, similarity: float) -> bool:
        """Whether a text is near-identical to an older one, by their runs.

        Much of it stands there; or much of the older one stands in it, and makes up a fair part of it.
        """
        both, first, second = self.shared(text, other)
        if both < FEWEST_SHARED:
            return False
        return both >= similarity * first or (
            both >= similarity * second and both >= LEAST_OF_TEXT * similarity * first
        )


class KnownTexts:
    """Texts among which others are looked for."""

    def __init__(self, texts: Sequence[str], wording: Wording) -> None:
        self._texts, self._wording = texts, wording
        posted = np.zeros(len(wording.counts), np.uint8)
        found = [
            _postings(runs_of(text), np.uint64(row), wording.counts, posted) for row, text in enumerate(self._texts)
        ]
        self._index = np.concatenate([*found, np.zeros(0, np.uint64)])
        self._index.sort()

    def nearest(self, texts: Sequence[str], *, similarity: float) -> Ints:
        """For each text a near-identical one, or -1."""
        found = np.full(len(texts), -1, dtype=np.int64)
        for row, text in enumerate(texts):
            own = runs_of(text)
            for place in _candidates(own, self._wording.counts, self._index).tolist():
                if self._wording.alike(own, runs_of(self._texts[place]), similarity):
                    found[row] = place
                    break
        return found


def runs_of(text: str) -> Hashes:
    """The hashes of the distinct runs of words of a text, sorted."""
    runs: Hashes = _runs(_words(_codes(text), _characters())[0])
    return runs


def _codes(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


@cache
def _characters() -> NDArray[np.uint32]:
    """Each character as it counts: letters in lower case, all else but digits as 0, which separates words."""
    table = np.zeros(_PLANES, dtype=np.uint32)
    for code in range(_PLANES):
        character = chr(code)
        if character.isalnum():
            table[code] = ord(character.lower()[0])
    return table


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _words(codes: Any, table: Any) -> Any:
    """The hash of every word with its numbers alike, and of the words in order as they are."""
    words = np.empty(len(codes) // 2 + 1, dtype=np.uint64)
    exact, n_words = _FNV, 0
    word, masked, inside, was_digit = _FNV, _FNV, False, False
    for k in range(len(codes) + 1):
        code = np.uint32(0)
        if k < len(codes):
            code = table[codes[k]] if codes[k] < _PLANES else codes[k]
        if code:
            is_digit = _DIGIT <= code < _DIGIT + np.uint32(10)
            word = (word ^ np.uint64(code)) * _FNV_PRIME
            if not is_digit:
                masked = (masked ^ np.uint64(code)) * _FNV_PRIME
            elif not was_digit:  # a number is a number, however long
                masked = (masked ^ np.uint64(_DIGIT)) * _FNV_PRIME
            inside, was_digit = True, bool(is_digit)
        elif inside:
            exact = (exact ^ word) * _FNV_PRIME
            exact ^= exact >> _S32
            words[n_words] = masked ^ (masked >> _S33)
            n_words += 1
            word, masked, inside, was_digit = _FNV, _FNV, False, False
    return words[:n_words], exact


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _runs(words: Any) -> Any:
    """The hashes of the runs of words, sorted, each once; a shorter text is one run."""
    length = min(RUN, len(words))
    runs = np.empty(len(words) - length + 1 if len(words) else 0, dtype=np.uint64)
    for start in range(len(runs)):
        h = _FNV
        for k in range(length):
            h = (h ^ words[start + k]) * _MIX
            h ^= h >> _S33
        h *= _MIX
        runs[start] = h ^ (h >> _S32)
    runs.sort()
    n = 0
    for k in range(len(runs)):
        if k == 0 or runs[k] != runs[k - 1]:
            runs[n] = runs[k]
            n += 1
    return runs[:n].copy()


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _count(runs: Any, counts: Any) -> None:
    last = np.uint64(len(counts) - 1)
    for run in runs:
        place = run & last
        if counts[place] < 65_535:
            counts[place] += 1


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _shared(a: Any, b: Any, counts: Any) -> Any:
    """What two texts share and what each has, where a run counts less the more other texts have it."""
    last = np.uint64(len(counts) - 1)
    both, only_a, only_b = 0.0, 0.0, 0.0
    i, j = 0, 0
    while i < len(a) or j < len(b):
        in_a = i < len(a) and (j >= len(b) or a[i] <= b[j])
        in_b = j < len(b) and (i >= len(a) or b[j] <= a[i])
        run = a[i] if in_a else b[j]
        others = 0.0 + counts[run & last] - (1.0 if in_a else 0.0) - (1.0 if in_b else 0.0)
        weight = 1.0 / np.sqrt(1.0 + others) if others > 0 else 1.0
        if in_a and in_b:
            both += weight
        elif in_a:
            only_a += weight
        else:
            only_b += weight
        i += 1 if in_a else 0
        j += 1 if in_b else 0
    return both, both + only_a, both + only_b


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _postings(runs: Any, row: Any, counts: Any, posted: Any) -> Any:
    """A text's entries in the index: the first bits of each run that another text has too, and the text's row."""
    last, n = np.uint64(len(counts) - 1), 0
    out = np.empty(len(runs), dtype=np.uint64)
    for run in runs:
        place = run & last
        if counts[place] > 1 and posted[place] < _MOST_ANSWERS:
            posted[place] += 1
            out[n] = (run >> _ROW_BITS) << _ROW_BITS | row
            n += 1
    return out[:n].copy()


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _candidates(runs: Any, counts: Any, index: Any) -> Any:
    """The rows that share most of a text's rarest runs, the likeliest first."""
    last = np.uint64(len(counts) - 1)
    how_rare = np.empty(len(runs), dtype=np.int64)
    for k in range(len(runs)):
        n = counts[runs[k] & last]
        how_rare[k] = n if n > 1 else 1 << 20  # nobody else has it
    order = np.argsort(how_rare)[:_ASKED]
    answers = np.empty(len(order) * _MOST_ANSWERS, dtype=np.int64)
    n_answers = 0
    for k in order:
        if how_rare[k] == 1 << 20:
            break
        key = (runs[k] >> _ROW_BITS) << _ROW_BITS
        at = np.searchsorted(index, key)
        while at < len(index) and (index[at] >> _ROW_BITS) << _ROW_BITS == key and n_answers < len(answers):
            answers[n_answers] = np.int64(index[at] & _ROW)
            n_answers += 1
            at += 1
    found = np.sort(answers[:n_answers])
    best, votes = np.zeros(_COMPARED, dtype=np.int64), np.zeros(_COMPARED, dtype=np.int64)
    start = 0
    for k in range(1, len(found) + 1):
        if k < len(found) and found[k] == found[start]:
            continue
        n = k - start
        row = found[start]
        start = k
        if n < _FEWEST_VOTES or n <= votes[-1]:
            continue
        at = _COMPARED - 1
        while at > 0 and votes[at - 1] < n:
            votes[at], best[at] = votes[at - 1], best[at - 1]
            at -= 1
        votes[at], best[at] = n, row
    return best[votes > 0]
