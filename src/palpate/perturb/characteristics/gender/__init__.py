"""Gender: women and men, transgender women and men, non-binary patients (section 4.2 of the paper, and beyond it).

The patient's gender is given by the header ("Sex: F") and the introducing noun ("63 year old man", "63F"); without
them, by titles, other nouns and pronouns.

female, male    the note as it is written about most patients: nouns, titles, letters, pronouns, the words for a spouse
                with the spouse's own pronouns, and the patient's own first name (`firstnames`)
trans woman     the wording of `female`, with "transgender" at the nouns that introduce the patient. The difference from
                `female` is that one word, or "(transgender woman)" after a name if there is only a title; a note that
                calls the patient by pronouns only gets the sentence "She is transgender."
trans man       the same with `male`
non-binary      "63 year old non-binary person", they and their verbs (`neutral`)
transgender     the paper's own variant, and not a default group: the one word is added, nothing else changes

Which notes contradict a group, and are skipped, or altered all the same, as `contradictory` says: female anatomy and
obstetrics contradict `male` and `trans woman`, male anatomy `female` and `trans man`, and so do occupations without a
counterpart (a fireman). A child under five is not called transgender or non-binary.

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
from palpate.perturb.characteristics.gender import identity, neutral
from palpate.perturb.characteristics.gender import words as gendered
from palpate.perturb.characteristics.gender.anatomy import find_sexed, is_mother, is_work, sexed_words
from palpate.perturb.characteristics.gender.letters import find_letters
from palpate.perturb.characteristics.gender.newborns import is_newborn
from palpate.perturb.characteristics.gender.places import before_pronoun, places
from palpate.perturb.characteristics.gender.words import Swap
from palpate.perturb.characteristics.grammar import with_articles
from palpate.perturb.characteristics.outcomes import KEPT, NO_MENTION, Contradictory, EditOutcome, Mention, skipped
from palpate.perturb.characteristics.reading import Hit
from palpate.perturb.characteristics.reading.patient import DescribedPatient

GROUPS = ("female", "male", "trans woman", "trans man", neutral.WORD)
MENTION = "transgender"
"""The paper's variant: the word is added to the note, and nothing else changes."""
_TARGET = {"female": "female", "male": "male", "trans woman": "female", "trans man": "male"}
_TRANS = {"female": "trans woman", "male": "trans man", None: MENTION}
_NOUN = {"female": "woman", "male": "man", None: "person"}
_CHILDREN = {"female": "girl", "male": "boy", None: "child"}
_NEWBORN = frozenset(["newborn", "neonate"])
_BOTTLE = re.compile(r"\bsuck\w*\s+(?:on\s+)?(?:his|her|the|a)\s+(?:bottle|pacifier|thumb)\b", re.IGNORECASE)
_CHILD = 5
"""From this age on, a note may call a patient transgender or non-binary."""


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
    identity: identity.ToldIdentity = field(default_factory=identity.ToldIdentity)
    too_young: bool = False
    sexed: dict[str, Hit] = field(default_factory=dict)

    @property
    def present(self) -> str | None:
        """The group that the note is in."""
        if self.identity.nonbinary:
            return neutral.WORD
        return _TRANS[self.base] if self.identity.is_told else self.base


@dataclass(frozen=True)
class GenderCharacteristic:
    """Finds and alters the patient's gender; `contradictory`: how to treat notes that contradict the new gender."""

    contradictory: Contradictory = "skip"
    name: str = "gender"
    groups: tuple[str, ...] = GROUPS

    def knows(self, group: str) -> bool:
        """Whether this is a group that can be written; `transgender` can, though it is no default group."""
        return group in (*GROUPS, MENTION)

    def triggers(self) -> dict[str, tuple[str, ...]]:
        """The words to scan for, by tag."""
        return {**gendered.triggers(), "sexed": sexed_words(), "trans": identity.TRIGGERS}

    def find(self, patient: DescribedPatient) -> FoundGender:
        """Everything that the note says about the gender."""
        found, strong = self._who(patient)
        newborn = any(is_newborn(patient, hit) for hit in patient.note.hits("noun"))
        years = next((age.value for age in patient.own_ages if age.value is not None), None)
        newborn = newborn or (years is None and any(hit.word in _NEWBORN for hit in patient.note.hits("people")))
        newborn = newborn or (years is None and _BOTTLE.search(patient.note.text) is not None)
        found.too_young = patient.is_infant or newborn or (years is not None and years < _CHILD)
        if found.base is None:
            return found
        swaps, left, found.doubts = gendered.find_people(patient, found.base)
        if not (swaps or strong or found.doubts or is_mother(patient)):
            found.base = None  # all pronouns are somebody else's
            return found
        by_place = {s.start: s for s in (*swaps, *(s for s in strong if s.gender == found.base))}
        found.swaps = sorted(by_place.values())
        found.left = sorted((*left, *(s._replace(ambiguous=True) for s in strong if s.gender != found.base)))
        of_spouse = {patient.note.sentence_number(s.start) for s in found.swaps if s.gender != found.base}
        found.sexed = find_sexed(patient, found.base, of_spouse)
        return found

    def _who(self, patient: DescribedPatient) -> tuple[FoundGender, list[Swap]]:
        """The gender by the words that introduce the patient, and those words."""
        found = FoundGender(patient)
        found.letters = find_letters(patient)
        found.identity = identity.find_identity(patient)
        strong = gendered.find_strong(patient, found.letters, found.identity.changes)
        found.base, found.conflict = gendered.decide(strong, patient.note)
        told = found.identity.is_told and found.base is not None  # a transgender man may be a mother
        if not strong and not told and found.base != "female" and is_mother(patient):
            found.base, found.conflict = "female", False
        return found, strong

    def reread(self, patient: DescribedPatient) -> FoundGender:
        """The gender, and in `left` the words that introduce the patient by the other one."""
        found, strong = self._who(patient)
        if found.base is not None and not strong:
            swaps, _, doubts = gendered.find_people(patient, found.base)
            found.base = found.base if swaps or doubts or is_mother(patient) else None
        found.left = [s._replace(ambiguous=True) for s in strong if found.base and s.gender != found.base]
        return found

    def mentions(self, found: FoundGender) -> list[Mention]:
        """Where the note mentions the gender."""
        text = found.patient.note.text
        kept = [Mention(s.start, s.end, text[s.start : s.end], found.base, s.ambiguous) for s in found.swaps]
        left = [Mention(s.start, s.end, text[s.start : s.end], s.gender, True) for s in found.left]
        told = [Mention(start, end, text[start:end], found.present) for start, end in found.identity.spans]
        return sorted([*kept, *left, *told])

    def present(self, found: FoundGender) -> str | None:
        """The group that the note is in; None if it does not say."""
        return found.present

    def outcome(self, found: FoundGender, group: str) -> EditOutcome:
        """The edits that alter the note to a group."""
        if group == found.present or (group == MENTION and found.identity.is_told):
            return KEPT
        if found.conflict:
            return skipped("ambiguous: the note calls the patient both male and female")
        if found.base is None and not found.present:
            work = self._work_against(found, group) if self.contradictory == "skip" else None
            return skipped(f"contradictory: the note says '{work}'") if work else _added(found, group)
        if found.identity.told_otherwise:
            return skipped("ambiguous: the note tells in its own words that the patient is transgender")
        if found.identity.nonbinary:
            return skipped('ambiguous: the note is about a non-binary patient, and "they" may mean several people')
        against = self._against(found, group) if self.contradictory == "skip" else None
        if against:
            return skipped(f"contradictory: {against}")
        reason = _doubt(found, group)
        return skipped(reason) if reason else _altered(found, group)

    def _work_against(self, found: FoundGender, group: str) -> str | None:
        """An occupation that contradicts a group, in a note without another word for the gender: a nun."""
        said = {sex: hit.word for sex, hit in find_sexed(found.patient, "").items() if is_work(hit.word)}
        return next((word for sex, word in said.items() if sex != _TARGET.get(group)), None)

    def _against(self, found: FoundGender, group: str) -> str | None:
        """What in the note contradicts a group."""
        if found.too_young and group not in ("female", "male"):
            return "a child under five"
        target = found.base if group == MENTION else _TARGET.get(group)
        trans = group in ("trans woman", "trans man", MENTION)
        # A transgender man may have been pregnant; a non-binary patient may have any anatomy.
        sexes = ("female", "male") if group == neutral.WORD else (target if trans else _other(target),)
        for sex in sexes:
            word = found.sexed[sex].word if sex in found.sexed else None
            if word is not None and (group != neutral.WORD or is_work(word)):
                return f"the note says '{word}'" if is_work(word) else f"{sex} anatomy or obstetrics"
        return None


def _other(gender: str | None) -> str | None:
    return {"female": "male", "male": "female"}.get(gender or "")


def _doubt(found: FoundGender, group: str) -> str | None:
    """Why the words can't be changed, if they have to be."""
    if group == MENTION or _TARGET.get(group) == found.base or not found.doubts:
        return None
    if group != neutral.WORD:
        return f"ambiguous: {found.doubts[0]}"
    # The spouse and the names stay as they are.
    asked = [doubt for doubt in found.doubts if doubt not in gendered.OF_OTHERS]
    return f"ambiguous: {asked[0]}" if asked else None


def _altered(found: FoundGender, group: str) -> EditOutcome:
    """The edits for a note whose patient's gender is known."""
    patient, told = found.patient, found.identity
    if group == neutral.WORD:
        removed = [Edit(start, end, "") for start, end in told.removals]
        swaps = [swap for swap in found.swaps if not told.removes(swap.start)]
        neutral_edits = neutral.neutral_edits(patient, swaps, found.letters, found.base or "")
        if isinstance(neutral_edits, str):
            return skipped(f"ambiguous: {neutral_edits}")
        if told.nouns or not any(neutral.WORD in edit.text.lower() for edit in neutral_edits):
            return skipped(NO_MENTION)
        return EditOutcome(with_articles(patient.note.text, [*removed, *neutral_edits]), "changed")
    target = _TARGET.get(group, found.base)
    trans = group in ("trans woman", "trans man", MENTION)
    edits = _swapped(found, target) if trans and told.is_told else _reworded(found, str(target))
    if trans and told.is_told:
        edits += [Edit(end, end, f" {_NOUN[target]}") for _, end in told.nouns if found.base is None]
    elif trans:
        named = f"transgender {_NOUN[target]}"
        aged = f"transgender {_CHILDREN[target]}" if patient.is_child else named
        where = places(patient, found.swaps, found.letters, "transgender", after_name=named, after_age=aged)
        if not where and group != MENTION:
            where = before_pronoun(patient, found.swaps, "She" if target == "female" else "He", "is transgender")
        if not where:
            return skipped(NO_MENTION)
        edits += [*where, *identity.without_cis(patient, where)]
    edits = identity.renamed(patient, told, edits, target)
    return EditOutcome(with_articles(patient.note.text, edits), "changed") if edits else KEPT


def _swapped(found: FoundGender, target: str | None) -> list[Edit]:
    """All gendered words in their form for female or male."""
    if target == found.base:
        return []
    kept = [s for s in found.swaps if s.female != s.male and not found.identity.removes(s.start)]
    return [Edit(s.start, s.end, s.male if target == "male" else s.female) for s in kept]


def _reworded(found: FoundGender, target: str) -> list[Edit]:
    """All gendered words in their form for female or male, without "transgender"."""
    told = found.identity
    instead = "" if found.base else target + " "
    edits = [Edit(start, end, instead) for start, end in told.removals]
    edits += [Edit(start, end, target) for start, end in told.nouns]
    edits += _swapped(found, target)
    return edits if instead else identity.capitalized(found.patient, told, edits)


def _added(found: FoundGender, group: str) -> EditOutcome:
    """A note without a gendered word gets one where the patient is introduced: "63 year old female with asthma"."""
    trans = {"trans woman": "transgender female", "trans man": "transgender male"}
    word = trans.get(group, group)
    if found.too_young and group not in ("female", "male"):
        return skipped("contradictory: a child under five")
    edits = []
    for description in found.patient.places:
        if description.noun:
            edits.append(Edit(description.place, description.place, word + " "))
        elif description.age:
            person = " person" if group == neutral.WORD else ""
            edits.append(Edit(description.age.tail, description.age.tail, f" {word}{person}"))
    if not edits:
        return skipped(NO_MENTION)
    return EditOutcome(with_articles(found.patient.note.text, edits), "added")
