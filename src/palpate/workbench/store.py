"""What people enter, in SQLite: an entry that was acknowledged is on the disk, whatever happens to the process.

One thread writes. It takes all the entries that wait, commits them together (`synchronous=FULL`) and only then lets
their senders go on; so fifty people at once wait for a few commits, not for fifty. Readers do not wait (WAL).
"""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from palpate.errors import InputError
from palpate.files import make_folder, make_private_file

T = TypeVar("T")
Job = tuple[Callable[[sqlite3.Connection], Any], "Future[Any]"]
_MOST_AT_ONCE = 200
VERSION = 1


class NewColumn(NamedTuple):
    """A column that a file of an earlier palpate lacks: its table, its name, and its type with a default."""

    table: str
    name: str
    type: str


class BenchStore:
    """The file of entries.

    >>> import tempfile
    >>> store = BenchStore(Path(tempfile.mkdtemp()) / "bench.sqlite", ["CREATE TABLE seen (who TEXT) STRICT"])
    >>> store.write(lambda db: db.execute("INSERT INTO seen VALUES ('a')").rowcount)
    1
    >>> [row["who"] for row in store.read("SELECT who FROM seen")]
    ['a']
    >>> store.close()
    """

    def __init__(self, path: Path, schemas: Sequence[str], *, later: Sequence[NewColumn] = ()) -> None:
        make_folder(path.parent)
        if not path.exists():
            make_private_file(path)
        self.path = path
        self.known: dict[tuple[str, int], Any] = {}
        """What never changes once it was entered, by kind and number, so that it is read once."""
        self._readers = threading.local()
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        try:
            db = self._connect()
            db.execute("PRAGMA journal_mode=WAL")
            found = db.execute("PRAGMA user_version").fetchone()[0]
            if found not in (0, VERSION):
                raise InputError("the entries were made by another version of palpate", file=path)
            for schema in schemas:
                db.executescript(schema)
            _add_columns(db, later)
            db.execute(f"PRAGMA user_version={VERSION}")
            db.close()
        except sqlite3.DatabaseError:
            raise InputError("this is no file of a workbench", file=path, hint="choose another --data") from None
        self._writer = threading.Thread(target=self._write_all, name="workbench-writer", daemon=True)
        self._writer.start()

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, isolation_level=None, timeout=30)
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA synchronous=FULL")
        db.execute("PRAGMA foreign_keys=ON")
        db.execute("PRAGMA secure_delete=ON")
        return db

    def read(self, sql: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """The rows of a question."""
        db: sqlite3.Connection | None = getattr(self._readers, "db", None)
        if db is None:
            db = self._readers.db = self._connect()
        return db.execute(sql, values).fetchall()

    def write(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """Make a change whole or not at all; returns what it returns, once it is on the disk."""
        done: Future[T] = Future()
        self._jobs.put((change, done))
        return done.result()

    def forget(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """As `write`, and what was deleted is then neither in the file nor in its log."""
        done = self.write(change)
        self.read("PRAGMA wal_checkpoint(TRUNCATE)")
        return done

    def close(self) -> None:
        """Write what waits, and end."""
        self._jobs.put(None)
        self._writer.join()

    def _write_all(self) -> None:
        db = self._connect()
        going = True
        while going:
            jobs = [self._jobs.get()]
            while len(jobs) < _MOST_AT_ONCE and not self._jobs.empty():
                jobs.append(self._jobs.get())
            going = None not in jobs
            _commit(db, [job for job in jobs if job is not None])
        db.close()


def _add_columns(db: sqlite3.Connection, later: Sequence[NewColumn]) -> None:
    for table, name, kind in later:
        if name not in {row["name"] for row in db.execute(f"PRAGMA table_info({table})")}:
            db.execute(f'ALTER TABLE {table} ADD COLUMN "{name}" {kind}')


def _commit(db: sqlite3.Connection, jobs: Sequence[Job]) -> None:
    """Make each change in a savepoint of its own, commit them all, and only then answer."""
    answers: list[tuple[Future[Any], Any, BaseException | None]] = []
    try:
        db.execute("BEGIN IMMEDIATE")
        for change, done in jobs:
            db.execute("SAVEPOINT one")
            try:
                answers.append((done, change(db), None))
            except BaseException as error:  # it goes to whoever asked
                db.execute("ROLLBACK TO one")
                answers.append((done, None, error))
            db.execute("RELEASE one")
        db.execute("COMMIT")
    except sqlite3.Error as error:  # a full disk: nothing of it was kept
        if db.in_transaction:
            db.execute("ROLLBACK")
        answers = [(done, None, error) for _, done in jobs]
    for done, answer, problem in answers:
        if problem is None:
            done.set_result(answer)
        else:
            done.set_exception(problem)
