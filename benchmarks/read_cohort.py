"""Reading 50,000 notes of 1,500 tokens: seconds, and peak memory of a fresh process, for each format.

python benchmarks/read_cohort.py [--notes N] [--tokens N] [SUFFIX ...]
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path

import numpy as np
import polars as pl

SUFFIXES = (".csv", ".csv.gz", ".jsonl.gz", ".parquet")
MOST_GB = 3.0
# Runs in a process of its own, so that its peak is that of reading and of nothing else. VmHWM, because `ru_maxrss`
# of a child starts at what its parent held.
READ = """
import sys, time
from pathlib import Path
import palpate.data.tables as tables

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**20

before, start, cpu = peak(), time.perf_counter(), time.process_time()
cohort = tables.read_cohort(tables.TableSpec(file=Path(sys.argv[1]), attributes=("age",)))
print(len(cohort), time.perf_counter() - start, time.process_time() - cpu, before, peak())
"""


def rows(n_notes: int, n_tokens: int) -> Iterator[dict[str, object]]:
    """Notes of drawn words, some of them not ASCII, with lines and quotes as notes have them."""
    rng = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlu"))
    words = ["".join(rng.choice(letters, size)) for size in rng.integers(2, 11, 20_000)]
    vocabulary = np.array([*words, "38°C", '"stable"', "pt.\n", "b.i.d.,\n"], dtype=object)
    for k in range(n_notes):
        text = " ".join(vocabulary[rng.integers(0, len(vocabulary), n_tokens)])
        yield {"case_id": k, "patient_id": k // 2, "text": text, "age": k % 90, "label:y": k % 2}


def write(path: Path, n_notes: int, n_tokens: int) -> None:
    """The same rows in the format that the suffix says."""
    table = rows(n_notes, n_tokens)
    if path.suffix == ".parquet":
        pl.DataFrame(list(table)).write_parquet(path)
        return
    zipped = path.suffix == ".gz"
    with gzip.open(path, "wb", 4) if zipped else path.open("wb") as raw, TextIOWrapper(raw, "utf-8", newline="") as out:
        if ".jsonl" in path.name:
            out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in table)
        else:
            writer = csv.DictWriter(out, ["case_id", "patient_id", "text", "age", "label:y"])
            writer.writeheader()
            writer.writerows(table)


def main() -> None:
    """Print one line a format; end with 1 if one takes more memory than promised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suffixes", nargs="*", default=SUFFIXES)
    parser.add_argument("--notes", type=int, default=50_000)
    parser.add_argument("--tokens", type=int, default=1_500)
    options = parser.parse_args()
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for suffix in options.suffixes:
            path = Path(folder) / f"notes{suffix}"
            start = time.perf_counter()
            write(path, options.notes, options.tokens)
            made = time.perf_counter() - start
            done = subprocess.run(
                [sys.executable, "-c", READ, str(path)], check=True, capture_output=True, text=True
            ).stdout.split()
            seconds, cpu, before, peak = (float(value) for value in done[1:])
            worst = max(worst, peak)
            print(
                f"{suffix:10} {int(done[0]):7,} notes  {path.stat().st_size / 2**20:6.0f} MiB on disk  read in "
                f"{seconds:5.1f} s ({cpu:.1f} s of CPU)  peak {peak:.2f} GiB ({before:.2f} before)  "
                f"[written in {made:.0f} s]"
            )
            path.unlink()
    sys.exit(worst > MOST_GB)


if __name__ == "__main__":
    main()
