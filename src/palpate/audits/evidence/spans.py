"""The spans that were compared, one row each, for coders to review, and some of them as text for the report.

    found    a span that coders and the model marked alike
    partly   a span of one side that shares a character with one of the other, for the same chart and code
    missed   a span of the coders that shares none with the model's
    false    a span of the model that shares none with the coders'

Only codes in question (`codes`) are here. Offsets count characters of the case's text; a further table has the places
of the notes in it. `note_id` and `category` are of the note where the span begins. What the spans say is in the table
only with `include_text`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from palpate.audits.evidence.findings import EvidenceAnalysis
from palpate.audits.evidence.inputs import NOT_KNOWN
from palpate.audits.evidence.marking import MarkedEvidence
from palpate.audits.evidence.strata import AuditedCharts
from palpate.cases.cohort import Cohort
from palpate.results import Examples
from palpate.stats.evidence import Spans, cover

SPANS, NOTES, TEXTS = "spans", "notes", "texts"
BOTH, CODERS, MODEL = "both", "coders", "model"
_SCHEMA = {
    **{"model": pl.String(), "case_id": pl.String(), "label": pl.String(), "start": pl.Int64(), "end": pl.Int64()},
    **{"status": pl.String(), "marked_by": pl.String(), "score": pl.Float64(), "note_id": pl.String()},
    **{"category": pl.String(), "code_system": pl.String()},
}
_MOST_SPANS, _LONGEST = 4, 80
"""How many spans of an example are shown, and how many characters of each."""
_Place = tuple[int, int, int, int]
"""Chart, code, begin and end."""


def span_tables(
    charts: AuditedCharts,
    marked: Mapping[str, MarkedEvidence | str],
    cohort: Cohort,
    *,
    include_text: bool,
) -> dict[str, pl.DataFrame]:
    """The spans of every model and, with `include_text`, what they say and the texts of their cases."""
    rows = [
        row
        for model, found in marked.items()
        if isinstance(found, MarkedEvidence)
        for row in _rows(charts, model, found, cohort)
    ]
    frame = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
    tables = {SPANS: frame}
    if charts.memory.inputs.notes.number:
        tables[NOTES] = _notes(charts, cohort)
    if not include_text:
        return tables
    ids = cohort.cases["case_id"]
    texts = {str(ids[int(row)]): cohort.texts[int(row)] for row in charts.memory.charts.rows[: charts.n]}
    said = [texts[case][start:end] for case, start, end in frame.select("case_id", "start", "end").iter_rows()]
    named = set(frame["case_id"])
    kept = [(case, text) for case, text in texts.items() if case in named]
    schema = {"case_id": pl.String(), "text": pl.String()}
    tables[SPANS] = frame.with_columns(pl.Series("text", said, dtype=pl.String))
    return {**tables, TEXTS: pl.DataFrame(kept, schema=schema, orient="row")}


def _notes(charts: AuditedCharts, cohort: Cohort) -> pl.DataFrame:
    """Where the notes of the audited charts are."""
    notes, ids = charts.memory.inputs.notes, cohort.cases["case_id"]
    audited = set(charts.memory.charts.rows[: charts.n].tolist())
    rows = [
        (
            str(ids[row]),
            note,
            notes.category[at],
            *(int(side[at] - notes.base[row]) for side in (notes.start, notes.end)),
        )
        for (row, note), at in sorted(notes.number.items(), key=lambda item: item[1])
        if row in audited
    ]
    schema = {**dict.fromkeys(("case_id", "note_id", "category"), pl.String()), "start": pl.Int64(), "end": pl.Int64()}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _rows(charts: AuditedCharts, model: str, found: MarkedEvidence, cohort: Cohort) -> Iterator[tuple[Any, ...]]:
    memory = charts.memory
    gold, said = _places(charts, found.gold), _places(charts, found.spans)
    others = {CODERS: _by_pair(said), MODEL: _by_pair(gold)}
    scores = _scores(charts, found)
    ids, notes = cohort.cases["case_id"], memory.inputs.notes
    note_ids = {position: note for (_, note), position in notes.number.items()}
    for place in sorted(gold | said):
        chart, code, begin, end = place
        row = int(memory.charts.rows[chart])
        by = BOTH if place in gold and place in said else CODERS if place in gold else MODEL
        status = "found" if by == BOTH else _status(begin, end, others[by].get((chart, code), []), by)
        at = int(notes.note_of(np.array([row]), np.array([begin]))[0])
        note = (note_ids.get(at), notes.category[at]) if at >= 0 else (None, None)
        system = charts.systems[code]
        score = scores.get(place) if by != CODERS else None
        known = None if system == NOT_KNOWN else system
        yield model, str(ids[row]), memory.inputs.codes[code], begin, end, status, by, score, *note, known


def _by_pair(places: set[_Place]) -> dict[tuple[int, int], list[tuple[int, int]]]:
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for chart, code, begin, end in places:
        found.setdefault((chart, code), []).append((begin, end))
    return found


def _status(begin: int, end: int, others: list[tuple[int, int]], by: str) -> str:
    if any(low < end and begin < high for low, high in others):
        return "partly"
    return "missed" if by == CODERS else "false"


def _places(charts: AuditedCharts, side: Spans) -> set[_Place]:
    """Spans as they are compared: without what is not a word at their ends; those without a word are left out."""
    covered = cover(charts.words, side)
    has = np.flatnonzero(np.diff(covered.first))
    columns = (side.note[has], side.code[has], covered.begin[has], covered.end[has])
    return set(zip(*(column.tolist() for column in columns), strict=True))


def _scores(charts: AuditedCharts, found: MarkedEvidence) -> dict[_Place, float]:
    """The highest score of the words of each predicted span, where words have scores."""
    if found.scored is None:
        return {}
    of = {(w, k): s for w, k, s in zip(*(part.tolist() for part in found.scored), strict=True)}
    covered = cover(charts.words, found.spans)
    scores: dict[_Place, float] = {}
    for k in range(found.spans.note.size):
        words = covered.word[covered.first[k] : covered.first[k + 1]].tolist()
        code = int(found.spans.code[k])
        each = [of[word, code] for word in words if (word, code) in of]
        if each:
            place = (int(found.spans.note[k]), code, int(covered.begin[k]), int(covered.end[k]))
            scores[place] = max(each)
    return scores


def evidence_examples(analysis: EvidenceAnalysis, n: int) -> list[Examples]:
    """For each model, codes of charts with gold evidence: those where it points elsewhere first."""
    memory, labels = analysis.plan.memory, analysis.plan.labels
    case_ids = analysis.plan.cohort.cases["case_id"]
    rows = []
    for model, found in analysis.marked.items():
        if isinstance(found, str):
            continue
        gold, theirs = _spans_of(found.gold), _spans_of(found.spans)
        order = sorted(gold, key=lambda pair: (_agree(gold[pair], theirs.get(pair, [])), pair))
        for chart, label in order[:n]:
            case, text = str(case_ids[int(memory.charts.rows[chart])]), memory.charts.words.texts[chart]
            shown = (_shown(text, places.get((chart, label), [])) for places in (gold, theirs))
            rows.append((model, case, labels[label], *shown))
    if not rows:
        return []
    return [
        Examples(
            title="What coders and models point at",
            caption="Codes of charts with gold evidence, first those where the model points elsewhere.",
            columns=("Model", "Case", "Code", "Coders", "Model's evidence"),
            rows=tuple(rows),
            has_note_text=True,
        )
    ]


def _spans_of(side: Spans) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """The spans of each chart and label."""
    pairs: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for k in np.lexsort((side.begin, side.note)).tolist():
        pairs.setdefault((int(side.note[k]), int(side.code[k])), []).append((int(side.begin[k]), int(side.end[k])))
    return pairs


def _agree(gold: list[tuple[int, int]], predicted: list[tuple[int, int]]) -> bool:
    """Whether any characters are shared."""
    return any(low < end and begin < high for low, high in gold for begin, end in predicted)


def _shown(text: str, places: list[tuple[int, int]]) -> str:
    pieces = [" ".join(text[low:high].split()) for low, high in places[:_MOST_SPANS]]
    shown = " · ".join(piece if len(piece) <= _LONGEST else f"{piece[:_LONGEST]}…" for piece in pieces)
    more = len(places) - _MOST_SPANS
    return (shown or "(nothing)") + (f" · and {more} more" if more > 0 else "")
