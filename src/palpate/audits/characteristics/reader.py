"""The text engine (`palpate.perturb.characteristics`) as the plan uses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from palpate.cases.edits import Edit
from palpate.errors import ConfigError
from palpate.perturb.characteristics import NAMES, Alterer, Definition, FoundCharacteristics


class NoteReader:
    """Reads a note once and alters it to any group; knows the characteristics that are asked for and no others."""

    def __init__(
        self, alter: Sequence[str], definitions: Sequence[Definition], contradictory: Literal["skip", "alter"]
    ) -> None:
        own = {definition.name: definition for definition in definitions}
        if len(own) < len(definitions):
            raise ConfigError("audit 'characteristics', option 'definitions': a characteristic is defined twice")
        asked = dict.fromkeys(part.strip() for name in alter for part in name.split("+"))
        self.known = (*NAMES, *(name for name in own if name not in NAMES))
        """The names of all characteristics that there are."""
        chosen = [own.get(part, part) for part in asked if part in self.known]
        self._alterer = Alterer(chosen, contradictory=contradictory)
        self.groups = {name: self._alterer.groups(name) for name in self._alterer.characteristics}
        """The groups of those that are asked for."""

    def read(self, text: str) -> FoundCharacteristics:
        """See `ReadsNotes`."""
        return self._alterer.plan(text)

    def present(self, found: FoundCharacteristics) -> Mapping[str, str | None]:
        """See `ReadsNotes`."""
        return self._alterer.detection(found).present

    def edits(self, found: FoundCharacteristics, groups: Mapping[str, str]) -> tuple[Sequence[Edit], str, str | None]:
        """See `ReadsNotes`."""
        return self._alterer.edits(found, groups)
