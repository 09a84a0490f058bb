"""`serve`: the workbench, a local web page for clinicians, coders and whoever asks what-if."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from palpate.cli.app import Debug, app, out


@app.command()
def serve(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Directories of runs.", show_default=False)],
    cohort: Annotated[
        Path | None, typer.Option(help="Notes for examples, reviews and what-if: a table, or an audit.yaml.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="The audit.yaml whose models answer and whose audits run again; default: beside the run."),
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port.")] = 8765,
    host: Annotated[
        str, typer.Option(help="Where to listen; beyond this machine only with TLS or --behind-proxy.")
    ] = "127.0.0.1",
    address: Annotated[str | None, typer.Option(help="What people type, https://NAME[:PORT].")] = None,
    certificate: Annotated[Path | None, typer.Option("--tls-cert", help="The certificate, PEM.")] = None,
    key: Annotated[Path | None, typer.Option("--tls-key", help="Its key, PEM.")] = None,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="A reverse proxy on this machine speaks TLS for it.")
    ] = False,
    show_notes: Annotated[bool, typer.Option("--show-notes", help="Show text of notes on the pages.")] = False,
    texts: Annotated[
        Path | None, typer.Option(help="The pages' sentences in another language: a YAML file; default: English.")
    ] = None,
    person: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=ROLE", help="Let a person in, as rater, coder, reviewer, viewer; repeatable."),
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=365, help="Days that a person's link works.")] = 14,
    data: Annotated[
        Path | None, typer.Option(help="Folder for entries and the log; default: palpate-workbench beside the run.")
    ] = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Open the workbench: runs, rating words, reviewing evidence and alterations, what-if."""
    from palpate.workbench import people_of
    from palpate.workbench import serve as serve_bench
    from palpate.workbench.options import BenchOptions

    options = BenchOptions(
        runs=tuple(runs),
        cohort=cohort,
        config=config,
        folder=data,
        host=host,
        port=port,
        address=address,
        certificate=certificate,
        key=key,
        behind_proxy=behind_proxy,
        show_notes=show_notes,
        texts=texts,
        days=days,
    )
    options.check()
    serve_bench(options, people=people_of(person or ()), tell=_tell)


def _tell(name: str, link: str) -> None:
    """A link is a secret of its person: it is printed once, and is nowhere else."""
    out.print(f"{escape(name)}: [bold]{escape(link)}[/bold]", soft_wrap=True)
