"""A user's own template suites: in YAML, as templates in CSV, or as finished cases in JSON Lines; and writing cases.

A label is compared as a whole word, never guessed from part of its name: 1/0, true/false, yes/no, positive/negative, or
the word given as `positive` and one other word.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO, cast

from palpate.errors import ConfigError
from palpate.files import replacing
from palpate.perturb.suites import check_templates, list_suites, load_suite, read_suite_yaml, suites_folder
from palpate.perturb.suites.cases import Case, SuiteCases
from palpate.perturb.suites.lexicons import Attribute, Lexicon, load_lexicon, make_entry
from palpate.perturb.suites.patterns import Flat, PatternError, parse
from palpate.perturb.suites.schema import (
    TYPES,
    Capability,
    Direction,
    SlotRelation,
    SuiteLabels,
    Template,
    Test,
    TestType,
)
from palpate.perturb.suites.suite import Suite

FLAGS = {"1": True, "0": False, "true": True, "false": False, "yes": True, "no": False} | {
    "positive": True,
    "negative": False,
}
SLOTS = {
    **dict.fromkeys(("drug", "drugs", "drug_name", "medication"), "drugs"),
    **dict.fromkeys(("ade", "ades", "effect", "adverse_effect"), "effects"),
    **dict.fromkeys(("mild_ade", "ade_mild", "mild_effect"), "mild_effects"),
    **dict.fromkeys(("time", "time_entity", "time_entity_large", "time_entity_small", "longer", "shorter"), "times"),
}
"""Slots in other groups' templates that palpate's own lexicons fill, unless values are given."""
RELATIONS = (
    SlotRelation("more", "time_entity_large", "time_entity_small", by="days", ratio=1.25, sample=7),
    SlotRelation("more", "longer", "shorter", by="days", ratio=1.25, sample=7),
)
FIELDS = (
    *("number", "capability", "test", "type", "label", "template", "variation", "change", "text", "changed"),
    *("slots", "tags"),
)


class _Row(NamedTuple):
    """A template or case from a file, before it is assigned to a test."""

    capability: str
    test: str
    type: TestType
    template: Template
    rule: tuple[float | None, Direction | None, float | None]


Slots = Mapping[str, str | Sequence[str | Mapping[str, Attribute]]]
"""The values of slots by name: one text, or a list of texts and entries with attributes."""


def read_suite(name: str, *, positive: str | None = None, slots: Slots | None = None) -> Suite:
    """One of palpate's own suites by its name, or a suite from a file; `slots` gives some slots other values."""
    own = name in list_suites() or not Path(name).suffix
    suite = load_suite(name) if own else read_suite_file(Path(name), positive=positive, slots=slots)
    return suite.with_slots(slots) if slots else suite


def read_suite_file(file: Path, *, positive: str | None = None, slots: Slots | None = None) -> Suite:
    """A suite from a YAML file, a CSV file of templates or a JSONL file of cases.

    `positive` is the word for the positive label in CSV and JSONL files. Slots of a CSV file that no lexicon of palpate
    fills get their values from `slots`; apart from that, the suite is as the file has it.
    """
    if not file.is_file():
        hint = f"give a YAML, CSV or JSONL file, or one of palpate's own suites: {', '.join(list_suites())}"
        raise ConfigError("suite not found", file=file, hint=hint)
    if file.suffix == ".csv":
        lexicons = {slot: _texts(values) for slot, values in (slots or {}).items()}
        return import_csv(file, lexicons=lexicons, positive=positive)
    return import_jsonl(file, positive=positive) if file.suffix == ".jsonl" else read_suite_yaml(file)


def _texts(values: str | Sequence[str | Mapping[str, Attribute]]) -> list[str]:
    listed = (values,) if isinstance(values, str) else values
    return [value if isinstance(value, str) else str(value.get("value", "")) for value in listed]


def import_csv(
    path: str | Path, *, lexicons: Mapping[str, Sequence[str]] | None = None, positive: str | None = None
) -> Suite:
    """A suite from rows of `capability,label,template` with `{slots}`; columns `test`, `id` and `tags` are read too.

    `lexicons` are the values of slots by name; slots that palpate has a lexicon for need none.
    """
    file = Path(path)
    reader = csv.DictReader(io.StringIO(_read(file), newline=""))
    rows: list[_Row] = []
    columns = [name.strip().lower() for name in reader.fieldnames or ()]
    for needed in ("capability", "label", "template"):
        if needed not in columns:
            raise ConfigError("column not found", file=file, column=needed, hint="the first line names the columns")
    reader.fieldnames = columns
    words = _LabelWords(file, positive)
    for number, row in enumerate(reader, start=1):
        given = {key: (value or "").strip() for key, value in row.items() if key is not None and isinstance(value, str)}
        for needed in ("capability", "label", "template"):
            if not given.get(needed):
                raise ConfigError("the cell is empty", file=file, row=number, column=needed, hint="fill it in")
        try:
            pattern = parse(given["template"], alternatives=False)
        except PatternError as error:
            raise ConfigError(str(error), file=file, row=number, column="template") from None
        template = Template(
            id=given.get("id") or f"row-{number}",
            pattern=pattern,
            label=words.read(given["label"], number),
            tags=tuple(given.get("tags", "").split()),
            line=reader.line_num,
            file=file,
        )
        rows.append(_Row(given["capability"], given.get("test") or given["capability"], "MFT", template, _NO_RULE))
    filled = _fill_slots(rows, file, lexicons or {})
    return _suite(file, rows, words.labels(), filled, all_variations=False)


def import_jsonl(path: str | Path, *, positive: str | None = None, tolerance: float = 0.1) -> Suite:
    """A suite from finished cases, one JSON object per line: `text`, and `label` or `changed`.

    `capability`, `test`, `type`, `template` (the base template of the case), `direction`, `margin`, `tolerance` and
    `tags` are read too. The cases of a template become its variations; a default run takes all of them.
    """
    file = Path(path)
    words = _LabelWords(file, positive)
    grouped: dict[tuple[str, str, str, bool | None], list[tuple[_Row, str, str]]] = {}
    for number, line in enumerate(_read(file).split("\n"), start=1):
        if not line.strip():
            continue
        row, text, changed = _case_row(_parse_json(line, file, number), words, number, tolerance)
        grouped.setdefault((row.capability, row.test, row.template.id, row.template.label), []).append(
            (row, text, changed)
        )
    rows: list[_Row] = []
    for members in grouped.values():
        first = members[0][0]
        _check_alike(file, first.test, [row for row, _, _ in members])
        listed = tuple(Flat((text,), ()) for _, text, _ in members)
        second = tuple(Flat((changed,), ()) for _, _, changed in members) if members[0][2] else ()
        rows.append(first._replace(template=_with_listed(first.template, listed, second)))
    return _suite(file, rows, words.labels(), {}, all_variations=True)


def write_cases(cases: SuiteCases | Iterable[SuiteCases], path: str | Path) -> int:
    """Write cases to a .csv or .jsonl file, for a model that runs elsewhere; returns how many.

    `label` is 1, 0 or empty. A stream of `SuiteCases` (`Suite.sample_batches`) is written batch by batch.
    """
    file = Path(path)
    if file.suffix not in (".csv", ".jsonl"):
        raise ConfigError(
            f"cases can't be written as '{file.suffix}'", file=file, hint="give a file name that ends in .csv or .jsonl"
        )
    batches = [cases] if isinstance(cases, SuiteCases) else cases
    with replacing(file) as scratch, scratch.open("w", encoding="utf-8", newline="") as stream:
        return _write_csv(batches, stream) if file.suffix == ".csv" else _write_jsonl(batches, stream)


def _write_csv(batches: Iterable[SuiteCases], stream: TextIO) -> int:
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(FIELDS)
    n = 0
    for record in _records(batches):
        flat = {**record, "slots": json.dumps(record["slots"], ensure_ascii=False), "tags": " ".join(record["tags"])}
        writer.writerow(["" if flat[name] is None else flat[name] for name in FIELDS])
        n += 1
    return n


def _write_jsonl(batches: Iterable[SuiteCases], stream: TextIO) -> int:
    n = 0
    for record in _records(batches):
        stream.write(json.dumps(record, ensure_ascii=False) + "\n")
        n += 1
    return n


def _records(batches: Iterable[SuiteCases]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        for row in range(len(batch)):
            case, unit = batch[row], batch.units[int(batch.unit[row])]
            record = _record(case)
            rule = {"tolerance": unit.test.tolerance, "direction": unit.test.direction, "margin": unit.test.margin}
            yield {**record, **{key: value for key, value in rule.items() if value is not None}}


def _record(case: Case) -> dict[str, Any]:
    slots = [
        {"slot": filled.slot, "value": filled.value, "start": filled.start, "end": filled.end} for filled in case.slots
    ]
    record = {**case._asdict(), "label": None if case.label is None else int(case.label), "slots": slots}
    record["tags"] = list(case.tags)
    return {name: record[name] for name in FIELDS}


_NO_RULE: tuple[float | None, Direction | None, float | None] = (None, None, None)


class _LabelWords:
    """Reads the labels in a file and remembers their names."""

    def __init__(self, file: Path, positive: str | None) -> None:
        self.file, self.positive = file, positive
        self.negative: str | None = None

    def read(self, word: str, row: int) -> bool:
        if self.positive is None:
            if word.lower() not in FLAGS:
                hint = "use 1 and 0, or name the positive label with `positive`"
                raise ConfigError(f"the label is '{word[:32]}'", file=self.file, row=row, column="label", hint=hint)
            return FLAGS[word.lower()]
        if word != self.positive:
            self.negative = self.negative or word
            if word != self.negative:
                problem = f"'{word[:32]}' is a third label besides '{self.positive}' and '{self.negative}'"
                raise ConfigError(problem, file=self.file, row=row, column="label", hint="use two labels")
        return word == self.positive

    def labels(self) -> SuiteLabels:
        if self.positive is None:
            return SuiteLabels()
        return SuiteLabels(self.positive, self.negative or f"not {self.positive}")


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"the file can't be read ({error.strerror})", file=file, hint="check the path") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"the file is not UTF-8 (byte {error.start})", file=file, hint="save it as UTF-8") from None


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


def _case_row(record: Mapping[str, Any], words: _LabelWords, number: int, tolerance: float) -> tuple[_Row, str, str]:
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
    return _Row(capability, test, cast(TestType, kind), template, rule), record["text"], str(changed)


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


def _fill_slots(rows: Sequence[_Row], file: Path, given: Mapping[str, Sequence[str]]) -> dict[str, Lexicon]:
    """The lexicon of every slot that the templates use."""
    lexicons: dict[str, Lexicon] = {}
    for number, row in enumerate(rows, start=1):
        for slot in row.template.variations()[0].slots:
            if slot.name in lexicons:
                continue
            if slot.name in given:
                entries = tuple(make_entry(value) for value in dict.fromkeys(given[slot.name]))
                lexicons[slot.name] = Lexicon(slot.name, entries)
            elif slot.name in SLOTS:
                path = suites_folder() / "lexicons" / f"{SLOTS[slot.name]}.yaml"
                lexicons[slot.name] = load_lexicon(path, SLOTS[slot.name])
            else:
                hint = f"give its values; palpate has values for {', '.join(SLOTS)}"
                problem = f"unknown slot '{{{slot.name}}}'"
                raise ConfigError(problem, file=file, row=number, column="template", hint=hint)
    return lexicons


def _suite(
    file: Path, rows: Sequence[_Row], labels: SuiteLabels, lexicons: Mapping[str, Lexicon], *, all_variations: bool
) -> Suite:
    """Group rows into capabilities and tests, in the order of the file, and check the result."""
    if not rows:
        raise ConfigError("the file has no cases", file=file, hint="give at least one")
    tests: dict[str, dict[str, list[_Row]]] = {}
    for row in rows:
        tests.setdefault(row.capability, {}).setdefault(row.test, []).append(row)
    capabilities = []
    for capability, by_test in tests.items():
        made = [_test(file, name, members, all_variations=all_variations) for name, members in by_test.items()]
        capabilities.append(Capability(capability, capability, tuple(made)))
    relations = tuple(tie for tie in RELATIONS if tie.first in lexicons and tie.second in lexicons)
    suite = Suite(file.stem, tuple(capabilities), lexicons, relations, labels=labels, file=file)
    check_templates(suite)
    return suite


def _test(file: Path, name: str, rows: Sequence[_Row], *, all_variations: bool) -> Test:
    first = rows[0]
    _check_alike(file, name, rows)
    tolerance, direction, margin = first.rule
    return Test(
        id=name,
        title=name,
        type=first.type,
        templates=tuple(row.template for row in rows),
        tolerance=tolerance,
        direction=direction,
        margin=margin,
        all_variations=all_variations,
    )


def _check_alike(file: Path, test: str, rows: Sequence[_Row]) -> None:
    """Refuse a test with more than one type or rule."""
    odd = next((row for row in rows if (row.type, row.rule) != (rows[0].type, rows[0].rule)), None)
    if odd is not None:
        problem = f"line {odd.template.line}: test '{test}' has cases with different types or rules"
        raise ConfigError(problem, file=file, hint="give them different names in `test`")
