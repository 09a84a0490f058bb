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
