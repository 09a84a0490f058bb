"""What an adapter is given: options, checked before the model is loaded, and files; and the fingerprint of both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from palpate.errors import ConfigError, closest, first_problem
from palpate.files import at_home

_BLOCK = 1 << 20
REPORT_MISSING = "set `missing: report` of the model to count missing scores and go on"


class Options(BaseModel):
    """The options that every adapter takes; each adapter adds its own fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    labels: tuple[str, ...] | None = None
    """Names for the model's output columns, in order; default: what the model itself says."""
    batch_size: int | None = Field(default=None, ge=1)
    """Rows passed to the model in one call."""
    missing: Literal["error", "report"] = "error"
    """What a prediction that is missing (NaN) is: an error, or something to count and report."""
    fingerprint: str | None = None
    """Stands for the version of a model that palpate can't look into (an endpoint)."""


Own = TypeVar("Own", bound=BaseModel)


def parse_options(kind: type[Own], source: str, options: Mapping[str, Any]) -> Own:
    """The options as a typed object; the error names the first wrong one."""
    try:
        return kind.model_validate(dict(options))
    except ValidationError as error:
        wrong = first_problem(error)
        # A check that involves several options belongs to none of them; its sentence names them.
        which = f"option '{wrong.field}'" if wrong.path else "the options"
        hint = closest(str(wrong.path[-1]), kind.model_fields) if wrong.unknown else None
        raise ConfigError(f"{which} of {source}: {wrong.problem}", hint=hint, at=wrong.path) from None


class Check(Protocol):
    """Refuses wrong options and missing files, without reading the model."""

    def __call__(self, target: str, options: Mapping[str, Any], *, folder: Path) -> Any:
        """The checked options, or an error."""


Load = TypeVar("Load", bound=Callable[..., Any])


def checked_by(check: Check) -> Callable[[Load], Load]:
    """Lets a loader be asked, as `load.check(...)`, whether it would refuse a model, before anything is loaded."""

    def add(load: Load) -> Load:
        vars(load)["check"] = check
        return load

    return add


def sized_by(needs: Check) -> Callable[[Load], Load]:
    """Lets a loader be asked, as `load.needs(...)`, how much memory a model would take, before anything is loaded."""

    def add(load: Load) -> Load:
        vars(load)["needs"] = needs
        return load

    return add


def existing(target: str, folder: Path) -> Path:
    """A file or folder named in the configuration, resolved against the configuration's own folder."""
    path = folder / at_home(target)
    if not path.exists():
        raise ConfigError("model file or folder not found", file=path)
    return path


def digest(kind: str, answer_options: Mapping[str, Any], files: Iterable[Path] = ()) -> str:
    """A fingerprint of the files' bytes and of the options that change predictions.

    `kind` contains the adapter's version, which is raised when its predictions change. Files count by name and
    content, not by folder or date, so a copied model is the same model.
    """
    total = hashlib.blake2b(digest_size=16)
    total.update(json.dumps([kind, dict(answer_options)], sort_keys=True, default=str).encode())
    for part in sorted(json.dumps(path.name).encode() + _bytes_digest(path) for path in files):
        total.update(part)
    return f"{kind}-{total.hexdigest()}"


def _bytes_digest(path: Path) -> bytes:
    own = hashlib.blake2b(digest_size=32)
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            own.update(block)
    return own.digest()
