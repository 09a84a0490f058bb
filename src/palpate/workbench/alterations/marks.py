"""Marks of altered notes as they are kept: every entry of every reviewer, the last one that was not taken back counts.

Of a sample, the rows of its notes and their edits are kept, and no text: a page reads the notes from the cohort and
checks that they are still the same. A reviewer's marks are the file that the audit `characteristics` takes.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from palpate.audits.characteristics.review import error_rate
from palpate.cases.edits import Edit
from palpate.commands.review import DrawnReview
from palpate.perturb.characteristics.review import MARKS, AlterationReview
from palpate.stats import krippendorff_alpha
from palpate.workbench.pages import BenchProblem
from palpate.workbench.store import BenchStore

REASONS = ("remains", "somebody", "contradicts", "reads", "more")
"""Why an alteration is wrong; a reviewer may also write a reason."""
LONGEST_REASON = 500
MOST_NOTES = 1_000
SCHEMA = """
CREATE TABLE IF NOT EXISTS alterations_samples (
    id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT NOT NULL, saved TEXT NOT NULL, facts TEXT NOT NULL,
    made REAL NOT NULL, closed INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE IF NOT EXISTS alterations_notes (
    sample INTEGER NOT NULL REFERENCES alterations_samples(id), place INTEGER NOT NULL, row INTEGER NOT NULL,
    edits TEXT NOT NULL, altered TEXT NOT NULL, PRIMARY KEY (sample, place)
) STRICT;
CREATE TABLE IF NOT EXISTS alterations_entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT, sample INTEGER NOT NULL, person INTEGER NOT NULL REFERENCES people(id),
    place INTEGER NOT NULL, mark TEXT NOT NULL, reason TEXT NOT NULL, entry TEXT NOT NULL, at REAL NOT NULL,
    undone INTEGER NOT NULL DEFAULT 0,
    UNIQUE (sample, person, entry),
    FOREIGN KEY (sample, place) REFERENCES alterations_notes(sample, place)
) STRICT;
CREATE INDEX IF NOT EXISTS alterations_of_reviewers ON alterations_entries (sample, person, place, id);
"""
_CURRENT = """
SELECT person, place, mark, reason FROM alterations_entries AS one WHERE sample = ? AND undone = 0 AND id = (
    SELECT max(id) FROM alterations_entries AS same
    WHERE same.sample = one.sample AND same.person = one.person AND same.place = one.place AND same.undone = 0)
"""


class AlteredSample(NamedTuple):
    """Altered notes that reviewers are asked about."""

    id: int
    title: str
    saved: Mapping[str, Any]
    """The file of a review without marks."""
    facts: tuple[str, ...]
    closed: bool

    @property
    def n(self) -> int:
        """How many notes."""
        return len(self.saved["marks"])


class KeptAlteration(NamedTuple):
    """A note of a sample: its row in the cohort, its edits, and the key of what they make of it."""

    row: int
    edits: tuple[Edit, ...]
    altered: str


class NoteMark(NamedTuple):
    """What a reviewer said of a note."""

    mark: str
    reason: str | None
    """None, where it is entered: that of the same mark before."""


class MarkRate(NamedTuple):
    """A reviewer's marks, counted; the rate is of those that are right or wrong, None where there are none."""

    right: int
    wrong: int
    unsure: int
    unmarked: int
    rate: tuple[float, float, float] | None
    """The share that is wrong, with Wilson's 95% interval, as the audit computes it."""


def make_sample(store: BenchStore, drawn: DrawnReview) -> int:
    """Keep a sample, without text; returns its number."""
    rows = [
        (place, note.row, json.dumps(note.edits), mark["altered"])
        for place, (note, mark) in enumerate(zip(drawn.sample.notes, drawn.saved["marks"], strict=True))
    ]
    values = (drawn.title, json.dumps(drawn.saved), json.dumps(list(drawn.facts)), time.time())

    def change(db: sqlite3.Connection) -> int:
        sql = "INSERT INTO alterations_samples (title, saved, facts, made) VALUES (?, ?, ?, ?)"
        number = int(db.execute(sql, values).lastrowid or 0)
        db.executemany("INSERT INTO alterations_notes VALUES (?, ?, ?, ?, ?)", [(number, *row) for row in rows])
        return number

    return store.write(change)


def samples(store: BenchStore, number: int | None = None) -> list[AlteredSample]:
    """All samples, newest first, or the one of a number."""
    which = "" if number is None else "WHERE id = ?"
    rows = store.read(
        f"SELECT * FROM alterations_samples {which} ORDER BY id DESC", () if number is None else (number,)
    )
    return [
        AlteredSample(
            row["id"], row["title"], json.loads(row["saved"]), tuple(json.loads(row["facts"])), bool(row["closed"])
        )
        for row in rows
    ]


def note_of(store: BenchStore, sample: int, place: int) -> KeptAlteration:
    """One note of a sample."""
    row = store.read("SELECT * FROM alterations_notes WHERE sample = ? AND place = ?", (sample, place))[0]
    edits = tuple(Edit(int(start), int(end), str(text)) for start, end, text in json.loads(row["edits"]))
    return KeptAlteration(row["row"], edits, row["altered"])


def close_sample(store: BenchStore, sample: int, *, closed: bool) -> None:
    """Take no more marks, or take them again."""
    sql = "UPDATE alterations_samples SET closed=? WHERE id=?"
    store.write(lambda db: db.execute(sql, (int(closed), sample)) and None)


def enter_mark(store: BenchStore, sample: AlteredSample, person: int, place: int, given: NoteMark, entry: str) -> None:
    """Enter a mark; the same entry once more changes nothing, and another one with its key is refused."""
    if not entry or len(entry) > 64:
        raise BenchProblem("incomplete")
    if not 0 <= place < sample.n or given.mark not in MARKS[:-1]:
        raise BenchProblem("mark")
    sql = (
        "INSERT INTO alterations_entries (sample, person, place, mark, reason, entry, at) VALUES (?, ?, ?, ?, ?, ?, ?)"
    )

    def change(db: sqlite3.Connection) -> None:
        _refuse_closed(db, sample.id)
        asked = "SELECT place, mark, reason FROM alterations_entries WHERE sample = ? AND person = ? AND entry = ?"
        sent = db.execute(asked, (sample.id, person, entry)).fetchone()
        if sent is None:
            reason = _reason_of(db, sample.id, person, place, given.mark) if given.reason is None else given.reason
            db.execute(sql, (sample.id, person, place, given.mark, reason, entry, time.time()))
        elif (sent["place"], sent["mark"]) != (place, given.mark) or given.reason not in (None, sent["reason"]):
            raise BenchProblem("answered")

    store.write(change)


def _reason_of(db: sqlite3.Connection, sample: int, person: int, place: int, mark: str) -> str:
    """What was said why, if the mark is the same as before."""
    before = db.execute(f"{_CURRENT} AND person = ? AND place = ?", (sample, person, place)).fetchone()
    return str(before["reason"]) if before is not None and before["mark"] == mark else ""


def _refuse_closed(db: sqlite3.Connection, sample: int) -> None:
    """In the same transaction as the entry, so that nothing comes after the end."""
    if db.execute("SELECT closed FROM alterations_samples WHERE id = ?", (sample,)).fetchone()["closed"]:
        raise BenchProblem("marks_closed")


def undo_mark(store: BenchStore, sample: AlteredSample, person: int) -> int | None:
    """Take back the last entry; returns the place that it was about, or None."""

    def change(db: sqlite3.Connection) -> int | None:
        _refuse_closed(db, sample.id)
        asked = "SELECT max(id) AS id, place FROM alterations_entries WHERE sample=? AND person=? AND undone=0"
        found = db.execute(asked, (sample.id, person)).fetchone()
        if found["id"] is None:
            return None
        db.execute("UPDATE alterations_entries SET undone=1 WHERE id=?", (found["id"],))
        return int(found["place"])

    return store.write(change)


def marks_of(store: BenchStore, sample: int, person: int) -> dict[int, NoteMark]:
    """One reviewer's marks by place."""
    rows = store.read(f"{_CURRENT} AND person = ?", (sample, person))
    return {row["place"]: NoteMark(row["mark"], row["reason"]) for row in rows}


def all_marks(store: BenchStore, sample: int) -> dict[int, dict[int, NoteMark]]:
    """Every reviewer's marks by place."""
    found: dict[int, dict[int, NoteMark]] = {}
    for row in store.read(f"{_CURRENT} ORDER BY person, place", (sample,)):
        found.setdefault(row["person"], {})[row["place"]] = NoteMark(row["mark"], row["reason"])
    return found


def count_marks(sample: AlteredSample, marks: Mapping[int, NoteMark]) -> MarkRate:
    """One reviewer's marks, with the error rate as the audit computes it."""
    given = [mark.mark for mark in marks.values()]
    right, wrong, unsure = (given.count(mark) for mark in MARKS[:-1])
    review = AlterationReview(dict(sample.saved["to"]), right, wrong)
    return MarkRate(right, wrong, unsure, sample.n - len(given), error_rate(review) if right + wrong else None)


def mark_agreement(sample: AlteredSample, marks: Sequence[Mapping[int, NoteMark]]) -> tuple[float | None, int, int]:
    """Krippendorff's alpha (nominal), how many notes two or more marked, and of how many of these all marks agree."""
    values = np.full((len(marks), sample.n), np.nan)
    for who, given in enumerate(marks):
        for place, mark in given.items():
            values[who, place] = MARKS.index(mark.mark)
    known = ~np.isnan(values)
    shared = known.sum(axis=0) >= 2
    same = [np.unique(column[~np.isnan(column)]).size == 1 for column in values[:, shared].T]
    alpha = krippendorff_alpha(values) if shared.any() else float("nan")
    return None if np.isnan(alpha) else float(alpha), int(shared.sum()), sum(same)


def review_file(sample: AlteredSample, reviewer: str, marks: Mapping[int, NoteMark]) -> str:
    """The file that the audit takes: one reviewer's marks and reasons, no text of notes."""
    if not any(mark.mark in ("right", "wrong") for mark in marks.values()):
        raise BenchProblem("no_marks_of", name=reviewer)
    listed = []
    for place, one in enumerate(sample.saved["marks"]):
        given = marks.get(place)
        listed.append({**one, **({} if given is None else {"mark": given.mark})})
        if given is not None and given.reason:
            listed[-1]["reason"] = given.reason
    return json.dumps({**sample.saved, "reviewer": reviewer, "marks": listed}, indent=1) + "\n"
