"""The workbench under fifty raters, and how fast what-if answers: `python benchmarks/workbench.py`.

A real `palpate serve` on 127.0.0.1, with SQLite on disk (`synchronous=FULL`). Fifty raters rate a word every half
second, and then as fast as they are answered, each waiting for the answer; p95 must stay below 300 ms both times, and
what-if of two tf-idf models below 200 ms. The raters share the machine with the server, so they are plain sockets: an
HTTP library costs more processor time per request than the server itself. What the server takes per rating in
processor time is printed, too, because it does not depend on what else runs. Entries that are committed together
(`BenchStore`) are compared with one commit per entry.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import polars as pl

from palpate.commands.audit import audit
from palpate.commands.build import read_training_cohort
from palpate.train import train
from palpate.workbench.store import BenchStore

RATERS, WORDS, PAUSE = 50, 20, 0.5
MOST_P95, MOST_WHATIF = 0.3, 0.2
CONFIG = """\
cohort: {file: notes.csv, labels: [ill]}
models: {lr: palpate:models/lr, small: palpate:models/small}
audits: {performance: {n_replicates: 100}}
cache: scores.sqlite
"""


def make_run(folder: Path) -> Path:
    """Notes of 300 words, two tf-idf models, and a run."""
    rng = np.random.default_rng(0)
    words = np.asarray([f"word{k}" for k in range(2_000)])
    texts = [" ".join(rng.choice(words, 300)) for _ in range(400)]
    pl.DataFrame(
        {
            "case_id": range(400),
            "patient_id": range(400),
            "split": [("train", "validation", "test")[k % 3] for k in range(400)],
            "text": texts,
            "ill": [int("word7 " in text or rng.random() < 0.3) for text in texts],
        }
    ).write_csv(folder / "notes.csv")
    (folder / "audit.yaml").write_text(CONFIG)
    cases = read_training_cohort(folder / "audit.yaml")
    train("tfidf-logistic", cases, folder / "models" / "lr", {})
    train("tfidf-logistic", cases, folder / "models" / "small", {"max_features": 200})
    return audit(folder / "audit.yaml", out=folder / "run").run.path


def start(run: Path) -> tuple[subprocess.Popen[str], str, dict[str, str]]:
    """The server, its address and everybody's token."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    people = [word for k in range(RATERS) for word in ("--person", f"r{k:02d}=rater")]
    command = [sys.executable, "-u", "-m", "palpate", "serve", str(run), "--port", str(port), *people]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    tokens: dict[str, str] = {}
    while len(tokens) < RATERS + 1:
        found = re.match(r"(.+): http\S+#(\S+)", process.stdout.readline() if process.stdout else "")
        if found:
            tokens[found[1]] = found[2]
    url = f"http://127.0.0.1:{port}"
    while True:
        try:
            httpx.get(f"{url}/enter", trust_env=False)
        except httpx.HTTPError:
            time.sleep(0.1)
        else:
            return process, url, tokens


async def enter(url: str, token: str) -> tuple[httpx.AsyncClient, str]:
    """A signed-in client, and its CSRF token."""
    client = httpx.AsyncClient(base_url=url, headers={"origin": url}, trust_env=False, timeout=60)
    await client.post("/enter", data={"token": token})
    found = re.search(r'name="csrf" value="([^"]+)"', (await client.get("/")).text)
    return client, found[1] if found else ""


class PlainRater:
    """A connection that posts ratings and reads the answers: no more than a browser's socket does."""

    def __init__(self, url: str, cookie: str, csrf: str) -> None:
        self.host, self._csrf = url.removeprefix("http://"), csrf
        self._head = (
            f"POST /words/1/rate HTTP/1.1\r\nHost: {self.host}\r\nOrigin: {url}\r\nCookie: palpate={cookie}\r\n"
            "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: "
        )

    async def open(self) -> None:
        host, _, port = self.host.partition(":")
        self._reader, self._writer = await asyncio.open_connection(host, int(port))

    async def rate(self, at: int, entry: str) -> None:
        body = f"csrf={self._csrf}&at={at}&score={1 + at % 5}&entry={entry}"
        self._writer.write(f"{self._head}{len(body)}\r\n\r\n{body}".encode())
        head = await self._reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 303") or b"content-length: 0" not in head:
            raise RuntimeError(f"refused: {head[:20]!r}")

    def close(self) -> None:
        self._writer.close()


async def rate(url: str, tokens: dict[str, str], pause: float, turn: str) -> list[float]:
    """Seconds that each rating took, of all raters at once."""
    raters = []
    for name, token in tokens.items():
        if name != "coordinator":
            client, csrf = await enter(url, token)
            raters.append(PlainRater(url, client.cookies["palpate"], csrf))
            await client.aclose()
            await raters[-1].open()
    times: list[float] = []

    async def one(rater: PlainRater, offset: float) -> None:
        await asyncio.sleep(offset)
        for at in range(WORDS):
            begun = time.perf_counter()
            await rater.rate(at, f"{turn}{at}")
            times.append(time.perf_counter() - begun)
            await asyncio.sleep(max(0.0, pause - times[-1]))
        rater.close()

    await asyncio.gather(*(one(rater, offset=pause * k / RATERS) for k, rater in enumerate(raters)))
    return times


def processor_time(process: subprocess.Popen[str]) -> float:
    """Seconds of processor time that a process has taken."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def ask(url: str, token: str, note: str, *, highlights: bool) -> float:
    """The median time of a what-if."""
    client, csrf = await enter(url, token)
    form = {
        "csrf": csrf,
        "note": note,
        "word": "word7",
        "replacement": "word8",
        "highlights": "1" if highlights else "",
    }
    times = []
    for _ in range(8):
        begun = time.perf_counter()
        answer = await client.post("/whatif", data=form, headers={"x-part": "1"})
        times.append(time.perf_counter() - begun)
        if answer.status_code != 200:
            raise RuntimeError(f"refused: {answer.status_code}")
    await client.aclose()
    return float(np.median(times[1:]))


def commits(folder: Path, n: int = 1_000) -> float:
    """How many times faster fifty writers are with a common commit than with one each."""
    store = BenchStore(folder / "a.sqlite", ["CREATE TABLE entries (k INTEGER) STRICT"])
    with ThreadPoolExecutor(RATERS) as pool:
        begun = time.perf_counter()
        list(
            pool.map(
                lambda k: store.write(lambda db: db.execute("INSERT INTO entries VALUES (?)", (k,)) and None), range(n)
            )
        )
        together = time.perf_counter() - begun
    store.close()
    db = sqlite3.connect(folder / "b.sqlite", isolation_level=None, check_same_thread=False)
    db.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE entries (k INTEGER) STRICT")
    lock = threading.Lock()

    def one_by_one(k: int) -> None:
        with lock:
            db.execute("INSERT INTO entries VALUES (?)", (k,))

    with ThreadPoolExecutor(RATERS) as pool:
        begun = time.perf_counter()
        list(pool.map(one_by_one, range(n)))
        alone = time.perf_counter() - begun
    db.close()
    return alone / together


def main() -> None:
    """Print what was measured, and fail where it is too slow."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = make_run(folder)
        note = pl.read_csv(folder / "notes.csv")["text"][0]
        process, url, tokens = start(run)
        try:
            with httpx.Client(base_url=url, headers={"origin": url}, trust_env=False, follow_redirects=True) as boss:
                boss.post("/enter", data={"token": tokens["coordinator"]})
                found = re.search(r'name="csrf" value="([^"]+)"', boss.get("/").text)
                words = "\n".join(f"word{k}" for k in range(WORDS))
                boss.post(
                    "/words", data={"csrf": found[1] if found else "", "title": "t", "source": "list", "words": words}
                )
            # First, because the models are loaded beside the first requests.
            plain = asyncio.run(ask(url, tokens["coordinator"], note, highlights=False))
            shaded = asyncio.run(ask(url, tokens["coordinator"], note, highlights=True))
            paced = np.quantile(asyncio.run(rate(url, tokens, PAUSE, "a")), [0.5, 0.95])
            before = processor_time(process)
            flat_out = np.quantile(asyncio.run(rate(url, tokens, 0.0, "b")), [0.5, 0.95])
            taken = (processor_time(process) - before) / (RATERS * WORDS)
        finally:
            process.terminate()
            process.wait()
        ratio = commits(folder)
    print(
        f"{RATERS} raters, one rating each per {PAUSE} s: median {1000 * paced[0]:.0f} ms, p95 {1000 * paced[1]:.0f} ms"
    )
    print(f"{RATERS} raters, as fast as they can: median {1000 * flat_out[0]:.0f} ms, p95 {1000 * flat_out[1]:.0f} ms")
    print(f"processor time of the server per rating, with a 20th of signing in: {1000 * taken:.2f} ms")
    print(f"what-if, two tf-idf models, 300 words: {1000 * plain:.0f} ms; with highlights {1000 * shaded:.0f} ms")
    print(f"entries committed together: {ratio:.1f} times as fast as one by one")
    if max(paced[1], flat_out[1]) > MOST_P95 or plain > MOST_WHATIF:
        sys.exit("too slow")


if __name__ == "__main__":
    main()
