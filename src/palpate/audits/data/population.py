"""Who was audited, counted: every characteristic of the cases by cohort and split, and how far evaluation lies from
development (TRIPOD+AI, items 20b and 20c). A cohort in, numbers out; what may not leave the hospital is not in them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from palpate.audits.data.cells import CaseWeights, MonthRange, PopulationPart, Quartiles, Summary, ValueCount
from palpate.audits.data.checks import TRAINED_ON
from palpate.audits.kit.attributes import FEW_VALUES, Cutting, attribute_levels, cleaned, written_number
from palpate.audits.kit.scope import most_frequent_labels
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints
from palpate.stats.groups import category_difference, chance_difference, number_difference
from palpate.stats.precision import n_distinct

AUDIT = "data"
DEVELOPMENT = "development"
MISSING, OTHER = "missing", "other"
MANY_VALUES = 100
"""Text with more different values than that is no category: free text, or the number of something."""
MOST_PARTS = 12
Mask = NDArray[np.bool_]
_NUMBERED = re.compile(r"[\[(<>=≤≥ ]*(-?\d+(?:\.\d+)?)")
_NONE: Ints = np.zeros(0, dtype=np.int64)


class Apartness(NamedTuple):
    """How far the cases of a part are from what they are compared with, in one respect."""

    value: float | None
    """The standardised difference, to the two digits that are reported; infinite where both are constant and differ,
    None where it is undefined."""
    by_chance: float
    """How large it becomes by chance alone, 19 times out of 20, with as many patients."""


class TableLine(NamedTuple):
    """One line of the table."""

    name: str
    value: str
    """Which value is counted, or what is told of a number."""
    cells: tuple[Summary, ...]
    """For each part."""
    differences: tuple[Apartness, ...] = ()
    """For each part that is compared."""
    left_out: int = 0
    """How many values of a category the differences are made without, because too few patients of a part have them."""


class CrowdedAttribute(NamedTuple):
    """An attribute with more values than a table can show."""

    name: str
    n_values: int


@dataclass(frozen=True, eq=False)
class PopulationTable:
    """One table."""

    parts: tuple[PopulationPart, ...]
    reference: str | None
    """What parts are compared with: `development`, another part, or None where groups are compared with each other."""
    compared: tuple[str, ...]
    """The parts that differences are about."""
    lines: tuple[TableLine, ...]
    crowded: tuple[CrowdedAttribute, ...] = ()

    def beyond_chance(self, part: str, least: float) -> list[tuple[TableLine, float]]:
        """Differences of a part that are at least so large, and larger than chance alone makes them; largest first."""
        k = self.compared.index(part)
        found = [(line, line.differences[k]) for line in self.lines if line.differences]
        large = [(line, each.value) for line, each in found if (each.value or 0.0) > max(least, each.by_chance)]
        return sorted(((line, value) for line, value in large if value is not None), key=lambda each: -each[1])


class Showing(NamedTuple):
    """What is shown of each characteristic."""

    labels: tuple[str, ...]
    most_labels: int
    most_values: int
    smallest_cell: int
    """Counts of fewer patients are not told, and values of fewer patients not named."""


Distance = Callable[[Ints, Ints], float]
"""Of two sets of rows whose values are known."""
Compare = Callable[[Distance, Mask, int], tuple[Apartness, ...]]
"""Given a distance, which rows have a value, and between how many values they are divided."""


def population(cohort: Cohort, split: str, showing: Showing) -> PopulationTable:
    """Table 1: a part for each cohort and split that is used; evaluation against development."""
    development, evaluation = _parts(cohort, split)
    seen = np.concatenate([_NONE, *(part.rows for part in development)])
    reference = DEVELOPMENT if len(seen) else evaluation[0].name if len(evaluation) > 1 else None
    compared = evaluation if len(seen) else evaluation[1:]
    base = seen if len(seen) else evaluation[0].rows if evaluation else _NONE

    def compare(distance: Distance, known: Mask, n_values: int) -> tuple[Apartness, ...]:
        if reference is None:
            return ()
        return tuple(_apart(cohort, distance, known, n_values, part.rows, base) for part in compared)

    parts = (*development, *evaluation)
    lines, crowded = _lines(cohort, parts, showing, compare)
    return PopulationTable(parts, reference, tuple(part.name for part in compared), lines, crowded)


def groups_of(cohort: Cohort, split: str, by: str, showing: Showing) -> PopulationTable:
    """The same by an attribute of the audited cases; each line has the largest difference between two groups."""
    rows = cohort.rows(split=split)
    hint = "put them into fewer categories in the table"
    levels = attribute_levels(AUDIT, cohort, rows, [by], Cutting({}, 4, MOST_PARTS, hint))[by]
    parts = tuple(_part(cohort, f"{by}={name}", rows[levels.code == k]) for k, name in enumerate(levels.names))

    def compare(distance: Distance, known: Mask, n_values: int) -> tuple[Apartness, ...]:
        pairs = [
            _apart(cohort, distance, known, n_values, first.rows, second.rows)
            for first, second in combinations(parts, 2)
        ]
        return (max(pairs, key=lambda each: -1.0 if each.value is None else each.value),) if pairs else ()

    lines, crowded = _lines(cohort, parts, showing, compare, leave_out=by)
    return PopulationTable(parts, None, ("between groups",), lines, crowded)


def _apart(cohort: Cohort, distance: Distance, known: Mask, n_values: int, first: Ints, second: Ints) -> Apartness:
    first, second = first[known[first]], second[known[second]]
    found = distance(first, second)
    patients = [n_distinct(cohort.patients[rows]) for rows in (first, second)]
    return Apartness(None if math.isnan(found) else round(found, 2), chance_difference(n_values, *patients))


def _part(cohort: Cohort, name: str, rows: Ints) -> PopulationPart:
    return PopulationPart(name, rows, n_distinct(cohort.patients[rows]))


def _parts(cohort: Cohort, split: str) -> tuple[tuple[PopulationPart, ...], tuple[PopulationPart, ...]]:
    """(development, evaluation): the splits that a model has seen, and the audited cases, of each cohort."""
    development, evaluation = [], []
    for name in cohort.names:
        where = f"{name}, " if len(cohort.names) > 1 else ""
        rows = cohort.rows(cohort=name)
        splits = cohort.cases["split"].gather(rows) if "split" in cohort.cases.columns else None
        for each in TRAINED_ON if splits is not None else ():
            chosen = rows[(splits == each).fill_null(False).to_numpy()] if splits is not None else _NONE
            if each != split and len(chosen):
                development.append(_part(cohort, f"{where}{each}", chosen))
        audited = cohort.rows(cohort=name, split=split)
        if len(audited):
            told = name if splits is None or splits.is_null().all() else f"{where}{split}"
            evaluation.append(_part(cohort, told, audited))
    return tuple(development), tuple(evaluation)


def _lines(
    cohort: Cohort, parts: Sequence[PopulationPart], showing: Showing, compare: Compare, leave_out: str | None = None
) -> tuple[tuple[TableLine, ...], tuple[CrowdedAttribute, ...]]:
    """Every line of the table, in the order of a paper: numbers of cases, period, outcomes, attributes, notes."""
    table = _Lines(cohort, parts, showing, compare, CaseWeights.of(cohort, parts))
    lines = [*table.sizes(), *table.times(), *table.outcomes()]
    crowded = []
    for name in cohort.attributes:
        if name == leave_out:
            continue
        column = cohort.cases[name]
        if column.dtype.is_numeric() and column.drop_nulls().n_unique() > FEW_VALUES:
            lines += table.number(name, column)
            continue
        text = _written(column)
        n_values = text.drop_nulls().n_unique()
        if n_values > MANY_VALUES:
            crowded.append(CrowdedAttribute(name, n_values))
            lines += table.missing(name, text)
        else:
            lines += table.category(name, text, ordered=column.dtype.is_numeric())
    if cohort.has_text:
        lines += table.number("note length", cohort.cases["text"].str.len_chars(), "characters: ")
    return tuple(lines), tuple(crowded)


def _place(value: str) -> float:
    """Where a number, or a range such as `[10-20)`, stands among others."""
    found = _NUMBERED.match(value)
    return float(found[1]) if found else math.inf


def _written(column: pl.Series) -> pl.Series:
    if not column.dtype.is_numeric():
        return cleaned(column)
    written = [None if value is None else written_number(value) for value in column.to_list()]
    return pl.Series(column.name, written, dtype=pl.String)


class _Lines(NamedTuple):
    """Makes the lines of one table."""

    cohort: Cohort
    parts: Sequence[PopulationPart]
    showing: Showing
    compare: Compare
    weights: CaseWeights

    def sizes(self) -> Iterator[TableLine]:
        """Cases and patients."""
        least = self.showing.smallest_cell
        few = [0 < part.n_patients < least for part in self.parts]
        for name, sizes in (
            ("cases", [len(part.rows) for part in self.parts]),
            ("patients", [part.n_patients for part in self.parts]),
        ):
            cells = [ValueCount(None if hidden else n, n, hidden) for n, hidden in zip(sizes, few, strict=True)]
            if name == "cases":
                cells = [
                    self.weights.counted(cell, part.rows, part.rows)
                    for cell, part in zip(cells, self.parts, strict=True)
                ]
            yield TableLine(name, "", tuple(cells))

    def times(self) -> Iterator[TableLine]:
        """The period, in months: a day would be that of a patient."""
        if "time" not in self.cohort.cases.columns or self.cohort.cases["time"].is_null().all():
            return
        cells = []
        for part in self.parts:
            times = self.cohort.cases["time"].gather(part.rows).drop_nulls()
            known = len(times) > 0 and part.n_patients >= self.showing.smallest_cell
            months = times.dt.strftime("%Y-%m").sort().to_list() if known else [None]
            cells.append(MonthRange(months[0], months[-1]))
        yield TableLine("period", "first to last month", tuple(cells))

    def outcomes(self) -> Iterator[TableLine]:
        """The most common labels."""
        rows = np.concatenate([_NONE, *(part.rows for part in self.parts)])
        labels = self.showing.labels
        if len(labels) > self.showing.most_labels:
            places = [self.cohort.labels.index(label) for label in labels]
            positive = np.asarray(self.cohort.y.tocsr()[rows][:, places].sum(axis=0, dtype=np.int64)).ravel()
            labels = most_frequent_labels(labels, positive, self.showing.most_labels)
        for label in labels:
            column = self.cohort.y[:, [self.cohort.labels.index(label)]].toarray().ravel()
            yield self._flag(label, "events", column > 0)

    def _flag(self, name: str, value: str, flag: Mask) -> TableLine:
        """A yes or no, told by how many have it; the number of the others follows, so both must be large enough."""
        cells = []
        for part in self.parts:
            has = flag[part.rows]
            few, others = (self._is_few(part.rows[which]) for which in (has, ~has))
            cell = ValueCount(None if few or others else int(has.sum()), len(has), few)
            cells.append(self.weights.counted(cell, part.rows[has], part.rows))

        told = all(cell.n is not None for cell in cells)  # a difference would tell the number that is not told
        return TableLine(name, value, tuple(cells), self._of_flag(flag) if told else ())

    def _of_flag(self, flag: Mask) -> tuple[Apartness, ...]:
        def distance(first: Ints, second: Ints) -> float:
            counts = [[int(flag[rows].sum()), int((~flag[rows]).sum())] for rows in (first, second)]
            return category_difference(*counts)

        return self.compare(distance, np.ones(len(flag), bool), 2)

    def _is_few(self, rows: Ints) -> bool:
        return 0 < n_distinct(self.cohort.patients[rows]) < self.showing.smallest_cell

    def missing(self, name: str, column: pl.Series) -> Iterator[TableLine]:
        """How many have no value, where there are any."""
        absent = column.is_null().to_numpy()
        if any(absent[part.rows].any() for part in self.parts):
            yield self._flag(name, MISSING, absent)

    def number(self, name: str, column: pl.Series, unit: str = "") -> Iterator[TableLine]:
        """Median and quartiles of those that are known, and how many are not."""
        values, known = column.cast(pl.Float64).to_numpy(), column.is_not_null().to_numpy()
        cells = []
        for part in self.parts:
            rows = part.rows[known[part.rows]]
            enough = len(rows) > 0 and not self._is_few(rows)
            found = np.quantile(values[rows], [0.5, 0.25, 0.75]).tolist() if enough else [None] * 3
            own = Quartiles(found[0], found[1], found[2])
            cells.append(own._replace(weighed=self.weights.quartiles(values, rows)) if enough else own)

        def distance(first: Ints, second: Ints) -> float:
            return number_difference(values[first], values[second])

        yield TableLine(name, f"{unit}median (quartiles)", tuple(cells), self.compare(distance, known, 2))
        yield from self.missing(name, column)

    def category(self, name: str, column: pl.Series, *, ordered: bool) -> Iterator[TableLine]:
        """How many have each value: the most frequent, or numbers in their order; then all others, and the missing."""
        named, code = self._values(column, ordered=ordered)
        counts = np.asarray([np.bincount(code[part.rows] + 1, minlength=len(named) + 1) for part in self.parts])
        hidden = [self._hidden(part, code, len(named)) for part in self.parts]

        # A difference is made from values of enough patients only: it tells no count that the table does not.
        told = [k for k in range(len(named)) if not any(few.get(k + 1, False) for few in hidden)]

        def distance(first: Ints, second: Ints) -> float:
            found = [np.bincount(code[rows] + 1, minlength=len(named) + 1)[1:][told] for rows in (first, second)]
            return category_difference(*found)

        shown = len(told) > 1 or len(told) == len(named)
        differences = self.compare(distance, np.isin(code, told), max(2, len(told))) if shown else ()
        for k, value in enumerate(named):
            cells = [self._count(p, counts[p], code, k + 1, hidden[p]) for p in range(len(self.parts))]
            without = len(named) - len(told) if differences else 0
            yield TableLine(name, value, tuple(cells), *((differences, without) if k == 0 else ()))
        if counts[:, 0].any():
            cells = [self._count(p, counts[p], code, 0, hidden[p]) for p in range(len(self.parts))]
            all_told = all(cell.n is not None for cell in cells)
            yield TableLine(name, MISSING, tuple(cells), self._of_flag(code < 0) if all_told else ())

    def _count(self, part: int, counts: Ints, code: Ints, place: int, hidden: Mapping[int, bool]) -> ValueCount:
        """A value's cases among those whose value is known; the missing ones (place 0) among all.

        Among all too where the number of missing ones is not told: it is what the known ones leave.
        """
        rows = self.parts[part].rows
        among = rows[code[rows] >= 0] if place and 0 not in hidden else rows
        cell = ValueCount(None if place in hidden else int(counts[place]), len(among), hidden.get(place, False))
        return self.weights.counted(cell, rows[code[rows] == place - 1], among)

    def _values(self, column: pl.Series, *, ordered: bool) -> tuple[list[str], Ints]:
        """The values that are named, then `other`; and each case's place among them, -1 where it is missing."""
        rows = np.concatenate([_NONE, *(part.rows for part in self.parts)])
        frame = pl.DataFrame({"value": column.gather(rows), "patient": self.cohort.patients[rows]}).drop_nulls()
        sizes = frame.group_by("value").agg(n=pl.len(), patients=pl.col("patient").n_unique())
        sizes = sizes.sort(["n", "value"], descending=[True, False])
        frequent = sizes.filter(pl.col("patients") >= self.showing.smallest_cell)["value"].to_list()
        named = frequent[: self.showing.most_values]
        if ordered or all(_NUMBERED.match(value) for value in named):
            named = sorted(named, key=_place)
        place = {value: k for k, value in enumerate(named)}
        others = sizes.height - len(named)
        known = (
            column.replace_strict(place, default=len(named), return_dtype=pl.Int64)
            if place
            else column.is_null().cast(pl.Int64)
        )
        code = known.set(column.is_null(), -1).to_numpy().astype(np.int64)
        return [*named, f"{OTHER} ({others:,} values)" if others > 1 else OTHER] if others else named, code

    def _hidden(self, part: PopulationPart, code: Ints, n_values: int) -> dict[int, bool]:
        """The places of counts that are not told, and whether because of their own size.

        One that is not told would follow from the others and their sum, so the smallest of these is not told either.
        """
        sizes = {}
        for place in range(n_values + 1):
            rows = part.rows[code[part.rows] == place - 1]
            if len(rows):
                sizes[place] = n_distinct(self.cohort.patients[rows])
        few = {place: True for place, size in sizes.items() if size < self.showing.smallest_cell}
        if len(few) == 1 and len(sizes) > 1:
            few[min((place for place in sizes if place not in few), key=lambda place: sizes[place])] = False
        return few
