"""Lexicons: the values that fill a slot. A YAML file, or a list inside the suite.

    lexicon: drugs
    article: auto          # none: no a/an before the values; auto (default): by the first letter
    forms: [lower, upper]  # every value also in these forms
    values:
      - Zoloft
      - {value: Prozac, generic: fluoxetine, variants: [prozak]}

`values:` are texts, or mappings with a `value`, spelling `variants`, an `article` of its own and any further
attributes; `{slot:generic}` in a template writes that attribute. `union:` lists other lexicons to combine instead.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from palpate.errors import ConfigError
from palpate.files import YamlNode, read_yaml
from palpate.perturb.suites.tables import read_table, read_text

Attribute = str | float
CASES = ("lower", "upper", "capital")
FORMS = (*CASES, "a", "misspelt")
_RESERVED = ("value", "variants", "article")


class LexiconEntry(NamedTuple):
    """A value; `head` is the entry that it is a spelling of, `form` how the two differ (empty for the head)."""

    value: str
    head: str
    form: str
    article: str
    attributes: Mapping[str, Attribute]

    def written(self, form: str) -> str | None:
        """The value in a form; None if it does not have the form."""
        if not form:
            return self.value
        if form in CASES:
            return in_case(self.value, form)
        if form == "a":
            return f"{self.article} {self.value}" if self.article else self.value
        if form == "misspelt":
            return misspell(self.value)
        found = self.attributes.get(form)
        return found if isinstance(found, str) else None

    def names(self) -> set[str]:
        """All names of the entry."""
        return {self.value, self.head, *(word for word in self.attributes.values() if isinstance(word, str))}

    def attribute(self, name: str) -> Attribute | None:
        """An attribute; `head` and `value` are attributes too."""
        return {"head": self.head, "value": self.value}.get(name) or self.attributes.get(name)


@dataclass(frozen=True)
class Lexicon:
    """Distinct values with their attributes, in the order of the file."""

    name: str
    entries: tuple[LexiconEntry, ...]
    about: str = ""
    bare: bool = False
    """Whether its values have no article unless they give their own (`article: none`)."""

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def values(self) -> tuple[str, ...]:
        """The values as they are."""
        return tuple(entry.value for entry in self.entries)

    def with_values(self, values: Sequence[str | Mapping[str, Attribute]]) -> Lexicon:
        """The lexicon with other values; known values, in any case or as abbreviation, keep their attributes."""
        entries: list[LexiconEntry] = []
        for given in values:
            if isinstance(given, str):
                entries.append(self._known(given) or make_entry(given, bare=self.bare))
                continue
            known = self._known(str(given["value"])) or make_entry(str(given["value"]), bare=self.bare)
            rest = {key: value for key, value in given.items() if key not in _RESERVED}
            article = known.article if given.get("article") is None else str(given["article"])
            article = "" if article == "none" else article
            entries.append(known._replace(article=article, attributes={**known.attributes, **rest}))
        if not entries:
            raise ConfigError(f"no values are given for lexicon '{self.name}'", hint="give at least one")
        twice = _first_twice([entry.value for entry in entries])
        if twice is not None:
            raise ConfigError(f"'{twice}' is given twice for lexicon '{self.name}'", hint="remove one")
        there = {entry.value for entry in entries}
        for at, entry in enumerate(entries):
            # The long form already writes the abbreviation: the same sentence must not occur twice.
            if entry.form == "abbreviation" and entry.head in there:
                rest = {key: value for key, value in entry.attributes.items() if key != "abbreviation"}
                entries[at] = entry._replace(attributes=rest)
        return replace(self, entries=tuple(entries))

    def _known(self, value: str) -> LexiconEntry | None:
        """The entry that a value stands for, in the value's spelling."""
        same = next((entry for entry in self.entries if entry.value == value), None)
        if same is not None:
            return same
        for entry in self.entries:
            if entry.value.lower() == value.lower():
                return entry._replace(value=value)
        for entry in self.entries:
            if str(entry.attributes.get("abbreviation", "")).lower() == value.lower():
                article = article_of_letters(value) if entry.article and value.isupper() else entry.article
                return entry._replace(value=value, form="abbreviation", article=article)
        return None

    def without(self, other: Lexicon) -> Lexicon:
        """The values that another lexicon lacks, under any spelling, abbreviation or other attribute."""
        names = {name.lower() for entry in other.entries for name in entry.names()}
        entries = tuple(entry for entry in self.entries if not names & {name.lower() for name in entry.names()})
        return replace(self, entries=entries)


def in_case(value: str, case: str) -> str:
    """All lower case, all upper case, or with a capital first letter and the rest unchanged."""
    if case == "capital":
        return value[:1].upper() + value[1:]
    return value.lower() if case == "lower" else value.upper()


def misspell(value: str) -> str:
    """A typing error, always the same one: two neighbouring letters of the longest word are swapped."""
    words = list(re.finditer(r"[^\W\d_]{4,}", value))
    if not words:
        return value + value[-1:]
    word = max(words, key=lambda match: len(match.group()))
    middle = word.start() + (len(word.group()) - 1) // 2
    for at in (*range(middle, word.end() - 1), *range(middle - 1, word.start(), -1)):
        if value[at].lower() != value[at + 1].lower():
            return value[:at] + value[at + 1] + value[at] + value[at + 2 :]
    return value[: middle + 1] + value[middle:]


def article_of(value: str) -> str:
    """`a` or `an` by the first letter; words that sound different give their `article` in the lexicon."""
    return "an" if re.match(r"[aeiouAEIOU]|8|11\b|18\b", value) else "a"


def article_of_letters(value: str) -> str:
    """`a` or `an` for an abbreviation that is read letter by letter: an SBO, a UTI."""
    return "an" if value[:1].upper() in set("AEFHILMNORSX") else "a"


def make_entry(
    value: str, attributes: Mapping[str, Attribute] | None = None, article: str | None = None, *, bare: bool = False
) -> LexiconEntry:
    """An entry; without its own `article` it gets one by its first letter, or none if the lexicon is `bare`."""
    given = "" if bare else article_of(value)
    chosen = given if article is None else ("" if article == "none" else article)
    return LexiconEntry(value, value, "", chosen, dict(attributes or {}))


def load_lexicon(file: Path, name: str, opened: tuple[Path, ...] = ()) -> Lexicon:
    """A lexicon from its own file; `opened` are the files that are being read already."""
    return read_lexicon(read_yaml(file, needs="`values:`"), name, file.parent, opened)


VALUE_FILES = (".yaml", ".yml", ".txt", ".csv")
"""What a file with the values of a slot may be: a lexicon, one value per line, or a table with a column `value`."""


def slot_values(file: Path) -> tuple[dict[str, Attribute], ...]:
    """A file as values for a slot: what `slots: {effect: mine.yaml}` of an audit means.

    A lexicon in YAML; a `.txt` file with one value per line (lines that begin with `#` are left out); or a `.csv` file
    with a column `value`, whose other columns are attributes.
    """
    if file.suffix in (".txt", ".csv"):
        return _listed_values(file)
    entries = load_lexicon(file, file.stem).entries
    return tuple({"value": entry.value, "article": entry.article or "none", **entry.attributes} for entry in entries)


def _listed_values(file: Path) -> tuple[dict[str, Attribute], ...]:
    if file.suffix == ".txt":
        lines = ((number, line.strip()) for number, line in enumerate(read_text(file).splitlines(), start=1))
        listed: list[tuple[int, dict[str, str]]] = [
            (number, {"value": line}) for number, line in lines if line and not line.startswith("#")
        ]
    else:
        columns, rows = read_table(file)
        if "value" not in columns:
            hint = f"the columns are: {', '.join(columns)}"
            raise ConfigError("column not found", file=file, column="value", hint=hint)
        listed = [(row.line, row.cells) for row in rows if row.cells.get("value")]
    first: dict[str, int] = {}
    for number, cells in listed:
        if first.setdefault(cells["value"], number) != number:
            problem = f"line {number}: '{cells['value'][:32]}' is in line {first[cells['value']]} already"
            raise ConfigError(problem, file=file, hint="remove one")
    found = [{key: _number(key, cell) for key, cell in cells.items() if cell} for _, cells in listed]
    if not found:
        raise ConfigError("the file has no values", file=file, hint="give at least one")
    return tuple(found)


def _number(column: str, cell: str) -> Attribute:
    return float(cell) if column not in _RESERVED and re.fullmatch(r"-?\d+(?:\.\d+)?", cell) else cell


def read_lexicon(source: YamlNode, name: str, folder: Path, opened: tuple[Path, ...] = ()) -> Lexicon:
    """A lexicon as a suite gives it: a file name, a list of values, or a mapping like the file's."""
    if isinstance(source.content, str):
        file = folder / source.text(f"lexicon '{name}'")
        if file.resolve() in opened:
            raise source.error(f"lexicon '{name}' contains itself, a cycle", hint="remove one of the references")
        if not os.path.isfile(file):  # noqa: PTH113  (False also for a name that no file can have)
            hint = "paths are relative to this file"
            raise source.error(f"the lexicon's file '{source.content}' is not found", hint=hint)
        return load_lexicon(file, name, (*opened, file.resolve()))
    if isinstance(source.content, list):
        return Lexicon(name, tuple(_entries(source, name, bare=False, forms=())))
    return _read_mapping(source, name, folder, opened)


def _read_mapping(source: YamlNode, name: str, folder: Path, opened: tuple[Path, ...]) -> Lexicon:
    given = source.mapping(f"lexicon '{name}'", known=("lexicon", "about", "article", "forms", "values", "union"))
    about = given["about"].text("about") if "about" in given else ""
    if ("values" in given) == ("union" in given):
        raise source.error(f"lexicon '{name}' needs either `values` or `union`", hint="give one of them")
    entries: list[LexiconEntry] = []
    article = given["article"].choice("article", ("auto", "none")) if "article" in given else "auto"
    if "union" in given:
        for part in given["union"].items("union"):
            entries += read_lexicon(part, part.text("union"), folder, opened).entries
    else:
        forms = tuple(form.choice("forms", CASES) for form in given["forms"].items("forms")) if "forms" in given else ()
        entries = _entries(given["values"], name, bare=article == "none", forms=forms)
    twice = _first_twice([entry.value for entry in entries])
    if twice is not None:
        raise source.error(f"lexicon '{name}' has '{twice}' twice", hint="remove one")
    return Lexicon(name, tuple(entries), about, bare=article == "none")


def _entries(source: YamlNode, name: str, *, bare: bool, forms: Sequence[str]) -> list[LexiconEntry]:
    """The entries of a list of values, each followed by its spellings."""
    if source.content == [] or (source.scalar is None and isinstance(source.content, str)):
        raise source.error(f"lexicon '{name}' is empty", hint="give at least one value")
    entries: list[LexiconEntry] = []
    lines: dict[str, int] = {}
    for item in source.items(f"lexicon '{name}'"):
        for entry in _spellings(item, name, bare=bare, forms=forms):
            if entry.value in lines and (entry.form not in CASES):
                raise item.error(
                    f"lexicon '{name}' has '{entry.value}' twice, first in line {lines[entry.value]}",
                    hint="remove one",
                )
            if entry.value not in lines:
                entries.append(entry)
                lines[entry.value] = item.line
    return entries


def _spellings(item: YamlNode, name: str, *, bare: bool, forms: Sequence[str]) -> list[LexiconEntry]:
    """An item's value, its variants, and the value in other cases."""
    attributes: dict[str, Attribute] = {}
    variants: list[str] = []
    article = None
    if isinstance(item.content, str):
        value = item.text(f"a value of lexicon '{name}'")
    else:
        given = item.mapping(f"a value of lexicon '{name}'")
        value = item.require("value", f"an entry of lexicon '{name}'").text("value")
        variants = given["variants"].texts("variants") if "variants" in given else []
        article = given["article"].choice("article", ("a", "an", "the", "none")) if "article" in given else None
        for key in given:
            if key in FORMS or key == "head":
                raise item.error(f"an attribute can't be called '{key}'", hint="choose another word", key=key)
        attributes = {key: _attribute(node) for key, node in given.items() if key not in _RESERVED}
    if value != value.strip():
        raise item.error(f"'{value}' begins or ends with a space", hint="remove it")
    head = make_entry(value, attributes, article, bare=bare)
    spelt = [head]
    for variant in variants:
        entry = make_entry(variant, attributes, article, bare=bare)
        spelt.append(entry._replace(head=value, form="variant"))
    return spelt + [head._replace(value=in_case(value, form), form=form) for form in forms]


def _attribute(node: YamlNode) -> Attribute:
    scalar = node.scalar
    return float(scalar) if isinstance(scalar, int | float) and not isinstance(scalar, bool) else node.text("attribute")


def _first_twice(values: Sequence[str]) -> str | None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None
