"""What the evidence audit is given: tables of evidence and of notes, placed on the cohort's own cases and labels.

Everything that can be wrong with a table is refused here, before any model is asked, by file, row and column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.cases.cohort import Cohort
from palpate.cases.columns import quote
from palpate.cases.edits import Ints
from palpate.cases.evidence import EvidenceTable, NotesTable
from palpate.errors import ConfigError
from palpate.stats.evidence import EvidenceWords, Spans, merged_spans, spans, tokenise

NOT_KNOWN = "not known"


class PlacedEvidence(NamedTuple):
    """The spans of a table: rows of the cohort, indices of the audited labels, characters of the case's text."""

    row: Ints
    label: Ints
    start: Ints
    end: Ints
    score: NDArray[np.float64] | None
    code_system: tuple[str, ...]
    completeness: tuple[str, ...]
    left_out: Ints
    """The rows of the cohort that the table's rows about other labels belong to."""


class NotePositions(NamedTuple):
    """Where the notes are, sorted by case and start; positions are on one number line over all cases."""

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
        notes = self.note_of(row, position).tolist()
        return tuple(NOT_KNOWN if k < 0 else self.category[k] or NOT_KNOWN for k in notes)


class PlacedInputs(NamedTuple):
    """All tables of the audit."""

    gold: PlacedEvidence
    notes: NotePositions
    predicted: Mapping[str, PlacedEvidence]
    """Evidence that came as a table, by model."""
    codes: tuple[str, ...]
    """The audited labels, followed by those that only models point at."""

    @property
    def n_codes(self) -> int:
        """How many codes there are."""
        return len(self.codes)


class Charts(NamedTuple):
    """The cases whose evidence is compared, numbered, the audited ones first."""

    rows: Ints
    """Their rows in the cohort."""
    number: Ints
    """The chart of each row of the cohort; -1 for rows that are not compared."""
    words: EvidenceWords
    note: Ints
    """The note of each word; -1 for none."""

    def spans(self, placed: PlacedEvidence) -> Spans:
        """The spans of a table that lie in these charts, as runs of marked words."""
        number = self.number[placed.row]
        kept = np.flatnonzero(number >= 0)
        found = spans(number[kept], placed.start[kept], placed.end[kept], placed.label[kept])
        return merged_spans(self.words, self.note, found)


def charts_of(cohort: Cohort, rows: Ints, notes: NotePositions, largest_number: int | None) -> Charts:
    """Cut the texts of the cases into words, once."""
    words = tokenise([cohort.texts[row] for row in rows.tolist()], largest_number=largest_number)
    number = np.full(len(cohort), -1, np.int64)
    number[rows] = np.arange(len(rows))
    return Charts(rows, number, words, notes.note_of(rows[words.note] if len(rows) else words.note, words.begin))


def place_inputs(
    cohort: Cohort,
    main: str,
    labels: Sequence[str],
    *,
    gold: EvidenceTable,
    notes: NotesTable | None,
    predicted: Mapping[str, EvidenceTable],
    only_these: bool,
) -> PlacedInputs:
    """Check all tables and place them on the cases of the cohort `main`.

    Models may point at labels that the cohort does not have: codes that nobody gave, which count as false unless the
    audit is about `only_these` labels.
    """
    if gold.by_model:
        problem = "audit 'evidence': `gold:` is a folder of a model's predictions, not what coders marked"
        raise ConfigError(problem, file=gold.file, hint="give the charts of MDACE's data/, and these as `predicted:`")
    positions = _place_notes(notes, cohort, main)
    named = {label for table in predicted.values() for label in table.column("label") or [] if label}
    codes = labels if only_these else (*labels, *sorted(named - set(cohort.labels)))
    return PlacedInputs(
        _place_evidence(gold, cohort, main, labels, positions, gold=True),
        positions,
        {name: _place_evidence(table, cohort, main, codes, positions) for name, table in predicted.items()},
        tuple(codes),
    )


def _place_notes(table: NotesTable | None, cohort: Cohort, main: str) -> NotePositions:
    """The notes of the cases; none without a table."""
    base = np.concatenate([[0], np.cumsum([len(text) + 1 for text in cohort.texts])]).astype(np.int64)
    if table is None:
        none = np.zeros(0, np.int64)
        return NotePositions(base, none, none, (), {})
    row = _cases(table, cohort, main)
    start, end = table.numbers("start"), table.numbers("end")
    _check_ends(table, cohort, row, end)
    order = np.lexsort((start, row))
    begins, ends = base[row[order]] + start[order], base[row[order]] + end[order]
    overlapping = np.flatnonzero(begins[1:] < ends[:-1])
    if overlapping.size:
        at = int(order[overlapping[0] + 1])
        problem = "the note begins before the previous note ends"
        raise table.error(problem, at=at, column="start", hint="the notes of a case must not overlap")
    categories, ids = table.column("category") or [], table.column("note_id") or []
    number = {(int(row[k]), str(ids[k])): position for position, k in enumerate(order.tolist())}
    return NotePositions(base, begins, ends, tuple(categories[k] or "" for k in order.tolist()), number)


def _place_evidence(
    table: EvidenceTable, cohort: Cohort, main: str, labels: Sequence[str], notes: NotePositions, *, gold: bool = False
) -> PlacedEvidence:
    """The rows of a table, checked; those of labels that are not audited are left out."""
    row = _cases(table, cohort, main)
    label = _labels(table, cohort, labels, gold=gold)
    start, end = table.numbers("start"), table.numbers("end")
    if table.in_notes:
        shift, room = _note_offsets(table, row, notes)
        past = np.flatnonzero(end > room)
        if past.size:
            at = int(past[0])
            problem = f"the span goes from {start[at]} to {end[at]}, but the note has {room[at]} characters"
            raise table.error(problem, at=at, column="end", hint="predict for the notes that were annotated, unchanged")
        start, end = start + shift, end + shift
    _check_ends(table, cohort, row, end)
    kept = np.flatnonzero(label >= 0)

    def some(name: str) -> tuple[str, ...]:
        column = table.column(name)
        return tuple("" if column is None else column[k] or "" for k in kept.tolist())

    score = None if table.score is None else table.score[kept]
    numbers = (row[kept], label[kept], start[kept], end[kept])
    return PlacedEvidence(*numbers, score, some("code_system"), some("completeness"), row[label < 0])


def _cases(table: EvidenceTable | NotesTable, cohort: Cohort, main: str) -> Ints:
    ids, given = cohort.cases["case_id"].to_list(), table.column("case_id") or []
    number = {ids[row]: row for row in cohort.rows(cohort=main).tolist()}
    found = np.array([number.get(case, -1) for case in given], np.int64)
    if bool(np.any(found < 0)):
        at = int(np.argmax(found < 0))
        problem = f"the cohort has no case {quote(given[at])}"
        raise table.error(problem, at=at, column="case_id", hint="use the cohort's case ids, or leave the row out")
    return found


def _labels(table: EvidenceTable, cohort: Cohort, labels: Sequence[str], *, gold: bool) -> Ints:
    """The index of each row's label among the audited ones; -1 for labels that are not audited."""
    number = {label: k for k, label in enumerate(labels)}
    others, given = set(cohort.labels), table.column("label") or []
    for at, label in enumerate(given):
        if gold and label not in number and label not in others:
            hint = "use the cohort's labels, or leave the row out"
            raise table.error(f"the cohort has no label {quote(label)}", at=at, column="label", hint=hint)
    return np.array([number.get(label or "", -1) for label in given], np.int64)


def _check_ends(table: EvidenceTable | NotesTable, cohort: Cohort, row: Ints, end: Ints) -> None:
    length = np.array([len(text) for text in cohort.texts], np.int64)[row]
    if bool(np.any(end > length)):
        at = int(np.argmax(end > length))
        problem = f"the span ends at {end[at]}, but the case's text has {length[at]} characters"
        raise table.error(problem, at=at, column="end", hint="give offsets in characters of the cohort's own text")


def _note_offsets(table: EvidenceTable, row: Ints, notes: NotePositions) -> tuple[Ints, Ints]:
    """Where each row's note begins in its case, and how long the note is."""
    if not notes.number:
        raise ConfigError(
            "audit 'evidence': offsets in MDACE's files count from the start of a note, and no table says where the "
            "notes are",
            file=table.file,
            hint="give the table of notes as `notes:`",
        )
    shift, room = np.zeros(len(row), np.int64), np.zeros(len(row), np.int64)
    for at, (case, note) in enumerate(zip(row.tolist(), table.column("note_id") or [], strict=True)):
        number = notes.number.get((case, str(note)))
        if number is None:
            problem = f"case {quote((table.column('case_id') or [])[at])} has no note {quote(note)}"
            hint = "give evidence in notes that the case's text contains, or build the cohort with notes=all"
            raise table.error(problem, at=at, column="note_id", hint=hint)
        shift[at] = notes.start[number] - notes.base[case]
        room[at] = notes.end[number] - notes.start[number]
    return shift, room
