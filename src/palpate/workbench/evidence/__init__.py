"""Review evidence: coders accept, reject or correct the spans of other coders and of a model, blind to each other.

The coordinator imports charts (MDACE's JSON, UIMA CAS JSON, or a run's evidence audit), sees agreement, adjudicates
what coders disagree about, and exports in the same formats. Text of notes is on a page only with `--show-notes`; that
of imported charts is kept with the entries until the set is deleted.
"""

from __future__ import annotations

import secrets
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from palpate.data.annotations import CODE_SYSTEMS
from palpate.errors import InputError
from palpate.workbench.evidence import decisions, exports, imports
from palpate.workbench.evidence.decisions import ACCEPT, CORRECT, REJECT, EvidenceSet, ProposedSpan, SpanDecision
from palpate.workbench.evidence.exports import CoderAgreement, ReviewedCharts
from palpate.workbench.evidence.passages import LONGEST_WORDS, locate, passages
from palpate.workbench.notes import all_notes
from palpate.workbench.people import CODER, COORDINATOR
from palpate.workbench.runs import attachment, shelf_of
from palpate.workbench.sections import Bench, BenchSection, Door, Visit, read_number

_BOTH = (COORDINATOR, CODER)
_SAID = ("saved", "why_asked", "undone", "nothing")
_FORMS = {"mdace": "application/zip", "cas": "application/zip", "csv": "text/csv"}


def _set(visit: Visit) -> EvidenceSet:
    found = decisions.sets(visit.bench.store, int(visit.path["number"]))
    if not found:
        raise HTTPException(404)
    return found[0]


def _require_notes(visit: Visit) -> None:
    if not visit.bench.options.show_notes:
        raise InputError(visit.bench.texts("evidence.hidden"))


def _list(visit: Visit) -> Response:
    store, person = visit.bench.store, visit.person
    is_coordinator = COORDINATOR in person.roles
    return visit.page(
        "evidence/sets.html.j2",
        sets=[(each, len(decisions.decisions_of(store, each.id, person.id))) for each in decisions.sets(store)],
        is_coder=CODER in person.roles,
        is_coordinator=is_coordinator,
        runs=runs_with_spans(visit.bench) if is_coordinator else [],
        code_systems=CODE_SYSTEMS,
    )


# --- one span at a time: coders, and the coordinator who adjudicates (`judge`) ------------------------------


def _base(found: EvidenceSet, judge: bool) -> str:
    return f"/evidence/{found.id}/judge" if judge else f"/evidence/{found.id}"


def _asked_places(visit: Visit, found: EvidenceSet, judge: bool) -> list[int]:
    """Which spans are gone through: all, or those that coders disagree about."""
    if not judge:
        return list(range(found.n))
    return decisions.disputed(decisions.all_decisions(visit.bench.store, found.id))


def _next(places: list[int], given: decisions.Decisions, after: int) -> int:
    """The next span without a decision, from here on and then from the start; the last one where all have one."""
    left = [place for place in places if place not in given]
    return next((place for place in left if place > after), left[0] if left else places[-1])


def _page(visit: Visit, *, judge: bool) -> Response:
    _require_notes(visit)
    found, store = _set(visit), visit.bench.store
    places, asked = _asked_places(visit, found, judge), read_number(visit.query("at"))
    if not places:
        return visit.go(f"/evidence/{found.id}/progress")
    given = _own(visit, found, judge)
    at = asked if asked is not None and asked in places else _next(places, given, -1)
    beside = decisions.items_of_set(store, found.id, place=at)
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
        "done": sum(place in given for place in places),
        "here_is": (here + 1, len(places)),
        "beside": (places[max(here - 1, 0)], places[min(here + 1, len(places) - 1)]),
        "reasons": decisions.REASONS,
        "entry": secrets.token_hex(8),
        "said": visit.query("said") if visit.query("said") in _SAID else "",
    }
    visit.log("read a note", set=found.id, item=at)
    return visit.page("evidence/one.html.j2" if visit.is_part else "evidence/review.html.j2", **values)


def _own(visit: Visit, found: EvidenceSet, judge: bool) -> dict[int, SpanDecision]:
    """What this person decided; of adjudication, what any coordinator did."""
    store = visit.bench.store
    return decisions.judgements(store, found.id) if judge else decisions.decisions_of(store, found.id, visit.person.id)


def _others(visit: Visit, found: EvidenceSet, at: int) -> list[tuple[str, SpanDecision]]:
    """What the coders said, for the coordinator alone."""
    names = {person.id: person.name for person in visit.bench.register.everybody()}
    by_coder = decisions.all_decisions(visit.bench.store, found.id)
    return [(names[person], given[at]) for person, given in by_coder.items() if at in given]


def _span(visit: Visit, found: EvidenceSet) -> ProposedSpan:
    at = visit.number("at", low=0, high=found.n - 1)
    return next(each for each in decisions.items_of_set(visit.bench.store, found.id, place=at) if each.place == at)


def _enter(visit: Visit, found: EvidenceSet, place: int, given: SpanDecision, *, judge: bool) -> None:
    entry = visit.field("entry", longest=64)
    decisions.decide(visit.bench.store, found, visit.person.id, place, given, entry, judge=judge)
    visit.log("adjudicated" if judge else "decided about a span", set=found.id, item=place)


def _go_on(visit: Visit, found: EvidenceSet, at: int, *, judge: bool) -> Response:
    following = _next(_asked_places(visit, found, judge) or [at], _own(visit, found, judge), at)
    return visit.go(f"{_base(found, judge)}?at={following}&said=saved")


def _decide(visit: Visit, *, judge: bool) -> Response:
    """Accepting goes on to the next span; rejecting stays, to ask why."""
    _require_notes(visit)
    found = _set(visit)
    span, decision = _span(visit, found), visit.field("decision", longest=10)
    if decision not in (ACCEPT, REJECT):
        raise InputError("a decision is to accept, reject or correct a span of the set")
    before = _own(visit, found, judge).get(span.place)
    reason = before.reason if before is not None and before.decision == decision else ""
    given = SpanDecision(decision, span.begin, span.end, span.code, reason)
    _enter(visit, found, span.place, given, judge=judge)
    if decision == REJECT:
        return visit.go(f"{_base(found, judge)}?at={span.place}&said=why_asked")
    return _go_on(visit, found, span.place, judge=judge)


def _correct(visit: Visit, *, judge: bool) -> Response:
    """Other words, another code, or both."""
    _require_notes(visit)
    found = _set(visit)
    span = _span(visit, found)
    text = decisions.notes_of_set(visit.bench.store, found.id, span.note)[0].text
    code = visit.field("code", longest=decisions.LONGEST_CODE).strip()
    if not code or not code.isprintable():
        raise InputError(f"a code has 1 to {decisions.LONGEST_CODE} characters")
    if text is None:
        begin, end = (visit.number(name, low=0, high=10**9) for name in ("begin", "end"))
        if begin >= end:
            raise InputError("a span ends after its start")
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


def _reason(visit: Visit, *, judge: bool) -> Response:
    """Why; of a span that is decided."""
    _require_notes(visit)
    found = _set(visit)
    at = visit.number("at", low=0, high=found.n - 1)
    before = _own(visit, found, judge).get(at)
    if before is None:
        raise InputError(visit.bench.texts("evidence.decide_first"))
    kind = visit.field("kind", longest=20)
    reason = " ".join(visit.field("reason", longest=decisions.LONGEST_REASON).split())
    if kind in decisions.REASONS:
        reason = visit.bench.texts(f"evidence.why.{kind}")
    _enter(visit, found, at, before._replace(reason=reason), judge=judge)
    return _go_on(visit, found, at, judge=judge)


def _undo(visit: Visit, *, judge: bool) -> Response:
    found = _set(visit)
    place = decisions.undo_decision(visit.bench.store, found, visit.person.id, judge=judge)
    visit.log("took back", set=found.id, item=place)
    told = "nothing" if place is None else "undone"
    return visit.go(f"{_base(found, judge)}?at={'' if place is None else place}&said={told}")


# --- the coordinator ----------------------------------------------------------------------------------------


def runs_with_spans(bench: Bench) -> list[tuple[str, str]]:
    """The runs and models of which the evidence audit kept spans."""
    shelf = shelf_of(bench)
    found = []
    for name, path in shelf.paths.items():
        try:
            found += [(name, model) for model in imports.models_of_run(path)]
        except (InputError, OSError):
            continue
    return found


def _make(visit: Visit) -> Response:
    """Import charts from files, or from a run."""
    bench, title = visit.bench, visit.field("title", longest=200)
    system = visit.field("code_system", longest=20) or CODE_SYSTEMS[2]
    known = all_notes(bench)
    texts = {} if known is None else dict(zip(known.cases, known.texts, strict=True))
    if visit.field("source", longest=10) == "run":
        name, _, model = visit.field("run", longest=400).partition("\n")
        if (name, model) not in runs_with_spans(bench):
            raise InputError("this run has no spans of the evidence audit and this model")
        charts = imports.read_run(shelf_of(bench).paths[name], model, code_system=system, texts=texts)
    else:
        how = imports.ReadHow(system, *(visit.field(name, longest=200) for name in ("annotator", "layer", "feature")))
        coders = _files(visit, "coder_file", how, by_model=False)
        models = _files(visit, "model_file", how, by_model=True)
        if not coders and not models:
            raise InputError("no file was chosen")
        charts = imports.combine(coders, models, texts)
    number = decisions.make_set(bench.store, title, charts.notes, charts.spans)
    visit.log("imported charts", set=number, notes=len(charts.notes), spans=len(charts.spans))
    return visit.go(f"/evidence/{number}/progress")


def _files(visit: Visit, field: str, how: imports.ReadHow, *, by_model: bool) -> list[imports.MarkedNote]:
    try:
        name, content = visit.file(field)
    except InputError:
        return []
    return imports.read_file(name, content, how, by_model=by_model)


def reviewed(bench: Bench, number: int) -> ReviewedCharts:
    """A set with everything that was said of it."""
    names = {person.id: person.name for person in bench.register.everybody()}
    by_coder = decisions.all_decisions(bench.store, number)
    judged = decisions.judgements(bench.store, number)
    return ReviewedCharts(
        decisions.notes_of_set(bench.store, number),
        decisions.items_of_set(bench.store, number),
        {names[person]: given for person, given in by_coder.items()},
        decisions.settled(by_coder, judged),
        judged,
    )


def _agreement(bench: Bench, number: int, charts: ReviewedCharts) -> CoderAgreement:
    """Measured again only when something was entered."""
    sql = "SELECT count(*) AS n, sum(undone) AS undone FROM evidence_entries WHERE number = ? AND judge = 0"
    state = tuple(bench.store.read(sql, (number,))[0])
    measured: dict[int, tuple[Any, CoderAgreement]] = bench.kept("evidence-agreement", dict)
    if number not in measured or measured[number][0] != state:
        measured[number] = (state, exports.agreement(charts))
    return measured[number][1]


def _progress(visit: Visit) -> Response:
    found, bench = _set(visit), visit.bench
    charts = reviewed(bench, found.id)
    disputed = decisions.disputed(dict(enumerate(charts.by_coder.values())))
    people = [each for each in bench.register.everybody() if CODER in each.roles or each.name in charts.by_coder]
    counted = []
    for person in people:
        said = [given.decision for given in charts.by_coder.get(person.name, {}).values()]
        counted.append((person, len(said), [said.count(each) for each in decisions.DECISIONS]))
    values: dict[str, Any] = {
        "found": found,
        "counted": counted,
        "agreement": _agreement(bench, found.id, charts),
        "n_disputed": len(disputed),
        "n_judged": sum(place in charts.judged for place in disputed),
        "n_settled": len(charts.settled),
        "has_text": all(note.text is not None for note in charts.notes),
    }
    return visit.page("evidence/agreement.html.j2" if visit.is_part else "evidence/progress.html.j2", **values)


def _close(visit: Visit) -> Response:
    found = _set(visit)
    decisions.close_set(visit.bench.store, found.id, closed=not found.closed)
    visit.log("closed a review" if not found.closed else "opened a review", set=found.id)
    return visit.go(f"/evidence/{found.id}/progress")


def _delete(visit: Visit) -> Response:
    found = _set(visit)
    if visit.field("title", longest=200).strip() != found.title:
        raise InputError(visit.bench.texts("evidence.delete_title"))
    decisions.delete_set(visit.bench.store, found.id)
    visit.log("deleted a review", set=found.id)
    return visit.go("/evidence")


def _export(visit: Visit) -> Response:
    """What was settled, or what one coder decided."""
    found, bench, form = _set(visit), visit.bench, str(visit.path["form"])
    if form not in _FORMS:
        raise HTTPException(404)
    charts, who = reviewed(bench, found.id), visit.query("who")
    with_text = visit.query("text") == "1" or form == "cas"
    if with_text:
        _require_notes(visit)
    if form == "csv":
        content: str | bytes = exports.decision_table(charts)
    elif form == "cas":
        content = exports.cas_files(charts)
    else:
        person = next((each for each in bench.register.everybody() if str(each.id) == who), None)
        if who and (person is None or person.name not in charts.by_coder):
            raise HTTPException(404)
        given = charts.settled if person is None else charts.by_coder[person.name]
        content = exports.mdace_files(charts, given, include_text=with_text)
    visit.log("exported evidence", set=found.id, form=form, text=with_text)
    name = f"evidence-{found.id}-{form}.{'csv' if form == 'csv' else 'zip'}"
    return Response(content, media_type=_FORMS[form], headers=attachment(name))


def _doors(base: str, roles: tuple[str, ...], *, judge: bool) -> list[Door]:
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


_ONLY, _ONE = (COORDINATOR,), "/evidence/{number:int}"
SECTION = BenchSection(
    "evidence",
    (
        Door("GET", "/evidence", _list, roles=_BOTH),
        Door("POST", "/evidence", _make, roles=_ONLY, largest=2 * imports.LARGEST),
        *_doors(_ONE, (CODER,), judge=False),
        *_doors(f"{_ONE}/judge", _ONLY, judge=True),
        Door("GET", f"{_ONE}/progress", _progress, roles=_ONLY),
        Door("POST", f"{_ONE}/close", _close, roles=_ONLY),
        Door("POST", f"{_ONE}/delete", _delete, roles=_ONLY),
        Door("GET", f"{_ONE}/export/{{form}}", _export, roles=_ONLY),
    ),
    roles=_BOTH,
    schema=decisions.SCHEMA,
)
