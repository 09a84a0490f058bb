"""What the evidence audit is given: tables of evidence and of notes, placed on the cohort's own cases and labels.

Everything that can be wrong with a table is refused here, before any model is asked, by file, row and column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.cases.cohort import Cohort
from palpate.cases.columns import quote
from palpate.cases.edits import Ints
from palpate.cases.evidence import EvidenceTable, NotesTable
from palpate.errors import ConfigError
from palpate.stats.evidence import NoteWords, Spans, spans, tokenise

Floats = NDArray[np.float64]
UNKNOWN = "not known"
_NOT_THERE = "give evidence in notes that the case's text has, or build the cohort with notes=all"


class Placed(NamedTuple):
    """Spans of a table: rows of the cohort, indices of the audited labels, characters of the case's text."""

    row: Ints
    label: Ints
    start: Ints
    end: Ints
    score: Floats | None
    code_system: tuple[str, ...]
    completeness: tuple[str, ...]


class Places(NamedTuple):
    """Where notes lie, sorted by case and start; positions are on one number line over all cases."""

    base: Ints
    """Where each case begins on the line."""
    start: Ints
    end: Ints
    category: tuple[str, ...]
    number: Mapping[tuple[int, str], int]
    """The note of a case by its id."""

    def note_of(self, row: Ints, position: Ints) -> Ints:
        """The note that holds a character of a case; -1 for none."""
        if not self.start.size:
            return np.full(row.shape, -1, np.int64)
        at = self.base[row] + position
        note = np.searchsorted(self.start, at, side="right") - 1
        return np.where((note >= 0) & (at < self.end[note]), note, -1).astype(np.int64)

    def categories(self, row: Ints, position: Ints) -> tuple[str, ...]:
        """The category of the note that holds a character."""
        return tuple(UNKNOWN if k < 0 else self.category[k] or UNKNOWN for k in self.note_of(row, position).tolist())


class Charts(NamedTuple):
    """Cases whose evidence is compared, by number: their rows in the cohort, their words, the note of each word."""

    rows: Ints
    words: NoteWords
    note: Ints

    def number(self, n_cases: int) -> Ints:
        """The chart of each row of the cohort, -1 for rows that are none."""
        of = np.full(n_cases, -1, np.int64)
        of[self.rows] = np.arange(len(self.rows))
        return of


def charts_of(cohort: Cohort, rows: Ints, places: Places, largest_number: int | None) -> Charts:
    """Cut the cases into words, once and whole."""
    words = tokenise([cohort.texts[row] for row in rows.tolist()], largest_number=largest_number)
    return Charts(rows, words, places.note_of(rows[words.note] if len(rows) else words.note, words.begin))


def spans_in(charts: Charts, placed: Placed, n_cases: int) -> Spans:
    """The spans of a table that lie in these charts."""
    number = charts.number(n_cases)[placed.row]
    kept = np.flatnonzero(number >= 0)
    return spans(number[kept], placed.start[kept], placed.end[kept], placed.label[kept])


def place_notes(table: NotesTable | None, cohort: Cohort, main: str) -> Places:
    """The notes of the cases; none without a table."""
    base = np.concatenate([[0], np.cumsum([len(text) + 1 for text in cohort.texts])]).astype(np.int64)
    if table is None:
        none = np.zeros(0, np.int64)
        return Places(base, none, none, (), {})
    row = _cases(table, cohort, main)
    start, end = table.numbers("start"), table.numbers("end")
    _check_ends(table, cohort, row, end)
    order = np.lexsort((start, row))
    begins, ends = base[row[order]] + start[order], base[row[order]] + end[order]
    over = np.flatnonzero(begins[1:] < ends[:-1])
    if over.size:
        at = int(order[over[0] + 1])
        problem = "the note begins before the one before it ends"
        raise table.error(problem, at=at, column="start", hint="notes of a case lie one behind the other")
    categories, ids = table.column("category") or [], table.column("note_id") or []
    number = {(int(row[k]), str(ids[k])): position for position, k in enumerate(order.tolist())}
    return Places(base, begins, ends, tuple(categories[k] or "" for k in order.tolist()), number)


def strange_labels(tables: Iterable[EvidenceTable], cohort: Cohort) -> tuple[str, ...]:
    """Labels that models point at and the cohort does not have: a code that nobody gave."""
    given = {label for table in tables for label in table.column("label") or [] if label}
    return tuple(sorted(given - set(cohort.labels)))


def place_evidence(
    table: EvidenceTable, cohort: Cohort, main: str, labels: Sequence[str], places: Places, *, gold: bool = False
) -> Placed:
    """The rows of a table, checked; those of labels that are not audited are left out."""
    row = _cases(table, cohort, main)
    label, known = _labels(table, cohort, labels, gold=gold)
    start, end = table.numbers("start"), table.numbers("end")
    if table.in_notes:
        shift, room = _note_offsets(table, row, places)
        past = np.flatnonzero(end > room)
        if past.size:
            at = int(past[0])
            problem = f"the span goes from {start[at]} to {end[at]}, but the note has {room[at]} characters"
            raise table.error(problem, at=at, column="end", hint="predict for the notes that were annotated, unchanged")
        start, end = start + shift, end + shift
    _check_ends(table, cohort, row, end)
    kept = np.flatnonzero(known)

    def some(name: str) -> tuple[str, ...]:
        column = table.column(name)
        return tuple("" if column is None else column[k] or "" for k in kept.tolist())

    score = table.score
    return Placed(
        row[kept],
        label[kept],
        start[kept],
        end[kept],
        None if score is None else score[kept],
        some("code_system"),
        some("completeness"),
    )


def _cases(table: EvidenceTable | NotesTable, cohort: Cohort, main: str) -> Ints:
    ids = cohort.cases["case_id"].to_list()
    number = {ids[row]: row for row in cohort.rows(cohort=main).tolist()}
    found = np.array([number.get(case, -1) for case in table.column("case_id") or []], np.int64)
    if bool(np.any(found < 0)):
        at = int(np.argmax(found < 0))
        problem = f"the cohort has no case {quote((table.column('case_id') or [])[at])}"
        raise table.error(problem, at=at, column="case_id", hint="use the cohort's case ids, or leave the row out")
    return found


def _labels(
    table: EvidenceTable, cohort: Cohort, labels: Sequence[str], *, gold: bool
) -> tuple[Ints, NDArray[np.bool_]]:
    """The index of each row's label among the audited ones, and whether it is one of them."""
    number = {label: k for k, label in enumerate(labels)}
    others, given = set(cohort.labels), table.column("label") or []
    for at, label in enumerate(given):
        if gold and label not in number and label not in others:
            hint = "use the cohort's labels, or leave the row out"
            raise table.error(f"the cohort has no label {quote(label)}", at=at, column="label", hint=hint)
    found = np.array([number.get(label or "", -1) for label in given], np.int64)
    return found, found >= 0


def _check_ends(table: EvidenceTable | NotesTable, cohort: Cohort, row: Ints, end: Ints) -> None:
    length = np.array([len(text) for text in cohort.texts], np.int64)[row]
    if bool(np.any(end > length)):
        at = int(np.argmax(end > length))
        problem = f"the span ends at {end[at]}, but the case's text has {length[at]} characters"
        raise table.error(problem, at=at, column="end", hint="offsets are characters of the cohort's own text")


def _note_offsets(table: EvidenceTable, row: Ints, places: Places) -> tuple[Ints, Ints]:
    """Where each row's note begins in its case, and how long the note is."""
    if not places.number:
        raise ConfigError(
            "audit 'evidence': offsets in MDACE's files are those of notes, and nothing says where the notes lie",
            file=table.file,
            hint="give the table of notes as `notes:`",
        )
    shift, room = np.zeros(len(row), np.int64), np.zeros(len(row), np.int64)
    for at, (case, note) in enumerate(zip(row.tolist(), table.column("note_id") or [], strict=True)):
        number = places.number.get((case, str(note)))
        if number is None:
            problem = f"note {quote(note)} is not among the notes of case {quote((table.column('case_id') or [])[at])}"
            raise table.error(problem, at=at, column="note_id", hint=_NOT_THERE)
        shift[at] = places.start[number] - places.base[case]
        room[at] = places.end[number] - places.start[number]
    return shift, room
