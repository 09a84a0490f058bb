"""What stands around an edit: a word goes where clinicians put it, and what is taken out leaves a sentence behind."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from palpate.cases.edits import Edit
from palpate.perturb.characteristics.gender.places import IN_A_ROLE, TRADE


class AlteredTo(NamedTuple):
    """What the first reader found of a characteristic, and the edits that alter the note to a group."""

    name: str
    group: str
    found: Any
    edits: Sequence[Edit]


_PERSON = (
    r"(?:(?:wo)?man|(?:fe)?male|fe[\s-]male|gentleman|lady|boy|girl|patient|pt|person|individual|adult|youth|infant|child|"
    + TRADE
    + r"|widow(?:er|ed)?|(?:RH|LH|AA|[WBHC])*[MF]|[RL]HD?[MFW]|(?:aa|w|b)/?[mf]|\d{1,3}|[MF]/\d+|_{2,}|\[\*\*|"
    r"latin[oa]|filipin[oa])"
)
_DESCRIBES = re.compile(rf"(?:(?![.;:])[\w'’/+-]+[\s,]+){{0,4}}?{_PERSON}(?![A-Za-z])", re.IGNORECASE)
"""What comes after an adjective: "pleasant 63-year-old man", "63M"."""
_GOES_ON = re.compile(
    r"\s*(?:$|[.,;:)(\n\]/&+-]|(?:and|or|but|with|w|who|whom|whose|in|on|at|to|for|of|from|by|that|which|since|after|before|as|when|"
    r"while|because|due|during|per|until|than|is|was|has|had|are|were|will|presents?|presented|presenting|here|status|s/p|c/o|p/w|"
    r"h/o|hx|admitted|seen|found|brought|alone|independently|locally|currently|now|today|recently|complaining|came|comes|reports?|"
    r"denies|states?|he|she|they|his|her|their|the|a|an|no|not|x|BIB\w*|BIBA|PMHx?|known|referred|sent|having|being|also|never|both)\b)",
    re.IGNORECASE,
)
_TIED = re.compile(
    r"\s*(?:descent|origin|heritage|ancestry|background|extraction|parents?|family|community|village|park|estate|complex|unit|"
    r"building|facility|speaking|born|refugee|immigrant)\b",
    re.IGNORECASE,
)
"""What belongs to a word that was taken out: "Irish descent", "retirement village"."""
_AFTER_NAME = re.compile(r" \((?:transgender (?:wo)?man|non-binary)\)$", re.IGNORECASE)
_AGE_NEXT = re.compile(r"\s+\d\d\s?y", re.IGNORECASE)
""" "Mr Grant (transgender man) 58 yo"."""
_SENTENCE = re.compile(r"(?:(?:s?he) is transgender|they are non-binary)\. $", re.IGNORECASE)
""" "She is transgender. She has three children"."""
_NEUTRAL = re.compile(r"non-binary (?:person|youth)$", re.IGNORECASE)


def odd_place(text: str, edits: Sequence[Edit]) -> str | None:
    """Why a reader would stumble over an edit; None if all of them are at usual places."""
    for edit in edits:
        if edit.start == edit.end and edit.text.endswith(" ") and not edit.text.startswith((" ", "\n")):
            if not (_SENTENCE.match(edit.text) or _DESCRIBES.match(text, edit.end, min(len(text), edit.end + 80))):
                return "a word at an unusual place"
        elif not edit.text.strip() and edit.end > edit.start:
            if _TIED.match(text, edit.end) or not (_GOES_ON.match(text, edit.end) or _describes_on(text, edit)):
                return "what is left of a sentence"
        elif _AFTER_NAME.match(edit.text) and not (_GOES_ON.match(text, edit.end) or _AGE_NEXT.match(text, edit.end)):
            return "a word in a name"
        elif (edit.text == "person" and text[edit.start - 1 : edit.start] == "(") or (
            _NEUTRAL.search(edit.text) and IN_A_ROLE.match(text, edit.end)
        ):
            return "what follows the word for the patient"
    return None


def _describes_on(text: str, edit: Edit) -> bool:
    """Whether another word for the patient follows what was taken out: "[Hispanic ]female"."""
    start = edit.end + (text[edit.end : edit.end + 1] == " ")
    return _DESCRIBES.match(text, start, min(len(text), start + 80)) is not None
