"""A real server on this machine that speaks the chat protocol, as strict, broken or talkative as a test wants it."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Reply:
    """What the server says to one request: an answer, or an error."""

    content: str | None = "Yes"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    refusal: str | None = None
    finish: str = "stop"
    tokens: Mapping[str, float] | None = None
    """Alternatives for the first token, with probabilities."""
    usage: tuple[int, int] | None = (100, 1)
    body: bytes | None = None
    """Sent as it is, in place of a completion."""
    seconds: float = 0.0
    cut: int | None = None
    """Close the connection after so many characters of the answer; 0: before any, its head included."""

    def encoded(self) -> bytes:
        if self.body is not None:
            return self.body
        choice: dict[str, Any] = {"index": 0, "finish_reason": self.finish, "logprobs": None}
        choice["message"] = {"role": "assistant", "content": self.content, "refusal": self.refusal}
        if self.tokens is not None:
            top = [{"token": token, "logprob": math.log(p)} for token, p in self.tokens.items()]
            choice["logprobs"] = {"content": [{**top[0], "top_logprobs": top}]}
        completion: dict[str, Any] = {"id": "c", "object": "chat.completion", "choices": [choice]}
        if self.usage is not None:
            prompt, answer = self.usage
            completion["usage"] = {"prompt_tokens": prompt, "completion_tokens": answer}
        return json.dumps(completion).encode()


def error(status: int, message: str, code: str = "invalid_request_error", **headers: str) -> Reply:
    """An error as OpenAI-compatible servers write it."""
    body = json.dumps({"error": {"message": message, "type": code, "code": code}}).encode()
    return Reply(status=status, body=body, headers={name.replace("_", "-"): value for name, value in headers.items()})


def newer_rules(message: Mapping[str, Any]) -> Reply | None:
    """What newer endpoints refuse; None where they take the request."""
    if "max_tokens" in message:
        return error(
            400,
            "Unsupported parameter: 'max_tokens' is not supported with this model. "
            "Use 'max_completion_tokens' instead.",
            "unsupported_parameter",
        )
    if "temperature" in message:
        return error(400, "Unsupported value: 'temperature' does not support 0 with this model.", "unsupported_value")
    if message.get("stream"):
        return Reply(body=b'data: {"choices": []}\n\ndata: [DONE]\n\n')
    return None


@dataclass
class ChatServer:
    """Replies `reply(question, message)`; what is in `first` is used up before, one for each request."""

    reply: Callable[[str, Mapping[str, Any]], Reply | str] = lambda question, message: "Yes"
    first: list[Reply] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    most_in_flight: int = 0

    def __post_init__(self) -> None:
        self._lock, self._in_flight = threading.Lock(), 0
        self.released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def questions(self) -> list[str]:
        return [str(message["messages"][-1]["content"]) for message in self.messages]

    def answered(self, message: dict[str, Any]) -> Reply:
        with self._lock:
            self.messages.append(message)
            self._in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self._in_flight)
            reply: Reply | str | None = self.first.pop(0) if self.first else None
        if reply is None:
            reply = self.reply(str(message["messages"][-1]["content"]), message)
        found = Reply(reply) if isinstance(reply, str) else reply
        if found.seconds:
            self.released.wait(found.seconds)
        with self._lock:
            self._in_flight -= 1
        return found

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def serving(
    reply: Callable[[str, Mapping[str, Any]], Reply | str] = lambda question, message: "Yes",
    first: Sequence[Reply] = (),
) -> Iterator[ChatServer]:
    server = ChatServer(reply, list(first))
    try:
        yield server
    finally:
        server.close()


def _handler(server: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reply = server.answered(message) if self.path == "/v1/chat/completions" else error(404, "Not Found")
            body = reply.encoded()
            self.close_connection = reply.cut is not None
            if reply.cut == 0:
                return
            try:
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: reply.cut])
            except OSError:
                pass

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
