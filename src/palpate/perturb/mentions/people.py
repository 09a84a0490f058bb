"""Whether a mention is about somebody else than the patient: a relative, a donor, a contact.

The reader of the characteristics says who the subject is before the mention. Here, a relative who reports or brings the
patient is not the one who is ill, and a pronoun after the relative is the patient again, unless it can only be the
relative.
"""

from __future__ import annotations

import re
from functools import cache

from palpate.perturb.characteristics.reading import Hit, ScannedNote, TriggerWords
from palpate.perturb.characteristics.reading.people import (
    GENDER_OF_KIN,
    OTHERS,
    PATIENT,
    RELATIVES,
    SIDES,
    has_other_subject,
)

_REPORTS = re.compile(
    r"\s+(?:was|were|is|are|has\s+been|have\s+been)\s+(?:\w+\s+)?(?:told|informed|updated|advised|notified|aware|contacted)\b|"
    r"(?:,[^,;]{1,40},)?(?:\s+(?:also|now|then|has|had|who))*\s+(?:reports?|reported|states?|stated|says?|said|notes?|noted|notices?|noticed|thinks?|thought|"
    r"believes?|worrie[sd]|called|calls|brought|brings?|found|finds|denies|denied|confirms?|confirmed|tells?|told|describes?|"
    r"described|recalls?|recalled|mentions?|mentioned|observed|witnessed|accompanied|accompanies|concerned|asks?|asked|"
    r"endorses?|endorsed|at\s+(?:the\s+)?bedside|present|helps?|helped|gave|gives|translat\w+|interpret\w+)\b",
    re.IGNORECASE,
)
_SUBJECT_AGAIN = re.compile(
    r"(?:^|,|\band|\bthat|\bbut|\bwhen|\bbecause|\bas|\bwhere)\s+(he|she|they|i)\b", re.IGNORECASE
)
_HIS_OR_HER = re.compile(r"\b(his|her)\s+(?:[\w-]+\s+){0,2}\Z", re.IGNORECASE)
_KIN = "|".join(sorted(RELATIVES - {"family"}))
_ITEM = (
    r"(?!(?:and|or|no|not|in|but|denies|has|had|is|was|were|are|after|when|while|because|runs|with|who|which)\b)"
    r"[\w/'-]+"
)
"""A word of a finding in a list."""
_OF_RELATIVE = re.compile(
    rf"\w*(?: {_ITEM}){{0,2}}(?:(?:,(?: and| or)?| and| or)(?: {_ITEM}){{1,4}}){{0,8}},? in (?:his|her|their|the)"
    r" (?:immediate )?family\b(?! (?:room|physician|doctor|medicine|practice|meeting))|"
    r"[^,.;]{0,30}?\b(?:in|of|by|for|from)\s+(?:(?:his|her|their|the|an?|two|three|both|one|several|multiple|many|other|"
    r"maternal|paternal|older|younger|twin|half)\s+){0,3}"
    rf"(?:{_KIN}|family)\b(?!\s+(?:room|physician|doctor|medicine|practice|meeting))"
    r"|[^.;]{0,40}?\bon\s+(?:(?:the|his|her|their)\s+)?(?:paternal|maternal|mother['’]s|father['’]s)\s+side\b"
    rf"|\w*\s*(?:[:(\u2013]|-\s)\s*(?:(?:maternal|paternal|his|her)\s+)?(?:{_KIN})\b(?=\s*(?:[,;.)/&]|and\b|$))",
    re.IGNORECASE,
)
_CAUGHT = re.compile(r"\b(?:caught|catches|got|contracted|acquired|picked up)\s+(?:[\w-]+\s+){0,2}\Z", re.IGNORECASE)
"""The patient has what was caught from a relative."""
_WITH = re.compile(r"\s+(?:with|w/|has|having|who)\b", re.IGNORECASE)
_PATIENT_FIRST = re.compile(
    r"(?:the\s+)?(?:patient|pt)\s+(?:\w+\s+)?(?:has|had|was|is|developed|suffers|suffered)\b(?!\s+(?:a\s+)?(?:no\s+)?(?:strong\s+)?family\b)",
    re.IGNORECASE,
)
_PEOPLE = OTHERS | frozenset(
    ["coworker", "coworkers", "worker", "colleague", "colleagues", "classmate", "classmates", "contacts", "boss"]
)
_CHILDREN = frozenset(["child", "baby", "infant", "newborn", "neonate", "kid"])
_OWNED = re.compile(r"(?:\b(?:his|her|their|a|one|another|whose)|['’]s)\s+(?:[\w-]+\s+){0,2}\Z", re.IGNORECASE)
_HAS = re.compile(r"(?:\s+(?:also|recently|reportedly))?\s+(?:has|had|have|died|suffer\w*|developed)\b", re.IGNORECASE)
_CARES_FOR = re.compile(
    r"\b(?:lives?|living|lived|cares?|caring|cared|visit\w*|carer|caregiver|caretaker|contact|exposed|exposure|looks\s+after|helps)\s+"
    r"(?:\w+\s+)?(?:with|for|to|of)?\s*(?:(?:his|her|the|their|an?|own|elderly|ill|sick|dying)\s+){0,3}\Z",
    re.IGNORECASE,
)
_TOO = re.compile(
    r"[^.;]{0,60}\b(?:he|she|they|patient|pt)\s+(?:now\s+|also\s+)?(?:has|had|have|got|caught|developed)\s+(?:it|one|the\s+same)\s+"
    r"(?:too|as\s+well)\b",
    re.IGNORECASE,
)
""" "His son had pneumonia, and now he has it too"."""


def is_of_patient(text: str) -> bool:
    """Whether a sentence of a family history is about the patient after all: "Patient has had pneumonia twice."."""
    if _PATIENT_FIRST.match(text) is None:
        return False
    return not any(hit.word in OTHERS or hit.word in SIDES for hit in _words().scan(text).hits("people"))


def is_of_other(text: str, start: int, end: int) -> bool:
    """Whether the mention at this place of a sentence is about somebody else than the patient."""
    if _OF_RELATIVE.match(text, end) and not _CAUGHT.search(text, max(0, start - 40), start):
        return True
    if _TOO.match(text, end):
        return False
    hits = [hit for hit in _words().scan(text).hits("people") if not _is_child_seen(text, hit)]
    note = ScannedNote(text, {"people": hits})
    people = [hit for hit in hits if hit.start < start and hit.word in _PEOPLE]
    if not people:
        return False
    last = people[-1]
    between = text[last.end : start]
    if _WITH.match(between) and _CARES_FOR.search(text[max(0, last.start - 60) : last.start]):
        return True
    if not (_HAS.match(between) or has_other_subject(note, start, people=_PEOPLE)):
        return False
    first = people[0]
    after = text[first.end : start]
    if _REPORTS.match(text, last.end, start) or _REPORTS.match(text, first.end, start):
        return False
    owner = _HIS_OR_HER.search(text, max(0, start - 40), start)
    if owner is not None and GENDER_OF_KIN.get(last.word, "") not in (
        "",
        {"his": "male", "her": "female"}[owner[1].lower()],
    ):
        return (
            False  # "her brother treats his pneumonia" is left alone, "her brother saw her pneumonia" is the patient's
        )
    again = _SUBJECT_AGAIN.search(after if first is last else between)
    return again is None or _is_relative(again[1].lower(), text, last.start, last.word)


def _is_child_seen(text: str, hit: Hit) -> bool:
    """Whether a child is the patient: "the child had pneumonia", not "her child had pneumonia"."""
    return hit.word in _CHILDREN and _OWNED.search(text[max(0, hit.start - 40) : hit.start]) is None


def _is_relative(pronoun: str, text: str, start: int, word: str) -> bool:
    """Whether a pronoun can only be the relative: "his mother smoked, and she had pneumonia"."""
    owner = _HIS_OR_HER.search(text[max(0, start - 40) : start])
    gender = {"he": "male", "she": "female"}.get(pronoun)
    if owner is None or gender is None or GENDER_OF_KIN.get(word) != gender:
        return False
    return {"his": "male", "her": "female"}[owner[1].lower()] != gender


@cache
def _words() -> TriggerWords:
    return TriggerWords({"people": [*_PEOPLE, *SIDES, *PATIENT]})
