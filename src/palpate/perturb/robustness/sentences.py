"""Sentences added or taken away: a denial, or something that has nothing to do with the patient.

An added denial names a finding that the note does not speak of; it must not raise a risk. A removed one leaves a note
that says less; that must not lower a risk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from palpate.cases.edits import Edit
from palpate.perturb.robustness.reading import Rng, WrittenNote, lexicon

_PARAGRAPH_END = re.compile(r"[.!?](?=[ \t]*(?:\n|\Z))")
_DENIES = re.compile(r"(?i)\b(?:denies|denied|no|negative for|without)\b")
_HEADINGS = (
    re.compile(r"(?i)\b(?:review of systems|ros)\b[:\s]"),
    re.compile(r"(?i)\b(?:history of (?:the )?present(?:ing)? illness|hpi|interval history|subjective)\b[:\s]"),
)
"""Where findings are denied, the best place first."""


@cache
def _findings() -> tuple[tuple[str, tuple[tuple[str, re.Pattern[str]], ...]], ...]:
    """A finding, and the beginnings of words that say that a note speaks of it already."""
    return tuple(
        (entry["finding"], tuple((start, re.compile(rf"\b{re.escape(start)}")) for start in entry["mentioned"]))
        for entry in lexicon("sentences")["findings"]
    )


def _speaks_of(note: WrittenNote, starts: tuple[tuple[str, re.Pattern[str]], ...]) -> bool:
    return any(start in note.lower and pattern.search(note.lower) for start, pattern in starts)


def denial_added(note: WrittenNote, rng: Rng) -> list[Edit] | str:
    """ "No rash." after the last denial of a paragraph, or at its end, where the note says nothing of a rash."""
    place = _place(note)
    if place is None:
        return "no paragraph about the patient that ends with a full stop"
    line = note.text.rfind("\n", 0, place) + 1
    place = max((end for start, end in _denials(note) if line <= start and end <= place), default=place)
    findings = _findings()
    for k in rng.permutation(len(findings)).tolist():
        finding, mentioned = findings[k]
        if not _speaks_of(note, mentioned):
            sentence = f" No {finding}."
            return [Edit(place, place, sentence.upper() if note.shouts(place - 1) else sentence)]
    return "the note speaks of every finding of the lexicon"


@cache
def _somebody_else() -> re.Pattern[str]:
    return re.compile(rf"(?i)\b(?:{'|'.join(lexicon('sentences')['somebody else'])})s?\b")


def _place(note: WrittenNote) -> int | None:
    """After the review of systems, the history, a paragraph that denies something, or any: none about somebody else."""
    text, start, ends = note.text, 0, []
    for match in _PARAGRAPH_END.finditer(text):
        paragraph = text[max(start, text.rfind("\n", 0, match.start()) + 1) : match.end()]
        start = match.end()
        if not _somebody_else().search(paragraph):
            ends.append((match.end(), bool(_DENIES.search(paragraph))))
    for heading in _HEADINGS:
        found = heading.search(text)
        after = [end for end, _ in ends if found is not None and end > found.end()]
        if after:
            return after[0]
    return next((end for end, denies in ends if denies), ends[0][0] if ends else None)


def irrelevant_added(note: WrittenNote, rng: Rng) -> list[Edit] | str:
    """A sentence about parking or the weather at the end of the note."""
    text = note.text.rstrip()
    if not text:
        return "the note is empty"
    sentences = lexicon("sentences")["irrelevant"]
    sentence = sentences[int(rng.integers(len(sentences)))]
    if note.shouts(len(text) - 1):
        sentence = sentence.upper()
    joint = "\n" if "\n" in text else " " if re.search(r"[.!?:;][\"'”’)\]]*\Z", text) else ". "
    return [Edit(len(text), len(text), f"{joint}{sentence}")]


_SENTENCE = re.compile(
    r"(?:(?:(?<=[.!?;] )|(?<=[.!?]  )|(?<=\n)|\A)[ \t]*(?=[A-Z])|(?<=[a-z]{3}[.!?] )(?=[a-z]))"
    r"([A-Za-z][^.!?;\n]{4,160})\.(?=[ ]|\n|\Z)"
)
"""A sentence may open with a small letter after one that ends with a whole word: "crackles at the bases. no edema."."""


_ABBREVIATED = re.compile(r"\b(?:Dr|Drs|Mr|Mrs|Ms|St|vs|approx|etc|(?<!/)[A-Z])\Z")
_GOES_ON = re.compile(
    r"\s*(?:However|But|Also|This|These|That|Those|Otherwise|Though|Although|Still|Nor|Neither|It|They)\b"
)
"""A sentence that goes on from the one before it."""
_HEADING = re.compile(r"(?:\A|[.!?;])\s*[\w/&-]+[.!?]\Z")
"""A sentence of one word is the heading of what follows it: "Resp. no distress."."""


@cache
def _denial() -> tuple[re.Pattern[str], re.Pattern[str]]:
    own = lexicon("sentences")
    cues = "|".join(re.escape(cue) for cue in sorted(own["denials"], key=len, reverse=True))
    more = "|".join(re.escape(word) for word in own["not only"])
    return re.compile(rf"(?:{cues})\b", re.IGNORECASE), re.compile(rf"\b(?:{more})\b", re.IGNORECASE)


def _denials(note: WrittenNote) -> Iterator[tuple[int, int]]:
    """The sentences that deny findings of the patient, and say nothing else."""
    cue, more = _denial()
    for match in _SENTENCE.finditer(note.text):
        sentence = match.group(1)
        if not cue.match(sentence) or more.search(sentence) or any(c.isdigit() for c in sentence):
            continue
        if _ABBREVIATED.search(sentence) or _GOES_ON.match(note.text, match.end()):
            continue
        before = note.text[note.text.rfind("\n", 0, match.start(1)) + 1 : match.start(1)]
        if not _somebody_else().search(f"{before} {sentence}"):
            yield match.start(1), match.end()


def denial_removed(note: WrittenNote, rng: Rng) -> list[Edit] | str:
    """One sentence that denies findings, and says nothing else, taken away."""
    found = []
    for start, end in _denials(note):
        before = note.text[note.text.rfind("\n", 0, start) + 1 : start].strip()
        after = note.text[end : _line_end(note.text, end)].strip()
        # Nothing may be left behind that only makes sense with it: a heading, a bullet, a list.
        if (before and before[-1] in ".!?" and not _HEADING.search(before)) or (not before and after and start > 0):
            found.append((start, end))
    if not found:
        return "no sentence that denies findings and nothing else"
    start, end = found[int(rng.integers(len(found)))]
    if note.text[end : end + 1] == " ":
        end += len(note.text[end:]) - len(note.text[end:].lstrip(" "))
    else:
        start -= len(note.text[:start]) - len(note.text[:start].rstrip(" "))
    return [Edit(start, end, "")]


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end
