"""The stages of a life (stages.yaml): what a note tells of somebody young, in the middle of life, or old.

The rows are like those of life.yaml, but less strict: hardly anybody of another age would be spoken of so. The second
reader asks for them. Signs that are possible at any age count together, the fewer the further the note is from youth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from palpate.files import read_resource
from palpate.perturb.characteristics.age.life import OLDEST, AgeLimit, LifeFact, facts_of, read_fact
from palpate.perturb.characteristics.reading import ScannedNote

_FILE = "stages.yaml"
_LITTLE = 5
"""So many years more or less are no other stage."""


class AgePicture(NamedTuple):
    """Signs that are possible at any age, but hardly all at once: how many of them make which limit."""

    kind: str
    steps: tuple[tuple[int, int, int, int], ...]
    """From which age of the note on how many signs tell the lowest and the highest age."""
    youngest: int
    oldest: int
    """The ages of a note that may have such a picture."""
    signs: Mapping[str, tuple[tuple[int, LifeFact], ...]]
    """By word: the number of the sign, and what must be around the word."""


@cache
def _pictures() -> tuple[AgePicture, ...]:
    found = []
    for row in read_resource("palpate.perturb.characteristics.age", "stages.yaml")["pictures"]:
        signs: dict[str, list[tuple[int, LifeFact]]] = {}
        for number, sign in enumerate(row["signs"]):
            for word in sign["words"]:
                signs.setdefault(word, []).append((number, read_fact(sign)))
        steps = tuple((start, least, low, high) for start, least, low, high in row["steps"])
        by_word = {word: tuple(facts) for word, facts in signs.items()}
        found.append(AgePicture(row["kind"], steps, row.get("from", 0), row.get("until", OLDEST), by_word))
    return tuple(found)


def stage_words() -> dict[str, tuple[str, ...]]:
    """The words to scan for, by tag."""
    signs = {word for picture in _pictures() for word in picture.signs}
    return {"sure:stage": tuple(facts_of(_FILE)), "sure:sign": tuple(sorted(signs))}


def stage_limits(note: ScannedNote, present: int) -> Iterator[AgeLimit]:
    """The limits that the stage of life sets to the age; `present` is the one that the note gives."""
    facts = facts_of(_FILE)
    for hit in note.hits("sure:stage"):
        for fact in facts[hit.word]:
            if fact.is_told(note, hit):
                near = fact.near
                low, high = (fact.low, fact.high) if near is None else (present - near, present + near)
                yield AgeLimit(fact.kind, min(low, present - _LITTLE), max(high, present + _LITTLE))
    yield from _told_pictures(note, present)


def _told_pictures(note: ScannedNote, present: int) -> Iterator[AgeLimit]:
    """What several signs together tell of the age."""
    for picture in _pictures():
        if not picture.youngest <= present <= picture.oldest:
            continue
        told: set[int] = set()
        for hit in note.hits("sure:sign"):
            told |= {
                number
                for number, fact in picture.signs.get(hit.word, ())
                if number not in told and fact.is_told(note, hit)
            }
        for start, least, low, high in picture.steps:
            if present >= start and len(told) >= least:
                yield AgeLimit(picture.kind, low, high)
