"""Looking after a cache of scores: how large it is, whether it is sound, what may go, and joining two.

A run needs none of this. A cache grows with every model and every altered text; it is a file of its own, which may be
pruned, copied and deleted while no run uses it: what is gone is scored again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np

from palpate.cases.keys import KEY_BYTES
from palpate.errors import ConfigError, InputError, closest
from palpate.run.execute.cache import ScoreCache

_NAMED = "typeof(fingerprint) = 'text'"


class CachedModel(NamedTuple):
    """What a cache holds of one model."""

    fingerprint: str
    n_scores: int
    n_bytes: int
    used: str | None
    """The day on which a run last asked for it; None: before palpate kept it."""


class CacheCheck(NamedTuple):
    """Whether a cache can be relied on."""

    problems: tuple[str, ...]
    n_damaged: int
    """Blocks whose scores are not as many as their keys, or no probabilities, or of no model; they are removed and
    scored again."""


def read_models(path: Path) -> list[CachedModel]:
    """The models of a cache, the largest first."""
    with _opened(path) as db:
        rows = db.execute(
            "SELECT fingerprint, CAST(coalesce(sum(n), 0) AS INTEGER), coalesce(sum(length(keys) + length(p)), 0), "
            "CASE WHEN typeof(used) = 'text' THEN used END FROM models LEFT JOIN blocks ON blocks.model = models.id "
            f"WHERE {_NAMED} GROUP BY models.id"
        )
        return sorted((CachedModel(*row) for row in rows), key=lambda model: (-model.n_bytes, model.fingerprint))


def check_cache(path: Path) -> CacheCheck:
    """Read everything, and remove what no run could use."""
    with _opened(path) as db:
        said = tuple(row[0] for row in db.execute("PRAGMA integrity_check") if row[0] != "ok")
        blocks = db.execute("SELECT id, n, keys, p FROM blocks")
        damaged = [(number,) for number, *block in blocks if _is_damaged(*block)]
        db.executemany("DELETE FROM blocks WHERE id = ?", damaged)
        # The next model may get the number of one that is gone, and would get its scores with it.
        known = f"(SELECT id FROM models WHERE {_NAMED})"
        orphans = db.execute(f"DELETE FROM blocks WHERE model IS NULL OR model NOT IN {known}").rowcount
        db.execute(f"DELETE FROM models WHERE NOT {_NAMED}")
        return CacheCheck(said, len(damaged) + orphans)


def _is_damaged(n: object, keys: object, p: object) -> bool:
    if not isinstance(n, int) or not isinstance(keys, bytes) or not isinstance(p, bytes):  # SQLite keeps any type
        return True
    if not n or not p or len(keys) != n * KEY_BYTES or len(p) % (8 * n):
        return True
    values = np.frombuffer(p, dtype="<f8")
    return bool(np.any((values < 0) | (values > 1)))


def prune(
    path: Path, *, model: str | None = None, older_than: int | None = None, most_bytes: int | None = None
) -> list[CachedModel]:
    """Remove a model (by the start of its fingerprint), those not used for some days, or the longest unused until the
    rest is small enough; returns what was removed."""
    models = read_models(path)
    gone: list[CachedModel] = []
    if model is not None:
        gone = [each for each in models if each.fingerprint.startswith(model)]
        if not gone:
            hint = closest(model, [each.fingerprint for each in models], all_are="the models are")
            raise ConfigError(f"no model in the cache has a fingerprint that starts with '{model}'", hint=hint)
    if older_than is not None:
        day = (datetime.now(UTC) - timedelta(days=older_than)).strftime("%Y-%m-%d")
        gone += [each for each in models if each not in gone and (each.used or "") < day]
    if most_bytes is not None:
        left = sorted((each for each in models if each not in gone), key=lambda each: each.used or "")
        total = sum(each.n_bytes for each in left)
        for each in left:
            if total <= most_bytes:
                break
            gone.append(each)
            total -= each.n_bytes
    _remove(path, gone)
    return gone


def _remove(path: Path, gone: Sequence[CachedModel]) -> None:
    with _opened(path) as db:
        for each in gone:
            db.execute("BEGIN IMMEDIATE")
            (number,) = db.execute("SELECT id FROM models WHERE fingerprint = ?", (each.fingerprint,)).fetchone()
            db.execute("DELETE FROM blocks WHERE model = ?", (number,))
            db.execute("DELETE FROM models WHERE id = ?", (number,))
            db.execute("COMMIT")
        if gone:
            db.execute("VACUUM")


def merge(path: Path, other: Path) -> int:
    """Add the scores of another cache; what is known already stays as it is. Returns how many were added."""
    if path.resolve() == other.resolve():
        raise ConfigError("a cache can't be merged with itself", file=path)
    added = 0
    with _opened(other) as db:
        target = ScoreCache(path)
        try:
            joined = "blocks JOIN models ON models.id = blocks.model"
            blocks = db.execute(f"SELECT fingerprint, n, keys, p FROM {joined} WHERE {_NAMED} ORDER BY blocks.id")
            for fingerprint, n, keys, p in blocks:
                if _is_damaged(n, keys, p):
                    continue
                found = np.frombuffer(keys, dtype="<u8").reshape(-1, 2)
                values = np.frombuffer(p, dtype="<f8").reshape(n, -1)
                known, _ = target.get(fingerprint, found, values.shape[1])
                target.put(fingerprint, found[~known], values[~known])
                added += int(np.count_nonzero(~known))
        finally:
            target.close()
    return added


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The database of a cache that exists, brought to this version's form."""
    if not path.is_file():
        raise InputError("there is no cache of scores", file=path, hint="name one with --file or PALPATE_CACHE")
    ScoreCache(path).close()
    try:
        with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as db:
            yield db
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        hint = "move it away: what it held is scored again"
        raise InputError(f"can't be read as a cache of scores ({error})", file=path, hint=hint) from None
