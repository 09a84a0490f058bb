"""Files as careless people write them: read for what they mean, or refused in a sentence that says what is wrong."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from palpate.data.cohorts.fhir import FhirOptions, build_fhir
from palpate.data.cohorts.meds import build_meds
from palpate.data.cohorts.omop import build_omop
from palpate.data.hospitals.scans import LONGEST_ROW
from palpate.errors import CohortError
from tests.data.standards import fhir_files, omop_files, test_meds
from tests.data.standards.test_omop import labels, texts

US_CORE = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-race"
DSTU2 = "http://hl7.org/fhir/StructureDefinition/us-core-race"


@pytest.mark.parametrize(("name", "zipped"), [("all.ndjson", True), ("all.ndjson.gz", False)])
def test_fhir_whose_name_does_not_say_whether_it_is_gzipped(name: str, zipped: bool, tmp_path: Path) -> None:
    plain = fhir_files.write(tmp_path / "plain", fhir_files.hospital())
    text = (plain / "all.ndjson").read_bytes()
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / name).write_bytes(gzip.compress(text) if zipped else text)
    assert texts(build_fhir(tmp_path / "odd")) == texts(build_fhir(plain))


@pytest.mark.parametrize("url", [US_CORE, DSTU2])
def test_fhir_races_as_a_codeable_concept(url: str, tmp_path: Path) -> None:
    """As the extension's own value, as the value of its category, and with a text alone."""
    white, asian = ({"coding": [{"code": "1", "display": name}]} for name in ("White", "Asian"))
    for extension, race in (
        ({"url": url, "valueCodeableConcept": white}, "White"),
        ({"url": url, "extension": [{"url": "ombCategory", "valueCodeableConcept": asian}]}, "Asian"),
        ({"url": url, "valueCodeableConcept": {"text": "Other"}}, "Other"),
        ({"url": url, "valueString": "unknown"}, "unknown"),
    ):
        rows = fhir_files.hospital()
        rows[0]["extension"] = [extension]
        cases = build_fhir(fhir_files.write(tmp_path, rows)).cohort.cases
        assert race in cases["race"].to_list()


def test_fhir_references_to_what_a_resource_contains(tmp_path: Path) -> None:
    """A contained encounter is no visit of the export: the note belongs to the visit in whose time it was written."""
    rows = fhir_files.hospital()
    note = next(row for row in rows if row["resourceType"] == "DocumentReference")
    expected = texts(build_fhir(fhir_files.write(tmp_path / "a", rows)))
    note["context"]["encounter"] = [{"reference": "#visit"}]
    assert texts(build_fhir(fhir_files.write(tmp_path / "b", rows))) == expected
    note["subject"] = {"reference": "#patient"}
    folder = fhir_files.write(tmp_path / "c", rows)
    with pytest.raises(CohortError, match=r"the DocumentReference has no patient \(subject\)"):
        build_fhir(folder, options=FhirOptions(cases="notes", outcome="none"))


@pytest.mark.parametrize(
    "more", [{"class": [{"coding": [{"code": "IMP"}]}]}, {"actualPeriod": {"start": "2030-01-01"}}]
)
def test_fhir_of_another_release(more: dict[str, object], tmp_path: Path) -> None:
    """In R5 the class and the period of an encounter are elsewhere: without them it would only look like no stay."""
    rows = [{**each, **(more if each["id"] == "e2" else {})} for each in fhir_files.hospital()]
    with pytest.raises(CohortError, match=r"row 5: the Encounter is written in FHIR R5; export R4"):
        build_fhir(fhir_files.write(tmp_path, rows))


def test_fhir_with_documents_of_another_release(tmp_path: Path) -> None:
    """In R5 the context is a list of references."""
    rows = fhir_files.hospital()
    (number, note), *_ = ((k, each) for k, each in enumerate(rows) if each["resourceType"] == "DocumentReference")
    note["context"] = note["context"]["encounter"]
    with pytest.raises(CohortError, match=rf"row {number + 1}: the DocumentReference is written in FHIR R5; export R4"):
        build_fhir(fhir_files.write(tmp_path, rows))


def test_fhir_says_when_the_data_end(tmp_path: Path) -> None:
    built = build_fhir(fhir_files.write(tmp_path, fhir_files.hospital()))
    said = (
        "the data end for everyone on 2031-02-05, when the last visit begins, because FHIR has no observation periods"
    )
    assert said in built.assumed
    assert f"assumed: {said}" in built.flow_table["name"].to_list()
    ignored = build_fhir(tmp_path, options=FhirOptions(observation="ignore"))
    assert not any("the data end" in each for each in ignored.assumed)


@pytest.mark.parametrize("needles", ['5" needle', '5" and 6" needle'])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_omop_with_quotes_in_cells_without_quotes(needles: str, end: str, tmp_path: Path) -> None:
    folder = omop_files.write(tmp_path, omop_files.hospital())
    text = (folder / "NOTE.csv").read_text()
    (folder / "NOTE.csv").write_bytes(text.replace("Note 11.", needles).replace("\n", end).encode())
    assert texts(build_omop(folder))["1"].startswith(needles)


def test_omop_as_other_programs_write_it(tmp_path: Path) -> None:
    """NULL in empty cells, blanks in the header."""
    folder = omop_files.write(tmp_path / "a", omop_files.hospital())
    expected = build_omop(folder)
    for file in folder.iterdir():
        head, _, rest = file.read_text().partition("\n")
        rows = rest.replace(",,", ",NULL,").replace(",,", ",NULL,")
        file.write_text(f"{head.replace(',', ', ')}\n{rows}")
    built = build_omop(folder)
    assert (texts(built), labels(built)) == (texts(expected), labels(expected))
    assert built.cohort.cases["race"].to_list() == expected.cohort.cases["race"].to_list()


def test_omop_that_is_gzipped_without_saying_so(tmp_path: Path) -> None:
    folder = omop_files.write(tmp_path, omop_files.hospital())
    (folder / "PERSON.csv").write_bytes(gzip.compress((folder / "PERSON.csv").read_bytes()))
    with pytest.raises(CohortError, match=r"PERSON.csv: this is a gzip file; name it PERSON.csv.gz, or unpack it"):
        build_omop(folder)


def test_meds_labels_as_categories(tmp_path: Path) -> None:
    times = [(who, day, ("high", "low")[k % 2]) for k, (who, day, _) in enumerate(test_meds.TIMES)]
    folder = test_meds.write(tmp_path, test_meds.events(), times, value="categorical_value")
    expected = build_meds(folder)
    for file in folder.rglob("task_labels/**/*.parquet"):
        pl.read_parquet(file).with_columns(pl.col("categorical_value").cast(pl.Categorical)).write_parquet(file)
    for file in folder.rglob("data/**/*.parquet"):
        pl.read_parquet(file).with_columns(pl.col("code").cast(pl.Categorical)).write_parquet(file)
    built = build_meds(folder)
    assert built.cohort.labels == expected.cohort.labels == ("high", "low")
    assert built.cohort.fingerprint == expected.cohort.fingerprint


ENDS: dict[str, Callable[[bytes], bytes]] = {
    "a blank line at the end": lambda text: text + b"\r\n\r\n",
    "a blank line among the rows": lambda text: text.replace(b"\n", b"\n\r\n", 3),
    "some lines": lambda text: text.replace(b"\n", b"\r\n", 3),
    "the line ends of an old Mac": lambda text: text.replace(b"\n", b"\r", 2),
}


@pytest.mark.parametrize("name", ["VISIT_OCCURRENCE", "NOTE"])
@pytest.mark.parametrize("ends", ENDS)
def test_omop_with_mixed_line_ends(ends: str, name: str, tmp_path: Path) -> None:
    """As in tables that were put together from several; line breaks inside of a note stay what they are."""
    tables = omop_files.hospital()
    tables["NOTE"][-1]["note_text"] = 'First "line".\nSecond\r\nthird.'
    folder = omop_files.write(tmp_path, tables)
    expected = build_omop(folder)
    file = folder / f"{name}.csv"
    file.write_bytes(ENDS[ends](file.read_bytes()))
    built = build_omop(folder)
    assert (texts(built), labels(built)) == (texts(expected), labels(expected))


def test_a_bad_cell_of_a_table_with_mixed_line_ends(tmp_path: Path) -> None:
    tables = omop_files.hospital()
    tables["VISIT_OCCURRENCE"][3]["visit_start_datetime"] = "tomorrow"
    file = omop_files.write(tmp_path, tables) / "VISIT_OCCURRENCE.csv"
    file.write_bytes(file.read_bytes() + b"\r\n\r\n")
    with pytest.raises(CohortError, match=r"VISIT_OCCURRENCE.csv, row 4, column 'visit_start_datetime': "):
        build_omop(tmp_path)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_omop_with_the_row_numbers_of_pandas(end: str, tmp_path: Path) -> None:
    """The first cell of the header is empty: cells must stay under their own columns."""
    folder = omop_files.write(tmp_path, omop_files.hospital())
    expected = build_omop(folder)
    for file in folder.iterdir():
        head, *rows = file.read_text().splitlines()
        file.write_bytes("\n".join([f",{head}", *(f"{k},{row}" for k, row in enumerate(rows)), end]).encode())
    built = build_omop(folder)
    assert built.cohort.fingerprint == expected.cohort.fingerprint


def test_the_file_that_duckdb_cannot_read_is_named(tmp_path: Path) -> None:
    tables = omop_files.hospital()
    tables["NOTE"][2]["note_text"] = "a" * (LONGEST_ROW + 1)
    folder = omop_files.write(tmp_path, tables)
    with pytest.raises(CohortError, match=r"NOTE.csv: the tables can't be read \(DuckDB: InvalidInput, line 4\)"):
        build_omop(folder)
