"""Which pronoun is meant: "her" as his or him, "his" as her or hers, by grammar.

"Her" is an object if nothing follows that it could own: the end of the sentence, a preposition, a word of time, or,
after a verb such as "gave", "made" or "found", what is given or what happens to the patient. Before a noun it is
possessive. If neither is certain ("helped her cough", "rolled her back on the bed") the result is None, and the note is
skipped.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from palpate.files import read_resource

Reading = Literal["him", "his"]
_NEXT = re.compile(r"\s+([A-Za-z0-9][\w'’/-]*)")
_KEEPS = re.compile(r"\b(?:keep(?:s|ing)?|kept)\s+$", re.IGNORECASE)
_IN_QUOTES = re.compile(r"\s+[\"“‘'(]([A-Za-z0-9][\w'’/-]*)")
_CALENDAR = re.compile(
    r"\s+(?:week|month|year|night|spring|summer|fall|winter|time|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b(?!['’])",
    re.IGNORECASE,
)
_DAY = re.compile(
    r"\s+(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:POD|HD)\s?#?\s?\d+)\b(?!['’])"
    r"(?:\s+(?:morning|afternoon|evening|night|am|pm)\b)?",
    re.IGNORECASE,
)
_MASKED = re.compile(r"\s+(?:\[\*\*(?!\d)|_{2,})")
_ONE_OF = re.compile(
    r"\b(?:an?|another)\s+(?:\w+\s+)?(?:friend|colleague|neighbor|relative|cousin|coworker|acquaintance)s?\s+of\s+$",
    re.IGNORECASE,
)
_HAS_GIVEN = re.compile(r"\b(?:has|have|had|having)\s+(?:\w+ly\s+|also\s+|then\s+)?given\s+$", re.IGNORECASE)
"""Unlike "was given her medication" and "given her age"."""
_SEEMS_LIKE = re.compile(r"\b(?:feel|felt|look|sound|seem|act|smell|taste)\w*\s+(?:\w+\s+)?like\s+$", re.IGNORECASE)
_WITHIN = re.compile(r"\b(?:in|on|of|over|along)\s+$", re.IGNORECASE)
_QUOTED = re.compile(r"\s+[\"“'‘][A-Za-z]")
_TOLD = re.compile(r"\b(?:told|asked|tell|ask|calls?|called|to|for|with|at)\s+$", re.IGNORECASE)
_LAST = re.compile(r"([A-Za-z'’]+)\s+$")
_AGO = re.compile(
    r"\s+\d+\s+(?:day|week|wk|month|mo|year|yr|hour|hr|minute|min)s?\s+(?:ago|later|after|before|prior|earlier|from)\b",
    re.IGNORECASE,
)
_DOSE = re.compile(
    r"\s+[\d,.]+\s?-?(?:mg|mcg|gm?|cc|ml|l|liters?|units?|u|meq|tabs?|feet|ft|hours?|hrs?|minutes?)\b(?P<noun>[\s-]+(?:\w+\s+)?"
    r"(?:dose|dosage|tablet|tab|pill|patch|infusion|drip|regimen|stay|course|bag)s?\b)?",
    re.IGNORECASE,
)
_DETERMINER = re.compile(
    r"\s+(?:the|an?|it|this|these|her|his|them)\b(?!\s+(?:day|week|month|night|morning|time|year|following|next|other)\b)",
    re.IGNORECASE,
)
_TOWARD = re.compile(r"\s+(?:on|to|in|up|at|for|into|onto|from|over|off)\b", re.IGNORECASE)
_ADJECTIVE = re.compile(
    r"(?:un|in|hypo|hyper)\w{4,}|\w+(?:able|ible|ful|less|ous|ic|ent|ant|ive|ish|ed|eous|tive)", re.IGNORECASE
)
_NO_ADJECTIVE = re.compile(
    r"\w*(?:ment|implant|transplant|stent|accident|assistant|attendant|consultant|relative|parent|clinic|biotic|diuretic|laxative|"
    r"analgesic|narcotic|emetic|psychotic|depressant|coagulant|sedative|event|incident|agent|table|dish|tablet)"
)
"""Nouns that end like adjectives: "keep her appointment"."""
_NOUN = re.compile(
    r"\w+(?:[^su']s|sion|tion|ment|ness|ity|ism|ist|osis|itis|emia|oma|ure|age|ance|ence|er|or|ery|ory|gy|phy|th|ogram|scopy"
    r"|dose|tomy|ian)",
    re.IGNORECASE,
)
_SPAN = re.compile(r"\s+\d+\s+(?:days|weeks|hours|nights|months|minutes)\b(?!['’])", re.IGNORECASE)
_CODE = re.compile(r"\s+(?:full\s+code|comfort\s+(?:measures|care))\b", re.IGNORECASE)
_DEGREES_OF_HARM = frozenset(
    [
        "significant",
        "severe",
        "great",
        "considerable",
        "extreme",
        "intense",
        "distress",
        "discomfort",
        "embarrassment",
        "harm",
        "trouble",
    ]
)
_KINDS_OF_GIFTS = frozenset(
    ["medical", "full", "own", "verbal", "informed", "written", "past", "family", "first", "last"]
)
_OF_A_GIFT = re.compile(r"\s+([a-z]+)", re.IGNORECASE)
""" "Giving her medical history"."""
_FOLLOWS_ADVERB = frozenset(["away", "now", "overnight", "later", "earlier", "initially", "throughout"])


@cache
def _grammar() -> dict[str, frozenset[str]]:
    """The word lists of pronouns.yaml."""
    lists: dict[str, str] = read_resource("palpate.perturb.characteristics.gender", "pronouns.yaml")
    # Running text, because YAML reads "no" and "off" in a list as booleans.
    return {name: frozenset(words.split()) for name, words in lists.items()}


_FUNCTION = _grammar()["function"]
_TIME = _grammar()["adverbs"]
_DEGREE = _grammar()["degrees"]
_NOUNS_IN_LY = _grammar()["nouns_in_ly"]
_GIVES = _grammar()["gives"]
_MAKES = _grammar()["makes"]
_OWNS = _grammar()["owns"]
_ALLOWS = _grammar()["allows"]
_DOES = _grammar()["does"]
_BECOMES = _grammar()["becomes"]
_ACTS = _grammar()["acts"]
_STATES = _grammar()["states"]
_PLAIN_VERBS = _grammar()["verbs_only"]
_NOUNS_IN_ING = _grammar()["nouns_in_ing"]
_CARRIES = _grammar()["carries"]
_HURTS = _grammar()["hurts"]
_DOSES = _grammar()["doses"]
_OWNED = _grammar()["owned"]
_THINGS = _grammar()["things"]
_OWN_GIFTS = _grammar()["own_gifts"]


def read_her(text: str, start: int, end: int) -> Reading | None:
    """Whether "her" at this position means him or his; None if grammar does not decide."""
    after = _NEXT.match(text, end)
    if after is None and _QUOTED.match(text, end):
        return "him" if _TOLD.search(text, max(0, start - 14), start) else "his"
    if after is None:
        return "his" if _MASKED.match(text, end) else "him"
    word = after.group(1).lower()
    if word == "both" and _WITHIN.search(text, max(0, start - 8), start) and not _ends_phrase(text, after.end()):
        return "his"  # "fractures in her both feet"
    if word in _FUNCTION or (word == "company" and _KEEPS.search(text, max(0, start - 9), start)):
        return "him"
    if word in _OWNED:
        return "his"
    last = _LAST.search(text, max(0, start - 30), start)
    verb = last.group(1).lower() if last else ""
    day = _DAY.match(text, end)
    if day:
        return "him" if _ends_phrase(text, day.end()) else "his"
    if word in ("last", "next") and _CALENDAR.match(text, after.end()):
        return "him"
    if word[0].isdigit():
        return _before_number(text, end, verb)
    if word in ("back", "home"):
        return _before_back(text, after, verb)
    if verb == "given":
        return "him" if _HAS_GIVEN.search(text, max(0, start - 40), start) and word not in _OWN_GIFTS else "his"
    if verb in ("cause", "causes", "causing", "caused") and word in _DEGREES_OF_HARM:
        return "him"  # "is causing her significant pain"
    if verb == "like" and _SEEMS_LIKE.search(text, max(0, start - 24), start):
        return "him" if _ends_phrase(text, end) else "his"  # "feels like her milk is adequate"
    if verb in _GIVES:
        given = _OF_A_GIFT.match(text, after.end()) if word in _KINDS_OF_GIFTS else None
        named = given.group(1).lower() if given else word
        return "his" if named in _OWN_GIFTS or word.endswith(("'s", "’s")) else "him"
    if word in _PLAIN_VERBS and not verb.endswith(("'s", "’s")):
        return "him"  # two clauses run together: "ask others to face her speak clearly"
    adverb = word in _TIME or (word.endswith("ly") and word not in _NOUNS_IN_LY)
    if verb in _MAKES and (not adverb or word in _DEGREE or word.endswith("ly")):
        return _after_makes(text, after, verb)
    return "him" if adverb and _ends_phrase(text, after.end()) else "his"


def his_stands_alone(text: str, start: int, end: int) -> bool:
    """Whether "his" at this position means hers: nothing follows that it could own."""
    after = _IN_QUOTES.match(text, end) or _NEXT.match(text, end)
    if after is None:
        return not _MASKED.match(text, end)
    if after.group(1).lower() == "both" and not _ends_phrase(text, after.end()):
        return False  # "weakness in his both hands"
    return (
        after.group(1).lower() in (*_FUNCTION, "done", "replaced", "fixed", "removed")
        or _ONE_OF.search(text, max(0, start - 24), start) is not None
    )


def _before_number(text: str, end: int, verb: str) -> Reading | None:
    """ "Saw her 3 weeks ago", "bolused her 500 cc", "her 40 mg dose", "her 3 children"."""
    if _AGO.match(text, end) or verb in _GIVES:
        return "him"
    span = _SPAN.match(text, end)
    if span and _ends_phrase(text, span.end()):
        return None
    dose = _DOSE.match(text, end)
    if dose is None or dose.group("noun") or verb in _DOSES or verb in _FUNCTION:
        return "his"
    return None


def _before_back(text: str, after: re.Match[str], verb: str) -> Reading | None:
    """ "Brought her back in", "started her back on", "sent her home", "her back pain", "her home regimen"."""
    if not _ends_phrase(text, after.end()):
        return "his"
    if verb in _CARRIES:
        return "him"
    if verb in _HURTS or verb in _FUNCTION or not _TOWARD.match(text, after.end()):
        return "his"
    return None


def _after_makes(text: str, after: re.Match[str], verb: str) -> Reading | None:
    """Whether what follows happens to her ("found her unsafe", "helped her bathe") or is hers."""
    if _CODE.match(text, after.start()):
        return "him"
    word, end = after.group(1), after.end()
    while word.lower() in _DEGREE or (word.lower().endswith("ly") and word.lower() not in _NOUNS_IN_LY):
        following = _NEXT.match(text, end)
        if following is None:
            return "him"
        word, end = following.group(1), following.end()
    lower = word.lower()
    if lower in _FUNCTION or lower in _BECOMES or (_ADJECTIVE.fullmatch(lower) and not _NO_ADJECTIVE.fullmatch(lower)):
        return "him" if lower in _FUNCTION or _ends_phrase(text, end) else "his"
    if lower in _STATES and verb.startswith(("ma", "left", "leav", "render", "felt", "get", "got")):
        return "him"
    if lower == "cough":
        return None
    if lower in _DOES:
        return "him"
    if lower.endswith("ing") and verb in _ACTS:
        if lower not in _NOUNS_IN_ING:
            return "him"
        return None if _ends_phrase(text, end) else "his"
    if (
        lower in _THINGS
        or _NO_ADJECTIVE.fullmatch(lower)
        or lower in _NOUNS_IN_ING
        or _NOUN.fullmatch(lower)
        or (word.isupper() and len(word) > 1)
        or "-" in word
    ):
        return "his"
    if _DETERMINER.match(text, end):
        return "him"
    if verb in _ALLOWS:
        return "him"
    return "his" if verb in _OWNS else None


def _ends_phrase(text: str, end: int) -> bool:
    """Whether no noun can follow: "her back to the hospital" against "her back pain"."""
    after = _NEXT.match(text, end)
    if after is None:
        return True
    word = after.group(1).lower()
    return word in _FUNCTION or word in _FOLLOWS_ADVERB
