"""One span at a time: what coders decide and add, blind to each other, and what the coordinator adjudicates."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from palpate.workbench.evidence import decisions
from palpate.workbench.evidence.additions import FIRST_PLACE, add_span, find_span
from palpate.workbench.evidence.decisions import (
    ACCEPT,
    CORRECT,
    REJECT,
    EvidenceSet,
    ProposedSpan,
    ReviewedNote,
    SpanDecision,
)
from palpate.workbench.evidence.imports import LONGEST_NOTE, MOST_NOTES
from palpate.workbench.evidence.outcomes import ReviewState, review_state, seen_by
from palpate.workbench.evidence.passages import LONGEST_WORDS, locate, passages
from palpate.workbench.pages import BenchProblem
from palpate.workbench.sections import Door, Visit, read_number

_SAID = ("saved", "added", "why_asked", "undone", "nothing")


def find_set(visit: Visit) -> EvidenceSet:
    """The set of the address."""
    found = decisions.sets(visit.bench.store, int(visit.path["number"]))
    if not found:
        raise HTTPException(404)
    return found[0]


def require_notes(visit: Visit) -> None:
    """Nothing of a chart is shown or decided without its text on the page."""
    if not visit.bench.options.show_notes:
        raise BenchProblem("evidence_hidden")


def _base(found: EvidenceSet, judge: bool) -> str:
    return f"/evidence/{found.id}/judge" if judge else f"/evidence/{found.id}"


def _asked_places(visit: Visit, found: EvidenceSet, judge: bool) -> list[int]:
    """Which spans are gone through: all that the coder sees, or those that are for the coordinator."""
    if judge:
        return _state(visit, found).open
    added = [place for place in _own(visit, found, judge) if place >= FIRST_PLACE]
    return [*range(found.n), *sorted(added)]


def _state(visit: Visit, found: EvidenceSet) -> ReviewState:
    return review_state(visit.bench.store, found.id, visit.bench.register.everybody())


def _next(places: list[int], given: decisions.Decisions, after: int) -> int:
    """The next span without a decision, from here on and then from the start; the last one where all have one."""
    left = [place for place in places if place not in given]
    return next((place for place in left if place > after), left[0] if left else places[-1])


def _page(visit: Visit, *, judge: bool) -> Response:
    require_notes(visit)
    found, store = find_set(visit), visit.bench.store
    places, asked = _asked_places(visit, found, judge), read_number(visit.query("at"))
    if not places:
        return visit.go(f"/evidence/{found.id}/progress")
    given = _own(visit, found, judge)
    at = asked if asked is not None and asked in places else _next(places, given, -1)
    every = decisions.items_of_set(store, found.id)
    beside = seen_by(decisions.items_of_set(store, found.id, place=at), places if judge else given)
    span = next(each for each in beside if each.place == at)
    note = decisions.notes_of_set(store, found.id, span.note)[0]
    said = given.get(at)
    kept = (span.begin, span.end, span.code) if said is None else (said.begin, said.end, said.code)
    here = places.index(at)
    values: dict[str, Any] = {
        "found": found,
        "base": _base(found, judge),
        "judge": judge,
        "span": span,
        "note": note,
        "pieces": None if note.text is None else passages(note.text, beside, at),
        "words": None if note.text is None else " ".join(note.text[kept[0] : kept[1]].split()),
        "kept": kept,
        "given": said,
        "others": _others(visit, found, at) if judge else [],
        "codes": _codes(every),
        **({"unmarked": [], "read": set(), "unread": None} if judge else _notes_beside(visit, found)),
        "done": sum(place in given for place in places),
        "here_is": (here + 1, len(places)),
        "beside": (places[max(here - 1, 0)], places[min(here + 1, len(places) - 1)]),
        "reasons": decisions.REASONS,
        "entry": secrets.token_hex(8),
        "said": visit.query("said") if visit.query("said") in _SAID else "",
    }
    visit.log("read a note", set=found.id, item=at)
    return visit.page("evidence/one.html.j2" if visit.is_part else "evidence/review.html.j2", **values)


def _notes_beside(visit: Visit, found: EvidenceSet) -> dict[str, Any]:
    """The notes in which nobody proposed a span, which of them this person has read, and the first that is left."""
    unmarked = decisions.unmarked_notes(visit.bench.store, found.id)
    read = decisions.read_notes(visit.bench.store, found.id).get(visit.person.id, set())
    left = [note.place for note in unmarked if note.place not in read]
    return {"unmarked": unmarked, "read": read, "unread": left[0] if left else None}


def _own(visit: Visit, found: EvidenceSet, judge: bool) -> dict[int, SpanDecision]:
    """What this person decided; of adjudication, what any coordinator did."""
    store = visit.bench.store
    return decisions.judgements(store, found.id) if judge else decisions.decisions_of(store, found.id, visit.person.id)


def _others(visit: Visit, found: EvidenceSet, at: int) -> list[tuple[str, SpanDecision]]:
    """What the coders said, for the coordinator alone."""
    names = {person.id: person.name for person in visit.bench.register.everybody()}
    said = _state(visit, found).said
    return [(names[person], given[at]) for person, given in said.items() if at in given]


def _span(visit: Visit, found: EvidenceSet, judge: bool) -> ProposedSpan:
    """The span that a form is about: one that this person sees."""
    at = visit.number("at", low=0, high=10**10)
    if judge or at in _asked_places(visit, found, judge):
        for each in decisions.items_of_set(visit.bench.store, found.id, place=at):
            if each.place == at:
                return each
    raise BenchProblem("decision")


def _enter(
    visit: Visit, found: EvidenceSet, place: int, given: SpanDecision, *, judge: bool, carried: bool = False
) -> None:
    entry = visit.field("entry", longest=64)
    decisions.decide(visit.bench.store, found, visit.person.id, place, given, entry, judge=judge, carried=carried)
    visit.log("adjudicated" if judge else "decided about a span", set=found.id, item=place)


def _go_on(visit: Visit, found: EvidenceSet, at: int, *, judge: bool) -> Response:
    following = _next(_asked_places(visit, found, judge) or [at], _own(visit, found, judge), at)
    return visit.go(f"{_base(found, judge)}?at={following}&said=saved")


def _decide(visit: Visit, *, judge: bool) -> Response:
    """Accepting goes on to the next span; rejecting stays, to ask why."""
    require_notes(visit)
    found = find_set(visit)
    span, decision = _span(visit, found, judge), visit.field("decision", longest=10)
    if decision not in (ACCEPT, REJECT):
        raise BenchProblem("decision")
    before = _own(visit, found, judge).get(span.place)
    reason = before.reason if before is not None and before.decision == decision else ""
    given = SpanDecision(decision, span.begin, span.end, span.code, reason)
    _enter(visit, found, span.place, given, judge=judge, carried=True)
    if decision == REJECT:
        return visit.go(f"{_base(found, judge)}?at={span.place}&said=why_asked")
    return _go_on(visit, found, span.place, judge=judge)


def _correct(visit: Visit, *, judge: bool) -> Response:
    """Other words, another code, or both."""
    require_notes(visit)
    found = find_set(visit)
    span = _span(visit, found, judge)
    text = decisions.notes_of_set(visit.bench.store, found.id, span.note)[0].text
    code = _code(visit)
    if text is None:
        begin, end = _offsets(visit)
    else:
        words = visit.field("words", longest=LONGEST_WORDS)
        same = words.split() == text[span.begin : span.end].split()
        begin, end = (span.begin, span.end) if same else locate(text, words, span.begin)
    reason = " ".join(visit.field("reason", longest=decisions.LONGEST_REASON).split())
    changed = (begin, end, code) != (span.begin, span.end, span.code)
    _enter(
        visit, found, span.place, SpanDecision(CORRECT if changed else ACCEPT, begin, end, code, reason), judge=judge
    )
    return _go_on(visit, found, span.place, judge=judge)


def _code(visit: Visit) -> str:
    code = visit.field("code", longest=decisions.LONGEST_CODE).strip()
    if not code or not code.isprintable():
        raise BenchProblem("code", n=decisions.LONGEST_CODE)
    return code


def _offsets(visit: Visit) -> tuple[int, int]:
    """Of a note whose text is not here."""
    begin, end = (visit.number(name, low=0, high=LONGEST_NOTE) for name in ("begin", "end"))
    if begin >= end:
        raise BenchProblem("span_end")
    return begin, end


def _add(visit: Visit) -> Response:
    """A span that nobody proposed."""
    require_notes(visit)
    found, store = find_set(visit), visit.bench.store
    note = _note(visit, found, visit.number("note", low=0, high=MOST_NOTES))
    text, code = note.text, _code(visit)
    if text is None:
        begin, end = _offsets(visit)
    else:
        words, last = (visit.field(name, longest=LONGEST_WORDS) for name in ("first", "last"))
        near = read_number(visit.field("near", longest=20))
        which = visit.number("which", low=1, high=10**6) if visit.field("which") else 1
        begin, end = find_span(text, words, last, which=which, near=near)
    reason = " ".join(visit.field("reason", longest=decisions.LONGEST_REASON).split())
    span = ProposedSpan(0, note.place, begin, end, code, _system(visit, found, code), decisions.ADDED)
    place, was_there = add_span(store, found, visit.person.id, span, reason, visit.field("entry", longest=64))
    visit.log("added a span", set=found.id)
    told = "saved" if was_there else "added"
    if _first_place(visit, found, note) is None:  # there may be more to add, and then to say that it is all
        return visit.go(f"{_base(found, False)}/notes/{note.place}?said={told}")
    return visit.go(f"{_base(found, False)}?at={place}&said={told}")


def _first_place(visit: Visit, found: EvidenceSet, note: ReviewedNote) -> int | None:
    """The first proposed span of a note."""
    spans = decisions.items_of_set(visit.bench.store, found.id)
    return next((one.place for one in spans if one.note == note.place and one.by != decisions.ADDED), None)


def _note(visit: Visit, found: EvidenceSet, place: int) -> ReviewedNote:
    notes = decisions.notes_of_set(visit.bench.store, found.id, place)
    if not notes:
        raise HTTPException(404)
    return notes[0]


def _system(visit: Visit, found: EvidenceSet, code: str) -> str:
    """The code system of an added span: that of the same code in the set, or else of the set's first span."""
    spans = decisions.items_of_set(visit.bench.store, found.id)
    return next((span.code_system for span in spans if span.code == code), spans[0].code_system)


def _note_page(visit: Visit) -> Response:
    """A note in which nobody marked anything, to add a span or to say that there is none."""
    require_notes(visit)
    found = find_set(visit)
    note = _note(visit, found, int(visit.path["place"]))
    spans = decisions.items_of_set(visit.bench.store, found.id)
    first = _first_place(visit, found, note)
    if first is not None:
        return visit.go(f"{_base(found, False)}?at={first}")
    beside = _notes_beside(visit, found)
    left = [each.place for each in beside["unmarked"] if each.place not in beside["read"]]
    own = [one for one in seen_by(spans, _own(visit, found, False)) if one.note == note.place]
    visit.log("read a note", set=found.id)
    return visit.page(
        "evidence/note.html.j2",
        found=found,
        base=_base(found, False),
        note=note,
        span=None,
        pieces=None if note.text is None else passages(note.text, own, -1),
        codes=_codes(spans),
        entry=secrets.token_hex(8),
        unmarked=beside["unmarked"],
        read=beside["read"],
        following=_following(left, note.place),
        own=own,
        said=visit.query("said") if visit.query("said") in _SAID else "",
    )


def _following(left: Sequence[int], after: int) -> int | None:
    """The next note that is not read, from here on and then from the start."""
    others = [place for place in left if place != after]
    return next((place for place in others if place > after), others[0] if others else None)


def _read(visit: Visit) -> Response:
    """They have read the note to its end, or take that back."""
    require_notes(visit)
    found, store = find_set(visit), visit.bench.store
    note, done = _note(visit, found, int(visit.path["place"])), visit.field("read", longest=1) == "1"
    decisions.mark_read(store, found, visit.person.id, note.place, read=done)
    visit.log("finished a note" if done else "took back", set=found.id)
    return visit.go(f"{_base(found, False)}/notes/{note.place}?said={'saved' if done else 'undone'}")


def _codes(spans: Sequence[ProposedSpan]) -> list[str]:
    """What a coder is offered: codes of the set, none that somebody else added."""
    return sorted({one.code for one in spans if one.by != decisions.ADDED})


def _reason(visit: Visit, *, judge: bool) -> Response:
    """Why; of a span that is decided."""
    require_notes(visit)
    found = find_set(visit)
    at = visit.number("at", low=0, high=10**10)
    before = _own(visit, found, judge).get(at)
    if before is None:
        raise BenchProblem("decide_first")
    kind = visit.field("kind", longest=20)
    reason = " ".join(visit.field("reason", longest=decisions.LONGEST_REASON).split())
    if kind in decisions.REASONS:
        reason = visit.bench.texts(f"evidence.why.{kind}")
    _enter(visit, found, at, before._replace(reason=reason), judge=judge)
    return _go_on(visit, found, at, judge=judge)


def _undo(visit: Visit, *, judge: bool) -> Response:
    found = find_set(visit)
    place = decisions.undo_decision(visit.bench.store, found, visit.person.id, judge=judge)
    visit.log("took back", set=found.id, item=place)
    told = "nothing" if place is None else "undone"
    return visit.go(f"{_base(found, judge)}?at={'' if place is None else place}&said={told}")


def add_doors(base: str, roles: tuple[str, ...]) -> list[Door]:
    """For coders alone: the coordinator decides about what they added."""
    return [
        Door("GET", f"{base}/notes/{{place:int}}", _note_page, roles=roles),
        Door("POST", f"{base}/notes/{{place:int}}/read", _read, roles=roles),
        Door("POST", f"{base}/add", _add, roles=roles, largest=20_000),
    ]


def review_doors(base: str, roles: tuple[str, ...], *, judge: bool) -> list[Door]:
    """The page of one span, and what can be said of it."""
    small = 20_000
    posts = {"decide": _decide, "correct": _correct, "reason": _reason, "undo": _undo}
    return [
        Door("GET", base, partial(_page, judge=judge), roles=roles),
        *(
            Door("POST", f"{base}/{name}", partial(f, judge=judge), roles=roles, largest=small)
            for name, f in posts.items()
        ),
    ]
