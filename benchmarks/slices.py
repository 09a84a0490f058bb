"""Slices: all combinations of up to three of 10 attributes, 100,000 cases, against scikit-learn slice by slice.

The search of the audit (one half of the patients, 175 combinations of attributes, with standard errors by patient) is
timed, then the whole audit. The naive way, `roc_auc_score` on the cases of each slice, is timed on some slices drawn at
random and extrapolated. Exits with 1 if an AUROC differs by 1e-12 or more, if the ratio is below 10, if the whole audit
takes longer than 60 s, or if the planted slice is not confirmed.

    python benchmarks/slices.py
"""

from __future__ import annotations

import sys
import time

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse
from sklearn.metrics import roc_auc_score

from palpate.audits.slices import Slices
from palpate.cases.cohort import Cohort
from palpate.results import ModelPredictions, Predictions
from palpate.stats.groups.slices import SliceCases, SliceMeasure, all_slices, combinations_of

N_CASES, N_PATIENTS, N_ATTRIBUTES, N_VALUES, DEPTH = 100_000, 60_000, 10, 5, 3
SEED, N_CHECKED, LEAST_RATIO, TOLERANCE, MOST_SECONDS = 16, 300, 10.0, 1e-12, 60.0
PLANTED = {0: 1, 3: 2, 7: 0}


class Table:
    """Cases with ten attributes, and a model that is worse where three of them meet."""

    def __init__(self) -> None:
        rng = np.random.default_rng(SEED)
        self.patient = np.sort(rng.integers(0, N_PATIENTS, N_CASES))
        values = [rng.choice(N_VALUES, N_PATIENTS, p=[0.35, 0.25, 0.2, 0.12, 0.08]) for _ in range(N_ATTRIBUTES)]
        self.codes: list[NDArray[np.int64]] = [column[self.patient] for column in values]
        inside = np.all([self.codes[a] == value for a, value in PLANTED.items()], axis=0)
        self.y_true = rng.random(N_CASES) < 0.2
        score = rng.normal(size=N_CASES) + np.where(inside, 0.2, 1.4) * self.y_true
        self.risk = 1 / (1 + np.exp(2 - score))

    @property
    def cohort(self) -> Cohort:
        names = [f"a{k}" for k in range(N_ATTRIBUTES)]
        cases = pl.DataFrame(
            {
                "case_id": [str(k) for k in range(N_CASES)],
                "patient_id": [str(k) for k in self.patient],
                "cohort": ["here"] * N_CASES,
                **{name: pl.Series(column).cast(pl.String) for name, column in zip(names, self.codes, strict=True)},
            }
        )
        return Cohort(cases, ("ill",), sparse.csc_array(self.y_true.astype(np.uint8)[:, None]), tuple(names))


def search(table: Table, half: NDArray[np.bool_]) -> tuple[float, float, float, int]:
    """Seconds of palpate, seconds of the naive way, the largest difference, and how many slices there are."""
    codes = [column[half] for column in table.codes]
    y, score = table.y_true[half], table.risk[half]
    start = time.perf_counter()
    measure = SliceMeasure(SliceCases(y, score, table.patient[half]))
    found = all_slices(
        measure,
        codes,
        [N_VALUES] * N_ATTRIBUTES,
        combinations_of(N_ATTRIBUTES, 0, DEPTH),
        fewest_patients=30,
        fewest_of_class=10,
    )
    ours = time.perf_counter() - start
    n_slices = len(found.stats.n)
    chosen = np.random.default_rng(SEED).choice(n_slices, N_CHECKED, replace=False)
    worst, start = 0.0, time.perf_counter()
    for k in chosen.tolist():
        mask = found.mask(k, codes)
        worst = max(worst, abs(float(roc_auc_score(y[mask], score[mask])) - float(found.stats.value[k])))
    naive = (time.perf_counter() - start) / N_CHECKED * n_slices
    return ours, naive, worst, n_slices


def whole(table: Table) -> tuple[float, bool]:
    """Seconds of the audit at depth 3, with 10,000 replicates, and whether the planted slice is confirmed."""
    cohort, audit = table.cohort, Slices(depth=DEPTH)
    start = time.perf_counter()
    plan = audit.plan(cohort, np.random.default_rng(SEED))
    answers = {"m": ModelPredictions(("ill",), table.risk[:, None], np.ones(N_CASES, bool))}
    result = audit.analyse(plan, Predictions(answers), np.random.default_rng(SEED))
    seconds = time.perf_counter() - start
    confirmed = result.estimates.filter(pl.col("reference").is_not_null() & pl.col("significant"))["group"].to_list()
    return seconds, ", ".join(f"a{a}={value}" for a, value in PLANTED.items()) in confirmed


def main() -> int:
    table = Table()
    half = np.random.default_rng(SEED).random(N_PATIENTS)[table.patient] < 0.5
    ours, naive, worst, n_slices = search(table, half)
    seconds, confirmed = whole(table)
    print(
        f"{N_CASES:,} cases of {N_PATIENTS:,} patients, {N_ATTRIBUTES} attributes, depth {DEPTH}: {n_slices:,} slices"
    )
    print(f"scikit-learn  {naive:10.1f} s  (AUROC alone, {N_CHECKED} slices, extrapolated)")
    print(f"palpate       {ours:10.1f} s  (AUROC and standard error by patient)")
    print(f"ratio         {naive / ours:10.1f}    (at least {LEAST_RATIO:.0f})")
    print(f"whole audit   {seconds:10.1f} s  (at most {MOST_SECONDS:.0f}; planted slice confirmed: {confirmed})")
    print(f"largest difference of AUROCs {worst:.1e} (below {TOLERANCE:.0e})")
    good = worst < TOLERANCE and naive / ours >= LEAST_RATIO and seconds <= MOST_SECONDS and confirmed
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
