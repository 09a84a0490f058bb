"""Spans for coders' own tools: `evidence`, and `codes export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape

from palpate.cli.app import Debug, app, out
from palpate.cli.codes import ChartIs, Feature, Layer, codes_app, show

CodeSystem = Annotated[
    str | None,
    typer.Option(help="For rows that name none: ICD-10-CM, ICD-10-PCS, ICD-9-CM, ICD-9-PCS or CPT."),
]


@app.command()
def evidence(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a run.", show_default=False)],
    file: Annotated[
        Path, typer.Option("--out", help="A .csv or .parquet file; for mdace and cas a folder.", show_default=False)
    ],
    form: Annotated[
        Literal["csv", "mdace", "cas"],
        typer.Option("--format", help="A table, MDACE's JSON, or UIMA CAS JSON for INCEpTION; one file per chart."),
    ] = "csv",
    models: Annotated[list[str] | None, typer.Option("--model", help="Only this model's spans; repeatable.")] = None,
    statuses: Annotated[
        list[str] | None, typer.Option("--status", help="Only found, partly, missed or false spans; repeatable.")
    ] = None,
    code_system: CodeSystem = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write the spans that an evidence audit found and missed, by chart and code, for coders to review.

    They have text only if the audit was run with `include_text: true`, which the format cas needs.
    """
    from palpate.commands.evidence import export_spans

    written = export_spans(run, file, form=form, models=models or (), statuses=statuses or (), code_system=code_system)
    show(written.counts)
    files = "" if form == "csv" else f" in {written.n_files:,} {'file' if written.n_files == 1 else 'files'}"
    out.print(f"Spans: [bold]{escape(str(file))}[/bold], {written.n_spans:,} spans{files}", soft_wrap=True)


@codes_app.command("export")
def codes_export(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="A table of evidence, or an export of INCEpTION or WebAnno.", show_default=False
        ),
    ],
    folder: Annotated[Path, typer.Option("--out", help="The folder for MDACE's JSON files.", show_default=False)],
    notes: Annotated[
        Path | None, typer.Option(help="Where the notes are in the cases' texts, for a table of evidence.")
    ] = None,
    annotator: Annotated[
        str | None, typer.Option(help="Whose spans; CURATION_USER: the curated ones; default: the only annotator.")
    ] = None,
    layer: Layer = None,
    feature: Feature = None,
    code_system: CodeSystem = None,
    chart: ChartIs = "document",
    setting: Annotated[
        Literal["Inpatient", "Profee"] | None, typer.Option(help="Write into the folder of a setting.")
    ] = None,
    system: Annotated[
        Literal["ICD-9", "ICD-10"] | None, typer.Option(help="Write into the folder of a code system.")
    ] = None,
    include_text: Annotated[
        bool, typer.Option("--include-text", help="Also write the notes' text, which is from patients.")
    ] = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write annotations as MDACE's JSON, one file per chart; charts and notes are named by number."""
    from palpate.commands.evidence import export_annotations

    n = export_annotations(
        source,
        folder,
        notes=notes,
        annotator=annotator,
        layer=layer,
        feature=feature,
        code_system=code_system,
        chart=chart,
        setting=setting,
        system=system,
        include_text=include_text,
    )
    out.print(f"Charts: [bold]{escape(str(folder))}[/bold], {n:,} {'file' if n == 1 else 'files'}", soft_wrap=True)
