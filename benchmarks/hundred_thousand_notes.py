"""100,000 notes through the command line: characteristics, vocabulary and performance of a tf-idf model.

Notes of about 150 words, each different, with age, sex and ethnicity, and words that the model has learned. Prints
seconds, processor time of all processes and memory for a tenth of the notes and for all, and what a note costs. Exits
with 1 if all take more than 5 minutes, or if a note costs more than 1.5 times as much as among a tenth.

    python benchmarks/hundred_thousand_notes.py [--notes 100000]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import skops.io
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from million_cases import run

MOST_SECONDS, MOST_GROWTH = 300.0, 1.5
PEOPLE = ("Hispanic man", "African American woman", "Asian man", "white woman")
SICK = ("fever", "sepsis", "dyspnea", "confusion", "hypotension", "vomiting", "oliguria", "jaundice")
CONFIG = """\
cohort: {file: notes.parquet, labels: [ill]}
models: {lr: sklearn:lr.skops}
audits:
  performance: {}
  characteristics: {}
  vocabulary: {filters: [uniform, unigram]}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--notes", type=int, default=100_000)
    asked = parser.parse_args()
    cost = []
    for n in (max(asked.notes // 10, 2_000), asked.notes):  # fewer have too few training notes for words
        with tempfile.TemporaryDirectory() as name:
            write_inputs(Path(name), n)
            seconds, worked, peak = run(Path(name))
        cost.append(worked / n)
        each = f"{1e3 * worked / n:.1f} ms a note"
        print(f"{n:>8,} notes: {seconds:6.1f} s, {worked:6.1f} s of processor, {peak / 1e9:.2f} GB, {each}", flush=True)
    print(f"cost of a note, times that among a tenth: {cost[1] / cost[0]:.2f} (at most {MOST_GROWTH})")
    sys.exit(int(seconds > MOST_SECONDS or cost[1] > MOST_GROWTH * cost[0]))


def write_inputs(folder: Path, n: int) -> None:
    rng = np.random.default_rng(0)
    common = np.asarray([f"finding{k:04d}" for k in range(4_000)])
    ill = rng.random(n) < 0.3
    texts = []
    for k in range(n):
        said = [*rng.choice(common, 130), *rng.choice(SICK, 5 if ill[k] else 2)]
        rng.shuffle(said)
        sentences = [" ".join(said[first : first + 9]).capitalize() + "." for first in range(0, len(said), 9)]
        texts.append(f"{rng.integers(20, 89)} year old {PEOPLE[k % 4]} admitted. " + " ".join(sentences))
    split = np.where(np.arange(n) < n // 20, "validation", np.where(np.arange(n) < n // 10, "train", "test"))
    table = pl.DataFrame({"case_id": [f"c{k}" for k in range(n)], "text": texts, "split": split, "ill": ill})
    table.with_columns(pl.col("ill").cast(pl.UInt8)).write_parquet(folder / "notes.parquet")
    some = slice(0, min(n, 2_000))
    model = make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=300)).fit(texts[some], ill[some])
    skops.io.dump(model, folder / "lr.skops")
    (folder / "audit.yaml").write_text(CONFIG, encoding="utf-8")


if __name__ == "__main__":
    main()
