"""Finding words in one pass over each note against one regular-expression search per word and note.

    python benchmarks/find_words.py [--notes 100] [--words 49] [--repeats 3]

Notes have 1,500 words. It prints the best time of each way, their ratio, and whether both found the same; with
`--context`, also the time to fit the n-gram model and to ask it for five words at each first hit.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable

import numpy as np

from palpate.perturb.words import find_words
from palpate.perturb.words.ngrams import NgramModel
from palpate.perturb.words.substitutes import context_substitutes

WORDS_PER_NOTE, VOCABULARY = 1_500, 20_000
Found = list[tuple[int, int, int, int]]


def make_notes(n: int, rng: np.random.Generator) -> list[str]:
    """Notes whose words have the frequencies of a language, with some punctuation."""
    share = 1 / np.arange(1, VOCABULARY + 1)
    drawn = rng.choice(VOCABULARY, size=(n, WORDS_PER_NOTE), p=share / share.sum())
    ends = np.array([" ", " ", " ", " ", ", ", ".\n"])[rng.integers(0, 6, size=drawn.shape)]
    return ["".join(f"word{w}{e}" for w, e in zip(*row, strict=True)) for row in zip(drawn, ends, strict=True)]


def one_pass(notes: list[str], words: list[str]) -> Found:
    """The way of palpate."""
    hits = find_words(notes, words)
    return list(zip(*(column.tolist() for column in hits), strict=True))


def one_search_each(notes: list[str], words: list[str]) -> Found:
    """The obvious way."""
    patterns = [re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE) for word in words]
    return [
        (row, k, *match.span())
        for row, note in enumerate(notes)
        for k, pattern in enumerate(patterns)
        for match in pattern.finditer(note)
    ]


def best_of(repeats: int, find: Callable[[], Found]) -> tuple[Found, float]:
    """What is found, and the shortest time that it took."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        found = find()
        seconds.append(time.perf_counter() - start)
    return found, min(seconds)


def time_context(notes: list[str], words: list[str]) -> None:
    """The n-gram model on the same notes."""
    NgramModel.fit(notes[:20], min_texts=1).at(np.zeros((1, 4), dtype=np.int64), 5)  # compiles
    start = time.perf_counter()
    model = NgramModel.fit(notes)
    fitted = time.perf_counter()
    hits = find_words(notes, words, occurrences="first")
    found = time.perf_counter()
    context_substitutes(words, hits, notes, model, 5)
    print(f"n-gram model fitted {fitted - start:7.2f} s")
    print(f"five words each at  {len(hits.text):,} places {time.perf_counter() - found:7.2f} s")


def main() -> None:
    """Run both and compare."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--notes", type=int, default=100)
    parser.add_argument("--words", type=int, default=49)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--context", action="store_true")
    given = parser.parse_args()
    notes = make_notes(given.notes, np.random.default_rng(0))
    words = [f"word{k}" for k in range(30, 30 + given.words)]
    fast, fast_time = best_of(given.repeats, lambda: one_pass(notes, words))
    slow, slow_time = best_of(1 if given.words > 100 else given.repeats, lambda: one_search_each(notes, words))
    print(f"{given.words:,} words in {given.notes:,} notes of {WORDS_PER_NOTE:,} words: {len(fast):,} hits")
    print(f"one search per word and note {slow_time:8.2f} s")
    print(f"one pass                     {fast_time:8.2f} s")
    print(f"ratio                        {slow_time / fast_time:8.1f}")
    print(f"same hits                    {fast == slow}")
    if given.context:
        time_context(notes, words)


if __name__ == "__main__":
    main()
