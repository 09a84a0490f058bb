"""The outcomes cohort: admission notes, death in hospital, diagnosis groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from palpate.data.cohorts import BuiltCohort, write_built_cohort
from palpate.data.cohorts.outcomes import OutcomesOptions, build_outcomes
from palpate.data.tables import TableSpec, read_cohort
from palpate.errors import CohortError
from tests.data.mimic_files import Stay, hospital, note, write

STAYS = [
    Stay(1, 0, 5, 1),
    Stay(1, 50, 55, 2, died=True),
    Stay(2, 0, 5, 3),
    Stay(3, 0, 5, 4, "NEWBORN"),
    Stay(4, 0, 5, 5),
    Stay(5, 0, 5, 6),
]
CODES = {1: "4280 42832 V4581 E8490", 2: "0389 V45.01", 3: "389 E849.7", 4: "V3000", 6: "25000"}


def summary(stay: Stay) -> str:
    return f"HPI:\nstory of {stay.id}\n\nHospital Course:\nsecret of {stay.id}\n"


def build(folder: Path, **options: object) -> BuiltCohort:
    notes = [note(stay.id, stay, summary(stay)) for stay in STAYS[:-1]]
    notes.append(note(6, STAYS[-1], "Hospital Course: secret"))
    tables = hospital(STAYS, notes, CODES)
    return build_outcomes(write(folder, tables), options=OutcomesOptions.model_validate(options))


def groups(built: BuiltCohort) -> dict[str, set[str]]:
    dense = built.cohort.y.toarray()
    names = built.cohort.labels
    return {
        case: {name for name, flag in zip(names, row, strict=True) if flag}
        for case, row in zip(built.cohort.cases["case_id"], dense, strict=True)
    }


def test_both_tasks(tmp_path: Path) -> None:
    built = build(tmp_path)
    assert groups(built) == {
        "1": {"428", "V45", "E849"},
        "2": {"mortality", "038", "V45"},
        "3": {"389", "E849"},
    }
    assert built.cohort.labels == ("mortality", "038", "389", "428", "E849", "V45")
    assert built.cohort.texts == [f"PRESENT ILLNESS: story of {k}" for k in (1, 2, 3)]
    assert built.cohort.cases["time"].to_list() == [stay.admitted for stay in STAYS[:3]]
    dropped = {step.reason: step.n_dropped for step in built.flow if step.n_dropped}
    assert dropped == {
        "newborn": 1,
        "no ICD-9 code in DIAGNOSES_ICD": 1,
        "no chief complaint, present illness or medical history was found": 1,
    }


def test_mortality_needs_no_diagnoses(tmp_path: Path) -> None:
    folder = write(tmp_path, hospital(STAYS, [note(stay.id, stay, summary(stay)) for stay in STAYS]))
    (folder / "DIAGNOSES_ICD.csv").unlink()
    built = build_outcomes(folder, options=OutcomesOptions(task="mortality", newborns="keep"))
    assert groups(built) == {str(stay.id): {"mortality"} if stay.died else set() for stay in STAYS}
    with pytest.raises(CohortError, match="the table DIAGNOSES_ICD is missing"):
        build_outcomes(folder)


def test_diagnoses_alone_and_rare_groups(tmp_path: Path) -> None:
    built = build(tmp_path, task="diagnoses", min_count=2)
    assert built.cohort.labels == ("E849", "V45")
    assert "3 diagnosis groups with fewer than 2 cases are left out" in built.cohort.facts
    with pytest.raises(CohortError, match="no diagnosis group has 9 cases"):
        build(tmp_path, min_count=9)


def test_formats_give_the_same_cohort_and_it_can_be_read_back(tmp_path: Path) -> None:
    notes = [note(stay.id, stay, summary(stay)) for stay in STAYS]
    codes = {stay.id: " ".join(f"{k:03}1" for k in range(stay.id, 250, stay.id)) for stay in STAYS}
    tables = hospital(STAYS, notes, codes)
    made = [
        build_outcomes(write(tmp_path / suffix, tables, suffix=suffix)) for suffix in (".csv", ".csv.gz", ".parquet")
    ]
    assert len({built.cohort.fingerprint for built in made}) == 1
    write_built_cohort(made[0], tmp_path / "outcomes.parquet")
    again = read_cohort(TableSpec(file=tmp_path / "outcomes.parquet"), name="outcomes")
    assert again.labels == made[0].cohort.labels
    assert again.fingerprint == made[0].cohort.fingerprint


def test_the_first_summary_and_no_addendum_is_cut(tmp_path: Path) -> None:
    stay = STAYS[0]
    notes = [
        note(1, stay, "HPI: what the addendum knows", DESCRIPTION="Addendum", CHARTDATE="2150-01-01"),
        note(2, stay, "HPI: after the first part of the stay", CHARTDATE="2150-01-09"),
        note(3, stay, "HPI: at the door", CHARTDATE="2150-01-05"),
    ]
    folder = write(tmp_path, hospital([stay], notes, {1: "4280"}))
    assert build_outcomes(folder).cohort.texts == ["PRESENT ILLNESS: at the door"]
    last = build_outcomes(folder, options=OutcomesOptions(summaries="last"))
    assert last.cohort.texts == ["PRESENT ILLNESS: after the first part of the stay"]


def test_no_note_has_an_admission_section(tmp_path: Path) -> None:
    folder = write(tmp_path, hospital(STAYS, [note(1, STAYS[0], "Hospital Course: long")], CODES))
    with pytest.raises(CohortError, match="no cases are left after the step 'admission notes'"):
        build_outcomes(folder)


def test_the_papers_ratios(tmp_path: Path) -> None:
    stays = [Stay(p, 0, 5, p, died=p % 10 == 0) for p in range(1, 101)]
    notes = [note(stay.id, stay, summary(stay)) for stay in stays]
    built = build_outcomes(write(tmp_path, hospital(stays, notes, dict.fromkeys(range(1, 101), "4280"))))
    counts = dict(built.cohort.cases["split"].value_counts().iter_rows())
    assert counts == {"train": 70, "validation": 10, "test": 20}
    assert built.cohort.y_true(built.cohort.rows(split="test"), ["mortality"]).sum() == 2
