"""The coding cohort: the synthetic hospital's charts and their true words, charts written by hand, and bad sources."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.data.annotations import AnnotatedChart, AnnotatedNote, Annotation, mdace
from palpate.data.annotations.evidence_tables import read_evidence, read_note_places
from palpate.data.cohorts import BuiltCohort, write_built_cohort
from palpate.data.cohorts.mdace import (
    NOTE_MARK,
    MdaceOptions,
    build_mdace,
    choose_notes,
    evidence_rows,
    join_notes,
)
from palpate.data.cohorts.mdace_sources import ChartNote
from palpate.data.tables import TableSpec, read_cohort
from palpate.errors import CohortError
from palpate.synthetic import write_hospital
from tests.data.mimic_files import START, Stay, hospital, note, write


def build(source: Path, **options: Any) -> BuiltCohort:
    return build_mdace(source, options=MdaceOptions(**options))


def texts_of(built: BuiltCohort) -> dict[str, str]:
    return dict(zip(built.cohort.cases["case_id"], built.cohort.texts, strict=True))


def labels_of(built: BuiltCohort) -> dict[str, set[str]]:
    y = built.cohort.y.tocsr()
    return {
        case: {built.cohort.labels[k] for k in y[[row]].indices}
        for row, case in enumerate(built.cohort.cases["case_id"])
    }


# --- joining ----------------------------------------------------------------------------------------------------


@given(st.lists(st.text(max_size=30), min_size=1, max_size=6))
def test_joined_notes_are_where_they_are_said_to_be(texts: list[str]) -> None:
    joined = join_notes(texts)
    assert [joined.text[at : at + len(text)] for at, text in zip(joined.starts, texts, strict=True)] == texts
    assert len(joined.text) == sum(map(len, texts)) + (len(texts) - 1) * len(NOTE_MARK)


@st.composite
def marked_notes(draw: st.DrawFn) -> list[AnnotatedNote]:
    notes = []
    for number in range(draw(st.integers(1, 5))):
        text = draw(st.text(min_size=1, max_size=30))
        ends = st.tuples(st.integers(0, len(text)), st.integers(0, len(text))).filter(lambda p: p[0] != p[1])
        spans = [Annotation(min(p), max(p), draw(st.sampled_from("AB")), "CPT") for p in draw(st.lists(ends))]
        notes.append(AnnotatedNote(number, "ECG", tuple(spans), text=text))
    return notes


@given(marked_notes(), st.randoms(use_true_random=False), st.data())
def test_evidence_covers_the_same_words_in_the_case_as_in_its_note(
    notes: list[AnnotatedNote], random: Any, data: st.DataObject
) -> None:
    kept = data.draw(st.lists(st.sampled_from(notes), unique=True, min_size=1))
    joined = join_notes([note.text or "" for note in kept])
    starts = {note.note_id: at for note, at in zip(kept, joined.starts, strict=True)}
    random.shuffle(notes)
    rows = evidence_rows(AnnotatedChart(7, tuple(notes)), starts)
    said = [(row[1], row[4], joined.text[row[2] : row[3]]) for row in rows]  # type: ignore[misc]
    wanted = [
        (a.code, str(note.note_id), (note.text or "")[a.begin : a.end])
        for note in notes
        if note in kept
        for a in note.annotations
    ]
    assert said == wanted


def a_note(number: int, hours: float | None, category: str = "ECG", **kind: Any) -> ChartNote:
    written = None if hours is None else datetime(2150, 1, 1) + timedelta(hours=hours)
    summary = category == "Discharge summary"
    plain = ChartNote(number, 1, written, category, summary, is_addendum=False, is_error=False, text="words")
    return plain._replace(**kind)


def test_summaries_come_first_then_time() -> None:
    notes = [
        a_note(1, 3),
        a_note(2, None),
        a_note(3, 1, "Nursing"),
        a_note(4, 90, "Discharge summary"),
        a_note(5, 80, "Discharge summary", is_addendum=True),
        a_note(6, 1),
        a_note(7, 0, is_error=True),
        a_note(8, 0, text=" \n"),
    ]
    chart = AnnotatedChart(7, tuple(AnnotatedNote(k, "ECG", (Annotation(0, 1, "I10", "ICD-10-CM"),)) for k in (6, 7)))

    def ids(which: str | tuple[str, ...], of: AnnotatedChart | None = chart) -> list[int]:
        return [one.note_id for one in choose_notes(notes, of, which)]

    assert ids("all") == [4, 5, 7, 3, 6, 1, 2], "an error that a coder took evidence from stays"
    assert ids("all", None) == [4, 5, 3, 6, 1, 2]
    assert ids("annotated") == [7, 6]
    assert ids("discharge") == ids("annotated", None) == [4, 5]
    # Categories by their first words, in any case.
    assert ids(("discharge", "NURSING")) == [4, 5, 3]
    assert ids(("Discharge summary",)) == [4, 5]
    assert ids(("dis", "summary")) == []


def test_categories_of_notes(made: Path) -> None:
    """The code-able notes of Table 10: as all notes, without those of other categories."""
    whole, some = build(made, notes="all"), build(made, notes=["discharge", "physician", "radiology"])
    kept = whole.tables["notes"].filter(pl.col("category").str.to_lowercase().str.contains("^(disch|physician|radiol)"))
    assert kept.height < whole.tables["notes"].height
    assert set(some.tables["notes"]["note_id"]) == set(kept["note_id"])
    texts, gold = texts_of(some), some.tables["evidence"]
    assert all(texts[row["case_id"]][row["start"] : row["end"]].strip() for row in gold.iter_rows(named=True))
    assert any("notes: discharge, physician, radiology" in step.name for step in some.flow)
    assert set(build(made, notes="radiology").tables["notes"]["category"]) == {"Radiology"}
    with pytest.raises(CohortError, match="no note of the charts has the category 'letters'") as refused:
        build(made, notes=["discharge", "letters"])
    assert "Discharge summary" in str(refused.value)


# --- the synthetic hospital -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("hospital")
    write_hospital(out, n_patients=150, seed=3, images=False)
    return out


@pytest.mark.parametrize("notes", ["discharge", "annotated", "all"])
@pytest.mark.parametrize("setting", ["Inpatient", "profee"])
def test_every_gold_span_covers_its_true_words(made: Path, setting: str, notes: str) -> None:
    built = build(made, setting=setting, notes=notes, system="ICD-10")
    texts, evidence = texts_of(built), built.tables["evidence"]
    events = pl.read_csv(made / "mimic-iii" / "NOTEEVENTS.csv.gz", infer_schema=False)
    of_note = dict(zip(events["ROW_ID"], events["TEXT"], strict=True))
    truth = pl.read_csv(made / "mdace" / "true_spans.csv.gz", infer_schema=False)
    said = {(r["note_id"], r["begin"], r["end"]): r["covered_text"] for r in truth.iter_rows(named=True)}
    starts = {r["note_id"]: r["start"] for r in built.tables["notes"].iter_rows(named=True)}
    n_true = 0
    for row in evidence.iter_rows(named=True):
        at = starts[row["note_id"]]
        key = (row["note_id"], str(row["start"] - at), str(row["end"] - at))
        words = texts[row["case_id"]][row["start"] : row["end"]]
        assert words == of_note[row["note_id"]][row["start"] - at : row["end"] - at]
        if key in said:
            n_true += 1
            assert words == said[key]
    assert n_true > 100 or setting == "profee"
    for row in built.tables["notes"].iter_rows(named=True):
        assert texts[row["case_id"]][row["start"] : row["end"]] == of_note[row["note_id"]]
    assert set(evidence["completeness"]) == {"sufficient" if setting == "Inpatient" else "complete"}


def test_labels_are_the_charts_codes_and_splits_are_the_lists(made: Path) -> None:
    built = build(made, notes="annotated")
    charts = {str(c.hadm_id): c for c in mdace.read(made / "mdace", setting="Inpatient", system="ICD-9")}
    codes = {case: {a.code for n in chart.notes for a in n.annotations} for case, chart in charts.items()}
    assert labels_of(built) == {case: some for case, some in codes.items() if some}
    splits = mdace.read_splits(made / "mdace", "Inpatient")
    assert all(splits[int(case)] == split for case, split in built.cohort.cases.select("case_id", "split").iter_rows())
    n_spans = sum(len(n.annotations) for chart in charts.values() for n in chart.notes)
    assert built.tables["evidence"].height == n_spans, "no annotated note is left out"
    assert built.flow[-1].name == f"evidence in these notes: {n_spans:,} of {n_spans:,} spans"
    assert {"age", "gender", "ethnicity"} <= set(built.cohort.attributes)


def test_the_published_repository_gives_the_same_cohort(made: Path, tmp_path: Path) -> None:
    """Charts in `data/`, lists beside it, and predictions, which are not annotations."""
    top = tmp_path / "MDACE"
    for setting in ("Inpatient", "Profee"):
        shutil.copytree(made / "mdace" / setting, top / "data" / setting)
    shutil.copytree(made / "mdace" / "splits", top / "splits")
    shutil.copytree(made / "mdace" / "Inpatient", top / "predictions" / "one" / "Inpatient")
    expected = build(made)
    for source in (tmp_path, top, top / "data"):
        built = build(source, mimic=made / "mimic-iii")
        assert built.tables["evidence"].equals(expected.tables["evidence"])
        assert built.cohort.fingerprint == expected.cohort.fingerprint


def test_discharge_summaries_have_part_of_the_evidence(made: Path) -> None:
    whole, part = (build(made, notes=notes) for notes in ("annotated", "discharge"))
    summaries = whole.tables["notes"].filter(pl.col("category") == "Discharge summary")["note_id"]
    wanted = whole.tables["evidence"].filter(pl.col("note_id").is_in(summaries.implode()))
    assert 0 < part.tables["evidence"].height == wanted.height < whole.tables["evidence"].height
    assert labels_of(whole) == labels_of(part), "a code stays a code of the chart, wherever its evidence is"


def test_charts_without_evidence_come_along_for_training(made: Path) -> None:
    few, many = build(made), build(made, charts="code-ev")
    assert many.cohort.cases.height > 2 * few.cohort.cases.height
    assert many.tables["evidence"].equals(few.tables["evidence"])
    billed = pl.read_csv(made / "mimic-iii" / "DIAGNOSES_ICD.csv.gz", infer_schema=False)
    before, after = labels_of(few), labels_of(many)
    for case, codes in after.items():
        given = set(billed.filter(pl.col("HADM_ID") == case)["ICD9_CODE"])
        assert given <= {code.replace(".", "") for code in codes}
        assert before.get(case, set()) <= codes
    assert any("." in code for codes in after.values() for code in codes)


def test_the_files_are_read_back(made: Path, tmp_path: Path) -> None:
    built = build(made, trim=True, merge="punctuation")
    write_built_cohort(built, tmp_path / "m.parquet")
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        *("m.evidence.parquet", "m.notes.parquet", "m.parquet", "m.parquet.flow.csv", "m.parquet.splits.csv"),
    ]
    cohort = read_cohort(TableSpec(file=tmp_path / "m.parquet"), name="mdace")
    assert cohort.fingerprint == built.cohort.fingerprint
    assert read_evidence(tmp_path / "m.evidence.parquet").rows.height == built.tables["evidence"].height
    assert read_note_places(tmp_path / "m.notes.parquet").rows.height == built.tables["notes"].height


def test_the_same_source_gives_the_same_bytes(made: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_built_cohort(build(made), tmp_path / name / "m.parquet")
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()


# --- charts by hand ---------------------------------------------------------------------------------------------

STAYS = [Stay(1, 0, 3, 71), Stay(1, 50, 53, 72), Stay(2, 0, 3, 73)]
TEXT = "Chest pain, and fever."


def chart_json(hadm: int, notes: Mapping[int, Sequence[tuple[int, int, str]]], **cells: Any) -> dict[str, Any]:
    return {
        "hadm_id": hadm,
        "comment": "",
        "notes": [
            {
                "note_id": number,
                "category": "Discharge summary",
                "annotations": [
                    {"begin": b, "end": e, "code": code, "code_system": "ICD-9-CM", "type": "Human", **cells}
                    for b, e, code in spans
                ],
            }
            for number, spans in notes.items()
        ],
    }


def source(folder: Path, charts: Sequence[dict[str, Any]], lists: Mapping[str, str], rows: Any = None) -> Path:
    """A folder with MDACE and, beside it, MIMIC-III."""
    place = folder / "mdace" / "Inpatient" / "ICD-9" / "1.0"
    place.mkdir(parents=True)
    for chart in charts:
        (place / f"{chart['hadm_id']}-ICD-9.json").write_text(json.dumps(chart))
    split = folder / "mdace" / "splits" / "Inpatient"
    split.mkdir(parents=True)
    for name in ("train", "val", "test"):
        (split / f"MDace-ev-{name}.csv").write_text(lists.get(name, ""))
    notes = [note(k, stay, TEXT) for k, stay in enumerate(STAYS, start=1)] if rows is None else rows
    write(folder / "mimic", hospital(STAYS, notes))
    return folder


PAIN = {1: [(0, 10, "786.50")]}


def test_a_patient_is_in_one_split(tmp_path: Path) -> None:
    charts = [chart_json(71, PAIN), chart_json(72, {2: [(16, 21, "780.60")]}), chart_json(73, {3: [(0, 5, "V10")]})]
    folder = source(tmp_path, charts, {"train": "71\n", "test": "72\n", "val": "73\n"})
    apart = build(folder)
    assert apart.cohort.cases["case_id"].to_list() == ["72", "73"]
    (step,) = [step for step in apart.flow if step.n_dropped]
    assert (step.name, step.reason) == ("each patient in one split", "the patient also has a chart in a later split")
    charted = build(folder, patients="charts")
    assert charted.cohort.cases["patient_id"].to_list() == ["71", "72", "73"]
    assert charted.cohort.cases["split"].to_list() == ["train", "test", "validation"]
    drawn = build(folder, split="draw", ratios=(0.5, 0, 0.5))
    assert drawn.cohort.cases["split"].n_unique() == 2
    assert drawn.splits["patient_id"].is_unique().all()


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    charts = [chart_json(71, PAIN), chart_json(72, {}), chart_json(73, {3: [(0, 5, "V10")]})]
    built = build(source(tmp_path, charts, {"train": "71\n72\n"}))
    assert built.cohort.cases["case_id"].to_list() == ["71"]
    dropped = {step.name: step.n_dropped for step in built.flow}
    assert dropped["charts of MDACE's lists (ev)"] == 1
    assert dropped["charts with a code"] == 1


def test_spans_are_trimmed_and_merged_before_they_are_moved(tmp_path: Path) -> None:
    chart = chart_json(71, {1: [(0, 6, "786.50"), (6, 11, "786.50")], 9: [(0, 6, "V10")]})
    rows = [note(1, STAYS[0], TEXT), note(9, STAYS[0], "(HIV+)", CATEGORY="ECG", CHARTTIME=START)]
    folder = source(tmp_path, [chart], {"train": "71\n"}, rows)
    built = build(folder, trim=True, merge="blanks", notes="annotated")
    (text,) = built.cohort.texts
    assert text == TEXT + NOTE_MARK + "(HIV+)"
    spans = built.tables["evidence"].select("start", "end").rows()
    assert [text[b:e] for b, e in spans] == ["Chest pain", "HIV+"]
    assert built.tables["evidence"].height == 2
    assert build(folder, notes="annotated").tables["evidence"].height == 3


def test_tables_of_people_are_not_needed(tmp_path: Path) -> None:
    folder = source(tmp_path, [chart_json(71, PAIN)], {"train": "71\n"})
    for name in ("PATIENTS", "ADMISSIONS"):
        (folder / "mimic" / f"{name}.csv").unlink()
    built = build(folder)
    assert built.cohort.attributes == ()
    assert built.cohort.cases["patient_id"].to_list() == ["1"]


def test_folders_by_name(tmp_path: Path) -> None:
    folder = source(tmp_path / "a", [chart_json(71, PAIN)], {"train": "71\n"})
    (tmp_path / "b").mkdir()
    built = build(tmp_path / "b", mdace=folder / "mdace", mimic=folder / "mimic")
    assert built.cohort.cases.height == 1
    with pytest.raises(CohortError, match="the folder has no annotated charts"):
        build(tmp_path / "b")
    with pytest.raises(CohortError, match="the table NOTEEVENTS is missing"):
        build(folder / "mdace")
    with pytest.raises(CohortError, match="folder not found"):
        build(tmp_path / "c")


@pytest.mark.parametrize(
    ("charts", "rows", "said"),
    [
        (
            [chart_json(71, {1: [(0, 99, "V10")]})],
            None,
            "note 1, annotation 1: the span goes from 0 to 99, but the note",
        ),
        ([chart_json(71, {8: [(0, 5, "V10")]})], None, "note 8 is not in NOTEEVENTS of"),
        ([chart_json(71, {2: [(0, 5, "V10")]})], None, "note 2 belongs to admission 72 in NOTEEVENTS, not to 71"),
        ([chart_json(71, PAIN, code_system="ICD-11")], None, "unknown code system 'ICD-11'"),
        ([chart_json(71, PAIN)], [note(1, STAYS[0], TEXT)] * 2, "column 'ROW_ID': ROW_ID 1 is in two rows"),
        ([chart_json(71, PAIN)], [note(1, STAYS[0], "")], "column 'TEXT': note 1 has no TEXT"),
        ([chart_json(71, PAIN)], [note(1, replace(STAYS[0], id="x"), TEXT)], "HADM_ID"),
        ([chart_json(72, {}), chart_json(71, {})], None, "no cases are left after the step 'charts with a code'"),
    ],
)
def test_bad_sources(tmp_path: Path, charts: Any, rows: Any, said: str) -> None:
    folder = source(tmp_path, charts, {"train": "71\n72\n"}, rows)
    with pytest.raises(CohortError) as caught:
        build(folder)
    assert said in str(caught.value)
    assert "Chest" not in str(caught.value)


def test_options_that_do_not_go_together() -> None:
    with pytest.raises(ValueError, match="billed codes are ICD-9"):
        MdaceOptions(charts="code-ev", system="ICD-10")
    with pytest.raises(ValueError, match="use split=mdace"):
        MdaceOptions(charts="code-ev", split="draw")
