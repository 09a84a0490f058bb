"""The page on which a clinician marks altered notes right or wrong: self-contained, opened from a file, works offline.

It holds note text and says so on top. The marks leave it as a small file without note text, which the audit
`characteristics` takes (`review:`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from palpate.cases.edits import Edit
from palpate.privacy import hides
from palpate.report.html import content_policy, page_environment, template_text

_CLOSE = 160
"""Unchanged text up to this many characters stays open beside a change."""
_LONG = 700
"""Unchanged text longer than this is folded up in its middle."""


@hides("text")
class NotePart(NamedTuple):
    """A piece of a note: `same`, `removed`, `added`, or `folded` (unchanged, shown when asked for)."""

    kind: str
    text: str


class ReviewPage(NamedTuple):
    """What the page shows."""

    title: str
    notes: Sequence[Sequence[NotePart]]
    facts: Sequence[str]
    """How the notes were drawn, in sentences."""
    saved: Mapping[str, Any]
    """What the saved file says beside the marks; `marks` has an entry per note."""
    file: str
    """The name under which the marks are saved."""


def note_parts(note: str, edits: Sequence[Edit]) -> list[NotePart]:
    """A note with its changes, in order; long unchanged stretches are folded."""
    parts: list[NotePart] = []
    position = 0
    for start, end, text in edits:
        parts += _unchanged(note[position:start], first=position == 0, last=False)
        parts += [NotePart("removed", note[start:end])] if end > start else []
        parts += [NotePart("added", text)] if text else []
        position = end
    parts += _unchanged(note[position:], first=position == 0, last=True)
    return parts


def render_review(page: ReviewPage) -> str:
    """The whole page as HTML."""
    script = Markup(template_text("review.js"))
    # Inside a script element only "<" could end it early.
    saved = Markup(json.dumps(page.saved).replace("<", "\\u003c"))
    return (
        page_environment()
        .get_template("review.html.j2")
        .render(
            page._asdict(),
            document=saved,
            styles=Markup(template_text("theme.css") + template_text("report.css") + template_text("review.css")),
            script=script,
            policy=content_policy((script,)),
        )
    )


def _unchanged(text: str, *, first: bool, last: bool) -> Iterator[NotePart]:
    if len(text) <= _LONG:
        if text:
            yield NotePart("same", text)
        return
    head = 0 if first else _CLOSE
    tail = len(text) if last else len(text) - _CLOSE
    for kind, piece in (("same", text[:head]), ("folded", text[head:tail]), ("same", text[tail:])):
        if piece:
            yield NotePart(kind, piece)
