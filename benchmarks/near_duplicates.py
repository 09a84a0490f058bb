"""Near-identical notes: the data checks against comparing every pair; prints a ratio.

    python benchmarks/near_duplicates.py [--notes 50000] [--characters 10000] [--naive 60]

Half of the notes are audited. All have a template in common, and every twentieth audited note is a copy with one word
in twelve changed. The other way keeps the set of each note's runs of three words and compares every pair of sets; it
is timed on a sample, and its time for all pairs follows from their number.
"""

from __future__ import annotations

import argparse
import time
from itertools import chain, product

import numpy as np

from palpate.cases.duplicates import RUN, KnownTexts, Wording, sketch

AT_LEAST = 2000.0
SIMILARITY = 0.5
TEMPLATE = 0.3
"""Of every note."""


def make_notes(n: int, n_characters: int, rng: np.random.Generator) -> tuple[list[str], list[str], int]:
    """Audited notes, training notes, and how many of the audited ones are copies."""
    letters = np.array(list("aaeeiioubcdfghklmnprstvy"))
    words = np.unique(["".join(rng.choice(letters, size=size)) for size in rng.integers(3, 11, size=12_000)])
    frequency = 1 / (np.arange(len(words)) + 10)
    frequency /= frequency.sum()
    n_words = n_characters // 7
    template = " ".join(rng.choice(words, size=int(TEMPLATE * n_words), p=frequency))
    own = n_words - int(TEMPLATE * n_words)
    drawn = rng.choice(len(words), size=(n, own), p=frequency).astype(np.int32)
    audited, training = drawn[: n // 2].copy(), drawn[n // 2 :]
    copies = np.arange(0, len(audited), 20)
    audited[copies] = training[copies]
    for row in copies:
        audited[row, rng.choice(own, size=max(1, own // 12), replace=False)] = 0
    first, second = ([f"{template} {' '.join(words[row])}" for row in part] for part in (audited, training))
    return first, second, len(copies)


def runs_of(text: str) -> set[tuple[str, ...]]:
    words = text.split()
    return {tuple(words[k : k + RUN]) for k in range(len(words) - RUN + 1)}


def find(audited: list[str], training: list[str]) -> int:
    """How many audited notes are found in training, the data checks' way."""
    n_words = int(sketch(audited).n_words.sum() + sketch(training).n_words.sum())
    known = KnownTexts(training, Wording.of(chain(audited, training), n_words=n_words))
    return int((known.nearest(audited, similarity=SIMILARITY) >= 0).sum())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for name, default in (("notes", 50_000), ("characters", 10_000), ("naive", 60)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    audited, training, n_copies = make_notes(asked.notes, asked.characters, np.random.default_rng(0))
    find(audited[:2], training[:2])  # compiles

    began = time.perf_counter()
    found = find(audited, training)
    ours = time.perf_counter() - began
    assert found == n_copies, (found, n_copies)

    n = min(asked.naive, len(audited))
    began = time.perf_counter()
    sets = [[runs_of(text) for text in part[:n]] for part in (audited, training)]
    prepared = (time.perf_counter() - began) / (2 * n) * asked.notes
    began = time.perf_counter()
    alike = sum(len(a & b) >= 0.7 * min(len(a), len(b)) for a, b in product(*sets))
    naive = prepared + (time.perf_counter() - began) / n**2 * len(audited) * len(training)
    assert alike == len(range(0, n, 20))
    size = sum(map(len, audited)) + sum(map(len, training))
    print(f"{asked.notes:,} notes, {size / 1e6:,.0f} MB: {ours:.1f} s; all {n_copies:,} copies found, and nothing else")
    print(f"every pair: {naive:,.0f} s ({n**2:,} pairs timed); ratio {naive / ours:,.0f} (at least {AT_LEAST:,.0f})")
    return 0 if naive / ours >= AT_LEAST else 1


if __name__ == "__main__":
    raise SystemExit(main())
