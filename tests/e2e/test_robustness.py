"""The robustness audit through the command line: planted reactions, own perturbations, mistakes, privacy."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.audits.robustness.written_notes import frame
from tests.e2e.command_line import CommandLine

MODEL = """
import re


def steady(texts):
    return [0.2 + 0.1 * (int(re.search("(?<![A-Za-z])[0-9]+", text)[0]) % 3) for text in texts]


def brand(texts):
    return [p + 0.4 * ("Lasix" in text or "Zoloft" in text) for p, text in zip(steady(texts), texts)]
"""
OWN = """
def shout(text):
    return text.upper()


def drop(text, rng):
    words = text.split(" ")
    del words[int(rng.integers(len(words)))]
    return " ".join(words)


count = 3
"""
STYLE = "name: house_style\nreplace:\n  presents with: complains of\n"
AUDIT = """\
cohort: {file: notes.csv, labels: [ill]}
models: {brand: "python:written_model:brand", steady: "python:written_model:steady"}
audits:
  robustness:
    threshold: 0.5
    perturbations:
      - house_style.yaml
      - {python: "own_words:shout", tolerance: 0.02}
      - {python: "own_words:drop", expects: up only, name: one_word_less}
gate:
  - robustness.denials is acceptable
  - robustness.difference[group=brands=brand names, reference=brands=as written, model=steady] < 0.01
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("written_model", "own_words"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "written_model.py").write_text(MODEL)
    (tmp_path / "own_words.py").write_text(OWN)
    (tmp_path / "house_style.yaml").write_text(STYLE)
    (tmp_path / "audit.yaml").write_text(AUDIT)
    frame(420).write_csv(tmp_path / "notes.csv")
    return tmp_path


def scorecard(run: Path) -> dict[str, dict[str, str]]:
    rows = json.loads((run / "scorecard.json").read_text())
    return {
        row["question"]: {name: cell["verdict"] for name, cell in row["models"].items()}
        for row in rows
        if row["audit"] == "robustness"
    }


def test_a_planted_reaction_is_found_and_own_perturbations_are_run(project: Path, palpate: CommandLine) -> None:
    ran = palpate("audit", project / "audit.yaml", "--out", project / "run")
    assert ran.code == 0, ran.err
    found = scorecard(project / "run")
    assert set(found) == {"spelling", "layout", "wording", "denials", "own"}
    assert found["wording"]["brand"] == "concern"
    assert found["denials"] == {"brand": "acceptable", "steady": "acceptable"}
    rows = pl.read_parquet(project / "run" / "results" / "robustness.parquet")
    brands = rows.filter(metric="difference", model="brand", group="brands=brand names").row(0, named=True)
    two_of_three = rows.filter(metric="flip_rate", model="brand", group="brands=brand names")["value"][0]
    assert brands["value"] == pytest.approx(0.4 * two_of_three)
    own = rows.filter(pl.col("metric") == "difference", model="steady")["group"].to_list()
    assert {"house_style=changed", "shout=changed", "one_word_less=changed"} <= set(own)
    spec = json.loads((project / "run" / "manifest.json").read_text())["audits"]["robustness"]
    assert spec["perturbations"][0].startswith("house_style (house_style.yaml ")
    assert spec["perturbations"][1].startswith("shout (own_words:shout ")


@pytest.fixture
def small(project: Path) -> Path:
    frame(40).write_csv(project / "notes.csv")
    (project / "audit.yaml").write_text(AUDIT.partition("gate:")[0])
    return project


def test_a_changed_function_is_another_run(small: Path, palpate: CommandLine) -> None:
    project = small
    assert palpate("audit", project / "audit.yaml", "--out", project / "run").code == 0
    (project / "own_words.py").write_text(OWN.replace("text.upper()", "text.lower()"))
    ran = palpate("audit", project / "audit.yaml", "--out", project / "run", "--resume")
    assert ran.code == 2
    assert "audits" in ran.err


def test_no_note_text_is_written_unless_asked_for(small: Path, palpate: CommandLine) -> None:
    project = small
    assert palpate("audit", project / "audit.yaml", "--out", project / "run").code == 0
    asked = pl.read_parquet(project / "run" / "variants" / "robustness.parquet")
    assert asked["replacement"].null_count() == len(asked)
    for file in (project / "run").rglob("*"):
        if file.is_file():
            content = file.read_bytes().lower()
            assert b"penicillin" not in content, file
            assert b"trouble sleeping" not in content, file
    (project / "audit.yaml").write_text(AUDIT.partition("gate:")[0] + "include_text: true\n")
    assert palpate("audit", project / "audit.yaml", "--out", project / "open").code == 0
    assert "What was altered" in (project / "open" / "report.html").read_text()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("own_words:shout", "own_words:whisper", "the module has no 'whisper'"),
        ("own_words:shout", "own_words:count", "'count' is not a function of a note's text"),
        ("own_words:shout", "own_words", "'own_words' is not of the form module:function"),
        ("own_words:shout", "no_such_words:shout", "Python module 'no_such_words' not found"),
        ("expects: up only", "expects: up", "line 9: perturbation 'one_word_less': `expects` is 'up'"),
        ("tolerance: 0.02", "tolerance: high", "line 8: option 'perturbations': a value is of the wrong kind"),
        ("tolerance: 0.02", "margin: 0.02", "unknown key `margin`"),
        ("    threshold: 0.5\n", "    perturb: [typo]\n", "unknown perturbation 'typo'; did you mean `typos`?"),
        ("robustness.denials", "robustness.denial", "robustness has no question 'denial'"),
        ("house_style.yaml", "style.yaml", "style.yaml"),
    ],
)
def test_mistakes_are_told_before_anything_is_scored(
    project: Path, palpate: CommandLine, old: str, new: str, says: str
) -> None:
    (project / "audit.yaml").write_text(AUDIT.replace(old, new))
    ran = palpate("audit", project / "audit.yaml", "--out", project / "run")
    assert ran.code == 2
    assert says in " ".join(ran.err.split())
