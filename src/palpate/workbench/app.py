"""The application: the guard around the doors of all sections. A new section is one more name in `SECTIONS`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import uvicorn
from anyio import to_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Match, Route
from starlette.types import Scope

from palpate.config import load_config
from palpate.errors import PalpateError, kind_of
from palpate.files import make_folder
from palpate.workbench import access, alterations, evidence, jobs, people, runs, whatif, words
from palpate.workbench.guard import Guard
from palpate.workbench.log import ActionLog
from palpate.workbench.options import BenchOptions
from palpate.workbench.pages import BenchProblem, PageTexts, page_templates, sentence_of
from palpate.workbench.people import Register
from palpate.workbench.sections import Bench, BenchSection, Door, Visit
from palpate.workbench.store import BenchStore

SECTIONS: Sequence[BenchSection] = (
    runs.SECTION,
    words.SECTION,
    evidence.SECTION,
    alterations.SECTION,
    whatif.SECTION,
    access.SECTION,
)
"""In the order of the navigation."""
_LARGEST_NUMBER = 2**63 - 1
"""That SQLite can look for."""
_MOST_AT_WORK = 100
"""Requests that are answered at the same time; most of them wait for the same commit."""


def make_bench(options: BenchOptions) -> Bench:
    """Check the options, open the file of entries, and find the runs."""
    options.check()
    if options.config is not None:
        load_config(options.config)
    texts = PageTexts(options.texts)
    home = make_folder(options.home)
    schemas = [people.SCHEMA, jobs.SCHEMA, *(each.schema for each in SECTIONS if each.schema)]
    later = [column for section in SECTIONS for column in section.later]
    store = BenchStore(home / "entries.sqlite", schemas, later=later)
    log = ActionLog(home / "actions.jsonl")
    return Bench(options, store, Register(store), log, texts, page_templates(texts), SECTIONS)


def make_app(bench: Bench) -> Guard:
    """The application as a server runs it."""
    doors = [door for section in bench.sections for door in section.doors]
    routes = [Route(door.path, _endpoint(bench, door), methods=[door.method]) for door in doors]

    def door_of(scope: Scope) -> Door | None:
        for door, route in zip(doors, routes, strict=True):
            match, found = route.matches(scope)
            if match == Match.FULL:
                return door if _has_small_numbers(found["path_params"]) else None
        return None

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = _MOST_AT_WORK
        yield
        for section in bench.shared.values():
            if hasattr(section, "close"):
                section.close()
        bench.store.close()
        bench.log.close()

    handlers = {HTTPException: _not_there(bench)}
    return Guard(Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan), bench, door_of)


def make_server(bench: Bench) -> uvicorn.Server:
    """The server; it writes no log of its own, because paths and errors may hold anything."""
    options = bench.options
    config = uvicorn.Config(
        make_app(bench),
        host=options.host,
        port=options.port,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=options.behind_proxy,
        forwarded_allow_ips="127.0.0.1" if options.behind_proxy else None,
        ssl_certfile=options.certificate,
        ssl_keyfile=options.key,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=5,
        limit_concurrency=500,
    )
    return uvicorn.Server(config)


def _has_small_numbers(parameters: Mapping[str, Any]) -> bool:
    return all(not isinstance(value, int) or value <= _LARGEST_NUMBER for value in parameters.values())


def _endpoint(bench: Bench, door: Door) -> Callable[[Request], Awaitable[Response]]:
    """What Starlette calls for a door; the work is done in a thread."""

    async def answer(request: Request) -> Response:
        if not _has_small_numbers(request.path_params):
            raise HTTPException(404)
        visit = Visit(bench, request)
        session = request.state.session
        if not door.public and session is None:
            if request.cookies:
                bench.log.write("refused", why="session", door=door.path)
            return visit.go("/enter")
        if door.roles and not door.public and not session.person.may(door.roles):
            visit.log("refused", why="role", door=door.path)
            return visit.page("problem.html.j2", status=403, problem=bench.texts("refused.role"))
        try:
            return await run_in_threadpool(door.opens, visit)
        except PalpateError as error:
            if isinstance(error, BenchProblem) and error.key == "too_long":
                who = None if session is None else session.person.name
                bench.log.write("refused", why="size", who=who, door=door.path)
            template = "problem_part.html.j2" if visit.is_part else "problem.html.j2"
            status = 409 if isinstance(error, BenchProblem) and error.key == "answered" else 400
            return visit.page(template, status=status, problem=sentence_of(error, bench.texts))
        except HTTPException:
            raise
        except Exception as error:
            # Its text may quote a note, and the server would print it: the log has its kind only.
            bench.log.write("failed", why=kind_of(error), door=door.path)
            return HTMLResponse(bench.render("refused.html.j2", why=bench.texts("refused.failed")), 500)

    return answer


def _not_there(bench: Bench) -> Callable[[Request, Exception], Response]:
    def answer(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        session = request.state.session
        bench.log.write("refused", why="path", who=None if session is None else session.person.name)
        return HTMLResponse(bench.render("refused.html.j2", why=bench.texts("refused.path")), status)

    return answer
