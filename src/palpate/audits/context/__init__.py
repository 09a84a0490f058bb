"""Context: how much of the performance is the patient's history, known before the test?

What was known before gives each case a pre-test probability of each label. The model is then measured in strata of it,
with and without a prior mention, among positives and negatives that are matched on it, and under weights that make it
say nothing about the label (context paper, Sections 3 and 4). Beyond the paper: what the model adds for someone who
knows the history, decision curves, and a warning where weights or overlap make a number meaningless.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import polars as pl
from pydantic import Field

from palpate.audits.context.blocks import context_blocks
from palpate.audits.context.cases import AuditedCases, ContextMeasuring, audited_cases, with_pretest
from palpate.audits.context.estimates import OTHER_METRICS, context_rows
from palpate.audits.context.findings import ContextAnalysis, context_findings, context_questions
from palpate.audits.context.groups import MATCHED, PRETEST, REWEIGHTED, WHOLE, case_groups, strata_groups
from palpate.audits.context.incremental import EVERYBODY, MODEL_AND_HISTORY
from palpate.audits.context.measures import METRICS, ContextMeasures, Refit, measure_context
from palpate.audits.context.plan import (
    KnownHistory,
    MentionRule,
    check_card,
    check_cuts,
    check_mentions,
    check_phrases,
    plan_cases,
    training_runs,
)
from palpate.audits.context.pretest import PretestModel, PretestProbabilities, explain, pretest_of
from palpate.audits.context.sources import Source, choose_sources
from palpate.audits.kit.metrics import replicates_frame
from palpate.audits.kit.resampling import Correction, Family, Resampling
from palpate.audits.kit.rows import EstimateIndex, RowWriter
from palpate.audits.kit.scope import Count, Level, Replicates, Share, Unit, audited_cohort, audited_labels, audited_rows
from palpate.cases.cohort import Cohort
from palpate.results import MACRO, AuditResult, Plan, Predictions, estimates_frame
from palpate.results.verdicts import margins_with


@dataclass(frozen=True)
class Context:
    """The model among patients whose history makes the label about equally likely.

    >>> Context(n_replicates=500).n_replicates
    500
    """

    name: ClassVar[str] = "context"
    unweighted_because: ClassVar[str] = ""
    metrics: ClassVar[tuple[str, ...]] = (*METRICS, *OTHER_METRICS)
    questions: ClassVar[tuple[str, ...]] = ("held_equal", "high_risk")
    beside_models: ClassVar[tuple[str, ...]] = (PRETEST, MODEL_AND_HISTORY, EVERYBODY)

    context: Literal["auto"] | tuple[Source, ...] = "auto"
    """What was known before: `pretest` (ready probabilities), or one or more of `notes` (the cohort's `prior`),
    `earlier` (labels of earlier cases of the patient, by `time`) and `attributes`. `auto`: the first of ready
    probabilities, notes and earlier labels that the cohort has, the last two with the named attributes."""
    pretest: str | dict[str, str] = "pretest_{label}"
    """The columns with ready probabilities: a pattern, or the column of each label."""
    card: dict[str, PretestModel] | None = field(default=None, metadata={"file": "pretest card"})
    """The `pretest.json` of `palpate train pretest`: the report then describes its models."""
    attributes: tuple[str, ...] = ()
    """Attributes that were known before the test (age, sex). None by default: one recorded later would leak."""
    quantiles: tuple[Share, ...] = (0.25, 0.75)
    """Where the strata of the pre-test probability meet."""
    mentions: MentionRule = "auto"
    """What counts as known before: a phrase anywhere in earlier notes (`substring`), one by which the patient has, had
    or may have the finding (`affirmed`), or the label in an earlier case (`earlier`). `auto`: `substring` where there
    are notes."""
    phrases: dict[str, tuple[str, ...]] = field(default_factory=dict, metadata={"file": "phrases", "folder": True})
    """Phrases for labels that palpate has none for, or in place of its own: a file, a folder or `{label: [phrase]}`."""
    caliper: Annotated[float, Field(ge=0, le=1)] | None = None
    """Pairs may differ by at most this much in the pre-test probability; cases without a partner are left out."""
    clip: tuple[Share, Share] = (0.001, 0.999)
    """Pre-test probabilities are clipped to these limits before they become weights."""
    labels: tuple[str, ...] | None = None
    """Which labels of the cohort; by default the `most_common`."""
    most_common: Count = 24
    """How many labels are audited where `labels` does not say which: those with most positive audited cases."""
    split: str = "test"
    cohort: str | None = None
    """Which cohort is audited; by default the first."""
    specificity: Share = 0.95
    """Where sensitivity is measured: at this specificity within a group (local) and on all cases (global)."""
    decision_thresholds: tuple[Share, ...] = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
    """Probabilities at which a clinician might act, for the decision curves; empty for none."""
    n_bins: Count = 10
    unit: Unit = "patient"
    n_replicates: Replicates = 10_000
    level: Level = 0.95
    refits: Annotated[int, Field(ge=0)] = 20
    """How often a fitted pre-test model is fitted again, to resamples of its patients, so that intervals allow for its
    uncertainty; 0 takes it as given."""
    correction: Correction = "bonferroni"
    family: Family = "question"
    """Which tests share one correction: those of one comparison in one metric, over labels and models (`question`), or
    all of the run (`run`)."""
    margins: dict[str, float] = field(default_factory=dict)
    """The smallest effects that matter, set for the whole run."""
    include_text: bool = False
    """Show the words of earlier notes that weigh most in a fitted pre-test model."""

    def __post_init__(self) -> None:
        """Drop the card's words unless text may be shown: the manifest of a run holds the options of its audits."""
        if self.card is not None and not self.include_text:
            silent = {
                label: replace(model, heaviest=()) if model.reads_notes else model for label, model in self.card.items()
            }
            object.__setattr__(self, "card", silent)

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan[KnownHistory]:  # noqa: ARG002  (nothing is random)
        """The held-out cases about which something was known before."""
        name = audited_cohort(self.name, cohort, self.cohort)
        check_cuts(self.quantiles, self.clip)
        rows = audited_rows(self.name, cohort, name, self.split)
        labels = audited_labels(
            self.name, cohort, self.labels, rows=rows, most_common=self.most_common, reserved=(MACRO,)
        )
        sources = choose_sources(cohort, labels, self.context, self.pretest, self.attributes)
        if self.card is not None:
            check_card(cohort, name, labels, sources, self.card)
        check_mentions(cohort, self.mentions)
        check_phrases(self.phrases, labels)
        return plan_cases(cohort, name, rows, labels, sources)

    def analyse(self, plan: Plan[KnownHistory], predictions: Predictions, rng: np.random.Generator) -> AuditResult:
        """Pre-test probabilities first, then every model in every group, then what models add to the history."""
        resampling = Resampling(
            self.level, self.n_replicates, self.correction, self.unit, seed=int(rng.integers(2**63))
        )
        measuring = ContextMeasuring(resampling, self.specificity, self.n_bins, self.caliper, self.clip, self.family)
        pretest = self._pretest(plan, int(rng.integers(2**31)))
        cases = audited_cases(plan, predictions, pretest.p, measuring)
        groups, strata = case_groups(
            plan,
            cases.p,
            cases.known,
            pretest.reason,
            quantiles=self.quantiles,
            mentions=self.mentions,
            phrases=self.phrases,
            weight=cases.weight,
        )
        refits = self._refits(cases, pretest)
        measures = measure_context(cases, groups, predictions, measuring, self.decision_thresholds, refits)
        rows = context_rows(RowWriter(self.name, self.level), measures, groups, predictions, measuring)
        analysis = ContextAnalysis(
            estimates=EstimateIndex(rows, group=WHOLE),
            models=predictions.compared,
            ensembles=predictions.ensembles,
            labels=plan.labels,
            groups=groups,
            strata=strata,
            cases=cases,
            pretest=pretest,
            measures=measures,
            measuring=measuring,
            include_text=self.include_text,
            n_left_out=plan.memory.n_left_out,
            left_out=plan.memory.sources.left_out,
        )
        asked = context_questions(analysis, margins_with(self.margins)["auroc"])
        return AuditResult(
            audit=self.name,
            estimates=estimates_frame(rows),
            blocks=context_blocks(analysis),
            findings=context_findings(analysis, asked),
            answers=tuple(each.answer for each in asked),
            provenance=self._provenance(plan, pretest),
            replicates=_replicates(measures, predictions.compared),
        )

    def _pretest(self, plan: Plan[KnownHistory], seed: int) -> PretestProbabilities:
        memory = plan.memory
        found = pretest_of(
            plan.cohort,
            plan.labels,
            memory.sources,
            memory.past,
            training=memory.training,
            audited=plan.variants.parent,
            seed=seed,
        )
        if self.card is None:
            return found
        named = bool(training_runs(plan.cohort, memory.cohort)) and all(model.job for model in self.card.values())
        return explain(found, plan.labels, self.card, checked=named)

    def _refits(self, cases: AuditedCases, pretest: PretestProbabilities) -> Iterator[Refit]:
        for p in pretest.refits(self.refits) if pretest.refits is not None else ():
            again = with_pretest(cases, p)
            strata, _ = strata_groups(again.p, again.known, pretest.reason, self.quantiles, again.weight)
            yield Refit(again, strata)

    def _provenance(self, plan: Plan[KnownHistory], pretest: PretestProbabilities) -> dict[str, Any]:
        return {
            "context": list(plan.memory.sources.kinds),
            "pretest": pretest.origin,
            "training_cases": len(plan.memory.training),
            "left_out": plan.memory.n_left_out,
            "left_out_because": plan.memory.sources.left_out,
            "quantiles": list(self.quantiles),
            "caliper": self.caliper,
            "unit": self.unit,
            "n_replicates": self.n_replicates,
            "refits": 0 if pretest.refits is None else self.refits,
        }


def _replicates(measures: ContextMeasures, models: tuple[str, ...]) -> pl.DataFrame | None:
    """Of the only label, or of the mean over labels; None where there are several labels and no mean."""
    labels = measures.parts[WHOLE].labels
    if measures.averages:
        return replicates_frame(measures.averages.values(), models, MACRO, ("auroc",))
    if len(labels) > 1:
        return None
    chosen = [measures.parts[name] for name in (WHOLE, MATCHED, REWEIGHTED)]
    return replicates_frame(chosen, models, labels[0], ("auroc",))
