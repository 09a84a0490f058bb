"""`predictions:FILE`: probabilities that were computed elsewhere, looked up.

The file (CSV, TSV, Parquet or JSON lines) has one row per prediction and one column per label. A row is the
prediction for a case (`case_id`, with `cohort` where case ids repeat between cohorts) or, if it has an `input_id`,
for the text with that hash: these are the altered texts, which `palpate plan` writes out. A row with both is the
prediction for the text; its `case_id` is then only for the reader, because altered copies of a case share it.

A file in the schema of meds-evaluation (`subject_id`, `prediction_time`, `predicted_boolean_probability`) needs no
`case_id`: a cohort of MEDS has the subject and the time in its case ids.

With `missing: report`, an empty cell, a mark such as NA and a case without a row are missing scores: NaN, which audits
count. Without it they are errors, but for a file that has no row of any validation case and one of every other case:
most files of predictions are of held-out cases only (`palpate.run.checks`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import AfterValidator

from palpate.cases.edits import Inputs, Ints
from palpate.cases.hashing import KEY_BYTES, key_of
from palpate.delimited import FileLayout, check_delimiter, check_encoding
from palpate.errors import ConfigError, ModelError
from palpate.models import Model, Probabilities
from palpate.models.adapters.prediction_files import MEDS_KEY, MEDS_PROBABILITY, MEDS_TRUTH, of_meds, read_file
from palpate.models.options import Options, checked_by, digest, existing, parse_options
from palpate.privacy import hides

VERSION = "predictions-1"
INPUT = "input_id"
COHORT = "cohort"
_PLAN = "`palpate plan` writes everything that must be scored"
_REPORT = "fill it in, or set `missing: report` of the model to count missing scores and go on"
_MISSING = f"{_PLAN}; with `missing: report` of the model, missing scores are counted and the audit goes on"
_NOT_KNOWN = r"(?i)^\s*(?:|na|n/a|#n/a|nan|null|none|nil|missing|\.|-)\s*$"
_KEY, _ROW = "key", "row"
_SCORES_PER_CALL = 4_194_304
"""Rows x labels that are looked up at a time: copies of them need little memory, and progress is seen."""
_KEYS = {"case_id", INPUT, COHORT, "edited", "text", "image"}
"""What `palpate plan` writes beside the keys of cases; users add their column to its file."""


class PredictionsOptions(Options):
    """How to read the table."""

    case: str | tuple[str, ...] = "case_id"
    """The column with the case ids; of several names the first that the file has."""
    columns: tuple[str, ...] | None = None
    """The columns with probabilities; default: those that `labels` names, or all but the key columns."""
    encoding: Annotated[str, AfterValidator(check_encoding)] | None = None
    """The encoding of a CSV file, such as latin-1; default: UTF-8."""
    delimiter: Annotated[str, AfterValidator(check_delimiter)] | None = None
    """What separates the cells of a CSV file; default: found from the first rows."""


class Keys(NamedTuple):
    """Sorted hashes, and the rows of the table that they belong to."""

    hashes: NDArray[np.bytes_]
    rows: Ints

    @classmethod
    def of(cls, keys: Sequence[bytes], rows: Ints) -> Keys:
        """An index of `keys`."""
        hashes = _as_array(keys)
        order = np.argsort(hashes, kind="stable")
        return cls(hashes[order], rows[order])

    def first_repeat(self) -> int | None:
        """The first row that has the key of an earlier row."""
        repeats = self.rows[1:][self.hashes[1:] == self.hashes[:-1]]
        return int(repeats.min()) if len(repeats) else None

    def find(self, keys: Sequence[bytes]) -> Ints:
        """The row of each key, or -1."""
        if not len(self.hashes) or not keys:
            return np.full(len(keys), -1, dtype=np.int64)
        wanted = _as_array(keys)
        at = np.minimum(np.searchsorted(self.hashes, wanted), len(self.hashes) - 1)
        return np.where(self.hashes[at] == wanted, self.rows[at], -1)


def _as_array(keys: Sequence[bytes]) -> NDArray[np.bytes_]:
    return np.frombuffer(b"".join(keys), dtype=f"S{KEY_BYTES}")


@hides("table")
class CaseRows(NamedTuple):
    """The row of each case in the table: columns `key` (its id, after that of its cohort) and `row`."""

    table: pl.DataFrame

    @classmethod
    def of(cls, ids: pl.Series, cohorts: pl.Series | None, rows: Ints) -> CaseRows:
        """An index of cases."""
        return cls(pl.DataFrame({_KEY: _case_keys(ids, cohorts), _ROW: rows}))

    def first_repeat(self) -> int | None:
        """The first row that has the key of an earlier row."""
        repeats = self.table.filter(~pl.col(_KEY).is_first_distinct())[_ROW]
        return int(repeats[0]) if len(repeats) else None

    def find(self, ids: pl.Series, cohorts: pl.Series | None) -> Ints:
        """The row of each case, or -1."""
        wanted = pl.DataFrame({_KEY: _case_keys(ids, cohorts)})
        found = wanted.join(self.table, on=_KEY, how="left", maintain_order="left")[_ROW]
        return found.fill_null(-1).to_numpy().astype(np.int64)


def _case_keys(ids: pl.Series, cohorts: pl.Series | None) -> pl.Series:
    return ids if cohorts is None else cohorts + "\x1f" + ids


class PredictionsModel(Model):
    """A table of predictions."""

    reads: ClassVar[Literal["text", "case", "image"]] = "case"
    cached: ClassVar[bool] = False
    asked_here: ClassVar[bool] = True

    def __init__(
        self,
        labels: tuple[str, ...],
        values: Probabilities,
        *,
        cases: CaseRows,
        inputs: Keys,
        by_cohort: bool,
        source: str,
        fingerprint: str,
        may_miss: bool = False,
    ) -> None:
        self.labels, self.fingerprint = labels, fingerprint
        self._values, self._cases, self._inputs = values, cases, inputs
        self.rows_per_call = max(1, _SCORES_PER_CALL // max(len(labels), 1))
        self._by_cohort, self._source = by_cohort, source
        self.tells_cohorts_apart = by_cohort or not cases.table.height
        self.may_miss = may_miss

    def predict(self, inputs: Inputs) -> Probabilities:
        """Look the rows up: cases by their id, everything else (and cases not found) by the hash of the text."""
        ids = pl.Series(inputs.case_ids, dtype=pl.String)
        plain = np.flatnonzero((inputs.n_edits == 0) & (ids != "").to_numpy())
        found = np.full(len(inputs), -1, dtype=np.int64)
        names = pl.Series(inputs.cohorts, dtype=pl.String).gather(plain) if self._by_cohort else None
        found[plain] = self._cases.find(ids.gather(plain), names)
        rest = np.flatnonzero(found < 0)
        if len(rest) and len(self._inputs.hashes):
            texts = inputs.texts
            found[rest] = self._inputs.find([key_of(texts[row]) for row in rest.tolist()])
        if not self.may_miss:
            self._check_found(inputs, found)
            return self._values[found]
        return np.where(found[:, None] < 0, np.nan, self._values[found])

    def lacks(self, case_ids: pl.Series, cohorts: pl.Series) -> NDArray[np.bool_] | None:
        """The cases without a row; not known where rows are of texts, which a case may have, too."""
        if len(self._inputs.hashes):
            return None
        missing: NDArray[np.bool_] = self._cases.find(case_ids, cohorts if self._by_cohort else None) < 0
        return missing

    def close(self) -> None:
        """Let go of the table."""
        self._values = np.empty((0, len(self.labels)))

    def _check_found(self, inputs: Inputs, found: Ints) -> None:
        missing = np.flatnonzero(found < 0)
        if not len(missing):
            return
        row = int(missing[0])
        what = "the case" if inputs.n_edits[row] == 0 and inputs.case_ids[row] else "an altered text"
        more = f" (and {len(missing) - 1} others)" if len(missing) > 1 else ""
        raise ModelError(
            f"the file has no prediction for {what}{more}",
            model=self._source,
            case=inputs.case_ids[row] or None,
            hint=self._without_zeros(inputs, row) or _MISSING,
        )

    def _without_zeros(self, inputs: Inputs, row: int) -> str | None:
        """What to do where a spreadsheet has made 7 of the id 00007."""
        given = pl.Series([inputs.case_ids[row]], dtype=pl.String)
        short = given.str.replace("^0+([0-9])", "$1")
        names = pl.Series([inputs.cohorts[row]], dtype=pl.String) if self._by_cohort else None
        if short[0] == given[0] or self._cases.find(short, names)[0] < 0:
            return None
        return f"it has '{short[0]}': its ids have lost their leading zeros, so write that column as text"


def check(target: str, options: Mapping[str, Any], *, folder: Path) -> PredictionsOptions:
    """The options, if they are right and the file exists."""
    own = parse_options(PredictionsOptions, f"predictions:{target}", options)
    existing(target, folder)
    return own


@checked_by(check)
def load(target: str, options: Mapping[str, Any], *, folder: Path) -> PredictionsModel:
    """Read the table and check every cell."""
    source = f"predictions:{target}"
    own, file = check(target, options, folder=folder), existing(target, folder)
    names = (own.case,) if isinstance(own.case, str) else own.case
    keys = {*names, *_KEYS, *MEDS_KEY}
    wanted = None if own.columns is None else {*keys, MEDS_PROBABILITY, MEDS_TRUTH, *own.columns}
    frame = read_file(file, FileLayout(own.encoding, own.delimiter, named=True), keys, wanted)
    if not frame.height:
        raise ConfigError("has no rows", file=file, hint=_PLAN)
    frame, truth = of_meds(frame, names, (INPUT,), file)
    case = next((name for name in names if name in frame.columns), names[0])
    if case not in frame.columns and INPUT not in frame.columns:
        raise ConfigError(
            f"has neither a column '{case}' nor '{INPUT}'",
            file=file,
            hint="name the id column with the option `case`",
        )
    columns = _label_columns(frame, names, own, file)
    cases, inputs = _index(frame, case, file)
    report = own.missing == "report"
    relevant = {"case": case, "columns": columns, "labels": own.labels, "fingerprint": own.fingerprint}
    relevant |= {"missing": own.missing} if report else {}
    relevant |= {name: said for name in ("encoding", "delimiter") if (said := getattr(own, name)) is not None}
    made = PredictionsModel(
        own.labels or columns,
        _values(frame, columns, file, may_miss=report),
        cases=cases,
        inputs=inputs,
        by_cohort=COHORT in frame.columns,
        source=source,
        fingerprint=digest(VERSION, relevant, [file]),
        may_miss=report,
    )
    made.truth = truth
    return made


def _label_columns(frame: pl.DataFrame, cases: Sequence[str], own: PredictionsOptions, file: Path) -> tuple[str, ...]:
    """The columns with probabilities: `columns`, else those that `labels` names, else all but the keys."""
    keys = {*cases, *_KEYS}
    others = tuple(name for name in frame.columns if name not in keys)
    wanted = own.columns
    if wanted is None and own.labels and set(own.labels) & set(others):
        wanted = own.labels
    columns = others if wanted is None else wanted
    for name in columns:
        if name not in frame.columns:
            raise ConfigError("column not found", file=file, column=name)
    if not columns:
        raise ConfigError("has no column of probabilities", file=file)
    if own.labels and len(own.labels) != len(columns):
        raise ConfigError(
            f"`labels` names {len(own.labels)} labels for {len(columns)} columns of probabilities",
            file=file,
            hint="choose the columns with `columns`",
        )
    return columns


def _values(frame: pl.DataFrame, columns: Sequence[str], file: Path, *, may_miss: bool) -> Probabilities:
    """The columns of probabilities, [row, label]; one column at a time, so that no second table is in memory."""
    out = np.empty((frame.height, len(columns)))
    for j, name in enumerate(columns):
        out[:, j] = _probabilities(frame[name], file, may_miss=may_miss)
    return out


def _probabilities(column: pl.Series, file: Path, *, may_miss: bool) -> Probabilities:
    """A column of numbers in [0, 1], each of them checked; rows are counted from 1, without the header."""
    if may_miss and column.dtype == pl.String:
        column = column.set(column.str.contains(_NOT_KNOWN), None)
    numbers = column.cast(pl.Float64, strict=False) if _castable(column.dtype) else None
    if numbers is None:
        raise ConfigError(
            "not a column of numbers", file=file, column=column.name, hint="choose the label columns with `columns`"
        )
    values = numbers.to_numpy().astype(np.float64)
    wrong = ~((values >= 0) & (values <= 1))
    if may_miss:
        known = column.is_not_null() & column.is_not_nan() if column.dtype.is_float() else column.is_not_null()
        wrong &= known.fill_null(False).to_numpy()
    if wrong.any():
        row = int(np.argmax(wrong))
        given = column[row]
        unknown = given is None or bool(re.match(_NOT_KNOWN, str(given)))
        if given is None or given == "":
            problem = "the cell is empty"
        elif numbers[row] is None:
            problem = "the cell is not a number"
        else:
            problem = f"{values[row]:g} is not a probability"
        raise ConfigError(problem, file=file, row=row + 1, column=column.name, hint=_REPORT if unknown else None)
    return values


def _castable(dtype: pl.DataType) -> bool:
    return dtype.is_numeric() or dtype in (pl.String, pl.Boolean, pl.Null)


def _index(frame: pl.DataFrame, case: str, file: Path) -> tuple[CaseRows, Keys]:
    """The keys of the rows that predict a case, and of those that predict a text."""
    input_id = _strings(frame, INPUT)
    case_id = _strings(frame, case)
    for_text = (input_id != "").to_numpy()
    for_case = ~for_text & (case_id != "").to_numpy()
    neither = np.flatnonzero(~for_text & ~for_case)
    if len(neither):
        raise ConfigError("the row has neither a case id nor an input id", file=file, row=int(neither[0]) + 1)
    text_rows, case_rows = np.flatnonzero(for_text), np.flatnonzero(for_case)
    inputs = Keys.of(_decoded(input_id, text_rows, file), text_rows)
    names = _strings(frame, COHORT).gather(case_rows) if COHORT in frame.columns else None
    cases = CaseRows.of(case_id.gather(case_rows), names, case_rows)
    for repeat, column in ((cases.first_repeat(), case), (inputs.first_repeat(), INPUT)):
        if repeat is not None:
            raise ConfigError(
                "an earlier row has the same id",
                file=file,
                row=repeat + 1,
                column=column,
                hint="keep one of them",
            )
    return cases, inputs


def _strings(frame: pl.DataFrame, name: str) -> pl.Series:
    """A key column as text; a missing column or a null is empty text."""
    if name not in frame.columns:
        return pl.Series(name, [""], dtype=pl.String).new_from_index(0, frame.height)
    return frame[name].cast(pl.String).fill_null("")


def _decoded(column: pl.Series, rows: Ints, file: Path) -> list[bytes]:
    """Hexadecimal keys as bytes."""
    right = column.gather(rows).str.contains(f"^[0-9a-fA-F]{{{2 * KEY_BYTES}}}$").to_numpy()
    if not right.all():
        row = int(rows[int(np.argmin(right))])
        raise ConfigError(
            f"not an id of {2 * KEY_BYTES} hexadecimal digits",
            file=file,
            row=row + 1,
            column=INPUT,
            hint=_PLAN,
        )
    return [bytes.fromhex(key) for key in column.gather(rows).to_list()]
