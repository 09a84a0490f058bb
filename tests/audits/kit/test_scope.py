"""What an audit is about, and what is refused with one sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from palpate.cases.cohort import Cohort, stack
from palpate.errors import CohortError, ConfigError
from palpate.kit import (
    audited_cohort,
    audited_labels,
    audited_rows,
    most_frequent_labels,
    require_text,
    training_rows,
    validation_rows,
)

FRAME = pl.DataFrame(
    {
        "text": list("abcdef"),
        "split": ["train", "train", "validation", "test", "test", "test"],
        "rare": [0, 0, 0, 0, 0, 1],
        "common": [1, 1, 1, 1, 1, 0],
        "never": [1, 1, 1, 0, 0, 0],
        "half": [0, 0, 0, 1, 1, 0],
    }
)
LABELS = ["rare", "common", "never", "half"]
COHORT = Cohort.from_frame(FRAME, labels=LABELS)


def test_rows_of_splits() -> None:
    name = COHORT.names[0]
    assert audited_cohort("toy", COHORT, None) == name
    assert audited_rows("toy", COHORT, name, "test").tolist() == [3, 4, 5]
    assert training_rows(COHORT).tolist() == [0, 1]
    assert validation_rows(COHORT).tolist() == [2]
    with pytest.raises(CohortError, match="has no case in split 'held out'"):
        audited_rows("toy", COHORT, name, "held out")
    with pytest.raises(ConfigError, match="audit 'toy': unknown cohort 'b'"):
        audited_cohort("toy", COHORT, "b")


def test_a_case_of_weight_0_is_not_audited() -> None:
    weighted = replace(COHORT, cases=COHORT.cases.with_columns(sampling_weight=pl.Series([1.0, 0, 1, 0, 2, 3])))
    assert audited_rows("toy", weighted, COHORT.names[0], "test").tolist() == [4, 5]
    nobody = replace(COHORT, cases=COHORT.cases.with_columns(sampling_weight=pl.Series([1.0, 1, 1, 0, 0, 0])))
    with pytest.raises(CohortError, match="each of the 3 cases of cohort 'cohort' to audit has a sampling weight of 0"):
        audited_rows("toy", nobody, COHORT.names[0], "test")


def test_the_most_common_labels_among_the_audited_cases_keep_the_order_of_the_cohort() -> None:
    rows = audited_rows("toy", COHORT, COHORT.names[0], "test")
    assert audited_labels("toy", COHORT, None, rows=rows, most_common=2) == ("common", "half")
    assert audited_labels("toy", COHORT, None, rows=rows, most_common=3) == ("rare", "common", "half")
    assert audited_labels("toy", COHORT, None, rows=rows, most_common=9) == tuple(LABELS)
    assert audited_labels("toy", COHORT, ["never", "rare"], rows=rows, most_common=1) == ("never", "rare")


def test_of_equally_frequent_labels_the_first_are_kept() -> None:
    assert most_frequent_labels(LABELS, np.array([1, 2, 2, 2]), 2) == ("common", "never")


def test_unknown_and_reserved_labels_are_refused() -> None:
    with pytest.raises(ConfigError, match="no label 'rar'; its labels are: rare, common"):
        audited_labels("toy", COHORT, ["rar"])
    with pytest.raises(ConfigError, match="'half' is the name of an average"):
        audited_labels("toy", COHORT, None, reserved=("half",))
    assert audited_labels("toy", COHORT, ["half"], reserved=("half",)) == ("half",)
    with pytest.raises(CohortError, match="audit 'toy': the cohort has no labels"):
        audited_labels("toy", Cohort.from_frame(FRAME, labels=[]), None)


def test_a_cohort_without_text_is_refused() -> None:
    require_text("toy", COHORT)
    with pytest.raises(CohortError, match="audit 'toy' reads notes"):
        require_text("toy", Cohort.from_frame(FRAME.drop("text"), labels=LABELS))


def test_splits_are_those_of_the_first_cohort() -> None:
    both = stack([COHORT, Cohort.from_frame(FRAME.drop("split"), labels=LABELS, name="b")])
    assert training_rows(both).tolist() == [0, 1]
    assert training_rows(both, "b").tolist() == []
