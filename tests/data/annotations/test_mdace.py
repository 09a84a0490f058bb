"""MDACE's files: the published counts from the real ones, round trips, and what is wrong with bad ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.data.annotations import AnnotatedChart, AnnotatedNote, Annotation, mdace
from palpate.data.annotations.mdace_statistics import (
    CodeComparison,
    by_category,
    by_mapping,
    compare_codes,
    summarise,
)
from palpate.errors import CohortError
from tests.data.published import MDACE, needs_mdace

BOTH = pytest.mark.parametrize("setting", mdace.SETTINGS)
# Table 3, as printed.
TABLE_3 = {
    ("Inpatient", "ICD-9"): (302, 604, 918, 3934),
    ("Inpatient", "ICD-10"): (302, 604, 1024, 3936),
    ("Profee", "ICD-9"): (52, 588, 652, 5563),
    ("Profee", "ICD-10"): (52, 588, 734, 5563),
}
TABLE_4 = {
    "Inpatient": [
        *(("Discharge summary", 3434, 87.3), ("Physician", 364, 9.3), ("Radiology", 60, 1.5), ("General", 28, 0.7)),
        ("Nutrition", 19, 0.5),
    ],
    "Profee": [
        *(("Physician", 2082, 37.4), ("Discharge summary", 1584, 28.5), ("Radiology", 1269, 22.8)),
        *(("ECG", 256, 4.6), ("Echo", 207, 3.7), ("Rehab Services", 66, 1.2)),
    ],
}
TABLE_6 = {
    "Inpatient": {
        "coder verified": (2525, 64.2),
        "identical match": (417, 10.6),
        "approximate match": (687, 17.5),
        "multiple match": (244, 6.2),
        "other": (61, 1.6),
    },
    "Profee": {
        "coder verified": (1606, 28.9),
        "identical match": (1387, 24.9),
        "approximate match": (1847, 33.2),
        "multiple match": (704, 12.6),  # 11.4 + 1.2, the two kinds rounded and then added
        "other": (19, 0.3),
    },
}


@needs_mdace
@pytest.mark.parametrize(("setting", "system"), TABLE_3)
def test_table_3(setting: str, system: str) -> None:
    charts = list(mdace.read(MDACE, setting=setting, system=system))
    found = summarise(charts)
    assert found[:4] == TABLE_3[setting, system]
    assert found.mean_words is None
    assert {(chart.setting, chart.system) for chart in charts} == {(setting, system)}
    assert [chart.hadm_id for chart in charts] == sorted(chart.hadm_id for chart in charts)


@needs_mdace
def test_folders_below_give_their_own_charts() -> None:
    assert len(list(mdace.read(MDACE))) == 2 * (302 + 52)
    assert len(list(mdace.read(MDACE / "Profee" / "ICD-10" / "1.0"))) == 52
    chart = next(mdace.read(MDACE / "Inpatient" / "ICD-10" / "1.0"))
    assert (chart.setting, chart.system, chart.completeness) == ("Inpatient", "ICD-10", "sufficient")


@needs_mdace
@BOTH
def test_table_4(setting: str) -> None:
    shares = by_category(mdace.read(MDACE, setting=setting, system="ICD-9"))
    printed = TABLE_4[setting]
    assert [(s.name, s.n, round(s.percent, 1)) for s in shares[: len(printed)]] == printed


@needs_mdace
@BOTH
def test_table_5_of_mdaces_side(setting: str) -> None:
    charts = list(mdace.read(MDACE, setting=setting, system="ICD-9"))
    assert compare_codes(charts, {}).n_annotated == {"Inpatient": 3414, "Profee": 1630}[setting]


@needs_mdace
@BOTH
def test_table_6(setting: str) -> None:
    shares = by_mapping(mdace.read(MDACE, setting=setting, system="ICD-9"))
    assert {s.name: (s.n, round(s.percent, 1)) for s in shares} == TABLE_6[setting]
    charts = mdace.read(MDACE, setting=setting, system="ICD-9")
    kinds = {a.type for chart in charts for note in chart.notes for a in note.annotations}
    assert kinds == {"Human", *(f"MapType.{k}" for k in ("EXACT", "APPROX", "MULTI", "MULTI_DESC", "NO_ENTRY"))}


@needs_mdace
@BOTH
def test_table_8(setting: str) -> None:
    printed = {"Inpatient": ((181, 60, 61), (47900, 1691, 3131)), "Profee": ((31, 10, 11), (47750, 1641, 3331))}
    charts = {chart.hadm_id for chart in mdace.read(MDACE, setting=setting, system="ICD-10")}
    for kind, counts in zip(("ev", "code-ev"), printed[setting], strict=True):
        splits = mdace.read_splits(MDACE, setting, kind=kind)  # type: ignore[arg-type]
        found = tuple(list(splits.values()).count(name) for name in ("train", "validation", "test"))
        assert found == counts
        if kind == "ev":
            assert set(splits) == charts


@needs_mdace
def test_real_files_are_written_as_they_were(tmp_path: Path) -> None:
    charts = list(mdace.read(MDACE, setting="Profee"))
    assert mdace.write(charts, tmp_path) == 104
    for chart in charts:
        assert chart.file is not None
        copy = tmp_path / chart.file.relative_to(MDACE)
        assert json.loads(copy.read_text(encoding="utf-8")) == json.loads(chart.file.read_text(encoding="utf-8"))


# --- round trips ------------------------------------------------------------------------------------------------

WORDS = st.text(max_size=12)
ANNOTATION = st.builds(
    lambda begin, n, code, system, kind, said: Annotation(begin, begin + n, code, system, kind, said),
    st.integers(0, 40),
    st.integers(1, 40),
    st.text(st.characters(categories=["Lu", "Nd"]), min_size=1, max_size=7),
    st.sampled_from(mdace.CODE_SYSTEMS),
    st.sampled_from(["Human", "MapType.EXACT"]),
    WORDS,
)
NOTE = st.builds(
    lambda category, spans, said, text: AnnotatedNote(0, category, tuple(spans), said, text),
    WORDS,
    st.lists(ANNOTATION, max_size=4),
    WORDS,
    st.none() | st.text(min_size=80, max_size=90),
)
CHART = st.builds(
    lambda hadm, notes, comment, place: AnnotatedChart(
        hadm,
        tuple(AnnotatedNote(k, n.category, n.annotations, n.description, n.text) for k, n in enumerate(notes)),
        comment,
        *place,
    ),
    st.integers(1, 10**9),
    st.lists(NOTE, max_size=3),
    WORDS,
    st.sampled_from([("Inpatient", "ICD-9"), ("Profee", "ICD-10"), (None, None)]),
)


@given(CHART, st.booleans())
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, chart: AnnotatedChart, include_text: bool
) -> None:
    folder = tmp_path_factory.mktemp("charts")
    mdace.write([chart], folder, include_text=include_text)
    (found,) = mdace.read(folder)
    assert (found.hadm_id, found.comment, found.setting, found.system) == (
        chart.hadm_id,
        chart.comment,
        chart.setting,
        chart.system,
    )
    bare = [AnnotatedNote(n.note_id, n.category, n.annotations, n.description) for n in chart.notes]
    assert list(found.notes) == (list(chart.notes) if include_text else bare)


def test_no_text_is_written_unless_asked(tmp_path: Path) -> None:
    chart = AnnotatedChart(7, (AnnotatedNote(1, "ECG", (), text="secret words"),))
    mdace.write([chart], tmp_path / "plain")
    mdace.write([chart], tmp_path / "told", include_text=True)
    assert "secret" not in (tmp_path / "plain" / "7.json").read_text()
    assert "secret" in (tmp_path / "told" / "7.json").read_text()


def test_two_charts_for_one_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CohortError, match="admission 7 occurs twice"):
        mdace.write([AnnotatedChart(7, ()), AnnotatedChart(7, ())], tmp_path)


def test_statistics_by_hand() -> None:
    text = "Chest pain, BMI 45. Fever."
    one = AnnotatedNote(
        1, " ECG", (Annotation(0, 10, "R07.9", "ICD-10-CM"), Annotation(12, 18, "Z68", "ICD-10-CM")), text=text
    )
    two = AnnotatedNote(
        2, "Echo", (Annotation(20, 25, "R50.9", "ICD-10-CM"), Annotation(0, 5, "99233", "CPT")), text=text
    )
    charts = [AnnotatedChart(1, (one, two)), AnnotatedChart(2, (two,))]
    assert summarise(charts) == (2, 3, 4, 6, (2 + 2 + 1 + 1 + 1 + 1) / 6)
    assert by_category(charts) == [("Echo", 4, 400 / 6), ("ECG", 2, 200 / 6)]
    assert compare_codes(charts, {1: ["R079", "I10"], 2: ["99233"]}) == CodeComparison(2, 6, 1, 1, 2.5)
    assert compare_codes([], {}).mean_added is None


# --- bad input --------------------------------------------------------------------------------------------------


def chart_file(folder: Path, change: Any = None, **fields: Any) -> Path:
    annotation = {"begin": 2, "end": 5, "code": "I10", "code_system": "ICD-10-CM", "type": "Human", **fields}
    chart = {"hadm_id": 7, "comment": "", "notes": [{"note_id": 3, "category": "ECG", "annotations": [annotation]}]}
    if change is not None:
        change(chart)
    path = folder / "7-ICD-10.json"
    path.write_text(json.dumps(chart), encoding="utf-8")
    return path


def refused(path: Path) -> str:
    with pytest.raises(CohortError) as caught:
        list(mdace.read(path.parent))
    message = str(caught.value)
    assert message.startswith(f"{path}")
    assert "\n" not in message
    assert message.endswith(".")
    return message


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"code_system": "ICD-11"}, "note 3, annotation 1: unknown code system 'ICD-11'; use one of ICD-9-CM"),
        ({"begin": 5}, "note 3, annotation 1: the span goes from 5 to 5"),
        ({"begin": -1}, "note 3, annotation 1: the span goes from -1 to 5"),
        ({"begin": "2"}, "note 3, annotation 1: begin is not a whole number"),
        ({"begin": True}, "note 3, annotation 1: begin is not a whole number"),
        ({"code": " "}, "note 3, annotation 1: the code is empty"),
        ({"code": 401}, "note 3, annotation 1: code is not a string"),
    ],
)
def test_bad_annotations(tmp_path: Path, fields: dict[str, Any], said: str) -> None:
    assert said in refused(chart_file(tmp_path, **fields))


def test_an_offset_past_the_end_of_a_text_that_is_there(tmp_path: Path) -> None:
    path = chart_file(tmp_path, lambda chart: chart["notes"][0].update(text="abcd"))
    message = refused(path)
    assert "note 3, annotation 1: the span goes from 2 to 5, but the note has 4 characters" in message
    assert "abcd" not in message


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda chart: chart.pop("hadm_id"), "the chart: hadm_id is missing"),
        (lambda chart: chart.update(notes={}), "the chart: notes is not a list"),
        (lambda chart: chart["notes"].append(5), "note number 2 is not a JSON object"),
        (lambda chart: chart["notes"].append(chart["notes"][0]), "note 3 occurs twice"),
        (lambda chart: chart["notes"][0].pop("annotations"), "note 3: annotations is missing"),
        (lambda chart: chart["notes"][0].update(annotations=["x"]), "note 3, annotation 1: not a JSON object"),
    ],
)
def test_bad_charts(tmp_path: Path, change: Any, said: str) -> None:
    assert said in refused(chart_file(tmp_path, change))


def test_files_that_are_no_charts(tmp_path: Path) -> None:
    path = tmp_path / "7.json"
    path.write_text('{"hadm_id": 7,\n "notes": [secret]}')
    message = refused(path)
    assert "row 2: the file is not JSON" in message
    assert "secret" not in message
    path.write_text("[]")
    assert "the file is not a JSON object with hadm_id and notes" in refused(path)
    path.write_bytes(b"\xff\xfe")
    assert "not UTF-8" in refused(path)


def test_folders_that_have_none(tmp_path: Path) -> None:
    with pytest.raises(CohortError, match="folder not found"):
        mdace.read(tmp_path / "nowhere")
    with pytest.raises(CohortError, match="the folder has no charts for Profee ICD-9"):
        mdace.read(tmp_path, setting="Profee", system="ICD-9")
    with pytest.raises(CohortError, match="unknown setting 'Outpatient'; use one of Inpatient, Profee"):
        mdace.read(tmp_path, setting="Outpatient")
    for folder in ("1.0", "1.1"):
        (tmp_path / folder).mkdir()
        chart_file(tmp_path / folder)
    with pytest.raises(CohortError, match="admission 7 is also in"):
        list(mdace.read(tmp_path))


def test_bad_splits(tmp_path: Path) -> None:
    place = tmp_path / "splits" / "Profee"
    place.mkdir(parents=True)
    with pytest.raises(CohortError, match="list of charts not found"):
        mdace.read_splits(tmp_path, "Profee")
    for name, lines in (("train", "1\n2\n"), ("val", "3\n"), ("test", "4\nx\n")):
        (place / f"MDace-ev-{name}.csv").write_text(lines)
    with pytest.raises(CohortError, match="row 2: the line is 'x', which is not a whole number"):
        mdace.read_splits(tmp_path, "Profee")
    (place / "MDace-ev-test.csv").write_text("2\n")
    with pytest.raises(CohortError, match="row 1: admission 2 is also in the train split"):
        mdace.read_splits(tmp_path, "Profee")
