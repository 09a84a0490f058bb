"""A masked language model from a folder: the likeliest words at a position (vocabulary-sensitivity, Section 2.3).

The tokens of a word are replaced by one mask token, and the network is asked which words fit there. It sees up to
`max_tokens` tokens around the position. Nothing is downloaded, and weights are read from safetensors only, unless
`trust` is given.

Only tokens that are whole words are proposed: no pieces ("##ing"), no special tokens, and for tokenizers that mark the
beginning of a word only tokens with that mark. "Patient" and "patient" are one proposal.

Speed: each note is tokenised once, equal windows are run once, windows of similar length share a batch, and the output
layer, which is the largest part of a small network, is run at the masked position only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

from palpate.cases.edits import Ints
from palpate.errors import ConfigError
from palpate.models.devices import Device, DeviceOptions, choose
from palpate.models.networks import require_torch
from palpate.models.text import attention_mask, lengths_of, padded
from palpate.models.text.checkpoints import (
    check_checkpoint,
    lacks_weights,
    load_network,
    load_tokenizer,
    positions_of,
)
from palpate.models.text.sizes import tokens_fitting
from palpate.models.text.windows import clean
from palpate.perturb.words import Hits
from palpate.perturb.words.substitutes import whole_word
from palpate.perturb.words.tokens import normalise_word

_WORD_MARKS = ("\u0120", "\u2581")
_NOTES_AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class MaskedModel:
    """A checkpoint, and what is known about its tokens; made by `load_masked`.

    `words` are the words it may propose; `word_of[token]` is the index of a token's word, or -1.
    """

    words: tuple[str, ...]
    word_of: Ints
    network: Any
    tokenizer: Any
    before: tuple[int, ...]
    after: tuple[int, ...]
    max_tokens: int
    device: Device = field(default_factory=Device)

    @property
    def notices(self) -> tuple[str, ...]:
        """What the run must say about how it computed."""
        return self.device.notices

    def likeliest(self, texts: Sequence[str], hits: Hits, n: int, *, exclude: Sequence[Ints] = ()) -> Ints:
        """Up to n indices into `words` for each hit, best first, then -1; never one of `exclude[hits.word[i]]`."""
        windows, which, place = self._windows(texts, hits)
        asked = hits.word if len(exclude) else np.zeros(len(which), dtype=np.int64)
        pairs, answer = np.unique(np.column_stack([which, asked]), axis=0, return_inverse=True)
        barred = [np.unique(codes) for codes in exclude] or [np.zeros(0, dtype=np.int64)]
        best = np.full((len(pairs), n), -1, dtype=np.int64)
        first = np.searchsorted(pairs[:, 0], np.arange(len(windows) + 1))
        for rows, logits in self._logits(windows, place):
            by_word = self._by_word(logits)
            for k, window in enumerate(rows.tolist()):
                for pair in range(first[window], first[window + 1]):
                    best[pair] = _best(by_word[k], n, barred[pairs[pair, 1]])
        return best[answer.ravel()]

    def _windows(self, texts: Sequence[str], hits: Hits) -> tuple[list[tuple[int, ...]], Ints, list[int]]:
        """The distinct windows, which of them belongs to each hit, and where the mask is in each."""
        known: dict[tuple[tuple[int, ...], int], int] = {}
        which = np.zeros(len(hits.text), dtype=np.int64)
        notes = hits.by_text()
        for low in range(0, len(notes), _NOTES_AT_ONCE):
            some = notes[low : low + _NOTES_AT_ONCE]
            answer = self.tokenizer(
                [clean(texts[text]) for text, _ in some],
                add_special_tokens=False,
                return_offsets_mapping=True,
                verbose=False,
            )
            for k, (_, rows) in enumerate(some):
                ids = answer["input_ids"][k]
                offsets = np.asarray(answer["offset_mapping"][k], dtype=np.int64).reshape(-1, 2)
                for row in rows.tolist():
                    window = self._window(ids, offsets, int(hits.start[row]), int(hits.end[row]))
                    which[row] = known.setdefault(window, len(known))
        return [window for window, _ in known], which, [place for _, place in known]

    def _window(self, ids: list[int], offsets: Ints, start: int, end: int) -> tuple[tuple[int, ...], int]:
        """The tokens around a span, which becomes one mask, and the mask's position; each side may fill half."""
        n_left = int(np.searchsorted(offsets[:, 1], start, side="right"))
        right = int(np.searchsorted(offsets[:, 0], end, side="left"))
        room = self.max_tokens - len(self.before) - len(self.after) - 1
        n_right = len(ids) - right
        take_left = min(n_left, max(room // 2, room - n_right))
        take_right = min(n_right, room - take_left)
        left_ids = ids[n_left - take_left : n_left]
        window = (*self.before, *left_ids, self.tokenizer.mask_token_id, *ids[right : right + take_right], *self.after)
        return window, len(self.before) + take_left

    def _logits(self, windows: list[tuple[int, ...]], place: list[int]) -> Iterator[tuple[Ints, NDArray[np.float32]]]:
        """Batches of windows, and the logits of all tokens at the masks."""
        import torch

        lengths, device = lengths_of(windows), self.device
        # Without a padding token only rows of equal length could share a batch.
        pad = self.tokenizer.pad_token_id
        at = np.asarray(place, dtype=np.int64)

        def forward(rows: Ints) -> Any:
            ids = device.tensor(padded([windows[row] for row in rows], pad or 0))
            mask, masks = device.tensor(attention_mask(lengths[rows])), device.tensor(at[rows])
            with torch.inference_mode(), _only_at(self.network, masks) as cut:
                logits = self.network(input_ids=ids, attention_mask=mask).logits
                return logits[:, 0] if cut else logits[torch.arange(len(rows), device=logits.device), masks]

        budget = tokens_fitting(self.network, self.max_tokens, device)
        yield from device.passes(lengths, forward, budget=budget, max_rows=None if pad is not None else 1)

    def _by_word(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """The largest logit of the tokens of each word."""
        tokens = np.argsort(self.word_of, kind="stable")[np.count_nonzero(self.word_of < 0) :]
        first = np.searchsorted(self.word_of[tokens], np.arange(len(self.words)))
        return np.asarray(np.maximum.reduceat(logits[:, tokens], first, axis=1))


def _best(value: NDArray[np.float32], n: int, barred: Ints) -> Ints:
    """The indices of the n largest values, ties to the lower index, then -1."""
    value = value.copy()
    value[barred] = -np.inf
    k = min(n, len(value))
    out = np.full(n, -1, dtype=np.int64)
    if k:
        least = np.partition(value, len(value) - k)[len(value) - k]
        near = np.flatnonzero((value >= least) & (value > -np.inf))
        top = near[np.argsort(-value[near], kind="stable")][:k]
        out[: len(top)] = top
    return out


@contextmanager
def _only_at(network: Any, place: Any) -> Iterator[bool]:
    """While open, the output layer sees one position per row; gives False if the network does not allow that."""
    layer = network.get_output_embeddings()
    if layer is None:
        yield False
        return

    def cut(_: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        hidden = inputs[0]
        return (hidden[range(len(hidden)), place][:, None], *inputs[1:])

    hook = layer.register_forward_pre_hook(cut)
    try:
        yield True
    finally:
        hook.remove()


# --- loading ------------------------------------------------------------------------------------------------


class MaskedOptions(DeviceOptions):
    """What `language_model` of the audit `vocabulary` may say beside its `source`."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    trust: bool = False
    """Allow a checkpoint with pickled weights (*.bin) or code of its own."""


def load_masked(
    target: Path, *, max_tokens: int = 128, trust: bool = False, options: DeviceOptions | None = None
) -> MaskedModel:
    """The checkpoint in a folder, with its files, weights and tokenizer checked."""
    source = f"the context model {target}"
    check_checkpoint(target, trust=trust)
    require_torch(source, "transformers")
    import transformers

    device = choose(options or DeviceOptions())

    tokenizer = load_tokenizer(target, trust=trust)
    network, missing = load_network(transformers.AutoModelForMaskedLM, target, trust=trust, device=device)
    if missing:
        hint = "a classifier has lost its output layer; give the checkpoint that it was made from"
        raise lacks_weights(missing, "a masked language model", target, hint=hint)
    if not getattr(tokenizer, "is_fast", False) or tokenizer.mask_token_id is None:
        raise ConfigError(
            "the tokenizer has no mask token, or no character offsets (it is not a fast tokenizer)", file=target
        )
    words, word_of = _vocabulary(tokenizer, int(network.config.vocab_size))
    if not words:
        raise ConfigError("no token of this checkpoint is a whole word", file=target)
    before, after = _frame(tokenizer)
    most = min(max_tokens, positions_of(network) or max_tokens)
    if most < len(before) + len(after) + 1:
        raise ConfigError(f"{source}: max_tokens is {most}, which leaves no room for the word")
    return MaskedModel(words, word_of, network, tokenizer, before, after, most, device)


def _vocabulary(tokenizer: Any, n_tokens: int) -> tuple[tuple[str, ...], Ints]:
    """The whole words, ordered by their first token and in lower case where that exists, and the word of each token."""
    entries = sorted(((number, entry) for entry, number in tokenizer.get_vocab().items() if number < n_tokens))
    special = {*tokenizer.all_special_ids, *tokenizer.get_added_vocab().values()}
    mark = next((mark for mark in _WORD_MARKS if any(entry.startswith(mark) for _, entry in entries)), "")
    word_of = np.full(n_tokens, -1, dtype=np.int64)
    code: dict[str, int] = {}
    shown: list[str] = []
    for number, entry in entries:
        word = None if number in special else whole_word(entry, mark=mark)
        if word is None:
            continue
        same = normalise_word(word)
        k = word_of[number] = code.setdefault(same, len(shown))
        if k == len(shown):
            shown.append(word)
        elif word == same:
            shown[k] = word
    return tuple(shown), word_of


def _frame(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The special tokens before and after a text, found by encoding the mask token."""
    ids = list(tokenizer(tokenizer.mask_token)["input_ids"])
    at = ids.index(tokenizer.mask_token_id)
    return tuple(ids[:at]), tuple(ids[at + 1 :])
