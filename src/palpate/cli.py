"""The command line. Thin: it reads options, calls `jobs`, prints, and turns errors into exit codes.

0 done, 1 a gate failed, 2 the input is wrong, 3 a model failed, 70 a defect of palpate, 130 stopped.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

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
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="OPTION=VALUE", help="Set an option; may be given again.")
]
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

    file, n, has_text = jobs.write_inputs(config, out=folder, only=only or ())
    warning = " (it holds note text)" if has_text else ""
    out.print(f"{n:,} inputs to score are in [bold]{escape(str(file))}[/bold]{warning}.", soft_wrap=True)
    key = "input_id" if has_text else "cohort, case_id"
    out.print(f"Write a table with {key} and a probability column per label, and name it as predictions:FILE.")


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="A run directory.", show_default=False)],
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Rebuild report.html from a run directory, without models."""
    from palpate import jobs

    out.print(f"Report: [bold]{escape(str(jobs.report(run)))}[/bold]", soft_wrap=True)


@app.command()
def synth(
    folder: Annotated[Path, typer.Option("--out", help="Folder for the hospital's files.", show_default=False)],
    patients: Annotated[int, typer.Option(min=1, help="How many patients.")] = 5000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same bytes.")] = 0,
    site: Annotated[Literal["a", "b"], typer.Option(help="b: where the spurious word means nothing.")] = "a",
    images: Annotated[bool, typer.Option(help="Write the chest X-rays.")] = True,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PLANT=STRENGTH", help="Strength of a planted effect; 0 switches it off."),
    ] = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write a synthetic hospital in the layouts of the real data, with planted flaws and known truth."""
    from palpate import jobs
    from palpate.progress import TerminalProgress

    with TerminalProgress(err) as progress:
        jobs.make_hospital(
            folder,
            n_patients=patients,
            seed=seed,
            site=site,
            images=images,
            overrides=settings or (),
            progress=lambda done, total: progress.step("writing patients", done, total),
        )
    out.print(f"Hospital: [bold]{escape(str(folder))}[/bold]; what was planted is in truth.json", soft_wrap=True)


@app.command()
def cohort(
    kind: Annotated[str, typer.Argument(help="readmission or outcomes.", show_default=False)],
    source: Annotated[Path, typer.Option(help="Folder with tables in the MIMIC layout.", show_default=False)],
    file: Annotated[Path, typer.Option("--out", help="The cohort, a .parquet file.", show_default=False)],
    settings: Settings = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Make a cohort from a hospital's own tables; says who was left out and why."""
    from palpate import jobs

    built = jobs.build_cohort(
        kind, source, file, overrides=settings or (), say=lambda text: err.print(f"[dim]{text} …[/dim]")
    )
    table = Table("step", "cases", "patients", "dropped", "why", box=None, pad_edge=False)
    for step in built.flow:
        table.add_row(
            escape(step.name), f"{step.n_cases:,}", f"{step.n_patients:,}", f"{step.n_dropped:,}", escape(step.reason)
        )
    out.print(table)
    out.print(f"Cohort: [bold]{escape(str(file))}[/bold]", soft_wrap=True)


@app.command()
def train(
    kind: Annotated[str, typer.Argument(help="tfidf-xgboost, tfidf-logistic or transformer.", show_default=False)],
    file: Annotated[
        Path,
        typer.Option("--cohort", help="A table with splits, or an audit.yaml that names one.", show_default=False),
    ],
    folder: Annotated[Path, typer.Option("--out", help="Folder for the model.", show_default=False)],
    settings: Settings = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a training that was stopped.")] = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Train a reference model; `palpate:DIR` reads it back."""
    from palpate import jobs
    from palpate.config import parse_settings
    from palpate.models.train import train as train_model
    from palpate.progress import TerminalProgress

    cases = jobs.read_training_cohort(file)
    with TerminalProgress(err) as progress:
        trained = train_model(
            kind,
            cases,
            folder,
            parse_settings(settings or ()),
            resume=resume,
            progress=lambda step: progress.step(
                step.stage, step.done, step.total, "" if step.loss is None else f"(loss {step.loss:.4f})"
            ),
        )
    for model in trained.models:
        auroc = next((row for row in model.metrics if row["metric"] == "auroc"), None)
        told = f"validation AUROC {auroc['value']:.3f}, " if auroc and auroc["value"] is not None else ""
        out.print(f"palpate:{escape(str(model.folder))}: {told}threshold {model.threshold:.3f}", soft_wrap=True)


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--out", help="Folder for everything the demo makes.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, help="Another seed makes another hospital.")] = 0,
    patients: Annotated[int, typer.Option(min=500, help="Patients of the first hospital; few blur the story.")] = 5000,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Make two hospitals and two models with near-equal AUROC, and audit them; a few minutes."""
    from palpate import jobs
    from palpate.demo import tell, write_demo
    from palpate.progress import TerminalProgress

    with TerminalProgress(err) as progress:
        config = write_demo(folder, seed=seed, n_patients=patients, step=progress.step)
        outcome = jobs.audit(config, out=folder / "run", watcher=progress)
    for line in tell(folder, outcome):
        out.print(escape(line), soft_wrap=True)
    _tell(outcome)


def _tell(outcome: Outcome) -> None:
    """The story in a few lines: findings, the gate, where the report is."""
    marks = {"good": "[green]+[/green]", "warning": "[yellow]![/yellow]", "neutral": "[dim]·[/dim]"}
    for result in outcome.results:
        out.print(f"[bold]{result.audit}[/bold]")
        for finding in result.findings:
            out.print(f"  {marks[finding.tone]} {escape(finding.sentence)}", soft_wrap=True)
    if outcome.verdicts:
        out.print("[bold]gate[/bold]")
    for verdict in outcome.verdicts:
        mark = "[green]holds[/green]" if verdict.passed else "[red]FAILS[/red]"
        out.print(f"  {mark} {escape(verdict.condition)}: {escape(verdict.detail)}", soft_wrap=True)
    out.print(f"Report: [bold]{escape(str(outcome.report))}[/bold]", soft_wrap=True)


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line; errors are one sentence on stderr, a traceback only with --debug."""
    signal.signal(signal.SIGTERM, _stop)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app()
    except PalpateError as error:
        _end(error, str(error), error.exit_code)
    except KeyboardInterrupt as error:
        _end(error, "stopped; what was scored is kept, add --resume to go on.", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        _end(error, f"{error.filename or 'a file'}: {error.strerror or type(error).__name__}.", 2)
    except Exception as error:
        name = type(error).__name__
        _end(error, f"a defect of palpate ({name}); run it again with --debug and report what it says.", 70)


def _end(error: BaseException, sentence: str, code: int) -> None:
    if "--debug" in sys.argv:
        raise error
    err.print(f"[red]palpate:[/red] {escape(sentence)}", soft_wrap=True)
    sys.exit(code)
