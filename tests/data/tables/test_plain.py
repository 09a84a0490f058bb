"""Files that polars reads: the same cells as the row by row parser, and no file that needs one."""

from __future__ import annotations

import csv
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palpate.delimited import FileLayout, csv_rows, plain_frame

CELL = st.text(st.characters(exclude_characters='\0\n\r",;|\t', exclude_categories=("Cs",)), max_size=6)
MARKS = st.sampled_from([",", ";", "\t"])


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=6), MARKS, st.sampled_from(["\n", "\r\n"]), st.booleans()
)
def test_plain_files_have_the_cells_of_the_slow_reader(
    tmp_path: Path, rows: list[tuple[str, ...]], mark: str, end: str, last: bool
) -> None:
    file = tmp_path / "t.csv"
    text = end.join(mark.join(row) for row in [("a", "b", "c"), *rows]) + (end if last else "")
    file.write_bytes(text.encode())
    layout = FileLayout(delimiter=mark)
    slow = list(csv_rows(file, layout))
    found = plain_frame(file, layout)
    assert found is not None
    assert [found.columns, *map(list, found.rows())] == slow


@pytest.mark.parametrize(
    "text",
    [
        'a,b\n"1",2\n',
        "a,b\n1,2\n\n3,4\n",
        "a,b\n1,2,3\n4\n",
        "a,b\n1\n2,3,4\n",
        "a,a\n1,2\n",
        "a,\n1,2\n",
        "a\n1\n",
        "a,b\r1,2\r",
        "sep=,\na,b\n1,2\n",
        "\ufeffa,b\n1,2\n",
        "a,b\n1,\0\n",
    ],
)
def test_what_is_not_plain_is_left_to_the_slow_reader(tmp_path: Path, text: str) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes(text.encode())
    assert plain_frame(file, FileLayout(delimiter=",")) is None


def test_bytes_that_are_not_utf8_are_left_to_the_slow_reader(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("a,b\nMüller,2\n".encode("latin-1"))
    assert plain_frame(tmp_path / "t.csv") is None


def test_numbers_are_those_of_python(tmp_path: Path) -> None:
    rows = [(f"00{k}", repr(0.1 + k / 977), f"{k / 3e5:e}") for k in range(3_000)]
    with (tmp_path / "t.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("id", "p", "q"), *rows])
    found = plain_frame(tmp_path / "t.csv", numbers=["p", "q"])
    assert found is not None
    assert found["id"].to_list() == [row[0] for row in rows]
    assert found["p"].to_list() == [float(row[1]) for row in rows]
    assert found["q"].to_list() == pytest.approx([float(row[2]) for row in rows], rel=1e-15)
    (tmp_path / "t.csv").write_text("id,p\n1,0.5\n2,\n3,NA\n")
    assert plain_frame(tmp_path / "t.csv", numbers=["p"]) is None
    (tmp_path / "t.csv").write_text("id,p\n1,0.5\n2,\n")
    found = plain_frame(tmp_path / "t.csv", numbers=["p"])
    assert found is not None
    assert found["p"].to_list() == [0.5, None]
    assert found["p"].dtype == pl.Float64
