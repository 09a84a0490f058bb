"""What every request has to pass before a door opens; what it refuses is logged, with no word of what was sent.

Host (DNS rebinding), size, rate, session, origin and CSRF token (cross-site posts). Every answer forbids caching,
framing by others, and everything that is not loaded from here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, Headers, MutableHeaders
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from palpate.errors import kind_of
from palpate.workbench.people import Session, same_secret
from palpate.workbench.sections import Bench, Door

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "referrer-policy": "same-origin",  # without any, browsers send forms with the origin `null`
    "x-content-type-options": "nosniff",
}
PER_PERSON = (30.0, 120)
PER_ADDRESS = (200.0, 2_000)
"""Requests per second in the long run, and at once; several people may share an address, behind a proxy."""
TRIES = (0.2, 20)
"""Wrong links; right ones are not counted and always let in, because a whole clinic may come from one address."""
_MOST_KNOWN = 10_000
LONGEST_WAIT = 60.0
"""Seconds in which a form has to arrive, so that nobody keeps connections busy with half a one."""
LONGEST_PATH = 2_000
"""Characters; a number with more than Python reads is then in no path."""


class Allowance:
    """How much each of several senders may still ask: a bucket that fills again with time."""

    def __init__(self, per_second: float, most: int) -> None:
        self._per_second, self._most = per_second, most
        self._left: dict[str, tuple[float, float]] = {}

    def left(self, who: str) -> float:
        """How many more are allowed now."""
        now = time.monotonic()
        left, since = self._left.get(who, (float(self._most), now))
        return min(self._most, left + (now - since) * self._per_second)

    def take(self, who: str) -> bool:
        """Whether one more is allowed, which is then taken."""
        if len(self._left) > _MOST_KNOWN:
            self._left.clear()
        left = self.left(who)
        self._left[who] = (max(left - 1, 0.0), time.monotonic())
        return left >= 1


class RefusedRequest(Exception):
    """A request that is not answered: its status, and the key of the sentence that says why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class Guard:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, bench: Bench, door_of: Callable[[Scope], Door | None]) -> None:
        self._app, self._bench, self._door_of = app, bench, door_of
        self._people, self._addresses = Allowance(*PER_PERSON), Allowance(*PER_ADDRESS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, read what it sends, and pass it on."""
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return None
        guarded = _with_headers(send, https=self._bench.options.is_https)
        try:
            await self._pass(scope, receive)
        except RefusedRequest as refused:
            self._log(scope, refused)
            page = self._bench.render("refused.html.j2", why=self._bench.texts(f"refused.{refused.why}"))
            return await HTMLResponse(page, refused.status)(scope, receive, guarded)
        except Exception as error:
            # As for a door that fails: its text may quote what was sent.
            self._bench.log.write("failed", why=kind_of(error))
            page = self._bench.render("refused.html.j2", why=self._bench.texts("refused.failed"))
            return await HTMLResponse(page, 500)(scope, receive, guarded)
        await self._app(scope, receive, guarded)

    async def _pass(self, scope: Scope, receive: Receive) -> None:
        options, headers = self._bench.options, Headers(scope=scope)
        asked = headers.getlist("host")
        if len(asked) != 1 or asked[0].lower() not in options.hosts:
            raise RefusedRequest(421, "host")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            raise RefusedRequest(405, "method")
        address = (scope.get("client") or ("", 0))[0]
        session = self._bench.register.session(Request(scope).cookies, cookie_name(https=options.is_https))
        if not self._addresses.take(address) or (session and not self._people.take(str(session.person.id))):
            raise RefusedRequest(429, "rate")
        state: dict[str, Any] = scope.setdefault("state", {})
        state["session"], state["form"] = session, None
        if len(scope["path"]) > LONGEST_PATH:
            raise RefusedRequest(414, "long")
        if scope["method"] != "POST":
            return
        door = self._door_of(scope)
        if door is None:
            raise RefusedRequest(404, "path")
        self._check_origin(headers)
        if session is None and not door.public:
            raise RefusedRequest(401, "session")
        try:
            body = await asyncio.wait_for(_read(receive, headers, door.largest), LONGEST_WAIT)
        except TimeoutError:
            raise RefusedRequest(408, "slow") from None
        state["form"] = await _parse(headers, body)
        if not door.public:
            _check_token(headers, state["form"], session)

    def _check_origin(self, headers: Headers) -> None:
        """A post of another site's page has that site's origin; one of no page has none, and needs the token anyway."""
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site is not None and site not in ("same-origin", "none"):
            raise RefusedRequest(403, "origin")
        if origin is not None and origin.lower() not in self._bench.options.origins:
            raise RefusedRequest(403, "origin")

    def _log(self, scope: Scope, refused: RefusedRequest) -> None:
        """The path is logged only where it is one of the workbench's own: it may hold anything."""
        session = scope.get("state", {}).get("session")
        door = self._door_of(scope) if len(scope["path"]) <= LONGEST_PATH else None
        self._bench.log.write(
            "refused",
            why=refused.why,
            who=None if session is None else session.person.name,
            door=None if door is None else door.path,
            address=(scope.get("client") or ("", 0))[0],
        )


def tries_of(bench: Bench) -> Allowance:
    """How many wrong links each address may still try."""
    return bench.kept("tries", lambda: Allowance(*TRIES))


def cookie_name(*, https: bool) -> str:
    """With TLS, a name that browsers accept from this very host only."""
    return "__Host-palpate" if https else "palpate"


def _check_token(headers: Headers, form: FormData, session: Session | None) -> None:
    given = headers.get("x-csrf-token") or form.get("csrf")
    if session is None or not isinstance(given, str) or not same_secret(given, session.csrf):
        raise RefusedRequest(403, "token")


async def _read(receive: Receive, headers: Headers, largest: int) -> bytes:
    length = headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 18 or int(length) > largest:
        raise RefusedRequest(413, "size")
    parts, n = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RefusedRequest(400, "broken")
        parts.append(message.get("body", b""))
        n += len(parts[-1])
        if n > largest:
            raise RefusedRequest(413, "size")
        if not message.get("more_body", False):
            return b"".join(parts)


async def _parse(headers: Headers, body: bytes) -> FormData:
    async def stream() -> Any:
        yield body

    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == "multipart/form-data":
            plain = _in_utf8(headers)
            return await MultiPartParser(plain, stream(), max_files=20, max_fields=500).parse()
        if kind in ("application/x-www-form-urlencoded", "") and body.count(b"&") < 2_000:
            return await FormParser(headers, stream()).parse()
    except (MultiPartException, ValueError, KeyError):
        raise RefusedRequest(400, "broken") from None
    raise RefusedRequest(415, "broken")


def _in_utf8(headers: Headers) -> Headers:
    """The header of a form without the encoding that it names: pages send UTF-8, and others may break text."""
    boundary = parse_options_header(headers["content-type"])[1].get(b"boundary", b"")
    if not boundary or any(sign in boundary for sign in (b'"', b"\\")):
        raise RefusedRequest(400, "broken")
    return Headers(raw=[(b"content-type", b'multipart/form-data; boundary="' + boundary + b'"')])


def _with_headers(send: Send, *, https: bool) -> Send:
    """Add the headers to every answer; one that has a policy of its own (a report) keeps it."""

    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            message.setdefault("headers", [])
            given = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                given.setdefault(name, value)
            if https:
                given.setdefault("strict-transport-security", "max-age=31536000")
        await send(message)

    return guarded
