"""Runs: the list, scorecards side by side, one number over time, the report inside, downloads."""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, Response

from palpate.commands.history import AUROC, Choice, as_csv, history
from palpate.errors import InputError
from palpate.privacy import as_cell
from palpate.report.history import HistoryPage, render_history
from palpate.report.scorecard import AnswerView, ModelHead
from palpate.workbench.pages import BenchProblem, sentence_of
from palpate.workbench.people import COORDINATOR, VIEWER
from palpate.workbench.sections import Bench, BenchSection, Door, Visit
from palpate.workbench.shelf import RunShelf, ShelvedRun

_ROLES = (COORDINATOR, VIEWER)
FRAMED = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'; sandbox allow-scripts allow-modals"
)
"""Of a report inside: no origin, so no cookie, no request and no other page; its own policy names its scripts."""
_MOST_COMPARED = 6
_MOST_OFFERED = 300


class RunColumn(NamedTuple):
    """A model of a run, as a column of scorecards side by side."""

    run: str
    title: str
    head: ModelHead


class ComparedQuestion(NamedTuple):
    """A question, and one cell per column (None: not asked)."""

    audit: str
    asks: str
    cells: tuple[AnswerView | None, ...]


def shelf_of(bench: Bench) -> RunShelf:
    """The runs of the workbench."""
    return bench.kept("shelf", lambda: RunShelf(bench.options))


def side_by_side(runs: list[ShelvedRun]) -> tuple[list[RunColumn], list[ComparedQuestion], list[Any]]:
    """The scorecards of several runs as one table, and the legend of its verdicts."""
    columns: list[RunColumn] = []
    rows: dict[tuple[str, str], dict[int, AnswerView | None]] = {}
    legend: dict[str, Any] = {}
    for run in runs:
        card = run.scorecard()
        if card is None:
            continue
        first = len(columns)
        columns += [RunColumn(run.name, run.title, head) for head in card.heads]
        legend |= {entry[0]: entry for entry in card.legend}
        for question in card.questions:
            cells = rows.setdefault((question.audit, question.asks), {})
            cells |= {first + k: cell for k, cell in enumerate(question.cells)}
    asked = [ComparedQuestion(*key, tuple(cells.get(k) for k in range(len(columns)))) for key, cells in rows.items()]
    return columns, asked, list(legend.values())


def _run(visit: Visit, name: str) -> ShelvedRun:
    try:
        found = shelf_of(visit.bench).get(name)
    except FileNotFoundError:
        raise BenchProblem("run_moved") from None
    if found is None:
        raise HTTPException(404)
    return found


def _list(visit: Visit) -> Response:
    runs, damaged = shelf_of(visit.bench).all()
    said = [(run.name, sentence_of(run.error, visit.bench.texts)) for run in damaged]
    return visit.page("runs/list.html.j2", runs=runs, damaged=said)


def _compare(visit: Visit) -> Response:
    names = list(dict.fromkeys(visit.request.query_params.getlist("run")))[:_MOST_COMPARED]
    runs = [_run(visit, name) for name in names]
    if not runs:
        raise BenchProblem("no_run")
    columns, questions, legend = side_by_side(runs)
    return visit.page("runs/compare.html.j2", runs=runs, columns=columns, questions=questions, legend=legend)


def _one(visit: Visit) -> Response:
    run = _run(visit, str(visit.path["run"]))
    columns, questions, legend = side_by_side([run])
    shelf = shelf_of(visit.bench)
    return visit.page(
        "runs/run.html.j2",
        run=run,
        columns=columns,
        questions=questions,
        legend=legend,
        files=shelf.files(run),
        withheld=run.has_text and not visit.bench.options.show_notes,
    )


def _report(visit: Visit) -> Response:
    run = _run(visit, str(visit.path["run"]))
    html = shelf_of(visit.bench).report(run)
    if run.has_text and visit.bench.options.show_notes:
        visit.log("read a report with notes", run=run.name)
    return HTMLResponse(html, headers={"content-security-policy": FRAMED})


def _file(visit: Visit) -> Response:
    run = _run(visit, str(visit.path["run"]))
    name = str(visit.path["name"])
    if name not in shelf_of(visit.bench).files(run):
        raise HTTPException(404)
    visit.log("downloaded", run=run.name, file=name)
    saved = f"{run.name}-{name.rpartition('/')[2]}"
    return FileResponse(run.path / name, filename=saved, media_type="application/octet-stream")


def _choice(visit: Visit) -> Choice:
    wanted = {name: visit.query(name).strip() or None for name in ("model", "label", "group")}
    return Choice(visit.query("metric").strip() or AUROC.metric, **wanted)


def _offered(runs: list[ShelvedRun]) -> dict[str, list[str]]:
    """What can be looked at over time: the names of numbers, models, labels and groups, the first of many."""
    tables = [result.estimates.select("metric", "model", "label", "group") for run in runs for result in run.results]
    if not tables:
        return {}
    every = pl.concat(tables)
    return {name: every[name].drop_nulls().unique().sort().head(_MOST_OFFERED).to_list() for name in every.columns}


def _history(visit: Visit) -> Response:
    paths = shelf_of(visit.bench).readable()
    choice = _choice(visit)
    try:
        found, problem = history(paths, choice), None
    except InputError as error:
        found, problem = None, sentence_of(InputError(error.problem, hint=error.hint), visit.bench.texts)
    return visit.page(
        "runs/history.html.j2",
        found=found,
        problem=problem,
        choice=choice,
        asked=visit.request.url.query,
        offered=_offered(shelf_of(visit.bench).all()[0]),
    )


def _history_page(visit: Visit) -> Response:
    found = history(shelf_of(visit.bench).readable(), _choice(visit))
    page = render_history(
        HistoryPage(visit.bench.texts("runs.history_of", metric=found.metric), found.metric, found.lines, found.skipped)
    )
    return HTMLResponse(page, headers={"content-security-policy": FRAMED})


def _history_table(visit: Visit) -> Response:
    found = history(shelf_of(visit.bench).readable(), _choice(visit))
    visit.log("downloaded", file="history.csv")
    return Response(as_csv(found), media_type="text/csv", headers=attachment("history.csv"))


def attachment(name: str) -> dict[str, str]:
    """Headers that make a browser save a file."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in str(as_cell(name)))
    return {"content-disposition": f'attachment; filename="{plain}"'}


SECTION = BenchSection(
    "runs",
    (
        Door("GET", "/runs", _list, roles=_ROLES),
        Door("GET", "/runs/compare", _compare, roles=_ROLES),
        Door("GET", "/runs/history", _history, roles=_ROLES),
        Door("GET", "/runs/history/page", _history_page, roles=_ROLES),
        Door("GET", "/runs/history/table", _history_table, roles=_ROLES),
        Door("GET", "/runs/of/{run}", _one, roles=_ROLES),
        Door("GET", "/runs/of/{run}/report", _report, roles=_ROLES),
        Door("GET", "/runs/of/{run}/files/{name:path}", _file, roles=_ROLES),
    ),
    roles=_ROLES,
)
