"""Whether earlier notes mention a label of a later chest X-ray (context paper, Section 3.3, "Prior Mentions").

A mention is a phrase of the label anywhere in the earlier notes. The rule `substring` is the paper's: "no pneumonia"
mentions pneumonia. The rule `affirmed` needs a mention by which the patient has, had or may have the finding: one that
is denied ("no pneumonia", "Pneumonia: none"), only asked for ("rule out pneumonia") or about somebody else does not
count.

sentences  a paragraph as sentences, with answers, boxes to tick and family histories
denials    what denies or asks for a finding in its sentence
people     about whom it is said

The phrases (`phrases.yaml`) and the words that deny (`cues.yaml`) were written for palpate; callers may pass phrases of
their own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.files import read_resource
from palpate.perturb.mentions.denials import ReadSentence
from palpate.perturb.mentions.sentences import opens_family, sentences
from palpate.privacy import hides

Rule = Literal["substring", "affirmed"]
UNKNOWN = -1
EXCEPT = "!"
"""Before a phrase in which the others do not count: "!pericardial effusion"."""
EDGE = "_"
"""At the start or end of a phrase: the word starts or ends there. Inside a phrase it is a blank."""
_PARAGRAPH = "\n\n"


@hides("text")
class Phrase(NamedTuple):
    """What to look for, in lower case with single blanks."""

    text: str
    starts_word: bool
    ends_word: bool

    def places(self, text: str) -> Iterator[tuple[int, int]]:
        """Where the phrase is, as start and end."""
        at = text.find(self.text)
        while at >= 0:
            end = at + len(self.text)
            if not (self.starts_word and _is_word(text[at - 1 : at])) and not (
                self.ends_word and _is_word(text[end : end + 1])
            ):
                yield at, end
            at = text.find(self.text, at + 1)


class LabelPhrases(NamedTuple):
    """The phrases of one label, and those in which they do not count."""

    phrases: tuple[Phrase, ...]
    exceptions: tuple[Phrase, ...]

    def places(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Where a phrase is mentioned outside the exceptions, with the phrase."""
        without = [place for phrase in self.exceptions for place in phrase.places(text)]
        for phrase in self.phrases:
            for start, end in phrase.places(text):
                if not any(first <= start and end <= last for first, last in without):
                    yield start, end, phrase.text


@cache
def label_phrases() -> Mapping[str, tuple[str, ...]]:
    """The phrases of the 13 labels, in lower case."""
    table = read_resource("palpate.perturb.mentions", "phrases.yaml")
    return {label: tuple(str(phrase) for phrase in phrases) for label, phrases in table["labels"].items()}


def find_mentions(
    notes: Sequence[str | None],
    labels: Sequence[str],
    *,
    rule: Rule = "substring",
    phrases: Mapping[str, Sequence[str]] | None = None,
) -> NDArray[np.int8]:
    """[note, label]: 1 mentioned, 0 not mentioned, -1 unknown (no note, or no phrases for the label).

    `phrases` are added to those of `label_phrases`, and replace them for labels that both have. Labels are compared
    without regard to case, and "_" is a blank in them. A phrase may continue on the next line, but not across an empty
    line; `EXCEPT` and `EDGE` say what its signs mean.
    """
    known = {label_name(label): given for table in (label_phrases(), phrases or {}) for label, given in table.items()}
    wanted = [_compiled(known.get(label_name(label), ())) for label in labels]
    # Studies of one patient share earlier notes, and notes share paragraphs: each paragraph is read once.
    found: dict[tuple[bytes, bool], NDArray[np.int8]] = {}
    out = np.full((len(notes), len(labels)), UNKNOWN, dtype=np.int8)
    for row, note in enumerate(notes):
        in_family = False
        for part in (note or "").split(_PARAGRAPH):
            if part.strip():
                digest = hashlib.blake2b(part.encode("utf-8", "surrogatepass"), digest_size=16).digest()
                key = (digest, in_family)
                if key not in found:
                    found[key] = np.asarray(_mentioned(part, wanted, rule, in_family), np.int8)
                np.maximum(out[row], found[key], out=out[row])
                in_family = opens_family(part)
    return out


def _mentioned(part: str, wanted: Sequence[LabelPhrases], rule: Rule, in_family: bool) -> list[int]:
    text = _plain(part)
    present = [next(each.places(text), None) is not None for each in wanted]
    if rule == "affirmed" and any(present):
        open_labels = [j for j, there in enumerate(present) if there]
        for sentence in sentences(part, in_family=in_family):
            read = ReadSentence(sentence)
            open_labels = [
                j for j in open_labels if not any(read.affirms(*at) for at in wanted[j].places(sentence.lower))
            ]
            if not open_labels:
                break
        for j in open_labels:
            present[j] = False
    return [int(there) if each.phrases else UNKNOWN for there, each in zip(present, wanted, strict=True)]


def _compiled(phrases: Sequence[str]) -> LabelPhrases:
    kept: list[Phrase] = []
    exceptions: list[Phrase] = []
    for given in phrases:
        is_exception = given.startswith(EXCEPT)
        text = given.removeprefix(EXCEPT).strip()
        plain = _plain(text.replace(EDGE, " "))
        if plain:
            phrase = Phrase(plain, text.startswith(EDGE), text.endswith(EDGE))
            (exceptions if is_exception else kept).append(phrase)
    return LabelPhrases(tuple(kept), tuple(exceptions))


def _is_word(character: str) -> bool:
    return character.isalnum() or character == EDGE


def label_name(label: str) -> str:
    """A label as it is compared: in lower case, with blanks for "_"."""
    return _plain(label.replace("_", " "))


def _plain(text: str) -> str:
    return " ".join(text.lower().split())
