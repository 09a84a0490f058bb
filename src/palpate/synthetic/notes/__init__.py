"""Notes: sentences from a phrase grammar, and drafts that remember which words were written for which condition."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from palpate.files import read_resource
from palpate.synthetic.dice import Dice
from palpate.synthetic.patients.conditions import words_of
from palpate.synthetic.plants import SPURIOUS_WORD

Word = str | Callable[[Dice], str]
Context = Mapping[str, Word]
_Part = Callable[[Dice, Context], str]
_SLOT = re.compile(r"\{([^{}]+)\}")
_RANGE = re.compile(r"(\d+(?:\.(\d+))?)-(\d+(?:\.\d+)?)")
_LONG_LINE = re.compile(r"(?=[^\n]{81})([^\n]{40,80}) ")
_TYPO_RATE = 0.035
_KEEP = frozenset(
    f"{SPURIOUS_WORD} male female woman women gentleman lady husband daughter mother father brother sister white black "
    "african american hispanic asian caucasian latino latina years".split()
)


class ConditionSpan(NamedTuple):
    """Words of a note that were written because of a condition."""

    begin: int
    end: int
    condition: str


class Grammar:
    """Fills the slots of phrases; each phrase is compiled once."""

    def __init__(self, lists: Mapping[str, Sequence[str]]) -> None:
        self._lists = lists
        self._compiled: dict[str, tuple[str | _Part, ...]] = {}

    def fill(self, phrase: str, dice: Dice, context: Context) -> str:
        """The phrase with its slots filled."""
        parts = self._compiled.get(phrase)
        if parts is None:
            parts = self._compiled[phrase] = self._compile(phrase)
        return "".join([part if type(part) is str else part(dice, context) for part in parts])  # type: ignore[operator]

    def one(self, key: str, dice: Dice, context: Context) -> str:
        """One phrase of a list."""
        return self.fill(dice.pick(self._lists[key]), dice, context)

    def some(self, key: str, n: int, dice: Dice, context: Context) -> list[str]:
        """Several different phrases of a list."""
        return [self.fill(phrase, dice, context) for phrase in dice.sample(self._lists[key], n)]

    def _compile(self, phrase: str) -> tuple[str | _Part, ...]:
        pieces = _SLOT.split(phrase)
        return tuple(self._slot(piece) if k % 2 else piece for k, piece in enumerate(pieces) if piece)

    def _slot(self, name: str) -> _Part:
        numbers = _RANGE.fullmatch(name)
        if numbers is not None:
            return _number(numbers[1], numbers[3], len(numbers[2] or ""))
        lower = name.lower()
        listed = self._lists.get(lower)
        if listed is None:
            return _from_context(name)
        if name == lower:
            return lambda dice, context: self.fill(dice.pick(listed), dice, context)
        change = str.upper if name.isupper() else _capital
        return lambda dice, context: change(self.fill(dice.pick(listed), dice, context))


def _number(low: str, high: str, digits: int) -> _Part:
    if digits == 0:
        first, last = int(low), int(high)
        return lambda dice, _: str(dice.integer(first, last))
    scale = 10**digits
    start, stop = round(float(low) * scale), round(float(high) * scale)
    return lambda dice, _: f"{dice.integer(start, stop) / scale:.{digits}f}"


def _from_context(name: str) -> _Part:
    def part(dice: Dice, context: Context) -> str:
        value = context.get(name)
        if value is None:
            inner = context[name.lower()]
            return _capital(inner if isinstance(inner, str) else inner(dice))
        return value if isinstance(value, str) else value(dice)

    return part


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


class Draft:
    """A note that is being written. Offsets count from its start; wrapped lines and typos do not invalidate them."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._parts: list[str] = []
        self._length = 0
        self.spans: list[ConditionSpan] = []

    def add(self, text: str, *, condition: str | None = None) -> None:
        """Add text as it is; what is in [[ ]] is marked as written for the condition."""
        while condition is not None and (start := text.find("[[")) >= 0:
            stop = text.index("]]", start)
            self._append(text[:start])
            begin = self._length
            self._append(text[start + 2 : stop])
            self.spans.append(ConditionSpan(begin, self._length, condition))
            text = text[stop + 2 :]
        self._append(text)

    def say(self, sentence: str, *, condition: str | None = None) -> None:
        """Add a sentence and a space, sometimes with a typing error."""
        if self._dice.uniform() < _TYPO_RATE * len(sentence) / 60:
            sentence = mistype(sentence, self._dice)
        self.add(sentence, condition=condition)
        self._append(" ")

    def lines(self, lines: Iterable[str]) -> None:
        """Add lines, sometimes with a typing error."""
        for line in lines:
            self._append((mistype(line, self._dice) if self._dice.uniform() < _TYPO_RATE else line) + "\n")

    def heading(self, title: str) -> None:
        """Start a section."""
        self._append(f"\n\n{title}\n")

    def _append(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)

    def raw(self) -> str:
        """The text with no other line breaks than those written."""
        return "".join(self._parts)

    def text(self) -> str:
        """The note; long lines are broken at a space, which changes no offset."""
        return _LONG_LINE.sub("\\1\n", self.raw())


def mistype(text: str, dice: Dice) -> str:
    """One word of the text with two letters swapped, one lost or one doubled."""
    words = text.split(" ")
    at = int(dice.uniform() * len(words))
    word = words[at]
    if len(word) < 5 or not word.isalpha() or word.lower() in _KEEP:
        return text
    k, kind = 1 + int(dice.uniform() * (len(word) - 2)), dice.uniform()
    if kind < 0.45:
        word = word[:k] + word[k + 1] + word[k] + word[k + 2 :]
    elif kind < 0.75:
        word = word[:k] + word[k + 1 :]
    else:
        word = word[:k] + word[k] + word[k:]
    words[at] = word
    return " ".join(words)


@lru_cache(maxsize=1)
def grammar() -> Grammar:
    """Lexicon, medicines and phrases together."""
    lexicon, drugs = (read_resource("palpate.synthetic.notes", f"{name}.yaml") for name in ("lexicon", "drugs"))
    lists: dict[str, Sequence[str]] = {key: words_of(text) for key, text in lexicon.items()}
    lists["otherdrug"] = words_of(drugs["other"])
    lists.update(phrases())
    return Grammar(lists)


@lru_cache(maxsize=1)
def phrases() -> Mapping[str, Sequence[str]]:
    """The sentences by section."""
    table: Mapping[str, Any] = read_resource("palpate.synthetic.notes", "phrases.yaml")
    return {key: tuple(rows) for key, rows in table.items()}
