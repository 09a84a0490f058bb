"""Missing scores through the command line: counted where audits can do without, said where they cannot."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.conftest import notes_frame
from tests.e2e.command_line import CommandLine

CONFIG = """\
cohort: {file: notes.csv, text: text, labels: [ill], case: note, attributes: [sex]}
models:
  vendor: {source: predictions:vendor.csv, missing: report}
audits:
  performance: {n_replicates: 100, threshold: 0.3}
  subgroups: {n_replicates: 100, threshold: 0.3, by: [sex]}
  robustness: {max_notes: 40}
  operating: {thresholds: {vendor: 0.3}, n_replicates: 100}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    frame = notes_frame(400).with_row_index("k")
    frame = frame.with_columns(
        note=pl.format("n{}", "k"), sex=pl.when(pl.col("k") % 3 > 0).then(pl.lit("f")).otherwise(pl.lit("m"))
    )
    frame.drop("k", "case_id", strict=False).write_csv(tmp_path / "notes.csv")
    scores = frame.select("note", ill=((pl.col("k") * 7919) % 97 / 97).cast(pl.String))
    careless = (
        scores.with_columns(
            ill=pl.when(pl.int_range(pl.len()) % 20 == 3)
            .then(pl.lit(""))
            .when(pl.int_range(pl.len()) % 20 == 7)
            .then(pl.lit("NA"))
            .otherwise("ill")
        )
        .gather_every(1)
        .filter(pl.int_range(pl.len()) % 20 != 11)
    )
    careless.write_csv(tmp_path / "vendor.csv")
    (tmp_path / "audit.yaml").write_text(CONFIG)
    return tmp_path


@pytest.fixture
def palpate(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return CommandLine(capsys, monkeypatch)


def test_missing_scores_are_reported(folder: Path, palpate: CommandLine) -> None:
    ran = palpate("audit", folder / "audit.yaml", "--out", folder / "run")
    assert ran.code == 0, ran.err
    rows = pl.read_parquet(folder / "run/results/performance.parquet")
    share = rows.filter(metric="missing_share").filter(pl.col("group") != "validation split")
    assert share["value"].to_list() == pytest.approx([0.15])
    assert pl.read_parquet(folder / "run/results/subgroups.parquet").filter(metric="missing_share").height == 3
    alerts = pl.read_parquet(folder / "run/results/operating.parquet").filter(metric="sensitivity")
    cases = rows.filter(metric="auroc")["n"].to_list()
    assert alerts["n"].unique().to_list() == cases, "the same cases as in performance"
    page = (folder / "run/report.html").read_text()
    assert "operating is about the" in page
    assert "vendor is left out of robustness" in page
    assert "vendor has no score for 15% of the cases" in page


def test_without_the_option_the_error_names_it(folder: Path, palpate: CommandLine) -> None:
    config = folder / "audit.yaml"
    config.write_text(
        config.read_text().replace("{source: predictions:vendor.csv, missing: report}", "predictions:vendor.csv")
    )
    ran = palpate("audit", config, "--out", folder / "run")
    assert ran.code == 2
    assert "the cell is empty" in ran.err
    assert "`missing: report`" in ran.err
