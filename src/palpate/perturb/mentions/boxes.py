"""Boxes to tick in a note: "Pneumonia [ ]" is not ticked, "[x] Effusion" is.

A box belongs to the words after it where a line starts with one, and to those before it otherwise. Boxes for yes and no
answer what stands before them: "Pneumonia: [ ] yes [x] no". What is not ticked is written as a denied answer.
"""

from __future__ import annotations

import re

_EMPTY = r"\[[ \t_]*\]|\([ \t_]+\)|[☐□]"
_TICKED = r"[\[(][ \t]?[xX✓✔*][ \t]?[\])]|[☑☒✓✔]"
_BOX = re.compile(rf"(?P<empty>{_EMPTY})|(?P<ticked>{_TICKED})")
_YES = re.compile(r"\W*(?:yes|y|present|pos(?:itive)?|true)\b[\s.,;:/]*", re.IGNORECASE)
_NO = re.compile(r"\W*(?:no|n|none|absent|neg(?:ative)?|false)\b[\s.,;:/]*", re.IGNORECASE)
_LAST_ANSWER = re.compile(r"[\s:,-]*\b(?:yes|y|present|no|n|none|absent)\s*$", re.IGNORECASE)


def without_boxes(part: str, denied: str) -> str:
    """A paragraph in which ticked boxes are gone, and what is not ticked is followed by `denied`."""
    if _BOX.search(part) is None:
        return part
    return "\n".join(_line(line, denied) if _BOX.search(line) else line for line in part.split("\n"))


def _line(line: str, denied: str) -> str:
    boxes = list(_BOX.finditer(line))
    ticked = [box.group("ticked") is not None for box in boxes]
    starts = [0, *(box.end() for box in boxes)]
    ends = [*(box.start() for box in boxes), len(line)]
    texts = [line[start:end].strip(" \t") for start, end in zip(starts, ends, strict=True)]
    lead, rest = texts[0], texts[1:]
    if lead and all(_YES.fullmatch(text) or _NO.fullmatch(text) for text in rest):
        answers = [(text, tick) for text, tick in zip(rest, ticked, strict=True)]
        return _answered(lead, answers, denied)
    if _LAST_ANSWER.search(lead) and len(boxes) > 1 and (_YES.fullmatch(rest[0]) or _NO.fullmatch(rest[0])):
        asked = _LAST_ANSWER.sub("", lead)
        answers = list(zip([lead[len(asked) :], *rest], ticked, strict=False))
        return _answered(asked, answers, denied)
    if not re.search(r"\w", lead):  # the boxes stand before what they are for
        items = list(zip(rest, ticked, strict=True))
    elif re.search(r":\s*$", lead):
        items = [(lead, True), *zip(rest, ticked, strict=True)]
    else:
        items = [*zip(texts, ticked, strict=False), (texts[-1], True)]
    return " ".join(f"{text}." if tick else f"{text} {denied}." for text, tick in items if text)


def _answered(asked: str, answers: list[tuple[str, bool]], denied: str) -> str:
    """What is asked, denied unless "yes" is ticked."""
    affirmed = any(tick and _YES.fullmatch(text) for text, tick in answers)
    return f"{asked.rstrip(' :,-')}." if affirmed else f"{asked.rstrip(' :,-')} {denied}."
