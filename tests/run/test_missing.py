"""Missing scores through the command line: counted where audits can do without, said where they cannot."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from palpate import InMemory, audit
from palpate.errors import ModelError
from tests.conftest import notes_frame
from tests.e2e.command_line import CommandLine
from tests.models.adapters.local_server import LocalServer

CONFIG = """\
cohort: {file: notes.csv, text: text, labels: [ill], case: note, attributes: [sex]}
models:
  vendor: {source: predictions:vendor.csv, missing: report}
audits:
  performance: {n_replicates: 100, threshold: 0.3}
  subgroups: {n_replicates: 100, threshold: 0.3, by: [sex]}
  robustness: {max_notes: 40}
  operating: {thresholds: {vendor: 0.3}, n_replicates: 100}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    frame = notes_frame(400).with_row_index("k")
    frame = frame.with_columns(
        note=pl.format("n{}", "k"), sex=pl.when(pl.col("k") % 3 > 0).then(pl.lit("f")).otherwise(pl.lit("m"))
    )
    frame.drop("k", "case_id", strict=False).write_csv(tmp_path / "notes.csv")
    scores = frame.select("note", ill=((pl.col("k") * 7919) % 97 / 97).cast(pl.String))
    careless = (
        scores.with_columns(
            ill=pl.when(pl.int_range(pl.len()) % 20 == 3)
            .then(pl.lit(""))
            .when(pl.int_range(pl.len()) % 20 == 7)
            .then(pl.lit("NA"))
            .otherwise("ill")
        )
        .gather_every(1)
        .filter(pl.int_range(pl.len()) % 20 != 11)
    )
    careless.write_csv(tmp_path / "vendor.csv")
    (tmp_path / "audit.yaml").write_text(CONFIG)
    return tmp_path


@pytest.fixture
def palpate(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return CommandLine(capsys, monkeypatch)


def test_missing_scores_are_reported(folder: Path, palpate: CommandLine) -> None:
    ran = palpate("audit", folder / "audit.yaml", "--out", folder / "run")
    assert ran.code == 0, ran.err
    rows = pl.read_parquet(folder / "run/results/performance.parquet")
    share = rows.filter(metric="missing_share").filter(pl.col("group") != "validation split")
    assert share["value"].to_list() == pytest.approx([0.15])
    assert pl.read_parquet(folder / "run/results/subgroups.parquet").filter(metric="missing_share").height == 3
    alerts = pl.read_parquet(folder / "run/results/operating.parquet").filter(metric="sensitivity")
    cases = rows.filter(metric="auroc")["n"].to_list()
    assert alerts["n"].unique().to_list() == cases, "the same cases as in performance"
    page = (folder / "run/report.html").read_text()
    assert "operating is about the" in page
    assert "vendor is left out of robustness" in page
    assert "vendor has no score for 15% of the cases" in page


def stays(n: int = 60) -> pl.DataFrame:
    """Three hourly predictions a stay; the last of every third stay is at the event, and alone has the label."""
    frame = pl.DataFrame({"case_id": [f"c{k}" for k in range(3 * n)]}).with_row_index("k")
    ill = (pl.col("k") // 3 % 3 == 0) & (pl.col("k") % 3 == 2)
    at = pl.datetime(2024, 1, 1) + pl.duration(days=pl.col("k") // 3, hours=pl.col("k") % 3)
    told = {"ill": ill.cast(int), "stay_id": pl.format("s{}", pl.col("k") // 3), "time": at}
    return frame.with_columns(**told, event=pl.when(ill).then(at), score=(pl.col("k") * 7919) % 97 / 97).drop("k")


def alerts_of(frame: pl.DataFrame, model: InMemory, options: dict[str, Any], out: Path, **more: str) -> pl.DataFrame:
    roles: dict[str, Any] = {
        "labels": "ill",
        "patient": "stay_id",
        "stay": "stay_id",
        "time": "time",
        "attributes": ["event"],
        **more,
    }
    audit(frame.drop("score"), models={"v": model}, audits={"operating": options}, out=out, **roles)
    return pl.read_parquet(out / "results" / "operating.parquet").filter(group="ward")


@pytest.mark.parametrize("options", [{}, {"event_time": "event"}])
def test_an_unscored_case_still_tells_what_became_of_its_stay(options: dict[str, str], tmp_path: Path) -> None:
    frame, found = stays(), []
    for score in (pl.col("score"), pl.when(pl.col("ill") == 0).then("score")):
        model = InMemory(frame.with_columns(score)["score"].to_numpy(), missing="report")
        alerts = {"n_replicates": 100, "thresholds": {"ward": 0.6}, **options}
        found.append(alerts_of(frame, model, alerts, tmp_path / f"run{len(found)}").filter(metric="specificity"))
    assert [each["n_positive"].to_list() for each in found] == [[20], [20]]
    if options:  # predictions at the event do not count, scored or not
        assert found[0]["value"].to_list() == found[1]["value"].to_list()


def test_a_stay_without_its_first_score_has_no_first_alert(tmp_path: Path) -> None:
    frame = stays()
    lacking = frame.with_columns(pl.when(pl.int_range(pl.len()) % 6 > 0).then("score"))["score"].to_numpy()
    alerts = {"n_replicates": 100, "thresholds": {"ward": 0.6}, "combine": "first"}
    rate = alerts_of(frame, InMemory(lacking, missing="report"), alerts, tmp_path / "run").filter(metric="flag_rate")
    told = json.loads((tmp_path / "run/results/operating.json").read_text())["findings"]
    assert any("30 stays are left out: the first prediction" in each["sentence"] for each in told)
    scored = frame["score"].to_numpy()[3::6]
    assert (rate["n"].to_list(), rate["value"].to_list()) == ([30], [pytest.approx(float((scored >= 0.6).mean()))])


def test_the_weight_of_a_stay_does_not_depend_on_which_of_its_cases_were_scored(tmp_path: Path) -> None:
    """Every other stay weighs 5 by its last case alone, which has no score; a stay without any score is left out."""
    last = pl.int_range(pl.len()) % 3 == 2
    frame = stays().with_columns(w=pl.when(last & (pl.int_range(pl.len()) % 6 == 2)).then(5.0).otherwise(1.0))
    lacking = frame.with_columns(pl.when(~last & (pl.int_range(pl.len()) >= 6)).then("score"))["score"].to_numpy()
    alerts = {"n_replicates": 100, "thresholds": {"ward": 0.6}}
    found = alerts_of(frame, InMemory(lacking, missing="report"), alerts, tmp_path / "run", weight="w")
    flagged = (lacking.reshape(-1, 3)[2:, :2] >= 0.6).any(axis=1)
    weight = frame["w"].to_numpy().reshape(-1, 3)[2:].max(axis=1)
    rate = found.filter(metric="flag_rate")
    assert rate["value"].to_list() == [pytest.approx(np.average(flagged, weights=weight))]


def test_the_effective_number_of_stays_is_that_of_the_stays_that_count(tmp_path: Path) -> None:
    """Not of their cases, and not of stays without a score."""
    frame = stays().with_columns(w=1.0 + (pl.int_range(pl.len()) // 3 % 4).cast(float))
    lacking = frame.with_columns(pl.when(pl.int_range(pl.len()) >= 30).then("score"))["score"].to_numpy()
    alerts = {"n_replicates": 100, "thresholds": {"ward": 0.6}}
    alerts_of(frame, InMemory(lacking, missing="report"), alerts, tmp_path / "run", weight="w")
    weight = frame["w"].to_numpy()[30::3]
    worth = weight.sum() ** 2 / (weight**2).sum()
    told = json.loads((tmp_path / "run/results/operating.json").read_text())["findings"]
    (kish,) = [each["sentence"] for each in told if "(Kish)" in each["sentence"]]
    assert f": 50 stays of cohort are as precise as {worth:.0f} of equal weight" in kish


def test_the_effective_number_of_cases_is_that_of_the_scored_ones(tmp_path: Path) -> None:
    """In an audit that leaves out cases itself, and in one that is planned again; of two labels, of the fewer."""
    k, n = np.arange(400), 400
    frame = pl.DataFrame({"case_id": [f"c{j}" for j in k], "ill": k % 3 == 0, "dead": k % 5 == 0, "w": 1.0 + k % 4})
    frame = frame.with_columns(pl.col("ill", "dead").cast(int), time=pl.datetime(2024, 1, 1) + pl.duration(days=k // 2))
    scores = np.random.default_rng(0).random((n, 2))
    scores[::8, 0] = np.nan
    for labels, of in ((["ill"], ""), (["ill", "dead"], ", those with a score of 'ill',")):
        model = InMemory(scores[:, : len(labels)], missing="report")
        options = {"performance": {"n_replicates": 100}, "drift": {"n_replicates": 100}}
        out = tmp_path / str(len(labels))
        audit(frame, models={"v": model}, audits=options, out=out, labels=labels, weight="w", time="time")
        weight = frame["w"].to_numpy()[~np.isnan(scores[:, 0])]
        worth = weight.sum() ** 2 / (weight**2).sum()
        for name in options:
            told = json.loads((out / f"results/{name}.json").read_text())["findings"]
            (kish,) = [each["sentence"] for each in told if "(Kish)" in each["sentence"]]
            assert f": 350 cases of cohort{of} are as precise as {worth:.0f} of equal weight" in kish, name


def test_stays_that_no_model_was_asked_about_lack_scores_as_often_as_the_others(tmp_path: Path) -> None:
    """In how many stays a day has: a third is the training split, and a quarter of the others has no score."""
    frame = stays(120).with_columns(split=pl.lit("test"))
    stay = pl.int_range(pl.len()) // 3
    frame = frame.with_columns(split=pl.when(stay % 3 == 1).then(pl.lit("train")).otherwise("split"))
    lacking = frame.with_columns(pl.when((stay % 12).is_in([0, 5]).not_()).then("score"))["score"].to_numpy()
    alerts = {"n_replicates": 100, "thresholds": {"ward": 0.6}, "capacity": {"per_day": 0.5}}
    found = alerts_of(frame, InMemory(lacking, missing="report"), alerts, tmp_path / "run", split="split")
    rate, daily = (found.filter(metric=metric)["value"][0] for metric in ("flag_rate", "alerts_per_day"))
    assert daily == pytest.approx(rate * 0.75)


def test_without_the_option_the_error_names_it(folder: Path, palpate: CommandLine) -> None:
    config = folder / "audit.yaml"
    config.write_text(
        config.read_text().replace("{source: predictions:vendor.csv, missing: report}", "predictions:vendor.csv")
    )
    ran = palpate("audit", config, "--out", folder / "run")
    assert ran.code == 2
    assert "the cell is empty" in ran.err
    assert "`missing: report`" in ran.err


SILENT = """\
import re

def risk(texts):
    \"\"\"No answer about every tenth note; the others by a word.\"\"\"
    number = [re.search(r"note (\\d+)", text, re.I) for text in texts]
    silent = [found is not None and int(found[1]) % 10 == 6 for found in number]
    return [None if quiet else 0.7 if "fever" in text.lower() else 0.2 for quiet, text in zip(silent, texts)]
"""
PYTHON = """\
cohort: {file: notes.csv, text: text, labels: [ill], case: note, attributes: [sex]}
models:
  code: {source: "python:silent:risk", missing: report}
  whole: "python:whole:risk"
audits:
  performance: {n_replicates: 100, threshold: 0.3}
  robustness: {max_notes: 40}
"""


def with_functions(folder: Path, config: str) -> Path:
    (folder / "silent.py").write_text(SILENT)
    (folder / "whole.py").write_text(SILENT.replace("None if quiet else ", ""))
    (folder / "audit.yaml").write_text(config)
    return folder / "audit.yaml"


def test_a_function_that_is_silent_about_some_notes(folder: Path, palpate: CommandLine) -> None:
    """Cases of which any copy lacks a score are left out of what compares copies, for all models alike."""
    config = with_functions(folder, PYTHON.replace("max_notes: 40", "max_notes: 1000"))
    ran = palpate("audit", config, "--out", folder / "run")
    assert ran.code == 0, ran.err
    rows = pl.read_parquet(folder / "run/results/performance.parquet")
    share = rows.filter(pl.col("metric") == "missing_share", pl.col("group") != "validation split")
    cases = pl.read_csv(folder / "notes.csv").filter(split="test")
    silent = cases["note"].str.slice(1).cast(int) % 10 == 6
    assert share.filter(model="code")["value"].to_list() == pytest.approx([silent.mean()])
    altered = pl.read_parquet(folder / "run/results/robustness.parquet")
    arms = altered.filter(metric="missing_share", model="code")
    assert arms.height >= 2, "one for each arm"
    assert arms.filter(group="original")["value"].to_list() == pytest.approx([silent.mean()])
    assert set(altered.filter(pl.col("metric") != "missing_share")["model"]) >= {"code", "whole"}
    page = (folder / "run/report.html").read_text()
    assert f"robustness is about the {int((~silent).sum())} of {cases.height} cases that every model scored" in page


def test_scores_that_were_reported_missing_are_no_scores_without_the_option(folder: Path, palpate: CommandLine) -> None:
    """The cache of the first run holds NaN, which the second must not take for an answer."""
    config = with_functions(folder, PYTHON)
    assert palpate("audit", config, "--out", folder / "run").code == 0
    config.write_text(PYTHON.replace(", missing: report", ""))
    ran = palpate("audit", config, "--out", folder / "again")
    assert ran.code == 3
    assert "predicted NaN" in ran.err
    assert "`missing: report`" in ran.err


def test_an_endpoint_that_answers_null(folder: Path, palpate: CommandLine) -> None:
    def answer(message: Any) -> Any:
        kept = [None if "stable" in text else 0.7 if "fever" in text else 0.2 for text in message["texts"]]
        return {"probabilities": kept}

    server = LocalServer(answer=answer)
    config = PYTHON.replace('{source: "python:silent:risk", missing: report}', f"{{source: {server.url}, OPTION}}")
    config = config.replace('  whole: "python:whole:risk"\n', "").replace("  robustness: {max_notes: 40}\n", "")
    try:
        file = with_functions(folder, config.replace("OPTION", "missing: report"))
        ran = palpate("audit", file, "--out", folder / "run")
        assert ran.code == 0, ran.err
        shares = pl.read_parquet(folder / "run/results/performance.parquet").filter(metric="missing_share")
        assert 0.2 < shares["value"].to_list()[0] < 0.6
        file = with_functions(folder, config.replace("OPTION", "missing: error"))
        refused = palpate("audit", file, "--out", folder / "again")
        assert refused.code == 3
        assert "the answer contains null instead of a probability" in refused.err
    finally:
        server.close()


def test_scores_with_gaps_from_python() -> None:
    frame = notes_frame(400).to_pandas()
    scores = np.where(np.arange(400) % 10 == 6, np.nan, 0.1 + (np.arange(400) * 7919 % 97) / 121)
    options = {"labels": ["ill"], "audits": {"performance": {"n_replicates": 100, "threshold": 0.3}}}
    with pytest.raises(ModelError, match='missing="report"'):
        audit(frame, models={"vendor": scores}, **options)
    result = audit(frame, models={"vendor": InMemory(scores, missing="report")}, **options)
    shares = result["performance"].estimates(metric="missing_share").to_polars()
    assert shares.filter(pl.col("group") != "validation split")["value"].to_list() == pytest.approx([0.1])


def test_a_model_without_any_score_leaves_every_question_open(tmp_path: Path) -> None:
    frame = notes_frame(400)
    k = np.arange(400)
    scores = {"silent": np.full(400, np.nan), "gaps": np.where(k % 10 == 6, np.nan, 0.1 + (k * 7919 % 97) / 121)}
    frame = frame.with_columns(sex=pl.when(pl.Series(k % 3 > 0)).then(pl.lit("f")).otherwise(pl.lit("m")))
    audits = {
        "performance": {"n_replicates": 100, "threshold": 0.3},
        "operating": {"n_replicates": 100, "thresholds": {"v": 0.3}, "required": {"sensitivity": 0.5}},
        "slices": {"n_replicates": 100, "by": ["sex"]},
    }
    for some in (["silent", "gaps"], ["silent"]):
        models = {name: InMemory(scores[name], missing="report") for name in some}
        result = audit(frame, labels=["ill"], attributes=["sex"], models=models, audits=audits, out=tmp_path / some[-1])
        for name, question in {"performance": "separation", "operating": "sensitivity", "slices": "worse"}.items():
            card = json.loads((tmp_path / some[-1] / "scorecard.json").read_text())
            row = next(each for each in card if (each["audit"], each["question"]) == (name, question))
            verdicts = {model: cell["verdict"] for model, cell in row["models"].items()}
            assert verdicts["silent"] == "unsettled"
            assert set(verdicts) == set(some), "the other model has what it has scores for"
            rows = result[name].estimates(model="silent").to_polars().filter(pl.col("value").is_null())
            assert rows.height
            assert rows["reason"].str.contains("silent has no score").all()


BY_LABEL: dict[str, dict[str, Any]] = {
    "operating": {"thresholds": {"v": 0.4}, "capacity": {"flag": 0.2}},
    "slices": {"smallest": 20, "depth": 1},
    "drift": {"every": "quarter"},
    "recalibration": {},
}


def two_labels(n: int = 900) -> tuple[pl.DataFrame, np.ndarray]:
    """Cases of a year with two outcomes, and scores of which the second label lacks some, in both splits."""
    rng = np.random.default_rng(4)
    y = rng.random((n, 2)) < 0.35
    k = np.arange(n)
    women = k // 2 % 5 < 2
    scores = 1 / (1 + np.exp(0.6 - rng.normal(size=(n, 2)) - np.where(women, 0.2, 1.8)[:, None] * y))
    scores[rng.random(n) < 0.3, 1] = np.nan
    frame = pl.DataFrame(
        {
            "case_id": [f"c{j}" for j in k],
            "patient_id": [f"p{j // 2}" for j in k],
            "split": np.where(k // 2 % 3 == 0, "validation", "test"),
            "time": [datetime(2023, 1, 1) + timedelta(days=int(day)) for day in k * 365 // n],
            "sex": np.where(women, "f", "m"),
            "ill": y[:, 0].astype(int),
            "dead": y[:, 1].astype(int),
        }
    )
    return frame, scores


def numbers_of(name: str, frame: pl.DataFrame, labels: list[str], scores: np.ndarray, out: Path) -> pl.DataFrame:
    """What an audit says of each number by itself: corrections are over all labels of a run."""
    options = {name: {"n_replicates": 100, **BY_LABEL[name], "labels": labels}}
    model = InMemory(scores, missing="report")
    roles = {"patient": "patient_id", "split": "split"} | ({"time": "time"} if name == "drift" else {})
    audit(
        frame.drop("time") if name != "drift" else frame,
        labels=["ill", "dead"] if scores.shape[1] == 2 else labels,
        attributes=["sex"],
        models={"m": model},
        audits=options,
        out=out,
        **roles,
    )
    rows = pl.read_parquet(out / "results" / f"{name}.parquet").filter(pl.col("metric") != "missing_share")
    keys = ["label", "metric", "group", "reference"]
    own = pl.when(pl.col("reference").is_null()).then("low").otherwise("pointwise_low").alias("low")
    tested = pl.col("metric").str.ends_with("_change") | pl.col("metric").str.ends_with("_trend")
    return rows.filter(~tested).select(*keys, "value", "n", "n_positive", own).sort(keys)


@pytest.mark.parametrize("name", BY_LABEL)
def test_each_label_has_the_cases_that_have_its_score(name: str, tmp_path: Path) -> None:
    """As a run of the label alone, on the cases that have its score, by hand."""
    frame, scores = two_labels()
    found = numbers_of(name, frame, ["ill", "dead"], scores, tmp_path / "both")
    known = ~np.isnan(scores[:, 1])
    wanted = {
        "ill": numbers_of(name, frame.drop("dead"), ["ill"], scores[:, :1], tmp_path / "ill"),
        "dead": numbers_of(name, frame.filter(known).drop("ill"), ["dead"], scores[known, 1:], tmp_path / "dead"),
    }
    for label, rows in wanted.items():
        own = found.filter(label=label)
        assert rows.height > 2
        assert own.drop("value", "low").equals(rows.drop("value", "low")), label
        for column in ("value", "low"):
            both = (each[column].cast(float).to_numpy() for each in (own, rows))
            np.testing.assert_allclose(*both, atol=1e-9, err_msg=f"{label} {column}")
    assert found.filter(label="dead")["n"].max() < found.filter(label="ill")["n"].max()
    page = (tmp_path / "both/report.html").read_text()
    assert f"{name} is about the cases for which every model has the label" in page


def test_a_change_is_tested_on_the_cases_that_have_the_labels_score(tmp_path: Path) -> None:
    frame, scores = two_labels()
    kept = {}
    for some in ("both", "dead"):
        rows = np.ones(len(frame), bool) if some == "both" else ~np.isnan(scores[:, 1])
        labels = ["ill", "dead"] if some == "both" else ["dead"]
        p = scores[rows] if some == "both" else scores[rows, 1:]
        options = {"drift": {"n_replicates": 100, "labels": labels}}
        roles: dict[str, Any] = {"time": "time", "split": "split", "patient": "patient_id", "labels": labels}
        models = {"m": InMemory(p, missing="report")}
        audit(frame.filter(rows).drop("sex"), models=models, audits=options, out=tmp_path / some, **roles)
        table = pl.read_parquet(tmp_path / some / "results/drift.parquet")
        kept[some] = table.filter(pl.col("metric").str.contains("_change|_trend"), label="dead").sort("metric")
    assert kept["both"]["group"].to_list() == kept["dead"]["group"].to_list()
    np.testing.assert_allclose(kept["both"]["value"].to_numpy(), kept["dead"]["value"].to_numpy(), atol=1e-9)
    assert kept["both"]["n"].to_list() == kept["dead"]["n"].to_list()


def test_a_label_that_a_model_does_not_score_at_all_leaves_the_others(tmp_path: Path) -> None:
    """Nothing of the kind can be planned again: the model is left out, and said to be."""
    frame, scores = two_labels()
    scores[:, 1] = np.nan
    options = {"operating": {"n_replicates": 100, "thresholds": {"v": 0.4}}}
    roles = {"labels": ["ill", "dead"], "attributes": ["sex"]}
    result = audit(
        frame.drop("time"), models={"m": InMemory(scores, missing="report")}, audits=options, out=tmp_path, **roles
    )
    said = [finding.sentence for finding in result["operating"].findings]
    assert any("m is left out of operating" in each for each in said), said
