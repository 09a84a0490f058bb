"""Tables in: roles, formats that equal each other, values of each type; and out again, unchanged."""

import csv
import datetime as dt
import gzip
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from palpate.cases.cohort import Cohort, stack
from palpate.data.tables import LabelList, TableSpec, read_cohort, write_cohort
from palpate.errors import CohortError

ROWS = [
    {"case_id": "007", "patient_id": "p1", "split": "Training", "time": "2180-07-23 14:05:00",
     "text": 'a, "b"\nc', "prior": "known CHF", "image": "i/1.png", "age": 70, "bmi": 20.5, "sex": "F",
     "label:y": 1, "label:z": 0},
    {"case_id": "8", "patient_id": "p1", "split": "train", "time": "2180-07-24", "text": "é 😀",
     "prior": None, "image": "i/2.png", "age": None, "bmi": 31.0, "sex": None, "label:y": 0, "label:z": 0},
    {"case_id": "9", "patient_id": "p2", "split": "dev", "time": None, "text": "NULL",
     "prior": None, "image": "i/3.png", "age": 3, "bmi": None, "sex": "M", "label:y": 1, "label:z": 1},
]  # fmt: skip
SUFFIXES = [".csv", ".csv.gz", ".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz", ".parquet"]


def write(path: Path, rows: list[dict[str, object]], *, bom: bool = False, end: str = "\n") -> Path:
    """A small table in the format that the suffix says."""
    if path.suffix == ".parquet":
        pl.DataFrame(rows, infer_schema_length=None).write_parquet(path)
        return path
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", encoding="utf-8-sig" if bom else "utf-8", newline="") as out:
        if ".jsonl" in path.name:
            out.writelines(json.dumps(row) + end for row in rows)
        else:
            delimiter = "\t" if ".tsv" in path.name else ","
            # csv.writer leaves a bare carriage return unquoted before Python 3.13, which is no valid CSV.
            bare = any("\r" in str(cell) for row in rows for cell in row.values())
            quoting = csv.QUOTE_ALL if bare else csv.QUOTE_MINIMAL
            writer = csv.DictWriter(out, list(rows[0]), delimiter=delimiter, lineterminator=end, quoting=quoting)
            writer.writeheader()
            writer.writerows(rows)
    return path


def same(a: Cohort, b: Cohort) -> None:
    assert a.cases.equals(b.cases)
    assert a.cases.schema == b.cases.schema
    assert a.labels == b.labels
    assert a.attributes == b.attributes
    assert a.y.dtype == b.y.dtype == np.uint8
    assert np.array_equal(a.y.toarray(), b.y.toarray())
    assert a.fingerprint == b.fingerprint


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_gives_the_same_cohort(tmp_path, suffix):
    path = write(tmp_path / f"t{suffix}", ROWS)
    cohort = read_cohort(TableSpec(file=path, attributes=("age", "bmi", "sex")), name="main")
    one, two = dt.datetime(2180, 7, 23, 14, 5), dt.datetime(2180, 7, 24)
    assert cohort.cases.rows(named=True) == [
        {"cohort": "main", "case_id": "007", "patient_id": "p1", "split": "train", "time": one,
         "text": 'a, "b"\nc', "image": "i/1.png", "prior": "known CHF", "age": 70, "bmi": 20.5, "sex": "F"},
        {"cohort": "main", "case_id": "8", "patient_id": "p1", "split": "train", "time": two,
         "text": "é 😀", "image": "i/2.png", "prior": None, "age": None, "bmi": 31.0, "sex": None},
        {"cohort": "main", "case_id": "9", "patient_id": "p2", "split": "validation", "time": None,
         "text": "NULL", "image": "i/3.png", "prior": None, "age": 3, "bmi": None, "sex": "M"},
    ]  # fmt: skip
    types = {name: str(dtype) for name, dtype in cohort.cases.schema.items()}
    assert types["age"] == "Int64"
    assert types["bmi"] == "Float64"
    assert types["time"] == str(pl.Datetime("us"))
    assert cohort.labels == ("y", "z")
    assert cohort.y.toarray().tolist() == [[1, 0], [0, 0], [1, 1]]
    assert cohort.attributes == ("age", "bmi", "sex")
    assert cohort.facts == ()
    reference = write(tmp_path / "reference.csv", ROWS)
    same(cohort, read_cohort(TableSpec(file=reference, attributes=("age", "bmi", "sex")), name="main"))


@pytest.mark.parametrize("suffix", [s for s in SUFFIXES if s != ".parquet"])
def test_byte_order_mark_and_windows_line_ends(tmp_path, suffix):
    path = write(tmp_path / f"t{suffix}", ROWS, bom=True, end="\r\n")
    same(read_cohort(TableSpec(file=path)), read_cohort(TableSpec(file=write(tmp_path / "r.csv", ROWS))))


def test_line_ends_inside_a_note_stay(tmp_path):
    (tmp_path / "t.csv").write_bytes(b'text,label:y\r\n"a\r\nb\n\rc",1\r\n')
    assert read_cohort(TableSpec(file="t.csv"), folder=tmp_path).texts == ["a\r\nb\n\rc"]


def test_long_notes(tmp_path):
    long = "word " * 100_000
    path = write(tmp_path / "t.csv", [{"text": long, "label:y": 1}])
    assert read_cohort(TableSpec(file=path)).texts == [long]


def test_columns_under_other_names(tmp_path):
    rows = [{"visit": 1, "subject": "a", "note": "x", "died": 0, "at": "2180-01-01", "fold": "TEST", "junk": "?"}]
    path = write(tmp_path / "t.csv", rows)
    spec = TableSpec(file=path, case="visit", patient="subject", text="note", labels="died", time="at", split="fold")
    cohort = read_cohort(spec)
    assert cohort.cases.columns == ["cohort", "case_id", "patient_id", "split", "time", "text"]
    assert cohort.labels == ("died",)
    renamed = read_cohort(spec.model_copy(update={"labels": {"mortality": "died"}}))
    assert renamed.labels == ("mortality",)


def test_defaults_and_facts(tmp_path):
    cohort = read_cohort(TableSpec(file=write(tmp_path / "t.csv", [{"label:y": 0}, {"label:y": 1}])))
    assert cohort.cases["case_id"].to_list() == ["1", "2"]
    assert cohort.cases["patient_id"].to_list() == ["1", "2"]
    assert cohort.names == ("cohort",)
    assert not cohort.has_text
    assert len(cohort.facts) == 1
    assert "its own patient" in cohort.facts[0]


def test_one_column_in_two_roles(tmp_path):
    rows = [{"subject": "a", "split": "test", "label:y": 0}, {"subject": "b", "split": "val", "label:y": 1}]
    path = write(tmp_path / "t.csv", rows)
    cohort = read_cohort(
        TableSpec(file=path, case="subject", patient="subject", attributes=("split", "subject", "label:y"))
    )
    assert cohort.attributes == ("split", "subject", "label:y")
    assert cohort.cases["split"].to_list() == ["test", "validation"]
    assert cohort.cases["subject"].to_list() == ["a", "b"]
    write_cohort(cohort, tmp_path / "t.parquet")
    same(cohort, read_cohort(TableSpec(file=tmp_path / "t.parquet")))


def test_names_of_the_cohort(tmp_path):
    path = write(tmp_path / "t.csv", ROWS)
    assert read_cohort(TableSpec(file=path), name="a").names == ("a",)
    assert read_cohort(TableSpec(file=path, name="b"), name="a").names == ("b",)


def test_two_files_stack(tmp_path):
    path = write(tmp_path / "t.csv", ROWS)
    one, two = (read_cohort(TableSpec(file=path), name=name) for name in "ab")
    both = stack([one, two])
    assert len(both) == 6
    assert both.n_patients == 4
    with pytest.raises(CohortError, match="two cohorts are named 'a'"):
        stack([one, one])


@pytest.mark.parametrize("value", ["0", "0.0", "false", "False", " FALSE ", 0, 0.0, False])
def test_ways_to_write_a_label(tmp_path, value):
    for suffix in (".csv", ".jsonl", ".parquet"):
        path = write(tmp_path / f"t{suffix}", [{"label:y": value}])
        assert read_cohort(TableSpec(file=path)).y.toarray().tolist() == [[0]]


@pytest.mark.parametrize(
    ("written", "meant"),
    [("train", "train"), ("TRAINING", "train"), ("dev", "validation"), ("val", "validation"),
     ("valid", "validation"), ("validate", "validation"), (" Validation", "validation"),
     ("test", "test"), ("Testing", "test")],
)  # fmt: skip
def test_ways_to_write_a_split(tmp_path, written, meant):
    path = write(tmp_path / "t.csv", [{"split": written, "label:y": 0}])
    assert read_cohort(TableSpec(file=path)).cases["split"].to_list() == [meant]


@pytest.mark.parametrize(
    ("written", "meant"),
    [("2180-07-23", (2180, 7, 23)), ("2180-07-23 14:05", (2180, 7, 23, 14, 5)),
     ("2180-07-23T14:05", (2180, 7, 23, 14, 5)), ("2180-07-23T14:05:06", (2180, 7, 23, 14, 5, 6)),
     ("2180-07-23 14:05:06.25", (2180, 7, 23, 14, 5, 6, 250_000)),
     ("2180-07-23T14:05:06Z", (2180, 7, 23, 14, 5, 6)), ("2180-07-23T14:05:06+02:00", (2180, 7, 23, 12, 5, 6))],
)  # fmt: skip
def test_ways_to_write_a_time(tmp_path, written, meant):
    path = write(tmp_path / "t.csv", [{"time": written, "label:y": 0}, {"time": "2000-01-01", "label:y": 0}])
    times = read_cohort(TableSpec(file=path)).cases["time"].to_list()
    assert times == [dt.datetime(*meant), dt.datetime(2000, 1, 1)]


def test_typed_times(tmp_path):
    day = dt.datetime(2180, 7, 23, 14, 5)
    boston = pl.Series([day - dt.timedelta(hours=5)]).dt.replace_time_zone("Etc/GMT+5")
    for values in (pl.Series([day], dtype=pl.Datetime("ns")), boston):
        pl.DataFrame({"time": values, "label:y": [0]}).write_parquet(tmp_path / "t.parquet")
        assert read_cohort(TableSpec(file=tmp_path / "t.parquet")).cases["time"].to_list() == [day]
    pl.DataFrame({"time": [day.date()], "label:y": [0]}).write_parquet(tmp_path / "t.parquet")
    assert read_cohort(TableSpec(file=tmp_path / "t.parquet")).cases["time"].to_list() == [dt.datetime(2180, 7, 23)]


@pytest.mark.parametrize(
    ("cells", "values"),
    [(["1", "-2", ""], [1, -2, None]), (["1", "2.5", "1e3"], [1.0, 2.5, 1000.0]),
     (["1", "x", ""], ["1", "x", None]), (["007", "8", "9"], ["007", "8", "9"]), (["", "", ""], [None] * 3),
     (["9" * 30, "1", "2"], ["9" * 30, "1", "2"]),
     (["true", "false", ""], ["true", "false", None]), (["nan", "none", ""], ["nan", "none", None]),
     (["NaN", "2", ""], [None, 2, None]), (["0.5", "nan", "1"], [0.5, None, 1.0]),
     (["nan", "", ""], ["nan", None, None])],
)  # fmt: skip
def test_attributes_are_numbers_where_all_are(tmp_path, cells, values):
    path = write(tmp_path / "t.csv", [{"a": cell, "label:y": 0} for cell in cells])
    column = read_cohort(TableSpec(file=path, attributes="a")).cases["a"]
    assert column.to_list() == values
    assert column.dtype in (pl.Int64, pl.Float64, pl.String)


def test_typed_attributes(tmp_path):
    frame = pl.DataFrame({"i": [1, None], "b": [True, None], "s": ["1", "2"], "c": ["u", "v"], "label:y": [0, 1]})
    frame = frame.with_columns(pl.col("i").cast(pl.UInt8), pl.col("c").cast(pl.Categorical))
    frame.write_parquet(tmp_path / "t.parquet")
    cases = read_cohort(TableSpec(file=tmp_path / "t.parquet", attributes=("i", "b", "s", "c"))).cases
    assert cases.select("i", "b", "s", "c").rows() == [(1, "true", "1", "u"), (None, None, "2", "v")]
    assert cases["i"].dtype == pl.Int64


def test_nan_is_not_known(tmp_path):
    frame = pl.DataFrame({"p": [0.5, float("nan"), None], "label:y": [0, 1, 0]})
    frame.write_parquet(tmp_path / "t.parquet")
    from_file = read_cohort(TableSpec(file=tmp_path / "t.parquet", attributes="p"))
    in_memory = Cohort.from_frame(frame, labels=("label:y",), attributes=("p",))
    assert from_file.cases["p"].to_list() == in_memory.cases["p"].to_list() == [0.5, None, None]


def test_json_rows_may_lack_keys(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"label:y": 0}\n{"label:y": true, "age": 3}\n')
    cohort = read_cohort(TableSpec(file="t.jsonl", attributes="age"), folder=tmp_path)
    assert cohort.cases["age"].to_list() == [None, 3]
    assert cohort.y.toarray().ravel().tolist() == [0, 1]


def test_spec_is_strict():
    for wrong in ({"labelz": "y"}, {"labels": ("y",), "label_list": {"column": "c"}}):
        with pytest.raises(ValidationError):
            TableSpec(file="t.csv", **wrong)
    with pytest.raises(ValidationError):
        LabelList(column="c", delimiter="")


# --- out and in again ---------------------------------------------------------------------------------------

words = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)
notes = words.filter(lambda text: text.strip(" \t\n\r\x0b\x0c") and any(not c.isspace() for c in text))
cell = {
    "s": st.none() | words,
    "i": st.none() | st.integers(-(2**63), 2**63 - 1),
    "f": st.none() | st.floats(allow_nan=False, allow_infinity=False),
}


@st.composite
def cohorts(draw: st.DrawFn) -> Cohort:
    n = draw(st.integers(1, 6))
    column = lambda values: draw(st.lists(values, min_size=n, max_size=n))  # noqa: E731
    frame = pl.DataFrame(
        {
            "text": pl.Series(column(notes), dtype=pl.String),
            "time": pl.Series(column(st.none() | st.datetimes()), dtype=pl.Datetime("us")),
            "s": pl.Series(column(cell["s"]), dtype=pl.String),
            "i": pl.Series(column(cell["i"]), dtype=pl.Int64),
            "f": pl.Series(column(cell["f"]), dtype=pl.Float64),
        }
    )
    if draw(st.booleans()):
        case = draw(st.lists(notes, min_size=n, max_size=n, unique=True))
        frame = frame.with_columns(pl.Series("case_id", case), pl.Series("patient_id", column(notes)))
    if draw(st.booleans()):
        split = draw(st.sampled_from(["train", "validation", "test"]))
        frame = frame.with_columns(pl.lit(split).alias("split"))
    used = {*frame.columns, "cohort"}
    labels = draw(st.lists(notes.filter(lambda name: name not in used), min_size=1, max_size=4, unique=True))
    y = {name: pl.Series(name, column(st.integers(0, 1)), dtype=pl.UInt8) for name in labels}
    return Cohort.from_frame(frame.hstack(list(y.values())), labels=labels, attributes=("s", "i", "f"))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cohort=cohorts(), most=st.sampled_from([0, 200]))
def test_round_trip(tmp_path, cohort, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("palpate.data.tables.MOST_LABEL_COLUMNS", most)
        write_cohort(cohort, tmp_path / "t.parquet")
    back = read_cohort(TableSpec(file=tmp_path / "t.parquet"))
    same(cohort, back)
    assert cohort.facts == back.facts[: len(cohort.facts)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=st.lists(st.tuples(notes, notes, st.integers(0, 1), st.none() | st.floats(-1e6, 1e6)), min_size=1))
def test_any_note_survives_every_format(tmp_path, table):
    rows = [
        {"case_id": f"{k:03d}", "patient_id": patient, "text": text, "label:y": y, "x": x}
        for k, (patient, text, y, x) in enumerate(table)
    ]
    frame = pl.DataFrame(rows, schema_overrides={"x": pl.Float64}, infer_schema_length=None)
    cohort = Cohort.from_frame(frame.rename({"label:y": "y"}), labels=("y",), attributes=("x",))
    for suffix in (".csv.gz", ".tsv", ".jsonl"):
        read = read_cohort(TableSpec(file=write(tmp_path / f"t{suffix}", rows), attributes=("x",)))
        assert read.texts == cohort.texts
        assert read.cases["patient_id"].equals(cohort.cases["patient_id"])
        assert read.y.toarray().tolist() == cohort.y.toarray().tolist()
        assert read.cases["x"].to_list() == cohort.cases["x"].to_list()


def test_write_refuses(tmp_path):
    frame = pl.DataFrame({"a": ["x"], "y": [1]})
    plain = Cohort.from_frame(frame.drop("a"), labels=("y",))
    with pytest.raises(CohortError, match=r"t\.csv: a cohort is written as Parquet"):
        write_cohort(plain, tmp_path / "t.csv")
    with pytest.raises(CohortError, match="column 'a': the column has no role"):
        write_cohort(Cohort.from_frame(frame, labels=("y",)), tmp_path / "t.parquet")
    two = stack([plain, Cohort.from_frame(frame.drop("a"), labels=("y",), name="b")])
    with pytest.raises(CohortError, match="one cohort"):
        write_cohort(two, tmp_path / "t.parquet")


def test_a_million_rows_are_read(tmp_path):
    n = 1_000_000
    row = pl.int_range(n, eager=True)
    frame = pl.DataFrame({"case_id": row, "patient_id": row // 3, "label:y": row % 2}).with_columns(
        pl.when(pl.col("patient_id") % 5 == 0).then(pl.lit("test")).otherwise(pl.lit("train")).alias("split")
    )
    frame.write_csv(tmp_path / "t.csv")
    cohort = read_cohort(TableSpec(file=tmp_path / "t.csv"))
    assert len(cohort) == n
    assert cohort.y.nnz == n // 2


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_sampling_weights_are_read_and_written(tmp_path, suffix):
    rows = [{**row, "weight": 70.5, "w": k + 0.5} for k, row in enumerate(ROWS)]
    path = write(tmp_path / f"t{suffix}", rows)
    cohort = read_cohort(TableSpec(file=path, weight="w", attributes=("weight",)))
    assert cohort.weights.tolist() == [0.5, 1.5, 2.5]
    assert cohort.cases["weight"].to_list() == [70.5] * 3
    assert read_cohort(TableSpec(file=path)).weights is None, "a column named weight is not taken unasked"
    write_cohort(cohort, tmp_path / "again.parquet")
    same(cohort, read_cohort(TableSpec(file=tmp_path / "again.parquet")))


def test_bad_sampling_weight_names_the_row(tmp_path):
    path = write(tmp_path / "t.csv", [{**row, "w": w} for row, w in zip(ROWS, (1, -2, 3), strict=True)])
    with pytest.raises(
        CohortError, match=r"t\.csv, row 2, column 'w': the cell is '-2', and a weight can't be negative"
    ):
        read_cohort(TableSpec(file=path, weight="w"))
