"""Bad sources: one sentence with the file, the row and the column, no word of a note, nothing written."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from palpate.data.cohorts.outcomes import build_outcomes
from palpate.data.cohorts.readmission import ReadmissionOptions, build_readmission
from palpate.errors import CohortError
from tests.data.mimic_files import Stay, Tables, as_iv, hospital, note, with_last, write

STAYS = with_last([Stay(1, 0, 5, 11), Stay(1, 20, 25, 12), Stay(2, 0, 5, 13)])


def tables() -> Tables:
    return hospital(STAYS, codes={11: "4280"})


def refused(folder: Path, build: Callable[[Path], object] = build_readmission) -> str:
    with pytest.raises(CohortError) as caught:
        build(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert "Summary of stay" not in message
    assert "DuckDB" not in message
    return message


def edited(folder: Path, file: str, old: str, new: str) -> str:
    write(folder, tables())
    path = folder / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return refused(folder)


def test_no_folder(tmp_path: Path) -> None:
    assert refused(tmp_path / "no") == f"{tmp_path / 'no'}: folder not found; give the folder with the tables."


@pytest.mark.parametrize("table", ["PATIENTS", "ADMISSIONS", "NOTEEVENTS", "DIAGNOSES_ICD"])
def test_a_missing_table_is_named_with_where_palpate_looked(table: str, tmp_path: Path) -> None:
    write(tmp_path, tables())
    (tmp_path / f"{table}.csv").unlink()
    message = refused(tmp_path, build_outcomes)
    assert f"the table {table} is missing" in message
    endings = (".parquet", ".csv", ".csv.gz", ".tsv", ".tsv.gz")
    assert f"looked for {', '.join(table + ending for ending in endings)} in {tmp_path}" in message


def test_a_missing_table_of_mimic_iv(tmp_path: Path) -> None:
    write(tmp_path, as_iv(tables()))
    (tmp_path / "note" / "discharge.csv").unlink()
    message = refused(tmp_path)
    assert "the table DISCHARGE is missing; palpate looked for" in message
    assert f"in {tmp_path / 'note'} and {tmp_path}" in message


def test_outcomes_of_mimic_iv(tmp_path: Path) -> None:
    assert "needs MIMIC-III, but this folder has the layout" in refused(
        write(tmp_path, as_iv(tables())), build_outcomes
    )


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_a_missing_column(suffix: str, tmp_path: Path) -> None:
    write(tmp_path, tables(), suffix=suffix)
    frame = pl.DataFrame({"SUBJECT_ID": ["1"], "GENDER": ["F"], "BORN": ["2100-01-01"]})
    path = tmp_path / f"PATIENTS{suffix}"
    if suffix == ".parquet":
        frame.write_parquet(path)
    else:
        path.write_bytes(
            gzip.compress(frame.write_csv().encode()) if suffix.endswith("gz") else frame.write_csv().encode()
        )
    assert refused(tmp_path).startswith(f"{path}, column 'DOB': column not found; the columns are ")


@pytest.mark.parametrize("table", ["PATIENTS", "ADMISSIONS", "NOTEEVENTS"])
@pytest.mark.parametrize("cut", [-4, -12, 60])
def test_truncated_gzip(table: str, cut: int, tmp_path: Path) -> None:
    write(tmp_path, tables(), suffix=".csv.gz")
    path = tmp_path / f"{table}.csv.gz"
    path.write_bytes(path.read_bytes()[:cut])
    assert refused(tmp_path) == f"{path}: the gzip file ends too early; copy or export the file again."


def test_damaged_gzip(tmp_path: Path) -> None:
    write(tmp_path, tables(), suffix=".csv.gz")
    path = tmp_path / "NOTEEVENTS.csv.gz"
    content = bytearray(path.read_bytes())
    content[-6] ^= 255  # the checksum, which DuckDB does not look at
    path.write_bytes(content)
    assert "the gzip file is damaged" in refused(tmp_path)


def test_damaged_parquet(tmp_path: Path) -> None:
    write(tmp_path, tables(), suffix=".parquet")
    path = tmp_path / "NOTEEVENTS.parquet"
    path.write_bytes(path.read_bytes()[:-10])
    assert f"{path}: the file is damaged or is not a Parquet file" in refused(tmp_path)


@pytest.mark.parametrize(
    ("file", "old", "new", "row", "column"),
    [
        ("ADMISSIONS.csv", "2150-01-21 12:00:00", "21/01/2150", 2, "ADMITTIME"),
        ("ADMISSIONS.csv", "2150-01-26 12:00:00", "2150-02-30", 2, "DISCHTIME"),
        ("ADMISSIONS.csv", "2150-01-26 12:00:00", "infinity", 2, "DISCHTIME"),
        ("PATIENTS.csv", "2100-06-15 00:00:00", "June", 1, "DOB"),
        ("NOTEEVENTS.csv", "2150-01-26", "last Monday", 2, "CHARTDATE"),
    ],
)
def test_unparsable_dates(file: str, old: str, new: str, row: int, column: str, tmp_path: Path) -> None:
    message = edited(tmp_path, file, old, new)
    assert message.startswith(f"{tmp_path / file}, row {row}, column '{column}': the cell is ")
    assert "which is not a time; write it like 2180-07-23 14:05:00." in message


def test_a_date_in_a_note_that_is_not_needed_does_not_matter(tmp_path: Path) -> None:
    rows = tables()
    rows["NOTEEVENTS"].append(note(50, STAYS[0], CATEGORY="Nursing", CHARTDATE="?", SUBJECT_ID="x"))
    assert len(build_readmission(write(tmp_path, rows)).cohort) == 3


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_an_empty_admission_time(suffix: str, tmp_path: Path) -> None:
    rows = tables()
    rows["ADMISSIONS"][2]["ADMITTIME"] = None
    folder = write(tmp_path, rows, suffix=suffix)
    assert f"ADMISSIONS{suffix}, row 3, column 'ADMITTIME': the cell is empty" in refused(folder)


def test_an_id_that_is_no_number(tmp_path: Path) -> None:
    message = edited(tmp_path, "ADMISSIONS.csv", ",1,12,", ",one,12,")
    assert "ADMISSIONS.csv, row 2, column 'SUBJECT_ID': the cell is 'one', which is not a whole number" in message


def test_duplicate_stay(tmp_path: Path) -> None:
    message = edited(tmp_path, "ADMISSIONS.csv", ",2,13,", ",2,11,")
    assert message.startswith(f"{tmp_path / 'ADMISSIONS.csv'}, row 3, column 'HADM_ID': HADM_ID '11' is also in row 1")


def test_duplicate_patient(tmp_path: Path) -> None:
    message = edited(tmp_path, "PATIENTS.csv", ",2,M,", ",1,M,")
    assert "PATIENTS.csv, row 2, column 'SUBJECT_ID': SUBJECT_ID '1' is also in row 1" in message


def test_notes_of_another_hospital(tmp_path: Path) -> None:
    rows = tables()
    for row in rows["NOTEEVENTS"]:
        row["HADM_ID"] = 10_000 + int(str(row["ROW_ID"]))
    message = refused(write(tmp_path, rows))
    assert (
        "NOTEEVENTS.csv: no discharge summary can be used; most common reason: HADM_ID is not in ADMISSIONS" in message
    )


def test_no_discharge_summaries(tmp_path: Path) -> None:
    rows = tables()
    for row in rows["NOTEEVENTS"]:
        row["CATEGORY"] = "Nursing"
    assert "the table has no discharge summaries" in refused(write(tmp_path, rows))


def test_nothing_left_says_after_what(tmp_path: Path) -> None:
    rows = hospital([Stay(1, 0, 5, 1, died=True), Stay(2, 0, 5, 2, died=True)])
    message = refused(write(tmp_path, rows))
    assert "no cases are left after the step 'discharged alive (deaths: drop)'" in message
    assert "it dropped the last 2 rows: died in hospital" in message


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text[: text.rindex('"')], "row 4: a quote is not closed"),
        (lambda text: text.replace('"Summary', 'x"Summary', 1), "row 1: the row has 12 cells and the header has 11"),
        (lambda text: text.replace("Report,,,", "Report,,,,", 1), "row 1: the row has 12 cells and the header has 11"),
        (lambda text: text.replace(",Report,,,", "", 1), "row 1: the row has 8 cells and the header has 11"),
    ],
)
def test_torn_csv(change: Callable[[str], str], said: str, tmp_path: Path) -> None:
    write(tmp_path, tables())
    path = tmp_path / "NOTEEVENTS.csv"
    path.write_text(change(path.read_text()))
    message = refused(tmp_path)
    assert str(path) in message
    assert said in message


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    write(tmp_path, tables())
    path = tmp_path / "NOTEEVENTS.csv"
    path.write_bytes(path.read_bytes().replace(b"stay 12", b"stay \xff", 1))
    assert f"{path}, row 2, column 'TEXT': the bytes are not UTF-8" in refused(tmp_path)


def test_codes_that_became_numbers(tmp_path: Path) -> None:
    write(tmp_path, tables(), suffix=".parquet")
    pl.DataFrame({"HADM_ID": [11], "ICD9_CODE": [389]}).write_parquet(tmp_path / "DIAGNOSES_ICD.parquet")
    message = refused(tmp_path, build_outcomes)
    assert "DIAGNOSES_ICD.parquet, column 'ICD9_CODE': the codes are numbers, so leading zeros are lost" in message


def test_a_given_split_of_other_patients(tmp_path: Path) -> None:
    file = tmp_path / "splits.csv"
    file.write_text("patient_id,split\n77,train\n")
    folder = write(tmp_path / "tables", tables())
    options = ReadmissionOptions(splits=file)
    assert "none of the cohort's patients" in refused(folder, lambda f: build_readmission(f, options=options))


def test_crlf_and_byte_order_mark(tmp_path: Path) -> None:
    reference = build_readmission(write(tmp_path / "a", tables()))
    folder = write(tmp_path / "b", tables())
    for name in ("PATIENTS", "ADMISSIONS"):
        path = folder / f"{name}.csv"
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert build_readmission(folder).cohort.fingerprint == reference.cohort.fingerprint
