"""What an unfinished training leaves behind for `--resume`: the job's note, and the state of a torch training."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from palpate.errors import ConfigError, parse_json
from palpate.files import replacing, write_atomically
from palpate.models.devices import is_out_of_memory

TRAINING = ".training"
"""The folder in OUT for the files of an unfinished training."""
_AGAIN = "remove the folder and train again"


class MemoryRanOut(ConfigError):
    """A training needs more memory than there is now; what it has learned is kept for `--resume`."""


def open_job(out: Path, job: str, *, resume: bool, finished: Sequence[str | None] = ()) -> None:
    """Create the folder, or check that what is in it is this very job.

    `job` is a digest of everything the result depends on; `finished` are the digests of models that are already there.
    """
    if out.exists() and not out.is_dir():
        raise ConfigError("is a file, not a folder", file=out, hint="choose another folder")
    note = out / TRAINING / "job.json"
    if out.is_dir() and any(each != note.parent or note.is_file() for each in out.iterdir()):
        if not resume:
            hint = "choose another folder, or continue an interrupted training with --resume"
            raise ConfigError("the folder is not empty", file=out, hint=hint)
        found = [*finished, *([_job_of(note)] if note.is_file() else [])]
        if not found:
            raise ConfigError("this folder has no training to resume", file=out, hint="choose an empty folder")
        if any(other != job for other in found):
            raise ConfigError(
                "the training in this folder was started with different options or a different cohort",
                file=out,
                hint="resume with those, or choose an empty folder",
            )
    elif note.parent.is_dir():  # without its note, nobody can tell what was trained
        shutil.rmtree(note.parent)
    write_atomically(note, json.dumps({"job": job}) + "\n")


def _job_of(note: Path) -> str | None:
    try:
        found = parse_json(note.read_text(encoding="utf-8"))["job"]
    except (ValueError, KeyError, TypeError):
        raise ConfigError("the note of the interrupted training is damaged", file=note, hint=_AGAIN) from None
    return found if isinstance(found, str) else None


@dataclass
class ResumeState:
    """Where a torch training is."""

    trial: int = 0
    """Which of the learning rates to try."""
    epoch: int = 0
    """Epochs done in this trial."""
    step: int = 0
    """Steps done in this epoch."""
    sums: dict[str, float] = field(default_factory=dict)
    """Losses of this epoch so far, summed over the examples."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """One row per epoch that is done, over all trials."""


class TrainingFiles:
    """`state.pt` (state, weights, optimizer, random numbers) and `best.pt`; a kill leaves the last complete version."""

    def __init__(self, home: Path, network: Any, device: str) -> None:
        self._home, self._network, self._device = home, network, device
        self._on_gpu = device.startswith("cuda")

    def save(self, state: ResumeState, optimizer: Any) -> None:
        """Record where the training is now."""
        import torch

        content = {
            "state": asdict(state),
            "network": self._network.state_dict(),
            "optimizer": optimizer.state_dict(),
            "random": torch.get_rng_state(),
            "random_gpu": torch.cuda.get_rng_state(self._device) if self._on_gpu else None,
        }
        self._write("state.pt", content)

    def restore(self, optimizer: Any) -> ResumeState | None:
        """Go back to where a training was interrupted; None if nothing was saved."""
        import torch

        if not (self._home / "state.pt").is_file():
            return None
        content = self._read("state.pt")
        if "state" not in content:
            hint = "train again in an empty folder"
            raise ConfigError("was started with another version of palpate", file=self._home, hint=hint)
        self._network.load_state_dict(content["network"])
        optimizer.load_state_dict(content["optimizer"])
        torch.set_rng_state(content["random"].cpu())
        if content["random_gpu"] is not None and self._on_gpu:
            torch.cuda.set_rng_state(content["random_gpu"].cpu(), self._device)
        return ResumeState(**content["state"])

    def keep_best(self) -> None:
        """Record the network's current weights as the best so far."""
        self._write("best.pt", self._network.state_dict())

    def take_best(self) -> None:
        """Load the best weights into the network."""
        self._network.load_state_dict(self._read("best.pt"))

    def _write(self, name: str, content: Any) -> None:
        import torch

        with replacing(self._home / name) as draft, draft.open("wb") as file:  # torch itself does not tell a full disk
            torch.save(content, file)

    def _read(self, name: str) -> Any:
        import torch

        try:
            content = torch.load(self._home / name, map_location=self._device, weights_only=True)
        except MemoryError:
            raise
        except Exception as error:  # whatever torch meets in a damaged file
            if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
                raise
            if is_out_of_memory(error):
                problem = f"the memory of {self._device} ran out while the file was read"
                hint = "free some and go on with --resume"
                raise MemoryRanOut(problem, file=self._home / name, hint=hint) from error
            raise ConfigError("the file is missing or damaged", file=self._home / name, hint=_AGAIN) from error
        if not isinstance(content, dict):
            raise ConfigError("the file is damaged", file=self._home / name, hint=_AGAIN)
        return content
