"""Characteristics: what happens when only the patient's age, gender or ethnicity changes in the note?

Every note is altered to every group of a characteristic, and nothing else in it (characteristics paper, Section 3). The
predictions are then compared between groups, paired within the note: the mean probability of a group and its deviation
from the mean of the others (equation 1), the difference to a reference group, the decisions that flip, age curves and
their roughness, the same groups in the training split (Figures 4, 6 and 8), and how much of that the model repeats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from palpate.audits.characteristics import review as reviews
from palpate.audits.characteristics.answers import CharacteristicsAnalysis, judge_arms, question_name
from palpate.audits.characteristics.arm_measures import measure_arm
from palpate.audits.characteristics.arms import MENTION, ArmSpec, age_groups, arm_specs, references
from palpate.audits.characteristics.blocks import characteristics_blocks
from palpate.audits.characteristics.estimates import METRICS, TRAINING, characteristics_rows
from palpate.audits.characteristics.findings import characteristics_findings
from palpate.audits.characteristics.observed import ObservedGroups, by_attributes, by_notes
from palpate.audits.characteristics.plan import AlteredNotes, alter_notes, note_alterer, stated_groups
from palpate.audits.kit.altered import altered_thresholds
from palpate.audits.kit.resampling import Correction, Family, Resampling
from palpate.audits.kit.rows import RowWriter
from palpate.audits.kit.scope import (
    Count,
    Level,
    Recall,
    Replicates,
    Threshold,
    Unit,
    audited_cohort,
    audited_labels,
    audited_rows,
    require_text,
    sample_patients,
    training_rows,
)
from palpate.audits.kit.thresholds import ThresholdRule, check_rule
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints
from palpate.perturb.characteristics import Contradictory, Definition, Sure
from palpate.perturb.characteristics.review import AlterationReview
from palpate.results import ALL_LABELS, AuditResult, Plan, Predictions, estimates_frame

ALL_AGES: tuple[int | str, ...] = (*range(18, 90), "90+")
_NOTES_FOR_MEDIAN = 1000


@dataclass(frozen=True)
class Characteristics:
    """The same notes with another gender, age, ethnicity, or whatever a definition describes.

    >>> Characteristics(n_replicates=500).n_replicates
    500
    """

    name: ClassVar[str] = "characteristics"
    unweighted_because: ClassVar[str] = ""
    weighted_except: ClassVar[str] = "what the training data show and shares of edits outside a window"
    metrics: ClassVar[tuple[str, ...]] = METRICS
    beside_models: ClassVar[tuple[str, ...]] = (TRAINING,)

    alter: tuple[str, ...] = ("gender", "age", "ethnicity")
    """What is changed; `gender+ethnicity` changes both, for every pair of their groups."""
    ages: tuple[int | str, ...] = ALL_AGES
    """The ages that are written into the notes: whole years below 90, and "90+"."""
    reference: dict[str, str | int] = field(default_factory=dict)
    """The group that the others are compared with, for each characteristic. By default male; none (no mention); and
    the age nearest to the median of the training notes."""
    definitions: tuple[Definition, ...] = field(default=(), metadata={"files": "definition"})
    """Files that define further characteristics."""
    contradictory: Contradictory = "skip"
    """How to treat notes that contradict the new gender (a pregnant man): leave them out (`skip`) or `alter` them all
    the same."""
    sure: Sure = "strict"
    """Skip notes of which a second, cruder reader is not sure (`strict`), or alter them all the same (`normal`): more
    notes, and more wrong alterations."""
    transgender: Literal["groups", "mention"] = "groups"
    """The groups of gender: transgender women, transgender men and non-binary patients (`groups`), or the paper's own
    variant (`mention`), where the word "transgender" is added to the note and nothing else changes."""
    observed: Literal["auto", "notes", "attributes", "none"] = "auto"
    """Where the groups of the training split come from: what its notes say, or attributes of the cohort with the names
    of the characteristics. `auto`: the notes."""
    labels: tuple[str, ...] | None = None
    """Which labels of the cohort; by default the `most_common`."""
    most_common: Count = 24
    """How many labels are audited where `labels` does not say which: those with most positive audited notes."""
    split: str = "test"
    """Which split is audited; a cohort without splits is used whole."""
    cohort: str | None = None
    """Which cohort's notes are altered; by default the first."""
    max_notes: Count | None = None
    """Audit a random sample of patients with at most so many notes, for slow models."""
    threshold: Threshold = "auto"
    """As in the performance audit; decisions are compared at this threshold."""
    target_recall: Recall = 0.70
    unit: Unit = "patient"
    n_replicates: Replicates = 10_000
    level: Level = 0.95
    correction: Correction = "bonferroni"
    family: Family = "question"
    """What intervals and p-values are corrected over: the labels and groups of a characteristic (`question`), or all
    that the audit compares (`run`)."""
    margins: dict[str, float] = field(default_factory=dict)
    """The smallest effects that matter, of the run; the others have their defaults."""
    review: tuple[AlterationReview, ...] = field(default=(), metadata={"files": "review"})
    """Files that reviewers saved from the page of `palpate alter --sample`; their error rates join the findings."""
    examples: Annotated[int, Field(ge=0)] = 5
    """How many of the largest single shifts are listed for each model and characteristic."""
    include_text: bool = False
    """Show excerpts of the notes with the largest shifts."""

    @property
    def questions(self) -> tuple[str, ...]:
        """One per characteristic."""
        return tuple(question_name(name) for name in self.alter)

    def check_options(self) -> None:
        """Refuse a characteristic that is not defined."""
        note_alterer(self.alter, self.definitions, self.contradictory, self.sure)

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan[AlteredNotes]:
        """Every audited note in every group, the notes as written, and the validation split for the threshold."""
        require_text(self.name, cohort)
        main = audited_cohort(self.name, cohort, self.cohort)
        check_rule(self._threshold_rule, cohort)
        alterer = note_alterer(self.alter, self.definitions, self.contradictory, self.sure)
        groups = {name: alterer.groups(name) for name in alterer.characteristics}
        if "age" in groups:
            groups["age"] = age_groups(self.ages)
        if "gender" in groups and self.transgender == "mention":
            groups["gender"] = ("female", "male", MENTION)
        specs = arm_specs(self.alter, groups)
        audited = audited_rows(self.name, cohort, main, self.split)
        rows = sample_patients(self.name, cohort, audited, self.max_notes, rng)
        labels = audited_labels(
            self.name, cohort, self.labels, rows=rows, most_common=self.most_common, reserved=(ALL_LABELS,)
        )
        training = training_rows(cohort)
        asked = self.observed in ("auto", "notes") and len(training) > 0
        # Otherwise notes are read for their median age only, and some are enough.
        read = training if asked else rows[:: -(-len(rows) // _NOTES_FOR_MEDIAN)]
        wanted = asked or ("age" in groups and "age" not in self.reference)
        stated = stated_groups(cohort.texts, read, alterer) if wanted else {}
        reviews.check_reviews(self.review, specs)
        return alter_notes(
            cohort,
            rows,
            labels,
            specs=specs,
            references=references(specs, self.reference, stated),
            observed=[self._observed(spec, cohort, training, stated if asked else None) for spec in specs],
            alterer=alterer,
        )

    def analyse(self, plan: Plan[AlteredNotes], predictions: Predictions, rng: np.random.Generator) -> AuditResult:
        """Measures of every arm, as rows, blocks and sentences."""
        memory = plan.memory
        resampling = Resampling(
            self.level, self.n_replicates, self.correction, self.unit, seed=int(rng.integers(2**63))
        )
        # The training patients are resampled independently of the audited ones.
        of_training = replace(resampling, seed=int(rng.integers(2**63)))
        threshold = altered_thresholds(plan, predictions, self._threshold_rule)
        measured = [
            measure_arm(
                plan, predictions, threshold.values, arm, groups, resampling=resampling, of_training=of_training
            )
            for arm, groups in zip(memory.arms, memory.observed, strict=True)
        ]
        writer = RowWriter(self.name, self.level)
        rows = characteristics_rows(
            measured, plan, predictions, writer, threshold.values, correction=self.correction, family=self.family
        )
        analysis = CharacteristicsAnalysis.of(
            self,
            plan,
            predictions,
            rows,
            threshold.origin,
            arms=measured,
            family="all labels and groups" if self.family == "question" else "all comparisons of the audit",
        )
        judged = judge_arms(analysis)
        excerpts = analysis.excerpts(self, plan)
        return AuditResult(
            audit=self.name,
            estimates=estimates_frame(rows),
            blocks=characteristics_blocks(analysis, excerpts),
            findings=(*characteristics_findings(analysis, judged), *reviews.review_findings(self.review, memory.arms)),
            answers=tuple(arm.answer for _, arm in judged),
            provenance=self._provenance(plan, threshold.origin),
        )

    @property
    def _threshold_rule(self) -> ThresholdRule:
        return ThresholdRule(self.threshold, self.target_recall)

    def _observed(
        self, spec: ArmSpec, cohort: Cohort, training: Ints, stated: Mapping[str, Sequence[str | None]] | None
    ) -> ObservedGroups:
        """The groups of the training cases; `stated` is what their notes say, where these were asked."""
        if self.observed == "none":
            return ObservedGroups.none("not asked for")
        if not len(training):
            return ObservedGroups.none("the cohort has no training split")
        return by_attributes(spec, cohort, training) if stated is None else by_notes(spec, training, stated)

    def _provenance(self, plan: Plan[AlteredNotes], origin: Mapping[str, str]) -> dict[str, Any]:
        arms, observed = plan.memory.arms, plan.memory.observed
        return {
            "threshold": dict(origin),
            "unit": self.unit,
            "n_replicates": self.n_replicates,
            "labels": list(plan.labels),
            **({"reviews": reviews.reviews_provenance(self.review)} if self.review else {}),
            "notes": {
                arm.name: {
                    "tried": arm.n_notes,
                    "altered": len(arm.rows),
                    **({"to_some_only": sum(arm.partly.values())} if arm.partly else {}),
                }
                for arm in arms
            },
            "reference": {arm.name: arm.groups[arm.reference] for arm in arms},
            "observed": {arm.name: groups.reason or groups.origin for arm, groups in zip(arms, observed, strict=True)},
        }
