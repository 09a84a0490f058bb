"""The cohort: the cases to audit, as a table; the patient is the unit of splitting and of resampling.

`cases` has one row per case, with the columns `cohort`, `case_id`, `patient_id` and, if known, `split`, `time`,
`stay_id` (several predictions of one stay, each with its time), `text`, `image`, `prior`, `sampling_weight` and the
attributes. Labels are stored separately, as a sparse 0/1 matrix, because a coding task has thousands. Several cohorts
in one run (internal and external, say) form one table; the column `cohort` distinguishes them.
"""

from __future__ import annotations

import hashlib
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from palpate.cases.columns import (
    FILMS,
    SPLITS,
    ColumnCheck,
    attribute,
    check_one_patient,
    check_unique,
    films,
    ids,
    images,
    missing_column,
    sampling_weights,
    splits,
    texts,
    times,
    words,
)
from palpate.cases.labels import label_matrix
from palpate.errors import CohortError
from palpate.privacy import hides

__all__ = ["ALONE", "ROLES", "SPLITS", "Arranged", "Cohort", "arrange", "stack"]

STAY, WEIGHT = "stay_id", "sampling_weight"
"""Not `weight`: in a hospital's table that is the patient's, in kilograms."""
STAY_WEIGHT = "palpate: sampling weight of the stay"
"""The weights of the stays as they were sampled, where cases have a weight of 0 only because they lack a score.

No table of a user's may have a column of this name.
"""
READ = {"split": splits, "time": times, STAY: ids, "text": texts, "image": images, "prior": words}
READ |= {WEIGHT: sampling_weights}
ROLES = ("case_id", "patient_id", *READ)
ALONE = "each case counts as its own patient: there is no patient column, or it repeats the case ids"


@dataclass(frozen=True, eq=False, repr=False)
class Cohort:
    """Cases in rows; see the module's docstring for the columns.

    >>> frame = pl.DataFrame({"patient_id": ["a", "a", "b"], "sick": [0, 1, 1]})
    >>> Cohort.from_frame(frame, labels=["sick"])
    <cohort cohort: 3 cases, 2 patients; with sick 2>
    """

    cases: pl.DataFrame
    labels: tuple[str, ...]
    y: sparse.csc_array
    attributes: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    """What a reader of the report should know about the table, as sentences; not part of the fingerprint."""
    folders: Mapping[str, Path] = field(default_factory=dict)
    """The folder of each cohort's file, by name: relative image paths start there; not part of the fingerprint."""

    def __len__(self) -> int:
        return self.cases.height

    def __repr__(self) -> str:
        """Who is in it; no text of a note."""
        parts = [f"{len(self):,} cases", f"{self.n_patients:,} patients"]
        positive = np.asarray(self.y.sum(axis=0)).ravel()
        listed = [f"{name} {int(n):,}" for name, n in zip(self.labels[:5], positive, strict=False)]
        more = f" and {len(self.labels) - 5:,} more" if len(self.labels) > 5 else ""
        named = f"; attributes: {', '.join(self.attributes)}" if self.attributes else ""
        labelled = f"with {', '.join(listed)}{more}" if self.labels else "no labels"
        return f"<cohort {', '.join(self.names)}: {', '.join(parts)}; {labelled}{named}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"

    @property
    def names(self) -> tuple[str, ...]:
        """The cohorts in the table, the main one first."""
        return tuple(self.cases["cohort"].unique(maintain_order=True))

    @property
    def has_text(self) -> bool:
        """Whether the cases have notes."""
        return "text" in self.cases.columns

    @cached_property
    def texts(self) -> list[str]:
        """The notes, or empty strings if the cohort has none."""
        return self.cases["text"].fill_null("").to_list() if self.has_text else [""] * len(self)

    @property
    def without_text(self) -> tuple[str, ...]:
        """The cohorts that have no notes, where others may have."""
        if not self.has_text:
            return self.names
        return tuple(name for name in self.names if self.cases.filter(cohort=name)["text"].null_count())

    @property
    def has_images(self) -> bool:
        """Whether the cases have images."""
        return "image" in self.cases.columns

    @cached_property
    def images(self) -> list[str]:
        """The absolute paths of the images, or empty strings if the cohort has none; see `films` for several."""
        if not self.has_images:
            return [""] * len(self)
        roots = {name: self.folders.get(name, Path()).absolute() for name in self.names}
        rows = self.cases.select("cohort", "image").iter_rows()
        return [FILMS.join(str(roots[name] / film) for film in films(image)) if image else "" for name, image in rows]

    def with_images(self) -> Cohort:
        """Only the cases whose image files exist; `facts` says how many were left out."""
        exist = (all(Path(film).is_file() for film in films(image)) for image in self.images)
        rows = np.flatnonzero(np.fromiter(exist, bool, count=len(self)))
        if len(rows) == len(self):
            return self
        if not len(rows):
            raise CohortError(
                f"no image file of the cohort exists; the first one would be {self.images[0]}",
                hint="relative paths start at the folder of the cohort's file",
            )
        fact = f"{len(self) - len(rows):,} of {len(self):,} cases are left out because their image file is missing"
        return replace(
            self, cases=self.cases[rows], y=sparse.csc_array(self.y.tocsr()[rows]), facts=(*self.facts, fact)
        )

    @cached_property
    def patients(self) -> NDArray[np.int64]:
        """The patient of each row as a number; the same id in two cohorts means two patients."""
        codes = self.cases.select(pl.struct("cohort", "patient_id").rank("dense")).to_series()
        return codes.to_numpy().astype(np.int64) - 1

    @property
    def n_patients(self) -> int:
        """How many patients the cases belong to."""
        return int(self.patients.max()) + 1 if len(self) else 0

    @cached_property
    def weights(self) -> NDArray[np.float64] | None:
        """The sampling weight of each row, 1 in a cohort that has none; None where no cohort has any."""
        if WEIGHT not in self.cases.columns:
            return None
        return self.cases[WEIGHT].fill_null(1.0).to_numpy().astype(np.float64)

    @property
    def stay_weights(self) -> NDArray[np.float64] | None:
        """The sampling weight of each row's stay, the largest of its cases'; None where no cohort has weights.

        Which of its cases have a score does not change it, but for 0 where none has.
        """
        if self.weights is None:
            return None
        _, stay = np.unique(self.stays, return_inverse=True)
        largest = np.zeros(int(stay.max(initial=-1)) + 1)
        np.maximum.at(largest, stay, self.weights)
        if STAY_WEIGHT not in self.cases.columns:
            return np.asarray(largest[stay])
        return np.asarray(np.where(largest[stay] > 0, self.cases[STAY_WEIGHT].to_numpy(), 0.0))

    def weights_of(self, rows: NDArray[np.int64], *, by_stay: bool = False) -> NDArray[np.float64] | None:
        """The weights of some rows with a mean of 1; None where they are all equal, so that there is nothing to weigh.

        Each cohort's have a mean of 1: a weight compares cases of one cohort only. With `by_stay`, a row has the weight
        of its stay.
        """
        known = self.stay_weights if by_stay else self.weights
        if known is None or not len(rows):
            return None
        weight, names = known[rows], self.cases["cohort"].gather(rows)
        for name in names.unique(maintain_order=True):
            own = (names == name).to_numpy()
            mean = float(weight[own].mean())
            if mean == 0:
                raise CohortError(
                    f"each of the {int(own.sum()):,} cases of cohort '{name}' to audit has a sampling weight of 0",
                    hint="give the cases of the audited split weights above 0",
                )
            weight[own] = 1.0 if (weight[own] == weight[own][0]).all() else weight[own] / mean
        return None if (weight == 1.0).all() else weight

    @property
    def has_stays(self) -> bool:
        """Whether a stay may have several cases, each a prediction at its time."""
        return STAY in self.cases.columns

    @cached_property
    def stays(self) -> NDArray[np.int64]:
        """The stay of each row as a number; a case without one is a stay of its own."""
        stay = pl.col(STAY).fill_null("case " + pl.col("case_id")) if self.has_stays else pl.col("case_id")
        key = pl.struct("cohort", stay.alias("stay"), *([pl.col(STAY).is_null()] if self.has_stays else []))
        return self.cases.select(key.rank("dense")).to_series().to_numpy().astype(np.int64) - 1

    def rows(self, *, cohort: str | None = None, split: str | None = None) -> NDArray[np.int64]:
        """Row numbers of one cohort and one split; `split` is ignored if the cohort has none."""
        keep = np.ones(len(self), dtype=bool)
        if cohort is not None:
            keep &= (self.cases["cohort"] == cohort).to_numpy()
        if split is not None and "split" in self.cases.columns:
            column = self.cases["split"]
            keep &= (column.is_null() | (column == split)).fill_null(True).to_numpy()
        return np.flatnonzero(keep)

    def y_true(self, rows: NDArray[np.int64], labels: Sequence[str] | None = None) -> NDArray[np.uint8]:
        """Labels of some rows as a dense array, one column per label."""
        wanted = self.labels if labels is None else tuple(labels)
        position = {name: k for k, name in enumerate(self.labels)}
        columns = self.y[:, [position[name] for name in wanted]]
        return np.asarray(columns.tocsr()[rows].toarray(), dtype=np.uint8)

    @cached_property
    def fingerprint(self) -> str:
        """Changes when any cell or label changes; decides whether a run can be resumed."""
        digest = hashlib.blake2b(digest_size=16)
        for column in self.cases.iter_columns():
            text = column.cast(pl.String) if column.dtype != pl.String else column
            lengths = text.str.len_bytes().fill_null(2**32 - 1).to_numpy()
            digest.update(f"{column.name}:{column.dtype}".encode())
            digest.update(lengths.astype("<u4").tobytes())
            for start in range(0, len(text), 4096):
                joined = text[start : start + 4096].str.join("")
                digest.update("".join(joined.drop_nulls()).encode())
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
        """A cohort from a frame with the columns above and 0/1 label columns; for use from Python.

        Checks what the file readers check. Columns without a role are kept unchanged, at the end.
        """
        for column in (*labels, *attributes):
            if column not in frame.columns:
                raise missing_column(column, frame.columns)
        y = label_matrix((ColumnCheck(frame[label]) for label in labels), n=frame.height)
        roles = {role: role for role in ROLES if role in frame.columns and (role != STAY or "time" in frame.columns)}
        table = arrange(frame, name=name, roles=roles, attributes={column: column for column in attributes})
        rest = [c for c in frame.columns if c not in (*table.cases.columns, *labels)]
        if STAY_WEIGHT in rest:
            raise ColumnCheck(frame[STAY_WEIGHT]).error("a column can't have this name", hint="rename it")
        cases = table.cases.hstack(frame.select(rest)) if rest else table.cases
        return cls(cases, tuple(labels), y, tuple(dict.fromkeys(attributes)), table.facts)


@hides("cases")
class Arranged(NamedTuple):
    """The checked columns of `Cohort.cases`, and what a reader should know about them."""

    cases: pl.DataFrame
    facts: tuple[str, ...]


def arrange(
    frame: pl.DataFrame,
    *,
    name: str,
    roles: Mapping[str, str],
    attributes: Mapping[str, str],
    file: Path | None = None,
    parse: bool = False,
) -> Arranged:
    """A user's table as the table of cases.

    `roles` and `attributes` map the new name of a column to its name in `frame`. With `parse`, attributes that are
    strings become numbers if all of their values are numbers.
    """

    def column(source: str) -> ColumnCheck:
        return ColumnCheck(frame[source], file=file)

    parts = {"cohort": pl.repeat(name, frame.height, dtype=pl.String, eager=True)}
    parts["case_id"] = ids(column(roles["case_id"])) if "case_id" in roles else row_numbers(frame.height)
    parts["patient_id"] = ids(column(roles["patient_id"])) if "patient_id" in roles else parts["case_id"]
    check_unique(ColumnCheck(parts["case_id"], file=file, name=roles.get("case_id", "case_id")))
    for role, read in READ.items():
        if role in roles:
            parts[role] = read(column(roles[role]))
    if STAY in parts:
        check_one_patient(ColumnCheck(parts[STAY], file=file, name=roles[STAY]), parts["patient_id"])
    for new, source in attributes.items():
        if new not in (*parts, STAY_WEIGHT):
            parts[new] = attribute(column(source), parse=parse)
        elif new in ("cohort", STAY_WEIGHT) or roles.get(new) not in (source, new):
            hint = f"rename the column: '{new}' has a special meaning in palpate"
            raise column(source).error("an attribute can't have this name", hint=hint)
    alone = (parts["patient_id"] == parts["case_id"]).all() and frame.height > 0
    facts = ((ALONE,) if alone else ()) + (_weight_facts(parts[WEIGHT].to_numpy(), name) if WEIGHT in parts else ())
    return Arranged(pl.DataFrame({new: values.alias(new) for new, values in parts.items()}), facts)


def _weight_facts(weight: NDArray[np.float64], name: str) -> tuple[str, ...]:
    """What unequal weights leave of the cases' precision (Kish)."""
    if not len(weight) or (weight == weight[0]).all():
        return ()
    share = weight / weight.max()
    effective = float(share.sum()) ** 2 / float((share**2).sum())
    return (
        f"the cases of cohort '{name}' have sampling weights: {len(weight):,} cases are as precise as "
        f"{effective:,.0f} of equal weight (Kish's effective sample size)",
    )


def row_numbers(n: int) -> pl.Series:
    """The ids of cases in a table that has none."""
    return pl.int_range(1, n + 1, eager=True).cast(pl.String)


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
    names = [name for cohort in cohorts for name in cohort.names]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise CohortError(f"two cohorts are named '{twice}'", hint="give each cohort its own name")
    if len(cohorts) == 1:
        return first
    place = [{name: k for k, name in enumerate(cohort.labels)} for cohort in cohorts]
    order = [[position[name] for name in first.labels] for position in place]
    y = sparse.vstack([cohort.y[:, columns].tocsr() for cohort, columns in zip(cohorts, order, strict=True)])
    return replace(
        first,
        cases=pl.concat([cohort.cases for cohort in cohorts], how="diagonal_relaxed"),
        y=sparse.csc_array(y),
        attributes=tuple(dict.fromkeys(name for cohort in cohorts for name in cohort.attributes)),
        facts=tuple(dict.fromkeys(fact for cohort in cohorts for fact in cohort.facts)),
        folders={name: folder for cohort in cohorts for name, folder in cohort.folders.items()},
    )
