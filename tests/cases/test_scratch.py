from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from palpate.cases import scratch
from palpate.errors import InputError


def test_large_arrays_are_in_a_file_without_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "IN_MEMORY", 100)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    values = scratch.filled((50, 3), np.nan)
    assert isinstance(values.base, np.memmap)
    assert np.isnan(values).all()
    values[:, 1] = np.arange(50)
    some = scratch.taken(values, np.array([49, 3, 3]))
    assert some[:, 1].tolist() == [49, 3, 3]
    assert not list(tmp_path.iterdir())


def test_small_arrays_are_in_memory() -> None:
    assert scratch.empty(10, np.int64).base is None


def test_no_room_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(scratch, "IN_MEMORY", 100)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(InputError, match=r"no room for 0.0 GB in .* \(No space left on device\); set TMPDIR"):
        scratch.empty(1000, np.float64)


def test_a_column_that_grows_is_in_a_file_once_it_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "IN_MEMORY", 100)
    column, wanted = scratch.Growing(), np.arange(57)
    for begin in range(0, 57, 10):
        column.extend(wanted[begin : begin + 10])
    assert isinstance(column.values().base, np.memmap)
    assert column.values().tolist() == wanted.tolist()


def test_a_column_that_grows_says_that_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "IN_MEMORY", 100)
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: Path("/dev/full").open("wb"))  # noqa: SIM115
    with pytest.raises(InputError, match=r"\(No space left on device\); set TMPDIR"):
        scratch.Growing().extend(np.arange(100_000))


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_rows_are_found_part_by_part(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(scratch, "AT_ONCE", at_once)
    mask, of = np.array([True, False, True]), np.array([1, 0, 2, -1, 1, 0])
    assert scratch.rows_where(mask, of).tolist() == np.flatnonzero(mask[of]).tolist()
    values = np.arange(7)
    assert scratch.taken(values, np.arange(7)) is values
    assert scratch.taken(values, np.arange(7)[::-1]).tolist() == [6, 5, 4, 3, 2, 1, 0]
    assert scratch.differences(np.array([0, 2, 2, 5])).tolist() == [2, 0, 3]
