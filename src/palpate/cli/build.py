"""Commands that build things: `synth`, `cohort`, `train`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.table import Table
from typer.core import TyperCommand

from palpate.cli.app import EXIT_CODES, Debug, Settings, app, err, out
from palpate.cli.pipelines import AsJson, LogFile, Quiet, reporting

if TYPE_CHECKING:
    from palpate.train.pretest import TrainedPretest


@app.command()
def synth(
    folder: Annotated[Path, typer.Option("--out", help="Folder for the hospital's files.", show_default=False)],
    patients: Annotated[int, typer.Option(min=1, help="The number of patients.")] = 5000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same bytes.")] = 0,
    site: Annotated[
        Literal["a", "b"], typer.Option(help="Hospital a or b; at b the spurious word means nothing.")
    ] = "a",
    images: Annotated[bool, typer.Option(help="Whether to write chest X-rays.")] = True,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="PLANT=STRENGTH", help="Set the strength of a planted effect; 0 turns it off; repeatable."
        ),
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option(help="Also write the MIMIC-IV side as meds, omop, fhir or dicom; repeatable."),
    ] = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write a synthetic hospital in the layouts of the real data, with planted flaws and known truth."""
    from palpate.cli.progress import TerminalProgress
    from palpate.commands.build import make_hospital

    with TerminalProgress(err) as progress:
        make_hospital(
            folder,
            n_patients=patients,
            seed=seed,
            site=site,
            images=images,
            overrides=settings or (),
            also=also or (),
            progress=lambda done, total: progress.step("writing patients", done, total),
        )
    out.print(f"Hospital: [bold]{escape(str(folder))}[/bold]; truth.json lists what was planted", soft_wrap=True)


class _CohortCommand(TyperCommand):
    """Its help also lists the options of the kind that was named: `palpate cohort omop --help`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta["kind"] = next((word for word in args if not word.startswith("-")), "")
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        super().format_options(ctx, formatter)
        from palpate.commands.build import describe_kind

        rows = [(f"{name}={default}", text) for name, default, text in describe_kind(ctx.meta["kind"])]
        if rows:
            with formatter.section(f"Options of {ctx.meta['kind']}, each set by --set OPTION=VALUE"):
                formatter.write_dl(rows, col_max=24)


@app.command(cls=_CohortCommand)
def cohort(
    kind: Annotated[
        str,
        typer.Argument(help="readmission, outcomes, mdace, ade, cxr, dicom, meds, omop or fhir.", show_default=False),
    ],
    source: Annotated[
        str,
        typer.Option(
            help="Folder with the source files; for omop also a DuckDB file, or postgresql://user@host/database.",
            show_default=False,
        ),
    ],
    file: Annotated[Path, typer.Option("--out", help="The cohort: a .parquet file.", show_default=False)],
    settings: Settings = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Build a cohort from a hospital's own tables, and show who was left out and why.

    `palpate cohort KIND --help` also lists the options of the kind.
    """
    from palpate.commands.build import build_cohort
    from palpate.data.cohorts import table_files

    built = build_cohort(
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
        line = f"{name.capitalize()}: [bold]{escape(str(beside))}[/bold], {built.tables[name].height:,} rows"
        out.print(line, soft_wrap=True)
    for fact in built.cohort.facts:
        out.print(f"• {escape(fact)}", soft_wrap=True)
    for said in built.assumed:
        err.print(f"assumed: {escape(said)}", soft_wrap=True)


@app.command(epilog=EXIT_CODES)
def train(
    kind: Annotated[
        str,
        typer.Argument(
            help="tfidf-xgboost, tfidf-logistic, transformer, caml, effective-can, plm-icd, cxr or pretest.",
            show_default=False,
        ),
    ],
    file: Annotated[
        Path,
        typer.Option("--cohort", help="A table with splits, or an audit.yaml that names one.", show_default=False),
    ],
    folder: Annotated[Path, typer.Option("--out", help="Folder for the model.", show_default=False)],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="OPTION=VALUE", help="An option, or the role of a column, as text=note; repeatable."
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a training that was stopped.")] = False,
    quiet: Quiet = False,
    log: LogFile = None,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Train a reference model, to be used as `palpate:DIR`; `pretest` adds pre-test probabilities to the cohort."""
    from palpate.commands.build import train_model
    from palpate.train import Trained, TrainStep

    with reporting("train", quiet=quiet, log=log, as_json=as_json) as progress:

        def show(step: TrainStep) -> None:
            if step.notice:
                progress.note(step.stage)
                return
            progress.step(step.stage, step.done, step.total, "" if step.loss is None else f"(loss {step.loss:.4f})")

        made = train_model(kind, file, folder, overrides=settings or (), resume=resume, progress=show)
        if not isinstance(made, Trained):
            progress.summary.update(cohort=str(made.file), labels=made.table)
            _show_pretest(made)
            return
        trained = [{"source": f"palpate:{each.folder}", "threshold": each.threshold} for each in made.models]
        progress.summary.update(kind=kind, models=trained)
        for model in made.models:
            auroc = next((row for row in model.metrics if row["metric"] == "auroc"), None)
            found = f"validation AUROC {auroc['value']:.3f}, " if auroc and auroc["value"] is not None else ""
            out.print(f"palpate:{escape(str(model.folder))}: {found}threshold {model.threshold:.3f}", soft_wrap=True)


def _show_pretest(made: TrainedPretest) -> None:
    """Each label's chosen model and its performance, or why there is none."""
    metrics = {
        "AUROC": "auroc",
        "ACE": "adaptive_calibration_error",
        "Brier": "brier",
        "Brier skill": "brier_skill_score",
    }
    table = Table("label", "features", "classifier", *metrics, "reason", box=None, pad_edge=False)
    for row in made.table:
        cells = ("" if row.get(name) is None else f"{row[name]:.3f}" for name in metrics.values())
        names = (escape(str(row.get(name) or "")) for name in ("label", "features", "classifier"))
        table.add_row(*names, *cells, escape(row["reason"]))
    out.print(table)
    out.print(f"Cohort with pre-test probabilities: [bold]{escape(str(made.file))}[/bold]", soft_wrap=True)
