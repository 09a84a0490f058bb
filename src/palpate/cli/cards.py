"""What a hospital files: `card`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape

from palpate.cli.app import EXIT_CODES, Debug, app, out
from palpate.errors import ConfigError


@app.command(epilog=EXIT_CODES)
def card(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a run.", show_default=False)],
    kind: Annotated[
        Literal["chai", "tripod-ai", "hti-1", "markdown"],
        typer.Option(
            "--format",
            help="CHAI's Applied Model Card (XML), the TRIPOD+AI checklist, HTI-1's 31 source attributes, or a page.",
        ),
    ] = "markdown",
    file: Annotated[
        Path | None,
        typer.Option("--out", help="The card; its ending may be .xml (chai), .json, .md or .docx. Default: in RUN."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Whose card, where the run has several models.")] = None,
    facts: Annotated[Path | None, typer.Option(help="What only people know, as YAML.")] = None,
    template: Annotated[
        Path | None, typer.Option("--write-facts", help="Write an empty facts file to fill in, and no card.")
    ] = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write a model's card from a run: measured fields cite their rows, the others say who must write them."""
    from palpate.commands.cards import write_facts, write_model_card

    if template is not None:
        if file is not None or facts is not None:
            raise ConfigError("--write-facts goes alone: it writes no card")
        write_facts(template)
        out.print(f"Facts to fill in: [bold]{escape(str(template))}[/bold]", soft_wrap=True)
        return
    written = write_model_card(run, kind, file, model=model, facts=facts)
    out.print(f"Card: [bold]{escape(str(written.file))}[/bold]. {written.summary}", soft_wrap=True)
    if facts is None and written.n_complete < written.n_items:
        out.print("What only people know: `--write-facts facts.yaml` asks for it, and `--facts facts.yaml` adds it.")
