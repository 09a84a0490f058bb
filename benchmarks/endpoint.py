"""How busy palpate keeps a chat endpoint that takes 50 ms for an answer and 64 requests at a time.

The endpoint is a process of its own that answers each request 50 ms after it has come. It could answer 64 / 0.05 s =
1,280 requests a second; how many it does answer while the runner scores, divided by that, is how busy it is kept. The
whole path is measured: keys, calls, requests, the ledger of answers, parsing.

Claim: at least 90% busy. Exit code 1 if not. Since other work on the machine takes time from both processes, the best
of a few rounds counts, and the processor time of each request is printed beside it.

With `--alone`, other work does not matter: the endpoint and the requests share one thread, whose clock runs with the
processor time of that thread, and leaps over what would be spent waiting. The endpoint's own work then counts as well.

    python benchmarks/endpoint.py [--requests 12800] [--rounds 3] [--latency 0.05] [--concurrency 64] [--alone]
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import selectors
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from palpate.cases.edits import Inputs
from palpate.models import ModelSpec, load_model
from palpate.models.ledger import AsksForAnswers
from palpate.run.execute.ledger import AnswerLedger

LEAST_BUSY = 0.90
BODY = (
    b'{"choices":[{"message":{"role":"assistant","content":"Yes"}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}'
)
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)


class Connection(asyncio.Protocol):
    """Answers every request after a while; as little work as possible, since it shares the machine."""

    def __init__(self, latency: float) -> None:
        self.latency, self.waiting, self.loop = latency, b"", asyncio.get_running_loop()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.waiting += data
        head, _, rest = self.waiting.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
        if length and len(rest) >= int(length):
            self.waiting = rest[int(length) :]
            self.loop.call_later(self.latency, self.transport.write, ANSWER)


def serve(latency: float, port: Any) -> None:
    """The endpoint, in a process of its own."""

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(lambda: Connection(latency), "127.0.0.1", 0)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


class _Leaps(selectors.DefaultSelector):
    """Does not wait: where nothing has come, the clock of the loop leaps."""

    leapt = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0 if timeout is not None else None)
        if not ready and timeout:
            self.leapt += timeout
        return ready


class LoneLoop(asyncio.SelectorEventLoop):
    """A loop in which time passes as on a machine with nothing else to do; its first use starts the endpoint in it."""

    latency, port, last = 0.05, 0, None

    def __init__(self) -> None:
        self._leaps = _Leaps()
        super().__init__(self._leaps)
        LoneLoop.last = self
        server = self.run_until_complete(self.create_server(lambda: Connection(self.latency), "127.0.0.1", self.port))
        self._server = server

    def close(self) -> None:
        """Leave the port to the next loop."""
        self._server.close()
        super().close()

    def time(self) -> float:
        """Processor time of this thread, and what was leapt over."""
        return time.thread_time() + self._leaps.leapt


def measure(url: str, n_requests: int, concurrency: int, folder: Path) -> tuple[float, float]:
    """Seconds on the clock and of the processor for so many requests, in calls as the runner makes them."""
    options = {"api": "chat", "model": "m", "prompt": "{text}\n\nIs this patient ill?", "concurrency": concurrency}
    model = load_model(ModelSpec("llm", url, options=options))
    ledger = AnswerLedger(folder / "cache.sqlite", model=f"m{time.time()}", run=f"r{time.time()}")
    if not isinstance(model, AsksForAnswers):
        raise TypeError("a chat model is asked for answers")
    model.use(ledger)
    texts = [f"Patient {k} has had a fever for {k % 9} days and feels unwell. " * 20 for k in range(n_requests)]
    model.predict(Inputs.from_texts(texts[:concurrency]))  # opens the connections
    size = model.rows_per_call
    calls = [Inputs.from_texts(texts[first : first + size]) for first in range(concurrency, n_requests, size)]
    leapt = LoneLoop.last._leaps.leapt if LoneLoop.last is not None else 0.0
    began, used = time.perf_counter(), time.process_time()
    for call in calls:
        model.predict(call)
    seconds, busy = time.perf_counter() - began, time.process_time() - used
    if LoneLoop.last is not None:  # what the caller does between the calls counts, too
        seconds = busy + LoneLoop.last._leaps.leapt - leapt
    model.close()
    ledger.close()
    return seconds, busy


def main() -> int:
    """Print how busy the endpoint was kept."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=12_800)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--alone", action="store_true")
    own = parser.parse_args()
    here, there = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(own.latency, there), daemon=True)
    server.start()
    port = here.recv()
    if own.alone:
        server.terminate()
        server.join()
        LoneLoop.latency, LoneLoop.port = own.latency, port
        asyncio.new_event_loop = LoneLoop
    url = f"http://127.0.0.1:{port}/v1"
    best, n = 0.0, own.requests - own.concurrency
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(own.rounds):
            seconds, busy = measure(url, own.requests, own.concurrency, Path(folder))
            kept = n * own.latency / (own.concurrency * seconds)
            cost = 1e3 * busy / n
            print(f"{n:,} requests in {seconds:.2f} s: {kept:.0%} busy, {cost:.2f} ms of processor time per request")
            best = max(best, kept)
    server.terminate()
    print(f"kept {best:.0%} busy (claimed: at least {LEAST_BUSY:.0%})")
    return 0 if best >= LEAST_BUSY else 1


if __name__ == "__main__":
    sys.exit(main())
