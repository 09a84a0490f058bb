"""Who belongs to which group, and what is refused."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.audits.kit.attributes import Cutting
from palpate.audits.subgroups import Subgroups
from palpate.audits.subgroups.plan import By, Partition, partitions_of
from palpate.cases.cohort import Cohort, stack
from palpate.errors import CohortError, ConfigError


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
        (
            {"by": ("ward",)},
            ["'ward' has 5,000 different values in the 5,000 audited cases", "fewer categories"],
        ),
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


NOTES = (
    "63 y/o F with asthma. She is homeless.",
    "Mr. Roe is a 41 year old man with a cough.",
    "Seen for a rash. No distress.",
    "79 yo African American woman with chest pain.",
)
"""Female, male, nothing, female; 63, 41, nothing, 79."""


@pytest.mark.parametrize(
    ("note", "said"),
    [
        ("Patient seen. Wife at bedside, she is anxious.", "not said"),
        ("63 y/o with chest pain. Mother called, she was told the plan.", "not said"),
        ("72 yo woman with fever. Daughter at bedside, she is anxious.", "female"),
        ("Seen today. She reports fever.", "female"),
        ("Male patient. Wife at bedside, she is anxious.", "male"),
    ],
)
def test_a_pronoun_beside_a_relative_does_not_say_the_patients_gender(note: str, said: str) -> None:
    frame = pl.DataFrame({"case_id": range(2), "text": [note, "Seen for a rash."], "ill": [0, 1]})
    cohort = Cohort.from_frame(frame, labels=["ill"])
    (gender,) = partitions_of(cohort, np.arange(2), ("note:gender",), Cutting({}, 4, 50), ())
    assert names(gender)[0] == f"note:gender={said}"


def test_groups_from_what_the_notes_say() -> None:
    frame = pl.DataFrame({"case_id": range(8), "text": [*NOTES, *NOTES], "ill": [0, 1] * 4})
    cohort = Cohort.from_frame(frame, labels=["ill"])
    by: tuple[By, ...] = ("note:gender", "note:ethnicity", "note:housing", "note:age", ("note:gender", "note:housing"))
    cutting = Cutting({"note:age": [50]}, 4, 50)
    gender, ethnicity, housing, age, both = partitions_of(cohort, np.arange(8), by, cutting, ())
    assert names(gender)[:4] == [f"note:gender={said}" for said in ("female", "male", "not said", "female")]
    assert names(ethnicity)[3] == "note:ethnicity=African American"
    assert names(ethnicity)[:3] == ["note:ethnicity=not said"] * 3
    assert names(housing)[0] == "note:housing=homeless"
    assert names(age)[:4] == [
        "note:age=50 and over",
        "note:age=under 50",
        "note:age=not said",
        "note:age=50 and over",
    ]
    assert both.groups[int(both.code[0])] == "note:gender=female, note:housing=homeless"
    assert names(gender)[:4] == names(gender)[4:]


def test_what_cannot_be_read_from_notes_is_refused() -> None:
    frame = pl.DataFrame({"case_id": range(4), "text": NOTES, "ill": [0, 1] * 2})
    cohort = Cohort.from_frame(frame, labels=["ill"])
    with pytest.raises(ConfigError, match="'note:hair' is not read from notes"):
        partitions_of(cohort, np.arange(4), ("note:hair",), Cutting({}, 4, 50), ())
    without = Cohort.from_frame(frame.drop("text"), labels=["ill"])
    with pytest.raises(CohortError, match="has no text"):
        partitions_of(without, np.arange(4), ("note:gender",), Cutting({}, 4, 50), ())


def sites(*names: str, attributes: tuple[str, ...] = ()) -> Cohort:
    cohorts = []
    for k, name in enumerate(names):
        n = 30 + 10 * k
        columns = {each: ["x"] * n for each in attributes}
        frame = pl.DataFrame({"case_id": range(n), "ill": [j % 3 == k for j in range(n)], **columns})
        frame = frame.with_columns(pl.col("ill").cast(pl.Int64))
        cohorts.append(Cohort.from_frame(frame, labels=["ill"], name=name, attributes=attributes))
    return stack(cohorts)


@pytest.mark.parametrize("word", ["cohort", "site"])
def test_cohorts_as_groups_take_all_of_their_cases(word: str) -> None:
    audit = Subgroups(by=(word,), n_replicates=100)
    plan = audit.plan(sites("north", "south"), np.random.default_rng(0))
    (found,) = plan.memory.partitions
    assert found.groups == (f"{word}=north", f"{word}=south")
    assert np.bincount(found.code).tolist() == [30, 40]
    assert len(plan.cases) == 70  # type: ignore[arg-type]


def test_cohorts_as_groups_where_that_is_not_possible() -> None:
    with pytest.raises(ConfigError, match="one cohort only"):
        Subgroups(by=("cohort",)).check_cohort(sites("north"))
    with pytest.raises(ConfigError, match="take the cases of all cohorts"):
        Subgroups(by=("cohort",), cohort="north").plan(sites("north", "south"), np.random.default_rng(0))
    own = Subgroups(by=("site",)).plan(sites("north", "south", attributes=("site",)), np.random.default_rng(0))
    assert own.memory.partitions[0].groups == ("site=x",)  # a column of that name is what is meant
    assert len(own.cases) == 30  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="no attribute 'sex'"):
        Subgroups(by=("sex",)).check_cohort(sites("north", attributes=("site",)))
