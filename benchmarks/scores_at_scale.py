"""Tables of scores through the command line: a million rows of one label, and 2,000 labels of 20,000 cases.

Both with performance of two models as `predictions:`, each in a process of its own, with 10,000 replicates. Prints
seconds, processor time and memory, and how many times faster that is than scikit-learn's AUROC on as many resamples of
the same scores would be (measured on a few). Exits with 1 above 60 s, above 2 GB for the labels, or below 20 times.

    python benchmarks/scores_at_scale.py [--rows 1000000] [--labels 2000] [--cases 20000]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from million_cases import run, write_inputs

MOST_SECONDS, MOST_BYTES, LEAST_RATIO, REPLICATES = 60.0, 2e9, 20.0, 10_000
LONG = """\
cohort: {file: cohort.csv, labels: [ill]}
models: {first: predictions:first.csv, second: predictions:second.csv}
audits: {performance: {}}
"""
WIDE = """\
cohort: {file: cohort.parquet, labels: {labels}}
models: {first: predictions:first.parquet, second: predictions:second.parquet}
audits: {performance: {}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--labels", type=int, default=2_000)
    parser.add_argument("--cases", type=int, default=20_000)
    given = parser.parse_args()
    missed = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        elsewhere(write_inputs, folder, given.rows)
        (folder / "audit.yaml").write_text(LONG, encoding="utf-8")
        y, p = pl.read_csv(folder / "cohort.csv")["ill"].to_numpy(), pl.read_csv(folder / "first.csv")["ill"].to_numpy()
        missed |= report(f"{given.rows:,} rows, 1 label", folder, naive(y, p), np.inf)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        y, p = elsewhere(write_wide, folder, given.cases, given.labels)
        missed |= report(
            f"{given.cases:,} cases, {given.labels:,} labels", folder, given.labels * naive(y, p), MOST_BYTES
        )
    sys.exit(int(missed))


def elsewhere(write: Callable[..., Any], *given: Any) -> Any:
    """Write in a process of its own: Linux counts what a parent held as its child's peak memory."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(write, *given).result()


def naive(y: NDArray[np.int64], p: NDArray[np.float64]) -> float:
    """Seconds that 10,000 resamples of two models would take, from three of one."""
    rng, start = np.random.default_rng(0), time.process_time()
    for _ in range(3):
        rows = rng.integers(0, len(y), len(y))
        roc_auc_score(y[rows], p[rows])
    return (time.process_time() - start) / 3 * 2 * REPLICATES


def report(what: str, folder: Path, slow: float, most_bytes: float) -> bool:
    """Print one line; True where a bound is missed."""
    seconds, worked, peak = run(folder)
    ratio = slow / worked
    print(f"{what}: {seconds:.1f} s, {worked:.1f} s of processor, {peak / 1e9:.2f} GB, {ratio:,.0f} times", flush=True)
    return seconds > MOST_SECONDS or peak > most_bytes or ratio < LEAST_RATIO


def write_wide(folder: Path, n: int, n_labels: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Labels that become rarer, as codes do; the first label and its scores are returned."""
    rng = np.random.default_rng(n)
    names = [f"code_{k}" for k in range(n_labels)]
    share = 0.2 / np.arange(1, n_labels + 1) ** 0.6
    y = (rng.random((n, n_labels)) < share).astype(np.uint8)
    ids = pl.DataFrame({"case_id": [f"c{k}" for k in range(n)], "patient_id": [f"p{k // 2}" for k in range(n)]})
    ids.hstack(pl.DataFrame(y, schema=names)).write_parquet(folder / "cohort.parquet")
    for name, shift in (("first", 1.4), ("second", 1.2)):
        odds = np.log(share / (1 - share)) + shift * (rng.normal(size=(n, n_labels)) + shift * y) - shift**2 / 2
        p = 1 / (1 + np.exp(-odds))
        ids.select("case_id").hstack(pl.DataFrame(p, schema=names)).write_parquet(folder / f"{name}.parquet")
    (folder / "audit.yaml").write_text(WIDE.replace("{labels}", f"[{', '.join(names)}]"), encoding="utf-8")
    return y[:, 0].astype(np.int64), p[:, 0]


if __name__ == "__main__":
    main()
