"""What a cohort builder gives: the cohort, and a flow table of who was left out and why; and their files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import polars as pl

from palpate.cases.cohort import Cohort
from palpate.data.cohorts.splits import assign_splits, read_splits
from palpate.data.tables import write_cohort
from palpate.errors import CohortError


class FlowStep(NamedTuple):
    """One step: what is left after it, how many rows it cost, and why; the first step costs nothing."""

    name: str
    n_cases: int
    n_patients: int
    n_dropped: int = 0
    reason: str = ""


class Built(NamedTuple):
    """A cohort and how it came about."""

    cohort: Cohort
    flow: tuple[FlowStep, ...]
    tables: Mapping[str, pl.DataFrame] = {}
    """What goes with the cohort, by name; written beside it as STEM.NAME.parquet."""

    @property
    def splits(self) -> pl.DataFrame:
        """Each patient's split, by patient."""
        return self.cohort.cases.select("patient_id", "split").unique().sort("patient_id")

    @property
    def flow_table(self) -> pl.DataFrame:
        """The flow as a table, one row a step."""
        return pl.DataFrame(self.flow, schema=FlowStep._fields, orient="row")


def follow(rows: pl.DataFrame, steps: Mapping[str, tuple[str, str]]) -> list[FlowStep]:
    """Steps of a flow, in the given order.

    `rows` has `subject_id` and `dropped`, the key of the step that drops the row or null; `steps` has the name
    and the reason of each key. Steps that drop nothing stay, with 0, so that tables can be compared.
    """
    flow, left = [], rows
    for key, (name, reason) in steps.items():
        kept = left.filter(pl.col("dropped").is_null() | (pl.col("dropped") != key))
        flow.append(FlowStep(name, kept.height, kept["subject_id"].n_unique(), left.height - kept.height, reason))
        left = kept
    return flow


def refuse_empty(flow: Sequence[FlowStep], folder: Path) -> None:
    """An empty cohort is an error that says which step took the last rows."""
    if flow[-1].n_cases:
        return
    last = next(step for step in flow if step.n_cases == 0)
    why = f"all {last.n_dropped:,} rows that were left were dropped: {last.reason}" if last.reason else "no rows"
    raise CohortError(
        f"nothing is left for the cohort after '{last.name}' ({why})", file=folder, hint="check the tables"
    )


def split_cases(
    frame: pl.DataFrame, positive: pl.Series, *, ratios: Sequence[float], seed: int, file: Path | None
) -> tuple[pl.DataFrame, FlowStep]:
    """Add `split`: drawn by patient, or from a saved file, whose absent patients are left out."""
    if file is None:
        split = assign_splits(frame["patient_id"], positive, ratios=ratios, seed=seed)
        whole = frame.with_columns(split)
        shares = "/".join(f"{ratio:g}" for ratio in ratios)
        step = FlowStep(f"split {shares} by patient, seed {seed}", whole.height, whole["patient_id"].n_unique())
        return whole, step
    saved = read_splits(file)
    kept = frame.join(saved, on="patient_id", how="inner", maintain_order="left")
    if not kept.height:
        raise CohortError("none of the cohort's patients is in the split file", file=file, hint="check its ids")
    n_patients, n_dropped = kept["patient_id"].n_unique(), frame.height - kept.height
    return kept, FlowStep(f"split of {file.name}", kept.height, n_patients, n_dropped, "patient not in the split file")


def side_files(out: Path) -> tuple[Path, Path]:
    """Where the flow table and the split go: OUT.flow.csv and OUT.splits.csv."""
    return out.with_name(f"{out.name}.flow.csv"), out.with_name(f"{out.name}.splits.csv")


def table_files(built: Built, out: Path) -> dict[str, Path]:
    """Where the tables that go with a cohort are written: for `a.parquet`, `a.NAME.parquet`."""
    return {name: out.with_name(f"{out.name[: -len('.parquet')]}.{name}.parquet") for name in built.tables}


def check_output(out: Path) -> None:
    """Refuse a name that can't be written, before the work is done."""
    if not out.name.lower().endswith(".parquet"):
        raise CohortError("a cohort is written as Parquet", file=out, hint="let the file's name end in .parquet")
    if out.is_dir():
        raise CohortError("there is a folder of this name", file=out, hint="give another name")


def write_built(built: Built, out: Path) -> None:
    """Write the cohort, its flow table and its split; the cohort's file appears last, when all is on disk."""
    check_output(out)
    flow, splits = side_files(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as scratches:
            # Left in reverse: the cohort is entered first, so it takes its name last.
            cohort_file, splits_file, flow_file = (scratches.enter_context(_replacing(p)) for p in (out, splits, flow))
            for name, file in table_files(built, out).items():
                built.tables[name].write_parquet(scratches.enter_context(_replacing(file)))
            built.flow_table.write_csv(flow_file)
            built.splits.write_csv(splits_file)
            write_cohort(built.cohort, cohort_file)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CohortError(f"the cohort can't be written ({reason})", file=out, hint="check the folder") from None


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A path to write to, which takes the real name when all went well."""
    scratch = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield scratch
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
