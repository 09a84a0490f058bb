"""The core set with intervals: influences by patient against refitting everything on resampled patients.

    python benchmarks/core_set.py [--cases 20000]

Prints the ratio per replicate, compares the standard errors of both ways, and times a million cases of two models.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from scipy.special import expit

from palpate.stats.risks.core import CORE, core_replicates

REPLICATES, REFITS, ENOUGH = 2_000, 40, 200.0
_CLOSE = ("calibration_intercept", "calibration_slope", "oe_ratio", "net_benefit", "mean_net_benefit")


def drawn(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outcomes, two models' risks, and patients of two cases each."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, n, 1)) - 1.5
    x[1] = 0.7 * x[0] + 0.5 * x[1]
    return (rng.random((n, 1)) < expit(x[0])), expit(1.3 * x), np.arange(n) // 2


def measured(y: np.ndarray, p: np.ndarray, patient: np.ndarray, n_replicates: int) -> tuple[np.ndarray, np.ndarray]:
    found = core_replicates(y, p, threshold=0.3, benefit=(0.01, 0.5), patient=patient, rng=1, n_replicates=n_replicates)
    n = len(CORE)
    return found.point[:, :n, 0], found.values[:, :n, 0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20_000)
    n = parser.parse_args().cases
    y, p, patient = drawn(n)
    measured(y, p, patient, 10)
    began = time.perf_counter()
    _, values = measured(y, p, patient, REPLICATES)
    fast = (time.perf_counter() - began) / REPLICATES
    rng, refits = np.random.default_rng(2), []
    began = time.perf_counter()
    for _ in range(REFITS):
        rows = (2 * rng.integers(n // 2, size=n // 2)[:, None] + np.arange(2)).ravel()
        refits.append(measured(y[rows], p[:, rows], np.repeat(np.arange(n // 2), 2), 1)[0])
    slow = (time.perf_counter() - began) / REFITS
    places = [CORE.index(name) for name in _CLOSE]
    ratio = values.std(axis=-1)[:, places] / np.std(refits, axis=0)[:, places]
    print(f"{n:,} cases, 2 models, {len(CORE)} measures: {fast * 1e3:.3f} ms a replicate, refitted {slow * 1e3:.0f} ms")
    print(f"standard errors, ours over {REFITS} refits': {ratio.min():.2f} to {ratio.max():.2f}")
    print(f"ratio: {slow / fast:.0f}")
    million = drawn(1_000_000)
    began, busy = time.perf_counter(), time.process_time()
    measured(*million, REPLICATES)
    print(f"1,000,000 cases: {time.perf_counter() - began:.1f} s, {time.process_time() - busy:.1f} s of processor time")
    return int(slow / fast < ENOUGH or not 0.6 < ratio.min() <= ratio.max() < 1.6)


if __name__ == "__main__":
    sys.exit(main())
