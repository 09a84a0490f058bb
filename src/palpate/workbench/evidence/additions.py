"""Spans that nobody proposed: a coder adds them, and no other coder sees them.

An added span is a row beside the proposed ones, which a coder sees only after having added it too; its number is drawn
at random, so that nobody can count what others added. Whoever finished a note without adding the span has said no to
it (`outcomes.py`): so added spans are disputed, adjudicated and settled as all others are.
"""

from __future__ import annotations

import secrets
import sqlite3
import time

from palpate.workbench.evidence.decisions import (
    ACCEPT,
    ADDED,
    CORRECT,
    CURRENT,
    EvidenceSet,
    ProposedSpan,
    SpanDecision,
    refuse_closed,
    was_sent,
)
from palpate.workbench.evidence.passages import nearest_place, places_of
from palpate.workbench.pages import BenchProblem
from palpate.workbench.store import BenchStore

FIRST_PLACE = 10**9
"""Places of added spans start here; those of proposed spans are 0, 1, 2, ..."""
MOST_ADDED = 5_000
"""Of a set."""


def find_span(text: str, first: str, last: str = "", *, which: int = 1, near: int | None = None) -> tuple[int, int]:
    """Where a span is that starts with some words and ends with others, or is just the first ones.

    Of several places, the one with the number `which`, or the one that is nearest to a character.

    >>> find_span("Fever. No fever,\\nno chills", "fever, no", "chills")
    (10, 26)
    >>> find_span("a b a b", "a", which=2), find_span("a b a b", "a", near=3)
    ((4, 5), (4, 5))
    """
    starts = [] if near is not None else places_of(text, first)
    if near is not None:
        begin, end = nearest_place(text, first, near)
    elif which <= len(starts):
        begin, end = starts[which - 1]
    else:
        raise BenchProblem("which_place", n=len(starts))
    if last.split():
        ends = [stop for start, stop in places_of(text, last) if start >= begin and stop >= end]
        if not ends:
            raise BenchProblem("last_not_there")
        end = ends[0]
    return begin, end


def add_span(
    store: BenchStore, found: EvidenceSet, person: int, span: ProposedSpan, reason: str, entry: str
) -> tuple[int, bool]:
    """Enter a span; returns its place, and whether it was proposed already: then it is accepted."""
    if not entry or len(entry) > 64:
        raise BenchProblem("incomplete")

    def change(db: sqlite3.Connection) -> tuple[int, bool]:
        refuse_closed(db, found.id, judge=False)
        given = SpanDecision(ACCEPT, span.begin, span.end, span.code, reason)
        if was_sent(db, (found.id, person, False, entry), given):
            return _sent_place(db, found.id, person, span.note, entry)
        place = _known_place(db, found.id, person, span)
        if place is None:
            place = _new_place(db, found.id)
            row = (found.id, *span._replace(place=place, by=ADDED))
            db.execute(f"INSERT INTO evidence_items VALUES ({', '.join('?' * 10)})", row)
        sql = (
            'INSERT INTO evidence_entries (number, person, judge, place, decision, begin, "end", code, reason, entry, '
            "at) VALUES (?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?)"
        )
        db.execute(sql, (found.id, person, place, *given, entry, time.time()))
        return place, place < FIRST_PLACE

    return store.write(change)


def _sent_place(db: sqlite3.Connection, number: int, person: int, note: int, entry: str) -> tuple[int, bool]:
    """Where a span was entered with this key; of another note, it is another."""
    sql = (
        "SELECT place FROM evidence_entries JOIN evidence_items USING (number, place) "
        "WHERE number = ? AND person = ? AND judge = 0 AND entry = ? AND note = ?"
    )
    found = db.execute(sql, (number, person, entry, note)).fetchone()
    if found is None:
        raise BenchProblem("answered")
    return int(found["place"]), int(found["place"]) < FIRST_PLACE


def _known_place(db: sqlite3.Connection, number: int, person: int, span: ProposedSpan) -> int | None:
    """Where the same span is already, proposed or added; not where this person made another of it, which stays."""
    sql = (
        'SELECT min(place) AS place FROM evidence_items WHERE number=? AND note=? AND begin=? AND "end"=? AND code=? '
        f"AND place NOT IN (SELECT place FROM ({CURRENT}) WHERE person = ? AND decision = ?)"
    )
    same = (number, span.note, span.begin, span.end, span.code)
    row = db.execute(sql, (*same, number, False, person, CORRECT)).fetchone()
    return None if row["place"] is None else int(row["place"])


def _new_place(db: sqlite3.Connection, number: int) -> int:
    sql = "SELECT place FROM evidence_items WHERE number = ? AND place >= ?"
    taken = {row["place"] for row in db.execute(sql, (number, FIRST_PLACE))}
    if len(taken) >= MOST_ADDED:
        raise BenchProblem("too_many_added", n=f"{MOST_ADDED:,}")
    return next(place for place in iter(lambda: FIRST_PLACE + secrets.randbelow(10**9), -1) if place not in taken)
