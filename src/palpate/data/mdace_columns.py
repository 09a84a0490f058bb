"""Annotated and predicted charts as the columns that `stats.spans` compares (evidence paper, Section 6.2).

Both sides get one numbering of charts, notes and codes. What only one side has stays: a chart without predictions has
its evidence missed, and a predicted chart, note or code without gold has its predictions false.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from palpate.data.mdace import Chart, Note, check_offsets, place_of
from palpate.errors import CohortError
from palpate.stats.spans import Spans, spans


class EvidenceColumns(NamedTuple):
    """Charts, notes and codes by number, and the spans of both sides.

    `chart`, `category`, `note_id` and `texts` are by note; `hadm_id` and `completeness` by chart ("" if not known);
    `codes` and `code_systems` by code.
    """

    hadm_id: tuple[int, ...]
    completeness: tuple[str, ...]
    note_id: tuple[int, ...]
    chart: tuple[int, ...]
    category: tuple[str, ...]
    texts: tuple[str, ...]
    codes: tuple[str, ...]
    code_systems: tuple[str, ...]
    gold: Spans
    predicted: Spans


def align(
    gold: Iterable[Chart], predicted: Iterable[Chart], *, texts: Mapping[int, str] | None = None
) -> EvidenceColumns:
    """Gold charts with text (`with_notes`) and predictions for them, in one numbering.

    `texts` has the text of notes that only predictions have, by note id; without it such a note must bring its own.
    """
    known, made = list(gold), list(predicted)
    charts = _by_admission(known, "gold")
    others = _by_admission(made, "predicted")
    hadm = sorted({*charts, *others})
    number = {h: k for k, h in enumerate(hadm)}
    notes: dict[int, tuple[int, Note]] = {}
    for chart in (*known, *made):
        for note in chart.notes:
            _add_note(notes, chart, number[chart.hadm_id], note, texts or {})
    order = sorted(notes, key=lambda note_id: (notes[note_id][0], note_id))
    place = {note_id: k for k, note_id in enumerate(order)}
    codes = sorted({(a.code_system, a.code) for chart in (*known, *made) for n in chart.notes for a in n.annotations})
    code_number = {code: k for k, code in enumerate(codes)}
    settings = {h: (charts.get(h) or others[h]).completeness or "" for h in hadm}
    return EvidenceColumns(
        tuple(hadm),
        tuple(settings[h] for h in hadm),
        tuple(order),
        tuple(notes[k][0] for k in order),
        tuple(notes[k][1].category.strip() for k in order),
        tuple(notes[k][1].text or "" for k in order),
        tuple(code for _, code in codes),
        tuple(system for system, _ in codes),
        _spans(known, place, code_number),
        _spans(made, place, code_number),
    )


def _by_admission(charts: Iterable[Chart], what: str) -> dict[int, Chart]:
    found: dict[int, Chart] = {}
    for chart in charts:
        if chart.hadm_id in found:
            problem = f"admission {chart.hadm_id} is in two {what} charts"
            raise CohortError(problem, file=chart.file, hint="compare one setting and one code system at a time")
        found[chart.hadm_id] = chart
    return found


def _add_note(
    notes: dict[int, tuple[int, Note]], chart: Chart, number: int, note: Note, texts: Mapping[int, str]
) -> None:
    """Keep a note with its text, and check that this chart's spans lie inside it."""
    if note.note_id in notes:
        other, first = notes[note.note_id]
        if other != number:
            problem = f"{place_of(note.note_id)} is also in another admission"
            raise CohortError(problem, file=chart.file, hint="predict for the notes of the chart itself")
        text = first.text
    else:
        text = note.text if note.text is not None else texts.get(note.note_id)
        if text is None:
            problem = f"{place_of(note.note_id)} has no text"
            raise CohortError(problem, file=chart.file, hint="merge the charts with their notes first")
        notes[note.note_id] = (number, Note(note.note_id, note.category, (), note.description, text))
    check_offsets(Note(note.note_id, note.category, note.annotations, text=text), chart.file)


def _spans(charts: Iterable[Chart], place: Mapping[int, int], code: Mapping[tuple[str, str], int]) -> Spans:
    rows = [
        (place[note.note_id], a.begin, a.end, code[a.code_system, a.code])
        for chart in charts
        for note in chart.notes
        for a in note.annotations
    ]
    columns = tuple(zip(*rows, strict=True)) or ((), (), (), ())
    return spans(*columns)
