"""Whose a note is, and when it was known: traps in FHIR and OMOP that would change a cohort in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from palpate.data.cohorts.omop import OmopOptions, build_omop
from palpate.data.hospitals.records import NOTE_MARK
from palpate.errors import InputError
from tests.data.standards import omop_files as omop
from tests.data.standards.fhir_files import (  # fmt: skip
    Resource,
    attachment,
    document,
    encounter,
    hospital,
    patient,
    report,
    when,
    write,
)
from tests.data.standards.test_fhir import build, flow, ill, pulse
from tests.data.standards.test_omop import labels, texts


@pytest.mark.parametrize("other", ["Group/1", "Device/1", "https://x.org/fhir/Group/1/_history/2"])
def test_what_is_about_no_patient_is_left_out(other: str, tmp_path: Path) -> None:
    plain = build(write(tmp_path / "plain", hospital()))
    about: Resource = {"subject": {"reference": other}}
    rows = [*hospital(), document("x", 1, when(3), "e1", **about), encounter("y", 2, when(9), when(10), **about)]
    built = build(write(tmp_path / "more", rows))
    assert (texts(built), labels(built)) == (texts(plain), labels(plain))
    assert "2 resources are about no patient, but a group, a device or the like, and are left out" in built.cohort.facts


@pytest.mark.parametrize("same", ["1", "urn:uuid:1", "https://x.org/fhir/Patient/1", "https://x.org/people/1"])
def test_patients_are_found_however_they_are_named(same: str, tmp_path: Path) -> None:
    rows = [*hospital(), document("x", 1, when(4.5), "e1", subject={"reference": same})]
    assert texts(build(write(tmp_path, rows)))["e1"] == f"Note d1.{NOTE_MARK}Note x."


def test_a_type_beside_the_reference(tmp_path: Path) -> None:
    about = {"subject": {"reference": "urn:uuid:1", "type": "Device"}}
    rows = [*hospital(), document("x", 1, when(4.5), "e1", **about)]
    assert texts(build(write(tmp_path, rows)))["e1"] == "Note d1."


def test_the_first_encounter_among_what_a_document_names(tmp_path: Path) -> None:
    rows = hospital()
    rows[-1]["context"]["encounter"].insert(0, {"reference": "EpisodeOfCare/x"})
    assert texts(build(write(tmp_path, rows)))["e3"] == "Note d3."


def two_stays(**note: object) -> omop.Tables:
    """Stay 101 ends on day 5, stay 102 begins on day 6, and a note names neither."""
    last = omop.hospital()
    return {
        "PERSON": [omop.person(1), omop.person(9)],
        "VISIT_OCCURRENCE": [omop.visit(101, 1, 0, 5), omop.visit(102, 1, 6, 9), last["VISIT_OCCURRENCE"][-1]],
        "NOTE": [omop.note(1, 1, 4.9, **note), omop.note(2, 1, 2, 101), omop.note(3, 1, 8, 102), last["NOTE"][-1]],  # type: ignore[arg-type]
    }


def test_a_note_without_a_visit_belongs_to_the_stay_that_contains_it(tmp_path: Path) -> None:
    folder = omop.write(tmp_path, two_stays())
    built = build_omop(folder, options=OmopOptions())
    assert texts(built) == {"101": f"Note 2.{NOTE_MARK}Note 1.", "102": "Note 3."}
    # At the start of 102 it would have been known, but it is of the stay before.
    early = two_stays() | {"DEATH": [{"person_id": 9, **omop.dated("death", 500)}]}
    early["NOTE"][1] = omop.note(2, 1, -0.1, 101)
    built = build_omop(omop.write(tmp_path, early), options=OmopOptions(index="start", outcome="death"))
    assert texts(built) == {"101": "Note 2."}


def test_the_same_words_in_two_stays_are_no_repetition(tmp_path: Path) -> None:
    same = attachment("No change.")
    rows = [*hospital(), document("x", 1, when(3), None, same), document("y", 1, when(17), None, same)]
    rows += [report("z", 1, when(17.1), None, same, encounter=None)]  # of the same day
    built = build(write(tmp_path, rows))
    assert (texts(built)["e1"][:10], texts(built)["e2"][-10:]) == ("No change.", "No change.")
    assert flow(built)["distinct notes"] == 1


def test_a_cancelled_observation_does_not_count(tmp_path: Path) -> None:
    rows = [*hospital(), pulse("o1", 60, when(1)), pulse("o2", 999, when(4), status="cancelled")]
    built = build(write(tmp_path, rows), observations="8867-4")
    assert built.cohort.cases["observation_8867-4"].to_list() == [60, 60, None]
    assert flow(built)["observations not entered in error"] == 1


def test_a_document_is_known_when_its_last_part_is(tmp_path: Path) -> None:
    late = {**attachment("Late."), "creation": when(12)}
    rows = [*hospital(), document("x", 1, when(4), "e1", late)]
    rows += [report("y", 1, when(4), "e1", {**late, "data": "WS4="}), report("z", 1, when(3), "e1", attachment("Z."), effectiveDateTime=when(9))]  # fmt: skip  # noqa: E501
    rows += [document("d", 1, when(4), "e1", {**attachment("Day."), "creation": when(6, hours_from_utc=None)})]
    rows += [document("p", 1, when(4.5), "e1", context={"period": {"end": when(300)}, "encounter": [{"reference": "Encounter/e1"}]})]  # fmt: skip  # noqa: E501
    built = build(write(tmp_path, rows))
    assert texts(built)["e1"] == f"Note d1.{NOTE_MARK}Note p."  # the time of the care is not that of the document
    assert flow(built)["notes written by the index"] == 4


def test_an_observation_is_known_when_it_is_issued(tmp_path: Path) -> None:
    rows = [*hospital(), pulse("o1", 60, when(1), issued=when(4)), pulse("o2", 70, when(2)), pulse("o3", 80, when(3), issued=when(9))]  # fmt: skip  # noqa: E501
    built = build(write(tmp_path, rows), observations="8867-4")
    assert built.cohort.cases["observation_8867-4"].to_list() == [70, 80, None]  # the last to be taken of those known


@pytest.mark.parametrize("at", [0, 10])
def test_times_with_and_without_an_offset_are_refused(at: int, tmp_path: Path) -> None:
    rows = hospital()
    rows.insert(at, document("x", 1, "2030-01-06T12:30:00", "e1"))
    said = (
        rf"all.ndjson, row {at + 1}: the DocumentReference has a time without an offset from UTC, and others have one"
    )
    with pytest.raises(InputError, match=said):
        build(write(tmp_path, rows))
    rows[at]["date"] = "2030-01-06"
    assert "Note x." in texts(build(write(tmp_path, rows)))["e1"]


def test_no_offset_at_all_is_fine(tmp_path: Path) -> None:
    rows = [patient(1), encounter("a", 1, "2030-01-01T12:00:00", "2030-01-05T12:00:00"), encounter("z", 1, "2031-01-01T12:00:00", None)]  # fmt: skip  # noqa: E501
    rows += [document("d", 1, "2030-01-05T11:00:00", "a", meta={"lastUpdated": "2030-02-01T00:00:00Z"})]
    assert texts(build(write(tmp_path, rows))) == {"a": "Note d."}


def test_a_note_in_a_stay_is_not_followed_by_that_stay(tmp_path: Path) -> None:
    stays = [omop.visit(1, 1, 0, 5), omop.visit(2, 2, 0, 5), omop.visit(3, 2, 4, 9), omop.visit(4, 3, 0, 9)]
    stays += [omop.visit(5, 3, 3, 4), omop.visit(6, 4, 0, 5), omop.visit(7, 4, 8, 9), omop.visit(99, 9, 400, 401)]
    notes = [omop.note(10, 1, 0, timed=False), omop.note(20, 2, 3.9, 2), omop.note(30, 3, 2, 4), omop.note(31, 3, 2)]
    notes += [omop.note(40, 4, 2, 6), omop.note(41, 4, 2), omop.note(42, 4, 8, timed=False), omop.note(43, 4, 6)]
    people = [omop.person(k) for k in (1, 2, 3, 4, 9)]
    folder = omop.write(tmp_path, {"PERSON": people, "VISIT_OCCURRENCE": stays, "NOTE": notes})
    found = labels(build_omop(folder, options=OmopOptions(cases="notes")))
    assert found == {"10": 0, "20": 0, "30": 0, "31": 0, "40": 1, "41": 1, "42": 0, "43": 1}


@pytest.mark.parametrize(
    ("onset", "expected", "unclear"),
    [
        ("2030-01", {"e3": 0}, 2),  # around the index of e1 and of e2
        ("2030", {"e3": 0}, 2),
        ("2029-12", {"e3": 0}, 0),
        ("2030-03", {"e1": 0, "e2": 0, "e3": 0}, 0),
    ],
)
def test_a_month_around_the_index(onset: str, expected: dict[str, int], unclear: int, tmp_path: Path) -> None:
    built = build(write(tmp_path, [*hospital(), ill("c1", 1, onset)]), outcome="condition", conditions="I50*")
    assert labels(built) == expected
    assert flow(built)["onset known to be before or after the index"] == unclear


def test_a_month_after_the_index(tmp_path: Path) -> None:
    folder = write(tmp_path, [*hospital(), ill("c1", 1, "2030-02")])
    ask = {"outcome": "condition", "conditions": "I50*"}
    assert labels(build(folder, days=60, **ask)) == {"e1": 1, "e2": 1, "e3": 0}
    built = build(folder, days=30, **ask)  # e1: until 5 February, e2: until the 20th
    assert labels(built) == {"e3": 0}
    assert labels(build(folder, days=5, **ask)) == {"e1": 0, "e2": 0, "e3": 0}


def test_a_differential_diagnosis_is_none(tmp_path: Path) -> None:
    rows = [*hospital(), ill("c1", 1, when(10), "differential"), ill("c2", 2, when(10), "provisional")]
    built = build(write(tmp_path, rows), outcome="condition", conditions="I50*")
    assert labels(built) == {"e1": 0, "e2": 0, "e3": 1}
    assert flow(built)["conditions not entered in error"] == 1
