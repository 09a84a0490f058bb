"""Coding networks: thousands of labels, each with an attention of its own over the words of a note.

`palpate train caml` and `effective-can` write them as a folder with `network.json` (the sizes below, enough to build
the network again), `vocabulary.json` (`words`) and `model.safetensors` (the weights of `layers`). `plm-icd` has the
configuration and tokenizer of its encoder in `encoder/` instead of a vocabulary (`tokens`, `chunked`). `model` reads
the folder back and explains what the network looked at.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from palpate.errors import ConfigError, parse_json

SHAPE_FILE = "network.json"
ENCODER = "encoder"
"""The folder with the configuration and the tokenizer of an encoder."""
Architecture = Literal["caml", "effective-can"]
EvidenceMode = Literal["none", "attention", "linear", "cnn"]
LayerMode = Literal["joined", "summed"]


class CodingShape(BaseModel):
    """A network's sizes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    architecture: Architecture
    evidence: EvidenceMode = "none"
    embedding: int = Field(ge=1)
    channels: tuple[int, ...] = Field(min_length=1)
    """Of each block (effective-can) or of the one convolution (caml)."""
    kernel: int = Field(ge=1)
    attention: int = Field(ge=1)
    """The size of what labels attend to, if layers are summed; else it is that of all channels."""
    layers: LayerMode = "summed"
    """Whether the labels attend to the outputs of all blocks side by side, or to the sum of their projections."""
    reduction: int = Field(ge=1)
    dropout: float = Field(ge=0, lt=1)
    tag_kernel: int = Field(default=9, ge=1)
    tag_channels: int = Field(default=10, ge=1)

    @property
    def tags(self) -> bool:
        """Whether it has a head that tags evidence."""
        return self.evidence in ("linear", "cnn")

    def write(self, folder: Path) -> None:
        """Write the sizes as JSON."""
        (folder / SHAPE_FILE).write_text(json.dumps(self.model_dump(mode="json")) + "\n", encoding="utf-8")


class ChunkedShape(BaseModel):
    """How a network reads a note with an encoder, chunk by chunk; the encoder's sizes are in its own configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    architecture: Literal["plm-icd"] = "plm-icd"
    evidence: Literal["none", "attention"] = "none"
    chunk: int = Field(ge=2)
    """Tokens in a chunk."""
    max_tokens: int = Field(ge=2)
    """Tokens of a note that are read, special ones included."""

    @property
    def tags(self) -> bool:
        """It has no head that tags evidence."""
        return False

    def write(self, folder: Path) -> None:
        """Write it as JSON."""
        (folder / SHAPE_FILE).write_text(json.dumps(self.model_dump(mode="json")) + "\n", encoding="utf-8")


def read_shape(folder: Path) -> CodingShape | ChunkedShape:
    """The sizes in a folder."""
    file = folder / SHAPE_FILE
    if not file.is_file():
        raise ConfigError("file not found", file=file, hint="copy the whole folder of the model")
    try:
        content = parse_json(file.read_bytes())
        kind = ChunkedShape if content.get("architecture") == "plm-icd" else CodingShape
        return kind.model_validate(content)
    except (ValidationError, ValueError, AttributeError):
        hint = "train the model again"
        raise ConfigError("not a description of a coding network", file=file, hint=hint) from None
