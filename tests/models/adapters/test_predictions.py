from __future__ import annotations

import gzip
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from palpate.cases.edits import Edit, Inputs, VariantsBuilder, splice
from palpate.cases.hashing import key_of
from palpate.errors import ConfigError, ModelError
from palpate.models.adapters.predictions import PredictionsModel, load

TEXTS = ["first note", "second note"]


def table(folder: Path, text: str, name: str = "p.csv") -> Path:
    (folder / name).write_text(text)
    return folder


def read(folder: Path, name: str = "p.csv", **options: Any) -> PredictionsModel:
    return load(name, options, folder=folder)


def inputs(*, cohorts: tuple[str, str] = ("a", "a"), case_ids: tuple[str, str] = ("c1", "c2")) -> Inputs:
    plain = Inputs.from_texts(TEXTS, case_ids)
    return Inputs(**{**vars(plain), "cohorts": list(cohorts)})


def altered(edit: Edit) -> Inputs:
    builder = VariantsBuilder(n_cases=1)
    builder.add(0, "g", [edit])
    made = builder.build()
    columns = {name: getattr(made, name) for name in ("parent", "first_edit", "start", "end", "replacement")}
    return Inputs(**columns, replacements=made.replacements, parents=TEXTS, case_ids=["c1"], cohorts=["a"])


def test_cases_are_found_in_any_order(tmp_path: Path) -> None:
    model = read(table(tmp_path, "case_id,x,y\nc2,0.2,0.3\nc9,0,0\nc1,0.1,1\n"))
    assert model.labels == ("x", "y")
    assert model.reads == "case"
    assert model.predict(inputs()).tolist() == [[0.1, 1.0], [0.2, 0.3]]


def test_every_format_reads_the_same(tmp_path: Path) -> None:
    frame = pl.DataFrame({"case_id": ["c1", "c2"], "x": [0.1, 0.2], "y": [1, 0]})
    frame.write_csv(tmp_path / "p.csv")
    frame.write_csv(tmp_path / "p.tsv", separator="\t")
    frame.write_parquet(tmp_path / "p.parquet")
    frame.write_ndjson(tmp_path / "p.jsonl")
    with gzip.open(tmp_path / "p.csv.gz", "wb") as file:
        file.write((tmp_path / "p.csv").read_bytes())
    for name in ("p.csv", "p.tsv", "p.parquet", "p.jsonl", "p.csv.gz"):
        assert read(tmp_path, name).predict(inputs()).tolist() == [[0.1, 1.0], [0.2, 0.0]]


def test_of_parquet_only_the_named_columns_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.DataFrame({"case_id": ["c1", "c2"], "x": [0.1, 0.2], "comment": ["a", "b"], "y": [1, 0]})
    frame.write_parquet(tmp_path / "p.parquet")
    seen: list[list[str]] = []
    plain = pl.read_parquet

    def watched(*args: Any, columns: list[str], **more: Any) -> pl.DataFrame:
        seen.append(columns)
        return plain(*args, columns=columns, **more)

    monkeypatch.setattr(pl, "read_parquet", watched)
    assert read(tmp_path, "p.parquet", columns=["y"]).predict(inputs()).tolist() == [[1.0], [0.0]]
    assert seen == [["case_id", "y"]]
    with pytest.raises(ConfigError, match="column not found"):
        read(tmp_path, "p.parquet", columns=["z"])


def test_numeric_case_ids(tmp_path: Path) -> None:
    pl.DataFrame({"case_id": [7, 8], "x": [0.1, 0.2]}).write_parquet(tmp_path / "p.parquet")
    assert read(tmp_path, "p.parquet").predict(inputs(case_ids=("8", "7"))).tolist() == [[0.2], [0.1]]


def test_the_same_case_id_in_two_cohorts(tmp_path: Path) -> None:
    model = read(table(tmp_path, "cohort,case_id,x\na,c1,0.1\nb,c1,0.2\n"))
    assert model.predict(inputs(cohorts=("b", "a"), case_ids=("c1", "c1"))).tolist() == [[0.2], [0.1]]
    with pytest.raises(ModelError, match="case 'c2'"):
        model.predict(inputs())


def test_altered_texts_are_found_by_their_hash_and_not_by_their_case(tmp_path: Path) -> None:
    edit = Edit(0, 5, "other")
    key = key_of(splice(TEXTS[0], [edit])).hex()
    model = read(table(tmp_path, f"case_id,input_id,x\nc1,,0.1\nc1,{key},0.9\n"))
    assert model.predict(altered(edit)).tolist() == [[0.9]]
    assert model.predict(inputs().take([0])).tolist() == [[0.1]]
    with pytest.raises(ModelError, match=r"case 'c1': .*altered text.*palpate plan"):
        model.predict(altered(Edit(0, 5, "unseen")))


def test_a_row_with_an_input_id_does_not_answer_for_its_case(tmp_path: Path) -> None:
    key = key_of("other note").hex()
    model = read(table(tmp_path, f"case_id,input_id,x\nc1,{key},0.9\n"))
    with pytest.raises(ModelError, match="case 'c1'"):
        model.predict(inputs().take([0]))


def test_a_case_may_be_found_by_its_text_and_a_made_text_has_no_case(tmp_path: Path) -> None:
    model = read(table(tmp_path, f"input_id,x\n{key_of(TEXTS[1]).hex().upper()},0.4\n"))
    assert model.predict(inputs().take([1])).tolist() == [[0.4]]
    assert model.predict(Inputs.from_texts([TEXTS[1]], [""])).tolist() == [[0.4]]
    with pytest.raises(ModelError, match=r"\(and 1 others\)") as caught:
        model.predict(Inputs.from_texts(["secret", "words"], ["", ""]))
    assert "secret" not in str(caught.value)


def test_columns_are_picked_and_renamed(tmp_path: Path) -> None:
    table(tmp_path, "stay,note,p_a,p_b\nc1,hm,0.1,0.2\nc2,hm,0.3,0.4\n")
    picked = read(tmp_path, case="stay", columns=["p_b"])
    assert (picked.labels, picked.predict(inputs())[:, 0].tolist()) == (("p_b",), [0.2, 0.4])
    by_label = read(tmp_path, case="stay", labels=["p_b", "p_a"])
    assert (by_label.labels, by_label.predict(inputs())[0].tolist()) == (("p_b", "p_a"), [0.2, 0.1])
    renamed = read(tmp_path, case="stay", columns=["p_a", "p_b"], labels=["x", "y"])
    assert (renamed.labels, renamed.predict(inputs())[0].tolist()) == (("x", "y"), [0.1, 0.2])
    assert len({picked.fingerprint, by_label.fingerprint, renamed.fingerprint}) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "p.csv: has no rows"),
        ("case_id,x\n", "p.csv: has no rows"),
        ("id,x\nc1,0.5\n", "neither a column 'case_id' nor 'input_id'"),
        ("case_id\nc1\n", "no column of probabilities"),
        ("case_id,x\nc1,0.5\nc1,0.5\n", "row 2, column 'case_id': an earlier row has the same id"),
        ("case_id,x\nc1,0.5\n,0.5\n", "row 2: the row has neither a case id"),
        ("case_id,x\nc1,0.5\nc2,high\n", "row 2, column 'x': the cell is not a number"),
        ("case_id,x\nc1,0.5\nc2,\n", "row 2, column 'x': the cell is empty"),
        ("case_id,x\nc1,0.5\nc2,NaN\n", "row 2, column 'x': nan is not a probability"),
        ("case_id,x\nc1,0.5\nc2,1.5\n", "row 2, column 'x': 1.5 is not a probability"),
        ("case_id,x\nc1,-0.5\n", "row 1, column 'x': -0.5 is not a probability"),
        ("input_id,x\nabc,0.5\n", "row 1, column 'input_id': not an id of 32 hexadecimal digits"),
        (f"input_id,x\n{'ab' * 16},0.5\n{'AB' * 16},0.5\n", "row 2, column 'input_id': an earlier row"),
    ],
)
def test_wrong_cells_are_named(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(table(tmp_path, text))
    assert message in str(caught.value)
    assert "p.csv" in str(caught.value)


def test_a_table_as_people_save_it(tmp_path: Path) -> None:
    table(tmp_path, "case_id,x,y\nc1,0.5,1\nc2,0.25,0.0625\n")
    table(tmp_path, "case_id;x;y\nc1;0,5;1\nc2;0,25;0,0625\n", "q.csv")
    (tmp_path / "r.csv").write_bytes("case_id;Übel;y\nc1;0,5;1,0\nc2;0,25;0,0625\n".encode("latin-1"))
    plain, commas = read(tmp_path), read(tmp_path, "q.csv")
    assert np.array_equal(plain.predict(inputs()), commas.predict(inputs()))
    with pytest.raises(ConfigError, match=r"look like Latin-1, in which DC is 'Ü'.*`encoding: latin-1`"):
        read(tmp_path, "r.csv")
    latin = read(tmp_path, "r.csv", encoding="latin-1")
    assert latin.labels == ("Übel", "y")
    assert np.array_equal(plain.predict(inputs()), latin.predict(inputs()))


def test_wrong_files_and_options(tmp_path: Path) -> None:
    table(tmp_path, "case_id,x\nc1,0.5\n")
    table(tmp_path, "x", "p.xlsx")
    table(tmp_path, "{nonsense", "p.jsonl")
    table(tmp_path, "nonsense", "p.parquet")
    for name, options, message in (
        ("p.xlsx", {}, "can't be read from '.xlsx'"),
        ("p.jsonl", {}, "can't be read as .jsonl"),
        ("p.parquet", {}, "can't be read as .parquet"),
        ("p.csv", {"columns": ["z"]}, "column 'z': column not found"),
        ("p.csv", {"labels": ["a", "b"]}, "`labels` names 2 labels for 1 columns"),
    ):
        with pytest.raises(ConfigError) as caught:
            read(tmp_path, name, **options)
        assert message in str(caught.value)


def test_a_null_and_a_list_in_typed_files(tmp_path: Path) -> None:
    pl.DataFrame({"case_id": ["c1", "c2"], "x": [0.5, None]}).write_parquet(tmp_path / "p.parquet")
    with pytest.raises(ConfigError, match="row 2, column 'x': the cell is empty"):
        read(tmp_path, "p.parquet")
    pl.DataFrame({"case_id": ["c1"], "x": [[0.5]]}).write_parquet(tmp_path / "q.parquet")
    with pytest.raises(ConfigError, match="column 'x': not a column of numbers"):
        read(tmp_path, "q.parquet")


def test_a_million_rows(tmp_path: Path) -> None:
    n = 1_000_000
    p = np.random.default_rng(0).random(n)
    pl.DataFrame({"case_id": np.arange(n), "x": p}).write_parquet(tmp_path / "p.parquet")
    start = time.perf_counter()
    model = read(tmp_path, "p.parquet")
    wanted = np.random.default_rng(1).integers(0, n, size=5_000)
    found = model.predict(Inputs.from_texts([""] * len(wanted), [str(k) for k in wanted]))
    assert np.array_equal(found[:, 0], p[wanted])
    assert time.perf_counter() - start < 60


@pytest.mark.parametrize("mark", ["", "NA", "nan", "n/a", " NULL ", "None", ".", "-"])
def test_missing_scores_are_errors_unless_they_are_reported(mark: str, tmp_path: Path) -> None:
    table(tmp_path, f"case_id,x,y\nc1,0.5,0.1\nc2,{mark},0.2\n")
    with pytest.raises(ConfigError, match=r"row 2, column 'x': .*`missing: report`"):
        read(tmp_path)
    model = read(tmp_path, missing="report")
    assert model.may_miss
    np.testing.assert_array_equal(model.predict(inputs()), [[0.5, 0.1], [np.nan, 0.2]])
    assert model.fingerprint != read(table(tmp_path, "case_id,x,y\nc1,0.5,0.1\n")).fingerprint


def test_a_case_without_a_row_is_missing(tmp_path: Path) -> None:
    table(tmp_path, "case_id,x\nc1,0.5\n")
    with pytest.raises(ModelError, match=r"no prediction for the case.*`missing: report`"):
        read(tmp_path).predict(inputs())
    np.testing.assert_array_equal(read(tmp_path, missing="report").predict(inputs()), [[0.5], [np.nan]])


def test_ids_that_lost_their_leading_zeros_are_told(tmp_path: Path) -> None:
    table(tmp_path, "case_id,x\n1,0.5\n2,0.1\n")
    with pytest.raises(ModelError, match=r"it has '1': its ids have lost their leading zeros"):
        read(tmp_path).predict(inputs(case_ids=("001", "002")))


@pytest.mark.parametrize("cell", ["high", "1.5", "-0.1", "inf", "0,5,1"])
def test_wrong_scores_are_errors_even_where_missing_ones_are_reported(cell: str, tmp_path: Path) -> None:
    table(tmp_path, f'case_id,x\nc1,0.5\nc2,"{cell}"\n')
    with pytest.raises(ConfigError, match="row 2, column 'x'"):
        read(tmp_path, missing="report")


def test_missing_scores_of_typed_files(tmp_path: Path) -> None:
    pl.DataFrame({"case_id": ["c1", "c2"], "x": [None, float("nan")]}).write_parquet(tmp_path / "p.parquet")
    assert np.isnan(read(tmp_path, "p.parquet", missing="report").predict(inputs())).all()


def test_the_first_name_of_the_case_column_that_the_file_has(tmp_path: Path) -> None:
    model = read(table(tmp_path, "stay,x\nc1,0.5\nc2,0.25\n"), case=("case_id", "stay"))
    assert model.labels == ("x",)
    assert model.predict(inputs()).tolist() == [[0.5], [0.25]]
    both = read(table(tmp_path, "stay,case_id,x\ns1,c1,0.5\ns2,c2,0.25\n"), case=("case_id", "stay"))
    assert both.labels == ("x",)
    assert both.predict(inputs()).tolist() == [[0.5], [0.25]]
