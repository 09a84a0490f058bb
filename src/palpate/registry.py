"""What is installed: audits and models by name, optional packages, and package versions.

Built-ins and plug-ins come through the same door: entry points.

A package adds an audit or a model scheme with one line in its pyproject:

    [project.entry-points."palpate.audits"]
    mine = "package.module:MyAudit"
"""

from __future__ import annotations

import platform
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from typing import Any

from palpate.errors import ConfigError, MissingExtra


@cache
def _entries(kind: str) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=f"palpate.{kind}")}


def names(kind: str) -> tuple[str, ...]:
    """What is registered under `audits` or `models`."""
    return tuple(sorted(_entries(kind)))


def find(kind: str, name: str) -> Any:
    """The registered object; unknown names say what there is."""
    entry = _entries(kind).get(name)
    if entry is None:
        singular = kind.removesuffix("s")
        raise ConfigError(f"unknown {singular} '{name}'", hint=f"the {kind} are: {', '.join(names(kind))}")
    return entry.load()


def optional(module: str, *, extra: str, needed_for: str) -> Any:
    """A module that comes with an extra; without it, the error says which extra to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise  # it is installed, but something that it needs is not
        raise MissingExtra(extra, needed_for=needed_for) from None


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """The versions of Python and of those packages that are installed."""
    versions = {"python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
