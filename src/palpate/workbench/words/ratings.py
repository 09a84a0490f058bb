"""Ratings as they are kept: every entry of every rater, the last one that was not taken back counts.

An entry carries a key that the page made, so a form that is sent twice counts once. A rater's ranking of all words is
one entry per word with evenly spaced scores, so both ways of rating give the sheet that the audit reads.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.vocabulary.correlations import FEWEST_WORDS
from palpate.errors import InputError
from palpate.perturb.words import check_words
from palpate.stats import kendall_w, krippendorff_alpha
from palpate.workbench.store import BenchStore

LOW, HIGH = 1, 5
"""The scale, which the audit reads."""
MOST_WORDS = 2_000
SCHEMA = """
CREATE TABLE IF NOT EXISTS words_sheets (
    id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT NOT NULL, instruction TEXT NOT NULL, made REAL NOT NULL,
    closed INTEGER NOT NULL DEFAULT 0
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


class RaterAgreement(NamedTuple):
    """How well the raters agree so far; None where that can't be said yet."""

    alpha: float | None
    w: float | None
    n_shared: int
    """Words that at least two raters rated."""
    n_complete: int
    """Words that all raters rated."""
    n_raters: int


def make_sheet(store: BenchStore, title: str, instruction: str, words: Sequence[str]) -> int:
    """Make a sheet; returns its number."""
    title = " ".join(title.split())
    if not title or len(title) > 120:
        raise InputError("a title has 1 to 120 characters")
    listed = check_words([" ".join(word.split()) for word in words])
    if not 2 <= len(listed) <= MOST_WORDS:
        raise InputError(f"a sheet has from 2 to {MOST_WORDS:,} words, and these are {len(listed):,}")

    def change(db: sqlite3.Connection) -> int:
        made = db.execute(
            "INSERT INTO words_sheets (title, instruction, made) VALUES (?, ?, ?)", (title, instruction, time.time())
        )
        rows = [(made.lastrowid, place, word) for place, word in enumerate(listed)]
        db.executemany("INSERT INTO words_listed VALUES (?, ?, ?)", rows)
        return int(made.lastrowid or 0)

    return store.write(change)


def close_sheet(store: BenchStore, sheet: int, *, closed: bool) -> None:
    """Take no more ratings, or take them again."""
    store.write(lambda db: db.execute("UPDATE words_sheets SET closed=? WHERE id=?", (int(closed), sheet)) and None)


def sheets(store: BenchStore) -> list[WordSheet]:
    """All sheets, newest first."""
    words: dict[int, list[str]] = {}
    for row in store.read("SELECT sheet, word FROM words_listed ORDER BY sheet, place"):
        words.setdefault(row["sheet"], []).append(row["word"])
    rows = store.read("SELECT * FROM words_sheets ORDER BY id DESC")
    return [
        WordSheet(row["id"], row["title"], row["instruction"], bool(row["closed"]), tuple(words.get(row["id"], ())))
        for row in rows
    ]


def sheet_of(store: BenchStore, number: int) -> WordSheet | None:
    """One sheet."""
    rows = store.read("SELECT * FROM words_sheets WHERE id = ?", (number,))
    if not rows:
        return None
    words = store.read("SELECT word FROM words_listed WHERE sheet = ? ORDER BY place", (number,))
    row = rows[0]
    listed = tuple(each["word"] for each in words)
    return WordSheet(row["id"], row["title"], row["instruction"], bool(row["closed"]), listed)


def rate(store: BenchStore, sheet: WordSheet, person: int, scores: Mapping[int, float], entry: str) -> None:
    """Enter scores by place; an entry that was sent before changes nothing."""
    if sheet.closed:
        raise InputError("this sheet is closed: no more ratings are taken")
    if not entry or len(entry) > 64:
        raise InputError("the form is incomplete", hint="load the page again")
    for place, score in scores.items():
        if not 0 <= place < len(sheet.words) or not LOW <= score <= HIGH:
            raise InputError(f"a score is from {LOW} to {HIGH}, for a word of the sheet")
    now = time.time()
    rows = [(sheet.id, person, place, score, entry, now) for place, score in scores.items()]
    sql = "INSERT OR IGNORE INTO words_entries (sheet, person, place, score, entry, at) VALUES (?, ?, ?, ?, ?, ?)"
    store.write(lambda db: db.executemany(sql, rows) and None)


def undo(store: BenchStore, sheet: WordSheet, person: int) -> int | None:
    """Take back the last entry; returns the place that it was about (of a ranking, the first), or None."""
    if sheet.closed:
        raise InputError("this sheet is closed: no more ratings are taken")

    def change(db: sqlite3.Connection) -> int | None:
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
    return [int(place) for place in np.random.default_rng([sheet.id, person]).permutation(len(sheet.words))]


def ranking(sheet: WordSheet, person: int, scores: Mapping[int, float]) -> list[int]:
    """The places, highest score first; those without a score last; ties in the rater's own order."""
    order = own_order(sheet, person)
    return sorted(order, key=lambda place: -scores.get(place, float("-inf")))


def spaced(order: Sequence[int]) -> dict[int, float]:
    """The scores of a ranking: evenly from the top of the scale to its bottom."""
    step = (HIGH - LOW) / max(len(order) - 1, 1)
    return {place: round(HIGH - step * k, 6) for k, place in enumerate(order)}
