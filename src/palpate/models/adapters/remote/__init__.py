"""JSON requests to a model behind a URL: an overall deadline, bounded retries, a few requests in flight, no leaks.

Notes are patients: a host other than this machine is refused unless `allow_remote: true`, redirects are never
followed, proxies of the environment are not used, and no error quotes a request, an answer or a header.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import re
import ssl
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import httpx
from pydantic import Field

from palpate.errors import ConfigError, ModelError, parse_json
from palpate.files import at_home
from palpate.models.adapters.remote.connections import ClosedWhileFree, Connections, TooLarge
from palpate.models.adapters.remote.pacing import Pacer, asked_to_wait, used_up
from palpate.models.adapters.remote.said import error_of, shown
from palpate.models.options import Options
from palpate.privacy import hides

Work = TypeVar("Work")
Done = TypeVar("Done")

MAY_CHANGE = "an endpoint can change behind its address"
_RETRIED = {408, 425, 429, 500, 502, 503, 504}
_MOST_WAITS = 50
"""How often one request waits because the server says until when; such a wait is no failure."""
_NOT_BUSY = ("insufficient_quota", "billing_hard_limit_reached")
"""With status 429: the account is empty, which no wait mends."""
_OTHER_HOST = (62, 64)
"""OpenSSL's numbers for a certificate of another host name or address."""
_LARGEST_ANSWER = 64 * 2**20
_STREAMS = (b"data:", b"event:")
_BEGINNING = 200
WEB_PAGE, NOT_WHOLE = "the answer is a web page, not JSON", "the answer is not JSON"
_CLOSED = "the connection was closed while it was free"
_RESUMED = "continue with --resume; what was scored is kept"
_HINTS = {
    WEB_PAGE: f"a proxy or a login page stands before the endpoint, or the URL is not that of an API; {_RESUMED}",
    NOT_WHOLE: f"the URL may not be that of an API, or a proxy cuts answers off; {_RESUMED}",
    "the connection failed (SSLError)": "does the endpoint speak https, or http only?",
    "the connection failed (gaierror)": "is the host's name right?",
    "the connection failed (ConnectionRefusedError)": "is the server running, and is the port right?",
}


class RemoteOptions(Options):
    """Options of every model behind a URL."""

    timeout: float = Field(default=60.0, gt=0)
    """Seconds for one request, from connecting to the last byte of the answer."""
    retries: int = Field(default=3, ge=0)
    """How often a request is repeated after a time-out, a broken connection, or a status such as 429 or 503."""
    backoff: float = Field(default=0.5, ge=0)
    """Seconds before the first repetition, doubled each time."""
    longest_wait: float = Field(default=600.0, gt=0)
    """Seconds that a server may ask to be left alone (Retry-After, x-ratelimit-reset-*); the run ends if it asks for
    more, and `--resume` continues it."""
    concurrency: int = Field(default=4, ge=1)
    """Requests in flight at the same time."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Sent with each request; `${NAME}` is replaced from the environment, so that no secret is in the file."""
    allow_remote: bool = False
    """Allow texts to leave this machine."""
    ca: str | None = None
    """A file with the certificates (PEM) of the authority that signed the endpoint's, in place of the public ones."""


class Status(NamedTuple):
    """An answer, whatever it says."""

    code: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def good(self) -> bool:
        """Whether it is an answer to what was asked."""
        return 200 <= self.code < 300


@hides("hidden")
class Told(NamedTuple):
    """What may be shown of a server's error: no word of `hidden`, unless it is one of `known`."""

    hidden: Sequence[str] = ()
    known: Sequence[str] = ()


def _nothing() -> None:
    """What is done before each try, where nothing is counted."""


class Endpoint:
    """One URL, with connections that stay open between requests.

    Requests run on an event loop of the endpoint's own thread, because a deadline that also holds for a server that
    drips bytes needs cancellation, and because the caller may be in an event loop already (a notebook).
    """

    def __init__(self, url: str, options: RemoteOptions, folder: Path | None = None) -> None:
        self._url = checked_url(url, allow_remote=options.allow_remote)
        self._tls = tls_context(self._url, options.ca, folder or Path())
        self.name = str(self._url.copy_with(query=None, fragment=None))
        """The address as errors show it: a query may contain a key."""
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        self._headers |= expanded_headers(options.headers)
        self._options, self._pacer = options, Pacer()
        self._failed: list[Exception] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    one_at_a_time: asyncio.Lock
    """Held while an answer is read: between two of them, requests are sent and answers are taken in."""

    def map(
        self, function: Callable[[Work], Awaitable[Done]], items: Iterable[Work], *, finish: bool = False
    ) -> list[Done]:
        """The function's results in order, `concurrency` at a time; items are taken as there is room for them.

        The first failure cancels the rest; with `finish`, what is in flight is waited for, because it is paid for.
        """
        return self._run(self._gather(function, items, finish=finish))

    async def post(self, message: Mapping[str, Any], *, case: str | None) -> Any:
        """The answer to a JSON message, as parsed JSON; errors name `case` and never quote the message."""
        status = await self.exchange(message, case=case)
        if not status.good:
            raise self.refused(status, case=case)
        return self.parsed(status, case=case)

    async def exchange(
        self,
        message: Mapping[str, Any],
        *,
        case: str | None,
        told: Told | None = None,
        before: Callable[[], None] = _nothing,
    ) -> Status:
        """The answer to a JSON message, also where it is a refusal (400); `before` is called before each try."""
        return await self._answer("POST", json.dumps(message).encode("ascii"), case, told, before)

    def parsed(self, status: Status, *, case: str | None) -> Any:
        """The JSON of an answer."""
        try:
            return parse_json(status.body)
        except ValueError:
            streams = status.body.lstrip().startswith(_STREAMS)
            problem = "the answer is a stream of events, not JSON" if streams else "the answer is not JSON"
            hint = "turn streaming off at the server, or by `extra_body: {stream: false}`" if streams else None
            raise self.error(problem, case=case, hint=hint) from None

    def get(self) -> Status:
        """The answer to a GET."""
        return self._run(self._answer("GET", None, None))

    def refused(
        self, status: Status, *, case: str | None, told: Told | None = None, hint: str | None = None, tries: int = 1
    ) -> ModelError:
        """The error for an answer that is none; with `told`, what the server says about it."""
        how = "an error" if status.good else f"HTTP status {status.code}"
        problem = f"the endpoint answered with {how}" + (f" (tried {tries} times)" * (tries > 1))
        said = "" if told is None else self.said(status, told)
        return self.error(f'{problem}: "{said.rstrip(".")}"' if said else problem, case=case, hint=hint)

    def said(self, status: Status, told: Told) -> str:
        """What the server says about an error, without notes and keys."""
        _, text = error_of(status.body)
        return shown(text, (*told.hidden, *self._headers.values(), str(self._url)), told.known)

    def error(self, problem: str, *, case: str | None = None, hint: str | None = None) -> ModelError:
        """An error that names the endpoint."""
        return ModelError(problem, model=self.name, case=case or None, hint=hint)

    def close(self) -> None:
        """End the connections and the thread."""
        if self._loop is not None:
            self._stop()
            self._thread.join()
            self._loop = None

    def _start(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        self._slots, self.one_at_a_time = asyncio.Semaphore(self._options.concurrency), asyncio.Lock()
        self._thread = threading.Thread(target=_serve, args=(loop,), name="palpate-http", daemon=True)
        self._thread.start()
        self._connections = Connections(self._url, self._headers, self._tls, largest=_LARGEST_ANSWER)
        self._stop = weakref.finalize(self, loop.call_soon_threadsafe, _end, loop, self._connections)
        return loop

    def _run(self, work: Coroutine[Any, Any, Done]) -> Done:
        if self._loop is None:
            self._loop = self._start()
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C must not leave requests in flight
            future.cancel()
            raise

    async def _gather(
        self, function: Callable[[Work], Awaitable[Done]], items: Iterable[Work], *, finish: bool
    ) -> list[Done]:
        """A few workers that each take the next item; a task per item would cost more than the requests.

        There are twice as many as there may be requests in flight: while an answer is read and stored, another request
        that is ready is on its way, so that the server does not wait for this process.
        """
        todo, results, failed = iter(enumerate(items)), dict[int, Done](), list[Exception]()
        self._failed = failed

        async def work() -> None:
            try:
                for k, item in todo:
                    if failed:
                        return
                    results[k] = await function(item)
            except Exception as error:
                failed.append(error)
                if not finish:
                    raise

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(2 * self._options.concurrency):
                    group.create_task(work())
        except ExceptionGroup:
            pass
        if failed:
            raise failed[0]
        return [results[k] for k in sorted(results)]

    async def _answer(
        self,
        method: str,
        body: bytes | None,
        case: str | None,
        told: Told | None = None,
        before: Callable[[], None] = _nothing,
    ) -> Status:
        """The answer to the first try that gets one; a wait that the server asks for is not counted as a failure."""
        n, waits, tries = 0, 0, self._options.retries + 1
        while True:
            async with self._slots:
                if self._failed:  # while this request waited for its turn
                    raise asyncio.CancelledError
                await self._pacer.wait()
                before()
                status = await self._try(method, body, case)
            if status == _CLOSED:  # no failure of the server, but a request that counts
                continue
            status = answered(status, asked=body is not None)
            wait = asked_to_wait(status.headers) if isinstance(status, Status) else 0.0
            if isinstance(status, Status):
                self._pause(max(wait if status.code in _RETRIED else 0.0, used_up(status.headers)), case)
                if status.code not in _RETRIED or (status.code == 429 and error_of(status.body)[0] in _NOT_BUSY):
                    return status
            n, waits = (n, waits + 1) if wait > 0 and waits < _MOST_WAITS else (n + 1, waits)
            if n < tries:
                await asyncio.sleep(self._options.backoff * 2 ** max(n - 1, 0) if wait == 0 else 0)
            elif isinstance(status, Status):
                raise self.refused(status, case=case, told=told, tries=tries)
            else:
                often = f" (tried {tries} times)" * (tries > 1)
                raise self.error(f"{status}{often}", case=case, hint=_HINTS.get(status))

    def _pause(self, seconds: float, case: str | None) -> None:
        if seconds > self._options.longest_wait:
            problem = f"the endpoint asks to be left alone for {seconds:,.0f} s, longer than longest_wait allows"
            raise self.error(problem, case=case, hint="continue later with --resume; what was scored is kept")
        self._pacer.pause(seconds)

    async def _try(self, method: str, body: bytes | None, case: str | None) -> Status | str:
        """One try: an answer, or what went wrong."""
        try:
            async with asyncio.timeout(self._options.timeout):
                status = Status(*await self._connections.request(method, body))
        except TimeoutError:
            return f"no answer within {self._options.timeout:g} s"
        except TooLarge:
            raise self.error(f"the answer is larger than {_LARGEST_ANSWER >> 20} MB", case=case) from None
        except ssl.SSLCertVerificationError as error:
            raise self._not_trusted(error, case) from None
        except ClosedWhileFree:
            return _CLOSED
        except (OSError, EOFError) as error:
            return f"the connection failed ({type(error).__name__})"
        if 300 <= status.code < 400:
            redirect = f"the endpoint redirects (HTTP status {status.code}), which is not followed"
            raise self.error(redirect, case=case, hint="give the final URL")
        return status

    def _not_trusted(self, error: ssl.SSLCertVerificationError, case: str | None) -> ModelError:
        """Why nothing was sent; no repetition mends it."""
        if error.verify_code in _OTHER_HOST:
            problem = f"the endpoint's certificate is not for {self._url.host}"
            return self.error(problem, case=case, hint="give the host name that the certificate names")
        problem = f"the endpoint's certificate is not trusted ({error.verify_message})"
        return self.error(problem, case=case, hint="name the certificates of your own authority with `ca: FILE`")


def tls_context(url: httpx.URL, authority: str | None, folder: Path) -> ssl.SSLContext | None:
    """What an endpoint's certificate is checked against; certificates as httpx trusts them, whatever the environment
    says, or those of a file."""
    if url.scheme != "https":
        if authority is not None:
            raise ConfigError("`ca` is for https, and the URL is http", at=("ca",))
        return None
    if authority is None:
        return httpx.create_ssl_context(trust_env=False)
    file = folder / at_home(authority)
    if not file.is_file():
        raise ConfigError("the file of certificates is not found", file=file, at=("ca",))
    try:
        return ssl.create_default_context(cafile=str(file))
    except ssl.SSLError:
        raise ConfigError("holds no certificate (PEM)", file=file, at=("ca",)) from None


def answered(status: Status | str, *, asked: bool) -> Status | str:
    """The answer; what is wrong where a proxy answered in the server's place, or the answer is cut off.

    Such answers come and go (a gateway that restarts, a session that ended), so they are repeated like a status of 502.
    A server that hides its error behind a status of 200 gets the status that it means.
    """
    if isinstance(status, str) or not status.good or not asked:
        return status
    body = status.body.strip()
    if body.startswith(b"<"):
        return WEB_PAGE
    if not body.startswith(_STREAMS) and not (body[:1] in (b"{", b"[") and body[-1:] in (b"}", b"]")):
        return NOT_WHOLE
    if b'"error"' in body[:_BEGINNING] and b'"choices"' not in body:
        try:
            found = parse_json(body)["error"]["code"]
        except (ValueError, KeyError, TypeError):
            return status
        if isinstance(found, int) and found in _RETRIED:
            return status._replace(code=found)
    return status


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.run_until_complete(asyncio.sleep(0))  # what was closed says goodbye
    loop.close()


def _end(loop: asyncio.AbstractEventLoop, connections: Connections) -> None:
    """Close the connections and end the thread, also of an endpoint that was dropped without being closed."""
    connections.close()
    loop.stop()


def checked_url(url: str, *, allow_remote: bool) -> httpx.URL:
    """The parsed URL, if texts may be sent there."""
    try:
        parsed = httpx.URL(url)
        wrong = parsed.port is not None and not 0 < parsed.port < 2**16
    except httpx.InvalidURL:
        wrong = True
    if wrong:
        raise ConfigError(f"'{url}' is not a URL")
    host = parsed.host
    if not host:
        raise ConfigError(f"'{url}' names no host", hint="a URL is like http://127.0.0.1:8000/predict")
    if parsed.userinfo:
        raise ConfigError(f"the URL of the model at {host} contains a user or password", hint="use `headers`")
    if not allow_remote and not is_loopback(host):
        raise ConfigError(
            f"{host} is not this machine, and texts would be sent there",
            hint="allow_remote: true permits it",
        )
    return parsed


def is_loopback(host: str) -> bool:
    """Whether a name or an address stands for this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def expanded_headers(templates: Mapping[str, str]) -> dict[str, str]:
    """Headers with the values of environment variables; errors name the header, never its value."""
    headers = {}
    for name, template in templates.items():
        missing = [key for key in re.findall(r"\$\{(\w+)\}", template) if not os.environ.get(key, "").strip()]
        if missing:
            how = "empty" if missing[0] in os.environ else "not set"
            problem = f"the header '{name}' needs the environment variable {missing[0]}, which is {how}"
            raise ConfigError(problem, at=("headers",))
        value = re.sub(r"\$\{(\w+)\}", lambda found: os.environ[found[1]].strip(), template)
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or not re.fullmatch(r"[ -~\t]*", value):
            raise ConfigError(f"the header '{name}' contains a character that HTTP does not allow")
        headers[name] = value
    return headers
