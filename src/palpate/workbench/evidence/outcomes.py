"""What comes of each span: what coders say of it, aloud or by leaving it out, and what is disputed, waits, is settled.

Coders agree if they keep the same, by whatever way: who takes the model's span and rejects the coder's agrees with who
corrects the coder's span to the model's. A span that a coder added waits until a second one has said something of it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Container, Mapping, Sequence
from typing import NamedTuple

from palpate.workbench.evidence import decisions
from palpate.workbench.evidence.decisions import ADDED, REJECT, Decisions, ProposedSpan, SpanDecision
from palpate.workbench.people import CODER, Person
from palpate.workbench.store import BenchStore

Read = Mapping[int, Collection[int]]
"""The notes that each coder has read to the end, of those without a proposed span."""
KeptSpan = tuple[int, int, int, str]
"""Note, begin, end, code."""


class ReviewState(NamedTuple):
    """Everything that was said of a set, and what comes of it."""

    spans: list[ProposedSpan]
    """The proposed ones, and the added ones of which somebody says something."""
    by_coder: dict[int, Decisions]
    """As they entered it."""
    read: Read
    said: dict[int, Decisions]
    """With a no to what they left out."""
    judged: Decisions
    disputed: list[int]
    waiting: list[int]
    open: list[int]
    """What is for the coordinator: what is disputed, and after the end of the review also what still waited."""
    settled: Decisions


def review_state(store: BenchStore, number: int, people: Sequence[Person]) -> ReviewState:
    """What was said of a set so far."""
    read, entered = decisions.read_notes(store, number), decisions.all_decisions(store, number)
    by_coder: dict[int, Decisions] = {person: entered.get(person, {}) for person in sorted({*entered, *read})}
    judged = decisions.judgements(store, number)
    there = {place for given in (*by_coder.values(), judged) for place in given}
    spans = seen_by(decisions.items_of_set(store, number), there)
    said = with_silence(spans, by_coder, read)
    now = time.time()
    coders = {each.id for each in people if CODER in each.roles and each.expires > now} | set(by_coder)
    at_odds, alone = disputed(spans, said), waiting(spans, said, coders)
    closed = decisions.sets(store, number)[0].closed
    ends = settled(spans, said, judged, [*at_odds, *alone])
    return ReviewState(
        spans, by_coder, read, said, judged, at_odds, alone, sorted([*at_odds, *(alone if closed else [])]), ends
    )


def seen_by(spans: Sequence[ProposedSpan], given: Container[int]) -> list[ProposedSpan]:
    """The proposed spans, and of the added ones those about which there is a decision."""
    return [span for span in spans if span.by != ADDED or span.place in given]


def finished_notes(spans: Sequence[ProposedSpan], given: Decisions, read: Collection[int]) -> set[int]:
    """The notes of which somebody decided about every proposed span; those without one, if they have read them."""
    proposed = [span for span in spans if span.by != ADDED]
    left = {span.note for span in proposed if span.place not in given}
    marked = {span.note for span in proposed}
    return (marked - left) | (set(read) - marked)


def with_silence(spans: Sequence[ProposedSpan], by_coder: Mapping[int, Decisions], read: Read) -> dict[int, Decisions]:
    """Every coder's decisions, and a no to each added span of a note that they finished without adding it."""
    held = {place for given in by_coder.values() for place in given}
    added = [span for span in spans if span.by == ADDED and span.place in held]
    said: dict[int, Decisions] = {}
    for who, given in by_coder.items():
        notes = finished_notes(spans, given, read.get(who, ()))
        silent = {
            span.place: SpanDecision(REJECT, span.begin, span.end, span.code)
            for span in added
            if span.place not in given and span.note in notes
        }
        said[who] = {**given, **silent}
    return said


def _kept(notes: Mapping[int, int], given: Decisions) -> set[KeptSpan]:
    """What is left of somebody's spans."""
    return {(notes[place], one.begin, one.end, one.code) for place, one in given.items() if one.decision != REJECT}


def disputed(spans: Sequence[ProposedSpan], said: Mapping[int, Decisions]) -> list[int]:
    """The places of which somebody keeps what another, who decided about it, keeps nowhere."""
    notes = {span.place: span.note for span in spans}
    kept = {who: _kept(notes, given) for who, given in said.items()}
    found = []
    for place, by in _by_place(said).items():
        first = next(iter(by.values()))
        if not all(one.agrees(first) for one in by.values()):
            wanted = _kept_at(notes[place], by)
            found += [place] if any(not wanted <= kept[who] for who in by) else []
    return sorted(found)


def _by_place(said: Mapping[int, Decisions]) -> dict[int, dict[int, SpanDecision]]:
    """What each coder says of each span."""
    found: dict[int, dict[int, SpanDecision]] = {}
    for who, given in said.items():
        for place, one in given.items():
            found.setdefault(place, {})[who] = one
    return found


def _kept_at(note: int, by: Mapping[int, SpanDecision]) -> set[KeptSpan]:
    """What coders make of one span."""
    return {(note, one.begin, one.end, one.code) for one in by.values() if one.decision != REJECT}


def waiting(spans: Sequence[ProposedSpan], said: Mapping[int, Decisions], coders: Collection[int]) -> list[int]:
    """The added spans that have one coder's word alone, while another of the coders could still say something."""
    notes = {span.place: span.note for span in spans}
    kept = {who: _kept(notes, given) for who, given in said.items()}
    added, found = {span.place for span in spans if span.by == ADDED}, []
    for place, by in _by_place(said).items():
        wanted = _kept_at(notes[place], by) if place in added else set()
        heard = {who for who in said if who in by or wanted <= kept[who]}
        if wanted and len(heard) < 2 and set(coders) - heard:
            found.append(place)
    return sorted(found)


def settled(
    spans: Sequence[ProposedSpan], said: Mapping[int, Decisions], judged: Decisions, left: Collection[int]
) -> dict[int, SpanDecision]:
    """What comes of each span that is not left open: as the coordinator decided, or else as the coders did.

    Coders who keep the same may have come to it by different spans; a span that one of them keeps is then kept. What
    the coordinator judged away does not come back as a coder's correction of another span.
    """
    agreed: dict[int, SpanDecision] = {}
    for given in said.values():
        for place, one in given.items():
            if place not in agreed or agreed[place].decision == REJECT:
                agreed[place] = one
    for place in left:
        agreed.pop(place, None)
    notes, away = {span.place: span.note for span in spans}, _judged_away(spans, judged)
    for place, one in agreed.items():
        if one.decision != REJECT and (notes.get(place), one.begin, one.end, one.code) in away:
            agreed[place] = one._replace(decision=REJECT)
    return dict(sorted({**agreed, **judged}.items()))


def _judged_away(spans: Sequence[ProposedSpan], judged: Decisions) -> set[KeptSpan]:
    """Proposed spans that the coordinator rejected or corrected, and kept nowhere else."""
    asked = {(one.note, one.begin, one.end, one.code) for one in spans if one.place in judged}
    return asked - _kept({span.place: span.note for span in spans}, judged)
