"""A team's project: agreement against hand counts and the `krippendorff` package, and spans as evidence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from palpate.data.annotations.webanno_projects import import_evidence, measure_agreement, read_projects
from palpate.data.cohorts.mdace import NOTE_MARK
from palpate.errors import CohortError
from tests.data.annotations.webanno_files import LAYER, tsv, write_project

ONE = "Chest pain, no fever. Asystole seen."
TWO = "Known diabetes and pneumonia."
DOCUMENTS = {
    "one.txt": (
        ONE,
        {
            "anna": [("Chest pain", "R07.9"), ("Asystole", "I46.9")],
            "ben": [("pain", "R07.9"), ("Asystole", "I46.8")],
        },
    ),
    "two.txt": (
        TWO,
        {
            "anna": [("diabetes", "E11.9"), ("pneumonia", "I46.9")],
            "ben": [("pneumonia", "R07.9")],
        },
    ),
}


def test_measures_against_the_package_and_by_hand(tmp_path: Path) -> None:
    krippendorff = pytest.importorskip("krippendorff")
    found = measure_agreement(write_project(tmp_path, DOCUMENTS))
    # `one` has 6 words and the codes R07.9, I46.9, I46.8; `two` has 4 words, Known diabetes and pneumonia,
    # with E11.9, I46.9, R07.9. A unit is a word with a code of its document.
    anna = [1, 1, 0, 0, 0, 0] + [0, 0, 0, 0, 1, 0] + [0] * 6 + [0, 1, 0, 0] + [0, 0, 0, 1] + [0] * 4
    ben = [0, 1, 0, 0, 0, 0] + [0] * 6 + [0, 0, 0, 0, 1, 0] + [0] * 4 + [0] * 4 + [0, 0, 0, 1]
    (row,) = found.measures.iter_rows(named=True)
    alpha = krippendorff.alpha(reliability_data=np.array([anna, ben]), level_of_measurement="nominal")
    assert row["alpha"] == pytest.approx(alpha)
    p = (sum(anna) + sum(ben)) / (2 * len(anna))
    same = np.mean(np.array(anna) == np.array(ben))
    chance = p**2 + (1 - p) ** 2
    assert row["kappa"] == pytest.approx((same - chance) / (1 - chance))
    # Terms by document: anna (1, R07.9) (1, I46.9) (2, E11.9) (2, I46.9); ben (1, R07.9) (1, I46.8) (2, R07.9).
    assert row["hooper"] == pytest.approx(1 / 6)
    assert (row["n_shared_documents"], row["n_spans"], row["n_marked_words"], row["reason"]) == (2, 7, 8, None)


def test_disagreements_by_kind(tmp_path: Path) -> None:
    found = measure_agreement(write_project(tmp_path, DOCUMENTS), include_text=True)
    rows = [(r["annotator"], r["code"], r["kind"], r["text"]) for r in found.disagreements.iter_rows(named=True)]
    assert sorted(rows) == [
        ("anna", "E11.9", "missing", "diabetes"),
        ("anna", "I46.9", "other code here", "Asystole"),
        ("anna", "I46.9", "other code here", "pneumonia"),
        ("anna", "R07.9", "other extent", "Chest"),
        ("ben", "I46.8", "other code here", "Asystole"),
        ("ben", "R07.9", "other code here", "pneumonia"),
    ]
    assert dict(found.kinds.iter_rows()) == {
        **{"other extent": 1, "same code elsewhere": 0, "other code here": 4, "missing": 1},
    }
    for row in found.disagreements.iter_rows(named=True):
        text = {"one": ONE, "two": TWO}[row["document"]]
        assert text[row["start"] : row["end"]] == row["text"]


def test_a_project_can_be_a_chart(tmp_path: Path) -> None:
    found = measure_agreement(write_project(tmp_path, DOCUMENTS), chart="project")
    assert dict(found.kinds.iter_rows())["same code elsewhere"] == 1, "ben's R07.9 for pneumonia is anna's elsewhere"
    assert found.measures["hooper"][0] == pytest.approx(1 / 4)


def test_no_text_unless_asked(tmp_path: Path) -> None:
    found = measure_agreement(write_project(tmp_path, DOCUMENTS))
    assert "text" not in found.disagreements.columns
    assert not any("pain" in str(value) for row in found.disagreements.iter_rows() for value in row)


def test_three_annotators_who_did_not_all_see_everything(tmp_path: Path) -> None:
    documents = {name: (text, dict(by)) for name, (text, by) in DOCUMENTS.items()}
    documents["two.txt"][1]["eve"] = DOCUMENTS["two.txt"][1]["anna"]
    measures = measure_agreement(write_project(tmp_path, documents)).measures
    assert measures["annotators"].to_list() == ["all", "anna and ben", "anna and eve", "ben and eve"]
    rows = {row["annotators"]: row for row in measures.iter_rows(named=True)}
    assert [rows[who]["n_shared_documents"] for who in ("all", "anna and ben", "anna and eve")] == [1, 2, 1]
    assert rows["anna and eve"]["kappa"] == 1.0


def test_what_is_not_defined_is_null_with_a_reason(tmp_path: Path) -> None:
    documents = {
        "one.txt": (ONE, {"anna": [("fever", "R50.9")]}),
        "two.txt": (TWO, {"ben": [("diabetes", "E11.9")]}),
    }
    (row,) = measure_agreement(write_project(tmp_path, documents)).measures.iter_rows(named=True)
    assert row["kappa"] is row["hooper"] is None
    assert row["reason"].startswith("alpha, kappa, hooper: undefined, because")


def test_several_projects(tmp_path: Path) -> None:
    for chart in ("c1", "c2"):
        write_project(tmp_path / chart, DOCUMENTS)
    assert len(read_projects(tmp_path)) == 8
    assert measure_agreement(tmp_path, chart="project").measures["n_shared_documents"][0] == 4
    with pytest.raises(CohortError, match="the document 'one' is in several projects"):
        import_evidence(tmp_path, annotator="anna")
    assert import_evidence(tmp_path, annotator="anna", chart="project").cases["case_id"].to_list() == ["c1", "c2"]


# --- evidence ---------------------------------------------------------------------------------------------------


def test_spans_become_evidence(tmp_path: Path) -> None:
    found = import_evidence(write_project(tmp_path, DOCUMENTS), annotator="anna")
    texts = dict(found.cases.select("case_id", "text").iter_rows())
    assert texts == {"one": ONE, "two": TWO}
    rows = [(r["case_id"], r["label"], texts[r["case_id"]][r["start"] : r["end"]]) for r in found.evidence.to_dicts()]
    assert rows == [
        *(("one", "R07.9", "Chest pain"), ("one", "I46.9", "Asystole")),
        *(("two", "E11.9", "diabetes"), ("two", "I46.9", "pneumonia")),
    ]
    assert set(found.evidence["code_system"]) == {"ICD-10-CM"}
    assert found.cases["codes"].to_list() == [["I46.9", "R07.9"], ["E11.9", "I46.9"]]


def test_documents_of_a_project_are_joined(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "chart7", DOCUMENTS)
    found = import_evidence(folder, annotator="anna", chart="project")
    (text,) = found.cases["text"]
    assert text == ONE + NOTE_MARK + TWO
    words = {text[r["start"] : r["end"]] for r in found.evidence.to_dicts()}
    assert words == {"Chest pain", "Asystole", "diabetes", "pneumonia"}
    assert [text[r["start"] : r["end"]] for r in found.notes.to_dicts()] == [ONE, TWO]
    assert set(found.notes["case_id"]) == {"chart7"}


def test_the_curated_version(tmp_path: Path) -> None:
    folder = write_project(tmp_path, DOCUMENTS, curated={"one.txt": [("fever", "R50.9")]})
    found = import_evidence(folder, annotator="CURATION_USER")
    assert found.evidence.select("case_id", "label").rows() == [("one", "R50.9")]
    assert found.cases["codes"].to_list() == [["R50.9"], []]
    with pytest.raises(CohortError, match="the folder has no curated document"):
        import_evidence(write_project(tmp_path / "other", DOCUMENTS), annotator="CURATION_USER")


# --- bad input --------------------------------------------------------------------------------------------------


def test_whose_spans(tmp_path: Path) -> None:
    folder = write_project(tmp_path, DOCUMENTS)
    with pytest.raises(CohortError, match="choose --annotator: anna, ben, or CURATION_USER"):
        import_evidence(folder)
    with pytest.raises(CohortError, match="unknown annotator 'eve'; choose one of anna, ben"):
        import_evidence(folder, annotator="eve")
    with pytest.raises(CohortError, match="unknown code system 'ICD-11'"):
        import_evidence(folder, annotator="anna", code_system="ICD-11")


def test_which_layer(tmp_path: Path) -> None:
    folder = write_project(tmp_path, DOCUMENTS)
    extra = tsv(ONE, [("seen", "VB")], layer="de.pos.POS", feature="PosValue")
    (folder / "annotation" / "one.txt" / "anna.tsv").write_text(extra)
    with pytest.raises(
        CohortError, match="several span layers have values; choose one with --layer and --feature"
    ) as caught:
        measure_agreement(folder)
    assert f"de.pos.POS (PosValue), {LAYER} (code)" in str(caught.value)
    with pytest.raises(CohortError, match="no span layer matches"):
        measure_agreement(folder, layer="Cods")
    assert measure_agreement(folder, layer="Code").measures["n_spans"][0] == 5


def test_one_annotator_and_different_texts(tmp_path: Path) -> None:
    alone = {"one.txt": (ONE, {"anna": [("fever", "R50.9")]})}
    with pytest.raises(CohortError, match="all documents are by the same annotator, 'anna'"):
        measure_agreement(write_project(tmp_path / "a", alone))
    folder = write_project(tmp_path / "b", DOCUMENTS)
    (folder / "annotation" / "one.txt" / "ben.tsv").write_text(tsv(ONE + " Well.", [("fever", "R50.9")]))
    with pytest.raises(CohortError, match="the annotators of 'one' have different texts"):
        measure_agreement(folder)
    with pytest.raises(CohortError, match="file or folder not found; in INCEpTION choose Settings, Export"):
        measure_agreement(tmp_path / "nowhere")


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    folder = write_project(tmp_path, DOCUMENTS)
    file = folder / "annotation" / "two.txt" / "ben.tsv"
    file.write_text(file.read_text().replace("1-2\t6-14", "1-2\t6:14"))
    with pytest.raises(CohortError) as caught:
        measure_agreement(folder)
    assert str(file) in str(caught.value)
    assert "row " in str(caught.value)
