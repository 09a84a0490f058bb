"""The values of headers: "Ethnicity: White", "Insurance: Medicaid".

The labels and values are those of the definition. A value with another after it ("Medicare and Medicaid", "White/
Hispanic") puts the patient into more than one group, and one after "not" says which group the patient is not in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from palpate.perturb.characteristics.definitions import Definition
from palpate.perturb.characteristics.reading import ScannedNote
from palpate.perturb.characteristics.reading.people import belongs_to_patient


class HeaderReader:
    """Finds the headers of a definition in a note."""

    def __init__(self, definition: Definition) -> None:
        groups = (*definition.groups, *([definition.other] if definition.other else []))
        forms = [(form, group) for group in groups for form in group.forms.get("header", ())]
        self._name_of = {form.lower(): None if group is definition.other else group.name for form, group in forms}
        self._pattern = _header(definition.headers, self._name_of) if definition.headers and forms else None
        self._more = _more({form for form, _ in forms}) if forms else None

    def find(self, note: ScannedNote, tag: str) -> Iterator[tuple[re.Match[str], str | None]]:
        """The headers of the patient, and the group of each, None for one that is never written."""
        if self._pattern is None:
            return
        taken: set[tuple[int, int]] = set()
        for hit in note.hits(tag):
            match = self._pattern.match(note.text, hit.start)
            if match is None or match.span("value") in taken:
                continue
            value = match.group("value").lower()
            # The pattern takes "hi\u017fpanic", whose long s is no s in lower case.
            if value in self._name_of and belongs_to_patient(note, match.start(), match.end()):
                taken.add(match.span("value"))
                yield match, self._name_of[value]

    def goes_on(self, text: str, end: int) -> bool:
        """Whether another group comes right after a phrase: "has Medicare and Medicaid"."""
        return self._more is not None and self._more.match(text, end) is not None


def _header(labels: tuple[str, ...], values: dict[str, str | None]) -> re.Pattern[str]:
    return re.compile(
        rf"(?:{_any(labels)})[ \t]*:[ \t]*(?P<not>(?:not|non)[ \t-]+)?(?P<value>{_any(values)})(?![\w])"
        r"(?P<more>\s?/\s?\w|[ \t](?:and|plus|&|\+)[ \t])?",
        re.IGNORECASE,
    )


def _more(values: set[str]) -> re.Pattern[str]:
    return re.compile(rf"\s*(?:/|&|,?\s+(?:and|or|plus)\s)\s*(?:{_any(sorted(values))})\b", re.IGNORECASE)


def _any(words: Iterable[str]) -> str:
    """The words as alternatives, longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
