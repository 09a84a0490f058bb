"""Facts in a note that only some ages allow: a pregnancy, retirement, grandchildren, the ages of relatives, childhood.

The facts are in life.yaml. Each gives the lowest and the highest age that fit it. A fact that the note's own age does
not fit is ignored: it is then not about the patient, or the note contradicts itself already.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from palpate.files import read_resource
from palpate.perturb.characteristics.reading import Hit, ScannedNote
from palpate.perturb.characteristics.reading.people import CHILDREN, DENIALS, PARENTS, belongs_to_patient

OLDEST = 200
CHILDBEARING = 49
"""The oldest age that a pregnancy gets. A note of an older woman keeps the limit of its fact."""
_FATHERS = 60
"""Facts with a higher limit are told of fathers too."""
_CHILD_GAP = 13
"""The fewest years between a parent and a child."""
_DENIED = re.compile(
    rf"\b(?:{DENIALS}|unlikely|if|could|might|whether|possib\w+|negative|rule\s+out|"
    r"r/o|risks?|avoid|prevent|\w+n['’]t)\b[^.;:(]{0,60}$",
    re.IGNORECASE,
)
_AGES = re.compile(
    r"(?:[^.;:\n\d]|\b[1-9]\b){0,40}?\b(?:(?:ages?|aged)\s+(?:of\s+|is\s+|at\s+)?|(?:is|are)\s+(?:now\s+)?(?=\d\d\s*(?:[.;)]|,\s+[a-z]|and\s+\d\d\s*[.;]|$))|"
    r"(?=\d\d[\s-]?(?:y|and\s+\d\d[\s-]?y)))"
    r"(?P<one>\d\d)\b(?:\s*(?:,|and|&|,\s*and)\s*(?P<two>\d\d)\b)?",
    re.IGNORECASE,
)
_AGED = re.compile(r"\b(?P<one>\d\d)[\s-]*(?:y(?:ea)?rs?[\s-]*old|y\.?/?o\.?)\s+(?:[a-z]+\s+)?$", re.IGNORECASE)
"""The 35 of "35 yo son"."""
_LIVING = re.compile(
    r"(?:\s+is|\s+alive|\s+living|,|\s*\(|\s*:)(?:\s*(?:is|alive|living|and|well|at|now|currently|age|aged|the|of|still)\b,?)*"
    r"\s*(?P<age>\d\d)(?=\s*(?:[.,;)]|y|and\b|with\b|$))",
    re.IGNORECASE,
)
_ALIVE = re.compile(
    r"[^.;\n]{0,40}?\b(?:alive|living)\b(?:\s*(?:and|well|at|now|currently|age|aged|still|,))*\s*(?P<age>\d\d)\b",
    re.IGNORECASE,
)
_DEAD = re.compile(r"\b(?:died|deceased|passed|death|dead|late|diagnosed|onset)\b", re.IGNORECASE)
_OF_ANOTHER = re.compile(
    r"(?:[a-z]\s?['’]s|\b(?:maternal|paternal|grand|step|sister|brother|husband|wife)['’]?s?)\s+$", re.IGNORECASE
)
_TURNS = re.compile(r"\s+(?P<age>\d\d)(?=\s*(?:[.,;)]|in\b|on\b|this\b|next\b|later\b|soon\b|tomorrow\b|$))")
_BIRTHDAY = re.compile(r"(?P<age>\d\d)(?:st|nd|rd|th)\s+$")


class AgeLimit(NamedTuple):
    """A fact, and the lowest and highest age that fit it."""

    kind: str
    low: int
    high: int = OLDEST


@dataclass(frozen=True)
class LifeFact:
    """A row of life.yaml or stages.yaml."""

    kind: str
    low: int
    high: int
    near: int | None
    """How far from the age that the note gives; None if the ages are fixed."""
    before: re.Pattern[str] | None
    after: re.Pattern[str] | None
    not_before: re.Pattern[str] | None
    not_after: re.Pattern[str] | None
    of_kin: bool
    if_denied: bool

    def is_told(self, note: ScannedNote, hit: Hit) -> bool:
        """Whether the note says so at this word, of the patient, without denying it."""
        text, (first, last) = note.text, note.sentence(hit.start)
        low, high = max(first, hit.start - 80), min(last, hit.end + 90)
        if self.before and not self.before.search(text, low, hit.start):
            return False
        if self.after and not self.after.match(text, hit.end, high):
            return False
        if self.not_before and self.not_before.search(text, low, hit.start):
            return False
        if self.not_after and self.not_after.match(text, hit.end, high):
            return False
        if not self.if_denied and _DENIED.search(text, low, hit.start):
            return False
        return self.of_kin or belongs_to_patient(note, hit.start, hit.end)


def read_fact(row: Mapping[str, Any]) -> LifeFact:
    """A fact as the file gives it."""
    low, high = row.get("ages", (0, OLDEST))
    before, after, not_before, not_after = (
        re.compile(row[key], re.IGNORECASE) if key in row else None
        for key in ("before", "after", "not_before", "not_after")
    )
    of_kin, if_denied = row.get("of") == "kin", row.get("denied") == "counts"
    kind, near = row.get("kind", "a sign"), row.get("near")
    return LifeFact(kind, low, high, near, before, after, not_before, not_after, of_kin, if_denied)


@cache
def facts_of(file: str = "life.yaml") -> dict[str, tuple[LifeFact, ...]]:
    """The facts by word."""
    found: dict[str, list[LifeFact]] = {}
    for row in read_resource("palpate.perturb.characteristics.age", file)["facts"]:
        fact = read_fact(row)
        for word in row["words"]:
            found.setdefault(word, []).append(fact)
    return {word: tuple(facts) for word, facts in found.items()}


@cache
def _childhood() -> dict[str, int]:
    """By word, the highest age at which a patient who is called a child may be described so."""
    told = read_resource("palpate.perturb.characteristics.age", "life.yaml")["childhood"]
    return {**dict.fromkeys(told["words"], told["until"]), **dict.fromkeys(told["parents"], told["parents_until"])}


def life_words() -> dict[str, tuple[str, ...]]:
    """The words to scan for, by tag."""
    return {
        "life_fact": tuple(facts_of()),
        "childhood": tuple(_childhood()),
        "kin_age": (*CHILDREN, *PARENTS),
        "turns": ("turns", "turning", "birthday"),
    }


def life_limits(note: ScannedNote, present: int | None, *, child: bool = False) -> list[AgeLimit]:
    """The limits that a note sets to the patient's age; `present` is the age that it gives, `child` that it has one."""
    found = [*_told_facts(note), *_ages_of_kin(note), *_next_birthday(note)]
    if child if present is None else present < 18:
        found += _childhood_limits(note)
    return [limit for limit in found if present is None or limit.low <= present <= limit.high]


def _told_facts(note: ScannedNote) -> Iterator[AgeLimit]:
    facts = facts_of()
    for hit in note.hits("life_fact"):
        for fact in facts[hit.word]:
            if fact.is_told(note, hit):
                yield AgeLimit(fact.kind, fact.low, fact.high)
                if fact.kind == "a pregnancy" and fact.high < _FATHERS:
                    yield AgeLimit(fact.kind, fact.low, CHILDBEARING)


def _ages_of_kin(note: ScannedNote) -> Iterator[AgeLimit]:
    """The patient is older than his or her children, and younger than parents who are alive."""
    text = note.text
    for hit in note.hits("kin_age"):
        first, last = note.sentence(hit.start)
        if _OF_ANOTHER.search(text, max(first, hit.start - 24), hit.start):
            continue
        if hit.word in PARENTS:
            match = _LIVING.match(text, hit.end, min(last, hit.end + 60)) or _ALIVE.match(text, hit.end, last)
            if match and not _DEAD.search(text, max(first, hit.start - 20), min(last, match.end() + 40)):
                yield AgeLimit("a parent's age", 0, int(match.group("age")) - _CHILD_GAP)
            aged = _AGED.search(text, max(first, hit.start - 24), hit.start)
            if aged and not _DEAD.search(text, first, last):
                yield AgeLimit("a parent's age", 0, int(aged.group("one")) - _CHILD_GAP)
            continue
        match = _AGES.match(text, hit.end, min(last, hit.end + 80))
        if match:
            oldest = max(int(age) for age in (match.group("one"), match.group("two")) if age)
            yield AgeLimit("a child's age", oldest + _CHILD_GAP)
        aged = _AGED.search(text, max(first, hit.start - 24), hit.start)
        if aged:
            yield AgeLimit("a child's age", int(aged.group("one")) + _CHILD_GAP)


def _next_birthday(note: ScannedNote) -> Iterator[AgeLimit]:
    """She turns 90 this month; her 75th birthday."""
    for hit in note.hits("turns"):
        if hit.word == "birthday":
            match = _BIRTHDAY.search(note.text, max(0, hit.start - 8), hit.start)
        else:
            match = _TURNS.match(note.text, hit.end, hit.end + 20)
        if match and belongs_to_patient(note, hit.start, hit.end):
            age = int(match.group("age"))
            yield AgeLimit("a coming birthday", age - 1, age + 1 if hit.word != "birthday" else OLDEST)


def _childhood_limits(note: ScannedNote) -> Iterator[AgeLimit]:
    until = _childhood()
    for hit in note.hits("childhood"):
        if not note.in_family(hit.start):
            yield AgeLimit("a childhood", 0, until[hit.word])
