"""Where a torch network runs."""

from __future__ import annotations

from palpate.errors import ConfigError


def device_of(wanted: str) -> str:
    """`cpu` or `cuda`, for `auto`, `cpu` or `cuda`; refused if there is no GPU."""
    import torch

    there = torch.cuda.is_available()
    if wanted == "cuda" and not there:
        raise ConfigError("there is no GPU that torch can use", hint="set device=cpu")
    return "cuda" if there and wanted != "cpu" else "cpu"
