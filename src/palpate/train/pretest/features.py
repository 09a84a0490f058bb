"""What a pre-test model reads: counts of words, embeddings of notes, or a table of attributes.

Each distinct note is read once, however many cases have it: the counts of a case are the sum over its notes, and its
embedding is their mean. Which words count is decided on the cases to learn from, without their labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from palpate.cases.cohort import Cohort
from palpate.errors import CohortError
from palpate.privacy import hides
from palpate.stats.context.pretest_model import (
    category_columns,
    frequent_words,
    number_columns,
    rows_with,
    standardised,
)
from palpate.train.pretest.options import JOB, PREFIX, PretestOptions

Ints = NDArray[np.int64]
_MOST_VALUES = 50
"""The most columns for the values of one attribute."""


class FeatureMatrix(NamedTuple):
    """One row per case; names of the columns if they have any that can be shown."""

    x: Any
    names: NDArray[Any] | None = None
    n_patients: Ints | None = None
    """How many patients have each word in their notes."""


@hides("texts")
class CaseNotes(NamedTuple):
    """The distinct notes of a cohort, and which of them each case has."""

    texts: list[str]
    has: sparse.csr_array
    """[case, note]: how many times."""

    @property
    def present(self) -> NDArray[np.bool_]:
        """Whether a case has a note."""
        n_notes: Ints = np.diff(self.has.indptr)
        return n_notes > 0


def read_notes(cohort: Cohort, options: PretestOptions) -> CaseNotes:
    """The notes of every case, split at the mark; blank ones don't count."""
    column = cohort.cases[options.notes]
    codes = column.rank("dense").to_numpy()  # cases of one patient share a text, which is split once
    texts: dict[str, int] = {}
    of_text: dict[float, list[int]] = {}
    first = [0]
    index: list[int] = []
    for code, text in zip(codes.tolist(), column, strict=True):
        if text is not None:
            if code not in of_text:
                parts = (part for part in text.split(options.note_mark) if part.strip())
                of_text[code] = [texts.setdefault(part, len(texts)) for part in parts]
            index += of_text[code]
        first.append(len(index))
    ones = np.ones(len(index), dtype=np.float32)
    has = sparse.csr_array((ones, np.asarray(index, dtype=np.int64), first), shape=(len(cohort), len(texts)))
    has.sum_duplicates()
    return CaseNotes(list(texts), has)


def count_words(notes: CaseNotes, patients: Ints, learn: Ints, options: PretestOptions) -> FeatureMatrix:
    """Bag of words (Appendix A): at most 8,192 words, no English stop words, neither rare nor in nearly all."""
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(stop_words="english", dtype=np.float32)
    try:
        of_note = sparse.csr_array(counter.fit_transform(notes.texts))
    except ValueError:
        raise CohortError("the earlier notes have no words", hint="check the column and `note_mark`") from None
    x = notes.has @ of_note
    own = x[learn]
    n_patients = rows_with(own, patients[learn])
    kept = frequent_words(
        own,
        min_rows=options.min_df,
        max_share=options.max_df,
        most=options.max_words,
        allowed=n_patients >= options.min_patients,
    )
    if not len(kept):
        raise CohortError(
            "no word of the earlier notes is left for the vocabulary",
            hint=f"lower `min_df` ({options.min_df}) or `min_patients` ({options.min_patients})",
        )
    # 32-bit indices: half the memory, and some solvers of scikit-learn accept no others.
    narrow = sparse.csr_matrix(x[:, kept])
    narrow.indices, narrow.indptr = narrow.indices.astype(np.int32), narrow.indptr.astype(np.int32)
    return FeatureMatrix(narrow, counter.get_feature_names_out()[kept], n_patients[kept])


def average_notes(notes: CaseNotes, of_note: NDArray[np.float32]) -> FeatureMatrix:
    """The mean embedding of a case's notes (Appendix A)."""
    n = np.asarray(notes.has.sum(axis=1)).ravel()
    total = np.asarray(notes.has @ of_note)
    return FeatureMatrix(total / np.maximum(n, 1)[:, None])


def table_columns(cohort: Cohort, options: PretestOptions) -> tuple[str, ...]:
    """The attributes to read."""
    if options.columns is None:
        return tuple(name for name in cohort.attributes if not name.startswith(PREFIX) and name != JOB)
    for name in options.columns:
        if name not in cohort.attributes:
            raise CohortError(
                "attribute not found",
                column=name,
                hint=f"the cohort's attributes are: {', '.join(cohort.attributes) or 'none'}",
            )
    return options.columns


def encode_table(cohort: Cohort, columns: Sequence[str], learn: Ints) -> FeatureMatrix:
    """Numbers standardised, with the median where missing; one column per frequent value; whether it is missing."""
    parts: list[NDArray[np.float64]] = []
    names: list[str] = []
    for name in columns:
        values = cohort.cases[name]
        if values.dtype.is_numeric():
            numbers = values.cast(pl.Float64).fill_null(float("nan")).to_numpy()
            numbers = number_columns(np.where(np.isfinite(numbers), numbers, np.nan), learn, centre=np.median)
            parts += [standardised(numbers[:, :1], learn), numbers[:, 1:]]
            names += [name, f"{name} is missing"]
        else:
            texts = values.cast(pl.String).fill_null("").to_list()
            kept, found = category_columns(texts, learn, most=_MOST_VALUES)
            known = [k for k, value in enumerate(kept) if value]
            parts += [found[:, known], np.asarray([[not text] for text in texts], dtype=np.float64)]
            names += [*(f"{name} is {kept[k]}" for k in known), f"{name} is missing"]
    table = np.column_stack(parts)
    varied = np.flatnonzero(np.ptp(table[learn], axis=0) > 0)
    if not len(varied):
        raise CohortError("the attributes are the same in all cases, so nothing can be learned from them")
    return FeatureMatrix(table[:, varied].astype(np.float32), np.asarray(names, dtype=object)[varied])
