"""What pre-test models read, against scikit-learn."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from palpate.cases.cohort import Cohort
from palpate.data.cohorts.cxr import PRIOR_MARK
from palpate.errors import CohortError
from palpate.train.pretest.features import (
    CaseNotes,
    average_notes,
    count_words,
    encode_table,
    read_notes,
    table_columns,
)
from palpate.train.pretest.options import NOTE_MARK
from tests.train.pretest.pretest_cohort import cohort, options


def test_the_mark_is_that_of_the_cohort() -> None:
    assert NOTE_MARK == PRIOR_MARK


@settings(max_examples=30)
@given(
    st.lists(
        st.lists(st.sampled_from(["fever", "pain", "The", "x", "fever pain", "Pain, and", " "]), max_size=4),
        min_size=3,
        max_size=12,
    ),
    st.integers(1, 3),
    st.floats(0.3, 1.0),
    st.integers(1, 3),
)
def test_words_are_those_of_the_joined_notes(cases: list[list[str]], min_df: int, max_df: float, most: int) -> None:
    table = pl.DataFrame({"prior": [NOTE_MARK.join(notes) for notes in cases], "ill": [0] * len(cases)})
    notes = read_notes(Cohort.from_frame(table, labels=["ill"]), options())
    joined = [" \n ".join(part) for part in cases]
    slow = CountVectorizer(stop_words="english", min_df=min_df, max_df=max_df)
    chosen = options(min_df=min_df, max_df=max_df, min_patients=1)
    every = np.arange(len(cases))
    assert notes.present.tolist() == [any(part.strip() for part in case) for case in cases]
    try:
        expected = slow.fit_transform(joined)
    except ValueError:
        with pytest.raises(CohortError):
            count_words(notes, every, every, chosen)
        return
    found = count_words(notes, every, every, chosen)
    assert found.names is not None
    assert found.names.tolist() == slow.get_feature_names_out().tolist()
    assert (found.x != expected).nnz == 0
    fewer = count_words(notes, every, every, chosen.model_copy(update={"max_words": most}))
    often = np.asarray(expected.sum(axis=0)).ravel()
    assert fewer.x.sum() == np.sort(often)[::-1][:most].sum()


def test_the_vocabulary_comes_from_the_cases_to_learn_from() -> None:
    made = cohort()
    notes = read_notes(made, options())
    learn = np.flatnonzero((made.cases["split"] != "test").to_numpy())
    words = count_words(notes, made.patients, learn, options(max_df=1.0))
    assert words.names is not None
    assert {"fever", "chills", "cough"} <= set(words.names)
    assert not [name for name in words.names if name.startswith("named")]  # of one patient each
    other = made.cases.with_columns(
        prior=pl.when(pl.col("split") == "test").then(pl.lit("unheard unheard of")).otherwise("prior")
    )
    again = count_words(
        read_notes(Cohort(other, made.labels, made.y, made.attributes), options()),
        made.patients,
        learn,
        options(max_df=1.0),
    )
    assert again.names is not None
    assert again.names.tolist() == words.names.tolist()
    assert (again.x[learn] != words.x[learn]).nnz == 0


def test_embeddings_are_averaged_over_notes() -> None:
    has = sparse.csr_array(np.asarray([[1, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=np.float32))
    vectors = np.asarray([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], dtype=np.float32)
    assert average_notes(CaseNotes(["a", "b", "c"], has), vectors).x.tolist() == [
        [0.5, 0.5],
        pytest.approx([0.6, 0.8]),
        [0.0, 0.0],
    ]


def test_tables() -> None:
    made = cohort()
    learn = np.arange(200)
    found = encode_table(made, ["age", "gender"], learn)
    assert found.names is not None
    assert found.names.tolist() == ["age", "age is missing", "gender is F", "gender is M"]
    assert found.x[learn, 0].mean() == pytest.approx(0, abs=1e-6)
    assert found.x[learn, 0].std() == pytest.approx(1, abs=1e-6)
    missing = made.cases["age"].is_null().to_numpy()
    assert (found.x[:, 1] == missing).all()
    assert np.ptp(found.x[missing, 0]) == 0  # the median
    assert table_columns(made, options()) == ("age", "gender")
    with pytest.raises(CohortError, match=r"column 'weight': attribute not found.*age, gender"):
        table_columns(made, options(columns=["weight"]))
    constant = Cohort(made.cases.with_columns(age=pl.lit(3)), made.labels, made.y, made.attributes)
    with pytest.raises(CohortError, match="the same in all cases"):
        encode_table(constant, ["age"], learn)
