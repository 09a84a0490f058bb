"""Word swaps on bag-of-words models: at least 100 times the way that rebuilds and re-vectorises each text.

    python benchmarks/word_swaps.py [--notes 2000] [--naive-notes 20] [--only NAME]

The setting is that of the vocabulary audit: notes of 1,500 words out of 10,000, 49 target words, 15 substitutes each,
the first occurrence. The naive way puts the edited texts together and hands all those of a note to the vectorizer and
the classifier at once; it is measured on a few notes, spread over all, and scaled by the number of swaps. The fast way
is measured on all, in the calls that the runner would make, with cutting the inputs into calls. Both run on one thread,
and the clock is that of the processor, so other work on the machine does not matter much. Compiling is not counted.

It prints a line a model, and fails if a ratio is below 100 or an answer differs by more than 1e-6.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
import xgboost
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline

from palpate.cases.edits import Inputs, Ints
from palpate.models import Probabilities
from palpate.models.bagofwords import BagOfWordsModel, estimator_model
from palpate.models.classes import ClassOptions

WORDS_PER_NOTE, TARGETS, SUBSTITUTES, VOCABULARY, TRAINING = 1_500, 49, 15, 10_000, 600
FIRST_TARGET = 135
RATIO, DIFFERENCE = 100, 1e-6
CONFIGURATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "xgboost": ("trees", {}),
    "xgboost, 2-grams": ("trees", {"ngram_range": (1, 2)}),
    "xgboost, sublinear": ("trees", {"sublinear_tf": True}),
    "xgboost, no idf": ("trees", {"use_idf": False}),
    "logistic": ("linear", {}),
    "logistic, 2-grams": ("linear", {"ngram_range": (1, 2)}),
    "logistic, sublinear": ("linear", {"sublinear_tf": True}),
    "logistic, no idf": ("linear", {"use_idf": False}),
}


def make_notes(n: int, rng: np.random.Generator) -> list[str]:
    """Notes whose words have the frequencies of a language, with some punctuation."""
    share = 1 / np.arange(1, VOCABULARY + 1)
    drawn = rng.choice(VOCABULARY, size=(n, WORDS_PER_NOTE), p=share / share.sum())
    ends = np.array([" ", " ", " ", " ", ", ", ".\n"])[rng.integers(0, 6, size=drawn.shape)]
    return ["".join(f"word{w}{e}" for w, e in zip(*row, strict=True)) for row in zip(drawn, ends, strict=True)]


def make_labels(notes: list[str], rng: np.random.Generator) -> Ints:
    """Ill, more often if a note has certain words, half of which are targets."""
    telling = [f"word{k} " for k in range(FIRST_TARGET, FIRST_TARGET + 2 * TARGETS, 4)]
    found = np.array([sum(word in note for word in telling) for note in notes])
    return np.asarray(found + rng.normal(0, 1.5, len(notes)) > np.median(found), dtype=np.int64)


def make_inputs(notes: list[str], rng: np.random.Generator) -> Inputs:
    """The first hit of every target word in every note, swapped for each of its substitutes."""
    targets = [f"word{k}" for k in range(FIRST_TARGET, FIRST_TARGET + 3 * TARGETS, 3)]
    drawn = rng.permutation(VOCABULARY)[: TARGETS * SUBSTITUTES]
    number = {target: k for k, target in enumerate(targets)}
    pattern = re.compile(r"\b(?:" + "|".join(targets) + r")\b")
    rows: list[tuple[int, int, int, int]] = []
    for parent, note in enumerate(notes):
        first: dict[int, tuple[int, int]] = {}
        for hit in pattern.finditer(note):
            first.setdefault(number[hit[0]], hit.span())
        rows += [
            (parent, *span, k * SUBSTITUTES + swap) for k, span in sorted(first.items()) for swap in range(SUBSTITUTES)
        ]
    table: Ints = np.array(rows, dtype=np.int64)
    return Inputs(
        parent=table[:, 0],
        first_edit=np.arange(len(table) + 1),
        start=table[:, 1],
        end=table[:, 2],
        replacement=table[:, 3],
        replacements=[f"word{k}" for k in drawn],
        parents=notes,
        case_ids=[str(p) for p in table[:, 0]],
        cohorts=[""] * len(table),
    )


def make_pipeline_of(kind: str, options: dict[str, Any]) -> Pipeline:
    """tf-idf, and 200 trees or a linear model."""
    trees = xgboost.XGBClassifier(n_estimators=200, max_depth=4, n_jobs=1, random_state=0)
    return make_pipeline(TfidfVectorizer(**options), trees if kind == "trees" else LogisticRegression(max_iter=1000))


def fast(model: BagOfWordsModel, inputs: Inputs) -> tuple[Probabilities, float]:
    """The answers to all swaps, and the seconds."""
    began = time.process_time()
    size = model.rows_per_call
    answers = [
        model.predict(inputs.take(np.arange(k, min(k + size, len(inputs))))) for k in range(0, len(inputs), size)
    ]
    return np.concatenate(answers), time.process_time() - began


def naive(pipeline: Pipeline, inputs: Inputs, notes: Ints) -> tuple[Ints, Probabilities, float]:
    """Some notes' rows, the answers to them, and the seconds; all variants of a note go in one call."""
    rows, answers, seconds = [], [], 0.0
    for note in notes:
        here = np.flatnonzero(inputs.parent == note)
        began = time.process_time()
        text = inputs.parents[int(note)]
        variants = []
        for row in here:
            (edit,) = inputs.edits(int(row))
            variants.append(text[: edit.start] + edit.text + text[edit.end :])
        answers.append(pipeline.predict_proba(variants)[:, 1:])
        seconds += time.process_time() - began
        rows.append(here)
    return np.concatenate(rows), np.concatenate(answers).astype(np.float64), seconds


def main() -> int:
    """Run both and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notes", type=int, default=2_000)
    parser.add_argument("--naive-notes", type=int, default=20)
    parser.add_argument("--only", choices=tuple(CONFIGURATIONS))
    given = parser.parse_args()
    numba.set_num_threads(1)
    rng = np.random.default_rng(0)
    training = make_notes(TRAINING, rng)
    y = make_labels(training, rng)
    inputs = make_inputs(make_notes(given.notes, rng), rng)
    some = np.linspace(0, given.notes - 1, min(given.naive_notes, given.notes)).astype(np.int64)
    print(f"{len(inputs):,} swaps in {given.notes:,} notes of {WORDS_PER_NOTE:,} words; one thread, processor time")
    failed = False
    for name, (kind, options) in CONFIGURATIONS.items():
        if given.only not in (None, name):
            continue
        pipeline = make_pipeline_of(kind, options).fit(training, y)
        model = estimator_model(pipeline, ClassOptions(), fingerprint="benchmark", file=Path("benchmark"))
        assert isinstance(model, BagOfWordsModel)
        assert model.scores_differences
        model.predict(inputs.take(np.arange(100)))
        answers, seconds = fast(model, inputs)
        rows, expected, slow = naive(pipeline, inputs, some)
        slow *= len(inputs) / len(rows)
        ratio, difference = slow / seconds, float(np.abs(answers[rows] - expected).max())
        bad = ratio < RATIO or difference > DIFFERENCE
        failed |= bad
        print(
            f"{name:20} naive {slow:7.0f} s  fast {seconds:5.1f} s ({seconds / len(inputs) * 1e6:4.1f} us a swap)  "
            f"ratio {ratio:5.0f}  largest difference {difference:7.1g} of {len(rows):,}{'  FAILED' if bad else ''}",
            flush=True,
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
