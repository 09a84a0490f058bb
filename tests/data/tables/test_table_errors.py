"""Each thing that can be wrong with a file, as one sentence with file, row, column and what to do."""

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from palpate.data.tables import LabelList, TableSpec, read_cohort
from palpate.errors import CohortError

HEADER = b"case_id,patient_id,split,text,label:y\n"
NOTE = "Mrs Smith has HIV and is stable"


def message(path: Path, content: bytes | None = None, **roles: object) -> str:
    """The sentence that comes of reading a file."""
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CohortError) as caught:
        read_cohort(TableSpec(file=path.name, **roles), name="c", folder=path.parent)
    sentence = str(caught.value)
    assert sentence.startswith(f"{path}"), sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert ": " in sentence
    assert "; " in sentence, "no hint"
    assert "Smith" not in sentence, "note text in a message"
    chained = caught.value.__cause__
    assert chained is None or "Smith" not in str(chained)
    return sentence


def check(sentence: str, *parts: str) -> None:
    for part in parts:
        assert part in sentence, sentence


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table.csv"


def test_no_such_file(table):
    assert message(table) == f"{table}: file not found; check the path."


def test_a_directory_is_no_file(table):
    table.mkdir()
    check(message(table), "file not found")


@pytest.mark.parametrize("name", ["table.txt", "table", "table.csv.bz2", "csv"])
def test_unknown_suffix(tmp_path, name):
    check(
        message(tmp_path / name, b"x"),
        "can't be read",
        ".csv, .csv.gz, .tsv, .tsv.gz, .jsonl, .jsonl.gz, .parquet, .xlsx",
    )


def test_missing_column_lists_the_closest_first(table):
    sentence = message(table, HEADER + b"1,1,test,a,0\n", text="txet")
    check(sentence, "column 'txet': column not found; the columns are 'text', 'case_id', 'patient_id'")


def test_missing_column_of_many_is_short(table):
    header = ",".join(f"column{k}" for k in range(3000)).encode()
    check(message(table, header + b"\n", labels=("COLUMN7",)), "'column7'", "and 2990 more")


@pytest.mark.parametrize(
    "roles",
    [
        {"case": "no"},
        {"patient": "no"},
        {"split": "no"},
        {"time": "no"},
        {"image": "no"},
        {"prior": "no"},
        {"labels": ("no",)},
        {"labels": {"y": "no"}},
        {"attributes": ("no",)},
        {"label_list": LabelList(column="no")},
    ],
)
def test_every_role_must_be_there(table, roles):
    check(message(table, HEADER + b"1,1,test,a,0\n", **roles), "column 'no': column not found")


def test_duplicate_case_names_both_rows(table):
    sentence = message(table, HEADER + b"7,1,test,a,0\n8,1,test,a,0\n7,2,test,a,0\n")
    check(sentence, "row 3, column 'case_id': the case id '7' is also in row 1; give each case its own id.")


def test_the_users_own_column_name_is_used(table):
    sentence = message(table, b"visit,label:y\n1,0\n1,0\n", case="visit")
    check(sentence, "row 2, column 'visit'")


@pytest.mark.parametrize("value", ["2", "-1", "yes", "0.5", "nan", "1e0", "²"])
def test_label_that_is_not_0_or_1(table, value):
    content = (HEADER.decode() + f"1,1,test,a,0\n2,2,test,b,{value}\n").encode()
    check(message(table, content), f"row 2, column 'label:y': the cell is '{value}', not 0 or 1; write 0 or 1")


def test_empty_label(table):
    check(message(table, HEADER + b"1,1,test,a,\n"), "row 1, column 'label:y': the label is empty; write 0 or 1")


def test_a_note_named_as_label_is_not_quoted(table):
    sentence = message(table, HEADER + f"1,1,test,{NOTE},0\n".encode(), labels=("text",))
    check(sentence, "row 1, column 'text'", f"a text of {len(NOTE)} characters, not 0 or 1")


@pytest.mark.parametrize("role", ["case", "time", "split"])
def test_a_note_in_any_role_is_not_quoted(table, role):
    rows = f"1,1,test,{NOTE},0\n2,2,train,{NOTE},0\n".encode()
    check(message(table, HEADER + rows, **{role: "text"}), "column 'text'", "a text of")


@pytest.mark.parametrize("values", [[0.0, None], [0.0, float("nan")], [0, 2], [0.0, 0.5]])
def test_typed_labels(tmp_path, values):
    path = tmp_path / "table.parquet"
    pl.DataFrame({"label:y": values}).write_parquet(path)
    check(message(path), "row 2, column 'label:y'", "write 0 or 1")


def test_labels_of_one_and_two_name_the_option(tmp_path):
    path = tmp_path / "table.parquet"
    pl.DataFrame({"label:y": [1, 2, 1]}).write_parquet(path)
    check(message(path), "row 2, column 'label:y'", "`positive: 2`")


def test_a_column_of_codes_with_an_empty_cell_names_the_list(table):
    check(message(table, b"case_id,codes\n1,I10;E11.9\n2,\n", labels="codes"), "row 2", "label_list")


def test_infinite_attribute(tmp_path, table):
    check(message(table, b"age,label:y\n70,0\n-inf,1\n", attributes="age"), "row 2, column 'age'", "infinite")
    path = tmp_path / "table.parquet"
    pl.DataFrame({"age": [70.0, float("inf")], "label:y": [0, 1]}).write_parquet(path)
    check(message(path, attributes=("age",)), "row 2, column 'age'", "leave the cell empty")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b""),
        ("a.csv", b"\n\n"),
        ("a.csv", b"\xef\xbb\xbf"),
        ("a.csv.gz", gzip.compress(b"", mtime=0)),  # the bytes are in the test's name: no clock in them
        ("a.jsonl", b""),
        ("a.jsonl", b"\n \n"),
    ],
)
def test_empty_file(tmp_path, name, content):
    check(message(tmp_path / name, content), "the file is empty")


def test_no_rows(tmp_path, table):
    check(message(table, HEADER), "the table has no rows; give one row per case")
    pl.DataFrame({"label:y": []}, schema={"label:y": pl.Int64}).write_parquet(tmp_path / "a.parquet")
    check(message(tmp_path / "a.parquet"), "the table has no rows")


def test_no_columns(tmp_path):
    pl.DataFrame().write_parquet(tmp_path / "a.parquet")
    check(message(tmp_path / "a.parquet"), "the table has no columns")
    check(message(tmp_path / "a.jsonl", b"{}\n{}\n"), "the table has no columns")


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_bad_byte_behind_notes_over_many_lines(tmp_path, pack):
    path = tmp_path / ("t.csv.gz" if pack is gzip.compress else "t.csv")
    good = b'%d,%d,test,"line one\n\nsays ""hi"", \xc3\xa9\r\nend",0\n'
    rows = b"".join(good % (k, k) for k in range(2999))
    bad = b'x,x,test,"fine\nnot \xe9 fine",0\n'
    check(
        message(path, pack(HEADER + rows + bad)),
        "row 3000, column 'text': the bytes are not UTF-8; save the file as",
    )


def test_bad_byte_in_a_column_without_role(table):
    check(message(table, b"remark,label:y\nok,0\n\xff,1\n"), "row 2, column 'remark': the bytes are not UTF-8")


def test_bad_byte_in_the_header(table):
    check(message(table, b"caf\xe9,label:y\nok,0\n"), "the bytes are not UTF-8 in the header")


def test_bad_byte_in_json(tmp_path):
    rows = b'{"text": "a", "label:y": 0}\n\n' * 2000 + b'{"text": "\xe9", "label:y": 0}\n'
    check(message(tmp_path / "a.jsonl", rows), "row 2001, column 'text': the bytes are not UTF-8")
    check(message(tmp_path / "b.jsonl", b'{"text": "\xe9\n'), "row 1: the bytes are not UTF-8")


def test_half_a_surrogate_pair_in_json(tmp_path):
    rows = b'{"text": "a", "label:y": 0}\n{"text": "\\ud83d", "label:y": 0}\n'
    check(message(tmp_path / "a.jsonl", rows), "row 2, column 'text': the cell contains an unpaired surrogate")
    far = b'{"text": "a", "label:y": 0}\n' * 4500 + rows.splitlines()[1]
    check(message(tmp_path / "b.jsonl", far), "row 4501, column 'text': the cell contains an unpaired surrogate")


def test_bytes_in_parquet_that_are_no_text(tmp_path):
    path = tmp_path / "a.parquet"
    pl.DataFrame({"text": [b"ok", b"\xe9"], "label:y": [0, 1]}).write_parquet(path)
    check(message(path), "row 2, column 'text': the bytes are not UTF-8")


@pytest.mark.parametrize("value", ["fold3", "development"])
def test_unknown_split(table, value):
    sentence = message(table, HEADER + f"1,1,{value},a,0\n".encode())
    check(
        sentence,
        f"row 1, column 'split': the cell is '{value}', which is not a split; write train, validation or test",
    )


def test_empty_split(table):
    check(message(table, HEADER + b"1,1,,a,0\n"), "row 1, column 'split': the cell is empty")


@pytest.mark.parametrize("column", ["case_id", "patient_id"])
def test_empty_id(table, column):
    row = {"case_id": b"1,,test,a,0\n", "patient_id": b"1,,test,a,0\n"}[column]
    row = b" ,1,test,a,0\n" if column == "case_id" else row
    check(
        message(table, HEADER + row),
        f"row 1, column '{column}': the cell is empty; fill the cell or drop the row",
    )


def test_empty_and_blank_text(table):
    check(message(table, HEADER + b"1,1,test,,0\n"), "row 1, column 'text': the cell is empty", "drop the row")
    sentence = message(table, HEADER + b'1,1,test,a,0\n2,2,test," \n\t",0\n')
    check(sentence, "row 2, column 'text': the cell is blank", "drop the row")


@pytest.mark.parametrize("value", ["03/04/2020", "2020-02-30", "yesterday", "2020", "1589000000"])
def test_unparsable_time(table, value):
    sentence = message(table, f"at,label:y\n2020-01-01,0\n{value},1\n".encode(), time="at")
    check(sentence, f"row 2, column 'at': the cell is '{value}', which is not a time; write it like 2180-07-23")


def test_damaged_gzip(tmp_path):
    whole = gzip.compress(HEADER + b"1,1,test,a,0\n" * 50)
    check(
        message(tmp_path / "a.csv.gz", whole[:-9]),
        "the gzip file ends too early; copy or export the file again",
    )
    check(message(tmp_path / "b.csv.gz", HEADER), "the gzip file is damaged")
    no_deflate = whole[:10] + b"\xff" + whole[11:]  # a block of a type that does not exist
    check(message(tmp_path / "c.csv.gz", no_deflate), "the gzip file is damaged")
    wrong_sum = whole[:-8] + bytes([whole[-8] ^ 0xFF]) + whole[-7:]
    check(message(tmp_path / "e.csv.gz", wrong_sum), "the gzip file is damaged")
    lines = gzip.compress(b'{"label:y": 0}\n' * 50)
    check(message(tmp_path / "d.jsonl.gz", lines[:-9]), "the gzip file ends too early")


@pytest.mark.parametrize(("row", "n"), [(b"2,2,test,b\n", 4), (b"2,2,test,b,c,0\n", 6)])
def test_ragged_row(table, row, n):
    sentence = message(table, HEADER + b'1,1,test,"a\na",0\n' + row)
    check(
        sentence,
        f"row 2: the row has {n} cells and the header has 5; quote cells that contain the delimiter or a line break",
    )


def test_a_bare_carriage_return_is_refused_and_not_guessed_at(table):
    # What csv.writer before Python 3.13 leaves without quotes: a line end for some readers and text for others.
    sentence = message(table, HEADER + b"1,1,test,a,0\n2,2,test,b\rc,0\n")
    check(sentence, "row 2: the row has 4 cells and the header has 5", "a line break")


@pytest.mark.parametrize("row", [b'2,2,test,"b" c,0\n', b'2,2,test,"never closed,0\n'])
def test_stray_quote(table, row):
    check(
        message(table, HEADER + b"1,1,test,a,0\n" + row),
        "row 2: a quote is not closed or not doubled; double",
    )


@pytest.mark.parametrize("line", ["{bad", '{"text": "Smith', "[" * 100_000, "9" * 5000 + "x"])
def test_malformed_json(tmp_path, line):
    rows = f'{{"text": "a", "label:y": 0}}\n\n{line}\n'
    check(
        message(tmp_path / "a.jsonl", rows.encode()),
        "row 2: the line is not JSON; write one JSON object per line",
    )


@pytest.mark.parametrize("line", ["[1]", "null", "3", '"Smith"'])
def test_json_that_is_no_object(tmp_path, line):
    rows = f'{{"text": "a", "label:y": 0}}\n{line}\n'
    check(message(tmp_path / "a.jsonl", rows.encode()), "row 2: the line is not a JSON object")


def test_json_cell_that_is_no_single_value(tmp_path):
    rows = '{"text": "a", "label:y": 0}\n{"text": ["Smith"], "label:y": 0}\n'
    check(message(tmp_path / "a.jsonl", rows.encode()), "row 2, column 'text': the cell is a list or an object")


def test_parquet_column_of_lists(tmp_path):
    pl.DataFrame({"text": [["Smith"]], "label:y": [0]}).write_parquet(tmp_path / "a.parquet")
    check(message(tmp_path / "a.parquet"), "column 'text': the column contains List(String), not single values")


@pytest.mark.parametrize("cut", ["text", "head", "tail", "middle"])
def test_corrupt_parquet(tmp_path, cut):
    path = tmp_path / "a.parquet"
    pl.DataFrame({"text": [f"{k} {NOTE}" for k in range(5000)], "label:y": [0] * 5000}).write_parquet(path)
    whole = path.read_bytes()
    middle = whole[:100] + b"\xff" * (len(whole) // 2) + whole[100 + len(whole) // 2 :]
    content = {"text": b"not parquet", "head": whole[100:], "tail": whole[:-100], "middle": middle}[cut]
    check(message(path, content), "the file is damaged or is not a Parquet file; copy or export the file again")


def test_a_panic_of_polars_is_an_error_too(tmp_path, monkeypatch):
    def panic(*_: object, **__: object) -> None:
        raise pl.exceptions.PanicException("index out of bounds")

    path = tmp_path / "a.parquet"
    pl.DataFrame({"label:y": [0]}).write_parquet(path)
    monkeypatch.setattr(pl, "read_parquet", panic)
    check(message(path), "the file is damaged or is not a Parquet file")


def test_column_twice_in_the_header(table):
    check(
        message(table, b"text,label:y,text\na,0,b\n"),
        "column 'text': the header has this column twice; rename",
    )


@pytest.mark.parametrize("labels", [("y", "y"), ("y", "label:y"), {"a": "y", "b": "y"}])
def test_label_twice(table, labels):
    check(
        message(table, b"text,y\na,0\n" if "label:y" not in labels else b"y,label:y\n0,0\n", labels=labels),
        "twice",
    )


@pytest.mark.parametrize("labels", [None, ()])
def test_no_labels(table, labels):
    sentence = message(table, b"case_id,labels,text\n1,0,a\n", labels=labels)
    check(sentence, "no label columns; name the 0/1 columns in `labels`")


def test_label_without_a_name(table):
    check(message(table, b"case_id,label:\n1,0\n"), "column 'label:': the label has no name")


def test_label_list_errors(tmp_path, table):
    codes = {"label_list": {"column": "codes", "min_count": 2}}
    check(message(table, b"codes\nA;B\nC\n", **codes), "column 'codes': no labels with at least 2 cases")
    codes = {"label_list": {"column": "codes", "only": ["A", "A"]}}
    check(message(table, b"codes\nA;B\nC\n", **codes), "column 'A': the label is given twice")
    rows = "\n".join(json.dumps({"labels": cell}) for cell in (["A"], 1))
    check(
        message(tmp_path / "a.jsonl", rows.encode()),
        "row 2, column 'labels': the cell is not a list of codes",
    )
    pl.DataFrame({"labels": [0, 1]}).write_parquet(tmp_path / "a.parquet")
    check(message(tmp_path / "a.parquet"), "column 'labels': the column contains Int64, not lists of codes")


def test_attribute_that_takes_a_name_of_palpate(table):
    sentence = message(table, b"cohort,label:y\nicu,0\n", attributes=("cohort",))
    check(sentence, "column 'cohort': an attribute can't have this name; rename the column")
    sentence = message(table, b"text,note,label:y\nicu,a,0\n", attributes=("text",), text="note")
    check(sentence, "column 'text'", "rename the column")
