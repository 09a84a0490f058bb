"""A real workbench for tests: uvicorn on a free port of this machine, SQLite on disk, people with their links."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from palpate.workbench.app import make_bench, make_server
from palpate.workbench.options import BenchOptions
from palpate.workbench.people import read_roles


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Member(httpx.Client):
    """A browser's cookies and token, without the browser: posts forms as the pages do."""

    csrf = ""

    def enter(self, token: str) -> httpx.Response:
        answer = self.post("/enter", data={"token": token})
        self.csrf = token_in(self.get("/").text)
        return answer

    def send(self, path: str, **fields: Any) -> httpx.Response:  # type: ignore[override]
        if not isinstance(path, str):
            return super().send(path, **fields)
        return self.post(path, data={"csrf": self.csrf, **fields})


def token_in(page: str) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', page)
    return found[1] if found else ""


class Served:
    """`with Served(run) as bench:` and `bench.member("Dr. A", "rater")` is signed in."""

    def __init__(self, *runs: Path, folder: Path, **options: Any) -> None:
        self.port = free_port()
        self.options = BenchOptions(runs=runs, folder=folder, port=self.port, **options)
        self.bench = make_bench(self.options)
        self.url = f"http://127.0.0.1:{self.port}"
        self._server = make_server(self.bench)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._members: list[Member] = []

    def __enter__(self) -> Served:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self._members:
            member.close()
        self._server.should_exit = True
        self._thread.join(20)

    def token(self, name: str, roles: str, days: float = 1) -> str:
        return self.bench.register.add(name, read_roles(roles), days, replace=True)

    def anybody(self, headers: Mapping[str, str] | None = None) -> Member:
        given = {"origin": self.url, **(headers or {})}
        member = Member(base_url=self.url, headers=given, follow_redirects=True, timeout=30, trust_env=False)
        self._members.append(member)
        return member

    def member(self, name: str, roles: str) -> Member:
        member = self.anybody()
        member.enter(self.token(name, roles))
        return member

    def logged(self) -> str:
        files = self.bench.log.path.parent.glob("*.jsonl")
        return "".join(file.read_text(encoding="utf-8") for file in sorted(files))
