"""Decisions about evidence as they are kept: every entry of every coder, the last one that was not taken back counts.

A set is charts whose notes have proposed spans, of a coder, of a model, or of both. A coder accepts, rejects or
corrects each of them without seeing what others did; of a note without any they say that they have read it. What
comes of a span is in `outcomes.py`.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from palpate.data.annotations.cas_changes import CasSource
from palpate.privacy import hides
from palpate.workbench.pages import BenchProblem
from palpate.workbench.store import BenchStore, NewColumn

ACCEPT, REJECT, CORRECT = DECISIONS = ("accept", "reject", "correct")
CODER, MODEL, BOTH, ADDED = "coder", "model", "both", "added"
"""Who marked a span; `added`: somebody who reviewed, and nobody before."""
REASONS = ("unrelated", "negated", "past", "extent", "code")
"""Why a span is rejected; a coder may also write a reason."""
LONGEST_REASON, LONGEST_CODE = 500, 40
SCHEMA = """
CREATE TABLE IF NOT EXISTS evidence_sets (
    id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT NOT NULL, made REAL NOT NULL, closed INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE IF NOT EXISTS evidence_notes (
    number INTEGER NOT NULL REFERENCES evidence_sets(id), place INTEGER NOT NULL, chart TEXT NOT NULL,
    note TEXT NOT NULL, category TEXT NOT NULL, description TEXT NOT NULL, comment TEXT NOT NULL, setting TEXT,
    system TEXT, text TEXT, source TEXT, PRIMARY KEY (number, place)
) STRICT;
CREATE TABLE IF NOT EXISTS evidence_items (
    number INTEGER NOT NULL, place INTEGER NOT NULL, note INTEGER NOT NULL, begin INTEGER NOT NULL,
    "end" INTEGER NOT NULL, code TEXT NOT NULL, code_system TEXT NOT NULL, by TEXT NOT NULL, type TEXT NOT NULL,
    description TEXT NOT NULL, PRIMARY KEY (number, place),
    FOREIGN KEY (number, note) REFERENCES evidence_notes(number, place)
) STRICT;
CREATE TABLE IF NOT EXISTS evidence_entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER NOT NULL, person INTEGER NOT NULL REFERENCES people(id),
    judge INTEGER NOT NULL, place INTEGER NOT NULL, decision TEXT NOT NULL, begin INTEGER NOT NULL,
    "end" INTEGER NOT NULL, code TEXT NOT NULL, reason TEXT NOT NULL, entry TEXT NOT NULL, at REAL NOT NULL,
    undone INTEGER NOT NULL DEFAULT 0,
    UNIQUE (number, person, judge, entry),
    FOREIGN KEY (number, place) REFERENCES evidence_items(number, place)
) STRICT;
CREATE TABLE IF NOT EXISTS evidence_read (
    number INTEGER NOT NULL, person INTEGER NOT NULL REFERENCES people(id), note INTEGER NOT NULL,
    PRIMARY KEY (number, person, note), FOREIGN KEY (number, note) REFERENCES evidence_notes(number, place)
) STRICT;
CREATE INDEX IF NOT EXISTS evidence_of_notes ON evidence_items (number, note);
CREATE INDEX IF NOT EXISTS evidence_of_coders ON evidence_entries (number, judge, person, place, id);
"""
LATER = (NewColumn("evidence_notes", "source", "TEXT"),)
CURRENT = """
SELECT * FROM evidence_entries AS one WHERE number = ? AND judge = ? AND undone = 0 AND id = (
    SELECT max(id) FROM evidence_entries AS same WHERE same.number = one.number AND same.judge = one.judge
    AND same.person = one.person AND same.place = one.place AND same.undone = 0)
"""
"""What counts of the entries of a set, of coders or of those who adjudicate."""
_NOTE_OF = "SELECT note FROM evidence_items WHERE number = ? AND place = ?"


@hides("note", "text", "source")
class ReviewedNote(NamedTuple):
    """A note of a chart; `text` is None where only offsets are known."""

    place: int
    chart: str
    note: str
    category: str = ""
    description: str = ""
    comment: str = ""
    """Of the chart."""
    setting: str | None = None
    system: str | None = None
    text: str | None = None
    source: str | None = None
    """The documents in UIMA CAS JSON that it came from, by side, as JSON: see `sources`."""


class ProposedSpan(NamedTuple):
    """A span that a coder, a model or both marked, or a reviewer added, in characters of its note."""

    place: int
    note: int
    begin: int
    end: int
    code: str
    code_system: str
    by: str
    type: str = "Human"
    description: str = ""


class SpanDecision(NamedTuple):
    """What somebody said of a span; begin, end and code are those that are to be kept."""

    decision: str
    begin: int
    end: int
    code: str
    reason: str = ""

    def agrees(self, other: SpanDecision) -> bool:
        """Whether the same comes of it, whatever the reason."""
        if REJECT in (self.decision, other.decision):
            return self.decision == other.decision
        return (self.begin, self.end, self.code) == (other.begin, other.end, other.code)


class EvidenceSet(NamedTuple):
    """Charts to review."""

    id: int
    title: str
    closed: bool
    n: int
    """How many proposed spans."""
    n_notes: int
    n_unmarked: int
    """How many of the notes have no proposed span."""


def sources(kept: str | None) -> dict[str, CasSource]:
    """The documents in UIMA CAS JSON that a note came from, by side; a coder's comes first."""
    return {} if kept is None else {side: CasSource(*one) for side, one in json.loads(kept).items()}


Decisions = Mapping[int, SpanDecision]
"""One person's, by the place of the span."""


def make_set(store: BenchStore, title: str, notes: Sequence[ReviewedNote], items: Sequence[ProposedSpan]) -> int:
    """Keep charts with their text and their proposed spans; returns the number of the set."""
    title = " ".join(title.split())
    if not title or len(title) > 120:
        raise BenchProblem("title", n=120)
    if not items:
        raise BenchProblem("no_span")

    def change(db: sqlite3.Connection) -> int:
        sql = "INSERT INTO evidence_sets (title, made) VALUES (?, ?)"
        number = int(db.execute(sql, (title, time.time())).lastrowid or 0)
        db.executemany(f"INSERT INTO evidence_notes VALUES ({', '.join('?' * 11)})", [(number, *one) for one in notes])
        db.executemany(f"INSERT INTO evidence_items VALUES ({', '.join('?' * 10)})", [(number, *one) for one in items])
        return number

    return store.write(change)


def delete_set(store: BenchStore, number: int) -> None:
    """Remove a set with its text and everything that was said of it."""

    def change(db: sqlite3.Connection) -> None:
        for table in ("entries", "items", "read", "notes", "sets"):
            key = "id" if table == "sets" else "number"
            db.execute(f"DELETE FROM evidence_{table} WHERE {key} = ?", (number,))

    store.forget(change)
    store.known.pop(("evidence-unmarked", number), None)


def close_set(store: BenchStore, number: int, *, closed: bool) -> None:
    """Take no more decisions, or take them again."""
    store.write(lambda db: db.execute("UPDATE evidence_sets SET closed=? WHERE id=?", (int(closed), number)) and None)


def sets(store: BenchStore, number: int | None = None) -> list[EvidenceSet]:
    """All sets, newest first, or the one of a number."""
    rows = store.read(
        "SELECT id, title, closed, "
        f"(SELECT count(*) FROM evidence_items WHERE number = sets.id AND by != '{ADDED}') AS n, "
        "(SELECT count(*) FROM evidence_notes WHERE number = sets.id) AS n_notes "
        f"FROM evidence_sets AS sets {'' if number is None else 'WHERE id = ?'} ORDER BY id DESC",
        () if number is None else (number,),
    )
    return [
        EvidenceSet(
            *(row["id"], row["title"], bool(row["closed"]), row["n"], row["n_notes"]),
            n_unmarked=len(unmarked_notes(store, row["id"])),
        )
        for row in rows
    ]


def unmarked_notes(store: BenchStore, number: int) -> tuple[ReviewedNote, ...]:
    """The notes in which nobody proposed a span, without their text; this never changes, so it is read once."""
    key = ("evidence-unmarked", number)
    found: tuple[ReviewedNote, ...] | None = store.known.get(key)
    if found is None:
        sql = (
            "SELECT place, chart, note, category FROM evidence_notes AS one WHERE number = ? AND NOT EXISTS (SELECT 1 "
            "FROM evidence_items AS span WHERE span.number = one.number AND span.note = one.place AND span.by <> ?) "
            "ORDER BY place"
        )
        found = tuple(ReviewedNote(*tuple(row)) for row in store.read(sql, (number, ADDED)))
        store.known[key] = found  # which another thread may forget at once
    return found


def notes_of_set(store: BenchStore, number: int, place: int | None = None) -> list[ReviewedNote]:
    """The notes of a set, or one of them."""
    which, values = ("", (number,)) if place is None else (" AND place = ?", (number, place))
    rows = store.read(f"SELECT * FROM evidence_notes WHERE number = ?{which} ORDER BY place", values)
    return [ReviewedNote(*tuple(row)[1:]) for row in rows]


def items_of_set(store: BenchStore, number: int, *, place: int | None = None) -> list[ProposedSpan]:
    """The proposed spans of a set, by chart, note and position; with `place`, those of the same note."""
    which, values = ("", [number]) if place is None else (f" AND note = ({_NOTE_OF})", [number, number, place])
    rows = store.read(f"SELECT * FROM evidence_items WHERE number = ?{which} ORDER BY place", values)
    return [ProposedSpan(*tuple(row)[1:]) for row in rows]


def decide(
    store: BenchStore,
    found: EvidenceSet,
    person: int,
    place: int,
    given: SpanDecision,
    entry: str,
    *,
    judge: bool,
    carried: bool = False,
) -> None:
    """Enter a decision; the same entry once more changes nothing. `judge`: it is the coordinator's last word.

    `carried`: the reason is not of this form, but that of the same decision before.
    """
    if not entry or len(entry) > 64:
        raise BenchProblem("incomplete")
    if given.decision not in DECISIONS:
        raise BenchProblem("decision")
    values = (found.id, person, int(judge), place, *given, entry, time.time())
    sql = (
        'INSERT INTO evidence_entries (number, person, judge, place, decision, begin, "end", code, reason, '
        "entry, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    )

    def change(db: sqlite3.Connection) -> None:
        refuse_closed(db, found.id, judge=judge)
        known = db.execute("SELECT 1 FROM evidence_items WHERE number = ? AND place = ?", (found.id, place)).fetchone()
        if known is None:
            raise BenchProblem("decision")
        if not was_sent(db, (found.id, person, judge, entry), given, place=place, carried=carried):
            db.execute(sql, values)

    store.write(change)


def was_sent(
    db: sqlite3.Connection,
    key: tuple[int, int, bool, str],
    given: SpanDecision,
    *,
    place: int | None = None,
    carried: bool = False,
) -> bool:
    """Whether the same was entered before with this key (set, person, judge, entry); something else is refused.

    A span that is added has no place before it is entered. `carried`: the reason is that of an earlier decision.
    """
    sql = "SELECT * FROM evidence_entries WHERE number = ? AND person = ? AND judge = ? AND entry = ?"
    sent = db.execute(sql, key).fetchone()
    if sent is None:
        return False
    before = _decision(sent)
    if place not in (None, sent["place"]) or before != (given._replace(reason=before.reason) if carried else given):
        raise BenchProblem("answered")
    return True


def refuse_closed(db: sqlite3.Connection, number: int, *, judge: bool) -> None:
    """In the same transaction as the entry, so that nothing of a coder comes after the end."""
    if not judge and db.execute("SELECT closed FROM evidence_sets WHERE id = ?", (number,)).fetchone()["closed"]:
        raise BenchProblem("review_closed")


def undo_decision(store: BenchStore, found: EvidenceSet, person: int, *, judge: bool) -> int | None:
    """Take back the last entry; returns the place that it was about, or None."""

    def change(db: sqlite3.Connection) -> int | None:
        refuse_closed(db, found.id, judge=judge)
        asked = "SELECT max(id) AS id, place FROM evidence_entries WHERE number=? AND person=? AND judge=? AND undone=0"
        last = db.execute(asked, (found.id, person, int(judge))).fetchone()
        if last["id"] is None:
            return None
        db.execute("UPDATE evidence_entries SET undone=1 WHERE id=?", (last["id"],))
        return int(last["place"])

    return store.write(change)


def mark_read(store: BenchStore, found: EvidenceSet, person: int, note: int, *, read: bool) -> None:
    """Somebody has read a note without a proposed span to its end, or takes that back."""

    def change(db: sqlite3.Connection) -> None:
        refuse_closed(db, found.id, judge=False)
        marked = "SELECT 1 FROM evidence_items WHERE number = ? AND note = ? AND by <> ?"
        if db.execute(marked, (found.id, note, ADDED)).fetchone() is not None:
            raise BenchProblem("read_marked")
        enter = "INSERT OR IGNORE INTO evidence_read VALUES (?, ?, ?)"
        leave = "DELETE FROM evidence_read WHERE number = ? AND person = ? AND note = ?"
        db.execute(enter if read else leave, (found.id, person, note))

    store.write(change)


def read_notes(store: BenchStore, number: int) -> dict[int, set[int]]:
    """The notes without a proposed span that each coder has read."""
    found: dict[int, set[int]] = {}
    for row in store.read("SELECT person, note FROM evidence_read WHERE number = ? ORDER BY person, note", (number,)):
        found.setdefault(row["person"], set()).add(row["note"])
    return found


def decisions_of(store: BenchStore, number: int, person: int, *, judge: bool = False) -> dict[int, SpanDecision]:
    """One person's decisions."""
    return {row["place"]: _decision(row) for row in store.read(f"{CURRENT} AND person = ?", (number, judge, person))}


def all_decisions(store: BenchStore, number: int) -> dict[int, dict[int, SpanDecision]]:
    """Every coder's decisions."""
    found: dict[int, dict[int, SpanDecision]] = {}
    for row in store.read(f"{CURRENT} ORDER BY person, place", (number, False)):
        found.setdefault(row["person"], {})[row["place"]] = _decision(row)
    return found


def judgements(store: BenchStore, number: int) -> dict[int, SpanDecision]:
    """What the coordinators decided; of several, the last."""
    return {row["place"]: _decision(row) for row in store.read(f"{CURRENT} ORDER BY id", (number, True))}


def _decision(row: sqlite3.Row) -> SpanDecision:
    return SpanDecision(row["decision"], row["begin"], row["end"], row["code"], row["reason"])
