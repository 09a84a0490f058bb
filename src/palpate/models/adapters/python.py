"""`python:package.module:function`: any function that takes a list of texts and returns probabilities.

A `model.py` beside `audit.yaml` is found, unless an installed module has its name (`local_code`). The fingerprint
covers the local modules that are imported and the local files that are read (`palpate.models.reads`) while the module
is loaded and the function scores one short text, because weights are often read on the first call. Where that does not
tell all that the predictions depend on, the option `fingerprint` names the version of the model; without it, scores are
not reused by another run. `isolate: false` runs the function in palpate's own process.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError, ModelError, closest
from palpate.models import Model, Probabilities, isolation
from palpate.models.adapters.local_code import serving, stay_on_path
from palpate.models.options import Options, checked_by, digest, parse_options
from palpate.models.reads import Reads

VERSION = "python-2"
_PROBE = ["patient"]
_LATE = "its code reads another file after the first prediction"
_from_configs: dict[str, dict[Path, tuple[int, int]]] = {}
"""Top-level modules that came from a configuration's folder: what was read for them, as it was when imported."""


class FunctionModel(Model):
    """A function of texts."""

    def __init__(
        self, function: Callable[[list[str]], Any], options: Options, *, source: str, fingerprint: str, reads: Reads
    ):
        self.labels = options.labels or ("positive",)
        self.fingerprint = fingerprint
        self.rows_per_call = options.batch_size or self.rows_per_call
        self._function, self._source = function, source
        self._reads, self._known, self._versioned = reads, reads.files(), options.fingerprint is not None
        self._look()

    def predict(self, inputs: Inputs) -> Probabilities:
        """Call the function, `batch_size` texts at a time."""
        texts, size = inputs.texts, self.rows_per_call
        with self._reads, serving(self._reads.folder):
            blocks = [self._call(texts[k : k + size]) for k in range(0, len(texts), size)]
        self._look()
        return np.concatenate(blocks) if blocks else np.zeros((0, len(self.labels)))

    def _look(self) -> None:
        """Say where the predictions may depend on something that the fingerprint does not cover."""
        if not self._versioned and self.may_change is None:
            self._reads.look_for_libraries()
            self.may_change = self._reads.blind or (None if self._reads.files() <= self._known else _LATE)

    def _call(self, texts: list[str]) -> Probabilities:
        try:
            values = np.asarray(self._function(texts), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"the function failed or did not return numbers ({type(error).__name__})", model=self._source
            ) from error
        if values.ndim == 1 and len(self.labels) == 1:
            values = values[:, None]
        if values.shape != (len(texts), len(self.labels)):
            raise ModelError(
                f"the function returned an array of shape {list(values.shape)}, not "
                f"{[len(texts), len(self.labels)]} (texts, labels)",
                model=self._source,
                hint="name one label per column with the option `labels`",
            )
        return values


def check(target: str, options: Mapping[str, Any], *, folder: Path) -> Options:  # noqa: ARG001  (as every check)
    """The options, if they and the form of the target are right."""
    source = f"python:{target}"
    name, colon, attribute = target.partition(":")
    if not colon or not name or not attribute:
        raise ConfigError(f"'{source}' is not of the form python:package.module:function")
    return parse_options(Options, source, options)


@checked_by(check)
def load(target: str, options: Mapping[str, Any], *, folder: Path) -> FunctionModel:
    """Import the module and find the function."""
    own = check(target, options, folder=folder)
    name, _, attribute = target.partition(":")
    reads = Reads(folder)
    with reads, serving(reads.folder):
        module = _import(name, reads)
        reads.own_package(module)
        function = _function(module, name, attribute)
        with suppress(Exception):  # what is wrong is said when the function is asked in earnest, with the case
            function(list(_PROBE))
    source = getattr(module, "__file__", None)
    reads.blind = reads.blind or (None if source else "its code is in no file")
    reads.look_for_libraries()
    top = name.partition(".")[0]
    files = reads.files() | set(_from_configs.get(top, ())) | ({Path(source)} if source else set())
    if top in _from_configs:
        _from_configs[top] = {file: _stamp(file) for file in files}
    answer_options = {"function": target, "labels": own.labels, "fingerprint": own.fingerprint}
    fingerprint = digest(VERSION, answer_options, files)
    return FunctionModel(function, own, source=f"python:{target}", fingerprint=fingerprint, reads=reads)


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
    """The modules that were imported from some files."""
    return [name for name, module in sys.modules.items() if Path(getattr(module, "__file__", None) or "") in files]


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
        raise ConfigError(f"importing '{name}' failed: {type(error).__name__}: {error}") from error
    finally:
        sys.dont_write_bytecode = write_bytecode
