"""The cases that the subgroups audit wants scored: one cohort's held-out cases, and its validation split."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from palpate.audits.kit.scope import audited_cohort, audited_labels, audited_rows, validation_rows
from palpate.audits.subgroups.partitions import AUDIT, By, Cutting, Partition, partitions_of
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints, Variants
from palpate.results import Plan


class Grouped(NamedTuple):
    """Where the plan's rows come from, and who belongs to which group."""

    partitions: tuple[Partition, ...]
    """Of the audited cases."""
    main: slice
    validation: slice
    """For the threshold."""


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
