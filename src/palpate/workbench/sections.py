"""How a part of the workbench plugs in: a `BenchSection` with its tables, its doors and who may open them.

A door is a path, a method and a function of a `Visit`, which has the person, the form that was sent, and ways to
answer. The guard (`guard.py`) has checked host, session, origin and CSRF token before a door opens; the application
checks the roles. A door that raises an `InputError` shows its sentence.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from jinja2 import Environment
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from palpate.workbench.log import ActionLog
from palpate.workbench.options import BenchOptions
from palpate.workbench.pages import BenchProblem, PageTexts
from palpate.workbench.people import Person, Register, Session
from palpate.workbench.store import BenchStore, NewColumn

T = TypeVar("T")
LONGEST_FIELD = 20_000
"""Characters of a field, unless a door says otherwise."""
_NUMBER = re.compile(r"-?[0-9]{1,18}")
"""A whole number that SQLite can hold."""


def read_number(text: str) -> int | None:
    """A whole number, or None where there is none, or one that is too large.

    >>> read_number("-5"), read_number("--5"), read_number("9" * 5_000)
    (-5, None, None)
    """
    return int(text) if _NUMBER.fullmatch(text) else None


class Door(NamedTuple):
    """What answers to a path. A `POST` changes something; a `GET` never does."""

    method: str
    path: str
    """`/words/{sheet:int}`"""
    opens: Callable[[Visit], Response]
    roles: Sequence[str] = ()
    """Who may; nobody named: everybody who was let in."""
    public: bool = False
    """Whether it opens without a session: only to let people in."""
    largest: int = 256_000
    """Bytes that may be sent."""


class BenchSection(NamedTuple):
    """A part of the workbench with a place in its navigation."""

    name: str
    """Its texts are below this key; its pages are below `/name`."""
    doors: Sequence[Door]
    roles: Sequence[str] = ()
    """Who sees it in the navigation."""
    schema: str = ""
    """`CREATE TABLE IF NOT EXISTS ...`; the tables' names start with the section's."""
    later: Sequence[NewColumn] = ()
    """Columns that files of an earlier palpate lack."""
    is_there: Callable[[Bench], bool] = lambda _: True
    """Whether there is anything to show."""
    listed: bool = True
    """Whether it is in the navigation."""

    def opens_to(self, person: Person, bench: Bench) -> bool:
        """Whether a person sees it in the navigation."""
        return self.listed and (not self.roles or person.may(self.roles)) and self.is_there(bench)


@dataclass(frozen=True)
class Bench:
    """What all doors share."""

    options: BenchOptions
    store: BenchStore
    register: Register
    log: ActionLog
    texts: PageTexts
    templates: Environment
    sections: Sequence[BenchSection]
    shared: dict[str, Any] = field(default_factory=dict)
    """What sections keep in memory, by their name: runs, models, notes."""
    making: threading.RLock = field(default_factory=threading.RLock)

    def render(self, template: str, **values: Any) -> str:
        """A page as HTML."""
        return self.templates.get_template(template).render(values)

    def kept(self, name: str, make: Callable[[], T]) -> T:
        """Something that is made once."""
        if name not in self.shared:
            with self.making:
                if name not in self.shared:
                    self.shared[name] = make()
        found: T = self.shared[name]
        return found


class Visit:
    """One request of one person."""

    def __init__(self, bench: Bench, request: Request) -> None:
        self.bench, self.request = bench, request
        self._session: Session | None = request.state.session
        self._form: FormData | None = request.state.form

    @property
    def person(self) -> Person:
        """Who asks."""
        if self._session is None:
            raise BenchProblem("nobody")
        return self._session.person

    @property
    def path(self) -> Mapping[str, Any]:
        """The parameters in the path."""
        return self.request.path_params

    @property
    def is_part(self) -> bool:
        """Whether the page's script asks for a part of the page, not for all of it."""
        return self.request.headers.get("x-part") == "1"

    def field(self, name: str, *, longest: int = LONGEST_FIELD) -> str:
        """A field of the form that was sent, or the empty string."""
        value = None if self._form is None else self._form.get(name)
        text = value if isinstance(value, str) else ""
        if len(text) > longest:
            raise BenchProblem("too_long", field=name, n=f"{longest:,}")
        return text.replace("\r\n", "\n").replace("\x00", "")

    def fields(self, name: str) -> list[str]:
        """All fields of this name."""
        return [] if self._form is None else [each for each in self._form.getlist(name) if isinstance(each, str)]

    def file(self, name: str) -> tuple[str, bytes]:
        """The name and the bytes of a file that was sent."""
        value = None if self._form is None else self._form.get(name)
        if not isinstance(value, UploadFile) or not value.filename:
            raise BenchProblem("no_file")
        return value.filename, value.file.read()

    def query(self, name: str, default: str = "") -> str:
        """A value in the address."""
        return self.request.query_params.get(name, default)[:LONGEST_FIELD]

    def number(self, name: str, *, low: int, high: int) -> int:
        """A whole number of the form."""
        value = read_number(self.field(name).strip())
        if value is None or not low <= value <= high:
            raise BenchProblem("number", field=name, low=low, high=high)
        return value

    def write(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """Enter something; see `BenchStore.write`."""
        return self.bench.store.write(change)

    def log(self, did: str, **values: str | int | float | bool | None) -> None:
        """Note an action of this person. Never text of notes, words or reasons."""
        self.bench.log.write(did, who=self.person.name, **values)

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """A page with the navigation around it."""
        return HTMLResponse(self.bench.render(template, **self.around(), **values), status)

    def around(self) -> dict[str, Any]:
        """What the layout needs."""
        session, bench = self._session, self.bench
        seen = [] if session is None else [each for each in bench.sections if each.opens_to(session.person, bench)]
        return {
            "person": None if session is None else session.person,
            "csrf": "" if session is None else session.csrf,
            "show_notes": bench.options.show_notes,
            "here": self.request.url.path,
            "sections": [each.name for each in seen],
        }

    def go(self, path: str) -> Response:
        """Send the browser on, after a change."""
        return RedirectResponse(path, status_code=303)
