"""Planning takes twice as long for twice the notes, not four times: through the runner's gathering and `palpate plan`.

Gathering: 20,000 and 40,000 short notes with 30 word swaps each are put into one table, and every altered text gets its
key. `palpate plan`: 1,500 and 3,000 notes at 73 ages are written to inputs.parquet. Prints the seconds and the ratios;
fails where doubling the notes takes more than three times as long, as it does when something that looks at all inputs
is done again for each note or row.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Variants
from palpate.commands.audit import write_inputs
from palpate.results import Plan
from palpate.run.execute.wanted import gather

N_GATHERED, N_SWAPS, N_WORDS = 20_000, 30, 30
N_PLANNED = 1_500
MOST = 3.0
CONFIG = """
cohort: {file: notes.parquet, labels: [ill]}
models: {elsewhere: "predictions:answers.parquet"}
audits: {characteristics: {alter: [age]}}
"""


def swaps(n_notes: int) -> tuple[Cohort, Plan[None]]:
    """Notes of 30 words, and 30 variants of each with one word replaced."""
    rng = np.random.default_rng(0)
    vocabulary = np.asarray([f"word{k:04d}" for k in range(5_000)])
    texts = [" ".join(row) for row in vocabulary[rng.integers(0, len(vocabulary), (n_notes, N_WORDS))]]
    frame = pl.DataFrame({"text": texts, "ill": rng.integers(0, 2, n_notes)})
    cohort, n = Cohort.from_frame(frame, labels=["ill"]), n_notes * N_SWAPS
    start, word = 9 * rng.integers(0, N_WORDS, n), rng.integers(0, 50, n)
    variants = Variants(
        parent=np.repeat(np.arange(n_notes), N_SWAPS),
        first_edit=np.arange(n + 1),
        start=start,
        end=start + 8,
        replacement=word,
        replacements=[f"new{k}" for k in range(50)],
        group=word,
        group_names=tuple(f"new{k}" for k in range(50)),
    )
    return cohort, Plan(cohort, variants, cohort.labels)


def gathered(n_notes: int) -> float:
    """Seconds to gather the plan and to key its texts."""
    cohort, plan = swaps(n_notes)
    began = time.perf_counter()
    assert len(gather(cohort, {"words": plan}).text_keys) == n_notes * N_SWAPS
    return time.perf_counter() - began


def planned(n_notes: int) -> float:
    """Seconds of `palpate plan`."""
    texts = [f"{20 + k % 60} year old woman with asthma, seen in clinic {k}." for k in range(n_notes)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pl.DataFrame({"text": texts, "ill": [k % 2 for k in range(n_notes)]}).write_parquet(folder / "notes.parquet")
        (folder / "audit.yaml").write_text(CONFIG, encoding="utf-8")
        began = time.perf_counter()
        _, n_rows, _ = write_inputs(folder / "audit.yaml", out=folder / "plan")
        seconds = time.perf_counter() - began
    assert n_rows > 70 * n_notes
    return seconds


def ratio(what: str, measure: Callable[[int], float], n: int) -> float:
    """How much longer twice the notes take; the quicker of two runs each, after one that compiles."""
    measure(max(100, n // 20))
    one, two = (min(measure(k * n) for _ in range(2)) for k in (1, 2))
    print(f"{what}: {n:,} notes {one:.2f} s, {2 * n:,} notes {two:.2f} s, ratio {two / one:.1f} (limit {MOST:g})")
    return two / one


def main() -> int:
    ratios = [ratio("gathering", gathered, N_GATHERED), ratio("palpate plan", planned, N_PLANNED)]
    return 0 if max(ratios) < MOST else 1


if __name__ == "__main__":
    sys.exit(main())
