"""The cases that the subgroups audit wants scored, and who belongs to which group.

Groups are attributes of the cohort, numbers cut into ranges, and intersections of them. A missing value is a group of
its own. Every case is in exactly one group of each partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from palpate.audits.kit.scope import audited_cohort, audited_labels, audited_rows, validation_rows
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints, Variants
from palpate.errors import ConfigError, closest
from palpate.results import Plan

AUDIT = "subgroups"
MISSING = "missing"
FEW_VALUES = 10
"""A number with more different values than that is cut into ranges; with fewer, each value is a group."""
By = str | tuple[str, ...]


class Partition(NamedTuple):
    """One way to divide the cases."""

    name: str
    """`gender`, or `gender × race`."""
    groups: tuple[str, ...]
    """`gender=female`, or `gender=female, race=black`; missing values come last."""
    code: Ints
    """The group of each case."""
    reference: str | None = None
    """The group that all others are compared with; without it, each is compared with all others together."""

    def rows(self, group: int) -> NDArray[np.bool_]:
        """The cases of one group."""
        return np.asarray(self.code == group)


class Cutting(NamedTuple):
    """How attributes become groups."""

    cuts: Mapping[str, Sequence[float]]
    n_quantiles: int
    most_groups: int


def partitions_of(
    cohort: Cohort, rows: Ints, by: Sequence[By], cutting: Cutting, references: Sequence[str]
) -> tuple[Partition, ...]:
    """The partitions that are asked for; by default, one for each attribute of the cohort."""
    wanted = list(dict.fromkeys(by or cohort.attributes))
    if not wanted:
        raise ConfigError(
            f"audit '{AUDIT}': the cohort has no attributes", hint="list columns under the cohort's `attributes:`"
        )
    names = list(dict.fromkeys(name for each in wanted for name in _names(each)))
    _check_cuts(cutting, names)
    columns = {name: _levels(cohort, rows, name, cutting) for name in names}
    made = [_partition([columns[name] for name in _names(each)], _names(each), cutting.most_groups) for each in wanted]
    return _with_references(made, references)


def _names(by: By) -> tuple[str, ...]:
    names = (by,) if isinstance(by, str) else by
    if not names or len(set(names)) < len(names):
        raise ConfigError(
            f"audit '{AUDIT}', option 'by': an intersection names at least one attribute, each once", at=("by",)
        )
    return names


def _check_cuts(cutting: Cutting, names: Sequence[str]) -> None:
    for name, bounds in cutting.cuts.items():
        if name not in names:
            hint = closest(name, names, all_are="the attributes in `by` are")
            raise ConfigError(f"audit '{AUDIT}', option 'cuts': '{name}' is not in `by`", hint=hint, at=("cuts",))
        if not bounds or any(b <= a for a, b in pairwise(bounds)):
            raise ConfigError(
                f"audit '{AUDIT}', option 'cuts': the bounds of '{name}' must rise", hint="such as [40, 65, 80]"
            )


class _Levels(NamedTuple):
    names: list[str]
    code: Ints
    """Missing values have the last code, and a name if there are any."""


def _levels(cohort: Cohort, rows: Ints, name: str, cutting: Cutting) -> _Levels:
    if name not in cohort.attributes:
        hint = "list the column under the cohort's `attributes:`"
        if cohort.attributes:
            hint += f"; {closest(name, cohort.attributes, all_are='its attributes are')}"
        raise ConfigError(f"audit '{AUDIT}': the cohort has no attribute '{name}'", hint=hint, at=("by",))
    column = cohort.cases[name].gather(rows)
    if not column.dtype.is_numeric():
        if name in cutting.cuts:
            raise ConfigError(
                f"audit '{AUDIT}', option 'cuts': attribute '{name}' is not a number", hint="leave it out of `cuts`"
            )
        return _categories(name, _cleaned(column), cutting.most_groups)
    known = column.drop_nulls()
    if name not in cutting.cuts and known.n_unique() <= FEW_VALUES:
        return _categories(name, column, cutting.most_groups)
    bounds = [float(bound) for bound in cutting.cuts.get(name, ())]
    if not bounds:
        shares = np.arange(1, cutting.n_quantiles) / cutting.n_quantiles
        bounds = np.unique(np.quantile(known.to_numpy(), shares, method="higher")).tolist()
        bounds = [bound for bound in bounds if bound > float(np.min(known.to_numpy()))]
    code = np.searchsorted(bounds, column.fill_null(0).to_numpy(), side="right")
    return _with_missing(_ranges(bounds), np.where(column.is_null().to_numpy(), len(bounds) + 1, code))


def _cleaned(column: pl.Series) -> pl.Series:
    """Strings without spaces around them; an empty one is missing."""
    text = column.cast(pl.String).str.strip_chars()
    return text.set(text == "", None)


def _categories(name: str, column: pl.Series, most: int) -> _Levels:
    values = column.drop_nulls().unique().sort().to_list()
    if len(values) > most:
        raise ConfigError(
            f"audit '{AUDIT}': attribute '{name}' has {len(values):,} different values, more than {most} groups",
            hint="put them into fewer categories in the table, or raise `most_groups`",
            at=("by",),
        )
    place = {value: k for k, value in enumerate(values)}
    code = np.asarray([len(values) if value is None else place[value] for value in column.to_list()], np.int64)
    named = [_number(value) if isinstance(value, int | float) else str(value) for value in values]
    return _with_missing(named, code)


def _with_missing(names: list[str], code: Ints) -> _Levels:
    own = MISSING if MISSING not in names else "value missing"
    return _Levels([*names, own] if bool((code == len(names)).any()) else names, code)


def _number(value: float) -> str:
    return f"{value:g}" if abs(value) < 1e6 else f"{value:.10g}"


def _ranges(bounds: Sequence[float]) -> list[str]:
    """`under 40`, `40 to under 65`, `65 and over`."""
    if not bounds:
        return ["any value"]
    named = [_number(bound) for bound in bounds]
    between = [f"{a} to under {b}" for a, b in pairwise(named)]
    return [f"under {named[0]}", *between, f"{named[-1]} and over"]


def _partition(columns: Sequence[_Levels], names: Sequence[str], most: int) -> Partition:
    """All groups of one attribute, or the combinations of several that occur."""
    if len(columns) == 1:
        groups = tuple(f"{names[0]}={level}" for level in columns[0].names)
        return Partition(names[0], groups, columns[0].code)
    codes = np.stack([column.code for column in columns])
    found, code = np.unique(codes, axis=1, return_inverse=True)
    title = " × ".join(names)
    if found.shape[1] > most:
        raise ConfigError(
            f"audit '{AUDIT}': {title} makes {found.shape[1]:,} groups, more than {most}",
            hint="intersect fewer attributes, or raise `most_groups`",
            at=("by",),
        )
    combined = [
        ", ".join(f"{name}={column.names[int(k)]}" for name, column, k in zip(names, columns, each, strict=True))
        for each in found.T
    ]
    return Partition(title, tuple(combined), code.reshape(-1).astype(np.int64))


def _with_references(made: Sequence[Partition], references: Sequence[str]) -> tuple[Partition, ...]:
    """The partitions with the reference groups that are named among theirs."""
    chosen: dict[str, str] = {}
    for wanted in references:
        home = next((each for each in made if wanted in each.groups), None)
        if home is None:
            groups = [group for each in made for group in each.groups]
            raise ConfigError(
                f"audit '{AUDIT}', option 'reference': there is no group '{wanted}'",
                hint=closest(wanted, groups, all_are="the groups are"),
                at=("reference",),
            )
        if home.name in chosen:
            raise ConfigError(
                f"audit '{AUDIT}', option 'reference': '{chosen[home.name]}' and '{wanted}' both divide {home.name}",
                hint="name one of them",
                at=("reference",),
            )
        chosen[home.name] = wanted
    return tuple(each._replace(reference=chosen.get(each.name)) for each in made)


class Grouped(NamedTuple):
    """Where the plan's rows come from, and who belongs to which group."""

    partitions: tuple[Partition, ...]
    """Of the audited cases."""
    main: slice
    validation: slice
    """For the threshold."""


def kept_cases(plan: Plan[Grouped], keep: NDArray[np.bool_]) -> Plan[Grouped]:
    """The plan without the cases that some model did not score."""
    grouped = plan.memory
    main, rows = keep[grouped.main], plan.variants.parent[keep]
    n = int(main.sum())
    partitions = tuple(each._replace(code=each.code[main]) for each in grouped.partitions)
    memory = grouped._replace(partitions=partitions, main=slice(0, n), validation=slice(n, len(rows)))
    return replace(plan, variants=Variants.of_cases(rows), cases=rows[:n], memory=memory)


class Scope(NamedTuple):
    """What is audited."""

    cohort: str | None
    split: str
    labels: tuple[str, ...] | None
    most_common: int


def plan_groups(
    cohort: Cohort, scope: Scope, by: tuple[By, ...], cutting: Cutting, references: tuple[str, ...]
) -> Plan[Grouped]:
    """The held-out cases with their groups, then the validation cases."""
    name = audited_cohort(AUDIT, cohort, scope.cohort)
    rows = audited_rows(AUDIT, cohort, name, scope.split)
    labels = audited_labels(AUDIT, cohort, scope.labels, rows=rows, most_common=scope.most_common)
    partitions = partitions_of(cohort, rows, by, cutting, references)
    validation: Ints = np.setdiff1d(validation_rows(cohort, name), rows)
    n, total = len(rows), len(rows) + len(validation)
    return Plan(
        cohort,
        Variants.of_cases(np.concatenate([rows, validation])),
        labels,
        cases=rows,
        memory=Grouped(partitions, slice(0, n), slice(n, total)),
    )
