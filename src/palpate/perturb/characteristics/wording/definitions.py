"""Characteristics that are defined in YAML: the schema, its reader and what is wrong with a file, by line.

    name: housing                     # one word; the characteristic's name
    order: 10                         # optional: of two adjectives at one place, the lower stands first (default 50)
    insert: [noun, section]           # where a mention may be put in, tried in this order; leave out for nowhere
    sections: [Social History]        # headings, for `section`
    headers: [Housing status]         # labels whose value is a mention ("Housing status: homeless")
    except: [homeless shelter]        # phrases in which a word is no mention ("white count")
    groups:
      none: {}                        # a group without words: the note says nothing, mentions are taken out
      homeless:
        adjective: [homeless, undomiciled]   # before the noun that introduces the patient, or after "is"
        sentence: [Is homeless]              # a sentence of its own, without its full stop
        phrase: [lives in a shelter]         # anywhere
        header: [homeless]                   # the value of a header
        signs: [homeless shelter, homeless]  # tells the group and can't be reworded: other groups are contradictory
        patterns: ['stays at \\w+ shelter']   # signs as regular expressions, found whatever their case ('BMI 4\\d')
        against: [house keys]                # words that no note of this group has: altering to it is contradictory
      ...
    other: {adjective: [...], header: [...]} # words for groups that are never written; they are replaced

Of every list the first form is the one that is written; all are found, whatever their case. A form that holds "{" is
refused: forms are plain words, and white space in them matches any white space, line ends too. A group needs the form
of each kind that another group has where a mention of that kind is to be changed into it; else such a note is skipped.
A form that is denied ("not obese", "Obese: no", "denies homelessness") is no mention; its group is contradictory.

A characteristic of wording lists its phrases in rows instead, one phrase per group, each phrase once:

    name: wording
    groups: [neutral, stigmatizing]
    wording:
      - {neutral: declined, stigmatizing: refused, context: verb}

`context` says where a row's phrases count: `verb`, after the patient and before an object ("she declined labs", not "EF
declined to 20%"); `adjective`, after "the patient is"; `subject`, after the patient; `noun`, where no noun follows.
A phrase that is denied ("not a drug addict", "denies tobacco or alcohol abuse") is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn

import yaml

from palpate.errors import ConfigError

KINDS = ("adjective", "sentence", "phrase", "header")
CONTEXTS = ("verb", "adjective", "subject", "noun")
_PLACES = ("noun", "section")
_KEYS = ("name", "order", "insert", "sections", "headers", "except", "groups", "other", "wording")
BUILT_IN = ("ethnicity", "weight", "insurance", "housing", "language", "wording")


@dataclass(frozen=True)
class Group:
    """The forms of a group by kind, its signs as words and as patterns, and the words that go against it."""

    name: str
    forms: dict[str, tuple[str, ...]] = field(default_factory=dict)
    signs: tuple[str, ...] = ()
    patterns: tuple[re.Pattern[str], ...] = ()
    against: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the group means that nothing is said."""
        return not any(kind in self.forms for kind in ("adjective", "sentence", "phrase"))


@dataclass(frozen=True)
class Definition:
    """A characteristic as its file defines it."""

    name: str
    groups: tuple[Group, ...]
    order: int = 50
    insert: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    exceptions: tuple[str, ...] = ()
    other: Group | None = None
    wording: tuple[tuple[str, ...], ...] = ()
    contexts: tuple[str, ...] = ()
    """Of each row of `wording`; "" for none."""


def built_in(name: str) -> Definition:
    """One of the definitions that come with palpate."""
    path = files("palpate.perturb.characteristics.wording").joinpath(f"{name}.yaml")
    return _Reader(f"{name}.yaml").read(path.read_text("utf-8"))


def load_definition(path: Path) -> Definition:
    """A user's definition; raises `ConfigError` with file and line."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"can't be read ({error})", file=path) from None
    return _Reader(str(path)).read(text)


class _Reader:
    """Walks over the nodes of a YAML file, which know their lines."""

    def __init__(self, file: str) -> None:
        self._file = file

    def _wrong(self, node: yaml.Node, problem: str, hint: str | None = None) -> NoReturn:
        raise ConfigError(f"line {node.start_mark.line + 1}: {problem}", file=self._file, hint=hint)

    def read(self, text: str) -> Definition:
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = f"line {mark.line + 1}: " if mark else ""
            raise ConfigError(f"{line}is not YAML ({getattr(error, 'problem', error)})", file=self._file) from None
        if root is None:
            raise ConfigError("is empty", file=self._file, hint="a characteristic needs `name` and `groups`")
        rows = dict(self._rows(root, "the file"))
        for key, (node, _) in rows.items():
            if key not in _KEYS:
                self._wrong(node, f"`{key}` is no known key", f"there are: {', '.join(_KEYS)}")
        for key in ("name", "groups"):
            if key not in rows:
                self._wrong(root, f"`{key}` is missing")
        if "wording" in rows:
            return self._read_wording(rows)
        return self._read_groups(rows)

    def _rows(self, node: yaml.Node, what: str) -> Iterator[tuple[str, tuple[yaml.Node, yaml.Node]]]:
        if not isinstance(node, yaml.MappingNode):
            self._wrong(node, f"{what} is not a mapping")
        seen = set()
        for key, value in node.value:
            name = self._string(key, "a key")
            if name in seen:
                self._wrong(key, f"`{name}` is given twice")
            seen.add(name)
            yield name, (key, value)

    def _string(self, node: yaml.Node, what: str) -> str:
        if not isinstance(node, yaml.ScalarNode) or not str(node.value).strip():
            self._wrong(node, f"{what} is not a word")
        return str(node.value)

    def _strings(self, node: yaml.Node, what: str) -> tuple[str, ...]:
        if not isinstance(node, yaml.SequenceNode):
            self._wrong(node, f"{what} is not a list", "write it as [one, another]")
        words = tuple(self._form(item, what) for item in node.value)
        if not words:
            self._wrong(node, f"{what} is empty")
        return words

    def _form(self, node: yaml.Node, what: str) -> str:
        word = self._string(node, f"an entry of {what}")
        if not re.match(r"[A-Za-z]", word) or "{" in word:
            self._wrong(node, f"'{word}' in {what} is no plain phrase that starts with a letter")
        return word

    def _optional(self, rows: dict[str, tuple[yaml.Node, yaml.Node]], key: str) -> tuple[str, ...]:
        return self._strings(rows[key][1], f"`{key}`") if key in rows else ()

    def _read_groups(self, rows: dict[str, tuple[yaml.Node, yaml.Node]]) -> Definition:
        groups = tuple(self._group(name, node) for name, (_, node) in self._rows(rows["groups"][1], "`groups`"))
        if len(groups) < 2:
            self._wrong(rows["groups"][0], "`groups` has fewer than two groups")
        insert = self._optional(rows, "insert")
        for place in insert:
            if place not in _PLACES:
                self._wrong(rows["insert"][1], f"`insert` has no place '{place}'", f"there are: {', '.join(_PLACES)}")
        if "section" in insert and "sections" not in rows:
            self._wrong(rows["insert"][0], "`insert` names a section, and `sections` is missing")
        other = self._group("other", rows["other"][1]) if "other" in rows else None
        self._check_once(rows["groups"][0], (*groups, *([other] if other else [])))
        return Definition(
            name=self._string(rows["name"][1], "`name`"),
            groups=groups,
            order=self._number(rows),
            insert=insert,
            sections=self._optional(rows, "sections"),
            headers=self._optional(rows, "headers"),
            exceptions=self._optional(rows, "except"),
            other=other,
        )

    def _number(self, rows: dict[str, tuple[yaml.Node, yaml.Node]]) -> int:
        if "order" not in rows:
            return 50
        word = self._string(rows["order"][1], "`order`")
        if not word.isdigit():
            self._wrong(rows["order"][1], f"`order` is no whole number: '{word}'")
        return int(word)

    def _group(self, name: str, node: yaml.Node) -> Group:
        forms: dict[str, tuple[str, ...]] = {}
        words: dict[str, tuple[str, ...]] = {"signs": (), "against": ()}
        patterns: tuple[re.Pattern[str], ...] = ()
        for kind, (key, value) in self._rows(node, f"group '{name}'"):
            if kind in words:
                words[kind] = self._strings(value, f"`{kind}`")
            elif kind == "patterns":
                patterns = self._patterns(value)
            elif kind in KINDS:
                forms[kind] = self._strings(value, f"`{kind}`")
            else:
                known = ", ".join((*KINDS, *words, "patterns"))
                self._wrong(key, f"group '{name}' has no kind of form `{kind}`", f"there are: {known}")
        return Group(name, forms, words["signs"], patterns, words["against"])

    def _patterns(self, node: yaml.Node) -> tuple[re.Pattern[str], ...]:
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            self._wrong(node, "`patterns` is no list of regular expressions", r"write it as ['BMI 4\d', '\d+ kg']")
        made = []
        for item in node.value:
            word = self._string(item, "an entry of `patterns`")
            try:
                pattern = re.compile(word, re.IGNORECASE)
            except re.error as error:
                self._wrong(item, f"'{word}' in `patterns` is no regular expression ({error})")
            if pattern.search("") or pattern.search(" "):
                self._wrong(item, f"'{word}' in `patterns` fits an empty text")
            made.append(pattern)
        return tuple(made)

    def _check_once(self, node: yaml.Node, groups: tuple[Group, ...]) -> None:
        seen: dict[tuple[str, str], str] = {}
        for group in groups:
            for kind, forms in group.forms.items():
                for form in forms:
                    before = seen.setdefault((kind, form.lower()), group.name)
                    if before != group.name:
                        self._wrong(node, f"'{form}' is in two groups, '{before}' and '{group.name}'")

    def _read_wording(self, rows: dict[str, tuple[yaml.Node, yaml.Node]]) -> Definition:
        names = self._strings(rows["groups"][1], "`groups`")
        node = rows["wording"][1]
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            self._wrong(
                node, "`wording` is no list of rows", "write a row as {neutral: declined, stigmatizing: refused}"
            )
        table: list[tuple[str, ...]] = []
        contexts: list[str] = []
        seen: set[str] = set()
        for row in node.value:
            given: dict[str, Any] = {
                name: self._form(value, "`wording`") for name, (_, value) in self._rows(row, "a row")
            }
            contexts.append(given.pop("context", ""))
            if contexts[-1] not in ("", *CONTEXTS):
                self._wrong(row, f"the row has no context '{contexts[-1]}'", f"there are: {', '.join(CONTEXTS)}")
            if set(given) != set(names):
                self._wrong(row, f"the row has not one phrase for each of {', '.join(names)}")
            for phrase in given.values():
                if phrase.lower() in seen:
                    self._wrong(row, f"'{phrase}' is in `wording` twice")
                seen.add(phrase.lower())
            table.append(tuple(given[name] for name in names))
        name = self._string(rows["name"][1], "`name`")
        groups = tuple(Group(group) for group in names)
        exceptions = self._optional(rows, "except")
        return Definition(name, groups, exceptions=exceptions, wording=tuple(table), contexts=tuple(contexts))
