"""The audits of `audit.yaml`: found by name, with their options checked and the files that these name read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter, ValidationError

from palpate import registry
from palpate.data.tables import read_pretest_card
from palpate.errors import ConfigError, InputError, closest, first_problem
from palpate.results import ChecksOptions

OWN = "python:"
"""Before the module and class of an audit that no package registers."""
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
            if "not a list" in field.metadata and isinstance(options[field.name], list):
                problem = f"audit '{audit}', option '{field.name}' is a table: give its file"
                raise ConfigError(problem, hint=field.metadata["not a list"], at=(field.name,))
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
    if "not a list" in field.metadata and isinstance(value, list):
        problem = f"option '{field.name}' is a table: give its file"
        raise ConfigError(problem, hint=field.metadata["not a list"], at=(field.name,))
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


def find_audit(name: str, folder: Path) -> Any:
    """The class of an audit: a registered one, or the user's own, `python:module:Class`, found from `folder`."""
    if not name.startswith(OWN):
        return registry.find("audits", name)
    from palpate.models.adapters.python import load_class

    kind = load_class(name.removeprefix(OWN), folder, what="an audit")
    missing = [part for part in ("plan", "analyse") if not callable(getattr(kind, part, None))]
    if "plan" in missing and callable(getattr(kind, "plan_with", None)):
        missing.remove("plan")
    hint = "docs/extend.md shows one"
    if missing or not dataclasses.is_dataclass(kind):
        lacks = f"has no `{missing[0]}`" if missing else "is not a dataclass"
        raise ConfigError(f"'{name}' is not an audit: it {lacks}", hint=hint)
    own = getattr(kind, "name", None)
    if not isinstance(own, str) or not own.isidentifier():
        problem = f"audit '{name}' needs a name of one word, which its results are called by"
        raise ConfigError(problem, hint='write `name: ClassVar[str] = "..."` in the class')
    if own in registry.names("audits"):
        raise ConfigError(f"audit '{name}' has the name of palpate's own audit '{own}'", hint="choose another name")
    return kind


def audit_name(name: str, folder: Path) -> str:
    """What the results of an entry of `audits:` are called."""
    return str(find_audit(name, folder).name) if name.startswith(OWN) else name


def _given(path: tuple[str | int, ...], options: Mapping[str, Any]) -> tuple[str | int, ...]:
    """The places of a path that are the user's own keys and positions; the others are names of types."""
    kept: list[str | int] = []
    inside: Any = options
    for part in path:
        own = isinstance(inside, Mapping) and part in inside
        if own or isinstance(part, int):
            kept.append(part)
            inside = inside[part] if own else None
    return tuple(kept)


def make_audit(
    name: str,
    options: dict[str, Any],
    *,
    folder: Path = Path(),
    include_text: bool = False,
    margins: Mapping[str, float] = MappingProxyType({}),
) -> Any:
    """The audit of a name (or of `python:module:Class`), with its options checked; files are found from `folder`.

    Whether note text may be shown, and how large an effect must be to matter, is said once, for the whole run.
    """
    kind = find_audit(name, folder)
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
        of_name = error.errors()[0]["loc"][-1:] == ("[key]",)  # what is wrong is the name itself
        path = _given(wrong.path[:-1] if of_name else wrong.path, options)
        which = f", option '{'.'.join(map(str, path))}'" if path else ""
        raise ConfigError(f"audit '{name}'{which}: {wrong.problem}", at=path) from None
    audit = _read_last(audit, folder)
    if isinstance(audit, ChecksOptions):
        audit.check_options()
    return audit
