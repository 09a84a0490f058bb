"""Characteristics that are defined in YAML: the schema and its reader, which reports mistakes with their line.

    name: housing                     # one word; the characteristic's name
    order: 10                         # optional: of two adjectives at one position, the lower comes first (default 50)
    insert: [noun, section]           # where a mention may be inserted, tried in this order; omit it for nowhere
    sections: [Social History]        # headings, for `section`
    headers: [Housing status]         # labels whose value is a mention ("Housing status: homeless")
    except: [homeless shelter]        # phrases in which a word is not a mention ("white count")
    groups:
      none: {}                        # a group without words: the note says nothing, mentions are removed
      homeless:
        adjective: [homeless, undomiciled]   # before the noun that introduces the patient, or after "is"
        sentence: [Is homeless]              # a sentence of its own, without its full stop
        phrase: [lives in a shelter]         # anywhere
        header: [homeless]                   # the value of a header
        signs: [homeless shelter, homeless]  # shows the group and can't be reworded: other groups are contradictory
        patterns: ['stays at \\w+ shelter']   # signs as regular expressions, found in any case ('BMI 4\\d')
        against: [house keys]                # words that contradict this group: altering to it is contradictory
      ...
    other: {adjective: [...], header: [...]} # words of groups that are never written, only replaced

The first form of each list is the one that is written; all of them are found, in any case. A form with "{" is refused:
forms are plain words, and white space in them matches any white space, including line ends. To change a mention of some
kind into another group, that group needs a form of the same kind; otherwise the note is skipped. A form that is denied
("not obese", "Obese: no", "denies homelessness") is not a mention; its group is contradictory.

A characteristic that is about wording lists its phrases in rows instead, one phrase per group, each phrase once:

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
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from palpate.files import YamlNode, parse_yaml, read_yaml

KINDS = ("adjective", "sentence", "phrase", "header")
CONTEXTS = ("verb", "adjective", "subject", "noun")
_PLACES = ("noun", "section")
_KEYS = ("name", "order", "insert", "sections", "headers", "except", "groups", "other", "wording")
_NEEDS = "`name` and `groups`"
BUILT_IN = ("ethnicity", "weight", "insurance", "housing", "language", "wording")


@dataclass(frozen=True)
class CharacteristicGroup:
    """The forms of a group by kind, its signs as words and as patterns, and the words that contradict it."""

    name: str
    forms: dict[str, tuple[str, ...]] = field(default_factory=dict)
    signs: tuple[str, ...] = ()
    patterns: tuple[re.Pattern[str], ...] = ()
    against: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the group means that the note says nothing."""
        return not any(kind in self.forms for kind in ("adjective", "sentence", "phrase"))


@dataclass(frozen=True)
class Definition:
    """A characteristic as its file defines it."""

    name: str
    groups: tuple[CharacteristicGroup, ...]
    order: int = 50
    insert: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    exceptions: tuple[str, ...] = ()
    other: CharacteristicGroup | None = None
    wording: tuple[tuple[str, ...], ...] = ()
    contexts: tuple[str, ...] = ()
    """The context of each row of `wording`; "" for none."""


def built_in(name: str) -> Definition:
    """One of the definitions that come with palpate."""
    path = files("palpate.perturb.characteristics.definitions").joinpath(f"{name}.yaml")
    return _definition(parse_yaml(path.read_text("utf-8"), Path(f"{name}.yaml"), needs=_NEEDS))


def load_definition(path: Path) -> Definition:
    """A user's definition; raises `ConfigError` with file and line."""
    return _definition(read_yaml(path, needs=_NEEDS))


def _definition(root: YamlNode) -> Definition:
    given = root.mapping("a characteristic", known=_KEYS)
    root.require("name", "a characteristic")
    root.require("groups", "a characteristic")
    return _rephrasing(given) if "wording" in given else _grouped(root, given)


def _forms(node: YamlNode, what: str) -> tuple[str, ...]:
    return tuple(_form(item, what) for item in node.items(what))


def _form(node: YamlNode, what: str) -> str:
    word = node.text(f"an entry of {what}")
    if not re.match(r"[A-Za-z]", word) or "{" in word:
        raise node.error(f"'{word}' in {what} is not a plain phrase that starts with a letter")
    return word


def _optional(given: Mapping[str, YamlNode], key: str) -> tuple[str, ...]:
    return _forms(given[key], f"`{key}`") if key in given else ()


def _grouped(root: YamlNode, given: Mapping[str, YamlNode]) -> Definition:
    groups = tuple(_group(name, node) for name, node in given["groups"].mapping("`groups`").items())
    if len(groups) < 2:
        raise root.error("`groups` has fewer than two groups", key="groups")
    insert = _optional(given, "insert")
    for place in insert:
        if place not in _PLACES:
            raise given["insert"].error(
                f"`insert` has no place '{place}'", hint=f"the places are: {', '.join(_PLACES)}"
            )
    if "section" in insert and "sections" not in given:
        raise root.error("`insert` names a section, but `sections` is missing", key="insert")
    other = _group("other", given["other"]) if "other" in given else None
    _check_once(root, (*groups, *([other] if other else [])))
    return Definition(
        name=given["name"].text("`name`"),
        groups=groups,
        order=given["order"].whole("`order`", low=0) if "order" in given else 50,
        insert=insert,
        sections=_optional(given, "sections"),
        headers=_optional(given, "headers"),
        exceptions=_optional(given, "except"),
        other=other,
    )


def _group(name: str, node: YamlNode) -> CharacteristicGroup:
    given = node.mapping(f"group '{name}'", known=(*KINDS, "signs", "patterns", "against"))
    return CharacteristicGroup(
        name,
        {kind: _forms(forms, f"`{kind}`") for kind, forms in given.items() if kind in KINDS},
        _optional(given, "signs"),
        tuple(_pattern(item) for item in given["patterns"].items("`patterns`")) if "patterns" in given else (),
        _optional(given, "against"),
    )


def _pattern(node: YamlNode) -> re.Pattern[str]:
    word = node.text("an entry of `patterns`")
    try:
        pattern = re.compile(word, re.IGNORECASE)
    except re.error as error:
        raise node.error(f"'{word}' in `patterns` is not a regular expression ({error})") from None
    if pattern.search("") or pattern.search(" "):
        raise node.error(f"'{word}' in `patterns` matches an empty text")
    return pattern


def _check_once(root: YamlNode, groups: tuple[CharacteristicGroup, ...]) -> None:
    seen: dict[tuple[str, str], str] = {}
    for group in groups:
        for kind, forms in group.forms.items():
            for form in forms:
                before = seen.setdefault((kind, form.lower()), group.name)
                if before != group.name:
                    raise root.error(f"'{form}' is in two groups, '{before}' and '{group.name}'", key="groups")


def _rephrasing(given: Mapping[str, YamlNode]) -> Definition:
    names = _forms(given["groups"], "`groups`")
    table: list[tuple[str, ...]] = []
    contexts: list[str] = []
    seen: set[str] = set()
    for row in given["wording"].items("`wording`"):
        phrases = {name: _form(node, "`wording`") for name, node in row.mapping("a row of `wording`").items()}
        contexts.append(phrases.pop("context", ""))
        if contexts[-1] not in ("", *CONTEXTS):
            raise row.error(f"unknown context '{contexts[-1]}'", hint=f"the contexts are: {', '.join(CONTEXTS)}")
        if set(phrases) != set(names):
            raise row.error(f"the row needs one phrase for each of {', '.join(names)}")
        for phrase in phrases.values():
            if phrase.lower() in seen:
                raise row.error(f"'{phrase}' is in `wording` twice")
            seen.add(phrase.lower())
        table.append(tuple(phrases[name] for name in names))
    return Definition(
        given["name"].text("`name`"),
        tuple(CharacteristicGroup(group) for group in names),
        exceptions=_optional(given, "except"),
        wording=tuple(table),
        contexts=tuple(contexts),
    )
