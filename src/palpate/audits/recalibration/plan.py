"""The cases that recalibration wants scored: the validation split to fit on, and the held-out cases to test on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from palpate.audits.kit.scope import audited_cohort, audited_labels, audited_rows, validation_rows
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints, Variants
from palpate.errors import CohortError
from palpate.results import Plan

AUDIT = "recalibration"


class FitAndTest(NamedTuple):
    """Where the plan's rows come from."""

    cohort: str
    test: slice
    validation: slice
    n_shared: int
    """Patients who are in both."""


class RecalibrationScope(NamedTuple):
    """What is recalibrated."""

    cohort: str | None
    split: str
    labels: tuple[str, ...] | None
    most_common: int


def plan_recalibration(cohort: Cohort, scope: RecalibrationScope) -> Plan[FitAndTest]:
    """The held-out cases, then those of the validation split, which must be others."""
    name = audited_cohort(AUDIT, cohort, scope.cohort)
    if scope.split == "validation":
        raise CohortError(
            f"audit '{AUDIT}': the validation split is what maps are fitted on, so it cannot be tested on",
            hint="set `split:` to another one, such as test",
        )
    validation: Ints = validation_rows(cohort, name)
    if not len(validation):
        raise CohortError(
            f"audit '{AUDIT}': cohort '{name}' has no validation split to fit a recalibration on",
            hint="give a `split` column with the values validation and test, or leave the audit out",
        )
    rows = audited_rows(AUDIT, cohort, name, scope.split)
    labels = audited_labels(AUDIT, cohort, scope.labels, rows=rows, most_common=scope.most_common)
    n, total = len(rows), len(rows) + len(validation)
    shared = np.intersect1d(cohort.patients[rows], cohort.patients[validation])
    return Plan(
        cohort,
        Variants.of_cases(np.concatenate([rows, validation])),
        labels,
        cases=rows,
        memory=FitAndTest(name, slice(0, n), slice(n, total), len(shared)),
    )
