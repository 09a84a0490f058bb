"""Commands that audit, or read what was audited: `audit`, `plan`, `report`, `recalibration`, `demo`, `history`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from palpate.cli.app import EXIT_CODES, ConfigFile, Debug, Only, app, err, out
from palpate.cli.pipelines import AsJson, LogFile, Quiet, reporting

if TYPE_CHECKING:
    from palpate.commands.audit import Outcome
    from palpate.commands.history import History
    from palpate.report.findings import FindingView


@app.command(epilog=EXIT_CODES)
def audit(
    config: ConfigFile,
    run: Annotated[Path | None, typer.Option("--out", help="Run directory; default: CONFIG-run beside it.")] = None,
    only: Only = None,
    resume: Annotated[bool, typer.Option("--resume", help="Finish a run that was stopped.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes that score; default: as configured.")] = None,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Score on a Ray cluster: HOST:PORT, auto, or local.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="AUDIT.OPTION=VALUE", help="Override an option of an audit."),
    ] = None,
    quiet: Quiet = False,
    log: LogFile = None,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001  (read by main)
) -> None:
    """Run the audits of a configuration on its models, and write the report."""
    from palpate.commands import audit as jobs

    with reporting("audit", quiet=quiet, log=log, as_json=as_json) as progress:
        outcome = jobs.audit(
            config,
            out=run,
            only=only or (),
            resume=resume,
            workers=workers,
            ray=ray,
            overrides=settings or (),
            progress=progress,
        )
        progress.summary.update(jobs.summarise(outcome))
        _tell(outcome, progress.told)
    if not outcome.passed:
        raise typer.Exit(1)


@app.command()
def plan(
    config: ConfigFile,
    folder: Annotated[Path, typer.Option("--out", help="Folder for inputs.parquet.", show_default=False)],
    only: Only = None,
    quiet: Quiet = False,
    log: LogFile = None,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write what must be scored, for a model that lives elsewhere. The file holds note text."""
    from palpate.commands import audit as jobs

    with reporting("plan", quiet=quiet, log=log, as_json=as_json) as progress:
        file, n, has_text = jobs.write_inputs(config, out=folder, only=only or ())
        progress.summary.update(inputs=str(file), n_inputs=n, has_text=has_text)
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
    from palpate.commands import audit as jobs

    out.print(f"Report: [bold]{escape(str(jobs.report(run)))}[/bold]", soft_wrap=True)


@app.command()
def recalibration(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a run.", show_default=False)],
    file: Annotated[Path, typer.Option("--out", help="The card, a .md or .json file.", show_default=False)],
    models: Annotated[list[str] | None, typer.Option("--model", help="Only this model; repeatable.")] = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write the card of a recalibration, for whoever maintains the model: formula, fit, before and after, limits."""
    from palpate.commands.cards.recalibration import write_card

    n = write_card(run, file, models=models or ())
    what = "recalibration" if n == 1 else "recalibrations"
    out.print(f"Card: [bold]{escape(str(file))}[/bold], {n:,} {what}", soft_wrap=True)


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--out", help="Folder for everything the demo makes.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, help="Another seed makes another hospital.")] = 0,
    patients: Annotated[int, typer.Option(min=500, help="Patients of the first hospital; few blur the story.")] = 5000,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Make two hospitals and two pairs of models with near-equal AUROC, and audit them; a few minutes."""
    from palpate.cli.progress import TerminalProgress
    from palpate.commands import audit as jobs
    from palpate.commands.demo import XRAYS, tell, tell_xrays, write_demo

    with TerminalProgress(err) as progress:
        config = write_demo(folder, seed=seed, n_patients=patients, step=progress.step)
        outcome = jobs.audit(config, out=folder / "run", progress=progress)
        xrays = jobs.audit(folder / XRAYS, out=folder / "run-xrays", progress=progress)
    for line in (*tell(folder, outcome), *tell_xrays(folder, xrays)):
        out.print(escape(line), soft_wrap=True)
    _tell(outcome, progress.told)
    _tell(xrays, progress.told)


def _print_scorecard(outcome: Outcome) -> None:
    """The scorecard of the report's first screen: how the models compare, and the table."""
    from palpate.report.scorecard import view_scorecard

    view = view_scorecard(outcome.results, outcome.run.read_manifest())
    if view is None:
        return
    colours = {"concern": "red", "caution": "yellow", "unsettled": "dim", "acceptable": "green"}
    if view.choice:
        out.print(escape(view.choice), soft_wrap=True)
    heads = [
        "\n".join(escape(line) for line in (head.name, f"{head.metric} {head.number}".strip(), head.tally) if line)
        for head in view.heads
    ]
    table = Table("Question", *heads, box=box.SIMPLE_HEAD, pad_edge=False)
    for question in view.questions:
        cells = []
        for cell in question.cells:
            if cell is None:
                cells.append("")
                continue
            first = f"[{colours[cell.verdict]}]{cell.word}[/] {cell.number}".rstrip()
            cells.append(
                "\n".join([first, *(f"[dim]{escape(line)}[/dim]" for line in (cell.margin, *cell.details) if line)])
            )
        table.add_row(escape(question.asks), *cells)
    out.print(table)


_MARKS = {
    "concern": "[red]![/red]",
    "caution": "[yellow]![/yellow]",
    "acceptable": "[green]+[/green]",
    "caveat": "[yellow]?[/yellow]",
}


def _print_finding(finding: FindingView) -> None:
    mark = _MARKS.get(finding.kind, "[dim]·[/dim]")
    out.print(f"  {mark} [dim]{finding.word}:[/dim] {escape(finding.sentence)}", soft_wrap=True)


def _tell(outcome: Outcome, told: Sequence[str]) -> None:
    """The story in a few lines: what puts everything in doubt, the scorecard, findings, the gate, the report.

    What was told before anything was scored is not said again.
    """
    from palpate.report.findings import all_groups, first_findings

    for finding in first_findings(outcome.results):
        if f"{finding.word}: {finding.sentence}" not in told:
            _print_finding(finding)
    _print_scorecard(outcome)
    for group in all_groups(outcome.results):
        out.print(f"[bold]{escape(group.title)}[/bold]")
        for finding in group.findings:
            _print_finding(finding)
        if group.n_more:
            out.print(f"  [dim]and {group.n_more:,} more, in the run's results[/dim]")
    if outcome.judgements:
        out.print("[bold]gate[/bold]")
    for judgement in outcome.judgements:
        mark = "[green]holds[/green]" if judgement.passed else "[red]FAILS[/red]"
        out.print(f"  {mark} {escape(judgement.condition)}: {escape(judgement.detail)}", soft_wrap=True)
    out.print(f"Report: [bold]{escape(str(outcome.report))}[/bold]", soft_wrap=True)


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
    _print_history(found)
    if file is not None:
        jobs.write_history(found, file)
        out.print(f"History: [bold]{escape(str(file))}[/bold]", soft_wrap=True)


def _print_history(found: History) -> None:
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
