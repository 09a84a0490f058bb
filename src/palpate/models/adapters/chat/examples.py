"""Worked examples before each question, from a file as people keep one: CSV, JSON Lines, JSON or YAML.

A column `text` (or note) and a column `answer`; with several labels also `label`, or a column for each label.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from palpate.errors import ConfigError, parse_json
from palpate.files import parse_value
from palpate.privacy import hides

_TEXT, _ANSWER = (
    ("text", "note", "input", "question", "user"),
    ("answer", "output", "assistant", "response", "completion"),
)
_BOOLEANS = {True: "yes", False: "no"}
_AT = ("examples",)
_MOST = 200


@hides("text", "answer")
class Example(NamedTuple):
    """A text with the answer that it should get; for one label, or for all."""

    text: str
    answer: str
    label: str | None = None


def read_examples(file: Path, labels: Sequence[str], *, as_json: bool) -> tuple[Example, ...]:
    """The examples of a file, in order."""
    try:
        content = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"`examples`: file not found: {file}", hint="check the path", at=_AT) from None
    except UnicodeDecodeError:
        raise _error(file, "is not UTF-8", "save it as UTF-8") from None
    except OSError as error:
        raise _error(file, f"cannot be read ({error.strerror})", "check the path") from None
    rows = _rows(file, content)
    if not rows:
        raise _error(file, "has no example", "it needs `text` and `answer`")
    if len(rows) > _MOST:
        raise _error(file, f"has {len(rows):,} examples", f"all are sent with each question; keep at most {_MOST}")
    found = [each for k, row in enumerate(rows, start=1) for each in _examples(file, k, row, labels, as_json)]
    return tuple(found)


def _error(file: Path, problem: str, hint: str, row: int | None = None) -> ConfigError:
    where = f", row {row}" if row is not None else ""
    return ConfigError(f"`examples`: {file}{where}: {problem}", hint=hint, at=_AT)


def _rows(file: Path, content: str) -> list[dict[str, Any]]:
    """The rows as mappings; the suffix says how they are written, and a wrong one is forgiven where it can be."""
    if not content.strip():
        return []
    kind = file.suffix.lower()
    if kind in (".yaml", ".yml"):
        try:
            found = parse_value(content)
        except ValueError as error:
            told = re.search(r"\bline (\d+)", str(error.__cause__))  # of YAML's marks and of palpate's own sentences
            raise _error(file, "is not valid YAML", f"look at line {told[1] if told else 1}") from None
        return _listed(file, found.get("examples", [found]) if isinstance(found, dict) else found)
    if kind in (".jsonl", ".ndjson", ".json") or content.lstrip()[0] in "[{":
        return _json_rows(file, content)
    first = content.splitlines()[0]
    delimiter = max(",;\t|", key=first.count)
    table = csv.DictReader(io.StringIO(content, newline=""), delimiter=delimiter, strict=True)
    try:
        rows = [dict(row) for row in table]
    except csv.Error as error:
        raise _error(file, f"is not a table ({error})", "export it again") from None
    for k, row in enumerate(rows, start=1):
        if None in row:
            raise _error(file, "has more cells than the header", "put texts with the delimiter in quotes", k)
    return [row for row in rows if any((cell or "").strip() for cell in row.values())]


def _json_rows(file: Path, content: str) -> list[dict[str, Any]]:
    try:
        found = parse_json(content)
    except ValueError:
        found = []
        for k, line in enumerate(content.splitlines(), start=1):
            if line.strip():
                try:
                    found.append(parse_json(line))
                except ValueError:
                    raise _error(file, f"line {k} is not JSON", "write one object per line") from None
    return _listed(file, found if isinstance(found, list) else [found])


def _listed(file: Path, found: Any) -> list[dict[str, Any]]:
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise _error(file, "is not a list of examples", "each needs `text` and `answer`")
    return found


def _examples(file: Path, number: int, row: Mapping[Any, Any], labels: Sequence[str], as_json: bool) -> list[Example]:
    """The examples of one row: one, or one for each label that has a column."""
    cells = {str(name).strip().casefold(): value for name, value in row.items()}
    text = next((_cell(cells[name]) for name in _TEXT if name in cells), None)
    if text is None:
        raise _error(file, "there is no `text`", f"its columns are: {', '.join(map(str, row))}", number)
    answer = next((_cell(cells[name]) for name in _ANSWER if name in cells), None)
    if answer is not None:
        label = _cell(cells.get("label")) or None
        if label is not None and label not in labels:
            raise _error(file, f"'{label}' is no label of the model", f"its labels are: {', '.join(labels)}", number)
        wanted = [Example(text, answer, label)]
    else:
        own = {label: cells[label.casefold()] for label in labels if label.casefold() in cells}
        if not own:
            raise _error(file, "there is no `answer`", f"its columns are: {', '.join(map(str, row))}", number)
        whole = json.dumps({label: _number(value) for label, value in own.items()})
        wanted = (
            [Example(text, whole)] if as_json else [Example(text, _cell(value), label) for label, value in own.items()]
        )
    if not text or any(not each.answer for each in wanted):
        raise _error(file, f"the {'text' if not text else 'answer'} is empty", "fill it in or drop the row", number)
    return wanted


def _number(value: Any) -> Any:
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _cell(value: Any) -> str:
    """A cell as text; YAML reads a bare yes or no as true or false."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return _BOOLEANS[value]
    return (json.dumps(value) if isinstance(value, dict | list) else str(value)).strip()
