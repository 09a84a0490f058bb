"""Numbers as groups: bounds that people can read, and groups that are what their names say."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.audits.kit.attributes import Cutting, attribute_levels
from palpate.cases.cohort import Cohort

HOW = Cutting({}, 4, 50, "")


def levels(values: list[float]) -> tuple[list[str], list[int]]:
    frame = pl.DataFrame({"text": ["a note"] * len(values), "ill": [0] * len(values), "age": values})
    cohort = Cohort.from_frame(frame, labels=["ill"], attributes=["age"])
    found = attribute_levels("subgroups", cohort, np.arange(len(values)), ["age"], HOW)["age"]
    return list(found.names), found.code.tolist()


def test_quartiles_are_told_in_the_digits_that_matter() -> None:
    ages = np.random.default_rng(0).normal(61, 12, 4_000)
    names, code = levels(ages.tolist())
    bounds = [_ends(name)[0] for name in names[1:]]
    assert all(bound == round(bound, 1) for bound in bounds), names
    assert np.abs(np.bincount(code) / len(ages) - 0.25).max() < 0.011


def test_every_spelling_of_a_missing_value_is_one_group() -> None:
    race = ["A", "NA", "n/a", "", " ", "NULL", ".", "?", "-", "NaN", None, "None", "Unknown", "Nan Province"]
    frame = pl.DataFrame({"text": ["a note"] * len(race), "ill": [0] * len(race), "race": race})
    cohort = Cohort.from_frame(frame, labels=["ill"], attributes=["race"])
    found = attribute_levels("subgroups", cohort, np.arange(len(race)), ["race"], HOW)["race"]
    assert list(found.names) == ["A", "Nan Province", "None", "Unknown", "missing"], "none and unknown are answers"
    assert [found.names[k] for k in found.code[1:11]] == ["missing"] * 10


@pytest.mark.parametrize("point", [".", ","])
def test_numbers_with_marks_among_them_are_numbers(point: str) -> None:
    def found(values: list[str]) -> list[str]:
        frame = pl.DataFrame({"text": ["a note"] * len(values), "ill": [0] * len(values), "age": values})
        cohort = Cohort.from_frame(frame, labels=["ill"], attributes=["age"])
        return list(attribute_levels("subgroups", cohort, np.arange(len(values)), ["age"], HOW)["age"].names)

    ages = [f"{k}{point}5" for k in range(20, 60)]
    assert found([*ages, "NA", "n/a", ""]) == ["under 30", "30 to under 40", "40 to under 50", "50 and over", "missing"]
    assert "007" in found([f"00{k}" for k in range(8)] + ["NA"]), "an id is not a number"
    assert "40 or so" in found([*ages, "NA", "40 or so"])


def test_whole_numbers_stay_as_they_are() -> None:
    names, _ = levels([float(k) for k in range(40)])
    assert names == ["under 10", "10 to under 20", "20 to under 30", "30 and over"]


@given(st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=12, max_size=60, unique=True))
def test_a_group_holds_what_its_name_says(values: list[float]) -> None:
    names, code = levels(values)
    for value, k in zip(values, code, strict=True):
        low, high = _ends(names[k])
        assert low <= value < high or np.isclose(value, [low, high], rtol=1e-4).any(), (value, names[k])


def _ends(name: str) -> tuple[float, float]:
    words = name.split()
    if words[0] == "under":
        return -np.inf, float(words[1])
    return float(words[0]), float(words[-1]) if words[-1] != "over" else np.inf
