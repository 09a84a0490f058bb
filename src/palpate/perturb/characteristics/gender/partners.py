"""The patient's spouse: the words for them, what else they are called, and whether they have a name.

A husband becomes a wife with his nouns ("her husband, a 70 year old man") and pronouns. A spouse with a name ("his wife
Mary") can't be reworded, nor can "sex with women": such notes are skipped. "Female partner" is reworded as a wife is.
"""

from __future__ import annotations

import re

from palpate.perturb.characteristics.gender.firstnames import is_first_name
from palpate.perturb.characteristics.reading import Hit, ScannedNote
from palpate.perturb.characteristics.reading.people import GENDER_OF_KIN, NOUNS, RELATIVES

SPOUSE_WORDS = ("husband", "wife", "boyfriend", "girlfriend", "fiance", "fiancee", "gf", "bf")
NAMED = "the spouse has a name"
SEX_WITH = "the note tells with whom the patient has sex"
WHOSE = "whose spouse it is"
""" "His son and his wife", of a man."""
_SHORT_OWNED = re.compile(r"(?:\b(?:his|her|with|by|per|w/)|['’]s)\s+(?:ex[\s-]*)?$", re.IGNORECASE)
_SHORT_ACTS = re.compile(
    r"\s+(?:at\s+(?:bedside|scene)|called|states|stated|reports|reported|says|drove|found|brought|notes|noted|is\s+(?:at|here)|in\s+room)\b",
    re.IGNORECASE,
)
"""A GF at the bedside is not a gluten-free diet."""
_OTHERS_SPOUSE = re.compile(
    r"\b(?P<kin>[A-Za-z]+)(?:['’]s|\s+and\s+(?P<owner>his|her))\s+(?:[\w-]+\s+)?$", re.IGNORECASE
)
_OWNERS = {"his": "male", "her": "female"}
_CALLED = re.compile(
    r"(?:\s*[,(]\s*(?:who\s+(?:is|was)\b)?|\s+(?:who\s+)?(?:is|was))\s*(?:an?\s+|aged?\s+)?(?:\d{1,3}[\s-]*(?:y\.?\s?/?o\.?|years?[\s-]old|yrs?[\s-]old)?[\s-]*)?"
    r"(?:(?!who\b|with\b|and\b|to\b|by\b|for\b|from\b)[A-Za-z-]+\s+){0,4}?(?P<noun>(?:"
    + "|".join(NOUNS)
    + r")\b|(?-i:[MF])\b)(?![-'’/])",
    re.IGNORECASE,
)
_NAME_AFTER = re.compile(
    r"(?:['’]s[ \t]+name)?(?P<link>[ \t]*[,:(-][ \t]*|[ \t]+)"
    r"(?P<said>(?:is|named|name\s+is|whose\s+name\s+is)[ \t]+)?(?P<name>[A-Z][A-Za-z’'-]+)\b(?![ \t]*:)"
)
_NAME_BEFORE = re.compile(
    r"\b(?P<name>[A-Z][A-Za-z]+)(?:[ \t]+[A-Z][A-Za-z'’-]+)?[ \t]*[,(-][ \t]*(?:(?:his|her|the|pt['’]s)[ \t]+)?$"
)
_NAME_IS = re.compile(r"\b(?:his|her)\s+name\s+is\s+[A-Z]", re.IGNORECASE)
_NO_NAME = re.compile(
    r"\w+(?:ic|an|ish|ese|ing|ed|speaking|tion)|(?:HCP|POA|NOK|Dr|Mr|Mrs|Ms|She|He|His|Her|The|This|No|Reports|States|Says|Denies|Notes|At|Is|Was|And|With|Who|Has|In|On|"
    r"For|To|Here|Also|Present)\b"
)
_SEX = re.compile(r"(?:\s+active)?\s+(?:with\s|w/)\s*(?:other\s+|only\s+|both\s+)?(?:wo)?m[ea]n\b", re.IGNORECASE)
_PARTNER_BEFORE = re.compile(
    r"\bpartners?(?:\s*\(|\s*:\s*|\s+(?:is|are)\s+(?:an?\s+)?|,\s+(?:also\s+)?(?:an?(?:other)?\s+)?)$", re.IGNORECASE
)
""" "Partner (male)", "partner, also male user"."""
_PARTNER = re.compile(r"[\s-]+(?:sexual[\s-]+)?partners?\b", re.IGNORECASE)


def spouses(note: ScannedNote) -> list[Hit]:
    """The words for a spouse, in order; "bf" and "gf" only if they are somebody's."""
    return [
        hit
        for hit in note.hits("spouse")
        if len(hit.word) > 2
        or _SHORT_OWNED.search(note.text, max(0, hit.start - 12), hit.start)
        or (hit.start == note.opening(hit.start) and _SHORT_ACTS.match(note.text, hit.end))
    ]


def is_others_spouse(note: ScannedNote, hit: Hit, theirs: set[int]) -> bool:
    """Whether it is somebody else's spouse: his daughter's husband; her sister and her husband."""
    before = _OTHERS_SPOUSE.search(note.text, max(0, hit.start - 40), hit.start)
    if before and before.group("kin").lower() in SPOUSE_WORDS:
        return False  # in "her ex-husband and his new wife" the two change places
    if before and before.group("kin").lower() in RELATIVES:
        kin, owner = GENDER_OF_KIN.get(before.group("kin").lower()), before.group("owner")
        return owner is None or kin is None or kin == _OWNERS[owner.lower()]
    return any(start in theirs for start in range(max(0, hit.start - 5), hit.start))


def may_be_either(note: ScannedNote, hit: Hit, base: str, theirs: set[int]) -> bool:
    """Whether a relative's spouse may be the patient's too: "his son and his wife", of a man."""
    before = _OTHERS_SPOUSE.search(note.text, max(0, hit.start - 40), hit.start)
    owner = before.group("owner") if before else None
    return bool(before and owner and _OWNERS[owner.lower()] == base and before.start("owner") not in theirs)


def called(note: ScannedNote, hit: Hit) -> tuple[int, int] | None:
    """The noun or letter for a spouse: "her husband, a 70 year old man", "his wife (38F)"."""
    match = _CALLED.match(note.text, hit.end, note.sentence(hit.start)[1])
    return match.span("noun") if match else None


def is_named(note: ScannedNote, hit: Hit) -> bool:
    """Whether there is a name next to the word for a spouse."""
    text = note.text
    before = _NAME_BEFORE.search(text, max(0, hit.start - 40), hit.start)
    if before and is_first_name(before.group("name")):
        return True
    after = _NAME_AFTER.match(text, hit.end)
    if after is None:
        return False
    name = after.group("name")
    if is_first_name(name):
        return True
    plain = not name.isupper() and not _NO_NAME.match(name)
    return plain and note.sentence_number(after.start("name")) == note.sentence_number(hit.start)


def names_spouse(note: ScannedNote, start: int) -> bool:
    """ "His name is Bob", with a pronoun of the spouse's."""
    return _NAME_IS.match(note.text, start) is not None


def partner_nouns(note: ScannedNote) -> list[Hit]:
    """The "female" of "female partner" and "partner (female)"."""
    text = note.text
    found = [
        hit
        for hit in note.hits("noun")
        if hit.word in ("male", "female")
        and (_PARTNER.match(text, hit.end) or _PARTNER_BEFORE.search(text, max(0, hit.start - 24), hit.start))
    ]
    return [hit for hit in found if not note.in_family(hit.start)]


def tells_sex_with(note: ScannedNote) -> bool:
    """ "Sex with women only"."""
    return any(_SEX.match(note.text, hit.end) for hit in note.hits("sex") if hit.word != "gender")
