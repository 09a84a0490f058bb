"""Labels from lists of codes, against a slow obvious version."""

import json
import time

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palpate.cases.cohort import Cohort
from palpate.cases.columns import ColumnCheck
from palpate.data.tables import LabelList, TableSpec, read_cohort, write_cohort
from palpate.data.tables.labels import code_lists, encode

codes = st.sampled_from(["401.9", "250.00", "V10", "a", "B", "é", " 99 ", ""])
rows = st.lists(st.none() | st.lists(codes, max_size=5), min_size=1, max_size=8)


def slow(lists, only=None, min_count=1):
    """One row and one code at a time."""
    sets = [{code.strip() for code in row or []} - {""} for row in lists]
    names = sorted(set().union(*sets)) if only is None else list(only)
    count = {name: sum(name in row for row in sets) for name in names}
    names = [name for name in names if min_count == 1 or count[name] >= min_count]
    return names, [[int(name in row) for name in names] for row in sets]


@settings(deadline=None)
@given(rows, st.none() | st.lists(st.sampled_from(["V10", "é", "zz", "99"]), unique=True), st.integers(1, 3))
def test_encode_is_the_slow_version(lists, only, min_count):
    names, y = slow(lists, only, min_count)
    coded = encode(pl.Series("codes", lists, dtype=pl.List(pl.String)), only=only, min_count=min_count)
    assert list(coded.labels) == names
    assert coded.y.dtype == np.uint8
    assert coded.y.has_canonical_format
    assert coded.y.toarray().tolist() == y


@settings(deadline=None)
@given(rows)
def test_delimited_strings_are_lists(lists):
    joined = pl.Series("codes", [None if row is None else "|".join(row) for row in lists], dtype=pl.String)
    a = encode(code_lists(ColumnCheck(joined), "|"))
    b = encode(pl.Series("codes", lists, dtype=pl.List(pl.String)))
    assert a.labels == b.labels
    assert (a.y != b.y).nnz == 0


def test_every_format(tmp_path):
    lists = [["250", "401.9", "250"], [], ["V10"]]
    (tmp_path / "t.csv").write_text("codes\n" + "\n".join('"' + ";".join(row) + '"' for row in lists) + "\n")
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps({"codes": row}) for row in lists))
    (tmp_path / "u.jsonl").write_text("\n".join(json.dumps({"codes": ";".join(row)}) for row in lists))
    pl.DataFrame({"codes": lists}).write_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.jsonl", "u.jsonl", "t.parquet"):
        cohort = read_cohort(TableSpec(file=name, label_list={"column": "codes"}), folder=tmp_path)
        assert cohort.labels == ("250", "401.9", "V10"), name
        assert cohort.y.toarray().tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 1]], name


@pytest.mark.parametrize(
    ("values", "dtype"),
    [([[1, 2], [2]], pl.List(pl.Int64)), ([[1, 2], [2, 2]], pl.Array(pl.Int64, 2)), ([None, None], pl.Null)],
)
def test_lists_of_other_types(values, dtype):
    coded = encode(code_lists(ColumnCheck(pl.Series("c", values, dtype=dtype)), None))
    assert coded.labels == (() if dtype == pl.Null else ("1", "2"))


def test_only_restricts_and_orders_and_facts_tell(tmp_path):
    (tmp_path / "t.csv").write_text("codes\nA;B\nB\nC\n")
    listed = LabelList(column="codes", only=("Z", "B", "A"))
    cohort = read_cohort(TableSpec(file="t.csv", label_list=listed), folder=tmp_path)
    assert cohort.labels == ("Z", "B", "A")
    assert cohort.y.toarray().tolist() == [[0, 1, 1], [0, 1, 0], [0, 0, 0]]
    assert "1 of 3 labels have no cases" in cohort.facts
    rare = read_cohort(TableSpec(file="t.csv", label_list={"column": "codes", "min_count": 2}), folder=tmp_path)
    assert rare.labels == ("B",)
    assert "2 labels with fewer than 2 cases are left out" in rare.facts


def test_thousands_of_labels_there_and_back(tmp_path):
    rng = np.random.default_rng(0)
    names = [f"{k:05d}" for k in rng.permutation(9000)]
    lists = [[names[k] for k in rng.integers(0, 8000, 15)] for _ in range(20_000)]
    start = time.perf_counter()
    coded = encode(pl.Series("codes", lists), only=names)
    assert time.perf_counter() - start < 5
    for row in (0, 7, 19_999):
        assert {names[k] for k in coded.y.tocsr()[[row]].indices} == set(lists[row])
    frame = pl.DataFrame({"case_id": [str(k) for k in range(20_000)]})
    whole = Cohort.from_frame(frame, labels=())
    cohort = Cohort(whole.cases, coded.labels, coded.y)
    write_cohort(cohort, tmp_path / "t.parquet")
    back = read_cohort(TableSpec(file=tmp_path / "t.parquet"))
    assert pl.read_parquet_schema(tmp_path / "t.parquet").keys() == {"case_id", "patient_id", "labels"}
    assert back.labels == cohort.labels, "their order stays, and those without a case"
    assert back.fingerprint == cohort.fingerprint
