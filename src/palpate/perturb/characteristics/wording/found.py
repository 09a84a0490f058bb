"""What is looked for and found in a note for a characteristic that YAML defines."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from palpate.perturb.characteristics.reading import lazy
from palpate.perturb.characteristics.reading.patient import DescribedPatient, Description
from palpate.perturb.characteristics.wording.dwellings import Dwelling
from palpate.perturb.characteristics.wording.measures import BodyMass, body_mass
from palpate.perturb.characteristics.wording.places import mention_places


class WordedMention(NamedTuple):
    """A mention: its span, its group (None for a group that is never written) and its kind."""

    start: int
    end: int
    group: str | None
    kind: str


class Form(NamedTuple):
    """A form to look for; `row` is its row in a wording table."""

    pattern: re.Pattern[str]
    group: str | None
    kind: str
    row: int = -1


@dataclass
class FoundWords:
    """The mentions of one characteristic in a note."""

    patient: DescribedPatient
    places: list[WordedMention] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    signs: list[WordedMention] = field(default_factory=list)
    denied: set[str] = field(default_factory=set)
    """Groups that the note says the patient is not in."""
    against: dict[str, str] = field(default_factory=dict)
    """By group, a word that contradicts it."""
    origins: dict[str, str] = field(default_factory=dict)
    """By group, what does not fit it: a country of origin, a language."""
    dwellings: list[Dwelling] = field(default_factory=list)
    """Where the note says that the patient lives."""
    mixed: bool = False
    present: str | None = None

    @lazy
    def open_places(self) -> list[Description]:
        """Where a mention may be added."""
        return mention_places(self.patient)

    @lazy
    def mass(self) -> BodyMass | None:
        """The patient's body mass index, measured or bounded by the weight."""
        return body_mass(self.patient)


def form_pattern(form: str) -> re.Pattern[str]:
    """A form in any case; its white space matches any white space."""
    return re.compile(r"\b" + r"\s+".join(map(re.escape, form.split())) + r"(?![\w])", re.IGNORECASE)
