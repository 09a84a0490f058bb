"""Models behind a URL, against a real server on this machine that is slow, breaks, lies or hangs."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any

import numpy as np
import pytest

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError, ModelError
from palpate.models import Model
from palpate.models.adapters import http, remote
from palpate.models.adapters.remote import checked_url
from tests.models.adapters.local_server import LocalServer, keyword_probability

SECRET = "s3cret-t0ken"
NOTE = "Mr Smith has sepsis"


@pytest.fixture
def server() -> Iterator[LocalServer]:
    running = LocalServer()
    yield running
    running.close()


def load(url: str, **options: Any) -> Model:
    scheme, _, target = url.partition(":")
    settings = {"backoff": 0.01, "timeout": 5, **options}
    return {"http": http.load, "https": http.load_https}[scheme](target, settings, folder=None)  # type: ignore[arg-type]


def inputs(n: int) -> Inputs:
    return Inputs.from_texts([f"{NOTE} {i}" for i in range(n)], [f"case-{i}" for i in range(n)])


def expected(asked: Inputs) -> np.ndarray:
    return np.array([[keyword_probability(text)] for text in asked.texts])


def test_rows_come_back_in_order(server: LocalServer) -> None:
    model = load(server.url, batch_size=3, concurrency=2)
    asked = inputs(20)
    np.testing.assert_array_equal(model.predict(asked), expected(asked))
    assert model.labels == ("positive",)
    assert model.rows_per_call == 6
    assert [len(message["texts"]) for message in server.messages].count(3) == 6
    assert server.n_requests == 7


def test_no_rows_need_no_request(server: LocalServer) -> None:
    model = load(server.url, labels=["a", "b"])
    assert model.predict(inputs(0)).shape == (0, 2)
    assert server.n_requests == 0


def test_odd_characters_arrive(server: LocalServer) -> None:
    asked = Inputs.from_texts(["", "🙂 naïve\x00\n", "lone \ud800", "word " * 20_000])
    np.testing.assert_array_equal(load(server.url).predict(asked), expected(asked))


def test_flat_list_is_one_label(server: LocalServer) -> None:
    server.answer = lambda message: {"probabilities": [0.25 for _ in message["texts"]]}
    np.testing.assert_array_equal(load(server.url).predict(inputs(3)), np.full((3, 1), 0.25))


def test_labels_from_the_endpoint_or_the_option(server: LocalServer) -> None:
    assert load(server.url).labels == ("positive",)
    server.labels = ["sepsis", "death"]
    assert load(server.url).labels == ("sepsis", "death")
    assert load(server.url, labels=["x", "y"]).labels == ("x", "y")


def test_connections_stay_open(server: LocalServer) -> None:
    model = load(server.url, labels=["a"], batch_size=1, concurrency=2)
    model.predict(inputs(12))
    model.predict(inputs(12))
    assert server.n_requests == 24
    assert server.n_connections <= 2


def test_a_connection_closed_while_idle_is_no_failure(server: LocalServer) -> None:
    server.close_after_answer = True
    model = load(server.url, labels=["a"], batch_size=1, concurrency=1, retries=0)
    asked = inputs(4)
    np.testing.assert_array_equal(model.predict(asked), expected(asked))


def test_concurrency_is_used_and_bounded(server: LocalServer) -> None:
    server.seconds = 0.1
    load(server.url, labels=["a"], batch_size=1, concurrency=3).predict(inputs(12))
    assert server.most_in_flight == 3


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_failures_are_repeated(server: LocalServer, status: int) -> None:
    server.failures = [status, status]
    asked = inputs(2)
    np.testing.assert_array_equal(load(server.url, retries=2).predict(asked), expected(asked))
    assert server.n_requests == 3


def test_retries_are_bounded(server: LocalServer) -> None:
    server.failures = [500] * 50
    with pytest.raises(ModelError, match=r"case-0.*status 500 \(tried 3 times\)") as caught:
        load(server.url, retries=2).predict(inputs(2))
    assert server.n_requests == 3
    assert caught.value.case == "case-0"
    assert NOTE not in str(caught.value)


def test_pauses_double(server: LocalServer) -> None:
    server.failures = [500] * 3
    load(server.url, labels=["a"], backoff=0.1).predict(inputs(1))
    pauses = np.diff(server.times)
    assert np.all(pauses >= [0.1, 0.2, 0.4])


@pytest.mark.parametrize("as_date", [False, True])
def test_retry_after_is_honoured(server: LocalServer, as_date: bool) -> None:
    server.failures = [429]
    server.headers = {"Retry-After": formatdate(time.time() + 2, usegmt=True) if as_date else "0.7"}
    load(server.url, labels=["a"]).predict(inputs(1))
    assert server.times[1] - server.times[0] >= 0.7


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422])
def test_refusals_are_not_repeated(server: LocalServer, status: int) -> None:
    server.failures = [status] * 9
    with pytest.raises(ModelError, match=f"status {status}"):
        load(server.url, labels=["a"]).predict(inputs(1))
    assert server.n_requests == 1


def test_hanging_endpoint_times_out(server: LocalServer) -> None:
    server.seconds = 30
    started = time.monotonic()
    with pytest.raises(ModelError, match=r"no answer within 0.2 s \(tried 2 times\)"):
        load(server.url, labels=["a"], timeout=0.2, retries=1).predict(inputs(1))
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("sent", [b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b"HTTP/1.1 200 OK\r\nX-Long: "])
def test_dripping_endpoint_times_out(sent: bytes) -> None:
    """Each byte of the body, or of a header, comes in time; the answer never does."""
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def drip() -> None:
        connection, _ = listener.accept()
        connection.recv(65536)
        connection.sendall(sent)
        while not stop.wait(0.05):
            try:
                connection.sendall(b" ")
            except OSError:
                break
        connection.close()

    threading.Thread(target=drip, daemon=True).start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    started = time.monotonic()
    with pytest.raises(ModelError, match=r"no answer within 0.4 s"):
        load(url, labels=["a"], timeout=0.4, retries=0).predict(inputs(1))
    assert time.monotonic() - started < 3
    stop.set()
    listener.close()


def test_broken_off_answer_is_repeated() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    bodies = [b'{"proba', b'{"probabilities": [0.5]}']

    def serve() -> None:
        for body in bodies:
            connection, _ = listener.accept()
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 24\r\n\r\n" + body)
            connection.close()

    threading.Thread(target=serve, daemon=True).start()
    model = load(f"http://127.0.0.1:{listener.getsockname()[1]}/", labels=["a"])
    assert model.predict(inputs(1)).tolist() == [[0.5]]
    listener.close()


def test_an_answer_without_end_is_refused(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_LARGEST_ANSWER", 1 << 20)
    server.answer = lambda message: b"x" * (3 << 20)
    with pytest.raises(ModelError, match=r"case-0.*larger than 1 MB"):
        load(server.url, labels=["a"]).predict(inputs(1))
    assert server.n_requests == 1


def test_a_caller_inside_an_event_loop(server: LocalServer) -> None:
    """As in a notebook."""
    asked = inputs(3)

    async def cell() -> Any:
        return load(server.url).predict(asked)

    np.testing.assert_array_equal(asyncio.run(cell()), expected(asked))


def test_one_failure_stops_the_rest(server: LocalServer) -> None:
    server.seconds = 0.2
    server.failures = [400]
    with pytest.raises(ModelError):
        load(server.url, labels=["a"], batch_size=1, concurrency=2).predict(inputs(40))
    assert server.n_requests < 8


def test_model_works_again_after_a_failure(server: LocalServer) -> None:
    before = set(threading.enumerate())
    model = load(server.url, labels=["a"], batch_size=1)
    server.failures = [400]
    with pytest.raises(ModelError):
        model.predict(inputs(9))
    asked = inputs(9)
    np.testing.assert_array_equal(model.predict(asked), expected(asked))
    model.close()
    assert "palpate-http" not in {thread.name for thread in set(threading.enumerate()) - before}


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ModelError, match=rf"127.0.0.1:{port}.*connection failed.*tried 2 times"):
        load(f"http://127.0.0.1:{port}/", retries=1)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"<html>" + NOTE.encode(), "not JSON"),
        (b"[" * 100_000, "not JSON"),
        ([0.5, 0.5], "no list 'probabilities'"),
        ({"scores": [0.5]}, "no list 'probabilities'"),
        ({"probabilities": "0.5"}, "no list 'probabilities'"),
        ({"probabilities": [[0.5]]}, "1 rows for 2 texts"),
        ({"probabilities": [[0.5]] * 3}, "3 rows for 2 texts"),
        ({"probabilities": [[0.5, 0.5], [0.1, 0.9]]}, "2 numbers for 1 labels"),
        ({"probabilities": [[0.5], []]}, "case 'case-1': the answer has 0 numbers"),
        ({"probabilities": [[0.5], [NOTE]]}, "case 'case-1': the answer contains a value that is not a prob"),
        ({"probabilities": [[0.5], [None]]}, "null instead of a probability"),
        ({"probabilities": [[0.5], [True]]}, "not a probability"),
        ({"probabilities": [[0.5], [float("nan")]]}, "NaN instead of a probability"),
        ({"probabilities": [[0.5], [1.01]]}, "not a probability"),
        ({"probabilities": [[-0.01], [1.0]]}, "case 'case-0'"),
    ],
)
def test_nonsense_is_an_error_that_quotes_nothing(server: LocalServer, answer: Any, problem: str) -> None:
    server.answer = lambda message: answer
    with pytest.raises(ModelError, match=problem) as caught:
        load(server.url, labels=["a"]).predict(inputs(2))
    assert "Smith" not in str(caught.value)
    assert server.n_requests == (4 if isinstance(answer, bytes) else 1)  # a proxy may have answered: asked again


def test_labels_in_another_order_are_an_error(server: LocalServer) -> None:
    server.answer = lambda message: {"probabilities": [[0.1, 0.2]], "labels": ["b", "a"]}
    with pytest.raises(ModelError, match="different order"):
        load(server.url, labels=["a", "b"]).predict(inputs(1))
    assert load(server.url, labels=["x", "y"]).predict(inputs(1)).tolist() == [[0.1, 0.2]]


def test_redirects_are_not_followed(server: LocalServer) -> None:
    elsewhere = LocalServer()
    server.failures, server.headers = [307], {"Location": elsewhere.url}
    with pytest.raises(ModelError, match="redirects"):
        load(server.url, labels=["a"]).predict(inputs(1))
    assert elsewhere.n_requests == 0
    elsewhere.close()


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/predict",
        "https://example.org/predict",
        "http://10.0.0.1/",
        "http://127.0.0.1.example.org/",
        "http://localhost.example.org/",
        "http://[2001:db8::1]/",
        "http://0.0.0.0/",
        "http://2130706433/",
        "http://169.254.169.254/latest",
    ],
)
def test_other_machines_are_refused_before_any_connection(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    with pytest.raises(ConfigError, match=r"is not this machine.*allow_remote: true"):
        load(url)
    assert checked_url(url, allow_remote=True).host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "LOCALHOST", "[::1]"])
def test_this_machine_is_allowed(host: str) -> None:
    assert checked_url(f"https://{host}:80/x", allow_remote=False).scheme == "https"


@pytest.mark.parametrize("url", ["http:", "http:///predict", "http://127.0.0.1:port/", "http://[::1/"])
def test_wrong_urls(url: str) -> None:
    with pytest.raises(ConfigError):
        load(url)


def test_password_in_the_url_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError, match="use `headers`") as caught:
        load(f"http://user:{SECRET}@127.0.0.1/")
    assert SECRET not in str(caught.value)


def test_proxies_are_ignored(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    asked = inputs(1)
    np.testing.assert_array_equal(load(server.url).predict(asked), expected(asked))


def test_secrets_reach_the_server_and_nothing_else(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    headers = {"Authorization": "Bearer ${PALPATE_TEST_TOKEN}", "X-Team": "audit"}
    url = f"{server.url}?key={SECRET}"
    monkeypatch.setenv("PALPATE_TEST_TOKEN", SECRET)
    model = load(url, headers=headers, labels=["a"])
    model.predict(inputs(1))
    assert server.seen_headers[0]["Authorization"] == f"Bearer {SECRET}"
    assert server.seen_headers[0]["X-Team"] == "audit"
    monkeypatch.setenv("PALPATE_TEST_TOKEN", "another")
    assert load(url, headers=headers, labels=["a"]).fingerprint == model.fingerprint
    server.failures = [401]
    with pytest.raises(ModelError) as caught:
        model.predict(inputs(1))
    assert SECRET not in str(caught.value) + model.fingerprint + caplog.text


def test_wrong_headers_are_named_without_their_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PALPATE_TEST_TOKEN", raising=False)
    with pytest.raises(ConfigError, match="PALPATE_TEST_TOKEN, which is not set"):
        load("http://127.0.0.1/", headers={"Authorization": "${PALPATE_TEST_TOKEN}"})
    monkeypatch.setenv("PALPATE_TEST_TOKEN", f"{SECRET}\r\nX-Evil: 1")
    with pytest.raises(ConfigError, match="'Authorization'") as caught:
        load("http://127.0.0.1/", headers={"Authorization": "${PALPATE_TEST_TOKEN}"})
    assert SECRET not in str(caught.value)


def test_fingerprint(server: LocalServer) -> None:
    first = load(server.url, labels=["a"]).fingerprint
    assert load(server.url, labels=["a"], timeout=3, retries=0, concurrency=9).fingerprint == first
    others = [
        load(server.url, labels=["a"], fingerprint="v2"),
        load(server.url + "2", labels=["a"]),
        load(server.url, labels=["b"]),
        load(server.url.replace("http", "https", 1), labels=["a"]),
    ]
    assert len({first, *(model.fingerprint for model in others)}) == 5


def test_unknown_options_are_named() -> None:
    with pytest.raises(ConfigError, match="tiemout"):
        load("http://127.0.0.1/", tiemout=3)
    with pytest.raises(ConfigError, match="api"):
        load("http://127.0.0.1/", api="grpc")
