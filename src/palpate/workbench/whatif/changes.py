"""Changes of a note that somebody asks about: a word, the patient's characteristic, a sentence; and what they did."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from palpate.cases.edits import Edit, splice
from palpate.perturb.characteristics.reading.headings import sentence_starts
from palpate.perturb.words import tokens
from palpate.privacy import hides
from palpate.report.review import NotePart, note_parts
from palpate.workbench.notes import AlteringOptions
from palpate.workbench.pages import BenchProblem

LONGEST_NOTE = 100_000
WITHOUT_AUDIT = AlteringOptions(sure="normal")
"""Where the configuration has no audit of characteristics, doubtful notes are altered, too: somebody looks at them."""
_SENTENCE = re.compile(r"[^.!?\n]*(?:\.(?=\d)[^.!?\n]*)*(?:[.!?]+|\n|$)")
_WORD = re.compile(r"(?:\w+|[^\w\s])\s*|\s+")
"""A word or a sign with the blanks after it."""
_PIECE = re.compile(r"\w+|\s+|[^\w\s]")
MOST_COMPARED = 500_000
"""Above this many comparisons of words, what differs is shown as one block."""
KeptRun = tuple[int, int, int]
"""Where an unchanged stretch starts before and after, and how long it is."""


@hides("word", "replacement", "sentence")
class WantedChange(NamedTuple):
    """What is to change; empty fields change nothing."""

    word: str = ""
    replacement: str = ""
    characteristic: str = ""
    group: str = ""
    sentence: str = ""
    """The sentence that is left out: its number, from 1, or some of its words."""


@hides("text")
class ChangedNote(NamedTuple):
    """The note after the changes, what they replaced, and what each did, in a key of the texts and its numbers."""

    text: str
    edits: tuple[Edit, ...]
    told: tuple[tuple[str, dict[str, object]], ...]


def change_note(note: str, wanted: WantedChange, options: AlteringOptions = WITHOUT_AUDIT) -> ChangedNote:
    """Make the changes one after the other: the word, the characteristic (as the audit does it), the sentence."""
    told: list[tuple[str, dict[str, object]]] = []
    text, done = note, [(0, 0, len(note))]

    def make(edits: Sequence[Edit]) -> None:
        nonlocal text, done
        text, done = splice(text, edits), _both(done, _kept(edits, len(text)))

    if wanted.word.strip():
        edits: Sequence[Edit] = word_edits(text, wanted.word, wanted.replacement)
        make(edits)
        told.append(("replaced", {"n": len(edits)}))
    if wanted.characteristic:
        alterer = options.alterer(wanted.characteristic)
        alterer.check(wanted.characteristic, wanted.group)
        outcome = alterer.edits(alterer.plan(text), (wanted.characteristic, wanted.group))
        make(outcome.edits)
        told.append((outcome.action, {"n": len(outcome.edits), "reason": outcome.reason or ""}))
    if wanted.sentence.strip():
        found = sentences(text)
        at = _which(text, found, wanted.sentence)
        make([Edit(*found[at], "")])
        told.append(("left_out", {"n": at + 1}))
    return ChangedNote(text, tuple(_between(note, text, done)), tuple(told))


def _which(text: str, found: Sequence[tuple[int, int]], wanted: str) -> int:
    """The index of a sentence by its number, or by some of its words."""
    if wanted.strip().isdecimal():
        number = int(wanted)
        if not 1 <= number <= len(found):
            raise BenchProblem("sentences", n=len(found))
        return number - 1
    words = " ".join(wanted.lower().split())
    for at, (start, end) in enumerate(found):
        if words in " ".join(text[start:end].lower().split()):
            return at
    raise BenchProblem("no_sentence")


def word_edits(text: str, word: str, replacement: str) -> list[Edit]:
    """Every occurrence of a word or phrase, in any case, as words of the vocabulary audit; a capital stays a capital.

    >>> word_edits("Smoker? Non-smoker.", "smoker", "drinker")
    [Edit(start=0, end=6, text=<7 characters>)]
    """
    inside = {at for token in tokens(text) for at in range(token.start + 1, token.end)}
    parts = r"\s+".join(re.escape(part) for part in word.split())
    new = " ".join(replacement.split())
    edits = []
    for found in re.finditer(rf"(?<!\w){parts}(?!\w)", text, flags=re.IGNORECASE):
        if not inside.isdisjoint(found.span()):
            continue
        capital = found[0][:1].isupper() and new[:1].islower()
        edits.append(Edit(found.start(), found.end(), new[:1].upper() + new[1:] if capital else new))
    return edits


def sentences(text: str) -> list[tuple[int, int]]:
    """Where sentences begin and end; "98.6", "Dr." and "p.m." do not end one, and a line end does.

    >>> [slice(*one) for one in sentences("Dr. Lee came. Stable.")]
    [slice(0, 13, None), slice(13, 21, None)]
    """
    starts, found, begin = sentence_starts(text), list[tuple[int, int]](), 0
    for piece in _SENTENCE.finditer(text):
        end = piece.end()
        if text[end - 1 : end] == ".":
            at = bisect_left(starts, end)
            first = next((k for k in range(end, len(text)) if not text[k].isspace()), len(text))
            if first < len(text) and (at == len(starts) or starts[at] > first):
                continue
        if any(c.isalnum() for c in text[begin:end]):
            found.append((begin, end))
        begin = end
    return found


def differences(note: str, written: str, changed: ChangedNote) -> list[NotePart]:
    """The note with what was removed and added, by hand and then by changes; long unchanged stretches folded."""
    by_hand = _kept(difference_edits(note, written), len(note))
    done = _both(by_hand, _kept(changed.edits, len(written)))
    return note_parts(note, list(_between(note, changed.text, done)))


def _kept(edits: Sequence[Edit], length: int) -> list[KeptRun]:
    """What edits of a text of this length leave as it is."""
    runs, before, after = [], 0, 0
    for start, end, text in (*edits, Edit(length, length, "")):
        if start > before:
            runs.append((before, after, start - before))
        before, after = end, after + start - before + len(text)
    return runs


def _both(first: Sequence[KeptRun], then: Sequence[KeptRun]) -> list[KeptRun]:
    """What two changes, one after the other, both leave as it is."""
    runs, i, j = [], 0, 0
    while i < len(first) and j < len(then):
        (origin, place, n), (from_, to, m) = first[i], then[j]
        start, end = max(place, from_), min(place + n, from_ + m)
        if end > start:
            runs.append((origin + start - place, to + start - from_, end - start))
        i, j = (i + 1, j) if place + n < from_ + m else (i, j + 1)
    return runs


def _between(note: str, changed: str, runs: Sequence[KeptRun]) -> Iterator[Edit]:
    """What lies between unchanged stretches."""
    before = after = 0
    for start, to, n in (*runs, (len(note), len(changed), 0)):
        if note[before:start] != changed[after:to]:
            yield Edit(before, start, changed[after:to])
        before, after = start + n, to + n


def difference_edits(note: str, changed: str) -> list[Edit]:
    """What turns one text into the other, word by word; where too much differs, one block."""
    if note == changed:
        return []
    before, after = _WORD.findall(note), _WORD.findall(changed)
    first, last = _same_ends(before, after)
    inner = common_words(before[first : len(before) - last], after[first : len(after) - last])
    ends = [(0, 0, first), *((first + i, first + j, n) for i, j, n in inner)]
    places, others = _places(before), _places(after)
    ends.append((len(before) - last, len(after) - last, last))
    runs = [(places[i], others[j], places[i + n] - places[i]) for i, j, n in ends]
    return [_trimmed(note, edit) for edit in _between(note, changed, runs)]


def _places(pieces: Sequence[str]) -> list[int]:
    return [0, *accumulate(len(piece) for piece in pieces)]


def _same_ends(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """How many pieces are the same from the start, and how many of the others from the end."""
    most, first, last = min(len(before), len(after)), 0, 0
    while first < most and before[first] == after[first]:
        first += 1
    while last < most - first and before[-1 - last] == after[-1 - last]:
        last += 1
    return first, last


def _trimmed(note: str, edit: Edit) -> Edit:
    """An edit without the words and blanks at its ends that stay."""
    old, new = _PIECE.findall(note[edit.start : edit.end]), _PIECE.findall(edit.text)
    first, last = _same_ends(old, new)
    start = edit.start + sum(map(len, old[:first]))
    end = edit.end - sum(map(len, old[len(old) - last :]))
    return Edit(start, end, "".join(new[first : len(new) - last]))


def common_words(before: Sequence[str], after: Sequence[str], most: int = MOST_COMPARED) -> list[KeptRun]:
    """What a shortest way from one list to the other keeps (Myers, 1986); nothing, if `most` comparisons do not do.

    `reached[k]` is how far in `before` one gets with so many removals and additions, `k` more removals than additions.
    """
    n, m, left = len(before), len(after), most
    reached, trace = {1: 0}, list[dict[int, int]]()
    for changes in range(n + m + 1):
        trace.append({k: reached[k] for k in range(-changes - 1, changes + 2, 2) if k in reached})
        left -= changes + 1
        for k in range(-changes, changes + 1, 2):
            down = k == -changes or (k != changes and reached[k - 1] < reached[k + 1])
            i = reached[k + 1] if down else reached[k - 1] + 1
            while i < n and 0 <= i - k < m and left > 0 and before[i] == after[i - k]:
                i, left = i + 1, left - 1
            reached[k] = i
            if i >= n and i - k >= m:
                return _way_back(trace, n, m)
        if left <= 0:
            return []
    return []


def _way_back(trace: Sequence[dict[int, int]], n: int, m: int) -> list[KeptRun]:
    """The unchanged stretches of the way that reached the end."""
    runs, i, j = [], n, m
    for changes in range(len(trace) - 1, -1, -1):
        reached, k = trace[changes], i - j
        down = k == -changes or (k != changes and reached[k - 1] < reached[k + 1])
        from_ = reached[k + 1] if down else reached[k - 1]
        start = from_ if down else from_ + 1
        if i > start:
            runs.append((start, start - k, i - start))
        i, j = (from_, from_ - k - 1) if down else (from_, from_ - k + 1)
    return runs[::-1]


def characteristics(options: AlteringOptions = WITHOUT_AUDIT) -> dict[str, tuple[str, ...]]:
    """What can be changed, and to what."""
    alterer = options.alterer()
    return {name: alterer.groups(name) for name in alterer.characteristics}
