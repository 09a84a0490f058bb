"""Rate words: what raters see (one word at a time, or a ranked list), and what the coordinator sees.

Nobody sees another's scores: a rater's pages are about the rater alone, and the coordinator's show counts and
agreement. The sheet that is exported is the one that the audit `vocabulary` reads.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from palpate.data.lexicons import SheetTerms, read_terms, read_words, write_rating_sheet
from palpate.errors import InputError
from palpate.perturb.words import RatingScale
from palpate.workbench.jobs import can_run, last_job, run_again
from palpate.workbench.notes import notes_of
from palpate.workbench.pages import BenchProblem
from palpate.workbench.people import COORDINATOR, RATER
from palpate.workbench.runs import attachment, shelf_of
from palpate.workbench.sections import Bench, BenchSection, Door, Visit, read_number
from palpate.workbench.words import ratings
from palpate.workbench.words.ratings import WordSheet

_AUDIT = "vocabulary"
_BOTH = (COORDINATOR, RATER)
_LONGEST_LIST = 100_000
_ENDS = ("low", "high")
"""Fields with the ends of the scale."""


def _sheet(visit: Visit) -> WordSheet:
    found = ratings.sheet_of(visit.bench.store, int(visit.path["sheet"]))
    if found is None:
        raise HTTPException(404)
    return found


# --- raters -------------------------------------------------------------------------------------------------


def _list(visit: Visit) -> Response:
    store, person = visit.bench.store, visit.person
    found = ratings.sheets(store)
    is_rater, is_coordinator = RATER in person.roles, COORDINATOR in person.roles
    return visit.page(
        "words/sheets.html.j2",
        sheets=[(sheet, len(ratings.scores_of(store, sheet.id, person.id))) for sheet in found],
        is_rater=is_rater,
        is_coordinator=is_coordinator,
        runs=_runs_with_words(visit.bench) if is_coordinator else [],
        instruction=visit.bench.texts("words.instruction", low=1, high=5),
        largest=ratings.LARGEST_SCORE,
    )


def _rate_page(visit: Visit) -> Response:
    sheet, person = _sheet(visit), visit.person
    scores = ratings.scores_of(visit.bench.store, sheet.id, person.id)
    order = ratings.own_order(sheet, person.id)
    asked = read_number(visit.query("at"))
    at = asked if asked is not None and 0 <= asked < len(order) else _next(order, scores, -1)
    notes = notes_of(visit.bench)
    examples = () if notes is None else notes.examples(sheet.words[order[at]])
    if examples:
        visit.log("read parts of notes", sheet=sheet.id, item=order[at], notes=len(examples))
    values: dict[str, Any] = {
        "sheet": sheet,
        "at": at,
        "word": sheet.words[order[at]],
        "score": scores.get(order[at]),
        "done": len(scores),
        "scale": sheet.keys(),
        "entry": secrets.token_hex(8),
        "examples": examples,
        "said": visit.query("said") if visit.query("said") in ("saved", "undone", "nothing") else "",
    }
    return visit.page("words/one.html.j2" if visit.is_part else "words/rate.html.j2", **values)


def _next(order: list[int], scores: dict[int, float], after: int) -> int:
    """The next word without a score, from here on and then from the start; the last one where all have one."""
    here = [k for k, place in enumerate(order) if place not in scores]
    return next((k for k in here if k > after), here[0] if here else len(order) - 1)


def _rate(visit: Visit) -> Response:
    sheet, person, store = _sheet(visit), visit.person, visit.bench.store
    order = ratings.own_order(sheet, person.id)
    at = visit.number("at", low=0, high=len(order) - 1)
    score = visit.number("score", low=sheet.low, high=sheet.high)
    scores = ratings.rate(store, sheet, person.id, {order[at]: float(score)}, visit.field("entry", longest=64))
    visit.log("rated", sheet=sheet.id, item=order[at])
    following = _next(order, scores, at)
    return visit.go(f"/words/{sheet.id}?at={following}&said=saved")


def _undo(visit: Visit) -> Response:
    sheet, person = _sheet(visit), visit.person
    place = ratings.undo(visit.bench.store, sheet, person.id)
    visit.log("took back", sheet=sheet.id, item=place)
    if visit.field("where") == "list":
        return visit.go(f"/words/{sheet.id}/list")
    at = 0 if place is None else ratings.own_order(sheet, person.id).index(place)
    return visit.go(f"/words/{sheet.id}?at={at}&said={'nothing' if place is None else 'undone'}")


def _list_page(visit: Visit) -> Response:
    sheet, person = _sheet(visit), visit.person
    scores = ratings.scores_of(visit.bench.store, sheet.id, person.id)
    order = ratings.ranking(sheet, person.id, scores)
    moved = read_number(visit.query("moved"))
    values: dict[str, Any] = {
        "sheet": sheet,
        "rows": [(place, sheet.words[place], scores.get(place)) for place in order],
        "n_given": 0 if scores == ratings.spaced(order, sheet) else len(scores),
        "ranked": scores == ratings.spaced(order, sheet),
        "entry": secrets.token_hex(8),
        "moved": -1 if moved is None else moved,
        "how": visit.query("how") if visit.query("how") in ("up", "down", "to") else "",
    }
    return visit.page("words/order.html.j2" if visit.is_part else "words/list.html.j2", **values)


def _move(visit: Visit) -> Response:
    sheet, n = _sheet(visit), len(_sheet(visit).words)
    place, how = visit.number("place", low=0, high=n - 1), visit.field("how", longest=10)
    to: int | str = how if how in ("up", "down") else visit.number("to", low=1, high=n) - 1
    ratings.move(visit.bench.store, sheet, visit.person.id, place, to, visit.field("entry", longest=64))
    visit.log("ranked", sheet=sheet.id, item=place)
    return visit.go(f"/words/{sheet.id}/list?moved={place}&how={to if isinstance(to, str) else 'to'}")


# --- the coordinator ----------------------------------------------------------------------------------------


def _runs_with_words(bench: Bench) -> list[str]:
    return [run.name for run in shelf_of(bench).all()[0] if _AUDIT in (run.manifest.get("audits") or {})]


def _words_of_run(bench: Bench, name: str) -> list[str]:
    """The words that a run's audit scored, those that clinicians rated first."""
    run = shelf_of(bench).get(name)
    result = None if run is None else next((each for each in run.results if each.audit == _AUDIT), None)
    if result is None:
        raise BenchProblem("no_words_audit")
    rows = result.estimates.filter(metric="sensitivity")
    return [str(word) for word in rows["group"].unique(maintain_order=True).to_list()]


def _make(visit: Visit) -> Response:
    source, bench, terms = visit.field("source", longest=20), visit.bench, SheetTerms()
    if source == "run":
        words: Sequence[str] = _words_of_run(bench, visit.field("run", longest=200))
    elif source == "file":
        words, terms = _sheet_of_file(*visit.file("file"))
    else:
        words = [line for line in visit.field("words", longest=_LONGEST_LIST).splitlines() if line.strip()]
    scale = terms.scale or _asked_scale(visit)
    low, high = ratings.check_scale(*scale)
    said = " ".join(visit.field("instruction", longest=2_000).split()) or terms.instruction
    told = said or bench.texts("words.instruction", low=low, high=high)
    number = ratings.make_sheet(bench.store, visit.field("title", longest=200), told[:2_000], words, scale)
    visit.log("made a sheet", sheet=number, words=len(words))
    return visit.go(f"/words/{number}/progress")


def _asked_scale(visit: Visit) -> RatingScale:
    """The scale of the form; 1 to 5 where it says nothing."""
    given = {name: visit.number(name, low=0, high=ratings.LARGEST_SCORE) for name in _ENDS if visit.field(name)}
    return RatingScale(**given)


def _sheet_of_file(name: str, content: bytes) -> tuple[Sequence[str], SheetTerms]:
    """The words of a sheet or a list, and what it says of itself, read as the audit reads it."""
    ending = next((each for each in (".csv", ".tsv", ".txt", ".jsonl") if name.lower().endswith(each)), None)
    if ending is None:
        raise BenchProblem("word_file")
    with tempfile.TemporaryDirectory(prefix="palpate-") as folder:
        path = Path(folder) / f"words{ending}"
        path.write_bytes(content)
        try:
            return read_words(path), read_terms(path)
        except InputError as error:
            said = InputError(error.problem, row=error.row, column=error.column, hint=error.hint)
            raise BenchProblem("file", said=str(said)) from None


def _progress(visit: Visit) -> Response:
    sheet, bench = _sheet(visit), visit.bench
    raters, table = ratings.table_of(bench.store, sheet)
    done = {person: int((table[:, k] == table[:, k]).sum()) for k, person in enumerate(raters)}
    people = [each for each in bench.register.everybody() if RATER in each.roles or each.id in done]
    values: dict[str, Any] = {
        "sheet": sheet,
        "people": [(person, done.get(person.id, 0)) for person in people],
        "agreement": ratings.agreement(table),
        "can_run": can_run(bench, _AUDIT),
        "job": last_job(bench, _AUDIT, sheet.id),
    }
    return visit.page("words/agreement.html.j2" if visit.is_part else "words/progress.html.j2", **values)


def _close(visit: Visit) -> Response:
    sheet, closed = _sheet(visit), visit.number("close", low=0, high=1) == 1
    ratings.close_sheet(visit.bench.store, sheet.id, closed=closed)
    visit.log("closed a sheet" if closed else "opened a sheet", sheet=sheet.id)
    return visit.go(f"/words/{sheet.id}/progress")


def write_sheet(bench: Bench, sheet: WordSheet, path: Path) -> None:
    """The ratings so far as the sheet that the audit reads; a rater without a score has no column."""
    raters, table = ratings.table_of(bench.store, sheet)
    if not raters:
        raise BenchProblem("no_ratings")
    names = {person.id: person.name for person in bench.register.everybody()}
    terms = SheetTerms(sheet.scale, sheet.instruction or None)
    given = [names[rater] for rater in raters]
    write_rating_sheet(path, sheet.words, given, scores=table, terms=terms, overwrite=True)


def _export(visit: Visit) -> Response:
    sheet = _sheet(visit)
    with tempfile.TemporaryDirectory(prefix="palpate-") as folder:
        path = Path(folder) / "ratings.csv"
        write_sheet(visit.bench, sheet, path)
        content = path.read_bytes()
    visit.log("exported ratings", sheet=sheet.id)
    return Response(content, media_type="text/csv", headers=attachment(f"ratings-{sheet.id}.csv"))


def _audit(visit: Visit) -> Response:
    sheet = _sheet(visit)
    path = visit.bench.options.home.absolute() / f"ratings-{sheet.id}.csv"
    write_sheet(visit.bench, sheet, path)
    run_again(visit.bench, _AUDIT, {"raters": str(path)}, about=sheet.id)
    visit.log("started an audit", audit=_AUDIT, sheet=sheet.id)
    return visit.go(f"/words/{sheet.id}/progress")


_ONLY = (COORDINATOR,)
SECTION = BenchSection(
    "words",
    (
        Door("GET", "/words", _list, roles=_BOTH),
        Door("POST", "/words", _make, roles=_ONLY, largest=2_000_000),
        Door("GET", "/words/{sheet:int}", _rate_page, roles=(RATER,)),
        Door("POST", "/words/{sheet:int}/rate", _rate, roles=(RATER,)),
        Door("POST", "/words/{sheet:int}/undo", _undo, roles=(RATER,)),
        Door("GET", "/words/{sheet:int}/list", _list_page, roles=(RATER,)),
        Door("POST", "/words/{sheet:int}/move", _move, roles=(RATER,)),
        Door("GET", "/words/{sheet:int}/progress", _progress, roles=_ONLY),
        Door("POST", "/words/{sheet:int}/close", _close, roles=_ONLY),
        Door("GET", "/words/{sheet:int}/ratings.csv", _export, roles=_ONLY),
        Door("POST", "/words/{sheet:int}/audit", _audit, roles=_ONLY),
    ),
    roles=_BOTH,
    schema=ratings.SCHEMA,
    later=ratings.LATER,
)
