"""Every public sample becomes a cohort by the plainest command; what was assumed is said; counts are plain Python's."""

from __future__ import annotations

import base64
from collections import Counter
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pydicom
import pytest

from tests.data.published import SHARED
from tests.data.standards.test_samples import needs, resources, rows_of
from tests.e2e.command_line import CommandLine

FHIR, OMOP, MEDS, DICOM = (SHARED / name for name in ("fhir", "omop", "meds", "dicom"))
NOTES = ("DocumentReference", "DiagnosticReport")


@pytest.fixture
def palpate(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return CommandLine(capsys, monkeypatch)


class Made:
    """What `palpate cohort KIND --source SAMPLE --out FILE` wrote and said."""

    def __init__(self, palpate: CommandLine, kind: str, source: Path, folder: Path) -> None:
        out = folder / "cohort.parquet"
        done = palpate("cohort", kind, "--source", source, "--out", out)
        assert done.code == 0, done.err
        self.cases = pl.read_parquet(out)
        self.said = " ".join(line for line in done.err.splitlines() if line.startswith("assumed"))
        self.flow = " ".join(pl.read_csv(folder / "cohort.parquet.flow.csv")["name"])

    @property
    def labels(self) -> list[str]:
        return [name for name in self.cases.columns if name.startswith("label:")]

    def assumes(self, option: str) -> bool:
        """Said both on stderr and in the flow table."""
        return option in self.said and option in self.flow


def of_type(every: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [one for one in every if one.get("resourceType") in kinds]


def visit_of(one: dict[str, Any]) -> str:
    return str(one["context"]["encounter"][0]["reference"]).removeprefix("Encounter/")


@needs(FHIR)
def test_fhir_without_an_inpatient_encounter(palpate: CommandLine, tmp_path: Path) -> None:
    """50 ambulatory encounters: all are taken, and those that can be followed are cases."""
    made = Made(palpate, "fhir", FHIR / "cumulus_library_50pt", tmp_path)
    every = list(resources(FHIR / "cumulus_library_50pt"))
    visits = of_type(every, "Encounter")
    last = max(datetime.fromisoformat(one["period"]["start"]) for one in visits)
    followed = {one["id"] for one in visits if datetime.fromisoformat(one["period"]["end"]) <= last - timedelta(30)}
    noted = {visit_of(one) for one in of_type(every, NOTES[0]) if one["status"] != "entered-in-error"}
    assert set(made.cases["case_id"]) == followed & noted
    assert len(followed & noted) == 24
    assert made.assumes("visits=all")
    assert made.labels == ["label:readmission"]


@needs(FHIR)
def test_fhir_whose_outcome_nobody_can_know(palpate: CommandLine, tmp_path: Path) -> None:
    """Two stays, none of them followed for 30 days, and notes of years later: cases without labels or text."""
    made = Made(palpate, "fhir", FHIR / "cumulus_etl_simple", tmp_path)
    assert set(made.cases["case_id"]) == {
        one["id"] for one in of_type(list(resources(FHIR / "cumulus_etl_simple")), "Encounter")
    }
    assert made.labels == []
    assert "text" not in made.cases.columns
    assert made.assumes("outcome=none")
    assert made.assumes("text=leave")


@needs(FHIR)
def test_fhir_with_notes_alone(palpate: CommandLine, tmp_path: Path) -> None:
    made = Made(palpate, "fhir", FHIR / "cumulus_etl_example", tmp_path)
    said = {}
    for one in of_type(list(resources(FHIR / "cumulus_etl_example")), *NOTES):
        parts = one.get("presentedForm") or [each["attachment"] for each in one["content"]]
        said[one["id"]] = base64.b64decode(parts[0]["data"]).decode()
    assert dict(made.cases.select("case_id", "text").iter_rows()) == said
    assert made.assumes("cases=notes")
    assert made.assumes("outcome=none")


@needs(FHIR)
def test_fhir_with_inpatient_encounters(palpate: CommandLine, tmp_path: Path) -> None:
    """Nothing is assumed where nothing need be."""
    made = Made(palpate, "fhir", FHIR / "sample_bulk_13pt_gz", tmp_path)
    visits = of_type(list(resources(FHIR / "sample_bulk_13pt_gz")), "Encounter")
    inpatient = [one for one in visits if one["class"]["code"] in ("IMP", "ACUTE", "NONAC")]
    assert set(made.cases["case_id"]) == {one["id"] for one in inpatient}
    returned = 0
    for one in inpatient:
        end = datetime.fromisoformat(one["period"]["end"])
        starts = [datetime.fromisoformat(it["period"]["start"]) for it in inpatient if it["subject"] == one["subject"]]
        returned += any(end <= start <= end + timedelta(30) for start in starts)
    assert made.cases["label:readmission"].sum() == returned == 12
    assert made.said == ""


@needs(OMOP)
def test_omop_with_notes_alone(palpate: CommandLine, tmp_path: Path) -> None:
    made = Made(palpate, "omop", OMOP / "note_medtext", tmp_path)
    rows = rows_of(OMOP / "note_medtext" / "note_ex2.csv")
    assert dict(made.cases.select("case_id", "text").iter_rows()) == {row["note_id"]: row["note_text"] for row in rows}
    assert made.assumes("cases=notes")
    assert made.assumes("outcome=none")


@needs(OMOP)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_omop_without_a_note(form: str, palpate: CommandLine, tmp_path: Path) -> None:
    made = Made(palpate, "omop", OMOP / f"synthea27nj_5.4_{form}", tmp_path)
    folder = OMOP / "synthea27nj_5.4_csv"
    stays = [row for row in rows_of(folder / "VISIT_OCCURRENCE.csv") if row["visit_concept_id"] in ("9201", "262")]
    assert set(made.cases["case_id"]) == {row["visit_occurrence_id"] for row in stays}
    returned = 0
    for row in stays:
        end = date.fromisoformat(row["visit_end_date"])
        starts = [date.fromisoformat(it["visit_start_date"]) for it in stays if it["person_id"] == row["person_id"]]
        returned += any(end < start <= end + timedelta(30) for start in starts)
    assert made.cases["label:readmission"].sum() == returned == 1
    assert "text" not in made.cases.columns
    assert made.assumes("text=leave")


@needs(MEDS)
def test_meds_without_labels(palpate: CommandLine, tmp_path: Path) -> None:
    """A case per subject, at the subject's last event."""
    made = Made(palpate, "meds", MEDS / "aces_sample", tmp_path)
    last: dict[int, datetime] = {}
    for file in MEDS.glob("aces_sample/*/*.parquet"):
        for who, time in pl.read_parquet(file).select("subject_id", "time").drop_nulls().iter_rows():
            last[who] = max(time, last.get(who, time))
    assert {int(who): time for who, time in made.cases.select("patient_id", "time").iter_rows()} == last
    assert made.labels == []
    assert made.assumes("no labels")


@needs(DICOM)
def test_films_without_labels(palpate: CommandLine, tmp_path: Path) -> None:
    """Every radiograph is in a study; the MR picture is left out."""
    made = Made(palpate, "dicom", DICOM, tmp_path)
    films = [pydicom.dcmread(file, stop_before_pixels=True) for file in DICOM.glob("*.dcm")]
    studies = Counter(str(film.StudyInstanceUID) for film in films if film.Modality in ("CR", "DX"))
    assert dict(made.cases.select("case_id", "attribute:n_films").iter_rows()) == studies
    assert made.labels == []
    assert made.assumes("no labels")


@needs(FHIR)
def test_what_was_asked_for_is_not_replaced(palpate: CommandLine, tmp_path: Path) -> None:
    """An option that the user set stays, and the error names it."""
    for kind, sample, option in (
        ("fhir", FHIR / "cumulus_library_50pt", "visits=inpatient"),
        ("fhir", FHIR / "cumulus_etl_example", "cases=visits"),
        ("fhir", FHIR / "cumulus_etl_simple", "outcome=readmission"),
        ("omop", OMOP / "note_medtext", "cases=visits"),
        ("meds", MEDS / "aces_sample", "task=death"),
    ):
        done = palpate("cohort", kind, "--source", sample, "--out", tmp_path / "c.parquet", "--set", option)
        assert done.code == 2, (option, done.err)
        assert not list(tmp_path.iterdir())
