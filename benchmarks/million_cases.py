"""A million cases: reading, scoring by table, performance with the core set and subgroups with intervals, and a report.

One label, two models as `predictions:`, three attributes with 20 groups, 10,000 replicates, each size in a process of
its own through the command line. Prints seconds, processor time and memory for 10,000, 100,000 and 1,000,000 cases, and
how the processor time of a case grows. Exits with 1 if a million cases take more than 3 minutes or 4 GB, or if a case
costs more than 1.5 times as much as at the size before.

    python benchmarks/million_cases.py [--sizes 10000 100000]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl

SIZES = (10_000, 100_000, 1_000_000)
MOST_SECONDS, MOST_BYTES, MOST_GROWTH = 180.0, 4e9, 1.5
SHIFTS = {"first": 1.2, "second": 1.1}
CONFIG = """\
cohort: {file: cohort.csv, labels: [ill], attributes: [sex, race, site]}
models: {first: predictions:first.csv, second: predictions:second.csv}
audits:
  performance: {}
  subgroups: {by: [sex, race, site]}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    sizes = sorted(parser.parse_args().sizes)
    seconds, worked, peak = {}, {}, {}
    for n in [min(sizes), *sizes]:  # the first run compiles and is not counted
        with tempfile.TemporaryDirectory() as folder:
            write_inputs(Path(folder), n)
            seconds[n], worked[n], peak[n] = run(Path(folder))
    for n in sizes:
        each = f"{1e6 * worked[n] / n:7.1f} µs a case"
        print(f"{n:>9,} cases: {seconds[n]:6.1f} s, {worked[n]:6.1f} s of processor, {peak[n] / 1e9:.2f} GB, {each}")
    growth = [worked[b] / b / (worked[a] / a) for a, b in pairwise(sizes)]
    print("cost of a case, times that at the size before: " + ", ".join(f"{each:.2f}" for each in growth))
    slow = seconds[max(sizes)] > MOST_SECONDS or peak[max(sizes)] > MOST_BYTES
    sys.exit(1 if slow or any(each > MOST_GROWTH for each in growth) else 0)


def write_inputs(folder: Path, n: int) -> None:
    rng = np.random.default_rng(n)
    ill, common = rng.random(n) < 0.15, rng.normal(size=n)
    ids = pl.Series("case_id", [f"c{k}" for k in range(n)])
    pl.DataFrame(
        {
            "case_id": ids,
            "patient_id": [f"p{k}" for k in rng.integers(0, int(0.8 * n), n)],
            "split": np.where(rng.random(n) < 0.1, "validation", "test"),
            "sex": rng.choice(["f", "m"], n),
            "race": rng.choice(["a", "b", "c", "d", "e"], n),
            "site": rng.choice([f"site {k}" for k in range(13)], n),
            "ill": ill.astype(np.uint8),
        }
    ).write_csv(folder / "cohort.csv")
    for name, shift in SHIFTS.items():
        score = np.sqrt(0.6) * common + np.sqrt(0.4) * rng.normal(size=n) + shift * ill
        risk = 1 / (1 + np.exp(-(np.log(0.15 / 0.85) + shift * score - shift**2 / 2)))
        pl.DataFrame({"case_id": ids, "ill": risk}).write_csv(folder / f"{name}.csv")
    (folder / "audit.yaml").write_text(CONFIG, encoding="utf-8")


def run(folder: Path) -> tuple[float, float, float]:
    """Seconds, processor time and the most memory, in bytes, of the command."""
    command = [sys.executable, "-m", "palpate", "audit", str(folder / "audit.yaml"), "--out", str(folder / "run")]
    start = time.perf_counter()
    log = folder / "log.txt"
    with log.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"palpate audit ended with code {process.returncode}:\n{log.read_text()[-2000:]}")
    return time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024.0


if __name__ == "__main__":
    main()
