"""The command `history`: several runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from palpate.cli.app import Debug, app, err, out

if TYPE_CHECKING:
    from palpate.commands.history import History


@app.command()
def history(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.", show_default=False)],
    metric: Annotated[str, typer.Option(help="Which number; with its audit where several have it: drift.auroc.")] = (
        "auroc"
    ),
    model: Annotated[str | None, typer.Option(help="Only this model.")] = None,
    label: Annotated[str | None, typer.Option(help="This label, or * for all; default: the headline one.")] = None,
    group: Annotated[str | None, typer.Option(help="This group, or * for all; default: the cohorts.")] = None,
    file: Annotated[Path | None, typer.Option("--out", help="Also write it as .html or .csv.")] = None,
    debug: Debug = False,  # noqa: ARG001  (read by main)
) -> None:
    """Show one number of several runs over time, and what changed from run to run."""
    from palpate.commands import history as jobs

    if file is not None:
        jobs.check_format(file)
    found = jobs.history(runs, jobs.Choice(metric, model, label, group))
    for sentence in found.skipped:
        err.print(f"[yellow]palpate:[/yellow] {escape(sentence)}", soft_wrap=True)
    _print(found)
    if file is not None:
        jobs.write_history(found, file)
        out.print(f"History: [bold]{escape(str(file))}[/bold]", soft_wrap=True)


def _print(found: History) -> None:
    from palpate.report import typeset

    several = {name: len({getattr(line, name) for line in found.lines}) > 1 for name in ("label", "group")}
    extra = [name for name, shown in several.items() if shown]
    heads = ["Run", "Made", "Model", *(name.capitalize() for name in extra), found.metric, "Cases", "Changed"]
    table = Table(*heads, box=box.SIMPLE_HEAD, pad_edge=False)
    for line in found.lines:
        number = typeset.interval(line.value, line.low, line.high) if line.value is not None else line.reason
        cells = [line.run, line.created[:10], line.model, *(getattr(line, name) for name in extra), number]
        table.add_row(*map(escape, (*cells, "" if line.n is None else f"{line.n:,}", line.changed)))
    out.print(table)
