"""Characteristics: what happens when only the patient's age, gender or ethnicity changes in the note?

Every note is altered to every group of a characteristic, and nothing else in it (characteristics paper, Section 3). The
predictions are then compared between groups, paired within the note: the mean probability of a group and its deviation
from the mean of the others (equation 1), the difference to a reference group, the decisions that flip, age curves and
their roughness, the same groups in the training split (Figures 4, 6 and 8), and how much of that the model repeats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from palpate.audits.characteristics.analysis import ArmAnalysis, Settings, analyse_arm
from palpate.audits.characteristics.arms import Memory, ObservedGroups
from palpate.audits.characteristics.blocks import blocks_of
from palpate.audits.characteristics.estimates import Facts, arm_rows
from palpate.audits.characteristics.findings import Story, findings_of, index_of
from palpate.audits.characteristics.groups import ArmSpec, age_groups, arm_specs, by_attributes, by_notes, references
from palpate.audits.characteristics.plan import ReadsNotes, alter_notes
from palpate.audits.characteristics.reader import NoteReader
from palpate.audits.characteristics.shifts import examples_of, largest_shifts
from palpate.audits.kit.ensembles import families_of, members_of
from palpate.audits.kit.measured import Correction
from palpate.audits.kit.scope import training_rows, validation_rows
from palpate.audits.kit.thresholds import ThresholdRule, check_rule, decide_thresholds
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints
from palpate.errors import CohortError, ConfigError
from palpate.perturb.characteristics import Definition
from palpate.results import AuditResult, Estimate, ModelPredictions, Plan, estimates_frame

ALL_AGES: tuple[int | str, ...] = (*range(18, 90), "90+")
_NOTES_FOR_MEDIAN = 1000


@dataclass(frozen=True)
class Characteristics:
    """The same notes with another gender, age, ethnicity, or whatever a definition describes."""

    name: ClassVar[str] = "characteristics"

    alter: tuple[str, ...] = ("gender", "age", "ethnicity")
    """What is changed; `gender+ethnicity` changes both, for every pair of their groups."""
    ages: tuple[int | str, ...] = ALL_AGES
    """The ages that are written into the notes: whole years below 90, and "90+"."""
    reference: dict[str, str | int] = field(default_factory=dict)
    """The group that others are compared with, for each characteristic. By default male; none (no mention); and the
    age nearest to the median of the training notes."""
    definitions: tuple[Definition, ...] = field(default=(), metadata={"files": "definition"})
    """Characteristics of one's own: files."""
    contradictory: Literal["skip", "alter"] = "skip"
    """Notes that a change of gender would contradict (a pregnant man): left out, or altered all the same."""
    observed: Literal["auto", "notes", "attributes", "none"] = "auto"
    """Where the groups of the training split come from: what its notes say, or attributes of the cohort with the names
    of the characteristics. `auto`: the notes, where there are any."""
    labels: tuple[str, ...] | None = None
    """Which labels of the cohort; by default the `most_common`."""
    most_common: Annotated[int, Field(ge=1)] = 24
    """How many labels are audited where `labels` does not say which: those with most positive audited notes."""
    split: str = "test"
    cohort: str | None = None
    """Which cohort's notes are altered; by default the first."""
    max_notes: Annotated[int, Field(ge=1)] | None = None
    """A sample of patients with at most so many notes, for models that are slow."""
    threshold: Annotated[float, Field(ge=0, le=1)] | Literal["auto", "recall", "youden"] = "auto"
    """As in the performance audit; decisions are compared at it."""
    target_recall: Annotated[float, Field(gt=0, le=1)] = 0.70
    unit: Literal["patient", "case"] = "patient"
    n_replicates: Annotated[int, Field(ge=100)] = 10_000
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    correction: Correction = "bonferroni"
    examples: Annotated[int, Field(ge=0)] = 5
    """How many of the largest single shifts are listed for each model and characteristic."""
    include_text: bool = False
    """Show excerpts of the notes with the largest shifts."""

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan:
        """Every audited note in every group, the notes as written, and the validation split for the threshold."""
        main = self._cohort(cohort)
        check_rule(self._rule, cohort)
        reader = NoteReader(self.alter, self.definitions, self.contradictory)
        groups = {name: age_groups(self.ages) if name == "age" else made for name, made in reader.groups.items()}
        specs = arm_specs(self.alter, groups, known=reader.known)
        rows = sample_patients(cohort, cohort.rows(cohort=main, split=self.split), self.max_notes, rng)
        if not len(rows):
            raise CohortError(f"cohort '{main}' has no case in split '{self.split}'", hint="set `split:` of the audit")
        labels = self._labels(cohort, rows)
        training = training_rows(cohort)
        said = self._said(cohort, training, specs, reader)
        unknown_age = "age" in _parts(specs) and "age" not in self.reference and not said
        known = _statements(cohort.texts, _some(rows), reader, specs) if unknown_age else said
        chosen = references(specs, self.reference, known)
        altered = alter_notes(cohort.texts, rows, specs, chosen, reader, validation=validation_rows(cohort))
        observed = tuple(self._observed(spec, cohort, training, said) for spec in specs)
        return Plan(
            cohort,
            altered.variants,
            labels,
            skips=altered.skips,
            cases=rows,
            memory=Memory(altered.arms, altered.original, altered.validation, observed),
        )

    def analyse(self, plan: Plan, predictions: dict[str, ModelPredictions], rng: np.random.Generator) -> AuditResult:
        """Measures of every arm, as rows, blocks and sentences."""
        memory: Memory = plan.memory
        settings = Settings(
            self.unit, self.n_replicates, self.level, int(rng.integers(2**63)), int(rng.integers(2**63))
        )
        threshold = decide_thresholds(
            plan, predictions, rule=self._rule, validation=memory.validation, main=memory.original[memory.original >= 0]
        )
        families = families_of(predictions)
        found = [
            analyse_arm(plan, predictions, families, threshold.values, arm, groups, settings)
            for arm, groups in zip(memory.arms, memory.observed, strict=True)
        ]
        tested = sum(len(arm.rows) > 0 for arm in memory.arms)
        undecided = np.isnan(threshold.values)
        facts = Facts(plan.labels, self.level, self.correction, undecided, tuple(predictions), families, max(tested, 1))
        rows = _rows(plan, found, memory.observed, facts)
        compared = [name for name in (*predictions, *families) if name not in members_of(families)]
        shifts = largest_shifts(plan, predictions, tuple(predictions), self.examples)
        story = Story(
            rows=rows,
            arms=found,
            observed=memory.observed,
            models=compared,
            families=families,
            labels=plan.labels,
            level=self.level,
            correction=self.correction,
            threshold_origin=threshold.origin,
            shifts=shifts,
            index=index_of(rows),
        )
        return AuditResult(
            audit=self.name,
            estimates=estimates_frame(rows),
            blocks=blocks_of(story, examples_of(plan, shifts) if self.include_text and shifts else None),
            findings=findings_of(story),
            provenance=self._provenance(plan, threshold.origin),
        )

    @property
    def _rule(self) -> ThresholdRule:
        return ThresholdRule(self.threshold, self.target_recall)

    def _cohort(self, cohort: Cohort) -> str:
        if not cohort.has_text:
            raise CohortError("audit 'characteristics' alters notes, and the cohort has none", hint="set `text:`")
        if self.cohort is not None and self.cohort not in cohort.names:
            raise ConfigError(
                f"audit 'characteristics': there is no cohort '{self.cohort}'",
                hint=f"there are: {', '.join(cohort.names)}",
            )
        return self.cohort or cohort.names[0]

    def _labels(self, cohort: Cohort, rows: Ints) -> tuple[str, ...]:
        unknown = [label for label in self.labels or () if label not in cohort.labels]
        if unknown:
            raise ConfigError(f"audit 'characteristics': the cohort has no label '{unknown[0]}'")
        if self.labels:
            return tuple(self.labels)
        if len(cohort.labels) <= 1:
            return cohort.labels
        positive = np.asarray(cohort.y.tocsr()[rows].sum(axis=0)).ravel()
        return tuple(cohort.labels[int(j)] for j in np.argsort(-positive, kind="stable")[: self.most_common])

    def _said(
        self, cohort: Cohort, training: Ints, specs: Sequence[ArmSpec], reader: ReadsNotes
    ) -> dict[str, list[str | None]]:
        """What each training note says of its patient, for each characteristic; nothing if notes are not asked."""
        if self.observed in ("attributes", "none") or not len(training):
            return {}
        return _statements(cohort.texts, training, reader, specs)

    def _observed(
        self, spec: ArmSpec, cohort: Cohort, training: Ints, said: Mapping[str, Sequence[str | None]]
    ) -> ObservedGroups:
        if self.observed == "none":
            return _not_observed("not asked for")
        if not len(training):
            return _not_observed("the cohort has no training split")
        return by_notes(spec, training, said) if said else by_attributes(spec, cohort, training)

    def _provenance(self, plan: Plan, origin: Mapping[str, str]) -> dict[str, Any]:
        memory: Memory = plan.memory
        return {
            "threshold": dict(origin),
            "unit": self.unit,
            "n_replicates": self.n_replicates,
            "labels": list(plan.labels),
            "notes": {arm.name: {"tried": arm.n_notes, "altered": len(arm.rows)} for arm in memory.arms},
            "reference": {arm.name: arm.groups[arm.reference] for arm in memory.arms},
            "observed": {
                arm.name: groups.reason or groups.origin
                for arm, groups in zip(memory.arms, memory.observed, strict=True)
            },
        }


def sample_patients(cohort: Cohort, rows: Ints, max_notes: int | None, rng: np.random.Generator) -> Ints:
    """All rows, or those of patients drawn at random until no further patient fits into `max_notes`."""
    if max_notes is None or len(rows) <= max_notes:
        return rows
    patient = cohort.patients[rows]
    names, size = np.unique(patient, return_counts=True)
    order = rng.permutation(len(names))
    fits = np.cumsum(size[order]) <= max_notes
    if not fits[0]:
        raise ConfigError(
            "audit 'characteristics', option 'max_notes': a single patient has more notes",
            hint=f"use at least {int(size.max())}",
        )
    return rows[np.isin(patient, names[order[fits]])]


def _some(rows: Ints) -> Ints:
    """At most `_NOTES_FOR_MEDIAN` rows, evenly spaced: enough for a median."""
    return rows[:: -(-len(rows) // _NOTES_FOR_MEDIAN)]


def _parts(specs: Sequence[ArmSpec]) -> list[str]:
    return list(dict.fromkeys(part for spec in specs for part in spec.parts))


def _statements(
    texts: Sequence[str], rows: Ints, reader: ReadsNotes, specs: Sequence[ArmSpec]
) -> dict[str, list[str | None]]:
    parts = _parts(specs)
    said: dict[str, list[str | None]] = {part: [] for part in parts}
    for row in rows.tolist() if parts else ():
        present = reader.present(reader.read(texts[row]))
        for part in parts:
            said[part].append(present[part])
    return said


def _not_observed(reason: str) -> ObservedGroups:
    nothing = np.zeros(0, dtype=np.int64)
    return ObservedGroups(nothing, nothing, "", reason)


def _rows(plan: Plan, found: Sequence[ArmAnalysis], observed: Sequence[ObservedGroups], facts: Facts) -> list[Estimate]:
    rows: list[Estimate] = []
    for each, groups in zip(found, observed, strict=True):
        n_positive = plan.cohort.y_true(each.arm.rows, plan.labels).sum(axis=0, dtype=np.int64)
        rows += arm_rows(each, n_positive, facts, groups.reason or "")
    return rows
