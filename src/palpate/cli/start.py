"""Commands to start with: `init`, `check`, `schema`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from palpate.cli.app import EXIT_CODES, ConfigFile, Debug, Only, app, out
from palpate.cli.pipelines import AsJson, LogFile, Quiet, reporting

if TYPE_CHECKING:
    from palpate.commands.check import CheckedConfig


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


@app.command(epilog=EXIT_CODES)
def check(
    config: ConfigFile,
    only: Only = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes that score; default: as configured.")] = None,
    price: Annotated[
        float | None, typer.Option(min=0, help="What an endpoint costs per million tokens of text.", show_default=False)
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="AUDIT.OPTION=VALUE", help="Override an option of an audit."),
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Plan all cases, also where there are more than 20,000.")
    ] = False,
    quiet: Quiet = False,
    log: LogFile = None,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Check everything without scoring, and say what a run would score and how long it would take."""
    from palpate.commands import check as commands

    with reporting("check", quiet=quiet, log=log, as_json=as_json) as progress:
        found = commands.check(
            config, only=only or (), workers=workers, overrides=settings or (), progress=progress, whole=whole
        )
        progress.summary.update(commands.summarise(found, price))
        _show_check(found, price)


def _show_check(found: CheckedConfig, price: float | None) -> None:
    from palpate.commands.check import duration, size

    seen = found.preview
    out.print(f"{seen.n_cases:,} cases of {seen.n_patients:,} patients; inputs by audit:")
    out.print("  " + ", ".join(f"{escape(name)} {n:,}" for name, n in seen.variants.items()), soft_wrap=True)
    table = Table("model", "inputs", "distinct", "cached", "to score", "time", "measured on", box=None, pad_edge=False)
    for each in seen.models:
        numbers = (each.asked, each.distinct, each.cached, each.to_score)
        about = duration(each.seconds) if each.to_score else "-"
        table.add_row(escape(each.name), *(f"{n:,}" for n in numbers), about, f"{each.measured:,}")
    out.print(table)
    for each in seen.models:
        if each.forecast is not None:
            ahead = each.forecast
            cost = "" if ahead.cost is None else f", {ahead.cost:,.4g} at its price"
            tokens = f"{ahead.input_tokens:,} tokens in and {ahead.output_tokens:,} out"
            out.print(
                f"{escape(each.name)} is asked: about {ahead.requests:,} requests, {tokens}{cost}", soft_wrap=True
            )
        elif each.remote:
            cost = f", {found.money(price)[each.name]:,.2f} at {price:g} per million" if price is not None else ""
            out.print(f"{escape(each.name)} is an endpoint: about {each.tokens:,} tokens of text{cost}", soft_wrap=True)
    for name, need in found.needs.items():
        batches = f" and {size(need.passes)} for a batch" if need.passes else ""
        told = f"{escape(name)} runs on {need.device}: about {size(need.weights)} of memory for its weights{batches}"
        out.print(told, soft_wrap=True)
    scoring = sum(each.seconds for each in seen.models)
    rest = seen.seconds - scoring
    out.print(
        f"Time: about {duration(seen.seconds)}, of which {duration(scoring)} scoring and {duration(rest)} the rest"
    )
    room = f"{size(seen.disk)} of {size(found.free_disk)} free" if seen.disk else size(found.free_disk)
    out.print(f"Disk: about {room}; memory: about {size(seen.memory)}")
    for note in seen.notes:
        out.print(f"[yellow]?[/yellow] {escape(note)}", soft_wrap=True)


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
