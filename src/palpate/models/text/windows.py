"""From text to the token windows that a transformer reads, and the point where it stops reading.

A checkpoint reads at most `max_tokens` tokens at a time. A longer note is cut off behind them (`truncate`), or
read in overlapping windows (`sliding`). A checkpoint that cuts notes into chunks by itself (`chunked`) is given whole
notes, up to `max_tokens` if it has such a limit: the number of its encoder's positions is none.

With a tokenizer that splits at white space before anything else (BERT's and RoBERTa's), the tokens of a text up to
a space do not depend on what follows that space. That is why the end of a long note may be left untokenised, and
why the runner can be told where an edit stops mattering. For other tokenizers neither is done.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.errors import ConfigError
from palpate.models.text import Ints, attention_mask, lengths_of, padded

Long = Literal["truncate", "sliding", "chunked"]

_UNLIMITED = 1_000_000
"""A tokenizer without a limit reports 1e30; no model reads this many tokens at a time."""
_CHARACTERS_PER_TOKEN = 8
"""How much of a text to look at first; English clinical text has about 4."""
_WORD_END = re.compile(r"[!-~](?=[ \t\n])")
"""A character that no tokenizer treats as white space, followed by one that all of them do."""
_LOCAL_NORMALIZERS = {"BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents"}
_LOCAL_PRE_TOKENIZERS = {"BertPreTokenizer", "ByteLevel", "Whitespace", "WhitespaceSplit"}
_LOCAL_MODELS = {"WordPiece", "WordLevel", "BPE"}


class Windows(NamedTuple):
    """Token ids, special ones included; the windows of a row are adjacent and in order."""

    ids: list[list[int]]
    first: Ints
    """Where the windows of each row start; the last entry is how many windows there are."""


class PlacedWindows(NamedTuple):
    """Windows, and where their tokens are in the text: window w holds its row's tokens from `begin[w]` on."""

    windows: Windows
    begin: list[int]
    offsets: list[list[tuple[int, int]]]
    """Start and end, in characters, of every token of each row, including tokens that are in no window."""


class MeanScores:
    """A score for each token of each asked pair: the mean over the windows in which the token was explained."""

    def __init__(self, placed: PlacedWindows, place: Ints) -> None:
        self._placed, self._place = placed, place.tolist()
        n_tokens = [len(placed.offsets[row]) for row in self._place]
        self._sum = [np.zeros(n) for n in n_tokens]
        self._n = [np.zeros(n, dtype=np.int64) for n in n_tokens]

    def add(self, pair: int, window: int, scores: NDArray[np.float64]) -> None:
        """Add the scores of a window's text tokens, without the special ones; an empty text has none."""
        begin = self._placed.begin[window]
        end = begin + min(len(scores), len(self._sum[pair]) - begin)
        self._sum[pair][begin:end] += scores[: end - begin]
        self._n[pair][begin:end] += 1

    def pieces(self) -> tuple[list[list[tuple[int, int]]], list[NDArray[np.float64]]]:
        """Offsets and scores of the tokens that were read, for each pair."""
        seen = [np.flatnonzero(n) for n in self._n]
        offsets = [[self._placed.offsets[row][t] for t in some] for row, some in zip(self._place, seen, strict=True)]
        return offsets, [s[some] / n[some] for s, n, some in zip(self._sum, self._n, seen, strict=True)]


class Frame(NamedTuple):
    """The special tokens around a text, and the token types that go with them."""

    before: list[int]
    after: list[int]
    type_before: list[int]
    type_inside: int
    type_after: list[int]

    @property
    def has_types(self) -> bool:
        """Whether the model's default token types, all zeros, would be wrong."""
        return any([*self.type_before, self.type_inside, *self.type_after])

    def types(self, n_tokens: int) -> list[int]:
        """The token types of a window of `n_tokens`, special ones included."""
        inside = n_tokens - len(self.before) - len(self.after)
        return [*self.type_before, *([self.type_inside] * inside), *self.type_after]

    def batch(self, ids: Sequence[list[int]], pad: int) -> dict[str, Ints]:
        """What a transformer takes for some windows: ids, mask and, where they matter, token types."""
        lengths = lengths_of(ids)
        out = {"input_ids": padded(ids, pad), "attention_mask": attention_mask(lengths)}
        if self.has_types:
            out["token_type_ids"] = padded([self.types(int(n)) for n in lengths], 0)
        return out


@dataclass(frozen=True)
class TextWindows:
    """A tokenizer, and which part of a text it is used on; made by `text_windows`."""

    tokenizer: Any
    long: Long
    max_tokens: int | None
    size: int
    """Tokens of text in a window, without the special ones."""
    overlap: int
    frame: Frame
    filler: int
    """Stands for an empty text where the tokenizer adds no special tokens."""
    only_head: bool
    """Whether what follows the first `size` tokens can be ignored without being tokenised."""

    @property
    def reads(self) -> str | None:
        """How much of a text is read, in words; None: all of it."""
        if self.max_tokens is None or self.long == "sliding":
            return None
        return f"the {'last' if _cut_left(self.tokenizer) else 'first'} {self.max_tokens} tokens"

    def encode(self, texts: Sequence[str]) -> Windows:
        """The windows of each text; every text has at least one."""
        ids: list[list[int]] = []
        first = [0]
        for body in self._bodies(texts):
            ids += [self._framed(body[start : start + self.size]) for start in self._starts(len(body))]
            first.append(len(ids))
        return Windows(ids, np.asarray(first, dtype=np.int64))

    def place(self, texts: Sequence[str]) -> PlacedWindows:
        """The windows that `encode` gives, with the character offsets of their tokens; needs a fast tokenizer."""
        encodings = self._head_encodings(texts) if self.only_head else self._encodings(texts)
        ids: list[list[int]] = []
        first, begin = [0], list[int]()
        for encoding in encodings:
            starts = self._starts(len(encoding))
            ids += [self._framed(encoding.ids[start : start + self.size]) for start in starts]
            begin += starts
            first.append(len(ids))
        windows = Windows(ids, np.asarray(first, dtype=np.int64))
        return PlacedWindows(windows, begin, [list(encoding.offsets) for encoding in encodings])

    def visible_ends(self, texts: Sequence[str]) -> Ints:
        """The character from which on an edit leaves the windows unchanged; past the end if there is none.

        That is the space after the word of the last token read. Offsets alone are not trusted: the text up to that
        space, tokenised by itself, must give the same tokens, or the whole text counts as read.
        """
        ends = np.fromiter((len(text) + 1 for text in texts), dtype=np.int64, count=len(texts))
        if not self.only_head:
            return ends
        cuts: dict[int, int] = {}
        encodings = self._head_encodings(texts)
        for row, encoding in enumerate(encodings):
            if len(encoding) >= self.size:
                cut = _word_end(texts[row], encoding.offsets[self.size - 1][1])
                if cut is not None:
                    cuts[row] = cut
        alone = self._tokens([texts[row][:cut] for row, cut in cuts.items()])
        for (row, cut), body in zip(cuts.items(), alone, strict=True):
            if body[: self.size] == encodings[row].ids[: self.size]:
                ends[row] = cut + 1
        return ends

    def _bodies(self, texts: Sequence[str]) -> list[list[int]]:
        if self.only_head:
            return [encoding.ids for encoding in self._head_encodings(texts)]
        return self._tokens(texts)

    def _head_encodings(self, texts: Sequence[str]) -> list[Any]:
        """Tokens of the first part of each text where that is enough, and of the whole text elsewhere."""
        bound = self.size * _CHARACTERS_PER_TOKEN
        cuts = [_word_end(text, bound) for text in texts]
        encodings = self._encodings([text[:cut] for text, cut in zip(texts, cuts, strict=True)])
        short = [row for row, cut in enumerate(cuts) if cut is not None and len(encodings[row]) < self.size]
        for row, encoding in zip(short, self._encodings([texts[row] for row in short]), strict=True):
            encodings[row] = encoding
        return encodings

    def _encodings(self, texts: Sequence[str]) -> list[Any]:
        if not texts:
            return []
        texts = [clean(text) for text in texts]
        return list(self.tokenizer(texts, add_special_tokens=False, verbose=False).encodings)

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        answer = self.tokenizer(
            [clean(text) for text in texts],
            add_special_tokens=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
        )
        ids: list[list[int]] = answer["input_ids"]
        return ids

    def _framed(self, part: list[int]) -> list[int]:
        return [*self.frame.before, *part, *self.frame.after] or [self.filler]

    def _starts(self, n_tokens: int) -> list[int]:
        """Where the windows of a text begin; as with transformers' `stride`, windows share `overlap` tokens."""
        if n_tokens <= self.size:
            return [0]
        if self.long != "sliding":
            return [n_tokens - self.size if _cut_left(self.tokenizer) else 0]
        return list(range(0, n_tokens - self.overlap, self.size - self.overlap))


def text_windows(
    tokenizer: Any, *, long: Long, max_tokens: int | None, limit: int | None, stride: int | None, source: str
) -> TextWindows:
    """How a checkpoint with this tokenizer reads texts; `limit` is the number of positions the model has."""
    declared = int(min(tokenizer.model_max_length or _UNLIMITED, _UNLIMITED))
    known = [n for n in (limit, declared) if n is not None and 0 < n < _UNLIMITED and long != "chunked"]
    most = max_tokens if max_tokens is not None else min(known, default=None)
    if limit is not None and most is not None and most > limit and long != "chunked":
        raise ConfigError(
            f"{source}: max_tokens is {most}, but the model has {limit} positions",
            hint="`long: sliding` reads longer notes in windows; `long: chunked` is for checkpoints that cut notes "
            "into chunks by themselves",
        )
    frame = _frame(tokenizer, source)
    size = (_UNLIMITED if most is None else most) - len(frame.before) - len(frame.after)
    if size < 1:
        raise ConfigError(f"{source}: max_tokens is {most}, which leaves no room for text")
    overlap = size // 4 if stride is None else stride
    if overlap >= size:
        raise ConfigError(
            f"{source}: stride is {overlap}, but a window holds {size} tokens of text",
            hint="stride is how many tokens two windows share",
        )
    only_head = long != "sliding" and most is not None and _is_local(tokenizer) and not _cut_left(tokenizer)
    return TextWindows(tokenizer, long, most, size, overlap, frame, _filler(tokenizer), only_head)


def _frame(tokenizer: Any, source: str) -> Frame:
    """The special tokens, found by encoding a word with and without them."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    answer = tokenizer("a", return_token_type_ids=True)
    ids = list(answer["input_ids"])
    types = list(answer.get("token_type_ids") or [0] * len(ids))
    starts = [i for i in range(len(ids)) if ids[i : i + len(bare)] == bare]
    if not bare or not starts:
        raise ConfigError(f"{source}: the tokenizer does not encode a plain word")
    at, end = starts[0], starts[0] + len(bare)
    return Frame(ids[:at], ids[end:], types[:at], types[at], types[end:])


def _filler(tokenizer: Any) -> int:
    known = (tokenizer.eos_token_id, tokenizer.bos_token_id, tokenizer.unk_token_id, tokenizer.pad_token_id)
    return next((int(token) for token in known if token is not None), 0)


def _cut_left(tokenizer: Any) -> bool:
    return bool(getattr(tokenizer, "truncation_side", "right") == "left")


def _is_local(tokenizer: Any) -> bool:
    """Whether the tokens before a space never depend on what follows it; False if in doubt."""
    if not getattr(tokenizer, "is_fast", False):
        return False
    parts = json.loads(tokenizer.backend_tokenizer.to_str())
    normalizers = _steps(parts["normalizer"], "normalizers")
    splitters = _steps(parts["pre_tokenizer"], "pretokenizers")
    return (
        all(step["type"] in _LOCAL_NORMALIZERS for step in normalizers)
        and bool(splitters)
        and splitters[0]["type"] in _LOCAL_PRE_TOKENIZERS
        and splitters[0].get("use_regex", True)
        and parts["model"]["type"] in _LOCAL_MODELS
        and not parts["model"].get("dropout")
        and not any(character.isspace() for token in parts["added_tokens"] for character in token["content"])
    )


def _steps(part: dict[str, Any] | None, of_sequence: str) -> list[dict[str, Any]]:
    if part is None:
        return []
    return list(part[of_sequence]) if part["type"] == "Sequence" else [part]


def _word_end(text: str, at: int) -> int | None:
    """The first offset at or after `at` where a word ends before a space; None if there is none."""
    found = _WORD_END.search(text, max(at - 1, 0))
    return found.end() if found else None


def clean(text: str) -> str:
    """The text without unpaired surrogates, which tokenizers refuse; its length stays the same."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
