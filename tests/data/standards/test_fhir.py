"""FHIR: resources as servers write them; no leakage across time zones; broken lines with file and line."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palpate.commands.build import build_cohort
from palpate.data.cohorts import BuiltCohort
from palpate.data.cohorts.fhir import FhirOptions, build_fhir
from palpate.data.hospitals.fhir.attachments import html_text
from palpate.data.hospitals.records import NOTE_MARK
from palpate.errors import InputError
from palpate.testing.reader_contract import check_reader_contract
from tests.data.standards.fhir_files import (
    US_CORE,
    Resource,
    attachment,
    coded,
    document,
    encounter,
    hospital,
    patient,
    report,
    when,
    write,
)
from tests.data.standards.test_omop import labels, texts


def build(folder: Path, **options: object) -> BuiltCohort:
    return build_fhir(folder, options=FhirOptions.model_validate(options))


def flow(built: BuiltCohort) -> dict[str, int]:
    return {step.name: step.n_dropped for step in built.flow}


def test_a_small_export(tmp_path: Path) -> None:
    built = build(write(tmp_path, hospital()))
    assert labels(built) == {"e1": 1, "e2": 0, "e3": 0}
    assert texts(built) == {"e1": "Note d1.", "e2": "Note d2.", "e3": "Note d3."}
    cases = built.cohort.cases
    assert [at.isoformat() for at in cases["time"]] == ["2030-01-06T12:00:00", "2030-01-21T12:00:00", "2030-01-06T12:00:00"]  # fmt: skip  # noqa: E501
    assert cases["gender"].to_list() == ["F", "F", "M"]
    assert (cases["race"].to_list(), cases["age"].to_list()) == (["White"] * 3, [79, 79, 79])


def test_the_contract_of_readers(tmp_path: Path) -> None:
    assert len(check_reader_contract(build, write(tmp_path / "fhir", hospital()))) == 3


def test_files_as_exports_have_them(tmp_path: Path) -> None:
    """Several files for a type, arbitrary names, gzip, folders, a log, other types, blank lines, a byte order mark."""
    expected = build(write(tmp_path / "one", hospital())).cohort.fingerprint
    folder, rows = tmp_path / "many", hospital()
    write(folder, rows[:2], name="zz.ndjson")
    write(folder / "deeper", rows[2:5], name="a.NDJSON.gz".lower())
    write(folder, rows[5:], name="DocumentReference.000.ndjson")
    write(folder, [{"exportId": "x", "eventId": "kickoff"}], name="log.ndjson")
    write(folder, [{"resourceType": "Medication", "id": "1"}], name="meds.ndjson")
    (folder / "zz.ndjson").write_bytes(b"\xef\xbb\xbf" + (folder / "zz.ndjson").read_bytes() + b"\r\n\n")
    (folder / "manifest.json").write_text("{}")
    assert build(folder).cohort.fingerprint == expected
    write(folder, rows[5:], name="again.ndjson")  # the same resources once more
    write(folder, rows[1:2], name="patients.ndjson")
    again = build(folder)
    assert again.cohort.fingerprint == expected
    counted = {step.name: (step.n_cases, step.n_dropped) for step in again.flow}
    assert counted["patients in the files"] == (4, 0)
    assert counted["patients with different ids"] == (3, 1)
    assert counted["encounters in the files"] == (6, 0)
    assert counted["encounters with different ids"] == (4, 2)
    assert counted["notes in the files"] == (6, 0)
    assert counted["notes with different ids or versions"] == (3, 3)


def latin(text: str) -> str:
    return base64.b64encode(text.encode("latin-1")).decode()


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([attachment("<b>x</b>", "text/html"), attachment("plain")], "plain"),
        ([attachment("<div xmlns='http://www.w3.org/1999/xhtml'><p>x</p></div>", "application/xhtml+xml"),
          attachment("<p>Fever &amp; cough.</p><p>Home.</p>", "text/html")], "Fever & cough.\n\nHome."),
        ([attachment('<?xml version="1.0" encoding="UTF-8"?><div><p>Müde</p></div>', "application/xhtml+xml")], "Müde"),
        ([attachment("Größe", charset="iso-8859-1")], "Größe"),
        ([attachment("Größe", charset="utf-16")], "Größe"),
        ([{"contentType": "application/pdf", "data": "JVBERg=="}, attachment("text")], "text"),
        ([{"contentType": "text/plain", "url": "Binary/1"}, attachment("<i>in</i>line", "text/html")], "inline"),
        ([{"contentType": "text/plain", "data": "bGluZSBi\ncmVha3M="}], "line breaks"),
        ([{"url": "data:text/plain;charset=iso-8859-1;base64,R3L232U="}], "Größe"),
        ([{"contentType": "text/html", "url": "data:text/html,%3Cb%3Ebold%3C/b%3E"}], "bold"),
        ([{"url": "data:,A%20brief%20note"}], "A brief note"),
        ([{"contentType": "text/plain", "url": "#held"}], "Contained."),
        ([{"url": "#held"}], "Contained."),
        ([{"contentType": "text/html", "data": latin("<meta charset='iso-8859-1'><p>Größe</p>")}], "Größe"),
        ([{"contentType": "text/html", "data": latin('<?xml version="1.0" encoding="latin-1"?><p>ö</p>')}], "ö"),
    ],
)  # fmt: skip
def test_attachments(parts: list[Resource], said: str, tmp_path: Path) -> None:
    held = {"resourceType": "Binary", "id": "held", "contentType": "text/plain", "data": "Q29udGFpbmVkLg=="}
    rows = [*hospital(), document("d4", 2, when(3), "e3", *parts, contained=[held])]
    assert texts(build(write(tmp_path, rows), which="last"))["e3"] == said


@pytest.mark.parametrize(
    "part",
    [
        {"contentType": "application/pdf", "data": "JVBERi0xLjQ="},
        {"contentType": "text/rtf", "data": "e1xydGYxIGhpfQ=="},
        {"contentType": "application/rtf", "data": "e1xydGYxIGhpfQ=="},
        {"contentType": "text/plain", "data": "e1xydGYxIGhpfQ=="},
        {"data": "JVBERi0xLjQ="},
        {"contentType": "application/pdf", "url": "Binary/1"},
        {"contentType": "text/plain"},
        {"contentType": "text/plain", "url": "data:image/png;base64,iVBORw0K", "data": ""},
    ],
)
def test_what_is_no_text_is_left_out_and_counted(part: Resource, tmp_path: Path) -> None:
    rows = [*hospital(), document("d4", 2, when(3), "e3", part)]
    built = build(write(tmp_path, rows), attachments="drop")
    assert texts(built)["e3"] == "Note d3."
    assert flow(built)["notes with a text attachment"] == 1


@pytest.mark.parametrize("address", ["#nobody", "Binary/7", "https://records.example/7", "data:text/plain;base64,@"])
def test_an_address_without_its_text(address: str, tmp_path: Path) -> None:
    rows = [*hospital(), document("d4", 2, when(3), "e3", {"contentType": "text/plain", "url": address})]
    folder = write(tmp_path, rows)
    with pytest.raises(InputError, match=r"row 11: the DocumentReference has (only the address|an attachment that)"):
        build(folder)
    assert flow(build(folder, attachments="drop"))["notes with a text attachment"] == 1


def test_html_keeps_lines_and_drops_scripts() -> None:
    html = "<html><head><style>p{}</style></head><body><h1>Plan</h1><ul><li>a</li><li>b</li></ul><script>x()</script>"
    assert [line.strip(" *") for line in html_text(html).splitlines() if line.strip()] == ["Plan", "a", "b"]


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    rows = [
        *hospital(),
        document("x1", 1, when(1), "e1", status="entered-in-error"),
        document("x2", 1, when(1), "e1", attachment("kept"), status="superseded"),
        document("x3", 1, when(1), "e1", {"contentType": "application/pdf", "data": "JVBERg=="}),
        report("r1", 1, when(1.5), "e1", attachment("kept")),  # repeats x2
        report("r2", 1, when(2), "e1", attachment("CT: clear.")),
        report("d1", 1, when(3), "e1", attachment("same id as a document")),
        encounter("e4", 2, when(8), when(9), status="entered-in-error"),
    ]
    built = build(write(tmp_path, rows))
    assert texts(built)["e1"].count("NEXT NOTE") == 3
    steps = flow(built)
    assert steps["notes not entered in error"] == 1
    assert steps["notes with a text attachment"] == 1
    assert steps["distinct notes"] == 1
    assert steps["encounters that took place"] == 1
    assert labels(built)["e3"] == 0  # e4 never was
    assert build(tmp_path, superseded="drop").cohort.texts[0].startswith("kept")  # then r1 is no repetition
    assert texts(build(tmp_path, types="24627-2"))["e1"].startswith("kept")
    assert set(texts(build(tmp_path, types="discharge*", resources="DiagnosticReport,DocumentReference"))) == {
        *("e1", "e2", "e3")
    }


def test_race_and_ethnicity_of_us_core(tmp_path: Path) -> None:
    def extension(kind: str, *names: str, text: str = "") -> Resource:
        omb = [{"url": "ombCategory", "valueCoding": {"code": "1", "display": name}} for name in names]
        return {"url": US_CORE + kind, "extension": [*omb, {"url": "text", "valueString": text}]}

    rows = hospital()
    rows[0]["extension"] = [extension("race", "White", "Asian"), extension("ethnicity", "Hispanic or Latino")]
    rows[1]["extension"] = [extension("race", text="Asked but no answer")]
    del rows[1]["birthDate"]
    cases = build(write(tmp_path, rows)).cohort.cases
    assert cases["race"].to_list() == ["Asian, White", "Asian, White", "Asked but no answer"]
    assert cases["ethnicity"].to_list() == ["Hispanic or Latino", "Hispanic or Latino", None]
    assert cases["age"].to_list() == [79, 79, None]


def ill(number: str, who: int, at: str | None, status: str = "confirmed", **more: object) -> Resource:
    code = coded("I50.9", system="http://hl7.org/fhir/sid/icd-10-cm")
    rest = {"onsetDateTime": at, "verificationStatus": coded(status), "subject": {"reference": f"Patient/{who}"}}
    return {"resourceType": "Condition", "id": number, "code": code, **rest, **more}


def pulse(number: str, value: float, at: str, **more: object) -> Resource:
    rest = {"subject": {"reference": "Patient/1"}, "effectiveDateTime": at, "valueQuantity": {"value": value}}
    return {"resourceType": "Observation", "id": number, "status": "final", "code": coded("8867-4"), **rest, **more}


def test_death_conditions_and_observations(tmp_path: Path) -> None:
    rows = [*hospital(), ill("c1", 1, when(10)), ill("c2", 2, when(7), "entered-in-error")]
    rows += [pulse("o1", 60, when(1)), pulse("o2", 70, when(4)), pulse("o3", 90, when(6))]
    rows[0]["deceasedDateTime"] = when(25)
    rows[1]["deceasedBoolean"] = True
    folder = write(tmp_path, rows)
    assert labels(build(folder, outcome="death", days=10)) == {"e1": 0, "e2": 1}  # when 2 died is not known
    for code in ("I50*", "http://hl7.org/fhir/sid/icd-10-cm|I50.9"):
        assert labels(build(folder, outcome="condition", conditions=code, prevalent="keep"))["e1"] == 1
    built = build(folder, outcome="condition", conditions="i50.9", observations="8867-4")
    assert labels(built) == {"e1": 1, "e3": 0}
    assert built.cohort.cases["observation_8867-4"].to_list() == [70, None]


# Up to day 12.5: a note of day 14 or later without a visit is joined to e2, whose window begins then.
late = st.tuples(st.floats(1 / 1440, 6.5), st.sampled_from([-11.0, -5.0, 0.0, 5.5, 13.0, None]), st.sampled_from(["e1", ""]))  # fmt: skip  # noqa: E501


@settings(max_examples=4, deadline=None)
@given(notes=st.lists(late, min_size=12, max_size=12))
def test_a_note_after_the_index_changes_nothing_in_any_time_zone(
    notes: list[tuple[float, float | None, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A note at the index's instant or before, written in another zone, does change it."""
    folder, rows = tmp_path_factory.mktemp("fhir"), hospital()
    before = build(write(folder, rows)).cohort.fingerprint
    for k, (days, zone, visit) in enumerate(notes):
        # The clock of that zone shows `zone + 5` hours more than the hospital's at the same instant.
        at = (
            when(5 + days + (zone + 5) / 24, hours_from_utc=zone)
            if zone is not None
            else when(6 + days, hours_from_utc=None)
        )
        rows.append(document(f"late{k}", 1, at, visit))
    assert build(write(folder, rows)).cohort.fingerprint == before
    rows.append(document("just", 1, when(5 - 1 / 1440 + 18 / 24, hours_from_utc=13), "e1"))
    assert "Note just." in texts(build(write(folder, rows)))["e1"]


def edited(change: Callable[[list[str]], None]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        lines = (folder / "all.ndjson").read_text().splitlines(keepends=True)
        change(lines)
        (folder / "all.ndjson").write_text("".join(lines))

    return edit


def with_row(row: Resource) -> Callable[[Path], None]:
    return edited(lambda lines: lines.append(json.dumps(row) + "\n"))


def cut(lines: list[str]) -> None:
    lines[8] = lines[8][:90] + "\n"


NOBODY = document("d7", 1, when(1), "e1") | {"subject": None}


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (edited(cut), "all.ndjson, row 9: the line is not JSON; export the file again: it may be cut off."),
        (with_row(document("d7", 1, when(1), "e1", {"contentType": "text/plain", "data": "###"})),
         "row 11: the DocumentReference has an attachment that is not base64"),
        (with_row(document("d7", 1, when(1), "e1", {"contentType": "text/plain", "url": "https://x.org/Binary/1"})),
         "row 11: the DocumentReference has only the address of its text; let the export include attachments"),
        (with_row(document("d7", 1, when(1), "e1", {"contentType": "text/plain; charset=utf-8", "data": "/w=="})),
         "row 11: the DocumentReference has an attachment that is not utf-8"),
        (with_row(NOBODY), "row 11: the DocumentReference has no patient (subject)"),
        (with_row(document("d7", 1, "yesterday", "e1")), "row 11: the DocumentReference has a time that can't be read"),
        (with_row({"resourceType": "Encounter", "id": "e", "period": "long", "subject": {"reference": "Patient/1"}}),
         "row 11: the Encounter does not have the structure of FHIR R4"),
        (with_row({"resourceType": "Patient"}), "row 11: the Patient has no id"),
    ],
)  # fmt: skip
def test_broken_lines(edit: Callable[[Path], None], said: str, tmp_path: Path) -> None:
    edit(write(tmp_path / "fhir", hospital()))
    with pytest.raises(InputError) as caught:
        build_cohort("fhir", tmp_path / "fhir", tmp_path / "cohort.parquet")
    assert said in str(caught.value)
    assert "Note d" not in str(caught.value)
    assert not list(tmp_path.glob("cohort*"))


def test_unreadable_attachments_can_be_left_out(tmp_path: Path) -> None:
    rows = [*hospital(), document("d7", 1, when(1), "e1", {"contentType": "text/plain", "url": "Binary/1"})]
    built = build(write(tmp_path, rows), attachments="drop")
    assert flow(built)["notes with a text attachment"] == 1


def test_damaged_and_empty_folders(tmp_path: Path) -> None:
    def refused(folder: Path, **options: object) -> str:
        with pytest.raises(InputError) as caught:
            build(folder, **options)
        return str(caught.value)

    assert "folder not found" in refused(tmp_path / "no")
    assert "there is no .ndjson file; give the folder" in refused(tmp_path)
    (tmp_path / "bundle.json").write_text("{}")
    assert "there is no .ndjson file; write one resource per line" in refused(tmp_path)
    assert "this is not a .ndjson file" in refused(tmp_path / "bundle.json")
    folder = write(tmp_path / "zipped", hospital(), name="a.ndjson.gz")
    whole = (folder / "a.ndjson.gz").read_bytes()
    (folder / "a.ndjson.gz").write_bytes(whole[: len(whole) // 2])
    assert "a.ndjson.gz: the gzip file is cut off or damaged" in refused(folder)
    (folder / "a.ndjson.gz").write_bytes(gzip.compress(b'{"eventId": "kickoff"}\n'))
    assert "no file has a resource that palpate reads" in refused(folder)
    notes = write(tmp_path / "notes", [document("d1", 1, when(0), "e1")])
    assert (
        "the files have no Encounter; export this type too; notes alone are cases with `--set cases=notes"
        in refused(notes, cases="visits")
    )
    bundle = {"resourceType": "Bundle", "entry": [{"resource": patient(1)}]}
    assert "all.ndjson, row 1: the line is a Bundle; write one" in refused(write(tmp_path / "bundle", [bundle]))
    (tmp_path / "bundle" / "all.ndjson").write_text(json.dumps(bundle, indent=1))
    assert "row 1: the line is not JSON; write one resource per line" in refused(tmp_path / "bundle")
    (tmp_path / "bundle" / "all.ndjson").write_text(json.dumps(hospital()))
    assert "row 1: the line is a list of resources; write one resource per line" in refused(tmp_path / "bundle")
    (tmp_path / "bundle" / "all.ndjson").write_text("\n".join(map(json.dumps, hospital())), encoding="utf-16")
    assert "all.ndjson: the file is UTF-16; save it as UTF-8" in refused(tmp_path / "bundle")
    assert "the files have no Patient" in refused(notes, cases="notes", outcome="death")
    assert "no Condition with one of I50" in refused(write(tmp_path / "x", hospital()), outcome="condition", conditions="I50")  # fmt: skip  # noqa: E501
    assert "'Media' holds no notes" in refused(notes, resources="Media")


def test_one_file_and_a_cohort_that_is_left_empty(tmp_path: Path) -> None:
    file = write(tmp_path, hospital()) / "all.ndjson"
    assert build(file).cohort.fingerprint == build(tmp_path).cohort.fingerprint
    with pytest.raises(InputError) as caught:
        build(file, visits="EMER")
    assert (
        "(it dropped the last 4 rows: another kind of visit (`visits=all` takes every kind)); change the option"
        in str(caught.value)
    )


def test_a_patient_without_anything_else(tmp_path: Path) -> None:
    rows = [*hospital(), patient(3), encounter("e5", 3, when(1), None), encounter("e6", 7, when(1), when(2))]
    steps = flow(build(write(tmp_path, rows)))
    assert steps["with an index (the end)"] == 1
    assert steps["patients who are known"] == 1


def test_midnight_is_a_time_if_it_is_written(tmp_path: Path) -> None:
    rows = [*hospital(), encounter("e4", 2, when(50), "2030-03-01T00:00:00-05:00")]
    rows += [document("d4", 2, when(51), "e4"), document("late", 2, "2030-03-01T20:00:00-05:00", "e4")]
    assert texts(build(write(tmp_path, rows)))["e4"] == "Note d4."
    rows[-1]["date"] = "2030-03-01"  # of a day alone it is not known
    assert texts(build(write(tmp_path, rows)))["e4"].endswith("Note late.")


def test_readmission_across_offsets_and_without_a_start(tmp_path: Path) -> None:
    rows = [*hospital(), patient(3), patient(4)]
    rows += [
        encounter("a", 3, "2030-03-01T08:00:00Z", "2030-03-01T10:00:00Z"),
        encounter("b", 3, "2030-03-01T06:00:00-05:00", "2030-03-02T06:00:00-05:00"),
        encounter("c", 4, "", when(60)) | {"period": {"end": when(60)}},
        encounter("d", 4, when(70), when(71)),
    ]
    found = labels(build(write(tmp_path, rows), text="leave"))
    assert {each: found[each] for each in "abcd"} == {"a": 1, "b": 0, "c": 1, "d": 0}


def test_what_was_written_last_counts_for_conditions_and_observations(tmp_path: Path) -> None:
    gone: Resource = {"status": "entered-in-error", "code": {}, "valueQuantity": None}
    rows = [*hospital(), ill("c1", 1, when(10)), ill("c1", 1, when(10), "entered-in-error")]
    rows += [ill("c2", 2, when(10)), ill("c2", 2, when(10), code=coded("J18.9")), ill("c3", 2, when(11), "refuted")]
    rows += [pulse("o1", 60, when(1)), pulse("o2", 70, when(4)), pulse("o2", 0, when(4), **gone)]
    built = build(write(tmp_path, rows), outcome="condition", conditions="I50*", observations="8867-4")
    assert labels(built) == {"e1": 0, "e2": 0, "e3": 0}
    assert built.cohort.cases["observation_8867-4"].to_list() == [60, 60, None]
    steps = flow(built)
    assert steps["conditions with different ids"] == 2
    assert steps["conditions not entered in error"] == 2
    assert steps["conditions that were asked for"] == 1
    assert (steps["observations with different ids"], steps["observations not entered in error"]) == (1, 1)


@pytest.mark.parametrize(
    ("onset", "expected"),
    [
        ("2029", {"e3": 0}),  # patient 1 had it before the index, whenever it was recorded
        ("2029-12", {"e3": 0}),
        ("2030", {"e1": 1, "e3": 0}),  # perhaps before, perhaps after: when it was recorded counts
        ("2030-01", {"e1": 1, "e3": 0}),
    ],
)
def test_an_onset_of_a_month_or_a_year(onset: str, expected: dict[str, int], tmp_path: Path) -> None:
    folder = write(tmp_path, [*hospital(), ill("c1", 1, onset, recordedDate=when(10))])
    assert labels(build(folder, outcome="condition", conditions="I50*")) == expected
    kept = labels(build(folder, outcome="condition", conditions="I50*", prevalent="keep"))
    assert kept == {"e1": expected.get("e1", 0), "e2": 0, "e3": 0}


def test_a_month_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="row 11: the Condition has a time that can't be read"):
        build(write(tmp_path, [*hospital(), ill("c1", 1, "2029-13")]), outcome="condition", conditions="I50*")


def test_observations_of_the_day_and_by_name(tmp_path: Path) -> None:
    rows = [*hospital(), pulse("o1", 60, "2029-12-31"), pulse("o2", 99, when(0, hours_from_utc=None))]
    rows += [pulse("o3", 37, "2029-12-30", code={"text": "Temperature"})]
    wanted = {"outcome": "death", "text": "leave", "observations": "8867-4,temp*"}
    folder = write(tmp_path, rows)
    for index, value in (("start", 60), ("end", 99)):
        cases = build(folder, index=index, **wanted).cohort.cases
        assert cases["observation_8867-4"].to_list()[0] == value
        assert cases["observation_Temperature"].to_list()[0] == 37


def written(resource: Resource, at: str | None = None, version: str | None = None, **more: object) -> Resource:
    """The resource as one of its versions, of which `meta` says when it was written."""
    meta = {"lastUpdated": at, "versionId": version}
    return {**resource, "meta": {name: value for name, value in meta.items() if value is not None}, **more}


FIRST, SECOND = "2030-01-06T12:00:00+05:00", "2030-01-06T09:00:00Z"  # two hours later, though its clock shows less


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ((FIRST, "2"), (SECOND, "1")),
        ((None, "9"), (None, "10")),
        ((None, "9"), (SECOND, None)),
        ((FIRST, "9"), (FIRST, "10")),
    ],
)
def test_the_newest_version_counts_in_whatever_order(
    older: tuple[str | None, str | None], newer: tuple[str | None, str | None], newest_first: bool, tmp_path: Path
) -> None:
    gone = coded("entered-in-error")
    told = [patient(1), encounter("e1", 1, when(0), when(5)), document("d1", 1, when(4), "e1")]
    told += [ill("c1", 1, when(10)), ill("c2", 2, when(10)), pulse("o1", 60, when(1)), pulse("o2", 70, when(2))]
    changed: list[Resource] = [{"gender": "male"}, {"period": {"start": when(0), "end": when(6)}}]
    changed += [{"content": [{"attachment": attachment("Corrected.")}]}, {"verificationStatus": gone}]
    changed += [{"code": coded("J18.9")}, {"valueQuantity": {"value": 61}}, {"code": coded("8310-5")}]
    before = [written(each, *older) for each in told]
    after = [written(each, *newer, **what) for each, what in zip(told, changed, strict=True)]
    rest = [each for each in hospital() if each["id"] not in ("1", "e1", "d1")]
    files = (after, before) if newest_first else (before, after)
    for k, rows in enumerate((rest, *files)):
        write(tmp_path, rows, name=f"{k}.ndjson")
    built = build(tmp_path, outcome="condition", conditions="I50*", observations="8867-4")
    case = built.cohort.cases.row(by_predicate=pl.col("case_id") == "e1", named=True)
    assert (case["gender"], case["time"].isoformat()[:10], case["text"]) == ("M", "2030-01-07", "Corrected.")
    assert case["observation_8867-4"] == 61
    assert labels(built) == {"e1": 0, "e2": 0, "e3": 0}
    steps = flow(built)
    assert (steps["conditions with different ids"], steps["conditions not entered in error"]) == (2, 1)
    assert steps["conditions that were asked for"] == 1


def test_a_leap_second_is_the_second_before_it(tmp_path: Path) -> None:
    rows = [*hospital(), patient(3), encounter("e4", 3, when(60), "2030-06-30T23:59:60Z")]
    rows += [document("d4", 3, "2030-06-30T23:59:60.5Z", "e4"), document("d5", 3, "2030-06-30T18:59:59-05:00", "e4")]
    built = build(write(tmp_path, rows))
    case = built.cohort.cases.row(by_predicate=pl.col("case_id") == "e4", named=True)
    assert (case["time"].isoformat(), case["text"]) == ("2030-06-30T23:59:59", "Note d5.")


def test_parts_of_a_stay_are_no_visits_of_their_own(tmp_path: Path) -> None:
    def part(number: str, of: str, start: float, end: float, who: int = 3, **more: object) -> Resource:
        return encounter(number, who, when(start), when(end), partOf={"reference": f"Encounter/{of}"}, **more)

    rows = [*hospital(), patient(3), encounter("stay", 3, when(50), when(60))]
    rows += [part("ward", "stay", 50, 53), part("bed", "ward", 50, 52), part("icu", "stay", 53, 60)]
    rows += [part("clinic", "stay", 55, 56, **{"class": {"code": "AMB"}}), part("lone", "nowhere", 75, 76)]
    rows += [part("a", "b", 100, 101), part("b", "a", 101, 102), part("self", "self", 200, 201)]
    rows += [part("other", "stay", 300, 301, who=2)]
    rows += [
        document("n1", 3, when(51), "bed"),
        document("n2", 3, when(54), "icu"),
        document("n3", 3, when(59), "stay"),
    ]
    folder = write(tmp_path, rows)
    built = build(folder, text="leave")
    found = labels(built)
    assert {name: found.get(name) for name in ("stay", "ward", "bed", "icu", "lone", "self", "other")} == {
        **{"stay": 1, "ward": None, "bed": None, "icu": None, "lone": 1, "self": 0, "other": 0}
    }
    assert flow(built)["encounters that are a visit of their own"] == 3
    assert texts(build(folder))["stay"] == f"Note n1.{NOTE_MARK}Note n2.{NOTE_MARK}Note n3."
    apart = build(folder, parts="keep")
    assert (labels(apart)["bed"], texts(apart)["bed"], texts(apart)["stay"]) == (1, "Note n1.", "Note n3.")


def test_the_encounter_of_a_document_as_older_servers_write_it(tmp_path: Path) -> None:
    rows = hospital()
    rows[-1]["context"] = {"encounter": {"reference": "Encounter/e3"}}
    rows[-1]["date"] = when(-3)  # before the visit and its window: only the reference tells
    assert texts(build(write(tmp_path, rows)))["e3"] == "Note d3."


@pytest.mark.parametrize("said_by", ["former", "later", "chain", "circle", "nobody"])
def test_two_records_of_one_patient_are_one_patient(said_by: str, tmp_path: Path) -> None:
    def link(to: str, kind: str) -> dict[str, object]:
        return {"link": [{"other": {"reference": f"Patient/{to}"}, "type": kind}]}

    former, later, middle = patient("A"), patient("B"), patient("M")
    if said_by == "former":
        former |= link("B", "replaced-by")
    if said_by == "later":
        later |= link("A", "replaces")
    if said_by in ("chain", "circle"):
        former |= link("M", "replaced-by")
        middle |= link("B", "replaced-by")
    if said_by == "circle":
        later |= link("A", "replaced-by")
    rows = [former, later, middle, encounter("a1", "A", when(0), when(5)), encounter("b1", "B", when(15), when(18))]
    rows += [encounter("z", "B", when(900), when(901)), document("da", "A", when(4), "a1")]
    rows += [document("db", "B", when(17), "b1")]
    built = build(write(tmp_path, rows))
    one = said_by in ("former", "later", "chain")
    assert labels(built) == {"a1": int(one), "b1": 0}
    assert (built.cohort.n_patients, texts(built)["a1"]) == (1 if one else 2, "Note da.")
    assert any("Patient.link" in fact for fact in built.cohort.facts) == one


@pytest.mark.parametrize(
    ("parts", "n"),
    [
        ([attachment("Page one."), attachment("Page two.")], 1),
        ([attachment("Page one."), attachment("Page one.")], 0),
        ([attachment("Page one."), attachment("<p>Page one.</p>", "text/html")], 0),
        ([attachment("<p>One</p>", "text/html"), attachment("Page one."), attachment("<p>Two</p>", "text/html")], 0),
        ([{**attachment("Page one."), "data": None, "url": "data:,Page%20one."}, attachment("Page two.")], 1),
    ],
)
def test_a_second_text_of_the_same_format_is_counted(parts: list[Resource], n: int, tmp_path: Path) -> None:
    """To FHIR all attachments are one document: the first text is read, and it is said that there are others."""
    rows = [*hospital(), document("x", 1, when(1), "e1", *parts)]
    built = build(write(tmp_path, rows))
    said = [each for each in built.assumed if "several different texts" in each]
    assert [each.partition(" several")[0] for each in said] == ["1 note has"] * n
    assert any(text.startswith("Page one.") for text in built.cohort.cases["text"])
    assert not any("two" in text.lower() for text in built.cohort.cases["text"])
