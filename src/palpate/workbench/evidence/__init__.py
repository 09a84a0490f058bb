"""Review evidence: coders accept, reject or correct the spans of other coders and of a model, blind to each other.

The coordinator imports charts (MDACE's JSON, UIMA CAS JSON, or a run's evidence audit), sees agreement, adjudicates
what coders disagree about, and exports in the same formats. Text of notes is on a page only with `--show-notes`; that
of imported charts is kept with the entries until the set is deleted.
"""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from palpate.data.annotations import CODE_SYSTEMS
from palpate.errors import InputError
from palpate.workbench.evidence import decisions, exports, imports
from palpate.workbench.evidence.additions import FIRST_PLACE
from palpate.workbench.evidence.decisions import REJECT
from palpate.workbench.evidence.exports import CoderAgreement, ReviewedCharts
from palpate.workbench.evidence.outcomes import ReviewState, review_state
from palpate.workbench.evidence.review import add_doors, find_set, require_notes, review_doors
from palpate.workbench.notes import all_notes
from palpate.workbench.pages import BenchProblem
from palpate.workbench.people import CODER, COORDINATOR
from palpate.workbench.runs import attachment, shelf_of
from palpate.workbench.sections import Bench, BenchSection, Door, Visit
from palpate.workbench.store import BenchStore

_BOTH = (COORDINATOR, CODER)
_FORMS = {"mdace": "application/zip", "cas": "application/zip", "csv": "text/csv"}


def _list(visit: Visit) -> Response:
    store, person = visit.bench.store, visit.person
    is_coordinator = COORDINATOR in person.roles
    return visit.page(
        "evidence/sets.html.j2",
        sets=[(each, *_done(store, each.id, person.id)) for each in decisions.sets(store)],
        is_coder=CODER in person.roles,
        is_coordinator=is_coordinator,
        runs=runs_with_spans(visit.bench) if is_coordinator else [],
        code_systems=CODE_SYSTEMS,
    )


def _done(store: BenchStore, number: int, person: int) -> tuple[int, int]:
    """Of how many proposed spans somebody has decided, and how many of the other notes they have read."""
    given = decisions.decisions_of(store, number, person)
    read = decisions.read_notes(store, number).get(person, ())
    return sum(place < FIRST_PLACE for place in given), len(read)


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
            raise BenchProblem("no_spans_of_run")
        charts = imports.read_run(shelf_of(bench).paths[name], model, code_system=system, texts=texts)
    else:
        how = imports.ReadHow(system, *(visit.field(name, longest=200) for name in ("annotator", "layer", "feature")))
        coders = _files(visit, "coder_file", how, by_model=False)
        models = _files(visit, "model_file", how, by_model=True)
        if not coders and not models:
            raise BenchProblem("no_file")
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
    return _charts(bench, number, review_state(bench.store, number, bench.register.everybody()))


def _charts(bench: Bench, number: int, state: ReviewState) -> ReviewedCharts:
    names = {person.id: person.name for person in bench.register.everybody()}
    return ReviewedCharts(
        decisions.notes_of_set(bench.store, number),
        state.spans,
        {names[person]: given for person, given in state.by_coder.items()},
        state.settled,
        state.judged,
        {names[person]: notes for person, notes in state.read.items()},
    )


def _agreement(bench: Bench, number: int, charts: ReviewedCharts) -> CoderAgreement:
    """Measured again only when something was entered."""
    sql = "SELECT count(*) AS n, sum(undone) AS undone FROM evidence_entries WHERE number = ? AND judge = 0"
    read = bench.store.read("SELECT person, note FROM evidence_read WHERE number = ? ORDER BY 1, 2", (number,))
    state = (*bench.store.read(sql, (number,))[0], *map(tuple, read))
    measured: dict[int, tuple[Any, CoderAgreement]] = bench.kept("evidence-agreement", dict)
    if number not in measured or measured[number][0] != state:
        measured[number] = (state, exports.agreement(charts))
    return measured[number][1]


def _progress(visit: Visit) -> Response:
    found, bench = find_set(visit), visit.bench
    state = review_state(bench.store, found.id, bench.register.everybody())
    charts = _charts(bench, found.id, state)
    people = [each for each in bench.register.everybody() if CODER in each.roles or each.name in charts.by_coder]
    counted = []
    for person in people:
        given = charts.by_coder.get(person.name, {})
        said = [one.decision for place, one in given.items() if place < FIRST_PLACE]
        added = sum(place >= FIRST_PLACE and one.decision != REJECT for place, one in given.items())
        n_read = len(charts.read.get(person.name, ()))
        counted.append((person, len(said), [*(said.count(each) for each in decisions.DECISIONS), added], n_read))
    values: dict[str, Any] = {
        "found": found,
        "counted": counted,
        "agreement": _agreement(bench, found.id, charts),
        "n_disputed": len(state.disputed),
        "n_judged": sum(place in state.judged for place in state.disputed),
        "n_waiting": sum(place not in state.judged for place in state.waiting),
        "n_open": len(state.open),
        "n_settled": len(charts.settled),
        "n_spans": len(charts.spans),
        "has_text": all(note.text is not None for note in charts.notes),
    }
    return visit.page("evidence/agreement.html.j2" if visit.is_part else "evidence/progress.html.j2", **values)


def _close(visit: Visit) -> Response:
    found, closed = find_set(visit), visit.number("close", low=0, high=1) == 1
    decisions.close_set(visit.bench.store, found.id, closed=closed)
    visit.log("closed a review" if closed else "opened a review", set=found.id)
    return visit.go(f"/evidence/{found.id}/progress")


def _delete(visit: Visit) -> Response:
    found = find_set(visit)
    if visit.field("title", longest=200).strip() != found.title:
        raise BenchProblem("delete_title")
    decisions.delete_set(visit.bench.store, found.id)
    visit.log("deleted a review", set=found.id)
    return visit.go("/evidence")


def _export(visit: Visit) -> Response:
    """What was settled, or what one coder decided."""
    found, bench, form = find_set(visit), visit.bench, str(visit.path["form"])
    if form not in _FORMS:
        raise HTTPException(404)
    charts, who = reviewed(bench, found.id), visit.query("who")
    with_text = visit.query("text") == "1" or form == "cas"
    if with_text:
        require_notes(visit)
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


_ONLY, _ONE = (COORDINATOR,), "/evidence/{number:int}"
SECTION = BenchSection(
    "evidence",
    (
        Door("GET", "/evidence", _list, roles=_BOTH),
        Door("POST", "/evidence", _make, roles=_ONLY, largest=2 * imports.LARGEST),
        *review_doors(_ONE, (CODER,), judge=False),
        *add_doors(_ONE, (CODER,)),
        *review_doors(f"{_ONE}/judge", _ONLY, judge=True),
        Door("GET", f"{_ONE}/progress", _progress, roles=_ONLY),
        Door("POST", f"{_ONE}/close", _close, roles=_ONLY),
        Door("POST", f"{_ONE}/delete", _delete, roles=_ONLY),
        Door("GET", f"{_ONE}/export/{{form}}", _export, roles=_ONLY),
    ),
    roles=_BOTH,
    schema=decisions.SCHEMA,
    later=decisions.LATER,
)
