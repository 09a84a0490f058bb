"""Sheets that people open: a text that a spreadsheet would compute is shown, and read back as it was."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.cases.cohort import Cohort
from palpate.commands.codes import write_table
from palpate.commands.history import History, as_csv
from palpate.data.annotations.evidence_tables import read_evidence
from palpate.data.cohorts import BuiltCohort, FlowStep, side_files, write_built_cohort
from palpate.data.cohorts.splits import read_splits
from palpate.data.lexicons import read_ratings, read_replacements, read_words, write_rating_sheet
from palpate.data.suites import import_csv, read_suite, write_cases, write_templates
from palpate.privacy import as_cell, from_cell
from palpate.report.history import HistoryLine

ATTACKS = ["=cmd|' /C calc'!A0", "+1+cmd", "-2+3+cmd", "@SUM(1)", "\t=1", "\r=1", "＝1+1", "'=1"]
STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


@pytest.mark.parametrize("text", ATTACKS)
def test_a_formula_is_shown(text: str) -> None:
    cell = as_cell(text)
    assert isinstance(cell, str)
    assert cell.startswith("'")
    assert from_cell(cell) == text


UNSEEN = "\u202e\u2060\u200e\u00ad\ufeff\u200b\u200d\x1b\x00\u180e\u034f\ufe0f\u3164\u2800\U000e0041\u2066"


@pytest.mark.parametrize("unseen", list(UNSEEN))
@pytest.mark.parametrize("formula", ["=1+1", "@SUM(1)", "+cmd", "\ufe66cmd"])
def test_a_formula_behind_what_nobody_sees_is_shown(unseen: str, formula: str) -> None:
    for text in (f"{unseen}{formula}", f" {unseen}{unseen}{formula}", f"'{unseen}{formula}"):
        assert as_cell(text) == f"'{text}"
        assert from_cell(f"'{text}") == text
    assert as_cell(f"{unseen}fever = 39") == f"{unseen}fever = 39"


@given(st.text(alphabet=st.sampled_from("'=+-@\t\r\n＝a1. "), max_size=6) | st.text(max_size=6))
def test_every_cell_comes_back(text: str) -> None:
    cell = as_cell(text)
    assert isinstance(cell, str)
    assert from_cell(cell) == text
    if cell.startswith(STARTS):
        float(cell.rstrip("%").replace(",", "."))  # only a number may start with a sign


def cells(file: Path) -> list[str]:
    with file.open(encoding="utf-8-sig", newline="") as stream:
        return [cell for row in csv.reader(stream) for cell in row]


def test_the_sheet_of_words_for_clinicians(tmp_path: Path) -> None:
    sheet, words = tmp_path / "words.csv", ["=cmd()", "-cough", "fever", "-5"]
    write_rating_sheet(sheet, words, ["@anna"])
    assert not [cell for cell in cells(sheet) if cell.startswith(STARTS) and cell != "-5"]
    assert read_words(sheet) == tuple(words)
    rows = sheet.read_text("utf-8-sig").splitlines()
    sheet.write_text("\n".join([rows[0], *(f"{row.rstrip(',')},3" for row in rows[1:])]))
    ratings = read_ratings(sheet)
    assert (ratings.words, ratings.raters) == (tuple(words), ("@anna",))
    replacements = tmp_path / "replacements.csv"
    replacements.write_text("word,replacement\n'=cmd(),'+x\n")
    assert read_replacements(replacements) == {"=cmd()": ("+x",)}


def test_templates_and_cases_of_a_suite(tmp_path: Path) -> None:
    table = tmp_path / "suite.csv"
    table.write_text(
        'capability,label,template\nsigns,1,"\'=cmd|x {drug} made me ill"\nsigns,0,"- {drug} did nothing"\n'
    )
    suite = import_csv(table)
    write_templates(suite, tmp_path / "templates.csv")
    write_cases(suite.sample(20, np.random.default_rng(0)), tmp_path / "cases.csv")
    for name in ("templates.csv", "cases.csv"):
        assert not [cell for cell in cells(tmp_path / name) if cell.startswith(STARTS)]
    again = read_suite(str(tmp_path / "templates.csv"))
    said = [[flat.source() for flat in template.variations()] for template in suite.templates]
    assert [[flat.source() for flat in template.variations()] for template in again.templates] == said
    assert any(text[0].startswith("=cmd") for text in said)


def test_tables_of_codes_and_evidence(tmp_path: Path) -> None:
    file = tmp_path / "evidence.csv"
    frame = pl.DataFrame({"case_id": ["=1+1", "-7"], "label": ["@x", "I10"], "start": [0, 1], "end": [3, 2]})
    write_table(frame, file)
    assert not [cell for cell in cells(file) if cell.startswith(STARTS) and cell != "-7"]
    read = read_evidence(file).rows
    assert read["case_id"].to_list() == ["=1+1", "-7"]
    assert read["label"].to_list() == ["@x", "I10"]


def test_the_history(tmp_path: Path) -> None:
    values = dict.fromkeys(HistoryLine._fields, "=cmd()") | {"value": -0.5}
    line = HistoryLine(**values)  # type: ignore[arg-type]
    file = tmp_path / "history.csv"
    file.write_text(as_csv(History("auroc", [line], [])))  # type: ignore[arg-type]
    assert not [cell for cell in cells(file) if cell.startswith(STARTS) and cell != "-0.5"]


def test_the_flow_and_the_splits_of_a_cohort(tmp_path: Path) -> None:
    cases = {"case_id": ["1", "2"], "patient_id": ["=cmd()", "-7"], "split": ["train", "test"], "text": ["a", "b"]}
    cohort = Cohort.from_frame(pl.DataFrame({**cases, "sick": [0, 1]}), labels=["sick"], name="c")
    built = BuiltCohort(cohort, (FlowStep("@step", 2, 2, 0, "+reason"),))
    write_built_cohort(built, tmp_path / "c.parquet")
    flow, splits = side_files(tmp_path / "c.parquet")
    for sheet in (flow, splits):
        assert not [cell for cell in cells(sheet) if cell.startswith(STARTS) and cell != "-7"]
    assert dict(read_splits(splits).iter_rows()) == {"=cmd()": "train", "-7": "test"}
