"""What `palpate synth`, `palpate cohort` and `palpate train` do, for the command line and for Python users.

The synthetic hospital, the cohort builders and the trainers are imported only when they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from palpate.cases.cohort import Cohort
from palpate.config import load_config, parse_settings
from palpate.data.tables import TableSpec, read_cohort
from palpate.errors import ConfigError, first_problem
from palpate.models.options import parse_options

if TYPE_CHECKING:
    from palpate.data.cohorts import BuiltCohort
    from palpate.synthetic.plants import Site, Truth
    from palpate.train import Progress, Trained
    from palpate.train.pretest import TrainedPretest


def make_hospital(
    folder: Path,
    *,
    n_patients: int,
    seed: int,
    site: Site,
    images: bool,
    overrides: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Truth:
    """Write a synthetic hospital; `overrides` are `plant=strength`."""
    from palpate.synthetic import write_hospital
    from palpate.synthetic.plants import Plants

    strengths = parse_settings(overrides)
    known = [field.name for field in fields(Plants)]
    unknown = [name for name in strengths if name not in known]
    if unknown:
        raise ConfigError(f"unknown plant '{unknown[0]}'", hint=f"choose one of {', '.join(known)}")
    try:
        plants = TypeAdapter(Plants).validate_python(strengths)
    except ValidationError as error:
        wrong = first_problem(error)
        raise ConfigError(f"--set {wrong.field}: {wrong.problem}", hint="a strength is a number") from None
    return write_hospital(
        folder, n_patients=n_patients, seed=seed, site=site, plants=plants, images=images, progress=progress
    )


def build_cohort(
    kind: str, source: Path, out: Path, *, overrides: Sequence[str] = (), say: Callable[[str], None] | None = None
) -> BuiltCohort:
    """Build a cohort from a hospital's own tables, and write it with its flow table and split."""
    from palpate.data.cohorts import check_output, find_kind, write_built_cohort

    found = find_kind(kind)
    options = parse_options(found.options, f"cohort '{kind}'", parse_settings(overrides))
    check_output(out)
    built = found.build(source, options=options, name=out.stem, progress=say)
    write_built_cohort(built, out)
    return built


def read_training_cohort(path: Path) -> Cohort:
    """A cohort from a table, or the first one in an `audit.yaml`, which gives the roles of its columns."""
    if path.suffix not in (".yaml", ".yml"):
        return read_cohort(TableSpec(file=path), name=path.name.split(".")[0])
    name, spec = next(iter(load_config(path).tables().items()))
    return read_cohort(spec, name=name, folder=path.parent)


def train_model(
    kind: str,
    cohort: Path,
    out: Path,
    *,
    overrides: Sequence[str] = (),
    resume: bool = False,
    progress: Progress | None = None,
) -> Trained | TrainedPretest:
    """Train a reference model on a cohort's file; the kind `pretest` adds pre-test probabilities to the cohort."""
    from palpate.train import check_options, train
    from palpate.train.pretest import train_pretest

    options = parse_settings(overrides)
    if kind != "pretest":
        check_options(kind, options)
    cases = read_training_cohort(cohort)
    if kind == "pretest":
        return train_pretest(cases, out, options, resume=resume, progress=progress)
    return train(kind, cases, out, options, resume=resume, progress=progress)
