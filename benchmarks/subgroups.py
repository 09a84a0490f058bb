"""Subgroups: 10 intersectional groups x 3 metrics x 20,770 cases, 10,000 replicates, against fairlearn's MetricFrame.

The same three metrics of the same ten groups are timed with the function that the audit resamples with. Then the
audit's whole measuring is timed: thirteen metrics of the groups, of all others of each and of all cases, with their
intervals, about eleven times as many rows. MetricFrame resamples rows, not
patients, and is timed on few replicates (`n_boot`), less what it takes without any, spread between the runs of palpate
so that both meet the same machine, and extrapolated. Compilation is not timed (a warm-up call comes first). Exits
with 1 if a point estimate differs by 1e-12 or more, or if the ratio is below 1,000.

    python benchmarks/subgroups.py
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np
from fairlearn.metrics import MetricFrame, selection_rate, true_positive_rate
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from palpate.audits.subgroups.measures import METRICS, Cases, Columns, Resampled, measure_groups, resample_groups
from palpate.audits.subgroups.plan import Partition
from palpate.results import ModelPredictions, Predictions

N_CASES, N_PATIENTS, N_GENDERS, N_RACES = 20_770, 6_500, 2, 5
SEED, THRESHOLD, LEAST_RATIO, TOLERANCE = 20770, 0.3, 1000.0, 1e-12
WANTED = ("auroc", "sensitivity", "flag_rate")
NEEDED = ("auroc", "sensitivity", "specificity", "prevalence")


class Table:
    """Cases with two attributes."""

    def __init__(self) -> None:
        rng = np.random.default_rng(SEED)
        self.patient = rng.integers(0, N_PATIENTS, N_CASES)
        self.gender = rng.integers(0, N_GENDERS, N_PATIENTS)[self.patient]
        self.race = rng.choice(N_RACES, N_PATIENTS, p=[0.5, 0.2, 0.15, 0.1, 0.05])[self.patient]
        self.y_true = (rng.random(N_CASES) < 0.2).astype(np.uint8)
        self.risk = 1 / (1 + np.exp(2 - 1.2 * self.y_true - rng.normal(size=N_CASES)))

    @property
    def partition(self) -> Partition:
        groups = tuple(f"gender={g}, race={r}" for g in range(N_GENDERS) for r in range(N_RACES))
        return Partition("gender × race", groups, self.gender * N_RACES + self.race)


def cases_of(table: Table, n_replicates: int) -> Cases:
    how = Resampled("patient", 10, n_replicates, SEED)
    threshold = np.full((1, 1), THRESHOLD)
    return Cases(table.y_true[:, None], table.risk[None, :, None], threshold, table.patient, how)


def three_metrics(table: Table, n_replicates: int) -> tuple[dict[str, NDArray[np.float64]], float]:
    """[group] of each metric on the data; the flag rate follows from the rates, in every replicate too."""
    start = time.perf_counter()
    masks = np.stack([table.partition.rows(k) for k in range(N_GENDERS * N_RACES)], axis=1)
    found = resample_groups(cases_of(table, n_replicates), masks, 0, NEEDED)
    points = flagged(dict(zip(NEEDED, found.point[0], strict=True)))
    flagged(dict(zip(NEEDED, found.values[0], strict=True)))
    return points, time.perf_counter() - start


def flagged(rates: dict[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
    positive = rates["prevalence"]
    both = rates["sensitivity"] * positive + (1 - rates["specificity"]) * (1 - positive)
    return {**rates, "flag_rate": both}


def whole(table: Table, n_replicates: int) -> float:
    start = time.perf_counter()
    columns = Columns.of([table.partition], N_CASES)
    answers = {"m": ModelPredictions(("ill",), table.risk[:, None], np.ones(N_CASES, bool))}
    found = next(iter(measure_groups(cases_of(table, n_replicates), columns, ("ill",), Predictions(answers))))
    for part in found.parts:
        part.spread(0.95)
    return time.perf_counter() - start


def frame(table: Table, n_boot: int) -> tuple[Any, float]:
    """All three metrics read the risks, as a user would write them to have them in one frame."""
    options = {"n_boot": n_boot, "ci_quantiles": [0.025, 0.975], "random_state": SEED} if n_boot else {}
    start = time.perf_counter()
    made = MetricFrame(
        metrics={
            "auroc": roc_auc_score,
            "sensitivity": lambda y, p: true_positive_rate(y, p >= THRESHOLD),
            "flag_rate": lambda y, p: selection_rate(y, p >= THRESHOLD),
        },
        y_true=table.y_true,
        y_pred=table.risk,
        sensitive_features={"gender": table.gender, "race": table.race},
        **options,
    )
    values = made.by_group
    return values, time.perf_counter() - start


def largest_difference(points: dict[str, NDArray[np.float64]], values: Any) -> float:
    worst = 0.0
    for k in range(N_GENDERS * N_RACES):
        theirs = values.loc[(k // N_RACES, k % N_RACES), list(WANTED)].to_numpy(np.float64)
        mine = np.asarray([points[metric][k] for metric in WANTED])
        worst = max(worst, float(np.abs(theirs - mine).max()))
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, default=10_000)
    parser.add_argument("--checked", type=int, default=3, help="replicates that MetricFrame computes, in each round")
    parser.add_argument("--rounds", type=int, default=2)
    chosen = parser.parse_args()
    table = Table()
    three_metrics(table, 8)
    whole(table, 8)
    frame(table, 0)
    each, our_seconds = [], []
    for _ in range(chosen.rounds):
        without = frame(table, 0)[1]
        values, seconds = frame(table, chosen.checked)
        each.append((seconds - without) / chosen.checked)
        points, seconds = three_metrics(table, chosen.replicates)
        our_seconds.append(seconds)
    worst, all_seconds = largest_difference(points, values), whole(table, chosen.replicates)
    slow, fast = float(np.median(each)) * chosen.replicates, float(np.median(our_seconds))
    print(f"10 groups, {N_CASES:,} cases of {N_PATIENTS:,} patients, {chosen.replicates:,} replicates")
    print(f"fairlearn     {slow:10.1f} s  (3 metrics, {np.median(each):.2f} s a replicate, extrapolated)")
    times = ", ".join(f"{seconds:.2f}" for seconds in our_seconds)
    print(f"palpate       {fast:10.2f} s  (3 metrics: {times})")
    print(f"ratio         {slow / fast:10.0f}    (at least {LEAST_RATIO:.0f})")
    more = f"{len(METRICS)} metrics, also of all others: {slow / all_seconds:.0f} times"
    print(f"whole audit   {all_seconds:10.2f} s  ({more})")
    print(f"largest difference of point estimates {worst:.1e} (below {TOLERANCE:.0e})")
    return 0 if worst < TOLERANCE and slow / fast >= LEAST_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
