"""Whether earlier notes mention a label of a later chest X-ray (context paper, Section 3.3, "Prior Mentions").

A mention is a phrase of the label anywhere in the earlier notes. The rule `substring` is the paper's: "no pneumonia"
mentions pneumonia. The rule `affirmed` needs a mention that is denied neither in its clause ("no pneumonia") nor by
the answer after it ("Pneumonia: none"). The phrases are in `mentions.yaml` beside this file and were written for
palpate; callers may pass their own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.files import read_resource

Rule = Literal["substring", "affirmed"]
UNKNOWN = -1
_PARAGRAPH = "\n\n"
_NO = "[no]"
"""Replaces an answer that denies, with its colon."""
_HEADING = r"\n(?=[^\n.;:!?]{1,60}(?::|\[no\]))"  # starts a new clause, although other line breaks do not
_SENTENCE_END = re.compile(
    rf"[.;!?](?=\s|$)|(?<!denies)(?<!denied)(?<!negative for):(?=\s|$)|\n\s*\n|\n\s*[-*#]|{_HEADING}", re.IGNORECASE
)
_ANSWERED = re.compile(r"[^,]{0,60}" + re.escape(_NO))


class Denials(NamedTuple):
    """Patterns that tell whether a mention is denied."""

    before: re.Pattern[str]
    """Denies a phrase that follows in the clause."""
    after: re.Pattern[str]
    """Denies a phrase that precedes it in the clause."""
    answer: re.Pattern[str]
    """Denies the phrase before it, as an answer."""
    restated: re.Pattern[str]
    """An answer that repeats what it denies: "Effusion: no evidence of effusion"."""
    not_denials: re.Pattern[str]
    """Only looks like a denial or a finding."""
    ends: re.Pattern[str]
    places: frozenset[str]
    """Phrases that name a place of the body, not a finding."""
    abnormal: re.Pattern[str]
    """Turns a place into a finding."""
    not_abnormal: re.Pattern[str]


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

    `phrases` are added to those of `label_phrases`, and replace them for labels that both have. A phrase may continue
    on the next line, but not across an empty line.
    """
    known = {**label_phrases(), **(phrases or {})}
    wanted = [tuple(_plain(phrase) for phrase in known.get(label, ())) for label in labels]
    # Studies of one patient share earlier notes, and notes share paragraphs: each paragraph is read once.
    found: dict[bytes, NDArray[np.int8]] = {}
    out = np.full((len(notes), len(labels)), UNKNOWN, dtype=np.int8)
    for row, note in enumerate(notes):
        for part in (note or "").split(_PARAGRAPH):
            if part.strip():
                key = hashlib.blake2b(part.encode("utf-8", "surrogatepass"), digest_size=16).digest()
                if key not in found:
                    found[key] = np.asarray(_mentioned(part, wanted, rule), np.int8)
                np.maximum(out[row], found[key], out=out[row])
    return out


def _mentioned(part: str, wanted: Sequence[Sequence[str]], rule: Rule) -> list[int]:
    text = _plain(part)
    present = [any(phrase in text for phrase in phrases) for phrases in wanted]
    if rule == "affirmed" and any(present):
        clauses = _clauses(part)
        present = [there and _affirmed(clauses, phrases) for there, phrases in zip(present, wanted, strict=True)]
    return [there if phrases else UNKNOWN for there, phrases in zip(present, wanted, strict=True)]


def _affirmed(text: str, phrases: Sequence[str]) -> bool:
    """Whether some mention is not denied; `text` has one clause per line."""
    for phrase in phrases:
        at = text.find(phrase)
        while at >= 0:
            start = text.rfind("\n", 0, at) + 1
            stop = text.find("\n", at)
            end = len(text) if stop < 0 else stop
            before, after = text[start:at], text[at + len(phrase) : end]
            if not _denied(before, after) and (phrase not in _denials().places or _abnormal(before, after)):
                return True
            at = text.find(phrase, at + 1)
    return False


def _denied(before: str, after: str) -> bool:
    denials = _denials()
    return bool(denials.before.search(before) or denials.after.search(after) or _ANSWERED.match(after))


def _abnormal(before: str, after: str) -> bool:
    """Whether a place is called abnormal, between the commas around it."""
    said = f"{before.rpartition(',')[2]} {after.partition(',')[0]}"
    return _denials().abnormal.search(_denials().not_abnormal.sub(" ", said)) is not None


def _clauses(note: str) -> str:
    """The note in lower case, one clause per line; an answer that denies is in the clause of its finding."""
    answered = _denials().answer.sub(f" {_NO}. ", _denials().restated.sub(rf"\1 {_NO}. ", note))
    parts = (_denials().not_denials.sub(" ", _plain(part)) for part in _SENTENCE_END.split(answered))
    return "\n".join(_denials().ends.sub("\n", part) for part in parts)


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


@cache
def _denials() -> Denials:
    data = _data()
    abnormal = _either(data["abnormal"])
    # Starts at the first blank and allows few dashes, so that a long run of either is not tried at every position.
    sign = r"(?<![ \t])(?:[ \t]*(?:[:=?–—]|-{2,3})|[ \t]+-)[ \t]*(?:\n[ \t]*)?"
    answer = rf"{sign}[(\[]?{_either(data['denied_answers'])}(?:\s+{_either(data['answer_ends'])})?[)\]]?"
    return Denials(
        before=_words(_either(data["denied_after"])),
        after=_words(_either(data["denied_before"])),
        # The answer ends here: "Pneumonia: no further antibiotics" denies nothing.
        answer=re.compile(rf"{answer}(?=[ \t]*(?:[.,;!?(\n]|$))", re.IGNORECASE),
        restated=re.compile(rf"(\b\w{{4,}}){sign}no(?:[ \t]+\w+){{0,4}}[ \t]+\1", re.IGNORECASE),
        not_denials=_words(_either(data["not_denials"])),
        ends=_words(_either(data["ends"])),
        places=frozenset(data["places"]),
        abnormal=_words(abnormal),
        not_abnormal=_words(rf"(?:no|not|nor|without)(?: \w+){{0,2}} {abnormal}"),
    )


def _either(words: Sequence[str]) -> str:
    return "(?:" + "|".join(re.escape(word) for word in words) + ")"


def _words(pattern: str) -> re.Pattern[str]:
    """A pattern that matches whole words only."""
    return re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])")


@cache
def _data() -> Any:
    return read_resource("palpate.perturb", "mentions.yaml")
