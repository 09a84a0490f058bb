"""The options that a model may be given in the configuration, checked before the model is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from palpate.errors import ConfigError


class Options(BaseModel):
    """What every adapter takes; each adds its own fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    labels: tuple[str, ...] | None = None
    """Names for the columns that the model gives, in order; default: what the model itself says."""
    batch_size: int | None = Field(default=None, ge=1)
    """Rows handed to the model in one call."""
    fingerprint: str | None = None
    """Stands for the version of a model that palpate can't look into (an endpoint)."""


Own = TypeVar("Own", bound=BaseModel)


def parse_options(kind: type[Own], source: str, options: Mapping[str, Any]) -> Own:
    """The options as a typed object; a wrong one is named."""
    try:
        return kind.model_validate(dict(options))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        known = ", ".join(sorted(kind.model_fields))
        problem = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            problem = "there is no such option"
        # What is wrong with several options at once belongs to none of them; the sentence names them.
        which = f"option '{name}'" if name else "the options"
        raise ConfigError(f"{which} of {source}: {problem}", hint=f"the options are: {known}") from None


def existing(target: str, folder: Path) -> Path:
    """A file or folder named in the configuration, relative to the configuration's own folder."""
    path = folder / Path(target).expanduser()
    if not path.exists():
        raise ConfigError("there is no such model file or folder", file=path)
    return path
