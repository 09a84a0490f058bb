"""Which way of learning evidence? The table of docs/evidence.md: about half an hour on two cores.

    python benchmarks/evidence_learning.py [--out FOLDER] [--seeds 1,2,3] [--epochs 12]

EffectiveCAN with a small network on a synthetic hospital of 400 patients, trained without evidence and in three ways
with it, three seeds each; then one audit of all of them, as a user would run it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from palpate.commands.build import make_hospital
from palpate.data.cohorts.mdace import MdaceOptions, build_mdace
from palpate.data.tables import write_cohort
from palpate.train import train

SMALL: dict[str, Any] = {
    "embedding": 32,
    "channels": [24, 24],
    "kernel": 5,
    "max_tokens": 500,
    "min_patients": 3,
    "dropout": 0,
    "batch_size": 4,
    "learning_rate": 5e-3,
    "n_replicates": 0,
    "threads": 1,
}
WAYS = ("none", "attention", "linear", "cnn")
SHOWN = ("token_f1", "token_f1_sd", "span_f1", "word_auprc", "comprehensiveness_aopc")


def make_models(home: Path, seeds: list[int], epochs: int) -> tuple[str, ...]:
    """The hospital's charts and evidence, and a folder of models for each way; returns the codes."""
    make_hospital(home / "hospital", n_patients=400, seed=3, site="a", images=False)
    built = build_mdace(home / "hospital", options=MdaceOptions(charts="code-ev"))
    write_cohort(built.cohort, home / "charts.parquet")
    built.tables["evidence"].write_parquet(home / "evidence.parquet")
    for way in WAYS:
        given = {} if way == "none" else {"evidence_table": home / "evidence.parquet"}
        options = {**SMALL, "seeds": seeds, "epochs": epochs, "patience": epochs, "evidence": way, **given}
        train("effective-can", built.cohort, home / way, options)
        print(f"{way}: trained", flush=True)
    return built.cohort.labels


def audit(home: Path, labels: tuple[str, ...], seeds: list[int]) -> pl.DataFrame:
    config = {
        "cohort": {"file": "charts.parquet", "labels": list(labels)},
        "models": {way: [f"palpate:{way}/seed-{seed}" for seed in seeds] for way in WAYS},
        "audits": {
            "evidence": {"gold": "evidence.parquet", "charts": "annotated"},
            "performance": {"n_replicates": 200},
        },
    }
    (home / "audit.yaml").write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "palpate", "audit", str(home / "audit.yaml"), "--out", str(home / "run")]
    subprocess.run(command, check=True)
    return pl.read_parquet(home / "run" / "results" / "evidence.parquet")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--epochs", type=int, default=12)
    given = parser.parse_args()
    seeds = [int(seed) for seed in given.seeds.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        home = given.out or Path(folder)
        home.mkdir(exist_ok=True)
        labels = make_models(home, seeds, given.epochs)
        found = audit(home, labels, seeds)
    with pl.Config(tbl_rows=-1, tbl_cols=-1, fmt_str_lengths=60, tbl_width_chars=200):
        rows = found.filter(pl.col("metric").is_in(SHOWN), pl.col("model").is_in(WAYS))
        rows = rows.filter(pl.col("group").is_in(["all", "mean over fractions"]))
        print(rows.select("model", "metric", "reference", "value", "low", "high"))


if __name__ == "__main__":
    main()
