"""`palpate serve` as a user starts it: a process of its own, with the links that it prints."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType

import httpx

from .server import Member, free_port


class StartedBench:
    """`with StartedBench(run, folder=..., people={"r1": "rater"}) as bench:` and `bench.member("r1")` is signed in."""

    def __init__(self, *runs: Path, folder: Path, people: dict[str, str], options: tuple[str, ...] = ()) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.links: dict[str, str] = {}
        persons = [word for name, roles in people.items() for word in ("--person", f"{name}={roles}")]
        words = ["serve", *map(str, runs), "--port", str(self.port), "--data", str(folder), *persons, *options]
        self._wanted = len(people) + 1
        self._command = [sys.executable, "-m", "palpate", *words]
        self._said: list[str] = []

    def __enter__(self) -> StartedBench:
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "300"}
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        threading.Thread(target=self._listen, daemon=True).start()
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            assert self._process.poll() is None, self._said
            try:
                httpx.get(f"{self.url}/enter", trust_env=False, timeout=2)
            except httpx.HTTPError:
                time.sleep(0.1)
            else:
                return self
        raise TimeoutError

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.append(line)
            found = re.match(r"(.+?): (http\S+/enter#\S+)", line)
            if found:
                self.links[found[1]] = found[2]

    def kill(self) -> None:
        """As a power cut would: nothing is written any more."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(15)
            except subprocess.TimeoutExpired:
                self._process.kill()

    def member(self, name: str) -> Member:
        member = Member(
            base_url=self.url, headers={"origin": self.url}, follow_redirects=True, timeout=60, trust_env=False
        )
        member.enter(self.links[name].partition("#")[2])
        return member
