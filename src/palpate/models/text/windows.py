"""From text to the token windows that a transformer reads, and from where on it stops reading.

A checkpoint reads at most `max_tokens` tokens at a time. A longer note is cut after the first ones
(`truncate`), or read in overlapping windows (`sliding`).

The tokens of a text up to a space do not depend on what comes after that space, for the tokenizers that split
at white space before anything else (BERT's and RoBERTa's). This is what makes it right to leave the end of a
long note untokenised and to tell the runner from where on an edit can't matter. For any other tokenizer both
are left out.
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

Ints = NDArray[np.int64]
Long = Literal["truncate", "sliding"]

_UNLIMITED = 1_000_000
"""A tokenizer without a limit says 1e30; no model reads this many tokens at a time."""
_CHARACTERS_PER_TOKEN = 8
"""How much of a text to look at first; English clinical text has about 4."""
_WORD_END = re.compile(r"[!-~](?=[ \t\n])")
"""A character that no tokenizer takes for white space, before one that all take for it."""
_LOCAL_NORMALIZERS = {"BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents"}
_LOCAL_PRE_TOKENIZERS = {"BertPreTokenizer", "ByteLevel", "Whitespace", "WhitespaceSplit"}
_LOCAL_MODELS = {"WordPiece", "WordLevel", "BPE"}


class Windows(NamedTuple):
    """Token ids, special ones included; the windows of a row are neighbours, in order."""

    ids: list[list[int]]
    first: Ints
    """Where the windows of each row start, and, last, how many there are."""


class Placed(NamedTuple):
    """Windows, and where their tokens of text stand: window w holds the tokens from `begin[w]` on of its row."""

    windows: Windows
    begin: list[int]
    offsets: list[list[tuple[int, int]]]
    """Start and end in characters of every token of each row, those that no window holds too."""


class Frame(NamedTuple):
    """The special tokens around a text, and the token types that go with them."""

    before: list[int]
    after: list[int]
    type_before: list[int]
    type_inside: int
    type_after: list[int]

    @property
    def has_types(self) -> bool:
        """Whether leaving the token types to the model's default, zeros, would be wrong."""
        return any([*self.type_before, self.type_inside, *self.type_after])

    def types(self, n_tokens: int) -> list[int]:
        """The token types of a window of `n_tokens`, special ones included."""
        inside = n_tokens - len(self.before) - len(self.after)
        return [*self.type_before, *([self.type_inside] * inside), *self.type_after]


@dataclass(frozen=True)
class TextWindows:
    """A tokenizer with the part of a text that is read; made by `text_windows`."""

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
    """Whether what comes after the first `size` tokens can be ignored, unseen."""

    @property
    def reads(self) -> str | None:
        """How much of a text is read, for people; None: all of it."""
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

    def place(self, texts: Sequence[str]) -> Placed:
        """The windows that `encode` gives, and the characters of their tokens; needs a fast tokenizer."""
        encodings = self._head_encodings(texts) if self.only_head else self._encodings(texts)
        ids: list[list[int]] = []
        first, begin = [0], list[int]()
        for encoding in encodings:
            starts = self._starts(len(encoding))
            ids += [self._framed(encoding.ids[start : start + self.size]) for start in starts]
            begin += starts
            first.append(len(ids))
        return Placed(Windows(ids, np.asarray(first, dtype=np.int64)), begin, [list(e.offsets) for e in encodings])

    def visible_ends(self, texts: Sequence[str]) -> Ints:
        """From which character on an edit leaves the windows as they are; past the end if none does.

        That is the space behind the word of the last token read. Offsets are not trusted alone: the text up to that
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
        """Tokens of the first part of each text, where that is enough, and of all of it elsewhere."""
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
        """Where the windows of a text begin; HF's meaning of stride: windows share `overlap` tokens."""
        if n_tokens <= self.size:
            return [0]
        if self.long == "truncate":
            return [n_tokens - self.size if _cut_left(self.tokenizer) else 0]
        return list(range(0, n_tokens - self.overlap, self.size - self.overlap))


def text_windows(
    tokenizer: Any, *, long: Long, max_tokens: int | None, limit: int | None, stride: int | None, source: str
) -> TextWindows:
    """How a checkpoint with this tokenizer reads texts; `limit` is how many positions the model has."""
    declared = int(min(tokenizer.model_max_length or _UNLIMITED, _UNLIMITED))
    known = [n for n in (limit, declared) if n is not None and 0 < n < _UNLIMITED]
    most = max_tokens if max_tokens is not None else min(known, default=None)
    if limit is not None and most is not None and most > limit:
        raise ConfigError(f"{source}: max_tokens is {most}, but the model has {limit} positions")
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
    only_head = long == "truncate" and most is not None and _is_local(tokenizer) and not _cut_left(tokenizer)
    return TextWindows(tokenizer, long, most, size, overlap, frame, _filler(tokenizer), only_head)


def _frame(tokenizer: Any, source: str) -> Frame:
    """The special tokens, seen from how a word is encoded with and without them."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    answer = tokenizer("a", return_token_type_ids=True)
    ids = list(answer["input_ids"])
    types = list(answer.get("token_type_ids") or [0] * len(ids))
    starts = [i for i in range(len(ids)) if ids[i : i + len(bare)] == bare]
    if not bare or not starts:
        raise ConfigError(f"{source}: the tokenizer does not give the tokens of a plain word")
    at, end = starts[0], starts[0] + len(bare)
    return Frame(ids[:at], ids[end:], types[:at], types[at], types[end:])


def _filler(tokenizer: Any) -> int:
    known = (tokenizer.eos_token_id, tokenizer.bos_token_id, tokenizer.unk_token_id, tokenizer.pad_token_id)
    return next((int(token) for token in known if token is not None), 0)


def _cut_left(tokenizer: Any) -> bool:
    return bool(getattr(tokenizer, "truncation_side", "right") == "left")


def _is_local(tokenizer: Any) -> bool:
    """Whether the tokens before a space are safe from what comes after it; if in doubt, no."""
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
    """The first offset from `at` on where a word ends before a space; None if there is none."""
    found = _WORD_END.search(text, max(at - 1, 0))
    return found.end() if found else None


def clean(text: str) -> str:
    """The text without lone surrogates, which tokenizers refuse; as many characters as before."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
