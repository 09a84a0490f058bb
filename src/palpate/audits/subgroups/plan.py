"""The cases that the subgroups audit wants scored, and who belongs to which group.

Groups are attributes of the cohort, numbers cut into ranges, and intersections of them. A missing value is a group of
its own. Every case is in exactly one group of each partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.attributes import Cutting, Levels, attribute_levels, check_cuts, grouped_rows
from palpate.audits.kit.scope import audited_cohort, audited_labels, validation_rows
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints, Variants
from palpate.errors import ConfigError, closest
from palpate.results import Plan
from palpate.results.plan import PatientDivision

AUDIT = "subgroups"
By = str | tuple[str, ...]

BY = " × "
"""Between the attributes of an intersection."""


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


def partitions_of(
    cohort: Cohort, rows: Ints, by: Sequence[By], cutting: Cutting, references: Sequence[str]
) -> tuple[Partition, ...]:
    """The partitions that are asked for; by default, one for each attribute of the cohort."""
    wanted = list(dict.fromkeys(by or cohort.attributes))
    names = attribute_names(cohort, by)
    check_cuts(AUDIT, cutting, names)
    columns = attribute_levels(AUDIT, cohort, rows, names, cutting)
    made = [_partition([columns[name] for name in _names(each)], _names(each), cutting.most_groups) for each in wanted]
    return _with_references(made, references)


def attribute_names(cohort: Cohort, by: Sequence[By]) -> list[str]:
    """The attributes that are asked for, each once; by default all of the cohort."""
    names = list(dict.fromkeys(name for each in by or cohort.attributes for name in _names(each)))
    if not names:
        raise ConfigError(
            f"audit '{AUDIT}': the cohort has no attributes", hint="list columns under the cohort's `attributes:`"
        )
    return names


def _names(by: By) -> tuple[str, ...]:
    names = (by,) if isinstance(by, str) else by
    if not names or len(set(names)) < len(names):
        raise ConfigError(
            f"audit '{AUDIT}', option 'by': an intersection names at least one attribute, each once", at=("by",)
        )
    return names


def _partition(columns: Sequence[Levels], names: Sequence[str], most: int) -> Partition:
    """All groups of one attribute, or the combinations of several that occur."""
    if len(columns) == 1:
        groups = tuple(f"{names[0]}={level}" for level in columns[0].names)
        return Partition(names[0], groups, columns[0].code)
    codes = np.stack([column.code for column in columns])
    found, code = np.unique(codes, axis=1, return_inverse=True)
    title = BY.join(names)
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

    def divisions(self) -> list[PatientDivision]:
        """The groups of each partition, of all variants; validation cases are in none."""
        n = self.validation.stop
        return [
            PatientDivision(each.groups, np.concatenate([each.code, np.full(n - len(each.code), -1)]), each.reference)
            for each in self.partitions
        ]


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
    rows = grouped_rows(AUDIT, cohort, scope.cohort, scope.split, attribute_names(cohort, by))
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
