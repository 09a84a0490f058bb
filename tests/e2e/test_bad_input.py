"""Bad input: one sentence with file, row, column and what to do; exit code 2. A failing model: 3."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import notes_frame
from tests.e2e.command_line import CommandLine
from tests.e2e.conftest import CONFIG


def change(column: str, row: int, value: object) -> Callable[[pl.DataFrame], pl.DataFrame]:
    def changed(frame: pl.DataFrame) -> pl.DataFrame:
        values = [str(cell) for cell in frame[column]]
        values[row - 1] = str(value)
        return frame.with_columns(pl.Series(column, values))

    return changed


@pytest.mark.parametrize(
    ("spoil", "parts"),
    [
        (lambda frame: frame.drop("ill"), ["column 'ill'", "notes.csv"]),
        (change("case_id", 5, "c0"), ["row 5", "column 'case_id'", "row 1"]),
        (change("ill", 7, "maybe"), ["row 7", "column 'ill'", "maybe"]),
        (change("ill", 7, "NaN"), ["row 7", "column 'ill'"]),
        (change("ill", 7, ""), ["row 7", "column 'ill'"]),
        (change("text", 9, ""), ["row 9", "column 'text'"]),
        (lambda frame: frame.head(0), ["no rows"]),
    ],
    ids=["missing column", "duplicate id", "label not 0/1", "NaN", "empty label", "empty text", "empty"],
)
def test_cohort_errors(
    project: Path, palpate: CommandLine, spoil: Callable[[pl.DataFrame], pl.DataFrame], parts: list[str]
) -> None:
    spoil(notes_frame()).write_csv(project / "notes.csv")
    ran = palpate("audit", project / "audit.yaml")
    assert ran.code == 2
    assert ran.err.strip().splitlines()[-1].startswith("palpate: ")
    for part in [*parts, "notes.csv"]:
        assert part in ran.err, ran.err
    assert "Traceback" not in ran.err
    assert not (project / "audit-run").exists()


def test_undecodable_bytes(project: Path, palpate: CommandLine) -> None:
    content = (project / "notes.csv").read_bytes()
    at = content.index(b"fever")
    (project / "notes.csv").write_bytes(content[:at] + b"\xff\xfe" + content[at:])
    row = content[:at].count(b"\n")
    ran = palpate("audit", project / "audit.yaml")
    assert ran.code == 2
    assert f"row {row}, column 'text'" in ran.err


def test_truncated_gzip(project: Path, palpate: CommandLine) -> None:
    whole = gzip.compress((project / "notes.csv").read_bytes())
    (project / "notes.csv.gz").write_bytes(whole[: len(whole) // 2])
    (project / "audit.yaml").write_text(CONFIG.replace("notes.csv", "notes.csv.gz"))
    ran = palpate("audit", project / "audit.yaml")
    assert ran.code == 2
    assert "notes.csv.gz" in ran.err


@pytest.mark.parametrize(
    ("old", "new", "code", "parts"),
    [
        ("notes.csv", "nowhere.csv", 2, ["nowhere.csv"]),
        ("python:hospital_model:other", "python:hospital_model:nothing", 2, ["nothing"]),
        ("python:hospital_model:other", "hospital_model", 2, ["scheme:target", "hf:"]),
        ("python:hospital_model:other", "magic:x", 2, ["unknown scheme 'magic'", "sklearn"]),
        ("python:hospital_model:other", "http://example.org/predict", 2, ["allow_remote"]),
        ("python:hospital_model:other", "sklearn:m.joblib", 2, ["m.joblib"]),
        ("python:hospital_model:other", "python:hospital_model:broken", 3, ["model 'weak', case 'c", "RuntimeError"]),
        ("python:hospital_model:other", "python:hospital_model:nan", 3, ["model 'weak', case 'c", "NaN"]),
        ("n_replicates: 200", "replicates: 200", 2, ["unknown option", "n_replicates"]),
        ("labels: [ill]", "labels: [sick]", 2, ["sick"]),
        ("audits:", "audit:", 2, ["audit.yaml", "audits"]),
        ("python:hospital_model:other", "python:hospital_model:picky", 3, ["model 'weak', case 'c2'"]),
        ("python:hospital_model:other", "python:hospital_model:short", 3, ["model 'weak', case 'c", "shape"]),
        ("  weak: python:hospital_model:other", "  weak: []", 2, ["models.weak"]),
        ("  weak:", f"  {'w' * 300}:", 2, ["at most 80"]),
    ],
)
def test_configuration_errors(
    project: Path, palpate: CommandLine, old: str, new: str, code: int, parts: list[str]
) -> None:
    (project / "audit.yaml").write_text(CONFIG.replace(old, new))
    ran = palpate("audit", project / "audit.yaml")
    assert ran.code == code, ran.err
    for part in parts:
        assert part in ran.err, ran.err
    assert "Traceback" not in ran.err
    assert "no luck" not in ran.err


def test_debug_shows_the_traceback(project: Path, palpate: CommandLine) -> None:
    ran = palpate("audit", project / "nowhere.yaml", "--debug")
    assert ran.code == 2
    assert "Traceback (most recent call last):" in ran.err
    assert "nowhere.yaml: file not found" in ran.err


def test_what_a_failed_run_scored_is_kept(project: Path, palpate: CommandLine) -> None:
    (project / "audit.yaml").write_text(CONFIG.replace("hospital_model:other", "hospital_model:broken"))
    assert palpate("audit", project / "audit.yaml").code == 3
    assert (project / "audit-run" / "predictions" / "good.parquet").is_file()
    ran = palpate("report", project / "audit-run")
    assert ran.code == 2
    assert "has no results yet" in ran.err


def test_no_run_to_report(tmp_path: Path, palpate: CommandLine) -> None:
    ran = palpate("report", tmp_path)
    assert ran.code == 2
    assert "holds no run" in ran.err


def test_an_unwritable_place_is_one_sentence(
    project: Path, palpate: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = palpate("audit", project / "audit.yaml", "--out", project / "notes.csv")
    assert ran.code == 2
    assert "notes.csv: this is a file, not a folder; choose another --out." in ran.err
    assert "reading the cohort" not in ran.err
    monkeypatch.setenv("PALPATE_CACHE", str(project / "notes.csv" / "scores.sqlite"))
    ran = palpate("audit", project / "audit.yaml")
    assert ran.code == 2
    assert "can't be used as the cache of scores" in ran.err


def test_a_damaged_result_is_one_sentence(project: Path, palpate: CommandLine) -> None:
    palpate("audit", project / "audit.yaml", "--out", project / "run")
    (project / "run" / "results" / "performance.json").write_text("[1]")
    ran = palpate("report", project / "run")
    assert ran.code == 2
    assert "is damaged" in ran.err


def test_secrets_stay_out_of_the_run(project: Path, palpate: CommandLine) -> None:
    from tests.models.adapters.local_server import LocalServer

    server = LocalServer()
    try:
        extra = f"""  far:
    source: "{server.url}?key=hunter2"
    headers: {{X-Custom: swordfish}}
    labels: [ill]
"""
        (project / "audit.yaml").write_text(CONFIG.replace("audits:", extra + "audits:"))
        ran = palpate("audit", project / "audit.yaml", "--out", project / "run")
    finally:
        server.close()
    assert ran.code == 0, ran.err
    written = b"".join(path.read_bytes() for path in (project / "run").rglob("*") if path.is_file())
    assert b"hospital_model" in written
    assert b"hunter2" not in written
    assert b"swordfish" not in written


def test_two_cohorts_that_share_case_ids_need_a_cohort_column(project: Path, palpate: CommandLine) -> None:
    notes_frame(seed=4).drop("split").write_csv(project / "away.csv")
    notes_frame().select("case_id", ill=pl.lit(0.3)).write_csv(project / "answers.csv")
    cohorts = "cohorts:\n  home: {file: notes.csv, labels: [ill]}\n  away: {file: away.csv, labels: [ill]}"
    (project / "audit.yaml").write_text(
        CONFIG.replace("cohort: {file: notes.csv, labels: [ill]}", cohorts).replace(
            "python:hospital_model:other", "predictions:answers.csv"
        )
    )
    ran = palpate("audit", project / "audit.yaml")
    assert ran.code == 2
    assert "add a column `cohort`" in ran.err


@pytest.mark.slow
def test_hospital_cohort_and_model_on_the_command_line(tmp_path: Path, palpate: CommandLine) -> None:
    """The way from an empty folder to a report: synth, cohort, train, audit."""
    ran = palpate("synth", "--out", tmp_path / "h", "--patients", 400, "--no-images")
    assert ran.code == 0, ran.err
    out = tmp_path / "cases.parquet"
    ran = palpate(
        "cohort", "readmission", "--source", tmp_path / "h" / "mimic-iii", "--out", out, "--set", "ratios=5,2,3"
    )
    assert ran.code == 0, ran.err
    assert "died in hospital" in ran.out
    ran = palpate("train", "tfidf-logistic", "--cohort", out, "--out", tmp_path / "m", "--set", "max_features=500")
    assert ran.code == 0, ran.err
    assert "threshold" in ran.out
    (tmp_path / "audit.yaml").write_text(
        "cohort: cases.parquet\nmodels: {lr: 'palpate:m'}\naudits: {performance: {n_replicates: 200}}\n"
    )
    ran = palpate("audit", tmp_path / "audit.yaml")
    assert ran.code == 0, ran.err


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["synth", "--out", "h", "--set", "gender=1"], "unknown plant 'gender'"),
        (["cohort", "nothing", "--source", ".", "--out", "x.parquet"], "unknown kind of cohort 'nothing'"),
        (["cohort", "readmission", "--source", "nowhere", "--out", "x.parquet"], "nowhere"),
        (["cohort", "readmission", "--source", ".", "--out", "x.parquet", "--set", "dayz=3"], "option 'dayz'"),
        (["train", "magic", "--cohort", "x.parquet", "--out", "m"], "unknown kind of model 'magic'"),
        (["train", "tfidf-logistic", "--cohort", "x.parquet", "--out", "m", "--set", "maxfeatures=3"], "did you mean"),
        (["train", "tfidf-logistic", "--cohort", "audit.yaml", "--out", "m", "--set", "c"], "OPTION=VALUE"),
    ],
)
def test_wrong_words_of_the_makers(
    project: Path, palpate: CommandLine, monkeypatch: pytest.MonkeyPatch, words: list[str], part: str
) -> None:
    monkeypatch.chdir(project)
    ran = palpate(*words)
    assert ran.code == 2
    assert part in ran.err, ran.err
    assert not (project / "x.parquet").exists()
    assert not (project / "m").exists()
