"""How much each token speaks for a label, from a torch network's gradients as Captum computes them.

All at the output of the network's embedding layer and summed over its dimensions:

gradient_x_input      the gradient times the embedding: exact for a linear network, cheap, blind where it saturates
integrated_gradients  the mean gradient on the path from a baseline (every token of the text is the padding token)
                      times the difference; the scores of a text sum to the difference of the two logits
deeplift              the difference from the baseline, carried through activations by their own differences (Shrikumar
                      et al., 2017), and through norms, products and attention by their gradients

`gradient_sizes` are the lengths, not the sums, of gradient times embedding: what AttInGrad (Edin et al., 2024)
multiplies attention with.

What is explained is the label's logit, log p / (1 - p), never its probability: a probability near 1 hardly moves.

Any torch network can be explained by `token_scores`; `attributions_of` maps the scores to characters:

    def logit(tokens, mask, label):            # tensors: [n, longest] ids, [n, longest] 1 or 0, [n] label
        return network(tokens, mask)[torch.arange(len(label)), label]

    scores = token_scores(logit, network.embedding, ids, asked.label, way="integrated_gradients", filler=0)
    return attributions_of(asked, offsets, scores)

`ids[k]` are the tokens of the k-th asked pair, without padding, and `offsets[k]` is where each of them is in the text.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palpate.errors import MissingExtra
from palpate.models.devices import Device
from palpate.models.networks import Activation, n_labels_of
from palpate.models.text import attention_mask, lengths_of, padded
from palpate.results import Asked, Attributions, no_attributions

Way = Literal["integrated_gradients", "gradient_x_input", "deeplift"]
WAYS: tuple[Way, ...] = ("integrated_gradients", "gradient_x_input", "deeplift")
ATTENTION, ROLLOUT, ATTINGRAD = "attention", "attention_rollout", "attingrad"
_SIZES = "gradient sizes"
N_STEPS = 50
BATCH_TOKENS = 1024
"""A backward pass keeps every layer's values, so it gets a quarter of a forward pass's tokens."""

Floats = NDArray[np.float64]
Forward = Callable[[Any, Any, Any], Any]
"""Logits [n] of the label of each row, from tensors: ids [n, longest], mask [n, longest], label [n]."""
Offsets = Sequence[tuple[int, int]]


def token_scores(
    forward: Forward,
    embedding: Any,
    ids: Sequence[Sequence[int]],
    labels: ArrayLike,
    *,
    way: str,
    network: Any = None,
    baseline: Sequence[Sequence[int]] | None = None,
    filler: int = 0,
    n_steps: int = N_STEPS,
    batch_tokens: int = BATCH_TOKENS,
    max_rows: int | None = None,
    device: Device | None = None,
    rows_embedded: Callable[[int], int] | None = None,
) -> list[Floats]:
    """A score for each token of each row; `labels[k]` is the label for which row k is explained.

    `network` is the module that `forward` calls, if it is none itself (`deeplift` follows its activations), `embedding`
    the module that `forward` calls once, with the ids, and whose output is [n, longest, dimensions]. The
    network must be in eval mode, and rows must not depend on each other. `filler` pads rows; without a `baseline` it
    also stands for every token of the baseline. Rows of similar length share a pass of at most `batch_tokens`. Where
    the embedding cuts a row into several, in order, `rows_embedded` says into how many. `device` is where the network
    was placed; default: as it is, on the CPU.
    """
    if way not in (*WAYS, _SIZES):
        raise ValueError(f"unknown gradient method {way!r}; the methods are {', '.join(WAYS)}")
    asked = np.asarray(labels, dtype=np.int64)
    lengths = lengths_of(ids)
    start = [[filler] * len(row) for row in ids] if baseline is None else baseline
    if asked.shape != lengths.shape or [len(row) for row in start] != lengths.tolist():
        raise ValueError("ids, labels and baseline must have the same number of rows, and rows of the same length")
    scores: list[Floats] = [np.zeros(0)] * len(ids)
    whole = _module(forward, network) if way == "deeplift" else forward
    here = device or Device()

    def attribute(rows: NDArray[np.int64]) -> Any:
        tokens, empty = (here.tensor(padded([part[row] for row in rows], filler)) for part in (ids, start))
        if tokens.shape[1] == 0:
            return tokens
        further = (here.tensor(attention_mask(lengths[rows])), here.tensor(asked[rows]))
        at_once = max(here.within(batch_tokens) // tokens.shape[1], len(rows))
        at_once *= 1 if rows_embedded is None else rows_embedded(tokens.shape[1])
        with here.autocast_of_quotients() if way == "deeplift" else nullcontext():
            return _attribute(whole, embedding, way, tokens, empty, further, n_steps=n_steps, at_once=at_once)

    with _with_gradients(embedding):
        for rows, found in here.passes(lengths, attribute, budget=batch_tokens, max_rows=max_rows):
            exact = found.astype(np.float64)
            if exact.ndim == 3:
                exact = np.linalg.norm(exact, axis=2) if way == _SIZES else exact.sum(axis=2)
            for row, values in zip(rows.tolist(), exact.reshape(len(rows), -1), strict=True):
                scores[row] = values[: lengths[row]]
    return scores


def gradient_sizes(
    forward: Forward, embedding: Any, ids: Sequence[Sequence[int]], labels: ArrayLike, **how: Any
) -> list[Floats]:
    """The length of gradient times embedding, for each token of each row; `how` as for `token_scores`."""
    return token_scores(forward, embedding, ids, labels, way=_SIZES, **how)


def attributions_of(asked: Asked, offsets: Sequence[Offsets], scores: Sequence[Floats]) -> Attributions:
    """The tokens of each asked pair as pieces of its text, in order.

    Tokens that share a character (the bytes of an emoji) become one piece with the sum of their scores; a token
    without characters (a special one) is left out.
    """
    parts = [_pieces(places, values) for places, values in zip(offsets, scores, strict=True)]
    if not parts:
        return no_attributions()
    counts = [len(part) for part in parts]
    whole = np.concatenate(parts)
    row, label = (np.repeat(np.asarray(column, dtype=np.int64), counts) for column in asked)
    return Attributions(row, label, whole[:, 0].astype(np.int64), whole[:, 1].astype(np.int64), whole[:, 2])


def log_odds(logits: Any, label: Any, activation: Activation) -> Any:
    """The logit of one label per row, log p / (1 - p), for either activation of the outputs [n, outputs]."""
    n_outputs = int(logits.shape[1])
    output = (label + (n_outputs - n_labels_of(n_outputs, activation)))[:, None]
    own = logits.gather(1, output)[:, 0]
    if activation == "sigmoid":
        return own
    return own - logits.scatter(1, output, float("-inf")).logsumexp(1)


def _attribute(
    forward: Forward,
    embedding: Any,
    way: str,
    tokens: Any,
    empty: Any,
    further: tuple[Any, Any],
    *,
    n_steps: int,
    at_once: int,
) -> Any:
    """Scores [row, token, dimension] of one batch; `at_once` is how many rows, over all steps, a pass may have."""
    try:
        from captum.attr import LayerDeepLift, LayerGradientXActivation, LayerIntegratedGradients
    except ImportError:
        raise MissingExtra("torch", needed_for="explaining a model by its gradients (captum)") from None
    if way in ("gradient_x_input", _SIZES):
        found = LayerGradientXActivation(forward, embedding).attribute(tokens, additional_forward_args=further)
    elif way == "deeplift":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says each time that it sets hooks
            found = LayerDeepLift(forward, embedding).attribute(tokens, empty, additional_forward_args=further)
    else:
        found = LayerIntegratedGradients(forward, embedding).attribute(
            tokens, empty, additional_forward_args=further, n_steps=n_steps, internal_batch_size=at_once
        )
    return found


def _module(forward: Forward, network: Any) -> Any:
    """A callable as a module that contains the network, so that its activations are found."""
    import torch

    if network is None:
        return forward

    class Whole(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, tokens: Any, mask: Any, label: Any) -> Any:
            return forward(tokens, mask, label)

    return Whole().eval()


@contextmanager
def _with_gradients(embedding: Any) -> Iterator[None]:
    """Allow gradients at the embedding's output even if the network was frozen for inference."""
    import torch

    frozen = [weight for weight in embedding.parameters() if not weight.requires_grad]
    try:
        for weight in frozen:
            weight.requires_grad_(True)
        with torch.enable_grad():
            yield
    finally:
        for weight in frozen:
            weight.requires_grad_(False)


def _pieces(places: Offsets, values: Floats) -> Floats:
    """Rows of start, end and score; overlapping pieces are merged."""
    found: list[list[float]] = []
    for (start, end), score in zip(places, values.tolist(), strict=True):
        if start >= end:
            continue
        if found and start < found[-1][1]:
            last = found[-1]
            last[0], last[1], last[2] = min(last[0], start), max(last[1], end), last[2] + score
        else:
            found.append([start, end, score])
    return np.asarray(found, dtype=np.float64).reshape(-1, 3)
