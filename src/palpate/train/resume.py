"""Trainings that can be killed: where they are, what they leave behind for `--resume`, and what they end with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple


@dataclass
class Place:
    """Where a training is; each kind adds what else it must remember."""

    epoch: int = 0
    step: int = 0
    """Steps done in this epoch."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """A row for each epoch that is done."""


class Found(NamedTuple):
    """What a training ends with: the row of its best epoch, whose weights the network has, and all rows."""

    best: Mapping[str, Any]
    history: list[dict[str, Any]]


class TrainingFiles:
    """`state.pt` (place, weights, optimizer, random state) and `best.pt`; whole or, after a kill, the earlier ones."""

    def __init__(self, home: Path, network: Any, device: str) -> None:
        self._home, self._network, self._device = home, network, device

    def save(self, place: Mapping[str, Any], optimizer: Any) -> None:
        """Where the training is now."""
        import torch

        state = {
            "place": dict(place),
            "network": self._network.state_dict(),
            "optimizer": optimizer.state_dict(),
            "random": torch.get_rng_state(),
            "random_gpu": torch.cuda.get_rng_state() if self._device == "cuda" else None,
        }
        self._write("state.pt", state)

    def restore(self, optimizer: Any) -> dict[str, Any] | None:
        """Go back to where a training was stopped; gives its place, None where nothing was saved."""
        import torch

        if not (self._home / "state.pt").is_file():
            return None
        state = self._read("state.pt")
        self._network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"].cpu())
        if state["random_gpu"] is not None and self._device == "cuda":
            torch.cuda.set_rng_state(state["random_gpu"].cpu())
        place: dict[str, Any] = state["place"]
        return place

    def keep_best(self) -> None:
        """The weights that the network has now are the best so far."""
        self._write("best.pt", self._network.state_dict())

    def take_best(self) -> None:
        """Give the network its best weights."""
        self._network.load_state_dict(self._read("best.pt"))

    def _write(self, name: str, content: Any) -> None:
        import torch

        draft = self._home / f"{name}.tmp"
        torch.save(content, draft)
        draft.replace(self._home / name)

    def _read(self, name: str) -> Any:
        import torch

        return torch.load(self._home / name, map_location=self._device, weights_only=True)
