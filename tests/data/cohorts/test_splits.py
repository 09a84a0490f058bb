"""Splits by patient: nobody in two of them, ratios kept in each stratum, any order of rows the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.data.cohorts.splits import assign_splits, read_splits
from palpate.errors import CohortError, ConfigError

rows = st.lists(st.tuples(st.text(min_size=1, max_size=3), st.booleans()), min_size=1, max_size=200)
ratios = st.tuples(*[st.integers(0, 10)] * 3).filter(any)
NAMES = ("train", "validation", "test")


@given(rows=rows, ratios=ratios, seed=st.integers(0, 2**31), order=st.randoms(use_true_random=False))
def test_properties(rows, ratios, seed, order) -> None:
    patients, positive = (list(column) for column in zip(*rows, strict=True))
    split = assign_splits(patients, positive, ratios=ratios, seed=seed)
    of_patient: dict[str, set[str]] = {}
    for patient, name in zip(patients, split, strict=True):
        of_patient.setdefault(patient, set()).add(name)
    assert all(len(names) == 1 for names in of_patient.values())

    sick = {patient for patient, label in rows if label}
    for stratum in (sick, set(patients) - sick):
        counts = [sum(of_patient[patient] == {name} for patient in stratum) for name in NAMES]
        wanted = [len(stratum) * ratio / sum(ratios) for ratio in ratios]
        assert all(abs(n - w) <= 1 for n, w in zip(counts, wanted, strict=True))

    shuffled = list(range(len(rows)))
    order.shuffle(shuffled)
    again = assign_splits([patients[k] for k in shuffled], [positive[k] for k in shuffled], ratios=ratios, seed=seed)
    assert again.to_list() == [split[k] for k in shuffled]


def test_how_often_a_patient_occurs_does_not_matter() -> None:
    patients = [str(k) for k in range(100)]
    once = assign_splits(patients, [False] * 100, seed=3)
    twice = assign_splits(patients * 2, [False] * 200, seed=3)
    assert twice.to_list() == once.to_list() * 2


def test_the_seed_matters_and_ratios_have_any_scale() -> None:
    patients = np.array([str(k) for k in range(1000)])
    positive = np.arange(1000) % 10 == 0
    one = assign_splits(patients, positive, seed=1)
    assert one.to_list() != assign_splits(patients, positive, seed=2).to_list()
    assert one.to_list() == assign_splits(patients, positive, seed=1, ratios=(70, 15, 15)).to_list()
    assert dict(one.value_counts().iter_rows()) == {"train": 700, "validation": 150, "test": 150}
    assert (one == "train").filter(pl.Series(positive)).sum() == 70


@pytest.mark.parametrize("ratios", [(0.5, 0.5), (0, 0, 0), (-1, 1, 1), (float("nan"), 1, 1), ()])
def test_bad_ratios(ratios) -> None:
    with pytest.raises(ConfigError, match="three ratios"):
        assign_splits(["a"], [True], ratios=ratios)


def test_a_saved_split_with_a_patient_in_two(tmp_path: Path) -> None:
    file = tmp_path / "s.csv"
    file.write_text("patient_id,split\n1,train\n2,test\n1,test\n")
    with pytest.raises(CohortError, match=r"s\.csv, row 3.*'1' is in split 'test' here and in 'train' in row 1"):
        read_splits(file)


@pytest.mark.parametrize(("header", "column"), [("patient,split", "patient_id"), ("subject_id,part", "split")])
def test_a_saved_split_without_a_column(header: str, column: str, tmp_path: Path) -> None:
    file = tmp_path / "s.csv"
    file.write_text(f"{header}\n1,train\n")
    with pytest.raises(CohortError, match=f"s.csv, column '{column}': column not found"):
        read_splits(file)
