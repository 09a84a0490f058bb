"""Offsets and notes together: the synthetic hospital's charts, clean-ups against an obvious version, bad merges."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from palpate.data.annotations import AnnotatedChart, AnnotatedNote, Annotation, mdace
from palpate.data.annotations.mdace_notes import merge_adjacent, tidy, trim_punctuation, with_notes
from palpate.data.annotations.mdace_statistics import summarise
from palpate.errors import CohortError
from palpate.synthetic import write_hospital


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("hospital")
    write_hospital(out, n_patients=120, seed=5, images=False)
    return out


@pytest.mark.parametrize("setting", mdace.SETTINGS)
def test_the_synthetic_hospital(hospital: Path, setting: str) -> None:
    charts = list(mdace.read(hospital / "mdace", setting=setting, system="ICD-10"))
    merged = with_notes(charts, hospital / "mimic-iii")
    events = pl.read_csv(hospital / "mimic-iii" / "NOTEEVENTS.csv.gz", infer_schema=False)
    texts = dict(zip(events["ROW_ID"], events["TEXT"], strict=True))
    patients = dict(zip(events["HADM_ID"], events["SUBJECT_ID"], strict=True))
    assert merged
    for before, after in zip(charts, merged, strict=True):
        notes = tuple(replace(note, text=None) for note in after.notes)
        assert replace(after, notes=notes, subject_id=None) == before
        assert after.subject_id == (int(patients[str(before.hadm_id)]) if before.notes else None)
        assert all(note.text == texts[str(note.note_id)] for note in after.notes)
    assert set(mdace.read_splits(hospital / "mdace", setting)) == {chart.hadm_id for chart in charts}
    mean = summarise(merged).mean_words
    assert mean is not None
    assert mean >= 1.0


def test_spans_are_where_the_truth_is(hospital: Path) -> None:
    truth = pl.read_csv(hospital / "mdace" / "true_spans.csv.gz", infer_schema=False)
    said = {(r["note_id"], r["begin"], r["end"]): r["covered_text"] for r in truth.iter_rows(named=True)}
    charts = with_notes(mdace.read(hospital / "mdace", setting="Inpatient", system="ICD-9"), hospital / "mimic-iii")
    checked = 0
    for chart in charts:
        for note in chart.notes:
            assert note.text is not None
            for a in note.annotations:
                key = (str(note.note_id), str(a.begin), str(a.end))
                if key in said:
                    checked += 1
                    assert note.text[a.begin : a.end] == said[key]
    assert checked > 100


# --- clean-ups --------------------------------------------------------------------------------------------------

TEXT = "a b, c. (d)  e-f"


def mark(begin: int, end: int, code: str = "I10", kind: str = "Human") -> Annotation:
    return Annotation(begin, end, code, "ICD-10-CM", kind)


@st.composite
def marks(draw: st.DrawFn) -> list[Annotation]:
    places = st.tuples(st.integers(0, len(TEXT)), st.integers(0, len(TEXT))).filter(lambda p: p[0] != p[1])
    found = draw(st.lists(st.tuples(places, st.sampled_from("AB")), max_size=6))
    return [mark(min(p), max(p), code) for p, code in found]


def obvious_merge(spans: list[Annotation], between: str) -> set[tuple[int, int, str]]:
    """Join any two spans that belong together until none do."""
    found = {(a.begin, a.end, a.code) for a in spans}
    while True:
        for a in sorted(found):
            for b in sorted(found - {a}):
                gap = TEXT[a[1] : b[0]] if a[1] < b[0] else ""
                blank = all(c.isspace() or (between == "punctuation" and c in ",.()-") for c in gap)
                if a[2] == b[2] and a[0] <= b[0] and blank:
                    break
            else:
                continue
            break
        else:
            return found
        found = (found - {a, b}) | {(a[0], max(a[1], b[1]), a[2])}


@given(marks(), st.sampled_from(["blanks", "punctuation"]))
@example([mark(0, 16), mark(2, 3)], "blanks")
@example([mark(0, 1), mark(2, 3), mark(5, 6)], "blanks")
def test_merge(spans: list[Annotation], between: str) -> None:
    found = merge_adjacent(spans, TEXT, between=between)  # type: ignore[arg-type]
    places = [(a.begin, a.end, a.code) for a in found]
    assert len(places) == len(set(places))
    assert set(places) == obvious_merge(spans, between)
    assert places == sorted(places)


@given(marks())
def test_trim(spans: list[Annotation]) -> None:
    found = trim_punctuation(spans, TEXT)
    expected = []
    for a in spans:
        kept = [k for k in range(a.begin, a.end) if TEXT[k].isalnum()]
        if kept:
            expected.append(replace(a, begin=kept[0], end=kept[-1] + 1))
    assert list(found) == expected


def test_tidy_trims_then_merges() -> None:
    note = AnnotatedNote(3, "ECG", (mark(0, 2), mark(2, 4), mark(4, 5), mark(8, 11)), text=TEXT)
    chart = AnnotatedChart(1, (note,))
    assert [(a.begin, a.end) for a in tidy(chart, trim=True, merge="blanks").notes[0].annotations] == [(0, 3), (9, 10)]
    assert tidy(chart) == chart
    with pytest.raises(CohortError, match="note 3 has no text"):
        tidy(AnnotatedChart(1, (replace(note, text=None),)), trim=True)


def test_symbols_that_mean_something_are_kept() -> None:
    text = "HIV+, (Na<130)."
    assert [text[a.begin : a.end] for a in trim_punctuation([mark(0, 5), mark(6, 15)], text)] == ["HIV+", "Na<130"]


# --- bad merges -------------------------------------------------------------------------------------------------

HEADER = "ROW_ID,SUBJECT_ID,HADM_ID,CATEGORY,TEXT\n"


def merge(folder: Path, rows: str, *, end: int = 5, suffix: str = ".csv") -> list[AnnotatedChart]:
    if suffix == ".csv.gz":
        with gzip.open(folder / "NOTEEVENTS.csv.gz", "wt") as file:
            file.write(HEADER + rows)
    else:
        (folder / "NOTEEVENTS.csv").write_text(HEADER + rows)
    return with_notes(
        [AnnotatedChart(7, (AnnotatedNote(3, "ECG", (mark(0, end),)),), file=Path("7-ICD-10.json"))], folder
    )


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_formats(tmp_path: Path, suffix: str) -> None:
    (chart,) = merge(tmp_path, '2,1,7,Echo,no\n3,1,7.0,ECG," sinus\nrhythm, ""fine"" "\n', suffix=suffix)
    assert chart.notes[0].text == ' sinus\nrhythm, "fine" '


def test_parquet(tmp_path: Path) -> None:
    columns = {"row_id": [3], "subject_id": [1], "hadm_id": [7], "category": ["ECG"], "text": [" sinus"]}
    pl.DataFrame(columns).write_parquet(tmp_path / "noteevents.parquet")
    (chart,) = with_notes([AnnotatedChart(7, (AnnotatedNote(3, "ECG", ()),))], tmp_path)
    assert chart.notes[0].text == " sinus"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("3,1,7,ECG,sinu\n", "7-ICD-10.json: note 3, annotation 1: the span goes from 0 to 5, but the note has 4"),
        ("4,1,7,ECG,sinus\n", "7-ICD-10.json: note 3 is not in NOTEEVENTS of"),
        ("3,1,8,ECG,sinus\n", "7-ICD-10.json: note 3 belongs to admission 8 in NOTEEVENTS, not to 7"),
        ("3,1,7,ECG,sinus\n3,1,7,ECG,sinus\n", "NOTEEVENTS.csv, column 'ROW_ID': ROW_ID 3 is in two rows"),
        ("3,1,,ECG,sinus\n", "NOTEEVENTS.csv, column 'HADM_ID': note 3 has no HADM_ID"),
        ("3,1,7,ECG,\n", "NOTEEVENTS.csv, column 'TEXT': note 3 has no TEXT"),
    ],
)
def test_bad_merges(tmp_path: Path, rows: str, said: str) -> None:
    with pytest.raises(CohortError) as caught:
        merge(tmp_path, rows)
    assert said in str(caught.value)
    assert "sinu" not in str(caught.value).replace(str(tmp_path), "")


def test_notes_of_two_patients_in_one_admission(tmp_path: Path) -> None:
    (tmp_path / "NOTEEVENTS.csv").write_text(HEADER + "3,1,7,ECG,sinus\n4,2,7,ECG,sinus\n")
    with pytest.raises(CohortError, match="the notes of admission 7 belong to several patients"):
        with_notes([AnnotatedChart(7, (AnnotatedNote(3, "ECG", ()), AnnotatedNote(4, "ECG", ())))], tmp_path)


def test_no_table(tmp_path: Path) -> None:
    with pytest.raises(CohortError, match="the table NOTEEVENTS is missing"):
        with_notes([AnnotatedChart(7, (AnnotatedNote(3, "ECG", ()),))], tmp_path)
    assert with_notes([AnnotatedChart(7, ())], tmp_path) == [AnnotatedChart(7, ())]
