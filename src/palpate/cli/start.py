"""Commands to start with: `init`, `check`, `schema`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from palpate.cli.app import EXIT_CODES, Debug, app, out
from palpate.cli.pipelines import AsJson, LogFile, Quiet, reporting


@app.command(epilog=EXIT_CODES)
def init(
    table: Annotated[Path, typer.Argument(help="A table of notes: .csv, .xlsx, .parquet, ...", show_default=False)],
    file: Annotated[
        Path | None, typer.Option("--out", help="The configuration; default: audit.yaml beside it.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]SOURCE", help="A model, such as hf:models/bert or predictions:p.csv; repeatable."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a configuration that exists.")] = False,
    quiet: Quiet = False,
    log: LogFile = None,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Look at a table, guess which column is what, and write an audit.yaml that says why."""
    from palpate.commands import init as commands

    with reporting("init", quiet=quiet, log=log, as_json=as_json) as progress:
        written = commands.init(table, out=file, models=model or (), force=force)
        unusual = commands.describe_layout(table, written.table)
        roles = {guess.column: guess.role for guess in written.table.guesses}
        progress.summary.update(config=str(written.file), roles=roles, to_do=list(written.to_do))
        if unusual:
            out.print(f"{escape(table.name)}: {escape(unusual)}", soft_wrap=True)
        shown = Table("column", "role", "why", box=None, pad_edge=False)
        for guess in written.table.guesses:
            role = (guess.role or "-").replace("_", " ")
            shown.add_row(escape(guess.column), role, escape(guess.why))
        out.print(shown)
        out.print(f"Configuration: [bold]{escape(str(written.file))}[/bold]", soft_wrap=True)
        for line in written.to_do:
            out.print(f"[yellow]![/yellow] {escape(line)}", soft_wrap=True)
        if not written.to_do:
            out.print(f"Next: palpate check {escape(str(written.file))}", soft_wrap=True)


@app.command()
def schema(
    file: Annotated[Path | None, typer.Option("--out", help="Write it to this file; default: print it.")] = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Print the JSON schema of audit.yaml, with which editors complete and check it."""
    from palpate.config.schema import config_schema, schema_text
    from palpate.files import write_atomically

    text = schema_text(config_schema())
    if file is None:
        typer.echo(text, nl=False)
        return
    write_atomically(file, text)
    out.print(f"Schema: [bold]{escape(str(file))}[/bold]; put this on top of audit.yaml:", soft_wrap=True)
    out.print(f"# yaml-language-server: $schema={file.name}", markup=False, soft_wrap=True)
