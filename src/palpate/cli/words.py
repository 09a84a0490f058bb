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
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write the sheet that clinicians fill in: one row per word, one column per rater, scores from 1 to 5."""
    from palpate.commands.words import write_word_sheet

    listed = write_word_sheet(file, words=words, cohort=cohort, how=choose, n=n, raters=raters)
    out.print(f"{len(listed)} words are in [bold]{escape(str(file))}[/bold].", soft_wrap=True)
    out.print(
        "Each rater fills in one column: 1 = the word does not matter for the outcome, 5 = it matters most; cells may "
        "stay empty. Then give the sheet to the audit `vocabulary` as `raters:`."
    )


@app.command()
def alter(
    file: Annotated[
        Path, typer.Argument(help="A text file with one note, or - for standard input.", show_default=False)
    ],
    characteristic: Annotated[
        list[str], typer.Option("--characteristic", "-c", help="gender, age, ethnicity, ...; repeatable.")
    ],
    to: Annotated[list[str], typer.Option("--to", help="The new group; one per characteristic, in the same order.")],
    definition: Annotated[
        list[Path] | None, typer.Option(help="A characteristic of your own, in YAML; repeatable.")
    ] = None,
    contradictory: Annotated[
        Literal["skip", "alter"], typer.Option(help="How to treat notes that contradict the new gender.")
    ] = "skip",
    plain: Annotated[
        bool, typer.Option("--plain", help="Print only the altered note, without marking changes.")
    ] = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Change characteristics of the patient in a note, and show what was changed."""
    from palpate.commands.words import alter_note

    altered = alter_note(file, characteristic, to, definitions=definition or (), contradictory=contradictory)
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
