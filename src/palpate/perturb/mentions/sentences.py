"""A paragraph of a note as sentences, each with its answers, and whether it is in a family history.

Headings, list items and short lines begin a sentence, and so does an inline heading of a note on one line ("PMH: asthma
FH: stroke"). An answer that denies stands in the sentence of what is asked: "Pneumonia: none" becomes "Pneumonia [no]".

So do boxes that are not ticked: "Pneumonia [ ]". A box belongs to the words after it where a line starts with one, and
to those before it otherwise. Boxes for yes and no answer what stands before them: "Pneumonia: [ ] yes [x] no".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from palpate.files import read_resource
from palpate.perturb.characteristics.reading.people import GENDER_OF_KIN, RELATIVES, SIDES
from palpate.privacy import hides

NO = "[no]"
"""Replaces an answer that denies, with its colon."""
_FAMILY = r"(?:family\s+(?:medical\s+|health\s+)?(?:history|hx)|fam\.?\s?hx|fhx?)"
_OPENS_FAMILY = re.compile(rf"(?:^|\n|\s\s){_FAMILY}\s*[:-]?\s*\Z", re.IGNORECASE)
_FAMILY_NAME = re.compile(rf"(?<![\w-]){_FAMILY}\s*\Z", re.IGNORECASE)
_LONE_HEADING = re.compile(rf"^[ \t#*]*(?:[A-Z][A-Z'/&() -]{{3,45}}|(?i:{_FAMILY}))[ \t]*$(?!:)", re.MULTILINE)
"""A heading on a line of its own, without a colon."""
_HEADING = r"\n(?=[^\n.;:!?]{1,60}(?::|\[no\]))"  # starts a new sentence, although other line breaks do not
_BREAK = re.compile(
    rf"(?P<stop>(?:[.;!]|(?<=[\w)\]])\?)(?=[\s,]|$))|(?P<colon>:(?=\s|$))|\n\s*\n|\n\s*[-*#•]|\n\s*\d{{1,2}}[.)]\s|{_HEADING}"
    r"|(?P<line>\n(?=[ \t]*[A-Z]))"
)
_LIST_GOES_ON = re.compile(
    r"(?:,|\b(?:of|or|and|nor|no|not|for|with|without|the|an?|in|to|from|by|has|had|is|was|w/o))\s*\Z", re.IGNORECASE
)
"""The end of a line whose sentence goes on in the next one."""
_WRAPPED = 50
"""A line with this many characters was probably broken by the width of the page."""
_NEXT_WORD = re.compile(r"[ \t]+([A-Za-z]+)")
_LAST_WORD = re.compile(r"([A-Za-z/]+)(?:['’]s)?\s*\Z")
_YES = re.compile(r"[\s:,-]*(?:yes|y|positive|pos|present|affirmative|true)\b", re.IGNORECASE)
"""Answers a question, which is then no question any more."""
_NOT_HEADINGS = frozenset(
    [
        "denies",
        "denied",
        "negative",
        "negatives",
        "neg",
        "for",
        "out",
        "r/o",
        "no",
        "absent",
        "without",
        "evaluate",
        "include",
        "includes",
        "including",
    ]
)
"""A colon after these does not end the clause: "Denies: fever, cough"."""


_PRONOUN_FIRST = re.compile(r"[\s,]*(he|she)\b", re.IGNORECASE)
_KIN_FIRST = re.compile(rf"[\s,]*(his|her)\s+({'|'.join(sorted(GENDER_OF_KIN))})\b", re.IGNORECASE)


@hides("text")
class Sentence(NamedTuple):
    """A sentence, or what stands after a heading, with single blanks."""

    text: str
    lower: str
    """The same length as `text`."""
    of_family: bool


def sentences(part: str, *, in_family: bool = False) -> Iterator[Sentence]:
    """The sentences of a paragraph; `in_family` if it begins in a family history."""
    part = _without_boxes(part)
    marked = _answer().sub(f" {NO}. ", _restated().sub(rf"\1 {NO}. ", _LONE_HEADING.sub(r"\g<0>:", part)))
    begin, of_family, before = 0, in_family, ""
    for match in _BREAK.finditer(marked):
        said = marked[begin : match.start()]
        if match.lastgroup == "line" and (len(said.rpartition("\n")[2]) >= _WRAPPED or _LIST_GOES_ON.search(said)):
            continue
        if match.lastgroup == "colon":
            last = _LAST_WORD.search(said)
            word = last[1].lower() if last else ""
            if word in _NOT_HEADINGS or word in RELATIVES or word in SIDES or _names_kin(marked, match.end()):
                continue
        asked = match.group() == "?" and _YES.match(marked, match.end()) is None
        yield from _sentence(f"{said}?" if asked else said, of_family or _goes_on(before, said))
        begin, before = match.end(), said
        if match.lastgroup == "colon":
            of_family = _FAMILY_NAME.search(said) is not None
    yield from _sentence(marked[begin:], of_family or _goes_on(before, marked[begin:]))


def _names_kin(text: str, place: int) -> bool:
    """Whether a relative follows: "Heart failure: father, brother"."""
    follows = _NEXT_WORD.match(text, place)
    return follows is not None and (follows[1].lower() in RELATIVES or follows[1].lower() in SIDES)


def opens_family(part: str) -> bool:
    """Whether a paragraph ends with the heading of a family history, which is then in the next paragraph."""
    return _OPENS_FAMILY.search(part[-60:]) is not None


def _goes_on(before: str, said: str) -> bool:
    """Whether a sentence can only be about the relative of the one before: "Her father smoked. He had pneumonia."."""
    again = _PRONOUN_FIRST.match(said)
    kin = None if again is None else _KIN_FIRST.match(before)
    if again is None or kin is None:
        return False
    gender = "male" if again[1].lower() == "he" else "female"
    owner = "male" if kin[1].lower() == "his" else "female"
    return GENDER_OF_KIN[kin[2].lower()] == gender != owner


def _sentence(said: str, of_family: bool) -> Iterator[Sentence]:
    text = " ".join(said.split())
    if text:
        lower = text.lower()
        if len(lower) != len(text):  # "İ" has two characters in lower case
            lower = "".join(c if len(c.lower()) > 1 else c.lower() for c in text)
        yield Sentence(text, lower, of_family)


_SIGN = r"(?<![ \t])(?:[ \t]*(?:[:=?–—]|-{2,3})(?:[ \t]-(?=[ \t]))?|[ \t]+-)[ \t]*(?:\n[ \t]*)?"
"""Starts at the first blank and allows few dashes, so that a long run of either is not tried at every position."""


@cache
def _answer() -> re.Pattern[str]:
    """The answer ends where it says so: "Pneumonia: no further antibiotics" denies nothing."""
    data = read_resource("palpate.perturb.mentions", "cues.yaml")
    denied, ends = ("|".join(map(re.escape, data[name])) for name in ("denied_answers", "answer_ends"))
    said = rf"(?:{denied})(?:\s+(?:{ends}))?"
    stop = r"(?=[ \t]*(?:[.,;!?(\n]|$))"
    return re.compile(
        rf"{_SIGN}[(\[]?{said}[)\]]?{stop}|(?<![ \t])[ \t]?[(\[](?:{said}[)\]]|[-–−][)\]]{stop})", re.IGNORECASE
    )


@cache
def _restated() -> re.Pattern[str]:
    """An answer that repeats what it denies: "Effusion: no evidence of effusion"."""
    return re.compile(rf"(\b\w{{4,}}){_SIGN}no(?:[ \t]+\w+){{0,4}}[ \t]+\1", re.IGNORECASE)


_EMPTY = r"\[[ \t_]*\]|\([ \t_]+\)|[☐□]"
_TICKED = r"[\[(][ \t]?[xX✓✔*][ \t]?[\])]|[☑☒✓✔]"
_BOX = re.compile(rf"(?P<empty>{_EMPTY})|(?P<ticked>{_TICKED})")
_TICK_YES = re.compile(r"\W*(?:yes|y|present|pos(?:itive)?|true)\b[\s.,;:/]*", re.IGNORECASE)
_TICK_NO = re.compile(r"\W*(?:no|n|none|absent|neg(?:ative)?|false)\b[\s.,;:/]*", re.IGNORECASE)
_LAST_ANSWER = re.compile(r"[\s:,-]{0,6}\b(?:yes|y|present|no|n|none|absent)\s{0,6}$", re.IGNORECASE)


def _without_boxes(part: str) -> str:
    """A paragraph in which ticked boxes are gone, and what is not ticked is followed by `NO`."""
    if _BOX.search(part) is None:
        return part
    return "\n".join(_ticked(line) if _BOX.search(line) else line for line in part.split("\n"))


def _ticked(line: str) -> str:
    boxes = list(_BOX.finditer(line))
    ticked = [box.group("ticked") is not None for box in boxes]
    starts = [0, *(box.end() for box in boxes)]
    ends = [*(box.start() for box in boxes), len(line)]
    texts = [line[start:end].strip(" \t") for start, end in zip(starts, ends, strict=True)]
    lead, rest = texts[0], texts[1:]
    if lead and all(_TICK_YES.fullmatch(text) or _TICK_NO.fullmatch(text) for text in rest):
        return _answered(lead, list(zip(rest, ticked, strict=True)))
    if _LAST_ANSWER.search(lead) and len(boxes) > 1 and (_TICK_YES.fullmatch(rest[0]) or _TICK_NO.fullmatch(rest[0])):
        asked = _LAST_ANSWER.sub("", lead)
        answers = list(zip([lead[len(asked) :], *rest], ticked, strict=False))
        return _answered(asked, answers)
    if not re.search(r"\w", lead):  # the boxes stand before what they are for
        items = list(zip(rest, ticked, strict=True))
    elif re.search(r":\s*$", lead):
        items = [(lead, True), *zip(rest, ticked, strict=True)]
    else:
        items = [*zip(texts, ticked, strict=False), (texts[-1], True)]
    return " ".join(f"{text}." if tick else f"{text} {NO}." for text, tick in items if text)


def _answered(asked: str, answers: list[tuple[str, bool]]) -> str:
    """What is asked, denied unless "yes" is ticked."""
    affirmed = any(tick and _TICK_YES.fullmatch(text) for text, tick in answers)
    return f"{asked.rstrip(' :,-')}." if affirmed else f"{asked.rstrip(' :,-')} {NO}."
