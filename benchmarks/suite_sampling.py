"""Sampling from a suite: 100,000 cases of the full expansion of `ade`, more than 10^10, against case by case.

Timed from the loaded suite to the last text, draws included; the naive way decodes the same numbers one at a time and
fills the template with `str.replace`. It is timed on some of the cases, between the runs of `sample`, and extrapolated.
Memory is what the batches of a sample hold at most, for samples of 10,000 and of 100,000 cases. Exits with 1 if a text
differs, a case repeats, the same seed gives other cases, the median run takes 2 s or more, or memory grows by more than
the numbers of the cases themselves.

    python benchmarks/suite_sampling.py
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import tracemalloc

import numpy as np

from palpate.perturb.suites import Suite, load_suite

SEED, MOST_SECONDS, BYTES_A_NUMBER = 11265, 2.0, 40


def naive_text(suite: Suite, number: int) -> str:
    """One case from its number, the slow and obvious way."""
    for unit in suite.units:
        if number < unit.size:
            break
        number -= unit.size
    chosen: dict[str, int] = {}
    for factor in reversed(unit.factors):
        number, digit = divmod(number, len(factor))
        chosen.update(zip(factor.slots, factor.rows[digit].tolist(), strict=True))
    flat = unit.variations[number]
    text = flat.written()
    for slot in flat.slots:
        text = text.replace(
            slot.written(), str(suite.lexicons[slot.name].entries[chosen[slot.name]].written(slot.form))
        )
    return text


def peak(suite: Suite, n: int) -> int:
    tracemalloc.start()
    for _ in suite.sample_batches(n, np.random.default_rng(SEED), batch=5_000):
        pass
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return held


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--checked", type=int, default=10_000, help="cases that the naive way writes too")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    suite = load_suite("ade")
    suite.sample(10, np.random.default_rng(0))

    ours, theirs, runs = [], [], []
    for _ in range(chosen.rounds):
        start = time.perf_counter()
        cases = suite.sample(chosen.cases, np.random.default_rng(SEED))
        ours.append(time.perf_counter() - start)
        runs.append(cases.texts)
        start = time.perf_counter()
        naive = [naive_text(suite, number) for number in cases.number[: chosen.checked].tolist()]
        theirs.append((time.perf_counter() - start) * chosen.cases / chosen.checked)
    seconds, naive_seconds = statistics.median(ours), statistics.median(theirs)
    small, large = peak(suite, chosen.cases // 10), peak(suite, chosen.cases)
    same = naive == runs[0][: chosen.checked] and all(run == runs[0] for run in runs)
    distinct = len(np.unique(cases.number)) == len(cases) == chosen.cases
    print(f"{suite.size():,} cases in the full expansion of '{suite.name}'")
    print(f"{chosen.cases:,} of them: {seconds:.3f} s (limit {MOST_SECONDS:g})")
    print(f"one at a time: {naive_seconds:.2f} s, {naive_seconds / seconds:.1f} times as long")
    print(f"in batches, at most {small / 1e6:.1f} MB for {chosen.cases // 10:,}, {large / 1e6:.1f} MB for all")
    print(f"same texts, same for the same seed: {same}; no case twice: {distinct}")
    flat = large - small < BYTES_A_NUMBER * chosen.cases
    return 0 if same and distinct and flat and seconds < MOST_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
