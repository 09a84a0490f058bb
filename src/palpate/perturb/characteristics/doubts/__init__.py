"""The second reader: after an alteration, whatever nobody is sure of makes the note a skip.

The first reader (`reading`, `gender`, `age`, `wording`) understands sentences, and errs on words it has never seen. This
one is the opposite: it knows many words (crude.yaml), asks only whether one of them is in the note and was not changed,
and does not ask whose it is. A note in which it finds one is skipped with the reason "not sure". Both have to agree before
a note counts as altered, so an error of one of them is not enough.

genders  words of a gender that were not changed, pronouns beside another person of the same gender, words of a sex
ages     words that only some ages allow, and numbers that may be the age
topics   words of the ethnicity, the weight, a home, an insurance, a language
places   what stands around an edit

The words are found by the scan that all characteristics share, so the second reading costs a look at each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from palpate.cases.edits import Edit
from palpate.perturb.characteristics.age import AgeCharacteristic
from palpate.perturb.characteristics.doubts import ages, genders, topics
from palpate.perturb.characteristics.doubts.places import odd_place
from palpate.perturb.characteristics.reading.patient import DescribedPatient

Sure = Literal["strict", "normal"]
"""Whether the second reader has to agree with the first (`strict`), or is not asked (`normal`)."""
REASON = "not sure"


@dataclass
class NoteDoubts:
    """What the second reader found in a note, kept for all groups."""

    aged: ages.AgeDoubts | None = None
    by_kind: dict[tuple[str, str], str | None] = field(default_factory=dict)


def triggers(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The words to scan for, by tag, for some characteristics."""
    found: dict[str, tuple[str, ...]] = {}
    for name in names:
        if name == "gender":
            found |= genders.triggers()
        elif name == "age":
            found |= ages.triggers()
        else:
            found |= topics.triggers(name)
    return found


def doubt(
    patient: DescribedPatient, name: str, found: Any, group: str, edits: Sequence[Edit], known: NoteDoubts
) -> str | None:
    """Why nobody is sure of an alteration; None if both readers agree."""
    if name == AgeCharacteristic.name:
        if known.aged is None:
            known.aged = ages.AgeDoubts(patient, edits)
        why = known.aged.doubt(group)
        return f"{REASON}: {why}" if why else None
    key = (name, group)
    if key not in known.by_kind:
        if name == "gender":
            why = genders.gender_doubt(patient, found, group, edits)
        else:
            why = topics.topic_doubt(patient, name, found, group, edits)
        known.by_kind[key] = why or odd_place(patient.note.text, edits)
    why = known.by_kind[key]
    return f"{REASON}: {why}" if why else None
