"""Reads capabilities, tests, templates and changes from the nodes of a suite's YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, cast

from palpate.files import YamlNode
from palpate.perturb.suites.expectations import Expectation, RightAnswer
from palpate.perturb.suites.lexicons import Lexicon
from palpate.perturb.suites.patterns import Pattern, PatternError, Slot, parse
from palpate.perturb.suites.schema import (
    TYPES,
    Capability,
    Change,
    Direction,
    Standing,
    SuiteLabels,
    Template,
    Test,
    TestType,
)

_CAPABILITY = ("id", "title", "about", "part", "tests")
_TEST = (
    *("id", "title", "about", "type", "label", "templates", "changes", "tolerance", "direction", "margin"),
    *("variations", "sizes", "expect"),
)
_TEMPLATE = ("id", "text", "label", "tags", "to")
_CHANGE = ("name", "prepend", "append", "replace", "respell")


_THERE = {"yes": True, "no": False, "present": True, "absent": False, "1": True, "0": False}
Answer = tuple[bool | None, RightAnswer | None]
"""The right answer of a template: one of two labels, or something about several, or none."""


class Classes(NamedTuple):
    """The labels of a suite with several, and whether they exclude each other."""

    names: tuple[str, ...] = ()
    exclusive: bool = False


class TestReader:
    """Reads the parts of a suite below its top level."""

    __test__ = False  # pytest would collect the class by its name

    def __init__(
        self,
        labels: SuiteLabels,
        lexicons: Mapping[str, Lexicon],
        variations: str = "one",
        classes: Classes = Classes(),  # noqa: B008
    ) -> None:
        self.labels, self.lexicons, self.variations, self.classes = labels, lexicons, variations, classes
        self._tests: set[str] = set()

    def capability(self, node: YamlNode) -> Capability:
        """A capability with its tests."""
        given = node.mapping("a capability", known=_CAPABILITY)
        name = _id(node, "a capability")
        return Capability(
            id=name,
            title=given["title"].text("title") if "title" in given else name.replace("_", " "),
            tests=tuple(self._test(test) for test in node.require("tests", f"capability '{name}'").items("tests")),
            part=cast(Standing, given["part"].choice("part", ("main", "further")) if "part" in given else "main"),
            about=given["about"].text("about") if "about" in given else "",
        )

    def _test(self, node: YamlNode) -> Test:
        given = node.mapping("a test", known=_TEST)
        name = _id(node, "a test")
        if name in self._tests:
            raise node.error(f"test '{name}' is given twice", hint="rename one")
        self._tests.add(name)
        what = f"test '{name}'"
        kind = cast(TestType, node.require("type", what).choice("type", TYPES))
        expect = _expectation(given["expect"]) if "expect" in given else None
        tolerance, direction, margin = self._rule(node, kind, what)
        label = self._label(given["label"]) if "label" in given else (None, None)
        needs = (kind == "MFT" or (kind == "DIR" and bool(self.classes.names))) and expect is None
        listed = node.require("templates", what).items("templates")
        changes = tuple(self._change(item) for item in given["changes"].items("changes")) if "changes" in given else ()
        named: set[str] = set()
        for change, item in zip(changes, given["changes"].items("changes") if changes else (), strict=True):
            if change.name in named:
                raise item.error(f"change '{change.name}' is given twice", hint="rename one")
            named.add(change.name)
        run = given["variations"].choice("variations", ("one", "all")) if "variations" in given else self.variations
        return Test(
            id=name,
            title=given["title"].text("title") if "title" in given else name.replace("_", " "),
            type=kind,
            templates=tuple(self._template(item, kind, label, (bool(changes), needs)) for item in listed),
            changes=changes,
            tolerance=tolerance,
            direction=direction,
            margin=margin,
            all_variations=run == "all",
            sizes=self.sizes(given["sizes"]) if "sizes" in given else {},
            about=given["about"].text("about") if "about" in given else "",
            expect=expect,
        )

    def _rule(self, node: YamlNode, kind: TestType, what: str) -> tuple[float | None, Direction | None, float | None]:
        """Tolerance, direction and margin; an INV test with a direction is a misunderstanding, so it is refused."""
        given = node.mapping("a test")
        own = {"MFT": (), "INV": ("tolerance", "changes"), "DIR": ("direction", "margin", "changes")}
        for key in ("tolerance", "changes", "direction", "margin"):
            if key in given and key not in own[kind]:
                raise node.error(f"{what} has type {kind}, which has no `{key}`", hint="change the type", key=key)
        if "expect" in given:
            clash = next((key for key in ("tolerance", "direction", "margin") if key in given), None)
            if clash is not None:
                raise node.error(f"{what} has an `expect`, so it has no `{clash}`", hint="remove one", key=clash)
            return None, None, None
        if kind == "INV":
            return node.require("tolerance", what).number("tolerance", low=0, high=1), None, None
        if kind == "DIR":
            direction = node.require("direction", what).choice("direction", ("up", "down"))
            margin = given["margin"].number("margin", low=0, high=1) if "margin" in given else 0.0
            return None, cast(Direction, direction), margin
        return None, None, None

    def _template(self, node: YamlNode, kind: TestType, label: Answer, asks: tuple[bool, bool]) -> Template:
        """A template; `asks` says whether its test has changes, and whether it needs a label."""
        has_changes, needs_label = asks
        given = node.mapping("a template", known=_TEMPLATE)
        name = _id(node, "a template")
        own = self._label(given["label"]) if "label" in given else label
        if own == (None, None) and needs_label:
            names = self.classes.names or (self.labels.positive, self.labels.negative)
            hint = " or ".join(f"`label: {word}`" for word in names[:2])
            hint = f"add {hint}"
            raise node.error(f"template '{name}' has no label", hint=hint)
        pattern = self._pattern(node.require("text", f"template '{name}'"))
        target = self._pattern(given["to"]) if "to" in given else None
        if target is not None and kind == "MFT":
            raise node.error(
                f"template '{name}' belongs to an MFT, which has no `to`", hint="make the test INV or DIR", key="to"
            )
        if target is not None and target.radices not in ((), pattern.radices):
            hint = "give `to` no alternatives, or as many as `text` has, in the same order"
            raise node.error(f"the alternatives of `to` don't match those of `text` in template '{name}'", hint=hint)
        if kind != "MFT" and target is None and not has_changes:
            hint = "give the template a `to`, or the test a list of `changes`"
            raise node.error(f"template '{name}' has type {kind}, but nothing changes it", hint=hint)
        tags = tuple(given["tags"].texts("tags")) if "tags" in given else ()
        return Template(name, pattern, own[0], tags, target, node.line, node.file, wanted=own[1])

    def _label(self, node: YamlNode) -> Answer:
        """One of the two labels; a class; or labels that are there, as a list or with those that are not."""
        names = self.classes.names
        if not names:
            return node.choice("the label", self.labels) == self.labels.positive, None
        if self.classes.exclusive:
            return None, RightAnswer(highest=node.choice("the label", names))
        if isinstance(node.content, list | str):
            listed = [node] if isinstance(node.content, str) else node.content
            present = [each.choice("the label", names) for each in listed]
            return None, RightAnswer(present=tuple(present), absent=tuple(n for n in names if n not in present))
        said = {
            name: _THERE[value.choice(f"label '{name}'", tuple(_THERE))]
            for name, value in node.mapping("the label", known=names).items()
        }
        if not said:
            raise node.error("the label names none", hint=f"the labels are: {', '.join(names)}")
        there, gone = (tuple(name for name in said if said[name] is wanted) for wanted in (True, False))
        return None, RightAnswer(present=there, absent=gone)

    def _pattern(self, node: YamlNode) -> Pattern:
        """A template text whose slots are all known."""
        try:
            pattern = parse(node.text("a template's text"))
        except PatternError as error:
            raise node.error(str(error)) from None
        for group in pattern.groups:
            for option in group:
                for part in option:
                    if isinstance(part, Slot):
                        self._known(node, part)
        return pattern

    def _known(self, node: YamlNode, slot: Slot) -> None:
        if slot.name not in self.lexicons:
            hint = f"declare it under `lexicons`; the slots are: {', '.join(self.lexicons) or 'none'}"
            raise node.error(f"unknown slot '{{{slot.name}}}'", hint=hint)
        entries = self.lexicons[slot.name].entries
        if all(entry.written(slot.form) is None for entry in entries):
            hint = "the forms are upper, lower, capital, a, misspelt and the attributes of the lexicon's values"
            raise node.error(f"slot '{{{slot.name}}}' has no form '{slot.form}'", hint=hint)

    def sizes(self, node: YamlNode) -> dict[str, int]:
        """`slot: number` lines."""
        for slot in node.mapping("sizes"):
            if slot not in self.lexicons:
                raise node.error(f"unknown slot '{slot}'", hint=f"the slots are: {', '.join(self.lexicons)}", key=slot)
        return {slot: value.whole(f"the size of '{slot}'") for slot, value in node.mapping("sizes").items()}

    def _change(self, node: YamlNode) -> Change:
        given = node.mapping("a change", known=_CHANGE)
        name = node.require("name", "a change").text("name")
        kinds = [key for key in _CHANGE[1:] if key in given]
        if len(kinds) != 1:
            raise node.error(f"change '{name}' needs one of {', '.join(_CHANGE[1:])}", hint="give exactly one")
        if kinds[0] in ("prepend", "append"):
            pattern = self._pattern(given[kinds[0]])
            if pattern.radices:
                raise node.error(f"change '{name}' has alternatives", hint="make two changes, or a slot with a lexicon")
            return Change(name, prepend=pattern) if kinds[0] == "prepend" else Change(name, append=pattern)
        if kinds[0] == "respell":
            words = given["respell"].mapping("respell")
            return Change(name, respell={word: value.text("respell") for word, value in words.items()})
        slots = {slot: self._slot(value) for slot, value in given["replace"].mapping("replace").items()}
        return Change(name, replace=slots)

    def _slot(self, node: YamlNode) -> Slot:
        match = re.fullmatch(r"(\w+)(?::(\w+))?", node.text("replace"))
        if match is None:
            raise node.error(f"'{node.content}' is not a slot", hint="write `slot` or `slot:form`, without braces")
        slot = Slot(match[1], match[2] or "")
        self._known(node, slot)
        return slot


def _expectation(node: YamlNode) -> Expectation:
    """`FILE.py:function`, with the path relative to the suite's file."""
    file, _, name = node.text("expect").rpartition(":")
    if not file.endswith(".py") or not name.isidentifier():
        raise node.error(f"'{node.content}' is not an expectation", hint="write `expect: rules.py:function`")
    return Expectation(name, node.file.parent / file)


def is_id(name: str) -> bool:
    """Whether a name may be the id of a capability, test or template."""
    return re.fullmatch(r"[A-Za-z0-9][\w./-]*", name) is not None


def _id(node: YamlNode, what: str) -> str:
    name = node.require("id", what).text("id")
    if not is_id(name):
        raise node.error(f"the id '{name}' has characters that are not allowed", hint="use letters, digits, _ - . /")
    return name
