"""A masked language model from a folder: the likeliest words at a place (vocabulary-sensitivity, section 2.3).

The tokens of the word are replaced with one mask token, and the network is asked for the words that fit there. It sees
up to `max_tokens` tokens around the place. Nothing is downloaded, and weights are read from safetensors only, unless
`trust` is given.

Only tokens that are whole words are answers: no pieces ("##ing"), no special tokens, and for tokenizers that mark
the beginning of words only tokens with that mark. "Patient" and "patient" are one answer.

Speed: each note is tokenised once, equal windows are run once, windows of like length share a batch, and the output
layer, which is the largest part of a small network, is run for the masked place only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palpate.cases.edits import Ints
from palpate.errors import ConfigError, MissingExtra
from palpate.models.adapters.hf import load_tokenizer, positions_of, quiet
from palpate.models.text.batches import attention_mask, batches_within, padded
from palpate.models.text.windows import clean
from palpate.perturb.words import Hits
from palpate.perturb.words.substitutes import whole_word
from palpate.perturb.words.tokens import normalise_word

_WORD_MARKS = ("\u0120", "\u2581")
_BATCH_TOKENS = 4096
_NOTES_AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class MaskedModel:
    """A checkpoint with what is known about its tokens; made by `load_masked`.

    `words` are what it may propose; `word_of[token]` is the index of a token's word, or -1.
    """

    words: tuple[str, ...]
    word_of: Ints
    network: Any
    tokenizer: Any
    before: tuple[int, ...]
    after: tuple[int, ...]
    max_tokens: int

    def likeliest(self, texts: Sequence[str], hits: Hits, n: int, *, exclude: Sequence[Ints] = ()) -> Ints:
        """Up to n indices into `words` for each hit, best first, then -1; `exclude[hits.word[i]]` are not given."""
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
        """The different windows, which of them each hit has, and where the mask is in each."""
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
        """The tokens around a span, which is one mask, and where the mask is; both sides get half if they need it."""
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
        """Batches of windows, and the logits of all tokens at their masks."""
        import torch

        lengths = np.fromiter(map(len, windows), dtype=np.int64, count=len(windows))
        # Without a padding token rows of one length are still fine, but rows of several are not.
        pad = self.tokenizer.pad_token_id
        max_rows = None if pad is not None else 1
        at = np.asarray(place, dtype=np.int64)
        for rows in batches_within(_BATCH_TOKENS, lengths, max_rows=max_rows):
            ids = torch.from_numpy(padded([windows[row] for row in rows], pad or 0))
            mask = torch.from_numpy(attention_mask(lengths[rows]))
            with torch.inference_mode(), _only_at(self.network, torch.from_numpy(at[rows])) as cut:
                logits = self.network(input_ids=ids, attention_mask=mask).logits
                logits = logits[:, 0] if cut else logits[torch.arange(len(rows)), torch.from_numpy(at[rows])]
            yield rows, logits.float().numpy()

    def _by_word(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """The largest logit of the tokens of each word."""
        tokens = np.argsort(self.word_of, kind="stable")[np.count_nonzero(self.word_of < 0) :]
        first = np.searchsorted(self.word_of[tokens], np.arange(len(self.words)))
        return np.asarray(np.maximum.reduceat(logits[:, tokens], first, axis=1))


def _best(value: NDArray[np.float32], n: int, barred: Ints) -> Ints:
    """The n places of the largest values, ties to the lower place, then -1."""
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
    """While it is open, the output layer sees one place of each row; false if the network can't be cut so."""
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


def load_masked(target: Path, *, max_tokens: int = 128, trust: bool = False) -> MaskedModel:
    """The checkpoint in a folder, checked: its files, its task, its weights, its tokenizer."""
    source = f"the context model {target}"
    if not (target / "config.json").is_file():
        hint = "nothing is downloaded: give the folder of a transformers checkpoint on this machine"
        raise ConfigError("this folder has no config.json, so it is no checkpoint", file=target, hint=hint)
    if not trust and not any(target.glob("*.safetensors")):
        hint = "save the checkpoint as safetensors, or say trust: true"
        raise ConfigError("this checkpoint has no weights as safetensors", file=target, hint=hint)
    try:
        import transformers
    except ImportError:
        raise MissingExtra("torch", needed_for=source) from None
    with quiet(transformers):
        tokenizer = load_tokenizer(transformers, target, trust=trust)
        network = _network(transformers, target, trust=trust)
    if not getattr(tokenizer, "is_fast", False) or tokenizer.mask_token_id is None:
        raise ConfigError("the tokenizer has no mask token, or can't tell where its tokens are in a text", file=target)
    words, word_of = _vocabulary(tokenizer, int(network.config.vocab_size))
    if not words:
        raise ConfigError("no token of this checkpoint is a whole word", file=target)
    before, after = _frame(tokenizer)
    most = min(max_tokens, positions_of(network) or max_tokens)
    if most < len(before) + len(after) + 1:
        raise ConfigError(f"{source}: max_tokens is {most}, which leaves no room for the word")
    return MaskedModel(words, word_of, network, tokenizer, before, after, most)


def _network(transformers: Any, path: Path, *, trust: bool) -> Any:
    """The network with all its weights; an output layer that the file does not hold is never made up."""
    try:
        network, report = transformers.AutoModelForMaskedLM.from_pretrained(
            path,
            local_files_only=True,
            trust_remote_code=trust,
            use_safetensors=None if trust else True,
            output_loading_info=True,
        )
    except Exception as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ConfigError(f"the weights can't be loaded: {first}", file=path) from error
    missing = sorted(str(key) for key in (*report["missing_keys"], *report["mismatched_keys"]))
    if missing:
        raise ConfigError(
            f"the checkpoint lacks {len(missing)} weights of a masked language model, among them {missing[0]}",
            file=path,
            hint="a classifier has lost its output layer; give the checkpoint that it was made from",
        )
    return network.float().eval()


def _vocabulary(tokenizer: Any, n_tokens: int) -> tuple[tuple[str, ...], Ints]:
    """The whole words, in order of their first token, lower case if there is one, and the word of each token."""
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
    """The special tokens before and behind a text, seen from how the mask is encoded."""
    ids = list(tokenizer(tokenizer.mask_token)["input_ids"])
    at = ids.index(tokenizer.mask_token_id)
    return tuple(ids[:at]), tuple(ids[at + 1 :])
