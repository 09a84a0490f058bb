"""Public samples that nobody here wrote become cohorts as they are; every count is made again in plain Python."""

from __future__ import annotations

import base64
import csv
import gzip
import json
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from palpate.data.cohorts.fhir import FhirOptions, build_fhir
from palpate.data.cohorts.meds import MedsOptions, build_meds
from palpate.data.cohorts.omop import OmopOptions, build_omop
from palpate.models.adapters.predictions import load
from tests.data.published import SHARED
from tests.data.standards.test_omop import labels, texts

OMOP, FHIR, MEDS = SHARED / "omop", SHARED / "fhir", SHARED / "meds"


def needs(folder: Path) -> Any:
    return pytest.mark.skipif(not folder.is_dir(), reason=f"the sample {folder.name} is not beside the project")


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8-sig", newline="") as lines:
        return list(csv.DictReader(lines))


def resources(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.iterdir()):
        raw = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        yield from (json.loads(line) for line in raw.splitlines() if line.strip())


@needs(OMOP)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_omop_visits(form: str) -> None:
    """1,791 visits of 28 persons; dates without times; a death on the day of the end drops the visit."""
    folder = OMOP / "synthea27nj_5.4_csv"
    visits = rows_of(folder / "VISIT_OCCURRENCE.csv")
    deaths = {row["person_id"]: date.fromisoformat(row["death_date"]) for row in rows_of(folder / "DEATH.csv")}
    ends = {row["person_id"]: row["observation_period_end_date"] for row in rows_of(folder / "OBSERVATION_PERIOD.csv")}
    expected = {}
    for row in visits:
        end = date.fromisoformat(row["visit_end_date"])
        died = deaths.get(row["person_id"], date.max)
        followed = end + timedelta(365) <= date.fromisoformat(ends[row["person_id"]])
        in_data = end + timedelta(365) <= date.fromisoformat(max(ends.values()))
        if died > end and (followed or (in_data and died <= end + timedelta(365))):
            expected[row["visit_occurrence_id"]] = int(died <= end + timedelta(365))
    built = build_omop(OMOP / f"synthea27nj_5.4_{form}", options=OmopOptions(visits="all", outcome="death", days=365))
    assert built.flow[0].n_cases == len(visits) == 1791
    assert built.flow[0].n_patients == 28
    assert labels(built) == expected
    assert not built.cohort.has_text
    people = {row["person_id"]: row for row in rows_of(folder / "PERSON.csv")}
    for who, gender, race in built.cohort.cases.select("patient_id", "gender", "race").unique().rows():
        assert gender == people[who]["gender_source_value"]
        assert race == people[who]["race_source_value"]


@needs(OMOP)
def test_omop_conditions() -> None:
    folder = OMOP / "synthea27nj_5.4_csv"
    conditions = rows_of(folder / "CONDITION_OCCURRENCE.csv")
    sinusitis = [row for row in conditions if row["condition_concept_id"] == "40481087"]
    ask = {"visits": "all", "outcome": "condition", "conditions": "40481087", "observation": "ignore", "days": 90}
    built = build_omop(folder, options=OmopOptions.model_validate({**ask, "prevalent": "keep", "deaths": "keep"}))
    expected = 0
    for row in rows_of(folder / "VISIT_OCCURRENCE.csv"):
        end = date.fromisoformat(row["visit_end_date"])
        expected += any(
            one["person_id"] == row["person_id"]
            and end < date.fromisoformat(one["condition_start_date"]) <= end + timedelta(90)
            for one in sinusitis
        )
    assert len(built.cohort) == 1791
    assert int(built.cohort.y.sum()) == expected > 0


@needs(OMOP)
def test_a_note_table_alone_with_dates_of_excel(tmp_path: Path) -> None:
    file = OMOP / "note_medtext" / "note_ex2.csv"
    rows = rows_of(file)
    table = tmp_path / "labels.csv"
    table.write_text("note_id,normal\n" + "".join(f"{r['note_id']},{int('ormal' in r['note_text'])}\n" for r in rows))
    built = build_omop(file, options=OmopOptions(cases="notes", outcome="file", labels=table))
    assert texts(built) == {row["note_id"]: row["note_text"] for row in rows}
    assert built.cohort.cases["time"].to_list() == [datetime(2039, 7, day) for day in range(1, 9)]
    whole = build_omop(file.parent, options=OmopOptions(cases="notes", outcome="file", labels=table))
    assert texts(whole) == texts(built), "the folder as it is"
    some = build_omop(file, options=OmopOptions(cases="notes", outcome="file", labels=table, titles="ct*"))  # type: ignore[arg-type]
    assert len(some.cohort) == sum(row["note_source_value"].startswith("CT") for row in rows) == 1


@needs(FHIR)
def test_fhir_with_superseded_documents() -> None:
    """1,215 documents, 1,202 of them superseded; all are notes, and each is the text of its encounter."""
    folder = FHIR / "sample_bulk_13pt_gz"
    every = list(resources(folder))
    documents = [one for one in every if one.get("resourceType") == "DocumentReference"]
    visits = {one["id"]: one for one in every if one.get("resourceType") == "Encounter"}
    built = build_fhir(folder, options=FhirOptions(visits="all", observation="ignore", deaths="keep"))
    said: dict[str, set[str]] = {}
    for one in documents:
        visit = one["context"]["encounter"][0]["reference"].removeprefix("Encounter/")
        if datetime.fromisoformat(one["date"]) <= datetime.fromisoformat(visits[visit]["period"]["end"]):
            said.setdefault(visit, set()).add(base64.b64decode(one["content"][0]["attachment"]["data"]).decode())
    assert texts(built) == {visit: next(iter(notes)) for visit, notes in said.items() if len(notes) == 1}
    assert len(built.cohort) > 1190
    assert built.cohort.n_patients == sum(one.get("resourceType") == "Patient" for one in every) == 13
    starts: dict[str, list[datetime]] = {}
    for one in visits.values():
        starts.setdefault(one["subject"]["reference"], []).append(datetime.fromisoformat(one["period"]["start"]))
    for case, label in labels(built).items():
        end = datetime.fromisoformat(visits[case]["period"]["end"])
        soon = [s for s in starts[visits[case]["subject"]["reference"]] if end <= s <= end + timedelta(days=30)]
        assert label == (len(soon) > 0)


@needs(FHIR)
def test_fhir_with_arbitrary_names() -> None:
    folder = FHIR / "cumulus_library_50pt"
    every = list(resources(folder))
    built = build_fhir(
        folder, options=FhirOptions(visits="all", observation="ignore", deaths="keep", grace_hours=24 * 9999)
    )
    with_note = {
        one["context"]["encounter"][0]["reference"].removeprefix("Encounter/")
        for one in every
        if one["resourceType"] == "DocumentReference" and one["status"] != "entered-in-error"
    }
    known = {one["id"] for one in every if one["resourceType"] == "Encounter"}
    assert set(texts(built)) == with_note & known
    genders = {one["id"]: one["gender"] for one in every if one["resourceType"] == "Patient"}
    assert len(genders) == 50
    assert all(
        genders[who][0].upper() == sex for who, sex in built.cohort.cases.select("patient_id", "gender").iter_rows()
    )


@needs(FHIR)
@pytest.mark.parametrize(("name", "n"), [("cumulus_etl_example", 8), ("cumulus_etl_simple", 4)])
def test_fhir_notes_without_encounters(name: str, n: int, tmp_path: Path) -> None:
    """Documents and reports alone; the labels come from a file."""
    said: dict[str, str] = {}
    for one in resources(FHIR / name):
        if one.get("resourceType") in ("DocumentReference", "DiagnosticReport"):
            parts = one.get("presentedForm") or [each["attachment"] for each in one.get("content", ())]
            data = [part["data"] for part in parts if part.get("contentType", "").startswith("text/plain")]
            said |= {one["id"]: base64.b64decode(data[0]).decode()} if data else {}
    assert len(said) == n
    table = tmp_path / "labels.csv"
    table.write_text("note_id,fever\n" + "".join(f"{key},{int('fever' in text)}\n" for key, text in said.items()))
    built = build_fhir(FHIR / name, options=FhirOptions(cases="notes", outcome="file", labels=table, people="any"))
    assert texts(built) == said


@needs(MEDS)
def test_meds_as_it_is() -> None:
    """A whole tree: 21 labels of 6 subjects, names that end in .parquet.parquet."""
    folder = MEDS / "simple_static_with_tasks"
    rows = [
        row for file in folder.glob("task_labels/*/*.parquet") for row in pl.read_parquet(file).iter_rows(named=True)
    ]
    built = build_meds(folder, options=MedsOptions(attributes=("EYE_COLOR", "HEIGHT")))
    assert labels(built) == {
        f"{r['subject_id']}/{r['prediction_time'].isoformat()}": int(r["boolean_value"]) for r in rows
    }
    split = dict(pl.read_parquet(folder / "metadata" / "subject_splits.parquet").iter_rows())
    names = {"train": "train", "tuning": "validation", "held_out": "test"}
    for who, own in built.cohort.cases.select("patient_id", "split").iter_rows():
        assert own == names[split[int(who)]]
    shards = [pl.read_parquet(file) for file in folder.glob("data/*/*.parquet")]
    eyes = {row[0]: row[2].removeprefix("EYE_COLOR//") for one in shards for row in one.iter_rows() if "EYE" in row[2]}
    births = {row[0]: row[1] for one in shards for row in one.iter_rows() if row[2] == "MEDS_BIRTH"}
    for who, eye, age, time in built.cohort.cases.select("patient_id", "eye_color", "age", "time").iter_rows():
        born = births[int(who)]
        assert eye == eyes[int(who)]
        assert age == time.year - born.year - ((time.month, time.day) < (born.month, born.day))


@needs(MEDS)
def test_meds_shards_with_labels_of_a_task(tmp_path: Path) -> None:
    """ACES's sample: shards without metadata; the labels of its task, made here: alive 24 h after admission."""
    folder = MEDS / "aces_sample"
    rows = []
    for file in sorted(folder.glob("*/*.parquet")):
        events = pl.read_parquet(file).drop_nulls("time")
        for who, time in (
            events.filter(pl.col("code").str.starts_with("ADMISSION//")).select("subject_id", "time").rows()
        ):
            later = events.filter((pl.col("subject_id") == who) & (pl.col("time") > time + timedelta(hours=48)))
            end = later.filter(pl.col("code").str.contains("^DISCHARGE|^DEATH")).sort("time")["code"]
            if len(end):
                rows.append((who, time + timedelta(hours=24), end[0] == "DEATH"))
    assert len(rows) > 50
    unique = pl.DataFrame(rows, schema=["subject_id", "prediction_time", "boolean_value"], orient="row").unique(
        ["subject_id", "prediction_time"], maintain_order=True
    )
    unique.write_parquet(tmp_path / "inhospital_mortality.parquet")
    built = build_meds(folder, options=MedsOptions(labels=tmp_path / "inhospital_mortality.parquet"))
    assert built.cohort.labels == ("inhospital_mortality",)
    assert len(built.cohort) == unique.height
    assert int(built.cohort.y.sum()) == int(unique["boolean_value"].sum())
    assert set(built.cohort.cases["split"]) == {"train", "validation", "test"}
    assert set(built.cohort.cases["gender"]) == {"M", "F"}


@needs(MEDS)
def test_predictions_of_meds_evaluation() -> None:
    model = load("small.parquet", {}, folder=MEDS / "meds_evaluation")
    assert model.labels == ("predicted_boolean_probability",)
