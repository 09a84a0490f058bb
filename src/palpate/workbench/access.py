"""Who comes in: the page that a personal link opens, the first page, the coordinator's list of people, and the log."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.responses import Response

from palpate.workbench.guard import cookie_name, tries_of
from palpate.workbench.pages import static_files
from palpate.workbench.people import COORDINATOR, ROLES, read_roles
from palpate.workbench.sections import BenchSection, Door, Visit

_ONLY = (COORDINATOR,)
LONGEST_TOKEN = 200


def link(origin: str, token: str) -> str:
    """The link of a person. The token is behind `#`: browsers keep that to themselves, so no log has it."""
    return f"{origin}/enter#{token}"


def _enter_page(visit: Visit) -> Response:
    return visit.page("enter.html.j2", wrong=False)


def _enter(visit: Visit) -> Response:
    bench = visit.bench
    opened = bench.register.enter(visit.field("token", longest=LONGEST_TOKEN))
    if opened is None:
        client = visit.request.client
        address = client.host if client else ""
        if not tries_of(bench).take(address):
            bench.log.write("refused", why="rate", address=address)
            return visit.page("refused.html.j2", status=429, why=bench.texts("refused.rate"))
        bench.log.write("refused", why="link", address=address)
        return visit.page("enter.html.j2", status=403, wrong=True)
    key, session = opened
    bench.log.write("entered", who=session.person.name)
    https = bench.options.is_https
    answer = visit.go("/")
    answer.set_cookie(cookie_name(https=https), key, httponly=True, secure=https, samesite="strict", path="/")
    return answer


def _leave(visit: Visit) -> Response:
    name = cookie_name(https=visit.bench.options.is_https)
    visit.bench.register.leave(visit.request.cookies.get(name, ""))
    visit.log("left")
    answer = visit.go("/enter")
    answer.delete_cookie(name, path="/", secure=visit.bench.options.is_https, httponly=True, samesite="strict")
    return answer


def _home(visit: Visit) -> Response:
    return visit.page("home.html.j2")


def _people(visit: Visit, *, shown: tuple[str, str] | None = None) -> Response:
    return visit.page(
        "people.html.j2",
        people=visit.bench.register.everybody(),
        roles=ROLES,
        shown=shown,
        days=visit.bench.options.days,
    )


def _add(visit: Visit) -> Response:
    roles = read_roles(" ".join(visit.fields("role")))
    days = visit.number("days", low=1, high=365)
    name = visit.field("name", longest=200)
    token = visit.bench.register.add(name, roles, days)
    visit.log("added a person", person=name, roles=" ".join(sorted(roles)), days=days)
    return _people(visit, shown=(name, link(visit.bench.options.origin, token)))


def _renew(visit: Visit) -> Response:
    name, token = visit.bench.register.renew(int(visit.path["person"]), visit.bench.options.days)
    visit.log("gave a new link", person=name)
    return _people(visit, shown=(name, link(visit.bench.options.origin, token)))


def _shut_out(visit: Visit) -> Response:
    name = visit.bench.register.shut_out(int(visit.path["person"]))
    visit.log("shut out", person=name)
    return visit.go("/people")


def _log(visit: Visit) -> Response:
    return visit.page("log.html.j2", lines=visit.bench.log.lines())


def _static(visit: Visit) -> Response:
    found = static_files().get(str(visit.path["name"]))
    if found is None:
        raise HTTPException(404)
    return Response(found[0], media_type=found[1], headers={"cache-control": "no-cache"})


SECTION = BenchSection(
    "people",
    (
        Door("GET", "/", _home),
        Door("GET", "/static/{name}", _static, public=True),
        Door("GET", "/enter", _enter_page, public=True),
        Door("POST", "/enter", _enter, public=True, largest=2_000),
        Door("POST", "/leave", _leave),
        Door("GET", "/people", _people, roles=_ONLY),
        Door("POST", "/people", _add, roles=_ONLY),
        Door("POST", "/people/{person:int}/renew", _renew, roles=_ONLY),
        Door("POST", "/people/{person:int}/shut-out", _shut_out, roles=_ONLY),
        Door("GET", "/people/log", _log, roles=_ONLY),
    ),
    roles=_ONLY,
)
