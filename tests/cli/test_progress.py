from __future__ import annotations

import io

from rich.console import Console

from palpate.cli.progress import TerminalProgress


def run(*, terminal: bool) -> str:
    out = io.StringIO()
    with TerminalProgress(Console(file=out, force_terminal=terminal, width=120)) as progress:
        progress.stage("planning")
        progress.begin("bert", 100)
        progress.advance(0)
        progress.advance(60)
        progress.advance(40)
        progress.begin("xgb", 0)
    return out.getvalue()


def test_plain_lines_elsewhere() -> None:
    said = run(terminal=False).splitlines()
    assert said[0] == "planning …"
    assert said[1] == "scoring bert: 100 inputs"
    assert said[-2].startswith("scoring bert: 100 of 100, ")
    assert said[-2].endswith("/s, 0:00:00 left")
    assert said[-1] == "xgb: every prediction is in the cache"


def test_a_bar_on_a_terminal() -> None:
    said = run(terminal=True)
    assert "100/100" in said
    assert "left" in said
