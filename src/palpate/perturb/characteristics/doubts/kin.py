"""Kin: the patient as somebody's child or parent, as one of several men or women, or in a trade of one gender."""

from __future__ import annotations

import re
from collections.abc import Sequence

from palpate.cases.edits import Edit
from palpate.perturb.characteristics.reading import Hit, ScannedNote
from palpate.perturb.characteristics.reading.patient import DescribedPatient
from palpate.perturb.characteristics.reading.people import CHILDREN, GENDER_OF_KIN, NOUNS

_SIBLINGS = frozenset(["brother", "sister"])
_SIBLING = re.compile(
    r"\b(?:mom|dad|mother|father|parents|brother|sister),\s+(?:and\s+)?$|(?:\b(?:his|her|their|an?|one|two|\d|older|younger|elder|twin|half|step|little|big|and|no|old|other|the|patient['’]s|pt['’]s)|y/?o)"
    r"[\s-]+$",
    re.IGNORECASE,
)
""" "His 6-year-old sister" is not the patient."""
_PARENT_HAS = re.compile(
    r"\b(?:mother|father|mom|mum|dad|parent|woman|man|lady|gentleman|grandmother|grandfather|aunt|uncle)\s+(?:[a-z]+\s+){0,2}?"
    r"(?:brings?|brought|bringing|presents?\s+with|presented\s+with|comes?\s+(?:in\s+)?with|came\s+(?:in\s+)?with|wants?|says|states|"
    r"reports|notes|noticed|(?:worried|concerned)\s+(?:about|that))\s+(?:in\s+|that\s+)?$",
    re.IGNORECASE,
)
_SPEAKS = re.compile(
    r"\s+(?:also\s+|then\s+|further\s+|otherwise\s+)?(?:states?|stated|says|said|reports?|reported|notes|noted|denies|denied|believes|thinks|"
    r"thought|mentions|mentioned|recalls|remembers|describes|described|wonders|asks|asked|agrees|agreed|understands|understood|would\s+like|"
    r"(?:is|was)\s+(?:very\s+|also\s+|quite\s+|a\s+little\s+)?(?:concerned|worried|unsure|not\s+sure|wondering|aware)|can(?:not)?\s+(?:remember|recall))\b",
    re.IGNORECASE,
)
"""What no infant does."""
_EXAMINES = re.compile(
    r"\s+(?:also\s+|then\s+|further\s+)?(?:notes|notices|observes|recommends|prescribes|orders|explains|advises|suspects|decides|examines|"
    r"documents|performs|palpates|auscultates)\b",
    re.IGNORECASE,
)
_EXAMINER = re.compile(
    r"\b(?:technician|sonographer|physician|doctor|nurse|resident|student|radiologist|surgeon|therapist|midwife|examiner|dentist|"
    r"pharmacist|paramedic|intern|[a-z]+ologist)\s+(?:also\s+|then\s+)?(?:notes|notices|observes|recommends|prescribes|orders|explains|"
    r"advises|suspects|decides|examines|performs|finds|sees|asks|calls|palpates)\b",
    re.IGNORECASE,
)
_OWN_SEX = (
    "menses menstrual menstruation menstruating menarche periods tampon testis testes testicle testicles "
    "testicular scrotum scrotal penis penile hydrocele varicocele circumcised uncircumcised circumcision "
    "phimosis foreskin hypospadias cremasteric vulva vulvar labia labial"
)
OWN_SEX = frozenset(_OWN_SEX.split())
"""What is a child's, also where its mother tells of it; other words of a sex may be about its birth."""
_OF_MANY = {
    **dict.fromkeys(("men", "guys", "boys", "lads", "gentlemen", "fellas", "blokes"), "male"),
    **dict.fromkeys(("women", "girls", "ladies", "gals"), "female"),
}
MANY = tuple(_OF_MANY)
"""The words to scan for."""
_AS_TOLD = re.compile(
    r"\b(?:according\s+to|per|as\s+per)\s+(?:(?:his|her|the|pt['’]?s|patient['’]?s)\s+)?$", re.IGNORECASE
)
_SINCE = re.compile(r"\s*,\s*|\s*,?\s*(?:since|after|before|following|until|during|prior\s+to)\s+", re.IGNORECASE)
_GIVES_HISTORY = re.compile(
    r"\b(?:confirm|corroborat|provid|gave|gives|suppli|verif|recount|relat)\w*\s+(?:(?:most|much|all|some|part)\s+of\s+)?$",
    re.IGNORECASE,
)
_HISTORY = re.compile(
    r"\s+(?:(?:past|medical|entire|recent|interval)\s+)*(?:history|story)\b(?!\s+of\b)", re.IGNORECASE
)
_TOLD_TO = re.compile(
    r"\b(?:instructions?\s+(?:was|were)\s+given\s+to|told|asked|advised|instructed)\s+(?:(?:his|her|the|patient['’]?s)\s+)?$",
    re.IGNORECASE,
)
_TO_GIVE = re.compile(
    r"\s+to\s+(?:give|increase|decrease|maximize|reduce|titrate|hold|monitor|check|continue|wean)\s+", re.IGNORECASE
)
_DOSE = re.compile(
    r"(?:\s+[\w-]+){0,3}\s+(?:doses?|dosing|dosage|feeds|feedings|temperature|weight|intake)\b", re.IGNORECASE
)
_PARENT_IS = re.compile(
    r"\b(?:stay[\s-]at[\s-]home|single|new|first[\s-]time|working|foster|adoptive|expectant|proud|busy|PTA|soccer|hockey|dance|dog|cat|"
    r"(?:is|was|as|became|become|becoming|being)\s+(?:an?|the)(?:\s+(?!his\b|her\b)[a-z-]+){0,2})\s+$",
    re.IGNORECASE,
)
_PARENT_OF = re.compile(
    r"\s+(?:of|to)\s+(?:an?\b|\d|one\b|two\b|three\b|four\b|five\b|six\b|twins\b|young\b)", re.IGNORECASE
)
_WHOSE = re.compile(r"(?:\b(?:his|her|their|the|my)|['’]s)\s+(?:[a-z]+\s+)?$", re.IGNORECASE)
_AMONG = re.compile(r"\b(?:other|fellow|(?:with|w)/?\s+the|one\s+of\s+the)\s+$", re.IGNORECASE)
""" "In a sober house with 8 other men"."""
_TRADE = re.compile(
    r"\b(?:lunch|cleaning|dinner|tea|bag|repair|delivery|maintenance|garbage|sales|mail|line|best)\s+$", re.IGNORECASE
)


def left_child(patient: DescribedPatient) -> str | None:
    """A child whom the note calls somebody's daughter: "mom reports 10yo daughter"."""
    note = patient.note
    if not patient.is_child:
        return None
    for hit in note.hits("people"):
        opens = hit.start == note.opening(hit.start)  # "Brother had tubes."
        if hit.word in _SIBLINGS and not opens and not _SIBLING.search(note.text, max(0, hit.start - 14), hit.start):
            return f"'{hit.word}' would stay"
        if hit.word in ("son", "daughter"):
            return f"'{hit.word}' would stay"
    return None


def left_speaker(note: ScannedNote, changed: set[int]) -> str | None:
    """A pronoun in the note of an infant that was changed, though whoever it is speaks: "She states it is worse"."""
    for hit in note.hits("pronoun"):
        if hit.start in changed and hit.word in ("he", "she") and _SPEAKS.match(note.text, hit.end):
            return f"'{note.text[hit.start : hit.end]}' of somebody who speaks"
    return None


def is_providers(note: ScannedNote, pronoun: Hit) -> bool:
    """Whether "she also notes" goes on about who examines: "The technician observes a fetus"."""
    first, last = note.sentence(pronoun.start)
    if first == 0 or not _EXAMINES.match(note.text, pronoun.end, last):
        return False
    before = note.sentence(first - 1)[0]
    return _EXAMINER.search(note.text, before, first) is not None


def is_parents(note: ScannedNote, pronoun: Hit, owned: str) -> bool:
    """Whether a pronoun is that of who brings a child: "a mother brings her 6-year-old"."""
    if owned not in CHILDREN:
        return False
    first, _ = note.sentence(pronoun.start)
    return _PARENT_HAS.search(note.text, max(first, pronoun.start - 80), pronoun.start) is not None


def left_role(note: ScannedNote, base: str, edits: Sequence[Edit]) -> str | None:
    """A parent who is the patient ("a stay at home dad"), or a trade that has no other gender ("a lunch lady")."""
    text = note.text
    changed = {edit.start for edit in edits if edit.end > edit.start}
    for hit in note.hits("people"):
        if GENDER_OF_KIN.get(hit.word) != base or hit.start in changed or note.in_family(hit.start):
            continue
        before = max(0, hit.start - 32)
        of_some = _PARENT_OF.match(text, hit.end) and not _WHOSE.search(text, before, hit.start)
        if of_some or _PARENT_IS.search(text, before, hit.start):
            return f"'{hit.word}' would stay"
    for hit in note.hits("sure:many"):
        if _OF_MANY.get(hit.word) == base and _AMONG.search(text, max(0, hit.start - 12), hit.start):
            return f"'other {hit.word}' would stay"
    nouns = (edit for edit in edits if text[edit.start : edit.end].lower() in NOUNS)
    trades = (_TRADE.search(text, max(0, edit.start - 14), edit.start) for edit in nouns)
    return next((f"'{match.group().strip()}' before the word" for match in trades if match), None)


def speaks_for_patient(text: str, one: Hit, hit: Hit) -> bool:
    """Whether a relative only tells of the patient, or is told what to give: the pronoun is not the relative's.

    "According to mom, since her operation", "the son confirmed his history", "told mom to increase her dose".
    """
    between = text[one.end : hit.start]
    if _AS_TOLD.search(text, max(0, one.start - 32), one.start) and _SINCE.fullmatch(between):
        return True
    if hit.word not in ("his", "her"):
        return False
    if _GIVES_HISTORY.search(between) and _HISTORY.match(text, hit.end):
        return True
    told = _TOLD_TO.search(text, max(0, one.start - 48), one.start)
    return told is not None and _TO_GIVE.fullmatch(between) is not None and _DOSE.match(text, hit.end) is not None
