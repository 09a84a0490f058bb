"""Cohorts made in Python are checked as files are."""

import numpy as np
import polars as pl
import pytest

from palpate.cases.cohort import ALONE, SPLITS, STAY_WEIGHT, Cohort, stack
from palpate.errors import CohortError

GOOD = pl.DataFrame(
    {
        "case_id": ["a", "b", "c"],
        "patient_id": ["p", "p", "q"],
        "split": ["train", "train", "dev"],
        "text": ["one", "two", "three"],
        "age": [70, None, 50],
        "y": [0, 1, 1],
        "z": [True, False, False],
    }
)


def test_good_frame():
    cohort = Cohort.from_frame(GOOD, labels=("z", "y"), name="main", attributes=("age",))
    assert cohort.cases.columns == ["cohort", "case_id", "patient_id", "split", "text", "age"]
    assert cohort.cases["split"].to_list() == ["train", "train", "validation"]
    assert set(cohort.cases["split"]) <= set(SPLITS)
    assert cohort.y.dtype == np.uint8
    assert cohort.y_true(np.arange(3)).tolist() == [[1, 0], [0, 1], [0, 1]]
    assert cohort.patients.tolist() == [0, 0, 1]
    assert cohort.rows(split="validation").tolist() == [2]
    assert cohort.facts == ()


def test_ids_by_default():
    cohort = Cohort.from_frame(GOOD.select("y"), labels=("y",))
    assert cohort.cases["case_id"].to_list() == ["1", "2", "3"]
    assert cohort.n_patients == 3
    assert "its own patient" in cohort.facts[0]
    given = Cohort.from_frame(
        GOOD.select("y", case_id=pl.Series(["a", "b", "c"])).with_columns(patient_id="case_id"), labels=("y",)
    )
    assert given.facts == (ALONE,)


def test_numeric_ids_are_strings():
    cohort = Cohort.from_frame(GOOD.with_columns(case_id=pl.Series([1, 2, 3])), labels=("y",))
    assert cohort.cases["case_id"].to_list() == ["1", "2", "3"]


def test_columns_without_a_role_stay():
    cohort = Cohort.from_frame(GOOD.drop("z"), labels=("y",))
    assert cohort.cases.columns[-1] == "age"


def test_no_rows_and_no_labels():
    cohort = Cohort.from_frame(GOOD.clear().drop("y", "z"), labels=())
    assert len(cohort) == cohort.n_patients == 0
    assert cohort.y.shape == (0, 0)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"case_id": ["a", "b", "a"]}, ["row 3, column 'case_id'", "also in row 1"]),
        ({"case_id": ["a", None, "b"]}, ["row 2, column 'case_id'", "empty"]),
        ({"patient_id": ["p", "p", None]}, ["row 3, column 'patient_id'", "empty"]),
        ({"split": ["train", "train", "later"]}, ["row 3, column 'split'", "'later'"]),
        ({"text": ["one", " ", "three"]}, ["row 2, column 'text'", "blank"]),
        ({"text": [None, "two", "three"]}, ["row 1, column 'text'", "empty"]),
        ({"y": [0, 1, 2]}, ["row 3, column 'y'", "'2', not 0 or 1"]),
        ({"y": [0, None, 1]}, ["row 2, column 'y'", "empty"]),
        ({"y": [0.0, float("nan"), 1.0]}, ["row 2, column 'y'", "not 0 or 1"]),
        ({"age": [1.0, float("inf"), 1.0]}, ["row 2, column 'age'", "infinite"]),
        ({"sampling_weight": [1.0, None, 1.0]}, ["row 2, column 'sampling_weight'", "empty"]),
        ({"sampling_weight": ["1", "", "2"]}, ["row 2, column 'sampling_weight'", "empty"]),
        ({"sampling_weight": ["1", "2", "much"]}, ["row 3, column 'sampling_weight'", "'much', which is not a number"]),
        ({"sampling_weight": [1.0, float("nan"), 1.0]}, ["row 2, column 'sampling_weight'", "no weight"]),
        ({"sampling_weight": ["1", "inf", "1"]}, ["row 2, column 'sampling_weight'", "'inf', which is no weight"]),
        ({"sampling_weight": [1.0, 1.0, -0.5]}, ["row 3, column 'sampling_weight'", "'-0.5'", "negative"]),
        ({"sampling_weight": [0, 0, 0]}, ["column 'sampling_weight'", "every weight is 0"]),
    ],
)
def test_bad_frames(change, parts):
    frame = GOOD.with_columns(**{name: pl.Series(values, strict=False) for name, values in change.items()})
    with pytest.raises(CohortError) as caught:
        Cohort.from_frame(frame, labels=("y",), attributes=("age",))
    for part in parts:
        assert part in str(caught.value)


def test_a_column_of_the_user_is_not_the_weight_of_a_stay():
    own = GOOD.with_columns(sampling_weight=pl.lit(2.0), stay_sampling_weight=pl.Series([7.0, 8.0, 9.0]))
    assert Cohort.from_frame(own, labels=("y",)).stay_weights.tolist() == [2.0, 2.0, 2.0]
    for attributes in ((), (STAY_WEIGHT,)):
        with pytest.raises(CohortError, match="can't have this name; rename"):
            Cohort.from_frame(own.rename({"stay_sampling_weight": STAY_WEIGHT}), labels=("y",), attributes=attributes)


def test_sampling_weights():
    plain = Cohort.from_frame(GOOD, labels=("y",), name="plain")
    assert plain.weights is None
    assert plain.weights_of(np.arange(3)) is None
    weighted = Cohort.from_frame(GOOD.with_columns(sampling_weight=pl.Series(["3", " 1.5", "+0"])), labels=("y",))
    assert weighted.weights.tolist() == [3.0, 1.5, 0.0]
    assert weighted.weights_of(np.arange(3)).tolist() == [2.0, 1.0, 0.0], "scaled to a mean of 1"
    assert weighted.weights_of(np.array([1])) is None, "equal weights weigh nothing"
    assert any("3 cases are as precise as 2 of equal weight" in fact for fact in weighted.facts)
    with pytest.raises(CohortError, match="each of the 1 cases of cohort 'cohort' to audit has a sampling weight of 0"):
        weighted.weights_of(np.array([2]))
    both = stack([plain, weighted])
    assert both.weights.tolist() == [1.0, 1.0, 1.0, 3.0, 1.5, 0.0], "a cohort without weights counts each case once"
    assert both.weights_of(np.arange(6)).tolist() == [1.0, 1.0, 1.0, 2.0, 1.0, 0.0], "each cohort by itself"
    equal = Cohort.from_frame(GOOD.with_columns(sampling_weight=pl.lit(7)), labels=("y",))
    assert equal.weights_of(np.arange(3)) is None
    assert equal.facts == ()


def test_the_patients_weight_in_kilograms_is_no_sampling_weight():
    frame = GOOD.with_columns(weight=pl.Series([80.0, None, 65.0]))
    cohort = Cohort.from_frame(frame, labels=("y",), attributes=("weight",))
    assert cohort.weights is None
    assert cohort.cases["weight"].to_list() == [80.0, None, 65.0]


def test_missing_label():
    with pytest.raises(CohortError, match=r"column 'Age': column not found; the columns are 'age', "):
        Cohort.from_frame(GOOD, labels=("Age",))


def test_fingerprint_sees_every_part():
    base = Cohort.from_frame(GOOD, labels=("y",), attributes=("age",))
    changes = [
        GOOD.with_columns(text=pl.Series(["one", "two", "threE"])),
        GOOD.with_columns(text=pl.Series(["onet", "wo", "three"])),
        GOOD.with_columns(age=pl.Series([70, 0, 50])),
        GOOD.with_columns(y=pl.Series([0, 1, 0])),
        GOOD.with_columns(case_id=pl.Series(["a", "b", "d"])),
    ]
    prints = [Cohort.from_frame(frame, labels=("y",), attributes=("age",)).fingerprint for frame in changes]
    assert len({base.fingerprint, *prints}) == len(changes) + 1
    assert base.fingerprint == Cohort.from_frame(GOOD.clone(), labels=("y",), attributes=("age",)).fingerprint


def test_stack():
    one = Cohort.from_frame(GOOD, labels=("y", "z"), name="one")
    two = Cohort.from_frame(GOOD.drop("split", "patient_id"), labels=("z", "y"), name="two")
    both = stack([one, two])
    assert both.names == ("one", "two")
    assert both.labels == ("y", "z")
    assert both.y_true(np.arange(6)).tolist() == [[0, 1], [1, 0], [1, 0]] * 2
    assert both.n_patients == 5, "the same name in two cohorts is two patients"
    assert both.rows(cohort="two", split="train").tolist() == [3, 4, 5], "no splits there: all rows"
    assert both.facts == two.facts
    assert stack([one]) is one


def test_stack_refuses():
    one = Cohort.from_frame(GOOD, labels=("y",), name="one")
    with pytest.raises(CohortError, match=r"different labels \(z\)"):
        stack([one, Cohort.from_frame(GOOD, labels=("y", "z"), name="two")])
    with pytest.raises(CohortError, match="two cohorts are named 'one'"):
        stack([one, one])
