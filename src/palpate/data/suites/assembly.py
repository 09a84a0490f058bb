"""From rows of a file to a suite: labels, slots, tests; used for templates (CSV) and finished cases (JSON Lines)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from palpate.errors import ConfigError
from palpate.perturb.suites import check_templates
from palpate.perturb.suites.lexicons import Lexicon
from palpate.perturb.suites.schema import Capability, Direction, SlotRelation, SuiteLabels, Template, Test, TestType
from palpate.perturb.suites.suite import Suite

FLAGS = {"1": True, "0": False, "true": True, "false": False, "yes": True, "no": False} | {
    "positive": True,
    "negative": False,
}
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


NO_RULE: tuple[float | None, Direction | None, float | None] = (None, None, None)


class LabelWords:
    """Reads the labels in a file and remembers their names."""

    def __init__(self, file: Path, positive: str | None) -> None:
        self.file, self.positive = file, positive
        self.negative: str | None = None

    def read(self, word: str, row: int) -> bool:
        """Whether a word is the positive label."""
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
        """The names of the two labels."""
        if self.positive is None:
            return SuiteLabels()
        return SuiteLabels(self.positive, self.negative or f"not {self.positive}")


def read_text(file: Path) -> str:
    """A file as text."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"the file can't be read ({error.strerror})", file=file, hint="check the path") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"the file is not UTF-8 (byte {error.start})", file=file, hint="save it as UTF-8") from None


def assemble(
    file: Path, rows: Sequence[SuiteRow], labels: SuiteLabels, lexicons: Mapping[str, Lexicon], *, all_variations: bool
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
    suite = Suite(file.stem, tuple(capabilities), lexicons, relations, labels=labels, file=file)
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
    )


def check_alike(file: Path, test: str, rows: Sequence[SuiteRow]) -> None:
    """Refuse a test with more than one type or rule."""
    odd = next((row for row in rows if (row.type, row.rule) != (rows[0].type, rows[0].rule)), None)
    if odd is not None:
        problem = f"line {odd.template.line}: test '{test}' has cases with different types or rules"
        raise ConfigError(problem, file=file, hint="give them different names in `test`")
