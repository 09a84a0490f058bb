"""The gallery: Markdown pages whose blocks are run as one notebook, with real outputs below them.

The blocks are those of all how-to pages: `python run`, `console` with lines `$ palpate ...`, and files to be written
(`yaml file=audit.yaml`). A page is executed in an empty folder by a Jupyter kernel of this environment; an error ends
the build. The site has the notebook beside the page, and the report if there is a `run/report.html`. What was run is
kept in build/gallery until the page or palpate changes.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "build" / "gallery"
BLOCK = re.compile(r"^```(?P<kind>\w+)(?P<how>[^\n]*)\n(?P<body>.*?)^```$\n?", re.MULTILINE | re.DOTALL)
REPORT = "run/report.html"
_COLOUR = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
SECONDS = 1800


class Pieces:
    """Pieces of HTML that Markdown must not touch: marks stand for them until the page is HTML."""

    def __init__(self) -> None:
        self._kept: list[str] = []

    def keep(self, html: str) -> str:
        """A mark for the piece."""
        self._kept.append(html)
        return f"palpatepiece{len(self._kept) - 1}end"

    def put_into(self, html: str) -> str:
        """The page with its pieces; a piece that is a paragraph of its own loses the paragraph around it."""
        found = re.compile(r"<p>palpatepiece(\d+)end</p>|palpatepiece(\d+)end")
        return found.sub(lambda match: self._kept[int(match[1] or match[2])], html)


def run(page: Path) -> dict[str, str]:
    """Execute a page, unless that was done before; returns the files to put beside it."""
    names = (f"{page.stem}.ipynb", f"{page.stem}-report.html")
    kept = KEPT / _fingerprint(page)
    if not kept.exists():
        notebook = notebook_of(page.read_text(encoding="utf-8"))
        # The notebook's `palpate` is that of this environment.
        os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        with TemporaryDirectory(prefix="palpate-gallery-") as folder:
            where = {"metadata": {"path": folder}}
            NotebookClient(notebook, timeout=SECONDS, coalesce_streams=True, resources=where).execute()
            _tidy(notebook)
            kept.mkdir(parents=True)
            (kept / names[0]).write_text(nbformat.writes(notebook), encoding="utf-8")
            report = Path(folder) / REPORT
            if report.exists():
                (kept / names[1]).write_bytes(report.read_bytes())
    return {name: (kept / name).read_text(encoding="utf-8") for name in names if (kept / name).exists()}


def _tidy(notebook: nbformat.NotebookNode) -> None:
    """Leave lines of progress and the colours of a terminal out."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [each for each in cell.outputs if each.get("name") != "stderr"]
            for each in cell.outputs:
                if each.output_type == "stream":
                    each.text = _COLOUR.sub("", each.text)


def _fingerprint(page: Path) -> str:
    return hashlib.sha256(_sources() + page.read_bytes()).hexdigest()[:20]


@cache
def _sources() -> bytes:
    """A digest of everything that can change an output."""
    files = [file for file in sorted((ROOT / "src").rglob("*")) if file.is_file() and "__pycache__" not in file.parts]
    return hashlib.sha256(b"".join(file.read_bytes() for file in [*files, Path(__file__)])).digest()


def shown(page: Path, markdown: str, pieces: Pieces) -> str:
    """The page's Markdown with the outputs below the blocks."""
    files = run(page)
    notebook = nbformat.reads(next(iter(files.values())), as_version=4)
    outputs = iter([cell.outputs for cell in notebook.cells if cell.cell_type == "code"])

    def block(match: re.Match[str]) -> str:
        kept = [pieces.keep(html) for output in next(outputs) if (html := output_html(output))]
        return "\n\n".join([match[0].rstrip(), *kept]) + "\n"

    links = [f"[the notebook]({name})" if name.endswith("ipynb") else f"[the report]({name})" for name in files]
    return BLOCK.sub(block, markdown) + f"\n\nTo keep: {' and '.join(links)} of this page.\n"


def notebook_of(source: str) -> nbformat.NotebookNode:
    """The page as a notebook: its text and its blocks in turn."""
    cells = [cell for cell in _cells(source) if cell.source]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return nbformat.v4.new_notebook(cells=cells, metadata=kernel)


def _cells(source: str) -> Iterator[nbformat.NotebookNode]:
    end = 0
    for match in BLOCK.finditer(source):
        yield nbformat.v4.new_markdown_cell(source[end : match.start()].strip())
        yield nbformat.v4.new_code_cell(_code(match["kind"], match["how"].strip(), match["body"]))
        end = match.end()
    yield nbformat.v4.new_markdown_cell(source[end:].strip())


def _code(kind: str, how: str, body: str) -> str:
    if how.startswith("file="):
        return f"%%writefile {how.removeprefix('file=')}\n{body.rstrip()}"
    if kind == "console":
        return "%%bash\nset -e\n" + "\n".join(line.removeprefix("$ ") for line in body.splitlines())
    if (kind, how) == ("python", "run"):
        return body.rstrip()
    raise ValueError(
        f"a page of the gallery can't have a block '{kind} {how}': write `python run`, `console` or `file=`"
    )


def output_html(output: Any) -> str:
    """One output of a cell; its richest form that needs no script."""
    if output.output_type == "stream":
        said = output.name == "stdout" and not output.text.startswith(("Writing ", "Overwriting "))
        return f'<pre class="output">{escape(output.text)}</pre>' if said else ""
    data = output.get("data", {})
    for kind in ("text/html", "image/svg+xml"):
        if kind in data:
            return f'<div class="output">{data[kind]}</div>'
    if "image/png" in data:
        return f'<div class="output"><img alt="output" src="data:image/png;base64,{data["image/png"]}"></div>'
    return f'<pre class="output">{escape(data["text/plain"])}</pre>' if "text/plain" in data else ""
