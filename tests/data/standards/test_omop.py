"""OMOP: cases, outcomes and notes by rules written out slowly; no leakage; sources as people have them."""

from __future__ import annotations

import csv
import gzip
import shutil
from datetime import date, datetime, timedelta
from pathlib import Path

import duckdb
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palpate.data.cohorts import BuiltCohort
from palpate.data.cohorts.omop import OmopOptions, build_omop
from palpate.data.hospitals.records import NOTE_MARK
from palpate.testing.reader_contract import check_reader_contract
from tests.data.standards.omop_files import (
    ASIAN,
    Row,
    Tables,
    dated,
    hospital,
    note,
    period,
    person,
    visit,
    when,
    write,
)

LAST = {"PERSON": [person(99)], "VISIT_OCCURRENCE": [visit(99, 99, 4000, 4001)], "NOTE": [note(99, 99, 4000.5, 99)]}


def build(folder: Path, **options: object) -> BuiltCohort:
    return build_omop(folder, options=OmopOptions.model_validate(options))


def texts(built: BuiltCohort) -> dict[str, str]:
    return dict(built.cohort.cases.select("case_id", "text").iter_rows())


def labels(built: BuiltCohort) -> dict[str, int]:
    return dict(zip(built.cohort.cases["case_id"], built.cohort.y.toarray()[:, 0].tolist(), strict=True))


def test_a_small_hospital(tmp_path: Path) -> None:
    built = build(write(tmp_path, hospital()))
    assert labels(built) == {"1": 1, "2": 0, "3": 0}  # visit 9 is in the last month, visit 4 is no inpatient visit
    assert texts(built) == {"1": f"Note 11.{NOTE_MARK}Note 12.", "2": "Note 21.", "3": "Note 31."}
    cases = built.cohort.cases
    assert cases["time"].to_list() == [when(5), when(20), when(5)]
    assert cases["gender"].to_list() == ["F", "F", "M"]
    assert cases["race"].to_list() == ["White", "White", "asian"]  # no concept: what the source says
    assert cases["age"].to_list() == [79, 79, 79]  # born in the middle of 1950
    assert built.tables["notes"].filter(pl.col("note_id") == "12").row(0) == (
        *("1", "12", ""), 8 + len(NOTE_MARK), 16 + len(NOTE_MARK)
    )  # fmt: skip


def test_race_in_the_words_of_the_source_or_of_the_concept(tmp_path: Path) -> None:
    tables = hospital()
    said = [{"race_source_value": "WHITE - RUSSIAN"}, {**ASIAN, "gender_concept_id": 8521}, {"race_source_value": "5"}]
    tables["PERSON"] = [person(who, **more) for who, more in zip((1, 2, 9), said, strict=True)]
    tables["PERSON"][0]["gender_concept_id"], tables["PERSON"][0]["gender_source_value"] = 0, "Female"
    folder = write(tmp_path, tables)
    cases = build(folder, observation="ignore").cohort.cases.unique("patient_id", maintain_order=True)
    assert cases["race"].to_list() == ["WHITE - RUSSIAN", "asian", "White"]  # 5 is a code, not words
    assert cases["gender"].to_list() == ["F", "other", "F"]
    cases = build(folder, observation="ignore", race="concept").cohort.cases.unique("patient_id", maintain_order=True)
    assert cases["race"].to_list() == ["White", "asian", "White"]


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_other_delimiters_and_a_byte_order_mark(mark: str, tmp_path: Path) -> None:
    expected = build(write(tmp_path / "commas", hospital())).cohort.fingerprint
    for file in write(tmp_path / "other", hospital()).iterdir():
        with file.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.reader(lines))
        with file.open("w", encoding="utf-8-sig", newline="") as out:
            if file.stem == "NOTE" and mark == ";":
                out.write("sep=;\r\n")
            csv.writer(out, delimiter=mark).writerows(rows)
    assert build(tmp_path / "other").cohort.fingerprint == expected


def test_offsets_from_utc(tmp_path: Path) -> None:
    """Compared in UTC, whatever the clocks show; `time` is what the clock of the index showed."""
    tables = hospital()
    for rows in tables.values():
        for row in rows:
            row |= {name: f"{at.isoformat()}Z" for name, at in row.items() if isinstance(at, datetime)}
    plain = build(write(tmp_path / "plain", hospital())).cohort.fingerprint
    assert build(write(tmp_path / "utc", tables)).cohort.fingerprint == plain
    tables["NOTE"][0]["note_date"] = tables["NOTE"][1]["note_date"] = date(2030, 1, 6)
    tables["NOTE"][0]["note_datetime"] = "2030-01-06T10:00:00-05:00"  # three hours after the end of visit 1, in UTC
    tables["NOTE"][1]["note_datetime"] = "2030-01-06 13:00:00 +0530"  # before it
    built = build(write(tmp_path / "mixed", tables))
    assert texts(built)["1"] == "Note 12."
    assert built.cohort.cases["time"][0] == when(5)
    assert "times have offsets from UTC and are compared in UTC" in built.cohort.facts


def test_times_that_stray_from_their_dates(tmp_path: Path) -> None:
    tables = hospital()
    tables["NOTE"].append(note(13, 1, 50, 1, note_datetime="1970-01-01 00:00:00"))
    built = build(write(tmp_path / "stray", tables))
    assert "Note 13." not in texts(built)["1"]
    assert "1 times were of another day than their dates; the dates are used" in built.cohort.facts
    # In UTC the visit ended on the 7th, but at the hospital on the 6th: a note of the 7th is later.
    tables = {"PERSON": [person(1), person(99)], "VISIT_OCCURRENCE": [visit(1, 1, 0, 5), visit(99, 99, 4000, 4001)]}
    tables["NOTE"] = [note(11, 1, 1, 1, timed=False), note(12, 1, 6, 1, timed=False)]
    for row in tables["VISIT_OCCURRENCE"]:
        row |= {name: f"{at.isoformat()}Z" for name, at in row.items() if isinstance(at, datetime)}
    tables["VISIT_OCCURRENCE"][0]["visit_end_datetime"] = "2030-01-07T03:00:00Z"
    assert texts(build(write(tmp_path / "zoned", tables)))["1"] == "Note 11."


@pytest.mark.parametrize(
    ("timed", "day", "at_time", "kept"),
    [
        (True, 7, "2030-01-06 11:00:00", True),  # the visit ends on the 6th at noon: times are compared with times
        (True, 5, "2030-01-06 13:00:00", False),
        (False, 6, "2030-01-07 03:00:00", True),  # of the visit only the days are known: the note's date counts
        (False, 7, "2030-01-06 23:00:00", False),
    ],
)
def test_a_time_of_the_day_before_or_after_its_date(
    timed: bool, day: int, at_time: str, kept: bool, tmp_path: Path
) -> None:
    """As where a server keeps UTC and the dates are the hospital's."""
    tables = hospital()
    tables["VISIT_OCCURRENCE"][0] = visit(1, 1, 0, 5, timed=timed)
    tables["NOTE"].append(note(13, 1, 4, 1) | {"note_date": date(2030, 1, day), "note_datetime": at_time})
    built = build(write(tmp_path, tables))
    assert ("Note 13." in texts(built)["1"]) == kept
    assert any(fact.startswith("1 times are of the day before or after their dates") for fact in built.cohort.facts)


def test_numbers_with_a_point_and_births_on_no_calendar(tmp_path: Path) -> None:
    tables = hospital()
    tables["VISIT_OCCURRENCE"][0]["discharged_to_concept_id"] = "4216643.0"
    tables["PERSON"][0] |= {"month_of_birth": 2, "day_of_birth": 30}
    tables["PERSON"][1] |= {"month_of_birth": 0, "day_of_birth": 0}
    cases = build(write(tmp_path, tables)).cohort.cases
    assert cases["case_id"].to_list() == ["2", "3"]  # who died in visit 1 can't return
    assert cases["age"].to_list() == [79, 79]


def test_a_folder_whose_notes_have_another_name(tmp_path: Path) -> None:
    folder = write(tmp_path / "omop", hospital())
    expected = build(folder).cohort.fingerprint
    (folder / "NOTE.csv").rename(folder / "export of notes.csv")
    (folder / "readme.csv").write_text("what,is\nthis\n")
    built = build(folder)
    assert built.cohort.fingerprint == expected
    assert "the notes are in export of notes.csv, which has NOTE's columns" in built.cohort.facts


def test_the_contract_of_readers(tmp_path: Path) -> None:
    assert len(check_reader_contract(build, write(tmp_path / "omop", hospital()))) == 3


# --- a slow version -----------------------------------------------------------------------------------------


class Moment:
    def __init__(self, row: Row, name: str) -> None:
        at = row.get(f"{name}_datetime") or ""
        self.day = row[f"{name}_date"]
        self.at = at if isinstance(at, datetime) and (at.hour, at.minute, at.second) != (0, 0, 0) else None
        assert isinstance(self.day, date)

    def by(self, other: Moment, *, same_day: bool = True) -> bool:
        if self.at is not None and other.at is not None:
            return self.at <= other.at
        return self.day < other.day or (self.day == other.day and same_day)  # type: ignore[operator]

    def within(self, other: Moment, days: int) -> bool:
        """Whether the other one is at most so many days later."""
        if self.at is not None and other.at is not None:
            return other.at <= self.at + timedelta(days=days)
        return other.day <= self.day + timedelta(days=days)  # type: ignore[operator]


def slow_cases(tables: Tables, *, days: int, same_day: bool) -> dict[str, tuple[int, list[int]]]:
    """Readmission by visit, and the notes of each case: the rules, one by one."""
    visits = tables["VISIT_OCCURRENCE"]
    last = max((Moment(v, "visit_start") for v in visits), key=lambda m: m.at or datetime(m.day.year, m.day.month, m.day.day))  # type: ignore[attr-defined]  # fmt: skip  # noqa: E501
    cases: dict[str, tuple[int, list[int]]] = {}
    for here in visits:
        end = Moment(here, "visit_end")
        if not Moment(here, "visit_start").by(end) or not end.within(last, 10**6):
            continue
        observed = (
            end.at + timedelta(days=days) <= last.at
            if end.at is not None and last.at is not None
            else end.day + timedelta(days=days) <= last.day  # type: ignore[operator]
        )
        if not observed:
            continue
        positive = any(
            there["person_id"] == here["person_id"]
            and there is not here
            and end.by(Moment(there, "visit_start"))
            and end.within(Moment(there, "visit_start"), days)
            and _order(there) > _order(here)
            for there in visits
        )
        mine = [
            n
            for n in tables["NOTE"]
            if n["visit_occurrence_id"] == here["visit_occurrence_id"]
            and n["person_id"] == here["person_id"]
            and Moment(n, "note").by(end, same_day=same_day)
        ]
        if mine:
            mine.sort(key=lambda n: (n["note_datetime"] or datetime.combine(n["note_date"], datetime.min.time()), n["note_id"]))  # type: ignore[arg-type]  # fmt: skip  # noqa: E501
            cases[str(here["visit_occurrence_id"])] = (int(positive), [int(str(n["note_id"])) for n in mine])
    return cases


def _order(row: Row) -> tuple[object, ...]:
    def at(name: str) -> datetime:
        found = row[f"{name}_datetime"] or datetime.combine(row[f"{name}_date"], datetime.min.time())  # type: ignore[arg-type]
        assert isinstance(found, datetime)
        return found

    return at("visit_start"), at("visit_end"), str(row["visit_occurrence_id"])


moments = st.one_of(st.integers(-4, 70).map(float), st.floats(-4, 70).map(lambda x: round(x * 24) / 24))


@st.composite
def hospitals(draw: st.DrawFn) -> Tables:
    visits: list[Row] = []
    notes: list[Row] = []
    for number in range(1, draw(st.integers(8, 40)) + 1):
        start = draw(moments)
        timed = draw(st.booleans())
        length = draw(st.sampled_from([-1.0, 0.0, 0.2, 1.0, 3.5, 12.0]))
        who = draw(st.integers(1, 9))
        visits.append(visit(number, who, start, start + length, timed=timed))
        for k in range(draw(st.integers(0, 3))):
            at = start + length + draw(st.sampled_from([-2.0, -0.5, -1 / 24, 0.0, 1 / 24, 0.4, 1.0, 40.0]))
            notes.append(note(10 * number + k, who, at, number, timed=draw(st.booleans())))
    people = [*(person(k) for k in range(1, 10)), *LAST["PERSON"]]
    return {
        "PERSON": people,
        "VISIT_OCCURRENCE": [*visits, *LAST["VISIT_OCCURRENCE"]],
        "NOTE": [*notes, note(98, 1, -100, 1), *LAST["NOTE"]],
    }


SLOWLY = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])  # fmt: skip  # noqa: E501


@SLOWLY
@given(tables=hospitals(), days=st.sampled_from([1, 30]), same_day=st.booleans())
def test_cases_labels_and_notes_are_those_of_the_slow_version(
    tables: Tables, days: int, same_day: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    expected = slow_cases(tables, days=days, same_day=same_day)
    if not expected:
        return
    built = build(write(tmp_path_factory.mktemp("omop"), tables), days=days, same_day="keep" if same_day else "drop")
    assert labels(built) == {case: label for case, (label, _) in expected.items()}
    said = {case: NOTE_MARK.join(f"Note {k}." for k in ids) for case, (_, ids) in expected.items()}
    assert texts(built) == said


lates = st.tuples(st.floats(1 / 86400, 300), st.sampled_from([1, 3, "", 0]), st.booleans())


@settings(SLOWLY, max_examples=4)
@given(notes=st.lists(lates, min_size=10, max_size=10))
def test_a_note_after_the_index_changes_nothing(
    notes: list[tuple[float, int | str, bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Where only the day of a note is known, it must be a later day."""
    folder, tables = tmp_path_factory.mktemp("omop"), hospital()
    before = build(write(folder, tables)).cohort.fingerprint
    for k, (late, at_visit, timed) in enumerate(notes):
        later = 5 + late + (0 if timed else 1)
        if at_visit in ("", 0) and 13 <= later <= 22:
            continue  # it then belongs to visit 2 of the same patient, before its end
        tables["NOTE"].append(note(700 + k, 2 if at_visit == 3 else 1, later, at_visit, timed=timed))
    assert build(write(folder, tables)).cohort.fingerprint == before


# --- outcomes -----------------------------------------------------------------------------------------------


def test_death_after_the_index(tmp_path: Path) -> None:
    tables = hospital() | {"DEATH": [{"person_id": 1, **dated("death", 25)}, {"person_id": 2, **dated("death", 5)}]}
    built = build(write(tmp_path, tables), outcome="death", days=10)
    assert labels(built) == {"1": 0, "2": 1}  # patient 2 died at the index: dropped
    assert next(step for step in built.flow if step.name.startswith("alive")).n_dropped == 1
    assert labels(build(write(tmp_path, tables), outcome="death", index="start", same_day="keep", text="leave")) == {
        "1": 1,
        "2": 1,
        "3": 1,
    }


def test_a_condition_after_the_index_and_its_descendants(tmp_path: Path) -> None:
    rows = [(1, 100, 9), (1, 7, 3), (2, 101, 8)]
    conditions: list[Row] = [
        {"person_id": who, "condition_concept_id": concept, **dated("condition_start", at)} for who, concept, at in rows
    ]
    tables = hospital() | {"CONDITION_OCCURRENCE": conditions}
    ask = {"outcome": "condition", "conditions": "100", "label": "stroke"}
    built = build(write(tmp_path, tables), **ask)
    assert built.cohort.labels == ("stroke",)
    assert labels(built) == {"1": 1, "3": 0}  # at visit 2 patient 1 already has it
    assert labels(build(tmp_path, prevalent="keep", **ask)) == {"1": 1, "2": 0, "3": 0}
    tables["CONCEPT_ANCESTOR"] = [{"ancestor_concept_id": 100, "descendant_concept_id": k} for k in (100, 101)]
    assert labels(build(write(tmp_path, tables), descendants=True, **ask)) == {"1": 1, "3": 1}


def test_observation_periods_bound_index_and_follow_up(tmp_path: Path) -> None:
    periods = [period(1, 1, -1, 10), period(2, 1, 11, 60), period(3, 2, -50, 20), period(4, 9, 0, 500)]
    built = build(write(tmp_path, hospital() | {"OBSERVATION_PERIOD": periods}))
    assert labels(built) == {"1": 1, "2": 0, "9": 0}  # 3: observed for 15 days only
    gone = hospital() | {"OBSERVATION_PERIOD": periods[2:]}
    flow = {step.name: step.n_dropped for step in build(write(tmp_path, gone)).flow}
    assert flow["index in an observation period"] == 2
    assert labels(build(tmp_path, observation="ignore")) == {"1": 1, "2": 0, "3": 0, "9": 0}


def test_who_dies_is_followed_to_the_end(tmp_path: Path) -> None:
    tables = hospital() | {"DEATH": [{"person_id": 2, **dated("death", 12)}]}
    tables["OBSERVATION_PERIOD"] = [period(1, 1, -1, 600), period(2, 2, -1, 12), period(3, 9, 0, 405)]
    assert labels(build(write(tmp_path, tables))) == {"1": 1, "2": 0, "3": 0}


# --- notes --------------------------------------------------------------------------------------------------


def test_notes_by_class_type_and_title(tmp_path: Path) -> None:
    tables = hospital()
    for row, kind in zip(tables["NOTE"], (1, 2, 1, 1, 1), strict=True):
        row |= {"note_class_concept_id": kind, "note_type_concept_id": 10 + kind, "note_title": f"Kind {kind}: letter"}
    write(tmp_path, tables)
    for options in ({"classes": "2"}, {"types": [12]}, {"titles": "kind 2*"}):
        assert texts(build(tmp_path, **options)) == {"1": "Note 12."}, options
    assert texts(build(tmp_path, titles="kind 1*,kind 2*", which="last"))["1"] == "Note 12."
    for row in tables["NOTE"]:
        row |= {"note_title": 0, "note_source_value": "Progress Note"}
    assert len(texts(build(write(tmp_path, tables), titles="progress*"))) == 3


def test_notes_without_a_visit_join_by_day(tmp_path: Path) -> None:
    tables = hospital()
    tables["NOTE"] = [
        *(note(1, 1, -1, timed=False), note(2, 1, 3, 0), note(3, 1, 8), note(4, 1, 16, timed=False)),
        *(note(5, 2, 5.5), note(6, 2, 1, 1), note(7, 2, 4, 12345), note(91, 9, 400.1, 9)),
    ]
    built = build(write(tmp_path, tables))
    assert texts(built) == {"1": f"Note 1.{NOTE_MARK}Note 2.", "2": "Note 4."}
    flow = {step.name: step.n_dropped for step in built.flow}
    assert (flow["notes whose visit is known"], flow["notes of the visit's patient"]) == (1, 1)
    assert flow["notes of a case"] == 3  # 3 and 91, and 5: the end of visit 3 is earlier that day
    assert texts(build(tmp_path, window_days=0))["1"] == "Note 2."
    assert "3" in texts(build(tmp_path, grace_hours=24))


def test_a_copy_of_a_note_is_read_once(tmp_path: Path) -> None:
    tables = hospital()
    tables["NOTE"].append(note(13, 1, 2, 1, note_text="Note 12."))
    assert texts(build(write(tmp_path, tables)))["1"] == f"Note 11.{NOTE_MARK}Note 12."


def test_spans_of_note_nlp_are_evidence(tmp_path: Path) -> None:
    ill: Row = {"person_id": 9, "condition_concept_id": 100, **dated("condition_start", 0)}
    tables = hospital() | {"CONDITION_OCCURRENCE": [ill]}
    tables["NOTE"][1]["note_text"] = "Müde; heart failure. No heart failure before."
    spans = [(12, 100, "heart failure", "6", "Y"), (12, 100, "heart failure", "24", "N"), (12, 5, "Müde", "0", "")]
    spans += [(11, 100, "Heart failure", "3", ""), (31, 100, "note", "0-4", "")]
    tables["NOTE_NLP"] = [
        dict(zip(("note_id", "note_nlp_concept_id", "lexical_variant", "offset", "term_exists"), span, strict=True))
        for span in spans
    ]
    built = build(write(tmp_path, tables), outcome="condition", conditions="100")
    found = built.tables["evidence"].join(built.cohort.cases.select("case_id", "text"), on="case_id")
    said = {
        (case, text[start:end]) for case, start, end, text in found.select("case_id", "start", "end", "text").rows()
    }
    assert said == {("1", "heart failure"), ("3", "Note")}
    assert "2 of 3 spans" in built.flow[-1].name
    assert "evidence" not in build(tmp_path).tables
    assert build(tmp_path, evidence="5").tables["evidence"].height == 1


# --- sources as people have them ----------------------------------------------------------------------------


def test_the_same_cohort_from_every_kind_of_file(tmp_path: Path) -> None:
    plain = write(tmp_path / "csv", hospital())
    expected = build(plain).cohort.fingerprint
    lower, zipped, tabs, parquet, parts = (tmp_path / name for name in ("lower", "gz", "tabs", "parquet", "parts"))
    for folder in (lower, zipped, tabs, parquet, parts):
        folder.mkdir()
    base = duckdb.connect(str(tmp_path / "omop.duckdb"))
    base.execute("CREATE SCHEMA cdm")
    for file in plain.iterdir():
        name = file.stem.lower()
        (lower / f"{name}.csv").write_text(file.read_text(), encoding="utf-8-sig")
        (zipped / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        frame = pl.read_csv(file, try_parse_dates=True)
        pl.read_csv(file, infer_schema=False).write_csv(tabs / f"{name.capitalize()}.TSV", separator="\t")
        frame.rename(str.upper).write_parquet(parquet / f"{name}.parquet")
        (parts / name).mkdir()
        for k, part in enumerate(frame.iter_slices(2)):
            part.write_parquet(parts / name / f"part-{k}.parquet")
        base.execute(f"CREATE TABLE cdm.{name} AS FROM read_csv('{file}')")
    base.close()
    for source in (lower, zipped, tabs, parquet, parts, tmp_path / "omop.duckdb"):
        assert build(source).cohort.fingerprint == expected, source.name


def test_careless_cells(tmp_path: Path) -> None:
    """Dates of Excel, ids with decimals, quoted line breaks, a visit id of 0, a person without a birth date."""
    tables = hospital()
    tables["NOTE"][0]["note_text"] = 'First line,\nsecond "line".'
    for row in tables["NOTE"]:
        row["visit_occurrence_id"] = f"{row['visit_occurrence_id']}.0"
        row |= {name: f"{at:%-m/%-d/%Y %-I:%M %p}" if name == "note_datetime" else f"{at:%-m/%-d/%Y}" for name in ("note_date", "note_datetime") if isinstance(at := row[name], date)}  # fmt: skip  # noqa: E501
    tables["PERSON"][0] |= {"year_of_birth": "", "gender_concept_id": 0, "race_concept_id": ""}
    built = build(write(tmp_path, tables, encoding="utf-8-sig"))
    assert texts(built)["1"] == f'First line,\nsecond "line".{NOTE_MARK}Note 12.'
    assert built.cohort.cases["age"].to_list() == [None, None, 79]
    assert built.cohort.cases["gender"].to_list() == [None, None, "M"]


def test_a_folder_without_notes_gives_a_cohort_without_text(tmp_path: Path) -> None:
    write(tmp_path, {name: rows for name, rows in hospital().items() if name != "NOTE"})
    built = build(tmp_path)
    assert not built.cohort.has_text
    assert labels(built) == {"1": 1, "2": 0, "3": 0}


def test_deaths_of_patients_without_a_row_in_person(tmp_path: Path) -> None:
    dead: list[Row] = [{"person_id": 1, **dated("death", 10)}, {"person_id": 2, **dated("death", 30)}]
    tables = hospital() | {"DEATH": dead}
    expected = {"1": 1, "3": 1}  # visit 2 begins after the death
    assert labels(build(write(tmp_path / "whole", tables), outcome="death")) == expected
    tables["PERSON"] = [person(2, **ASIAN), person(9)]
    some = write(tmp_path / "some", tables)
    assert labels(build(some, outcome="death")) == {"3": 1}
    del tables["PERSON"]
    for built in (build(some, outcome="death", people="any"), build(write(tmp_path / "none", tables), outcome="death")):
        assert labels(built) == expected
        assert {step.reason: step.n_dropped for step in built.flow}["died by the index"] == 1


def test_labels_of_a_file(tmp_path: Path) -> None:
    folder = write(tmp_path / "omop", hospital())
    file = tmp_path / "labels.csv"
    file.write_text("visit_occurrence_id,fell,ill\n1,0,1\n9,1,1\n")
    built = build(folder, outcome="file", labels=file)
    assert built.cohort.labels == ("fell", "ill")
    assert built.cohort.y.toarray().tolist() == [[0, 1], [1, 1]]
    by_note = tmp_path / "notes.csv"
    by_note.write_text("note_id,ill\n11,0\n12,1\n")
    alone = build_omop(
        shutil.copy(folder / "NOTE.csv", tmp_path / "my notes.csv"),
        options=OmopOptions(cases="notes", outcome="file", labels=by_note),
    )
    assert texts(alone) == {"11": "Note 11.", "12": "Note 12."}


@pytest.mark.parametrize(
    ("leap", "form"),
    [
        ("2030-06-30 23:59:60", "%Y-%m-%d %H:%M:%S"),
        ("2030-06-30T23:59:60.25", "%Y-%m-%dT%H:%M:%S"),
        ("06/30/2030 23:59:60", "%m/%d/%Y %H:%M:%S"),
        ("2030-06-30 23:59:60+00:00", "%Y-%m-%d %H:%M:%S+00:00"),
    ],
)
def test_a_leap_second_is_the_second_before_it(leap: str, form: str, tmp_path: Path) -> None:
    tables = hospital()
    for rows in tables.values():
        for row in rows:
            row.update({name: at.strftime(form) for name, at in row.items() if isinstance(at, datetime)})
    tables["PERSON"].append(person(5))
    tables["VISIT_OCCURRENCE"].append(visit(5, 5, 170, 180.5, visit_end_date="2030-06-30", visit_end_datetime=leap))
    tables["VISIT_OCCURRENCE"][-1]["visit_start_datetime"] = when(170).strftime(form)
    tables["NOTE"].append(note(51, 5, 175, 5, note_datetime=leap, note_date="2030-06-30"))
    built = build(write(tmp_path, tables))
    case = built.cohort.cases.row(by_predicate=pl.col("case_id") == "5", named=True)
    assert (str(case["time"])[:19], case["text"]) == ("2030-06-30 23:59:59", "Note 51.")
