"""From rows of a file to a suite: labels, slots, tests; used for templates (CSV) and finished cases (JSON Lines)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from palpate.data.suites.answers import AnswerReader
from palpate.errors import ConfigError
from palpate.perturb.suites import check_templates
from palpate.perturb.suites.expectations import Expectation
from palpate.perturb.suites.lexicons import Lexicon
from palpate.perturb.suites.schema import Capability, Direction, SlotRelation, Template, Test, TestType
from palpate.perturb.suites.suite import Suite

RELATIONS = (
    SlotRelation("more", "time_entity_large", "time_entity_small", by="days", ratio=1.25, sample=7),
    SlotRelation("more", "time_entity_l", "time_entity_s", by="days", ratio=1.25, sample=7),
    SlotRelation("more", "longer", "shorter", by="days", ratio=1.25, sample=7),
)
"""Slots of which one is a longer time than the other, under the names that groups use."""


class SuiteRow(NamedTuple):
    """A template or case from a file, before it is assigned to a test."""

    capability: str
    test: str
    type: TestType
    template: Template
    rule: tuple[float | None, Direction | None, float | None]
    expect: Expectation | None = None


NO_RULE: tuple[float | None, Direction | None, float | None] = (None, None, None)


def assemble(
    file: Path,
    rows: Sequence[SuiteRow],
    answers: AnswerReader,
    lexicons: Mapping[str, Lexicon],
    *,
    all_variations: bool,
) -> Suite:
    """Group rows into capabilities and tests, in the order of the file, and check the result."""
    if not rows:
        raise ConfigError("the file has no cases", file=file, hint="give at least one")
    tests: dict[str, dict[str, list[SuiteRow]]] = {}
    for row in rows:
        tests.setdefault(row.capability, {}).setdefault(row.test, []).append(row)
    capabilities = []
    for capability, by_test in tests.items():
        made = [_test(file, name, members, all_variations=all_variations) for name, members in by_test.items()]
        capabilities.append(Capability(capability, capability, tuple(made)))
    relations = tuple(tie for tie in RELATIONS if tie.first in lexicons and tie.second in lexicons)
    labels, classes = answers.labels(), answers.classes()
    suite = Suite(file.stem, tuple(capabilities), lexicons, relations, labels=labels, classes=classes, file=file)
    check_templates(suite)
    return suite


def _test(file: Path, name: str, rows: Sequence[SuiteRow], *, all_variations: bool) -> Test:
    first = rows[0]
    check_alike(file, name, rows)
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
        expect=first.expect,
    )


def check_alike(file: Path, test: str, rows: Sequence[SuiteRow]) -> None:
    """Refuse a test with more than one type or rule."""
    rule = (rows[0].type, rows[0].rule, rows[0].expect)
    odd = next((row for row in rows if (row.type, row.rule, row.expect) != rule), None)
    if odd is not None:
        problem = f"line {odd.template.line}: test '{test}' has cases with different types or rules"
        raise ConfigError(problem, file=file, hint="give them different names in `test`")
