"""What altering and detecting return: mentions, a detection, the edits for one group, and an altered note."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from palpate.cases.edits import Edit
from palpate.privacy import hides

Action = Literal["changed", "added", "kept", "skipped"]
Contradictory = Literal["skip", "alter"]
"""How to treat notes that contradict the new group, such as an obstetric history when the new gender is male."""
NO_MENTION = "no mention: the note does not tell of it, and has no place for a mention"


@hides("text")
class Mention(NamedTuple):
    """A place where the note mentions the patient's characteristic; `group` is None if it is masked or unknown.

    `ambiguous` marks a mention that may be about another person; such a mention is not changed.
    """

    start: int
    end: int
    text: str
    group: str | None
    ambiguous: bool = False


class Detection(NamedTuple):
    """What a note says about its patient: by characteristic, the present group (None: not stated) and its mentions."""

    present: Mapping[str, str | None]
    mentions: Mapping[str, tuple[Mention, ...]]


class EditOutcome(NamedTuple):
    """The edits that alter a note to one group; there are none if the note is kept or skipped."""

    edits: tuple[Edit, ...]
    action: Action
    reason: str | None = None


@hides("text")
class Alteration(NamedTuple):
    """A note altered to one group; `edits` are spans of the original, sorted, without overlap."""

    text: str
    edits: tuple[Edit, ...]
    action: Action
    reason: str | None = None


def skipped(reason: str) -> EditOutcome:
    """The outcome for a note that can't be altered to this group."""
    return EditOutcome((), "skipped", reason)


KEPT = EditOutcome((), "kept")
