"""Data checks: who is audited, can these cases answer anything, and has the model seen them before?

Every run begins with them unless `audits: {data: false}` says otherwise. They need no model: Table 1 (who was audited,
and how evaluation differs from development), audited notes that also stand in the training or validation split,
patients in two splits, labels that never vary, times that run backwards, audited cases that lie before the training
cases. All is counted while planning, so that a concern is told before anything is scored; a count of all cases has no
sampling error, and its interval is the number itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from palpate.audits.data.checks import Checked, Duplicates, check_cohort
from palpate.audits.data.findings import METRICS, concerns, data_answers, data_blocks, data_findings, data_rows
from palpate.audits.data.population import PopulationTable, Showing, groups_of, population
from palpate.audits.data.table_one import (
    DIFFERENCE,
    difference_rows,
    population_block,
    population_findings,
    population_frame,
)
from palpate.audits.kit.attributes import check_attributes
from palpate.audits.kit.scope import Count, Recall, audited_labels
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Variants
from palpate.results import AuditResult, Plan, Predictions, estimates_frame
from palpate.results.verdicts import margins_with


class Examined(NamedTuple):
    """What was counted while planning."""

    checked: Checked
    population: PopulationTable
    groups: tuple[PopulationTable, ...]
    """By each attribute that was asked for."""


@dataclass(frozen=True)
class Data:
    """What can be known of the cases before any is scored.

    >>> Data().name
    'data'
    """

    name: ClassVar[str] = "data"
    unweighted_because: ClassVar[str] = (
        "the checks are about the table as it is, and Table 1 has weighted numbers beside its counts"
    )
    metrics: ClassVar[tuple[str, ...]] = (*METRICS, DIFFERENCE)
    questions: ClassVar[tuple[str, ...]] = ("leakage", "labels")

    split: str = "test"
    """Which split is audited; a cohort without splits is audited whole. By default that of the run's other audits."""
    labels: tuple[str, ...] | None = None
    """Which labels are audited; by default those of the run's other audits."""
    similarity: Recall = 0.5
    """Notes are nearly identical if this part of the wording of one, weighted by rarity, stands in the other."""
    fewest_words: Count = 10
    """Shorter notes are never nearly identical; they are compared word for word, from three words on."""
    by: tuple[str, ...] = ()
    """Attributes: Table 1 also by their groups."""
    most_values: Count = 10
    """How many values of an attribute Table 1 names; the others are counted together."""
    most_labels: Count = 10
    """How many labels Table 1 names: the most common."""
    smallest_cell: Annotated[int, Field(ge=1, le=100)] = 5
    """Counts of fewer patients are not told in Table 1, because reports leave the hospital; 1 tells all."""
    margins: dict[str, float] = field(default_factory=dict)
    """The smallest effects that matter, set for the whole run."""

    def check_cohort(self, cohort: Cohort) -> None:
        """Refuse attributes that the cohort does not have."""
        check_attributes(self.name, cohort, self.by)

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan[Examined]:  # noqa: ARG002  (nothing is random)
        """Table 1 and all checks; nothing is scored for them."""
        labels = audited_labels(self.name, cohort, self.labels)
        checked = check_cohort(cohort, labels, self.split, Duplicates(self.similarity, self.fewest_words))
        return Plan(
            cohort,
            Variants.of_cases(np.zeros(0, dtype=np.int64)),
            (),
            cases=checked.audited,
            memory=Examined(checked, *self._populations(cohort, labels)),
            notices=tuple(concerns(checked, margins_with(self.margins))),
        )

    def analyse(
        self,
        plan: Plan[Examined],
        predictions: Predictions,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> AuditResult:
        """The same counts for every model."""
        checked, margins, models = plan.memory.checked, margins_with(self.margins), predictions.compared
        found, groups = plan.memory.population, plan.memory.groups
        rows = data_rows(checked, models)
        named = [("Who was audited (Table 1)", found)]
        named += [(f"The audited cases by {name}", each) for name, each in zip(self.by, groups, strict=True)]
        return AuditResult(
            audit=self.name,
            estimates=estimates_frame([*rows, *difference_rows(found, models)]),
            blocks=(
                *data_blocks(checked, plan.cohort),
                *(population_block(each, title, self.smallest_cell) for title, each in named),
            ),
            findings=(*data_findings(checked, margins), *population_findings(found)),
            tables={"table1": population_frame([("by split", found), *zip(self.by, groups, strict=True)])},
            provenance={
                "split": self.split,
                "similarity": self.similarity,
                "fewest_words": self.fewest_words,
                "notes_compared_word_for_word_only": sum(each.n_short for each in checked.cohorts),
                "notes_too_short": sum(each.n_tiny for each in checked.cohorts),
            },
            answers=data_answers(checked, rows, models, margins),
        )

    def _populations(
        self, cohort: Cohort, labels: tuple[str, ...]
    ) -> tuple[PopulationTable, tuple[PopulationTable, ...]]:
        showing = Showing(labels, self.most_labels, self.most_values, self.smallest_cell)
        groups = tuple(groups_of(cohort, self.split, name, showing) for name in self.by)
        return population(cohort, self.split, showing), groups
