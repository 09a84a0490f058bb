"""The same seed gives the same bytes, whatever the number of workers and of patients."""

from __future__ import annotations

import hashlib
import signal
import subprocess
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import palpate.synthetic as hospital
from palpate.errors import InputError
from palpate.synthetic import Plants, write_hospital
from tests.synthetic.conftest import read


def digest(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_two_runs_are_identical(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_hospital(tmp_path / "one", n_patients=60, seed=5)
    monkeypatch.setattr(hospital, "_PARALLEL_FROM", 1)
    write_hospital(tmp_path / "two", n_patients=60, seed=5, workers=2)
    one, two = digest(tmp_path / "one"), digest(tmp_path / "two")
    assert one == two
    assert sum(name.endswith(".jpg") for name in one) > 50


def test_seeds_and_sites_differ(tmp_path: Path) -> None:
    texts = set()
    for seed, site in ((0, "a"), (1, "a"), (0, "b")):
        write_hospital(tmp_path / f"{seed}{site}", n_patients=5, seed=seed, site=site, images=False)  # type: ignore[arg-type]
        texts.add((tmp_path / f"{seed}{site}" / "mimic-iii/NOTEEVENTS.csv.gz").read_bytes())
    assert len(texts) == 3


@pytest.mark.parametrize("name", ["mimic-iii/NOTEEVENTS", "mimic-iv/note/discharge", "latent_studies", "latent_iii"])
def test_the_first_patients_do_not_depend_on_how_many_there_are(small: Path, tmp_path: Path, name: str) -> None:
    write_hospital(tmp_path, n_patients=20, seed=3, images=False)
    few, many = read(tmp_path, name), read(small, name)
    assert few.equals(many.head(few.height))


def test_work_grows_with_the_patients_and_no_faster(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    write_hospital(tmp_path, n_patients=12, images=False, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(k, 24) for k in range(1, 25)]


def test_the_second_process_reports_progress_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hospital, "_PARALLEL_FROM", 1)
    calls: list[tuple[int, int]] = []
    write_hospital(tmp_path, n_patients=12, images=False, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (24, 24)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_a_failure_ends_the_second_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hospital, "_PARALLEL_FROM", 1)
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def remember(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(start(*args, **options))
        return started[-1]

    def fail(done: int, total: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(hospital.subprocess, "Popen", remember)
    with pytest.raises(KeyboardInterrupt):
        write_hospital(tmp_path, n_patients=3000, progress=fail)
    assert started[0].returncode == -signal.SIGKILL


def test_pictures_change_nothing_else(tmp_path: Path) -> None:
    write_hospital(tmp_path / "with", n_patients=10)
    write_hospital(tmp_path / "without", n_patients=10, images=False)
    with_pictures = {k: v for k, v in digest(tmp_path / "with").items() if not k.endswith(".jpg")}
    assert with_pictures == digest(tmp_path / "without")


def test_an_earlier_hospital_leaves_nothing_behind(tmp_path: Path) -> None:
    write_hospital(tmp_path, n_patients=20)
    write_hospital(tmp_path, n_patients=5)
    write_hospital(tmp_path.parent / "fresh", n_patients=5)
    assert digest(tmp_path) == digest(tmp_path.parent / "fresh")


@pytest.mark.parametrize("wrong", [{"n_patients": 0}, {"seed": -1}, {"site": "c"}])
def test_wrong_input_is_one_sentence(tmp_path: Path, wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match="a hospital can"):
        write_hospital(tmp_path / "out", **wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("strength", [float("nan"), float("inf"), -float("inf"), 20.5, -1e300])
@pytest.mark.parametrize("plant", [field.name for field in fields(Plants)])
def test_a_strength_out_of_range_is_refused_before_anything_is_written(
    tmp_path: Path, plant: str, strength: float
) -> None:
    with pytest.raises(InputError, match=f"the plant '{plant}' .*use a number from -20 to 20"):
        write_hospital(tmp_path / "out", n_patients=3, plants=Plants(**{plant: strength}))
    assert not (tmp_path / "out").exists()


def test_a_folder_with_files_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty; choose another folder"):
        write_hospital(tmp_path, n_patients=3)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(InputError, match="this is not a folder"):
        write_hospital(tmp_path / "thesis.txt", n_patients=3)


def test_what_was_added_to_a_hospital_stays_when_it_is_replaced(tmp_path: Path) -> None:
    write_hospital(tmp_path, n_patients=3, images=False)
    (tmp_path / "cohort.parquet").write_text("mine")
    (tmp_path / "mimic-iii/STALE.csv").write_text("old")
    write_hospital(tmp_path, n_patients=3, images=False)
    assert (tmp_path / "cohort.parquet").read_text() == "mine"
    assert not (tmp_path / "mimic-iii/STALE.csv").exists()


def test_plants_that_are_off_change_the_outcomes_only(tmp_path: Path, off: Plants) -> None:
    """The first stay of a patient has the same conditions with and without the plants."""
    columns = ["subject_id", "frailty", "severity", "gender", "ethnicity", "has_dementia", "has_sepsis", "spurious"]
    tables = []
    for name, plants in (("on", Plants()), ("off", off)):
        write_hospital(tmp_path / name, n_patients=30, plants=plants, images=False)
        table = read(tmp_path / name, "latent_iii")
        tables.append(table.filter(table["stay"] == "0").select(columns))
    assert tables[0].equals(tables[1])
