"""The `--help` of every command, word for word, as `help/COMMAND.txt` has it.

After a change of a help text (or of Typer, which lays it out), write the files anew and read the difference:

    PALPATE_UPDATE_HELP=1 pytest tests/cli/test_help.py && git diff tests/cli/help
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner

from palpate.cli import app

FILES = Path(__file__).parent / "help"


def commands(group: Typer, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words that call each command and group of commands; none for the application itself."""
    yield words
    for command in group.registered_commands:
        assert command.callback is not None
        yield (*words, command.name or command.callback.__name__)
    for inner in group.registered_groups:
        assert inner.name is not None
        assert inner.typer_instance is not None
        yield from commands(inner.typer_instance, (*words, inner.name))


def file_of(words: tuple[str, ...]) -> Path:
    return FILES / f"{'-'.join(('palpate', *words))}.txt"


COMMANDS = list(commands(app))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_help_of_every_command(words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*words, "--help"], prog_name="palpate")  # 80 columns wide, without colours
    assert shown.exit_code == 0
    if os.environ.get("PALPATE_UPDATE_HELP"):
        file_of(words).write_text(shown.output, encoding="utf-8")
    assert shown.output == file_of(words).read_text(encoding="utf-8")


def test_no_file_is_left_of_a_command_that_is_gone() -> None:
    assert {file.name for file in FILES.iterdir()} == {file_of(words).name for words in COMMANDS}


def test_brackets_are_shown() -> None:
    assert "[a, b]" in file_of(("suite", "show")).read_text(encoding="utf-8")
