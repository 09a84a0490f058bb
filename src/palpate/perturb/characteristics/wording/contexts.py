"""The context of a word of a YAML characteristic: denials, languages, and the contexts of a wording table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from palpate.perturb.characteristics.reading import ScannedNote
from palpate.perturb.characteristics.reading.people import (
    DENIALS,
    OTHERS,
    PERSON,
    RELATIVES,
    SPOUSES,
    has_other_subject,
)
from palpate.perturb.characteristics.wording.found import WordedMention

_DENIED_BEFORE = re.compile(
    rf"\b(?:{DENIALS}|isn['’]t|wasn['’]t|negative\s+for|rather\s+than|if)\s+"
    r"(?:(?:currently|known|any|overtly|clinically|particularly|very|an?|history|hx|h/o|of|evidence|longer|being|ever|"
    r"issues|with|recent|prior|significant|the|need|needs?|use|used)\s+){0,3}$|\bnon[\s-]?$|\bnot-$",
    re.IGNORECASE,
)
_DENIED_AFTER = re.compile(
    r"\s*[:=?]\s*(?:no|none|denie[sd]|negative|neg|absent|false|n)\b|\s+(?:was\s+|is\s+|were\s+)?"
    r"(?:denied|ruled\s+out|not\s+(?:needed|used|required|present))\b",
    re.IGNORECASE,
)
_ITEMS = (
    r"(?:(?!(?:but|who|which|is|was|are|were|has|had|except|admits|reports|although|however|states|though)\b)"
    r"[\w/'’()-]+,?\s+)"
)
_DENIED_LIST = re.compile(
    rf"\bden(?:y|ies|ied|ying)\s+{_ITEMS}{{1,20}}$|\bnegative\s+for\s+{_ITEMS}{{1,12}}$|"
    rf"\b(?:no|not|never|without|nor)\s+{_ITEMS}{{0,12}}(?:n?or|and|any)\s+{_ITEMS}{{0,2}}$|"
    rf"\b(?:no|never\s+had|without)\s+(?:known\s+|prior\s+|past\s+|current\s+|significant\s+|any\s+)*{_ITEMS}{{0,3}}$",
    re.IGNORECASE,
)
_HEADING = re.compile(r"(?:[ \t]+[A-Za-z/&]+){0,3}[ \t]*:")
_HEADING_BEFORE = re.compile(r"[\s\d.)#*•-]*(?:[A-Za-z/&]+[ \t]+){0,3}")
_LANGUAGE = re.compile(
    r"(?:\s+creole)?[\s-]+(?:only[\s-]+)?(?:speaking|speakers?|language|interpreters?|translators?)\b|-(?:only|style)\b|[\s-]+born\b",
    re.IGNORECASE,
)
_SPEAKS = re.compile(
    r"\b(?:speaks?|fluent\s+in)\s+(?:(?:only|primarily|mainly|mostly|fluent|some)\s+)?$", re.IGNORECASE
)
_FINDING_NEXT = re.compile(
    r"(?:[ \t-]+[a-z-]+){0,2}?[ \t-]+(?:"
    r"stools?|tarry|sputum|phlegm|mucus|discharge|plaques?|patch(?:es)?|spots?|exudates?|eschars?|"
    r"coating|count|matter|vomit\w*|emesis|urine|lesions?|nodules?|papules?|pustules?|macules?|moles?|scabs?|crusts?|ulcers?|"
    r"material|fluid|drainage|tongue|toes?|fingers?|nails?|skin|floaters?|widow|mou?ld)\b",
    re.IGNORECASE,
)
_PERSON_NEXT = re.compile(
    rf"(?:[ \t-]+[A-Za-z][\w/'’-]*){{0,4}}?[ \t-]+(?:\d|(?:{PERSON}|boy|girl|[MF]|race|ethnicity|smok\w+|non-?smok\w+|"
    r"veteran|diabetic|\w+(?<!ulc)ers?|\w+ists?|\w+(?:wo)?m[ae]n)\b)|\s*(?:[.,;:)/\n-]|$)|"
    r"\s+(?:c/o|s/p|h/o|w/|p/w|w\b|[a-z]+(?:ing|ed)\b|"
    r"(?:who|with|and|or|in|for|but|on|at|has|had|is|was|here|presents?|lives|denies|reports|not)\b)",
    re.IGNORECASE,
)
""" "Black" and "white" after a comma describe the patient if a person, or no noun at all, follows."""
_OF_DESCENT = re.compile(r"of\s+(?P<word>\S.*?)\s+(?:descent|origin)", re.IGNORECASE)
_LEAD = re.compile(r"\s*(?:[A-Z][A-Za-z /&]{1,40}:)?\s*")
_PROVIDER_NEXT = re.compile(
    r"[\s-]+(?:(?:male|female)\s+)?(?:nurses?|RN|MD|NP|PA|staff|providers?|physicians?|doctors?|residents?|aides?|clinicians?|"
    r"therapists?|social\s+workers?|case\s+managers?|officers?|PCP|attending|surgeons?)\b(?!['’]s)",
    re.IGNORECASE,
)
_DESCENT = re.compile(r"[\s-]+(?:descent|origin|heritage|ancestry|background|extraction|ethnicity)\b", re.IGNORECASE)
_WORKS = re.compile(
    r"[ \t]+(?:(?:retired|married|single|divorced|widowed|semi-retired|full[ -]time|part[ -]time|former)[ \t]+)+[a-z]",
    re.IGNORECASE,
)
_GRADED = re.compile(
    r"\b(?:mildly|slightly|moderately|somewhat|(?:a\s+)?(?:little|bit)|very|quite|looks|appears)\s+$", re.IGNORECASE
)
_POUNDS = re.compile(
    r"\d\s*(?:pounds?|lbs?\.?|kgs?|kilograms?|kilos?)\s+$|\b(?:is|was|been|being|too)\s+$", re.IGNORECASE
)
_OF = re.compile(r"\bof\s+$", re.IGNORECASE)
_OPENS_ITEM = re.compile(r"(?:^|[-–,;.\n(])\s*$")
_BOTH_NEXT = re.compile(r"\s*\(\s*(?:half\s+)?[a-z-]+\s*(?:/|and\b|&|,)\s*(?:half\s+)?[a-z-]+\s*\)", re.IGNORECASE)
_PARTLY = re.compile(r"\b(?:half|part|partly|partially|mixed|quarter)[\s-]+$", re.IGNORECASE)

_PATIENT = (
    r"(?:\b(?:patient|pt|he|she|they|who|(?:mr|mrs|ms|miss)\.?[ \t]+(?:\[\*\*[^\]]*\]|_{3}|[A-Z][\w'’-]*))(?:['’]s)?)"
)
_ADVERBS = (
    r"(?:(?:has|had|have|is|was|be|been|again|also|then|still|now|continues?|continued|to|just|very|quite|so|more|often|"
    r"[a-z]+ly)[\s,]+)"
)
_SUBJECT = re.compile(rf"{_PATIENT}[\s,]+{_ADVERBS}{{0,4}}$", re.IGNORECASE)
_AGED_SUBJECT = re.compile(
    rf"\b\d{{1,3}}[\s-]*(?:y\.?/?o\.?|(?:years?|yrs?)[\s-]+old)?[\s-]*(?:[a-z-]+\s+)?(?:{PERSON}|[MF])[\s,]+{_ADVERBS}{{0,3}}$",
    re.IGNORECASE,
)
""" "60F refused meds"."""
_JOINED = re.compile(rf"{_PATIENT}\s[^.;:]*\b(?:and|but)\s+{_ADVERBS}{{0,2}}$", re.IGNORECASE)
_LINKED = re.compile(
    rf"{_PATIENT}(?:\s+(?:[a-z]+ly|has|had|then|again|also)){{0,2}}(?:['’]s\s+|\s+|(?<=['’]s)\s*)"
    r"(?:(?:is|was|are|were|be|been|became|becomes?|becoming|appears?|appeared|seems?|seemed|remains?|remained|got|gets|"
    r"getting|being)\s+)+(?:(?:very|quite|somewhat|increasingly|verbally|extremely|more|so|and|[a-z]+ly|angry)\s+){0,2}$",
    re.IGNORECASE,
)
_LINKED_AGAIN = re.compile(
    rf"{_PATIENT}\s[^.;:]*\b(?:and|but)\s+(?:(?:is|was|became|remained|got|has\s+been)\s+)(?:[a-z]+ly\s+|very\s+|quite\s+){{0,2}}$",
    re.IGNORECASE,
)
""" "She refused surgery and was belligerent"."""
_AFTER_COMMA = re.compile(r",\s+(?:(?:and|but|also|now|often|still|[a-z]+ly)\s+){0,2}$", re.IGNORECASE)
_OTHERS_ACT = re.compile(
    r"\b(?:facility|insurance|insurer|hospital|lab|pharmacy|rehab|SNF|NH|home|team|surgery|surgeon|consult\w*|staff|nurse|RN|Dr|MD|"
    r"PCP|EMS|police|VNA|agency|program|clinic|radiology|service|center|guardian|HCP|proxy|they)\b",
    re.IGNORECASE,
)
_NO_OBJECT = re.compile(
    r"\s*(?:[.,;:)\n]|$)|\s+(?:to\s+(?:\d|a\b|an\b|the\b|(?:believe|die|acknowledge|admit|think|give\s+up|let\s+go)\b)|(?:from|by|in|over|since|with|despite|after|on|due|and|but|as|"
    r"at|until|when|while|again|secondary|[a-z]+ly)\b|further\s*(?:[.,;]|$))",
    re.IGNORECASE,
)
_PRONOUN_FIRST = re.compile(r"\W*(?:He|She|They)\b")
_KIN_FIRST = re.compile(
    r"\W*(?:(?:His|Her|Their|The|Patient['’]s|The\s+patient['’]s|Pt['’]s)\s+)?(?:\w+\s+)?(?:"
    + "|".join(sorted(RELATIVES))
    + r")\b(?!\s+of\s+\w+\s+(?:children|kids))",
    re.IGNORECASE,
)
_OFFERED = re.compile(r"\b(?:offered|recommended|advised|suggested|encouraged|proposed|discussed)\b", re.IGNORECASE)
_STOPS = re.compile(r"\s*(?:[.,;)\n]|$)")
_NO_NOUN = re.compile(
    r"\s*(?:[.,;:)\n]|$|w/|h/o|s/p|(?:who|with|and|or|in|since|for|but|on|at|per|again|today|by|from|because|presents?|"
    r"presenting|admitted|here|found|that)\b)",
    re.IGNORECASE,
)
_DETERMINER = re.compile(r"\b(?:an?|the|known)\s+$", re.IGNORECASE)

_IS = re.compile(
    r"(?:\b(?:patient|pt\.?|he|she|who)|\b(?:Mr|Mrs|Ms|Miss)\.?\s+(?:\[\*\*[^\]]*\]|_{2,}|[A-Z][\w'’-]+))\s+"
    r"(?:(?:also|currently)\s+)?(?:is|was|has\s+been|(?:self[\s-]+)?identif(?:ies|ied)\s+as)\s+(?:not\s+)?(?:an?\s+)?$",
    re.IGNORECASE,
)
_AFTER_IS = re.compile(
    r"\s*(?:[.,;()]|and\b|but\b|only\b|for\s+(?:many|several|most|years|\d|[a-z]+\s+years|the\s+(?:past|last))|since\b|$|\n)"
)


def is_said(note: ScannedNote, start: int, end: int) -> bool:
    """Whether the note says that the patient is so: "she is Hispanic", "Mr. ___ identifies as White"."""
    first, _ = note.sentence(start)
    before = _IS.search(note.text, max(first, start - 70), start)
    return before is not None and _AFTER_IS.match(note.text, end) is not None


def is_alone(note: ScannedNote, start: int, end: int) -> bool:
    """Whether the word is a sentence after another: "He smokes. Caucasian." A colour alone may be that of a finding."""
    first, last = note.sentence(start)
    if note.text[start:end].lower() in ("black", "white") or note.in_family(start) or not note.text[start].isupper():
        return False
    whole = not note.text[first:start].strip() and note.text[end:last].strip() == "."
    return whole and note.text[:start].rstrip().endswith(".")


def opens_story(note: ScannedNote, start: int, end: int) -> bool:
    """Whether a line starts with the word and goes on with the patient's work: "Anglo-Celtic retired clerk"."""
    line = note.text[note.text.rfind("\n", 0, start) + 1 : start]
    return (
        not line.strip(" \t-*•")
        and not note.in_family(start)
        and note.text[start:end].lower() not in ("black", "white")
        and _WORKS.match(note.text, end) is not None
    )


def is_measured(note: ScannedNote, start: int) -> bool:
    """Whether a word for the weight is told of the patient in other words: "he is 80 pounds overweight"."""
    return _POUNDS.search(note.text, max(note.sentence(start)[0], start - 24), start) is not None


def is_graded(note: ScannedNote, start: int) -> bool:
    """Whether a word for the weight is an adjective: "mildly overweight"."""
    return _GRADED.search(note.text, max(note.sentence(start)[0], start - 14), start) is not None


def is_others_home(note: ScannedNote, start: int) -> bool:
    """Whether a home is that of a relative who lives elsewhere: "Mother is in a nursing home"."""
    spouses = frozenset((*SPOUSES, *SPOUSES.values(), "partner", "spouse", "family"))
    return has_other_subject(note, start, people=OTHERS - spouses)


def is_lead(text: str) -> bool:
    """Whether the text contains nothing but, at most, a heading: "Social History: "."""
    return _LEAD.fullmatch(text) is not None


def is_providers(text: str, end: int) -> bool:
    """Whether the word that ends here describes a provider: "Spanish-speaking nurse", "Hispanic physician"."""
    return _PROVIDER_NEXT.match(text, end, min(len(text), end + 40)) is not None


def is_denied(note: ScannedNote, start: int, end: int, *, listed: bool = False) -> bool:
    """Whether a word is denied: "not obese", "non-Hispanic", "denies any homelessness", "Obese: no".

    With `listed`, also as one of several: "denies tobacco, alcohol abuse", "no fevers or drug abuse".
    """
    first, _ = note.sentence(start)
    if _DENIED_BEFORE.search(note.text, max(first, start - 40), start):
        return True
    if listed and _DENIED_LIST.search(note.text, max(first, start - 160), start):
        return True
    return _DENIED_AFTER.match(note.text, end, min(len(note.text), end + 24)) is not None


def is_heading(note: ScannedNote, start: int, end: int) -> bool:
    """Whether a phrase is a heading or part of one: "SUBSTANCE ABUSE HISTORY: ..."."""
    first, _ = note.sentence(start)
    line = note.text.rfind("\n", first, start) + 1
    return (
        _HEADING.match(note.text, end, min(len(note.text), end + 40)) is not None
        and _HEADING_BEFORE.fullmatch(note.text, max(first, line), start) is not None
    )


def is_language(text: str, start: int, end: int) -> bool:
    """Whether the word names a language or a birthplace: "Russian-speaking", "speaks Spanish", "Polish born"."""
    after = _LANGUAGE.match(text, end, min(len(text), end + 30))
    return after is not None or _SPEAKS.search(text, max(0, start - 24), start) is not None


def is_colour(text: str, start: int, end: int) -> bool:
    """Whether "black" or "white" is the colour of a finding: "65 yo black man, black tarry stools"."""
    if text[start:end].lower() not in ("black", "white"):
        return False
    if _FINDING_NEXT.match(text, end, min(len(text), end + 50)):
        return True
    listed = text[:start].rstrip().endswith(",")
    return listed and _PERSON_NEXT.match(text, end, min(len(text), end + 60)) is None


def is_descent(text: str, start: int, end: int) -> bool:
    """Whether the word tells of a descent: "of Vietnamese descent", "skin sores – Maori background"."""
    if _DESCENT.match(text, end) is None:
        return False
    return bool(_OF.search(text, max(0, start - 6), start) or _OPENS_ITEM.search(text, max(0, start - 4), start))


def within_descent(place: WordedMention, text: str) -> WordedMention:
    """The word in a phrase of descent, so that "of European descent" and "of Italian descent" are changed alike."""
    match = _OF_DESCENT.fullmatch(text, place.start, place.end) if place.kind == "phrase" else None
    return place._replace(start=match.start("word"), end=match.end("word"), kind="descent") if match else place


def is_partly(text: str, start: int, end: int) -> bool:
    """Whether the word applies only in part: "half-Asian", "biracial (black/white)"."""
    return bool(_PARTLY.search(text, max(0, start - 12), start) or _BOTH_NEXT.match(text, end))


def fits_context(note: ScannedNote, start: int, end: int, context: str) -> bool:
    """Whether a phrase of a wording table is in the context that its row requires; see `definitions`."""
    if not context:
        return True
    text = note.text
    first, _ = note.sentence(start)
    low = max(first, start - 90)
    if context == "closed":
        return _NO_NOUN.match(text, end) is not None
    if context == "noun":
        led = _DETERMINER.search(text, low, start) or _AGED_SUBJECT.search(text, low, start)
        return bool(led and _NO_NOUN.match(text, end))
    if context == "adjective":
        again = _LINKED_AGAIN.search(text, low, start)
        return _LINKED.search(text, low, start) is not None or (
            again is not None and not _names_another(note, again.start(), start)
        )
    opens = start == note.opening(start) and not text[start:end].lower().endswith("ing")
    told = bool(_SUBJECT.search(text, low, start) or _JOINED.search(text, low, start))
    if told and _follows_kin(note, first):
        return False
    if context == "verb":
        offered = _OFFERED.search(text, low, start) and _STOPS.match(text, end)
        told = told or _AGED_SUBJECT.search(text, low, start) is not None or _goes_on(note, first, low, start)
        return (opens or told) and bool(offered or _NO_OBJECT.match(text, end) is None)
    return told


def _names_another(note: ScannedNote, start: int, end: int) -> bool:
    """Whether somebody else is named in between, who may be meant."""
    return any(start <= hit.start < end for hit in note.hits("people"))


def _follows_kin(note: ScannedNote, first: int) -> bool:
    """Whether the pronoun that opens a sentence stands for a relative: "Her mother is 93. She reports that ..."."""
    for step in range(4):
        if not _PRONOUN_FIRST.match(note.text, first):
            return step > 0 and _KIN_FIRST.match(note.text, first) is not None
        if first == 0:
            return False
        first, _ = note.sentence(first - 1)
    return False


def _goes_on(note: ScannedNote, first: int, low: int, start: int) -> bool:
    """ "Noncompliant with CPAP, frequently refuses fingersticks": nobody else is mentioned who might."""
    if not _AFTER_COMMA.search(note.text, low, start) or _OTHERS_ACT.search(note.text, first, start):
        return False
    return not _names_another(note, first, start)


def matches(pattern: re.Pattern[str], note: ScannedNote, tag: str) -> Iterator[re.Match[str]]:
    """Matches of a pattern; if it starts with a whole word, only the words with a tag are tried, which is faster."""
    word = lead_word(pattern)
    if word is None:
        yield from pattern.finditer(note.text)
        return
    for hit in note.hits(tag):
        match = pattern.match(note.text, hit.start) if hit.word == word else None
        if match:
            yield match


@cache
def lead_word(pattern: re.Pattern[str]) -> str | None:
    """The word that a match has to start with, if the pattern shows it: "BMI\\b.*", "BMI 4\\d"."""
    lead = re.match(r"([A-Za-z]+)(?:\\b|\\s\+| (?![?*{]))", pattern.pattern)
    depth = 0
    for mark in re.sub(r"\\.", "", pattern.pattern):
        depth += (mark in "([") - (mark in ")]")
        if mark == "|" and depth == 0:
            return None
    return lead.group(1).lower() if lead else None
