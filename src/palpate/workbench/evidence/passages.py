"""A note as the page shows it: cut where spans begin and end, so that overlapping ones are all seen; and words found.

Whose a span is can be told without colour: a coder's is underlined, a model's has a dashed line, one of both a double
line, and each starts with a label that has its number, whose it is, and its code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from palpate.errors import InputError
from palpate.privacy import hides
from palpate.workbench.evidence.decisions import BOTH, CODER, MODEL, ProposedSpan

_LETTERS = {CODER: "C", MODEL: "M", BOTH: "C+M"}
LONGEST_WORDS = 2_000


class SpanLabel(NamedTuple):
    """What stands before a span: the place of the span in the set, whose it is, and its code."""

    place: int
    by: str
    letters: str
    code: str
    here: bool


@hides("text")
class Passage(NamedTuple):
    """A piece of a note that the same spans cover, and the labels of those that begin with it."""

    text: str
    by: str
    """`coder`, `model`, `both`, or empty."""
    labels: tuple[SpanLabel, ...]
    here: bool
    """Whether it belongs to the span that is asked about."""


def passages(text: str, spans: Sequence[ProposedSpan], here: int) -> list[Passage]:
    """The note in pieces; `here` is the place of the span that is asked about.

    >>> spans = [ProposedSpan(0, 0, 3, 9, "A", "CPT", "coder"), ProposedSpan(1, 0, 6, 12, "B", "CPT", "model")]
    >>> [(one.text, one.by, [each.code for each in one.labels]) for one in passages("no fever cough", spans, 0)]
    [('no ', '', []), ('fev', 'coder', ['A']), ('er ', 'both', ['B']), ('cou', 'model', []), ('gh', '', [])]
    """
    cuts = sorted({0, len(text), *(min(at, len(text)) for span in spans for at in (span.begin, span.end))})
    found = []
    for low, high in pairwise(cuts):
        covering = [span for span in spans if span.begin < high and low < span.end]
        whose = {span.by for span in covering}
        by = "" if not whose else BOTH if len(whose) > 1 else whose.pop()
        labels = tuple(
            SpanLabel(span.place, span.by, _LETTERS[span.by], span.code, span.place == here)
            for span in spans
            if span.begin == low
        )
        found.append(Passage(text[low:high], by, labels, any(span.place == here for span in covering)))
    return found


def locate(text: str, words: str, near: int) -> tuple[int, int]:
    """Where words are in a note: of several places, the nearest one; blanks and line ends count alike.

    >>> locate("Fever. No fever,\\nno chills", "fever, no", 0)
    (10, 19)
    """
    parts = words.split()
    if not parts or len(words) > LONGEST_WORDS:
        raise InputError(f"the words of a span have 1 to {LONGEST_WORDS:,} characters")
    pattern = r"\s+".join(re.escape(part) for part in parts)
    for flags in (re.NOFLAG, re.IGNORECASE):
        hits = [hit.span() for hit in re.finditer(pattern, text, flags)]
        if hits:
            return min(hits, key=lambda place: abs(place[0] - near))
    raise InputError("these words are not in the note", hint="copy them from the note as they are written there")
