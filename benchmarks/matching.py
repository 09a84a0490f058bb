"""One optimal 1:1 matching on a probability, against `scipy.optimize.linear_sum_assignment`.

First 209,300 cases, the whole of the chest X-ray context paper's data, in less than 0.1 s and 100 MB; scipy would need
a matrix of 60 GB. Then both match the same 20,770 cases at several prevalences, and their total costs must agree; scipy
takes most of a minute at 0.22, which `--quick` leaves out. Times are processor seconds of one thread, compilation left
out; memory is what the process's peak grew by. Exits with 1 if a claim fails.

    python benchmarks/matching.py [--quick]
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from palpate.stats import matched_share

N_CASES, N_ALL, SEED = 20_770, 209_300, 20770
PREVALENCES = (0.018, 0.05, 0.12, 0.22)
MOST_SECONDS, MOST_MEGABYTES, TOLERANCE = 0.1, 100.0, 1e-9


def cohort(n: int, prevalence: float) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Calibrated pre-test probabilities and labels of about this prevalence."""
    rng = np.random.default_rng(SEED)
    odds = np.exp(np.log(prevalence / (1 - prevalence)) - 0.35 + rng.normal(size=n))
    p = odds / (1 + odds)
    return p, rng.random(n) < p


def cost(p: NDArray[np.float64], y: NDArray[np.bool_], share: NDArray[np.float64]) -> float:
    """What the average of the best matchings costs: how far the shares have to move along the line."""
    order = np.argsort(p)
    ahead = np.cumsum(np.where(y, share, -share)[order])
    return float(np.sum(np.abs(ahead[:-1]) * np.diff(p[order])))


def timed_match(p: NDArray[np.float64], y: NDArray[np.bool_], *, rounds: int = 7) -> tuple[NDArray[np.float64], float]:
    share, seconds = matched_share(p, y), []
    for _ in range(rounds):
        start = time.process_time()
        share = matched_share(p, y)
        seconds.append(time.process_time() - start)
    return share, float(np.median(seconds))


def scipy_match(p: NDArray[np.float64], y: NDArray[np.bool_]) -> tuple[float, float]:
    start = time.process_time()
    matrix = np.abs(p[y][:, None] - p[~y][None, :])
    rows, columns = linear_sum_assignment(matrix)
    return float(matrix[rows, columns].sum()), time.process_time() - start


def against_scipy(prevalence: float) -> bool:
    p, y = cohort(N_CASES, prevalence)
    share, ours = timed_match(p, y)
    theirs, their_seconds = scipy_match(p, y)
    apart = abs(cost(p, y, share) - theirs)
    print(
        f"{prevalence:10.3f} {int(y.sum()):10,} {their_seconds:10.3f} s {1000 * ours:10.2f} ms"
        f" {their_seconds / ours:10,.0f} {apart:12.1e}"
    )
    return apart < TOLERANCE


def whole() -> bool:
    p, y = cohort(N_ALL, 0.22)
    matched_share(p[:100], y[:100])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    share, seconds = timed_match(p, y)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    megabytes = grown / (1e6 if sys.platform == "darwin" else 1e3)
    print(f"{N_ALL:,} cases, {share[y].sum():,.0f} pairs: {seconds:.3f} s (below {MOST_SECONDS}),", end=" ")
    print(f"{megabytes:.0f} MB (below {MOST_MEGABYTES:.0f})")
    return seconds < MOST_SECONDS and megabytes < MOST_MEGABYTES


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="leave out the prevalences that take scipy long")
    quick = parser.parse_args().quick
    small = whole()
    print(f"{N_CASES:,} cases")
    print(f"{'prevalence':>10} {'positives':>10} {'scipy':>12} {'palpate':>13} {'ratio':>10} {'cost apart':>12}")
    equal = [against_scipy(prevalence) for prevalence in PREVALENCES if not quick or prevalence < 0.1]
    return 0 if small and all(equal) else 1


if __name__ == "__main__":
    sys.exit(main())
