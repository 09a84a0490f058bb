"""Gender: female, male, transgender (section 4.2 of the paper).

The patient's gender is given by the header ("Sex: F") and the introducing noun ("63 year old man", "63F"); without
them, by titles, other nouns and pronouns. Altering swaps nouns, titles, letters, pronouns and the words for a spouse,
with the spouse's own pronouns. `transgender` is worded as a transgender woman: the wording of `female`, with
"transgender" at the nouns that introduce the patient. So the group means the same in every note, and its difference
from `female` is that one word, or "(transgender woman)" after a name if the note refers to the patient only by a title.
Infants are never called transgender. The patient's own first name is swapped with its counterpart (`firstnames`).

How to treat notes that contradict the new gender: anatomy and obstetrics contradict a group (a pregnant man), female
ones `male` and `transgender`, male ones `female`, and so do occupations without a counterpart (a fireman). Such notes
are skipped, or altered all the same, as `contradictory` says.

Whose a pronoun is. One of the patient's gender is the patient's, except in a family history and after a relative of
that gender in the same sentence who is or has something ("her mother is 82, she has diabetes"). Those are not changed,
and marked ambiguous. One of the other gender is the spouse's if the spouse is the nearest person of that gender;
otherwise it is not changed, and marked.

In quotations of the patient ("he hit my car") a pronoun refers to somebody else (`owners`); a relative's word for the
patient ("her son says his mother fell") is swapped too (`reciprocal`).

If grammar does not decide, the note is skipped for the group that would need it: a pronoun after a sentence about
somebody else of the patient's gender (`subjects`), "her" that may be him or his (`pronouns`), a spouse with a name
(`partners`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from palpate.cases.edits import Edit
from palpate.perturb.characteristics.gender import words as gendered
from palpate.perturb.characteristics.gender.anatomy import find_sexed, is_work, sexed_words
from palpate.perturb.characteristics.gender.letters import find_letters
from palpate.perturb.characteristics.gender.words import PARENTS, ROLES, Swap
from palpate.perturb.characteristics.grammar import with_articles
from palpate.perturb.characteristics.outcomes import KEPT, NO_MENTION, Contradictory, EditOutcome, Mention, skipped
from palpate.perturb.characteristics.reading import Hit
from palpate.perturb.characteristics.reading.patient import NOUNS, DescribedPatient
from palpate.perturb.characteristics.reading.people import belongs_to_patient

_WORD = "transgender"
_ROLE_WORDS = frozenset((*ROLES.split(), *PARENTS))
_ADJECTIVE = re.compile(
    r"(?P<span>\w+\s+)(?:(?:(?!with|who|is|was|and)[A-Za-z-]+\s+){0,2}?(?:man|woman|male|female|gentleman|lady|girl|boy|patient|pt|"
    r"(?:AA|[WBCH])?/?[MF]|" + "|".join(sorted(_ROLE_WORDS)) + r")\b|\d|_{3}|\[\*\*Age)",
    re.IGNORECASE,
)
_AFTER_NAME = re.compile(r" \(transgender woman\)")
_TOLD_SO = re.compile(
    r"\b(?:AFAB|AMAB|(?:top|bottom)\s+surgery|assigned\s+(?:sex\s+)?(?:as\s+)?(?:at\s+birth\s*:?\s*)?(?:fe)?male|(?:gender|sex)[\s-]+(?:dysphoria|affirming|reassignment))\b",
    re.IGNORECASE,
)
"""What shows that a patient is transgender without the word."""
_CHANGED = re.compile(r"\b(?:male|female)[\s-]*to[\s-]*(?:male|female)\b", re.IGNORECASE)
_NAME = re.compile(r"\.?\s+(?:\[\*\*[^\]]*\]|_{2,}|[A-Z][\w'’-]*(?:[ \t]+[A-Z][\w-]+)?)(?!['’\w])")
_LOWER = re.compile(r"\s+[a-z]")
_CIS = re.compile(r"\bcis(?:gender(?:ed)?)?\s+$", re.IGNORECASE)
_AFTER_LETTER = re.compile(r"\)|\.(?=\s+[a-z])|\s?/\s?\d{1,3}(?:\s?(?:y/?o|y)\b)?")


@dataclass
class FoundGender:
    """All that the note says about the patient's gender."""

    patient: DescribedPatient
    base: str | None = None
    conflict: bool = False
    swaps: list[Swap] = field(default_factory=list)
    left: list[Swap] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    letters: list[tuple[int, int]] = field(default_factory=list)
    removals: list[tuple[int, int]] = field(default_factory=list)
    nouns: list[tuple[int, int]] = field(default_factory=list)
    told_otherwise: bool = False
    infant: bool = False
    sexed: dict[str, Hit] = field(default_factory=dict)

    @property
    def present(self) -> str | None:
        """The group that the note is in."""
        return _WORD if self.removals or self.nouns or self.told_otherwise else self.base


@dataclass(frozen=True)
class GenderCharacteristic:
    """Finds and alters the patient's gender; `contradictory`: how to treat notes that contradict the new gender."""

    contradictory: Contradictory = "skip"
    name: str = "gender"
    groups: tuple[str, ...] = ("female", "male", "transgender")

    def triggers(self) -> dict[str, tuple[str, ...]]:
        """The words to scan for, by tag."""
        return {**gendered.triggers(), "sexed": sexed_words()}

    def find(self, patient: DescribedPatient) -> FoundGender:
        """Everything that the note says about the gender."""
        found = FoundGender(patient)
        found.letters = find_letters(patient)
        strong = gendered.find_strong(patient, found.letters)
        found.base, found.conflict = gendered.decide(strong, patient.note)
        found.infant = patient.is_infant or any(gendered.is_newborn(patient, hit) for hit in patient.note.hits("noun"))
        _find_transgender(found)
        if found.base is None:
            return found
        swaps, left, found.doubts = gendered.find_people(patient, found.base)
        if not swaps and not strong:
            found.base, found.doubts = None, []
            return found
        places = {s.start: s for s in (*swaps, *(s for s in strong if s.gender == found.base))}
        found.swaps = sorted(places.values())
        found.left = sorted((*left, *(s._replace(ambiguous=True) for s in strong if s.gender != found.base)))
        found.sexed = find_sexed(patient)
        return found

    def mentions(self, found: FoundGender) -> list[Mention]:
        """Where the note mentions the gender."""
        text = found.patient.note.text
        kept = [Mention(s.start, s.end, text[s.start : s.end], found.base, s.ambiguous) for s in found.swaps]
        left = [Mention(s.start, s.end, text[s.start : s.end], s.gender, True) for s in found.left]
        trans = [Mention(start, end, text[start:end], _WORD) for start, end in (*found.removals, *found.nouns)]
        return sorted([*kept, *left, *trans])

    def present(self, found: FoundGender) -> str | None:
        """The group that the note is in; None if it does not say."""
        return found.present

    def outcome(self, found: FoundGender, group: str) -> EditOutcome:
        """The edits that alter the note to a group."""
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
            word = found.sexed[against].word
            told = f"the note says '{word}'" if is_work(word) else f"{against} anatomy or obstetrics"
            return skipped(f"contradictory: {told}")
        if self.contradictory == "skip" and group == _WORD and found.infant:
            return skipped("contradictory: an infant")
        target = "male" if group == "male" else "female"
        if target != found.base and found.doubts:
            return skipped(f"ambiguous: {found.doubts[0]}")
        edits = _reworded(found, target)
        if group == _WORD:
            places = _places(found)
            if not places:
                return skipped(NO_MENTION)
            edits += [*places, *_no_cis(found, places)]
        return EditOutcome(with_articles(found.patient.note.text, edits), "changed")


def _reworded(found: FoundGender, target: str) -> list[Edit]:
    """All gendered words in their form for female or male, without "transgender"."""
    instead = "" if found.base else target + " "
    edits = [Edit(start, end, instead) for start, end in found.removals]
    edits += [Edit(start, end, target) for start, end in found.nouns]
    if target != found.base:
        kept = [s for s in found.swaps if s.female != s.male and not any(a <= s.start < b for a, b in found.removals)]
        edits += [Edit(s.start, s.end, s.male if target == "male" else s.female) for s in kept]
    return _capitalized(found, edits) if not instead else edits


def _capitalized(found: FoundGender, edits: list[Edit]) -> list[Edit]:
    """What follows "Transgender" at the start of a sentence gets its capital."""
    note = found.patient.note
    ends = {b for a, b in found.removals if note.text[a].isupper() and a == note.opening(a)}
    ends = {end for end in ends if note.text[end : end + 1].islower()}
    taken = {edit.start for edit in edits}
    changed = [
        edit._replace(text=edit.text[0].upper() + edit.text[1:]) if edit.start in ends else edit for edit in edits
    ]
    return changed + [Edit(end, end + 1, note.text[end].upper()) for end in sorted(ends - taken)]


def _find_transgender(found: FoundGender) -> None:
    note = found.patient.note
    after_age = {d.noun[0] for d in found.patient.descriptions if d.noun}
    for hit in note.hits("trans"):
        if not belongs_to_patient(note, hit.start, hit.end):
            continue
        text = note.text
        adjective = _ADJECTIVE.match(text, hit.start)
        named = _AFTER_NAME.match(text, max(0, hit.start - 2))
        if hit.word in gendered.TRANSITION:
            found.told_otherwise |= _TOLD_SO.search(text, max(0, hit.start - 8), hit.end + 20) is not None
        elif hit.word in ("mtf", "ftm") or _CHANGED.search(text, max(0, hit.start - 18), hit.end + 20):
            found.told_otherwise = True
        elif named:
            found.removals.append(named.span())
        elif adjective:
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
    """Where "transgender" goes: at the nouns that introduce the patient, or the header, "patient", a name."""
    patient, text = found.patient, found.patient.note.text
    told = {s.start for s in found.swaps if s.weight}
    nouns = {d.noun: d.place for d in patient.descriptions if d.noun and d.noun[0] in told}
    raced = set(patient.race_letters)
    edits = [
        Edit(place, place, _WORD + " ")
        if (place, noun[0]) in raced
        else _at_noun(found, *noun, spaced=place == noun[0])
        for noun, place in nouns.items()
    ]
    edits += [_at_letter(found, *span) for span in found.letters if span not in nouns and span[0] in told]
    if edits:
        return edits
    for swap in sorted(found.swaps, key=lambda s: (-s.weight, s.start)):
        if swap.weight == 3:
            return [_after(text, swap.end)]
        if swap.weight and text[swap.start : swap.end].lower() in NOUNS:
            return [_at_noun(found, swap.start, swap.end, spaced=True)]
    for hit in patient.note.hits("patient"):
        owns = text[hit.end : hit.end + 2] in ("'s", "’s")
        if hit.word in ("patient", "pt") and not owns and belongs_to_patient(patient.note, hit.start, hit.end):
            dotted = text[hit.end : hit.end + 1] == "." and _LOWER.match(text, hit.end + 1)
            return [_at_noun(found, hit.start, hit.end + bool(dotted), spaced=True)]
    return _at_title_or_role(found)


def _at_title_or_role(found: FoundGender) -> list[Edit]:
    """ "Ms. Smith (transgender woman)", "a transgender widow"."""
    text = found.patient.note.text
    for swap in found.swaps:
        word = text[swap.start : swap.end].lower()
        name = _NAME.match(text, swap.end) if swap.weight and word in ("mr", "mrs", "ms", "miss") else None
        if name:
            return [Edit(name.end(), name.end(), f" ({_WORD} woman)")]
        if swap.weight and word in _ROLE_WORDS:
            return [_at_noun(found, swap.start, swap.end, spaced=True)]
    return []


def _at_letter(found: FoundGender, start: int, end: int) -> Edit:
    """ "63 yo transgender wf", "63yof (transgender)", "63 (F) (transgender)", "F/63 (transgender)"."""
    text = found.patient.note.text
    first = start
    while first > 0 and (text[first - 1].isalpha() or text[first - 1] == "/"):
        first -= 1
    before = text[:first].rstrip()
    if first and text[first - 1].isspace() and before[-1:].isalpha() and text[end : end + 1] != "/":
        return Edit(first, first, _WORD + " ")
    return _after(text, end)


def _no_cis(found: FoundGender, places: list[Edit]) -> list[Edit]:
    """A "cisgender woman" becomes a "transgender woman"."""
    matches = [_CIS.search(found.patient.note.text, max(0, edit.start - 14), edit.start) for edit in places]
    return [Edit(match.start(), match.end(), "") for match in matches if match]


def _after(text: str, end: int) -> Edit:
    closing = _AFTER_LETTER.match(text, end)
    place = closing.end() if closing else end
    return Edit(place, place, f" ({_WORD})")


def _at_noun(found: FoundGender, start: int, end: int, *, spaced: bool) -> Edit:
    """Before a noun, in its capitals; after one that opens a sentence or has no space before it."""
    text = found.patient.note.text
    noun = text[start:end]
    capital = noun[0].isupper() and len(noun) > 1 and not noun.isupper()
    if not spaced or (capital and start == found.patient.note.opening(start)):
        return _after(text, end) if text[end : end + 1] == ")" else Edit(end, end, f" ({_WORD})")
    return Edit(start, start, (_WORD.upper() if noun.isupper() and len(noun) > 1 else _WORD) + " ")


def _added(found: FoundGender, group: str) -> EditOutcome:
    """A note without a gendered word gets one where the patient is introduced: "63 year old female with asthma"."""
    edits = []
    for description in found.patient.places:
        if description.noun:
            edits.append(Edit(description.place, description.place, group + " "))
        elif description.age:
            edits.append(Edit(description.age.tail, description.age.tail, " " + group))
    if not edits:
        return skipped(NO_MENTION)
    return EditOutcome(with_articles(found.patient.note.text, edits), "added")
