"""Checkpoints of PLM-ICD as its authors' training script writes them (Huang et al., 2022), read without their code.

Such a folder has a configuration (`architectures: [RobertaForMultilabelClassification]`, `model_mode: laat`), a
tokenizer and weights, but no code. The network: an encoder over chunks, [note, chunk, token]; then for each label an
attention over the hidden states of the whole note (`laat`), or of each chunk, of which the highest logit counts
(`laat-split`). Padding takes part in the attention, as it did when these checkpoints were trained. Written from the
paper and from the names of the weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from palpate.errors import ConfigError
from palpate.models.text.checkpoints import lacks_weights, quiet

_MODES = ("laat", "laat-split")
_ARCHITECTURE = "ForMultilabelClassification"


def is_plm_icd(config: Any) -> bool:
    """Whether a configuration is one of PLM-ICD's, without code of its own."""
    names = config.architectures or []
    return (
        any(name.endswith(_ARCHITECTURE) for name in names)
        and isinstance(getattr(config, "model_mode", None), str)
        and not getattr(config, "auto_map", None)
    )


def load_plm_icd(config: Any, path: Path, *, trust: bool) -> Any:
    """The network with all its weights."""
    mode = config.model_mode
    if mode not in _MODES:
        hint = "wrap the authors' code in a Python class (docs/models.md)"
        raise ConfigError(f"model_mode is {mode}; read are {' and '.join(_MODES)}", file=path, hint=hint)
    network = plm_icd_network(config)
    weights = {_name(key, config): value for key, value in _read(path, trust=trust).items()}
    missing = sorted(set(network.state_dict()) - set(weights))
    if missing:
        raise lacks_weights(missing, "a PLM-ICD", path, hint="copy the whole folder of the checkpoint")
    try:
        network.load_state_dict({key: weights[key] for key in network.state_dict()})
    except RuntimeError as error:
        raise ConfigError("the weights do not fit config.json", file=path, hint="copy the whole folder") from error
    return network.float().eval()


def _name(key: str, config: Any) -> str:
    """`roberta.encoder...` is `encoder.encoder...` here."""
    prefix = f"{config.model_type}."
    return f"encoder.{key.removeprefix(prefix)}" if key.startswith(prefix) else key


def _read(path: Path, *, trust: bool) -> dict[str, Any]:
    safe, pickled = path / "model.safetensors", path / "pytorch_model.bin"
    try:
        if safe.is_file():
            from safetensors.torch import load_file

            return dict(load_file(safe))
        if trust and pickled.is_file():
            import torch

            return dict(torch.load(pickled, map_location="cpu", weights_only=True))
    except Exception as error:
        raise ConfigError(f"the weights can't be loaded: {type(error).__name__}", file=path) from error
    raise ConfigError("neither model.safetensors nor pytorch_model.bin is in this folder", file=path)


def plm_icd_network(config: Any) -> Any:
    """The network without its weights."""
    import torch
    import transformers
    from torch import nn

    class PlmIcd(nn.Module):  # type: ignore[misc]
        """Logits, and the weights [note, label, token] with which each label gathered the note."""

        def __init__(self) -> None:
            super().__init__()
            self.config = config
            self.encoder = transformers.AutoModel.from_config(config, add_pooling_layer=False)
            size, n_labels = config.hidden_size, config.num_labels
            self.first_linear = nn.Linear(size, size, bias=False)
            self.second_linear = nn.Linear(size, n_labels, bias=False)
            self.third_linear = nn.Linear(size, n_labels)

        def get_input_embeddings(self) -> Any:
            return self.encoder.get_input_embeddings()

        def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any = None) -> dict[str, Any]:
            n, n_chunks, size = input_ids.shape
            given = {"input_ids": input_ids, "attention_mask": attention_mask, "token_type_ids": token_type_ids}
            flat = {name: part.reshape(-1, size) for name, part in given.items() if part is not None}
            hidden = self.encoder(**flat).last_hidden_state
            split = config.model_mode == "laat-split"
            hidden = hidden if split else hidden.reshape(n, n_chunks * size, -1)
            scores = self.second_linear(torch.tanh(self.first_linear(hidden)))
            weights = torch.softmax(scores, 1).transpose(1, 2)
            logits = (self.third_linear.weight * (weights @ hidden)).sum(2) + self.third_linear.bias
            if not split:
                return {"logits": logits, "label_attention": weights}
            best = logits.reshape(n, n_chunks, -1).max(1)
            own = torch.nn.functional.one_hot(best.indices, n_chunks).to(weights.dtype)  # [note, label, chunk]
            by_chunk = weights.reshape(n, n_chunks, -1, size).transpose(1, 2) * own.unsqueeze(3)
            return {"logits": best.values, "label_attention": by_chunk.reshape(n, -1, n_chunks * size)}

    with torch.random.fork_rng(devices=[]), quiet():
        return PlmIcd()
