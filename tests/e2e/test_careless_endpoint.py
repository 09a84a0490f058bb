"""A chat server that is written carelessly: whatever it sends is an outcome or one sentence, without the note."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palpate.cases.edits import Inputs
from palpate.errors import ModelError
from palpate.models import ModelSpec, load_model
from tests.e2e.command_line import CommandLine

SECRET = "Zebulon Quackenbush, lives in Winklebury"
CONFIG = """
cohort: {{file: notes.csv, labels: [ill]}}
models:
  llm:
    source: http://127.0.0.1:{port}/v1
    api: chat
    model: careless
    prompt: "{{text}} Is this patient ill?"
    retries: 1
    backoff: 0
    timeout: 2
audits:
  performance: {{n_replicates: 100}}
"""


QUICK = {"retries": 1, "backoff": 0, "timeout": 5}


def completion(**choice: Any) -> dict[str, Any]:
    return {"object": "chat.completion", "choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 1}}


CHUNK = json.dumps({"object": "chat.completion.chunk", "choices": [{"delta": {"content": SECRET}}]})
CALL = {"id": "x", "type": "function", "function": {"name": "look_up", "arguments": json.dumps({"name": SECRET})}}
ODD: dict[str, tuple[int, Any]] = {
    "no choices": (200, {"choices": []}),
    "no choices, with usage": (200, {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 0}}),
    "choices are null": (200, {"choices": None}),
    "choices are text": (200, {"choices": SECRET}),
    "choices of numbers": (200, {"choices": [7]}),
    "no content": (200, completion(message={"role": "assistant", "content": None}, finish_reason="stop")),
    "empty content": (200, completion(message={"role": "assistant", "content": ""}, finish_reason="stop")),
    "content is a number": (200, completion(message={"content": 1}, finish_reason="stop")),
    "content is an object": (200, completion(message={"content": {"said": SECRET}}, finish_reason="stop")),
    "parts of nothing": (200, completion(message={"content": [None, 3, {"type": "image"}]}, finish_reason="stop")),
    "message is text": (200, completion(message=SECRET, finish_reason="stop")),
    "a tool is called": (
        200,
        completion(message={"content": None, "tool_calls": [CALL]}, finish_reason="tool_calls"),
    ),
    "tool calls are text": (200, completion(message={"content": None, "tool_calls": SECRET}, finish_reason="stop")),
    "cut off": (200, completion(message={"content": SECRET}, finish_reason="length")),
    "filtered": (200, completion(message={"content": SECRET}, finish_reason="content_filter")),
    "an odd reason": (200, completion(message={"content": SECRET}, finish_reason={"why": SECRET})),
    "an error with status 200": (200, {"error": {"message": f"no idea about {SECRET}", "code": None}}),
    "an error as text": (200, {"error": SECRET}),
    "an error and choices": (200, {"error": {"message": SECRET}, "choices": None}),
    "a stream": (200, f"data: {CHUNK}\n\ndata: [DONE]\n\n".encode()),
    "a chunk": (200, CHUNK.encode()),
    "a list": (200, [completion(message={"content": "Yes"}, finish_reason="stop")]),
    "not JSON": (200, SECRET.encode()),
    "not UTF-8": (200, b'{"choices": [{"message": {"content": "\xff\xfe"}}]}'),
    "nothing": (200, b""),
    "null": (200, b"null"),
    "odd usage": (200, {**completion(message={"content": "Yes"}, finish_reason="stop"), "usage": "many"}),
    "usage below zero": (
        200,
        {**completion(message={"content": "Yes"}), "usage": {"prompt_tokens": -5, "completion_tokens": 1e300}},
    ),
    "deep": (200, b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "a number without end": (200, b'{"choices": [], "usage": {"prompt_tokens": ' + b"9" * 5000 + b"}}"),
    "too long": (413, {"error": {"message": f"Request Entity Too Large: {SECRET}"}}),
    "too long, as a page": (413, f"<html>{SECRET}</html>".encode()),
    "longer than the context": (400, {"error": {"message": "This model's maximum context length is 9 tokens"}}),
    "no key": (401, {"error": {"message": f"Incorrect API key; you sent {SECRET}", "code": "invalid_api_key"}}),
    "error without a body": (400, b""),
    "details as a list": (422, {"detail": [{"loc": ["body"], "msg": "bad", "input": SECRET}]}),
    "an error of errors": (400, {"error": {"error": {"message": [SECRET]}}}),
    "broken": (500, f"Traceback (most recent call last): {SECRET}".encode()),
}
OUTCOMES = {
    *("no choices, with usage", "no content", "empty content", "a tool is called", "tool calls are text", "cut off"),
    *("filtered", "an odd reason", "odd usage", "usage below zero", "too long", "too long, as a page"),
    *("longer than the context", "content is an object", "content is a number", "message is text", "a chunk", "a list"),
    *("choices are null", "choices are text", "choices of numbers", "no choices", "parts of nothing"),
    "an error and choices",
}
"""What one answer of many may be without an end of the run; everything else is a server that does not work."""


YES = {"odd usage", "usage below zero"}
"""What is said with them is a yes."""


class Careless(ThreadingHTTPServer):
    reply: tuple[int, Any] = (200, b"")
    always = False


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Careless

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        status, body = 200, completion(message={"content": "No"}, finish_reason="stop")
        if self.server.always or b"Zebulon" in asked:
            status, body = self.server.reply
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def careless() -> Iterator[Careless]:
    server = Careless(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("always", [False, True], ids=["once", "always"])
@pytest.mark.parametrize("name", ODD)
def test_an_odd_answer(name: str, always: bool, careless: Careless) -> None:
    """One answer of many is an outcome, unless the server does not work; either way, nothing else is raised."""
    careless.reply, careless.always = ODD[name], always
    options = {"api": "chat", "model": "careless", "prompt": "{text} Is this patient ill?", "labels": ["ill"]}
    model = load_model(ModelSpec("llm", f"http://127.0.0.1:{careless.server_port}/v1", options=options | QUICK))
    texts = [SECRET if k == 7 else f"note {k} of somebody who feels well" for k in range(30)]
    try:
        p: Any = model.predict(Inputs.from_texts(texts))
        said = ""
    except ModelError as error:
        p, said = None, str(error)
    finally:
        model.close()
    assert not any(word in said for word in ("Zebulon", "Quackenbush", "Winklebury"))
    assert p is None or p.shape == (30, 1)
    assert "127.0.0.1" in said or p is not None
    if not always:
        assert (p is not None) == (name in OUTCOMES), said
        assert p is None or np.isnan(p[7, 0]) == (name not in YES)


@pytest.mark.parametrize(("name", "code"), [("a tool is called", 0), ("an error as text", 3)])
def test_on_the_command_line(name: str, code: int, careless: Careless, tmp_path: Path, palpate: CommandLine) -> None:
    careless.reply = ODD[name]
    notes = [SECRET if k == 7 else f"note {k} of somebody who feels well" for k in range(30)]
    rows = "".join(f'c{k},"{note}",{k % 2}\n' for k, note in enumerate(notes))
    (tmp_path / "notes.csv").write_text(f"case_id,text,ill\n{rows}")
    (tmp_path / "audit.yaml").write_text(CONFIG.format(port=careless.server_port))
    ran = palpate("audit", tmp_path / "audit.yaml", "--out", tmp_path / "run")
    assert ran.code == code
    assert not any(word in ran.out + ran.err for word in ("Traceback", "Zebulon", "Quackenbush", "Winklebury"))
    for file in (tmp_path / "run").rglob("*"):
        assert not file.is_file() or b"Quackenbush" not in file.read_bytes()
