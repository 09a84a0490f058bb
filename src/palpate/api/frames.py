"""A cohort from what people have: a pandas or polars frame, a `Cohort`, or the path of a table."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import ValidationError

from palpate.cases.cohort import STAY, WEIGHT, Cohort, arrange, stack
from palpate.cases.columns import ColumnCheck, missing_column
from palpate.cases.labels import Positive, label_matrix
from palpate.data.tables import TableSpec, read_cohort, read_table
from palpate.errors import CohortError, first_problem
from palpate.models.memory import CaseFrame

ROLES = {
    "case": "case_id",
    "patient": "patient_id",
    "text": "text",
    "split": "split",
    "time": "time",
    "stay": STAY,
    "weight": WEIGHT,
    "image": "image",
    "prior": "prior",
}
"""The arguments that name a column, and what palpate calls it."""
NAME = "cohort"


@dataclass(frozen=True)
class NamedColumns:
    """Which column of a table is what, as the arguments of `palpate.audit` say it."""

    labels: Sequence[str] | str | None = None
    attributes: Sequence[str] = ()
    roles: Mapping[str, str | None] | None = None
    positive: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None
    """The value that means 1, where labels are not 0 and 1."""
    reading: Mapping[str, Any] = field(default_factory=dict)
    """How a file is read: `encoding`, `delimiter`, `sheet`, `decimal`, `label_list`."""

    @property
    def named(self) -> dict[str, str]:
        """The roles that are given."""
        return {role: column for role, column in (self.roles or {}).items() if column is not None}


@dataclass(frozen=True, eq=False)
class Audited:
    """The cases, and the table that they came from, for models that read its columns."""

    cohort: Cohort
    frame: CaseFrame
    source: Any = None
    """The user's frame, where it is one."""


def is_pandas(value: Any) -> bool:
    """Whether this is an object of pandas, which is not imported to find out."""
    return type(value).__module__.partition(".")[0] == "pandas"


def audited(data: Any, columns: NamedColumns) -> Audited:
    """The cases of one table, or of several that are given by name."""
    if isinstance(data, Mapping):
        parts = [_one(each, columns, name=str(name)) for name, each in data.items()]
        if not parts:
            raise CohortError("there is no table", hint="give at least one")
        cohort, sources = stack([part.cohort for part in parts]), [part.source for part in parts]
        if all(is_pandas(source) for source in sources):
            import pandas as pd

            whole = pd.concat(sources, ignore_index=True)
        else:
            kept = [_polars_of(source) if is_pandas(source) else source for source in sources]
            whole = pl.concat(kept, how="diagonal_relaxed")
        return Audited(cohort, _frame_of(whole, cohort, text=columns.named.get("text")), whole)
    return _one(data, columns, name=NAME)


def _one(data: Any, columns: NamedColumns, *, name: str) -> Audited:
    if isinstance(data, Cohort):
        _refuse_columns(columns, "a Cohort has its columns already")
        return Audited(data, _frame_of(data.cases, data, text="text" if data.has_text else None), data.cases)
    if isinstance(data, str | Path):
        return _from_file(Path(data), columns, name=name)
    if columns.reading:
        raise CohortError(f"`{next(iter(columns.reading))}` is about files, and this is a frame", hint="leave it out")
    frame = data.collect() if isinstance(data, pl.LazyFrame) else data
    pandas = is_pandas(frame)
    if not pandas and not isinstance(frame, pl.DataFrame):
        raise CohortError(
            f"a table cannot be made from a {type(data).__name__}",
            hint="give a pandas or polars frame, a palpate.Cohort, or the path of a table",
        )
    index = _index_ids(frame, columns) if pandas else None
    cohort = _cohort(_polars_of(frame) if pandas else frame, columns, name=name, case_ids=index)
    return Audited(cohort, _frame_of(frame, cohort, text=columns.named.get("text")), frame)


def _from_file(file: Path, columns: NamedColumns, *, name: str) -> Audited:
    """The cases of a file; models may read any of its columns."""
    given: dict[str, Any] = {**columns.named, **columns.reading, "file": file, "positive": columns.positive}
    if columns.labels is not None:
        given["labels"] = _listed(columns.labels)
    try:
        spec = TableSpec(**given, attributes=_listed(columns.attributes))
    except ValidationError as error:
        wrong = first_problem(error)
        raise CohortError(f"`{wrong.field}`: {wrong.problem}", file=file) from None
    cohort = read_cohort(spec, name=file.name.split(".")[0] if name == NAME else name)
    frame = read_table(spec)
    return Audited(cohort, _frame_of(frame, cohort, text=columns.named.get("text", "text")), frame)


def _refuse_columns(columns: NamedColumns, why: str) -> None:
    given = [name for name, value in columns.named.items() if value]
    given += [name for name in ("labels", "attributes") if getattr(columns, name)]
    if given:
        raise CohortError(f"`{given[0]}` cannot be given: {why}", hint="leave it out")


def _listed(names: Sequence[str] | str) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _cohort(frame: pl.DataFrame, columns: NamedColumns, *, name: str, case_ids: pl.Series | None) -> Cohort:
    labels, attributes = _listed(columns.labels or ()), _listed(columns.attributes)
    if not labels:
        raise CohortError("no label is named", hint='name the 0/1 columns, as labels=["readmitted"]')
    if not frame.height:
        raise CohortError("the table has no rows", hint="give one row per case")
    for column in (*labels, *attributes, *columns.named.values()):
        if column not in frame.columns:
            raise missing_column(str(column), frame.columns)
    if "stay" in columns.named and "time" not in columns.named:
        raise CohortError("a stay has several predictions, each with its time", hint="name the column with `time=`")
    roles = {ROLES[role]: column for role, column in columns.named.items()}
    if case_ids is not None:
        frame, roles = frame.with_columns(case_ids.alias(_INDEX)), {**roles, "case_id": _INDEX}
    positive = columns.positive if isinstance(columns.positive, Mapping) else dict.fromkeys(labels, columns.positive)
    said = {label: _values(value) for label, value in positive.items() if value is not None}
    y = label_matrix((ColumnCheck(frame[label]) for label in labels), n=frame.height, positive=said)
    table = arrange(frame, name=name, roles=roles, attributes={each: each for each in attributes})
    return Cohort(table.cases, labels, y, attributes, table.facts)


def _values(said: object) -> Positive:
    """What `positive` says of a label: one value, or several."""
    return tuple(map(str, said)) if isinstance(said, list | tuple | set) else str(said)


_INDEX = "index of the frame"


def _index_ids(frame: Any, columns: NamedColumns) -> pl.Series | None:
    """The index of a pandas frame as case ids, unless it only counts the rows or a column has them."""
    index = frame.index
    if columns.named.get("case") is not None or type(index).__name__ == "RangeIndex":
        return None
    if getattr(index, "nlevels", 1) > 1:
        return pl.Series([" ".join(map(str, each)) for each in index.tolist()])
    return pl.Series([str(each) for each in index.tolist()])


def _polars_of(frame: Any) -> pl.DataFrame:
    """A pandas frame, column by column, so that pyarrow is not needed."""
    named = [str(column) for column in frame.columns]
    twice = next((name for name in named if named.count(name) > 1), None)
    if twice is not None:
        raise CohortError("two columns have this name", column=twice, hint="rename one of them")
    return pl.DataFrame([series_of(frame[column], str(column)) for column in frame.columns])


def series_of(column: Any, name: str) -> pl.Series:
    """A pandas column; what pandas takes for missing is null."""
    kind = getattr(column.dtype, "kind", "O")
    if kind == "M":
        times = column.dt.tz_convert("UTC").dt.tz_localize(None) if getattr(column.dtype, "tz", None) else column
        return pl.Series(name, times.to_numpy().astype("datetime64[us]"))
    missing = column.isna().to_numpy()
    if kind in "iufb" and not missing.any():
        return pl.Series(name, column.to_numpy(dtype=getattr(column.dtype, "numpy_dtype", column.dtype)))
    values = [None if gone else value for gone, value in zip(missing, column.tolist(), strict=True)]
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, bool} or kinds <= {int, float}:
        return pl.Series(name, values, strict=False)
    return pl.Series(name, [None if value is None else str(value) for value in values], dtype=pl.String)


def _frame_of(frame: Any, cohort: Cohort, *, text: str | None) -> CaseFrame:
    """How models that read columns get them."""
    keys = list(zip(cohort.cases["cohort"].to_list(), cohort.cases["case_id"].to_list(), strict=True))
    places = {key: row for row, key in enumerate(keys)}

    def digest(columns: Sequence[str]) -> str:
        return _digest_of(frame, columns, keys)

    if is_pandas(frame):
        return CaseFrame(
            columns=[str(column) for column in frame.columns],
            places=places,
            take=lambda rows, columns: frame.iloc[list(rows)][list(columns)],
            replace=lambda part, column, values: part.assign(**{column: list(values)}),
            digest=digest,
            text=text,
        )
    return CaseFrame(
        columns=frame.columns,
        places=places,
        take=lambda rows, columns: frame[list(rows)].select(list(columns)),
        replace=lambda part, column, values: part.with_columns(pl.Series(column, list(values))),
        digest=digest,
        text=text,
    )


def _digest_of(frame: Any, columns: Sequence[str], keys: Sequence[tuple[str, str]]) -> str:
    digest = hashlib.blake2b(repr(keys).encode("utf-8", "surrogatepass"), digest_size=16)
    for column in columns:
        values = series_of(frame[column], column) if is_pandas(frame) else frame[column]
        digest.update(f"\x1e{column}:{values.dtype}".encode())
        cells = [repr(value) for value in values.to_list()]
        digest.update("\x1f".join(cells).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
