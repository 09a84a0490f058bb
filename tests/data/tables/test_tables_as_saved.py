"""Tables as people save them: semicolons, other encodings, Excel, Yes and No, decimal commas, cells that list codes."""

from __future__ import annotations

import csv
import gzip
import io
import sys
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from palpate.cases.cohort import Cohort
from palpate.cases.columns import ColumnCheck, with_points
from palpate.data.tables import TableSpec, read_cohort
from palpate.delimited import FileLayout, csv_rows, find_delimiter, looks_like
from palpate.errors import CohortError, MissingExtra
from tests.data.tables.test_table_errors import check, message
from tests.data.tables.workbooks import write_workbook

NOTES = "id;note;age;ill\n1;Fieber, Müdigkeit;63,5;0\n2;keine Beschwerden;8;1\n"


def read(path: Path, content: bytes | None = None, **roles: object) -> Cohort:
    if content is not None:
        path.write_bytes(content)
    return read_cohort(TableSpec(file=path.name, **roles), name="c", folder=path.parent)


# --- delimiters ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.tsv"])
def test_the_delimiter_is_found(tmp_path: Path, mark: str, name: str) -> None:
    file = io.StringIO(newline="")
    rows = [["case_id", "text", "label:y"], ["1", "a, b; c | d\te", "0"], ["2", 'line\nother; "quoted", end', "1"]]
    csv.writer(file, delimiter=mark).writerows(rows)
    content = file.getvalue().encode()
    cohort = read(tmp_path / name, gzip.compress(content) if name.endswith(".gz") else content)
    assert cohort.texts == [row[1] for row in rows[1:]]
    assert cohort.y.toarray().ravel().tolist() == [0, 1]


@given(
    mark=st.sampled_from(",;\t|"),
    rows=st.lists(st.lists(st.text("ab,;|\t\n\" '", max_size=6), min_size=3, max_size=3), max_size=25),
)
def test_a_file_that_was_written_with_a_delimiter_is_read_with_it_or_refused(
    mark: str, rows: list[list[str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    assume(all(any(cell for cell in row) for row in rows))
    path = tmp_path_factory.mktemp("t") / "t.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=mark).writerows([["one", "two", "three"], *rows])
    assert [*csv_rows(path)] == [["one", "two", "three"], *rows]


def test_two_possible_delimiters_are_told(tmp_path: Path) -> None:
    content = b"id;age, years;label:y\n1;63,5;0\n2;8,25;1\n"
    path = tmp_path / "t.csv"
    told = message(path, content)
    check(told, 't.csv: the cells may be separated by commas or by semicolons; write `delimiter: ","` or')
    cohort = read(path, delimiter=";", case="id", attributes=["age, years"])
    assert cohort.cases["age, years"].to_list() == [63.5, 8.25]


def test_excel_says_which_delimiter(tmp_path: Path) -> None:
    cohort = read(tmp_path / "t.csv", b"\xef\xbb\xbfsep=;\r\ncase_id;text;label:y\r\n7;a,b;1\r\n")
    assert cohort.texts == ["a,b"]
    assert cohort.cases["case_id"].to_list() == ["7"]


def test_a_short_row_is_named_in_a_semicolon_file_too(tmp_path: Path) -> None:
    check(
        message(tmp_path / "t.csv", b"id;note;label:y\n1;a;0\n2;b\n"), "row 2: the row has 2 cells and the header has 3"
    )


def test_a_wrong_delimiter_is_refused() -> None:
    with pytest.raises(ValueError, match="must be one character"):
        TableSpec(file=Path("a.csv"), delimiter=";;")
    assert TableSpec(file=Path("a.csv"), delimiter="\\t").delimiter == "\t"


def test_a_long_head_is_cut_at_a_row(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id;text\n1;" + "a, b " * 400_000 + "\n2;short, really\n", encoding="utf-8")
    assert find_delimiter(path) == ";"


# --- encodings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoding", "content", "told"),
    [
        ("latin-1", NOTES, "row 1, column 'note': the bytes are not UTF-8 but look like Latin-1, in which FC is 'ü'"),
        ("windows-1252", NOTES.replace("keine", "„keine“ – gar"), "look like Windows-1252"),
        ("utf-16", NOTES, "the bytes are not UTF-8 but look like UTF-16"),
        ("utf-16-le", NOTES, "look like UTF-16"),
        ("utf-16-be", NOTES, "look like UTF-16"),
    ],
)
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_an_encoding_is_named_and_then_accepted(
    tmp_path: Path, name: str, encoding: str, content: str, told: str
) -> None:
    written = content.encode(encoding)
    roles = {"case": "id", "text": "note", "labels": ["ill"], "attributes": ["age"]}
    sentence = message(tmp_path / name, gzip.compress(written) if name.endswith("gz") else written, **roles)
    check(sentence, told, f"save the file as UTF-8, or write `encoding: {encoding}`")
    cohort = read(tmp_path / name, encoding=encoding, **roles)
    assert cohort.texts[0] == "Fieber, Müdigkeit"
    assert cohort.cases["age"].to_list() == [63.5, 8]


def test_an_encoding_in_json(tmp_path: Path) -> None:
    line = '{"text": "Müller", "label:y": 1}\n'.encode("latin-1")
    check(message(tmp_path / "a.jsonl", line), "row 1", "look like Latin-1, in which FC is 'ü'", "`encoding: latin-1`")
    assert read(tmp_path / "a.jsonl", encoding="latin-1").texts == ["Müller"]


def test_utf_8_is_not_read_as_latin_1(tmp_path: Path) -> None:
    check(
        message(tmp_path / "t.csv", "text,label:y\nMüller,1\n".encode(), encoding="latin-1"),
        "the file is UTF-8, not latin-1; remove `encoding:`",
    )
    assert read(tmp_path / "t.csv", b"text,label:y\nplain,1\n", encoding="latin-1").texts == ["plain"]


def test_a_named_encoding_that_does_not_fit(tmp_path: Path) -> None:
    check(message(tmp_path / "t.csv", b"text,label:y\nabc,1\n", encoding="utf-16"), "the bytes are not UTF-16")
    check(message(tmp_path / "u.csv", b"text,label:y\n\xe9,1\n", encoding="utf-8"), "the bytes are not UTF-8")
    with pytest.raises(ValueError, match="'latin-one' is not an encoding"):
        TableSpec(file=Path("a.csv"), encoding="latin-one")


def test_what_is_not_clear_is_not_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("text,label:y\nMüller,1\n".encode("cp850"))
    assert looks_like(path) is None
    check(message(path), "the bytes are not UTF-8; save the file as UTF-8, or name the encoding with `encoding:`")
    path.write_bytes(b"text,label:y\nM\xc3\xbcller and M\xfcller,1\n")
    assert looks_like(path) == "utf-8"
    assert message(path).endswith("the bytes are not UTF-8; save the file as UTF-8.")


# --- Excel --------------------------------------------------------------------------------------------------

SHEET = [
    ["id", "note", "seen", "ill", "age", None, "smokes"],
    ["007", "fever, chills", datetime(2020, 1, 2, 3, 4, 5), 1, 63.5, None, True],
    [8, "well", datetime(2020, 2, 1), 0, 4.0, None, False],
    [None] * 7,
]
ROLES = {"case": "id", "text": "note", "time": "seen", "labels": ["ill"], "attributes": ["age", "smokes"]}


def test_a_workbook(tmp_path: Path) -> None:
    write_workbook(tmp_path / "t.xlsx", {"cover": [["about"], ["x"]], "notes": SHEET})
    cohort = read(tmp_path / "t.xlsx", sheet="notes", **ROLES)
    assert cohort.cases["case_id"].to_list() == ["007", "8"]
    assert cohort.cases["time"].to_list() == [datetime(2020, 1, 2, 3, 4, 5), datetime(2020, 2, 1)]
    assert cohort.cases["age"].to_list() == [63.5, 4]
    assert cohort.y.toarray().ravel().tolist() == [1, 0]
    assert read(tmp_path / "t.xlsx", sheet=2, **ROLES).fingerprint == cohort.fingerprint


def test_wrong_workbooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_workbook(tmp_path / "t.xlsx", {"notes": SHEET, "empty": [], "twice": [["a", "a"], ["1", "2"]]})
    check(message(path, sheet="nots", **ROLES), "there is no sheet 'nots'; the sheets are: notes, empty, twice")
    check(message(path, sheet=4, **ROLES), "there is no sheet '4'")
    check(message(path, sheet="empty", **ROLES), "the sheet is empty")
    check(message(path, sheet="twice", **ROLES), "column 'a': the header has this column twice")
    check(message(path, **{**ROLES, "text": "nota"}), "column 'nota': column not found; the columns are 'note'")
    check(message(path, encoding="latin-1", **ROLES), "`encoding` does not apply to a .xlsx file")
    check(message(tmp_path / "no.xlsx", b"nothing", **ROLES), "not an Excel workbook")
    check(message(tmp_path / "t.csv", b"a,label:y\n1,0\n", sheet=1), "`sheet` does not apply to a .csv file")
    check(message(tmp_path / "t.xls", b"x"), "this type of file can't be read; save it as .xlsx or .csv")
    monkeypatch.setitem(sys.modules, "fastexcel", None)
    with pytest.raises(MissingExtra, match=r"reading t.xlsx needs .* pip install 'palpate\[excel\]'"):
        read(path, **ROLES)


# --- labels -------------------------------------------------------------------------------------------------


def labels(tmp_path: Path, cells: list[str], **roles: object) -> list[int]:
    content = "id,y\n" + "".join(f"{k},{cell}\n" for k, cell in enumerate(cells))
    return read(tmp_path / "t.csv", content.encode(), labels=["y"], **roles).y.toarray().ravel().tolist()


@pytest.mark.parametrize(
    ("cells", "positive"),
    [
        (["Yes", "No", "yes "], "yes"),
        (["Yes", "No", "yes"], True),
        (["Y", "N", "yes"], True),
        (["true", "FALSE", "True"], True),
        (["ja", "nein", "Ja"], "Ja"),
        (["oui", "non", "oui"], "oui"),
        (["1", "2", "1"], 1),
        (["dead", "alive", "dead"], {"y": "dead"}),
        (["no", "yes", "No"], False),
        (["1", "0", "1"], "yes"),
        (["0", "1", "0"], 0),
        (["<30", ">30", "<30", "NO"], ["<30"]),
        (["<30", "NO", ">30"], {"y": ["<30", ">30"]}),
        (["3", "1", "2"], [2, 3]),
    ],
)
def test_words_as_labels(tmp_path: Path, cells: list[str], positive: object) -> None:
    assert labels(tmp_path, cells, positive=positive) == [1, 0, 1, 0][: len(cells)]


@pytest.mark.parametrize(
    ("cells", "hint"),
    [
        (["No", "Yes"], "row 1, column 'y': the cell is 'No', not 0 or 1; say which value means 1: `positive: Yes`."),
        (["nein", "ja"], "say which value means 1: `positive: ja`."),
        (["alive", "dead"], "say which value means 1: `positive: alive` or `positive: dead`."),
        (["2", "1"], "say which value means 1: `positive: 1`."),
        (["J18.9;I50.9", "I50.9", "E11"], 'write `label_list: {column: y, delimiter: ";"}`.'),
        (["J18.9", "I50.9|E11", "E11"], 'write `label_list: {column: y, delimiter: "|"}`.'),
        (["0", "maybe"], "write 0 or 1, or drop the row."),
        (["yes", "no", "unknown"], "write 0 or 1, or drop the row."),
    ],
)
def test_the_message_says_what_to_write(tmp_path: Path, cells: list[str], hint: str) -> None:
    with pytest.raises(CohortError) as caught:
        labels(tmp_path, cells)
    assert str(caught.value).endswith(hint)


@pytest.mark.parametrize(
    ("cells", "positive", "told"),
    [
        (["Yes", "No", "unknown"], "yes", "row 3, column 'y': the cell is 'unknown', neither 'yes' nor 'No'"),
        (["<30", "NO", ">30"], "<30", 'or write `positive: ["<30"]` if every other value means 0'),
        (
            ["<30", "NO", ">30"],
            ["<30", "<31"],
            "no cell is '<31', which `positive` lists; there are '<30', 'no', '>30'",
        ),
        (["Y", "N"], "ja", "no cell is 'ja', which `positive` names; there are 'y', 'n'"),
        (["yes", ""], "yes", "row 2, column 'y': the label is empty"),
        (["yes", "no"], {"z": "yes"}, "`positive` names 'z', which is not a label; the labels are: y"),
    ],
)
def test_wrong_words_as_labels(tmp_path: Path, cells: list[str], positive: object, told: str) -> None:
    with pytest.raises(CohortError) as caught:
        labels(tmp_path, cells, positive=positive)
    assert told in str(caught.value)


def test_a_note_named_as_label_is_never_quoted_in_a_hint(tmp_path: Path) -> None:
    rows = b"text,label:y\nMrs Smith; has HIV,0\nMrs Smith is well,1\n"
    assert "Smith" not in message(tmp_path / "t.csv", rows, delimiter=",", labels=["text"])


# --- decimal commas -----------------------------------------------------------------------------------------


def points(cells: list[str | None], decimal: str | None = None) -> list[str | None]:
    return with_points(ColumnCheck(pl.Series("x", cells, dtype=pl.String)), decimal=decimal).to_list()


@pytest.mark.parametrize(
    ("cells", "read"),
    [
        (["63,5", "8", "", None], ["63.5", "8", "", None]),
        (["0,123", "0,456"], ["0.123", "0.456"]),
        (["1,234", "12,5"], ["1.234", "12.5"]),
        (["1.5", "2,5"], ["1.5", "2,5"]),
        (["a,5", "2,5"], ["a,5", "2,5"]),
        (["3", "4"], ["3", "4"]),
    ],
)
def test_decimal_commas(cells: list[str | None], read: list[str | None]) -> None:
    assert points(cells) == read
    assert points(cells, ".") == cells


def test_thousands_are_not_guessed() -> None:
    with pytest.raises(CohortError, match=r"row 1, column 'x': the cell is '1,234'.*write `decimal: \",\"`"):
        points(["1,234", "22,000"])
    assert points(["1,234", "22,000"], ",") == ["1.234", "22.000"]


@given(st.lists(st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: round(x, 2)), min_size=1))
def test_decimal_commas_are_the_same_numbers(tmp_path_factory: pytest.TempPathFactory, values: list[float]) -> None:
    folder = tmp_path_factory.mktemp("d")
    rows = "".join(f"{value:.2f};{k % 2}\n" for k, value in enumerate(values))
    dots = read(folder / "a.csv", f"x;label:y\n{rows}".encode(), attributes=["x"])
    commas = read(folder / "b.csv", f"x;label:y\n{rows}".replace(".", ",").encode(), attributes=["x"])
    np.testing.assert_array_equal(dots.cases["x"].to_numpy(), commas.cases["x"].to_numpy())
    assert commas.facts[-1] == "decimal commas are read as such in column 'x'"


def test_layout_has_no_options_where_there_are_none(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("word,n\nMüller,1\n".encode("latin-1"))
    with pytest.raises(CohortError, match=r"save the file as UTF-8\.$"):
        [*csv_rows(path, FileLayout())]
