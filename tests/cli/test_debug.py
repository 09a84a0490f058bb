"""`--debug` shows where an error comes from and no text of a note, unless `--debug-with-notes` asks for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SECRET = "MARKERXYZ"
MODEL = """
def chained(texts):
    text = next(t for t in texts if "MARKERXYZ" in t) if len(texts) > 1 else texts[0]
    try:
        try:
            raise KeyError(text)
        except KeyError as error:
            raise RuntimeError(f"cannot read {text}") from error
    except RuntimeError as first:
        first.add_note(text)
        raise ValueError("again " + text)

def grouped(texts):
    raise ExceptionGroup(texts[0], [ValueError(text) for text in texts])
"""


def audit(folder: Path, function: str, isolate: str, workers: int, *words: str) -> subprocess.CompletedProcess[str]:
    rows = "".join(f"c{k},{SECRET} patient {k} is ill,{k % 2}\n" for k in range(12))
    (folder / "cohort.csv").write_text(f"case_id,text,sick\n{rows}")
    (folder / "quoting.py").write_text(MODEL)
    (folder / "audit.yaml").write_text(
        "cohort: {file: cohort.csv, case: case_id, text: text, labels: [sick]}\n"
        f"models: {{m: {{source: 'python:quoting:{function}', isolate: {isolate}}}}}\n"
        f"cache: cache.sqlite\nworkers: {workers}\naudits: {{performance: {{n_replicates: 100}}}}\n"
    )
    command = [sys.executable, "-m", "palpate", "audit", str(folder / "audit.yaml"), *words]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("function", "isolate", "workers"), [("chained", "true", 1), ("chained", "false", 1), ("grouped", "false", 1)]
)
def test_the_traceback_quotes_no_note(tmp_path: Path, function: str, isolate: str, workers: int) -> None:
    ran = audit(tmp_path, function, isolate, workers, "--debug")
    assert ran.returncode == 3
    assert "quoting.py" in ran.stderr
    assert f"in {function}" in ran.stderr
    assert SECRET not in ran.stderr + ran.stdout


@pytest.mark.slow
def test_nor_with_workers(tmp_path: Path) -> None:
    ran = audit(tmp_path, "chained", "true", 2, "--debug")
    assert ran.returncode == 3
    assert "Traceback" in ran.stderr
    assert SECRET not in ran.stderr + ran.stdout


def test_unless_it_is_asked_for(tmp_path: Path) -> None:
    ran = audit(tmp_path, "chained", "true", 1, "--debug-with-notes")
    assert ran.returncode == 3
    assert f"cannot read {SECRET}" in ran.stderr
