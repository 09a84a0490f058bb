"""The ages in a note: every way to write them, and whose they are.

Present ages: "63 year old", "63-year-old", "63 yr old", "63 y/o", "63yo", "63 y.o.", "63 years of age", "63M", "63 F",
"63/F", "Age: 63", "aged 63", "she is 63.", "sixty-three year old", "a man in his 60s", and what
de-identification makes of them ("[**Age over 90 **]", "___", "90+"). Past ages ("had a stroke at age 50", "when he was
14 years old") and those of other people are found too, and marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

from palpate.perturb.characteristics.grammar import AGE_NUMBER, AGE_UNIT, ONES, TENS
from palpate.perturb.characteristics.reading import Hit, ScannedNote
from palpate.perturb.characteristics.reading.past_ages import STATED, bare_past_ages, told_decades
from palpate.perturb.characteristics.reading.people import (
    GENDER_OF_KIN,
    NOUNS,
    RELATIVES,
    REMEMBERED,
    belongs_to_patient,
    has_other_subject,
    is_born_to,
)

Style = Literal["digits", "words", "decade"]
Whose = Literal["patient", "past", "other"]

_VALUES = {
    **{word: n for n, word in enumerate(ONES)},
    **{word: 10 * n for n, word in enumerate(TENS, 2)},
    **{word[:-1] + "ies": 10 * n for n, word in enumerate(TENS, 2)},
    "teens": 10,
}
_AGE = re.compile(
    rf"(?<![\w.$%+*#])(?<!\+\s)(?<!\d[-:/,])(?:(?:>|over )\s?(?=9))?{AGE_NUMBER}"
    rf"(?:(?P<unit>{AGE_UNIT})|(?:[\s/]?(?P<sex>[MF])|\s?\((?P<bracketed>[MF])\))(?![\w'’/+-]))",
    re.IGNORECASE,
)
_SPELLED = re.compile(
    rf"\b(?P<number>(?:over\s+)?(?:(?:{'|'.join(TENS)})(?:[\s-](?:{'|'.join(ONES[1:10])}))?|{'|'.join(ONES[::-1])}))[\s-]+$",
    re.IGNORECASE,
)
_UNIT_AT = re.compile(AGE_UNIT, re.IGNORECASE)
_LETTER_FIRST = re.compile(r"(?P<sex>[MF])\s?/\s?(?P<number>1[89]|[2-9]\d)(?:\s?(?:yo|y/o|y))?(?![\w/+-])")
HANDED_WORDS = tuple(
    side + "h" + dominant + race + sex
    for side in "rl"
    for dominant in ("", "d")
    for race in ("", "aa", "w", "b", "h", "c")
    for sex in "mfw"
)
"""Right-handed or left-handed with the sex, as neurologists write it: RHM, LHF, RHW; RHF may be a heart failure."""
_HANDED = re.compile(r"[RL]HD?(?:AA|[WBHC])?(?P<sex>[MFW])(?![\w'’/-])(?P<trans>\s\(trans\w*\))?")
_HANDED_NEXT = re.compile(
    rf"[,\s]\s*(?:aged?\s+)?(?P<number>1[89]|[2-9]\d)(?:(?P<unit>{AGE_UNIT})|(?![\w/+%-]|\.\d))", re.IGNORECASE
)
_HANDED_YEARS = re.compile(r"(?<![\w.$%+*#/:-])(?P<number>1[89]|[2-9]\d)\s$")
_NOUN_NEXT = re.compile(rf"[\s,]+(?:[\w-]+\s+){{0,3}}?(?:{'|'.join(NOUNS)}|(?-i:[MF]))\b", re.IGNORECASE)
_LABEL = re.compile(
    rf"age(?P<label>\s*(?:/\s?(?:sex|gender))?\s*[:=]\s*|\s+[–-]\s+|\s*\((?:in\s+)?(?:years?|yrs?|y)\)\s*[:=]?\s*|d\s+|\s+(?:is\s+|of\s+)?)"
    rf"(?:(?:[MF]|male|female)\s?/\s?)?{AGE_NUMBER}"
    r"(?:\s*(?:/|\s)\s*(?P<sex>[MF]|male|female)\b)?"
    r"(?!\d|\.\d|\s*(?:days?|weeks?|wks?|months?|mos?|-\s*\d|to\s+\d|%|(?:and|or)\s+(?:older|over|above|up|younger|greater)))",
    re.IGNORECASE,
)
_IS_NUMBER = re.compile(
    r"(?:\.?\s+(?:is|turned|just turned)|['’]s)\s+(?:now\s+|currently\s+)?(?P<number>\d\d\+?)"
    r"(?=\s*(?:[.,;]|and\b|today\b|yesterday\b|last\b|this\b|in\b|$))"
)
_AFTER_NAME = re.compile(
    r"\.?\s+(?:(?:\[\*\*[^\]]*\]|_{3}|[A-Z][\w'’-]*)\s+){0,2}(?:\[\*\*[^\]]*\]|_{3}|[A-Z][\w'’-]*|[A-Z]\.),\s+(?:who\s+is\s+(?:now\s+)?)?(?P<number>\d\d)(?=[,.]\s)"
)
_AFTER_PATIENT = re.compile(
    r"(?:\s+[A-Z][a-z]+(?:\s+[A-Z]\.?|\s+[A-Z][a-z'’-]+)?,)?\s+(?:now\s+)?(?P<number>[2-9]\d)(?=,\s+(?!\d))"
)
""" "Pt Rosa T., 62, on dialysis"."""
_AFTER_NOUN = re.compile(r"(?:,\s+|\s+of\s+)(?P<number>\d\d)(?=\s*(?:[.,;)](?!\d)|$))")
_PAST = re.compile(
    r"\b(?:at|since|when|until|till|by|before|after|around|from|of|between|if|once|for|under|below|diagnosed\s+as|diagnosed)\s+(?:the\s+)?(?:age\s+of\s+|age\s+|ages\s+|"
    r"(?:he|she|they|pt|patient|the\s+patient)\s+(?:was|were|turned)\s+)?(?:about\s+|approximately\s+|around\s+|only\s+|the\s+)?$",
    re.IGNORECASE,
)
_AT_EVENT = re.compile(
    r"\s+(?:y(?:ea)?rs?\s+)?(?:at|when|on)\s+(?:the\s+)?(?:time|initial\s+|first\s+)?(?:diagnosis|dx|onset|presentation|"
    r"menarche|menopause|death|of|surgery|transplant\w*|enrollment)\b",
    re.IGNORECASE,
)
_THEN = re.compile(
    r"\s+(?:at|when)\s+(?:(?:the|time|of|initial|first|his|her|their)\s+)*(?:diagnos\w+|dx\w*|onset|menarche|menopause|death|"
    r"surgery|transplant\w*|enrollment)\b",
    re.IGNORECASE,
)
"""What makes an age a past one: "63 yo at time of dx"."""
_SCORED = re.compile(r"\s*(?P<mark>>=?|≥|=>)\s*(?:or\s*=\s*)?(?P<number>[4-8]\d)(?![\d.])")
_SCORE = re.compile(
    r"(?:CHADS?|CHA2DS2|VASc|CURB|TIMI|HEART|PORT|PESI|Wells|scores?|risk\s+factors?|points?|given)\b[^;\n]{0,60}$",
    re.IGNORECASE,
)
_ONSET = re.compile(r"\s+(?:at|of)\s+[a-z][a-z \t]{2,24}[:=]?\s+(?P<number>\d\d)(?=\s*(?:[.,;)\n]|y|$))", re.IGNORECASE)
_KIN_OF = re.compile(r"\b(?P<kin>[a-z]+)\s+of\s+(?:the\s+|this\s+|our\s+)?(?:patient|pt)\b[^.;]{0,24}$", re.IGNORECASE)
_KIN_HAS = re.compile(r"\b(?P<kin>[a-z]+)['’]s\s+(?:current\s+|present\s+)?$", re.IGNORECASE)
_GOES_ON = re.compile(r"\s*(?:(?:now|currently|is|presently|still|alive|at|age|aged)\s+)*", re.IGNORECASE)
_SHORT_KIN = re.compile(r"\b(?:dtr|dtrs|dgtr|bro|sis|sibs?|hubby)\b[^.;]{0,24}$", re.IGNORECASE)
_RANGE_BEFORE = re.compile(r"(?<!\d)\d{1,3}\s*(?:-|–|to|or|and|\+/-|±)\s*$")
""" "40 to 45 years old", unlike the time in "0312 - 41F"."""
_PRESENT_LABEL = re.compile(
    r"(?:\b(?:is|patient|pt|male|female|man|woman|gentleman|lady|(?:sex|gender)[\s:]+[MF])[\s,(]*|[(\n|]\s*|\b(?:patient['’]?s|pt['’]?s|his|her|their)"
    r"\s+(?:current\s+|present\s+)?)$",
    re.IGNORECASE,
)
_NAMED = re.compile(r"\b(?:(?:Mr|Mrs|Ms|Miss|Master)\.?|[A-Z][a-z]+)\s+[A-Z][a-z'’-]+,?\s+$")
"""Before "aged 66": "Mr. Kent aged 66", unlike "Stroke aged 66"."""
_STRONG_RIGHT = re.compile(
    r"\s*\(trans|,?\s*w/|,?\s*(?:with|who|whom|whose|h/o|hx|s/p|p/w|presents?|presenting|presented|c/o|admitted|transferred|here|found|status|"
    r"w|smoker|brought|BIB|BIBA|in\s+(?:NAD|hospital|no)|PMH|PMHx|pmhx?|POD|on|now|adm|was|seen|a/w|initially|complaining)\b",
    re.IGNORECASE,
)
_STRONG_LEFT = re.compile(
    r"(?:\b(?:an?|is|this|the|pt|patient|pleasant|healthy|obese|old|white|black|caucasian|hispanic|asian|american|brief|summary|"
    r"underweight|overweight|weight|homeless|housed|insured|uninsured|speaking|"
    r"HPI|ID|CC|in)|[:(#\]]|___|\*\*\])[\s,:]*$",
    re.IGNORECASE,
)
_BRACKETED = re.compile(r"\((?P<number>[2-8]\d)(?=,\s*[A-Za-z])")
_FIRST_WORDS, _SIZES = 60, 29
"""Where a note introduces its patient ("RHEUM CONSULT 35F SLE"), and up to where "28F" may be the size of a tube."""
_FEVER = 94
"""From here on a number before F may be a temperature."""
_ENDS_PHRASE = re.compile(rf"{_STRONG_RIGHT.pattern}|\s*(?:[.,;]|\n|$)", re.IGNORECASE)
_TEMPERATURE = re.compile(
    r"\b(?:t|tm|tc|tmax|temp|temps|temperatures?|fevers?|febrile|tcurrent|vs|vitals)\b[^.;\n]{0,24}$|(?<!\d)\d{1,3}\s*[/,-]\s*$",
    re.IGNORECASE,
)
_DEVICE = re.compile(
    r"\s*(?:coude\s+|silastic\s+|three[- ]way\s+|3[- ]way\s+|right\s+|left\s+|arterial\s+|venous\s+)*"
    r"(?:foley|cath|sheath|tube|"
    r"chest|pigtail|stent|drain|french|introducer|peg|coude|dilator|ng|dobhoff|council|balloon|guide|fr\b|bougie|"
    r"kcl|nacl|hcl|koh|solution|saline|naoh|urea|tris|glucose)",
    re.IGNORECASE,
)
_DEVICE_BEFORE = re.compile(
    r"\b(?:foley|catheter|sheath|tube|size|french|drain|stent|needle|ng|vitamin)\b[^.;\n]{0,12}$", re.IGNORECASE
)


class Age(NamedTuple):
    """An age in a note: the span of its number, the end of the whole expression, and the sex letter if it has one."""

    start: int
    end: int
    tail: int
    value: int | None
    style: Style
    whose: Whose
    sex: tuple[int, int] | None = None
    labelled: bool = False
    trust: int = 2
    """2 for a clear statement, 1 for "(age 63)" and "woman, age 63", 0 for "age 63" anywhere else."""


def find_ages(note: ScannedNote) -> list[Age]:
    """All ages of a note, in order."""
    found = {age.start: age for age in (*_labelled(note), *_handed(note))}
    refused = [*_bracketed(note)]
    for other in (_numbered(note, refused), _led(note), _spelled(note), _said(note), _decades(note), _bare(note)):
        for age in other:
            found.setdefault(age.start, age)
    told = {age.value for age in found.values() if age.whose == "patient" and age.trust > 1} if refused else set()
    # "54 yr old man ... handed over as 54M smoker": who has the patient's age is the patient.
    again = [age._replace(whose="patient") for age in refused if age.value in told and age.whose != "other"]
    return sorted((*found.values(), *(age for age in again if age.start not in found)))


def _value(number: str) -> int | None:
    if number.startswith("_"):
        return None
    if number.startswith("["):
        return 90
    if number.isdecimal():
        return int(number)
    words = re.findall(r"[a-z]+", number.lower())
    if words and words[-1] != "s":
        value = sum(_VALUES.get(word, 0) for word in words)
        return value + (words[0] == "over" and value < 90)  # "over ninety" is how 90+ is written
    digits = re.search(r"\d+", number)
    return int(digits.group()) if digits else None


def _whose(note: ScannedNote, start: int, tail: int) -> Whose:
    first, _ = note.sentence(start)
    others, goes_on, past = _led_by(note.text[max(first, start - 60) : start])
    others = others or is_born_to(note, first, start)
    if others or not belongs_to_patient(note, start, tail) or (goes_on and _after_kin(note, first)):
        return "other"
    return "past" if past or _THEN.match(note.text, tail) else "patient"


@lru_cache(maxsize=REMEMBERED)
def _led_by(before: str) -> tuple[bool, bool, bool]:
    """Whether the words before an age say that it is another's, go on about who was named, say that it is past."""
    kin = _KIN_OF.search(before)
    others = (
        _SHORT_KIN.search(before) or (kin and kin.group("kin").lower() in RELATIVES) or _RANGE_BEFORE.search(before)
    )
    return bool(others), _GOES_ON.fullmatch(before) is not None, _PAST.search(before) is not None


def _after_kin(note: ScannedNote, first: int) -> bool:
    """Whether a clause goes on about a relative: "Father with strokes at 45 and 80; now 82 years old"."""
    return note.text[first - 1 : first] == ";" and (note.in_family(first - 1) or has_other_subject(note, first - 1))


def _candidates(note: ScannedNote) -> Iterator[re.Match[str]]:
    """Numbers with a unit or a letter after them; only around such words, because searching all of the note is slow."""
    text, past = note.text, 0
    for hit in note.hits("age_unit"):
        if hit.start < past:
            continue
        for match in _AGE.finditer(text, max(past, hit.start - 26), min(len(text), hit.end + 60)):
            past = match.end()
            yield match


def _numbered(note: ScannedNote, refused: list[Age]) -> list[Age]:
    """63 year old, 63M; what may be no person ("the next 63M row") is added to `refused`."""
    ages: list[Age] = []
    text = note.text
    for match in _candidates(note):
        value = _value(match.group("number"))
        if value is not None and not 0 < value <= 120:
            continue
        start, end = match.start(), match.end("number")
        sex = _letter(match)
        if sex and not _is_person(note, match, value):
            if end == sex[0] and text[end] in "MF" and value and 18 <= value < _FEVER:
                refused.append(Age(start, end, match.end(), value, "digits", _whose(note, start, match.end()), sex))
            continue
        if sex is None and text[match.end() : match.end() + 1] in ("M", "F"):
            after = text[match.end() + 1 : match.end() + 2]
            sex = None if after.isalnum() else (match.end(), match.end() + 1)
        ages.append(Age(start, end, match.end(), value, "digits", _whose(note, start, match.end()), sex))
    return ages


def _bracketed(note: ScannedNote) -> Iterator[Age]:
    """The 58 of "vaccine due (58, IHD)", which is an age where the note gives the same elsewhere."""
    for match in _BRACKETED.finditer(note.text) if "(" in note.text else ():
        start, end = match.span("number")
        yield Age(start, end, end, int(match.group("number")), "digits", _whose(note, start, end))


def _letter(match: re.Match[str]) -> tuple[int, int] | None:
    """The position of the M or F in "63M" and "63 (M)"."""
    name = next((name for name in ("sex", "bracketed") if match.group(name)), None)
    return match.span(name) if name else None


def _is_person(note: ScannedNote, match: re.Match[str], value: int | None) -> bool:
    """63M and 63 F, and not 5 M KCl, 101 F or 16 F Foley."""
    text, start, end = note.text, match.start(), match.end()
    first, last = note.sentence(start)
    before = text[max(first, start - 40) : start]
    letter = match.group("sex") or match.group("bracketed")
    if _DEVICE.match(text, end) or _DEVICE_BEFORE.search(before) or (value is not None and value < 10):
        return False
    if letter in "Ff" and _TEMPERATURE.search(before):
        return False
    line = max(first, text.rfind("\n", first, start) + 1)
    opens = not text[max(line, start - 40) : start].strip(" \t\n-*•#") and line >= start - 40
    left = opens or bool(_STRONG_LEFT.search(before))
    right = bool(_STRONG_RIGHT.match(text, end))
    if letter in "mf":
        return right and (left or opens)
    if letter == "F" and value is not None and _FEVER <= value <= 108:
        return right and left and not opens
    if text[match.end("number")] not in "MF/":
        return right or (left and not opens) or (opens and text[end : min(last, end + 2)].strip() in (".", ",", ""))
    first_words = start < _FIRST_WORDS and value is not None and _SIZES < value < _FEVER
    return left or right or (first_words and text[end : end + 1] == " " and not _PAST.search(before))


def _led(note: ScannedNote) -> list[Age]:
    """M/63 with diabetes."""
    ages: list[Age] = []
    for hit in note.hits("letter"):
        match = _LETTER_FIRST.match(note.text, hit.start)
        listed = match and hit.start < _FIRST_WORDS and note.text[match.end() : match.end() + 1] == ","
        if match is None or not (listed or _STRONG_RIGHT.match(note.text, match.end())):
            continue
        before = note.text[max(note.sentence(hit.start)[0], hit.start - 40) : hit.start]
        if not before.strip(" \t\n-*•#") or _STRONG_LEFT.search(before):
            start, end = match.span("number")
            whose = _whose(note, hit.start, match.end())
            ages.append(Age(start, end, match.end(), int(match.group("number")), "digits", whose, match.span("sex")))
    return ages


def _handed(note: ScannedNote) -> list[Age]:
    """RHM 55 with aphasia; RHF, 26yo; 81 RHW with tremor: only beside an age, because RHF may be a heart failure."""
    ages: list[Age] = []
    text = note.text
    for hit in note.hits("letter"):
        word = _HANDED.match(text, hit.start) if len(hit.word) > 1 else None
        if word is None:
            continue
        first, _ = note.sentence(hit.start)
        years = _HANDED_YEARS.search(text, max(first, hit.start - 4), hit.start)
        start = years.start() if years else hit.start
        before = text[max(first, start - 40) : start]
        if before.strip(" \t\n-*•#") and not _STRONG_LEFT.search(before):
            continue
        age = years or _HANDED_NEXT.match(text, word.end())
        if age is None or _NOUN_NEXT.match(text, max(age.end(), word.end())):
            continue
        tail = max(age.end(), word.end())
        if not (age is not years and age.group("unit")) and not _ENDS_PHRASE.match(text, tail):
            continue
        sex, value = word.span("sex"), int(age.group("number"))
        ages.append(Age(*age.span("number"), tail, value, "digits", _whose(note, start, tail), sex))
    return ages


def _spelled(note: ScannedNote) -> list[Age]:
    ages: list[Age] = []
    for hit in note.hits("year"):
        if note.text[hit.start - 1 : hit.start] not in (" ", "-", "\n"):
            continue
        match = _SPELLED.search(note.text, max(0, hit.start - 26), hit.start)
        unit = _UNIT_AT.match(note.text, hit.start) if match else None
        if match is None or unit is None:
            continue
        start, end = match.span("number")
        whose = _whose(note, start, unit.end())
        ages.append(Age(start, end, unit.end(), _value(match.group("number")), "words", whose))
    return ages


def _labelled(note: ScannedNote) -> list[Age]:
    """Age: 63, aged 63, (age 63)."""
    ages: list[Age] = []
    for hit in note.hits("age"):
        onset = _ONSET.match(note.text, hit.end) or _scored(note, hit)
        if onset and belongs_to_patient(note, hit.start, onset.end()):
            ages.append(Age(*onset.span("number"), onset.end(), int(onset.group("number")), "digits", "past"))
        match = _LABEL.match(note.text, hit.start)
        if match is None:
            continue
        first, _ = note.sentence(hit.start)
        before = note.text[max(first, hit.start - 40) : hit.start]
        whose, label = _whose(note, hit.start, match.end()), match["label"].strip()
        stated = STATED.search(before) is not None
        header = stated or any(mark in match["label"] for mark in ":=(-–")
        kin = _KIN_HAS.search(before)
        if kin and kin.group("kin").lower() in RELATIVES:
            whose = "other"
        elif whose == "patient" and not stated and (label == "of" or _AT_EVENT.match(note.text, match.end())):
            whose = "past"
        told = _PRESENT_LABEL.search(before) or (not before.strip() and label != "is")
        told = told or (label == "d" and _NAMED.search(before))
        sex = match.span("sex") if match.group("sex") else None
        span, value, trust = match.span("number"), _value(match["number"]), 2 if header else 1 if told else 0
        ages.append(Age(*span, match.end(), value, "digits", whose, sex, header, trust))
    return ages


def _scored(note: ScannedNote, hit: Hit) -> re.Match[str] | None:
    """ "CHADS-VASc 4 (age > 75)": a threshold that the patient has passed, unlike one in a guideline."""
    first, _ = note.sentence(hit.start)
    scored = _SCORE.search(note.text, max(first, hit.start - 80), hit.start)
    return _SCORED.match(note.text, hit.end) if scored else None


def _said(note: ScannedNote) -> list[Age]:
    """She is 63. The patient is 63 and lives alone. Patient is male, 63."""
    ages: list[Age] = []
    patterns = (
        ("subject", _IS_NUMBER),
        ("patient", _IS_NUMBER),
        ("patient", _AFTER_PATIENT),
        ("noun", _AFTER_NOUN),
        ("title", _AFTER_NAME),
    )
    for tag, pattern in patterns:
        for hit in note.hits(tag):
            match = pattern.match(note.text, hit.end)
            if match and (tag != "title" or note.text[hit.start : hit.end].istitle()):
                start, end = match.span("number")
                whose: Whose = "other" if tag == "subject" and _follows_kin(note, hit) else _whose(note, hit.start, end)
                ages.append(Age(start, end, end, _value(match.group("number")), "digits", whose))
    return ages


def _follows_kin(note: ScannedNote, hit: Hit) -> bool:
    """Whether "he is 38" may be about a relative before it in the sentence: "father's echo is pending - he's 38"."""
    first, _ = note.sentence(hit.start)
    gender = "male" if hit.word == "he" else "female"
    near = (one for one in note.hits("people") if first <= one.start < hit.start)
    return any(GENDER_OF_KIN.get(one.word, gender) == gender for one in near)


def _decades(note: ScannedNote) -> list[Age]:
    ages: list[Age] = []
    for first, (start, end), past in told_decades(note):
        whose = _whose(note, first, end)
        whose = "past" if whose == "patient" and past else whose
        ages.append(Age(start, end, end, _value(note.text[start:end]), "decade", whose))
    return ages


def _bare(note: ScannedNote) -> list[Age]:
    """The 58 of "MI at 58"."""
    found = []
    for start, end in bare_past_ages(note):
        whose: Whose = "other" if _whose(note, start, end) == "other" else "past"
        found.append(Age(start, end, end, int(note.text[start:end]), "digits", whose))
    return found
