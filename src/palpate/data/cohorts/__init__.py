"""Cohorts of the papers, built from a hospital's own tables or from published corpora; one module per kind.

Every kind has a class of options and a builder, which are imported when they are asked for: see `find_kind`. A builder
returns a `BuiltCohort`: the cohort, and its flow table, which says who was left out and why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import polars as pl
from pydantic import BaseModel

from palpate.cases.cohort import Cohort
from palpate.data.cohorts.splits import assign_splits, read_splits
from palpate.data.tables import write_cohort
from palpate.data.tables.formats import escaped
from palpate.errors import CohortError, ConfigError
from palpate.files import replacing
from palpate.privacy import hides

KINDS = {
    "readmission": ("ReadmissionOptions", "build_readmission"),
    "outcomes": ("OutcomesOptions", "build_outcomes"),
    "mdace": ("MdaceOptions", "build_mdace"),
    "ade": ("AdeOptions", "build_ade"),
    "cxr": ("CxrCohortOptions", "build_cxr"),
    "meds": ("MedsOptions", "build_meds"),
    "dicom": ("DicomOptions", "build_dicom"),
    "omop": ("OmopOptions", "build_omop"),
    "fhir": ("FhirOptions", "build_fhir"),
}
"""The options and the builder of each kind, in the module of the same name."""


GENDERS = {
    **dict.fromkeys(("f", "female", "woman"), "F"),
    **dict.fromkeys(("m", "male", "man"), "M"),
    **dict.fromkeys(("o", "other"), "other"),
    **dict.fromkeys(("u", "unk", "unknown"), "unknown"),
}
"""Spellings of gender in lower case, and their form in a cohort."""


class FlowStep(NamedTuple):
    """One step of a flow table: what is left after it, how many rows it dropped, and why."""

    name: str
    n_cases: int
    n_patients: int
    n_dropped: int = 0
    reason: str = ""


@hides("tables")
class BuiltCohort(NamedTuple):
    """A cohort and how it was built."""

    cohort: Cohort
    flow: tuple[FlowStep, ...]
    tables: Mapping[str, pl.DataFrame] = {}
    """Further tables of the cohort by name, such as its evidence; written beside it as STEM.NAME.parquet."""
    assumed: tuple[str, ...] = ()
    """What was assumed where the user said nothing, as sentences; they are in the flow too."""

    def assuming(self, *what: str) -> BuiltCohort:
        """The same cohort, with what was assumed to build it."""
        n_cases, n_patients = len(self.cohort), self.cohort.n_patients
        steps = [FlowStep(f"assumed: {each}", n_cases, n_patients) for each in what]
        return self._replace(assumed=(*self.assumed, *what), flow=(*self.flow, *steps))

    @property
    def splits(self) -> pl.DataFrame:
        """The split of each patient, sorted by patient."""
        return self.cohort.cases.select("patient_id", "split").unique().sort("patient_id")

    @property
    def flow_table(self) -> pl.DataFrame:
        """The flow as a table, one row per step."""
        return pl.DataFrame(self.flow, schema=FlowStep._fields, orient="row")


class CohortKind(NamedTuple):
    """One kind of cohort: its options, and `build(source, *, options, name, progress)`."""

    name: str
    options: type[BaseModel]
    build: Callable[..., BuiltCohort]


def find_kind(name: str) -> CohortKind:
    """The kind of cohort with this name."""
    if name not in KINDS:
        raise ConfigError(f"unknown kind of cohort '{name}'", hint=f"choose one of {', '.join(KINDS)}")
    module = import_module(f"palpate.data.cohorts.{name}")
    options, build = (getattr(module, part) for part in KINDS[name])
    return CohortKind(name, options, build)


def flow_steps(rows: pl.DataFrame, steps: Mapping[str, tuple[str, str]]) -> list[FlowStep]:
    """The steps of a flow, in the given order.

    `rows` has `subject_id` and `dropped`: the key of the step that drops the row, or null. `steps` has the name and the
    reason for each key. Steps that drop nothing are kept, with 0, so that flow tables can be compared.
    """
    flow, left = [], rows
    for key, (name, reason) in steps.items():
        kept = left.filter(pl.col("dropped").is_null() | (pl.col("dropped") != key))
        n_patients = kept["subject_id"].drop_nulls().n_unique()
        flow.append(FlowStep(name, kept.height, n_patients, left.height - kept.height, reason))
        left = kept
    return flow


def refuse_empty(flow: Sequence[FlowStep], folder: str | Path) -> None:
    """Raise an error if the cohort is empty; it names the step that dropped the last rows."""
    if flow[-1].n_cases:
        return
    last = next(step for step in flow if step.n_cases == 0)
    dropped = f"{last.n_dropped:,} row{'' if last.n_dropped == 1 else 's'}"
    why = f"it dropped the last {dropped}: {last.reason}" if last.reason else "no rows"
    hint = "change the option, or check the tables" if "`" in last.reason else "check the tables"
    raise CohortError(f"no cases are left after the step '{last.name}' ({why})", file=folder, hint=hint)


def split_cases(
    frame: pl.DataFrame, positive: pl.Series, *, ratios: Sequence[float], seed: int, file: Path | None
) -> tuple[pl.DataFrame, FlowStep]:
    """Add `split`: drawn by patient, or read from a file; patients who are not in the file are left out."""
    if file is None:
        split = assign_splits(frame["patient_id"], positive, ratios=ratios, seed=seed)
        whole = frame.with_columns(split)
        shares = "/".join(f"{ratio:g}" for ratio in ratios)
        step = FlowStep(f"split {shares} by patient, seed {seed}", whole.height, whole["patient_id"].n_unique())
        return whole, step
    saved = read_splits(file)
    kept = frame.join(saved, on="patient_id", how="inner", maintain_order="left")
    if not kept.height:
        raise CohortError("the split file has none of the cohort's patients", file=file, hint="check its ids")
    n_patients, n_dropped = kept["patient_id"].n_unique(), frame.height - kept.height
    return kept, FlowStep(
        f"split from {file.name}", kept.height, n_patients, n_dropped, "patient not in the split file"
    )


def normal_gender(column: str = "gender") -> pl.Expr:
    """Genders in one form, whatever the layout, so that groups of two hospitals can be compared.

    MIMIC and DICOM have letters, FHIR and OMOP words, MEDS either; what is not in `GENDERS` stays as it is.
    """
    said = pl.col(column).cast(pl.String).str.strip_chars()
    known = said.str.to_lowercase().replace_strict(GENDERS, default=None, return_dtype=pl.String)
    return pl.coalesce(known, said).alias(column)


def side_files(out: Path) -> tuple[Path, Path]:
    """The paths of the flow table and the split: OUT.flow.csv and OUT.splits.csv."""
    return out.with_name(f"{out.name}.flow.csv"), out.with_name(f"{out.name}.splits.csv")


def table_files(built: BuiltCohort, out: Path) -> dict[str, Path]:
    """The paths of a cohort's further tables: for `a.parquet`, `a.NAME.parquet`."""
    return {name: out.with_name(f"{out.name[: -len('.parquet')]}.{name}.parquet") for name in built.tables}


def check_output(out: Path) -> None:
    """Refuse a path that a cohort can't be written to, before any work is done."""
    if not out.name.lower().endswith(".parquet"):
        raise CohortError("a cohort is written as Parquet", file=out, hint="give a file name that ends in .parquet")
    if out.is_dir():
        raise CohortError("this is a folder", file=out, hint="give the name of a file")


def write_built_cohort(built: BuiltCohort, out: Path) -> None:
    """Write the cohort, its flow table and its split; the cohort's own file appears last, when all others are there."""
    check_output(out)
    flow, splits = side_files(out)
    try:
        with ExitStack() as scratches:
            # Contexts exit in reverse order: the cohort is entered first, so it gets its name last.
            cohort_file, splits_file, flow_file = (scratches.enter_context(replacing(p)) for p in (out, splits, flow))
            for name, file in table_files(built, out).items():
                built.tables[name].write_parquet(scratches.enter_context(replacing(file)))
            escaped(built.flow_table).write_csv(flow_file)
            escaped(built.splits).write_csv(splits_file)
            write_cohort(built.cohort, cohort_file)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CohortError(f"the cohort can't be written ({reason})", file=out, hint="check the folder") from None
