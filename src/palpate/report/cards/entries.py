"""Items of a card: sentences with their sources, from what was measured and what people wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from palpate.report.cards.facts import known_facts


class Statement(NamedTuple):
    """One sentence and where it comes from: a row of the results, the manifest, or the facts file."""

    text: str
    source: str
    number: Mapping[str, Any] | None = None
    """The estimate itself, for formats that take data: name, value, low, high, n."""
    needs: str = ""
    """The fact without which it can't be told."""
    parts: tuple[str, ...] = ()
    """What it lists, for formats that have an element for each."""


class Unwritten(NamedTuple):
    """What is still to be written, and by whom."""

    key: str
    who: str
    asks: str

    @property
    def sentence(self) -> str:
        """What the card says in its place."""
        return f"To be written by the {self.who}: {self.asks} (facts file: {self.key})."


class Item(NamedTuple):
    """One field of a card."""

    name: str
    asks: str
    section: str
    statements: tuple[Statement, ...]
    missing: tuple[Unwritten, ...]

    @property
    def text(self) -> str:
        """The field as one text: what is known, then who must write the rest."""
        return "\n".join([*(each.text for each in self.statements), *(each.sentence for each in self.missing)])

    @property
    def sources(self) -> tuple[str, ...]:
        """Where its sentences come from, each once."""
        return tuple(dict.fromkeys(each.source for each in self.statements))


class Wells(NamedTuple):
    """What a card can draw on."""

    measured: Mapping[str, tuple[Statement, ...]]
    facts: Mapping[str, Any]
    facts_file: str

    def item(self, name: str, asks: str, section: str, keys: Sequence[str]) -> Item:
        """The item that takes its text from these keys, measured ones and facts."""
        statements: list[Statement] = []
        open_ones: list[str] = []
        for key in keys:
            if key in self.measured:
                statements += self.measured[key]
                open_ones += [each.needs for each in self.measured[key] if each.needs]
            elif key in self.facts:
                statements.append(_quoted(self.facts[key], f"{self.facts_file}: {key}"))
            else:
                open_ones.append(key)
        known = known_facts()
        missing = tuple(Unwritten(key, known[key].who, known[key].asks) for key in dict.fromkeys(open_ones))
        return Item(name, asks, section, tuple(statements), missing)


def _quoted(fact: object, source: str) -> Statement:
    """What a person wrote; of several parts, one that has a comma itself makes them be separated by semicolons."""
    if not isinstance(fact, tuple):
        return Statement(str(fact), source)
    return Statement(("; " if any("," in part for part in fact) else ", ").join(fact), source, parts=fact)
