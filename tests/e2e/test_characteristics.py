"""The characteristics audit and `palpate alter` through the command line."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.e2e.command_line import CommandLine

NOTE = "Mr. Jones is a 63 y/o M with CAD. His wife drove him in. Temp 101 F. His father died at 60.\n"
MODEL = """
import numpy as np


def risk(texts):
    return 1 / (1 + np.exp(-np.asarray([-2 + 0.5 * (" man " in text) + 1.0 * ("smoker" in text) for text in texts])))
"""
AUDIT = """\
cohort: {file: notes.csv, labels: [died]}
models: {risk: "python:gender_model:risk"}
audits:
  characteristics: {alter: [gender, smoking], definitions: [smoking.yaml], n_replicates: 200}
"""
SMOKING = """\
name: smoking
insert: [section]
sections: [Social History]
groups:
  none: {}
  smoker: {sentence: [Is a smoker]}
"""


@pytest.fixture
def altered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "gender_model", raising=False)
    (tmp_path / "gender_model.py").write_text(MODEL)
    (tmp_path / "smoking.yaml").write_text(SMOKING)
    (tmp_path / "audit.yaml").write_text(AUDIT)
    who = [("man", "He"), ("woman", "She")]
    texts = [
        f"{30 + k} year old {who[k % 2][0]} with a fall. {who[k % 2][1]} is stable.\nSocial History: Lives alone.\n"
        for k in range(40)
    ]
    pl.DataFrame({"text": texts, "died": [int(k % 3 == 0) for k in range(40)]}).write_csv(tmp_path / "notes.csv")
    return tmp_path


def difference(run: Path, group: str) -> dict[str, object]:
    rows = pl.read_parquet(run / "results" / "characteristics.parquet")
    return rows.filter(metric="difference", group=group).row(0, named=True)


def test_the_audit_finds_what_the_model_does(altered: Path, palpate: CommandLine) -> None:
    ran = palpate("audit", altered / "audit.yaml", "--out", altered / "run")
    assert ran.code == 0, ran.err
    expected = 1 / (1 + 2.718281828459045**2) - 1 / (1 + 2.718281828459045**1.5)
    assert difference(altered / "run", "gender=female")["value"] == pytest.approx(expected, abs=1e-12)
    smoker = difference(altered / "run", "smoking=smoker")
    assert smoker["reference"] == "smoking=none"
    assert smoker["value"] > 0.05  # type: ignore[operator]


def test_note_text_is_in_the_report_only_when_asked_for(altered: Path, palpate: CommandLine) -> None:
    assert palpate("audit", altered / "audit.yaml", "--out", altered / "run").code == 0
    assert "with a fall" not in (altered / "run" / "report.html").read_text()
    (altered / "audit.yaml").write_text(AUDIT + "include_text: true\n")
    assert palpate("audit", altered / "audit.yaml", "--out", altered / "open").code == 0
    assert "with a fall" in (altered / "open" / "report.html").read_text()
    (altered / "audit.yaml").write_text(AUDIT.replace("n_replicates: 200", "include_text: true"))
    ran = palpate("audit", altered / "audit.yaml", "--out", altered / "other")
    assert ran.code == 2
    assert "top level" in ran.err


def test_alter_shows_the_difference(tmp_path: Path, palpate: CommandLine) -> None:
    (tmp_path / "note.txt").write_text(NOTE)
    ran = palpate("alter", "--characteristic", "gender", "--to", "female", tmp_path / "note.txt")
    assert ran.code == 0, ran.err
    assert "[-Mr-]{+Ms+}. Jones" in ran.out
    assert "Temp 101 F." in ran.out
    assert "[-His-]{+Her+} father died at 60" in ran.out
    assert "changed" in ran.err
    both = palpate(
        "alter", "-c", "gender", "--to", "female", "-c", "age", "--to", "80", "--plain", tmp_path / "note.txt"
    )
    assert both.out == (
        "Ms. Jones is an 80 y/o F with CAD. Her husband drove her in. Temp 101 F. Her father died at 60.\n"
    )


def test_alter_reads_standard_input(palpate: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(NOTE.encode())))
    ran = palpate("alter", "-c", "gender", "--to", "male", "-")
    assert ran.out == NOTE
    assert "kept" in ran.err


def test_alter_keeps_line_ends_and_refuses_what_is_no_text(
    palpate: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"63 y/o M.\r\nHe is well.")))
    ran = palpate("alter", "-c", "gender", "--to", "female", "--plain", "-")
    assert ran.out == "63 y/o F.\r\nShe is well."
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"63 y/o M, caf\xe9.")))
    ran = palpate("alter", "-c", "gender", "--to", "female", "-")
    assert ran.code == 2
    assert "is not UTF-8 text" in ran.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-c", "gender", "--to", "robot"], "no group 'robot'"),
        (["-c", "moon", "--to", "full"], "moon"),
        (["-c", "gender", "-c", "age", "--to", "male"], "one --to for each"),
    ],
)
def test_alter_says_what_is_wrong(tmp_path: Path, palpate: CommandLine, words: list[str], says: str) -> None:
    (tmp_path / "note.txt").write_text(NOTE)
    ran = palpate("alter", *words, tmp_path / "note.txt")
    assert ran.code == 2
    assert says in ran.err


def test_a_bad_definition_names_file_and_line(altered: Path, palpate: CommandLine) -> None:
    (altered / "smoking.yaml").write_text(SMOKING.replace("sentence", "sentense"))
    ran = palpate("audit", altered / "audit.yaml", "--out", altered / "run")
    assert ran.code == 2
    assert "smoking.yaml" in ran.err
    assert "line 6" in ran.err
