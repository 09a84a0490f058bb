"""JSON requests to a model behind a URL: time-outs, bounded retries, a few requests in flight, no leaks.

Notes are patients: a host other than this machine is refused unless `allow_remote: true`, redirects are never
followed, proxies of the environment are not used, and no error quotes a request, an answer or a header.
"""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import ipaddress
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, NamedTuple, TypeVar
from urllib.parse import SplitResult, urlsplit

from pydantic import Field

from palpate.errors import ConfigError, ModelError
from palpate.models.options import Options

Work = TypeVar("Work")
Done = TypeVar("Done")

_RETRIED = {408, 425, 429, 500, 502, 503, 504}
_LONGEST_WAIT = 60.0
"""Seconds; a server that asks for more patience is asked again after this."""
_LARGEST_ANSWER = 64 * 2**20
_BLOCK = 1 << 16


class RemoteOptions(Options):
    """What every model behind a URL takes."""

    timeout: float = Field(default=60.0, gt=0)
    """Seconds for one request, the answer included."""
    retries: int = Field(default=3, ge=0)
    """How often a request is repeated after a time-out, a broken connection, or a status like 429 or 503."""
    backoff: float = Field(default=0.5, ge=0)
    """Seconds before the first repetition; doubled each time. A Retry-After that asks for more is honoured."""
    concurrency: int = Field(default=4, ge=1)
    """Requests in flight at the same time."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Sent with each request; `${NAME}` is replaced from the environment, so no secret is in the file."""
    allow_remote: bool = False
    """Allow texts to leave this machine."""


class Status(NamedTuple):
    """An answer that came, whatever it says."""

    code: int
    body: bytes
    retry_after: float


class _NoAnswer(Exception):
    """A try that failed and may be repeated; the message is fit to be shown."""


class Endpoint:
    """One URL, with a connection per thread that stays open between requests."""

    def __init__(self, url: str, options: RemoteOptions) -> None:
        self._url = checked_url(url, allow_remote=options.allow_remote)
        self.name = self._url._replace(query="", fragment="").geturl()
        """The address as errors show it: a query may hold a key."""
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        self._headers |= expanded_headers(options.headers)
        self._options = options
        self._threads = ThreadPoolExecutor(options.concurrency, thread_name_prefix="palpate-http")
        self._local = threading.local()
        self._connections: list[http.client.HTTPConnection] = []
        self._stop = threading.Event()

    def map(self, function: Callable[[Work], Done], items: Sequence[Work]) -> list[Done]:
        """The function's answers, in order, a few at a time; the first failure stops the rest."""
        self._stop.clear()
        futures = [self._threads.submit(function, item) for item in items]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
            failed = [future for future in futures if future.done() and future.exception() is not None]
            for future in failed[:1]:
                future.result()
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            self._interrupt()
            wait(futures)
            raise

    def post(self, message: Mapping[str, Any], *, case: str | None) -> Any:
        """The answer to a JSON message, as parsed JSON; `case` goes into the error, the message does not."""
        body = json.dumps(message).encode("ascii")
        status = self._answered("POST", body, case)
        if not 200 <= status.code < 300:
            raise self.error(f"the endpoint answered with HTTP status {status.code}", case=case)
        try:
            return json.loads(status.body)
        except ValueError:
            raise self.error("the answer is not JSON", case=case) from None

    def get(self) -> Status:
        """The answer to a GET."""
        return self._answered("GET", None, None)

    def error(self, problem: str, *, case: str | None = None, hint: str | None = None) -> ModelError:
        """An error that names the endpoint."""
        return ModelError(problem, model=self.name, case=case or None, hint=hint)

    def close(self) -> None:
        """End the threads and connections."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._interrupt()
        for connection in list(self._connections):
            connection.close()

    def _interrupt(self) -> None:
        """Wake the threads that wait for an answer or for the next try."""
        self._stop.set()
        for connection in list(self._connections):
            if connection.sock is not None:
                with contextlib.suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)

    def _answered(self, method: str, body: bytes | None, case: str | None) -> Status:
        """The answer of the first try that has one."""
        problem, tries = "", self._options.retries + 1
        for n in range(tries):
            asked = 0.0
            try:
                status = self._once(method, body)
            except _NoAnswer as failure:
                problem = str(failure)
            else:
                if status.code not in _RETRIED:
                    return self._checked(status, case)
                problem, asked = f"the endpoint answered with HTTP status {status.code}", status.retry_after
            pause = min(max(self._options.backoff * 2**n, asked), _LONGEST_WAIT)
            if n + 1 < tries and self._stop.wait(pause):
                break
        raise self.error(f"{problem} (tried {n + 1} times)", case=case)

    def _checked(self, status: Status, case: str | None) -> Status:
        if 300 <= status.code < 400:
            raise self.error(
                f"the endpoint redirects (HTTP status {status.code}), which is not followed",
                case=case,
                hint="give the final URL",
            )
        return status

    def _once(self, method: str, body: bytes | None) -> Status:
        """One try; a connection that the server closed while it was idle is opened anew."""
        fresh = getattr(self._local, "connection", None) is None
        try:
            return self._exchange(method, body)
        except TimeoutError:
            problem = f"no answer within {self._options.timeout:g} s"
        except _NoAnswer as failure:
            problem = str(failure)
        except (OSError, http.client.HTTPException) as error:
            if not fresh and isinstance(error, ConnectionError) and not self._stop.is_set():
                self._drop()
                return self._once(method, body)
            problem = f"the connection failed ({type(error).__name__})"
        self._drop()
        raise _NoAnswer(problem)

    def _exchange(self, method: str, body: bytes | None) -> Status:
        deadline = time.monotonic() + self._options.timeout
        connection = self._connection()
        _wait_until(deadline, connection)
        query = f"?{self._url.query}" if self._url.query else ""
        connection.request(method, (self._url.path or "/") + query, body=body, headers=self._headers)
        _wait_until(deadline, connection)
        response = connection.getresponse()
        blocks, size = [], 0
        while block := response.read1(_BLOCK):
            blocks.append(block)
            size += len(block)
            _wait_until(deadline, connection)
            if size > _LARGEST_ANSWER:
                raise _NoAnswer(f"the answer is larger than {_LARGEST_ANSWER >> 20} MB")
        if response.length:
            raise _NoAnswer("the answer broke off")
        response.close()  # or the connection can't be used again
        return Status(response.status, b"".join(blocks), _retry_after(response.getheader("Retry-After")))

    def _connection(self) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            secure = self._url.scheme == "https"
            kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
            connection = kind(self._url.hostname or "", self._url.port, timeout=self._options.timeout)
            self._local.connection = connection
            self._connections.append(connection)
        return connection

    def _drop(self) -> None:
        connection = self._local.connection
        self._local.connection = None
        self._connections.remove(connection)
        connection.close()


def _wait_until(deadline: float, connection: http.client.HTTPConnection) -> None:
    """Let the connection block no longer than to the deadline."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    if connection.sock is not None:
        connection.sock.settimeout(left)


def checked_url(url: str, *, allow_remote: bool) -> SplitResult:
    """The parts of a URL to which texts may be sent."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ConfigError(f"'{url}' is not a URL") from None
    if not host:
        raise ConfigError(f"'{url}' names no host", hint="a URL is like http://127.0.0.1:8000/predict")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"the URL of the model at {host} holds a user or password", hint="use headers")
    if not allow_remote and not _is_loopback(host):
        raise ConfigError(
            f"{host} is not this machine, and texts would be sent there",
            hint="allow_remote: true permits it",
        )
    return parts


def _is_loopback(host: str) -> bool:
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
            raise ConfigError(f"the header '{name}' holds a character that HTTP does not allow")
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
