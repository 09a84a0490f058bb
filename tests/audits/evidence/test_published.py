"""The predictions that MDACE publishes, through the whole audit: the published counts of exact spans come out.

The notes are in MIMIC-III, so texts are made up in which every published span begins and ends with a word's characters.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from palpate import Cohort
from palpate.audits.evidence import Evidence
from palpate.cases.evidence import EvidenceTable, NotesTable
from palpate.data.annotations import AnnotatedChart, mdace
from palpate.data.annotations.evidence_tables import read_evidence
from palpate.data.cohorts.mdace import join_notes
from palpate.testing import KeywordModel, run_audit
from tests.data.published import needs_repository, published_repository

PLAIN = {"explain": "none", "faithfulness": False}


def made_up(spans: set[tuple[int, int]]) -> str:
    """A text of one letter, with blanks around the spans where no other span begins or ends."""
    characters = ["a"] * (max(end for _, end in spans) + 2)
    ends = {at for begin, end in spans for at in (begin, end - 1)}
    for begin, end in spans:
        for at in (begin - 1, end):
            if at >= 0 and at not in ends:
                characters[at] = " "
    return "".join(characters)


def charts_with_text(
    gold: list[AnnotatedChart], said: list[AnnotatedChart]
) -> tuple[Cohort, EvidenceTable, NotesTable]:
    """The predicted charts with made-up notes, and the gold evidence in notes of the predicted categories."""
    kinds = {note.category.strip() for chart in said for note in chart.notes}
    marks: dict[tuple[str, str], set[tuple[int, int]]] = {}
    rows, category = [], {}
    names = {chart.hadm_id for chart in said}
    for chart in [*gold, *said]:
        for note in chart.notes if chart.hadm_id in names else ():
            if note.category.strip() in kinds and note.annotations:
                key = (str(chart.hadm_id), str(note.note_id))
                marks.setdefault(key, set()).update((a.begin, a.end) for a in note.annotations)
                category[key] = note.category
    for chart in gold:
        for note in chart.notes:
            key = (str(chart.hadm_id), str(note.note_id))
            if key in marks:
                rows += [(key[0], a.code, a.begin, a.end, key[1]) for a in note.annotations]
    texts, places = [], []
    for case in sorted({case for case, _ in marks}):
        notes = sorted(note for of, note in marks if of == case)
        parts = [made_up(marks[case, note]) for note in notes]
        joined = join_notes(parts)
        texts.append((case, joined.text))
        places += [
            (case, note, category[case, note], at, at + len(part))
            for note, part, at in zip(notes, parts, joined.starts, strict=True)
        ]
    has = {(case, code) for case, code, *_ in rows}
    codes = sorted({code for _, code in has})
    labels = {code: [int((case, code) in has) for case, _ in texts] for code in codes}
    frame = pl.DataFrame(texts, schema=["case_id", "text"], orient="row").with_columns(pl.DataFrame(labels))
    schema = {"case_id": pl.String, "label": pl.String, "start": pl.Int64, "end": pl.Int64, "note_id": pl.String}
    table = EvidenceTable(pl.DataFrame(rows, schema=schema, orient="row"), in_notes=True)
    columns = ["case_id", "note_id", "category", "start", "end"]
    return Cohort.from_frame(frame, labels=codes), table, NotesTable(pl.DataFrame(places, schema=columns, orient="row"))


@needs_repository
@pytest.mark.parametrize(
    ("model", "notes", "n_predicted", "n_found"),
    [
        ("supervised_attn", "Discharge", 1636, 294),
        ("supervised_attn", "Codeable", 1144, 213),
        ("unsupervised_attn", "Discharge", 1085, 215),
    ],
)
def test_the_published_counts(tmp_path: Path, model: str, notes: str, n_predicted: int, n_found: int) -> None:
    top = published_repository(tmp_path / "MDACE")
    folder = top / "predictions" / model / "Inpatient" / "ICD-9" / notes
    gold = list(mdace.read(top, setting="Inpatient", system="ICD-9"))
    cohort, table, places = charts_with_text(gold, list(mdace.read(folder, predictions=True)))
    audit = Evidence(gold=table, notes=places, predicted={"ecan": read_evidence(folder)}, **PLAIN)
    silent = KeywordModel({"b": 1.0}, labels=cohort.labels)
    result = run_audit(audit, cohort, {"ecan": silent})
    spans = result.tables["spans"]
    assert (spans["marked_by"] != "coders").sum() == n_predicted
    assert (spans["status"] == "found").sum() == n_found
    found = result.estimates.filter(model="ecan", group="all", metric="span_precision")["value"][0]
    assert found == pytest.approx(n_found / n_predicted, abs=1e-12)
    # The model predicts no code, which does not matter: all published evidence is for gold codes.
    assert result.provenance["models"]["ecan"]["rows_of_other_codes"] == 0
