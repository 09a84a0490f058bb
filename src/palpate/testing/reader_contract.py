"""What every reader of cohorts must do: the same cohort each time, whole and well-formed, from files left as they were.

    def test_mine():
        check_reader_contract(read_my_export, Path("export"))

A reader is a function of a path that returns a `Cohort`, or something with a `cohort` and a flow table, as the builders
behind `palpate cohort` do. The built-in readers are held to the same checks.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from palpate.cases.cohort import SPLITS, Cohort
from palpate.data.tables import TableSpec, read_cohort, write_cohort
from palpate.errors import InputError
from palpate.testing.model_contract import BrokenContract, expect

Reader = Callable[[Path], Any]


def check_reader_contract(read: Reader, source: Path) -> Cohort:
    """All checks of a reader on a file or folder; returns the cohort.

    The first promise that it breaks is raised as `BrokenContract`.
    """
    before = _state(source)
    built = read(source)
    cohort = cohort_of(built)
    check_cohort(cohort)
    if not isinstance(built, Cohort):
        check_flow(built)
    expect(cohort_of(read(source)).fingerprint == cohort.fingerprint, "read twice, the files give the same cohort")
    expect(_state(source) == before, "reading leaves the files as they were")
    check_can_be_written(cohort)
    check_refuses_what_is_missing(read, source)
    return cohort


def cohort_of(built: Any) -> Cohort:
    """The cohort of what a reader returns."""
    cohort = built if isinstance(built, Cohort) else getattr(built, "cohort", None)
    if not isinstance(cohort, Cohort):
        raise BrokenContract("a reader returns a Cohort, or something with a `cohort`")
    return cohort


def check_cohort(cohort: Cohort) -> None:
    """Distinct cases, known splits, a patient in one split, labels that fit the rows, no empty note."""
    cases = cohort.cases
    expect(len(cohort) > 0, "a cohort has cases")
    expect(len(cohort.names) == 1, "a reader gives one cohort")
    for name in ("case_id", "patient_id"):
        expect(cases[name].null_count() == 0, f"every case has a {name}")
    expect(cases["case_id"].n_unique() == len(cohort), "every case has an id of its own")
    expect(cohort.y.shape == (len(cohort), len(cohort.labels)), "there is one row of labels per case")
    expect(len(set(cohort.labels)) == len(cohort.labels) > 0, "labels have distinct names")
    expect(bool(np.isin(cohort.y.data, (0, 1)).all()), "labels are 0 or 1")
    if "split" in cases.columns:
        known = cases["split"].drop_nulls()
        expect(set(known) <= set(SPLITS), f"splits are {', '.join(SPLITS)}")
        pairs = cases.select("patient_id", "split").drop_nulls().unique()
        expect(pairs["patient_id"].n_unique() == pairs.height, "a patient is in one split")
    if cohort.has_text:
        expect(all(text.strip() for text in cohort.texts), "no note is empty")
    missing = [name for name in cohort.attributes if name not in cases.columns]
    expect(not missing, f"attributes are columns of the cases, unlike {missing[:1]}")


def check_flow(built: Any) -> None:
    """The flow table ends with the cohort, and each step says how many it dropped."""
    flow = tuple(getattr(built, "flow", ()))
    expect(bool(flow), "a builder has a flow table")
    expect(flow[-1].n_cases == len(built.cohort), "the flow ends with the cases of the cohort")
    expect(all(step.n_dropped >= 0 for step in flow), "no step drops a negative number of rows")
    expect(all(step.reason for step in flow if step.n_dropped), "a step that drops rows says why")


def check_can_be_written(cohort: Cohort) -> None:
    """What is written as Parquet is read back as it was."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "cohort.parquet"
        write_cohort(cohort, file)
        read = read_cohort(TableSpec(file=file), name=cohort.names[0])
    expect(read.labels == cohort.labels, "labels are read back as they were written")
    same = read.cases.drop("image", strict=False).equals(
        cohort.cases.select(read.cases.columns).drop("image", strict=False)
    )
    expect(same, "cases are read back as they were written")
    expect((read.y != cohort.y).nnz == 0, "labels of cases are read back as they were written")


def check_refuses_what_is_missing(read: Reader, source: Path) -> None:
    """A path that does not exist is an `InputError` that names it."""
    missing = source.with_name(f"no-such-{source.name}")
    try:
        read(missing)
    except InputError as error:
        expect(missing.name in str(error), "an error names the file that is missing")
    else:
        raise BrokenContract("a missing file is an InputError")


def _state(source: Path) -> dict[str, tuple[int, int]]:
    """Name, size and time of each file."""
    files = [source] if source.is_file() else [file for file in source.rglob("*") if file.is_file()]
    return {str(file): (file.stat().st_size, file.stat().st_mtime_ns) for file in files}
