"""JSON requests to a model behind a URL: an overall deadline, bounded retries, a few requests in flight, no leaks.

Notes are patients: a host other than this machine is refused unless `allow_remote: true`, redirects are never
followed, proxies of the environment are not used, and no error quotes a request, an answer or a header.
"""

from __future__ import annotations

import asyncio
import email.utils
import ipaddress
import json
import os
import re
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import httpx
from pydantic import Field

from palpate.errors import ConfigError, ModelError
from palpate.models.options import Options

Work = TypeVar("Work")
Done = TypeVar("Done")

MAY_CHANGE = "an endpoint can change behind its address"
_RETRIED = {408, 425, 429, 500, 502, 503, 504}
_LONGEST_WAIT = 60.0
"""Seconds; a server that asks for a longer wait is tried again after this."""
_LARGEST_ANSWER = 64 * 2**20


class RemoteOptions(Options):
    """Options of every model behind a URL."""

    timeout: float = Field(default=60.0, gt=0)
    """Seconds for one request, from connecting to the last byte of the answer."""
    retries: int = Field(default=3, ge=0)
    """How often a request is repeated after a time-out, a broken connection, or a status such as 429 or 503."""
    backoff: float = Field(default=0.5, ge=0)
    """Seconds before the first repetition, doubled each time. A Retry-After that asks for more is honoured."""
    concurrency: int = Field(default=4, ge=1)
    """Requests in flight at the same time."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Sent with each request; `${NAME}` is replaced from the environment, so that no secret is in the file."""
    allow_remote: bool = False
    """Allow texts to leave this machine."""


class Status(NamedTuple):
    """An answer, whatever it says."""

    code: int
    body: bytes
    retry_after: float


class Endpoint:
    """One URL, with connections that stay open between requests.

    Requests run on an event loop of the endpoint's own thread, because a deadline that also holds for a server that
    drips bytes needs cancellation, and because the caller may be in an event loop already (a notebook).
    """

    def __init__(self, url: str, options: RemoteOptions) -> None:
        self._url = checked_url(url, allow_remote=options.allow_remote)
        self.name = str(self._url.copy_with(query=None, fragment=None))
        """The address as errors show it: a query may contain a key."""
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        self._headers |= expanded_headers(options.headers)
        self._options = options
        self._loop: asyncio.AbstractEventLoop | None = None

    def map(self, function: Callable[[Work], Awaitable[Done]], items: Sequence[Work]) -> list[Done]:
        """The function's results in order, `concurrency` at a time; the first failure cancels the rest."""
        return self._run(self._gather(function, items))

    async def post(self, message: Mapping[str, Any], *, case: str | None) -> Any:
        """The answer to a JSON message, as parsed JSON; errors name `case` and never quote the message."""
        status = await self._answer("POST", json.dumps(message).encode("ascii"), case)
        if not 200 <= status.code < 300:
            raise self.error(f"the endpoint answered with HTTP status {status.code}", case=case)
        try:
            return json.loads(status.body)
        except ValueError:
            raise self.error("the answer is not JSON", case=case) from None

    def get(self) -> Status:
        """The answer to a GET."""
        return self._run(self._answer("GET", None, None))

    def error(self, problem: str, *, case: str | None = None, hint: str | None = None) -> ModelError:
        """An error that names the endpoint."""
        return ModelError(problem, model=self.name, case=case or None, hint=hint)

    def close(self) -> None:
        """End the connections and the thread."""
        if self._loop is not None:
            self._run(self._transport.aclose())
            self._stop()
            self._thread.join()
            self._loop = None

    def _start(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_serve, args=(loop,), name="palpate-http", daemon=True)
        self._thread.start()
        self._stop = weakref.finalize(self, loop.call_soon_threadsafe, loop.stop)
        # The transport and not httpx.AsyncClient, which logs every URL and keeps cookies.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=self._options.concurrency)
        self._transport = httpx.AsyncHTTPTransport(trust_env=False, limits=limits)
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

    async def _gather(self, function: Callable[[Work], Awaitable[Done]], items: Sequence[Work]) -> list[Done]:
        free = asyncio.Semaphore(self._options.concurrency)

        async def one(item: Work) -> Done:
            async with free:
                return await function(item)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(item)) for item in items]
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _answer(self, method: str, body: bytes | None, case: str | None) -> Status:
        """The answer to the first try that gets one."""
        problem, tries = "", self._options.retries + 1
        for n in range(tries):
            asked = 0.0
            try:
                async with asyncio.timeout(self._options.timeout):
                    status = await self._exchange(method, body, case)
            except TimeoutError:
                problem = f"no answer within {self._options.timeout:g} s"
            except (httpx.TransportError, OSError) as error:
                problem = f"the connection failed ({type(error).__name__})"
            else:
                if 300 <= status.code < 400:
                    redirect = f"the endpoint redirects (HTTP status {status.code}), which is not followed"
                    raise self.error(redirect, case=case, hint="give the final URL")
                if status.code not in _RETRIED:
                    return status
                problem, asked = f"the endpoint answered with HTTP status {status.code}", status.retry_after
            if n + 1 < tries:
                await asyncio.sleep(min(max(self._options.backoff * 2**n, asked), _LONGEST_WAIT))
        raise self.error(f"{problem} (tried {tries} times)", case=case)

    async def _exchange(self, method: str, body: bytes | None, case: str | None) -> Status:
        """One try; a connection that the server closed while it was idle is opened again at once."""
        while True:
            opened: list[str] = []

            async def trace(event: str, _: Any, opened: list[str] = opened) -> None:
                if event == "connection.connect_tcp.started":
                    opened.append(event)

            extensions = {"trace": trace}
            request = httpx.Request(method, self._url, headers=self._headers, content=body, extensions=extensions)
            try:
                return await self._read(await self._transport.handle_async_request(request), case)
            except httpx.TransportError:
                if opened:
                    raise

    async def _read(self, response: httpx.Response, case: str | None) -> Status:
        body = bytearray()
        try:
            async for part in response.aiter_bytes():
                body += part
                if len(body) > _LARGEST_ANSWER:
                    raise self.error(f"the answer is larger than {_LARGEST_ANSWER >> 20} MB", case=case)
        finally:
            await response.aclose()
        return Status(response.status_code, bytes(body), _retry_after(response.headers.get("Retry-After")))


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


def checked_url(url: str, *, allow_remote: bool) -> httpx.URL:
    """The parsed URL, if texts may be sent there."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        raise ConfigError(f"'{url}' is not a URL") from None
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
        missing = [key for key in re.findall(r"\$\{(\w+)\}", template) if key not in os.environ]
        if missing:
            raise ConfigError(f"the header '{name}' needs the environment variable {missing[0]}, which is not set")
        value = re.sub(r"\$\{(\w+)\}", lambda found: os.environ[found[1]], template)
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or not re.fullmatch(r"[ -~\t]*", value):
            raise ConfigError(f"the header '{name}' contains a character that HTTP does not allow")
        headers[name] = value
    return headers


def _retry_after(value: str | None) -> float:
    """Seconds to wait, from a number or a date; 0 if the server does not say."""
    if value is None:
        return 0.0
    try:
        return max(float(value), 0.0)
    except ValueError:
        pass
    try:
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError):
        return 0.0
