"""The vocabulary audit on a transformer: how much of its time is not the transformer.

One turn of the whole audit (planning, keys, cache, scoring, analysis) against the bare forward passes for the same
distinct texts, cut to the window. Claim: at most 1.10 times as long. Exit code 1 if not, or if anything is scored twice
or outside the window.

Time is processor time, and torch runs on one thread, so other work on the machine matters little.

    python benchmarks/vocabulary_hf.py [--notes 20] [--words 12] [--hidden 384] [--layers 6]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from hf_scoring import BUDGET, Bare, make_notes, write_checkpoint
from palpate import Cohort, RunDirectory
from palpate.audits.vocabulary import Vocabulary
from palpate.models import ModelSpec, load_model
from palpate.perturb.words import choose_words
from palpate.run.execute.cache import ScoreCache
from palpate.run.execute.wanted import gather, want
from palpate.run.runner import Job, LoadedModels, ModelEntry, make_plans, run
from palpate.testing import CountingModel

MOST = 1.10


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for name, default in (("notes", 20), ("words", 12), ("hidden", 384), ("layers", 6)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    notes = make_notes(asked.notes, np.random.default_rng(0))
    frame = pl.DataFrame({"text": notes, "ill": [k % 2 for k in range(len(notes))]})
    cohort = Cohort.from_frame(frame, labels=["ill"])
    words = choose_words(notes, how="frequent", n=asked.words, min_texts=5).words
    audit = Vocabulary(words=words, n_replicates=1000, diagnostic_notes=0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_checkpoint(folder, notes, hidden=asked.hidden, layers=asked.layers)
        spec = ModelSpec("bert", f"hf:{folder}", options={"batch_tokens": BUDGET, "threads": 1})
        model = CountingModel(load_model(spec))
        plans = make_plans({"vocabulary": audit}, cohort, 0, LoadedModels({"model": model}, folder))
        wanted = want(gather(cohort, plans), model)
        texts = wanted.take(np.arange(len(wanted.keys))).texts
        bare = Bare(folder, texts)
        batches = bare.batches_by_length()
        bare.score(batches[:1])
        started = time.process_time()
        bare.score(batches)
        seconds_bare = time.process_time() - started
        started = time.process_time()
        job = Job(cohort, [ModelEntry("bert", [spec], loaded=[model])], {"vocabulary": audit})
        run(job, RunDirectory(folder / "run"), ScoreCache(folder / "scores.sqlite"))
        seconds = time.process_time() - started
    n_swaps = len(plans["vocabulary"].memory.swaps.word)
    ratio = seconds / seconds_bare
    print(f"{n_swaps:,} swaps, {len(texts):,} distinct texts inside the window, {model.rows:,} rows scored")
    print(f"bare forward passes {seconds_bare:.1f} s, whole audit {seconds:.1f} s: {ratio:.3f} (at most {MOST})")
    return 0 if ratio <= MOST and model.rows == len(texts) else 1


if __name__ == "__main__":
    sys.exit(main())
