"""Verbs: a verb of one person that "they" would be left with, and a "hers" that nothing explains."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence

from palpate.cases.edits import Edit
from palpate.perturb.characteristics.gender.neutral import BETWEEN, OTHER_SUBJECT, known_verbs
from palpate.perturb.characteristics.reading import ScannedNote

_PATIENT_OPENS = re.compile(r"(?:(?:the|this)\s+)?(?:patient|pt|mr|mrs|ms|miss)\b(?!['’]s)", re.IGNORECASE)
_OWNED_BY = re.compile(r"(?:\b(?:of|than|is|was|are|were|to|like|as|or|and|with|from))\s+$", re.IGNORECASE)
_TURNED = re.compile(r"\b(?P<verb>is|was|has|does)\s+$", re.IGNORECASE)
""" "Never in his life has he smoked"."""
_WORD = re.compile(r"\s*")
_GAP = re.compile(
    r"\s+(?:\w+ly\s+)?(?:at|in|on|with|without|for|from|after|before|during|all|every|each|most|once|the|an?|by|to|until|since|due|one|two|"
    r"this|that|under|over|as|per|some|no|not\s+only)\b|\s*[,(-]",
    re.IGNORECASE,
)
"""What no verb starts with: that of "they" comes later."""
_ONE_DOES = re.compile(
    r"\b(?:is|has|was|does|denies|reports|states|says|takes|lives|works|uses|feels|wants|needs|drinks|smokes|appears|presents|complains|"
    r"remains|continues|gets|sees|goes|comes|looks|walks|eats|sleeps)\b",
    re.IGNORECASE,
)
_SUBORDINATE = re.compile(r"\b(?:when|whenever|if|while|until|where)\s+$", re.IGNORECASE)
_OF_WHOM = re.compile(r",\s+who\s+(?:is|has|was|had|does|[a-z]+s)\b[^,;]*$", re.IGNORECASE)
""" "Cares for her daughter, who is blind (and lives next door)"."""
_WHO_IS = re.compile(
    r"\b(?:man|woman|male|female|gentleman|lady)\s+who\s+(?:is|was|has|had)\b(?:(?!\b(?:he|she|they)\b)[^;])*$",
    re.IGNORECASE,
)
""" "They are a 28-year-old person who is tall, weighs 90 kg"."""
_OF_PAIN = re.compile(r"\bthat\s+(?:the|this|his|her|it)\b[^,;]{0,30}?\b(?:is|was|has)\b[^,;]*$", re.IGNORECASE)
_PAIN_IS = re.compile(
    r"\s+(?:often\s+|much\s+|usually\s+|\w+ly\s+)?(?:worse|better|relieved|aggravated|exacerbated|alleviated|sharp|dull|constant|intermittent|severe|"
    r"mild|locali[sz]ed|located|associated|worst)\b",
    re.IGNORECASE,
)
_DOES_TO_THEM = "requires makes causes gives wakes awakens keeps prevents limits bothers forces allows"
_DOES_TO = frozenset(_DOES_TO_THEM.split())
_RELATIVE = re.compile(r"\b(?:that|which)\s+(?:\w+ly\s+)?[a-z]+s\b", re.IGNORECASE)
""" "They report a spell that lasts and requires them to sit": what is done to them is not their doing."""
_VERB = re.compile(
    r"(?:\b(?:and|but|or|nor|then|also)|&|,)\s+(?:also\s+|then\s+|now\s+|still\s+)?(?P<verb>[a-z]+s)\b(?!['’])",
    re.IGNORECASE,
)
_CONCLUDED = re.compile(
    r"\band\s+(?:so|thus|therefore|hence|consequently)\s+(?P<verb>is|was|has)\s+(?!the\b|his\b|her\b|an?\b|it\b|he\b|she\b|this\b|that\b)\w"
)
""" "They say that it hurts and so was seen", or a drain was changed: whoever it is, the verb tells of one."""


def left_verbs(note: ScannedNote, edits: Sequence[Edit]) -> str | None:
    """A verb of one person after "they": "they deny fever and reports a cough"."""
    changed = {edit.start for edit in edits}
    objects = {edit.start for edit in edits if edit.text.lower() == "them"}
    for edit in edits:
        if edit.text.lower() != "they":
            continue
        _, last = note.sentence(edit.start)
        if _PATIENT_OPENS.match(note.text, note.opening(edit.start)):
            continue  # "the patient says that they have pain, but denies fever"
        if _SUBORDINATE.search(note.text, max(0, edit.start - 10), edit.start):
            comma = note.text.find(",", edit.end, last)
            last = comma if comma >= 0 else last  # "it eases when she sits, but does not go"
        turned = _TURNED.search(note.text, max(0, edit.start - 10), edit.start)
        if turned and not {turned.start("verb"), _next_word(note.text, edit.end)} & changed:
            return f"'{turned['verb']}' before they"
        far = _far_verb(note.text, edit.end, last, changed)
        if far:
            return f"'{far}' after they"
        concluded = _CONCLUDED.search(note.text, edit.end, last)
        if concluded and concluded.start("verb") not in changed:
            return f"'{concluded['verb']}' after they"
        for match in _VERB.finditer(note.text, edit.end, last):
            if match["verb"].lower() not in known_verbs() or _is_done_to(note.text, edit.end, match, objects):
                continue
            if match.start("verb") not in changed and not _is_of_thing(note.text, edit.end, match):
                return f"'{match.group('verb')}' after they"
    return None


def _is_done_to(text: str, start: int, match: re.Match[str], objects: Container[int]) -> bool:
    """Whether a verb is that of a thing which does something to the patient."""
    if match["verb"].lower() not in _DOES_TO or _next_word(text, match.end()) not in objects:
        return False
    return _RELATIVE.search(text, start, match.start()) is not None


def _is_of_thing(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether a verb is that of a thing, or of who is told of right before it: "says that the pain comes and goes"."""
    if match["verb"] == "goes" and text[: match.start()].endswith("comes "):
        return True
    if re.search(rf"\bthat\s+{match['verb']}\b", text[start : match.start()]):
        return True
    if _WHO_IS.search(text, start, match.start()):
        return True
    if _OF_WHOM.search(text, start, match.start()):
        return not match.group().startswith(",")
    return _OF_PAIN.search(text, start, match.start()) is not None and _PAIN_IS.match(text, match.end()) is not None


def odd_owner(note: ScannedNote, edits: Sequence[Edit]) -> str | None:
    """A "hers" that nothing before it explains, as in "hers both knees", for a slip of the pen."""
    for edit in edits:
        if edit.text.lower() in ("hers", "theirs") and not _OWNED_BY.search(
            note.text, max(0, edit.start - 12), edit.start
        ):
            return f"'{note.text[edit.start : edit.end]}' without a thing"
    return None


def _far_verb(text: str, start: int, last: int, changed: Container[int]) -> str | None:
    """A verb of one person that stands away from "they": "they on most mornings has chills"."""
    between = BETWEEN.match(text, start, last)
    gap = _GAP.match(text, between.end() if between else start, last)
    if gap is None:
        return None
    other = OTHER_SUBJECT.search(text, gap.end(), last)
    verb = _ONE_DOES.search(text, gap.end(), other.start() if other else last)
    if verb is None or verb.start() in changed:
        return None
    return verb.group()


def _next_word(text: str, end: int) -> int:
    """Where the word after a position starts."""
    match = _WORD.match(text, end)
    return match.end() if match else end
