"""Commands that make things: `synth`, `cohort`, `train`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape
from rich.table import Table

from palpate.cli.app import Debug, Settings, app, err, out

if TYPE_CHECKING:
    from palpate.train.pretest import Pretest


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
    from palpate.cli.progress import TerminalProgress
    from palpate.commands import audit as jobs

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
    kind: Annotated[str, typer.Argument(help="readmission, outcomes, mdace, ade or cxr.", show_default=False)],
    source: Annotated[Path, typer.Option(help="Folder with the source files.", show_default=False)],
    file: Annotated[Path, typer.Option("--out", help="The cohort, a .parquet file.", show_default=False)],
    settings: Settings = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Make a cohort from a hospital's own tables; says who was left out and why."""
    from palpate.commands import audit as jobs
    from palpate.data.cohorts.built import table_files

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
    for name, beside in table_files(built, file).items():
        told = f"{name.capitalize()}: [bold]{escape(str(beside))}[/bold], {built.tables[name].height:,} rows"
        out.print(told, soft_wrap=True)


@app.command()
def train(
    kind: Annotated[
        str,
        typer.Argument(
            help="tfidf-xgboost, tfidf-logistic, transformer, caml, effective-can, cxr or pretest.", show_default=False
        ),
    ],
    file: Annotated[
        Path,
        typer.Option("--cohort", help="A table with splits, or an audit.yaml that names one.", show_default=False),
    ],
    folder: Annotated[Path, typer.Option("--out", help="Folder for the model.", show_default=False)],
    settings: Settings = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a training that was stopped.")] = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Train a reference model; `palpate:DIR` reads it back. `pretest` adds pre-test probabilities to the cohort."""
    from palpate.cli.progress import TerminalProgress
    from palpate.commands import audit as jobs
    from palpate.config import parse_settings
    from palpate.train import Step
    from palpate.train import train as train_model
    from palpate.train.pretest import train_pretest

    cases, options = jobs.read_training_cohort(file), parse_settings(settings or ())
    with TerminalProgress(err) as watched:

        def show(step: Step) -> None:
            watched.step(step.stage, step.done, step.total, "" if step.loss is None else f"(loss {step.loss:.4f})")

        if kind == "pretest":
            made = train_pretest(cases, folder, options, resume=resume, progress=show)
        else:
            trained = train_model(kind, cases, folder, options, resume=resume, progress=show)
    if kind == "pretest":
        _show_pretest(made)
        return
    for model in trained.models:
        auroc = next((row for row in model.metrics if row["metric"] == "auroc"), None)
        told = f"validation AUROC {auroc['value']:.3f}, " if auroc and auroc["value"] is not None else ""
        out.print(f"palpate:{escape(str(model.folder))}: {told}threshold {model.threshold:.3f}", soft_wrap=True)


def _show_pretest(made: Pretest) -> None:
    """Each label's chosen model and how good it is, or why that is not known."""
    metrics = {
        "AUROC": "auroc",
        "ACE": "adaptive_calibration_error",
        "Brier": "brier",
        "Brier skill": "brier_skill_score",
    }
    table = Table("label", "features", "classifier", *metrics, "why not", box=None, pad_edge=False)
    for row in made.table:
        cells = ("" if row.get(name) is None else f"{row[name]:.3f}" for name in metrics.values())
        names = (escape(str(row.get(name) or "")) for name in ("label", "features", "classifier"))
        table.add_row(*names, *cells, escape(row["reason"]))
    out.print(table)
    out.print(f"Cohort with pre-test probabilities: [bold]{escape(str(made.file))}[/bold]", soft_wrap=True)
