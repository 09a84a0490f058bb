"""Ten million word swaps and altered notes: planned, keyed, deduplicated, scored, written and analysed under 4 GB.

The whole run, as `palpate audit` does it: the audits `vocabulary` and `characteristics` on short notes, with a model
whose answers cost nothing, so that everything else is measured. Prints seconds of processor time and the peak memory of
each stage, of this process and all that it starts. Every size is measured in a process of its own; the time per variant
must not grow by more than half from the smallest to the largest, and memory must stay below 4 GB. Exit code 1
otherwise.

Columns of more than 256 MB are in files, which no column of 10^7 variants has. `--column-mb 25` shows with 10^7 what
stays in memory of 10^8.

    python benchmarks/ten_million_variants.py [--sizes 100000 1000000 10000000] [--column-mb 256]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import polars as pl

from palpate import Cohort, RunDirectory
from palpate.audits.characteristics import Characteristics
from palpate.audits.vocabulary import Vocabulary
from palpate.cases import scratch
from palpate.cases.edits import Inputs
from palpate.models import Model, ModelSpec, Probabilities
from palpate.results import Audit
from palpate.run.execute.cache import ScoreCache
from palpate.run.runner import Job, ModelEntry, run

MOST_GB, MOST_GROWTH = 4.0, 1.5
N_WORDS, PER_WORD = 80, 12
PER_NOTE = 1_050
"""About so many variants of each note."""
SIZES = (100_000, 1_000_000, 10_000_000)


class Instant(Model):
    """Answers from the numbers of edits and replacements, without reading a text."""

    labels = ("ill",)
    fingerprint = "instant-1"
    rows_per_call = 65_536
    uses_edits = True

    def predict(self, inputs: Inputs) -> Probabilities:
        lengths = np.asarray([len(text) for text in inputs.parents])[inputs.parent]
        words = np.asarray([len(text) for text in inputs.replacements] or [0])
        added = np.concatenate([[0], np.cumsum(words[inputs.replacement] if len(inputs.start) else [])])
        grown = added[inputs.first_edit[1:]] - added[inputs.first_edit[:-1]]
        return np.asarray(((lengths * 7 + grown * 13) % 101 / 101)[:, None])


class Stages:
    """Prints what each stage took, and samples the memory."""

    def __init__(self) -> None:
        self.began, self.busy, self.name, self.peak, self.highest = 0.0, 0.0, "", 0.0, 0.0
        self.stopped = False
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self.stopped:
            self.peak = max(self.peak, held())
            time.sleep(0.1)

    def stage(self, text: str) -> None:
        now, busy = time.perf_counter(), worked()
        if self.name:
            took = f"{busy - self.busy:7.1f} s of processor, {now - self.began:7.1f} s"
            print(f"  {self.name:<32}{took}, {self.peak:5.2f} GB", flush=True)
        self.highest = max(self.highest, self.peak)
        self.began, self.busy, self.name, self.peak = now, busy, text, held()

    def note(self, text: str) -> None:
        """Not shown."""

    def begin(self, model: str, total: int) -> None:
        self.stage(f"scoring {total:,} inputs of {model}")

    def advance(self, n: int) -> None:
        """Not shown."""


def worked() -> float:
    """Processor seconds of this process and of those that it started and that have ended."""
    return sum(os.times()[:4])


def family(process: str = "self") -> Iterator[Path]:
    """This process and all that it started, and those that they started."""
    yield Path("/proc", process)
    for task in Path("/proc", process, "task").glob("*/children"):
        for child in task.read_text().split():
            yield from family(child)


def held() -> float:
    """Gigabytes that this process and its children hold, without what the system can take back (pages of files).

    Pages that several of them share are counted once: each has its part of them (PSS).
    """
    kilobytes = 0
    with suppress(OSError):  # a child that has just ended
        for process in family():
            with suppress(OSError):
                fields = dict(line.split(":", 1) for line in (process / "smaps_rollup").read_text().splitlines()[1:])
                kilobytes += sum(int(fields[name].split()[0]) for name in ("Pss_Anon", "Pss_Shmem"))
    return kilobytes / 2**20


def make_cohort(n: int, rng: np.random.Generator) -> Cohort:
    """Notes of about 100 words, with age, sex and 80 words that are swapped."""
    common = np.asarray([f"word{k:04d}" for k in range(3_000)])
    swapped = [f"target{k:02d}" for k in range(N_WORDS)]
    texts = []
    for k in range(n):
        said = [*rng.choice(common, 20), *swapped]
        rng.shuffle(said)
        texts.append(f"Patient is a {rng.integers(20, 89)} year old {'man' if k % 2 else 'woman'}. " + " ".join(said))
    split = np.where(np.arange(n) < max(n // 20, 40), "validation", "test")
    return Cohort.from_frame(
        pl.DataFrame({"text": texts, "split": split, "ill": np.arange(n) % 3 == 0}), labels=["ill"]
    )


def measure(size: int) -> tuple[float, float, int]:
    """Processor seconds, gigabytes, and the number of variants."""
    rng = np.random.default_rng(0)
    cohort = make_cohort(size // PER_NOTE, rng)
    words = tuple(f"target{k:02d}" for k in range(N_WORDS))
    audits: dict[str, Audit] = {
        "vocabulary": Vocabulary(
            words=words, filters=("uniform",), per_filter=PER_WORD, vocabulary=tuple(f"new{k}" for k in range(500))
        ),
        "characteristics": Characteristics(n_replicates=1_000),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job = Job(cohort, [ModelEntry("instant", [ModelSpec("instant", "")], [Instant()])], audits)
        stages, busy = Stages(), worked()
        cache = ScoreCache(folder / "scores.sqlite")
        run(job, RunDirectory(folder / "run"), cache, stages)
        cache.close()
        stages.stage("")
        stages.stopped = True
        n = sum(
            int(pl.scan_parquet(file).select(pl.col("variant").max()).collect().item()) + 1
            for file in (folder / "run" / "variants").glob("*.parquet")
        )
        disk = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 2**30
    print(f"  {n:,} variants, {disk:.2f} GB on disk", flush=True)
    return worked() - busy, stages.highest, n


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--one", type=int, help="Measure one size in this process.")
    parser.add_argument("--column-mb", type=float, default=scratch.IN_MEMORY / 2**20)
    asked = parser.parse_args()
    scratch.IN_MEMORY = int(asked.column_mb * 2**20)
    if asked.one:
        print("result", *measure(asked.one))
        return 0
    pace, most = [], 0.0
    for size in asked.sizes:
        print(f"{size:,}:", flush=True)
        command = [sys.executable, __file__, "--one", str(size), "--column-mb", str(asked.column_mb)]
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        *lines, result = said.strip().splitlines()
        seconds, memory, n = (float(value) for value in result.split()[1:])
        print(*lines, sep="\n")
        print(f"  {seconds:.0f} s of processor, {1e6 * seconds / n:.1f} µs per variant, {memory:.2f} GB")
        pace.append(seconds / n)
        most = max(most, memory)
    growth = pace[-1] / pace[0]
    print(f"time per variant grew by {growth:.2f} (at most {MOST_GROWTH}), memory {most:.2f} GB (at most {MOST_GB})")
    return 0 if growth <= MOST_GROWTH and most <= MOST_GB else 1


if __name__ == "__main__":
    sys.exit(main())
