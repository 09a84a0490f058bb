"""The readers of tables and of hospitals keep the contract of `palpate.testing`."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from palpate.cases.cohort import Cohort
from palpate.data.cohorts import BuiltCohort, find_kind
from palpate.data.tables import TableSpec, read_cohort
from palpate.synthetic import write_hospital
from palpate.testing.reader_contract import check_reader_contract
from tests.data.tables.workbooks import write_workbook

FRAME = pl.DataFrame(
    {
        "case_id": [f"c{k}" for k in range(8)],
        "patient_id": [f"p{k // 2}" for k in range(8)],
        "split": ["train", "train", "train", "train", "validation", "validation", "test", "test"],
        "text": [f"note {k}, with\na second line" for k in range(8)],
        "label:ill": [0, 1] * 4,
        "attribute:age": [40 + k for k in range(8)],
    }
)


def read(path: Path) -> Cohort:
    return read_cohort(TableSpec(file=path), name="cohort")


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl", "t.parquet", "t.xlsx"])
def test_tables(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith(".xlsx"):
        write_workbook(path, {"s": [FRAME.columns, *(list(row) for row in FRAME.iter_rows())]})
    elif name.endswith(".jsonl"):
        FRAME.write_ndjson(path)
    elif name.endswith(".parquet"):
        FRAME.write_parquet(path)
    else:
        FRAME.write_csv(path, separator="\t" if name.endswith(".tsv") else ";")
    assert len(check_reader_contract(read, path)) == 8


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hospital")
    write_hospital(folder, n_patients=300, seed=5, site="a", images=False)
    return folder


@pytest.mark.parametrize(("kind", "folder"), [("readmission", "mimic-iii"), ("outcomes", "mimic-iii")])
def test_hospitals(hospital: Path, kind: str, folder: str) -> None:
    found = find_kind(kind)

    def build(source: Path) -> BuiltCohort:
        return found.build(source, options=found.options(), name=kind, progress=None)

    assert len(check_reader_contract(build, hospital / folder)) > 0
