"""Planning, deduplicating and looking up a million variants of long notes: under 20 s and 1 GB, all in all.

2,000 notes of about 1,500 words, 500 word swaps each. Prints the seconds of each step, the peak memory, and the ratio
to the naive way (one edited string a variant held in a set, hashed as a whole), which is measured on 20,000 variants.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Variants, splice
from palpate.results import Plan
from palpate.run.execute.cache import ScoreCache
from palpate.run.execute.wanted import gather, want
from palpate.testing import KeywordModel

N_NOTES, N_SWAPS, N_WORDS = 2_000, 500, 1_500


def notes(rng: np.random.Generator) -> Cohort:
    vocabulary = np.asarray([f"word{k:04d}" for k in range(5_000)])
    texts = [" ".join(rng.choice(vocabulary, N_WORDS)) for _ in range(N_NOTES)]
    frame = pl.DataFrame({"text": texts, "ill": rng.integers(0, 2, N_NOTES)})
    return Cohort.from_frame(frame, labels=["ill"])


def swaps(cohort: Cohort, rng: np.random.Generator) -> Plan[None]:
    """One word of each note replaced, 500 times; a tenth of the variants come twice."""
    n = N_NOTES * N_SWAPS
    parent = np.repeat(np.arange(N_NOTES), N_SWAPS)
    start = 9 * rng.integers(0, N_WORDS, n)
    twice = rng.random(n) < 0.1
    start[1:] = np.where(twice[1:], start[:-1], start[1:])
    replacement = rng.integers(0, 50, n)
    replacement[1:] = np.where(twice[1:], replacement[:-1], replacement[1:])
    variants = Variants(
        parent=parent,
        first_edit=np.arange(n + 1),
        start=start,
        end=start + 8,
        replacement=replacement,
        replacements=[f"new{k}" for k in range(50)],
        group=replacement,
        group_names=tuple(f"new{k}" for k in range(50)),
    )
    return Plan(cohort, variants, cohort.labels)


def naive(plan: Plan[None], n: int) -> float:
    began = time.perf_counter()
    texts = [splice(plan.cohort.texts[int(plan.variants.parent[k])], plan.variants.edits(k)) for k in range(n)]
    seen: dict[str, float] = {}
    for text in texts:
        seen.setdefault(text, 0.0)
    return time.perf_counter() - began


def main() -> int:
    rng = np.random.default_rng(0)
    cohort, model = notes(rng), KeywordModel({"word0001": 1.0})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    plan = swaps(cohort, rng)
    asked = gather(cohort, {"words": plan})
    planned = time.perf_counter()
    wanted = want(asked, model)
    deduplicated = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        cache = ScoreCache(Path(folder) / "scores.sqlite")
        half = wanted.keys[::2]
        filling = time.perf_counter()
        cache.put(model.fingerprint, half, np.full((len(half), 1), 0.5))
        filled = time.perf_counter() - filling
        looking = time.perf_counter()
        found, _ = cache.get(model.fingerprint, wanted.keys, 1)
        looked_up = time.perf_counter() - looking
        cache.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    total = deduplicated - began + looked_up
    small = naive(plan, 20_000) * len(plan.variants) / 20_000
    print(f"variants {len(plan.variants):,}, distinct {len(wanted.keys):,}, found {found.sum():,}")
    print(f"planning {planned - began:.1f} s, deduplicating {deduplicated - planned:.1f} s, lookup {looked_up:.1f} s")
    print(f"(filling the cache with half of them {filled:.1f} s, not counted)")
    print(f"total {total:.1f} s (limit 20), peak memory {peak:.2f} GB (limit 1; {before / 2**20:.2f} before)")
    print(f"naive, strings in a dict: about {small:.1f} s and {N_NOTES * N_SWAPS * N_WORDS * 9 / 1e9:.1f} GB of text")
    right = found.sum() == len(half) and len(wanted.keys) < len(plan.variants)
    return 0 if total < 20 and peak < 1 and right else 1


if __name__ == "__main__":
    sys.exit(main())
