"""Where sentences and sections of a note begin and end, whatever became of its line breaks.

Notes are stored with their lines, on one line, or with commas for line breaks ("FAMILY HISTORY: , Mother had a
stroke.,SOCIAL HISTORY: , He smokes."). So a heading is recognised by its capitals and colon as well as by its line, and
a full stop with a comma ends a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from palpate.perturb.characteristics.reading import people

_WORD = re.compile(r"[A-Za-z]+")
_CAPITALS = r"[A-Z][A-Z0-9'/&()+ -]{1,45}"
_KNOWN = (
    r"(?:CHIEF COMPLAINT|REASON FOR VISIT|HISTORY OF (?:THE )?PRESENT ILLNESS|PRESENT ILLNESS|"
    r"(?:PAST )?(?:MEDICAL|SURGICAL|SOCIAL|FAMILY|"
    r"GYNECOLOGIC(?:AL)?|BIRTH|DEVELOPMENTAL|PSYCHIATRIC|PSYCHOSOCIAL|OCCUPATIONAL|ALLERGY|"
    r"IMMUNIZATION) HISTORY|PAST HISTORY|HABITS|"
    r"REVIEW OF SYSTEMS|PHYSICAL EXAM(?:INATION)?|VITAL SIGNS|VITALS|(?:CURRENT |HOME )?MEDICATIONS|"
    r"ALLERGIES|IMMUNIZATIONS|"
    r"LABORATORY(?: DATA)?|LABS|RESULTS|IMAGING|RADIOLOGY|IMPRESSION|ASSESSMENT(?: AND PLAN)?|PLAN|"
    r"RECOMMENDATIONS|PROCEDURES?|"
    r"HOSPITAL COURSE|DISPOSITION|FOLLOW[ -]?UP|INSTRUCTIONS)"
)
"""Titles that are headings without a colon, where they are in capitals: "SOCIAL HISTORY He smokes."."""
_LONG_TITLE = r"[A-Z]{3,}(?:[ ](?:OF|AND|[A-Z]{3,}))+"
"""Capitals that are a heading even without punctuation before them: "no cough PHYSICAL EXAMINATION: clear"."""
_BREAK = re.compile(
    r"[.!?;\n](?:"  # what a break starts with: all other letters are passed over at once
    r"(?<=[.!?])[.!?]*[\"')\]]*(?=[\s,])|(?<=;)|(?<=\n)[ \t]*\n"
    r"|(?<=\n)(?=[ \t]*(?:[-*•#–—→]|\d{1,2}[.)][ \t]|[A-Z][A-Za-z/&() -]{1,40}:|[A-Z][A-Z /&-]{3,45}[ \t]*\n)))"
)
_COMMA_BREAK = re.compile(rf",[ \t]*{_CAPITALS}:")
_BEFORE_LONG_TITLE = re.compile(rf"[ \t](?={_LONG_TITLE}:)")
_CAPITALS_END = re.compile(r":(?<=[A-Z]{2}:)")
_TITLE = re.compile(rf"[ \t,]*(?P<title>{_CAPITALS}):(?P<open>[ \t]*,|[ \t]*(?=[A-Z][a-z]))?")
_NO_END = frozenset(
    ["mr", "mrs", "ms", "dr", "vs", "pt", "st", "y", "o", "yr", "yrs", "hx", "approx", "jr", "prof", "no", "fl", "wk"]
)
"""A full stop after these does not end a sentence."""
_LONGEST = max(map(len, _NO_END))
_NEXT = re.compile(
    r"(?:He|She|They|His|Her|Their|The|This|Has|Had|Lives|Pt|Patient|Mother|Father|Wife|Husband|Son|Daughter)\b"
)
"""What may follow an age that ends a sentence: "63 y/o. Her son lives nearby."."""
FAMILY = re.compile(r"family\s+(?:medical\s+|health\s+)?(?:history|hx)\b|fam\s?hx\b|fhx?\b", re.IGNORECASE)
_COLON_OR_LINE = re.compile(r"[ \t]*(?::|\n|$)")
_OPENING = re.compile(r"(?:^|[.,;\n)a-z\d])[\s#*]*$")
_HEADING = re.compile(
    r"\n[ \t]*#+[ \t]*[A-Z][A-Za-z'/&() -]{1,45}(?=\n)"
    r"|\n[ \t#*]*(?P<line>[A-Z][A-Za-z'/&() -]{1,45})(?::|[ \t]*(?=\n\s*\n))"
    r"|\n[ \t#*]*(?P<caps>[A-Z][A-Z'/&() -]{3,45})[ \t]*(?=\n|$)"
    r"|(?<=\n)[ \t]*\n[ \t#*]*(?P<para>[A-Z][A-Za-z/]*(?:[ ][A-Za-z/&()]+){0,2})[ \t]*(?=\n[ \t]*\S)"
    rf"|(?<=[.,;])[ \t]*(?P<inline>{_CAPITALS}):"
    rf"|(?<=[.,;)a-z\d])[ \t]*(?P<known>{_KNOWN})\b(?=[ \t,:]+[A-Z0-9•-])|(?<=[a-z)\d])[ \t]+{_LONG_TITLE}:"
    r"|(?:Social|Surgical|Past|Physical|Medical|Review|Family)\s+(?:Medical\s+|of\s+)?[A-Z][a-z]+\s*:"
    r"|(?<=[.,;])[ \t]*(?:Allergies|Medications|Habits|Exam(?:ination)?|Impression|Assessment|Plan|Vitals|"
    r"Labs?|Immunizations|ROS|PMH|SH|SHx|PE)\s*:"
)


def sentence_starts(text: str) -> list[int]:
    """Where the sentences (list items, lines after a heading) of a text begin."""
    starts = [0, *_after_title(text, 0)]
    small = text.islower()
    breaks = [match.span() for match in _BREAK.finditer(text)]
    if ":" in text:
        commas = [(match.start(), match.start() + 1) for match in _COMMA_BREAK.finditer(text)]
        breaks = sorted([*breaks, *commas, *_before_long_titles(text)])
    for start, end in breaks:
        first = text[start]
        if first == "." and not _ends(text, start, end, small=small):
            continue
        starts.append(end)
        if first != "\n":
            starts += _after_title(text, end)
    return starts


def _before_long_titles(text: str) -> Iterator[tuple[int, int]]:
    """The blanks before long titles: looked for only before a colon after capitals, on its line."""
    past = 0
    for colon in _CAPITALS_END.finditer(text):
        first = max(past, text.rfind("\n", past, colon.start()) + 1)
        yield from (match.span() for match in _BEFORE_LONG_TITLE.finditer(text, first, colon.end()))
        past = colon.end()


def _after_title(text: str, start: int) -> list[int]:
    """Where a heading that follows on the same line starts, and where its text does."""
    match = _TITLE.match(text, start)
    if match is None:
        return []
    opened = match.group("open") is not None and not _has_relative(match.group("title"))
    return [match.start("title"), match.end()] if opened else [match.start("title")]


def _ends(text: str, dot: int, after: int, *, small: bool) -> bool:
    """Whether a full stop ends a sentence; in a text without capitals (`small`) what follows does not tell."""
    word = _last_word(text[max(0, dot - _LONGEST - 1) : dot]).lower()
    listed = text[after : after + 1] == ","
    while after < len(text) and (text[after].isspace() or text[after] == ","):
        after += 1
    if word in _NO_END:
        return word in ("o", "yr", "yrs") and _NEXT.match(text, after) is not None
    if listed and len(word) == 1:
        return False  # "p.o. b.i.d., Lasix"
    return after >= len(text) or not text[after].islower() or (small and len(word) != 1)


def _last_word(text: str) -> str:
    """The letters that a text ends with."""
    word = text[text.rfind(" ") + 1 :]
    if word.isalpha():
        return word
    start = len(text)
    while start > 0 and text[start - 1].isalpha():
        start -= 1
    return text[start:]


def opens_family_section(text: str, start: int, end: int) -> bool:
    """Whether "family history" is a heading: by its colon or line, or by capitals at the start of a sentence."""
    if _COLON_OR_LINE.match(text, end):
        return True
    return text[start:end].isupper() and _OPENING.search(text, max(0, start - 4), start) is not None


def section_end(text: str, start: int, *, of_family: bool = False) -> int:
    """Where the section that starts here ends; in a family history "Mother:" is a line, not a heading."""
    for match in _HEADING.finditer(text, start):
        title = match.group("line") or match.group("caps") or match.group("para") or match.group("inline") or ""
        if not of_family or FAMILY.search(title) or not _has_relative(title):
            return match.start()
    return len(text)


def _has_relative(title: str) -> bool:
    return any(word in people.RELATIVES or word in people.SIDES for word in _WORD.findall(title.lower()))
