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


class ReadsCharacteristic(Protocol):
    """What the check needs of a characteristic."""

    @property
    def name(self) -> str:
        """The name of the characteristic."""
        ...

    def find(self, patient: DescribedPatient) -> Any:
        """Everything that the note says about it."""
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


def check(
    patient: DescribedPatient, edits: Sequence[Edit], one: ReadsCharacteristic, group: str, lexicon: TriggerWords
) -> str | None:
    """What the altered note says instead of the group; None if it says the group."""
    text = patient.note.text
    said: str | None = None
    whole = one.name == "gender" and group in ("female", "male")
    texts = [] if whole else [_edited_sentences(patient, edits, only=_IDENTITY.get(group))]
    for altered in (*texts, splice(text, edits)):
        again = one.find(DescribedPatient(lexicon.scan(altered)))
        said = one.present(again)
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
