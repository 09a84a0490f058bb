"""Attributes of the cohort as groups of cases: categories, and numbers cut into ranges.

A missing value is a group of its own, and an attribute with more values than can be read is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import polars as pl

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints
from palpate.errors import ConfigError, closest

MISSING = "missing"
FEW_VALUES = 10
"""A number with more different values than that is cut into ranges; with fewer, each value is a group."""


class Cutting(NamedTuple):
    """How attributes become groups."""

    cuts: Mapping[str, Sequence[float]]
    n_quantiles: int
    most_groups: int
    remedy: str = "put them into fewer categories in the table, or raise `most_groups`"
    """What to do about an attribute with more values."""


def check_cuts(audit: str, cutting: Cutting, names: Sequence[str]) -> None:
    """Refuse bounds of attributes that are not asked for, and bounds that do not rise."""
    for name, bounds in cutting.cuts.items():
        if name not in names:
            hint = closest(name, names, all_are="the attributes in `by` are")
            raise ConfigError(f"audit '{audit}', option 'cuts': '{name}' is not in `by`", hint=hint, at=("cuts",))
        if not bounds or any(b <= a for a, b in pairwise(bounds)):
            raise ConfigError(
                f"audit '{audit}', option 'cuts': the bounds of '{name}' must rise", hint="such as [40, 65, 80]"
            )


class Levels(NamedTuple):
    """The groups of one attribute."""

    names: list[str]
    code: Ints
    """Missing values have the last code, and a name if there are any."""


def attribute_levels(audit: str, cohort: Cohort, rows: Ints, name: str, cutting: Cutting) -> Levels:
    """The group of each of some cases, by one attribute."""
    if name not in cohort.attributes:
        hint = "list the column under the cohort's `attributes:`"
        if cohort.attributes:
            hint += f"; {closest(name, cohort.attributes, all_are='its attributes are')}"
        raise ConfigError(f"audit '{audit}': the cohort has no attribute '{name}'", hint=hint, at=("by",))
    column = cohort.cases[name].gather(rows)
    if not column.dtype.is_numeric():
        if name in cutting.cuts:
            raise ConfigError(
                f"audit '{audit}', option 'cuts': attribute '{name}' is not a number", hint="leave it out of `cuts`"
            )
        return _categories(audit, name, cleaned(column), cutting)
    known = column.drop_nulls()
    if name not in cutting.cuts and known.n_unique() <= FEW_VALUES:
        return _categories(audit, name, column, cutting)
    bounds = [float(bound) for bound in cutting.cuts.get(name, ())]
    if not bounds:
        shares = np.arange(1, cutting.n_quantiles) / cutting.n_quantiles
        bounds = np.unique(np.quantile(known.to_numpy(), shares, method="higher")).tolist()
        bounds = [bound for bound in bounds if bound > float(np.min(known.to_numpy()))]
    code = np.searchsorted(bounds, column.fill_null(0).to_numpy(), side="right")
    return _with_missing(_ranges(bounds), np.where(column.is_null().to_numpy(), len(bounds) + 1, code))


def cleaned(column: pl.Series) -> pl.Series:
    """Strings without spaces around them; an empty one is missing."""
    text = column.cast(pl.String).str.strip_chars()
    return text.set(text == "", None)


def _categories(audit: str, name: str, column: pl.Series, cutting: Cutting) -> Levels:
    values = column.drop_nulls().unique().sort().to_list()
    if len(values) > cutting.most_groups:
        raise ConfigError(
            f"audit '{audit}': attribute '{name}' has {len(values):,} different values, "
            f"more than {cutting.most_groups} groups",
            hint=cutting.remedy,
            at=("by",),
        )
    place = {value: k for k, value in enumerate(values)}
    code = np.asarray([len(values) if value is None else place[value] for value in column.to_list()], np.int64)
    named = [written_number(value) if isinstance(value, int | float) else str(value) for value in values]
    return _with_missing(named, code)


def _with_missing(names: list[str], code: Ints) -> Levels:
    own = MISSING if MISSING not in names else "value missing"
    return Levels([*names, own] if bool((code == len(names)).any()) else names, code)


def written_number(value: float) -> str:
    """A value of a numeric attribute in the name of a group."""
    return f"{value:g}" if abs(value) < 1e6 else f"{value:.10g}"


def _ranges(bounds: Sequence[float]) -> list[str]:
    """`under 40`, `40 to under 65`, `65 and over`."""
    if not bounds:
        return ["any value"]
    named = [written_number(bound) for bound in bounds]
    between = [f"{a} to under {b}" for a, b in pairwise(named)]
    return [f"under {named[0]}", *between, f"{named[-1]} and over"]
