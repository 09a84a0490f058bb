"""What `palpate synth`, `palpate cohort` and `palpate train` do, for the command line and for Python users.

The synthetic hospital, the cohort builders and the trainers are imported only when they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from palpate.cases.cohort import Cohort
from palpate.config import load_tables, parse_settings
from palpate.data.tables import TableSpec, read_cohort
from palpate.errors import CohortError, ConfigError, first_problem
from palpate.models.options import parse_options

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".7z", ".rar")
_MOST_ARCHIVES = 100
COHORT = "cohort."
"""Before a setting that is meant for the table, where the model has an option of the same name."""

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
    also: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Truth:
    """Write a synthetic hospital; `overrides` are `plant=strength`, `also` are standards."""
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
        folder, n_patients=n_patients, seed=seed, site=site, plants=plants, images=images, progress=progress, also=also
    )


def build_cohort(
    kind: str, source: str | Path, out: Path, *, overrides: Sequence[str] = (), say: Callable[[str], None] | None = None
) -> BuiltCohort:
    """Build a cohort from a hospital's own tables, and write it with its flow table and split.

    `source` is a folder or a file; with the kind `omop` also the address of a database.
    """
    from palpate.data.cohorts import check_output, find_kind, write_built_cohort
    from palpate.data.hospitals.databases import is_address

    found = find_kind(kind)
    options = parse_options(found.options, f"cohort '{kind}'", parse_settings(overrides))
    check_output(out)
    # A path would make one slash of the two in an address, and messages quote paths.
    at_address = is_address(str(source))
    if at_address and kind != "omop":
        raise ConfigError(f"a cohort '{kind}' is not read from an address", hint="give the folder with its files")
    if not at_address:
        _refuse_archive(Path(source))
    built = found.build(source if at_address else Path(source), options=options, name=out.stem, progress=say)
    write_built_cohort(built, out)
    return built


def _refuse_archive(source: Path) -> None:
    """Refuse a zip file or the like, and a folder that holds nothing else."""
    files = [source] if source.is_file() else sorted(source.iterdir())[:_MOST_ARCHIVES] if source.is_dir() else []
    packed = [file for file in files if file.name.lower().endswith(ARCHIVES)]
    if packed and len(packed) == len(files):
        raise CohortError("this is an archive", file=packed[0], hint="unpack it, and give the folder with its files")


def describe_kind(kind: str) -> list[tuple[str, str, str]]:
    """The options of a kind of cohort: name, default, and what it means; none of an unknown kind."""
    from palpate.config.schema import docstrings
    from palpate.data.cohorts import KINDS, find_kind

    if kind not in KINDS:
        return []
    options = find_kind(kind).options
    texts = docstrings(options)
    return [(name, _as_typed(field.default), texts.get(name, "")) for name, field in options.model_fields.items()]


def _as_typed(default: object) -> str:
    """A default as one would type it."""
    if isinstance(default, tuple):
        return ",".join(str(each) for each in default) or "none"
    return "none" if default is None else str(default).lower() if isinstance(default, bool) else str(default)


def read_training_cohort(path: Path, roles: Mapping[str, Any] = MappingProxyType({})) -> Cohort:
    """A cohort from a table, or the first one in an `audit.yaml`, which gives the roles of its columns.

    `roles` are fields of `TableSpec`, on top of what the file says.
    """
    name, spec, folder = path.name.split(".")[0], TableSpec(file=path), Path()
    if path.suffix in (".yaml", ".yml"):
        (name, spec), folder = next(iter(load_tables(path).items())), path.parent
    return read_cohort(_with_roles(spec, roles), name=name, folder=folder)


def _with_roles(spec: TableSpec, roles: Mapping[str, Any]) -> TableSpec:
    listed = {name: value.split(",") if _is_list(name, value) else value for name, value in roles.items()}
    try:
        return TableSpec(**{**spec.model_dump(exclude_unset=True), **listed})
    except ValidationError as error:
        wrong = first_problem(error)
        raise ConfigError(f"--set {wrong.field}: {wrong.problem}") from None


def _is_list(name: str, value: Any) -> bool:
    """`--set labels=a,b` without brackets, which a shell may take for its own."""
    return name in ("labels", "attributes") and isinstance(value, str)


def _for_the_table(settings: Mapping[str, Any], own: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of the model, and of the table: `text=note`, or `cohort.labels=...` where the model has labels too."""
    table, model = {}, {}
    for name, value in settings.items():
        role = name.removeprefix(COHORT)
        if role in TableSpec.model_fields and role != "file" and (name != role or name not in own):
            table[role] = value
        else:
            model[name] = value
    return model, table


def train_model(
    kind: str,
    cohort: Path,
    out: Path,
    *,
    overrides: Sequence[str] = (),
    resume: bool = False,
    progress: Progress | None = None,
) -> Trained | TrainedPretest:
    """Train a reference model on a cohort's file; the kind `pretest` adds pre-test probabilities to the cohort.

    `overrides` are options of the kind, and roles of the table's columns such as `text=note`.
    """
    from palpate.train import check_options, options_of, train
    from palpate.train.pretest import train_pretest
    from palpate.train.pretest.options import PretestOptions

    own = list(PretestOptions.model_fields) if kind == "pretest" else [option.name for option in options_of(kind)]
    options, roles = _for_the_table(parse_settings(overrides), own)
    if kind != "pretest":
        check_options(kind, options)
    cases = read_training_cohort(cohort, roles)
    if kind == "pretest":
        return train_pretest(cases, out, options, resume=resume, progress=progress)
    return train(kind, cases, out, options, resume=resume, progress=progress)
