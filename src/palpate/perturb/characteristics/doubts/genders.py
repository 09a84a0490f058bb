"""Genders: words of a gender that were not changed, and pronouns that may be another person's."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from palpate.cases.edits import Edit
from palpate.files import read_resource
from palpate.perturb.characteristics.doubts import sexes
from palpate.perturb.characteristics.doubts.doctors import has_doctor, is_doctors, treats
from palpate.perturb.characteristics.doubts.kin import (
    MANY,
    is_parents,
    is_providers,
    left_child,
    left_role,
    left_speaker,
    speaks_for_patient,
)
from palpate.perturb.characteristics.doubts.names import left_names
from palpate.perturb.characteristics.doubts.places import AlteredTo
from palpate.perturb.characteristics.doubts.strangers import (
    SITE,
    goes_on_about,
    is_for_patient,
    is_strangers,
    may_be_own,
)
from palpate.perturb.characteristics.doubts.strangers import triggers as words_of_strangers
from palpate.perturb.characteristics.doubts.verbs import left_verbs, odd_owner
from palpate.perturb.characteristics.gender.owners import pronouns
from palpate.perturb.characteristics.gender.partners import is_others_spouse, may_be_either
from palpate.perturb.characteristics.gender.subjects import OWN_STORY, PLAINLY, goes_on_alive
from palpate.perturb.characteristics.gender.titles import COLLEAGUE_BEFORE
from palpate.perturb.characteristics.reading import Hit, ScannedNote
from palpate.perturb.characteristics.reading.patient import NOT_A_PERSON, POSSESSED, DescribedPatient
from palpate.perturb.characteristics.reading.people import GENDER_OF_KIN, NOUNS, OF_SOME, OTHERS

_TRADES = {
    "male": frozenset(["waiter", "actor", "chairman", "salesman", "policeman", "serviceman", "businessman"]),
    "female": frozenset(["waitress", "actress"]),
}
_NOBODY = frozenset(["child", "children", "family"])
"""Words that do not explain a "boy" beside them: "child psychiatry: boy"."""
_NEAR = 2
"""In how many sentences before a pronoun its person is looked for."""
_SPOUSE_WORDS = "wife husband spouse partner husb hubby missus girlfriend boyfriend gf bf fiance fiancee ex"
_SPOUSE = frozenset(_SPOUSE_WORDS.split())
_TIED = frozenset("/.'’&°-_")
"""What joins a letter to something else: "M/R/G", "F-18"."""
_TIED_NEXT = _TIED | frozenset("0123456789")
_SMALL_LETTER = re.compile(r"[A-Za-z][\w /-]{0,30}[:,-]\s+(?:1[89]|[2-8]\d)\s?(?P<letter>[mf]),")
_AGED = re.compile(r"(?:^|[\s(])(?:1[89]|[2-8]\d)$")
""" "C/T 74F", unlike "16F Foley"."""
_DEGREES = re.compile(r"(?:\b(?:9[4-9]|10\d|110)(?:\.\d+)?|\bdeg(?:rees?)?|[°º])\s?[°º]?\s?$", re.IGNORECASE)
_DOCTOR = re.compile(r"\bDr\.?\s+$")
""" "Seen by Dr. F"."""
_INITIAL = re.compile(r"[A-Z][a-z]+\s$")
_TUBE = re.compile(r"\s*(?:foley|fr\b|french|cath)", re.IGNORECASE)
_TELLS = re.compile(
    r"\b(?:reports?|reported|states?|stated|says?|said|notes?|noted|noticed|found|saw|that|thinks?|thought|feels|felt|worried|concerned|"
    r"brought|brings|drove|because|if|when|how|why|where|believes?|denies|tells?|told\s+me|describes?|mentions?|helps|turns|feeds|"
    r"bathes|lifts|cares\s+for|visits|drives)(?:\s+that)?\s+[\"“'‘]?$",
    re.IGNORECASE,
)
_OWN_KIN = re.compile(
    r"\s+(?:own\s+|older\s+|younger\s+|late\s+|elderly\s+|twin\s+|[\d-]+[\s-]?(?:y/?o|year[\s-]old)\s+)?(?P<word>[a-z]+)",
    re.IGNORECASE,
)
_OF_PATIENT = re.compile(r"\d|\bwhose\b", re.IGNORECASE)
""" "63F whose aunt had cancer" opens with the patient."""
_ACCOMPANIED = re.compile(
    r"\b(?:with|w|by|and|of|from|to|for|per|lives|live|via)\W*(?:his|her|the|their|pt['’]?s|patient['’]?s)?\s*$",
    re.IGNORECASE,
)
_NEW_CLAUSE = re.compile(r"[,;:.]|\s[-–—/]|\b(?:and|but|who|that|which|I|we|so|then)\b")
_SPOKEN_TO = re.compile(
    r"\b(?:told|asked|informed|advised|called|updated|explained|discussed|spoke|counsel\w*|reassured|thanked|with|to|let|gave|encouraged)\s+"
    r"(?:with\s+|to\s+)?$",
    re.IGNORECASE,
)
_NO_SPOUSE = re.compile(r"\s+(?:diet|bread|free|foods?|q\d|well|exclusively)\b", re.IGNORECASE)
"""A gluten-free diet; breastfeeding."""
_NAME_NEXT = re.compile(r"\.?[ \t]+[A-Z]")
_SCAN_NEXT = re.compile(
    r"\s+(?:ANGIO|IMAG|SPECT|SCAN|ENTERO|VENO|CHOLANG|ARTHRO|BRAIN|HEAD|NECK|SPINE|CERVICAL|LUMBAR|THORACIC|ABDOMEN|PELVIS|KNEE|SHOULDER|HIP|OF|WITH|W/|CONTRAST)",
    re.IGNORECASE,
)
"""What follows MR in capitals, a scan and not a title."""
_BORN = re.compile(r"\b(?:(?:non)?viable|live[\s-]?born|living|stillborn)\s+$", re.IGNORECASE)
""" "Delivered a viable male" is a newborn."""
_TWIN = re.compile(r"\btwin\s+[A-Z1-3]\b\s*[,:]?\s*$", re.IGNORECASE)
""" "Twin B, boy" is the patient."""
_EXAMINED = re.compile(
    r"\b(?:pleasant|developed|nourished|appearing|obese|alert|cooperative)\b(?:[\s,-]+[a-z-]+){0,4}[\s,]+$",
    re.IGNORECASE,
)
""" "A well-developed pleasant female" is the patient, also where a family history seems to go on."""
_TITLED = re.compile(r"\.[ \t]+[A-Z]{2,}\b")
_OF_THE_PATIENT = re.compile(r"\b(?:pt|patient)\b", re.IGNORECASE)
""" "Mother says she had no idea pt was ill"."""
_BOTH = re.compile(
    r"\b(?P<who>he|she)(?:['’](?:s|d|ll))?\s+(?:(?:still|also|then|never|always|often|had|has|was|is|will|would|can|could|did|not)\s+)*[a-z]+\s+$",
    re.IGNORECASE,
)
""" "He outwalks him" are two people."""
_AND_DOES = re.compile(
    r"(?:\b(?:and|but|or|then)|,)\s+(?:(?:also|then|never|now|still)\s+)?(?:(?:has|had|did|does|will|would|can|could|should)(?:\s+not|n['’]t)?\s+"
    r"(?:(?:yet|ever|since|also|\w+ly)\s+)?)?[a-z]+\s+(?:(?:with|to|by|from|for|at)\s+)?$",
    re.IGNORECASE,
)
_SOMEBODY_ELSE = re.compile(
    r"\b(?:that|which|who|it|they|we|I|when|if|because|as|where|while|until|there|this|(?:and|but|so)\s+(?:his|her|the|our|my|an?|Dr))\b",
    re.IGNORECASE,
)
""" "He was followed by A but has not seen him": no subject between, so him is not the subject."""
_CARES = re.compile(r"\s+(?:for|of)\s+(?:him|her)\b", re.IGNORECASE)
""" "Lives with husband, carer for him": the carer is the patient."""
_TOLD_BY = re.compile(
    r"(?:-in-law)?\s+(?:also\s+)?(?:reports?|reported|states?|stated|says?|said|notes?|noted|noticed|found|saw|thinks?|feels|is\s+(?:worried|concerned)|"
    r"describes?|mentions?|confirms?|denies|brought|brings|(?:then\s+)?(?:drove|took|called|picked|accompan\w+))\b",
    re.IGNORECASE,
)
_WITH_BOTH = re.compile(r"\b(?:patient|pt|him|her)\s+and\s+(?:his|her)\s+(?:[\w-]+\s+)?$", re.IGNORECASE)
""" "After discussion with the patient and her daughter, she was scheduled"."""
_SINCE_THEN = re.compile(r"\b(?:since\s+then|ever\s+since|since\s+that\s+time),?\s+$", re.IGNORECASE)
""" "He says that his son painted the hall, and since then he coughs"."""
_PATIENT_SUBJECT = re.compile(r"(?:(?:the|this)\s+)?(?:patient|pt|he|she)\s", re.IGNORECASE)


@cache
def _crude() -> dict[str, Any]:
    table: dict[str, Any] = read_resource("palpate.perturb.characteristics.doubts", "crude.yaml")
    return table


@cache
def _kin() -> dict[str, str]:
    """Other people, with their gender; "either" for those of whom the word does not tell."""
    told = {word: sex for sex, words in _crude()["kin"].items() for word in words.split()}
    roles = dict.fromkeys((*OTHERS, *words_of_strangers()["sure:role"]), "either")
    return {**roles, **told, **GENDER_OF_KIN}


def triggers() -> dict[str, tuple[str, ...]]:
    """The words to scan for, by tag."""
    return {
        "sure:kin": tuple(_kin()),
        "sure:re": ("re",),
        "sure:many": MANY,
        "sure:spouse": tuple(_crude()["spouses"].split()),
        **sexes.triggers(),
        **words_of_strangers(),
    }


def wording(group: str) -> str:
    """What a group is worded as: a transgender woman as a woman, with one word more."""
    return sexes.WORDING.get(group, group)


def left_over(patient: DescribedPatient, altered: AlteredTo) -> str | None:
    """Why it is not sure that all words of the patient were changed, and no others."""
    note, base, edits = patient.note, altered.found.base, altered.edits
    worded = sexes.WORDING.get(altered.group)
    if altered.group == "transgender" or base is None:
        return None
    if worded == base:
        return _misread(note, base)
    changed = {edit.start for edit in edits if edit.end > edit.start}
    # All of "(transgender woman)" is taken out at once.
    changed |= {k for edit in edits if not edit.text for k in range(edit.start, edit.end)}
    return (
        _left_words(note, changed, base, neutral=worded is None)
        or _left_letters(note, edits)
        or (left_names(patient, base, changed) if worded else None)
        or left_child(patient)
        or (left_speaker(note, changed) if altered.found.too_young else None)
        or left_role(note, base, edits)
        or _another_person(note, base, edits)
        or odd_owner(note, edits)
        or (left_verbs(note, edits) if worded is None else None)
    )


def _misread(note: ScannedNote, base: str) -> str | None:
    """Most pronouns are of the other gender, and nobody else's: "a 44-year-old male. Her injury ... she"."""
    told = list(pronouns(note))
    own = sum(gender == base for _, gender in told)
    if 2 * own >= len(told):
        return None
    others = [hit for hit, gender in told if gender != base and not _has_person(note, hit, gender)]
    if len(others) < 2 or len(others) <= own:
        return None
    return f"'{note.text[others[0].start : others[0].end]}' of the other gender"


def _left_words(note: ScannedNote, changed: set[int], base: str, *, neutral: bool) -> str | None:
    """A pronoun, noun, title or word for a spouse that was not changed, and that nobody else explains."""
    for hit, gender in pronouns(note):
        if hit.start in changed or is_for_patient(note, hit):
            continue
        if gender != base and hit.word in ("he", "she") and treats(note, hit):
            continue
        own = gender == base and may_be_own(note, hit)
        if own or not _has_person(note, hit, gender, spouse=neutral):
            return f"'{note.text[hit.start : hit.end]}' would stay"
    for hit in (*note.hits("noun"), *note.hits("role")):
        if hit.word in OTHERS or _is_inside(hit, changed) or NOT_A_PERSON.match(note.text, hit.end):
            continue
        if hit.word in NOUNS and POSSESSED.search(note.text, max(0, hit.start - 24), hit.start):
            continue
        if _BORN.search(note.text, max(0, hit.start - 16), hit.start):
            continue
        if hit.word in _TRADES[sexes.OPPOSITE[base]]:
            continue  # a woman who is a waiter may be a man who is one
        if (
            _TWIN.search(note.text, max(0, hit.start - 12), hit.start)
            or _EXAMINED.search(note.text, max(0, hit.start - 48), hit.start)
            or _is_the(note, hit, base)
            or not (note.in_family(hit.start) or _has_person(note, hit, "either", far=False))
        ):
            return f"'{note.text[hit.start : hit.end]}' would stay"
    for hit in note.hits("title"):
        in_capitals = note.text[hit.start : hit.end].isupper() and not note.is_in_capitals(hit.start)
        named = hit.start not in changed and _NAME_NEXT.match(note.text, hit.end)
        if in_capitals and not _TITLED.match(note.text, hit.end):
            continue  # mitral regurgitation, multiple sclerosis
        if hit.word == "mr" and _SCAN_NEXT.match(note.text, hit.end):
            continue
        if named and COLLEAGUE_BEFORE.search(note.text, max(0, hit.start - 30), hit.start):
            continue  # "a patient of Mrs. A"
        if named and not _has_person(note, hit, "either", far=False):
            return f"'{note.text[hit.start : hit.end]}' would stay"
    for hit in () if neutral else (*note.hits("spouse"), *note.hits("sure:spouse")):
        if hit.start in changed or note.in_family(hit.start) or _NO_SPOUSE.match(note.text, hit.end):
            continue
        if not is_others_spouse(note, hit, set()) or may_be_either(note, hit, base, set()):
            return f"'{hit.word}' would stay"
    return None


def _is_the(note: ScannedNote, hit: Hit, base: str) -> bool:
    """Whether "the boy" is the patient: nobody calls a relative so."""
    own = ("boy", "man", "gentleman") if base == "male" else ("girl", "woman", "lady")
    return hit.word in own and note.text[max(0, hit.start - 4) : hit.start].lower() == "the "


def _is_inside(hit: Hit, changed: set[int]) -> bool:
    return any(hit.start <= start < hit.end or start < hit.start < start + 4 for start in changed)


def _has_person(note: ScannedNote, hit: Hit, gender: str, *, far: bool = True, spouse: bool = True) -> bool:
    """Whether another person of the gender is named before, in this sentence or one of those before it.

    A spouse's words should have been changed, so a spouse explains them only where `spouse` says so.
    """
    if note.in_family(hit.start):
        return True
    number, kin = note.sentence_number(hit.start), _kin()
    for one in reversed(note.hits("sure:kin")):
        if one.start >= hit.start:
            continue
        if number - note.sentence_number(one.start) > (_NEAR if far else 0):
            return False
        if not far and one.word in _NOBODY:
            continue
        if (not spouse and one.word in _SPOUSE) or _CARES.match(note.text, one.end):
            continue
        if gender == "either" or kin[one.word] in (gender, "either"):
            return True
    return False


def _left_letters(note: ScannedNote, edits: Sequence[Edit]) -> str | None:
    """An M or F that was not changed: "arrived 2016 F", "walk-in: 81 m, ear wax"."""
    text = note.text
    small = _SMALL_LETTER.match(text)
    if small and not any(edit.start <= small.start("letter") < edit.end for edit in edits):
        return f"'{small['letter']}' would stay"
    for hit in note.hits("letter"):
        start, end = hit.start, hit.end
        if (
            text[start:end] not in ("M", "F")
            or note.in_family(start)
            or any(edit.start <= start < edit.end for edit in edits)
        ):
            continue
        aged = _AGED.search(text, max(0, start - 4), start) is not None and not text[end : end + 1].isalnum()
        if text[start - 1 : start] in _TIED or text[end : end + 1] in _TIED_NEXT:
            continue
        if text[start - 1 : start].isdigit() and not aged:
            continue
        if _DOCTOR.search(text, max(0, start - 5), start):
            continue
        if _TUBE.match(text, end) or _DEGREES.search(text, max(0, start - 12), start):
            continue
        if text[end : end + 1] == "." and _INITIAL.search(text, max(0, start - 24), start):
            continue
        return f"'{text[start:end]}' would stay"
    return None


def _another_person(note: ScannedNote, base: str, edits: Sequence[Edit]) -> str | None:
    """A pronoun that was changed, though somebody else of the gender is near: "daughter asks, I told her"."""
    changed = {edit.start: edit.text.lower() for edit in edits if edit.end > edit.start}
    settled, doctors = -1, has_doctor(note)
    for hit, gender in pronouns(note):
        if hit.start not in changed:
            continue
        stranger = is_strangers(note, hit, changed)
        if stranger:
            return f"'{note.text[hit.start : hit.end]}' after '{stranger}'"
        if gender != base:
            continue
        own = _OWN_KIN.match(note.text, hit.end) if hit.word in ("his", "her") else None
        if own and is_parents(note, hit, own.group("word").lower()):
            return f"'{note.text[hit.start : hit.end]}' of a parent"
        if own and own.group("word").lower() in _kin():
            continue
        if hit.word in ("he", "she") and is_providers(note, hit):
            return f"'{note.text[hit.start : hit.end]}' of somebody who examines"
        if doctors and is_doctors(note, hit):
            return f"'{note.text[hit.start : hit.end]}' after a doctor"
        is_object = hit.word in ("him", "her") and changed[hit.start] in ("him", "her", "them")
        both = _BOTH.search(note.text, max(0, hit.start - 40), hit.start) if is_object else None
        if (both and (both["who"].lower() == "he") == (hit.word == "him")) or (is_object and _is_acted_on(note, hit)):
            return f"'{note.text[hit.start : hit.end]}' beside another"
        number = note.sentence_number(hit.start)
        near = list(_same_gender(note, hit, gender)) if number != settled else []
        for one in near:
            if not _is_told_of(note, one, hit, is_object=is_object):
                return f"'{note.text[hit.start : hit.end]}' after '{one.word}'"
        if near:
            settled = number  # "his son says he took his pills": the second is whose the first is
    return None


def _is_acted_on(note: ScannedNote, hit: Hit) -> bool:
    """Whether the patient does something to "him", who is another then."""
    opening = note.opening(hit.start)
    patient = _PATIENT_SUBJECT.match(note.text, opening)
    does = _AND_DOES.search(note.text, opening, hit.start) if patient else None
    if patient is None or does is None or patient.end() >= does.start():
        return False
    return not _SOMEBODY_ELSE.search(note.text, patient.end(), does.start())


def _is_told_of(note: ScannedNote, one: Hit, hit: Hit, *, is_object: bool) -> bool:
    """Whether a pronoun is not the other person's: "son reports he fell", "son to bring him back"."""
    text = note.text
    if hit.word in ("he", "she") and OWN_STORY.match(text, hit.end) and one.start < note.sentence(hit.start)[0]:
        return True  # "His father had gout. He is unaware of others."
    first = note.sentence(hit.start)[0]
    if hit.word in ("he", "she") and one.start < first and goes_on_alive(text, note.opening(one.start), first, hit.end):
        return True
    if _TELLS.search(text, max(one.end, hit.start - 24), hit.start):
        return _OF_THE_PATIENT.search(text, hit.end, note.sentence(hit.start)[1]) is None
    if _SINCE_THEN.search(text, max(one.end, hit.start - 16), hit.start) and _PATIENT_SUBJECT.match(
        text, note.opening(hit.start)
    ):
        return True
    with_kin = _WITH_BOTH.search(text, note.opening(hit.start), one.start) and text[one.end : hit.start].strip() == ","
    if with_kin and PLAINLY.match(text, hit.end):
        return True
    if speaks_for_patient(text, one, hit):
        return True
    if hit.word in ("his", "he", "she", "hers") or not is_object:
        return False
    if note.sentence_number(one.start) != note.sentence_number(hit.start):
        return _SPOKEN_TO.search(text, max(0, hit.start - 24), hit.start) is None
    return _NEW_CLAUSE.search(text, one.end, hit.start) is None


def _same_gender(note: ScannedNote, hit: Hit, gender: str) -> Iterator[Hit]:
    """Other people of the gender before a pronoun in its sentence, and those who open the sentence before."""
    first, _ = note.sentence(hit.start)
    before = note.sentence(first - 1)[0] if first else 0
    kin, hits = _kin(), note.hits("sure:kin")
    for one in hits[bisect_left(hits, (before,)) : bisect_left(hits, (hit.start,))]:
        if kin[one.word] != gender or OF_SOME.match(note.text, one.end) or SITE.match(note.text, one.end):
            continue
        owns = note.text[one.end : one.end + 2] in ("'s", "’s")
        if (one.start >= first and not owns) or goes_on_about(note, one, hit):
            yield one
            continue
        if owns:
            continue
        opening = note.opening(one.start)
        told_by = _TOLD_BY.match(note.text, one.end) or _ACCOMPANIED.search(note.text, opening, one.start)
        told_by = told_by or _OF_PATIENT.search(note.text, opening, one.start)
        if one.start - opening <= 12 and not told_by:
            yield one
