"""Told apart by grammar: "her" as his or him, "his" as her or hers.

"Her" is the object when nothing follows that it could own: the end of the sentence, a preposition, a word of time, or,
after a verb such as "gave", "made" or "found", what is given or what becomes of the patient. All else is possession.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

import yaml

_NEXT = re.compile(r"\s+([A-Za-z0-9][\w'’/-]*)")
_CALENDAR = re.compile(
    r"\s+(?:week|month|year|night|spring|summer|fall|winter|time|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b(?!['’])",
    re.IGNORECASE,
)
_MASKED = re.compile(r"\s+(?:\[\*\*(?!\d)|_{2,})")
_ONE_OF = re.compile(
    r"\b(?:an?|another)\s+(?:\w+\s+)?(?:friend|colleague|neighbor|relative|cousin|coworker|acquaintance)s?\s+of\s+$",
    re.IGNORECASE,
)
_LAST = re.compile(r"([A-Za-z'’]+)\s+$")

_FOLLOWS_ADVERB = frozenset(["away", "now"])


@cache
def _grammar() -> dict[str, frozenset[str]]:
    """The word lists of grammar.yaml."""
    text = files("palpate.perturb.characteristics").joinpath("grammar.yaml").read_text("utf-8")
    # YAML reads "no" and "off" as truth values in lists, not in running text.
    return {name: frozenset(words.split()) for name, words in yaml.safe_load(text).items()}


_FUNCTION = _grammar()["function"]
_TIME = _grammar()["adverbs"]
_NOUNS_IN_LY = _grammar()["nouns_in_ly"]
_GIVES = _grammar()["gives"]
_MAKES = _grammar()["makes"]
_BECOMES = _grammar()["becomes"]
_CARRIES = _grammar()["carries"]
_KIN_OR_OWN = _grammar()["owned"]


def her_is_object(text: str, start: int, end: int) -> bool:
    """Whether "her" at this place means him, and not his."""
    after = _NEXT.match(text, end)
    if after is None:
        return not _MASKED.match(text, end)
    word = after.group(1).lower()
    if word in _FUNCTION:
        return True
    last = _LAST.search(text, max(0, start - 30), start)
    verb = last.group(1).lower() if last else ""
    if word in ("back", "home"):
        return verb in _CARRIES and _ends_phrase(text, after.end())
    if word in ("last", "next") and _CALENDAR.match(text, after.end()):
        return True
    if word in _TIME or (word.endswith("ly") and word not in _NOUNS_IN_LY):
        return _ends_phrase(text, after.end())
    if word in _KIN_OR_OWN:
        return False
    if verb in _GIVES:
        return not (
            verb in ("tell", "told", "telling", "ask", "asked", "asking") and text[after.end() :][:2] in ("'s", "’s")
        )
    if verb in _MAKES:
        return word in _BECOMES or _acts(word, verb)
    return False


def his_stands_alone(text: str, start: int, end: int) -> bool:
    """Whether "his" at this place means hers: nothing follows that it could own."""
    after = _NEXT.match(text, end)
    if after is None:
        return not _MASKED.match(text, end)
    return after.group(1).lower() in _FUNCTION or _ONE_OF.search(text, max(0, start - 24), start) is not None


def _acts(word: str, verb: str) -> bool:
    """ "Found her lying on the floor", and not "noticed her breathing"."""
    return word.endswith("ing") and verb in (
        "find",
        "found",
        "see",
        "saw",
        "seen",
        "keep",
        "kept",
        "leave",
        "left",
        "watched",
    )


def _ends_phrase(text: str, end: int) -> bool:
    """Whether no noun can follow: "her back to the hospital" against "her back pain"."""
    after = _NEXT.match(text, end)
    if after is None:
        return True
    word = after.group(1).lower()
    return word in _FUNCTION or word in _FOLLOWS_ADVERB
