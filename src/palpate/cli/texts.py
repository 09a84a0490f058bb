"""Commands about words and wording: `words`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape

from palpate.cli.app import Debug, app, out

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
    n: Annotated[int, typer.Option(min=1, help="How many words are chosen.")] = 49,
    raters: Annotated[int, typer.Option(min=1, help="How many clinicians will rate.")] = 3,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write the sheet that clinicians fill in: a row a word, a column a rater, scores from 1 to 5."""
    from palpate import jobs

    listed = jobs.write_word_sheet(file, words=words, cohort=cohort, how=choose, n=n, raters=raters)
    out.print(f"{len(listed)} words are in [bold]{escape(str(file))}[/bold].", soft_wrap=True)
    out.print(
        "Send it out, or a copy to each rater: 1 = the word does not matter for the outcome, 5 = it matters most; a word "
        "may stay empty. Name the filled sheet as `raters:` of the audit `vocabulary`."
    )
