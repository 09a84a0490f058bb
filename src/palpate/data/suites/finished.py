"""Finished cases of another group, one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from palpate.data.suites.assembly import LabelWords, SuiteRow, assemble, check_alike, read_text
from palpate.errors import ConfigError
from palpate.perturb.suites.patterns import Flat, parse
from palpate.perturb.suites.schema import TYPES, Direction, Template, TestType
from palpate.perturb.suites.suite import Suite


def import_jsonl(path: str | Path, *, positive: str | None = None, tolerance: float = 0.1) -> Suite:
    """A suite from finished cases, one JSON object per line: `text`, and `label` or `changed`.

    `capability`, `test`, `type`, `template` (the base template of the case), `direction`, `margin`, `tolerance` and
    `tags` are read too. The cases of a template become its variations; a default run takes all of them.
    """
    file = Path(path)
    words = LabelWords(file, positive)
    grouped: dict[tuple[str, str, str, bool | None], list[tuple[SuiteRow, str, str]]] = {}
    for number, line in enumerate(read_text(file).split("\n"), start=1):
        if not line.strip():
            continue
        row, text, changed = _case_row(_parse_json(line, file, number), words, number, tolerance)
        grouped.setdefault((row.capability, row.test, row.template.id, row.template.label), []).append(
            (row, text, changed)
        )
    rows: list[SuiteRow] = []
    for members in grouped.values():
        first = members[0][0]
        check_alike(file, first.test, [row for row, _, _ in members])
        listed = tuple(Flat((text,), ()) for _, text, _ in members)
        second = tuple(Flat((changed,), ()) for _, _, changed in members) if members[0][2] else ()
        rows.append(first._replace(template=_with_listed(first.template, listed, second)))
    return assemble(file, rows, words.labels(), {}, all_variations=True)


def _parse_json(line: str, file: Path, number: int) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"line {number}: not JSON ({error.msg})", file=file, hint="write one object per line"
        ) from None
    if not isinstance(record, dict) or not isinstance(record.get("text"), str) or not record["text"].strip():
        raise ConfigError(f"line {number}: no `text`", file=file, hint='write {"text": "...", "label": 1}')
    return record


def _case_row(record: Mapping[str, Any], words: LabelWords, number: int, tolerance: float) -> tuple[SuiteRow, str, str]:
    """A case's capability, test and rule, its text and its second text."""
    file, changed = words.file, record.get("changed") or ""
    kind = record.get("type") or ("MFT" if not changed else "DIR" if record.get("direction") else "INV")
    if kind not in TYPES:
        raise ConfigError(f"line {number}: the type is '{kind}'", file=file, hint=f"choose one of {', '.join(TYPES)}")
    if (kind == "MFT") == bool(changed):
        raise ConfigError(f"line {number}: an MFT has no `changed` text, INV and DIR need one", file=file)
    given = record.get("label")
    label = None if given is None else words.read(str(given), number)
    if label is None and kind == "MFT":
        raise ConfigError(f"line {number}: the case has no `label`", file=file, hint="give 1 or 0")
    direction = record.get("direction")
    if kind == "DIR" and direction not in ("up", "down"):
        raise ConfigError(f"line {number}: a DIR case needs a `direction`", file=file, hint="give up or down")
    rule = (
        _share(record, "tolerance", tolerance, file, number) if kind == "INV" else None,
        cast(Direction, direction) if kind == "DIR" else None,
        _share(record, "margin", 0.0, file, number) if kind == "DIR" else None,
    )
    capability = str(record.get("capability") or "imported")
    name = str(record.get("template") or f"line-{number}")
    template = Template(name, parse(""), label, _tags(record, file, number), line=number, file=file)
    test = str(record.get("test") or capability)
    return SuiteRow(capability, test, cast(TestType, kind), template, rule), record["text"], str(changed)


def _tags(record: Mapping[str, Any], file: Path, number: int) -> tuple[str, ...]:
    """Tags from a list, or from one text with blanks between them, as in a CSV file."""
    given = record.get("tags") or []
    if not isinstance(given, list | str):
        raise ConfigError(f"line {number}: `tags` is not a list", file=file, hint='write "tags": ["one", "other"]')
    return tuple(str(tag) for tag in (given.split() if isinstance(given, str) else given))


def _share(record: Mapping[str, Any], name: str, default: float, file: Path, number: int) -> float:
    """A number from 0 to 1 in a case's rule."""
    given = record.get(name)
    if given is None:
        return default
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
        problem = f"line {number}: the {name} is {json.dumps(given)[:32]}"
        raise ConfigError(problem, file=file, hint="give a number from 0 to 1")
    return float(given)


def _with_listed(template: Template, listed: tuple[Flat, ...], second: tuple[Flat, ...]) -> Template:
    return Template(
        template.id, template.pattern, template.label, template.tags, None, template.line, template.file, listed, second
    )
