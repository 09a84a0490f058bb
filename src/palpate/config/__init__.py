"""`audit.yaml`: what to audit, on whom, and what must hold. Checked whole before any work."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from palpate import registry
from palpate.config.audits import OWN, audit_name, make_audit
from palpate.data.tables import TableSpec
from palpate.delimited import has_surrogate
from palpate.errors import ConfigError, closest, first_problem
from palpate.files import YamlNode, parse_value, read_yaml
from palpate.models import ModelSpec, check_model
from palpate.results.verdicts import MARGINS
from palpate.run.execute.cluster import MOST_WORKERS, RayOptions

__all__ = ["DATA", "Config", "ModelConfig", "audit_name", "load_config", "load_tables", "make_audit", "parse_settings"]

DATA = "data"
"""The audit of the data, which every run begins with unless it is set to `false`."""
_NAME = re.compile(r"[^\W_][\w.+ -]*")


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name) or len(name) > 80:
        raise ValueError("a name has at most 80 letters, digits, spaces and . + - _, and starts with a letter or digit")
    return name


def _whole_text(text: str) -> str:
    """A text that can be written: Python has halves of characters (surrogates) that no file can hold."""
    if has_surrogate(text):
        raise ValueError("has half of a character, which can't be written")
    return text


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

    title: Annotated[str, AfterValidator(_whole_text)] | None = None
    """The title of the report."""
    cohort: Annotated[TableSpec | None, BeforeValidator(_file_only)] = None
    """The table of cases: a file whose columns have palpate's names, or a file and the roles of its columns."""
    cohorts: dict[Name, Annotated[TableSpec, BeforeValidator(_file_only)]] = Field(default_factory=dict)
    """Several tables by name in place of `cohort`; the first one is the main one."""
    models: dict[Name, Annotated[ModelConfig, BeforeValidator(_source_only)]] = Field(min_length=1)
    """The models by name: `scheme:target`, a list of several seeds, or a mapping with `source` and options."""
    audits: dict[str, dict[str, Any]] = Field(min_length=1)
    """The audits with their options; `python:module:Class` is one of your own."""
    margins: dict[Annotated[str, AfterValidator(_margin)], Annotated[float, Field(gt=0, lt=1)]] = Field(
        default_factory=dict
    )
    """The smallest effects that matter, in place of the defaults."""
    gate: tuple[str, ...] = ()
    """Conditions such as `no concern`; where one fails, `palpate audit` exits with 1."""
    seed: int = Field(default=0, ge=0)
    """The same seed gives the same bytes."""
    executor: Literal["local", "ray"] = "local"
    """Where models run: on this machine, or on a Ray cluster."""
    ray: RayOptions = Field(default_factory=RayOptions)
    """The Ray cluster: its address, and what each worker needs."""
    workers: int = Field(default=1, ge=1, le=MOST_WORKERS)
    """Processes that score."""
    cache: Path | None = None
    """The file of the cache of scores; default: in the user's cache folder."""
    include_text: bool = False
    """Whether reports and results may hold text of notes."""
    _written: YamlNode | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _chosen_audits(cls, value: Any) -> Any:
        """`performance:` with nothing behind it is `performance: {}`; `false` leaves it out; `data` is always first."""
        if isinstance(value, dict) and "models" in value and value["models"] is None:
            raise ValueError("`models:` names none; write one below it, such as `lr: sklearn:models/lr.skops`")
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
                    options=self._with_tables(source, entry.options),
                    isolate=entry.isolate,
                )
                for k, source in enumerate((entry.source,) if isinstance(entry.source, str) else entry.source, start=1)
            ]
            for name, entry in self.models.items()
        }

    def _with_tables(self, source: str, options: dict[str, Any]) -> dict[str, Any]:
        """A table of predictions may name its cases as the cohort's table does; a model of columns reads that table."""
        if source.startswith("python:") and options.get("reads") == "columns" and "tables" not in options:
            kept = ("file", "case", "text", "encoding", "delimiter")
            tables = {
                spec.name or name: {key: getattr(spec, key) for key in kept} for name, spec in self.tables().items()
            }
            return {**options, "tables": tables}
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


def load_tables(path: Path) -> dict[str, TableSpec]:
    """The cohorts that a configuration names, which may lack everything else: training needs no models."""
    file = read_yaml(path, needs="`cohort:`")
    raw = {"models": {"none": "none:none"}, "audits": {"performance": None}, **file.plain()}
    try:
        return Config.model_validate(raw).tables()
    except ValidationError as error:
        raise _explain(error, file) from None


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
    """A value of the command line, as YAML reads it; `*summary` is a pattern there, and can't be a reference."""
    try:
        return text.strip() if text.lstrip().startswith("*") else parse_value(text)
    except ValueError:
        shown = override if len(override) <= 80 else f"{override[:80]}…"
        hint = "put a text with : { [ # in quotes"
        raise ConfigError(f"--set {shown}: the value is not valid YAML", hint=hint) from None


def _apply(raw: dict[str, Any], override: str) -> None:
    """`performance.threshold=0.3`, on top of the file."""
    name, equals, value = override.partition("=")
    # A module may be inside a package: python:package.module:Audit.option
    audit, dot, option = name.rpartition(".") if name.startswith(OWN) else name.partition(".")
    if not equals or not dot:
        raise ConfigError(f"--set {override}: expected AUDIT.OPTION=VALUE")
    audits = raw["audits"] = {} if raw.get("audits") is None else raw["audits"]
    if not isinstance(audits, dict):
        raise ConfigError(f"--set {override}: `audits:` of the configuration must be a mapping of `key: value` lines")
    if audit not in (*audits, DATA):
        raise ConfigError(f"--set {override}: the configuration does not have audit '{audit}'")
    given = audits.get(audit)
    if given is not None and not isinstance(given, dict | bool):
        raise ConfigError(f"--set {override}: audit '{audit}' of the configuration has no options, but a value")
    audits[audit] = {**(given if isinstance(given, dict) else {}), option: _value(override, value)}


def _explain(error: ValidationError, file: YamlNode) -> ConfigError:
    """The first thing that is wrong, with its line in the file."""
    wrong = first_problem(error)
    hint = None
    if wrong.unknown:
        known = TableSpec if "cohort" in str(wrong.path[0]) else RayOptions if wrong.path[0] == "ray" else Config
        hint = closest(str(wrong.path[-1]), known.model_fields, all_are="there are")
    line = file.line_of(wrong.path)
    where = f"line {line}: " if line else ""
    name = f"`{wrong.field}`: " if wrong.path else ""
    return ConfigError(f"{where}{name}{wrong.problem}", file=file.file, hint=hint)
