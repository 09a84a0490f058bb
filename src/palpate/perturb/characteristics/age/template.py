"""The edits of a note for all ages: what they have in common is worked out once, because there are 73 of them.

Every age changes the same places, so their order, what is written there now and the articles before them are kept; for
one age, only the numbers are written. The result is that of `with_articles` on the edits of that age.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from palpate.cases.edits import Edit
from palpate.perturb.characteristics.age.times import BirthYear
from palpate.perturb.characteristics.grammar import agreeing_article, article_before, in_words
from palpate.perturb.characteristics.reading.ages import Age
from palpate.perturb.characteristics.reading.past_ages import DECADES

_ADULT = 18
"""From this age on, a boy or girl becomes a man or woman."""


class _Place(NamedTuple):
    """A place that ages change: what is there, and the article before it."""

    start: int
    end: int
    old: str
    article: tuple[int, int, str] | None
    written: str | Age | BirthYear
    """What every age writes, or what the number is written like."""


class AgeTemplate:
    """The edits of one note, for any age."""

    def __init__(
        self, text: str, nouns: Iterable[Edit], ages: Iterable[Age], births: Iterable[BirthYear], masked: str
    ) -> None:
        made: list[tuple[int, int, str | Age | BirthYear]] = [*nouns]
        made += [(age.start, age.end, age) for age in ages]
        made += [(birth.start, birth.end, birth) for birth in births]
        made.sort(key=lambda place: place[:2])
        self._masked = masked
        self._places = [_Place(a, b, text[a:b], _article(text, a), written) for a, b, written in made]

    def edits(self, years: int) -> tuple[Edit, ...]:
        """The edits for an age; none if the note says it already."""
        digits = self._masked if years >= 90 else str(years)
        edits: list[Edit] = []
        articles: list[Edit] = []
        told, last = False, -1
        for start, end, old, article, written in self._places:
            if isinstance(written, str):
                if years < _ADULT:
                    continue
                new, told = written, True
            elif isinstance(written, BirthYear):
                new = written.at_age(years)
            else:
                new = digits if written.style == "digits" else write(years, written.style, old, self._masked)
                if new == old:
                    continue
                told = True
            edits.append(Edit(start, end, new))
            if article and last != start:  # otherwise what follows the article is an earlier edit
                agreed = agreeing_article(article[2], new)
                if agreed != article[2]:
                    articles.append(Edit(article[0], article[1], agreed))
            last = end
        if not told:
            return ()
        return tuple(sorted(edits + articles, key=_span)) if articles else tuple(edits)


def _span(edit: Edit) -> tuple[int, int]:
    return edit.start, edit.end


def _article(text: str, position: int) -> tuple[int, int, str] | None:
    span = article_before(text, position)
    return None if span is None else (*span, text[span[0] : span[1]])


@lru_cache(maxsize=512)
def write(years: int, style: str, old: str, masked: str) -> str:
    """An age in the style of the one that it replaces."""
    if style == "decade":
        part = re.match(r"(early|mid|late)([\s-]+)", old, re.IGNORECASE)
        third = "early" if years % 10 < 4 else "mid" if years % 10 < 7 else "late"
        lead = (third if part.group(1).islower() else third.capitalize()) + part.group(2) if part else ""
        if years < 20:
            return f"{lead}teens"
        return f"{lead}{years // 10 * 10}s" if re.search(r"\d|teens", old) else f"{lead}{DECADES[years // 10 - 2]}"
    if style == "words":
        words = "over ninety" if years >= 90 else in_words(years)
        return words.upper() if old.isupper() else words.capitalize() if old[0].isupper() else words
    return masked if years >= 90 else str(years)
