"""Capabilities: does the model handle negation, temporal order, sentiment, beneficial effects?

Sentences from templates, each with an answer that is beyond doubt (ADE template paper): pass rates by test and label
with intervals by base template, against the recall of that label on held-out cases (its Section 4.1.3 and Figure 3), by
the drug's name (Figure 4) and by template (Figures 5 and 6). All three test types of CheckList: a label is expected
(MFT), a change must not move the prediction (INV), or must move it in a direction (DIR).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from palpate.audits.capabilities.analysis import Memory, Settings, analyse_answers
from palpate.audits.capabilities.blocks import blocks_of
from palpate.audits.capabilities.examples import failures
from palpate.audits.capabilities.findings import Story, findings_of
from palpate.audits.capabilities.plan import Examined, examine
from palpate.audits.kit.measured import Correction
from palpate.audits.kit.scope import training_rows, validation_rows
from palpate.audits.kit.thresholds import ThresholdRule, check_rule
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints, Variants
from palpate.errors import CohortError, ConfigError
from palpate.perturb.suites import Cases, Suite, read_suite
from palpate.results import AuditResult, ModelPredictions, Plan, estimates_frame

Value = str | dict[str, str | float]
_GROUPS = ("held out", "validation", "template", "changed")


@dataclass(frozen=True)
class Capabilities:
    """What a model can do, by sentences with known answers."""

    name: ClassVar[str] = "capabilities"

    suite: str = field(default="ade", metadata={"path": True})
    """`ade`, `notes`, or a file: a suite in YAML, templates in CSV, or finished cases in JSONL."""
    capabilities: tuple[str, ...] | None = None
    """Which capabilities of the suite; by default its main ones."""
    further: bool = False
    """Also the suite's further capabilities, which are reported apart."""
    slots: dict[str, str | tuple[Value, ...]] | None = field(default=None, metadata={"values": "lexicon"})
    """Other values for some slots: `{finding: [pneumonia, PNA]}`; or a lexicon's file, `{effect: mine.yaml}`."""
    sizes: dict[str, Annotated[int, Field(ge=1)]] | None = None
    """Other numbers of values a slot in the default run."""
    without_tags: tuple[str, ...] = ()
    """Leave out templates with one of these tags."""
    n: Annotated[int, Field(ge=1)] | None = None
    """A sample of so many cases from all variations and fill-ins, every template alike, instead of the default run."""
    positive: str | None = None
    """The word for the positive label in a CSV or JSONL suite; by default labels are 1 and 0."""
    label: str | None = None
    """Which label of the cohort is the suite's positive one; needed where the cohort has several."""
    cohort: str | None = None
    """Which cohort is the baseline; the first by default."""
    split: str = "test"
    """Which split is held out, for the baseline."""
    threshold: Annotated[float, Field(ge=0, le=1)] | Literal["auto", "recall", "youden"] = "auto"
    """Where a probability becomes a decision, as in the performance audit."""
    target_recall: Annotated[float, Field(gt=0, le=1)] = 0.70
    n_replicates: Annotated[int, Field(ge=100)] = 10_000
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    correction: Correction = "bonferroni"
    examples: Annotated[int, Field(ge=0)] = 2
    """How many failing sentences are shown for each model, test and label."""
    include_text: bool = False
    """Show finished cases (JSONL) that fail; sentences from templates are shown in any case."""

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan:
        """The suite's sentences, the held-out cases for the baseline, and the validation split for the threshold."""
        suite = self._suite()
        label, has_label = self._label(cohort, suite)
        if has_label:
            check_rule(self._rule, cohort)
        main = self.cohort or cohort.names[0]
        if main not in cohort.names:
            raise ConfigError(f"audit 'capabilities': there is no cohort '{main}'", hint=", ".join(cohort.names))
        held_out = cohort.rows(cohort=main, split=self.split) if has_label else np.zeros(0, dtype=np.int64)
        validation = validation_rows(cohort) if has_label else np.zeros(0, dtype=np.int64)
        cases = self._cases(suite, rng)
        if not len(cases):
            raise ConfigError(f"audit 'capabilities': suite '{suite.name}' has no case for these options")
        first_row = len(held_out) + len(validation)
        examined = examine(
            suite,
            cases,
            first_row=first_row,
            training=_training(cohort),
            capabilities=self.capabilities,
        )
        variants = _variants(cohort, held_out, validation, cases, examined)
        memory = Memory(slice(0, len(held_out)), slice(len(held_out), first_row), examined, has_label, self.split)
        return Plan(cohort, variants, (label,), cases=held_out, memory=memory)

    def analyse(self, plan: Plan, predictions: dict[str, ModelPredictions], rng: np.random.Generator) -> AuditResult:
        """Pass rates, their differences to the baseline and between models, and what fails."""
        memory: Memory = plan.memory
        settings = Settings(self.level, self.n_replicates, self.correction, self._rule)
        found = analyse_answers(plan, predictions, settings, rng)
        story = Story(
            rows=found.rows,
            examined=memory.examined,
            models=found.scribe.compared,
            passed=found.answered.passed[[found.answered.models.index(name) for name in found.scribe.compared]],
            baselines=found.baselines,
            values=found.values,
            failures=failures(plan, found.answered, found.scribe.compared, self._n_examples),
            threshold_origin=found.thresholds.origin,
            level=self.level,
            correction=self.correction,
        )
        return AuditResult(
            audit=self.name,
            estimates=estimates_frame(found.rows),
            blocks=blocks_of(story),
            findings=findings_of(story),
            provenance={
                "suite": memory.examined.suite,
                "suite_fingerprint": memory.examined.fingerprint,
                "n_cases": len(memory.examined),
                "n_templates": len(memory.examined.templates),
                "threshold": found.thresholds.origin,
                "n_replicates": self.n_replicates,
                "unit": "base template for sentences, patient for held-out cases",
            },
        )

    @property
    def _n_examples(self) -> int:
        """Templates are not patients, but finished cases may be notes."""
        return self.examples if self.include_text or Path(self.suite).suffix != ".jsonl" else 0

    @property
    def _rule(self) -> ThresholdRule:
        return ThresholdRule(self.threshold, self.target_recall)

    def _suite(self) -> Suite:
        """The suite with the options that change it."""
        suite = read_suite(self.suite, positive=self.positive, slots=self.slots or {})
        if suite.choose:
            chosen = suite.choose[0]
            some = ", ".join(suite.lexicons[chosen].values[:1])
            raise ConfigError(
                f"audit 'capabilities': suite '{suite.name}' needs a choice for slot '{chosen}'",
                hint=f"say what the model looks for, such as `slots: {{{chosen}: [{some}]}}`",
            )
        if self.without_tags:
            suite = suite.without_tags(self.without_tags)
        return suite.with_sizes(self.sizes) if self.sizes else suite

    def _cases(self, suite: Suite, rng: np.random.Generator) -> Cases:
        if self.n is None:
            return suite.default_cases(rng, capabilities=self.capabilities, further=self.further)
        return suite.sample(self.n, rng, capabilities=self.capabilities, further=self.further, balance="template")

    def _label(self, cohort: Cohort, suite: Suite) -> tuple[str, bool]:
        """The label that is asked for, and whether the cohort has it."""
        if not cohort.labels:
            return self.label or suite.labels.positive, False
        if self.label is None:
            if len(cohort.labels) > 1:
                raise ConfigError(
                    f"audit 'capabilities': the cohort has {len(cohort.labels)} labels",
                    hint=f"set `label:` to the one that '{suite.labels.positive}' of the suite stands for",
                )
            return cohort.labels[0], True
        if self.label not in cohort.labels:
            hint = f"it has {', '.join(cohort.labels[:10])}"
            raise CohortError(f"audit 'capabilities': the cohort has no label '{self.label}'", hint=hint)
        return self.label, True


def _training(cohort: Cohort) -> list[str] | None:
    """The notes of the first cohort's training split; None where there is none."""
    rows = training_rows(cohort)
    return [cohort.texts[row] for row in rows.tolist()] if len(rows) and cohort.has_text else None


def _variants(cohort: Cohort, held_out: Ints, validation: Ints, cases: Cases, examined: Examined) -> Variants:
    """Held-out cases, validation cases, the sentences, and the second sentences of pairs."""
    made = (*cases.texts, *(text for text in cases.changed if text))
    parent = np.concatenate([held_out, validation, len(cohort) + np.arange(len(made))]).astype(np.int64)
    sizes = [len(held_out), len(validation), len(cases), int((examined.second >= 0).sum())]
    none = np.zeros(0, dtype=np.int64)
    return Variants(
        parent=parent,
        first_edit=np.zeros(len(parent) + 1, dtype=np.int64),
        start=none,
        end=none,
        replacement=none,
        replacements=(),
        group=np.repeat(np.arange(len(sizes)), sizes).astype(np.int64),
        group_names=_GROUPS,
        made=made,
    )
