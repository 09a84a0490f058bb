"""Tables that become too large when they are decompressed: refused before they are read."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from palpate.cases import growth
from palpate.cases.growth import check_parquet, check_workbook
from palpate.cases.panics import panics_are_errors
from palpate.data.tables.formats import format_of
from palpate.errors import CohortError
from tests.data.tables.workbooks import write_workbook

TOO_LARGE = "decompressed, the file is more than 200 times as large"


def test_a_workbook_that_becomes_too_large(tmp_path: Path) -> None:
    file = tmp_path / "bomb.xlsx"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as book, book.open("xl/worksheets/sheet1.xml", "w") as sheet:
        for _ in range(70):
            sheet.write(b" " * 2**20)
    assert file.stat().st_size < 2**17
    with pytest.raises(CohortError, match=TOO_LARGE):
        format_of(file).columns(file)


def test_a_workbook_that_lies_about_its_size(tmp_path: Path) -> None:
    file = tmp_path / "bomb.xlsx"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("a.xml", b" " * 70 * 2**20)
    content = file.read_bytes().replace((70 * 2**20).to_bytes(4, "little"), (5).to_bytes(4, "little"))
    file.write_bytes(content)
    with zipfile.ZipFile(file) as book:
        assert [part.file_size for part in book.infolist()] == [5]
    with pytest.raises(CohortError, match=TOO_LARGE):
        check_workbook(file)


def test_a_workbook_and_what_is_none(tmp_path: Path) -> None:
    file = tmp_path / "a.xlsx"
    write_workbook(file, {"Sheet1": [["case_id", "text"], ["1", "fever"]]})
    check_workbook(file)
    for content in (b"", b"PK", file.read_bytes()[:200], b"x" * 100):
        file.write_bytes(content)
        check_workbook(file)


@pytest.mark.parametrize("last", ['<c r="XFD1048576"><v>1</v></c>', '<c s="2" r="ZZ999999" t="n"><v>1</v></c>'])
def test_a_sheet_whose_cells_are_far_apart(last: str, tmp_path: Path) -> None:
    file = tmp_path / "sparse.xlsx"
    write_workbook(file, {"Sheet1": [["case_id", "text"], ["1", "fever"]]})
    with zipfile.ZipFile(file) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    sheet = next(name for name in parts if "worksheets/" in name)
    parts[sheet] = parts[sheet].replace(b"</sheetData>", f'<row r="1048576">{last}</row></sheetData>'.encode())
    with zipfile.ZipFile(file, "w") as book:
        for name, content in parts.items():
            book.writestr(name, content)
    with pytest.raises(CohortError, match=r"a sheet has 1,048,576 rows .* more than 50,000,000 cells"):
        format_of(file).columns(file)


@pytest.mark.parametrize("rows", ["bytes", "nulls"])
def test_a_parquet_file_that_becomes_too_large(rows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "SMALL", 2**20)
    file = tmp_path / "bomb.parquet"
    if rows == "bytes":
        texts = [f"{k}" + "a" * 2**16 for k in range(100)]
        pl.DataFrame({"text": texts}).write_parquet(file, compression="zstd", compression_level=19)
    else:
        pl.DataFrame({"text": pl.Series([None], dtype=pl.String).new_from_index(0, 4_000_000)}).write_parquet(file)
    with pytest.raises(CohortError, match=TOO_LARGE):
        format_of(file).columns(file)


def test_parquet_files_of_many_kinds_are_understood(tmp_path: Path) -> None:
    dice = np.random.default_rng(0)
    frames = [
        pl.DataFrame({"a": [1, 2], "b": ["x", None], "c": [[1], []], "d": [{"e": True}, None]}),
        pl.DataFrame({f"c{k}": dice.normal(size=50) for k in range(300)}),
        pl.DataFrame(),
    ]
    for k, frame in enumerate(frames):
        file = tmp_path / f"{k}.parquet"
        frame.write_parquet(file, row_group_size=20, metadata={"who": "me"})
        about = growth._footer(file)
        assert about[growth._ROWS] == frame.height
        assert len(about[growth._GROUPS]) == -(-frame.height // 20)
        check_parquet(file)


def test_a_footer_that_is_damaged_is_left_to_the_reader(tmp_path: Path) -> None:
    out = io.BytesIO()
    pl.DataFrame({"a": [1, 2]}).write_parquet(out)
    whole, file, dice = out.getvalue(), tmp_path / "a.parquet", np.random.default_rng(0)
    file.write_bytes(b"")
    check_parquet(file)
    for _ in range(300):
        content = bytearray(whole)
        content[int(dice.integers(len(whole)))] = int(dice.integers(256))
        file.write_bytes(bytes(content[int(dice.integers(2)) * 7 :]))
        with suppress(CohortError):
            check_parquet(file)


@pytest.mark.parametrize("kind", [1, 3, 5, 7, 8, 9, 12])
def test_a_footer_that_promises_more_than_it_has(kind: int, tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    footer = bytes([0x29, 0xF0 | kind, *[0xFF] * 7, 0x7F])  # field 2: a list of 2**56 values
    file.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    check_parquet(file)


READ = """
import pathlib, sys
from palpate.data.tables.formats import format_of
file = pathlib.Path(sys.argv[1])
try:
    format_of(file).frame(file, format_of(file).columns(file), {})
except Exception as error:
    sys.exit(f"palpate: {error}")
"""


def test_a_file_for_which_polars_aborts_is_one_sentence() -> None:
    file = Path(__file__).with_name("aborts.parquet")  # one byte was changed
    ran = subprocess.run([sys.executable, "-c", READ, str(file)], capture_output=True, text=True)
    assert ran.returncode in (1, 2)
    assert ran.stderr.startswith(f"palpate: {file}: the file is damaged")
    assert ran.stderr.count("\n") == 1


def test_a_panic_is_an_error_and_shows_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(pl.exceptions.ComputeError, match="damaged"), panics_are_errors(tmp_path):
        _panic()
    assert capfd.readouterr() == ("", "")


def _panic() -> None:
    os.write(2, b"thread panicked at fever")
    raise pl.exceptions.PanicException("left == right")


def test_what_others_print_meanwhile_is_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with panics_are_errors(tmp_path):
        os.write(2, b"a warning")
    assert capfd.readouterr().err == "a warning"
