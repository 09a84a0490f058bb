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
    assert {name for (name,) in tables} == {"models", "scores"}


def test_a_file_that_is_no_cache_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "s.sqlite").write_text("hello, I am a text file, and not a small one at that" * 40)
    with pytest.raises(InputError, match="can't be used as the cache of scores"):
        ScoreCache(tmp_path / "s.sqlite")
