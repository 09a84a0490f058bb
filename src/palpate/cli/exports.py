"""`palpate export`: what a run holds, in formats of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from palpate.cli.app import Debug, app, out

export_app = typer.Typer(
    help="Write what a run holds in formats of other tools.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(export_app, name="export")
Run = Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a run.", show_default=False)]


@export_app.callback()
def _group() -> None:
    """Keep the name of the command, even while there is only one."""


@export_app.command()
def meds(
    run: Run,
    cohort: Annotated[
        Path, typer.Option(help="The run's cohort: a table, or the audit.yaml that names it.", show_default=False)
    ],
    file: Annotated[Path, typer.Option("--out", help="The predictions: a .parquet file.", show_default=False)],
    model: Annotated[str | None, typer.Option(help="Which model, if the run has several.")] = None,
    label: Annotated[str | None, typer.Option(help="Which label, if the cohort has several.")] = None,
    threshold: Annotated[
        float | None, typer.Option(min=0, max=1, help="From which probability on a case is positive.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Cases of this split, or all that were scored; default: the audited split.")
    ] = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write a model's predictions in the schema of meds-evaluation.

    The threshold is the model's own unless given, else 0.5.
    """
    from palpate.commands.exports import export_meds

    written = export_meds(run, cohort, file, model=model, label=label, threshold=threshold, split=split)
    told = f"{written.predictions.height:,} rows"
    out.print(f"Predictions: [bold]{escape(str(file))}[/bold], {told}", soft_wrap=True)
    if written.n_left_out:
        others = f"{written.n_left_out:,} scored cases of other splits were left out"
        out.print(f"{others}; `--split all` writes them too.", soft_wrap=True)


@export_app.command()
def pdf(
    run: Run,
    file: Annotated[Path, typer.Option("--out", help="A .pdf file.", show_default=False)],
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write two pages for a committee: scorecard, Table 1, subgroups, calibration, net benefit, limits."""
    _digest(run, file)


@export_app.command()
def pptx(
    run: Run,
    file: Annotated[Path, typer.Option("--out", help="A .pptx file.", show_default=False)],
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write the same as slides, one per chart."""
    _digest(run, file)


def _digest(run: Path, file: Path) -> None:
    from palpate.commands.cards import write_digest

    write_digest(run, file)
    out.print(f"For the committee: [bold]{escape(str(file))}[/bold]", soft_wrap=True)
