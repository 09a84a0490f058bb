"""Who belongs to which group, and what is refused."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.audits.subgroups.plan import By, Cutting, Partition, partitions_of
from palpate.cases.cohort import Cohort
from palpate.errors import ConfigError


def divide(
    columns: dict[str, list[Any]], by: tuple[By, ...] = (), reference: tuple[str, ...] = (), **more: Any
) -> list[Partition]:
    n = len(next(iter(columns.values())))
    frame = pl.DataFrame({"case_id": range(n), **columns, "ill": [k % 2 for k in range(n)]})
    cohort = Cohort.from_frame(frame, labels=["ill"], attributes=list(columns))
    cutting = Cutting(**{"cuts": {}, "n_quantiles": 4, "most_groups": 50, **more})
    return list(partitions_of(cohort, np.arange(n), by, cutting, reference))


def names(partition: Partition) -> list[str]:
    return [partition.groups[int(k)] for k in partition.code]


def test_categories_and_missing_values() -> None:
    (found,) = divide({"race": ["b", None, " a ", "a", ""]})
    assert found.groups == ("race=a", "race=b", "race=missing")
    assert names(found) == ["race=b", "race=missing", "race=a", "race=a", "race=missing"]


def test_a_value_that_is_called_missing_is_not_a_missing_value() -> None:
    (found,) = divide({"race": ["missing", None]})
    assert names(found) == ["race=missing", "race=value missing"]


def test_given_bounds() -> None:
    (found,) = divide({"age": [39.0, 40.0, 64.5, 65.0, None, 90.0]}, cuts={"age": [40, 65]})
    assert found.groups == ("age=under 40", "age=40 to under 65", "age=65 and over", "age=missing")
    assert found.code.tolist() == [0, 1, 1, 2, 3, 2]


@given(st.lists(st.one_of(st.none(), st.integers(-5, 60)), min_size=30, max_size=80), st.integers(2, 6))
def test_quantiles_divide_all_cases(ages: list[int | None], n_quantiles: int) -> None:
    (found,) = divide({"age": ages}, n_quantiles=n_quantiles)
    assert len(found.code) == len(ages)
    assert len(found.groups) == len(set(found.groups))
    for group, age in zip(names(found), ages, strict=True):
        assert (age is None) == (group == "age=missing")
    if len(set(ages) - {None}) > 10:
        known = sorted({group for group in names(found) if group != "age=missing"})
        assert 2 <= len(known) <= n_quantiles
        ranges = [
            [a for a, g in zip(ages, names(found), strict=True) if g == group and a is not None] for group in known
        ]
        ranges.sort()
        assert all(max(a) < min(b) for a, b in pairwise(ranges))


def test_a_number_of_few_values_is_a_category() -> None:
    (found,) = divide({"grade": [1, 2, 3, 2]})
    assert found.groups == ("grade=1", "grade=2", "grade=3")


def test_intersections_hold_the_combinations_that_occur() -> None:
    (found,) = divide({"gender": ["f", "m", "f"], "race": ["a", None, "b"]}, by=(("gender", "race"),))
    assert found.name == "gender × race"
    assert names(found) == ["gender=f, race=a", "gender=m, race=missing", "gender=f, race=b"]


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"by": ("sex",)}, ["no attribute 'sex'", "ward", "`attributes:`"]),
        ({"by": ("ward",)}, ["'ward' has 5,000 different values, more than 50 groups", "fewer categories"]),
        (
            {"by": (("age", "hour"),), "most_groups": 8},
            ["age × hour makes 28 groups", "more than 8", "fewer attributes"],
        ),
        ({"by": ("age",), "reference": ("age=old",)}, ["no group 'age=old'", "age="]),
        ({"by": ("hour",), "reference": ("hour=0", "hour=1")}, ["'hour=0' and 'hour=1' both divide hour"]),
        ({"by": ("age",), "cuts": {"age": [60, 40]}}, ["the bounds of 'age' must rise"]),
        ({"by": ("age",), "cuts": {"hour": [3]}}, ["'hour' is not in `by`"]),
        ({"by": ("ward",), "cuts": {"ward": [3]}}, ["'ward' is not a number"]),
        ({"by": (("age", "age"),)}, ["each once"]),
    ],
    ids=["unknown", "5,000 values", "intersection", "reference", "two references", "bounds", "cuts", "words", "twice"],
)
def test_what_is_refused(options: dict[str, Any], parts: list[str]) -> None:
    columns = {
        "ward": [f"ward {k}" for k in range(5000)],
        "age": [k % 90 for k in range(5000)],
        "hour": [k % 7 for k in range(5000)],
    }
    with pytest.raises(ConfigError) as error:
        divide(columns, **options)
    for part in parts:
        assert part in str(error.value), str(error.value)


def test_no_attributes() -> None:
    cohort = Cohort.from_frame(pl.DataFrame({"case_id": [1, 2], "ill": [0, 1]}), labels=["ill"])
    with pytest.raises(ConfigError, match="has no attributes"):
        partitions_of(cohort, np.arange(2), (), Cutting({}, 4, 50), ())
