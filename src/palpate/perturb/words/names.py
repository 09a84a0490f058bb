"""Words of the notes that look like names of people, which are not shown unless somebody asks for them by name.

Three signs are used. A word of the list of common names (`names.yaml`) counts where most of its places capitalise it: a
place at the start of a sentence or in capitals says nothing. A name that is also a word of English or of medicine
("Rose", "Murphy") counts only where a sentence goes on with it in capitals; a disease or a sign that is called after
somebody ("Wilson's disease") is no place of a name. And any word counts that is mostly where a name is: after "Dr.",
"Mr." or the like with the capitalised words that follow ("Mrs. Ottoline Quackenbush"), before ", MD", after "Name:" or
"Attending:", and, with a capital, after a name of the list. And any word counts that sentences nearly always go on with
in capitals and that is known for nothing else (`capitals.py`). In notes without capitals, the names of the list count
that are no other word.

This is a safeguard beside the rule that a word of few patients is never shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple

from palpate.cases.parallel import each_part
from palpate.files import read_resource
from palpate.perturb.words.capitals import LOWER, Capitals, count_capitals
from palpate.perturb.words.tokens import normalise_word, text_parts

_WITHIN = re.compile(r"(?<=[a-z,;] )[A-Z][a-z']+(?:-[A-Z][a-z]+)?")
_ANYWHERE = re.compile(r"\b[A-Z][a-z']+")
_SMALL = re.compile(rf"\b[{LOWER}][{LOWER}']+")
_TITLED = re.compile(r"\b(?:[Dd]r|[Mm]rs?|[Mm]s|[Mm]iss|[Pp]rof|MD|RN)\b\.?,? +([^\W\d_][^\W\d_'-]+)")
_RUN = r"((?:[A-Z][^\W\d_]+(?:['\u2019-][^\W\d_]+)*(?:, |[ ,]|(?=\W)|$)){1,3})"
"""Up to three capitalised words, as in "QUACKENBUSH, OTTOLINE" or "Jean-Luc O'Brien"."""
_AFTER_TITLE = re.compile(rf"\b(?:[Dd]r|[Mm]rs?|[Mm]s|[Mm]iss|[Pp]rof)\b\.? +{_RUN}")
_AFTER_COLON = re.compile(rf": *\n? *{_RUN}")
_LABEL = re.compile(
    r"\b(?:(?:sur)?name|patient|re|attending(?: physician)?|provider|physician|surgeon|nurse|pcp|"
    r"(?:dictated|signed|seen|referred) by) ?$",
    re.IGNORECASE,
)
_CREDENTIAL = re.compile(r"(?<=[ ,(])(?:M\.?D|R\.?N|D\.?O|N\.?P|Ph\.?D|FNP|PA-C)\b")
_RUN_BEFORE = re.compile(rf"\b{_RUN} ?\(?$")
_LONGEST_LABEL, _LONGEST_RUN = 24, 80
_PAIR = re.compile(r"\b([A-Z][a-z]+) ([A-Z][^\W\d_]+)")
_EPONYM = re.compile(
    r"\b([A-Z][a-z]+)(?:['\u2019]s?)? (?:disease|syndrome|sign|catheter|palsy|test|drain|o?esophagus|criteria|"
    r"score|reflex|fracture|contracture|lymphoma|tumou?r|procedure|classification|scale|thyroiditis|cell|staging)\b"
)
_WORD = re.compile(r"[^\W\d_][^\W\d_'-]+")
_MOST = 0.5
_REMEMBERED = 1 << 16
"""Words whose normal form is remembered: most words of a note are in others too."""


class NameLists(dict[str, bool]):
    """The common names; True: it is no other word as well."""


@cache
def common_names() -> NameLists:
    """The list that comes with palpate."""
    listed: Mapping[str, Any] = read_resource("palpate.perturb.words", "names.yaml")
    also = frozenset(listed["also_words"].split())
    return NameLists({name: name not in also for name in f"{listed['given']} {listed['family']}".split()})


class _Places(NamedTuple):
    """How often words are written in each way."""

    within: Counter[str]
    """With a capital within a sentence."""
    anywhere: Counter[str]
    """With a capital."""
    small: Counter[str]
    titled: Counter[str]
    """Where a name is."""
    eponyms: Counter[str]


def find_names(texts: Iterable[str], words: Collection[str]) -> frozenset[str]:
    """Which of some words (in normal form) look like names of people in these texts."""
    listed = {word: common_names()[stem] for word in words if (stem := _stem(word)) in common_names()}
    others = {word: _parts(word) for word in words if word not in listed}
    parts, asked = text_parts(texts), frozenset(words)
    unlisted = frozenset(part for word in others for part in others[word])
    capitals = Capitals(
        *_summed(each_part(count_capitals, [(*part, unlisted) for part in parts]), len(Capitals._fields))
    )
    counted = frozenset([*listed, *capitals.candidates()])
    ways = each_part(_places, [(*part, counted) for part in parts])
    places = _Places(*_summed(ways, len(_Places._fields)))
    eponyms = Counter({word: n for word, n in places.eponyms.items() if word in listed})
    within, anywhere, small = places.within - eponyms, places.anywhere - eponyms, places.small + eponyms
    titled = Counter({word: n for word, n in places.titled.items() if word in asked})
    after = Counter[str]()
    if titled:
        (after,) = _summed(
            ((own,) for own in each_part(_all_places, [(*part, frozenset(titled)) for part in parts])), 1
        )
    written = any(anywhere[word] for word in listed)
    names = capitals.names(small)
    found = {word for word in others if not names.isdisjoint(others[word])}
    found |= {word for word, only in listed.items() if _is_name(word, only, within, anywhere, small, written)}
    return frozenset(found | {word for word, n in titled.items() if n > _MOST * after[word]})


def _summed(parts: Iterable[Iterable[Counter[str]]], n: int) -> list[Counter[str]]:
    """The counters of all parts of the texts together."""
    found = [Counter[str]() for _ in range(n)]
    for part in parts:
        for total, own in zip(found, part, strict=True):
            total.update(own)
    return found


def _places(texts: Iterable[str], counted: Collection[str]) -> _Places:
    """Where some texts have the words to be counted, and which words they have where a name is."""
    found = _Places(*(Counter() for _ in _Places._fields))
    normal = lru_cache(maxsize=_REMEMBERED)(normalise_word)
    ways = ((found.within, _WITHIN), (found.anywhere, _ANYWHERE), (found.small, _SMALL), (found.eponyms, _EPONYM))
    for text in texts:
        for places, pattern in ways if counted else ():
            places.update(filter(counted.__contains__, map(normal, pattern.findall(text))))
        found.titled.update(map(normal, _in_places_of_names(text)))
    return found


def _in_places_of_names(text: str) -> Iterator[str]:
    """The words that are where a name is, one for each place."""
    at: dict[tuple[int, int], str] = {match.span(1): match[1] for match in _TITLED.finditer(text)}
    for first, run in _runs(text):
        at |= {(first + word.start(), first + word.end()): word[0] for word in _WORD.finditer(run)}
    known = common_names()
    at |= {pair.span(2): pair[2] for pair in _PAIR.finditer(text) if known.get(pair[1].lower(), False)}
    return iter(at.values())


def _runs(text: str) -> Iterator[tuple[int, str]]:
    """Capitalised words after a title, after a label such as "Name:", or before "MD"; and where they begin."""
    for match in _AFTER_TITLE.finditer(text):
        yield match.start(1), match[1]
    for match in _AFTER_COLON.finditer(text):
        if _LABEL.search(text[max(0, match.start() - _LONGEST_LABEL) : match.start()]):
            yield match.start(1), match[1]
    for match in _CREDENTIAL.finditer(text):
        first = max(0, match.start() - _LONGEST_RUN)
        if before := _RUN_BEFORE.search(text[first : match.start()]):
            yield first + before.start(1), before[1]


def _is_name(
    word: str, only: bool, within: Counter[str], anywhere: Counter[str], small: Counter[str], written: bool
) -> bool:
    places = within[word] + small[word]
    if within[word] > _MOST * places:
        return True
    if not only:
        return False
    if not places:  # at starts of sentences or in capitals only, or the notes have no capitals
        return True
    return not written or anywhere[word] > _MOST * (anywhere[word] + small[word])


def _all_places(texts: Iterable[str], wanted: Collection[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for text in texts:
        found.update(filter(wanted.__contains__, map(normalise_word, _WORD.findall(text))))
    return found


def _parts(word: str) -> list[str]:
    """The names in "kowalczyk-nowak" and in "kowalczyk's"."""
    return [part.replace("\u2019", "'").removesuffix("'s") for part in word.split("-")]


def _stem(word: str) -> str:
    """The name in "o'brien" and in "smith's"."""
    return word.removesuffix("'s").replace("'", "")
