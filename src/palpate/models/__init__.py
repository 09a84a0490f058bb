"""Models: the protocol that palpate asks, and the adapters that turn `scheme:target` into a model."""

from __future__ import annotations

from pathlib import Path

from palpate import registry
from palpate.errors import ConfigError
from palpate.models.protocol import Model, ModelSpec

__all__ = ["Model", "ModelSpec", "load_model"]


def load_model(spec: ModelSpec) -> Model:
    """Load the model that a spec describes."""
    scheme, colon, target = spec.source.partition(":")
    if not colon or not target:
        schemes = ", ".join(f"{name}:" for name in registry.names("models"))
        raise ConfigError(
            f"model '{spec.name}': '{spec.source}' is not of the form scheme:target",
            hint=f"the schemes are {schemes}",
        )
    model: Model = registry.find("models", scheme)(target, spec.options, folder=Path(spec.folder))
    return model
