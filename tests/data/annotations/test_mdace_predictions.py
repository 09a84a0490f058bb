"""Exact spans of predictions: the published counts, which need no note text, and a small one by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from palpate.data.annotations import AnnotatedChart, AnnotatedNote, Annotation, mdace
from palpate.data.annotations.mdace_predictions import ExactSpans, compare_exactly, compare_published
from palpate.errors import CohortError
from tests.data.annotations.test_mdace_repository import write_chart
from tests.data.published import needs_repository, published_repository


def chart(hadm_id: int, *spans: tuple[int, int, str], category: str = "ECG", note_id: int = 1) -> AnnotatedChart:
    marks = tuple(Annotation(begin, end, code, "ICD-9-CM") for begin, end, code in spans)
    return AnnotatedChart(hadm_id, (AnnotatedNote(note_id, category, marks),))


def test_by_hand() -> None:
    gold = [
        chart(1, (0, 5, "401.9"), (7, 9, "250.00")),
        chart(2, (0, 5, "401.9"), category="Echo"),
        chart(3, (0, 1, "311")),
    ]
    # Another end, another code, another note, and one that is right and said twice.
    said = [chart(1, (0, 5, "401.9"), (0, 5, "401.9"), (7, 10, "250.00"), (7, 9, "311")), chart(2, (0, 5, "401.9"))]
    assert compare_exactly(gold, said) == ExactSpans(4, 1, 2, 2)
    assert compare_exactly(gold, []).precision is None
    assert compare_exactly([], said) == (4, 0, 0, 0)
    # For 250.00 it points at nothing; the other code has a span in another place.
    assert compare_exactly(gold[:1], [chart(1, (3, 9, "401.9"))]) == (1, 0, 2, 1)
    assert (compare_exactly(gold, said).precision, compare_exactly(gold, said).recall) == (1 / 4, 1 / 2)


def test_predictions_are_where_the_repository_has_them(tmp_path: Path) -> None:
    write_chart(tmp_path / "data" / "Inpatient" / "ICD-9" / "1.0", 7, "Human")
    assert compare_published(tmp_path) == []
    write_chart(tmp_path / "predictions" / "one" / "Inpatient" / "ICD-9" / "Discharge", 7, "attention")
    assert compare_published(tmp_path) == [("one", "Inpatient", "ICD-9", "Discharge", (1, 1, 1, 1))]
    write_chart(tmp_path / "predictions" / "two", 7, "attention")
    with pytest.raises(CohortError, match="predictions/MODEL/SETTING/SYSTEM/NOTES"):
        compare_published(tmp_path)


@needs_repository
def test_the_published_predictions(tmp_path: Path) -> None:
    found = compare_published(published_repository(tmp_path / "MDACE"))
    assert {(one.model, one.setting, one.notes): one.spans[:2] for one in found} == {
        ("supervised_attn", "Inpatient", "Discharge"): (1636, 294),
        ("supervised_attn", "Inpatient", "Codeable"): (1144, 213),
        ("unsupervised_attn", "Inpatient", "Discharge"): (1085, 215),
        ("supervised_attn", "Profee", "Codeable"): (1487, 309),
    }
    codeable = {one.setting: one.spans for one in found if one.notes == "Codeable"}
    assert {name: (spans.n_gold, spans.n_answered) for name, spans in codeable.items()} == {
        "Inpatient": (744, 533),
        "Profee": (1171, 807),
    }
    discharge = next(one.spans for one in found if one.notes == "Discharge" and one.model == "supervised_attn")
    charts = mdace.read(tmp_path / "MDACE", setting="Inpatient", system="ICD-9")
    test = {h for h, split in mdace.read_splits(tmp_path / "MDACE", "Inpatient").items() if split == "test"}
    n_gold = sum(
        len(note.annotations)
        for one in charts
        for note in one.notes
        if one.hadm_id in test and note.category == "Discharge summary"
    )
    assert discharge.n_gold == n_gold
