"""Scoring word swaps from count differences against splicing and re-vectorising every text.

    python benchmarks/count_differences.py [--notes 20] [--classifier linear|xgboost] [--ngrams 1] [--repeats 3]

The setting is that of the vocabulary audit: notes of 1,500 words, 49 target words, 15 swaps each. It prints
the best time of each, their ratio and the largest difference between the answers.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from palpate.edits import Inputs, Ints
from palpate.models.bagofwords import estimator_model
from palpate.models.options import Options
from palpate.models.protocol import Probabilities

WORDS_PER_NOTE, TARGETS, SWAPS, VOCABULARY = 1_500, 49, 15, 20_000


def make_notes(n: int, rng: np.random.Generator) -> list[str]:
    """Notes whose words have the frequencies of a language, with some punctuation."""
    share = 1 / np.arange(1, VOCABULARY + 1)
    drawn = rng.choice(VOCABULARY, size=(n, WORDS_PER_NOTE), p=share / share.sum())
    ends = np.array([" ", " ", " ", " ", ", ", ".\n"])[rng.integers(0, 6, size=drawn.shape)]
    return ["".join(f"word{w}{e}" for w, e in zip(*row, strict=True)) for row in zip(drawn, ends, strict=True)]


def make_inputs(notes: list[str]) -> Inputs:
    """The first hit of every target word in every note, swapped for each substitute."""
    targets = [f"word{k}" for k in range(30, 30 + TARGETS)]
    substitutes = [f"word{k}" for k in range(1_000, 1_000 + TARGETS * SWAPS)]
    rows: list[tuple[int, int, int, int]] = []
    for parent, note in enumerate(notes):
        padded = f" {note}".replace("\n", " ").replace(",", " ").replace(".", " ")
        for k, target in enumerate(targets):
            start = padded.find(f" {target} ")
            if start >= 0:
                rows += [(parent, start, start + len(target), k * SWAPS + swap) for swap in range(SWAPS)]
    table: Ints = np.array(rows, dtype=np.int64)
    return Inputs(
        parent=table[:, 0],
        first_edit=np.arange(len(table) + 1),
        start=table[:, 1],
        end=table[:, 2],
        replacement=table[:, 3],
        replacements=substitutes,
        parents=notes,
        case_ids=[str(p) for p in table[:, 0]],
        cohorts=[""] * len(table),
    )


def make_classifier(name: str) -> Any:
    """A linear model, or 200 trees."""
    if name == "linear":
        return LogisticRegression()
    import xgboost

    return xgboost.XGBClassifier(n_estimators=200, max_depth=4)


def best_of(
    repeats: int, predict: Callable[[Inputs], Probabilities], inputs: Inputs, rows_per_call: int
) -> tuple[Probabilities, float]:
    """The answers, and the shortest time that they took."""
    parts = [range(k, min(k + rows_per_call, len(inputs))) for k in range(0, len(inputs), rows_per_call)]
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        answers = np.concatenate([predict(inputs.take(part)) for part in parts])
        seconds.append(time.perf_counter() - start)
    return answers, min(seconds)


def main() -> None:
    """Run both and compare."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--notes", type=int, default=10)
    parser.add_argument("--classifier", choices=("linear", "xgboost"), default="linear")
    parser.add_argument("--ngrams", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    training = make_notes(200, rng)
    pipeline = make_pipeline(TfidfVectorizer(ngram_range=(1, given.ngrams)), make_classifier(given.classifier))
    pipeline.fit(training, rng.integers(0, 2, size=len(training)))
    inputs = make_inputs(make_notes(given.notes, rng))
    model = estimator_model(pipeline, Options(), fingerprint="benchmark", file=Path("benchmark"))
    model.predict(inputs.take(np.arange(10)))

    fast, fast_time = best_of(given.repeats, lambda rows: model.predict(rows), inputs, model.rows_per_call)
    slow, slow_time = best_of(given.repeats, lambda rows: pipeline.predict_proba(rows.texts)[:, 1:], inputs, 1024)
    n = len(inputs)
    print(f"{n:,} swaps in {given.notes} notes of {WORDS_PER_NOTE:,} words, {given.classifier}, {given.ngrams}-grams")
    print(f"re-vectorising     {slow_time:8.2f} s  {slow_time / n * 1e6:8.1f} us a swap")
    print(f"count differences  {fast_time:8.2f} s  {fast_time / n * 1e6:8.1f} us a swap")
    print(f"ratio              {slow_time / fast_time:8.1f}")
    print(f"largest difference {np.abs(fast - slow).max():8.1g}")


if __name__ == "__main__":
    main()
