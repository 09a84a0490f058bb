"""The cache of scores: each distinct (model, input) is scored once, ever.

SQLite in write-ahead mode, so that a killed process loses nothing that it had written and two runs can share
one file. It holds hashes and probabilities; no text, and nothing from which text could be read back.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from palpate.errors import InputError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS models (id INTEGER PRIMARY KEY, fingerprint TEXT UNIQUE NOT NULL);
CREATE TABLE IF NOT EXISTS scores (
    model INTEGER NOT NULL, key BLOB NOT NULL, p BLOB NOT NULL, PRIMARY KEY (model, key)
) WITHOUT ROWID;
"""
_KEYS_PER_QUERY = 4096


def default_path() -> Path:
    """`PALPATE_CACHE`, or the user's cache folder."""
    named = os.environ.get("PALPATE_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "palpate" / "scores.sqlite"


class ScoreCache:
    """Probabilities by model fingerprint and input key."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=60, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute("PRAGMA cache_size=-65536")
            self._db.executescript(_SCHEMA)
        except (sqlite3.DatabaseError, OSError) as error:
            raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> InputError:
        hint = "move it away, or name another with PALPATE_CACHE or `cache:`"
        return InputError(f"can't be used as the cache of scores ({error})", file=self.path, hint=hint)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _model(self, fingerprint: str) -> int:
        self._db.execute("INSERT OR IGNORE INTO models (fingerprint) VALUES (?)", (fingerprint,))
        (number,) = self._db.execute("SELECT id FROM models WHERE fingerprint = ?", (fingerprint,)).fetchone()
        return int(number)

    def get(
        self, fingerprint: str, keys: Sequence[bytes], n_labels: int
    ) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Which keys are known, and their probabilities (NaN where not)."""
        try:
            return self._get(fingerprint, keys, n_labels)
        except sqlite3.DatabaseError as error:
            raise self._unusable(error) from None

    def _get(
        self, fingerprint: str, keys: Sequence[bytes], n_labels: int
    ) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        found = np.zeros(len(keys), dtype=bool)
        p = np.full((len(keys), n_labels), np.nan)
        known_as = self._db.execute("SELECT id FROM models WHERE fingerprint = ?", (fingerprint,)).fetchone()
        if known_as is None:
            return found, p
        model = int(known_as[0])
        order = sorted(range(len(keys)), key=keys.__getitem__)
        for begin in range(0, len(order), _KEYS_PER_QUERY):
            rows = order[begin : begin + _KEYS_PER_QUERY]
            marks = ",".join("?" * len(rows))
            query = f"SELECT key, p FROM scores WHERE model = {model} AND key IN ({marks})"
            known = dict(self._db.execute(query, [keys[row] for row in rows]))
            hits = [row for row in rows if keys[row] in known] if known else []
            if hits:
                blob = b"".join(known[keys[row]] for row in hits)
                p[hits] = np.frombuffer(blob, dtype="<f8").reshape(len(hits), n_labels)
                found[hits] = True
        return found, p

    def put(self, fingerprint: str, keys: Sequence[bytes], p: NDArray[np.float64]) -> None:
        """Store predictions, all or none; the first prediction for a key stays."""
        values = np.ascontiguousarray(p, dtype="<f8")
        try:
            model = self._model(fingerprint)
            rows = [(model, key, value.tobytes()) for key, value in zip(keys, values, strict=True)]
            with self._transaction():
                self._db.executemany("INSERT OR IGNORE INTO scores VALUES (?, ?, ?)", rows)
        except sqlite3.DatabaseError as error:
            raise self._unusable(error) from None

    def close(self) -> None:
        """Close the file."""
        self._db.close()
