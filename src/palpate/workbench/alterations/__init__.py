"""Review alterations: random altered notes, which reviewers mark right, wrong or unsure, and the error rate of them.

The notes are drawn as `palpate alter --sample` draws them, at random and not by how much a model reacts. Nobody sees
another's marks but the coordinator, who also gets the files that the audit `characteristics` takes. Notes are on these
pages only with `--show-notes`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from palpate.commands.review import altered_key, draw_review
from palpate.files import write_atomically
from palpate.report.review import NotePart, note_parts
from palpate.workbench.alterations import marks
from palpate.workbench.alterations.marks import AlteredSample, NoteMark
from palpate.workbench.jobs import can_run, last_job, run_again
from palpate.workbench.notes import AlteringOptions, audit_options, notes_of, source_of
from palpate.workbench.pages import BenchProblem
from palpate.workbench.people import COORDINATOR, REVIEWER, Person
from palpate.workbench.runs import attachment
from palpate.workbench.sections import Bench, BenchSection, Door, Visit, read_number

_AUDIT = "characteristics"
_BOTH = (COORDINATOR, REVIEWER)
_SAID = ("saved", "why_asked", "undone", "nothing")
_AGES = ("25", "45", "65", "85", "90+")


def _sample(visit: Visit) -> AlteredSample:
    found = marks.samples(visit.bench.store, int(visit.path["sample"]))
    if not found:
        raise HTTPException(404)
    return found[0]


def _require_notes(visit: Visit) -> None:
    if not visit.bench.options.show_notes:
        raise BenchProblem("alterations_hidden")


# --- reviewers ----------------------------------------------------------------------------------------------


def _list(visit: Visit) -> Response:
    bench, person = visit.bench, visit.person
    is_coordinator = COORDINATOR in person.roles
    found = marks.samples(bench.store)
    return visit.page(
        "alterations/samples.html.j2",
        samples=[(each, len(marks.marks_of(bench.store, each.id, person.id))) for each in found],
        is_reviewer=REVIEWER in person.roles,
        is_coordinator=is_coordinator,
        offered=offered_groups(bench) if is_coordinator else [],
        has_notes=source_of(bench) is not None,
    )


def _review_page(visit: Visit) -> Response:
    _require_notes(visit)
    sample, store = _sample(visit), visit.bench.store
    given = marks.marks_of(store, sample.id, visit.person.id)
    asked = read_number(visit.query("at"))
    at = asked if asked is not None and 0 <= asked < sample.n else _next(sample, given, -1)
    values: dict[str, Any] = {
        "sample": sample,
        "at": at,
        "parts": shown_note(visit.bench, sample, at),
        "opened": visit.query("open") == "1",
        "given": given.get(at),
        "done": len(given),
        "count": marks.count_marks(sample, given),
        "reasons": marks.REASONS,
        "entry": secrets.token_hex(8),
        "said": visit.query("said") if visit.query("said") in _SAID else "",
    }
    visit.log("read a note", sample=sample.id, item=at)
    return visit.page("alterations/one.html.j2" if visit.is_part else "alterations/review.html.j2", **values)


def shown_note(bench: Bench, sample: AlteredSample, place: int) -> list[NotePart]:
    """A note with its changes, after a check that the cohort still has the note that was altered."""
    notes, kept = notes_of(bench), marks.note_of(bench.store, sample.id, place)
    text = notes.texts[kept.row] if notes is not None and kept.row < len(notes.texts) else None
    if text is None or kept.edits[-1][1] > len(text) or altered_key(text, kept.edits) != kept.altered:
        raise BenchProblem("other_notes", cohort=str(sample.saved["cohort"]))
    return note_parts(text, kept.edits)


def _next(sample: AlteredSample, given: Mapping[int, NoteMark], after: int) -> int:
    """The next note without a mark, from here on and then from the start; the last one where all have one."""
    left = [place for place in range(sample.n) if place not in given]
    return next((place for place in left if place > after), left[0] if left else sample.n - 1)


def _mark(visit: Visit) -> Response:
    """Right goes on to the next note; wrong and unsure stay, to ask why."""
    _require_notes(visit)
    sample, person, store = _sample(visit), visit.person, visit.bench.store
    at = visit.number("at", low=0, high=sample.n - 1)
    mark = visit.field("mark", longest=10)
    marks.enter_mark(store, sample, person.id, at, NoteMark(mark, None), visit.field("entry", longest=64))
    visit.log("marked an alteration", sample=sample.id, item=at)
    if mark != "right":
        return visit.go(f"/alterations/{sample.id}?at={at}&said=why_asked")
    following = _next(sample, marks.marks_of(store, sample.id, person.id), at)
    return visit.go(f"/alterations/{sample.id}?at={following}&said=saved")


def _reason(visit: Visit) -> Response:
    """Why; of a note that is marked."""
    _require_notes(visit)
    sample, person, store = _sample(visit), visit.person, visit.bench.store
    at = visit.number("at", low=0, high=sample.n - 1)
    given = marks.marks_of(store, sample.id, person.id)
    if at not in given:
        raise BenchProblem("mark_first")
    kind = visit.field("kind", longest=20)
    reason = " ".join(visit.field("reason", longest=marks.LONGEST_REASON).split())
    if kind in marks.REASONS:
        reason = visit.bench.texts(f"alterations.why.{kind}")
    marks.enter_mark(store, sample, person.id, at, NoteMark(given[at].mark, reason), visit.field("entry", longest=64))
    visit.log("gave a reason", sample=sample.id, item=at)
    return visit.go(f"/alterations/{sample.id}?at={_next(sample, given, at)}&said=saved")


def _undo(visit: Visit) -> Response:
    sample, person = _sample(visit), visit.person
    place = marks.undo_mark(visit.bench.store, sample, person.id)
    visit.log("took back", sample=sample.id, item=place)
    return visit.go(f"/alterations/{sample.id}?at={place or 0}&said={'nothing' if place is None else 'undone'}")


# --- the coordinator ----------------------------------------------------------------------------------------


def offered_groups(bench: Bench) -> list[str]:
    """`gender=female`, for every characteristic of palpate and of the audit's own definitions."""
    alterer = (audit_options(bench) or AlteringOptions()).alterer()
    offered = {name: _AGES if name == "age" else alterer.groups(name) for name in alterer.characteristics}
    return [f"{name}={group}" for name, groups in offered.items() for group in groups]


def _make(visit: Visit) -> Response:
    source = source_of(visit.bench)
    if source is None:
        raise BenchProblem("no_notes")
    to = [part.strip() for part in visit.field("to", longest=300).split(",")]
    if not all(name.strip() and group.strip() for name, _, group in (part.partition("=") for part in to)):
        raise BenchProblem("to_what")
    n, seed = visit.number("n", low=1, high=marks.MOST_NOTES), visit.number("seed", low=0, high=2**31)
    options = audit_options(visit.bench) or AlteringOptions()
    drawn = draw_review(source, to, n=n, seed=seed, **options._asdict())
    number = marks.make_sample(visit.bench.store, drawn)
    visit.log("drew altered notes", sample=number, notes=len(drawn.sample.notes))
    return visit.go(f"/alterations/{number}/progress")


def _reviewers(bench: Bench, given: Mapping[int, Any]) -> list[Person]:
    return [each for each in bench.register.everybody() if REVIEWER in each.roles or each.id in given]


def _progress(visit: Visit) -> Response:
    sample, bench = _sample(visit), visit.bench
    given = marks.all_marks(bench.store, sample.id)
    people = _reviewers(bench, given)
    counted = [(person, marks.count_marks(sample, given.get(person.id, {}))) for person in people]
    said = [
        (place, [(person, given[person.id][place]) for person in people if place in given.get(person.id, {})])
        for place in range(sample.n)
    ]
    values: dict[str, Any] = {
        "sample": sample,
        "counted": counted,
        "agreement": marks.mark_agreement(sample, list(given.values())),
        "doubtful": [(place, by) for place, by in said if any(mark.mark != "right" for _, mark in by)],
        "can_run": can_run(bench, _AUDIT),
        "job": last_job(bench, _AUDIT, sample.id),
    }
    return visit.page("alterations/rates.html.j2" if visit.is_part else "alterations/progress.html.j2", **values)


def _read_note(visit: Visit) -> Response:
    """One altered note, with what every reviewer said of it."""
    _require_notes(visit)
    sample, bench, place = _sample(visit), visit.bench, int(visit.path["place"])
    if place >= sample.n:
        raise HTTPException(404)
    given = marks.all_marks(bench.store, sample.id)
    by = [(each, given[each.id][place]) for each in _reviewers(bench, given) if place in given.get(each.id, {})]
    parts = shown_note(bench, sample, place)
    visit.log("read a note", sample=sample.id, item=place)
    return visit.page("alterations/note.html.j2", sample=sample, place=place, parts=parts, by=by)


def _close(visit: Visit) -> Response:
    sample, closed = _sample(visit), visit.number("close", low=0, high=1) == 1
    marks.close_sample(visit.bench.store, sample.id, closed=closed)
    visit.log("closed a review" if closed else "opened a review", sample=sample.id)
    return visit.go(f"/alterations/{sample.id}/progress")


def _export(visit: Visit) -> Response:
    sample, bench = _sample(visit), visit.bench
    person = next((each for each in bench.register.everybody() if each.id == int(visit.path["person"])), None)
    if person is None:
        raise HTTPException(404)
    content = marks.review_file(sample, person.name, marks.marks_of(bench.store, sample.id, person.id))
    visit.log("exported a review", sample=sample.id, person=person.name)
    name = f"review-{sample.id}-{person.name}.json"
    return Response(content, media_type="application/json", headers=attachment(name))


def write_reviews(bench: Bench, sample: AlteredSample, folder: Path) -> list[Path]:
    """A file for each reviewer who marked an alteration right or wrong."""
    given, written = marks.all_marks(bench.store, sample.id), []
    for person in _reviewers(bench, given):
        mine = given.get(person.id, {})
        if marks.count_marks(sample, mine).rate is not None:
            written.append(folder / f"review-{sample.id}-{person.id}.json")
            write_atomically(written[-1], marks.review_file(sample, person.name, mine))
    if not written:
        raise BenchProblem("no_marks")
    return written


def _audit(visit: Visit) -> Response:
    sample = _sample(visit)
    files = write_reviews(visit.bench, sample, visit.bench.options.home.absolute())
    run_again(visit.bench, _AUDIT, {"review": [str(file) for file in files]}, about=sample.id)
    visit.log("started an audit", audit=_AUDIT, sample=sample.id)
    return visit.go(f"/alterations/{sample.id}/progress")


_ONLY, _OWN = (COORDINATOR,), (REVIEWER,)
SECTION = BenchSection(
    "alterations",
    (
        Door("GET", "/alterations", _list, roles=_BOTH),
        Door("POST", "/alterations", _make, roles=_ONLY, largest=10_000),
        Door("GET", "/alterations/{sample:int}", _review_page, roles=_OWN),
        Door("POST", "/alterations/{sample:int}/mark", _mark, roles=_OWN, largest=10_000),
        Door("POST", "/alterations/{sample:int}/reason", _reason, roles=_OWN, largest=10_000),
        Door("POST", "/alterations/{sample:int}/undo", _undo, roles=_OWN, largest=10_000),
        Door("GET", "/alterations/{sample:int}/progress", _progress, roles=_ONLY),
        Door("GET", "/alterations/{sample:int}/notes/{place:int}", _read_note, roles=_ONLY),
        Door("POST", "/alterations/{sample:int}/close", _close, roles=_ONLY),
        Door("GET", "/alterations/{sample:int}/review/{person:int}", _export, roles=_ONLY),
        Door("POST", "/alterations/{sample:int}/audit", _audit, roles=_ONLY),
    ),
    roles=_BOTH,
    schema=marks.SCHEMA,
)
