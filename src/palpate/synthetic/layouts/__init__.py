"""The layouts of the real datasets, and what all of them share: tables that are written row by row.

A table is a csv.gz file with the columns of schemas.yaml and the same bytes for the same rows. The real
datasets have no latent tables: the state behind each admission, and what each plant added to its log-odds.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache
from io import BufferedWriter, TextIOWrapper
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from palpate.files import open_named, read_resource
from palpate.synthetic.patients import Stay, SyntheticPatient
from palpate.synthetic.patients.conditions import condition_names

_LEVEL = 1
_BUFFER = 1 << 18
_PARTS = ("clinical_readmission", "clinical_mortality", "spurious_word", "age", "gender", "ethnicity")
_STATE = ("source", "subject_id", "hadm_id", "stay", "age", "gender", "ethnicity", "frailty", "severity", "eligible",
          "spurious", "logit_readmission", "logit_mortality", "readmitted", "planned_next", "died")  # fmt: skip


@lru_cache(maxsize=1)
def schemas() -> Mapping[str, Mapping[str, str]]:
    """Columns and their types, by path."""
    table: Mapping[str, Mapping[str, str]] = read_resource("palpate.synthetic.layouts", "schemas.yaml")
    return table


def open_gzip(path: Path, stack: ExitStack) -> TextIOWrapper:
    """A gzip file for text, without a name or a time stamp inside."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = stack.enter_context(open_named(path))
    zipped = stack.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=_LEVEL, mtime=0))
    buffered = stack.enter_context(BufferedWriter(cast(Any, zipped), _BUFFER))
    return stack.enter_context(TextIOWrapper(buffered, "utf-8", newline="", write_through=True))


class Tables:
    """The open files of a hospital; `add` appends a row and returns its number, counted from 1."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._writers: dict[str, Any] = {}
        self._widths: dict[str, int] = {}
        self.n_rows: dict[str, int] = {}

    def open(self, name: str, columns: Sequence[str] | None = None) -> None:
        """Start a file; its columns are those of schemas.yaml unless given."""
        names = list(schemas()[name]) if columns is None else list(columns)
        writer = csv.writer(open_gzip(self._folder / f"{name}.csv.gz", self._stack), lineterminator="\n")
        writer.writerow(names)
        self._writers[name], self._widths[name], self.n_rows[name] = writer, len(names), 0

    def add(self, name: str, row: Sequence[object]) -> int:
        """Append a row."""
        if len(row) != self._widths[name]:
            raise ValueError(f"{name} has {self._widths[name]} columns, but the row has {len(row)}")
        self._writers[name].writerow(row)
        self.n_rows[name] += 1
        return self.n_rows[name]

    def next_row(self, name: str) -> int:
        """The number that the next row will have."""
        return self.n_rows[name] + 1

    def __enter__(self) -> Tables:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


class LatentTable:
    """One row per admission, of either source; conditions are 0/1 columns."""

    def __init__(self, tables: Tables, name: str = "latent") -> None:
        self._tables, self._name = tables, name
        tables.open(
            name, [*_STATE, *(f"from_{part}" for part in _PARTS), *(f"has_{name}" for name in condition_names())]
        )

    def add(self, source: str, patient: SyntheticPatient, stay: Stay, subject: int, hadm: int) -> None:
        """Append an admission."""
        has = {condition.name for condition in stay.conditions}
        self._tables.add(
            self._name,
            [
                source, subject, hadm, stay.index, math.floor(stay.age * 1000) / 1000, patient.gender,
                patient.ethnicity, round(patient.frailty, 4), round(stay.severity, 4), int(stay.eligible),
                int(stay.spurious),
                round(stay.logit_readmission, 5), round(stay.logit_mortality, 5), int(stay.readmitted),
                int(stay.planned_next), int(stay.died), *(round(stay.parts[part], 5) for part in _PARTS),
                *(int(name in has) for name in condition_names()),
            ],
        )  # fmt: skip
