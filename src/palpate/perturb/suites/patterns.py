"""Template texts: `I [took|was given] {drug} and it gave me {effect}.`

`[one|other]` are alternatives; every combination of them is a linguistic variation of the same base template.
`{slot}` is filled from a lexicon, `{slot:form}` with a form of the value: `upper`, `lower`, `capital`, `a` (with its
article), `misspelt`, or an attribute of the lexicon, such as `abbreviation`. A literal bracket or brace is written
twice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple

MOST_VARIATIONS = 10_000

_TOKEN = re.compile(r"\[\[|\]\]|\{\{|\}\}|[\[\]{}|]|[^\[\]{}|]+")
_SLOT = re.compile(r"(?P<name>[A-Za-z_][\w]*)(?::(?P<form>[A-Za-z_][\w]*))?")


class PatternError(ValueError):
    """A template text that can't be parsed; the message is a sentence without file and line."""


class Slot(NamedTuple):
    """A slot: its name and the form of its value, empty for the value as it is."""

    name: str
    form: str = ""

    def written(self) -> str:
        """The slot as it is written in a template."""
        return f"{{{self.name}:{self.form}}}" if self.form else f"{{{self.name}}}"


Part = str | Slot
Sequenced = tuple[Part, ...]


class Flat(NamedTuple):
    """One variation: fixed pieces with slots between them; there is one more piece than slots."""

    pieces: tuple[str, ...]
    slots: tuple[Slot, ...]

    def written(self) -> str:
        """The variation as a template without alternatives."""
        slots = [slot.written() for slot in self.slots]
        return "".join(piece + slot for piece, slot in zip(self.pieces, [*slots, ""], strict=True))

    def source(self) -> str:
        """The same as a template that is read without alternatives: literal braces are written twice."""
        return Flat(tuple(re.sub(r"[{}]", r"\g<0>\g<0>", piece) for piece in self.pieces), self.slots).written()


@dataclass(frozen=True)
class Pattern:
    """A parsed template text: a sequence of groups, each with one or more alternatives."""

    groups: tuple[tuple[Sequenced, ...], ...]

    @property
    def radices(self) -> tuple[int, ...]:
        """How many alternatives each choice has; groups without a choice don't count."""
        return tuple(len(group) for group in self.groups if len(group) > 1)

    @property
    def n_variations(self) -> int:
        """The number of combinations of alternatives."""
        return prod(self.radices)

    def variations(self) -> list[Flat]:
        """All variations; the last choice changes fastest."""
        return [flatten([part for group in chosen for part in group]) for chosen in product(*self.groups)]


def flatten(parts: Sequence[Part]) -> Flat:
    """Join the neighbouring fixed pieces."""
    pieces, slots = [""], []
    for part in parts:
        if isinstance(part, Slot):
            slots.append(part)
            pieces.append("")
        else:
            pieces[-1] += part
    return Flat(tuple(pieces), tuple(slots))


def parse(text: str, *, alternatives: bool = True) -> Pattern:
    """Parse a template text; with `alternatives=False`, square brackets and bars are plain characters."""
    groups: list[tuple[Sequenced, ...]] = []
    options: list[list[Part]] | None = None
    current: list[Part] = []
    tokens = _TOKEN.findall(text)
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token == "{":
            if at + 2 >= len(tokens) or tokens[at + 2] != "}":
                empty = tokens[at + 1 : at + 2] == ["}"]
                raise PatternError("{} has no name; write {drug} or {{}}" if empty else "a { is not closed by a }")
            current.append(_slot(tokens[at + 1]))
            at += 3
            continue
        if token == "}":
            raise PatternError("a } has no { before it")
        if not alternatives or token not in ("[", "]", "|"):
            plain = (len(token) == 2 and token in ("{{", "}}")) or (alternatives and token in ("[[", "]]"))
            current.append(token[0] if plain else token)
        elif token == "[":
            if options is not None:
                raise PatternError("a [ is inside [ ]; alternatives can't be nested")
            groups.append((tuple(current),))
            options, current = [], []
        elif options is None:
            raise PatternError("a ] has no [ before it" if token == "]" else "a | is outside [ ]")
        else:
            options.append(current)
            current = []
            if token == "]":
                groups.append(_closed(options))
                options = None
        at += 1
    if options is not None:
        raise PatternError("a [ is not closed by a ]")
    groups.append((tuple(current),))
    pattern = Pattern(tuple(groups))
    if pattern.n_variations > MOST_VARIATIONS:
        raise PatternError(f"there are {pattern.n_variations} variations, more than {MOST_VARIATIONS}")
    return pattern


def _slot(written: str) -> Slot:
    match = _SLOT.fullmatch(written.strip())
    if match is None:
        raise PatternError(f"'{{{written}}}' is not a slot; write {{name}} or {{name:form}}")
    return Slot(match["name"], match["form"] or "")


def _closed(options: list[list[Part]]) -> tuple[Sequenced, ...]:
    if len(options) == 1:
        raise PatternError("[ ] has only one alternative; separate two or more with |")
    written = [flatten(option) for option in options]
    if len(set(written)) < len(written):
        raise PatternError("[ ] has the same alternative twice")
    return tuple(tuple(option) for option in options)
