"""Past ages without the word "age" ("MI at 58", "retired at 62"), and ages that are stated but can't be rewritten
("63-65 yo male", "sixty-something", and those of infants in days, weeks or months).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from palpate.perturb.characteristics.grammar import ONES, TENS
from palpate.perturb.characteristics.reading import ScannedNote
from palpate.perturb.characteristics.reading.people import PERSON, RELATIVES, belongs_to_patient, has_other_subject

DECADES = (*(word[:-1] + "ies" for word in TENS), "teens")
STATED = re.compile(r"\b(?:stated|chronological|actual|given|reported)\s+$", re.IGNORECASE)
"""Before an age that is told: "appears her stated age of 32 years"."""
_TEN = rf"(?:\d0['’]?s|{'|'.join(DECADES)})"
_DECADE = re.compile(
    rf"(?:\b(?:{PERSON}|is|was)\s+in\s+(?:his|her|their)\s+"
    rf"(?P<number>(?:(?:early|mid|late)[\s-]+(?:to[\s-](?:mid|late)[\s-]+)?)?{_TEN})|"
    rf"\b(?:{PERSON}|(?-i:[MF]))\s*,\s*(?P<listed>(?:early|mid|late)[\s-]+{_TEN}))\b",
    re.IGNORECASE,
)
""" "A man in his 60s", "gentleman, late 70s"."""
_OPENS_WITH_DECADE = re.compile(
    rf"In\s+(?:his|her|their)\s+(?P<number>(?:(?:early|mid|late)[\s-]+)?{_TEN})\b"
    r"(?:(?P<then>,?\s+(?:he|she|they|pt|the\s+patient)\s+(?:had|was|underwent|developed|suffered|began|started)\b)|"
    r"(?=\s*[.;]|,?\s+(?:lives|living|with|who|known|here|c/o|retired|single|married|widow\w*|presents?|presented|seen)\b))",
    re.IGNORECASE,
)
""" "In her 60s, lives alone", unlike "In her 60s she had a stroke"."""
_BARE = re.compile(
    r"\s+(?:about\s+|around\s+|approximately\s+|~\s?)?(?P<number>[1-8]\d)(?P<unit>\s?y(?:rs?|o)?)?"
    r"(?=\s*(?:[.,;)\n](?!\d)|$|(?:and|with|due|from|after|for|when|because|but|while)\b))"
)
_OPENING = re.compile(
    r"(?:\s+age)?\s+(?P<number>[1-8]\d),?\s+(?:he|she|they|pt|patient|the\s+patient)\s+(?:had|was|underwent|developed|suffered|"
    r"quit|started|began|retired|got|lost|broke|moved)\b",
    re.IGNORECASE,
)
"""At 58 he had a stroke."""
_EVENT = re.compile(
    r"\b(?:dx|dx['’]?ed|dx['’]d|diagnos\w+|N?STEMI|MI|CVA|TIA|stroke|CABG|AVR|MVR|PCI|stent\w*|bypass|cancer|ca|"
    r"menopaus\w+|menarche|retire\w*|onset|began|begun|start\w*|quit|stop\w*|divorced|married|widowed|\w*migrated|moved|"
    r"surgery|\w+ectomy|\w+plasty|\w+otomy|transplant\w*|smok\w+|drink\w*|drank|tobacco|etoh|alcohol|dialysis|bound|"
    r"disabled|blind|deaf|paraly\w+|amput\w+|seizures?|epilepsy|diabet\w+|T?[12]?DM[12]?|MS|asthma|HTN|polio|"
    r"fractur\w*|sober|arrest|TAH|tubal|steril\w+|miscarriage|delivered|hospitali[sz]ed|colonoscopy|mammogram|enlisted|"
    r"served|vaccinat\w+|injur\w+|accident|MVC|MVA|GSW|cataracts?|works?|worked|working)\b[^.;:\n]{0,25}$",
    re.IGNORECASE,
)
_MEASURED = re.compile(
    r"\b(?:HR|BP|rate|pressure|sats?|O2|FiO2|temp|flow|dose|pulse|RR|SpO2|glucose|FS|weight|INR|levels?|PEEP|set|stable|"
    r"maintained|goal|L|mg|units|Cr|Hct|Hgb|EF|pain|drip|gtt|infusion|saturat\w+)\s+$",
    re.IGNORECASE,
)
_PERSON = rf"(?:{PERSON}|[MF])\b"
_RANGE = re.compile(
    r"(?<![\d/.])(\d\d\s?(?:-|–|to|or)\s?\d\d)[\s-]*(?:y(?:ea)?rs?[\s-]*old|y\.?/?\s?o\b\.?)"
    rf"[\s,]*(?:(?:[A-Za-z-]+\s+){{0,3}}?{_PERSON}|with\b|who\b)",
    re.IGNORECASE,
)
_AGED_RANGE = re.compile(r"\s*(?:\(\w+\)\s*)?[:=]?\s*(\d\d\s?(?:-|–|to|or)\s?\d\d)(?![\d/])", re.IGNORECASE)
_VAGUE = re.compile(
    r"\b((?:\d0|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)[\s-]?(?:something|ish))$", re.IGNORECASE
)
_YEARS = rf"(?:[1-9]\d|(?:{'|'.join(TENS)})(?:[\s-](?:{'|'.join(ONES[1:10])}))?)"
_NOUN = rf"(?:{PERSON}|(?-i:[MF]))"
_LOOSE = re.compile(
    rf"(?<![\d/.$-]){_YEARS}(?:\.\d+|\s?[½¼¾]|\s\d/\d|[\s-]?ish|s|[\s-]some|\s?(?:\+/-|±)\s?\d+)?[\s-]*(?:years?|yrs?\.?|y)"
    r"(?:[\s,]+\d+\s?(?:months?|mos?|m))?[\s-]+(?:old|of\s+age)\b"
    r"|(?<![\d/.$-])\d{1,2}\s?\(?(?:\d/\d|[½¼¾])\)?[\s-]*(?:years?|yrs?|y)[\s-]*old\b"
    r"|(?<![\d/.$-])\d\d(?:\.\d+|\s?[½¼¾]|\s\d/\d|[\s-]?ish|s)\s?y(?:\.\s?|/)?o\b"
    r"|(?<![\d/.$-])\d{1,2}[\s-]*(?:years?|yrs?|y)[\s,-]+(?:and\s+)?\d{1,2}[\s-]*(?:months?|mos?|m)[\s-]*old\b"
    rf"|\b{_NOUN}(?:\s+of\s+|\s*,\s*(?:about\s+|approximately\s+|~)?|\s*\(|\s+is\s+|\s+){_YEARS}"
    r"(?:['’]?s\b|(?=\s*(?:[,.;)](?!\d)|years?\b|yrs?\b|$)))"
    rf"|\b(?:[1-9]0['’]?s|{'|'.join(word[:-1] + 'ies' for word in TENS)})\s+{_NOUN}\b"
    r"|\bage\s+(?:is\s+)?(?:unknown|not\s+known|unclear|uncertain)\b",
    re.IGNORECASE,
)
"""Statements of an age that `ages` does not read: "63.5 year old", "lady of 71 years", "woman (63)", "age unknown"."""
_EARLIER = re.compile(
    r"\b(?:at|around|since|until|till|by|before|after|between|from|diagnosed\s+as|from\s+\d+|\d+\s*(?:-|to)|(?:he|she|they|patient|pt)\s+(?:was|were))"
    r"\s*(?:the\s+age\s+of\s+|age\s+)?(?:about\s+|approximately\s+|only\s+)?$",
    re.IGNORECASE,
)
"""An earlier age, or anybody's: "at 14 years old", "around 5 to 10 years of age"."""
_ANYBODY = re.compile(rf"\b{_PERSON}", re.IGNORECASE)
_INFANT = re.compile(
    r"(?:\d{1,3}|\w+)[\s-]*(?:hours?|hrs?|days?|weeks?|wks?|months?|mos?)[\s-]*(?:old|of\s+age)?[\s,-]+(?:[a-z-]+\s+){0,3}?"
    r"(?:male|female|infant|baby|boy|girl|newborn|neonate|twin|gestation)\b",
    re.IGNORECASE,
)
_INFANT_ALONE = re.compile(
    r"(?:\b(?:is|was|this)\s+(?:an?\s+)?(?:[a-z]+\s+)?|(?:^|[.:\n]\s*)An?\s+)(?:\d{1,3}|[a-z]+)[\s-]*(?:hours?|hrs?|days?|weeks?|wks?|months?|mos?)[\s-]*old\b"
    r"(?=\s*(?:[.,]|with\b|who\b|here\b|in\b|brought\b|presents))",
    re.IGNORECASE,
)
""" "The patient is an 11-month-old with cough"."""
_NEWBORN_OPENS = re.compile(
    r"\W*(?:[A-Z][A-Za-z ]{1,24}:\s*)?(?:(?:An?|This|The)\s+)?(?:[\w.-]+\s+){0,4}?(?:male|female)\s+"
    r"(?:newborn|neonate|infant)\b"
)
""" "A male newborn delivered at 34 weeks"."""
_BABY = re.compile(r"(?:^|[.:\n]\s*)Baby\s+(?:boy|girl)\s+(?:of\s+)?[A-Z][a-z]+,")
""" "Newborn discharge. Baby girl Ruiz, 39 weeks"."""
_INFANTS = frozenset(["baby", "infant", "newborn", "neonate"])
_IS_AN = re.compile(r"\b(?:patient|pt|he|she)\s+(?:is|was)\s+an?\s+(?:[\w-]+,?\s+){0,3}$", re.IGNORECASE)
""" "The patient is a well-nourished baby"."""
_YEARS_TOO = re.compile(r"years?[\s,-]+(?:and\s+)?$", re.IGNORECASE)
"""A child of 5 years and 4 months is no infant."""
_DECADES = ("septuagenarian", "octogenarian", "nonagenarian", "sexagenarian", "centenarian", "teenage", "teenager")


def bare_past_ages(note: ScannedNote) -> Iterator[tuple[int, int]]:
    """The spans of numbers like the 25 and the 40 of "dx'd with MS at 25, wheelchair-bound since 40"."""
    text = note.text
    for hit in note.hits("past"):
        opening = _OPENING.match(text, hit.end) if hit.word == "at" and hit.start == note.opening(hit.start) else None
        if opening:
            yield opening.span("number")
        match = _BARE.match(text, hit.end, min(len(text), hit.end + 40))
        if match is None:
            continue
        first, _ = note.sentence(hit.start)
        low = max(first, hit.start - 60)
        aged = match.group("unit") and hit.word == "at"
        if (aged or _EVENT.search(text, low, hit.start)) and not _MEASURED.search(text, low, hit.start):
            yield match.span("number")


def told_decades(note: ScannedNote) -> Iterator[tuple[int, tuple[int, int], bool]]:
    """Decades of a life: where the statement starts, the span of the decade, and whether it is told as past."""
    text = note.text
    for hit in note.hits("decade"):
        before = text[hit.start - 1 : hit.start]
        if hit.word == "s" and not before.isdigit() and before not in "'’":
            continue
        opening = _OPENS_WITH_DECADE.match(text, note.opening(hit.start))
        if opening and opening.end("number") == hit.end:
            yield opening.start(), opening.span("number"), opening.group("then") is not None
        for match in _DECADE.finditer(text, max(0, hit.start - 50), hit.end):
            span = match.span("number" if match.group("number") else "listed")
            if span[1] == hit.end:
                yield match.start(), span, False


def tells_age_vaguely(note: ScannedNote) -> bool:
    """Whether a note without an age in years states the patient's age in another way."""
    text = note.text
    for hit in note.hits("age"):
        match = _AGED_RANGE.match(text, hit.end)
        if match and belongs_to_patient(note, hit.start, match.end()):
            return True
        if text[hit.end : hit.end + 1] == "[" and text[hit.start - 2 : hit.start] == "**":
            return True
    for hit in note.hits("vague"):
        first, last = note.sentence(hit.start)
        match = _VAGUE.search(text, max(first, hit.start - 12), hit.end)
        if match and _ANYBODY.search(text, first, last) and belongs_to_patient(note, match.start(), hit.end):
            return True
    for hit in note.hits("year"):
        first, _ = note.sentence(hit.start)
        match = _RANGE.search(text, max(first, hit.start - 14), min(len(text), hit.end + 60))
        if match and belongs_to_patient(note, match.start(), match.end()):
            return True
    if any(hit.word in _DECADES and belongs_to_patient(note, hit.start, hit.end) for hit in note.hits("life")):
        return True
    return any(
        belongs_to_patient(note, *match.span()) and not _EARLIER.search(text, max(0, match.start() - 30), match.start())
        for match in _LOOSE.finditer(text)
    )


def speaks_of_infant(note: ScannedNote) -> bool:
    """Whether the patient is a newborn or an infant, whose age is in days, weeks or months."""
    for hit in note.hits("infant_unit"):
        first, _ = note.sentence(hit.start)
        match = _INFANT.search(note.text, max(first, hit.start - 8), min(len(note.text), hit.end + 60))
        match = match or _INFANT_ALONE.search(note.text, max(first, hit.start - 24), min(len(note.text), hit.end + 20))
        if match is None or _YEARS_TOO.search(note.text, max(first, hit.start - 14), match.start()):
            continue
        if not note.in_family(hit.start) and not has_other_subject(note, match.start(), people=RELATIVES):
            return True
    for hit in note.hits("people"):
        if hit.word in _INFANTS and _IS_AN.search(note.text, max(0, hit.start - 60), hit.start):
            return True
    return _NEWBORN_OPENS.match(note.text, 0, 90) is not None or _BABY.search(note.text, 0, 90) is not None
