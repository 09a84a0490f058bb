"""What a file of templates or cases says is right: a label of two, a class, labels decided each for itself, a function.

    label            1 or 0, or two words of which one is named as positive
    class            the name of the class that must have the highest probability
    label:NAME       one column per label: 1, 0, or empty where it does not matter
    expect           FILE.py:function, which says whether a case passes

A label is compared as a whole word, never guessed from part of its name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from palpate.errors import ConfigError
from palpate.perturb.suites.expectations import Expectation, RightAnswer
from palpate.perturb.suites.schema import SuiteLabels
from palpate.perturb.suites.tables import EACH

FLAGS = {"1": True, "0": False, "true": True, "false": False, "yes": True, "no": False} | {
    "positive": True,
    "negative": False,
    "1.0": True,
    "0.0": False,
}
LABEL, CLASS, EXPECT = "label", "class", "expect"


class GivenAnswer(NamedTuple):
    """The right answer of a row: one of two labels, something about several, or none where a function decides."""

    label: bool | None = None
    wanted: RightAnswer | None = None


class AnswerReader:
    """Reads the right answers of one file, and remembers the names of its labels."""

    def __init__(self, file: Path, columns: Collection[str], positive: str | None) -> None:
        self.file, self.positive = file, positive
        self.each = tuple(name for name in columns if name.startswith(EACH))
        self.exclusive = CLASS in columns
        self._negative: str | None = None
        self._classes: dict[str, int] = {}
        kinds = [name for name in (*self.each[:1], CLASS, LABEL) if name in columns]
        if len(kinds) > 1:
            raise ConfigError(f"there is a column '{kinds[1]}' too", file=file, column=kinds[0], hint="keep one")
        if not kinds and EXPECT not in columns:
            hint = f"give a column label, class, expect or several label:NAME; the columns are: {', '.join(columns)}"
            raise ConfigError("column not found", file=file, column=LABEL, hint=hint)
        if positive is not None and kinds != [LABEL]:
            problem = f"'{positive}' is named as positive, but the file has no column '{LABEL}'"
            raise ConfigError(problem, file=file, hint="leave out `positive`")

    def read(self, cells: Mapping[str, str], row: int) -> GivenAnswer:
        """The right answer in a row; none where an expectation decides and nothing else is said."""
        if not any(cells.get(name) for name in (LABEL, CLASS, *self.each)):
            if cells.get(EXPECT):
                return GivenAnswer()
            if self.each:
                hint = "give 1 or 0 in at least one of the label columns"
                raise ConfigError("no label has an answer", file=self.file, row=row, column=self.each[0], hint=hint)
            column = CLASS if self.exclusive else LABEL
            raise ConfigError("the cell is empty", file=self.file, row=row, column=column, hint="fill it in")
        if self.exclusive:
            return GivenAnswer(wanted=RightAnswer(highest=self._class(cells[CLASS], row)))
        if self.each:
            return GivenAnswer(wanted=self._labels(cells, row))
        return GivenAnswer(self._label(cells[LABEL], row))

    def labels(self) -> SuiteLabels:
        """The names of the two labels."""
        if self.positive is None:
            return SuiteLabels()
        return SuiteLabels(self.positive, self._negative or f"not {self.positive}")

    def classes(self) -> tuple[str, ...]:
        """The names of several labels, in the order of the file; empty where there are two."""
        if self.each:
            return tuple(name.removeprefix(EACH) for name in self.each)
        if self.exclusive and len(self._classes) < 2:
            problem = "all rows have the same class, so there is nothing to choose from"
            raise ConfigError(problem, file=self.file, column=CLASS, hint="add rows of other classes")
        return tuple(self._classes)

    def _label(self, word: str, row: int) -> bool:
        """Whether a word is the positive label."""
        if self.positive is None:
            if word.lower() not in FLAGS:
                hint = "use 1 and 0, or name the positive label with `positive`; more than two go in a column `class`"
                raise ConfigError(f"the label is '{word[:32]}'", file=self.file, row=row, column=LABEL, hint=hint)
            return FLAGS[word.lower()]
        if word != self.positive:
            self._negative = self._negative or word
            if word != self._negative:
                problem = f"'{word[:32]}' is a third label besides '{self.positive}' and '{self._negative}'"
                hint = "use two labels, or name the column `class`"
                raise ConfigError(problem, file=self.file, row=row, column=LABEL, hint=hint)
        return word == self.positive

    def _class(self, word: str, row: int) -> str:
        """The name of a class; one that is written in two ways is a slip."""
        for other, first in self._classes.items():
            if word != other and word.split() and word.lower().split() == other.lower().split():
                problem = f"'{word[:32]}' and '{other[:32]}' (row {first}) differ only in capitals or blanks"
                raise ConfigError(problem, file=self.file, row=row, column=CLASS, hint="write them alike")
        self._classes.setdefault(word, row)
        return word

    def _labels(self, cells: Mapping[str, str], row: int) -> RightAnswer:
        said: dict[str, bool] = {}
        for column in self.each:
            word = cells.get(column, "")
            if word and word.lower() not in FLAGS:
                hint = "use 1, 0 or nothing"
                raise ConfigError(f"the label is '{word[:32]}'", file=self.file, row=row, column=column, hint=hint)
            if word:
                said[column.removeprefix(EACH)] = FLAGS[word.lower()]
        there, gone = (tuple(name for name in said if said[name] is wanted) for wanted in (True, False))
        return RightAnswer(present=there, absent=gone)


def read_expectation(text: str, file: Path, row: int) -> Expectation | None:
    """`FILE.py:function`, with the path relative to the file that names it; None for an empty cell."""
    if not text:
        return None
    path, _, name = text.rpartition(":")
    if not path.endswith(".py") or not name.isidentifier():
        hint = "write rules.py:function"
        raise ConfigError(f"'{text[:32]}' is not an expectation", file=file, row=row, column=EXPECT, hint=hint)
    return Expectation(name, file.parent / path)
