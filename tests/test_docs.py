"""The how-to pages are run: files are written, commands called, Python executed, in an empty folder a page."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from palpate.files import read_resource
from tests.e2e.command_line import CommandLine

DOCS = Path(__file__).parent.parent / "docs"
BLOCK = re.compile(r"^```(?P<kind>\w+)(?P<how>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = sorted(page.name for page in DOCS.glob("*.md") if BLOCK.search(page.read_text()))
GALLERY = sorted(f"gallery/{page.name}" for page in DOCS.glob("gallery/*.md") if BLOCK.search(page.read_text()))
LONG = {*GALLERY, "context.md", "evidence.md", "nih-chest-xray.md", "codes.md"}
"""Pages that train models or run several audits."""


class Block(NamedTuple):
    kind: str
    how: str
    body: str


def blocks(page: str) -> list[Block]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return [Block(match["kind"], match["how"].strip(), match["body"]) for match in BLOCK.finditer(text)]


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.slow) if page in LONG else page for page in [*PAGES, *GALLERY]]
)
def test_page(page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    palpate = CommandLine(capsys, monkeypatch)
    before = set(sys.modules)
    done = 0
    scope: dict[str, object] = {"__name__": "docs"}
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
            # A page of the gallery is one notebook; the blocks of other pages stand for themselves.
            exec(compile(body, f"{page}", "exec"), scope if page in GALLERY else {"__name__": "docs"})
            done += 1
    for name in set(sys.modules) - before:
        if name in ("my_model", "my_words", "length_model", "service", "shouting", "lab_export"):
            del sys.modules[name]
    assert done, f"{page} runs nothing"


def test_every_page_is_listed() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    for page in DOCS.glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in index


def test_every_page_is_on_the_site() -> None:
    """MkDocs itself refuses pages that the navigation does not name; this says so before the site is built."""
    site = yaml.safe_load((DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8"))
    named = set(_leaves(site["nav"]))
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert pages - named == set()
    assert {name for name in named - pages if not name.startswith("reference/")} == set()


def _leaves(part: object) -> Iterator[str]:
    if isinstance(part, str):
        yield from [page.relative_to(DOCS).as_posix() for page in DOCS.glob(f"{part}.md")] if "*" in part else [part]
    else:
        for each in part.values() if isinstance(part, dict) else part:  # type: ignore[attr-defined]
            yield from _leaves(each)


def test_the_site_loads_nothing_from_elsewhere() -> None:
    site = yaml.safe_load((DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8"))
    assert site["theme"]["font"] is False
    assert all("://" not in name for name in [*site["extra_css"], *site["extra"]["polyfills"]])
    for file in (DOCS.parent / "website").iterdir():
        if file.suffix in (".css", ".js"):
            assert "://" not in file.read_text(encoding="utf-8")


def test_every_definition_of_the_glossary_is_one_sentence() -> None:
    terms = read_resource("palpate.report", "glossary.yaml")
    assert len({term["name"] for term in terms}) == len(terms) > 30
    for term in terms:
        assert term["meaning"].endswith("."), term["name"]
        assert term["meaning"].count(". ") == 0, term["name"]
