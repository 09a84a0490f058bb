"""Whose a pronoun is: the patient's, the spouse's, or somebody else's. The rules are in `gender`'s docstring.

In quotations ("he hit my car" per pt) the patient speaks, so "he" is somebody else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

from palpate.perturb.characteristics.gender.partners import spouses
from palpate.perturb.characteristics.gender.subjects import OWN_STORY, Subjects
from palpate.perturb.characteristics.reading import Hit, ScannedNote
from palpate.perturb.characteristics.reading.people import GENDER_OF_KIN, OTHERS, RELATIVES, SIDES, SPOUSES, is_had

Owner = Literal["patient", "spouse", "other", "unsure"]
_GENDER = {**GENDER_OF_KIN, "gf": "female", "bf": "male"}
_SPOUSES = frozenset((*SPOUSES, *SPOUSES.values(), "gf", "bf"))
_MALE = frozenset(["he", "him", "his", "himself"])
_SUBJECTS = frozenset(["he", "she"])
_POSSESSIVE = frozenset(["his", "her"])
_NEAR = 2
"""How many sentences back a person may be for a pronoun to refer to them."""
_OWNS_KIN = re.compile(
    r"\s+(?:(?:[a-z-]+)\s+){0,2}?(?:" + "|".join(sorted(RELATIVES | SIDES)) + r"|family)\b", re.IGNORECASE
)
_FACT = re.compile(
    r"(?:-in-law)?\s*(?:,\s*(?:aged?\s+)?\d+\s*,)?\s*(?:\(|,?\s*who\b|(?:also\s+)?(?:is|was|has|had|died|passed|suffers|suffered|"
    r"developed|underwent|got|smokes|smoked|drinks|drank|lived)\b)",
    re.IGNORECASE,
)
_DISEASE = re.compile(
    r"(?:-in-law)?\s*,?\s*(?:died|passed|has|had|suffers|suffered|was\s+diagnosed|underwent)\b", re.IGNORECASE
)
_TELLS = re.compile(
    r"\b(?:report|state|stating|say|said|note|notic|think|thought|fe[el]l?t?|t[eo]ll|concern|worr|believ|describ|mention|recall|den[iy]|"
    r"endors|that|because|when|while|after|if|since|found|brought|call|beside|bedside|with|patient|pt|to)",
    re.IGNORECASE,
)
_TELLS_OF_PATIENT = re.compile(
    r"\s+(?:also\s+|further\s+)?(?:reports?|reported|states?|stated|says?|said|notes?|noted|thinks?|thought|feels?|felt|believes?|"
    r"believed|found|brought|saw|noticed)\s+(?:that\s+)?(?:the\s+)?(?:patient|pt)\b(?!['’]s\s+(?:own|\w+ing))",
    re.IGNORECASE,
)
"""In "she says the patient fell", she is not the patient."""
_FAMILY_HISTORY = re.compile(r"\bfamily\s+(?:medical\s+)?(?:history|hx)\b", re.IGNORECASE)
_KNOWLEDGE = re.compile(r"\s+(?:knowledge|recollection)\b", re.IGNORECASE)
_KNOWS = re.compile(
    r"\s+(?:knows\s+(?:very\s+)?(?:little|nothing|of\s+no)|(?:does\s+not|doesn['’]t)\s+know|is\s+(?:not\s+sure|unsure|not\s+aware|unaware)|"
    r"cannot\s+recall|can['’]t\s+recall)\b",
    re.IGNORECASE,
)
""" "But she knows little about their history": the patient in a family history."""
_BELIEVES = re.compile(r"\s+(?:believes|thinks|reports|states|says|knows)\b", re.IGNORECASE)
_WHOM = re.compile(r"\b(?:who|whom|which|that)\s+$", re.IGNORECASE)
""" "A sister who she believes is healthy"."""
_SAYS_WHO = re.compile(
    r"\s*\(\s*(?:(?:the|his|her|this|pt['’]s|patient['’]s)\s+)?(?:\w+\s+)?(?P<who>[a-z]+)\s*\)", re.IGNORECASE
)
""" "I asked her if she (sister) had seen it"."""
_TELLS_OF_THE_PATIENT = re.compile(
    r"(?:-in-law)?(?:\s+also|\s+who)?\s+(?:reports?|reported|states?|stated|says|said|notes|noted|feels|felt|thinks|thought|"
    r"found|saw|brought|noticed)\b[^.;]*\b(?:patient|pt)\b[^.;]*(?:,|\band|\bbut)\s+(?:and\s+|but\s+)?$",
    re.IGNORECASE,
)
_THINKS = re.compile(
    r"\s+(?:also\s+|then\s+|further\s+)?(?:believe[sd]?|thinks?|thought|states?|stated|says|said|reports?|reported|noticed|notes|noted|"
    r"feels\s+that|felt\s+that|called|found|brought|gave|wants|would\s+like|is\s+(?:very\s+)?(?:concerned|worried|unsure|not\s+sure))\b",
    re.IGNORECASE,
)
_ACTS_ON_PATIENT = re.compile(
    r"\s+(?!(?:is|was|as|presents?|presented)\b)(?:(?!and\b|but\b|that\b|which\b|when\b|because\b|if\b|while\b)[\w'’-]+\s+){1,5}?the\s+(?:patient|pt)\b(?!['’]s)",
    re.IGNORECASE,
)
_ONE_OF_THEM = re.compile(
    r"[\s\-*•,]*(?:one(?!\s+of\s+(?:his|her)\b)|another|some|the\s+(?:other|older|younger|first|second))\b",
    re.IGNORECASE,
)
_AND = re.compile(r"(?:\band|&|,)\s+$", re.IGNORECASE)
_ONE_RELATIVE = frozenset(["cousin", "sibling", "child", "kid", "twin", "parent", "grandparent", "grandchild"])
_OF_THE_PATIENT = re.compile(r"^\s+of\s+(?:the\s+|this\s+)?(?:patient|pt)\b", re.IGNORECASE)
_DIED = re.compile(r"(?:-in-law)?\s*,?\s*(?:died|passed\s+away|is\s+deceased|was\s+deceased)\b", re.IGNORECASE)
_NOT_THE_DEAD = re.compile(r"\b(?:when|while|after|before|since|until)\s+$", re.IGNORECASE)
_PATIENT_NAMED = re.compile(r"\b(?:patient|pt)\b", re.IGNORECASE)
_ALTHOUGH = re.compile(r",?\s+(?:although|though|even\s+though|while|if)\s+$", re.IGNORECASE)
_ALTHOUGH_HAS = re.compile(
    r",\s*(?:although|though|even\s+though|while)\b[^,.;]{1,40},\s*(?:has|had|is|was|does|did)\b[^.;]*\band\s+$",
    re.IGNORECASE,
)
""" "His brother, although he is thin, has gout and he is on medication"."""
_PATIENT_AND = re.compile(r"\b(?:the|this)\s+(?:patient|pt)\s+(?:and|who\s+said)\s+$", re.IGNORECASE)
_IN_DECADE = re.compile(r"\s+(?:early\s+|mid[\s-]+|late\s+)?\d0['’]?s\b", re.IGNORECASE)
_GENERIC = re.compile(r"/\s?(?:he|she|him|her|his|hers)\b|\b(?:he|she|him|her|his|s)\s?/$", re.IGNORECASE)
_OR_HER = re.compile(r" or (?:he|she|him|her|his|hers)\b", re.IGNORECASE)
_HIS_OR = re.compile(r"\b(?:he|she|him|her|his|hers) or $", re.IGNORECASE)
_DECLARED = re.compile(r"(?:she\s?/\s?her(?:\s?/\s?hers)?|he\s?/\s?him(?:\s?/\s?his)?)(?![\w/])", re.IGNORECASE)
_IN_TITLE = re.compile(r"(?<![.!?:,;]\s)\b[A-Z][a-z]+\s+$")
_TITLE_GOES_ON = re.compile(r"\s+[A-Z][a-z]+[\"”.,]")
"""The title of a play or a film: "Murder She Wrote"."""
_UPPER_NEAR = re.compile(r"\s+[A-Z]{2,}\b|\s+[A-Z]\b")

_QUOTE = re.compile(r"\"[^\"\n]{1,240}\"|“[^”\n]{1,240}”")
_FIRST_PERSON = re.compile(r"\b(?:I|I['’]\w+|me|my|mine|myself|we|our|us)\b")
_PATIENT_SPEAKS = re.compile(r"\b(?:patient|pt|he|she)\b(?!['’]s)", re.IGNORECASE)
_PER_PATIENT = re.compile(
    r"[.,]?\s*,?\s*(?:-+\s*)?(?:per|according\s+to|states?|says?)\s+(?:the\s+)?(?:patient|pt)\b(?!['’]s)", re.IGNORECASE
)
_ANOTHER_SPEAKS = re.compile(
    r"\b(?:"
    + "|".join(sorted(RELATIVES))
    + r"|friend|neighbor|roommate|caregiver|EMS|RN|nurse|staff|aide|PCP|police|bystander)\b",
    re.IGNORECASE,
)


class Pronoun(NamedTuple):
    """A pronoun, its gender, and whose it is."""

    hit: Hit
    gender: str
    owner: Owner
    ambiguous: bool


@lru_cache(maxsize=4)
def pronouns(note: ScannedNote) -> tuple[tuple[Hit, str], ...]:
    """The pronouns of one person, with their gender; "he/she", "HE" (encephalopathy) and HER-2 don't count.

    All who ask for them ask for those of one note after the other.
    """
    return tuple(_pronouns(note))


def _pronouns(note: ScannedNote) -> Iterator[tuple[Hit, str]]:
    text = note.text
    for hit in note.hits("pronoun"):
        after = text[hit.end : hit.end + 1]
        if after == "-" or after.isdigit() or after == "_":
            continue
        written = text[hit.start : hit.end]
        if (
            written[0].isupper()
            and _IN_TITLE.search(text, max(0, hit.start - 20), hit.start)
            and _TITLE_GOES_ON.match(text, hit.end)
        ):
            continue
        if written.isupper() and not _UPPER_NEAR.match(text, hit.end) and not note.is_in_capitals(hit.start):
            continue
        if written == "His" and (
            text[max(0, hit.start - 3) : hit.start] == "of " or text[hit.end : hit.end + 7].lower() == " bundle"
        ):
            continue
        if (text[hit.end : hit.end + 4] == " or " and _OR_HER.match(text, hit.end)) or (
            text[hit.start - 4 : hit.start] == " or " and _HIS_OR.search(text, max(0, hit.start - 9), hit.start)
        ):
            continue
        if "/" in (after, text[hit.start - 1 : hit.start]) and (
            _GENERIC.match(text, hit.end) or _GENERIC.search(text, max(0, hit.start - 5), hit.start)
        ):
            continue
        yield hit, "male" if hit.word in _MALE else "female"


def declared(note: ScannedNote) -> Iterator[tuple[Hit, str]]:
    """The pronouns that the patient goes by: both words of "(she/her)"."""
    past = 0
    for hit in note.hits("pronoun"):
        match = _DECLARED.match(note.text, hit.start) if hit.word in _SUBJECTS else None
        if match:
            past = match.end()
        if hit.start < past:
            yield hit, "male" if hit.word in _MALE else "female"


_LISTED_NEXT = re.compile(
    r"\s+(?:(?:maternal|paternal)\s+)?(?:mother|father|parents|brothers?|sisters?|siblings|grand(?:mother|father|parents))\b(?!['’])",
    re.IGNORECASE,
)
_LISTED = re.compile(
    r"[\s\-*•,]*(?:his|her|the\s+patient['’]s)\s+(?:(?:maternal|paternal)\s+)?(?:mother|father|brother|sister|grand(?:mother|father))\s+(?!and\b)",
    re.IGNORECASE,
)
_IN_OWN_FAMILY = re.compile(r"\s+(?:describe[sd]?|report(?:s|ed))\b[^.;]*\bin\s+(?:his|her)\s+family\b", re.IGNORECASE)


class PronounOwners:
    """The owners of all pronouns of a note whose patient has a known gender."""

    def __init__(self, note: ScannedNote, base: str) -> None:
        self._note, self._base = note, base
        people = {hit for hit in note.hits("people") if hit.word in GENDER_OF_KIN}
        self._people = sorted(people.union(hit for hit in spouses(note) if len(hit.word) == 2))
        self._subjects = Subjects(note, base)
        self._spouse_sentence = -_NEAR - 1
        self._quotes = _quotes(note.text)

    def all(self) -> list[Pronoun]:
        """All pronouns, in order."""
        return [Pronoun(hit, gender, *self._owner(hit, gender)) for hit, gender in pronouns(self._note)]

    def _owner(self, hit: Hit, gender: str) -> tuple[Owner, bool]:
        note = self._note
        named = _SAYS_WHO.match(note.text, hit.end)
        if named and (named.group("who").lower() in OTHERS or gender != self._base):
            return "other", True
        if (
            gender == self._base
            and note.in_family(hit.start)
            and _BELIEVES.match(note.text, hit.end)
            and _WHOM.search(note.text, max(0, hit.start - 8), hit.start)
        ):
            return "patient", False
        if note.in_family(hit.start) and not self._tells_own(hit):
            return self._in_family_history(hit, gender)
        if gender != self._base:
            return self._of_other_gender(hit, gender)
        return self._of_same_gender(hit, gender)

    def _in_family_history(self, hit: Hit, gender: str) -> tuple[Owner, bool]:
        """In a family history: the patient's if nobody of that gender was spoken of before."""
        note = self._note
        if gender != self._base:
            return "other", False
        if hit.word in _POSSESSIVE and _OWNS_KIN.match(note.text, hit.end):
            return "patient", False
        start = note.family_start(hit.start)
        start = max(start, *(each.end for each in note.hits("patient") if start <= each.start < hit.start), start)
        kin = [
            person
            for person in note.hits("people")
            if start <= person.start < hit.start
            and (GENDER_OF_KIN.get(person.word) == gender or person.word in _ONE_RELATIVE)
            and not is_had(note.text, person.start)
        ]
        if not kin:
            return "patient", False
        far = note.sentence_number(hit.start) - note.sentence_number(kin[-1].start) > _NEAR
        return ("unsure" if far else "other"), True

    def _tells_own(self, hit: Hit) -> bool:
        """ "He denies a family history of gout", "She has no siblings": the patient in a family history."""
        text = self._note.text
        first, last = self._note.sentence(hit.start)
        if _FAMILY_HISTORY.search(text, hit.end, last):
            return True
        if hit.word in _POSSESSIVE:
            return _KNOWLEDGE.match(text, hit.end) is not None
        if _KNOWS.match(text, hit.end):
            return True
        return (
            hit.word in _SUBJECTS
            and not text[first : hit.start].strip(" \t\n-*•,")
            and bool(OWN_STORY.match(text, hit.end))
        )

    def _of_other_gender(self, hit: Hit, gender: str) -> tuple[Owner, bool]:
        number = self._note.sentence_number(hit.start)
        first, _ = self._note.sentence(hit.start)
        slip = hit.word in _SUBJECTS and _PATIENT_AND.search(self._note.text, max(first, hit.start - 24), hit.start)
        if slip and not self._subjects.is_asked(first, hit.start):
            return "unsure", True  # a slip of the pen: "discussed with the patient and he agreed", of a woman
        if self._subjects.is_providers(hit):
            return "other", True
        for person in reversed(self._people):
            if person.start > hit.start or _GENDER[person.word] != gender:
                continue
            if number - self._note.sentence_number(person.start) > _NEAR:
                break
            if person.word not in _SPOUSES or self._subjects.is_of_later_provider(person, hit):
                return "other", True
            self._spouse_sentence = number
            return "spouse", False
        if number - self._spouse_sentence <= _NEAR:
            self._spouse_sentence = number
            return "spouse", False
        return "other", True

    def _of_same_gender(self, hit: Hit, gender: str) -> tuple[Owner, bool]:
        note = self._note
        number = note.sentence_number(hit.start)
        quote = next((span for span in self._quotes if span[0] < hit.start < span[1]), None)
        quoted = _speaker_means_another(note, *quote) if quote else False
        if quoted or _TELLS_OF_PATIENT.match(note.text, hit.end) or self._acts_on_patient(hit):
            return "other", True
        if quoted is None:
            return "unsure", True
        for person in reversed(self._people):
            if person.start > hit.start or _GENDER[person.word] != gender:
                continue
            if note.sentence_number(person.start) != number:
                break
            if self._is_one_of_two(person, hit):
                return "unsure", True
            if self._same_sentence(person, hit):
                # A man's husband is a wife with her pronouns, if the man is a woman.
                return ("spouse", False) if person.word in _SPOUSES else ("other", True)
        if self._is_listed(hit):
            return "patient", False
        if (
            self._is_one_of_kin(hit, gender)
            or self._is_kins_decade(hit, gender)
            or self._subjects.may_mean_another(hit)
        ):
            return "unsure", True
        return "patient", False

    def _is_listed(self, hit: Hit) -> bool:
        """Whether relatives are listed: "His father died at 49. His mother is well. He reports gout in his family."."""
        text = self._note.text
        first, last = self._note.sentence(hit.start)
        if text[first : hit.start].strip(" \t\n-*•,"):
            return False
        if hit.word in _SUBJECTS:
            return _IN_OWN_FAMILY.match(text, hit.end, last) is not None
        before = self._note.sentence(first - 1)[0] if first else first
        return bool(_LISTED_NEXT.match(text, hit.end) and _LISTED.match(text, before, first))

    def _acts_on_patient(self, hit: Hit) -> bool:
        """ "Her daughter says that she has heard the patient snore"."""
        end = self._note.sentence(hit.start)[1]
        return hit.word in _SUBJECTS and _ACTS_ON_PATIENT.match(self._note.text, hit.end, end) is not None

    def _is_one_of_kin(self, hit: Hit, gender: str) -> bool:
        """ "He has two brothers. One of them lives with his wife." """
        note = self._note
        first, _ = note.sentence(hit.start)
        if not _ONE_OF_THEM.match(note.text, first):
            return False
        if hit.word in _SUBJECTS and not _AND.search(note.text, max(first, hit.start - 6), hit.start):
            return False
        number = note.sentence_number(hit.start)
        return any(
            0 < number - note.sentence_number(person.start) <= _NEAR
            and GENDER_OF_KIN.get(person.word.removesuffix("s"), gender) == gender
            for person in note.hits("people")
        )

    def _is_kins_decade(self, hit: Hit, gender: str) -> bool:
        """ "Her mother had dementia. It started in her 80s." """
        note = self._note
        if hit.word not in _POSSESSIVE or not _IN_DECADE.match(note.text, hit.end):
            return False
        number = note.sentence_number(hit.start)
        return any(
            0 <= number - note.sentence_number(person.start) <= _NEAR and GENDER_OF_KIN.get(person.word) == gender
            for person in self._people
            if person.start < hit.start
        )

    def _is_one_of_two(self, person: Hit, hit: Hit) -> bool:
        """ "Her daughter says she gave her tylenol": one of the two is the daughter."""
        owns = self._note.text[person.end : person.end + 2] in ("'s", "’s")
        return not owns and self._subjects.has_object_alike(hit)

    def _same_sentence(self, person: Hit, hit: Hit) -> bool:
        text = self._note.text
        if hit.word in _POSSESSIVE and _OWNS_KIN.match(text, hit.end):
            return False
        between = _OF_THE_PATIENT.sub("", text[person.end : hit.start])
        if _DIED.match(between) and not _NOT_THE_DEAD.search(between, 0 if hit.word in _SUBJECTS else len(between)):
            return not _PATIENT_NAMED.search(between)
        if hit.word in _SUBJECTS and (_ALTHOUGH.match(between) or _ALTHOUGH_HAS.match(between)):
            return True
        if hit.word in _SUBJECTS and _TELLS_OF_THE_PATIENT.match(between) and _THINKS.match(text, hit.end):
            return True
        if hit.word in _SUBJECTS:
            return bool(_FACT.match(between)) and not _TELLS.search(between)
        if hit.word in _POSSESSIVE and _IN_DECADE.match(text, hit.end):
            return True
        return hit.word in _POSSESSIVE and bool(_DISEASE.match(between)) and not _TELLS.search(between)


def _quotes(text: str) -> list[tuple[int, int]]:
    """The spans of quotations, in order."""
    return [match.span() for match in _QUOTE.finditer(text)] if '"' in text or "“" in text else []


def _speaker_means_another(note: ScannedNote, start: int, end: int) -> bool | None:
    """Whether "he" in a quotation is not the patient, because the patient speaks; None if that is unclear."""
    text = note.text
    if _PER_PATIENT.match(text, end):
        return True
    first, _ = note.sentence(start)
    after = text[end : min(note.sentence(end - 1)[1], end + 30)]
    if _ANOTHER_SPEAKS.search(text, first, start) or _ANOTHER_SPEAKS.search(after):
        return False
    if not _FIRST_PERSON.search(text, start, end):
        return False
    return True if _PATIENT_SPEAKS.search(text, first, start) else None
