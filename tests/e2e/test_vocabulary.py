"""The vocabulary audit through the command line: files in, results, report and errors out."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from palpate.commands import build
from palpate.commands.audit import audit
from palpate.train import train
from tests.e2e.command_line import CommandLine

RATINGS = "word,a,b\nfever,5,4\ncough,4,\nstable,1,2\nunicorn,1,1\n"
AUDIT = """\
cohort: {file: notes.csv, labels: [ill]}
models:
  good: python:hospital_model:predict
  weak: python:hospital_model:other
audits:
  vocabulary: {raters: ratings.csv, n_replicates: 200}
"""


@pytest.fixture
def rated(project: Path) -> Path:
    (project / "ratings.csv").write_text(RATINGS)
    (project / "audit.yaml").write_text(AUDIT)
    return project


def estimates(run: Path, **wanted: str) -> pl.DataFrame:
    return pl.read_parquet(run / "results" / "vocabulary.parquet").filter(pl.col("reference").is_null(), **wanted)


def test_ratings_and_notes_become_a_section_of_the_report(rated: Path, palpate: CommandLine) -> None:
    ran = palpate("audit", rated / "audit.yaml", "--out", rated / "run")
    assert ran.code == 0, ran.err
    rank = estimates(rated / "run", metric="rank", model="good")
    assert rank.filter(group="fever")["value"].item() in (1.0, 2.0)
    nowhere = estimates(rated / "run", metric="sensitivity", model="good", group="unicorn")
    assert nowhere["value"].to_list() == [None]
    assert "no note" in nowhere["reason"].item()
    assert "Words that move good" in (rated / "run" / "report.html").read_text()


@pytest.mark.slow
def test_a_killed_and_resumed_budget_gives_the_same_bytes(rated: Path, palpate: CommandLine) -> None:
    config = AUDIT.replace("n_replicates: 200", "n_replicates: 200, budget: {notes: 2, filters: 2, top: 1}")
    (rated / "audit.yaml").write_text(config)
    assert palpate("audit", rated / "audit.yaml", "--out", rated / "whole").code == 0
    assert palpate("audit", rated / "audit.yaml", "--out", rated / "run").code == 0
    for file in (rated / "run" / "results").iterdir():
        file.unlink()
    assert palpate("audit", rated / "audit.yaml", "--out", rated / "run", "--resume").code == 0
    for file in (rated / "whole" / "results").iterdir():
        assert file.read_bytes() == (rated / "run" / "results" / file.name).read_bytes()


def test_answers_from_elsewhere_are_enough(rated: Path, palpate: CommandLine) -> None:
    config = AUDIT.replace("  weak: python:hospital_model:other\n", "").replace(
        "python:hospital_model:predict", "predictions:answers.parquet"
    )
    (rated / "audit.yaml").write_text(config)
    assert palpate("plan", rated / "audit.yaml", "--out", rated / "asked").code == 0
    inputs = pl.read_parquet(rated / "asked" / "inputs.parquet")
    answers = inputs.select("input_id", ill=pl.col("text").str.contains("fever").cast(pl.Float64) * 0.5)
    answers.write_parquet(rated / "answers.parquet")
    ran = palpate("audit", rated / "audit.yaml", "--out", rated / "run")
    assert ran.code == 0, ran.err
    assert estimates(rated / "run", metric="rank", model="good", group="fever")["value"].item() == 1.0


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("word,a\nfever,9\n", "1 to 5|between 1 and 5"),
        ("word,a\nfever,often\n", "number"),
        ("word,a\nfever,3\nFever,4\n", "twice|row"),
        ("a,b\n1,2\n", "word"),
        ("word,a\nfever,\n", "rater|no score"),
        ("", "empty"),
    ],
)
def test_a_bad_sheet_is_one_sentence(rated: Path, palpate: CommandLine, content: str, says: str) -> None:
    (rated / "ratings.csv").write_text(content)
    ran = palpate("audit", rated / "audit.yaml", "--out", rated / "run")
    assert ran.code == 2
    assert "ratings.csv" in ran.err
    assert pl.Series([ran.err]).str.contains(says).item(), ran.err
    assert not (rated / "run").exists()


def test_the_sheet_for_raters(rated: Path, palpate: CommandLine) -> None:
    (rated / "words.csv").write_text("word\nfever\nheart failure\n")
    ran = palpate("words", "template", "--words", rated / "words.csv", "--raters", "2", "--out", rated / "sheet.csv")
    assert ran.code == 0, ran.err
    sheet = pl.read_csv(rated / "sheet.csv")
    assert sheet.columns == ["word", "rater_1", "rater_2"]
    assert sheet["word"].to_list() == ["fever", "heart failure"]
    again = palpate("words", "template", "--words", rated / "words.csv", "--out", rated / "sheet.csv")
    assert again.code == 2
    neither = palpate("words", "template", "--out", rated / "other.csv")
    assert neither.code == 2
    assert "--words FILE or --cohort FILE" in neither.err


def test_the_sheet_from_a_cohort(rated: Path, palpate: CommandLine) -> None:
    ran = palpate("words", "template", "--cohort", rated / "audit.yaml", "--n", "3", "--out", rated / "sheet.csv")
    assert ran.code == 0, ran.err
    assert pl.read_csv(rated / "sheet.csv").height == 3


def test_the_sheet_holds_no_word_of_few_patients(tmp_path: Path, palpate: CommandLine) -> None:
    """A name in many notes of one patient tells the label best of all, and goes to nobody."""
    notes = [
        {"patient_id": f"p{k % 5}", "text": f"{'kowalczyk' if k % 5 == 0 else 'seen'} {'fever' if k % 2 else 'cough'}",
         "split": "train", "ill": int(k % 5 == 0)}
        for k in range(100)
    ]  # fmt: skip
    pl.DataFrame(notes).write_csv(tmp_path / "notes.csv")
    (tmp_path / "audit.yaml").write_text(AUDIT)
    ran = palpate("words", "template", "--cohort", tmp_path / "audit.yaml", "--out", tmp_path / "sheet.csv")
    assert ran.code == 0, ran.err
    assert set(pl.read_csv(tmp_path / "sheet.csv")["word"]) == {"fever", "cough"}


def test_a_model_may_not_take_the_raters_name(rated: Path, palpate: CommandLine) -> None:
    (rated / "audit.yaml").write_text(AUDIT.replace("  good:", "  clinicians:"))
    ran = palpate("audit", rated / "audit.yaml", "--out", rated / "run")
    assert ran.code == 2
    assert "clinicians" in ran.err


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_planted_word_is_found_and_only_where_it_was_planted(tmp_path: Path) -> None:
    """Synthetic hospital of 5,000 patients, tf-idf + XGBoost: top 3 with the plant, not without it."""
    rank, rated_rank = {}, {}
    for name, plants in (("on", []), ("off", ["spurious_word=0"])):
        folder = tmp_path / name
        hospital = folder / "hospital"
        truth = build.make_hospital(hospital, n_patients=5000, seed=1, site="a", images=False, overrides=plants)
        build.build_cohort("readmission", hospital / "mimic-iii", folder / "cohort.parquet")
        train("tfidf-xgboost", build.read_training_cohort(folder / "cohort.parquet"), folder / "model", {})
        (folder / "audit.yaml").write_text(
            "cohort: cohort.parquet\nmodels: {xgboost: 'palpate:model'}\n"
            "audits:\n  vocabulary: {raters: hospital/clinician_ratings.csv, n_replicates: 1000}\n"
            "cache: scores.sqlite\n"
        )
        audit(folder / "audit.yaml", out=folder / "run")
        word = truth["spurious_word"]["word"]
        rank[name] = estimates(folder / "run", metric="rank", model="xgboost", group=word)["value"].item()
        rated_rank[name] = estimates(folder / "run", metric="rank", model="clinicians", group=word)["value"].item()
    assert rank["on"] <= 3
    assert rank["off"] > 3
    assert rated_rank["on"] > 20
