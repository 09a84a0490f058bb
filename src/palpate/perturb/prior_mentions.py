"""Whether earlier notes mention a label of a later chest X-ray (context paper, Section 3.3, "Prior Mentions").

A mention is a phrase of the label anywhere in the earlier notes. The rule `substring` is the paper's: "no pneumonia"
mentions pneumonia. The rule `affirmed` asks for one mention that is not denied in its clause. The phrases are data, in
`prior_mentions.yaml` beside this file, written for palpate; callers may bring their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import numpy as np
import yaml
from numpy.typing import NDArray

Rule = Literal["substring", "affirmed"]
UNKNOWN = -1
_SENTENCE_END = re.compile(r"[.;:!?](?=\s|$)|\n\s*\n|\n\s*[-*#]")


class Denials(NamedTuple):
    """How a mention is found to be denied."""

    before: re.Pattern[str]
    """Denies a phrase that follows in the clause."""
    after: re.Pattern[str]
    """Denies a phrase that stands before it in the clause."""
    ends: re.Pattern[str]


@cache
def label_phrases() -> Mapping[str, tuple[str, ...]]:
    """The phrases of the 13 labels, in lower case."""
    return {label: tuple(str(phrase) for phrase in phrases) for label, phrases in _data()["labels"].items()}


def find_mentions(
    notes: Sequence[str | None],
    labels: Sequence[str],
    *,
    rule: Rule = "substring",
    phrases: Mapping[str, Sequence[str]] | None = None,
) -> NDArray[np.int8]:
    """[note, label]: 1 mentioned, 0 not mentioned, -1 unknown (no note, or no phrases for the label).

    `phrases` are added to those of `label_phrases`, and take their place where both name a label.
    """
    known = {**label_phrases(), **(phrases or {})}
    wanted = [tuple(_plain(phrase) for phrase in known.get(label, ())) for label in labels]
    mentions = _affirmed if rule == "affirmed" else _present
    out = np.full((len(notes), len(labels)), UNKNOWN, dtype=np.int8)
    # Studies of one stay share their earlier notes.
    found: dict[str, NDArray[np.int8]] = {}
    for row, note in enumerate(notes):
        if note is None or not note.strip():
            continue
        if note not in found:
            text = _clauses(note) if rule == "affirmed" else _plain(note)
            found[note] = np.asarray([mentions(text, listed) if listed else UNKNOWN for listed in wanted], np.int8)
        out[row] = found[note]
    return out


def _present(text: str, phrases: Sequence[str]) -> bool:
    return any(phrase in text for phrase in phrases)


def _affirmed(text: str, phrases: Sequence[str]) -> bool:
    """Whether some mention is not denied; `text` has a line for each clause."""
    for phrase in phrases:
        at = text.find(phrase)
        while at >= 0:
            start = text.rfind("\n", 0, at) + 1
            stop = text.find("\n", at)
            end = len(text) if stop < 0 else stop
            if not _denied(text[start:at], text[at + len(phrase) : end]):
                return True
            at = text.find(phrase, at + 1)
    return False


def _denied(before: str, after: str) -> bool:
    denials = _denials()
    return denials.before.search(before) is not None or denials.after.search(after) is not None


def _clauses(note: str) -> str:
    """The note in lower case, a line for each clause."""
    parts = (_plain(part) for part in _SENTENCE_END.split(note))
    return "\n".join(_denials().ends.sub("\n", part) for part in parts)


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


@cache
def _denials() -> Denials:
    data = _data()
    return Denials(_any_of(data["denied_after"]), _any_of(data["denied_before"]), _any_of(data["ends"]))


def _any_of(words: Sequence[str]) -> re.Pattern[str]:
    return re.compile(r"(?<![\w-])(?:" + "|".join(re.escape(word) for word in words) + r")(?![\w-])")


@cache
def _data() -> Any:
    text = files("palpate.perturb").joinpath("prior_mentions.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)
