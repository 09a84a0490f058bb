"""YAML that remembers its lines: a suite is written by hand, so every complaint names the file and the line.

`read_yaml` gives a tree of `Node`s. Asking a node for what it is not (a list where a text stands, a key that is not
there, a key that is not known) raises a `ConfigError` of one sentence with a hint.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from palpate.errors import ConfigError

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CONSTRUCTOR = yaml.constructor.SafeConstructor()


@dataclass(frozen=True)
class Node:
    """A value of a YAML file and where it stands; `content` is a text, a list of nodes or a mapping to nodes."""

    content: str | list[Node] | dict[str, Node]
    scalar: Any
    line: int
    file: Path
    key_lines: dict[str, int]

    def error(self, problem: str, *, hint: str | None = None, key: str | None = None) -> ConfigError:
        """What is wrong here, as an error that names the line."""
        line = self.key_lines.get(key, self.line) if key is not None else self.line
        return ConfigError(f"line {line}: {problem}", file=self.file, hint=hint)

    def mapping(self, what: str, *, known: Collection[str] | None = None) -> dict[str, Node]:
        """The keys and values; a key outside `known` is refused."""
        if not isinstance(self.content, dict):
            raise self.error(f"{what} must be a mapping of `key: value` lines")
        for key in self.content if known is not None else ():
            if known is not None and key not in known:
                close = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean `{close[0]}`" if close else f"known are {', '.join(known)}"
                raise self.error(f"{what} has no key '{key}'", hint=hint, key=key)
        return self.content

    def items(self, what: str) -> list[Node]:
        """The elements of a list; a list of nothing is refused."""
        if not isinstance(self.content, list):
            raise self.error(f"{what} must be a list of `- item` lines")
        if not self.content:
            raise self.error(f"{what} is empty", hint="give at least one item")
        return self.content

    def text(self, what: str) -> str:
        """The text as it is written, so that the label `no` stays the word `no`."""
        if not isinstance(self.content, str):
            raise self.error(f"{what} must be a text")
        if not self.content.strip():
            raise self.error(f"{what} is empty", hint="fill it in")
        return self.content

    def number(self, what: str, *, low: float, high: float = float("inf")) -> float:
        """A number between `low` and `high`."""
        value = self.scalar
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            bounds = f"of at least {low:g}" if high == float("inf") else f"from {low:g} to {high:g}"
            raise self.error(f"{what} must be a number {bounds}")
        return float(value)

    def whole(self, what: str) -> int:
        """A whole number of at least 1."""
        value = self.number(what, low=1)
        if value != int(value):
            raise self.error(f"{what} must be a whole number")
        return int(value)

    def choice(self, what: str, choices: Collection[str]) -> str:
        """One of some words."""
        value = self.text(what)
        if value not in choices:
            raise self.error(f"{what} is '{value}'", hint=f"choose one of {', '.join(choices)}")
        return value

    def texts(self, what: str) -> list[str]:
        """A list of texts, or one text alone."""
        if isinstance(self.content, str):
            return [self.text(what)]
        return [item.text(what) for item in self.items(what)]

    def require(self, key: str, what: str) -> Node:
        """The value of a key that must be there."""
        found = self.mapping(what).get(key)
        if found is None:
            raise self.error(f"{what} has no `{key}`", hint=f"add a line `{key}: ...`")
        return found


def read_yaml(file: Path) -> Node:
    """Read a YAML file whole; it must hold a mapping."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"can't be read ({error.strerror})", file=file, hint="check the path") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8 (byte {error.start})", file=file, hint="save it as UTF-8") from None
    try:
        loader = _LOADER(text)
        try:
            root = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise _syntax_error(file, text, error) from None
    if root is None:
        raise ConfigError("line 1: the file is empty", file=file, hint="see the page on suites for a first one")
    node = _build(root, file, ())
    node.mapping("the file")
    return node


def _syntax_error(file: Path, text: str, error: yaml.YAMLError) -> ConfigError:
    """One sentence for what the YAML parser says; tabs, which look like blanks, get their own."""
    mark = getattr(error, "problem_mark", None)
    line = mark.line + 1 if mark else 1
    lines = text.splitlines()
    near = [n for n in (line, line - 1, line + 1) if 1 <= n <= len(lines)]
    for number in near:
        written = lines[number - 1]
        if "\t" in written[: len(written) - len(written.lstrip())]:
            return ConfigError(
                f"line {number}: a tab indents the line", file=file, hint="use spaces, not tabs, in YAML"
            )
    problem = getattr(error, "problem", None) or str(error)
    return ConfigError(f"line {line}: is not YAML ({problem})", file=file, hint="put a text with : { [ # in quotes")


def _build(node: yaml.Node, file: Path, inside: tuple[int, ...]) -> Node:
    """A node of the parser with its children; one that contains itself through `&` and `*` is refused."""
    line = node.start_mark.line + 1
    if id(node) in inside:
        raise ConfigError(f"line {line}: an anchor contains itself, a cycle", file=file, hint="write the part out")
    inside = (*inside, id(node))
    if isinstance(node, yaml.MappingNode):
        content: dict[str, Node] = {}
        key_lines: dict[str, int] = {}
        for key, value in node.value:
            at = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise ConfigError(f"line {at}: a key must be a word", file=file, hint="put a text with { in quotes")
            if key.value in content:
                raise ConfigError(
                    f"line {at}: '{key.value}' is given twice, first in line {key_lines[key.value]}",
                    file=file,
                    hint="remove one",
                )
            content[key.value], key_lines[key.value] = _build(value, file, inside), at
        return Node(content, None, line, file, key_lines)
    if isinstance(node, yaml.SequenceNode):
        return Node([_build(item, file, inside) for item in node.value], None, line, file, {})
    return Node(str(node.value), _scalar(node), line, file, {})


def _scalar(node: yaml.Node) -> Any:
    """What YAML reads: a number, a text, true or false; dates stay texts."""
    if node.tag.rsplit(":", 1)[-1] in ("int", "float", "bool", "null"):
        try:
            return _CONSTRUCTOR.construct_object(node)
        except (ValueError, yaml.YAMLError):
            return node.value
    return node.value
