"""Commands about codes and their evidence: `codes map`, `check`, `statistics`, `agreement`, `import`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape
from rich.table import Table

from palpate.cli.app import Debug, app, out

if TYPE_CHECKING:
    import polars as pl

codes_app = typer.Typer(help="ICD codes: how they map, and the evidence that coders mark.", no_args_is_help=True)
app.add_typer(codes_app, name="codes")

MdaceFolder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR",
        help="MDACE's repository, or the folder with its charts (Inpatient/, Profee/).",
        show_default=False,
    ),
]
ProjectFolder = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER",
        help="An export of INCEpTION or WebAnno (zip, folder, document), or a folder of several.",
        show_default=False,
    ),
]
GemFile = Annotated[
    Path | None, typer.Option("--gem", help="CMS's table for diagnoses: 2018_I10gem.txt, or 2018_I9gem.txt to ICD-10.")
]
PcsGemFile = Annotated[
    Path | None,
    typer.Option("--pcs-gem", help="CMS's table for procedures: gem_pcsi9.txt, or gem_i9pcs.txt to ICD-10."),
]
Mimic = Annotated[Path | None, typer.Option("--mimic", help="The folder with MIMIC-III's tables.")]
TableOut = Annotated[Path | None, typer.Option("--out", help="Write the table to a .csv or .parquet file.")]
Layer = Annotated[
    str | None, typer.Option("--layer", help="The layer with the codes; default: the only one with values.")
]
Feature = Annotated[str | None, typer.Option("--feature", help="The feature of the layer that holds the code.")]
ChartIs = Annotated[
    Literal["document", "project"], typer.Option("--chart", help="Whether a chart is a document or a whole project.")
]
_MOST_ROWS = 40
_TABLES = {
    "3": "Table 3: what was annotated",
    "4": "Table 4: evidence by category of note",
    "5": "Table 5: billed and annotated codes",
    "6": "Table 6: how ICD-9 codes were mapped",
    "predictions": "Published predictions: exact spans",
}


@codes_app.command("map")
def codes_map(
    codes: Annotated[list[str] | None, typer.Argument(metavar="CODE", help="ICD-10 codes, or ICD-9 codes.")] = None,
    file: Annotated[
        Path | None, typer.Option(help="A file of codes: one per line, or a table with a column `code`.")
    ] = None,
    to: Annotated[Literal["icd9", "icd10"], typer.Option(help="The version of ICD to map to.")] = "icd9",
    system: Annotated[
        Literal["auto", "ICD-10-CM", "ICD-10-PCS", "ICD-9-CM", "ICD-9-PCS"],
        typer.Option(help="The system of the codes; auto: by their form."),
    ] = "auto",
    gem: GemFile = None,
    pcs_gem: PcsGemFile = None,
    known: Annotated[
        Path | None, typer.Option(help="A file of codes; of several matches, one in this file is preferred.")
    ] = None,
    table: TableOut = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Map ICD-10 codes to ICD-9, or back with --to icd10, and show how each was mapped or why it was not.

    A code without an equivalent, or newer than the table, is mapped through its parent.
    """
    from palpate.commands import codes as work
    from palpate.errors import ConfigError

    work.check_table(table)
    if not codes and file is None:
        raise ConfigError("no codes were given", hint="give codes, or a --file of codes")
    if not all(code.strip() for code in codes or ()):
        raise ConfigError("one of the codes is empty", hint="give codes such as E11.9, separated by blanks")
    listed = [*(codes or []), *(work.read_codes(file) if file is not None else [])]
    prefer = work.read_codes(known) if known is not None else ()
    mapped = work.map_codes(listed, work.make_code_map(gem, pcs_gem, to=to), system=system, known=prefer)
    if table is None:
        show(mapped.drop("type", "warning"))
    else:
        work.write_table(mapped, table)
        counts = mapped.group_by("meaning", maintain_order=True).len("codes").sort("codes", "meaning", descending=True)
        show(counts)
        out.print(f"Mapping: [bold]{escape(str(table))}[/bold]", soft_wrap=True)
    for sentence in work.mapping_warnings(mapped):
        out.print(f"Warning: {sentence}.", markup=False, soft_wrap=True)


@codes_app.command("check")
def codes_check(
    folder: MdaceFolder,
    gem: GemFile = None,
    pcs_gem: PcsGemFile = None,
    mimic: Mimic = None,
    table: TableOut = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Map MDACE's ICD-10 charts, compare them with its ICD-9 charts by type of mapping, and explain each difference.

    With --mimic, billed codes decide between several matches, as they did for MDACE.
    """
    import polars as pl

    from palpate.commands import codes as work

    work.check_table(table)
    agreement = work.check_mapping(folder, gem=gem, pcs_gem=pcs_gem, mimic=mimic)
    rows = [(kind, of, n, same, f"{same / n:.2%}") for (kind, of), (n, same) in sorted(agreement.counts.items())]
    show(pl.DataFrame(rows, schema=["type", "code_system", "spans", "same", "share"], orient="row"))
    misses = pl.DataFrame(agreement.misses, schema=list(_miss_fields()), orient="row", infer_schema_length=None)
    out.print(f"\n{misses.height:,} codes differ, in {misses['n'].sum():,} spans:")
    show(misses.drop("our_type"))
    for stay, note, code in agreement.unpaired:
        out.print(f"{code} has no ICD-9 code (admission {stay}, note {note})", markup=False, soft_wrap=True)
    if table is not None:
        work.write_table(misses, table)
        out.print(f"All differences: [bold]{escape(str(table))}[/bold]", soft_wrap=True)


@codes_app.command("statistics")
def codes_statistics(
    folder: MdaceFolder,
    mimic: Mimic = None,
    table: TableOut = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Count charts, notes, codes and evidence as in the paper's Tables 3 to 6, and published predictions' exact spans.

    Table 5 and the length of spans need --mimic: billed codes (DIAGNOSES_ICD with PROCEDURES_ICD or, for Profee,
    CPTEVENTS) and NOTEEVENTS. What is missing is said.
    """
    import polars as pl

    from palpate.commands import codes as work
    from palpate.commands.chart_statistics import describe_charts

    work.check_table(table)
    found, missing = describe_charts(folder, mimic=mimic)
    settings = found["setting"].unique(maintain_order=True).to_list()
    for number, title in _TABLES.items():
        part = found.filter(pl.col("table") == number)
        if not part.height:
            continue
        shown = Table("", *settings, box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
        for name in part["name"].unique(maintain_order=True):
            cells = {row["setting"]: _count(row) for row in part.filter(pl.col("name") == name).iter_rows(named=True)}
            shown.add_row(escape(name), *(cells.get(setting, "") for setting in settings))
        out.print(shown)
        out.print()
    for sentence in missing:
        out.print(sentence, markup=False, soft_wrap=True)
    if table is not None:
        work.write_table(found, table)
        out.print(f"Statistics: [bold]{escape(str(table))}[/bold]", soft_wrap=True)


@codes_app.command("agreement")
def codes_agreement(
    folder: ProjectFolder,
    layer: Layer = None,
    feature: Feature = None,
    chart: ChartIs = "document",
    units: Annotated[
        Literal["pairs", "sets"],
        typer.Option(help="Whether a unit is a word with one code (pairs) or with all its codes (sets)."),
    ] = "pairs",
    table: Annotated[
        Path | None, typer.Option("--out", help="Write every disagreement to a .csv or .parquet file.")
    ] = None,
    include_text: Annotated[
        bool, typer.Option("--include-text", help="Also write the marked words, which are from patients' notes.")
    ] = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Measure annotators' agreement on codes and evidence: alpha, kappa, Hooper's consistency, kinds of difference."""
    from palpate.commands import codes as work
    from palpate.data.annotations.webanno_projects import measure_agreement

    work.check_table(table)
    found = measure_agreement(folder, layer=layer, feature=feature, chart=chart, units=units, include_text=include_text)
    show(found.measures)
    out.print()
    show(found.kinds)
    if table is not None:
        work.write_table(found.disagreements, table)
        out.print(f"Disagreements: [bold]{escape(str(table))}[/bold]", soft_wrap=True)


@codes_app.command("import")
def codes_import(
    folder: ProjectFolder,
    file: Annotated[Path, typer.Option("--out", help="The evidence: a .csv or .parquet file.", show_default=False)],
    annotator: Annotated[
        str | None,
        typer.Option(help="Whose spans to import; CURATION_USER: the curated ones; default: the only annotator."),
    ] = None,
    layer: Layer = None,
    feature: Feature = None,
    code_system: Annotated[str, typer.Option(help="ICD-10-CM, ICD-10-PCS, ICD-9-CM, ICD-9-PCS or CPT.")] = "ICD-10-CM",
    chart: ChartIs = "document",
    cohort: Annotated[
        Path | None, typer.Option(help="Also write the texts with their codes as a cohort, to a .parquet file.")
    ] = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Turn an annotation project (WebAnno TSV, UIMA CAS JSON or XMI) into a table for the evidence audit."""
    from palpate.commands import codes as work
    from palpate.data.annotations.webanno_projects import import_evidence

    work.check_table(file)
    imported = import_evidence(
        folder, annotator=annotator, layer=layer, feature=feature, code_system=code_system, chart=chart
    )
    work.write_import(imported, file, cohort)
    n_codes = imported.evidence["label"].n_unique()
    counts = f"{imported.evidence.height:,} spans for {n_codes:,} codes in {imported.cases.height:,} cases"
    out.print(f"Evidence: [bold]{escape(str(file))}[/bold], {counts}", soft_wrap=True)
    if cohort is not None:
        out.print(f"Cohort: [bold]{escape(str(cohort))}[/bold]", soft_wrap=True)


def show(frame: pl.DataFrame) -> None:
    """Print a frame as a table; only the first rows if there are many."""
    shown = Table(box=None, pad_edge=False)
    for column in frame.columns:
        shown.add_column(column.replace("_", " "), overflow="fold")
    for row in frame.head(_MOST_ROWS).iter_rows():
        shown.add_row(*(escape(_cell(value)) for value in row))
    out.print(shown)
    if frame.height > _MOST_ROWS:
        out.print(f"… and {frame.height - _MOST_ROWS:,} more; --out writes all of them")


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _count(row: dict[str, object]) -> str:
    n, percent = row["n"], row["percent"]
    shown = f"{n:,.0f}" if isinstance(n, float) and n.is_integer() else f"{n:.2f}" if isinstance(n, float) else ""
    return f"{shown} ({percent:.1f}%)" if isinstance(percent, float) else shown


def _miss_fields() -> tuple[str, ...]:
    from palpate.data.annotations.mdace_mapping import MappingMiss

    return MappingMiss._fields
