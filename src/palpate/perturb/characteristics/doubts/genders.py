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
from palpate.perturb.characteristics.doubts.places import AlteredTo
from palpate.perturb.characteristics.gender.firstnames import name_words, names
from palpate.perturb.characteristics.gender.owners import pronouns
from palpate.perturb.characteristics.reading import Hit, ScannedNote
from palpate.perturb.characteristics.reading.patient import NOT_A_PERSON, DescribedPatient
from palpate.perturb.characteristics.reading.people import GENDER_OF_KIN, NOUNS, OF_SOME, OTHERS

_TRADES = {
    "male": frozenset(["waiter", "actor", "chairman", "salesman", "policeman", "serviceman", "businessman"]),
    "female": frozenset(["waitress", "actress"]),
}
_NEAR = 2
"""In how many sentences before a pronoun its person is looked for."""
_SPOUSE_WORDS = "wife husband spouse partner husb hubby missus girlfriend boyfriend gf bf fiance fiancee ex"
_SPOUSE = frozenset(_SPOUSE_WORDS.split())
_TIED = frozenset("/.'’&°-_")
"""What joins a letter to something else: "M/R/G", "F-18"."""
_DEGREES = re.compile(r"(?:\b(?:9[4-9]|10\d|110)(?:\.\d+)?|\bdeg(?:rees?)?|[°º])\s?[°º]?\s?$", re.IGNORECASE)
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
_HAS_ED = re.compile(r"\b(?:has|with|w/|for)\s+ED\b")
_NAME_NEXT = re.compile(r"\.?[ \t]+[A-Z]")
_SCAN_NEXT = re.compile(
    r"\s+(?:ANGIO|IMAG|SPECT|SCAN|ENTERO|VENO|CHOLANG|ARTHRO|BRAIN|HEAD|NECK|SPINE|CERVICAL|LUMBAR|THORACIC|ABDOMEN|PELVIS|KNEE|SHOULDER|HIP|OF|WITH|W/|CONTRAST)",
    re.IGNORECASE,
)
"""What follows MR in capitals, a scan and not a title."""
_PARENT_IS = re.compile(
    r"\b(?:stay[\s-]at[\s-]home|single|new|first[\s-]time|working|foster|adoptive|expectant|proud|busy|is\s+an?)\s+$",
    re.IGNORECASE,
)
_TRADE = re.compile(
    r"\b(?:lunch|cleaning|dinner|tea|bag|repair|delivery|maintenance|garbage|sales|mail|line|best)\s+$", re.IGNORECASE
)
_TITLED = re.compile(r"\.[ \t]+[A-Z]{2,}\b")
_AS_TOLD = re.compile(
    r"\b(?:according\s+to|per|as\s+per)\s+(?:(?:his|her|the|pt['’]?s|patient['’]?s)\s+)?$", re.IGNORECASE
)
_TOLD_BY = re.compile(
    r"(?:-in-law)?\s+(?:also\s+)?(?:reports?|reported|states?|stated|says?|said|notes?|noted|noticed|found|saw|thinks?|feels|is\s+(?:worried|concerned)|"
    r"describes?|mentions?|confirms?|denies|brought|brings)\b",
    re.IGNORECASE,
)
_NO_LAST_NAME = (
    "is|was|has|had|presents?|presented|came|comes|reports?|denies|states?|will|would|can|did|does|returns?|returned|and|with|in|on|"
    "at|today|who|to|for|seen|called|here|lives|says|said|feels|continues|remains|also|tolerated|underwent|currently|initially|then|"
    "now|looks|appears|understands|agrees|as|from|by"
)
_NAMED_SMALL = re.compile(
    rf"\.?[ \t]+(?P<first>[A-Z][a-z]+)[ \t]+(?!(?:{_NO_LAST_NAME})\b)[a-z]+[ \t]+"
    r"(?:is|was|has|presents?|presented|came|comes|reports?|returns?|denies)\b"
)
""" "Mr Dorian cleve presented"."""
_HEADED = re.compile(
    r"(?:Patient|Pt|Name|PATIENT|NAME|RE|Re)(?:\s+[Nn]ame)?[ \t]*[:=][ \t]*(?!(?:Mr|Mrs|Ms|Miss)\b)"
    r"[A-Z][\w'’-]+(?:,[ \t]*|[ \t]+)[A-Z][\w'’-]*"
)
_PRESENTED = re.compile(
    r"\b(?P<first>[A-Z][a-z]+)[ \t]+(?:[A-Z]\.?[ \t]+)?[A-Z][a-z'’]+(?:-[A-Z][a-z]+)?[ \t]*,?[ \t]*\(?"
    r"(?:is[ \t]+an?[ \t]+)?$"
)
""" "Dillon Cleveland 17M"."""
_SOMEBODY = re.compile(
    r"\b(?:Drs?|Prof|RN|NP|PA|MD|MW|CNA|LPN|Nurse|nurse|Doctor|doctor|midwife|by|per|aide|son|daughter|wife|husband|partner|mother|father|"
    r"mom|mum|dad|brother|sister|friend|caregiver|carer|aunt|uncle|dtr|sitter|attending|resident|surgeon|with|St|Saint|"
    r"at|in)\b\.?[\s:,(]*(?:[A-Z][a-z]*\.?\s+)?$"
)
_PROVIDER_NEXT = re.compile(r"(?:\s+[A-Z][\w'’-]*){0,2}\s*,?\s*(?:RN|NP|PA|MD|DO|LPN|CNA|MSW|PhD|PT|OT|Dr)\b|['’]s\b|-")
_LAST_NAME = re.compile(r"\s+[A-Z][a-z]")
_SPOUSE_NAMED = re.compile(r"\s*[,(]?\s*(?P<name>[A-Z][a-z]+)\b")
_NO_NAME_WORDS = (
    "He She His Her They The Is At In On Has Was And Who With To Also Called States Reports Says No Not Will"
)
_NO_NAMES = frozenset(_NO_NAME_WORDS.split())
_NAMED = re.compile(r"\.?[ \t]+(?P<first>[A-Z][a-z]+)[ \t]+(?:[A-Z]\.?[ \t]+)?[A-Z][a-z]+")
_PATIENT_OPENS = re.compile(r"(?:(?:the|this)\s+)?(?:patient|pt|mr|mrs|ms|miss)\b", re.IGNORECASE)
_VERB = re.compile(
    r"\b(?:and|but|or|then|also|,)\s+(?:also\s+|then\s+|now\s+|still\s+)?(?P<verb>is|has|was|does|denies|reports|states|says|takes|lives|works|uses|feels|"
    r"wants|needs|drinks|smokes|appears|presents|complains|remains|continues|endorses|admits|notes|describes|gets|sees|plans|agrees|"
    r"understands|tolerates|requires)\b",
    re.IGNORECASE,
)


@cache
def _crude() -> dict[str, Any]:
    table: dict[str, Any] = read_resource("palpate.perturb.characteristics.doubts", "crude.yaml")
    return table


@cache
def _kin() -> dict[str, str]:
    """Other people, with their gender; "either" for those of whom the word does not tell."""
    told = {word: sex for sex, words in _crude()["kin"].items() for word in words.split()}
    return {**dict.fromkeys(OTHERS, "either"), **told, **GENDER_OF_KIN}


def triggers() -> dict[str, tuple[str, ...]]:
    """The words to scan for, by tag."""
    return {
        "sure:kin": tuple(_kin()),
        "sure:re": ("re",),
        "sure:spouse": tuple(_crude()["spouses"].split()),
        **sexes.triggers(),
    }


def wording(group: str) -> str:
    """What a group is worded as: a transgender woman as a woman, with one word more."""
    return sexes.WORDING.get(group, group)


def left_over(patient: DescribedPatient, altered: AlteredTo) -> str | None:
    """Why it is not sure that all words of the patient were changed, and no others."""
    note, base, edits = patient.note, altered.found.base, altered.edits
    worded = sexes.WORDING.get(altered.group)
    if altered.group == "transgender" or base is None or worded == base:
        return None
    changed = {edit.start for edit in edits if edit.end > edit.start}
    # All of "(transgender woman)" is taken out at once.
    changed |= {k for edit in edits if not edit.text for k in range(edit.start, edit.end)}
    return (
        _left_words(note, changed, base, neutral=worded is None)
        or _left_letters(note, edits)
        or (_left_names(patient, base, changed) if worded else None)
        or _left_child(patient)
        or _left_role(note, base, edits)
        or _another_person(note, base, edits)
        or (_verbs(note, edits) if worded is None else None)
    )


def _left_words(note: ScannedNote, changed: set[int], base: str, *, neutral: bool) -> str | None:
    """A pronoun, noun, title or word for a spouse that was not changed, and that nobody else explains."""
    for hit, gender in pronouns(note):
        if hit.start not in changed and not _has_person(note, hit, gender, spouse=neutral):
            return f"'{note.text[hit.start : hit.end]}' would stay"
    for hit in (*note.hits("noun"), *note.hits("role")):
        if hit.word in OTHERS or _is_inside(hit, changed) or NOT_A_PERSON.match(note.text, hit.end):
            continue
        if hit.word in _TRADES[sexes.OPPOSITE[base]]:
            continue  # a woman who is a waiter may be a man who is one
        if not (note.in_family(hit.start) or _has_person(note, hit, "either", far=False)):
            return f"'{note.text[hit.start : hit.end]}' would stay"
    for hit in note.hits("title"):
        in_capitals = note.text[hit.start : hit.end].isupper() and not note.is_in_capitals(hit.start)
        named = hit.start not in changed and _NAME_NEXT.match(note.text, hit.end)
        if in_capitals and not _TITLED.match(note.text, hit.end):
            continue  # mitral regurgitation, multiple sclerosis
        if hit.word == "mr" and _SCAN_NEXT.match(note.text, hit.end):
            continue
        if named and not _has_person(note, hit, "either", far=False):
            return f"'{note.text[hit.start : hit.end]}' would stay"
    for hit in () if neutral else (*note.hits("spouse"), *note.hits("sure:spouse")):
        if hit.start not in changed and not note.in_family(hit.start) and not _NO_SPOUSE.match(note.text, hit.end):
            return f"'{hit.word}' would stay"
    return None


def _left_role(note: ScannedNote, base: str, edits: Sequence[Edit]) -> str | None:
    """A parent who is the patient ("a stay at home dad"), or a trade that has no other gender ("a lunch lady")."""
    text = note.text
    for hit in note.hits("people"):
        if GENDER_OF_KIN.get(hit.word) == base and _PARENT_IS.search(text, max(0, hit.start - 24), hit.start):
            return f"'{hit.word}' would stay"
    nouns = (edit for edit in edits if text[edit.start : edit.end].lower() in NOUNS)
    trades = (_TRADE.search(text, max(0, edit.start - 14), edit.start) for edit in nouns)
    return next((f"'{match.group().strip()}' before the word" for match in trades if match), None)


def _left_child(patient: DescribedPatient) -> str | None:
    """A child whom the note calls somebody's daughter: "mom reports 10yo daughter"."""
    if not patient.is_child:
        return None
    told = (hit.word for hit in patient.note.hits("people") if hit.word in ("son", "daughter", "sister", "brother"))
    return next((f"'{word}' would stay" for word in told), None)


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
        if not spouse and one.word in _SPOUSE:
            continue
        if gender == "either" or kin[one.word] in (gender, "either"):
            return True
    return False


def _left_letters(note: ScannedNote, edits: Sequence[Edit]) -> str | None:
    """An M or F that was not changed: "arrived 2016 F"."""
    text = note.text
    for hit in note.hits("letter"):
        start, end = hit.start, hit.end
        if text[start:end] not in ("M", "F") or any(edit.start <= start < edit.end for edit in edits):
            continue
        if text[start - 1 : start] in _TIED or text[start - 1 : start].isdigit() or text[end : end + 1] in _TIED:
            continue
        if _TUBE.match(text, end) or _DEGREES.search(text, max(0, start - 12), start):
            continue
        if text[end : end + 1] == "." and _INITIAL.search(text, max(0, start - 24), start):
            continue
        return f"'{text[start:end]}' would stay"
    return None


def _left_names(patient: DescribedPatient, base: str, changed: set[int]) -> str | None:
    """A first name that was not changed, and may be the patient's; a name of the spouse, who was."""
    note, text = patient.note, patient.note.text
    for hit in note.hits("title"):
        match = _NAMED.match(text, hit.end) if hit.start in changed else None
        if match and match.start("first") not in changed:
            return "a first name would stay"
        small = _NAMED_SMALL.match(text, hit.end) if hit.start in changed else None
        if small and small.start("first") not in changed:
            return "a first name would stay"
    for hit in note.hits("first_name"):
        if hit.start not in changed and names()[hit.word][0] == base and _is_a_name(text, hit):
            return "a first name would stay"
    for hit in (*note.hits("patient"), *note.hits("name"), *note.hits("sure:re")):
        headed = _HEADED.match(text, hit.start)
        if headed and not any(headed.start() <= start < headed.end() for start in changed):
            return "the patient's name would stay"
    for age in patient.own_ages:
        named = _PRESENTED.search(text, max(0, age.start - 60), age.start)
        if named and named.start("first") not in changed and not _SOMEBODY.search(text, 0, named.start()):
            return "a name before the age"
    for hit in note.hits("spouse"):
        if hit.start in changed and _is_sexed(note, hit):
            return f"a sex of the {hit.word}"
        match = _SPOUSE_NAMED.match(text, hit.end) if hit.start in changed else None
        if match and match.group("name") not in _NO_NAMES:
            return "the spouse's name"
    return None


def _is_sexed(note: ScannedNote, spouse: Hit) -> bool:
    """Whether a sentence tells of the spouse's sex: "husband has ED", "wife is pregnant"."""
    _, last = note.sentence(spouse.start)
    near = min(last, spouse.end + 40)
    return any(spouse.end <= hit.start < near for hit in note.hits("sure:sexed")) or bool(
        _HAS_ED.search(note.text, spouse.end, near)
    )


def _is_a_name(text: str, hit: Hit) -> bool:
    """Whether a first name is a person's, and nobody's but perhaps the patient's."""
    if not text[hit.start].isupper() or (text[hit.start : hit.end].isupper() and not text.isupper()):
        return False
    if hit.word in name_words() and not _LAST_NAME.match(text, hit.end):
        return False
    around = text[max(0, hit.start - 24) : hit.start]
    return not _SOMEBODY.search(around) and not _PROVIDER_NEXT.match(text, hit.end)


def _another_person(note: ScannedNote, base: str, edits: Sequence[Edit]) -> str | None:
    """A pronoun that was changed, though somebody else of the gender is near: "daughter asks, I told her"."""
    changed = {edit.start: edit.text.lower() for edit in edits if edit.end > edit.start}
    settled = -1
    for hit, gender in pronouns(note):
        if hit.start not in changed or gender != base:
            continue
        own = _OWN_KIN.match(note.text, hit.end) if hit.word in ("his", "her") else None
        if own and own.group("word").lower() in _kin():
            continue
        number = note.sentence_number(hit.start)
        near = list(_same_gender(note, hit, gender)) if number != settled else []
        for one in near:
            if not _is_told_of(note, one, hit, is_object=changed[hit.start] in ("him", "her", "them")):
                return f"'{note.text[hit.start : hit.end]}' after '{one.word}'"
        if near:
            settled = number  # "his son says he took his pills": the second is whose the first is
    return None


def _is_told_of(note: ScannedNote, one: Hit, hit: Hit, *, is_object: bool) -> bool:
    """Whether a pronoun is not the other person's: "son reports he fell", "son to bring him back"."""
    text = note.text
    if _TELLS.search(text, max(one.end, hit.start - 24), hit.start):
        return True
    if text[one.end : hit.start].strip() == "," and _AS_TOLD.search(text, max(0, one.start - 32), one.start):
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
    for one in hits[bisect_left(hits, before, key=_start) : bisect_left(hits, hit.start, key=_start)]:
        if (
            kin[one.word] != gender
            or note.text[one.end : one.end + 2] in ("'s", "’s")
            or OF_SOME.match(note.text, one.end)
        ):
            continue
        if one.start >= first:
            yield one
            continue
        opening = note.opening(one.start)
        told_by = _TOLD_BY.match(note.text, one.end) or _ACCOMPANIED.search(note.text, opening, one.start)
        told_by = told_by or _OF_PATIENT.search(note.text, opening, one.start)
        if one.start - opening <= 12 and not told_by:
            yield one


def _start(hit: Hit) -> int:
    return hit.start


def _verbs(note: ScannedNote, edits: Sequence[Edit]) -> str | None:
    """A verb of one person after "they": "they deny fever and reports a cough"."""
    for edit in edits:
        if edit.text.lower() != "they":
            continue
        _, last = note.sentence(edit.start)
        if _PATIENT_OPENS.match(note.text, note.opening(edit.start)):
            continue  # "the patient says that they have pain, but denies fever"
        for match in _VERB.finditer(note.text, edit.end, last):
            if not any(one.start == match.start("verb") for one in edits):
                return f"'{match.group('verb')}' after they"
    return None
