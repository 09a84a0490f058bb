"""Gender: female, male, transgender (section 4.2 of the paper).

The patient's gender is what the header ("Sex: F") and the introducing noun ("63 year old man", "63F") say; without
them, what titles, other nouns and pronouns say. Altering swaps nouns, titles, letters, pronouns and the words for a
spouse, with the spouse's own pronouns. `transgender` is worded as a transgender woman: the wording of `female`, and
"transgender" at the nouns that introduce the patient. So the group means the same in every note, and its difference to
`female` is that one word. First names are left alone: de-identified notes have none.

Anatomy and obstetrics contradict a group (a pregnant man): female ones `male` and `transgender`, male ones `female`.

Whose a pronoun is. Of the patient's gender: the patient's, except in a family history and after a relative of that
gender in the same sentence who is said to be or to have something ("her mother is 82, she has diabetes"), or who fell
ill or died in the sentence right before. Those are left alone and marked ambiguous. Of the other gender: the spouse's
if the spouse is the nearest person of that gender, else left alone and marked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from palpate.edits import Edit
from palpate.perturb.characteristics import gendered
from palpate.perturb.characteristics.articles import with_articles
from palpate.perturb.characteristics.describe import NOUNS, Patient
from palpate.perturb.characteristics.gendered import Swap
from palpate.perturb.characteristics.mentions import KEPT, NO_MENTION, Mention, Outcome, skipped
from palpate.perturb.characteristics.people import belongs_to_patient
from palpate.perturb.characteristics.scan import Hit
from palpate.perturb.characteristics.sexed import find_sexed, sexed_words

Contradictory = Literal["skip", "alter"]
_WORD = "transgender"
_ADJECTIVE = re.compile(
    r"(?P<span>\w+\s+)(?:(?:(?!with|who|is|was|and)[A-Za-z-]+\s+){0,2}?(?:man|woman|male|female|gentleman|lady|girl|boy|patient|pt|(?:AA|W|B)?[MF])\b|\d|_{3}|\[\*\*Age)",
    re.IGNORECASE,
)


@dataclass
class FoundGender:
    """All that the note tells of the patient's gender."""

    patient: Patient
    base: str | None = None
    conflict: bool = False
    swaps: list[Swap] = field(default_factory=list)
    left: list[Swap] = field(default_factory=list)
    removals: list[tuple[int, int]] = field(default_factory=list)
    nouns: list[tuple[int, int]] = field(default_factory=list)
    told_otherwise: bool = False
    sexed: dict[str, Hit] = field(default_factory=dict)

    @property
    def present(self) -> str | None:
        """The group that the note is in."""
        return _WORD if self.removals or self.nouns or self.told_otherwise else self.base


@dataclass(frozen=True)
class Gender:
    """The characteristic; `contradictory` says what becomes of a note whose anatomy does not go with the group."""

    contradictory: Contradictory = "skip"
    name: str = "gender"
    groups: tuple[str, ...] = ("female", "male", "transgender")

    def triggers(self) -> dict[str, tuple[str, ...]]:
        """The words to scan for, by tag."""
        return {**gendered.triggers(), "sexed": sexed_words()}

    def find(self, patient: Patient) -> FoundGender:
        """Everything, once."""
        found = FoundGender(patient)
        strong = gendered.find_strong(patient)
        found.base, found.conflict = gendered.decide(strong, patient.note)
        _find_transgender(found)
        if found.base is None:
            return found
        swaps, left = gendered.find_people(patient.note, found.base)
        places = {s.start: s for s in (*swaps, *(s for s in strong if s.gender == found.base))}
        found.swaps = sorted(places.values())
        found.left = sorted((*left, *(s._replace(ambiguous=True) for s in strong if s.gender != found.base)))
        found.sexed = find_sexed(patient.note)
        return found

    def mentions(self, found: FoundGender) -> list[Mention]:
        """Where the note tells of it."""
        text = found.patient.note.text
        kept = [Mention(s.start, s.end, text[s.start : s.end], found.base, s.ambiguous) for s in found.swaps]
        left = [Mention(s.start, s.end, text[s.start : s.end], s.gender, True) for s in found.left]
        trans = [Mention(start, end, text[start:end], _WORD) for start, end in (*found.removals, *found.nouns)]
        return sorted([*kept, *left, *trans])

    def present(self, found: FoundGender) -> str | None:
        """The group that the note is in; None when it does not say."""
        return found.present

    def outcome(self, found: FoundGender, group: str) -> Outcome:
        """What altering to a group takes."""
        if group == found.present:
            return KEPT
        if found.conflict:
            return skipped("ambiguous: the note calls the patient both male and female")
        if found.base is None and not found.present:
            return _added(found, group)
        if found.told_otherwise:
            return skipped("ambiguous: the note tells in its own words that the patient is transgender")
        against = "male" if group == "female" else "female"
        if self.contradictory == "skip" and against in found.sexed:
            return skipped(f"contradictory: {against} anatomy or obstetrics")
        target = "male" if group == "male" else "female"
        edits = [Edit(start, end, "") for start, end in found.removals]
        edits += [Edit(start, end, target) for start, end in found.nouns]
        if target != found.base:
            edits += [Edit(s.start, s.end, s.male if target == "male" else s.female) for s in found.swaps]
        if group == _WORD:
            places = _places(found)
            if not places:
                return skipped(NO_MENTION)
            edits += places
        return Outcome(with_articles(found.patient.note.text, edits), "changed")


def _find_transgender(found: FoundGender) -> None:
    note = found.patient.note
    after_age = {d.noun[0] for d in found.patient.descriptions if d.noun}
    for hit in note.hits("trans"):
        if not belongs_to_patient(note, hit.start, hit.end):
            continue
        text = note.text
        adjective = _ADJECTIVE.match(text, hit.start)
        if adjective:
            found.removals.append(adjective.span("span"))
        elif text[hit.start - 2 : hit.start] == " (" and text[hit.end : hit.end + 1] == ")":
            found.removals.append((hit.start - 2, hit.end + 1))
        elif hit.word == "trans":
            continue
        elif hit.start in after_age:
            found.nouns.append((hit.start, hit.end))
        else:
            found.told_otherwise = True


def _places(found: FoundGender) -> list[Edit]:
    """Where the word "transgender" goes: at the nouns that introduce the patient, else the header, else "patient"."""
    patient, text = found.patient, found.patient.note.text
    told = {s.start for s in found.swaps if s.weight}
    nouns = {d.noun: d for d in patient.descriptions if d.noun and d.noun[0] in told}
    if nouns:
        return [_at_noun(found, *noun, spaced=d.place == noun[0]) for noun, d in nouns.items()]
    for swap in sorted(found.swaps, key=lambda s: (-s.weight, s.start)):
        if swap.weight == 3:
            return [Edit(swap.end, swap.end, f" ({_WORD})")]
        if swap.weight and text[swap.start : swap.end].lower() in NOUNS:
            return [_at_noun(found, swap.start, swap.end, spaced=True)]
    for hit in patient.note.hits("patient"):
        if hit.word in ("patient", "pt") and belongs_to_patient(patient.note, hit.start, hit.end):
            return [_at_noun(found, hit.start, hit.end, spaced=True)]
    return []


def _at_noun(found: FoundGender, start: int, end: int, *, spaced: bool) -> Edit:
    """Before a noun, in its capitals; after one that opens a sentence or has no space before it."""
    noun = found.patient.note.text[start:end]
    capital = noun[0].isupper() and len(noun) > 1 and not noun.isupper()
    if not spaced or (capital and start == found.patient.note.opening(start)):
        return Edit(end, end, f" ({_WORD})")
    return Edit(start, start, (_WORD.upper() if noun.isupper() and len(noun) > 1 else _WORD) + " ")


def _added(found: FoundGender, group: str) -> Outcome:
    """A note without any word of gender gets one where the patient is introduced: "63 year old female with asthma"."""
    edits = []
    for description in found.patient.places:
        if description.noun:
            edits.append(Edit(description.place, description.place, group + " "))
        elif description.age:
            edits.append(Edit(description.age.tail, description.age.tail, " " + group))
    if not edits:
        return skipped(NO_MENTION)
    return Outcome(with_articles(found.patient.note.text, edits), "added")
