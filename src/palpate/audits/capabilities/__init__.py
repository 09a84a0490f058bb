"""Capabilities: does the model handle negation, temporal order, sentiment, beneficial effects?

Sentences from templates, each with an answer that is beyond doubt (ADE template paper): pass rates by test and label
with intervals by base template, against the recall of that label on held-out cases (its Section 4.1.3 and Figure 3), by
the drug's name (Figure 4) and by template (Figures 5 and 6). All three test types of CheckList: a label is expected
(MFT), a change must not move the prediction (INV), or must move it in a direction (DIR).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field, InstanceOf

from palpate.audits.capabilities.blocks import capabilities_blocks
from palpate.audits.capabilities.embedding import choose_hosts
from palpate.audits.capabilities.estimates import METRICS, CapabilityRows, capability_rows
from palpate.audits.capabilities.examples import find_failures
from palpate.audits.capabilities.findings import CapabilitiesAnalysis, capabilities_findings, decide_capabilities
from palpate.audits.capabilities.measures import check_functions, measure_capabilities
from palpate.audits.capabilities.plan import PlannedSuite, plan_suite
from palpate.audits.kit.resampling import Correction, Family, Resampling
from palpate.audits.kit.rows import EstimateIndex, RowWriter
from palpate.audits.kit.scope import (
    Count,
    Level,
    Recall,
    Replicates,
    Threshold,
    audited_cohort,
    audited_labels,
    counted_rows,
    validation_rows,
)
from palpate.audits.kit.thresholds import ThresholdRule, check_rule
from palpate.cases.cohort import Cohort
from palpate.errors import ConfigError
from palpate.perturb.suites import Suite, SuiteCases, list_suites, load_suite
from palpate.results import ALL_LABELS, AuditResult, Plan, Predictions, estimates_frame
from palpate.results.verdicts import margins_with

Value = str | dict[str, str | float]


@dataclass(frozen=True)
class Capabilities:
    """What a model can do, tested by sentences with known answers.

    >>> Capabilities(n_replicates=500).n_replicates
    500
    """

    name: ClassVar[str] = "capabilities"
    unweighted_because: ClassVar[str] = "it scores sentences made from templates, and notes only as places for them"
    metrics: ClassVar[tuple[str, ...]] = METRICS

    suite: str | InstanceOf[Suite] = field(
        default="ade", metadata={"file": "suite", "read with": ("positive", "slots")}
    )
    """`ade`, `notes`, or a file: a suite in YAML, templates in CSV, or finished cases in JSONL."""
    capabilities: tuple[str, ...] | None = None
    """Which capabilities of the suite; by default its main ones."""
    further: bool = False
    """Also the suite's further capabilities, which are reported apart."""
    slots: dict[str, str | tuple[Value, ...]] | None = field(default=None, metadata={"values": "lexicon"})
    """Other values for some slots: `{finding: [pneumonia, PNA]}`; or a lexicon's file, `{effect: mine.yaml}`."""
    sizes: dict[str, Count] | None = None
    """Other numbers of values per slot in the default run."""
    without_tags: tuple[str, ...] = ()
    """Leave out templates with one of these tags."""
    n: Count | None = None
    """A sample of this many cases from all variations and fill-ins, with as many from every template, instead of the
    default run."""
    embed: Count | None = None
    """Put the sentences into this many held-out notes without the label, at a place where they fit, instead of asking
    about them alone."""
    positive: str | None = None
    """The word for the positive label in a CSV or JSONL suite; by default labels are 1 and 0."""
    label: str | None = None
    """Which label of the cohort is the suite's positive one; needed where the cohort has several."""
    cohort: str | None = None
    """Which cohort is the baseline; the first by default."""
    split: str = "test"
    """Which split is held out, for the baseline."""
    threshold: Threshold = "auto"
    """Where a probability becomes a decision, as in the performance audit."""
    target_recall: Recall = 0.70
    n_replicates: Replicates = 2_000
    """Shuffles of the test that the values of a slot are alike."""
    level: Level = 0.95
    correction: Correction = "bonferroni"
    family: Family = "question"
    """Which comparisons share a correction: those about one capability, or all of the `run`."""
    examples: Annotated[int, Field(ge=0)] = 2
    """How many failing sentences are shown for each model, test and label."""
    include_text: bool = False
    """Show finished cases (JSONL) that fail; sentences from templates are always shown."""
    margins: dict[str, float] = field(default_factory=dict)
    """The smallest effects that matter, set for the whole run."""

    def check_options(self) -> None:
        """Refuse a suite that does not exist."""
        if isinstance(self.suite, str) and self.suite not in list_suites():
            hint = f"give one of {', '.join(list_suites())}, or a file: YAML, CSV or JSONL"
            problem = f"audit '{self.name}', option 'suite': unknown suite '{self.suite}'"
            raise ConfigError(problem, hint=hint, at=("suite",))

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan[PlannedSuite]:
        """The suite's sentences, the held-out cases for the baseline, and the validation split for the threshold."""
        suite = self._suite()
        labels, main = self._labels(cohort, suite), audited_cohort(self.name, cohort, self.cohort)
        check_functions(suite)
        held_out = validation = np.zeros(0, dtype=np.int64)
        if cohort.labels:
            check_rule(self._threshold_rule, cohort)
            held_out = counted_rows(cohort, cohort.rows(cohort=main, split=self.split))
            validation = validation_rows(cohort)
        cases = self._cases(suite, rng)
        if not len(cases):
            raise ConfigError(
                f"audit '{self.name}': suite '{suite.name}' has no case for these options",
                hint="choose other `capabilities:`, `slots:` or `without_tags:`",
            )
        hosts = None
        if self.embed is not None:
            rows = held_out if cohort.labels else cohort.rows(cohort=main, split=self.split)
            hosts = choose_hosts(cohort, rows, labels, cases, self.embed, rng)
        return plan_suite(cohort, labels, held_out, validation, suite, cases, self.capabilities or (), hosts)

    def analyse(self, plan: Plan[PlannedSuite], predictions: Predictions, rng: np.random.Generator) -> AuditResult:
        """Pass rates, their differences to the baseline and between models, and what fails."""
        examined = plan.memory.examined
        how = Resampling(self.level, self.n_replicates, self.correction)
        measured = measure_capabilities(
            plan, predictions, rule=self._threshold_rule, split=self.split, how=how, rng=rng
        )
        writer = RowWriter(self.name, self.level)
        headline = plan.labels[0] if len(plan.labels) == 1 else ALL_LABELS
        rows = capability_rows(CapabilityRows(writer, headline, predictions, measured, how), examined, self.family)
        analysis = CapabilitiesAnalysis(
            estimates=EstimateIndex(rows, label=headline),
            examined=examined,
            models=predictions.compared,
            ensembles=predictions.ensembles,
            measured=measured,
            failures=find_failures(plan, measured.answers, predictions.compared, self._n_examples),
            how=how,
        )
        decisions = decide_capabilities(analysis, margins_with(self.margins), self.family)
        return AuditResult(
            audit=self.name,
            estimates=estimates_frame(rows),
            blocks=capabilities_blocks(analysis),
            findings=capabilities_findings(analysis, decisions),
            answers=tuple(each.answer for each in decisions),
            provenance={
                "suite": examined.suite,
                "suite_fingerprint": examined.fingerprint,
                "n_cases": examined.n_cases,
                "n_templates": len(examined.templates),
                "embedded_in": examined.n_hosts,
                "threshold": measured.thresholds.origin,
                "n_replicates": self.n_replicates,
                "unit": f"{examined.units} for sentences, patient for held-out cases",
            },
        )

    @property
    def _n_examples(self) -> int:
        """Templates are not patients, but finished cases may be notes."""
        return self.examples if self.include_text or not str(self.suite).endswith(".jsonl") else 0

    @property
    def questions(self) -> tuple[str, ...]:
        """The suite's capabilities, each with a question of its own."""
        return tuple(capability.id for capability in self._suite().capabilities)

    @property
    def _threshold_rule(self) -> ThresholdRule:
        return ThresholdRule(self.threshold, self.target_recall)

    def _suite(self) -> Suite:
        """The suite with the options that change it."""
        suite = load_suite(self.suite) if isinstance(self.suite, str) else self.suite
        if self.slots:
            suite = suite.with_slots(self.slots)
        if suite.choose:
            chosen = suite.choose[0]
            some = ", ".join(suite.lexicons[chosen].values[:1])
            raise ConfigError(
                f"audit '{self.name}': suite '{suite.name}' needs a choice for slot '{chosen}'",
                hint=f"say what the model looks for, such as `slots: {{{chosen}: [{some}]}}`",
            )
        if self.without_tags:
            suite = suite.without_tags(self.without_tags)
        return suite.with_sizes(self.sizes) if self.sizes else suite

    def _cases(self, suite: Suite, rng: np.random.Generator) -> SuiteCases:
        if self.n is None:
            return suite.default_cases(rng, capabilities=self.capabilities, further=self.further)
        return suite.sample(self.n, rng, capabilities=self.capabilities, further=self.further, balance="template")

    def _labels(self, cohort: Cohort, suite: Suite) -> tuple[str, ...]:
        """The labels that the suite is about; without labels in the cohort, the suite's own words."""
        if suite.classes:
            if self.label is not None:
                raise ConfigError(
                    f"audit '{self.name}': suite '{suite.name}' has labels of its own",
                    hint="remove `label:`; the cohort's labels have the suite's names",
                )
            return audited_labels(self.name, cohort, suite.classes) if cohort.labels else suite.classes
        if not cohort.labels:
            return (self.label or suite.labels.positive,)
        if self.label is None and len(cohort.labels) > 1:
            raise ConfigError(
                f"audit '{self.name}': the cohort has {len(cohort.labels)} labels",
                hint=f"set `label:` to the one that '{suite.labels.positive}' of the suite stands for",
            )
        return audited_labels(self.name, cohort, None if self.label is None else (self.label,))[:1]
