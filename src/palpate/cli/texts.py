"""Commands about words and wording: `words`, `alter`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape
from rich.text import Text

from palpate.cases.edits import Edit
from palpate.cli.app import Debug, app, err, out

words_app = typer.Typer(help="Words to ask clinicians about.", no_args_is_help=True)
app.add_typer(words_app, name="words")


@words_app.command("template")
def words_template(
    file: Annotated[Path, typer.Option("--out", help="The sheet, a .csv file.", show_default=False)],
    words: Annotated[Path | None, typer.Option(help="A file with a column `word`.")] = None,
    cohort: Annotated[
        Path | None, typer.Option(help="Choose the words from the training notes of this cohort instead.")
    ] = None,
    choose: Annotated[
        Literal["frequent", "predictive", "vocabulary"], typer.Option(help="How words are chosen from a cohort.")
    ] = "predictive",
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="How many words are chosen.")] = 49,
    raters: Annotated[int, typer.Option(min=1, help="How many clinicians will rate.")] = 3,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write the sheet that clinicians fill in: a row a word, a column a rater, scores from 1 to 5."""
    from palpate.commands import texts

    listed = texts.write_word_sheet(file, words=words, cohort=cohort, how=choose, n=n, raters=raters)
    out.print(f"{len(listed)} words are in [bold]{escape(str(file))}[/bold].", soft_wrap=True)
    out.print(
        "Let the raters fill in one column each: 1 = the word does not matter for the outcome, 5 = it matters most; a "
        "word may stay empty. Name the filled sheet as `raters:` of the audit `vocabulary`."
    )


@app.command()
def alter(
    file: Annotated[Path, typer.Argument(help="A text file with one note; -: standard input.", show_default=False)],
    characteristic: Annotated[
        list[str], typer.Option("--characteristic", "-c", help="gender, age, ethnicity, ...; may be given again.")
    ],
    to: Annotated[list[str], typer.Option("--to", help="The group, one for each characteristic, in order.")],
    definition: Annotated[
        list[Path] | None, typer.Option(help="A characteristic of your own, in YAML; may be given again.")
    ] = None,
    contradictory: Annotated[
        Literal["skip", "alter"], typer.Option(help="What becomes of a pregnant man: left alone, or altered.")
    ] = "skip",
    plain: Annotated[bool, typer.Option("--plain", help="Print the altered note only, without marks.")] = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Change one characteristic of the patient in a note, and show what was changed."""
    from palpate.commands import texts

    altered = texts.alter_note(file, characteristic, to, definitions=definition or (), contradictory=contradictory)
    if plain:
        typer.echo(altered.result.text, nl=False)
    else:
        out.print(_difference(altered.note, altered.result.edits), soft_wrap=True, end="")
    why = f": {altered.result.reason}" if altered.result.reason else ""
    n = len(altered.result.edits)
    changes = f", {n} place{'' if n == 1 else 's'}" if n else ""
    err.print(f"[bold]{altered.result.action}[/bold]{escape(why)}{changes}", soft_wrap=True)


def _difference(note: str, edits: Sequence[Edit]) -> Text:
    """The note with what went and what came; marks that are readable without colours too."""
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
