"""Ratings as they are kept: every entry of every rater, the last one that was not taken back counts.

An entry carries a key that the page made, so a form that is sent twice counts once, and another answer with the same
key is refused. A rater's ranking of all words is
one entry per word with evenly spaced scores, so both ways of rating give the sheet that the audit reads.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.vocabulary.correlations import FEWEST_WORDS
from palpate.perturb.words import USUAL_SCALE, RatingScale, check_words
from palpate.stats import kendall_w, krippendorff_alpha
from palpate.workbench.pages import BenchProblem
from palpate.workbench.store import BenchStore, NewColumn

MOST_WORDS = 2_000
LARGEST_SCORE, MOST_STEPS = 100, 11
"""Of a scale that a page asks: whole numbers, so many buttons."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS words_sheets (
    id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT NOT NULL, instruction TEXT NOT NULL, made REAL NOT NULL,
    closed INTEGER NOT NULL DEFAULT 0, low INTEGER NOT NULL DEFAULT 1, high INTEGER NOT NULL DEFAULT 5
) STRICT;
CREATE TABLE IF NOT EXISTS words_listed (
    sheet INTEGER NOT NULL REFERENCES words_sheets(id), place INTEGER NOT NULL, word TEXT NOT NULL,
    PRIMARY KEY (sheet, place)
) STRICT;
CREATE TABLE IF NOT EXISTS words_entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT, sheet INTEGER NOT NULL, person INTEGER NOT NULL REFERENCES people(id),
    place INTEGER NOT NULL, score REAL NOT NULL, entry TEXT NOT NULL, at REAL NOT NULL,
    undone INTEGER NOT NULL DEFAULT 0,
    UNIQUE (sheet, person, entry, place),
    FOREIGN KEY (sheet, place) REFERENCES words_listed(sheet, place)
) STRICT;
CREATE INDEX IF NOT EXISTS words_of_raters ON words_entries (sheet, person, place, id);
"""
LATER = (
    NewColumn("words_sheets", "low", "INTEGER NOT NULL DEFAULT 1"),
    NewColumn("words_sheets", "high", "INTEGER NOT NULL DEFAULT 5"),
)
_CURRENT = """
SELECT person, place, score FROM words_entries AS one WHERE sheet = ? AND undone = 0 AND id = (
    SELECT max(id) FROM words_entries AS same
    WHERE same.sheet = one.sheet AND same.person = one.person AND same.place = one.place AND same.undone = 0)
"""


class WordSheet(NamedTuple):
    """The words that raters are asked about, and how."""

    id: int
    title: str
    instruction: str
    closed: bool
    words: tuple[str, ...]
    low: int = 1
    high: int = 5

    @property
    def scale(self) -> RatingScale:
        """As the audit knows it."""
        return RatingScale(self.low, self.high)

    def keys(self) -> dict[int, str]:
        """The key of each score: its digit; of 10, a zero that means nothing else, or t."""
        every = range(self.low, self.high + 1)
        return {k: str(k) if k < 10 else ("0" if self.low else "t") if k == 10 else "" for k in every}


class RaterAgreement(NamedTuple):
    """How well the raters agree so far; None where that can't be said yet."""

    alpha: float | None
    w: float | None
    n_shared: int
    """Words that at least two raters rated."""
    n_complete: int
    """Words that all raters rated."""
    n_raters: int


def check_scale(low: float, high: float) -> tuple[int, int]:
    """A scale that a page can ask for."""
    whole = low == int(low) and high == int(high)
    if not whole or not 0 <= low < high <= LARGEST_SCORE or high - low >= MOST_STEPS:
        raise BenchProblem("scale", most=MOST_STEPS, largest=LARGEST_SCORE)
    return int(low), int(high)


def make_sheet(
    store: BenchStore, title: str, instruction: str, words: Sequence[str], scale: RatingScale = USUAL_SCALE
) -> int:
    """Make a sheet; returns its number."""
    title = " ".join(title.split())
    if not title or len(title) > 120:
        raise BenchProblem("title", n=120)
    low, high = check_scale(*scale)
    listed = check_words([" ".join(word.split()) for word in words])
    if not 2 <= len(listed) <= MOST_WORDS:
        raise BenchProblem("n_words", most=f"{MOST_WORDS:,}", n=f"{len(listed):,}")

    def change(db: sqlite3.Connection) -> int:
        sql = "INSERT INTO words_sheets (title, instruction, made, low, high) VALUES (?, ?, ?, ?, ?)"
        made = db.execute(sql, (title, instruction, time.time(), low, high))
        rows = [(made.lastrowid, place, word) for place, word in enumerate(listed)]
        db.executemany("INSERT INTO words_listed VALUES (?, ?, ?)", rows)
        return int(made.lastrowid or 0)

    return store.write(change)


def close_sheet(store: BenchStore, sheet: int, *, closed: bool) -> None:
    """Take no more ratings, or take them again."""
    store.write(lambda db: db.execute("UPDATE words_sheets SET closed=? WHERE id=?", (int(closed), sheet)) and None)


def sheets(store: BenchStore) -> list[WordSheet]:
    """All sheets, newest first."""
    return [_sheet(store, row) for row in store.read("SELECT * FROM words_sheets ORDER BY id DESC")]


def sheet_of(store: BenchStore, number: int) -> WordSheet | None:
    """One sheet."""
    rows = store.read("SELECT * FROM words_sheets WHERE id = ?", (number,))
    return _sheet(store, rows[0]) if rows else None


def _sheet(store: BenchStore, row: sqlite3.Row) -> WordSheet:
    """The words of a sheet never change, so they are read once."""
    key = ("words", int(row["id"]))
    if key not in store.known:
        words = store.read("SELECT word FROM words_listed WHERE sheet = ? ORDER BY place", (row["id"],))
        store.known[key] = tuple(each["word"] for each in words)
    head = (row["id"], row["title"], row["instruction"], bool(row["closed"]))
    return WordSheet(*head, store.known[key], row["low"], row["high"])


def rate(store: BenchStore, sheet: WordSheet, person: int, scores: Mapping[int, float], entry: str) -> dict[int, float]:
    """Enter scores by place, and return all of the rater's; the same entry once more changes nothing."""
    if not entry or len(entry) > 64:
        raise BenchProblem("incomplete")
    for place, score in scores.items():
        if not 0 <= place < len(sheet.words) or not sheet.low <= score <= sheet.high:
            raise BenchProblem("score", low=sheet.low, high=sheet.high)

    def change(db: sqlite3.Connection) -> dict[int, float]:
        _refuse_closed(db, sheet.id)
        asked = "SELECT place, score FROM words_entries WHERE sheet = ? AND person = ? AND entry = ?"
        before = {row["place"]: row["score"] for row in db.execute(asked, (sheet.id, person, entry))}
        if before and before != dict(scores):
            raise BenchProblem("answered")
        if not before:
            _enter(db, sheet, person, scores, entry)
        return _scores(db, sheet, person)

    return store.write(change)


def move(store: BenchStore, sheet: WordSheet, person: int, place: int, to: int | str, entry: str) -> None:
    """Move a word of the rater's ranking to a place, or `up` or `down` by one, and give all words the scores of it.

    The order is read in the transaction that writes it, so of two moves at once neither is lost.
    """
    if not entry or len(entry) > 64:
        raise BenchProblem("incomplete")
    key = f"{entry} {place} {to}"

    def change(db: sqlite3.Connection) -> None:
        _refuse_closed(db, sheet.id)
        asked = (
            "SELECT DISTINCT entry FROM words_entries WHERE sheet = ? AND person = ? "
            "AND (entry = ? OR substr(entry, 1, ?) = ?)"
        )
        before = [row["entry"] for row in db.execute(asked, (sheet.id, person, entry, len(entry) + 1, f"{entry} "))]
        if before and before != [key]:
            raise BenchProblem("answered")
        if not before:
            order = ranking(sheet, person, _scores(db, sheet, person))
            here, last = order.index(place), len(order) - 1
            there = to if isinstance(to, int) else max(here - 1, 0) if to == "up" else min(here + 1, last)
            order.insert(there, order.pop(here))
            _enter(db, sheet, person, spaced(order, sheet), key)

    store.write(change)


def _enter(db: sqlite3.Connection, sheet: WordSheet, person: int, scores: Mapping[int, float], entry: str) -> None:
    now = time.time()
    sql = "INSERT INTO words_entries (sheet, person, place, score, entry, at) VALUES (?, ?, ?, ?, ?, ?)"
    db.executemany(sql, [(sheet.id, person, place, score, entry, now) for place, score in scores.items()])


def _scores(db: sqlite3.Connection, sheet: WordSheet, person: int) -> dict[int, float]:
    found = db.execute(f"{_CURRENT} AND person = ?", (sheet.id, person))
    return {row["place"]: row["score"] for row in found}


def _refuse_closed(db: sqlite3.Connection, sheet: int) -> None:
    """In the same transaction as the entry, so that nothing comes after the end."""
    if db.execute("SELECT closed FROM words_sheets WHERE id = ?", (sheet,)).fetchone()["closed"]:
        raise BenchProblem("sheet_closed")


def undo(store: BenchStore, sheet: WordSheet, person: int) -> int | None:
    """Take back the last entry; returns the place that it was about (of a ranking, the first), or None."""

    def change(db: sqlite3.Connection) -> int | None:
        _refuse_closed(db, sheet.id)
        found = db.execute(
            "SELECT entry FROM words_entries WHERE sheet=? AND person=? AND undone=0 ORDER BY id DESC LIMIT 1",
            (sheet.id, person),
        ).fetchone()
        if found is None:
            return None
        which = (sheet.id, person, found["entry"])
        db.execute("UPDATE words_entries SET undone=1 WHERE sheet=? AND person=? AND entry=?", which)
        asked = "SELECT min(place) AS place FROM words_entries WHERE sheet=? AND person=? AND entry=?"
        return int(db.execute(asked, which).fetchone()["place"])

    return store.write(change)


def scores_of(store: BenchStore, sheet: int, person: int) -> dict[int, float]:
    """One rater's scores by place."""
    rows = store.read(f"{_CURRENT} AND person = ?", (sheet, person))
    return {row["place"]: row["score"] for row in rows}


def table_of(store: BenchStore, sheet: WordSheet) -> tuple[list[int], NDArray[np.float64]]:
    """The raters who gave a score, and all scores: [words, raters], NaN where there is none."""
    rows = store.read(_CURRENT, (sheet.id,))
    raters = sorted({row["person"] for row in rows})
    column = {person: k for k, person in enumerate(raters)}
    table = np.full((len(sheet.words), len(raters)), np.nan)
    for row in rows:
        table[row["place"], column[row["person"]]] = row["score"]
    return raters, table


def agreement(table: NDArray[np.float64]) -> RaterAgreement:
    """Krippendorff's alpha and Kendall's W, as the audit computes them; W of the words that all raters rated."""
    known = ~np.isnan(table)
    shared, complete = int((known.sum(axis=1) >= 2).sum()), table[known.all(axis=1)]
    n_raters = table.shape[1]
    alpha = w = None
    if n_raters >= 2 and shared >= FEWEST_WORDS:
        alpha = _defined(krippendorff_alpha(table.T, level="ordinal"))
    if n_raters >= 2 and len(complete) >= FEWEST_WORDS:
        w = _defined(kendall_w(complete.T))
    return RaterAgreement(alpha, w, shared, len(complete) if n_raters else 0, n_raters)


def _defined(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def own_order(sheet: WordSheet, person: int) -> list[int]:
    """The places in an order of the rater's own, so that what comes first is not first for everybody."""
    return list(_order(sheet.id, person, len(sheet.words)))


@lru_cache(maxsize=1_000)
def _order(sheet: int, person: int, n: int) -> tuple[int, ...]:
    return tuple(int(place) for place in np.random.default_rng([sheet, person]).permutation(n))


def ranking(sheet: WordSheet, person: int, scores: Mapping[int, float]) -> list[int]:
    """The places, highest score first; those without a score last; ties in the rater's own order."""
    order = own_order(sheet, person)
    return sorted(order, key=lambda place: -scores.get(place, float("-inf")))


def spaced(order: Sequence[int], sheet: WordSheet) -> dict[int, float]:
    """The scores of a ranking: evenly from the top of the scale to its bottom."""
    step = (sheet.high - sheet.low) / max(len(order) - 1, 1)
    return {place: round(sheet.high - step * k, 6) for k, place in enumerate(order)}
