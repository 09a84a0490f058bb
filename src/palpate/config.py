"""`audit.yaml`: what to audit, on whom, and what must hold. Checked whole before any work."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from palpate import registry
from palpate.data.tables import TableSpec, read_pretest_card
from palpate.errors import ConfigError, InputError, closest, first_problem
from palpate.files import YamlNode, read_yaml
from palpate.models import ModelSpec, check_model
from palpate.results import ChecksOptions
from palpate.results.verdicts import MARGINS

DATA = "data"
"""The audit of the data, which every run begins with unless it is set to `false`."""
_NAME = re.compile(r"[^\W_][\w.+ -]*")


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name) or len(name) > 80:
        raise ValueError("a name has at most 80 letters, digits, spaces and . + - _, and starts with a letter or digit")
    return name


Name = Annotated[str, AfterValidator(_check_name)]


def _source_only(value: Any) -> Any:
    """`bert: hf:models/bert` is short for `bert: {source: hf:models/bert}`; a list is an ensemble of several seeds."""
    if isinstance(value, dict) and "source" not in value:
        scheme = next((key for key in value if key in registry.names("models")), None)
        if scheme is not None:
            raise ValueError(f"`source` is missing; write `source: {scheme}:{value[scheme]}`")
    return {"source": value} if isinstance(value, str | list) else value


def _file_only(value: Any) -> Any:
    return {"file": value} if isinstance(value, str | Path) else value


class ModelConfig(BaseModel):
    """One model: where it is, and options for its adapter. Several sources are seeds of one model (an ensemble)."""

    model_config = ConfigDict(extra="allow", frozen=True)

    source: str | Annotated[tuple[str, ...], Field(min_length=1)]
    call_timeout: float | None = Field(default=None, gt=0)
    """Seconds that one call to the model may take."""
    isolate: bool | None = None
    """Run the model in a process of its own, which may crash or exit without harm; default: only `python:` models."""

    @property
    def options(self) -> dict[str, Any]:
        """What goes to the adapter."""
        return dict(self.model_extra or {})


def _margin(name: str) -> str:
    if name not in MARGINS:
        raise ValueError(f"unknown margin '{name}'; {closest(name, MARGINS, all_are='the margins are')}")
    return name


class Config(BaseModel):
    """The whole of `audit.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str | None = None
    cohort: Annotated[TableSpec | None, BeforeValidator(_file_only)] = None
    cohorts: dict[Name, Annotated[TableSpec, BeforeValidator(_file_only)]] = Field(default_factory=dict)
    models: dict[Name, Annotated[ModelConfig, BeforeValidator(_source_only)]] = Field(min_length=1)
    audits: dict[str, dict[str, Any]] = Field(min_length=1)
    margins: dict[Annotated[str, AfterValidator(_margin)], Annotated[float, Field(gt=0, lt=1)]] = Field(
        default_factory=dict
    )
    """The smallest effects that matter, in place of the defaults."""
    gate: tuple[str, ...] = ()
    seed: int = Field(default=0, ge=0)
    executor: Literal["local", "ray"] = "local"
    workers: int = Field(default=1, ge=1)
    cache: Path | None = None
    include_text: bool = False
    _written: YamlNode | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _chosen_audits(cls, value: Any) -> Any:
        """`performance:` with nothing behind it is `performance: {}`; `false` leaves it out; `data` is always first."""
        if isinstance(value, dict) and isinstance(value.get("audits"), dict) and value["audits"]:
            given = {DATA: None, **value["audits"]}
            chosen = {name: {} if options is None or options is True else options for name, options in given.items()}
            others = [name for name in chosen if chosen[name] is not False]
            value = {**value, "audits": {name: chosen[name] for name in others}}
        return value

    @model_validator(mode="after")
    def _names(self) -> Config:
        if (self.cohort is None) == (not self.cohorts):
            raise ValueError("give either `cohort:` (one) or `cohorts:` (a name for each)")
        if "clinicians" in self.models:
            raise ValueError("a model cannot be called 'clinicians': results use that name for the raters")
        both = set(self.cohorts) & set(self.models)
        if both:
            raise ValueError(f"'{both.pop()}' names a cohort and a model; give one of them another name")
        return self

    def tables(self) -> dict[str, TableSpec]:
        """The cohorts by name; a single one is called after its file."""
        if self.cohort is None:
            return dict(self.cohorts)
        return {self.cohort.file.name.split(".")[0]: self.cohort}

    def model_specs(self, folder: Path) -> dict[str, list[ModelSpec]]:
        """The models by name: one spec, or one for each seed."""
        return {
            name: [
                ModelSpec(
                    name=name if isinstance(entry.source, str) else f"{name}[{k}]",
                    source=source,
                    folder=str(folder),
                    options=self._with_case_column(source, entry.options),
                    isolate=entry.isolate,
                )
                for k, source in enumerate((entry.source,) if isinstance(entry.source, str) else entry.source, start=1)
            ]
            for name, entry in self.models.items()
        }

    def _with_case_column(self, source: str, options: dict[str, Any]) -> dict[str, Any]:
        """A table of predictions may name its cases as the cohort's table does."""
        own = [spec.case for spec in self.tables().values() if spec.case is not None]
        if not own or not source.startswith("predictions:") or "case" in options:
            return options
        return {**options, "case": tuple(dict.fromkeys(["case_id", *own]))}

    def check_models(self, folder: Path, *, leaving_out: Sequence[str] = ()) -> None:
        """Refuse a model whose source or options are wrong, before anything is read; some schemes may be left out."""
        for name, specs in self.model_specs(folder).items():
            for spec in specs:
                with self.locating("models", name):
                    if spec.source.partition(":")[0] not in leaving_out:
                        check_model(spec)

    @contextmanager
    def locating(self, *path: str | int) -> Iterator[None]:
        """Errors inside that name no file get the line of the file that they are about."""
        try:
            yield
        except ConfigError as error:
            if self._written is None or error.file is not None:
                raise
            line = self._written.line_of((*path, *error.at))
            where = f"line {line}: " if line else ""
            raise ConfigError(f"{where}{error.problem}", file=self._written.file, hint=error.hint) from error


def load_config(path: Path, *, overrides: tuple[str, ...] = ()) -> Config:
    """Read and check a configuration; `overrides` are `audit.field=value`, as given on the command line."""
    file = read_yaml(path, needs="`cohort:`, `models:` and `audits:`")
    raw: dict[str, Any] = file.plain()
    for override in overrides:
        _apply(raw, override)
    try:
        config = Config.model_validate(raw)
    except ValidationError as error:
        raise _explain(error, file) from None
    config._written = file
    return config


def parse_settings(overrides: Sequence[str]) -> dict[str, Any]:
    """`name=value` from the command line, with values as in YAML."""
    settings = {}
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals:
            raise ConfigError(f"--set {override}: expected OPTION=VALUE")
        settings[name.strip()] = _value(override, value)
    return settings


def _value(override: str, text: str) -> Any:
    """A value of the command line, as YAML reads it."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigError(f"--set {override}: the value is not valid YAML") from None


def _apply(raw: dict[str, Any], override: str) -> None:
    """`performance.threshold=0.3`, on top of the file."""
    name, equals, value = override.partition("=")
    audit, dot, option = name.partition(".")
    if not equals or not dot:
        raise ConfigError(f"--set {override}: expected AUDIT.OPTION=VALUE")
    audits = raw.setdefault("audits", {})
    if audit not in (*audits, DATA):
        raise ConfigError(f"--set {override}: the configuration does not have audit '{audit}'")
    given = audits.get(audit)
    audits[audit] = {**(given if isinstance(given, dict) else {}), option: _value(override, value)}


def _explain(error: ValidationError, file: YamlNode) -> ConfigError:
    """The first thing that is wrong, with its line in the file."""
    wrong = first_problem(error)
    hint = None
    if wrong.unknown:
        known = TableSpec if "cohort" in str(wrong.path[0]) else Config
        hint = closest(str(wrong.path[-1]), known.model_fields, all_are="there are")
    line = file.line_of(wrong.path)
    where = f"line {line}: " if line else ""
    name = f"`{wrong.field}`: " if wrong.path else ""
    return ConfigError(f"{where}{name}{wrong.problem}", file=file.file, hint=hint)


_VALUES = (".yaml", ".yml", ".txt", ".csv")


def _reader(kind: str) -> Callable[..., Any]:
    """What turns a file into the value of an audit's field."""
    from palpate.data import lexicons, suites
    from palpate.data.annotations import evidence_tables
    from palpate.data.annotations.reviews import read_review
    from palpate.data.lexicons.phrases import read_phrases
    from palpate.perturb.characteristics import load_definition
    from palpate.perturb.robustness.own import load_perturbation
    from palpate.perturb.suites.lexicons import slot_values

    readers: dict[str, Callable[..., Any]] = {
        "words": lexicons.read_words,
        "ratings": lexicons.read_ratings,
        "replacements": lexicons.read_replacements,
        "phrases": read_phrases,
        "review": read_review,
        "definition": load_definition,
        "perturbation": load_perturbation,
        "evidence": evidence_tables.read_evidence,
        "notes": evidence_tables.read_note_places,
        "lexicon": slot_values,
        "suite": suites.read_suite_file,
        "pretest card": read_pretest_card,
    }
    return readers[kind]


@contextmanager
def _opening(audit: str, option: str) -> Iterator[None]:
    """A file that does not exist is an error of the option that names it."""
    try:
        yield
    except InputError as error:
        if error.file is None or Path(error.file).exists():
            raise
        problem = f"audit '{audit}', option '{option}': {error.file}: {error.problem}"
        raise ConfigError(problem, hint=error.hint, at=(option,)) from error


def _from_code(field: dataclasses.Field[Any], place: int, item: Any, folder: Path) -> Any:
    """An item of a list of files that names a function of the user's instead: `{python: "module:function"}`."""
    if field.metadata["files"] != "perturbation" or not isinstance(item, dict):
        return item
    at = (field.name, place)
    known = ("python", "name", "expects", "tolerance", "about")
    wrong = next((key for key in item if key not in known), None)
    if wrong is not None or not isinstance(item.get("python"), str):
        problem = "`python` is missing" if wrong is None else f"unknown key `{wrong}`"
        raise ConfigError(f"option '{field.name}': {problem}", hint=f"the keys are: {', '.join(known)}", at=at)
    from palpate.models.adapters.python import load_function
    from palpate.perturb.robustness.own import from_function

    function, version = load_function(item["python"], folder, of="a note's text")
    more = {key: value for key, value in item.items() if key != "python"}
    try:
        return from_function(function, source=f"{item['python']} {version}", **more)
    except ConfigError as error:
        raise ConfigError(error.problem, hint=error.hint, at=at) from None
    except TypeError:
        raise ConfigError(f"option '{field.name}': a value is of the wrong kind", at=at) from None


def _read_files(audit: str, kind: Any, options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The options with the content of files instead of their names.

    An audit itself reads no file of the user's: a field with `metadata={"file": KIND}` may be given as a file's name
    (or as a list of names, where the field is a list), and with `"folder": True` as a folder's. With
    `metadata={"source": KIND}` any name is that of a file or folder; where the field is a mapping, each of its values
    is. A file whose meaning depends on other options (`"read with"`) waits until these are checked: `_read_last`.
    """
    read = dict(options)
    for field in dataclasses.fields(kind):
        if "read with" not in field.metadata and field.name in options:
            with _opening(audit, field.name):
                read[field.name] = _read_option(field, options[field.name], folder)
    return read


def _read_option(field: dataclasses.Field[Any], value: Any, folder: Path) -> Any:
    """The content of the files that an option names, or the option as it is."""
    if "file" in field.metadata and isinstance(value, str) and ("folder" in field.metadata or Path(value).suffix):
        return _reader(field.metadata["file"])(folder / value)
    if "files" in field.metadata and isinstance(value, str | list):
        names = [value] if isinstance(value, str) else value
        reader = _reader(field.metadata["files"])
        return tuple(
            reader(folder / item) if isinstance(item, str) else _from_code(field, k, item, folder)
            for k, item in enumerate(names)
        )
    if "values" in field.metadata and isinstance(value, dict):
        reader = _reader(field.metadata["values"])
        return {
            key: reader(folder / item) if isinstance(item, str) and Path(item).suffix in _VALUES else item
            for key, item in value.items()
        }
    if "source" in field.metadata and isinstance(value, str | dict):
        source = _reader(field.metadata["source"])
        if isinstance(value, str):
            return source(folder / value)
        return {key: source(folder / item) if isinstance(item, str) else item for key, item in value.items()}
    return value


def _read_last(audit: Any, folder: Path) -> Any:
    """The audit with the content of files in the place of their names, for files that other options help to read."""
    read = {}
    for field in dataclasses.fields(audit):
        value = getattr(audit, field.name)
        if "read with" in field.metadata and isinstance(value, str) and Path(value).suffix:
            given = {name: getattr(audit, name) for name in field.metadata["read with"]}
            with _opening(audit.name, field.name):
                read[field.name] = _reader(field.metadata["file"])(folder / value, **given)
    return dataclasses.replace(audit, **read) if read else audit


def make_audit(
    name: str,
    options: dict[str, Any],
    *,
    folder: Path = Path(),
    include_text: bool = False,
    margins: Mapping[str, float] = MappingProxyType({}),
) -> Any:
    """The audit that is registered under a name, with its options checked; files are found from `folder`.

    Whether note text may be shown, and how large an effect must be to matter, is said once, for the whole run.
    """
    kind = registry.find("audits", name)
    known = [field.name for field in dataclasses.fields(kind)]
    for option, value in {"include_text": include_text, "margins": dict(margins)}.items():
        if option in options:
            problem = f"audit '{name}': `{option}` is set for the whole run"
            raise ConfigError(problem, hint="move it to the top level", at=(option,))
        options = {**options, option: value} if option in known else options
    unknown = [option for option in options if option not in known]
    if unknown:
        hint = closest(unknown[0], [field for field in known if field not in ("include_text", "margins")])
        problem = f"audit '{name}', option '{unknown[0]}': unknown option"
        raise ConfigError(problem, hint=hint, at=(unknown[0],))
    try:
        audit = TypeAdapter(kind).validate_python(_read_files(name, kind, options, folder))
    except ValidationError as error:
        wrong = first_problem(error)
        path = tuple(part for part in wrong.path if isinstance(part, int) or part in options)
        which = f", option '{'.'.join(map(str, path))}'" if path else ""
        raise ConfigError(f"audit '{name}'{which}: {wrong.problem}", at=path) from None
    audit = _read_last(audit, folder)
    if isinstance(audit, ChecksOptions):
        audit.check_options()
    return audit
