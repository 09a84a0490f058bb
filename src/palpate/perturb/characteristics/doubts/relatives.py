"""Relatives: what the ages of others tell of the patient's, and decades of the patient's own life that are past.

A brother of 26 has no sister of 77, and nobody of 30 had a mother who lived to 101. A son who drives is grown up, so
his parent is past 40, and may be any older.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from palpate.perturb.characteristics.reading import Hit, ScannedNote
from palpate.perturb.characteristics.reading.past_ages import DECADES
from palpate.perturb.characteristics.reading.people import CHILDREN, PARENTS

Bound = tuple[str, int, int]
"""A word, and the lowest and the highest age that it allows."""
_OLDEST = 200
_KIN_APART, _SIBLINGS_APART = 18, 25
_CHILD = 16
_LATE_PARENT = 52
_LATEST_FATHER, _LATEST_MOTHER = 62, 48
_GROWN_CHILDREN, _PARENT_OF_GROWN = 50, 42
"""From this age on, children of whom no more is told are grown up; and the age from which one has such children."""
SIBLINGS = frozenset(["brother", "sister", "sibling", "brothers", "sisters", "siblings", "sis", "bro", "twin"])
SPOUSES = frozenset(["husband", "wife", "spouse", "partner", "husb", "hubby"])
_ELDERS = frozenset([*PARENTS, "parents", "parent", "mommy", "daddy"])
_FATHERS = frozenset(["father", "dad", "daddy"])
_OFFSPRING = frozenset([*CHILDREN, "dtr", "dtrs", "stepson", "stepdaughter"]) - {"child"}
_NUMBER = re.compile(r"(?<![\w/.#$-])(?:1[01]\d|\d\d)(?![\d/])")
UNIT_AFTER = re.compile(
    r"\s?(?:%|u/l|iu|mmol|meq|ng|pg|mg|mcg|ml|cc|kg|lb|cm|mm|bpm|units?|min|hrs?|hours?|days?|weeks?|wks?|months?|mos?|/|\.\d|:|pack|py|°|degrees|[CF]\b|in\b|years?\s+(?:ago|of\b|history))",
    re.IGNORECASE,
)
AGE_AFTER = re.compile(
    r"[\s-]?(?:y\.?/?\s?o\b|yr|years?[\s-]old|y\b|[MFmf]\b|(?:trans|man|woman|male|female|lady|gentleman|RH[MFW])\b)",
    re.IGNORECASE,
)
_AT = re.compile(
    r"\b(?:at|age|aged|@|is|was|until|till|to\s+be|lived\s+to)\s*(?:about\s+|the\s+)?(?:age\s*(?:of\s+)?)?$"
)
_DECADE_BEFORE = re.compile(
    rf"\b(?:in|to|into|until|since|from)\s+(?:his|her|their)\s+(?P<part>early|mid|late)?[\s-]*(?P<ten>\d0['’]?s|{'|'.join(DECADES)})$",
    re.IGNORECASE,
)
_TENS = {word: 20 + 10 * k for k, word in enumerate(DECADES[:-1])} | {"teens": 10}
_PART = {"early": 1, "mid": 4, "late": 7}
_OF_ANOTHER = re.compile(r"[a-z]['’]s\s+$|\b(?:grand|step|in-law|god)[\s-]?$", re.IGNORECASE)
_DIED = re.compile(r"\b(?:died|dead|passed|deceased|late|killed|death)\b", re.IGNORECASE)
_COUNTED = re.compile(
    r"\b(?:no|(?:has|have|had|with|w/|of|and|are|married,?)\s+(?:[a-z]+\s+)?(?:\d+|one|two|three|four|five|six|seven|several|grown|adult|healthy|an?)|"
    r"married\s+with|(?:\d+|one|two|three|four|five|six)(?:\s+(?:grown|adult|healthy|living))?)\s+(?:[a-z]+\s+)?$",
    re.IGNORECASE,
)
""" "Married with two children"."""
_AT_HOME = re.compile(r"\s+(?:at|living\s+at)\s+home\b|\s+(?:under|in\s+school)\b", re.IGNORECASE)
_IN_GENERAL = re.compile(
    r"['’]?s?\s+(?:hospital|clinic|ward|tylenol|motrin|aspirin)|[\s-]+in[\s-]+law\b", re.IGNORECASE
)
_YOUNG = re.compile(
    r"\b(?:young|younger|little|small|teen\w*|adopted|foster|school[\s-]aged?|dependent|minor)\s+$", re.IGNORECASE
)
_ADULT = re.compile(
    r"(?:\s*[,(]\s*[A-Z][a-z]+[,)]?)?\s*,?\s+(?:who\s+)?(?:(?:is|was)\s+)?(?:drove|drives|driving|(?:an?\s+|the\s+|her\s+|his\s+)?(?:RN|LPN|nurse|attorney|lawyer|"
    r"doctor|physician|teacher|HCP|POA|NOK|proxy)\b|works|manages|married|will\s+(?:drive|fly|stay)|helps|interpret\w*|translat\w*|cooks|cares)\b",
    re.IGNORECASE,
)
_AGED = re.compile(
    r"\s*(?:[,(:-]\s*)?(?:(?:who|is|are|age[ds]?|now|currently|both|himself|herself|themselves|of)\s+|:\s*)*"
    r"(?P<years>\d{1,2}(?:(?:\s*(?:,|&|/|\band\b|-|–|\bto\b)\s*)+\d{1,2})*)(?:\s?(?:y\w*|yrs?)\b)?(?![\d/%]|\.\d|st\b|nd\b|rd\b|th\b)"
    r"(?!\s+(?:children|kids|sons|daughters|girls|boys|times|of\b))",
    re.IGNORECASE,
)
_AGED_BEFORE = re.compile(
    r"(?<!\d)(?P<years>\d{1,2})[\s-]*(?:y/?o|y\.o\.|years?|yrs?)[\s-]*(?:olds?[\s-]+)?$", re.IGNORECASE
)
_OWN_CHILD = re.compile(r"\b(?:his|her|their)\s+(?P<years>\d{1,2})[\s-]*$", re.IGNORECASE)
_CHILD_OLD = re.compile(r"[\s/-]*(?:olds?|o)\b(?!\s+(?:brother|sister|sibling|twin|self))", re.IGNORECASE)
""" "Lift his 3 yr old"."""
_TOGETHER = re.compile(r"\s+of\s+(?P<years>\d\d)\+?\s+y", re.IGNORECASE)
_ONSET = re.compile(
    r"\b(?:x|for)\s?(?P<long>\d{1,2})\+?\s?(?:y|yrs?|years?)\b[\s,;]{0,2}\(?(?:onset|dx|dx['’]d|dx['’]?ed|diagnosed)(?:\s+at)?(?:\s+age)?\s+(?P<began>\d\d)\b",
    re.IGNORECASE,
)
_QUIT_AGO = re.compile(
    r"\b(?:quit|stopped)\b[^.;]{0,24}?\b(?P<ago>\d{1,2})\+?\s+(?:years?|yrs?)\s+ago\b", re.IGNORECASE
)
_UNTIL_AGE = re.compile(
    r"age\s+(?:of\s+)?\d{1,2}\s*(?:to|until|till|through|-|–)\s*(?:(?:the\s+)?age\s+(?:of\s+)?)?(?P<age>[2-8]\d)\b",
    re.IGNORECASE,
)
_MAY_BE_ONSET = re.compile(r"\d\+?\s?y(?:rs?|ears?)?[\s,;]{0,2}\(?(?:onset|dx|diagnosed)", re.IGNORECASE)
"""The middle of an onset: it starts with a digit, which is found much faster than a word of any case."""
_THEIR = re.compile(r"[^.;]*\btheir\s+(?:early\s+|mid\s+|late\s+)?\d*$", re.IGNORECASE)
_SENTENCE = 56
"""How far from children their decade may be: "two children, both of whom are grown, in their 20s"."""
_DIGITS = re.compile(r"\d+")


def limits_of_kin(note: ScannedNote, told: Collection[int]) -> Iterator[Bound]:
    """What relatives and their ages allow; `told` are the ages that the note gives for the patient."""
    for hit in note.hits("sure:kin_age"):
        yield from _of_peer(note, hit)
        together = _TOGETHER.match(note.text, hit.end) if hit.word in SPOUSES else None
        if together:
            yield hit.word, int(together.group("years")) + _CHILD, _OLDEST
    for hit in note.hits("people"):
        if hit.word in _ELDERS and not _OF_ANOTHER.search(note.text, max(0, hit.start - 12), hit.start):
            yield from _of_parent(note, hit)
    for hit in note.hits("year"):
        years = own_child(note, hit)
        if years is not None and years < _CHILD:
            yield "a child", years + _CHILD, years + _LATE_PARENT
    own = next(iter(told), None)
    for hit in (*note.hits("people"), *note.hits("sure:child")):
        if hit.word in _OFFSPRING:
            yield from _of_child(note, hit, own)


def own_child(note: ScannedNote, hit: Hit) -> int | None:
    """The age of a child that is only told by it: "lift his 3 yr old"; `hit` is the word for years."""
    before = _OWN_CHILD.search(note.text, max(0, hit.start - 12), hit.start)
    told = before and (hit.word == "yo" or _CHILD_OLD.match(note.text, hit.end))
    return int(before["years"]) if before and told else None


def _ages_after(note: ScannedNote, hit: Hit) -> Iterator[tuple[int, bool]]:
    """The ages of a relative in the sentence, up to the next person; and whether each is the present one."""
    text, (_, last) = note.text, note.sentence(hit.start)
    others = (one.start for one in note.hits("people") if one.start >= hit.end)
    last = min(last, next(others, last), hit.end + 60)
    for match in _NUMBER.finditer(text, hit.end, last):
        if UNIT_AFTER.match(text, match.end()):
            continue
        beside = not text[hit.end : match.start()].strip(" ,(")
        if beside or _AT.search(text, hit.end, match.start()) or AGE_AFTER.match(text, match.end()):
            yield int(match.group()), beside and not _DIED.search(text, hit.end, last)
    for one in note.hits("decade"):
        decade = _decade(text, hit.end, one.end) if hit.end < one.start < last else None
        if decade:
            yield decade, False


def _decade(text: str, start: int, end: int) -> int | None:
    """The age that "in her late 70s" tells at least, where it ends here."""
    match = _DECADE_BEFORE.search(text, max(start, end - 34), end)
    if match is None:
        return None
    ten = match["ten"].lower()
    return (_TENS.get(ten) or int(ten[:2])) + _PART.get((match["part"] or "mid").lower(), 0)


def _of_peer(note: ScannedNote, hit: Hit) -> Iterator[Bound]:
    """The age of a brother or a spouse: not far from the patient's."""
    twin = note.text[max(0, hit.start - 5) : hit.start].lower() == "twin "
    for years, present in _ages_after(note, hit):
        if hit.word in SPOUSES:
            yield hit.word, years - _KIN_APART, years + _KIN_APART
        elif twin:
            yield hit.word, years, years + 1 if present else _OLDEST
        else:
            yield hit.word, years - _KIN_APART, years + _SIBLINGS_APART if present else _OLDEST
    aged = _AGED_BEFORE.search(note.text, max(0, hit.start - 24), hit.start) if hit.word in SIBLINGS else None
    if aged:
        yield hit.word, int(aged["years"]) - _SIBLINGS_APART, int(aged["years"]) + _SIBLINGS_APART


def _of_parent(note: ScannedNote, hit: Hit) -> Iterator[Bound]:
    """An age that a parent has reached: children are born before 48, or 62."""
    gap = _LATEST_FATHER if hit.word in _FATHERS else _LATEST_MOTHER
    for years, _ in _ages_after(note, hit):
        yield hit.word, years - gap, _OLDEST


def _of_child(note: ScannedNote, hit: Hit, told: int | None) -> Iterator[Bound]:
    """A child who comes along or lives with the patient is of an age that fits; "two children" may be of any."""
    text = note.text
    aged = _AGED.match(text, hit.end) or _AGED_BEFORE.search(text, max(0, hit.start - 24), hit.start)
    if aged and not note.in_family(hit.start) and not UNIT_AFTER.match(text, aged.end()):
        ages = [int(years) for years in _DIGITS.findall(aged["years"])]
        yield hit.word, max(ages) + _CHILD, min(ages) + _LATE_PARENT
    for one in note.hits("decade"):
        near = hit.end < one.start < hit.end + (_SENTENCE if _THEIR.search(text, hit.end, one.start) else 24)
        decade = _decade(text, hit.end, one.end) if near else None
        if decade:
            yield hit.word, decade + _CHILD, decade + _LATE_PARENT
    if told is None or told < _CHILD or note.in_family(hit.start) or _IN_GENERAL.match(text, hit.end):
        return
    before = max(0, hit.start - 40)
    if _COUNTED.search(text, before, hit.start) and not _AT_HOME.match(text, hit.end):
        return
    grown = not aged and not _YOUNG.search(text, before, hit.start) and not _AT_HOME.match(text, hit.end)
    if grown and (told >= _GROWN_CHILDREN or _ADULT.match(text, hit.end)):
        yield hit.word, min(told - _CHILD, _PARENT_OF_GROWN), _OLDEST
    else:
        yield hit.word, told - _CHILD, told + _CHILD


def limits_of_onset(note: ScannedNote) -> Iterator[Bound]:
    """How long an illness lasts and when it began tell the age: "PD x 12 yrs (onset 47)"."""
    told = ("onset" in note.text or "dx" in note.text) and _MAY_BE_ONSET.search(note.text)
    for match in _ONSET.finditer(note.text) if told else ():
        years = int(match["long"]) + int(match["began"])
        if not any(match.start() <= one.start < match.end() for one in note.hits("people")):
            yield "an onset", years - 3, years + 3


def limits_of_quitting(note: ScannedNote) -> Iterator[Bound]:
    """How long ago a habit ended and at what age tell the age: "quit 10 years ago, smoked from age 18 to 54"."""
    for hit in note.hits("age"):
        told = _UNTIL_AGE.match(note.text, hit.start)
        stopped = _QUIT_AGO.search(note.text) if told else None
        if told and stopped and not note.in_family(hit.start):
            years = int(told["age"]) + int(stopped["ago"])
            yield "years", years - 4, years + 4


def past_decades(note: ScannedNote, told: Collection[int]) -> Iterator[tuple[int, int]]:
    """Decades of the patient's life that are past ("gout since his 40s"): where each is, and the age it tells of."""
    for hit in note.hits("decade"):
        years = _decade(note.text, 0, hit.end)
        if years and all(own >= years // 10 * 10 + 10 for own in told):
            yield hit.start, years
