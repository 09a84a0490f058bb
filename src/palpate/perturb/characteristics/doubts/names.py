"""Names: a first name of the patient's that was not changed, and what a sentence tells of a spouse who was."""

from __future__ import annotations

import re

from palpate.perturb.characteristics.gender.firstnames import name_words, names
from palpate.perturb.characteristics.reading import Hit, ScannedNote
from palpate.perturb.characteristics.reading.patient import DescribedPatient

_HAS_ED = re.compile(r"\b(?:has|with|w/|for)\s+ED\b")
_EXPECTS = re.compile(
    r"\b(?:expecting|due\s+(?:in|any|date|with)|in\s+lab(?:o|ou)r|delivered|gave\s+birth|had\s+(?:an?|the|their)\s+(?:baby|c-section)|"
    r"\d+\s+(?:weeks|months)\s+along|breast\s+(?:ca|cancer|carcinoma|surgery))\b",
    re.IGNORECASE,
)
_DOES = re.compile(
    r"\s+(?:also\s+)?(?:comes?|came|is|was|has|had|reports?|denies|states?|says|said|presents?|presented|returns?|returned|feels|lives|"
    r"works|takes|will|continues)\b"
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
    r"(?:Patient|Pt|Name|PATIENT|NAME|RE|Re)(?:\s+[Nn]ame)?[ \t]*[:=][ \t]*(?!(?:Mr|Mrs|Ms|Miss|ABCD?|XYZ|XX+)\b)"
    r"[A-Z][\w'’-]+(?:,[ \t]*|[ \t]+)[A-Z][\w'’-]*"
)
"""Letters in place of a name (XYZ) show no gender."""
_AFTER_PATIENT = re.compile(r"[ \t]+(?P<first>[A-Z][a-z]{2,})[ \t]+(?:[A-Z]\.?,?(?=\s)|[A-Z][a-z'’-]+,[ \t]+\d\d\b)")
""" "Pt Rosa T., 62"."""
_PRESENTED = re.compile(
    r"\b(?P<first>[A-Z][a-z]+)[ \t]+(?:[A-Z]\.?[ \t]+)?[A-Z][a-z'’]+(?:-[A-Z][a-z]+)?[ \t]*,?[ \t]*\(?"
    r"(?:is[ \t]+an?[ \t]+)?$"
)
""" "Dillon Cleveland 17M"."""
_SOMEBODY = re.compile(
    r"\b(?:Drs?|Prof|RN|NP|PA|MD|MW|CNA|LPN|Nurse|nurse|Doctor|doctor|midwife|by|per|aide|son|daughter|wife|husband|partner|mother|father|"
    r"mom|mum|dad|brother|sister|friend|caregiver|carer|aunt|uncle|dtr|sitter|attending|resident|surgeon|with|St|Saint|"
    r"San|Santa|Fort|Lake|Port|Mount|Los|at|in)\b\.?[\s:,(]*(?:[A-Z][a-z]*\.?\s+)?$"
)
_PROVIDER_NEXT = re.compile(
    r"(?:\s+[A-Z][\w'’-]*){0,2}\s*,?\s*(?:(?:RN|NP|PA|MD|DO|LPN|CNA|MSW|PhD|PT|OT|Dr)\b|M\.\s?D\.|D\.\s?[OC]\.|Ph\.\s?D\.)|['’]s\b|-"
    r"|(?:\s+[A-Z][\w'’-]*){1,2}\s+joined\b"
    r"|(?:\s+[A-Z][\w'’-]*)?\s+(?:[Pp]rocedure|[Oo]peration|[Ss]ign|[Tt]est|[Mm]aneuver|[Ss]yndrome|[Dd]isease)\b"
)
_TITLE_BEFORE = re.compile(r"\b(?:Mr|Mrs|Ms|Miss)\.?[ \t]+(?:[A-Z][a-z]+[ \t]+)?$")
_GIVEN = re.compile(r"\b(?P<first>[A-Z][a-z]+)[ \t]+(?:[A-Z]\.?[ \t]+)?$")
_LAST_NAME = re.compile(r"\s+[A-Z][a-z]")
_SPOUSE_NAMED = re.compile(r"\s*[,(]?\s*(?P<name>[A-Z][a-z]+)\b")
_NO_NAME_WORDS = (
    "He She His Her They The Is At In On Has Was And Who With To Also Called States Reports Says No Not Will"
)
_NO_NAMES = frozenset(_NO_NAME_WORDS.split())
_NAMED = re.compile(r"\.?[ \t]+(?P<first>[A-Z][a-z]+)[ \t]+(?:[A-Z]\.?[ \t]+)?[A-Z][a-z]+")


def left_names(patient: DescribedPatient, base: str, changed: set[int]) -> str | None:
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
        if hit.start in changed or names()[hit.word][0] != base or not _is_a_name(text, hit):
            continue
        given = _GIVEN.search(text, max(0, hit.start - 24), hit.start)
        if given is None or given.start("first") not in changed:  # the Russell of William Russell
            return "a first name would stay"
    for hit in (*note.hits("patient"), *note.hits("name"), *note.hits("sure:re")):
        beside = _AFTER_PATIENT.match(text, hit.end) if hit.word in ("pt", "patient") else None
        if beside and beside.start("first") not in changed:
            return "the patient's name would stay"
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
    if note.text[last - 1 : last] == ";":
        last = note.sentence(last)[1]  # "wife with him; she had DCIS"
    near = min(last, spouse.end + 40)
    return any(spouse.end <= hit.start < near for hit in note.hits("sure:sexed")) or bool(
        _HAS_ED.search(note.text, spouse.end, near) or _EXPECTS.search(note.text, spouse.end, near)
    )


def _is_a_name(text: str, hit: Hit) -> bool:
    """Whether a first name is a person's, and nobody's but perhaps the patient's."""
    if not text[hit.start].isupper() or (text[hit.start : hit.end].isupper() and not text.isupper()):
        return False
    if hit.word in name_words() and not (_LAST_NAME.match(text, hit.end) or _DOES.match(text, hit.end)):
        return False
    around = text[max(0, hit.start - 24) : hit.start]
    if _TITLE_BEFORE.search(around) and not _LAST_NAME.match(text, hit.end):
        return False  # "Mr. James" is called so by his last name
    return not _SOMEBODY.search(around) and not _PROVIDER_NEXT.match(text, hit.end)
