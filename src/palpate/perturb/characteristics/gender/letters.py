"""The letters M and F that give the patient's gender, other than those directly at an age as in "63M" or "63 yo F".

After the unit of an age: "63yof", "63 y.o.f.", "63 yo wf", "63 yo CM", "63 y/oF", "63-year-old-female". Beside a bare
number: "63y/M", "63 y (M)", "M/63", "63m w/ DM". After an adjective or a title: "elderly F found", "Mrs. Clark, 79F".
Of letters that include an ethnicity ("wf", "AAM") only the one for the gender is meant.
"""

from __future__ import annotations

import re

from palpate.perturb.characteristics.reading.ages import HANDED_WORDS
from palpate.perturb.characteristics.reading.patient import DescribedPatient
from palpate.perturb.characteristics.reading.people import NOUNS, belongs_to_patient

TRIGGERS = ("m", "f", "y", *HANDED_WORDS)
"""The words to scan for."""
_AFTER_AGE = re.compile(
    r"(?P<near>[-.\s]?(?P<a>[MFmf])|\s+(?:aa|[wbc]|h(?=m))/?(?P<b>[MFmf])|\s?(?-i:[RL]H(?:AA|[WBHC])?/?(?P<d>[MFW]))|\s?[rl]h(?P<e>[mf])|-(?P<c>"
    + "|".join(NOUNS)
    + r"))"
    r"(?![\w'’/-])(?!\s+(?:patient|pt)\b)",
    re.IGNORECASE,
)
_YEARS = r"(?<![\w.$%+*#/:-])(?:1[89]|[2-9]\d|10\d)"
_RIGHT = (
    r"(?=\.?(?:\s*$|\s*\n)|[,;]?\s+(?:with\b|w/|who\b|h/o\b|hx\b|s/p\b|p/w\b|presents?\b|presenting\b|presented\b|c/o\b|"
    r"admitted\b|transferred\b|here\b|found\b|status\b|smoker\b|brought\b|BIB|PMHx?\b|on\b|now\b|was\b|seen\b|a/w\b|"
    r"complaining\b|in\s+(?:NAD|no)\b|from\b|NAD\b|[a-z]+ly\s|alert\b|comfortable\b|anxious\b|appears\b|looks\b|not\s+in\b))"
)
_SLASHED = re.compile(
    rf"{_YEARS}\s?(?:(?:y|yo|yrs?)\s?/\s?(?P<a>[MF])|y\s?[./]\s?o\.?(?P<b>[MF])|(?:yo|yrs?|y)\s?\((?P<c>[MF])\))(?![\w'’/])"
)
_BEFORE_YEARS = re.compile(rf"(?<![\w/])(?P<a>[MF])\s?/\s?(?:1[89]|[2-9]\d)(?:\s?(?:yo|y/o|y)\b)?{_RIGHT}")
_LEADING = re.compile(r"[\s\-*•#]*(?P<a>[MF])[,\s]\s*(?:aged?\s+)?$")
_SMALL = re.compile(rf"{_YEARS}\s?(?P<a>[mf])(?![\w'’/+-]){_RIGHT}")
_LEFT = re.compile(r"(?:\b(?:is|an?|this|pt|patient|HPI|ID|CC)\s*:?|[:(#])\s*$", re.IGNORECASE)
_ADJECTIVE = re.compile(
    rf"\b(?:elderly|young|obese|middle[\s-]aged|frail|thin|cachectic|pleasant|healthy|white|black|caucasian|hispanic|asian)\s+"
    rf"(?P<a>[MF])(?![\w'’/+-]){_RIGHT}",
    re.IGNORECASE,
)
_RISK = re.compile(r"\bRFs?\s*[:=]\s*(?:[\w /+-]+,\s*){0,3}(?P<a>[MF])(?=\s*[,;.\n]|$)")
"""A sex among risk factors: "RFs: F, repetitive work"."""
_TITLED = re.compile(
    r"\b(?:Mr|Mrs|Ms|Miss)\.?\s+(?:[A-Z][\w'’-]+|_{2,}|\[\*\*[^\]]*\])(?:\s+[A-Z][\w'’-]+)?,?\s+\(?\d{2,3}\s?(?P<a>[MF])"
    r"(?![\w'’/+-])"
)
_BACK = 48
"""How far before a letter a title may be."""


def find_letters(patient: DescribedPatient) -> list[tuple[int, int]]:
    """The spans of the letters (and of a noun after a hyphen), in order."""
    note, text = patient.note, patient.note.text
    spans: list[tuple[int, int]] = []
    for age in patient.own_ages:
        match = _AFTER_AGE.match(text, age.tail) if age.style != "decade" and age.tail > age.end else None
        if match and age.sex is None and not _is_else(match):
            spans.append(_span(match))
        first, _ = note.sentence(age.start)
        leading = _LEADING.match(text, max(first, age.start - 12), age.start)
        if leading and not text[first : leading.start()].strip():
            spans.append(leading.span("a"))
    for age in patient.odd_ages:
        match = _AFTER_AGE.match(text, age.tail) if age.style != "decade" and age.tail > age.end else None
        if age.sex:
            spans.append(age.sex)
        elif match and not _is_else(match):
            spans.append(_span(match))
    for hit in note.hits("letter"):
        found = _bare(patient, hit.start, hit.end)
        if found and belongs_to_patient(note, found.start(), found.end()):
            spans.append(_span(found))
    return sorted(dict.fromkeys(spans))


def _bare(patient: DescribedPatient, start: int, end: int) -> re.Match[str] | None:
    """A letter that is not at an age that was found."""
    note, text = patient.note, patient.note.text
    first, last = note.sentence(start)
    slashed = _SLASHED.search(text, max(first, start - 8), min(len(text), end + 6))
    if slashed and slashed.start() <= start < slashed.end():
        return slashed
    if text[start:end] not in ("m", "f", "M", "F"):
        return None
    if text[start].islower():
        small = _SMALL.search(text, max(first, start - 5), min(len(text), end + 20))
        plain = small and small.end() == end and _is_patients(text, first, small)
        return small if plain else None
    opening = _BEFORE_YEARS.match(text, start, min(len(text), end + 30))
    if opening and (not text[first:start].strip(" \t\n-*•#") or _LEFT.search(text, max(first, start - 12), start)):
        return opening
    for pattern in (_ADJECTIVE, _TITLED, _RISK):
        found = pattern.search(text, max(first, start - _BACK), min(last, end + 20))
        if found and found.start("a") == start:
            return found
    return None


def _is_patients(text: str, first: int, match: re.Match[str]) -> bool:
    """Whether the letter is the patient's, unlike "101 f with chills" or "63 m walked"."""
    opens = not text[first : match.start()].strip(" \t\n-*•#")
    warm = match.group("a") == "f" and 94 <= int(match.group()[:3].rstrip("mf ")) <= 108
    return not warm and (opens or bool(_LEFT.search(text, max(first, match.start() - 12), match.start())))


def _is_else(match: re.Match[str]) -> bool:
    """ "63 years old. F" and a new line start something else; CF may be cystic fibrosis."""
    near, text = match.group("near"), match.string
    if near.strip().lower() == "cf" and "cystic" in text.lower():
        return True
    return "\n" in near or (near[:1] == "." and text[match.start() - 1 : match.start()] == "d")


def _span(match: re.Match[str]) -> tuple[int, int]:
    name = next(name for name, value in match.groupdict().items() if value and name != "near")
    return match.span(name)
