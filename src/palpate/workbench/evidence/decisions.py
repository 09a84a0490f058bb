"""Decisions about evidence as they are kept: every entry of every coder, the last one that was not taken back counts.

A set is charts whose notes have proposed spans, of a coder, of a model, or of both. A coder accepts, rejects or
corrects each of them without seeing what others did; the coordinator adjudicates. What comes of a span is settled by
the coordinator, or else by coders who all say the same.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from palpate.errors import InputError
from palpate.privacy import hides
from palpate.workbench.store import BenchStore

ACCEPT, REJECT, CORRECT = DECISIONS = ("accept", "reject", "correct")
CODER, MODEL, BOTH = "coder", "model", "both"
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
    system TEXT, text TEXT, PRIMARY KEY (number, place)
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
CREATE INDEX IF NOT EXISTS evidence_of_notes ON evidence_items (number, note);
CREATE INDEX IF NOT EXISTS evidence_of_coders ON evidence_entries (number, judge, person, place, id);
"""
_CURRENT = """
SELECT * FROM evidence_entries AS one WHERE number = ? AND judge = ? AND undone = 0 AND id = (
    SELECT max(id) FROM evidence_entries AS same WHERE same.number = one.number AND same.judge = one.judge
    AND same.person = one.person AND same.place = one.place AND same.undone = 0)
"""
_NOTE_OF = "SELECT note FROM evidence_items WHERE number = ? AND place = ?"


@hides("note", "text")
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


class ProposedSpan(NamedTuple):
    """A span that a coder, a model or both marked, in characters of its note."""

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
    """How many spans."""
    n_notes: int


Decisions = Mapping[int, SpanDecision]
"""One person's, by the place of the span."""


def make_set(store: BenchStore, title: str, notes: Sequence[ReviewedNote], items: Sequence[ProposedSpan]) -> int:
    """Keep charts with their text and their proposed spans; returns the number of the set."""
    title = " ".join(title.split())
    if not title or len(title) > 120:
        raise InputError("a title has 1 to 120 characters")
    if not items:
        raise InputError("there is no span to review")

    def change(db: sqlite3.Connection) -> int:
        sql = "INSERT INTO evidence_sets (title, made) VALUES (?, ?)"
        number = int(db.execute(sql, (title, time.time())).lastrowid or 0)
        db.executemany(f"INSERT INTO evidence_notes VALUES ({', '.join('?' * 10)})", [(number, *one) for one in notes])
        db.executemany(f"INSERT INTO evidence_items VALUES ({', '.join('?' * 10)})", [(number, *one) for one in items])
        return number

    return store.write(change)


def delete_set(store: BenchStore, number: int) -> None:
    """Remove a set with its text and everything that was said of it."""

    def change(db: sqlite3.Connection) -> None:
        for table, key in (("entries", "number"), ("items", "number"), ("notes", "number"), ("sets", "id")):
            db.execute(f"DELETE FROM evidence_{table} WHERE {key} = ?", (number,))

    store.forget(change)


def close_set(store: BenchStore, number: int, *, closed: bool) -> None:
    """Take no more decisions, or take them again."""
    store.write(lambda db: db.execute("UPDATE evidence_sets SET closed=? WHERE id=?", (int(closed), number)) and None)


def sets(store: BenchStore, number: int | None = None) -> list[EvidenceSet]:
    """All sets, newest first, or the one of a number."""
    rows = store.read(
        "SELECT id, title, closed, (SELECT count(*) FROM evidence_items WHERE number = sets.id) AS n, "
        "(SELECT count(*) FROM evidence_notes WHERE number = sets.id) AS n_notes "
        f"FROM evidence_sets AS sets {'' if number is None else 'WHERE id = ?'} ORDER BY id DESC",
        () if number is None else (number,),
    )
    return [EvidenceSet(row["id"], row["title"], bool(row["closed"]), row["n"], row["n_notes"]) for row in rows]


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
    store: BenchStore, found: EvidenceSet, person: int, place: int, given: SpanDecision, entry: str, *, judge: bool
) -> None:
    """Enter a decision; an entry that was sent before changes nothing. `judge`: it is the coordinator's last word."""
    if found.closed and not judge:
        raise InputError("this review is closed: no more decisions are taken")
    if not entry or len(entry) > 64:
        raise InputError("the form is incomplete", hint="load the page again")
    if not 0 <= place < found.n or given.decision not in DECISIONS:
        raise InputError("a decision is to accept, reject or correct a span of the set")
    values = (found.id, person, int(judge), place, *given, entry, time.time())
    sql = (
        'INSERT OR IGNORE INTO evidence_entries (number, person, judge, place, decision, begin, "end", code, reason, '
        "entry, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    )
    store.write(lambda db: db.execute(sql, values) and None)


def undo_decision(store: BenchStore, found: EvidenceSet, person: int, *, judge: bool) -> int | None:
    """Take back the last entry; returns the place that it was about, or None."""
    if found.closed and not judge:
        raise InputError("this review is closed: no more decisions are taken")

    def change(db: sqlite3.Connection) -> int | None:
        asked = "SELECT max(id) AS id, place FROM evidence_entries WHERE number=? AND person=? AND judge=? AND undone=0"
        last = db.execute(asked, (found.id, person, int(judge))).fetchone()
        if last["id"] is None:
            return None
        db.execute("UPDATE evidence_entries SET undone=1 WHERE id=?", (last["id"],))
        return int(last["place"])

    return store.write(change)


def decisions_of(store: BenchStore, number: int, person: int, *, judge: bool = False) -> dict[int, SpanDecision]:
    """One person's decisions."""
    return {row["place"]: _decision(row) for row in store.read(f"{_CURRENT} AND person = ?", (number, judge, person))}


def all_decisions(store: BenchStore, number: int) -> dict[int, dict[int, SpanDecision]]:
    """Every coder's decisions."""
    found: dict[int, dict[int, SpanDecision]] = {}
    for row in store.read(f"{_CURRENT} ORDER BY person, place", (number, False)):
        found.setdefault(row["person"], {})[row["place"]] = _decision(row)
    return found


def judgements(store: BenchStore, number: int) -> dict[int, SpanDecision]:
    """What the coordinators decided; of several, the last."""
    return {row["place"]: _decision(row) for row in store.read(f"{_CURRENT} ORDER BY id", (number, True))}


def _decision(row: sqlite3.Row) -> SpanDecision:
    return SpanDecision(row["decision"], row["begin"], row["end"], row["code"], row["reason"])


def disputed(by_coder: Mapping[int, Decisions]) -> list[int]:
    """The places on which coders disagree."""
    places = sorted({place for given in by_coder.values() for place in given})
    said = {place: [given[place] for given in by_coder.values() if place in given] for place in places}
    return [place for place in places if any(not one.agrees(said[place][0]) for one in said[place])]


def settled(by_coder: Mapping[int, Decisions], judged: Decisions) -> dict[int, SpanDecision]:
    """What comes of each span: as the coordinator decided, or else as all coders who decided did."""
    open_places = set(disputed(by_coder))
    agreed = {
        place: given
        for one in by_coder.values()
        for place, given in one.items()
        if place not in open_places and place not in judged
    }
    return dict(sorted({**agreed, **judged}.items()))
