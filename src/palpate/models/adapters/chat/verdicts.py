"""AnswerReading a whole answer for a choice such as yes or no.

A choice counts where it is said, not where its word occurs. The answer is cut into clauses at punctuation and line
breaks; a clause says a choice if it ends with it ("so yes", "the answer is no") and neither denies it ("I cannot say
yes") nor reports it ("the patient said no") nor names another ("yes or no"). "Yes" also counts at the beginning of the
answer, and "no" before a word such as "the" or "because": "No evidence" says nothing. All clauses must agree, unless
one states the final answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

_THOUGHT = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_TRAILING_THOUGHT = re.compile(r"\A.*</(?:think|thinking|reasoning)>", re.DOTALL | re.IGNORECASE)
_MARKS = re.compile(r"[*_`#>|~$]+|\\boxed|\\text")
_CLAUSE = re.compile(
    r"[.!?;:,()\[\]{}\"“”„«»\n\r]+|(?<!\w)'|'(?!\w)|\s[-–—]+\s|[–—]+|->|=>|→|⇒"
    r"|\b(?:because|since|given|based on|due to|weil|denn|parce que)\b",
    re.IGNORECASE,
)
_FINAL = re.compile(
    r"\b(?:final|overall|so|therefore|thus|hence|conclusion|verdict|in (?:summary|short|conclusion))\b[\w\s]*\Z"
    r"|\b(?:my|the|final) (?:final )?(?:answer|verdict|prediction|conclusion)\b[\w\s]*\Z|\banswer\Z|\bantwort\Z"
    r"|\bréponse\Z|\brespuesta\Z|\brisposta\Z",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"\b(?:not|cannot|never|neither|nor|unable|without|hardly|whether|if|unless|said|says|stated|reported|replied|"
    r"denied|denies|asked|either|nicht|kein|keine|keinen|weder|ob|pas|ne|ni|si|niet|geen|nem|ikke)\b|n['’]t\b",
    re.IGNORECASE,
)
_BEFORE_A_SENTENCE = frozenset(
    "the this that there these those he she it they i we you because since as based patient his her its their".split()  # noqa: SIM905
)
_NAMES_A_LETTER = re.compile(r"\b(?:is|answer|option|choice)\Z", re.IGNORECASE)
_LONGEST_LEAD = 4
"""Words of the clause before a choice in which a conclusion is looked for."""
_JOINS = frozenset("and or but if unless no not nor yes und oder et ou y o e maybe perhaps".split())  # noqa: SIM905


class Unreadable(Exception):
    """The message says why, without the answer."""


class _Said(NamedTuple):
    value: float
    final: bool


def without_thoughts(answer: str) -> str:
    """The answer without what a model writes while it thinks; one that never ends leaves nothing."""
    return _TRAILING_THOUGHT.sub("", _THOUGHT.sub("", answer))


def read_choice(answer: str, choices: Mapping[str, float]) -> float:
    """The probability of the choice that an answer makes.

    >>> read_choice("No evidence of pneumonia, so: Yes", {"yes": 1.0, "no": 0.0})
    1.0
    """
    plain = _MARKS.sub(" ", answer)
    pattern, values = _pattern(tuple(choices.items()))
    said: list[_Said] = []
    before = ""
    for clause in _CLAUSE.split(plain):
        words = " ".join((clause or "").split())
        if not words:
            continue
        found = _said(words, before, pattern, values)
        if found is not None:
            said.append(found)
        before = words
    final = [each for each in said if each.final]
    verdicts = {each.value for each in final or said}
    if len(verdicts) != 1:
        raise Unreadable(
            f"the answer is neither {' nor '.join(choices)}" if not verdicts else "the answer contradicts itself"
        )
    return verdicts.pop()


@lru_cache(maxsize=64)
def _pattern(choices: tuple[tuple[str, float], ...]) -> tuple[re.Pattern[str], dict[str, float]]:
    """Finds a choice; a single letter counts only as it is written, because "a" is a word."""
    names = sorted((word for word, _ in choices), key=len, reverse=True)
    parts = [re.escape(word) if len(word) == 1 else f"(?i:{re.escape(word)})" for word in names]
    return re.compile(rf"(?<!\w)(?:{'|'.join(parts)})(?!\w)"), {word.casefold(): p for word, p in choices}


def _said(clause: str, before: str, pattern: re.Pattern[str], values: Mapping[str, float]) -> _Said | None:
    """The choice that a clause says; `before` is the clause before it."""
    found = [each for each in pattern.finditer(clause) if not _before_a_noun(each, clause)]
    if len({values[each[0].casefold()] for each in found}) != 1:
        return None
    first, last = found[0], found[-1]
    value = values[last[0].casefold()]
    lead, rest = clause[: last.start()].strip(), clause[first.end() :].split()
    if last.end() == len(clause):
        if _DENIED.search(lead) or (len(last[0]) == 1 and lead and not _NAMES_A_LETTER.search(lead)):
            return None
        return _Said(value, bool(_FINAL.search(lead or " ".join(before.split()[-_LONGEST_LEAD:]))))
    leads = not before and first.start() == 0 and first[0].casefold() in ("yes", "no")
    return _Said(value, final=False) if leads and rest[0].casefold() not in _JOINS else None


def _before_a_noun(word: re.Match[str], clause: str) -> bool:
    """Whether "no" is no answer where it stands: "no evidence"."""
    rest = clause[word.end() :].split()
    return word[0].casefold() == "no" and bool(rest) and rest[0].casefold() not in (*_BEFORE_A_SENTENCE, *_JOINS)
