"""Answers of endpoints in the file of the cache of scores: hashes and numbers, no text.

An answer is stored the moment it arrives, so that a run that is killed, fails or reaches a limit has lost nothing that
was paid for. What is spent is added up by run, so that a resumed run knows what it has spent before.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

from palpate.errors import InputError
from palpate.models.ledger import Spending

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    model TEXT NOT NULL, key BLOB NOT NULL, answer BLOB NOT NULL, PRIMARY KEY (model, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spending (
    run TEXT PRIMARY KEY, requests INTEGER, answers INTEGER, input_tokens INTEGER, output_tokens INTEGER,
    guessed INTEGER
) WITHOUT ROWID;
"""
_KEYS_PER_QUERY = 4096
_PAGES_BETWEEN_CHECKPOINTS = 20_000
"""Requests wait while a checkpoint waits for the disk; SQLite's own 1,000 pages are 300 answers."""


class AnswerLedger:
    """The answers of one model, and what one run has spent on it (`palpate.models.ledger.Ledger`)."""

    def __init__(self, path: Path, *, model: str, run: str) -> None:
        self._model, self._run, self._path = model, run, path
        self._lock = threading.Lock()
        try:
            # Answers arrive in the endpoint's thread.
            self._db = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(f"PRAGMA wal_autocheckpoint={_PAGES_BETWEEN_CHECKPOINTS}")
            self._db.executescript(_SCHEMA)
            self._db.execute("INSERT OR IGNORE INTO spending VALUES (?, 0, 0, 0, 0, 0)", (run,))
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise InputError(f"can't be used for answers ({error})", file=path, hint="move it away") from None

    def known(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """See `Ledger`."""
        found: dict[bytes, bytes] = {}
        for begin in range(0, len(keys), _KEYS_PER_QUERY):
            part = keys[begin : begin + _KEYS_PER_QUERY]
            marks = ",".join("?" * len(part))
            query = f"SELECT key, answer FROM answers WHERE model = ? AND key IN ({marks})"
            with self._lock:
                found.update(self._db.execute(query, [self._model, *part]))
        return found

    def keep(self, key: bytes, answer: bytes, spent: Spending) -> None:
        """See `Ledger`."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.execute("INSERT OR IGNORE INTO answers VALUES (?, ?, ?)", (self._model, key, answer))
                self._add(spent)
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def spend(self, spent: Spending) -> None:
        """See `Ledger`."""
        with self._lock:
            self._add(spent)

    def _add(self, spent: Spending) -> None:
        more = ", ".join(f"{name} = {name} + ?" for name in Spending._fields)
        self._db.execute(f"UPDATE spending SET {more} WHERE run = ?", (*spent, self._run))

    def spent(self) -> Spending:
        """See `Ledger`."""
        columns = ", ".join(Spending._fields)
        with self._lock:
            row = self._db.execute(f"SELECT {columns} FROM spending WHERE run = ?", (self._run,)).fetchone()
        return Spending(*row)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()
