"""The how-to pages are run: files are written, commands called, Python executed, in an empty folder a page."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.command_line import CommandLine

DOCS = Path(__file__).parent.parent / "docs"
BLOCK = re.compile(r"^```(?P<kind>\w+)(?P<how>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = sorted(page.name for page in DOCS.glob("*.md") if BLOCK.search(page.read_text()))


class Block(NamedTuple):
    kind: str
    how: str
    body: str


def blocks(page: str) -> list[Block]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return [Block(match["kind"], match["how"].strip(), match["body"]) for match in BLOCK.finditer(text)]


@pytest.mark.parametrize("page", PAGES)
def test_page(page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    palpate = CommandLine(capsys, monkeypatch)
    before = set(sys.modules)
    done = 0
    for kind, how, body in blocks(page):
        if how.startswith("file="):
            Path(how.removeprefix("file=")).write_text(body, encoding="utf-8")
        elif kind == "console":
            expected = int(how.removeprefix("exit=") or 0)
            for line in body.splitlines():
                if not line.startswith("$ palpate "):
                    continue
                ran = palpate(*line.removeprefix("$ palpate ").split())
                assert ran.code == expected, f"{line}\n{ran.err}"
                done += 1
        elif kind == "python" and how == "run":
            exec(compile(body, f"{page}", "exec"), {"__name__": "docs"})
            done += 1
    for name in set(sys.modules) - before:
        if name in ("my_model", "my_words", "length_model", "service", "shouting", "lab_export"):
            del sys.modules[name]
    assert done, f"{page} runs nothing"


def test_every_page_is_listed() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    for page in DOCS.glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in index
