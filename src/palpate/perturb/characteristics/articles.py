"""The right article before what an edit puts there: an 85-year-old, a 63-year-old, an Asian man, a White man."""

from __future__ import annotations

import re
from collections.abc import Iterable

from palpate.cases.edits import Edit

_ARTICLE = re.compile(r"\b([Aa]n?|AN?)(\s+)$")
_NUMBER = re.compile(r"(\d+)")
_LETTER_NAME = re.compile(r"[AEFHILMNORSX](?:[A-Z]|\b)")
_SPOKEN_CONSONANT = re.compile(r"(?:eu|one\b|uni(?!n|m)|use|usu|ure)", re.IGNORECASE)
_SILENT_H = re.compile(r"(?:hour|honest|heir)", re.IGNORECASE)


def takes_an(word: str) -> bool:
    """Whether "an" stands before a word, a number or an abbreviation."""
    number = _NUMBER.match(word)
    if number:
        return number.group(1).startswith("8") or number.group(1) in ("11", "18")
    if _LETTER_NAME.match(word) and (len(word) == 1 or not word[1:2].isalpha() or word[:2].isupper()):
        return True
    if _SPOKEN_CONSONANT.match(word):
        return False
    return (word[:1].lower() in "aeiou" and word != "") or bool(_SILENT_H.match(word))


def article_before(text: str, position: int) -> tuple[int, int] | None:
    """The span of an article right before a position."""
    match = _ARTICLE.search(text, max(0, position - 8), position)
    return match.span(1) if match else None


def with_articles(text: str, edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """The edits, sorted, and the articles before them set right."""
    ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
    fixes: list[Edit] = []
    for k, edit in enumerate(ordered):
        if k and ordered[k - 1].end == edit.start:
            continue  # an earlier edit follows the article
        span = article_before(text, edit.start)
        if span is None:
            continue
        old = text[span[0] : span[1]]
        new = _written(old, takes_an(_next_word(text, ordered, k)))
        if new != old:
            fixes.append(Edit(span[0], span[1], new))
    return tuple(sorted(ordered + fixes, key=lambda edit: (edit.start, edit.end))) if fixes else tuple(ordered)


def _next_word(text: str, ordered: list[Edit], k: int) -> str:
    """What will stand where edit k starts."""
    position = ordered[k].start
    for edit in ordered[k:]:
        if edit.start > position or edit.text:
            break
        position = edit.end
    else:
        return text[position : position + 20]
    return edit.text if edit.start == position and edit.text else text[position : position + 20]


def _written(article: str, an: bool) -> str:
    word = "an" if an else "a"
    if article[0] == "A":
        # "A" alone may be a capital or capitals; "AN" is capitals.
        return word.upper() if article == "AN" and an else word.capitalize()
    return word
