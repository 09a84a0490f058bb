"""Commands about template suites: `suite`, `lexicon`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape
from rich.table import Table

from palpate.cli.app import Debug, app, out

if TYPE_CHECKING:
    from palpate.perturb.suites import Flaw, Suite

suite_app = typer.Typer(help="Template suites: sentences that test what a model can do.", no_args_is_help=True)
app.add_typer(suite_app, name="suite")
lexicon_app = typer.Typer(help="Lexicons: words that fill the slots of a suite.", no_args_is_help=True)
app.add_typer(lexicon_app, name="lexicon")

Name = Annotated[str, typer.Argument(help="The name of a suite, or a YAML, CSV or JSONL file.", show_default=False)]

Positive = Annotated[str | None, typer.Option(help="The positive label in a CSV or JSONL file.")]
Slots = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SLOT=VALUES", help="Fill a slot with [a, b] or a lexicon file; repeatable."),
]


@suite_app.command("list")
def suite_list(debug: Debug = False) -> None:  # noqa: ARG001
    """List the suites that come with palpate."""
    from palpate.commands.suites import describe_suites

    table = Table("suite", "about", "templates", "variations", "cases of a default run", box=None, pad_edge=False)
    for suite in describe_suites():
        n_cases = "depends on --set" if suite.n_cases is None else f"{suite.n_cases:,}"
        table.add_row(suite.name, suite.about, f"{suite.n_templates:,}", f"{suite.n_variations:,}", n_cases)
    out.print(table)


@suite_app.command("show")
def suite_show(
    name: Name,
    positive: Positive = None,
    settings: Slots = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Show the tests of a suite, with their templates, variations and cases."""
    _show(_open(name, positive, settings))


@suite_app.command("expand")
def suite_expand(
    name: Name,
    file: Annotated[Path, typer.Option("--out", help="The cases: a .csv or .jsonl file.", show_default=False)],
    n: Annotated[
        int | None, typer.Option("--n", "-n", min=1, help="Sample this many of all cases; default: the default run.")
    ] = None,
    balance: Annotated[
        Literal["template", "case"],
        typer.Option(help="What is equally likely in a sample: each template, or each case."),
    ] = "template",
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same cases.")] = 0,
    further: Annotated[
        bool, typer.Option("--further", help="Include capabilities that are reported separately.")
    ] = False,
    positive: Positive = None,
    settings: Slots = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write the cases of a suite, for a model that runs elsewhere."""
    from palpate.commands.suites import expand_suite

    suite = _open(name, positive, settings)
    written = expand_suite(suite, file, n=n, seed=seed, further=further, balance=balance)
    out.print(f"{written:,} cases are in [bold]{escape(str(file))}[/bold]", soft_wrap=True)


@suite_app.command("import")
def suite_import(
    name: Name,
    positive: Positive = None,
    settings: Slots = None,
    base: Annotated[
        Path | None, typer.Option(help="A CSV file of base templates; each row belongs to the nearest one.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--out", help="Write the templates with a column `base`, to check and correct.")
    ] = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Check the templates (CSV: capability, label, template) or cases (JSONL) of another group, and show them."""
    from palpate.commands.suites import import_suite
    from palpate.config import parse_settings
    from palpate.perturb.suites import find_flaws

    found = import_suite(name, positive=positive, slots=parse_settings(settings or ()), base=base, out=file)
    suite = found.suite
    _show(suite)
    if found.grouped_by is not None:
        how = {"column": "by the column of base templates", "file": "by the nearest row of the base file"}
        told = how.get(found.grouped_by, "by their wording (a column `base` or --base FILE says it exactly)")
        n = f"{found.n_rows:,} rows are variations of {len(suite.templates):,} base templates"
        out.print(f"{n}, grouped {told}; intervals are by base template.", markup=False, soft_wrap=True)
    flaws: dict[str, list[Flaw]] = {}
    for flaw in find_flaws(suite):
        flaws.setdefault(flaw.problem, []).append(flaw)
    for problem, found_in in flaws.items():
        templates = len({flaw.template for flaw in found_in})
        line = f"{problem}: {len(found_in):,} texts of {templates:,} templates, such as {found_in[0].template}: "
        out.print(f"[yellow]![/yellow] {escape(line + found_in[0].text)}", soft_wrap=True)
    if found.grouped_by == "file" and file is None:
        keep = "audit.yaml reads no base file: write the templates with --out FILE.csv, and use that file"
        out.print(f"To keep the base templates: {keep}.", soft_wrap=True)
        return
    word = f", positive: {positive}" if positive else ""
    word += f", slots: {{{', '.join(given.replace('=', ': ', 1) for given in settings)}}}" if settings else ""
    out.print(f"To use it in audit.yaml: capabilities: {{suite: {found.source}{word}}}", markup=False, soft_wrap=True)


@suite_app.command("suggest")
def suite_suggest(
    name: Name,
    slot: Annotated[str, typer.Option(help="The slot to find words for.", show_default=False)],
    model: Annotated[
        Path, typer.Option(help="A folder with a masked language model (transformers).", show_default=False)
    ],
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="How many words.")] = 30,
    sentences: Annotated[int, typer.Option(min=1, help="In how many sentences the model is asked.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same sentences.")] = 0,
    file: Annotated[
        Path | None, typer.Option("--out", help="Write the words, one per line, to read and then to use with --set.")
    ] = None,
    positive: Positive = None,
    settings: Slots = None,
    trust: Annotated[bool, typer.Option("--trust", help="Load weights that are pickled.")] = False,
    device: Annotated[str, typer.Option(help="Where the model runs: auto, cpu, cuda, cuda:1 or mps.")] = "auto",
    dtype: Annotated[
        Literal["float32", "bfloat16", "float16"], typer.Option(help="16 bit takes half the memory.")
    ] = "float32",
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Suggest words for a slot by a masked language model; read them before you use them."""
    from palpate.commands.suggestions import open_for_suggestions, suggest_values, write_suggestions
    from palpate.config import parse_settings
    from palpate.models.devices import DeviceOptions
    from palpate.models.options import parse_options

    options = parse_options(DeviceOptions, "suite suggest", {"device": device, "dtype": dtype})
    suite = open_for_suggestions(name, slot, positive=positive, slots=parse_settings(settings or ()))
    found = suggest_values(suite, slot, model, n=n, sentences=sentences, seed=seed, trust=trust, options=options)
    table = Table("word", "of the sentences", "mean rank", "example", box=None, pad_edge=False)
    for each in found:
        table.add_row(escape(each.word), f"{each.share:.0%}", f"{each.mean_rank:.1f}", escape(each.example))
    out.print(table)
    if file is not None:
        write_suggestions(found, slot, file)
        told = f"Read [bold]{escape(str(file))}[/bold], delete what does not fit, and use it: --set {slot}={file}"
        out.print(told, soft_wrap=True)


def _open(name: str, positive: str | None, settings: list[str] | None) -> Suite:
    from palpate.commands.suites import open_suite
    from palpate.config import parse_settings

    return open_suite(name, positive=positive, slots=parse_settings(settings or ()))


def _show(suite: Suite) -> None:
    counts = suite.describe()
    table = Table(box=None, pad_edge=False)
    for column in counts.columns:
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in counts.iter_rows():
        table.add_row(*(f"{cell:,}" if isinstance(cell, int) else escape(str(cell)) for cell in row))
    out.print(table)
    for slot in suite.choose:
        out.print(f"Fill slot '{slot}' yourself: slots: {{{slot}: [...]}}", markup=False)
    for dropped in suite.dropped:
        out.print(f"Left out: {dropped.template} ({dropped.reason})", markup=False, soft_wrap=True)


@lexicon_app.command("psytar")
def lexicon_psytar(
    workbook: Annotated[Path, typer.Option("--source", help="The PsyTAR workbook (.xlsx).", show_default=False)],
    file: Annotated[Path, typer.Option("--out", help="The lexicon: a .yaml file.", show_default=False)],
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Extract short noun phrases for effects from PsyTAR, and show how many were kept and why others were not."""
    from palpate.commands.suites import make_psytar_lexicon

    extraction = make_psytar_lexicon(workbook, file)
    table = Table("outcome", "phrases", "share", box=None, pad_edge=False)
    for outcome, n, share in extraction.table.iter_rows():
        table.add_row(escape(outcome), f"{n:,}", f"{share:.1%}")
    out.print(table)
    out.print(f"Lexicon: [bold]{escape(str(file))}[/bold]", soft_wrap=True)
