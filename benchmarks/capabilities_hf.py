"""The suite `ade` on a transformer: how much of the scoring time is not the transformer's.

The default run's 11,265 short sentences, through the runner, against the bare forward passes for the same distinct
texts, tokenised beforehand and batched by length. Claim: at most 1.05 times as long. Exit code 1 if not. The whole
audit (planning and analysis too) is printed beside it.

Time is processor time of all threads, and torch has one, so other work on the machine hardly matters.

    python benchmarks/capabilities_hf.py [--sentences 4000] [--hidden 384] [--layers 6]
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
from palpate.audits.capabilities import Capabilities
from palpate.models import ModelSpec, load_model
from palpate.run.execute.cache import ScoreCache
from palpate.run.execute.wanted import gather, want
from palpate.run.runner import Job, ModelEntry, run, stream

MOST = 1.05


class ScoringClock:
    """Processor time from the first input that is scored to the last."""

    def __init__(self) -> None:
        self.started = self.ended = 0.0

    def stage(self, text: str) -> None:
        """Not shown."""

    def note(self, text: str) -> None:
        """Not shown."""

    def begin(self, model: str, total: int) -> None:  # noqa: ARG002
        self.started = self.ended = time.process_time()

    def advance(self, n: int) -> None:  # noqa: ARG002
        self.ended = time.process_time()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for name, default in (("sentences", 4000), ("hidden", 384), ("layers", 6)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    frame = pl.DataFrame({"text": [f"Case {k}." for k in range(40)], "ADE": [k % 2 for k in range(40)]})
    cohort = Cohort.from_frame(frame, labels=["ADE"])
    audit = Capabilities(n=asked.sentences, threshold=0.5, n_replicates=1000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = audit.plan(cohort, stream(0, "capabilities", "plan"))
        write_checkpoint(folder, [*plan.variants.made, *make_notes(20, np.random.default_rng(0))], **_size(asked))
        spec = ModelSpec("bert", f"hf:{folder}", options={"batch_tokens": BUDGET, "threads": 1})
        model = load_model(spec)
        wanted = want(gather(cohort, {"capabilities": plan}), model)
        texts = wanted.take(np.arange(len(wanted.keys))).texts
        bare = Bare(folder, texts)
        batches = bare.batches_by_length()
        bare.score(batches[:1])
        started = time.process_time()
        bare.score(batches)
        seconds_bare = time.process_time() - started
        clock, started = ScoringClock(), time.process_time()
        job = Job(cohort, [ModelEntry("bert", [spec], loaded=[model])], {"capabilities": audit})
        run(job, RunDirectory(folder / "run"), ScoreCache(folder / "scores.sqlite"), clock)
        whole = time.process_time() - started
    scoring = clock.ended - clock.started
    times = f"bare {seconds_bare:.1f} s, scoring {scoring:.1f} s, whole audit {whole:.1f} s"
    print(f"{len(texts):,} distinct texts: {times}")
    print(f"scoring / bare {scoring / seconds_bare:.3f} (at most {MOST}); whole / bare {whole / seconds_bare:.3f}")
    return 0 if scoring / seconds_bare <= MOST else 1


def _size(asked: argparse.Namespace) -> dict[str, int]:
    return {"hidden": asked.hidden, "layers": asked.layers}


if __name__ == "__main__":
    sys.exit(main())
