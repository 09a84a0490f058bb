"""The default run of suite `ade` on a tf-idf model: under 10 seconds in all.

    python benchmarks/capabilities_run.py [--cases 20000]

A cohort of sentences drawn from the suite's full expansion, with one label in ten wrong, is split 70/10/20; tf-idf with
logistic regression is trained on it, which is not counted. Then the capabilities audit runs as `palpate audit` would
run it, in a process of its own: imports, the 11,265 sentences, the held-out cases, the analysis with 10,000 resamples,
and the results on disk; once more with the report. For comparison the same sentences are scored one at a time, as the
paper's code does, and nothing else.

Time is processor time of all threads, so other work on the machine hardly matters. It prints the seconds and their
ratio, and fails if the audit takes 10 seconds or more. The first run after an installation also compiles, which is not
counted.
"""

from __future__ import annotations

import argparse
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline

from palpate import Cohort, RunDirectory
from palpate.audits.capabilities import Capabilities
from palpate.models import ModelSpec
from palpate.models.bagofwords import estimator_model
from palpate.models.classes import ClassOptions
from palpate.perturb.suites import load_suite
from palpate.run.execute.cache import ScoreCache
from palpate.run.runner import Job, ModelEntry, run

MOST_SECONDS = 10.0
N_DEFAULT = 11_265


def make_cohort(n: int, rng: np.random.Generator) -> Cohort:
    """Sentences with labels, one in ten of them wrong."""
    cases = load_suite("ade").sample(n, rng, balance="template")
    wrong = rng.random(len(cases)) < 0.1
    split = np.array(["train", "validation", "test"])[np.searchsorted([0.7, 0.8], rng.random(len(cases)))]
    frame = pl.DataFrame(
        {
            "case_id": [str(k) for k in range(len(cases))],
            "text": cases.texts,
            "split": split,
            "ADE": (cases.label.astype(bool) ^ wrong).astype(np.int64),
        }
    )
    return Cohort.from_frame(frame, labels=["ADE"])


def train(cohort: Cohort) -> Pipeline:
    """tf-idf with logistic regression."""
    rows = np.flatnonzero((cohort.cases["split"] == "train").to_numpy())
    texts = [cohort.texts[row] for row in rows.tolist()]
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=1000))
    return pipeline.fit(texts, cohort.y_true(rows)[:, 0])


def audit(folder: Path, *, report: bool) -> None:
    """What is timed, besides the start of Python."""
    with (folder / "trained.pickle").open("rb") as file:  # written by this script a moment ago
        cohort, pipeline = pickle.load(file)
    model = estimator_model(pipeline, ClassOptions(), fingerprint="benchmark", file=Path("benchmark"))
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        cache = ScoreCache(Path(scratch) / "scores.sqlite")
        out = RunDirectory(Path(scratch) / "run")
        job = Job(
            cohort, [ModelEntry("tfidf", [ModelSpec("tfidf", "")], loaded=[model])], {"capabilities": Capabilities()}
        )
        (result,) = run(job, out, cache)
        cache.close()
        if report:
            from palpate.report.html import render

            out.write_report(render(out.read_manifest(), out.read_results()))
    if result.provenance["n_cases"] != N_DEFAULT:
        raise SystemExit(f"the default run has {result.provenance['n_cases']:,} cases, not {N_DEFAULT:,}")


def in_own_process(folder: Path, *options: str) -> float:
    """Processor seconds of an audit, from the start of Python to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, __file__, "--audit", str(folder), *options], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def one_at_a_time(pipeline: Any, rng: np.random.Generator) -> float:
    """The seconds of scoring the default run text by text, and of nothing else; from a tenth of it."""
    texts = load_suite("ade").default_cases(rng).texts[::10]
    began = time.process_time()
    for text in texts:
        pipeline.predict_proba([text])
    return (time.process_time() - began) * 10


def main() -> int:
    """Train, run, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--audit", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--report", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.audit is not None:
        audit(given.audit, report=given.report)
        return 0
    rng = np.random.default_rng(0)
    cohort = make_cohort(given.cases, rng)
    pipeline = train(cohort)
    with tempfile.TemporaryDirectory() as scratch:
        with (Path(scratch) / "trained.pickle").open("wb") as file:
            pickle.dump((cohort, pipeline), file)
        in_own_process(Path(scratch))
        seconds = in_own_process(Path(scratch))
        with_report = in_own_process(Path(scratch), "--report")
    slow = one_at_a_time(pipeline, rng)
    bad = seconds >= MOST_SECONDS
    print(
        f"default run of suite ade, {N_DEFAULT:,} sentences, tf-idf: {seconds:.1f} s from the start of Python to the "
        f"results, {with_report:.1f} s with the report; scoring one at a time alone {slow:.1f} s, "
        f"ratio {slow / seconds:.1f}{'  FAILED' if bad else ''}"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
