from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from palpate.cases.hashing import key_of
from palpate.errors import InputError
from palpate.run.execute.cache import ScoreCache


def keys(n: int) -> list[bytes]:
    return [key_of(f"note {k}") for k in range(n)]


def test_what_is_put_comes_back_bit_for_bit(tmp_path: Path) -> None:
    p = np.random.default_rng(0).random((10_000, 3))
    cache = ScoreCache(tmp_path / "scores.sqlite")
    cache.put("model", keys(10_000), p)
    cache.close()
    found, again = ScoreCache(tmp_path / "scores.sqlite").get("model", keys(10_050), 3)
    assert found[:10_000].all()
    assert not found[10_000:].any()
    assert np.array_equal(again[:10_000], p)


def test_a_second_model_does_not_get_the_first_ones_scores(tmp_path: Path) -> None:
    cache = ScoreCache(tmp_path / "scores.sqlite")
    cache.put("first", keys(3), np.zeros((3, 1)))
    found, _ = cache.get("second", keys(3), 1)
    assert not found.any()


def test_the_first_answer_stays(tmp_path: Path) -> None:
    cache = ScoreCache(tmp_path / "scores.sqlite")
    cache.put("m", keys(1), np.asarray([[0.25]]))
    cache.put("m", keys(1), np.asarray([[0.75]]))
    assert cache.get("m", keys(1), 1)[1].item() == 0.25


def test_two_processes_may_share_the_file(tmp_path: Path) -> None:
    one, two = ScoreCache(tmp_path / "s.sqlite"), ScoreCache(tmp_path / "s.sqlite")
    one.put("m", keys(2), np.zeros((2, 1)))
    two.put("m", keys(4)[2:], np.ones((2, 1)))
    assert one.get("m", keys(4), 1)[0].all()


def test_no_text_in_the_file(tmp_path: Path) -> None:
    cache = ScoreCache(tmp_path / "s.sqlite")
    secret = "Mr Smith has scrofula"
    cache.put("m", [key_of(secret)], np.asarray([[0.5]]))
    cache.close()
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"scrofula" not in stored
    tables = sqlite3.connect(tmp_path / "s.sqlite").execute("SELECT name FROM sqlite_master WHERE type='table'")
    assert {name for (name,) in tables} == {"models", "blocks"}


def test_a_file_that_is_no_cache_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "s.sqlite").write_text("hello, I am a text file, and not a small one at that" * 40)
    with pytest.raises(InputError, match="can't be used as the cache of scores"):
        ScoreCache(tmp_path / "s.sqlite")


def test_many_calls_are_joined_and_the_first_answer_stays(tmp_path: Path) -> None:
    cache, other = ScoreCache(tmp_path / "s.sqlite"), ScoreCache(tmp_path / "s.sqlite")
    all_keys = keys(400)
    for k in range(200):
        cache.put("m", all_keys[k : k + 3], np.full((3, 2), k / 200))
        other.put("n", all_keys[k : k + 1], np.full((1, 1), 0.5))
    expected = np.maximum(np.arange(202) - 2, 0) / 200
    for each in (cache, other, ScoreCache(tmp_path / "s.sqlite")):
        found, p = each.get("m", all_keys[:210], 2)
        assert found.tolist() == [True] * 202 + [False] * 8
        assert np.array_equal(p[:202], np.repeat(expected[:, None], 2, axis=1))
        assert each.get("n", all_keys, 1)[0].sum() == 200
    cache.close()
    blocks = sqlite3.connect(tmp_path / "s.sqlite").execute("SELECT count(*) FROM blocks").fetchone()[0]
    assert blocks < 30


def test_a_cache_of_the_earlier_version_is_taken_over(tmp_path: Path) -> None:
    old = sqlite3.connect(tmp_path / "s.sqlite")
    old.executescript(
        "CREATE TABLE models (id INTEGER PRIMARY KEY, fingerprint TEXT UNIQUE NOT NULL);"
        "CREATE TABLE scores (model INTEGER NOT NULL, key BLOB NOT NULL, p BLOB NOT NULL, PRIMARY KEY (model, key))"
        " WITHOUT ROWID;"
    )
    old.execute("INSERT INTO models VALUES (7, 'm')")
    rows = [(7, key, np.asarray([k / 10, 0.5]).tobytes()) for k, key in enumerate(keys(10))]
    old.executemany("INSERT INTO scores VALUES (?, ?, ?)", rows)
    old.commit()
    old.close()
    for _ in range(2):
        found, p = ScoreCache(tmp_path / "s.sqlite").get("m", keys(11), 2)
        assert found.tolist() == [True] * 10 + [False]
        assert np.array_equal(p[:10, 0], np.arange(10) / 10)


def test_nothing_is_stored_for_no_keys(tmp_path: Path) -> None:
    cache = ScoreCache(tmp_path / "s.sqlite")
    cache.put("m", [], np.zeros((0, 2)))
    assert cache.get("m", [], 2)[1].shape == (0, 2)


def test_a_stored_nan_is_an_answer_only_of_a_model_that_may_miss(tmp_path: Path) -> None:
    cache = ScoreCache(tmp_path / "c.sqlite")
    cache.put("m", keys(2), np.array([[np.nan], [0.5]]))
    found, p = cache.get("m", keys(2), 1, may_miss=True)
    assert found.all()
    assert np.isnan(p[0, 0])
    found, _ = cache.get("m", keys(2), 1, may_miss=False)
    assert not found.any()
    cache.put("m", keys(2), np.array([[0.25], [0.5]]))  # scored again, and kept
    found, p = cache.get("m", keys(2), 1, may_miss=False)
    assert found.all()
    assert p.ravel().tolist() == [0.25, 0.5]


WRONG = {
    "keys": ["'text'", "5", "hex(keys)", "printf('%*s', length(keys), 'a')", "zeroblob(7)", "x''"],
    "p": ["'text'", "5", "x''", "zeroblob(7)", "printf('%*s', length(p), 'a')"],
}


@pytest.mark.parametrize(("column", "value"), [(column, value) for column, values in WRONG.items() for value in values])
def test_a_block_of_another_type_is_scored_again(column: str, value: str, tmp_path: Path) -> None:
    cache = ScoreCache(tmp_path / "c.sqlite")
    cache.put("m", keys(3), np.full((3, 1), 0.25))
    cache.put("m", keys(5)[3:], np.full((2, 1), 0.75))
    cache._db.execute(f"UPDATE blocks SET {column} = {value} WHERE id = 1")
    found, p = cache.get("m", keys(5), 1)
    assert found.tolist() == [False] * 3 + [True] * 2
    assert p[3:].ravel().tolist() == [0.75, 0.75]
    cache.put("m", keys(6)[5:], np.full((1, 1), 0.5))
    cache._db.execute(f"UPDATE blocks SET {column} = {value} WHERE id = (SELECT max(id) FROM blocks)")
    for k in range(70):  # until the small blocks are joined
        cache.put("m", keys(7 + k)[-1:], np.full((1, 1), 0.5))
    assert cache.get("m", keys(76), 1)[0].tolist() == [False] * 3 + [True] * 2 + [False] + [True] * 70
