"""The parts of a suite, with CheckList's three test types (Ribeiro et al. 2020; ADE template paper, section 3).

A suite has capabilities, a capability has tests, a test has base templates, and a template has variations and slots.

    MFT  minimum functionality: the prediction must be the template's label
    INV  invariance: the prediction must not move by more than `tolerance` under each of the test's changes
    DIR  direction: under each change the prediction must go `up` or `down` by at least `margin`
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from palpate.perturb.suites.expectations import Expectation, RightAnswer
from palpate.perturb.suites.patterns import Flat, Part, Pattern, Slot, flatten

TestType = Literal["MFT", "INV", "DIR"]
Direction = Literal["up", "down"]
Standing = Literal["main", "further"]
TYPES: tuple[TestType, ...] = ("MFT", "INV", "DIR")


class SuiteLabels(NamedTuple):
    """The names of the two labels in the suite's file."""

    positive: str = "positive"
    negative: str = "negative"

    def name(self, label: bool | None) -> str:
        """The name of a label; empty for none."""
        return "" if label is None else (self.positive if label else self.negative)


@dataclass(frozen=True)
class SlotRelation:
    """What must hold between two slots of a template.

    `more`: the attribute `by` of the first slot is more than that of the second, and at least `ratio` times as much.
    `different`: the attribute `by` of the two slots differs.
    """

    kind: Literal["more", "different"]
    first: str
    second: str
    by: str
    ratio: float = 1.0
    sample: int | None = None


@dataclass(frozen=True)
class Change:
    """What an INV or DIR test does to a text; exactly one of the fields after `name` is given."""

    name: str
    prepend: Pattern | None = None
    append: Pattern | None = None
    replace: Mapping[str, Slot] = field(default_factory=dict)
    respell: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Template:
    """A base template; `to` is the second text of an INV or DIR pair, if the template itself gives one."""

    id: str
    pattern: Pattern
    label: bool | None = None
    tags: tuple[str, ...] = ()
    to: Pattern | None = None
    line: int = 0
    file: Path | None = None
    listed: tuple[Flat, ...] = ()
    listed_to: tuple[Flat, ...] = ()
    wanted: RightAnswer | None = None
    """The right answer where a suite has more than two labels; `label` is None then."""

    def variations(self) -> tuple[Flat, ...]:
        """All linguistic variations, in a fixed order."""
        return self.listed or tuple(self.pattern.variations())

    def targets(self) -> tuple[Flat, ...]:
        """The second texts, one per variation; empty if the template gives none."""
        if self.listed_to or self.to is None:
            return self.listed_to
        found = self.to.variations()
        return tuple(found) if len(found) > 1 else tuple(found * len(self.variations()))


@dataclass(frozen=True)
class Test:
    """Base templates that test the same thing, with the rule by which a prediction passes."""

    __test__ = False  # pytest would collect the class by its name

    id: str
    title: str
    type: TestType
    templates: tuple[Template, ...]
    changes: tuple[Change, ...] = ()
    tolerance: float | None = None
    direction: Direction | None = None
    margin: float | None = None
    all_variations: bool = False
    sizes: Mapping[str, int] = field(default_factory=dict)
    about: str = ""
    expect: Expectation | None = None
    """A function that says whether a case passes, instead of the rule of the test's type."""


@dataclass(frozen=True)
class Capability:
    """Something that a good model can do; `further` capabilities run on request and are reported separately."""

    id: str
    title: str
    tests: tuple[Test, ...]
    part: Standing = "main"
    about: str = ""


def changed_variations(template: Template, change: Change | None) -> tuple[Flat, ...]:
    """The second text of each variation of a template; empty for a test without pairs."""
    if change is None:
        return template.targets()
    return tuple(_apply(change, flat) for flat in template.variations())


def _apply(change: Change, flat: Flat) -> Flat:
    parts: list[Part] = []
    for piece, slot in zip(flat.pieces, [*flat.slots, None], strict=True):
        parts.append(_respell(piece, change.respell))
        if slot is not None:
            parts.append(change.replace.get(slot.name, slot))
    before = change.prepend.groups[0][0] if change.prepend else ()
    after = change.append.groups[0][0] if change.append else ()
    return flatten([*before, *parts, *after])


def _respell(piece: str, words: Mapping[str, str]) -> str:
    if not words:
        return piece
    any_word = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    return re.sub(rf"(?<!\w)(?:{any_word})(?!\w)", lambda match: words[match.group()], piece)
