"""Data checks: can these cases answer anything, and has the model seen them before?

Every run begins with them unless `audits: {data: false}` says otherwise. They need no model: audited notes that also
stand in the training or validation split, patients in two splits, labels that never vary, times that run backwards,
audited cases that lie before the training cases. All is counted while planning, so that a concern is told before
anything is scored; a count of all cases has no sampling error, and its interval is the number itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from palpate.audits.data.checks import Checked, Duplicates, check_cohort
from palpate.audits.data.findings import METRICS, concerns, data_answers, data_blocks, data_findings, data_rows
from palpate.audits.kit.scope import Count, Recall, audited_labels
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Variants
from palpate.results import AuditResult, Plan, Predictions, estimates_frame
from palpate.results.verdicts import margins_with


@dataclass(frozen=True)
class Data:
    """What can be known of the cases before any is scored."""

    name: ClassVar[str] = "data"
    unweighted_because: ClassVar[str] = "it describes the table as it is"
    metrics: ClassVar[tuple[str, ...]] = tuple(METRICS)
    questions: ClassVar[tuple[str, ...]] = ("leakage", "labels")

    split: str = "test"
    """Which split is audited; a cohort without splits is audited whole. By default that of the run's other audits."""
    labels: tuple[str, ...] | None = None
    """Which labels are audited; by default those of the run's other audits."""
    similarity: Recall = 0.5
    """Notes are nearly identical if this part of the wording of one, weighted by rarity, stands in the other."""
    fewest_words: Count = 10
    """Shorter notes are never nearly identical; they are compared word for word, from three words on."""
    margins: dict[str, float] = field(default_factory=dict)
    """The smallest effects that matter, set for the whole run."""

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan[Checked]:  # noqa: ARG002  (nothing is random)
        """All checks; nothing is scored for them."""
        labels = audited_labels(self.name, cohort, self.labels)
        checked = check_cohort(cohort, labels, self.split, Duplicates(self.similarity, self.fewest_words))
        return Plan(
            cohort,
            Variants.of_cases(np.zeros(0, dtype=np.int64)),
            (),
            cases=checked.audited,
            memory=checked,
            notices=tuple(concerns(checked, margins_with(self.margins))),
        )

    def analyse(
        self,
        plan: Plan[Checked],
        predictions: Predictions,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> AuditResult:
        """The same counts for every model."""
        checked, margins, models = plan.memory, margins_with(self.margins), predictions.compared
        rows = data_rows(checked, models)
        return AuditResult(
            audit=self.name,
            estimates=estimates_frame(rows),
            blocks=data_blocks(checked, plan.cohort),
            findings=data_findings(checked, margins),
            provenance={
                "split": self.split,
                "similarity": self.similarity,
                "fewest_words": self.fewest_words,
                "notes_compared_word_for_word_only": sum(each.n_short for each in checked.cohorts),
                "notes_too_short": sum(each.n_tiny for each in checked.cohorts),
            },
            answers=data_answers(checked, rows, models, margins),
        )
