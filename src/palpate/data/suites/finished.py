"""Finished cases of another group, one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from palpate.data.suites.answers import CLASS, EXPECT, LABEL, AnswerReader, GivenAnswer, read_expectation
from palpate.data.suites.assembly import NO_RULE, SuiteRow, assemble, check_alike
from palpate.errors import ConfigError, parse_json
from palpate.perturb.suites.patterns import Flat, parse
from palpate.perturb.suites.schema import TYPES, Direction, Template, TestType
from palpate.perturb.suites.suite import Suite
from palpate.perturb.suites.tables import EACH, read_text


def import_jsonl(path: str | Path, *, positive: str | None = None, tolerance: float = 0.1) -> Suite:
    """A suite from finished cases, one JSON object per line: `text`, and `label` or `changed`.

    Instead of `label` (1 or 0) there may be `class` (a name), `labels` (`{name: 1 or 0}`) or `expect` (a function).
    `capability`, `test`, `type`, `template` (the base template of the case), `direction`, `margin`, `tolerance` and
    `tags` are read too. The cases of a template become its variations; a default run takes all of them.
    """
    file = Path(path)
    lines = enumerate(read_text(file).split("\n"), start=1)
    records = [(number, _parse_json(line, file, number)) for number, line in lines if line.strip()]
    said = [_answer_cells(record, file, number) for number, record in records]
    columns = dict.fromkeys(name for cells in said for name in cells)
    answers = AnswerReader(file, list(columns) or [LABEL], positive)
    grouped: dict[tuple[str, str, str, GivenAnswer], list[tuple[SuiteRow, str, str]]] = {}
    for (number, record), cells in zip(records, said, strict=True):
        row, text, changed = _case_row(record, cells, answers, number, tolerance)
        answer = GivenAnswer(row.template.label, row.template.wanted)
        grouped.setdefault((row.capability, row.test, row.template.id, answer), []).append((row, text, changed))
    rows: list[SuiteRow] = []
    for members in grouped.values():
        first = members[0][0]
        check_alike(file, first.test, [row for row, _, _ in members])
        listed = tuple(Flat((text,), ()) for _, text, _ in members)
        second = tuple(Flat((changed,), ()) for _, _, changed in members) if members[0][2] else ()
        rows.append(first._replace(template=replace(first.template, listed=listed, listed_to=second)))
    return assemble(file, rows, answers, {}, all_variations=True)


def _parse_json(line: str, file: Path, number: int) -> dict[str, Any]:
    try:
        record = parse_json(line)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"line {number}: not JSON ({error.msg})", file=file, hint="write one object per line"
        ) from None
    if not isinstance(record, dict) or not isinstance(record.get("text"), str) or not record["text"].strip():
        raise ConfigError(f"line {number}: no `text`", file=file, hint='write {"text": "...", "label": 1}')
    return record


def _answer_cells(record: Mapping[str, Any], file: Path, number: int) -> dict[str, str]:
    """What a case says is right, as the cells of a table; what is said of several labels goes before `label`."""
    cells = {EXPECT: str(record[EXPECT])} if record.get(EXPECT) else {}
    labels = record.get("labels")
    if labels is not None:
        if not isinstance(labels, dict) or not labels:
            hint = 'write "labels": {"pneumonia": 1, "edema": 0}'
            raise ConfigError(f"line {number}: `labels` does not give 1 or 0 for each label", file=file, hint=hint)
        flags = {name: str(int(flag) if isinstance(flag, bool) else flag) for name, flag in labels.items()}
        return {**cells, **{f"{EACH}{name}": flag for name, flag in flags.items()}}
    for key in (CLASS, LABEL):
        if record.get(key) is not None:
            return {**cells, key: str(record[key])}
    return cells


def _case_row(
    record: Mapping[str, Any], cells: Mapping[str, str], answers: AnswerReader, number: int, tolerance: float
) -> tuple[SuiteRow, str, str]:
    """A case's capability, test and rule, its text and its second text."""
    file, changed = answers.file, record.get("changed") or ""
    kind = record.get("type") or ("MFT" if not changed else "DIR" if record.get("direction") else "INV")
    if kind not in TYPES:
        raise ConfigError(f"line {number}: the type is '{kind}'", file=file, hint=f"choose one of {', '.join(TYPES)}")
    if (kind == "MFT") == bool(changed):
        raise ConfigError(f"line {number}: an MFT has no `changed` text, INV and DIR need one", file=file)
    has_answer = set(cells) - {EXPECT}
    several = bool(answers.each) or answers.exclusive
    if not has_answer and EXPECT not in cells and (kind == "MFT" or (kind == "DIR" and several)):
        raise ConfigError(f"line {number}: the case has no `label`", file=file, hint="give 1 or 0")
    label, wanted = answers.read(cells, number) if has_answer else GivenAnswer()
    expect = read_expectation(cells.get(EXPECT, ""), file, number)
    rule = NO_RULE if expect is not None else _rule(record, kind, tolerance, file, number)
    capability = str(record.get("capability") or "imported")
    name = str(record.get("template") or f"line-{number}")
    tags = _tags(record, file, number)
    template = Template(name, parse(""), label, tags, line=number, file=file, wanted=wanted)
    test = str(record.get("test") or capability)
    return SuiteRow(capability, test, cast(TestType, kind), template, rule, expect), record["text"], str(changed)


def _rule(
    record: Mapping[str, Any], kind: str, tolerance: float, file: Path, number: int
) -> tuple[float | None, Direction | None, float | None]:
    """Tolerance, direction and margin of a pair."""
    direction = record.get("direction")
    if kind == "DIR" and direction not in ("up", "down"):
        raise ConfigError(f"line {number}: a DIR case needs a `direction`", file=file, hint="give up or down")
    return (
        _share(record, "tolerance", tolerance, file, number) if kind == "INV" else None,
        cast(Direction, direction) if kind == "DIR" else None,
        _share(record, "margin", 0.0, file, number) if kind == "DIR" else None,
    )


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
