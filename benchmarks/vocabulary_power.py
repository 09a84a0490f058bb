"""Power and false alarms of the vocabulary audit on the synthetic hospital, over many seeds.

For each seed two hospitals: one whose ward name is tied to readmission, one where the tie is switched off. On each,
tf-idf + XGBoost is trained and audited on the 49 rated words. Prints how often the planted word is among the first
three, how often its rank's whole interval is, and how often the report has a concern about it. About 40 seconds per
seed.

    python benchmarks/vocabulary_power.py [--seeds 50] [--patients 2000] [--start 0]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from palpate.commands import build
from palpate.commands.audit import audit
from palpate.train import train

TOP = 3
_CONFIG = """\
cohort: cohort.parquet
models: {xgboost: "palpate:model"}
audits:
  vocabulary: {raters: hospital/clinician_ratings.csv, n_replicates: 1000, diagnostic_notes: 0}
cache: scores.sqlite
"""


def audit_one(seed: int, *, strength: float | None, n_patients: int) -> Mapping[str, Any]:
    """Where the planted word stands in one hospital."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plants = [] if strength is None else [f"spurious_word={strength}"]
        truth = build.make_hospital(
            folder / "hospital", n_patients=n_patients, seed=seed, site="a", images=False, overrides=plants
        )
        build.build_cohort("readmission", folder / "hospital" / "mimic-iii", folder / "cohort.parquet")
        train("tfidf-xgboost", build.read_training_cohort(folder / "cohort.parquet"), folder / "model", {})
        (folder / "audit.yaml").write_text(_CONFIG, encoding="utf-8")
        outcome = audit(folder / "audit.yaml")
    (result,) = outcome.results
    word = truth["spurious_word"]["word"]
    row = result.estimates.filter(pl.col("reference").is_null(), metric="rank", model="xgboost", group=word).row(
        0, named=True
    )
    warned = any(
        finding.question == "spurious" and finding.kind == "concern" and f"'{word}'" in finding.sentence
        for finding in result.findings
    )
    return {"rank": row["value"], "low": row["low"], "high": row["high"], "n": row["n"], "warned": warned}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--patients", type=int, default=2000)
    asked = parser.parse_args()
    found: dict[str, list[Mapping[str, Any]]] = {"planted": [], "switched off": []}
    for seed in range(asked.start, asked.start + asked.seeds):
        for name, strength in (("planted", None), ("switched off", 0.0)):
            row = audit_one(seed, strength=strength, n_patients=asked.patients)
            found[name].append(row)
            print(
                f"seed {seed}, {name}: rank {row['rank']} [{row['low']}, {row['high']}], {row['n']} notes", flush=True
            )
    for name, rows in found.items():
        n = len(rows)
        first = sum(row["rank"] is not None and row["rank"] <= TOP for row in rows)
        surely = sum(row["high"] is not None and row["high"] <= TOP for row in rows)
        warned = sum(row["warned"] for row in rows)
        print(f"{name}: among the first {TOP} in {first} of {n} seeds, surely in {surely}, a concern in {warned}")


if __name__ == "__main__":
    main()
