"""A note as the page shows it: cut where spans begin and end, so that overlapping ones are all seen; and words found.

Whose a span is can be told without colour: a coder's is underlined, a model's has a dashed line, one of both with the
same code a double line, and each starts with a label that has whose it is, and its code. Words that both marked, but
for different codes, have a solid and a dashed line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from palpate.privacy import hides
from palpate.workbench.evidence.decisions import ADDED, BOTH, CODER, MODEL, ProposedSpan
from palpate.workbench.pages import BenchProblem

LONGEST_WORDS = 2_000
DIFFER = "differ"
"""Words that a coder and the model marked for different codes."""
_WORD = re.compile(r"\S+")


class SpanLabel(NamedTuple):
    """What stands before a span: the place of the span in the set, whose it is, and its code."""

    place: int
    by: str
    code: str
    here: bool


@hides("text")
class Passage(NamedTuple):
    """A piece of a note that the same spans cover, and the labels of those that begin with it."""

    text: str
    by: str
    """`coder`, `model`, `both` with the same code, `differ` where their codes do, `added`, or empty."""
    labels: tuple[SpanLabel, ...]
    here: bool
    """Whether it belongs to the span that is asked about."""


def passages(text: str, spans: Sequence[ProposedSpan], here: int) -> list[Passage]:
    """The note in pieces; `here` is the place of the span that is asked about.

    >>> spans = [ProposedSpan(0, 0, 3, 9, "A", "CPT", "coder"), ProposedSpan(1, 0, 6, 12, "B", "CPT", "model")]
    >>> [(one.text, one.by, [each.code for each in one.labels]) for one in passages("no fever cough", spans, 0)]
    [('no ', '', []), ('fev', 'coder', ['A']), ('er ', 'differ', ['B']), ('cou', 'model', []), ('gh', '', [])]
    """
    cuts = sorted({0, len(text), *(min(at, len(text)) for span in spans for at in (span.begin, span.end))})
    found = []
    for low, high in pairwise(cuts):
        covering = [span for span in spans if span.begin < high and low < span.end]
        by = _shown({(span.by, span.code) for span in covering})
        labels = tuple(
            SpanLabel(span.place, span.by, span.code, span.place == here) for span in spans if span.begin == low
        )
        found.append(Passage(text[low:high], by, labels, any(span.place == here for span in covering)))
    return found


def _shown(marks: set[tuple[str, str]]) -> str:
    """Whose words are shown as: where others marked them too, an added span is seen by its label."""
    coders, models = ({code for by, code in marks if by in (side, BOTH)} for side in (CODER, MODEL))
    if coders and models:
        return BOTH if coders & models else DIFFER
    return CODER if coders else MODEL if models else ADDED if marks else ""


class PlacedWords(NamedTuple):
    """A place of words in a note, and how well they fit there."""

    begin: int
    end: int
    whole: bool
    """Whether no word is cut."""
    as_written: bool
    """Whether the case is the same, too."""


def places_of(text: str, words: str) -> list[tuple[int, int]]:
    """All places of words, as written or else in any case; those that cut a word come last."""
    found = _find_words(text, words)
    kept = [one for one in found if one.as_written] or found
    return [(one.begin, one.end) for one in sorted(kept, key=lambda one: (not one.whole, one.begin))]


def nearest_place(text: str, words: str, near: int) -> tuple[int, int]:
    """The place of words at a character that somebody pointed to, or else the nearest, as `locate` says."""
    found = _find_words(text, words)
    here = min(found, key=lambda one: (one.begin != near, *_rank(one, near)))
    return here.begin, here.end


def _rank(one: PlacedWords, near: int) -> tuple[bool, int, bool]:
    """Whole words first, of these the nearest; the case decides only between two that are equally near."""
    return not one.whole, abs(one.begin - near), not one.as_written


def _find_words(text: str, words: str) -> list[PlacedWords]:
    """All places of words in any case; blanks and line ends count alike."""
    parts = words.split()
    if not parts or len(words) > LONGEST_WORDS:
        raise BenchProblem("span_words", n=f"{LONGEST_WORDS:,}")
    plain, origin = _single_blanks(text)
    wanted = " ".join(parts)
    starts = sorted({*_find_all(plain, wanted), *_find_all(_lower(plain), _lower(wanted))})
    if not starts:
        raise BenchProblem("words_not_there")
    return [
        PlacedWords(
            origin[start],
            origin[start + len(wanted) - 1] + 1,
            _is_whole(plain, start, start + len(wanted)),
            plain.startswith(wanted, start),
        )
        for start in starts
    ]


def _is_whole(text: str, begin: int, end: int) -> bool:
    """Whether no word is cut at either end."""
    ends = ((begin - 1, begin), (end - 1, end))
    return not any(low >= 0 and high < len(text) and text[low].isalnum() and text[high].isalnum() for low, high in ends)


def _single_blanks(text: str) -> tuple[str, list[int]]:
    """A text with single blanks, and where each of its characters was; a pattern would take long on repeated words."""
    kept: list[str] = []
    origin: list[int] = []
    for word in _WORD.finditer(text):
        if kept:
            kept.append(" ")
            origin.append(word.start() - 1)
        kept.append(word[0])
        origin += range(word.start(), word.end())
    return "".join(kept), origin


def _lower(text: str) -> str:
    """In lower case, of the same length."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def _find_all(text: str, words: str) -> list[int]:
    found, at = [], text.find(words)
    while at >= 0:
        found.append(at)
        at = text.find(words, at + len(words))
    return found


def locate(text: str, words: str, near: int) -> tuple[int, int]:
    """Where words are in a note: of several places, the nearest one that cuts no word, in any case.

    >>> locate("Fever. No fever,\\nno chills", "fever, no", 0)
    (10, 19)
    >>> locate("Pain at rest; painful knee, no pain.", "pain", 14)
    (0, 4)
    """
    found = min(_find_words(text, words), key=lambda one: _rank(one, near))
    return found.begin, found.end
