"""Templates of another group in a CSV file: rows of capability, label and template, grouped into base templates."""

from __future__ import annotations

import csv
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from palpate.data.suites.answers import CLASS, EXPECT, LABEL, AnswerReader, read_expectation
from palpate.data.suites.assembly import NO_RULE, SuiteRow, assemble
from palpate.errors import ConfigError
from palpate.files import replacing
from palpate.perturb.suites import suites_folder
from palpate.perturb.suites.grouping import group_variations, nearest_bases
from palpate.perturb.suites.lexicons import Attribute, Lexicon, load_lexicon
from palpate.perturb.suites.patterns import Part, Pattern, PatternError, Slot, parse
from palpate.perturb.suites.readers import is_id
from palpate.perturb.suites.schema import Template, Test
from palpate.perturb.suites.suite import Suite
from palpate.perturb.suites.tables import EACH, read_table
from palpate.privacy import as_cell

Slots = Mapping[str, str | Sequence[str | Mapping[str, Attribute]]]
"""The values of slots by name: one text, or a list of texts and entries with attributes."""
GroupedBy = Literal["column", "file", "wording"]
BASE_COLUMNS = ("base", "base_template", "base_id")
_LONGER_SHORTER = ("time_entity_large", "time_entity_small", "time_entity_l", "time_entity_s", "longer", "shorter")
SLOTS = {
    **dict.fromkeys(("drug", "drugs", "drug_name", "medication"), "drugs"),
    **dict.fromkeys(("ade", "ades", "effect", "adverse_effect"), "effects"),
    **dict.fromkeys(("mild_ade", "ade_mild", "mild_effect"), "mild_effects"),
    **dict.fromkeys(("time", "time_entity", *_LONGER_SHORTER), "times"),
}
"""Slots in other groups' templates that palpate's own lexicons fill, unless values are given."""


class ImportedTemplates(NamedTuple):
    """A suite from a CSV file, and how its rows were grouped into base templates."""

    suite: Suite
    n_rows: int
    grouped_by: GroupedBy


def import_csv(
    path: str | Path,
    *,
    lexicons: Slots | None = None,
    positive: str | None = None,
    base: str | Path | None = None,
) -> Suite:
    """A suite from rows of `capability,label,template` with `{slots}`; columns `test`, `id` and `tags` are read too.

    Instead of `label` there may be a column `class`, columns `label:NAME`, or a column `expect` (`answers`).

    `lexicons` are the values of slots by name; slots that palpate has a lexicon for need none. Rows are variations of
    one base template if the column `base` says so, or if the same row of the file `base` is nearest to them; without
    either, `group_variations` finds the groups by the rows' wording.
    """
    return import_templates(path, lexicons=lexicons, positive=positive, base=base).suite


def import_templates(
    path: str | Path,
    *,
    lexicons: Slots | None = None,
    positive: str | None = None,
    base: str | Path | None = None,
) -> ImportedTemplates:
    """The same with the number of rows and how they were grouped."""
    file = Path(path)
    answers, listed = read_rows(file, positive)
    rows = [_with_known_slots(row, lexicons or {}) for row, _ in listed]
    bases = [next((given[name] for name in BASE_COLUMNS if given.get(name)), "") for _, given in listed]
    grouped_by: GroupedBy
    keys: Sequence[Hashable]
    if base is not None:
        grouped_by, keys = "file", _nearest(rows, file, Path(base), positive)
    elif any(bases):
        grouped_by, keys = "column", _given(rows, file, bases)
    else:
        grouped_by, keys = "wording", group_variations([_text(row) for row in rows], [_place(row) for row in rows])
    filled = _fill_slots(rows, file, lexicons or {})
    suite = assemble(file, _grouped(rows, keys), answers, filled, all_variations=False)
    return ImportedTemplates(suite, len(rows), grouped_by)


def write_templates(suite: Suite, path: str | Path) -> int:
    """Write the variations of a suite's templates with their base template and answer; returns how many."""
    columns = _answer_columns(suite)
    n = 0
    with replacing(Path(path)) as scratch, scratch.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(map(as_cell, ("capability", "test", *columns, "base", "tags", "template")))
        for capability in suite.capabilities:
            for test in capability.tests:
                for template in test.templates if test.type == "MFT" else ():
                    answer, tags = _answer_cells(suite, test, template), " ".join(template.tags)
                    said = [answer.get(column, "") for column in columns]
                    for flat in template.variations():
                        cells = (capability.id, test.id, *said, template.id, tags, flat.source())
                        writer.writerow(map(as_cell, cells))
                        n += 1
    return n


def _answer_columns(suite: Suite) -> list[str]:
    asked = [template.wanted for template in suite.templates if template.wanted is not None]
    if any(wanted.highest is not None for wanted in asked):
        columns = [CLASS]
    else:
        columns = [f"{EACH}{name}" for name in suite.classes] or [LABEL]
    functions = any(test.expect is not None for capability in suite.capabilities for test in capability.tests)
    return [*columns, EXPECT] if functions else columns


def _answer_cells(suite: Suite, test: Test, template: Template) -> dict[str, str]:
    cells = {}
    if test.expect is not None:
        file = test.expect.file or Path()
        near = suite.file is not None and file.is_relative_to(suite.file.parent)
        shown = file.relative_to(suite.file.parent) if near and suite.file is not None else file
        cells[EXPECT] = f"{shown}:{test.expect.name}"
    if template.wanted is None:
        return {**cells, LABEL: suite.labels.name(template.label)}
    if template.wanted.highest is not None:
        return {**cells, CLASS: template.wanted.highest}
    said = {**dict.fromkeys(template.wanted.present, "1"), **dict.fromkeys(template.wanted.absent, "0")}
    return {**cells, **{f"{EACH}{name}": flag for name, flag in said.items()}}


def read_rows(file: Path, positive: str | None) -> tuple[AnswerReader, list[tuple[SuiteRow, dict[str, str]]]]:
    """Each row as a template of its own, and its cells."""
    columns, table = read_table(file)
    for needed in ("capability", "template"):
        if needed not in columns:
            listed = f"the columns are: {', '.join(columns)}" if columns else "the first line names the columns"
            raise ConfigError("column not found", file=file, column=needed, hint=listed)
    answers = AnswerReader(file, columns, positive)
    rows, seen = [], dict[str, tuple[int, Hashable]]()
    for number, line, given in table:
        for needed in ("capability", "template"):
            if not given.get(needed):
                raise ConfigError("the cell is empty", file=file, row=number, column=needed, hint="fill it in")
        row = _row(file, number, line, given, answers)
        text = _text(row)
        first, place = seen.setdefault(text, (number, _place(row)))
        if first != number:
            other = "" if place == _place(row) else ", with another answer"
            problem = f"the same text as in row {first}{other}"
            raise ConfigError(problem, file=file, row=number, column="template", hint="remove one or reword it")
        rows.append((row, given))
    return answers, rows


def _row(file: Path, number: int, line: int, given: Mapping[str, str], answers: AnswerReader) -> SuiteRow:
    try:
        pattern = parse(given["template"], alternatives=False)
    except PatternError as error:
        hint = None if "slot" in str(error) else "write a brace that is no slot twice, {{ or }}"
        raise ConfigError(str(error), file=file, row=number, column="template", hint=hint) from None
    expect = read_expectation(given.get(EXPECT, ""), file, number)
    label, wanted = answers.read(given, number)
    template = Template(
        id=given.get("id") or f"row-{number}",
        pattern=pattern,
        label=label,
        tags=tuple(given.get("tags", "").split()),
        line=line,
        file=file,
        wanted=wanted,
    )
    test = given.get("test") or given["capability"]
    return SuiteRow(given["capability"], test, "MFT", template, NO_RULE, expect)


def _text(row: SuiteRow) -> str:
    return row.template.variations()[0].written()


def _place(row: SuiteRow) -> Hashable:
    """What rows of one base template have in common, whatever their wording."""
    return row.capability, row.test, row.template.label, row.template.wanted, row.expect


def _given(rows: Sequence[SuiteRow], file: Path, bases: Sequence[str]) -> list[str]:
    """The base template that the column names for each row; it has one place in the suite."""
    places: dict[str, tuple[Hashable, int]] = {}
    for number, (row, base) in enumerate(zip(rows, bases, strict=True), start=1):
        if not base:
            hint = "name the base template of every row, or leave the column out"
            raise ConfigError("the cell is empty", file=file, row=number, column="base", hint=hint)
        place, first = places.setdefault(base, (_place(row), number))
        if place != _place(row):
            problem = f"base template '{base[:32]}' has another capability, test or label in row {first}"
            raise ConfigError(problem, file=file, row=number, column="base", hint="give it another name")
    return list(bases)


def _nearest(rows: Sequence[SuiteRow], file: Path, base: Path, positive: str | None) -> list[str]:
    """The base template of another file that is nearest to each row."""
    listed = [row for row, _ in read_rows(base, positive)[1]]
    found = nearest_bases(
        [_text(row) for row in rows], [_place(row) for row in rows], [(_place(row), _text(row)) for row in listed]
    )
    for number, at in enumerate(found, start=1):
        if at < 0:
            problem = f"no base template in {base.name} has its capability, label and slots"
            raise ConfigError(problem, file=file, row=number, column="template", hint="add one, or use a column `base`")
    return [f"base-{at + 1}" for at in found]


def _grouped(rows: Sequence[SuiteRow], keys: Sequence[Hashable]) -> list[SuiteRow]:
    """One row per base template, with the rows that belong to it as its variations."""
    members: dict[Hashable, list[SuiteRow]] = {}
    for row, key in zip(rows, keys, strict=True):
        members.setdefault(key, []).append(row)
    grouped = []
    for key, mine in members.items():
        first = mine[0].template
        template = replace(
            first,
            id=key if isinstance(key, str) and is_id(key) else first.id,
            tags=tuple(dict.fromkeys(tag for row in mine for tag in row.template.tags)),
            listed=tuple(row.template.variations()[0] for row in mine),
        )
        grouped.append(mine[0]._replace(template=template))
    return grouped


def _with_known_slots(row: SuiteRow, given: Slots) -> SuiteRow:
    """The row with `{Drug}` as `{drug}`: a slot that palpate fills is known whatever its capitals."""

    def known(part: Part) -> Part:
        if isinstance(part, Slot) and part.name not in given and part.name.lower() in SLOTS:
            return part._replace(name=part.name.lower())
        return part

    groups = tuple(tuple(tuple(map(known, option)) for option in group) for group in row.template.pattern.groups)
    return row._replace(template=replace(row.template, pattern=Pattern(groups)))


def _fill_slots(rows: Sequence[SuiteRow], file: Path, given: Slots) -> dict[str, Lexicon]:
    """The lexicon of every slot that the templates use."""
    lexicons: dict[str, Lexicon] = {}
    for number, row in enumerate(rows, start=1):
        for slot in row.template.variations()[0].slots:
            if slot.name in lexicons:
                continue
            if slot.name not in given and slot.name not in SLOTS:
                near = next((name for name in given if name.lower() == slot.name.lower()), None)
                hint = (
                    f"name its values in the same command, --set {slot.name}=FILE, or under `slots:` in audit.yaml; "
                    f"palpate has values for {', '.join(SLOTS)}"
                )
                if near is not None:
                    hint = f"'{near}' was given; write it with the capitals of the template, --set {slot.name}=FILE"
                problem = f"unknown slot '{{{slot.name}}}'"
                raise ConfigError(problem, file=file, row=number, column="template", hint=hint)
            known = Lexicon(slot.name, ())
            if slot.name in SLOTS:
                known = load_lexicon(suites_folder() / "lexicons" / f"{SLOTS[slot.name]}.yaml", SLOTS[slot.name])
            values = given.get(slot.name)
            listed = [values] if isinstance(values, str) else values
            lexicons[slot.name] = known if listed is None else known.with_values(listed)
    return lexicons
