"""Sentences inside real notes: which notes of the cohort take them, and where.

A sentence alone is not what a model for notes reads. Hosts are held-out notes that do not have the label and do not
mention what the sentence is about, so that the sentence decides; each sentence goes into one of them, both sentences of
a pair into the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Edit, Ints
from palpate.errors import ConfigError
from palpate.perturb.suites import SuiteCases
from palpate.perturb.suites.places import find_place, place_sentence
from palpate.perturb.words import find_words
from palpate.perturb.words.tokens import normalise_word

COMMON = 0.5
"""A slot that at least this share of the sentences has is what they are about."""


class Hosts(NamedTuple):
    """The notes that take sentences, and why others of the held-out notes do not, by count."""

    rows: Ints
    left_out: dict[str, int]
    wanted: int

    def notice(self) -> str | None:
        """What the user should hear before anything is scored, if there are fewer notes than asked for."""
        if len(self.rows) >= self.wanted:
            return None
        why = "; ".join(f"{n:,} {reason}" for reason, n in self.left_out.items())
        return f"Only {len(self.rows):,} of {self.wanted:,} notes can take a sentence; left out: {why or 'none'}."


def choose_hosts(
    cohort: Cohort, rows: Ints, labels: Sequence[str], cases: SuiteCases, n: int, rng: np.random.Generator
) -> Hosts:
    """`n` notes at random from those of `rows` that can take a sentence."""
    if not cohort.has_text:
        hint = "leave out `embed:`, or give a cohort with text"
        raise ConfigError("audit 'capabilities': sentences can only be embedded in notes", hint=hint)
    left_out: Counter[str] = Counter()
    texts = [cohort.texts[row] for row in rows.tolist()]
    mentions = _mentions(texts, cases)
    has_label = np.zeros(len(rows), dtype=bool)
    if cohort.labels:
        has_label = (cohort.y_true(rows, tuple(labels)) == 1).any(axis=1)
    kept = []
    for k, (row, text) in enumerate(zip(rows.tolist(), texts, strict=True)):
        if has_label[k]:
            left_out["have the label"] += 1
        elif mentions[k]:
            left_out["mention what the sentences are about"] += 1
        elif find_place(text) is None:
            left_out["have no running text"] += 1
        else:
            kept.append(row)
    if not kept:
        why = "; ".join(f"{count:,} {reason}" for reason, count in left_out.items()) or "there are none"
        hint = "leave out `embed:`, or choose other `slots:`"
        raise ConfigError(f"audit 'capabilities': no held-out note can take a sentence ({why})", hint=hint)
    chosen = rng.permutation(np.array(kept, dtype=np.int64))[:n]
    return Hosts(chosen, dict(left_out), n)


def embed_sentences(cohort: Cohort, hosts: Hosts, cases: SuiteCases) -> tuple[Ints, list[Edit]]:
    """The note and the edit of each first text, then of each second text of a pair.

    The cases of a template go to the hosts in turn, so that no template depends on one note.
    """
    turn: Counter[int] = Counter()
    host = np.zeros(len(cases), dtype=np.int64)
    for k, template in enumerate(cases.template.tolist()):
        # Templates begin with different hosts, so that few cases per template still meet many notes.
        host[k] = hosts.rows[(template + turn[template]) % len(hosts.rows)]
        turn[template] += 1
    pairs = [k for k, text in enumerate(cases.changed) if text]
    parent = np.concatenate([host, host[pairs]]).astype(np.int64)
    written = [*cases.texts, *(cases.changed[k] for k in pairs)]
    edits = []
    for row, text in zip(parent.tolist(), written, strict=True):
        edit = place_sentence(cohort.texts[row], text)
        if edit is None:
            raise ValueError("a host has no place for a sentence")
        edits.append(edit)
    return parent, edits


def _mentions(texts: Sequence[str], cases: SuiteCases) -> list[bool]:
    """Whether each text names a value of the slots that the sentences are about."""
    words = set()
    for slot, index in cases.fill.items():
        if (index >= 0).mean() >= COMMON:
            for entry in cases.lexicons[slot].entries:
                words |= {normalise_word(name) for name in entry.names()}
    known = sorted(word for word in words if any(map(str.isalnum, word)))
    found = [False] * len(texts)
    if known and texts:
        for text in find_words(texts, known, occurrences="all").text.tolist():
            found[text] = True
    return found
