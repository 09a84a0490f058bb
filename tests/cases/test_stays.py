"""The role `stay`: several predictions of one stay, each with its time."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from palpate.cases.cohort import Cohort
from palpate.data.tables import TableSpec, read_cohort, write_cohort
from palpate.errors import CohortError

TABLE = """\
encounter,who,charted,label:ill
e1,p1,2024-03-01 08:00,0
e1,p1,2024-03-01 12:00,1
e2,p2,2024-03-02 08:00,0
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "hours.csv"
    path.write_text(TABLE)
    return path


def test_a_stay_has_several_times(file: Path) -> None:
    cohort = read_cohort(TableSpec(file=file, patient="who", stay="encounter", time="charted"))
    assert cohort.cases["stay_id"].to_list() == ["e1", "e1", "e2"]
    assert cohort.stays.tolist() == [0, 0, 1]


def test_a_stay_without_a_time_is_one_sentence(file: Path) -> None:
    with pytest.raises(CohortError) as error:
        read_cohort(TableSpec(file=file, patient="who", stay="encounter"))
    assert str(error.value) == (
        f"{file}, column 'encounter': `stay` needs `time`, when each prediction was made; set `time:` of the cohort."
    )


def test_a_column_that_happens_to_be_called_stay_id_needs_no_time(tmp_path: Path) -> None:
    path = tmp_path / "icu.csv"
    path.write_text("stay_id,label:ill\ns1,0\ns1,1\n")
    assert "stay_id" not in read_cohort(TableSpec(file=path)).cases.columns


def test_a_stay_of_two_patients_is_refused(file: Path) -> None:
    file.write_text(TABLE.replace("e2,p2", "e1,p2"))
    with pytest.raises(CohortError, match="row 3, column 'encounter': stay 'e1' is of patient 'p1' in row 1"):
        read_cohort(TableSpec(file=file, patient="who", stay="encounter", time="charted"))


def test_an_empty_stay_is_refused(file: Path) -> None:
    file.write_text(TABLE.replace("e2,", ","))
    with pytest.raises(CohortError, match="row 3, column 'encounter': the cell is empty"):
        read_cohort(TableSpec(file=file, patient="who", stay="encounter", time="charted"))


def test_without_stays_each_case_is_its_own() -> None:
    frame = pl.DataFrame({"case_id": ["a", "b"], "ill": [0, 1]})
    cohort = Cohort.from_frame(frame, labels=["ill"])
    assert not cohort.has_stays
    assert cohort.stays.tolist() == [0, 1]


def test_a_cohort_with_stays_is_written_and_read_unchanged(file: Path, tmp_path: Path) -> None:
    cohort = read_cohort(TableSpec(file=file, patient="who", stay="encounter", time="charted"))
    write_cohort(cohort, tmp_path / "copy.parquet")
    assert read_cohort(TableSpec(file=tmp_path / "copy.parquet")).fingerprint == cohort.fingerprint
