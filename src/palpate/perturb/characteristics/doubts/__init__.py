"""The second reader: after an alteration, whatever nobody is sure of makes the note a skip.

The first reader (`reading`, `gender`, `age`, `wording`) understands sentences, and errs on words it has never seen.
This one is the opposite: it knows many words (crude.yaml), asks only whether one of them is in the note and was not
changed, and hardly asks whose it is. A note in which it finds one is skipped with the reason "not sure". Both have to
agree before a note counts as altered, so an error of one of them is not enough.

genders  words of a gender that were not changed, pronouns beside another person of the same gender
verbs    verbs of one person after "they"
names    first names that were not changed
kin      the patient as a parent or a child, as one of several men or women
sexes    words of a sex, and of a transition
ages     words that only some ages allow, and numbers that may be the age
topics   words of the ethnicity, the weight, a home, an insurance, a language
places   what stands around an edit

The words are found by the scan that all characteristics share, so the second reading costs a look at each of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from palpate.perturb.characteristics.doubts import ages, genders, sexes, topics
from palpate.perturb.characteristics.doubts.places import AlteredTo, odd_place
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


class SecondReader(NamedTuple):
    """Asks whether a word was left; with `contradictions`, also whether one contradicts the new group."""

    contradictions: bool = True

    def doubt(self, patient: DescribedPatient, altered: AlteredTo, known: NoteDoubts) -> str | None:
        """Why nobody is sure of an alteration; None if both readers agree."""
        if altered.name == "age":
            if known.aged is None:
                known.aged = ages.AgeDoubts(patient, altered.edits)
            why = known.aged.left or (known.aged.against(altered.group) if self.contradictions else None)
        else:
            key = (altered.name, altered.group)
            if key not in known.by_kind:
                known.by_kind[key] = self._word(patient, altered, known) or odd_place(patient.note.text, altered.edits)
            why = known.by_kind[key]
        return f"{REASON}: {why}" if why else None

    def _word(self, patient: DescribedPatient, altered: AlteredTo, known: NoteDoubts) -> str | None:
        if altered.name != "gender":
            return topics.topic_doubt(patient, altered) if self.contradictions else None
        against = sexes.contradiction(patient, altered) if self.contradictions else None
        if against:
            return against
        alike = ("left over", genders.wording(altered.group))
        if alike not in known.by_kind:
            known.by_kind[alike] = genders.left_over(patient, altered)
        return known.by_kind[alike]
