"""Dates far beyond all others, such as 2921 for 2021: they are counted and said, and don't say when the data end."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from palpate.data.cohorts import BuiltCohort
from palpate.data.cohorts.fhir import build_fhir
from palpate.data.cohorts.omop import OmopOptions, build_omop
from tests.data.standards import fhir_files, omop_files, test_meds
from tests.data.standards.test_omop import labels
from tests.e2e.command_line import CommandLine

CENTURIES = 900 * 365.25
DECADES = 60 * 365.25


@pytest.fixture
def palpate(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return CommandLine(capsys, monkeypatch)


def omop(folder: Path, *starts: float) -> BuiltCohort:
    tables = omop_files.hospital()
    tables["VISIT_OCCURRENCE"] += [omop_files.visit(100 + k, 9, start, start + 1) for k, start in enumerate(starts)]
    return build_omop(omop_files.write(folder, tables))


def fhir(folder: Path, *starts: float) -> BuiltCohort:
    when = fhir_files.when
    more = [fhir_files.encounter(f"x{k}", 9, when(at), when(at + 1)) for k, at in enumerate(starts)]
    more.append(fhir_files.document("d9", 9, when(400.5), "e9"))
    return build_fhir(fhir_files.write(folder, [*fhir_files.hospital(), *more]))


def kept(built: BuiltCohort) -> dict[str, int]:
    return dict(sorted(labels(built).items()))


@pytest.mark.parametrize("reader", [omop, fhir])
def test_a_stray_visit_does_not_end_the_data(reader: Callable[..., BuiltCohort], tmp_path: Path) -> None:
    expected = reader(tmp_path / "a")
    assert not any("mistake" in each for each in expected.assumed)
    built = reader(tmp_path / "b", CENTURIES)
    assert kept(built) == kept(expected)  # the last visit, of day 400, is followed by nothing that is known
    (said,) = (each for each in built.assumed if "mistake" in each)
    day = (omop_files.START + timedelta(days=CENTURIES)).date()
    assert said.startswith(f"dates from {day} on are taken for mistakes and don't say when the data end")
    assert said.endswith("(1 of the visits)")
    assert f"assumed: {said}" in built.flow_table["name"].to_list()


@pytest.mark.parametrize("reader", [omop, fhir])
def test_many_later_visits_are_no_strays(reader: Callable[..., BuiltCohort], tmp_path: Path) -> None:
    """As where each patient's dates were shifted by decades, to hide them."""
    built = reader(tmp_path, DECADES, DECADES + 40)
    assert not any("mistake" in each for each in built.assumed)
    assert len(kept(built)) > len(kept(reader(tmp_path / "b")))


@pytest.mark.parametrize("reader", [omop, fhir])
def test_two_strays_of_seven_dates_are_strays(reader: Callable[..., BuiltCohort], tmp_path: Path) -> None:
    """One in twenty is less than one of so few; but no hospital's records go on for centuries."""
    built = reader(tmp_path / "a", CENTURIES, 2 * CENTURIES)
    assert kept(built) == kept(reader(tmp_path / "b"))
    assert any("mistake" in each and each.endswith("(2 of the visits)") for each in built.assumed)


@pytest.mark.parametrize("reader", [omop, fhir])
def test_most_dates_are_no_strays(reader: Callable[..., BuiltCohort], tmp_path: Path) -> None:
    built = reader(tmp_path, *(CENTURIES + 40 * k for k in range(7)))
    assert not any("mistake" in each for each in built.assumed)


def test_the_day_that_is_named_is_no_stray(tmp_path: Path) -> None:
    assert "the data end for everyone on 2031-02-05, when the last visit begins" in omop(tmp_path, CENTURIES).assumed[0]


def test_periods_say_themselves_who_was_observed(tmp_path: Path) -> None:
    tables = omop_files.hospital()
    tables["VISIT_OCCURRENCE"].append(omop_files.visit(100, 9, CENTURIES, CENTURIES + 1))
    periods = [omop_files.period(k, k, -10, 500) for k in (1, 2, 9)]
    built = build_omop(omop_files.write(tmp_path, {**tables, "OBSERVATION_PERIOD": periods}))
    assert built.assumed == ()


def dying(folder: Path, *ends: float) -> BuiltCohort:
    """Patients 1 and 2 of the last days of the data: 2 dies ten days after the index, and 1 is observed until then."""
    tables = omop_files.hospital()
    tables["VISIT_OCCURRENCE"] += [omop_files.visit(7, 1, 396, 397), omop_files.visit(8, 2, 396, 397)]
    tables["NOTE"] += [omop_files.note(71, 1, 396.5, 7), omop_files.note(81, 2, 396.5, 8)]
    tables["DEATH"] = [{"person_id": 2, **omop_files.dated("death", 407)}]
    periods = [omop_files.period(k, who, -10, end) for k, (who, end) in enumerate(zip((1, 2, 9), ends, strict=True))]
    written = omop_files.write(folder, {**tables, "OBSERVATION_PERIOD": periods})
    return build_omop(written, options=OmopOptions(outcome="death", days=30))


def test_one_far_period_does_not_end_the_data(tmp_path: Path) -> None:
    """Else deaths alone would be kept of those who could not be followed."""
    expected = dying(tmp_path / "a", 410, 407, 410)
    built = dying(tmp_path / "b", 410, 407, CENTURIES)
    assert kept(built) == kept(expected) == {"1": 0, "2": 0, "3": 0}
    assert expected.assumed == ()
    (said,) = built.assumed
    assert "(1 of 3) are taken for open and end on 2031-02-15" in said
    assert f"assumed: {said}" in built.flow_table["name"].to_list()


def test_open_periods_end_with_the_data(tmp_path: Path) -> None:
    built = dying(tmp_path, *[25_000] * 3)
    assert kept(built) == {"1": 0, "2": 0, "3": 0}
    assert "(3 of 3) are taken for open and end on 2031-02-05" in built.assumed[0]


def test_periods_may_go_on_for_some_time_after_the_last_visit(tmp_path: Path) -> None:
    built = dying(tmp_path, 440, 407, 440)
    assert kept(built) == {"1": 0, "2": 0, "3": 0, "7": 0, "8": 1, "9": 0}
    assert built.assumed == ()


def test_notes_alone(tmp_path: Path) -> None:
    rows = [fhir_files.document(f"d{k}", 1, fhir_files.when(at), None) for k, at in enumerate((1, 2, CENTURIES))]
    built = build_fhir(fhir_files.write(tmp_path, [fhir_files.patient(1), *rows]))
    assert len(built.cohort) == 3
    assert not any("mistake" in each for each in built.assumed)  # nobody is followed


def test_meds_without_labels_by_the_command_line(tmp_path: Path, palpate: CommandLine) -> None:
    rows = [*test_meds.events(), test_meds.note(1, CENTURIES, "Typed wrongly.")]
    folder = test_meds.write(tmp_path / "meds", rows)
    shutil.rmtree(folder / "task_labels")
    expected = test_meds.write(tmp_path / "expected", test_meds.events())
    shutil.rmtree(expected / "task_labels")
    built = test_meds.build(folder)
    assert built.cohort.fingerprint == test_meds.build(expected).cohort.fingerprint
    done = palpate("cohort", "meds", "--source", folder, "--out", tmp_path / "meds.parquet")
    assert done.code == 0
    assert "are taken for mistakes and don't say when a case is" in done.err
