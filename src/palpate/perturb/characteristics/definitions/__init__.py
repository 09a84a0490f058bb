"""Characteristics that are defined in YAML: the schema and its reader, which reports mistakes with their line.

    name: housing                     # one word; the characteristic's name
    order: 10                         # optional: of two adjectives at one position, the lower comes first (default 50)
    insert: [noun, section]           # where a mention may be inserted, tried in this order; omit it for nowhere
    sections: [Social History]        # headings, for `section`
    headers: [Housing status]         # labels whose value is a mention ("Housing status: homeless")
    infants: skip                     # optional: no mention is added to a note about an infant
    origins:                          # optional: countries and languages, and the groups that they fit; others are
      - {places: [Cuba], languages: [Spanish], fits: [Hispanic], shows: Hispanic}  # contradictory. `shows`: who comes
                                      # from there is in this group
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
        against_patterns: ['rents a \\w+']   # the same as regular expressions
        diagnosis: [homelessness]            # a noun of a problem list: "PMH: asthma, homelessness"
        dwelling: [in a shelter]             # where the patient lives: "lives in a shelter with his wife"
        bmi: [30, 100]                       # the body mass indices of the group: others are contradictory
      ...
    other: {adjective: [...], header: [...]} # words of groups that are never written, only replaced

The first form of each list is the one that is written; all of them are found, in any case. A form with "{" is refused:
forms are plain words, and white space in them matches any white space, including line ends. To change a mention of some
kind into another group, that group needs a form of the same kind; otherwise the note is skipped. A form that is denied
("not obese", "Obese: no", "denies homelessness") is not a mention; its group is contradictory.

A characteristic that is about wording lists its phrases in rows instead, one phrase per group, each phrase once:

    name: wording
    groups: [neutral, stigmatizing]
    sources: {park2021: "Park et al., JAMA Network Open 2021"}   # optional: where a phrase was named
    wording:
      - {neutral: declined, stigmatizing: refused, context: verb, source: park2021}

`context` says where a row's phrases count: `verb`, after the patient and before an object ("she declined labs", not "EF
declined to 20%"); `adjective`, after "the patient is"; `subject`, after the patient; `noun`, where no noun follows;
`closed`, the same without an article before.
A phrase that is denied ("not a drug addict", "denies tobacco or alcohol abuse") is left as it is, and so is a heading.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from palpate.files import YamlNode, parse_yaml, read_yaml

KINDS = ("adjective", "sentence", "phrase", "header", "diagnosis", "dwelling")
CONTEXTS = ("verb", "adjective", "subject", "noun", "closed")
_PLACES = ("noun", "section")
_KEYS = (
    "name", "order", "insert", "sections", "headers", "except", "groups", "other", "wording", "infants", "origins",
    "sources",
)  # fmt: skip
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
    against_patterns: tuple[re.Pattern[str], ...] = ()
    bmi: tuple[float, float] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the group means that the note says nothing."""
        return not any(kind in self.forms for kind in ("adjective", "sentence", "phrase"))


@dataclass(frozen=True)
class Origin:
    """Countries and languages, the groups that they fit, and the group that who comes from there is in, if any."""

    places: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    fits: tuple[str, ...] = ()
    shows: str | None = None


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
    skips_infants: bool = False
    origins: tuple[Origin, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    cited: tuple[tuple[str, ...], ...] = ()
    """The sources of each row of `wording`."""


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
        skips_infants="infants" in given and given["infants"].choice("`infants`", ("skip",)) == "skip",
        origins=_origins(given["origins"], [group.name for group in groups]) if "origins" in given else (),
    )


def _origins(node: YamlNode, groups: list[str]) -> tuple[Origin, ...]:
    rows = []
    for item in node.items("`origins`"):
        given = item.mapping("a row of `origins`", known=("places", "languages", "fits", "shows"))
        item.require("fits", "a row of `origins`")
        fits = tuple(given["fits"].texts("`fits`"))
        shows = given["shows"].text("`shows`") if "shows" in given else None
        for name in (*fits, *([shows] if shows else [])):
            if name not in groups:
                raise item.error(
                    f"`origins` names an unknown group '{name}'", hint=f"the groups are: {', '.join(groups)}"
                )
        rows.append(Origin(_optional(given, "places"), _optional(given, "languages"), fits, shows))
    return tuple(rows)


def _group(name: str, node: YamlNode) -> CharacteristicGroup:
    extra = ("signs", "patterns", "against", "against_patterns", "bmi")
    given = node.mapping(f"group '{name}'", known=(*KINDS, *extra))
    return CharacteristicGroup(
        name,
        {kind: _forms(forms, f"`{kind}`") for kind, forms in given.items() if kind in KINDS},
        _optional(given, "signs"),
        _patterns(given, "patterns"),
        _optional(given, "against"),
        _patterns(given, "against_patterns"),
        _range(given["bmi"]) if "bmi" in given else None,
    )


def _range(node: YamlNode) -> tuple[float, float]:
    bounds = [item.number("an entry of `bmi`", low=0) for item in node.items("`bmi`")]
    if len(bounds) != 2 or bounds[0] >= bounds[1]:
        raise node.error("`bmi` needs a lower and a higher number")
    return bounds[0], bounds[1]


def _patterns(given: Mapping[str, YamlNode], key: str) -> tuple[re.Pattern[str], ...]:
    return tuple(_pattern(item) for item in given[key].items(f"`{key}`")) if key in given else ()


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
    cited: list[tuple[str, ...]] = []
    seen: set[str] = set()
    sources = _sources(given)
    for row in given["wording"].items("`wording`"):
        cells = row.mapping("a row of `wording`")
        cited.append(tuple(cells.pop("source").text("`source`").split()) if "source" in cells else ())
        for source in cited[-1]:
            if source not in sources:
                raise row.error(f"unknown source '{source}'", hint="name it under `sources`")
        phrases = {name: _form(node, "`wording`") for name, node in cells.items()}
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
        sources=sources,
        cited=tuple(cited),
    )


def _sources(given: Mapping[str, YamlNode]) -> dict[str, str]:
    if "sources" not in given:
        return {}
    return {name: node.text("a source") for name, node in given["sources"].mapping("`sources`").items()}
