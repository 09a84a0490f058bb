"""`palpate train plm-icd`: an encoder that reads notes chunk by chunk, and label-wise attention over the whole note.

As in PLM-ICD (Huang et al., 2022): AdamW at 5e-5 with a linear warm-up and decay, chunks of 128 tokens. It starts from
any checkpoint of an encoder on this machine, or from a small encoder of its own whose word pieces are learned from the
training notes. Evidence can supervise the attention, as for the other coding models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from palpate.errors import ConfigError
from palpate.models.networks.coding import ChunkedShape
from palpate.models.networks.coding.tokens import token_window
from palpate.models.text.checkpoints import lacks_weights, load_network, positions_of, quiet
from palpate.models.text.reading import has_own_code
from palpate.train.coding import LIMITS, CodingParts, check, first_bias, fit_codes, read_codes
from palpate.train.coding.options import PlmIcdOptions
from palpate.train.notes import Split
from palpate.train.options import FitTask, Fitted, Kind
from palpate.train.transformer import check_encoder


def _check(options: PlmIcdOptions, labels: Sequence[str]) -> Mapping[str, Any]:
    return {**check_encoder(options, "training a plm-icd"), **check(options, labels)}


def _fit(split: Split, options: PlmIcdOptions, task: FitTask) -> Fitted:
    from palpate.train.coding.training import ChunkedTraining

    return fit_codes(split, options, task, lambda: _parts(split, options, task), ChunkedTraining)


def _parts(split: Split, options: PlmIcdOptions, task: FitTask) -> CodingParts:
    """The tokenizer, and the network with initial weights, which depend on the seed."""
    import torch

    from palpate.models.networks.coding.chunked import ChunkedNetwork
    from palpate.train.transformer.network import make_tokenizer, small_config

    source = "the encoder" if options.checkpoint is None else f"the encoder {options.checkpoint}"
    tokenizer = make_tokenizer(split.train, options, task.scratch, max_tokens=options.max_tokens)
    window = token_window(tokenizer, options.max_tokens, source=source)
    shape = ChunkedShape(evidence=options.evidence, chunk=options.chunk, max_tokens=options.max_tokens)
    with torch.random.fork_rng(devices=[]), quiet():
        torch.manual_seed(task.seed or 0)
        if options.checkpoint is None:
            import transformers

            encoder = transformers.BertModel(small_config(tokenizer, options, options.chunk), add_pooling_layer=False)
        else:
            encoder = _loaded(options.checkpoint, options)
        network = ChunkedNetwork(shape, encoder, len(split.labels))
    with torch.no_grad():
        network.bias.copy_(torch.from_numpy(first_bias(split.train.y, options.class_weight)))
    return CodingParts(window, network, {"learning_rate": options.rate})


def _loaded(path: Path, options: PlmIcdOptions) -> Any:
    """The encoder of a checkpoint, with all its weights; a head, if it has one, is left out."""
    import transformers

    encoder, missing = load_network(transformers.AutoModel, path, trust=options.trust)
    missing = [key for key in missing if "pooler" not in key]
    if missing:
        raise lacks_weights(missing, "an encoder", path, hint="give a complete checkpoint")
    if getattr(encoder.config, "is_encoder_decoder", False):
        raise ConfigError(
            "this is an encoder with a decoder", file=path, hint="give an encoder, such as BERT or RoBERTa"
        )
    if has_own_code(encoder):
        hint = "give a checkpoint of an architecture that the transformers library has"
        raise ConfigError("an encoder with code of its own can't be trained here", file=path, hint=hint)
    positions = positions_of(encoder)
    if positions is not None and options.chunk > positions:
        hint = f"set chunk={positions} or less"
        raise ConfigError(f"chunk is {options.chunk}, but the encoder has {positions} positions", file=path, hint=hint)
    return encoder


KIND = Kind(
    what="PLM-ICD: an encoder reads a note chunk by chunk, and each label has an attention over all its tokens.",
    options=PlmIcdOptions,
    fit=_fit,
    check=_check,
    packages=("torch", "transformers", "tokenizers", "safetensors"),
    limits=(LIMITS[0].replace("word", "token"), LIMITS[1]),
    read=read_codes,
)
