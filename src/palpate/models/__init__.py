"""Models: what palpate needs from one (`protocol`), and how it gets one from `scheme:target` (here)."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from palpate import registry
from palpate.errors import ConfigError
from palpate.models.isolation import IsolatedModel, exits_are_errors, serve
from palpate.models.protocol import Loader, Model, ModelSpec, Probabilities

__all__ = [
    "Loader",
    "Model",
    "ModelSpec",
    "Probabilities",
    "check_model",
    "load_here",
    "load_model",
    "memory_of",
    "reporting_missing",
    "serve_models",
    "with_labels",
]

ISOLATED = ("python",)
"""Schemes whose models run code of the user's, and so get a process of their own unless `isolate: false`."""

REMOTE = ("http", "https")
"""Schemes whose models run elsewhere already."""


def check_model(spec: ModelSpec) -> None:
    """Refuse an unknown scheme, a wrong option or a missing file without reading or running the model."""
    loader, target = _find(spec)
    check = getattr(loader, "check", None)  # a plug-in may have none
    if check is not None:
        check(target, spec.options, folder=Path(spec.folder))


def memory_of(spec: ModelSpec) -> Any:
    """The memory that a torch model would take, as a `MemoryNeed`, without reading it; None: it is none, or unknown."""
    loader, target = _find(spec)
    needs = getattr(loader, "needs", None)
    return None if needs is None else needs(target, spec.options, folder=Path(spec.folder))


def load_model(spec: ModelSpec) -> Model:
    """Load the model that a spec describes, in a process of its own where that is asked for."""
    scheme, _, target = spec.source.partition(":")
    isolate = scheme in ISOLATED if spec.isolate is None else spec.isolate and scheme not in REMOTE
    if not isolate or _is_in_memory(scheme, target) or not sys.executable:
        return load_here(spec)
    check_model(spec)
    return IsolatedModel(spec)


def load_here(spec: ModelSpec) -> Model:
    """Load the model in this process."""
    loader, target = _find(spec)
    with exits_are_errors(spec.name, "loading"):
        model: Model = loader(target, spec.options, folder=Path(spec.folder))
    return reporting_missing(model) if spec.options.get("missing") == "report" else model


def reporting_missing(model: Model) -> Model:
    """The model with `missing: report`: NaN is a missing score, and the cache keeps it apart from scores without."""
    if not model.may_miss:
        model.may_miss = True
        model.fingerprint += "-may-miss"
    return model


def with_labels(spec: ModelSpec, labels: Sequence[str]) -> ModelSpec:
    """A language model (`api: chat`) that has no labels of its own is asked about these."""
    options = spec.options
    if options.get("api") != "chat" or options.get("labels") or not labels:
        return spec
    if len(labels) > 1 and options.get("parser") != "json" and "{label}" not in str(options.get("prompt", "")):
        return spec
    return replace(spec, options={**options, "labels": list(labels)})


def serve_models(parent: int) -> None:
    """What runs in the process of an isolated model, which `parent` asks."""
    serve(load_here, parent)


def _find(spec: ModelSpec) -> tuple[Any, str]:
    """What loads models of the spec's scheme, and the target to give it."""
    scheme, colon, target = spec.source.partition(":")
    known = registry.names("models")
    schemes = ", ".join(f"{name}:" for name in known)
    if not colon or not target:
        problem = f"model '{spec.name}': '{spec.source}' is not of the form scheme:target"
        raise ConfigError(problem, hint=f"the schemes are {schemes}")
    if scheme not in known:
        near = difflib.get_close_matches(scheme, known, n=1)
        hint = f"did you mean `{near[0]}:{target}`?" if near else f"the schemes are {schemes}"
        if re.match(r"\d+(?:/|\Z)", target):  # a host and a port
            hint = f"did you mean `http://{spec.source}`?"
        raise ConfigError(f"model '{spec.name}': unknown scheme '{scheme}'", hint=hint)
    return registry.find("models", scheme), target


def _is_in_memory(scheme: str, target: str) -> bool:
    """Whether the module of a `python:` model exists only here (a notebook's), where no other process finds it."""
    name = target.partition(":")[0]
    module = sys.modules.get(name)
    in_memory = module is not None and getattr(module, "__file__", None) is None
    return scheme == "python" and (name == "__main__" or in_memory)
