"""`python:package.module:function`: any function that takes a list of texts and returns probabilities.

The configuration's folder is searched first, so a `model.py` beside `audit.yaml` is found. The fingerprint
covers only the source file of that module: if the function depends on weights or on other modules, set the
option `fingerprint` and change it when they change.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError, ModelError
from palpate.models import Model, Probabilities
from palpate.models.options import Options, digest, parse_options

VERSION = "python-1"
_from_configs: dict[str, dict[Path, tuple[int, int]]] = {}
"""Top-level modules that came from a configuration's folder: their files, as they were when imported."""


class FunctionModel(Model):
    """A function of texts."""

    def __init__(self, function: Callable[[list[str]], Any], options: Options, *, source: str, fingerprint: str):
        self.labels = options.labels or ("positive",)
        self.fingerprint = fingerprint
        self.rows_per_call = options.batch_size or self.rows_per_call
        self._function, self._source = function, source

    def predict(self, inputs: Inputs) -> Probabilities:
        """Call the function, `batch_size` texts at a time."""
        texts, size = inputs.texts, self.rows_per_call
        blocks = [self._call(texts[k : k + size]) for k in range(0, len(texts), size)]
        return np.concatenate(blocks) if blocks else np.zeros((0, len(self.labels)))

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


def load(target: str, options: Mapping[str, Any], *, folder: Path) -> FunctionModel:
    """Import the module and find the function."""
    source = f"python:{target}"
    own = parse_options(Options, source, options)
    name, colon, attribute = target.partition(":")
    if not colon or not name or not attribute:
        raise ConfigError(f"'{source}' is not of the form python:package.module:function")
    module = _import(name, folder.resolve())
    function: Any = module
    for part in attribute.split("."):
        function = getattr(function, part, None)
    if function is None:
        raise ConfigError(f"the module has no '{attribute}'", file=module.__file__ or name)
    if not callable(function) or isinstance(function, type):
        raise ConfigError(f"'{attribute}' is not a function of a list of texts", file=module.__file__ or name)
    answer_options = {"function": target, "labels": own.labels, "fingerprint": own.fingerprint}
    fingerprint = digest(VERSION, answer_options, [Path(module.__file__)] if module.__file__ else [])
    return FunctionModel(function, own, source=source, fingerprint=fingerprint)


def _import(name: str, folder: Path) -> ModuleType:
    """Import a module, preferably from `folder`, as its file is now."""
    top = name.partition(".")[0]
    if sys.path[:1] != [str(folder)]:
        sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    here = PathFinder.find_spec(top, [str(folder)])
    if top in _from_configs and (here is None or _is_stale(top, here.origin)):
        for loaded in _modules_under(top):
            del sys.modules[loaded]
    imported = getattr(sys.modules.get(top), "__spec__", None)
    if here and top in sys.modules and (imported is None or imported.origin != here.origin):
        raise ConfigError(
            f"another module with the name '{top}' is already imported", file=here.origin, hint="rename yours"
        )
    module = _import_or_explain(name, folder)
    if here:
        files = [Path(file) for each in _modules_under(top) if (file := sys.modules[each].__file__)]
        _from_configs[top] = {file: _stamp(file) for file in files}
    return module


def _modules_under(top: str) -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] == top]


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
