"""The pre-test search for one label: all 72 bag-of-words models and 60 draws of XGBoost, chosen, calibrated, scored.

Claim: on 20,000 notes under 10 minutes on 2 cores. The notes are made: 300 to 1,500 words each, by Zipf's law, 60 of
which carry the label. With --compare the same choice among the cheap classifiers is also made the paper's way, every
setting on all folds with all cases, and the ratio of the two is printed.

    python benchmarks/pretest_search.py [--notes 20000] [--compare]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from palpate.cases.cohort import Cohort
from palpate.train.options import TrainStep
from palpate.train.pretest import TrainedPretest, train_pretest

LIMIT = 600.0
N_WORDS = 12_000
N_CARRIERS = 60
CHEAP = ["LinearSVC", "Perceptron", "RidgeClassifier"]


def make_cohort(n: int, *, seed: int = 0) -> Cohort:
    """Cases with one note each, two a patient, a tenth of them for the test."""
    rng = np.random.default_rng(seed)
    often = 1 / (np.arange(N_WORDS) + 20) ** 0.9
    names = np.asarray([f"{''.join(rng.choice(list('bcdfglmnprst'), 5))}{k}" for k in range(N_WORDS)], dtype=object)
    lengths = rng.integers(300, 1500, n)
    drawn = rng.choice(N_WORDS, size=int(lengths.sum()), p=often / often.sum())
    weight = np.zeros(N_WORDS)
    weight[rng.choice(np.arange(50, 4000), N_CARRIERS, replace=False)] = rng.normal(0, 1, N_CARRIERS)
    parts = np.split(drawn, np.cumsum(lengths)[:-1])
    sick = np.asarray([weight[np.unique(part)].sum() for part in parts])
    sick = (sick - sick.mean()) / sick.std()
    y = rng.random(n) < 1 / (1 + np.exp(2.2 - 1.2 * sick))
    patient = np.arange(n) // 2
    frame = pl.DataFrame(
        {
            "case_id": [f"c{k}" for k in range(n)],
            "patient_id": [f"p{k}" for k in patient],
            "split": np.where(patient % 10 == 9, "test", np.where(patient % 10 == 8, "validation", "train")),
            "prior": [" ".join(names[part]) for part in parts],
            "ill": y.astype(int),
        }
    )
    return Cohort.from_frame(frame, labels=["ill"])


def run(cohort: Cohort, told: dict[str, float], **options: Any) -> tuple[TrainedPretest, float, float]:
    """The model, the time on the clock and the time of the processors."""
    clock, cpu = time.perf_counter(), time.process_time()

    def progress(step: TrainStep) -> None:
        if step.done == step.total and step.stage not in told:
            told[step.stage] = time.perf_counter() - clock
            print(f"  {told[step.stage]:7.1f} s  {step.stage}: {step.total} fits", flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        made = train_pretest(cohort, Path(scratch) / "out", {"threads": 2, **options}, progress=progress)
    return made, time.perf_counter() - clock, time.process_time() - cpu


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--notes", type=int, default=20_000)
    parser.add_argument("--compare", action="store_true")
    given = parser.parse_args()
    cohort = make_cohort(given.notes)
    print(f"{given.notes:,} notes, {cohort.y.sum() / given.notes:.1%} positive")
    made, seconds, cpu = run(cohort, {})
    row = made.table[0]
    print(
        f"search: {seconds:.0f} s on the clock, {cpu:.0f} s of processor time, {cpu / 2:.0f} s if both cores were free"
    )
    print(f"chosen: {row['classifier']}, test AUROC {row['auroc']:.3f}, skill {row['brier_skill_score']:.3f}")
    print(f"limit {LIMIT:.0f} s: {'kept' if seconds < LIMIT else 'NOT kept on this clock'}")
    if given.compare:
        few = {"families": ["bow"], "classifiers": CHEAP}
        quick, _, fast = run(cohort, {}, **few)
        slow, _, full = run(cohort, {}, **few, search="full")
        pair = [made.table[0]["auroc"] for made in (quick, slow)]
        print(f"{', '.join(CHEAP)}: the paper's full grid takes {full / fast:.1f} times the processor time of halving")
        print(f"test AUROC {pair[0]:.4f} by halving, {pair[1]:.4f} by the full grid")


if __name__ == "__main__":
    main()
