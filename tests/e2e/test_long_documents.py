"""Long notes and a checkpoint that cuts them into chunks by itself, from its folder to the audits' numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.e2e.command_line import CommandLine
from tests.models.chunked_checkpoints import chunked_checkpoint
from tests.train.coding.long_charts import PHRASES, long_charts

pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def charts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Charts of about 80 words, with all that matters behind the first 60; the encoder has 32 positions."""
    folder = tmp_path_factory.mktemp("long")
    cases, evidence = long_charts(16)
    woman = pl.col("text") + " The patient is a 64 year old woman."
    cases.with_columns(woman, split=pl.lit("test")).write_csv(folder / "charts.csv")
    evidence.write_csv(folder / "evidence.csv")
    chunked_checkpoint(folder / "coder", takes="rows", labels=tuple(PHRASES))
    return folder


def numbers(run: Path, audit: str, metric: str, **which: Any) -> dict[str, list[float]]:
    rows = pl.read_parquet(run / "results" / f"{audit}.parquet").filter(metric=metric, **which)
    return {model: rows.filter(model=model)["value"].drop_nulls().to_list() for model in ("whole", "some", "cut")}


def test_nothing_is_lost_to_a_window_that_is_none(charts: Path, palpate: CommandLine) -> None:
    (charts / "audit.yaml").write_text(
        f"""
cohort: {{file: charts.csv, labels: {json.dumps(list(PHRASES))}}}
models:
  whole: {{source: hf:coder, trust: true, chunk: 16, threads: 1}}
  some: {{source: hf:coder, trust: true, chunk: 16, max_tokens: 700}}
  cut: {{source: hf:coder, trust: true, long: truncate}}
audits:
  evidence: {{gold: evidence.csv, faithfulness: false, explain: gradient_x_input, threshold: 0.1}}
  vocabulary: {{words: [gout, pneumonia], n_replicates: 100}}
  characteristics: {{alter: [gender], n_replicates: 100}}
"""
    )
    ran = palpate("audit", charts / "audit.yaml", "--out", charts / "run")
    assert ran.code == 0, ran.err
    assert numbers(charts / "run", "evidence", "evidence_beyond_window") == {"whole": [0], "some": [0], "cut": [1]}
    for audit, groups in (("vocabulary", ["gout", "pneumonia"]), ("characteristics", ["gender"])):
        for group in groups:
            found = numbers(charts / "run", audit, "outside_window", group=group)
            assert {model: set(values) for model, values in found.items()} == {"whole": {0}, "some": {0}, "cut": {1}}
    report = (charts / "run" / "report.html").read_text(encoding="utf-8")
    assert "cut cannot read 100% of the coders" in report
    assert "whole cannot read" not in report
    assert "some cannot read" not in report
