"""A table of templates or values as people save it: with commas, semicolons or tabs, a byte order mark, empty rows."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import NamedTuple

from palpate.delimited import looks_like
from palpate.errors import ConfigError
from palpate.privacy import from_cell

MARKS = (",", ";", "\t")
"""What may separate the cells of a row."""
EACH = "label:"
"""Before the name of a label in the name of a column."""


class TableRow(NamedTuple):
    """A row that is not empty: its number below the header, its line in the file, and its cells by column."""

    number: int
    line: int
    cells: dict[str, str]


def read_text(file: Path) -> str:
    """A file as text."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"the file can't be read ({error.strerror})", file=file, hint="check the path") from None
    except UnicodeDecodeError as error:
        name = looks_like(file)
        seems = f", it looks like {name}" if name not in (None, "utf-8") else ""
        hint = "save it as UTF-8"
        raise ConfigError(f"the file is not UTF-8 (byte {error.start}{seems})", file=file, hint=hint) from None


def read_table(file: Path) -> tuple[list[str], list[TableRow]]:
    """The names of the columns in small letters, and the rows."""
    text = read_text(file)
    head = re.sub(r'"[^"]*"', "", text.partition("\n")[0])
    mark = max(MARKS, key=head.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark)
    columns = [_column(name) for name in next(reader, [])]
    twice = next((name for k, name in enumerate(columns) if name and name in columns[:k]), None)
    if twice is not None:
        raise ConfigError("it is there twice", file=file, column=twice, hint="rename one")
    rows, number = [], 0
    for cells in reader:
        if not cells:
            continue
        number += 1
        given = [from_cell(cell.strip()) for cell in cells]
        if any(given[len(columns) :]):
            said = {",": "comma", ";": "semicolon", "\t": "tab"}[mark]
            hint = f"put a text with a {said} into double quotes"
            raise ConfigError("it has more cells than there are columns", file=file, row=number, hint=hint)
        if any(given):
            rows.append(TableRow(number, reader.line_num, dict(zip(columns, given, strict=False))))
    return [name for name in columns if name], rows


def _column(name: str) -> str:
    """The name of a column in small letters; that of a label keeps its capitals."""
    start, colon, label = name.strip().partition(":")
    if colon and start.strip().lower() == EACH.removesuffix(":"):
        return f"{EACH}{label.strip()}"
    return name.strip().lower()
