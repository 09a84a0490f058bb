"""The evidence audit through the command line: tables and folders in, results, report and errors out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.audits.evidence.evidence_charts import CODES, PHRASES, charts
from tests.e2e.command_line import CommandLine
from tests.models.tiny_checkpoints import checkpoint

MODEL = """
import numpy as np

WORDS = {"J18": "pneumonia", "A41": "sepsis", "I50": "failure", "E11": "diabetes"}


def predict(texts):
    return [[1 / (1 + np.exp(2 - 4 * (word in text))) for word in WORDS.values()] for text in texts]
"""
CONFIG = """\
cohort: {file: charts.csv, labels: [J18, A41, I50, E11]}
models:
  knows: {source: "python:evidence_model:predict", labels: [J18, A41, I50, E11]}
  tabled: "predictions:answers.csv"
audits:
  evidence: {gold: gold.csv, notes: notes.csv, predicted: {tabled: said.csv}, level: 0.95}
"""
NOTE = 3  # every chart has this many notes


@pytest.fixture
def coded(tmp_path: Path) -> Path:
    """A folder with charts, their notes, gold evidence, a model and answers from elsewhere."""
    cohort, gold = charts(80)
    y = cohort.y_true(np.arange(len(cohort)))
    frame = cohort.cases.select("case_id", "patient_id", "split", "text")
    frame = frame.with_columns(
        pl.col("case_id").str.slice(1), *(pl.Series(code, y[:, k]) for k, code in enumerate(CODES))
    )
    gold = gold.with_columns(pl.col("case_id").str.slice(1))
    frame.write_csv(tmp_path / "charts.csv")
    gold.with_columns(code_system=pl.lit("ICD-10-CM"), completeness=pl.lit("sufficient")).write_csv(
        tmp_path / "gold.csv"
    )
    gold.with_columns(score=pl.lit(0.7)).write_csv(tmp_path / "said.csv")
    places = [
        (case, 10 * int(case) + k, ("Nursing", "Physician", "Radiology")[k], *cut(text, k))
        for case, text in frame.select("case_id", "text").iter_rows()
        for k in range(NOTE)
    ]
    schema = ["case_id", "note_id", "category", "start", "end"]
    pl.DataFrame(places, schema=schema, orient="row").write_csv(tmp_path / "notes.csv")
    frame.select("case_id", *(pl.col(code) * 0.9 for code in CODES)).write_csv(tmp_path / "answers.csv")
    (tmp_path / "evidence_model.py").write_text(MODEL)
    (tmp_path / "audit.yaml").write_text(CONFIG)
    return tmp_path


def cut(text: str, k: int) -> tuple[int, int]:
    """The k-th of three notes of about equal length, cut where a word ends."""
    borders = [0]
    for part in range(1, NOTE):
        borders.append(text.index(" ", len(text) * part // NOTE))
    return borders[k], [*borders[1:], len(text)][k]


def estimates(run: Path, **wanted: str) -> pl.DataFrame:
    return pl.read_parquet(run / "results" / "evidence.parquet").filter(pl.col("reference").is_null(), **wanted)


def test_tables_and_a_model_become_a_section_of_the_report(coded: Path, palpate: CommandLine) -> None:
    ran = palpate("audit", coded / "audit.yaml", "--out", coded / "run")
    assert ran.code == 0, ran.err
    assert "its evidence by occlusion agrees" in ran.out
    perfect = estimates(coded / "run", metric="token_f1", model="tabled", group="all")
    assert perfect["value"].item() == 1.0
    short = estimates(coded / "run", metric="span_recall", model="knows", group="length=1 word")
    assert short["value"].item() == 1.0
    assert not estimates(coded / "run", metric="token_f1", model="knows", group="category=Radiology").is_empty()
    report = (coded / "run" / "report.html").read_text()
    assert "Plausible and faithful" in report
    assert "Agreement with the coders" in report
    before = report
    assert palpate("report", coded / "run").code == 0
    assert (coded / "run" / "report.html").read_text() == before


def test_predictions_of_the_test_split_suffice_for_a_table_of_spans(coded: Path, palpate: CommandLine) -> None:
    test = pl.read_csv(coded / "charts.csv").filter(pl.col("split") == "test")["case_id"]
    answers = pl.read_csv(coded / "answers.csv")
    answers.filter(pl.col("case_id").is_in(test.implode())).write_csv(coded / "answers.csv")
    said = pl.read_csv(coded / "said.csv")
    said.select("case_id", "label", "start", "end").write_csv(coded / "said.csv")
    ran = palpate("audit", coded / "audit.yaml", "--out", coded / "run")
    assert ran.code == 0, ran.err
    both = estimates(coded / "run", metric="token_f1", group="all")
    assert set(both["model"]) == {"knows", "tabled"}
    assert both["value"].null_count() == 0


def test_no_text_of_a_chart_is_in_the_run_unless_asked(coded: Path, palpate: CommandLine) -> None:
    assert palpate("audit", coded / "audit.yaml", "--out", coded / "run").code == 0
    whole = b"".join(file.read_bytes() for file in sorted((coded / "run").rglob("*")) if file.is_file())
    for secret in (*PHRASES.values(), "slowly"):
        assert secret.encode() not in whole
    asked = pl.read_parquet(coded / "run" / "variants" / "evidence.parquet")
    assert set(asked["replacement"].drop_nulls()) == {" "}
    assert asked["made_text"].null_count() == len(asked)
    (coded / "audit.yaml").write_text(CONFIG + "include_text: true\n")
    assert palpate("audit", coded / "audit.yaml", "--out", coded / "shown").code == 0
    shown = (coded / "shown" / "report.html").read_text()
    assert "acute heart failure" in shown
    assert "contains text from patients" in shown
    # Spans for coders: offsets from either run, text from the one that has it.
    for run, form, out in (("run", "csv", "a.csv"), ("run", "mdace", "a"), ("shown", "cas", "b")):
        ran = palpate("evidence", coded / run, "--format", form, "--out", coded / out, "--model", "knows")
        assert ran.code == 0, ran.err
        assert "knows" in ran.out
    assert "heart" not in (coded / "a.csv").read_text()
    assert not any("heart" in file.read_text() for file in (coded / "a").rglob("*.json"))
    assert any("acute heart failure" in file.read_text() for file in (coded / "b" / "knows").iterdir())
    ran = palpate("evidence", coded / "run", "--format", "cas", "--out", coded / "c")
    assert ran.code == 2
    assert "set `include_text: true` in the configuration" in ran.err


@pytest.mark.slow
def test_mdace_files_are_placed_by_the_notes_and_score_the_same(coded: Path, palpate: CommandLine) -> None:
    places = pl.read_csv(coded / "notes.csv").to_dicts()
    gold = pl.read_csv(coded / "gold.csv")
    for side in ("said", "gold"):
        for case in gold["case_id"].unique().to_list():
            notes = []
            for place in (place for place in places if place["case_id"] == case):
                inside = gold.filter(
                    pl.col("case_id") == case, pl.col("start") >= place["start"], pl.col("start") < place["end"]
                )
                annotations = [
                    {
                        "begin": row["start"] - place["start"],
                        "end": min(row["end"], place["end"]) - place["start"],
                        "code": row["label"],
                        "code_system": "ICD-10-CM",
                    }
                    for row in inside.iter_rows(named=True)
                ]
                notes.append({"note_id": place["note_id"], "category": place["category"], "annotations": annotations})
            folder = coded / side / "Inpatient" / "ICD-10"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{case}-ICD-10.json").write_text(json.dumps({"hadm_id": case, "notes": notes}))
    config = CONFIG.replace("gold: gold.csv", "gold: gold").replace("tabled: said.csv", "tabled: said")
    (coded / "audit.yaml").write_text(config)
    ran = palpate("audit", coded / "audit.yaml", "--out", coded / "run")
    assert ran.code == 0, ran.err
    for metric in ("token_f1", "span_f1"):
        assert estimates(coded / "run", metric=metric, model="tabled", group="all")["value"].item() == 1.0
    short = estimates(coded / "run", metric="span_recall", model="knows", group="length=1 word")
    # What the model itself looks at lies where the files say; a phrase that a note's end cuts may leave one word.
    assert short["value"].item() > 0.8
    bound = estimates(coded / "run", metric="token_precision", model="tabled", group="all")
    assert "lower bound" in bound["reason"].item()  # Inpatient: sufficient
    # The same files as MDACE's repository has them; predictions are no gold evidence.
    (coded / "MDACE" / "predictions").mkdir(parents=True)
    for file in (coded / "said").rglob("*.json"):
        file.write_text(file.read_text().replace('"code_system"', '"type": "attention", "code_system"'))
    shutil.copytree(coded / "said", coded / "MDACE" / "predictions" / "ours")
    shutil.copytree(coded / "gold", coded / "MDACE" / "data")
    published = config.replace("tabled: said", "tabled: MDACE/predictions/ours").replace("gold: gold", "gold: MDACE")
    (coded / "audit.yaml").write_text(published)
    ran = palpate("audit", coded / "audit.yaml", "--out", coded / "published")
    assert ran.code == 0, ran.err
    for name in ("run", "published"):
        assert estimates(coded / name, metric="token_f1", model="tabled", group="all")["value"].item() == 1.0
    (coded / "audit.yaml").write_text(published.replace("gold: MDACE", "gold: MDACE/predictions/ours"))
    ran = palpate("audit", coded / "audit.yaml", "--out", coded / "refused")
    assert ran.code == 2
    assert "a folder of a model's predictions, not what coders marked" in ran.err
    (coded / "audit.yaml").write_text(config.replace("notes: notes.csv, ", ""))
    ran = palpate("audit", coded / "audit.yaml", "--out", coded / "nowhere")
    assert ran.code == 2
    assert "notes:" in ran.err
    changed = next((coded / "said").rglob("*.json"))
    content = json.loads(changed.read_text())
    content["notes"][0]["annotations"] = [{"begin": 0, "end": 99_999, "code": "J18", "code_system": "ICD-10-CM"}]
    changed.write_text(json.dumps(content))
    (coded / "audit.yaml").write_text(config)
    ran = palpate("audit", coded / "audit.yaml", "--out", coded / "past")
    assert ran.code == 2
    for part in (changed.name, "annotation 1", "99999"):
        assert part in ran.err


@pytest.mark.slow
def test_a_run_whose_results_are_gone_resumes_with_the_same_bytes(coded: Path, palpate: CommandLine) -> None:
    assert palpate("audit", coded / "audit.yaml", "--out", coded / "run").code == 0
    whole = {file: file.read_bytes() for file in (coded / "run" / "results").iterdir()}
    for file in whole:
        file.unlink()
    assert palpate("audit", coded / "audit.yaml", "--out", coded / "run", "--resume").code == 0
    assert {file: file.read_bytes() for file in whole} == whole


@pytest.mark.slow
def test_a_checkpoint_explains_itself_and_resumes_with_the_same_bytes(coded: Path, palpate: CommandLine) -> None:
    checkpoint(coded / "bert", n_outputs=4, problem_type="multi_label_classification", names=CODES)
    config = CONFIG.replace('{source: "python:evidence_model:predict", labels', '{source: "hf:bert", labels')
    fewer = "level: 0.95, code_threshold: 0.4, max_charts: 12, faithfulness_pairs: 10"
    (coded / "audit.yaml").write_text(config.replace("level: 0.95", fewer))
    ran = palpate("audit", coded / "audit.yaml", "--out", coded / "run")
    assert ran.code == 0, ran.err
    about = json.loads((coded / "run" / "results" / "evidence.json").read_text())["provenance"]["models"]["knows"]
    assert about["evidence"] == "integrated_gradients"
    beyond = estimates(coded / "run", metric="evidence_beyond_window", model="knows")["value"].item()
    assert 0 < beyond < 1
    assert estimates(coded / "run", metric="span_recall", model="knows", group="window=beyond")["value"].item() == 0.0
    whole = {file: file.read_bytes() for file in (coded / "run" / "results").iterdir()}
    attributions = sorted((coded / "run" / "attributions" / "evidence" / "knows").iterdir())
    for file in [*whole, attributions[0]]:
        file.unlink()
    assert palpate("audit", coded / "audit.yaml", "--out", coded / "run", "--resume").code == 0
    assert {file: file.read_bytes() for file in whole} == whole


def test_a_plan_for_elsewhere_asks_for_the_charts_alone(coded: Path, palpate: CommandLine) -> None:
    assert palpate("plan", coded / "audit.yaml", "--out", coded / "asked").code == 0
    inputs = pl.read_parquet(coded / "asked" / "inputs.parquet")
    assert not inputs["edited"].any()


def test_the_gate_stops_on_evidence(coded: Path, palpate: CommandLine) -> None:
    (coded / "audit.yaml").write_text(CONFIG + 'gate: ["evidence.token_f1.low[group=all] >= 0.99"]\n')
    ran = palpate("audit", coded / "audit.yaml", "--out", coded / "run")
    assert ran.code == 1
    assert "knows" in ran.out + ran.err


def cell(row: int, **change: object) -> Callable[[pl.DataFrame], pl.DataFrame]:
    def changed(frame: pl.DataFrame) -> pl.DataFrame:
        rows = [{name: str(value) for name, value in each.items()} for each in frame.iter_rows(named=True)]
        rows[row - 1] |= {name: str(value) for name, value in change.items()}
        return pl.DataFrame(rows)

    return changed


@pytest.mark.parametrize(
    ("file", "spoil", "parts"),
    [
        ("gold.csv", cell(4, label="Z99"), ["row 4", "column 'label'", "Z99"]),
        ("gold.csv", cell(2, case_id="nobody"), ["row 2", "column 'case_id'", "nobody"]),
        ("said.csv", cell(3, end=99_999), ["row 3", "column 'end'", "99999"]),
        ("gold.csv", cell(3, start=-1), ["row 3", "column 'start'", "below 0"]),
        ("gold.csv", cell(3, end="soon"), ["row 3", "column 'end'", "not a whole number"]),
        ("gold.csv", cell(3, start=50, end=50), ["row 3", "column 'end'", "not after the start"]),
        ("said.csv", cell(5, score="NaN"), ["row 5", "column 'score'", "not a finite number"]),
        ("said.csv", cell(5, score=""), ["row 5", "column 'score'", "empty"]),
        ("gold.csv", cell(5, completeness="mostly"), ["row 5", "column 'completeness'", "mostly"]),
        ("gold.csv", lambda frame: frame.drop("start"), ["column 'start'", "column not found"]),
        ("notes.csv", lambda frame: frame.drop("category"), ["column 'category'", "column not found"]),
        ("notes.csv", cell(2, note_id=0), ["row 2", "column 'note_id'", "twice"]),
        ("notes.csv", cell(2, start=1), ["row 2", "column 'start'", "before the previous note ends"]),
        ("notes.csv", cell(3, end=99_999), ["row 3", "column 'end'", "99999"]),
    ],
)
def test_bad_tables_are_one_sentence_with_file_row_and_column(
    coded: Path, palpate: CommandLine, file: str, spoil: Callable[[pl.DataFrame], pl.DataFrame], parts: list[str]
) -> None:
    spoil(pl.read_csv(coded / file)).write_csv(coded / file)
    ran = palpate("audit", coded / "audit.yaml", "--out", coded / "run")
    assert ran.code == 2, ran.err
    assert "Traceback" not in ran.err
    for part in [file, *parts]:
        assert part in ran.err, ran.err


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("gold: gold.csv, ", ""), "gold"),
        (("gold: gold.csv", "gold: nowhere.csv"), "nowhere.csv"),
        (("tabled: said.csv", "tabeld: said.csv"), "tabeld"),
        (("level: 0.95", "level: 0.95, explain: gradients"), "gradients"),
        (("level: 0.95", "level: 0.95, split: train, charts: annotated, labels: [Q1]"), "Q1"),
    ],
)
def test_bad_options_are_refused(coded: Path, palpate: CommandLine, change: tuple[str, str], says: str) -> None:
    (coded / "audit.yaml").write_text(CONFIG.replace(*change))
    ran = palpate("audit", coded / "audit.yaml", "--out", coded / "run")
    assert ran.code == 2, ran.out
    assert says in ran.err
    assert "Traceback" not in ran.err
