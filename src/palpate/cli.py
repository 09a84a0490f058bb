"""The command line. Thin: it reads options, calls `jobs`, prints, and turns errors into exit codes.

0 done, 1 a gate failed, 2 the input is wrong, 3 a model failed.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from palpate import __version__
from palpate.errors import PalpateError

if TYPE_CHECKING:
    from palpate.jobs import Outcome

app = typer.Typer(
    name="palpate",
    help="Shows how a clinical prediction model behaves, beyond its AUROC.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

ConfigFile = Annotated[Path, typer.Argument(help="The configuration, audit.yaml.", show_default=False)]
Only = Annotated[list[str] | None, typer.Option("--only", help="Run only this audit; may be given again.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def _version(asked: bool) -> None:
    if asked:
        out.print(f"palpate {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None: ...


@app.command()
def audit(
    config: ConfigFile,
    run: Annotated[Path | None, typer.Option("--out", help="Run directory; default: CONFIG-run beside it.")] = None,
    only: Only = None,
    resume: Annotated[bool, typer.Option("--resume", help="Finish a run that was stopped.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes that score; default: as configured.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="AUDIT.OPTION=VALUE", help="Override an option of an audit."),
    ] = None,
    debug: Debug = False,  # noqa: ARG001  (read by main)
) -> None:
    """Run the audits of a configuration on its models, and write the report."""
    from palpate import jobs
    from palpate.progress import TerminalProgress

    with TerminalProgress(err) as progress:
        outcome = jobs.audit(
            config,
            out=run,
            only=only or (),
            resume=resume,
            workers=workers,
            overrides=settings or (),
            watcher=progress,
        )
    _tell(outcome)
    if not outcome.passed:
        raise typer.Exit(1)


@app.command()
def plan(
    config: ConfigFile,
    folder: Annotated[Path, typer.Option("--out", help="Folder for inputs.parquet.", show_default=False)],
    only: Only = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write what must be scored, for a model that lives elsewhere. The file holds note text."""
    from palpate import jobs

    file, n = jobs.write_inputs(config, out=folder, only=only or ())
    out.print(f"{n:,} inputs to score are in [bold]{escape(str(file))}[/bold] (it holds note text).")
    out.print("Write a table with input_id and a probability column per label, and name it as predictions:FILE.")


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="A run directory.", show_default=False)],
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Rebuild report.html from a run directory, without models."""
    from palpate import jobs

    out.print(f"Report: [bold]{escape(str(jobs.report(run)))}[/bold]", soft_wrap=True)


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--out", help="Folder for everything the demo makes.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, help="Another seed makes another hospital.")] = 0,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Make two hospitals and two models with near-equal AUROC, and audit them."""
    from palpate import jobs
    from palpate.progress import TerminalProgress
    from palpate.rundir import RunDirectory
    from palpate.synthetic.two_hospitals import write_demo

    err.print("[dim]making two hospitals and two models …[/dim]")
    config = write_demo(folder, seed=seed)
    if RunDirectory(folder / "run").exists:
        shutil.rmtree(folder / "run")
    with TerminalProgress(err) as progress:
        outcome = jobs.audit(config, out=folder / "run", watcher=progress)
    _tell(outcome)


def _tell(outcome: Outcome) -> None:
    """The story in a few lines: findings, the gate, where the report is."""
    marks = {"good": "[green]+[/green]", "warning": "[yellow]![/yellow]", "neutral": "[dim]·[/dim]"}
    for result in outcome.results:
        out.print(f"[bold]{result.audit}[/bold]")
        for finding in result.findings:
            out.print(f"  {marks[finding.tone]} {escape(finding.sentence)}", soft_wrap=True)
    if outcome.verdicts:
        table = Table("gate", "", "detail", box=None, pad_edge=False)
        for verdict in outcome.verdicts:
            mark = "[green]holds[/green]" if verdict.passed else "[red]FAILS[/red]"
            table.add_row(escape(verdict.condition), mark, escape(verdict.detail))
        out.print(table)
    out.print(f"Report: [bold]{escape(str(outcome.report))}[/bold]", soft_wrap=True)


def main() -> None:
    """Run the command line; errors are one sentence on stderr, a traceback only with --debug."""
    try:
        app()
    except PalpateError as error:
        if "--debug" in sys.argv:
            raise
        err.print(f"[red]palpate:[/red] {escape(str(error))}", soft_wrap=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        err.print("\nStopped. What was scored is kept; add --resume to go on.")
        sys.exit(130)
