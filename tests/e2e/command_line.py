"""Run the command line in this process, as a user would."""

from __future__ import annotations

import sys
from typing import NamedTuple

import pytest

from palpate.cli import main


class Ran(NamedTuple):
    code: int
    out: str
    err: str


class CommandLine:
    """`palpate(...)`: the exit code and what was printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys, self._monkeypatch = capsys, monkeypatch
        monkeypatch.setenv("COLUMNS", "200")

    def __call__(self, *words: object) -> Ran:
        self._capsys.readouterr()
        self._monkeypatch.setattr(sys, "argv", ["palpate", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        said = self._capsys.readouterr()
        return Ran(code, said.out, said.err)
