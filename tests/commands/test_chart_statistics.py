"""Statistics of MDACE with parts of MIMIC-III: what is counted, and what is said to be missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from palpate.commands.chart_statistics import describe_charts
from palpate.errors import CohortError

NOTE = "Chest pain and known diabetes"


def chart(folder: Path, setting: str, codes: list[tuple[str, str, int, int]]) -> None:
    spans = [{"begin": b, "end": e, "code": c, "code_system": s, "type": "Human"} for c, s, b, e in codes]
    place = folder / setting / "ICD-9" / "1.0"
    place.mkdir(parents=True)
    content = {"hadm_id": 7, "notes": [{"note_id": 1, "category": "ECG", "annotations": spans}]}
    (place / "7-ICD-9.json").write_text(json.dumps(content))


@pytest.fixture
def mdace(tmp_path: Path) -> Path:
    chart(tmp_path / "mdace", "Inpatient", [("786.50", "ICD-9-CM", 0, 10), ("37.22", "ICD-9-PCS", 0, 5)])
    chart(tmp_path / "mdace", "Profee", [("786.50", "ICD-9-CM", 0, 10), ("93010", "CPT", 0, 5)])
    return tmp_path / "mdace"


def write(folder: Path, **tables: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in tables.items():
        (folder / f"{name}.csv").write_text(content)
    return folder


NOTES = f"ROW_ID,SUBJECT_ID,HADM_ID,CATEGORY,TEXT\n1,3,7,ECG,{NOTE}\n"
DIAGNOSES = "HADM_ID,ICD9_CODE\n7,78650\n7,25000\n"
PROCEDURES = "HADM_ID,ICD9_CODE\n7,3722\n"
CPT = "HADM_ID,CPT_CD\n7,93010\n7,93010\n7,99233\n7,99499\n7,94003\n"


def numbers(found: object, table: str, setting: str) -> dict[str, float]:
    return {
        row["name"]: row["n"]
        for row in found.rows.iter_rows(named=True)  # type: ignore[attr-defined]
        if (row["table"], row["setting"]) == (table, setting)
    }


def test_notes_alone_give_the_length_of_spans(mdace: Path, tmp_path: Path) -> None:
    found = describe_charts(mdace, mimic=write(tmp_path / "mimic", NOTEEVENTS=NOTES))
    assert numbers(found, "3", "Inpatient")["words of evidence, mean"] == 1.5
    assert numbers(found, "5", "Inpatient") == {}
    mimic = tmp_path / "mimic"
    assert found.missing == (
        f"Table 5 (Inpatient) needs DIAGNOSES_ICD and PROCEDURES_ICD in {mimic}.",
        f"Table 5 (Profee) needs DIAGNOSES_ICD and CPTEVENTS in {mimic}.",
    )


def test_professional_fees_are_billed_by_diagnoses_and_cpt_without_evaluation(mdace: Path, tmp_path: Path) -> None:
    tables = {"DIAGNOSES_ICD": DIAGNOSES, "PROCEDURES_ICD": PROCEDURES, "CPTEVENTS": CPT}
    found = describe_charts(mdace, mimic=write(tmp_path / "mimic", **tables))
    assert found.missing == (f"The length of spans needs NOTEEVENTS in {tmp_path / 'mimic'}.",)
    # Billed 786.50, 250.00, 37.22; annotated 786.50, 37.22.
    assert list(numbers(found, "5", "Inpatient").values()) == [3, 2, 2, 1, 0]
    # Billed 786.50, 250.00, 93010, 94003 (99233 and 99499 are evaluation and management); annotated 786.50, 93010.
    assert list(numbers(found, "5", "Profee").values()) == [4, 2, 2, 2, 0]
    assert "words of evidence, mean" not in numbers(found, "3", "Profee")


def test_without_the_profee_tables_the_other_side_is_counted(mdace: Path, tmp_path: Path) -> None:
    mimic = write(tmp_path / "mimic", NOTEEVENTS=NOTES, DIAGNOSES_ICD=DIAGNOSES, PROCEDURES_ICD=PROCEDURES)
    found = describe_charts(mdace, mimic=mimic)
    assert numbers(found, "5", "Inpatient")
    assert not numbers(found, "5", "Profee")
    assert found.missing == (f"Table 5 (Profee) needs CPTEVENTS in {mimic}.",)


def test_folders_of_no_use(mdace: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(CohortError, match="none of the tables that statistics need; give NOTEEVENTS"):
        describe_charts(mdace, mimic=tmp_path / "empty")
    with pytest.raises(CohortError, match="folder not found"):
        describe_charts(mdace, mimic=tmp_path / "nowhere")
