"""The cache of scores: each distinct (model, input) is scored once, ever.

SQLite in write-ahead mode, so that a killed process loses nothing that it had written and two runs can share one file.
It holds hashes and probabilities; no text, and nothing from which text could be read back.

Scores are kept in blocks: the keys and the probabilities of one call, as two columns. When a model has many small
blocks they are joined, so that a look-up reads few and large ones: it takes a second for a million scores, where a row
and an index entry for each would take a quarter of a minute, and writing likewise.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from palpate.cases import scratch
from palpate.cases.keys import KEY_BYTES, KeyArray, KeyPlaces, as_keys, distinct
from palpate.errors import InputError
from palpate.files import make_folder, make_private_file

_SCHEMA = """
CREATE TABLE IF NOT EXISTS models (id INTEGER PRIMARY KEY, fingerprint TEXT UNIQUE NOT NULL);
CREATE TABLE IF NOT EXISTS blocks (
    id INTEGER PRIMARY KEY, model INTEGER NOT NULL, n INTEGER NOT NULL, keys BLOB NOT NULL, p BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS blocks_of_models ON blocks (model, n);
"""
_MANY_BLOCKS = 64
"""So many small blocks of a model are joined into one."""
_LARGE_ROWS, _LARGE_BYTES = 1 << 16, 1 << 24
"""A block of so many rows, or so many bytes of probabilities, is large, and stays as it is."""

Scores = NDArray[np.float64]


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
        self._small: dict[int, int] = {}
        """By model: blocks that were written here since they were last joined."""
        try:
            make_folder(path.parent)
            make_private_file(path)  # SQLite gives its other files the same mode
            self._db = sqlite3.connect(path, timeout=60, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute("PRAGMA cache_size=-65536")
            self._db.executescript(_SCHEMA)
            self._take_over()
            self._remember_use()
        except (sqlite3.DatabaseError, OSError, UnicodeDecodeError) as error:
            raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> InputError:
        hint = "move it away, or name another with PALPATE_CACHE or `cache:`"
        if any(words in str(error) for words in ("disk is full", "disk I/O error")):
            hint = "free some space and add --resume: what was scored before is kept"
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

    def _take_over(self) -> None:
        """Scores of palpate 0.1, which had a row for each, become blocks."""
        if not self._has_rows():
            return
        with self._transaction():
            if not self._has_rows():  # another process was faster
                return
            for (model,) in self._db.execute("SELECT DISTINCT model FROM scores").fetchall():
                rows = self._db.execute("SELECT key, p FROM scores WHERE model = ? ORDER BY key", (model,))
                while part := rows.fetchmany(_LARGE_ROWS):
                    self._insert(model, b"".join(key for key, _ in part), b"".join(p for _, p in part), len(part))
            self._db.execute("DROP TABLE scores")

    def _has_rows(self) -> bool:
        return bool(self._db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'scores'").fetchone())

    def _remember_use(self) -> None:
        """Since 0.2 a model has the day on which it was last asked for, so that old ones can be pruned."""
        if not any(name == "used" for _, name, *_ in self._db.execute("PRAGMA table_info(models)")):
            with suppress(sqlite3.OperationalError):  # another process was faster
                self._db.execute("ALTER TABLE models ADD COLUMN used TEXT")

    def _used(self, model: int) -> None:
        today = datetime.now(UTC).strftime("%Y-%m-%d")
        self._db.execute("UPDATE models SET used = ? WHERE id = ? AND used IS NOT ?", (today, model, today))

    def _insert(self, model: int, keys: bytes, p: bytes, n: int) -> None:
        self._db.execute("INSERT INTO blocks (model, n, keys, p) VALUES (?, ?, ?, ?)", (model, n, keys, p))

    def _model(self, fingerprint: str) -> int:
        self._db.execute("INSERT OR IGNORE INTO models (fingerprint) VALUES (?)", (fingerprint,))
        (number,) = self._db.execute("SELECT id FROM models WHERE fingerprint = ?", (fingerprint,)).fetchone()
        return int(number)

    def get(
        self, fingerprint: str, keys: KeyArray | Sequence[bytes], n_labels: int, *, may_miss: bool = True
    ) -> tuple[NDArray[np.bool_], Scores]:
        """Which keys (distinct ones) are known, and their probabilities (NaN where not).

        A stored NaN is the answer of a model that may have none (`may_miss`), and damage for any other.
        """
        wanted = as_keys(keys)
        found, p = np.zeros(len(wanted), dtype=bool), scratch.filled((len(wanted), n_labels), np.nan)
        try:
            self._look_up(fingerprint, wanted, found, p, may_miss=may_miss)
        except (sqlite3.DatabaseError, ValueError) as error:
            raise self._unusable(error) from None
        return found, p

    def _look_up(
        self, fingerprint: str, wanted: KeyArray, found: NDArray[np.bool_], p: Scores, *, may_miss: bool
    ) -> None:
        known_as = self._db.execute("SELECT id FROM models WHERE fingerprint = ?", (fingerprint,)).fetchone()
        if known_as is None or not len(wanted):
            return
        self._used(known_as[0])
        places = KeyPlaces(wanted)
        # The keys of a block come before its probabilities, which are read only where they are needed.
        blocks = self._db.execute("SELECT id, keys FROM blocks WHERE model = ? ORDER BY id", known_as)
        damaged = []
        for number, blob in blocks:
            keys = _keys(blob)
            if keys is None:
                damaged.append((number,))
                continue
            rows, at = places.find_new(keys, found)
            if not len(rows):
                continue
            (answers,) = self._db.execute("SELECT p FROM blocks WHERE id = ?", (number,)).fetchone()
            values = probabilities(answers, len(keys), p.shape[1])
            if values is None or (not may_miss and bool(np.isnan(values).any())):
                damaged.append((number,))
                found[at] = False
            else:
                p[at] = values[rows]
        if damaged:  # scored again
            with self._transaction():
                self._db.executemany("DELETE FROM blocks WHERE id = ?", damaged)

    def put(self, fingerprint: str, keys: KeyArray | Sequence[bytes], p: Scores) -> None:
        """Store predictions, all or none; the first prediction for a key stays."""
        new = as_keys(keys)
        if not len(new):
            return
        values = np.ascontiguousarray(p, dtype="<f8").reshape(len(new), -1)
        try:
            model = self._model(fingerprint)
            self._used(model)
            with self._transaction():
                self._insert(model, new.astype("<u8").tobytes(), values.tobytes(), len(new))
            self._small[model] = self._small.get(model, 0) + 1
            if self._small[model] >= _MANY_BLOCKS:
                self._join(model)
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise self._unusable(error) from None

    def _join(self, model: int) -> None:
        """Make one block of the small ones at the end; the first prediction for a key stays."""
        self._small[model] = 0
        with self._transaction():
            large = f"n >= {_LARGE_ROWS} OR length(p) >= {_LARGE_BYTES}"
            (last,) = self._db.execute(
                f"SELECT coalesce(max(id), 0) FROM blocks WHERE model = ? AND ({large})", (model,)
            ).fetchone()
            small = self._db.execute(
                "SELECT keys, p FROM blocks WHERE model = ? AND id > ? ORDER BY id", (model, last)
            ).fetchall()
            if len(small) < 2:
                return
            n_labels = len(small[-1][1]) // 8 // (len(small[-1][0]) // KEY_BYTES)  # of what was just put
            read = [
                (found, probabilities(p, len(found), n_labels))
                for keys, p in small
                if (found := _keys(keys)) is not None
            ]
            whole = [(found, p) for found, p in read if p is not None]  # what is damaged is scored again
            if not whole:
                return
            keys, p = (np.concatenate(parts) for parts in zip(*whole, strict=True))
            rows = distinct(keys).rows
            self._db.execute("DELETE FROM blocks WHERE model = ? AND id > ?", (model, last))
            self._insert(model, keys[rows].tobytes(), p[rows].tobytes(), len(rows))

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def probabilities(blob: bytes, n: int, n_labels: int) -> Scores | None:
    """The probabilities of a block, or None where they are not as many as they should be, or no probabilities.

    NaN is the answer of a model that may have none.
    """
    if not isinstance(blob, bytes) or len(blob) != 8 * n * n_labels:
        return None
    p = np.frombuffer(blob, dtype="<f8").reshape(n, n_labels)
    return None if bool(np.any((p < 0) | (p > 1))) else p


def _keys(blob: object) -> KeyArray | None:
    """The keys of a block, or None where they are something else: SQLite keeps any type in any column."""
    if not isinstance(blob, bytes) or not blob or len(blob) % KEY_BYTES:
        return None
    return np.frombuffer(blob, dtype="<u8").reshape(-1, 2)
