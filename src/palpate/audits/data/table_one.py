"""Table 1 as the report, the run directory and the findings have it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import polars as pl

from palpate.audits.data.cells import MonthRange, Quartiles, Summary, ValueCount
from palpate.audits.data.population import PopulationTable, TableLine
from palpate.audits.kit.attributes import written_number
from palpate.audits.kit.rows import RowWriter
from palpate.audits.kit.tables import columns, table
from palpate.audits.kit.wording import counted, listed, percent
from palpate.results import Estimate, Finding, Table
from palpate.results.blocks import Cell

DIFFERENCE = "standardised_difference"
VISIBLE = 0.1
"""Standardised differences below this are commonly called balanced."""
WITHHELD = "withheld"
_MOST_NAMED = 5
_SCHEMA = {
    "table": pl.String,
    "part": pl.String,
    "characteristic": pl.String,
    "value": pl.String,
    "n": pl.Int64,
    "of": pl.Int64,
    "median": pl.Float64,
    "lower_quartile": pl.Float64,
    "upper_quartile": pl.Float64,
    "weighted_n": pl.Float64,
    "weighted_of": pl.Float64,
    "weighted_median": pl.Float64,
    "weighted_lower_quartile": pl.Float64,
    "weighted_upper_quartile": pl.Float64,
    "first_month": pl.String,
    "last_month": pl.String,
    DIFFERENCE: pl.Float64,
    "reason": pl.String,
}


def population_block(found: PopulationTable, title: str, smallest_cell: int) -> Table:
    """One table; what is compared has a column of differences at the end."""
    several = len(found.compared) > 1
    against = found.reference or "other groups"
    heads = [f"{name} against {against}" if several else f"Difference to {against}" for name in found.compared]
    if found.reference is None and found.compared:
        heads = ["Largest difference"]
    rows: list[tuple[Cell, ...]] = []
    for line in found.lines:
        numbers = [_size(each.value, line.left_out) for each in line.differences] or [""] * len(heads)
        cells = [_cell(cell, line, smallest_cell) for cell in line.cells]
        rows.append((line.name, line.value or "number", *cells, *numbers))
    for each in found.crowded:
        told = f"{each.n_values:,} different values: too many to show"
        rows.append((each.name, told, *("" for _ in found.parts), *("" for _ in heads)))
    return table(
        title,
        _caption(found, smallest_cell),
        columns("Characteristic", "Value", *(part.name for part in found.parts), *heads),
        rows,
        collapsed=len(rows) > 60,
    )


def _caption(found: PopulationTable, smallest_cell: int) -> str:
    told = "Cases, with their share of those whose value is known; missing ones, of all."
    if found.reference is not None:
        told += (
            f" Standardised differences to {found.reference}: the difference over the spread, whatever the number "
            f"of cases, of a category the distance of all its values at once (two multinomials, Yang and Dalton 2012); "
            f"below {VISIBLE:g} is commonly called balanced."
        )
    elif found.compared:
        told += " The largest standardised difference between two groups stands in the last column."
    if _is_weighed(found):
        told += (
            " Counts and shares are those of the cases in the table; beside them, those of the population that they "
            "stand for by their sampling weights. Differences are of the cases."
        )
    if smallest_cell > 1:
        told += (
            f" Counts of fewer than {smallest_cell} patients are not told, nor the one more that would give them away "
            f"({WITHHELD}); values of fewer patients count as other. Shares are of all cases where the number of "
            "missing ones is not told. A difference is made without values whose count is not told, since it would "
            "tell it."
        )
    return told


def _is_weighed(found: PopulationTable) -> bool:
    return any(getattr(cell, "weighed", None) is not None for line in found.lines for cell in line.cells)


def _size(value: float | None, left_out: int = 0) -> str:
    """A difference to the two digits that it has, and how many values it is made without."""
    if value is None:
        return ""
    size = "no overlap" if math.isinf(value) else f"{value:.2f}"
    return size if not left_out else f"{size} (without {counted(left_out, 'value')})"


def _cell(cell: Summary, line: TableLine, smallest_cell: int) -> str:
    if isinstance(cell, ValueCount):
        if cell.n is None:
            return f"<{smallest_cell} patients" if cell.few else WITHHELD
        if not line.value:
            return f"{cell.n:,}" if cell.weighed is None else f"{cell.n:,}; weighted {_short(cell.weighed[0])}"
        return f"{cell.n:,} ({percent(cell.n / cell.of)}){_weighed(cell)}" if cell.of else "0"
    if isinstance(cell, MonthRange):
        return "" if cell.first is None else f"{cell.first} to {cell.last}"
    if cell.median is None:
        return ""
    told = f"{_short(cell.median)} ({_short(cell.lower)} to {_short(cell.upper)})"
    if cell.weighed is None:
        return told
    median, lower, upper = map(_short, cell.weighed)
    return f"{told}; weighted {median} ({lower} to {upper})"


def _weighed(cell: ValueCount) -> str:
    """`; weighted 1,204 (31%)`: what the cases stand for, as in a survey."""
    if cell.weighed is None:
        return ""
    mass, of = cell.weighed
    return f"; weighted {_short(mass)}" + (f" ({percent(mass / of)})" if of else "")


def _short(value: float | None) -> str:
    """Four digits, and whole numbers whole."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else written_number(float(f"{value:.4g}"))


def population_frame(tables: Sequence[tuple[str, PopulationTable]]) -> pl.DataFrame:
    """All tables in long form: what a paper's Table 1 is made from."""
    rows = []
    for name, found in tables:
        for line in found.lines:
            known = {name: each.value for name, each in zip(found.compared, line.differences, strict=False)}
            for part, cell in zip(found.parts, line.cells, strict=True):
                row = {"table": name, "part": part.name, "characteristic": line.name, "value": line.value}
                rows.append({**row, **_numbers(cell), DIFFERENCE: known.get(part.name)})
        for each in found.crowded:
            told = f"{each.n_values:,} different values"
            rows.append({"table": name, "characteristic": each.name, "value": "", "reason": told})
    return pl.DataFrame(rows, schema=_SCHEMA)


def _numbers(cell: Summary) -> dict[str, object]:
    if isinstance(cell, ValueCount):
        reason = WITHHELD if cell.n is None else None
        mass, of = cell.weighed or (None, None)
        counts = {"n": cell.n, "of": None if cell.n is None else cell.of, "reason": reason}
        return {**counts, "weighted_n": mass, "weighted_of": of}
    if isinstance(cell, Quartiles):
        names = ("median", "lower_quartile", "upper_quartile")
        found = dict(zip(names, (cell.median, cell.lower, cell.upper), strict=True))
        weighed = dict(zip((f"weighted_{name}" for name in names), cell.weighed or (None,) * 3, strict=True))
        return {**found, **weighed}
    return {"first_month": cell.first, "last_month": cell.last}


def difference_rows(found: PopulationTable, models: Sequence[str]) -> Iterator[Estimate]:
    """The differences to development (or to the first cohort) as estimates, the same for every model."""
    if found.reference is None:
        return
    writer = RowWriter("data")
    sizes = {part.name: len(part.rows) for part in found.parts}
    for model in models:
        for line in found.lines:
            for part, (value, _) in zip(found.compared, line.differences, strict=False):
                group = _told(line) if len(found.compared) == 1 else f"{_told(line)}, {part}"
                why = "there is nothing to compare" if value is None else None
                why = "no value occurs in both" if value is not None and math.isinf(value) else why
                yield writer.row(
                    model, DIFFERENCE, "", group, value, n=sizes[part], reference=found.reference, reason=why
                )


def _told(line: TableLine) -> str:
    return f"{line.name}, {line.value}" if line.value in ("missing", "events") else line.name


def population_findings(found: PopulationTable) -> Iterator[Finding]:
    """Where evaluation is made up differently than development by more than chance, and what could not be shown."""
    for part in found.compared if found.reference is not None else ():
        apart = found.beyond_chance(part, VISIBLE)
        if apart:
            named = listed([f"{_told(line)} ({_size(value)})" for line, value in apart[:_MOST_NAMED]])
            more = f", and {len(apart) - _MOST_NAMED} more" if len(apart) > _MOST_NAMED else ""
            yield Finding(
                sentence=f"The {part} cases are made up differently than {found.reference} by more than chance "
                f"(standardised differences above {VISIBLE:g}): {named}{more}."
            )
    for each in found.crowded:
        yield Finding(
            sentence=f"Attribute '{each.name}' has {counted(each.n_values, 'different value')}, too many for a table "
            "or for groups: put them into fewer categories, or take it out of the cohort's `attributes:`.",
            kind="caveat",
        )
