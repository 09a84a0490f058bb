"""Where the patient comes from and which language he or she speaks, and which groups that fits.

"Born in Mexico", "a native of Vietnam", "Danish is her native language", "Spanish-speaking only". A provider's or a
relative's language does not count, nor does a journey.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from palpate.perturb.characteristics.definitions import Origin
from palpate.perturb.characteristics.reading import ScannedNote
from palpate.perturb.characteristics.reading.people import belongs_to_patient
from palpate.perturb.characteristics.wording import contexts

_TO_HERE = r"(?:\s+(?:to\s+(?:the\s+)?(?:US|USA|United\s+States|America|this\s+country)|here|over))?(?:\s+in\s+\d{4})?"
_COMES = (
    r"(?:born(?:\s+and\s+raised)?\s+in|raised\s+in|grew\s+up\s+in|native\s+of|"
    rf"(?:immigrat|emigrat|migrat)(?:ed|ing){_TO_HERE}\s+from|(?:moved|came|arrived){_TO_HERE}\s+from|"
    r"(?:originally|immigrant|refugee)\s+from|was\s+from|"
    r"from(?:(?<=man\sfrom)|(?<=male\sfrom)|(?<=lady\sfrom)|(?<=\sM\sfrom)|(?<=\sF\sfrom)))"
)
_LEADS = (
    "born", "raised", "grew", "native", "immigrated", "immigrating", "emigrated", "emigrating", "migrated", "moved",
    "came", "arrived", "originally", "immigrant", "refugee", "was", "from", "speaks", "language",
)  # fmt: skip
_SPEAKS = ("speaks", "language")
_KINDS = ("a country of origin", "a language")
_OWN = r"(?:his|her|their|the|patient['’]?s)"
_FIRST = r"(?:native|first|primary|preferred|main)"


class FoundOrigin(NamedTuple):
    """A statement of the patient's origin or language."""

    start: int
    end: int
    what: str
    origin: Origin


class OriginReader:
    """Finds the origins of a definition in a note."""

    def __init__(self, origins: tuple[Origin, ...]) -> None:
        self._rows = [(origin, _places(origin), _languages(origin)) for origin in origins]
        self._asked: dict[str, list[tuple[Origin, str, re.Pattern[str]]]] = {}
        self._names = {re.findall(r"[a-z]+", name.lower())[0] for origin in origins for name in origin.languages}
        self.words = (*_LEADS, *sorted(self._names)) if origins else ()

    def find(self, note: ScannedNote, tag: str) -> Iterator[FoundOrigin]:
        """What the note says, in order of its words."""
        for hit in note.hits(tag):
            for origin, what, pattern in self._patterns_of(hit.word):
                match = pattern.match(note.text, hit.start)
                if match is None or contexts.is_providers(note.text, match.end()):
                    continue
                if belongs_to_patient(note, hit.start, match.end()) and not contexts.is_denied(note, *match.span()):
                    born = match.group().lower().endswith("born")
                    yield FoundOrigin(*match.span(), "a country of origin" if born else what, origin)

    def _patterns_of(self, word: str) -> list[tuple[Origin, str, re.Pattern[str]]]:
        """The patterns that a word may open: languages do not open with "born", nor places with "speaks"."""
        if word not in self._asked:
            leads, speaks = word not in _SPEAKS and word in _LEADS, word in _SPEAKS or word in self._names
            self._asked[word] = [
                (origin, what, pattern)
                for origin, *patterns in self._rows
                for what, opens, pattern in zip(_KINDS, (leads, speaks), patterns, strict=True)
                if opens and pattern
            ]
        return self._asked[word]


def _any(names: tuple[str, ...]) -> str:
    return (
        "(?:" + "|".join(re.escape(name).replace(r"\ ", r"\s+") for name in sorted(names, key=len, reverse=True)) + ")"
    )


def _places(origin: Origin) -> re.Pattern[str] | None:
    if not origin.places:
        return None
    city = r"(?:(?-i:[A-Z])[a-z]+(?:\s(?-i:[A-Z])[a-z]+)?,\s+)?"
    return re.compile(rf"{_COMES}\s+{city}(?:the\s+)?{_any(origin.places)}\b", re.IGNORECASE)


def _languages(origin: Origin) -> re.Pattern[str] | None:
    if not origin.languages:
        return None
    names = _any(origin.languages)
    return re.compile(
        rf"speaks\s+(?:only\s+|primarily\s+|mainly\s+|mostly\s+)?{names}\b"
        rf"|language(?:(?<=native\slanguage)|(?<=first\slanguage)|(?<=primary\slanguage)|(?<=preferred\slanguage))(?:\s+is|\s*:)\s*{names}\b"
        rf"|{names}(?:[\s-]+(?:only[\s-]+)?(?:speaking|speaker)\b|\s+(?:interpreter|translator)\b"
        rf"|\s+is\s+{_OWN}\s+{_FIRST}\s+language|[\s-]+born\b)",
        re.IGNORECASE,
    )
