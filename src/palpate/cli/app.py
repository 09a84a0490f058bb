"""The application object, the two consoles, and the options that several commands share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from palpate import __version__

EXIT_CODES = (
    "Exit codes: 0 done, 1 a condition of the gate fails, 2 the input is wrong, 3 a model failed, "
    "70 internal error, 130 stopped."
)
app = typer.Typer(
    name="palpate",
    help="Shows how a clinical prediction model behaves, beyond its AUROC.",
    no_args_is_help=True,
    epilog=f"{EXIT_CODES} --debug-with-notes is --debug with what the errors say, which may quote notes.",
    rich_markup_mode=None,  # help is shown as it is written; as Rich's markup, [a, b] would disappear
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
_WIDE = 200
"""Of a file or a pipe, which has no width: tables keep their words whole."""
out = Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else _WIDE)
err = Console(stderr=True, highlight=False, emoji=False)

ConfigFile = Annotated[Path, typer.Argument(help="The configuration, audit.yaml.", show_default=False)]
Only = Annotated[list[str] | None, typer.Option("--only", help="Run only this audit; repeatable.")]
Settings = Annotated[list[str] | None, typer.Option("--set", metavar="OPTION=VALUE", help="Set an option; repeatable.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def _version(asked: bool) -> None:
    if asked:
        out.print(f"palpate {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None: ...
