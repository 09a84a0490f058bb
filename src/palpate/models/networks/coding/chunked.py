"""PLM-ICD (Huang et al., 2022) in torch: an encoder reads a note chunk by chunk, then each label attends to all of it.

The chunks of all notes of a batch go through the encoder together, without those that are only padding. Over the hidden
states of the whole note, each label has an attention of its own (LAAT; Vu et al., 2020): scores from a projection with
tanh, weights that sum to 1 over the note, and a logistic unit on what they gather. Unlike in the authors' code, padding
takes no part in the attention, so a note's prediction does not depend on those beside it. Written from papers.

Words are embedded before a note is cut, so that gradients can be followed from a note's tokens on. This module needs
torch: import it only where a network is built.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn
from torch.nn import functional

from palpate.errors import ConfigError
from palpate.models.networks.coding import ENCODER, ChunkedShape
from palpate.models.networks.coding.attention import EncodedBatch, LabelAttentionNetwork


class ChunkedNetwork(LabelAttentionNetwork):
    """Tokens in, one logit per label out."""

    def __init__(self, shape: ChunkedShape, encoder: Any, n_labels: int) -> None:
        super().__init__()
        self.shape = shape
        self.encoder = encoder
        if getattr(encoder, "pooler", None) is not None:
            encoder.pooler = None  # reads the first token only, and is not used here
        size = int(encoder.config.hidden_size)
        self.projection, self.tanh = nn.Linear(size, size, bias=False), nn.Tanh()
        self.add_labels(n_labels, size)
        self.pair_size = size

    @property
    def embedding(self) -> Any:
        """The encoder's word embedding."""
        return self.encoder.get_input_embeddings()

    def encode(self, vectors: Any, mask: Any) -> EncodedBatch:
        """Keys and hidden states of token vectors, [text, token, dimension]."""
        n_texts, length, size = vectors.shape
        chunk = min(self.shape.chunk, length)
        more = -length % chunk
        chunks = functional.pad(vectors, (0, 0, 0, more)).reshape(-1, chunk, size)
        inside = functional.pad(mask, (0, more)).reshape(-1, chunk)
        used = inside.any(1)
        hidden = self.encoder(inputs_embeds=chunks[used], attention_mask=inside[used].long()).last_hidden_state
        whole = hidden.new_zeros((len(used), chunk, hidden.shape[2]))
        whole[used] = hidden
        values = whole.reshape(n_texts, length + more, -1)[:, :length] * mask.unsqueeze(2).to(hidden.dtype)
        return EncodedBatch(self.tanh(self.projection(values)), values, values, mask)

    def write_encoder(self, folder: Path) -> None:
        """Write the encoder's configuration; its weights are among the network's."""
        self.encoder.config.save_pretrained(folder / ENCODER)


def empty_encoder(folder: Path) -> Any:
    """An encoder as its configuration describes it, without its weights."""
    import transformers

    try:
        config = transformers.AutoConfig.from_pretrained(folder / ENCODER, local_files_only=True)
        return transformers.AutoModel.from_config(config)
    except Exception as error:
        hint = "copy the whole folder of the model"
        raise ConfigError("not the configuration of an encoder", file=folder / ENCODER, hint=hint) from error
