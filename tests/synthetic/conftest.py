from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from palpate.synthetic import Plants, write_hospital

Read = Callable[[str], pl.DataFrame]


def read(folder: Path, name: str) -> pl.DataFrame:
    """A table as strings, empty cells null."""
    return pl.read_csv(folder / f"{name}.csv.gz", infer_schema=False)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """150 patients with pictures."""
    out = tmp_path_factory.mktemp("small")
    write_hospital(out, n_patients=150, seed=3)
    return out


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,500 patients without pictures."""
    out = tmp_path_factory.mktemp("large")
    write_hospital(out, n_patients=1500, seed=1, images=False)
    return out


@pytest.fixture(scope="session")
def off() -> Plants:
    """Everything switched off."""
    return Plants(
        spurious_word=0, age_effect=0, gender_effect=0, ethnicity_effect=0, history_effect=0, visual_shortcut=0
    )
