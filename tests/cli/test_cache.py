"""`palpate cache`: how large it is, whether it is sound, what may go, and joining two."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

import numpy as np
import pytest

from palpate.errors import ConfigError, InputError
from palpate.run.cache_care import check_cache, merge, prune, read_models
from palpate.run.execute.cache import ScoreCache
from tests.e2e.command_line import CommandLine


def keys(n: int, start: int = 0) -> list[bytes]:
    return [(k + 1).to_bytes(16, "little") for k in range(start, start + n)]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    path = tmp_path / "scores.sqlite"
    scores = ScoreCache(path)
    for name, n in (("old-model", 10), ("new-model", 30)):
        scores.put(name, keys(n), np.linspace(0, 1, 2 * n).reshape(n, 2))
    scores.close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE models SET used = '2020-01-01' WHERE fingerprint = 'old-model'")
    return path


def names(path: Path) -> list[str]:
    return [model.fingerprint for model in read_models(path)]


def test_what_is_in_it(cache: Path) -> None:
    assert [(model.fingerprint, model.n_scores) for model in read_models(cache)] == [
        ("new-model", 30),
        ("old-model", 10),
    ]
    assert cache.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("by", "left"), [({"model": "old"}, ["new-model"]), ({"older_than": 30}, ["new-model"])])
def test_pruning(by: dict[str, object], left: list[str], cache: Path) -> None:
    assert [gone.n_scores for gone in prune(cache, **by)] == [10]  # type: ignore[arg-type]
    assert names(cache) == left


def test_pruning_to_a_size_takes_the_longest_unused(cache: Path) -> None:
    size = sum(model.n_bytes for model in read_models(cache))
    assert prune(cache, most_bytes=size) == []
    assert [gone.fingerprint for gone in prune(cache, most_bytes=size - 1)] == ["old-model"]
    assert len(prune(cache, most_bytes=0)) == 1
    assert names(cache) == []
    with pytest.raises(ConfigError, match="no model in the cache"):
        prune(cache, model="x")


def test_what_is_damaged_goes(cache: Path) -> None:
    with sqlite3.connect(cache) as db:
        db.execute("UPDATE blocks SET p = x'00' WHERE id = 1")
    assert check_cache(cache) == ((), 1)
    assert check_cache(cache) == ((), 0)
    scores = ScoreCache(cache)
    assert not scores.get("old-model", keys(10), 2)[0].any()
    assert scores.get("new-model", keys(30), 2)[0].all()
    scores.close()


def test_merging_keeps_what_is_known(cache: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    scores = ScoreCache(other)
    scores.put("new-model", keys(40), np.full((40, 2), 0.5))
    scores.put("third", keys(5), np.full((5, 1), 0.25))
    scores.close()
    assert merge(cache, other) == 15
    assert merge(cache, other) == 0
    scores = ScoreCache(cache)
    found, p = scores.get("new-model", keys(40), 2)
    scores.close()
    assert found.all()
    assert p[0].tolist() != [0.5, 0.5]
    assert p[39].tolist() == [0.5, 0.5]


@pytest.mark.parametrize("left", [0.9, 0.5, 0.05])
@pytest.mark.parametrize("rest", ["nothing", "zeros"])
def test_half_a_file_is_refused_at_once(left: float, rest: str, tmp_path: Path) -> None:
    cache = tmp_path / "half.sqlite"
    scores = ScoreCache(cache)
    for k in range(20):
        scores.put("large", keys(2_000, 2_000 * k), np.full((2_000, 2), 0.5))
    scores.close()
    size, kept = cache.stat().st_size, int(left * cache.stat().st_size)
    os.truncate(cache, kept)
    if rest == "zeros":
        os.truncate(cache, size)
    began = time.process_time()
    with pytest.raises(InputError, match="malformed"):
        check_cache(cache)
    assert time.process_time() - began < 2


def test_no_cache(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no cache of scores"):
        read_models(tmp_path / "none.sqlite")
    (tmp_path / "text.sqlite").write_text("not a database at all, but some text of its own " * 50)
    with pytest.raises(InputError, match="can't be used as the cache of scores"):
        check_cache(tmp_path / "text.sqlite")


def test_the_commands(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    palpate = CommandLine(capsys, monkeypatch)
    assert "40 scores of 2 models" in palpate("cache", "size", "--file", cache).out
    assert "sound" in palpate("cache", "check", "--file", cache).out
    assert palpate("cache", "prune", "--file", cache).code == 2
    assert palpate("cache", "prune", "--file", cache, "--to", "many").code == 2
    assert palpate("cache", "prune", "--file", cache, "--unused", 10**20).code == 2
    kept = palpate("cache", "prune", "--file", cache, "--to", "2KB").out
    assert "0 models were removed; 2 are left, with 1.28 KB of keys and scores, which is what --to counts" in kept
    assert f"{cache} has" in kept.replace("\n", "")
    assert "1 models were removed" in palpate("cache", "prune", "--file", cache, "--unused", 30).out
    assert "30 scores were added" in palpate("cache", "merge", cache, "--file", tmp_path / "fresh.sqlite").out


def test_scores_of_a_model_that_is_gone_are_nobody_elses(cache: Path) -> None:
    """A new model gets the number of the last one that was removed."""
    with sqlite3.connect(cache) as db:
        db.execute("UPDATE models SET fingerprint = x'00' WHERE fingerprint = 'new-model'")
    assert check_cache(cache) == ((), 1)
    assert check_cache(cache) == ((), 0)
    scores = ScoreCache(cache)
    scores.put("another-model", keys(1, start=100), np.full((1, 2), 0.5))
    assert not scores.get("another-model", keys(30), 2)[0].any()
    assert scores.get("old-model", keys(10), 2)[0].all()
    scores.close()


@pytest.mark.parametrize(
    "damage",
    [
        *(
            f"UPDATE blocks SET {change}"
            for change in ("n = 'x'", "n = 1.5", "keys = 5", "keys = 'text'", "p = 'text'")
        ),
        *("UPDATE blocks SET p = printf('%*s', length(p), 'a')", "UPDATE models SET fingerprint = CAST(id AS BLOB)"),
        *("UPDATE models SET used = x'ff'", "UPDATE models SET used = 5"),
    ],
)
def test_values_of_another_type_in_a_cache(
    damage: str, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    palpate = CommandLine(capsys, monkeypatch)
    with sqlite3.connect(cache) as db:
        db.execute(damage)
    other = tmp_path / "other.sqlite"
    for words in (["size"], ["merge", cache, "--file", other], ["check"], ["prune", "--unused", "1"], ["size"]):
        ran = palpate("cache", *words, *([] if "--file" in words else ["--file", cache]))
        assert ran.code in (0, 2), ran.err
    assert check_cache(cache).n_damaged == 0
