"""`python:package.module:function`: any function of a list of texts, or a class with `predict` (`python:module:Class`).

What a class may have is in `palpate.models.written`. A `model.py` beside `audit.yaml` is found, unless an installed
module has its name (`local_code`). The fingerprint covers the local modules that are imported and the local files that
are read (`palpate.models.reads`) while the module is loaded and the function scores one short text, because weights are
often read on the first call. Where that does not tell all that the predictions depend on, the option `fingerprint`
names the version of the model; without it, scores are not reused by another run. `isolate: false` runs the function in
palpate's own process.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from pydantic import Field

from palpate.errors import ConfigError, closest, kind_and_line
from palpate.models import isolation
from palpate.models.adapters.local_code import serving, stay_on_path
from palpate.models.classes import ClassOptions
from palpate.models.options import checked_by, digest, parse_options
from palpate.models.reads import Reads
from palpate.models.tables import TableFile, TableRows
from palpate.models.written import WrittenColumnsModel, WrittenModel, names_in, written

VERSION = "python-3"
_PROBE = ["patient"]
_from_configs: dict[str, dict[Path, tuple[int, int]]] = {}
"""Top-level modules that came from a configuration's folder: what was read for them, as it was when imported."""


class PythonOptions(ClassOptions):
    """Options of a function or a class."""

    arguments: dict[str, Any] = Field(default_factory=dict)
    """What a class is made with: `Risk(**arguments)`; the name of a file beside audit.yaml is given with its path."""
    reads: Literal["text", "columns"] = "text"
    """What it is given: a list of texts, or a frame with rows of the cohort's table."""
    columns: tuple[str, ...] | None = None
    """With `reads: columns`, the columns that it is given; default: all of them."""
    frame: Literal["polars", "pandas"] | None = None
    """With `reads: columns`, the library of the frame; default: pandas if its module imports pandas, else polars."""
    tables: dict[str, TableFile] = Field(default_factory=dict)
    """With `reads: columns`, the tables by cohort; default: those of `cohort:` or `cohorts:`."""


def check(target: str, options: Mapping[str, Any], *, folder: Path) -> PythonOptions:  # noqa: ARG001  (as every check)
    """The options, if they and the form of the target are right."""
    source = f"python:{target}"
    name, colon, attribute = target.partition(":")
    if not colon or not name or not attribute:
        raise ConfigError(f"'{source}' is not of the form python:package.module:function")
    own = parse_options(PythonOptions, source, options)
    if own.reads == "columns" and not own.tables:
        raise ConfigError(f"option 'tables' of {source}: a model that reads columns needs the table of its cases")
    return own


@checked_by(check)
def load(target: str, options: Mapping[str, Any], *, folder: Path) -> WrittenModel:
    """Import the module and find the function, or make an object of the class."""
    own = check(target, options, folder=folder)
    name, _, attribute = target.partition(":")
    reads, table = Reads(folder), None
    with reads, serving(reads.folder):
        module = _import(name, reads)
        reads.own_package(module)
        found = _attribute(module, name, attribute)
        arguments = {key: _found_beside(value, folder) for key, value in own.arguments.items()}
        made = written(found, own, arguments, name=attribute, file=_file_of(module))
        if own.reads == "columns":
            library = own.frame or ("pandas" if _imports_pandas(module) else "polars")
            table = TableRows(own.tables, own.columns, library, folder=folder)
        with suppress(Exception):  # what is wrong is said when the function is asked in earnest, with the case
            answer = made.predict(list(_PROBE) if table is None else table.first())
            made = made if made.labels else made._replace(labels=names_in(answer))
    fingerprint = digest(VERSION, _answer_options(target, own), _files(module, name, reads, table))
    how: dict[str, Any] = {"source": f"python:{target}", "fingerprint": fingerprint, "reads": reads}
    return WrittenModel(made, own, **how) if table is None else WrittenColumnsModel(made, own, table=table, **how)


def _answer_options(target: str, own: PythonOptions) -> dict[str, Any]:
    """What changes the answers, besides the code."""
    chosen: dict[str, Any] = {"function": target, "labels": own.labels, "fingerprint": own.fingerprint}
    more: dict[str, Any] = {"arguments": own.arguments, "positive": own.positive}
    if own.reads == "columns":
        more |= {"columns": own.columns, "frame": own.frame}
    return chosen | {key: value for key, value in more.items() if value}


def _files(module: ModuleType, name: str, reads: Reads, table: TableRows | None) -> set[Path]:
    """The files that the predictions depend on; also noted for when the module is imported again."""
    source = getattr(module, "__file__", None)
    reads.blind = reads.blind or (None if source else "its code is in no file")
    reads.look_for_libraries()
    top = name.partition(".")[0]
    files = reads.files() | set(_from_configs.get(top, ())) | ({Path(source)} if source else set())
    if top in _from_configs:
        _from_configs[top] = {file: _stamp(file) for file in files}
    return files | set(table.files if table is not None else ())


def _found_beside(value: Any, folder: Path) -> Any:
    """An argument that names a file beside audit.yaml, with its path."""
    if isinstance(value, str) and value and (folder / value).is_file():
        return str((folder / value).resolve())
    return value


def _attribute(module: ModuleType, name: str, attribute: str) -> Any:
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    usable = callable(found) or hasattr(found, "predict") or hasattr(found, "predict_proba")
    return found if usable else _function(module, name, attribute)  # which says what is wrong


def _file_of(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file) if file else None


def _imports_pandas(module: ModuleType) -> bool:
    return any(getattr(value, "__name__", None) == "pandas" for value in vars(module).values())


def load_function(target: str, folder: Path, *, of: str) -> tuple[Callable[..., Any], str]:
    """A function of the user's that is no model, `module:function`, and a digest of the files that it comes from.

    `of` says what it is a function of, for whoever names something else.
    """
    module, name, attribute, files = _load(target, folder, form="module:function")
    return _function(module, name, attribute, of), digest(VERSION, {"function": target}, files).rpartition("-")[2][:16]


def load_class(target: str, folder: Path, *, what: str) -> type:
    """A class of the user's, `module:Class`; `what` says what it should be, for whoever names something else."""
    module, _, attribute, _ = _load(target, folder, form="module:Class")
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    file = getattr(module, "__file__", None)
    if found is None:
        classes = sorted(name for name, value in vars(module).items() if isinstance(value, type))
        raise ConfigError(
            f"the module has no '{attribute}'", file=file, hint=closest(attribute, classes, all_are="it has")
        )
    if not isinstance(found, type):
        raise ConfigError(f"'{attribute}' is not {what}", file=file, hint="name its class")
    return found


def _load(target: str, folder: Path, *, form: str) -> tuple[ModuleType, str, str, set[Path]]:
    """The imported module, its name, what is wanted of it, and the files that it comes from."""
    name, colon, attribute = target.partition(":")
    if not colon or not name or not attribute:
        raise ConfigError(f"'{target}' is not of the form {form}")
    reads = Reads(folder)
    with reads, serving(reads.folder):
        module = _import(name, reads)
    source = getattr(module, "__file__", None)
    files = reads.files() | set(_from_configs.get(name.partition(".")[0], ())) | ({Path(source)} if source else set())
    return module, name, attribute, files


def _function(module: ModuleType, name: str, attribute: str, of: str = "a list of texts") -> Callable[[list[str]], Any]:
    function: Any = module
    file = getattr(module, "__file__", None) or name
    for part in attribute.split("."):
        function = getattr(function, part, None)
    if function is None:
        raise ConfigError(f"the module has no '{attribute}'", file=file)
    if not callable(function) or isinstance(function, type):
        raise ConfigError(f"'{attribute}' is not a function of {of}", file=file)
    found: Callable[[list[str]], Any] = function
    return found


def _import(name: str, reads: Reads) -> ModuleType:
    """Import a module from the configuration's folder, as its files are now, or from the installed packages."""
    top, folder = name.partition(".")[0], Path(reads.folder)
    if isolation.alone:
        stay_on_path(str(folder))
    importlib.invalidate_caches()
    here = PathFinder.find_spec(top, [str(folder)])
    if top in _from_configs and (here is None or _is_stale(top, here.origin)):
        for loaded in {*_modules_under(top), *_modules_of(_from_configs.pop(top))}:
            del sys.modules[loaded]
    imported = getattr(sys.modules.get(top), "__spec__", None)
    if here and top in sys.modules and (imported is None or imported.origin != here.origin):
        raise ConfigError(
            f"another module with the name '{top}' is already imported", file=here.origin, hint="rename yours"
        )
    installed = PathFinder.find_spec(top) if here and top not in sys.modules else None
    if here and (top in sys.builtin_module_names or (installed and installed.origin != here.origin)):
        raise ConfigError(f"an installed module has the name '{top}' too", file=here.origin, hint="rename yours")
    try:
        return _import_or_explain(name, folder)
    finally:  # a package stays imported when a module in it is not found
        if here:
            _from_configs.setdefault(top, {file: _stamp(file) for file in reads.files()})


def _modules_under(top: str) -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] == top]


def _modules_of(files: Collection[Path]) -> list[str]:
    """The modules that were imported from some files; never the program itself."""
    found = {name: Path(getattr(module, "__file__", None) or "") for name, module in sys.modules.items()}
    return [name for name, file in found.items() if file in files and name != "__main__"]


def _is_stale(top: str, origin: str | None) -> bool:
    """Whether the loaded module came from elsewhere or has changed on disk since."""
    if getattr(getattr(sys.modules.get(top), "__spec__", None), "origin", None) != origin:
        return True
    return any(_stamp(file) != stamp for file, stamp in _from_configs[top].items())


def _stamp(file: Path) -> tuple[int, int]:
    status = file.stat() if file.exists() else None
    return (status.st_mtime_ns, status.st_size) if status else (0, 0)


def _import_or_explain(name: str, folder: Path) -> ModuleType:
    # Without bytecode files, a module that changes twice within a second is still read again.
    write_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigError(
                f"Python module '{name}' not found here or among the installed packages", file=folder
            ) from error
        raise ConfigError(f"the module '{name}' needs '{error.name}', which is not installed") from error
    except Exception as error:
        failed = kind_and_line(error, folder)
        raise ConfigError(f"importing '{name}' failed: {failed}", hint="see the traceback with --debug") from error
    finally:
        sys.dont_write_bytecode = write_bytecode
