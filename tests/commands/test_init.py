"""`palpate init`: roles guessed from names and cells, with reasons, and a configuration that runs."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from palpate.commands.init import init, spec_of
from palpate.config import load_config
from palpate.data.tables import read_cohort
from palpate.data.tables.guesses import guess_table
from palpate.errors import ConfigError, InputError
from tests.data.tables.workbooks import write_workbook
from tests.e2e.command_line import CommandLine

NOTE = "Mrs Smith was admitted with shortness of breath"


def hospital(n: int = 60) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    return pl.DataFrame(
        {
            "note_id": [f"n{k}" for k in range(n)],
            "subject_id": [k // 2 for k in range(n)],
            "charttime": [f"2180-01-{k % 28 + 1:02d} 10:00:00" for k in range(n)],
            "dob": [f"2100-01-{k % 28 + 1:02d}" for k in range(n)],
            "note": [f"{NOTE} number {k}." for k in range(n)],
            "prior_notes": [f"Earlier, {NOTE.lower()} {k}." for k in range(n)],
            "sex": rng.choice(["F", "M"], n),
            "age": rng.integers(18, 95, n),
            "ward": rng.choice(["A", "B", "C"], n),
            "ventilated": rng.integers(0, 2, n),
            "readmitted": rng.integers(0, 2, n),
            "creatinine": rng.random(n).round(2),
            "fold": ["train" if k < 40 else "test" for k in range(n)],
            "film": [f"films/{k}.png" for k in range(n)],
            "version": ["v1"] * n,
        }
    )


ROLES = {
    "note_id": "case",
    "subject_id": "patient",
    "charttime": "time",
    "dob": None,
    "note": "text",
    "prior_notes": "prior",
    "sex": "attribute",
    "age": "attribute",
    "ward": "attribute",
    "ventilated": "attribute",
    "readmitted": "label",
    "creatinine": None,
    "fold": "split",
    "film": "image",
    "version": None,
}


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.jsonl", "t.xlsx"])
def test_roles_are_guessed_with_reasons(tmp_path: Path, name: str) -> None:
    frame = hospital()
    if name.endswith(".csv"):
        frame.write_csv(tmp_path / name)
    elif name.endswith(".parquet"):
        frame.write_parquet(tmp_path / name)
    elif name.endswith(".jsonl"):
        frame.write_ndjson(tmp_path / name)
    else:
        write_workbook(tmp_path / name, {"s": [frame.columns, *(list(row) for row in frame.iter_rows())]})
    guessed = guess_table(tmp_path / name)
    assert {guess.column: guess.role for guess in guessed.guesses} == ROLES
    assert all(guess.why for guess in guessed.guesses)
    cohort = read_cohort(spec_of(guessed, tmp_path / name))
    assert len(cohort) == 60
    assert cohort.labels == ("readmitted",)


def test_the_configuration_is_what_was_guessed_and_holds_no_note(tmp_path: Path) -> None:
    hospital().write_csv(tmp_path / "notes.csv", separator=";")
    written = init(tmp_path / "notes.csv", models=["predictions:scores.csv", "bert=hf:models/x"])
    assert written.to_do == ()
    text = written.file.read_text(encoding="utf-8")
    assert "Smith" not in text
    config = load_config(written.file)
    (spec,) = config.tables().values()
    assert (spec.text, spec.patient, spec.case, spec.time) == ("note", "subject_id", "note_id", "charttime")
    assert {name: entry.source for name, entry in config.models.items()} == {
        "scores": "predictions:scores.csv",
        "bert": "hf:models/x",
    }
    assert config.audits["subgroups"] == {"by": ["sex", "age", "ward", "ventilated"]}
    for role in ("case", "patient", "text", "time", "split", "image", "prior"):
        (line,) = (line for line in text.splitlines() if line.startswith(f"  {role}: "))
        assert "  # " in line, "a reason for each role"


def test_words_as_labels_and_another_encoding(tmp_path: Path) -> None:
    rows = "".join(f"{k};Müller hat Fieber und Husten {k};{'Ja' if k % 3 else 'Nein'}\n" for k in range(20))
    (tmp_path / "t.csv").write_bytes(f"Fall-ID;Bericht;Übel\n{rows}".encode("latin-1"))
    written = init(tmp_path / "t.csv", models=["predictions:p.csv"])
    content = yaml.safe_load(written.file.read_text(encoding="utf-8"))["cohort"]
    assert content == {
        "file": "t.csv",
        "encoding": "latin-1",
        "case": "Fall-ID",
        "text": "Bericht",
        "labels": ["Übel"],
        "positive": {"Übel": "Ja"},
    }
    (spec,) = load_config(written.file).tables().values()
    assert read_cohort(spec, folder=tmp_path).y.sum() == 13


def test_a_column_of_codes(tmp_path: Path) -> None:
    frame = pl.DataFrame({"text": [f"{NOTE} {k}" for k in range(30)], "icd": ["J18.9;I50.9", "E11", "I10;E11"] * 10})
    frame.write_csv(tmp_path / "t.csv")
    guessed = guess_table(tmp_path / "t.csv")
    assert [(g.column, g.value) for g in guessed.of("label_list")] == [("icd", ";")]
    assert read_cohort(spec_of(guessed, tmp_path / "t.csv")).labels == ("E11", "I10", "I50.9", "J18.9")


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    pl.DataFrame({"text": [NOTE, NOTE + "!"], "x": ["p", "q"]}).write_csv(tmp_path / "t.csv")
    written = init(tmp_path / "t.csv")
    assert written.to_do == (
        "Name the label columns: no column of the table has two values.",
        "Name a model in `models:`, or run it again with --model SOURCE --force.",
    )
    hospital().with_columns(readmitted=pl.Series([None, *[0, 1] * 29, 1])).write_csv(tmp_path / "u.csv")
    told = init(tmp_path / "u.csv", out=tmp_path / "u.yaml", models=["hf:m"]).to_do
    assert len(told) == 1
    assert "row 1, column 'readmitted': the label is empty" in told[0]
    assert "1 of 60 cells are empty, which a label can't be" in (tmp_path / "u.yaml").read_text()


def test_an_outcome_of_three_values_asks_which_of_them_mean_1(tmp_path: Path) -> None:
    table = tmp_path / "stays.csv"
    frame = hospital().drop("readmitted").with_columns(readmitted=pl.Series(["NO", ">30", "<30"] * 20))
    frame.write_csv(table)
    done = init(table, out=tmp_path / "audit.yaml")
    assert any("'readmitted' is named like an outcome, with the values <30, >30 and NO" in each for each in done.to_do)
    written = (tmp_path / "audit.yaml").read_text()
    assert yaml.safe_load(written)["cohort"].get("labels") is None, "ventilated is no outcome"
    told = [
        line.replace("# ", "", 1) for line in written.splitlines() if line.startswith(("  # labels", "  # positive"))
    ]
    entry = yaml.safe_load("\n".join(told))
    assert entry == {"labels": ["readmitted"], "positive": {"readmitted": ["<30"]}}


def test_names_that_yaml_reads_otherwise_are_quoted(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"text": [f"{NOTE} {k}" for k in range(9)], "yes": [0, 1, 0] * 3, "a: b #c": ["p", "q", "p"] * 3}
    )
    frame.write_csv(tmp_path / "t.csv")
    (spec,) = load_config(init(tmp_path / "t.csv", models=["hf:m"]).file).tables().values()
    assert spec.labels == ("yes",)
    assert spec.attributes == ("a: b #c",)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    hospital().write_csv(tmp_path / "t.csv")
    (tmp_path / "audit.yaml").write_text("mine")
    with pytest.raises(ConfigError, match="exists already; choose another --out, or add --force"):
        init(tmp_path / "t.csv")
    assert (tmp_path / "audit.yaml").read_text() == "mine"
    init(tmp_path / "t.csv", force=True)
    assert (tmp_path / "audit.yaml").read_text() != "mine"


@pytest.mark.parametrize(
    ("model", "told"),
    [("bert", "not of the form"), ("tf:m", "the schemes are"), ("hf:", "not of the form")],
)
def test_wrong_models(tmp_path: Path, model: str, told: str) -> None:
    hospital().write_csv(tmp_path / "t.csv")
    with pytest.raises(InputError, match=told):
        init(tmp_path / "t.csv", models=[model])


def test_from_init_to_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A semicolon, a Latin-1 letter, Yes and No: what a new user does, and what each message says."""
    monkeypatch.setenv("PALPATE_CACHE", str(tmp_path / "scores.sqlite"))
    palpate = CommandLine(capsys, monkeypatch)
    rows = "".join(
        f"{k};p{k // 2};M\xfcller, {'sepsis' if k % 3 else 'stable'} on day {k};{'f' if k % 2 else 'm'};"
        f"{'Yes' if (k % 3 > 0) ^ (k % 7 == 0) else 'No'}\n"
        for k in range(60)
    )
    (tmp_path / "notes.csv").write_bytes(f"id;patient;note;sex;readmitted\n{rows}".encode("latin-1"))
    (tmp_path / "init_model_17.py").write_text(
        "def score(texts):\n    return [0.7 if 'sepsis' in text else 0.2 for text in texts]\n"
    )
    ran = palpate("init", tmp_path / "notes.csv", "--model", "python:init_model_17:score")
    assert ran.code == 0, ran.err
    assert "encoding latin-1, cells separated by ';'" in ran.out
    config = tmp_path / "audit.yaml"
    ran = palpate("check", config)
    assert ran.code == 0, ran.err
    assert "60 cases of 30 patients" in ran.out
    typo = tmp_path / "typo.yaml"
    typo.write_text(config.read_text().replace("text: note", "text: nota"))
    ran = palpate("check", typo)
    assert ran.code == 2
    assert "column 'nota': column not found; the columns are 'note'" in ran.err
    ran = palpate("audit", config, "--set", "performance.n_replicates=200", "--set", "subgroups.n_replicates=200")
    assert ran.code == 0, ran.err
    assert (tmp_path / "audit-run" / "report.html").exists()


def test_dates_of_excel(tmp_path: Path) -> None:
    rows = [["id", "seen", "text", "y"]]
    rows += [[str(k), datetime(2020, 1, k + 1), f"{NOTE} {k}", k % 2] for k in range(9)]
    write_workbook(tmp_path / "t.xlsx", {"s": rows})
    guessed = guess_table(tmp_path / "t.xlsx")
    assert [(guess.column, guess.role) for guess in guessed.guesses] == [
        ("id", "case"),
        ("seen", "time"),
        ("text", "text"),
        ("y", "label"),
    ]


def test_the_id_column_of_a_table_of_scores_is_found_by_its_values(tmp_path: Path) -> None:
    table = hospital()
    table.write_csv(tmp_path / "notes.csv")
    scores = pl.DataFrame({"rank": range(60), "Document": table["note_id"].reverse(), "readmitted": [0.3] * 60})
    scores.write_csv(tmp_path / "vendor.csv", separator=";")
    written = init(tmp_path / "notes.csv", models=["predictions:vendor.csv"])
    entry = yaml.safe_load(written.file.read_text())["models"]["vendor"]
    assert entry == {"source": "predictions:vendor.csv", "case": "Document"}
    scores.rename({"Document": "note_id"}).write_csv(tmp_path / "vendor.csv")
    written = init(tmp_path / "notes.csv", models=["predictions:vendor.csv"], force=True)
    assert yaml.safe_load(written.file.read_text())["models"]["vendor"] == "predictions:vendor.csv"
