"""FHIR: of a note that was amended or replaced, a case knows what there was at its index."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palpate.data.hospitals.records import NOTE_MARK
from tests.data.standards.fhir_files import (
    Resource,
    attachment,
    coded,
    document,
    encounter,
    hospital,
    report,
    when,
    write,
)
from tests.data.standards.test_fhir import build, flow, pulse, written
from tests.data.standards.test_omop import texts

LATER = "notes written by the index"
REPLACED = "notes that nothing had replaced by the index"


def amended(note: Resource, text: str, at: str | None = None, version: str | None = None, **more: object) -> Resource:
    """The note with another text, as the version that was written then."""
    return written({**note, "content": [{"attachment": attachment(text)}], **more}, at, version)


def replacing(number: str, at: str, old: str, visit: str = "e1", **more: object) -> Resource:
    target = {"reference": f"DocumentReference/{old}"}
    return document(number, 1, at, visit, relatesTo=[{"code": "replaces", "target": target}], **more)


def others() -> list[Resource]:
    return [each for each in hospital() if each["id"] != "d1"]


NOTE = document("d1", 1, when(4), "e1")  # the index is day 5


@pytest.mark.parametrize(
    ("updates", "said"),
    [
        ((when(4), when(4.5)), "Second."),
        ((when(4), when(6)), "First."),
        ((when(60), when(61)), "First."),  # a server that was filled later: the older one is dated by its own time
        ((None, when(6)), "First."),
        ((None, when(4.5)), "Second."),
        ((when(4), when(4.5), when(7)), "Second."),
        ((when(4), when(4.2), when(4.4)), "Third."),
        ((when(4), "2030-01-06T18:00:00+02:00"), "Second."),  # an hour before the index, in another zone
        ((when(4), "2030-01-06T12:00:00-08:00"), "First."),
    ],
)
def test_the_newest_version_at_the_index_counts(updates: tuple[str | None, ...], said: str, tmp_path: Path) -> None:
    words = ("First.", "Second.", "Third.")
    versions = [amended(NOTE, text, at) for text, at in zip(words, updates, strict=False)]
    folder = write(tmp_path, [*others(), *reversed(versions)])
    built = build(folder)
    assert texts(built)["e1"] == said
    assert built.tables["notes"].filter(case_id="e1")["note_id"].to_list() == ["d1"]
    steps = flow(built)
    assert steps[LATER] + steps[REPLACED] == len(versions) - 1
    assert steps[REPLACED] == words.index(said)


def test_a_version_counts_from_the_time_that_it_states_itself(tmp_path: Path) -> None:
    """An attachment's or a report's own time says when it was amended; `meta.lastUpdated` need not be asked."""
    first = written(document("d1", 1, when(2), "e1"), when(60))
    folder = write(tmp_path, [*others(), first, amended(NOTE, "Second.", when(61))])
    assert texts(build(folder))["e1"] == "Second."  # its date is day 4
    folder = write(tmp_path, [*others(), first, amended(NOTE, "Second.", when(61), date=when(5.5))])
    assert texts(build(folder))["e1"] == "Note d1."
    seen = written(report("r1", 1, when(2), "e1", attachment("Seen.")), when(60))
    again = written(report("r1", 1, when(3), "e1", attachment("Seen again.")), when(61))
    built = build(write(tmp_path, [*hospital(), seen, again]))
    assert texts(built)["e1"] == f"Seen again.{NOTE_MARK}Note d1."


def test_an_ordinary_note_that_a_server_touched_is_kept_and_counted(tmp_path: Path) -> None:
    rows = [*others(), written(NOTE, when(90), "7"), written(document("d5", 1, when(3), "e1"), when(3.1), "1")]
    built = build(write(tmp_path, rows))
    assert texts(built)["e1"] == f"Note d5.{NOTE_MARK}Note d1."
    told = "notes read as of their own time, though meta.lastUpdated is after the index: 1"
    assert told in flow(built)
    assert not any(name.startswith("notes read as of") for name in flow(build(write(tmp_path, hospital()))))


@pytest.mark.parametrize(
    ("note", "kept"),
    [
        (written(NOTE, when(6), docStatus="amended"), False),
        (written(NOTE, when(4.5), docStatus="amended"), True),
        (written(NOTE, docStatus="amended"), True),  # nothing says when
        (written(NOTE, when(6), docStatus="final"), True),
        (amended(NOTE, "x", when(6), docStatus="amended") | {
            "content": [{"attachment": {**attachment("Note d1."), "creation": when(4.2)}}]}, True),
        (written(report("d1", 1, when(4), "e1", attachment("Note d1."), status="amended"), when(6)), True),
        (written(report("d1", 1, when(5.5), "e1", attachment("Note d1."), status="corrected"), when(6)), False),
        (written({**report("d1", 1, when(4), "e1", attachment("Note d1."), status="appended"), "issued": None,
                  "effectiveDateTime": when(4)}, when(6)), False),
    ],
)  # fmt: skip
def test_a_note_that_says_it_was_amended_counts_from_then(note: Resource, kept: bool, tmp_path: Path) -> None:
    """By the time of its text; where it states none, by `meta.lastUpdated`."""
    built = build(write(tmp_path, [*others(), document("d0", 1, when(1), "e1"), note]))
    assert texts(built)["e1"] == (f"Note d0.{NOTE_MARK}Note d1." if kept else "Note d0.")
    assert flow(built)[LATER] == (not kept)


@pytest.mark.parametrize(("day", "said"), [(4.5, "Note new."), (5, "Note new."), (5.1, "Note d1."), (40, "Note d1.")])
def test_a_document_that_replaces_another_counts_from_its_date(day: float, said: str, tmp_path: Path) -> None:
    rows = [*others(), {**NOTE, "status": "superseded"}, replacing("new", when(day), "d1")]
    folder = write(tmp_path, rows)
    for superseded in ("keep", "drop"):  # at the index nobody knew that it would be superseded
        assert texts(build(folder, superseded=superseded))["e1"] == said


def test_what_replaces_must_be_a_note_of_the_patient_that_is_read(tmp_path: Path) -> None:
    wrong = replacing("new", when(4.5), "d1", status="entered-in-error")
    pdf = replacing("pdf", when(4.6), "d1") | {"content": [{"attachment": {"contentType": "application/pdf", "data": "JVBERg=="}}]}  # fmt: skip  # noqa: E501
    stranger = replacing("other", when(4.7), "d1", "e3") | {"subject": {"reference": "Patient/2"}}
    adds = document("adds", 1, when(4.8), "e1", relatesTo=[{"code": "appends", "target": {"reference": "DocumentReference/d1"}}])  # fmt: skip  # noqa: E501
    built = build(write(tmp_path, [*hospital(), wrong, pdf, stranger, adds]))
    assert texts(built)["e1"] == f"Note d1.{NOTE_MARK}Note adds."
    chain = [replacing("b", when(4.2), "d1"), replacing("c", when(4.4), "b"), replacing("x", when(9), "c")]
    built = build(write(tmp_path, [*hospital(), *chain]))
    assert texts(built)["e1"] == "Note c."
    assert (flow(built)[REPLACED], flow(built)[LATER]) == (2, 1)


def test_what_was_withdrawn_is_left_out_whenever_that_was(tmp_path: Path) -> None:
    """A note that was entered in error never was the patient's, even if that was found after the index."""
    versions = [written(NOTE, when(4)), written(NOTE, when(30), status="entered-in-error")]
    built = build(write(tmp_path, [*others(), document("d0", 1, when(1), "e1"), *versions]))
    assert texts(built)["e1"] == "Note d0."
    assert flow(built)["notes not entered in error"] == 2


def test_a_version_with_the_same_text_loses_nothing(tmp_path: Path) -> None:
    versions = [written(NOTE, when(4), "1"), written(NOTE, when(4.5), "2"), written(NOTE, when(6), "3")]
    twin = replacing("twin", when(4.6), "d1") | {"content": NOTE["content"]}
    for rows in (versions, [*versions, twin], [*versions, *versions]):
        assert texts(build(write(tmp_path, [*others(), *rows])))["e1"] == "Note d1."


def test_a_note_that_moved_to_another_visit(tmp_path: Path) -> None:
    moved = written(document("d1", 1, when(4), "e2"), when(17))
    found = texts(build(write(tmp_path, [*others(), document("d0", 1, when(1), "e1"), written(NOTE, when(4)), moved])))
    assert found["e1"] == f"Note d0.{NOTE_MARK}Note d1."
    assert found["e2"] == f"Note d1.{NOTE_MARK}Note d2."


def test_each_note_as_a_case_is_its_first_version(tmp_path: Path) -> None:
    """Its own time is the index, and later versions come after it."""
    rows = [*others(), written(NOTE, when(4)), amended(NOTE, "Later.", when(4.5)), replacing("new", when(4.7), "d1")]
    built = build(write(tmp_path, rows), cases="notes")
    assert texts(built)["d1"] == "Note d1."
    assert texts(built)["new"] == "Note new."
    assert flow(built)["first versions of notes"] == 1


def test_observations_as_of_the_index(tmp_path: Path) -> None:
    def read(*rows: Resource) -> object:
        folder = write(tmp_path, [*hospital(), *rows])
        cases = build(folder, observations="8867-4").cohort.cases
        return cases["observation_8867-4"][0] if "observation_8867-4" in cases.columns else None

    first = written(pulse("o1", 60, when(3)), when(3))
    assert read(first, written(pulse("o1", 61, when(3)), when(4))) == 61
    assert read(first, written(pulse("o1", 61, when(3)), when(6))) == 60
    assert read(first, written(pulse("o1", 61, when(3), issued=when(6)), when(6))) == 60
    assert read(first, written(pulse("o1", 61, when(3), code=coded("8310-5")), when(6))) == 60
    assert read(first, written(pulse("o1", 61, when(3), code=coded("8310-5")), when(4))) is None
    assert read(first, written(pulse("o1", 61, when(3), status="entered-in-error"), when(6))) is None


# Documents of day 14 or later without a visit are joined to e2, whose window begins then.
lateness = st.floats(1 / 1440, 8.5)
zones = st.sampled_from([-11.0, -5.0, 0.0, 5.5, 13.0])
what = st.sampled_from(["version", "dated version", "replacing", "amended", "report"])


def after_the_index(k: int, days: float, zone: float, kind: str, index: float = 5) -> Resource:
    """A version or a document of patient 1 that came about so many days after the end of e1."""
    at = when(index + days + (zone + 5) / 24, hours_from_utc=zone)
    fresh = f"Written later {k}."
    match kind:
        case "version":
            return amended(NOTE, fresh, at, str(k + 2))
        case "dated version":
            return amended(NOTE, fresh, at, str(k + 2), date=at)
        case "replacing":
            return replacing(f"late{k}", at, "d1")
        case "amended":
            return amended(document(f"late{k}", 1, when(4), "e1"), fresh, at, docStatus="amended")
        case _:
            return written(report("r1", 1, at, "e1", attachment(fresh)), at, str(k + 2))


@settings(max_examples=6, deadline=timedelta(seconds=60))
@given(later=st.lists(st.tuples(lateness, zones, what), min_size=1, max_size=12), first=st.booleans())
def test_nothing_that_came_about_after_the_index_changes_a_case(
    later: list[tuple[float, float, str]], first: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    seen = written(report("r1", 1, when(3), "e1", attachment("CT: clear.")), when(3), "1")
    rows = [*others(), written(NOTE, when(4), "1"), seen]
    folder = tmp_path_factory.mktemp("fhir")
    before = build(write(folder, rows)).cohort
    more = [after_the_index(k, *each) for k, each in enumerate(later)]
    after = build(write(folder, [*more, *rows] if first else [*rows, *more])).cohort
    assert after.cases.equals(before.cases)
    assert after.fingerprint == before.fingerprint
    # The same an hour before the index does change it.
    early = [after_the_index(k, -1 / 24, zone, kind) for k, (_, zone, kind) in enumerate(later[:1])]
    assert "Written later" in (said := texts(build(write(folder, [*rows, *early])))["e1"]) or "Note late" in said


def test_days_without_a_time(tmp_path: Path) -> None:
    """A version of the index's own day counts as a note of that day does."""
    rows = [
        *others(),
        encounter("e4", 1, "2030-03-01", "2030-03-09"),
        written(document("d4", 1, "2030-03-05", "e4"), when(60)),
        amended(document("d4", 1, "2030-03-09", "e4"), "Of the last day.", when(70)),
        amended(document("d4", 1, "2030-03-10", "e4"), "Of the day after.", when(80)),
    ]
    folder = write(tmp_path, rows)
    assert texts(build(folder))["e4"] == "Of the last day."
    assert texts(build(folder, same_day="drop"))["e4"] == "Note d4."
