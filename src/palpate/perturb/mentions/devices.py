"""Whether a device is there, or only planned or talked about: "plan for a PICC", "chest tube removal planned".

The words are in `cues.yaml`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

from palpate.files import read_resource
from palpate.perturb.mentions.patterns import GIVEN, either, whole_words

_REACH = 80
"""What plans a device, or tells that it was placed, stands within this many characters."""
_BE = r"(?: (?:is|was|were|be|been|has|had|have|being|are))+"
_OWNED = re.compile(r"\b(?:with|has|had|have|having|w/) (?:[\w-]+ ){0,3}\Z")


class _Patterns(NamedTuple):
    intended: re.Pattern[str]
    """What says that a device is only planned, up to it."""
    not_yet: re.Pattern[str]
    """The same, after it."""
    not_yet_owned: re.Pattern[str]
    """The same after one that the patient has: what "a man with a pacemaker was scheduled for" is about the man."""
    handled: re.Pattern[str]
    """What is done to a device that is there, after it: "chest tube removal"."""
    there: re.Pattern[str]
    """The same between an intention and the device, or that the patient has it: "plan to remove the chest tube"."""
    carried_out: re.Pattern[str]


@cache
def _devices() -> frozenset[str]:
    labels = read_resource("palpate.perturb.mentions", "phrases.yaml")["labels"]
    return frozenset(str(phrase) for phrase in labels["Support Devices"])


def is_device(phrase: str) -> bool:
    """Whether a phrase of `phrases.yaml` names a device."""
    return phrase in _devices()


def is_intended(text: str, start: int, end: int) -> bool:
    """Whether a device is only planned: "plan for a PICC", unlike "planned PICC was placed", "check of his ICD"."""
    words = _patterns()
    if words.handled.match(text, end):
        return False
    low = max(0, start - _REACH)
    found = words.intended.search(text, low, start)
    planned = found is not None and not (
        GIVEN.search(text, low, start) or words.there.search(text, found.end("cue"), start)
    )
    after = words.not_yet_owned if _OWNED.search(text, low, start) else words.not_yet
    if not planned and after.match(text, end) is None:
        return False
    return words.carried_out.search(text, end, end + _REACH) is None


@cache
def _patterns() -> _Patterns:
    data = read_resource("palpate.perturb.mentions", "cues.yaml")
    joints = "and|or|but|if|then|for|with|to|on|in|at|by|after|once|when|until|placement|insertion|implantation"
    inside = rf"(?: (?!(?:{joints})\b)[\w-]+){{0,2}}"
    return _Patterns(
        intended=re.compile(rf"(?<![\w-])(?P<cue>{either(data['intended'])})(?![\w-])[^.;,]{{0,40}}\Z"),
        not_yet=_not_yet(data, verbs=_BE + r"(?: (?:\w+ly|not|again|also|now|then|first|still))*"),
        not_yet_owned=_not_yet(data, verbs=r"(?!)"),
        handled=re.compile(rf"\w*{inside} {either(data['handled'])}(?![\w-])"),
        there=whole_words(either([*data["handled"], *data["had"]])),
        carried_out=whole_words(either(data["carried_out"])),
    )


def _not_yet(data: Any, *, verbs: str) -> re.Pattern[str]:
    """Words after a device that came to nothing: "PICC was discussed", "intubation averted"."""
    said = either(data["not_yet"])
    kind = r"\w*(?: (?:line|tube|catheter))?(?: (?:next|this|later this) \w+)?"
    other = rf"(?: (?:and|or)(?: an?)? {either(data['beside'])})?"
    placing = rf"(?: {either(data['placing'])})(?:{_BE})?(?: [a-z]+){{0,2}} {said}"
    alone = rf"{said}(?=\s*(?:[.,;:)]|\Z)| {either(data['not_yet_until'])}\b)"
    not_as = (
        r"(?!considered (?:to|as|infected|malpositioned|dislodged|the|safe|adequate|functional|functioning|stable)\b)"
    )
    return re.compile(rf"{kind}{other}(?:{placing}|{verbs} {not_as}{said}| {alone})(?![\w-])")
