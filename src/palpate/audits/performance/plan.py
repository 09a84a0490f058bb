"""The cases that the performance audit wants scored: held-out cases of every cohort, and the validation split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.missing import CountedCases
from palpate.audits.kit.scope import audited_rows, validation_rows
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Variants
from palpate.results import Plan


class HeldOut(NamedTuple):
    """Where the plan's rows come from."""

    cohorts: Mapping[str, slice]
    """The held-out rows of each cohort."""
    validation: slice
    """The first cohort's validation split, for the threshold."""

    @property
    def main(self) -> slice:
        """The first cohort's held-out rows."""
        return next(iter(self.cohorts.values()))


def kept_cases(plan: Plan[HeldOut], keep: NDArray[np.bool_]) -> Plan[HeldOut]:
    """The plan without the cases that some model did not score; a cohort without any is left out."""
    sizes = {name: int(keep[part].sum()) for name, part in plan.memory.cohorts.items()}
    slices, end = {}, 0
    for name, n in sizes.items():
        if n:
            slices[name] = slice(end, end + n)
        end += n
    validation = slice(end, end + int(keep[plan.memory.validation].sum()))
    rows = plan.variants.parent[keep]
    return replace(plan, variants=Variants.of_cases(rows), cases=rows[:end], memory=HeldOut(slices, validation))


def counted_cases(plan: Plan[HeldOut]) -> list[CountedCases]:
    """The cases whose missing scores are counted together: each cohort's, and the validation split's."""
    index = np.arange(len(plan.variants))
    found = [CountedCases(name, index[part]) for name, part in plan.memory.cohorts.items()]
    validation = index[plan.memory.validation]
    return [*found, CountedCases("validation split", validation, bounded=False)] if len(validation) else found


def plan_cases(audit: str, cohort: Cohort, labels: tuple[str, ...], split: str) -> Plan[HeldOut]:
    """Every cohort's held-out cases, then the validation cases."""
    held_out = {name: audited_rows(audit, cohort, name, split) for name in cohort.names}
    validation = validation_rows(cohort)
    ends = np.cumsum([len(rows) for rows in held_out.values()]).tolist()
    slices = {name: slice(end - len(rows), end) for (name, rows), end in zip(held_out.items(), ends, strict=True)}
    audited = np.concatenate(list(held_out.values()))
    return Plan(
        cohort,
        Variants.of_cases(np.concatenate([audited, validation])),
        labels,
        cases=audited,
        memory=HeldOut(slices, slice(ends[-1], ends[-1] + len(validation))),
    )
