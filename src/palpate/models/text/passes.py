"""Windows of tokens as the tensors of one forward pass, and what comes out of it.

A plain classifier takes rows of tokens, padded to the longest. A checkpoint that cuts a note into chunks by itself
(PLM-ICD and its kin) takes a whole note, and takes it in one of three forms, which `palpate.models.text.reading` finds:

    rows          [note, token], of any length
    filled rows   [note, token], filled up to whole chunks
    chunks        [note, chunk, token], filled up to whole chunks

Many of these networks let padding take part in what they compute (PLM-ICD's attention is not masked), so a note would
get another answer beside longer ones. Here notes share a pass only if they are equally long, and a note is filled up
no further than its own last chunk: its prediction is the one it gets alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.models.devices import Device
from palpate.models.text import Ints, lengths_of
from palpate.models.text.windows import Frame

Form = Literal["rows", "filled rows", "chunks"]


class LabelAttention(NamedTuple):
    """Where a network's output holds the weights with which each label gathers the tokens of a note."""

    name: str | int
    labels_last: bool
    """[note, token, label] instead of [note, label, token]."""
    asked_by: tuple[str, ...] = ()
    """The argument that makes the network return them, if it needs one."""

    def weights(self, output: Any) -> Any:
        """[note, label, token]"""
        found = parts_of(output)[self.name]
        return found.transpose(1, 2) if self.labels_last else found


class Passes:
    """The passes of a plain classifier."""

    attention: LabelAttention | None = None
    whole_notes: ClassVar[bool] = False
    gradients: bool = True
    """Whether the tokens of a note can be followed from the embedding on."""

    def __init__(self, frame: Frame, pad: int | None, device: Device | None = None) -> None:
        self.frame, self.pad, self.device = frame, pad, device or Device()

    @property
    def max_rows(self) -> int | None:
        """Without a padding token, models of the GPT family refuse more than one row."""
        return None if self.pad is not None else 1

    def run(
        self, ids: Sequence[list[int]], forward: Callable[[dict[str, Any]], Any], budget: int
    ) -> Iterator[tuple[Ints, NDArray[Any]]]:
        """Which windows shared a pass, and what the network gave for them."""
        max_rows = None if self.pad is not None else 1
        return self.device.passes(
            self.filled_lengths(lengths_of(ids)),
            lambda rows: forward(self.tensors([ids[row] for row in rows])),
            budget=budget,
            max_rows=max_rows,
            equal=self.whole_notes,
        )

    def filled_lengths(self, lengths: Ints) -> Ints:
        """How many tokens windows have as they are passed."""
        return lengths

    def tensors(self, ids: Sequence[list[int]]) -> dict[str, Any]:
        """The network's inputs for some windows."""
        batch = self.frame.batch(ids, self.pad or 0)
        return {name: self.device.tensor(array) for name, array in batch.items()}

    def shaped(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Tensors [note, token] in the form that the network takes."""
        return batch

    def rows_embedded(self, n_tokens: int) -> int:  # noqa: ARG002
        """How many rows the embedding makes of a window."""
        return 1


class ChunkPasses(Passes):
    """The passes of a network that reads whole notes in chunks."""

    whole_notes: ClassVar[bool] = True

    def __init__(
        self, frame: Frame, pad: int | None, form: Form, chunk: int | None, device: Device | None = None
    ) -> None:
        super().__init__(frame, pad, device)
        self.form, self.chunk = form, chunk
        self.embedded: int | None = None
        """How many tokens a row of the embedding has; None: a whole note."""

    @property
    def max_rows(self) -> int | None:
        """Explanations take one note at a time: others would have to be filled up."""
        return 1

    def filled_lengths(self, lengths: Ints) -> Ints:
        """Notes of equal length share a pass, once they are filled up to whole chunks."""
        return lengths if self.form == "rows" else np.asarray([self.filled(int(n)) for n in lengths], dtype=np.int64)

    def tensors(self, ids: Sequence[list[int]]) -> dict[str, Any]:
        """The network's inputs for some notes."""
        return self.shaped(super().tensors(ids))

    def shaped(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Filled up to whole chunks, and cut into them, where the network takes that."""
        from torch.nn import functional

        if self.form == "rows":
            return batch
        n, length = batch["input_ids"].shape
        more = self.filled(length) - length
        out = {
            name: functional.pad(part, (0, more), value=(self.pad or 0) if name == "input_ids" else 0)
            for name, part in batch.items()
        }
        if self.form == "filled rows":
            return out
        return {name: part.reshape(n, -1, self.chunk) for name, part in out.items()}

    def rows_embedded(self, n_tokens: int) -> int:
        """One row per chunk, if the network cuts before it embeds."""
        return 1 if self.embedded is None else -(-n_tokens // self.embedded)

    def filled(self, n_tokens: int) -> int:
        """How many tokens a note has once its last chunk is full."""
        return n_tokens if self.chunk is None else -(-n_tokens // self.chunk) * self.chunk


def logits_of(output: Any) -> Any:
    """The logits in what a network returned: a field `logits`, or the first thing in it."""
    parts = parts_of(output)
    return parts["logits"] if "logits" in parts else parts[next(iter(parts))]


def parts_of(output: Any) -> Mapping[Any, Any]:
    """What a network returned, by name or place."""
    if isinstance(output, Mapping):
        return output
    return dict(enumerate(output if isinstance(output, tuple | list) else (output,)))


def embedding_of(network: Any) -> Any:
    """The module that turns token ids into vectors; None if it is not found."""
    import torch

    try:
        found = network.get_input_embeddings()
    except (AttributeError, NotImplementedError):
        found = None
    if found is not None:
        return found
    size = getattr(getattr(network, "config", None), "vocab_size", None)
    all_of_them = [part for part in network.modules() if isinstance(part, torch.nn.Embedding)]
    return next((part for part in all_of_them if part.num_embeddings == size), None)
