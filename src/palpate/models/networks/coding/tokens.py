"""The tokens that a chunked coding model reads: its encoder's tokenizer, and the first tokens of a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from palpate.errors import ConfigError
from palpate.models.networks.coding.words import Ints, WordSequence
from palpate.models.text.checkpoints import load_tokenizer, quiet
from palpate.models.text.windows import TextWindows, text_windows


@dataclass(frozen=True)
class TokenWindow:
    """A tokenizer, and how many tokens of a text are read; made by `token_window`."""

    windows: TextWindows
    max_tokens: int

    @property
    def tokenizer(self) -> Any:
        """The encoder's tokenizer."""
        return self.windows.tokenizer

    @property
    def words(self) -> tuple[str, ...]:
        """The tokenizer's entries, without the special ones."""
        special = {*self.tokenizer.all_special_tokens, *self.tokenizer.get_added_vocab()}
        return tuple(entry for entry in self.tokenizer.get_vocab() if entry not in special)

    @property
    def padding(self) -> int:
        """The id that fills up a row."""
        pad = self.tokenizer.pad_token_id
        return self.windows.filler if pad is None else int(pad)

    @property
    def reads(self) -> str:
        """How much of a text is read."""
        return f"the first {self.max_tokens:,} tokens"

    def read(self, texts: Sequence[str]) -> list[WordSequence]:
        """The first tokens of each text, special ones included, which have no characters."""
        placed, frame = self.windows.place(texts), self.windows.frame
        out = []
        for row, text in enumerate(texts):
            ids = np.asarray(placed.windows.ids[row], dtype=np.int64)
            inside = placed.offsets[row][placed.begin[row] :][: self.windows.size]
            behind = [(len(text) + 1,) * 2] * (len(ids) - len(frame.before) - len(inside))
            places = np.asarray([*([(0, 0)] * len(frame.before)), *inside, *behind], dtype=np.int64).reshape(-1, 2)
            out.append(WordSequence(ids, places[:, 0], places[:, 1]))
        return out

    def blank(self, ids: Sequence[int]) -> list[int]:
        """The same number of tokens without text; the special ones around it stay."""
        frame = self.windows.frame
        inside = max(len(ids) - len(frame.before) - len(frame.after), 0)
        return [*frame.before, *([self.padding] * inside), *frame.after][: len(ids)] or [self.padding]

    def visible_ends(self, texts: Sequence[str]) -> Ints:
        """The character from which on an edit changes nothing; past the end if there is none."""
        return self.windows.visible_ends(texts)

    def write(self, folder: Path) -> None:
        """Write the tokenizer."""
        with quiet():
            self.tokenizer.save_pretrained(folder)


def token_window(tokenizer: Any, max_tokens: int, *, source: str) -> TokenWindow:
    """How much of a text is read with this tokenizer, which must say where its tokens are."""
    if not getattr(tokenizer, "is_fast", False):
        hint = "give a checkpoint with a tokenizer.json"
        raise ConfigError(f"{source}: the tokenizer does not say where its tokens are in a text", hint=hint)
    windows = text_windows(tokenizer, long="chunked", max_tokens=max_tokens, limit=None, stride=None, source=source)
    return TokenWindow(windows, max_tokens)


def read_tokens(folder: Path, max_tokens: int) -> TokenWindow:
    """The tokenizer in a folder."""
    return token_window(load_tokenizer(folder, trust=False), max_tokens, source=f"palpate:{folder.parent.name}")
