"""Review before trust, through the command line: the page, the saved marks, and the error rate in the audit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.e2e.command_line import CommandLine

AUDIT = """\
cohort: {file: notes.csv, labels: [died]}
models: {risk: "python:review_model:risk"}
audits:
  characteristics: {alter: [gender], n_replicates: 200, review: review.json}
"""
MODEL = """
import numpy as np


def risk(texts):
    return np.asarray([0.2 + 0.01 * ("She" in text) for text in texts])
"""


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "review_model.py").write_text(MODEL)
    (tmp_path / "audit.yaml").write_text(AUDIT)
    who = [("man", "He"), ("woman", "She")]
    texts = [f"{30 + k} year old {who[k % 2][0]} with a fall. {who[k % 2][1]} is stable.\n" for k in range(40)]
    died = [int(k % 3 == 0) for k in range(40)]
    pl.DataFrame({"text": texts, "died": died}).write_csv(tmp_path / "notes.csv")
    return tmp_path


def saved_by(page: Path) -> dict[str, Any]:
    """What the page saves, before anything is marked."""
    found = re.search(r'id="saved"[^>]*>(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return dict(json.loads(found[1]))


def sampled(palpate: CommandLine, notes: Path, *more: object) -> Path:
    page = notes / "review.html"
    ran = palpate(
        "alter", "--sample", "12", "--cohort", notes / "notes.csv", "--to", "gender=female", "--out", page, *more
    )
    assert ran.code == 0, ran.err
    assert "12 altered notes are in" in ran.out
    assert "contains text from patients' notes" in " ".join(ran.out.split())
    assert "with a fall" not in ran.out + ran.err
    return page


def test_the_page_is_private_and_the_same_for_a_seed(notes: Path, palpate: CommandLine) -> None:
    page = sampled(palpate, notes)
    first = page.read_bytes()
    assert page.stat().st_mode & 0o777 == 0o600
    assert b"contains text from patients" in first
    assert first.count(b"<del>man</del><ins>woman</ins>") == 12  # women are not altered
    assert sampled(palpate, notes).read_bytes() == first
    assert sampled(palpate, notes, "--seed", "1").read_bytes() != first
    saved = saved_by(page)
    assert saved["to"] == {"gender": "female"}
    assert [one["mark"] for one in saved["marks"]] == [""] * 12
    assert "fall" not in json.dumps(saved)


def test_fewer_notes_than_were_asked_for_are_told(notes: Path, palpate: CommandLine) -> None:
    page = notes / "review.html"
    ran = palpate("alter", "--sample", "50", "--cohort", notes / "notes.csv", "--to", "gender=female", "--out", page)
    told = " ".join(ran.out.split())
    assert "20 altered notes are in" in told
    assert "50 were asked for: of 40 notes, 20 say it already and 0 were skipped." in told


def test_the_split_that_notes_are_drawn_from_is_told(notes: Path, palpate: CommandLine) -> None:
    table = pl.read_csv(notes / "notes.csv").with_columns(split=pl.Series(["test", "test", "train", "train"] * 10))
    table.write_csv(notes / "notes.csv")
    page = notes / "review.html"
    ran = palpate("alter", "--sample", "12", "--cohort", notes / "notes.csv", "--to", "gender=female", "--out", page)
    told = " ".join(ran.out.split())
    assert "12 were asked for: of 20 notes of split test, 10 say it already and 0 were skipped." in told
    assert "another split with --split" in told
    assert "10 altered notes of notes.csv, split test, drawn at random" in page.read_text(encoding="utf-8")


def test_the_audit_prints_the_error_rate_beside_its_findings(notes: Path, palpate: CommandLine) -> None:
    saved = saved_by(sampled(palpate, notes))
    for k, one in enumerate(saved["marks"]):
        one["mark"] = "wrong" if k < 2 else "unsure" if k == 2 else "right"
    (notes / "review.json").write_text(json.dumps(saved))
    ran = palpate("audit", notes / "audit.yaml", "--out", notes / "run")
    assert ran.code == 0, ran.err
    sentence = (
        "A reviewer found 2 of 11 random alterations to gender=female wrong: 18% (95% interval 5.1% to 48%; 1 unsure)."
    )
    report = (notes / "run" / "report.html").read_text(encoding="utf-8")
    assert sentence in " ".join(report.split())
    assert "with a fall" not in report
    again = palpate("report", notes / "run")
    assert again.code == 0
    assert (notes / "run" / "report.html").read_text(encoding="utf-8") == report


def test_several_reviews_are_told_each(notes: Path, palpate: CommandLine) -> None:
    saved = saved_by(sampled(palpate, notes))
    for name, marks in (("one", ["right"] * 12), ("two", ["wrong"] + ["right"] * 11)):
        told = [{**one, "mark": mark} for one, mark in zip(saved["marks"], marks, strict=True)]
        (notes / f"{name}.json").write_text(json.dumps({**saved, "reviewer": name, "marks": told}))
    (notes / "audit.yaml").write_text(AUDIT.replace("review.json", "[one.json, two.json]"))
    assert palpate("audit", notes / "audit.yaml", "--out", notes / "run").code == 0
    report = " ".join((notes / "run" / "report.html").read_text(encoding="utf-8").split())
    assert "The reviewer one found 0 of 12" in report
    assert "The reviewer two found 1 of 12" in report


def test_what_is_wrong_is_said(notes: Path, palpate: CommandLine) -> None:
    page = notes / "page.html"
    table = ["--cohort", notes / "notes.csv", "--out", page]
    for words, says in (
        (["alter", "--sample", "5", *table], "--to is missing"),
        (["alter", "--sample", "5", *table, "--to", "female"], "expected CHARACTERISTIC=GROUP"),
        (["alter", "--sample", "5", *table, "--to", "gender=robot"], "no group 'robot'"),
        (
            ["alter", "--sample", "5", *table, "--to", "gender=male", "--text", "body"],
            "column 'body': column not found",
        ),
        (
            ["alter", "--sample", "5", *table, "--to", "gender=male", "--split", "test"],
            "column 'split': column not found",
        ),
        (["alter", "--sample", "5", "--to", "gender=male"], "--sample needs --cohort"),
        (["alter", "--to", "gender=male"], "give a note to alter, or --sample"),
        (["alter", "--sample", "5", *table[:2], "--out", notes / "p.txt", "--to", "gender=male"], "a .html file"),
    ):
        ran = palpate(*words)
        assert (ran.code, says in " ".join(ran.err.split())) == (2, True), ran.err
    assert not page.exists()
    saved = {**saved_by(sampled(palpate, notes)), "to": {"ethnicity": "asian"}}
    saved["marks"][0]["mark"] = "right"
    (notes / "review.json").write_text(json.dumps(saved))
    ran = palpate("audit", notes / "audit.yaml", "--out", notes / "run")
    assert ran.code == 2
    assert "'ethnicity' was reviewed, but is not altered" in " ".join(ran.err.split())
    (notes / "review.json").write_text(json.dumps({**saved, "to": {"gender": "robot"}}))
    ran = palpate("audit", notes / "audit.yaml", "--out", notes / "run")
    assert ran.code == 2
    assert "'gender=robot' was reviewed, but is no group here" in " ".join(ran.err.split())


def test_one_note_can_be_altered_to_a_named_group(tmp_path: Path, palpate: CommandLine) -> None:
    (tmp_path / "note.txt").write_text("63 y/o M. He is well.\n")
    ran = palpate("alter", tmp_path / "note.txt", "--to", "gender=female", "--to", "age=80", "--plain")
    assert (ran.code, ran.out) == (0, "80 y/o F. She is well.\n")
