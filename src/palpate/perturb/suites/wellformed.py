"""Is every text of a suite a well-formed sentence? Checks each value in each position, not all combinations.

What can go wrong in a text depends on a variation's fixed pieces and, one at a time, on the values between them:
spacing, a/an, the capital at the start of a sentence, the final mark, brackets. So every variation is written with
every value of every slot once, while the other slots keep their first value; that covers each boundary between a piece
and a value.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from palpate.perturb.suites.expansion import Unit
from palpate.perturb.suites.patterns import Flat
from palpate.perturb.suites.suite import Suite

SEAM = 16
FREE = "free_form"
"""The tag of templates that break the rules of writing on purpose; only their spacing is checked."""

_SPACING = re.compile(r"  |^\s|\s$|\s[,.;:!?)]|\(\s|[\n\t\r]")
_SENTENCE_START = re.compile(r"(?:^|(?<=[.!?] ))([^\s])")
_ABBREVIATED = re.compile(r"(?:Dr|Mr|Mrs|Ms|vs|approx|No|St)\. $")
_ARTICLE = re.compile(r"\b([Aa]n?) (\w+)")
_AN_SOUND = re.compile(r"(?:hour|honest|heir|[aeio]|u(?!ni(?![mn])|ri|s[aeiu]|ro|ti[lo])|8|11\b|18\b)", re.IGNORECASE)
_LETTERS_AN = re.compile(r"[AEFHILMNORSX](?:[A-Z0-9]|\b)")
_DOUBLED = re.compile(r"\b([^\W\d]+) \1\b")
_FINAL = re.compile(r"[^.!?,;:…][.!?]$")
_INNER_START = re.compile(r"[.!?] (\S)")
_BAD_SPACING = ("  ", "\t", "\r", " \n", "\n ", " )", "( ", *(f" {mark}" for mark in ",.;:!?"))


class Flaw(NamedTuple):
    """A text that is not well formed: the template, the text, and what is wrong with it."""

    template: str
    text: str
    problem: str


def find_flaws(suite: Suite) -> list[Flaw]:
    """Every flaw of every variation with every fill-in of each slot, and values that two entries share."""
    flaws: dict[Flaw, None] = {}
    fine: set[object] = set()
    english = suite.language == "en"
    for unit in suite.units:
        free = FREE in unit.template.tags
        # A changed text may begin with a user name or end with a hashtag: changes break rules on purpose.
        for flats, lenient in ((unit.variations, free), (unit.changed, free or unit.change != "")):
            for seams, texts in _texts(suite, unit, flats, fine):
                found = []
                if lenient or not english or not _all_fine(texts):
                    found = [(text, p) for text in texts for p in problems_of(text, free=lenient, english=english)]
                if not found and not lenient:
                    fine.add(seams)
                flaws.update({Flaw(unit.template.id, text, problem): None for text, problem in found})
        for text in _same_twice(suite, unit):
            flaws[Flaw(unit.template.id, text, "two values of a slot give the same text")] = None
    return list(flaws)


def problems_of(text: str, *, free: bool = False, english: bool = True) -> list[str]:
    """What is wrong with a text; with `free`, only its spacing and its braces are checked."""
    found = []
    if _SPACING.search(text):
        found.append("spacing")
    if re.search(r"[{}\[\]|]", text):
        found.append("a brace or bracket is left")
    if free:
        return found
    if not _FINAL.search(text):
        found.append("does not end with one final mark")
    for match in _SENTENCE_START.finditer(text):
        if match[1].islower() and not _ABBREVIATED.search(text[: match.start()]):
            found.append("a sentence begins with a small letter")
    if english:
        found += [f"'{article} {word}'" for article, word in _ARTICLE.findall(text) if not _fits(article, word)]
    doubled = _DOUBLED.search(text)
    if doubled and doubled[1].lower() not in ("had", "that"):
        found.append(f"'{doubled[0]}'")
    return found


def _fits(article: str, word: str) -> bool:
    vowel = bool(_LETTERS_AN.match(word) if word.isupper() else _AN_SOUND.match(word))
    return vowel == (article.lower() == "an")


def _all_fine(texts: Sequence[str]) -> bool:
    """A quick check of many texts: true if none has a problem; if false, each has to be checked."""
    lines = "\n".join(texts)
    starts = {text[:1] for text in texts}.union(_INNER_START.findall(lines))
    ends = {text[-2:] for text in texts}
    return not (
        lines.count("\n") != len(texts) - 1
        or any(bad in lines for bad in (*_BAD_SPACING, *"{}[]|"))
        or any(start.islower() or start.isspace() for start in starts)
        or any(not _FINAL.search(end) for end in ends)
        or _DOUBLED.search(lines)
        or any(not _fits(article, word) for article, word in set(_ARTICLE.findall(lines)))
    )


def _texts(
    suite: Suite, unit: Unit, flats: Sequence[Flat], fine: Container[object]
) -> Iterator[tuple[object, list[str]]]:
    """Every variation with its first values, then with every value of each slot, unless these boundaries are known."""
    if any(len(factor) == 0 for factor in unit.factors):
        return
    usual = {slot: int(factor.rows[0, at]) for factor in unit.factors for at, slot in enumerate(factor.slots)}
    domains = {
        slot: np.unique(factor.rows[:, at]).tolist() for factor in unit.factors for at, slot in enumerate(factor.slots)
    }
    for flat in flats:
        yield flat, [_write(suite, flat, usual)]
        for slot in {name for name, _ in flat.slots}:
            seams = (slot, tuple(domains[slot]), _seams(flat, slot))
            if seams not in fine:
                yield seams, [_write(suite, flat, {**usual, slot: value}) for value in domains[slot]]


def _seams(flat: Flat, slot: str) -> tuple[str, ...]:
    """What is around a slot, as far as a rule can look: some letters, other slots, the start or end of the text."""
    found = []
    for at, (name, form) in enumerate(flat.slots):
        if name == slot:
            before = "^" + Flat(flat.pieces[: at + 1], flat.slots[:at]).written()
            after = Flat(flat.pieces[at + 1 :], flat.slots[at + 1 :]).written() + "$"
            found.append(f"{before[-SEAM:]}{{{form}}}{after[:SEAM]}")
    return tuple(found)


def _write(suite: Suite, flat: Flat, chosen: dict[str, int]) -> str:
    written = [suite.lexicons[slot.name].entries[chosen[slot.name]].written(slot.form) or "" for slot in flat.slots]
    return "".join(piece + value for piece, value in zip(flat.pieces, [*written, ""], strict=True))


def _same_twice(suite: Suite, unit: Unit) -> Iterator[str]:
    """Two values of a slot that are written the same in all forms that the unit uses."""
    for factor in unit.factors:
        for at, slot in enumerate(factor.slots):
            flats = [*unit.variations, *unit.changed]
            forms = sorted({form for flat in flats for name, form in flat.slots if name == slot})
            seen: set[tuple[str | None, ...]] = set()
            for value in sorted(set(factor.rows[:, at].tolist())):
                look = tuple(suite.lexicons[slot].entries[value].written(form) for form in forms)
                if look in seen:
                    yield f"{{{slot}}} = {look[0]}"
                seen.add(look)
