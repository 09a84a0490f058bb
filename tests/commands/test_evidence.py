"""Spans for coders' own tools: what a run's spans say, in each format, and annotations as MDACE's JSON."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from palpate import RunDirectory
from palpate.commands.evidence import LAYER, export_annotations, export_spans
from palpate.data.annotations import mdace, uima_cas
from palpate.data.annotations.evidence_tables import read_evidence
from palpate.errors import CohortError, ConfigError, RunError
from tests.audits.evidence.evidence_charts import audit, charts, knower, notes_table, quick, table
from tests.data.annotations.webanno_files import tsv, write_project

PLAIN = {"faithfulness": False, "explain": "none"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three runs: with text, without it, and without a table of notes. Cases and notes are named by number."""
    cohort, gold = charts(48)
    cohort.cases.replace_column(cohort.cases.get_column_index("case_id"), cohort.cases["case_id"].str.slice(1))
    gold = gold.with_columns(pl.col("case_id").str.slice(1), code_system=pl.lit("ICD-10-CM"))
    said = pl.concat(
        [
            gold.filter(pl.col("label") == "J18"),
            gold.filter(pl.col("label") == "I50").with_columns(start=pl.col("start") + len("acute ")),
            gold.filter(pl.col("label") == "A41")
            .with_columns(start=pl.lit(0), end=pl.lit(2))
            .cast({"start": pl.Int64, "end": pl.Int64}),
        ]
    )
    notes = pl.DataFrame(
        [
            (case, f"9{case}", "ECG", 0, len(text))
            for case, text in zip(cohort.cases["case_id"], cohort.texts, strict=True)
        ],
        schema=["case_id", "note_id", "category", "start", "end"],
        orient="row",
    )
    folders = {}
    for name, options in (
        ("text", {"include_text": True, "notes": notes_table(notes)}),
        ("plain", {"notes": notes_table(notes)}),
        ("no notes", {}),
    ):
        folder = tmp_path_factory.mktemp("runs")
        evidence = quick(gold, predicted={"toy": table(said)}, **options, **PLAIN)
        audit(evidence, cohort, folder, toy=knower())
        folders[name] = folder / "run"
    return folders


def test_the_spans_of_a_run(runs: dict[str, Path], tmp_path: Path) -> None:
    written = export_spans(runs["plain"], tmp_path / "spans.csv")
    spans = pl.read_csv(tmp_path / "spans.csv")
    assert written.n_spans == spans.height
    assert "text" not in spans.columns
    kinds = {(label, by, status) for label, by, status in spans.select("label", "marked_by", "status").iter_rows()}
    assert {kind for kind in kinds if kind[0] in ("J18", "I50", "E11")} == {
        ("J18", "both", "found"),
        ("I50", "coders", "partly"),
        ("I50", "model", "partly"),
        ("E11", "coders", "missed"),
    }
    assert {kind[1:] for kind in kinds if kind[0] == "A41"} >= {("coders", "missed"), ("model", "false")}
    gold = spans.filter(pl.col("marked_by") != "model")
    found = RunDirectory(runs["plain"]).read_result("evidence").estimates
    row = found.filter(metric="span_recall", model="toy", group="all").row(0, named=True)
    assert gold.height == row["n_positive"]
    assert (gold["status"] == "found").sum() == round(row["value"] * row["n_positive"])
    only = export_spans(runs["plain"], tmp_path / "some.parquet", models=["toy"], statuses=["missed", "false"])
    assert set(only.counts["status"]) == {"missed", "false"}


def test_text_only_where_it_was_asked_for(runs: dict[str, Path], tmp_path: Path) -> None:
    for name in ("plain", "no notes"):
        assert not (runs[name] / "results" / "evidence.texts.parquet").exists()
        with pytest.raises(
            RunError, match=r"UIMA CAS holds the charts' text, and the run has none; set `include_text: true`"
        ):
            export_spans(runs[name], tmp_path / "cas", form="cas")
    export_spans(runs["plain"], tmp_path / "plain", form="mdace")
    assert "pneumonia" not in "".join(file.read_text() for file in (tmp_path / "plain").rglob("*.json"))
    export_spans(runs["text"], tmp_path / "spans.csv")
    spans = pl.read_csv(tmp_path / "spans.csv")
    assert set(spans.filter(pl.col("label") == "J18")["text"]) == {"pneumonia"}


def test_mdaces_json_has_the_spans_of_the_table(runs: dict[str, Path], tmp_path: Path) -> None:
    for name in ("text", "plain"):
        written = export_spans(runs[name], tmp_path / name, form="mdace")
        spans = RunDirectory(runs[name]).read_table("evidence", "spans")
        assert spans is not None
        read = list(mdace.read(tmp_path / name / "toy"))
        assert len(read) == written.n_files == spans["case_id"].n_unique()
        found = {
            (str(chart.hadm_id), a.code, a.begin, a.end, a.type, a.description)
            for chart in read
            for note in chart.notes
            for a in note.annotations
        }
        rows = spans.select("case_id", "label", "start", "end", "status", "marked_by").iter_rows()
        assert found == {(*row[:5], f"marked by {row[5]}") for row in rows}
        assert {note.note_id for chart in read for note in chart.notes} == {
            int(f"9{case}") for case in spans["case_id"]
        }
        assert all((note.text is not None) == (name == "text") for chart in read for note in chart.notes)
    export_spans(runs["no notes"], tmp_path / "whole", form="mdace")
    assert len(list(mdace.read(tmp_path / "whole"))) == written.n_files


def test_cas_opens_with_cassis_and_has_every_span(runs: dict[str, Path], tmp_path: Path) -> None:
    pytest.importorskip("cassis")
    written = export_spans(runs["text"], tmp_path / "cas", form="cas")
    spans = RunDirectory(runs["text"]).read_table("evidence", "spans")
    assert spans is not None
    files = sorted((tmp_path / "cas" / "toy").iterdir())
    assert len(files) == written.n_files
    assert files[0].stat().st_mode & 0o077 == 0
    for file in files[:6]:
        document = uima_cas.read_json(file.read_bytes(), file)
        expected = spans.filter(pl.col("case_id") == file.stem)
        rows = expected.select("start", "end", "label", "status", "text").iter_rows()
        assert sorted(
            (span.begin, span.end, span.features["code"], span.features["status"], document.text[span.begin : span.end])
            for span in document.spans
        ) == sorted(rows)
        assert {span.layer for span in document.spans} == {LAYER}
        assert all(
            span.features["label"] == f"{span.features['code']} {span.features['status']}" for span in document.spans
        )


def test_what_cannot_be_exported(runs: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds no run"):
        export_spans(tmp_path, tmp_path / "spans.csv")
    with pytest.raises(ConfigError, match="the run has no spans of model 'tyo'; its models are: toy"):
        export_spans(runs["plain"], tmp_path / "spans.csv", models=["tyo"])
    with pytest.raises(ConfigError, match="unknown status 'wrong'; use found, partly, missed, false"):
        export_spans(runs["plain"], tmp_path / "spans.csv", statuses=["wrong"])
    with pytest.raises(ConfigError, match="a table is written as CSV or Parquet"):
        export_spans(runs["plain"], tmp_path / "spans.json")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--format mdace writes a folder, and this is a file"):
        export_spans(runs["plain"], tmp_path / "file", form="mdace")


# --- palpate codes export ---------------------------------------------------------------------------------------


def test_a_table_becomes_mdaces_json_and_back(tmp_path: Path) -> None:
    (tmp_path / "evidence.csv").write_text(
        "case_id,label,start,end,note_id,code_system,type\n"
        "7,428.0,4,9,31,ICD-9-CM,Human\n7,36.15,20,26,32,ICD-9-PCS,MapType.EXACT\n8,401.9,0,3,33,ICD-9-CM,Human\n"
    )
    (tmp_path / "notes.csv").write_text(
        "case_id,note_id,category,start,end\n7,31,ECG,0,15\n7,32,Echo,18,30\n8,33,ECG,0,9\n"
    )
    n = export_annotations(
        tmp_path / "evidence.csv", tmp_path / "out", notes=tmp_path / "notes.csv", setting="Inpatient", system="ICD-9"
    )
    assert n == 2
    first, second = mdace.read(tmp_path / "out", setting="Inpatient", system="ICD-9")
    assert [(note.note_id, note.category, [(a.begin, a.end) for a in note.annotations]) for note in first.notes] == [
        (31, "ECG", [(4, 9)]),
        (32, "Echo", [(2, 8)]),
    ]
    assert (first.completeness, second.hadm_id) == ("sufficient", 8)
    back = read_evidence(tmp_path / "out" / "Inpatient" / "ICD-9").rows
    given = read_evidence(tmp_path / "evidence.csv").rows
    shift = {"31": 0, "32": 18, "33": 0}
    moved = back.with_columns(pl.col(name) + pl.col("note_id").replace_strict(shift) for name in ("start", "end"))
    assert moved.select(given.columns).sort("case_id", "start").equals(given.sort("case_id", "start"))


def test_a_project_becomes_mdaces_json(tmp_path: Path) -> None:
    documents = {"31.txt": ("Chest pain and asystole.", {"anna": [("Chest pain", "R07.9"), ("asystole", "I46.9")]})}
    folder = write_project(tmp_path / "100197", documents)
    assert export_annotations(folder, tmp_path / "a", chart="project", include_text=True) == 1
    (chart,) = mdace.read(tmp_path / "a")
    (note,) = chart.notes
    assert (chart.hadm_id, note.note_id, note.text) == (100197, 31, "Chest pain and asystole.")
    assert [(a.code, a.code_system, note.text[a.begin : a.end]) for a in note.annotations] == [
        ("R07.9", "ICD-10-CM", "Chest pain"),
        ("I46.9", "ICD-10-CM", "asystole"),
    ]
    export_annotations(folder, tmp_path / "b", chart="project")
    (path,) = (tmp_path / "b").rglob("*.json")
    assert "asystole" not in path.read_text()
    (tmp_path / "31.tsv").write_text(tsv("no fever", [("fever", "R50.9")]), encoding="utf-8")
    assert export_annotations(tmp_path / "31.tsv", tmp_path / "c") == 1
    assert json.loads((tmp_path / "c" / "31.json").read_text())["notes"][0]["annotations"][0]["code"] == "R50.9"


@pytest.mark.parametrize(
    ("rows", "options", "said"),
    [
        ("a7,R07.9,0,3,,ICD-10-CM", {}, "column 'case_id': the case 'a7' is not a whole number; MDACE's files name"),
        ("7,R07.9,0,3,31,ICD-10-CM", {}, "row 1, column 'note_id': the spans are in notes; give the table"),
        ("7,R07.9,0,3,,", {}, "row 1, column 'code_system': the row has no code system; write one of"),
        ("7,R07.9,0,3,,ICD-11", {}, "row 1, column 'code_system': unknown code system 'ICD-11'"),
        ("7,R07.9,0,3,,", {"code_system": "ICD-11"}, "unknown code system 'ICD-11'; use one of"),
        ("7,R07.9,0,30,31,ICD-10-CM", {"notes": True}, "row 1: the span from 0 to 30 of case '7' lies in no note"),
        ("7,R07.9,0,3,,ICD-10-CM", {"include_text": True}, "a table of evidence has no text; leave out --include-text"),
    ],
    ids=range(7),
)
def test_tables_that_are_no_charts(tmp_path: Path, rows: str, options: dict[str, object], said: str) -> None:
    (tmp_path / "e.csv").write_text(f"case_id,label,start,end,note_id,code_system\n{rows}\n")
    if "notes" in options:
        (tmp_path / "n.csv").write_text("case_id,note_id,category,start,end\n7,31,ECG,0,15\n")
        options = {"notes": tmp_path / "n.csv"}
    with pytest.raises((CohortError, ConfigError)) as caught:
        export_annotations(tmp_path / "e.csv", tmp_path / "out", **options)  # type: ignore[arg-type]
    assert said in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_span_that_goes_on_in_the_next_note_is_one_annotation_in_each(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("case_id,label,start,end,code_system\n7,R07.9,3,9,ICD-10-CM\n")
    (tmp_path / "n.csv").write_text("case_id,note_id,category,start,end\n7,31,ECG,0,5\n7,32,ECG,5,20\n")
    export_annotations(tmp_path / "e.csv", tmp_path / "out", notes=tmp_path / "n.csv")
    (chart,) = mdace.read(tmp_path / "out")
    assert [(note.note_id, note.annotations[0].begin, note.annotations[0].end) for note in chart.notes] == [
        (31, 3, 5),
        (32, 0, 4),
    ]
