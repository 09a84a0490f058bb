"""What was measured as pages: docs/validity/AUDIT.md has every cell, docs/validity.md one line per audit."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from validity import AUDITS, Cell

DOCS = Path(__file__).parent.parent / "docs"
HEAD = "| what | data | rate | asked | data sets |\n|---|---|---|---|---|"
_SUMMARY = "| audit | cells | coverage, lowest and highest | false alarms, highest | wrong verdicts, highest | missed |"
_MISSED = " **missed**"


def row(cell: Cell) -> str:
    """A cell as a line of the table."""
    asked = [f"≥ {cell.at_least:.2f}"] if cell.at_least > 0 else []
    asked += [f"≤ {cell.at_most:.2f}"] if cell.at_most < 1 else []
    flag = "" if cell.passes else _MISSED
    return f"| {cell.what} | {cell.setting} | {cell.rate:.3f}{flag} | {', '.join(asked) or '–'} | {cell.n:,} |"


def write(audit: str, rows: Sequence[str], docs: Path = DOCS) -> None:
    """Write the page of one audit, and renew the summary."""
    about = inspect.getdoc(importlib.import_module(f"validity.{audit}"))
    page = docs / "validity" / f"{audit}.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text("\n".join([f"# Validity: {audit}", "", about or "", "", HEAD, *rows, ""]), encoding="utf-8")
    summary = docs / "validity.md"
    lines = [_SUMMARY, "|---|---|---|---|---|---|", *_summaries(page.parent)]
    text = re.sub(rf"^{re.escape(_SUMMARY)}\n(?:\|.*\n?)*", "", summary.read_text(encoding="utf-8"), flags=re.M)
    summary.write_text(text.rstrip() + "\n\n" + "\n".join(lines) + "\n", encoding="utf-8")


class _Read(NamedTuple):
    what: str
    rate: float
    is_missed: bool


def _summaries(folder: Path) -> Iterator[str]:
    for audit in AUDITS:
        page = folder / f"{audit}.md"
        if page.exists():
            cells = list(_read(page.read_text(encoding="utf-8").splitlines()))
            covered = [cell.rate for cell in cells if cell.what.startswith("coverage")]
            span = f"{min(covered):.3f} to {max(covered):.3f}" if covered else "–"
            alarms, wrong = (_highest(cells, word) for word in ("false alarm", "wrong"))
            missed = sum(cell.is_missed for cell in cells)
            yield f"| [{audit}](validity/{audit}.md) | {len(cells)} | {span} | {alarms} | {wrong} | {missed} |"


def _read(lines: Iterable[str]) -> Iterator[_Read]:
    for line in lines:
        if line.startswith("| ") and not line.startswith("| what"):
            what, _, rate, *_ = (part.strip() for part in line.strip("|").split(" | "))
            yield _Read(what, float(rate.removesuffix(_MISSED)), rate.endswith(_MISSED))


def _highest(cells: Sequence[_Read], word: str) -> str:
    rates = [cell.rate for cell in cells if word in cell.what]
    return f"{max(rates):.3f}" if rates else "–"
