"""The command line in pipelines: silence, the log, JSON, exit codes, completion; and training with roles."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from palpate.cli.app import EXIT_CODES
from tests.e2e.command_line import CommandLine

NOTE = "Mrs Smith has fever and chills"
CONFIG = """
cohort: {{file: notes.csv, text: note, labels: [ill], positive: Yes}}
models: {{answers: "predictions:{file}"}}
audits:
  performance: {{n_replicates: 100}}
gate: ["performance.auroc >= {least}"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = "".join(f"{k};{NOTE} {k};{'Yes' if k % 2 else 'No'}\n" for k in range(20))
    (tmp_path / "notes.csv").write_text(f"case_id;note;ill\n{rows}", encoding="utf-8")
    scores = "".join(f"{k};{'0,8' if k % 2 or k == 4 else '0,3'}\n" for k in range(20))
    (tmp_path / "scores.csv").write_text(f"case_id;ill\n{scores}", encoding="utf-8")
    return tmp_path


@pytest.fixture
def palpate(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return CommandLine(capsys, monkeypatch)


def write(folder: Path, *, least: float = 0.6, file: str = "scores.csv") -> Path:
    (folder / "audit.yaml").write_text(CONFIG.format(least=least, file=file))
    return folder / "audit.yaml"


def events(log: Path) -> list[dict[str, object]]:
    assert "Smith" not in log.read_text(encoding="utf-8")
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def test_a_run_that_only_a_pipeline_reads(folder: Path, palpate: CommandLine) -> None:
    log = folder / "logs" / "run.jsonl"
    ran = palpate("audit", write(folder), "--out", folder / "run", "--quiet", "--log", log, "--json")
    assert (ran.code, ran.err) == (0, "")
    summary = json.loads(ran.out)
    assert summary["passed"] is True
    assert summary["gate"][0]["condition"] == "performance.auroc >= 0.6"
    assert Path(summary["report"]).exists()
    assert any(row["question"] == "separation" for row in summary["scorecard"])
    written = events(log)
    assert [written[0]["event"], written[-1]["event"]] == ["start", "end"]
    stages = [event["stage"] for event in written if event["event"] == "stage"]
    assert stages.index("planning performance") < stages.index("analysing performance")
    assert any(event["event"] == "scoring" and event["done"] == 20 for event in written)


def test_silence(folder: Path, palpate: CommandLine) -> None:
    ran = palpate("audit", write(folder), "--out", folder / "run", "--quiet")
    assert ran == (0, "", "")
    ran = palpate("audit", folder / "audit.yaml", "--out", folder / "run2")
    assert "Report:" in ran.out, "silence ends with the command"


@pytest.mark.parametrize(
    ("change", "code", "kind"),
    [
        ({"least": 0.99}, 1, None),
        ({"file": "none.csv"}, 2, "ConfigError"),
        ({"file": "few.csv"}, 3, "ModelError"),
    ],
)
def test_exit_codes(folder: Path, palpate: CommandLine, change: dict[str, object], code: int, kind: str | None) -> None:
    (folder / "few.csv").write_text("case_id,ill\n1,0.5\n")
    config = write(folder, **change)  # type: ignore[arg-type]
    ran = palpate("audit", config, "--out", folder / "run", "--json", "--log", folder / "log")
    assert ran.code == code
    last = events(folder / "log")[-1]
    if kind is None:
        assert json.loads(ran.out)["passed"] is False
        assert last["event"] == "end"
    else:
        assert ran.out == ""
        assert ran.err.count("palpate: ") == 1
        assert (last["event"], last["type"], last["exit_code"]) == ("error", kind, code)


def test_the_log_must_be_writable(folder: Path, palpate: CommandLine) -> None:
    ran = palpate("audit", write(folder), "--log", folder)
    assert ran.code == 2
    assert "the log can't be written" in ran.err


def test_exit_codes_are_in_the_help() -> None:
    help_files = Path(__file__).parent / "help"
    for command in ("palpate", "palpate-audit", "palpate-check", "palpate-init", "palpate-train"):
        text = " ".join((help_files / f"{command}.txt").read_text(encoding="utf-8").split())
        assert EXIT_CODES in text, command


@pytest.mark.parametrize(
    ("words", "completed"), [("palpate au", ["audit"]), ("palpate audit --js", ["--json"]), ("palpate ini", ["init"])]
)
def test_completion(words: str, completed: list[str]) -> None:
    script = Path(sys.executable).with_name("palpate")
    if not script.exists():
        pytest.skip("the command is not installed beside Python")
    asked = {"_PALPATE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    ran = subprocess.run([script], env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert ran.stdout.split() == completed, ran.stderr


# --- training without a configuration -----------------------------------------------------------------------


def train_table(folder: Path) -> None:
    rows = "".join(
        f"p{k};{'sepsis and fever' if k % 3 else 'well and stable'} today;{'Yes' if k % 3 else 'No'};"
        f"{('train', 'train', 'val', 'test')[k % 4]}\n"
        for k in range(80)
    )
    (folder / "train.csv").write_text(f"patient;note;ill;part\n{rows}", encoding="utf-8")


ROLES = ("text=note", "labels=ill", "positive=yes", "split=part", "patient=patient", "min_patients=1")


def sets(*values: str) -> list[str]:
    return [word for value in values for word in ("--set", value)]


def test_training_with_roles_on_the_command_line(folder: Path, palpate: CommandLine) -> None:
    train_table(folder)
    table, out = folder / "train.csv", folder / "model"
    ran = palpate("train", "tfidf-logistic", "--cohort", table, "--out", out, *sets(*ROLES), "--json", "-q")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["models"][0]["source"] == f"palpate:{out}"
    (folder / "roles.yaml").write_text(
        "cohort: {file: train.csv, text: note, labels: [ill], positive: yes, split: part, patient: patient}\n"
    )
    ran = palpate(
        "train", "tfidf-logistic", "--cohort", folder / "roles.yaml", "--out", folder / "b", *sets("min_patients=1")
    )
    assert ran.code == 0, ran.err
    weights = [[file.read_bytes() for file in sorted(made.rglob("*.skops"))] for made in (out, folder / "b")]
    assert weights[0] == weights[1] != []


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (("text=nota",), "column 'nota': column not found; the columns are 'note'"),
        (("txt=note",), "option 'txt' of tfidf-logistic: unknown option"),
        (("encoding=latin-one",), "--set encoding: 'latin-one' is not an encoding"),
        (("labels=ill",), "say which value means 1: `positive: Yes`"),
    ],
)
def test_wrong_roles(folder: Path, palpate: CommandLine, settings: tuple[str, ...], told: str) -> None:
    train_table(folder)
    ran = palpate("train", "tfidf-logistic", "--cohort", folder / "train.csv", "--out", folder / "m", *sets(*settings))
    assert ran.code == 2
    assert told in ran.err
