"""The cohort: the cases to audit, as a table; the patient is the unit of splitting and of resampling.

`cases` has one row a case with the columns `cohort`, `case_id`, `patient_id` and, where known, `split`, `time`,
`text`, `image`, `prior` and the attributes. Labels are apart, as a sparse 0/1 matrix, because a coding task has
thousands. Several cohorts in one run (internal and external, say) are one table, told apart by `cohort`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from palpate.errors import CohortError

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False)
class Cohort:
    """Cases in rows; see the module's docstring for the columns."""

    cases: pl.DataFrame
    labels: tuple[str, ...]
    y: sparse.csc_array
    attributes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return self.cases.height

    @property
    def names(self) -> tuple[str, ...]:
        """The cohorts in the table, the main one first."""
        return tuple(self.cases["cohort"].unique(maintain_order=True))

    @property
    def has_text(self) -> bool:
        """Whether there is something to read."""
        return "text" in self.cases.columns

    @cached_property
    def texts(self) -> list[str]:
        """The notes, or empty strings where the cohort has none."""
        return self.cases["text"].to_list() if self.has_text else [""] * len(self)

    @cached_property
    def patients(self) -> NDArray[np.int64]:
        """The patient of each row as a number; the same name in two cohorts is two patients."""
        codes = self.cases.select(pl.struct("cohort", "patient_id").rank("dense")).to_series()
        return codes.to_numpy().astype(np.int64) - 1

    @property
    def n_patients(self) -> int:
        """How many people the cases belong to."""
        return int(self.patients.max()) + 1 if len(self) else 0

    def rows(self, *, cohort: str | None = None, split: str | None = None) -> NDArray[np.int64]:
        """Row numbers of one cohort and one split; `split` is ignored where the cohort has none."""
        keep = np.ones(len(self), dtype=bool)
        if cohort is not None:
            keep &= (self.cases["cohort"] == cohort).to_numpy()
        if split is not None and "split" in self.cases.columns:
            column = self.cases["split"]
            keep &= (column.is_null() | (column == split)).fill_null(True).to_numpy()
        return np.flatnonzero(keep)

    def y_true(self, rows: NDArray[np.int64], labels: Sequence[str] | None = None) -> NDArray[np.uint8]:
        """Labels of some rows, dense: one column a label."""
        wanted = self.labels if labels is None else tuple(labels)
        position = {name: k for k, name in enumerate(self.labels)}
        columns = self.y[:, [position[name] for name in wanted]]
        return np.asarray(columns.tocsr()[rows].toarray(), dtype=np.uint8)

    @cached_property
    def fingerprint(self) -> str:
        """Changes when any cell or label changes; tells whether a run can be resumed."""
        digest = hashlib.blake2b(digest_size=16)
        for column in self.cases.iter_columns():
            text = column.cast(pl.String) if column.dtype != pl.String else column
            lengths = text.str.len_bytes().fill_null(2**32 - 1).to_numpy()
            digest.update(f"{column.name}:{column.dtype}".encode())
            digest.update(lengths.astype("<u4").tobytes())
            for start in range(0, len(text), 4096):
                digest.update("".join(text[start : start + 4096].drop_nulls()).encode("utf-8", "surrogatepass"))
        digest.update("\x1f".join(self.labels).encode())
        for part in (self.y.indptr, self.y.indices, self.y.data):
            digest.update(np.ascontiguousarray(part, dtype="<i8").tobytes())
        return digest.hexdigest()

    @classmethod
    def from_frame(
        cls,
        frame: pl.DataFrame,
        *,
        labels: Sequence[str],
        name: str = "cohort",
        attributes: Sequence[str] = (),
    ) -> Cohort:
        """A cohort from a frame that has the columns above and 0/1 label columns; for use from Python."""
        y = frame.select(pl.col(list(labels)).cast(pl.UInt8)).to_numpy()
        cases = frame.drop(list(labels)).with_columns(pl.lit(name).alias("cohort"))
        if "case_id" not in cases.columns:
            cases = cases.with_columns(pl.int_range(pl.len()).cast(pl.String).alias("case_id"))
        if "patient_id" not in cases.columns:
            cases = cases.with_columns(pl.col("case_id").alias("patient_id"))
        cases = cases.with_columns(pl.col("case_id", "patient_id").cast(pl.String))
        return cls(cases, tuple(labels), sparse.csc_array(y), tuple(attributes))


def stack(cohorts: Sequence[Cohort]) -> Cohort:
    """Several cohorts as one table; all must have the same labels."""
    first = cohorts[0]
    for other in cohorts[1:]:
        if set(other.labels) != set(first.labels):
            odd = sorted(set(other.labels) ^ set(first.labels))
            raise CohortError(
                f"cohorts '{first.names[0]}' and '{other.names[0]}' have different labels ({', '.join(odd[:5])})",
                hint="give both the same `labels`",
            )
    if len(cohorts) == 1:
        return first
    order = [
        [other.labels.index(name) for name in first.labels] for other in cohorts
    ]
    y = sparse.vstack([cohort.y[:, columns].tocsr() for cohort, columns in zip(cohorts, order, strict=True)])
    return replace(
        first,
        cases=pl.concat([cohort.cases for cohort in cohorts], how="diagonal_relaxed"),
        y=sparse.csc_array(y),
        attributes=tuple(dict.fromkeys(name for cohort in cohorts for name in cohort.attributes)),
    )
