"""The check after each alteration: the altered note is read again, and must say the new group and nothing else.

The sentences with edits are read again: all others are as they were, and what they say is about other people, or they
would have edits. If these sentences alone do not say the group, the whole note is read. Whether a word is the patient's
depends for pronouns on the sentences before, so a note that changes between female and male is always read as a whole,
once for each of the two; no word of the old gender may be left that says who the patient is.

Ages are written alike but for the number and its article, so one age of each kind is read for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

from palpate.cases.edits import Edit, splice
from palpate.perturb.characteristics.age import OVER_90, FoundAge
from palpate.perturb.characteristics.gender import FoundGender
from palpate.perturb.characteristics.grammar import takes_an
from palpate.perturb.characteristics.reading import TriggerWords
from palpate.perturb.characteristics.reading.patient import DescribedPatient

_IDENTITY = dict.fromkeys(("trans woman", "trans man", "transgender"), "transgender") | {"non-binary": "non-binary"}
"""The word that says these groups; the rest of their wording is that of `female` and `male`, and checked as such."""


_SHORT, _REMEMBERED = 160, 20_000
"""How long a sentence is that may well be in several notes, and how many of them are remembered."""


class ReadsCharacteristic(Protocol):
    """What the check needs of a characteristic."""

    @property
    def name(self) -> str:
        """The name of the characteristic."""
        ...

    def reread(self, patient: DescribedPatient) -> Any:
        """As much of what an altered note says about it as `present` needs, and no more."""
        ...

    def present(self, found: Any) -> str | None:
        """The group that the note is in."""
        ...


@cache
def kind_of(name: str, group: str) -> str:
    """What a group is checked as: ages with the same article are written alike."""
    if name != "age" or not group.isdigit():
        return group
    return "an" if takes_an(group) else "a"


class AlterationCheck:
    """Reads altered notes again for a characteristic, with the words of its lexicon.

    Many notes introduce their patients in the same words, so what a short sentence says is remembered.
    """

    def __init__(self, one: ReadsCharacteristic, lexicon: TriggerWords) -> None:
        self._one, self._lexicon = one, lexicon
        self._known: dict[tuple[str, str], bool] = {}

    def wrong(self, patient: DescribedPatient, edits: Sequence[Edit], group: str) -> str | None:
        """What the altered note says instead of the group; None if it says the group."""
        whole = self._one.name == "gender" and group in ("female", "male")
        if not whole and self._says(_edited_sentences(patient, edits, only=_IDENTITY.get(group)), group):
            return None
        again = self._read(splice(patient.note.text, edits))
        said = self._one.present(again)
        left = _left_over(again, group) if whole else None
        if left:
            return f"check: '{left}' would be left of the old gender"
        if said == group or _says_too(again, said, group):
            return None
        return (
            f"check: read again, the altered note says '{said}'"
            if said
            else "check: read again, the altered note does not say it"
        )

    def _read(self, text: str) -> Any:
        return self._one.reread(DescribedPatient(self._lexicon.scan(text)))

    def _says(self, sentences: str, group: str) -> bool:
        """Whether the altered sentences alone say the group."""
        known = self._known.get((sentences, group))
        if known is None:
            again = self._read(sentences)
            said = self._one.present(again)
            known = said == group or _says_too(again, said, group)
            if len(sentences) <= _SHORT:
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[sentences, group] = known
        return known


def _says_too(again: Any, said: str | None, group: str) -> bool:
    """Whether the note says the group in another way: "in his 60s" is 63, a transgender woman is transgender."""
    if group == "transgender":
        return (said or "").startswith("trans")
    if not isinstance(again, FoundAge) or said is not None:
        return False
    years = 90 if group == OVER_90 else int(group)
    return bool(again.ages) and all((age.value or 0) // 10 == years // 10 for age in again.ages)


def _edited_sentences(patient: DescribedPatient, edits: Sequence[Edit], *, only: str | None = None) -> str:
    """The sentences with edits, altered; with `only`, those in which this word is written."""
    note, text = patient.note, patient.note.text
    parts: list[str] = []
    own: list[Edit] = []
    start = end = 0
    for edit in (*edits, None):
        if edit is not None and edit.start < end:
            own.append(edit)
            end = max(end, note.sentence(max(edit.start, edit.end - 1))[1])
            continue
        if own and (only is None or any(only in e.text.lower() for e in own)):
            parts.append(splice(text[start:end], [Edit(e.start - start, e.end - start, e.text) for e in own]))
        if edit is not None:
            start, end = note.sentence(edit.start)
            end = max(end, note.sentence(max(edit.start, edit.end - 1))[1], edit.end)
            own = [edit]
    return "\n".join(parts)


def _left_over(again: FoundGender, group: str) -> str | None:
    """A word that still calls the patient by the other gender."""
    text = again.patient.note.text
    return next((text[s.start : s.end] for s in again.left if s.weight and s.gender != group), None)
