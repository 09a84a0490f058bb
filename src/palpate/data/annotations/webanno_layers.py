"""Headers and cells of WebAnno TSV 3.x: which columns a layer has, and how its values are escaped."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from palpate.errors import CohortError

_ESCAPED = re.compile(r"\\(->|.)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f"}
_NUMBER = re.compile(r"(?s)(.*)(?<!\\)((?:\\\\)*)\[(\d+)\]")


class Layer(NamedTuple):
    """A layer of the header: T_SP for spans, T_RL for relations, T_CH for chains; its columns in the file's order."""

    kind: str
    name: str
    columns: tuple[str, ...]

    @property
    def plain(self) -> tuple[int, ...]:
        """The columns that hold values; a slot has a column for its role and one for the target, which are links."""
        slots = {k for k, name in enumerate(self.columns) if name.startswith("ROLE_")}
        kept = tuple(k for k in range(len(self.columns)) if k not in slots and k - 1 not in slots)
        return kept or (0,)


def read_layer(row: str, number: int, file: Path) -> Layer:
    """A line such as `#T_SP=webanno.custom.Code|code|note`; a layer without features has one column."""
    kind, _, rest = row.removeprefix("#").partition("=")
    name, *columns = rest.strip().split("|")
    if kind not in ("T_SP", "T_RL", "T_CH") or not name:
        hint = "a layer's line looks like #T_SP=name|feature"
        raise CohortError("the header names a layer in a way that is not known", file=file, row=number, hint=hint)
    return Layer(kind, name, tuple(columns) or ("",))


def unescape(value: str) -> str:
    """A value or a text as it was before its special characters got a backslash."""
    return _ESCAPED.sub(lambda match: _CONTROL.get(match[1], match[1]), value) if "\\" in value else value


def split_outside_escapes(value: str, separator: str) -> list[str]:
    """The parts between separators that have no backslash before them, still escaped."""
    parts, start, k = [], 0, 0
    while k < len(value):
        if value[k] == "\\":
            k += 2
        elif value[k] == separator:
            parts.append(value[start:k])
            start = k = k + 1
        else:
            k += 1
    return [*parts, value[start:]]


def without_number(value: str) -> tuple[str, str | None]:
    """A value, still escaped, and the number in brackets behind it, if it has one."""
    match = _NUMBER.fullmatch(value)
    return (match[1] + match[2], match[3]) if match else (value, None)
