"""Commands about the words of notes: `words`, `alter`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape
from rich.text import Text

from palpate.cases.edits import Edit
from palpate.cli.app import Debug, app, err, out
from palpate.errors import ConfigError

Contradictory = Literal["skip", "alter"]
Sure = Literal["strict", "normal"]

words_app = typer.Typer(help="Words for clinicians to rate.", no_args_is_help=True)
app.add_typer(words_app, name="words")


@words_app.command("template")
def words_template(
    file: Annotated[Path, typer.Option("--out", help="The sheet: a .csv file.", show_default=False)],
    words: Annotated[Path | None, typer.Option(help="A file with the words, in a column `word`.")] = None,
    cohort: Annotated[
        Path | None, typer.Option(help="Choose the words from this cohort's training notes instead.")
    ] = None,
    choose: Annotated[
        Literal["frequent", "predictive", "vocabulary"], typer.Option(help="How words are chosen from a cohort.")
    ] = "predictive",
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="How many words to choose.")] = 49,
    raters: Annotated[int, typer.Option(min=1, help="The number of clinicians who will rate.")] = 3,
    scale: Annotated[str | None, typer.Option(help='The lowest and highest score, "0 to 10"; default: 1 to 5.')] = None,
    instruction: Annotated[str | None, typer.Option(help="What raters are told, for the sheet.")] = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write the sheet that clinicians fill in: one row per word, one column per rater, scores from 1 to 5."""
    from palpate.commands.words import write_word_sheet
    from palpate.perturb.words import USUAL_SCALE, read_scale

    given = {"scale": scale, "instruction": instruction}
    listed = write_word_sheet(file, words=words, cohort=cohort, how=choose, n=n, raters=raters, **given)
    asked = read_scale(scale or "") or USUAL_SCALE
    out.print(f"{len(listed)} words are in [bold]{escape(str(file))}[/bold].", soft_wrap=True)
    out.print(
        f"Each rater fills in one column: {asked.low:g} = the word does not matter for the outcome, {asked.high:g} = "
        "it matters most; cells may "
        "stay empty. Then give the sheet to the audit `vocabulary` as `raters:`."
    )


@app.command()
def alter(
    file: Annotated[
        Path | None, typer.Argument(help="A text file with one note, or - for standard input.", show_default=False)
    ] = None,
    characteristic: Annotated[
        list[str] | None, typer.Option("--characteristic", "-c", help="gender, age, ethnicity, ...; repeatable.")
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option("--to", help="The new group, such as gender=female; or one per --characteristic, in its order."),
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Write a page with so many altered notes, drawn at random, for review.")
    ] = None,
    cohort: Annotated[
        Path | None, typer.Option(help="The notes for --sample: a table with a column `text`, or an audit.yaml.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--out", help="The page for --sample: a .html file. It holds note text.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="The split that --sample draws from, where there are any.")] = None,
    text: Annotated[str, typer.Option(help="The column with the notes, for --sample.")] = "text",
    seed: Annotated[int, typer.Option(min=0, help="Of the random draw of --sample.")] = 0,
    definition: Annotated[
        list[Path] | None, typer.Option(help="A characteristic of your own, in YAML; repeatable.")
    ] = None,
    contradictory: Annotated[
        Contradictory, typer.Option(help="How to treat notes that contradict the new gender.")
    ] = "skip",
    sure: Annotated[
        Sure, typer.Option(help="Whether a second reader has to agree (strict), or is not asked (normal).")
    ] = "strict",
    plain: Annotated[
        bool, typer.Option("--plain", help="Print only the altered note, without marking changes.")
    ] = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Change characteristics of the patient in a note, and show what was changed; or write a page for review."""
    if sample is not None:
        if cohort is None or page is None or file is not None or characteristic:
            raise ConfigError("--sample needs --cohort FILE, --to CHARACTERISTIC=GROUP and --out PAGE.html, no note")
        _review(page, cohort, to or (), sample, split, text, seed, definition or (), contradictory, sure)
        return
    if file is None or cohort is not None or page is not None:
        raise ConfigError("give a note to alter, or --sample N with --cohort FILE and --out PAGE.html")
    _alter_one(file, characteristic or (), to or (), definition or (), contradictory, sure, plain=plain)


def _review(
    page: Path,
    cohort: Path,
    to: Sequence[str],
    n: int,
    split: str | None,
    text: str,
    seed: int,
    definitions: Sequence[Path],
    contradictory: Contradictory,
    sure: Sure,
) -> None:
    from palpate.commands.review import write_review

    drawn = write_review(
        page,
        cohort,
        to,
        n=n,
        seed=seed,
        split=split,
        text=text,
        definitions=definitions,
        contradictory=contradictory,
        sure=sure,
    )
    sample = drawn.sample
    out.print(f"{len(sample.notes)} altered notes are in [bold]{escape(str(page))}[/bold].", soft_wrap=True)
    if len(sample.notes) < n:
        skipped, split = sum(sample.reasons.values()), drawn.notes.split
        where = "" if split is None else f" of split {split}"
        others = f"{sample.n_kept:,} say it already and {skipped:,} were skipped"
        out.print(f"{n:,} were asked for: of {sample.n_read:,} notes{where}, {others}.", soft_wrap=True)
        if split is not None:
            out.print("Draw from another split with --split.")
    out.print(
        "The page contains text from patients' notes: handle it as you would the notes. Open it in a browser, mark "
        "each alteration right or wrong, save, and give the saved file to the audit `characteristics` as `review:`."
    )


def _alter_one(
    file: Path,
    characteristics: Sequence[str],
    to: Sequence[str],
    definitions: Sequence[Path],
    contradictory: Contradictory,
    sure: Sure,
    *,
    plain: bool,
) -> None:
    from palpate.commands.review import read_groups
    from palpate.commands.words import alter_note

    if not characteristics:
        groups = read_groups(to)
        characteristics, to = list(groups), list(groups.values())
    altered = alter_note(file, characteristics, to, definitions=definitions, contradictory=contradictory, sure=sure)
    if plain:
        typer.echo(altered.result.text, nl=False)
    else:
        out.print(_difference(altered.note, altered.result.edits), soft_wrap=True, end="")
    why = f": {altered.result.reason}" if altered.result.reason else ""
    n = len(altered.result.edits)
    changes = f", {n} place{'' if n == 1 else 's'}" if n else ""
    err.print(f"[bold]{altered.result.action}[/bold]{escape(why)}{changes}", soft_wrap=True)


def _difference(note: str, edits: Sequence[Edit]) -> Text:
    """The note with deletions and insertions marked, readable without colours too."""
    shown, position = Text(), 0
    for start, end, text in edits:
        shown.append(note[position:start])
        if end > start:
            shown.append(f"[-{note[start:end]}-]", style="red strike")
        if text:
            shown.append(f"{{+{text}+}}", style="bold green")
        position = end
    shown.append(note[position:])
    return shown
