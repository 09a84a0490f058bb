"""A real HTTP server on this machine whose behaviour a test scripts."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[Any], Any]


def keyword_probability(text: str) -> float:
    """What the tests' endpoints think of a text: it depends on every character."""
    return (sum(map(ord, text)) % 997) / 996


def probabilities(message: Any) -> Any:
    """One label."""
    return {"probabilities": [[keyword_probability(text)] for text in message["texts"]]}


@dataclass
class LocalServer:
    """Answers `answer(message)`; the statuses in `failures` are used up first, one for each request."""

    answer: Answer = probabilities
    failures: list[int] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    """Sent along with a failure."""
    labels: list[str] | None = None
    """What a GET tells."""
    seconds: float = 0.0
    """How long an answer takes."""
    close_after_answer: bool = False
    """Close the connection without saying so."""

    n_requests: int = 0
    n_connections: int = 0
    most_in_flight: int = 0
    seen_headers: list[dict[str, str]] = field(default_factory=list)
    messages: list[Any] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._in_flight = 0
        self._lock = threading.Lock()
        self.released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/predict"

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        with self._lock:
            self.n_requests += 1
            self.times.append(time.monotonic())
            self._in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self._in_flight)
            self.seen_headers.append(dict(handler.headers))
            self.messages.append(json.loads(body))
            status = self.failures.pop(0) if self.failures else 200
        if self.seconds:
            self.released.wait(self.seconds)
        with self._lock:
            self._in_flight -= 1
        if status != 200:
            return self.send(handler, status, b"busy", self.headers)
        answer = self.answer(json.loads(body))
        self.send(handler, 200, answer if isinstance(answer, bytes) else json.dumps(answer).encode(), {})

    def send(self, handler: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str]) -> None:
        try:
            handler.send_response(status)
            for name, value in headers.items():
                handler.send_header(name, value)
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)
        except OSError:
            pass
        handler.close_connection = self.close_after_answer


def _handler(server: LocalServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            server.n_connections += 1
            super().setup()

        def do_POST(self) -> None:
            server.respond(self)

        def do_GET(self) -> None:
            if server.labels is None:
                server.send(self, 405, b"", {})
            else:
                server.send(self, 200, json.dumps({"labels": server.labels}).encode(), {})

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
