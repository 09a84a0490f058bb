"""AUROC bootstrap: 10,000 replicates of 13 labels on 20,770 cases, against scikit-learn on those resamples.

The size is that of the chest X-ray context paper's test set. `bootstrap` is timed from checked arrays to the
last replicate, sorting included, on two threads; its compilation is not (a warm-up call comes first).
scikit-learn is timed on a few replicates, spread between the runs of `bootstrap` so that both meet the same
machine, and extrapolated. Half of the labels have scores of two decimals, so ties are included. The score
intervals of all labels are timed in the same runs, against the bootstrap that they are made from. Exits with 1 if
any value that both computed differs by 1e-12 or more, if the ratio is below 400 (2,000 on a quiet machine with two
cores), or if the intervals add more than 20%.

    python benchmarks/bootstrap_auroc.py
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from palpate.stats import bootstrap, resample_counts
from palpate.stats.score_intervals import Counts, metric_intervals

N_CASES, N_PATIENTS, N_LABELS = 20_770, 6_500, 13
SEED, LEAST_RATIO, MOST_ADDED, TOLERANCE = 20770, 400.0, 0.20, 1e-12


def cohort() -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.int64]]:
    rng = np.random.default_rng(SEED)
    y_true = rng.random((N_CASES, N_LABELS)) < np.geomspace(0.018, 0.35, N_LABELS)
    y_score = 1 / (1 + np.exp(2 - 1.2 * y_true - rng.normal(size=y_true.shape)))
    y_score[:, ::2] = y_score[:, ::2].round(2)
    return y_true, y_score, rng.integers(0, N_PATIENTS, N_CASES)


def sklearn_replicate(
    y_true: NDArray[np.bool_], y_score: NDArray[np.float64], counts: NDArray[np.int32]
) -> tuple[NDArray[np.float64], float]:
    start = time.perf_counter()
    rows = np.repeat(np.arange(N_CASES), counts)
    y, s = y_true[rows], y_score[rows]
    aurocs = np.array([roc_auc_score(y[:, label], s[:, label]) for label in range(N_LABELS)])
    return aurocs, time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, default=10_000)
    parser.add_argument("--checked", type=int, default=12, help="replicates that scikit-learn computes too")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    y_true, y_score, patient = cohort()
    counts = resample_counts(rng=SEED, patient=patient, n_replicates=chosen.checked)
    bootstrap(y_true, y_score, patient=patient, rng=SEED, n_replicates=8, n_threads=2)
    sklearn_replicate(y_true, y_score, counts[0])

    n_positive = y_true.sum(axis=0)
    units = [[len(np.unique(patient[side[:, j]])) for j in range(N_LABELS)] for side in (y_true, ~y_true)]
    sizes = Counts(np.full(N_LABELS, N_CASES), n_positive, np.array(units))
    theirs, their_seconds, our_seconds, interval_seconds = [], [], [], []
    for part in np.array_split(np.arange(chosen.checked), chosen.rounds):
        for replicate in part:
            aurocs, seconds = sklearn_replicate(y_true, y_score, counts[replicate])
            theirs.append(aurocs)
            their_seconds.append(seconds)
        start = time.perf_counter()
        ours = bootstrap(y_true, y_score, patient=patient, rng=SEED, n_replicates=chosen.replicates, n_threads=2)
        our_seconds.append(time.perf_counter() - start)
        start = time.perf_counter()
        metric_intervals(ours.metrics, ours.point, ours.values, sizes)
        interval_seconds.append(time.perf_counter() - start)

    worst = float(np.abs(ours.values[0, 0, :, : chosen.checked].T - np.array(theirs)).max())
    slow = float(np.median(their_seconds)) * chosen.replicates
    fast = float(np.median(our_seconds))
    print(f"{N_LABELS} labels, {N_CASES:,} cases of {N_PATIENTS:,} patients, {chosen.replicates:,} replicates")
    print(f"scikit-learn  {slow:10.1f} s  (extrapolated from {chosen.checked} replicates)")
    each = ", ".join(f"{seconds:.2f}" for seconds in our_seconds)
    print(f"palpate       {fast:10.2f} s  (median of {chosen.rounds}: {each})")
    print(f"ratio         {slow / fast:10.0f}    (at least {LEAST_RATIO:.0f})")
    added = float(np.median(interval_seconds)) / fast
    print(f"intervals     {np.median(interval_seconds):10.3f} s  (adds {added:.1%}, at most {MOST_ADDED:.0%})")
    print(f"largest difference {worst:.1e} over {chosen.checked * N_LABELS} AUROCs (below {TOLERANCE:.0e})")
    return 0 if worst < TOLERANCE and slow / fast >= LEAST_RATIO and added <= MOST_ADDED else 1


if __name__ == "__main__":
    sys.exit(main())
