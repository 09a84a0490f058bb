"""Compiled code on disk: killed writers, damaged files, full disks and races never give wrong code."""

from __future__ import annotations

import importlib.util
import itertools
import os
import time
from pathlib import Path
from typing import Any

import numba
import pytest

from palpate import compiled

numbers = itertools.count()
SOURCE = """
from palpate.compiled import njit

@njit(cache=True)
def f(x):
    return x + {added}
"""


def make(folder: Path, added: int) -> Any:
    """The function of a module file that was just written, as a new process would import it."""
    file = folder / "kernel.py"
    file.write_text(SOURCE.format(added=added))
    compiled._newest.cache_clear()
    spec = importlib.util.spec_from_file_location(f"kernel_{next(numbers)}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


def code(folder: Path) -> list[Path]:
    return sorted((folder / "__pycache__").glob("*.nbc"))


def test_stored_code_is_used_again(tmp_path: Path) -> None:
    assert make(tmp_path, 1)(1) == 2
    stored = code(tmp_path)
    again = make_same(tmp_path)
    assert again(1) == 2
    assert sum(again.stats.cache_hits.values()) == 1
    assert code(tmp_path) == stored


def make_same(folder: Path) -> Any:
    """The module as it is, in a new process."""
    spec = importlib.util.spec_from_file_location(f"kernel_{next(numbers)}", folder / "kernel.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


@pytest.mark.parametrize("survives", [0, 1, 2])
def test_a_writer_that_is_killed_leaves_no_code_of_the_last_version(
    survives: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert make(tmp_path, 1)(1) == 2
    done, replace = itertools.count(), os.replace

    def killed(*paths: Any) -> None:
        if next(done) >= survives:
            raise KeyboardInterrupt
        replace(*paths)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", killed)
        new = make(tmp_path, 20)
        try:
            assert new(1) == 21
        except KeyboardInterrupt:
            assert survives < 2
    assert make_same(tmp_path)(1) == 21


def test_numba_itself_takes_the_code_of_the_last_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason for `palpate.compiled`; where this fails, numba has mended it and the module can go."""
    monkeypatch.setattr(compiled, "njit", lambda cache: numba.njit(cache=cache))
    assert make(tmp_path, 1)(1) == 2
    replace, done = os.replace, itertools.count()

    def killed(*paths: Any) -> None:
        if next(done):
            raise KeyboardInterrupt
        replace(*paths)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            make(tmp_path, 20)(1)
    assert make_same(tmp_path)(1) == 2


@pytest.mark.parametrize("content", [b"", b"\x80", b"no pickle at all"])
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_damaged_files_are_made_again(suffix: str, content: bytes, tmp_path: Path) -> None:
    assert make(tmp_path, 1)(1) == 2
    (file,) = (tmp_path / "__pycache__").glob(f"*.{suffix}")
    file.write_bytes(content)
    assert make_same(tmp_path)(1) == 2
    again = make_same(tmp_path)
    assert again(1) == 2
    assert sum(again.stats.cache_hits.values()) == 1


def test_a_full_disk_only_means_that_nothing_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert make(tmp_path, 1)(1) == 2
    assert code(tmp_path) == []


def test_two_writers_at_once_never_share_a_file(tmp_path: Path) -> None:
    one, two = make(tmp_path, 1), make_same(tmp_path)
    files = two._cache._cache_file
    stale = dict(files._load_index())
    assert one(1) == 2
    files._load_index = lambda: stale  # as it was before the other one had written
    assert two(1.0) == 2.0
    del files._load_index
    again = make_same(tmp_path)
    assert (again(1), again(1.0)) == (2, 2.0)
    assert len(code(tmp_path)) == 3  # one lost its place in the index, and was compiled again


def test_code_that_no_index_names_goes(tmp_path: Path) -> None:
    assert make(tmp_path, 1)(1) == 2
    (old,) = code(tmp_path)
    os.utime(old, (time.time() - 3600,) * 2)
    assert make(tmp_path, 20)(1) == 21
    assert old not in code(tmp_path)
    assert len(code(tmp_path)) == 1


def test_without_a_folder_to_write_nothing_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_place(*_: Any) -> None:
        raise RuntimeError("no locator available")

    monkeypatch.setattr(compiled.StoredCode, "__init__", no_place)
    assert make(tmp_path, 1)(1) == 2
    assert code(tmp_path) == []


def test_no_kernel_is_stored_as_numba_does_it() -> None:
    source = Path(compiled.__file__).parent
    own = [file for file in source.rglob("*.py") if "from numba import njit" in file.read_text(encoding="utf-8")]
    assert own == []
