"""MDACE's repository as it is published: annotations in `data/`, and predictions that are never taken for them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from palpate.data.annotations import mdace
from palpate.data.annotations.evidence_tables import read_evidence
from palpate.data.cohorts.mdace_sources import find_folders
from palpate.errors import CohortError
from tests.data.published import MDACE, MDACE_REPO, needs_repository, published_repository


def write_chart(folder: Path, hadm_id: int, kind: str, *, system: str = "ICD-9", code: str = "401.9") -> Path:
    annotation = {"begin": 2, "end": 5, "code": code, "code_system": f"{system}-CM", "type": kind}
    chart = {"hadm_id": hadm_id, "notes": [{"note_id": 3, "category": "ECG", "annotations": [annotation]}]}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{hadm_id}-{system}.json"
    path.write_text(json.dumps(chart), encoding="utf-8")
    return path


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A small repository of the published layout."""
    top = tmp_path / "MDACE"
    for system in ("ICD-9", "ICD-10"):
        for hadm_id in (7, 8):
            write_chart(top / "data" / "Inpatient" / system / "1.0", hadm_id, "Human", system=system)
    for model in ("one", "two"):
        for notes in ("Codeable", "Discharge"):
            write_chart(top / "predictions" / model / "Inpatient" / "ICD-9" / notes, 8, "some-attention")
    for name, lines in (("train", "7\n"), ("val", ""), ("test", "8\n")):
        place = top / "splits" / "Inpatient"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"MDace-ev-{name}.csv").write_text(lines)
    return top


def test_of_the_repository_only_the_data_is_gold(repository: Path) -> None:
    for top in (repository, repository / "data"):
        charts = list(mdace.read(top))
        assert [(chart.hadm_id, chart.system) for chart in charts] == [
            (7, "ICD-10"),
            (8, "ICD-10"),
            (7, "ICD-9"),
            (8, "ICD-9"),
        ]
        assert {a.type for chart in charts for note in chart.notes for a in note.annotations} == {"Human"}
        assert mdace.read_splits(top, "Inpatient") == {7: "train", 8: "test"}


def test_a_repository_without_its_data_is_refused(repository: Path) -> None:
    shutil.rmtree(repository / "data")
    with pytest.raises(CohortError) as caught:
        mdace.read(repository)
    assert "the folder has no charts; it has predictions/ of a model, which are not annotations" in str(caught.value)


def test_predictions_are_read_only_where_they_are_asked_for(repository: Path) -> None:
    place = repository / "predictions" / "one" / "Inpatient" / "ICD-9" / "Discharge"
    for folder in (place, repository / "predictions"):
        with pytest.raises(CohortError, match="a model's predictions, which are not what coders annotated"):
            mdace.read(folder)
    (chart,) = mdace.read(place, predictions=True)
    assert chart.notes[0].annotations[0].type == "some-attention"
    table = read_evidence(place)
    assert (len(table), table.in_notes, table.by_model) == (1, True, True)
    assert not read_evidence(repository / "data" / "Inpatient" / "ICD-9").by_model
    with pytest.raises(CohortError, match=r"admission 8 is also in .*or give the folder .*Discharge"):
        read_evidence(repository / "predictions" / "one")


def test_a_folder_that_only_happens_to_be_below_predictions(tmp_path: Path) -> None:
    place = tmp_path / "predictions" / "MDACE" / "Inpatient" / "ICD-9"
    write_chart(place, 7, "MapType.EXACT")
    assert not mdace.holds_predictions(place)
    assert len(list(mdace.read(tmp_path / "predictions" / "MDACE"))) == 1


def test_several_sets_of_charts_are_no_table(repository: Path) -> None:
    with pytest.raises(CohortError) as caught:
        read_evidence(repository)
    assert "charts of several settings or code systems; give one of the folders below" in str(caught.value)
    assert "Inpatient/ICD-10, Inpatient/ICD-9" in str(caught.value)


def test_the_cohort_finds_the_repository(repository: Path) -> None:
    (repository.parent / "NOTEEVENTS.csv").write_text("ROW_ID\n")
    for source, expected in ((repository.parent, repository), (repository, repository)):
        found = find_folders(source, mimic=repository.parent)
        assert found.mdace == expected
    shutil.rmtree(repository / "data")
    # splits/Inpatient has lists of charts and no chart.
    with pytest.raises(CohortError, match="the folder has no annotated charts"):
        find_folders(repository, mimic=repository.parent)


@needs_repository
def test_the_published_repository(tmp_path: Path) -> None:
    top = published_repository(tmp_path / "MDACE")
    assert len(list(mdace.read(top))) == 2 * (302 + 52)
    for setting, counts in (("Inpatient", (181, 60, 61)), ("Profee", (31, 10, 11))):
        splits = list(mdace.read_splits(top, setting).values())
        assert tuple(map(splits.count, ("train", "validation", "test"))) == counts
    for folder in (MDACE_REPO, MDACE_REPO / "predictions" / "unsupervised_attn"):
        with pytest.raises(CohortError, match="predictions"):
            mdace.read(folder)
    table = read_evidence(top / "predictions" / "unsupervised_attn")
    assert (len(table), table.by_model) == (1085, True)
    assert set(table.rows["type"]) == {"ECAN-unsupervised-attention"}
    assert len(list(mdace.read(MDACE))) == 2 * (302 + 52)
