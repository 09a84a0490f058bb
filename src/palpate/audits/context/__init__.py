"""Context: how much of the performance is the patient's history, known before the test?

What was known before gives each case a pre-test probability of each label. The model is then measured in strata of it,
with and without a prior mention, among positives and negatives that are matched on it, and under weights that make it
say nothing about the label (context paper, Sections 3 and 4). Beyond the paper: what the model adds for somebody who
knows the history, decision curves, and a warning where weights or overlap make a number meaningless.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from palpate.audits.context import groups as groups_of
from palpate.audits.context.blocks import blocks_of
from palpate.audits.context.differences import AUDIT, Facts, comparisons, difference_rows, differences, gains
from palpate.audits.context.earlier import Earlier
from palpate.audits.context.estimates import beyond_rows, level_rows
from palpate.audits.context.findings import Story, findings_of, index_of
from palpate.audits.context.groups import MATCHED, REWEIGHTED, WHOLE, Group, StrataFacts
from palpate.audits.context.incremental import look_beyond
from palpate.audits.context.measures import (
    MACRO,
    Cases,
    Measuring,
    global_thresholds,
    macro_parts,
    measure,
    measure_pretest,
    special_reasons,
)
from palpate.audits.context.pretest import JOB, Pretest, PretestModel, explain
from palpate.audits.context.sources import (
    Source,
    Sources,
    choose_sources,
    known_rows,
    past_of,
    pretest_of,
)
from palpate.audits.kit.ensembles import families_of, members_of, spread, with_families
from palpate.audits.kit.measured import Correction, Measured, replicates_frame
from palpate.audits.kit.scope import training_rows
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints, Skip, Variants
from palpate.errors import CohortError, ConfigError
from palpate.perturb.mentions import find_mentions
from palpate.results import AuditResult, Estimate, ModelPredictions, Plan, estimates_frame

Share = Annotated[float, Field(gt=0, lt=1)]
MENTIONED = ("prior mention", "no prior mention")
FOUND = ("found before", "not found before")


class _Memory(NamedTuple):
    """What the plan found out about the cohort."""

    sources: Sources
    past: Earlier | None
    training: Ints
    n_left_out: int


@dataclass(frozen=True)
class Context:
    """The model among patients whose history makes the label equally likely."""

    name: ClassVar[str] = AUDIT

    context: Literal["auto"] | tuple[Source, ...] = "auto"
    """What was known before: `pretest` (ready probabilities), or one or more of `notes` (the cohort's `prior`),
    `earlier` (labels of earlier cases of the patient, by `time`) and `attributes`. `auto`: the first of ready
    probabilities, notes and earlier labels that the cohort has, the last two with the named attributes."""
    pretest: str | dict[str, str] = "pretest_{label}"
    """The columns with ready probabilities: a pattern, or the column of each label."""
    card: dict[str, PretestModel] | None = field(default=None, metadata={"file": "pretest card"})
    """The `pretest.json` of `palpate train pretest`: its models then stand in the report."""
    attributes: tuple[str, ...] = ()
    """Attributes that were known before the test (age, sex). None by default: one recorded later would leak."""
    quantiles: tuple[Share, ...] = (0.25, 0.75)
    """Where the strata of the pre-test probability meet."""
    mentions: Literal["auto", "substring", "affirmed", "earlier", "none"] = "auto"
    """What counts as known before: a phrase anywhere in earlier notes (`substring`), one that is not denied
    (`affirmed`), or the label in an earlier case (`earlier`). `auto`: `substring` where there are notes."""
    phrases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Phrases for labels that palpate has none for, or in the place of its own."""
    caliper: Annotated[float, Field(ge=0, le=1)] | None = None
    """Pairs may differ by at most this much in the pre-test probability; cases without a partner are left out."""
    clip: tuple[Share, Share] = (0.001, 0.999)
    """Pre-test probabilities are cut here before they become weights."""
    labels: tuple[str, ...] | None = None
    """Which labels of the cohort; by default the `most_common`."""
    most_common: Annotated[int, Field(ge=1)] = 24
    """How many labels are audited where `labels` does not say which: those with most positive audited cases."""
    split: str = "test"
    cohort: str | None = None
    """Which cohort is audited; by default the first."""
    specificity: Share = 0.95
    """Where sensitivity is measured: at this specificity within a group (local) and on all cases (global)."""
    decision_thresholds: tuple[Share, ...] = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
    """Probabilities at which a clinician might act, for the decision curves; empty for none."""
    n_bins: Annotated[int, Field(ge=1)] = 10
    unit: Literal["patient", "case"] = "patient"
    n_replicates: Annotated[int, Field(ge=100)] = 10_000
    level: Share = 0.95
    correction: Correction = "bonferroni"
    include_text: bool = False
    """Show the words of earlier notes that weigh most in a fitted pre-test model."""

    def __post_init__(self) -> None:
        """Forget the card's words unless text may be shown: a run's manifest holds the options of its audits."""
        if self.card is not None and not self.include_text:
            silent = {
                label: replace(model, heaviest=()) if model.reads_notes else model for label, model in self.card.items()
            }
            object.__setattr__(self, "card", silent)

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan:  # noqa: ARG002  (nothing is random here)
        """The held-out cases of which something was known before."""
        main = self._cohort(cohort)
        self._check_quantiles()
        rows = cohort.rows(cohort=main, split=self.split)
        if not len(rows):
            raise CohortError(f"cohort '{main}' has no case in split '{self.split}'", hint="set `split:` of the audit")
        labels = self._labels(cohort, rows)
        sources = choose_sources(cohort, labels, self.context, self.pretest, self.attributes)
        self._check_card(cohort, labels, sources)
        self._check_mentions(cohort)
        past = past_of(cohort, labels)
        known = known_rows(cohort, sources, past)
        kept = rows[known[rows]]
        if not len(kept):
            raise CohortError(f"audit 'context': every audited case has {sources.left_out}")
        training = training_rows(cohort, main)
        return Plan(
            cohort,
            Variants.of_cases(kept),
            labels,
            skips=tuple(Skip(int(row), sources.left_out) for row in rows[~known[rows]]),
            cases=kept,
            memory=_Memory(sources, past, training[known[training]], len(rows) - len(kept)),
        )

    def analyse(self, plan: Plan, predictions: dict[str, ModelPredictions], rng: np.random.Generator) -> AuditResult:
        """Pre-test probabilities first, then every model in every group."""
        memory: _Memory = plan.memory
        measuring = self._measuring(int(rng.integers(2**63)))
        pretest = self._pretest(plan, int(rng.integers(2**31)))
        cases = self._cases(plan, predictions, pretest)
        groups, strata = self._groups(plan, cases, pretest)
        families = families_of(predictions)
        parts = {name: with_families(part, families) for name, part in measure(cases, groups, measuring).items()}
        averages = macro_parts(parts, (WHOLE, MATCHED, REWEIGHTED))
        models = tuple(name for name in parts[WHOLE].models if name not in members_of(families))
        reasons = special_reasons(cases, groups)
        beyond = look_beyond(cases, families, measuring, self.decision_thresholds, parts[WHOLE].n_units, reasons[WHOLE])
        facts = Facts(models, self.level, self.correction, self.specificity, reasons, beyond.doubtful)
        found = level_rows([*parts.values(), *averages.values()], facts)
        tested = differences(parts, averages, comparisons(groups), facts) + gains(beyond, facts, plan.labels)
        found += difference_rows(tested, facts)
        found += self._history_rows(measure_pretest(cases, measuring), facts)
        found += beyond_rows(beyond, facts, plan.labels)
        found += spread(self.name, [list(parts.values())], families)
        story = Story(
            rows=found,
            index=index_of(found),
            models=models,
            families=families,
            labels=plan.labels,
            groups=groups,
            strata=strata,
            cases=cases,
            pretest=pretest,
            beyond=beyond,
            level=self.level,
            correction=self.correction,
            specificity=self.specificity,
            caliper=self.caliper,
            n_bins=self.n_bins,
            include_text=self.include_text,
            n_left_out=memory.n_left_out,
            left_out=memory.sources.left_out,
        )
        return AuditResult(
            audit=self.name,
            estimates=estimates_frame(found),
            blocks=blocks_of(story),
            findings=findings_of(story),
            provenance=self._provenance(plan, pretest),
            replicates=self._replicates(parts, averages, models, plan.labels),
        )

    def _pretest(self, plan: Plan, seed: int) -> Pretest:
        memory: _Memory = plan.memory
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
        checked = bool(self._trainings(plan.cohort)) and all(model.job for model in self.card.values())
        return explain(found, plan.labels, self.card, checked=checked)

    def _measuring(self, seed: int) -> Measuring:
        return Measuring(self.specificity, self.n_bins, self.unit, self.n_replicates, self.caliper, self.clip, seed)

    def _history_rows(self, history: Sequence[Measured], facts: Facts) -> list[Estimate]:
        names = tuple(part.population for part in history)
        return level_rows([*history, *macro_parts({part.population: part for part in history}, names).values()], facts)

    def _cases(self, plan: Plan, predictions: dict[str, ModelPredictions], pretest: Pretest) -> Cases:
        rows = plan.variants.parent
        y_true = plan.cohort.y_true(rows, plan.labels)
        known = ~np.isnan(pretest.p)
        p = np.where(known, pretest.p, 0.5)
        y_score = np.stack([answers.p for answers in predictions.values()])
        return Cases(
            y_true=y_true,
            y_score=y_score,
            p=p,
            known=known,
            models=tuple(predictions),
            labels=plan.labels,
            patient=plan.cohort.patients[rows],
            tie_break=_order_of(plan.cohort.cases["case_id"].gather(rows).to_list()),
            threshold=global_thresholds(y_true, y_score, known, self.specificity),
        )

    def _groups(self, plan: Plan, cases: Cases, pretest: Pretest) -> tuple[list[Group], list[StrataFacts]]:
        divided, facts = groups_of.strata(cases.p, cases.known, pretest.reason, self.quantiles)
        groups = [groups_of.whole(cases.known, pretest.reason), *divided]
        found, names = self._mentioned(plan)
        if found is not None:
            groups += groups_of.mentions(found, cases.known, pretest.reason, names)
        return groups, facts

    def _mentioned(self, plan: Plan) -> tuple[NDArray[np.int8] | None, tuple[str, str]]:
        """[case, label] whether the label was known before, and what the two groups are called."""
        rule = self.mentions
        memory: _Memory = plan.memory
        rows = plan.variants.parent
        if rule == "auto":
            rule = "substring" if "prior" in plan.cohort.cases.columns else "earlier" if memory.past else "none"
        if rule == "none":
            return None, MENTIONED
        if rule == "earlier":
            if memory.past is None:
                return None, FOUND
            known = memory.past.n[rows] > 0
            return np.where(known[:, None], memory.past.ever[rows], -1).astype(np.int8), FOUND
        notes = plan.cohort.cases["prior"].gather(rows).to_list()
        return find_mentions(notes, plan.labels, rule=rule, phrases=self.phrases), MENTIONED

    def _cohort(self, cohort: Cohort) -> str:
        if self.cohort is not None and self.cohort not in cohort.names:
            raise ConfigError(
                f"audit 'context': there is no cohort '{self.cohort}'", hint=f"there are: {', '.join(cohort.names)}"
            )
        return self.cohort or cohort.names[0]

    def _labels(self, cohort: Cohort, rows: Ints) -> tuple[str, ...]:
        unknown = [label for label in self.labels or () if label not in cohort.labels]
        if unknown:
            raise ConfigError(f"audit 'context': the cohort has no label '{unknown[0]}'")
        labels = tuple(self.labels) if self.labels else cohort.labels
        if not self.labels and len(labels) > self.most_common:
            positive = np.asarray(cohort.y.tocsr()[rows].sum(axis=0)).ravel()
            chosen = np.sort(np.argsort(-positive, kind="stable")[: self.most_common])
            labels = tuple(cohort.labels[int(j)] for j in chosen)
        if MACRO in labels and len(labels) > 1:
            raise ConfigError(f"audit 'context': '{MACRO}' names the average; give the label another name")
        return labels

    def _check_quantiles(self) -> None:
        if not self.quantiles or any(b <= a for a, b in zip(self.quantiles[:-1], self.quantiles[1:], strict=True)):
            raise ConfigError("audit 'context', option 'quantiles': they must rise, like [0.25, 0.75]")
        if self.clip[0] >= self.clip[1]:
            raise ConfigError("audit 'context', option 'clip': the first must be the lower, like [0.001, 0.999]")

    def _check_card(self, cohort: Cohort, labels: Sequence[str], sources: Sources) -> None:
        if self.card is None:
            return
        if sources.kinds != ("pretest",):
            raise ConfigError(
                "audit 'context', option 'card': the cohort has no ready pre-test probability that it could tell of",
                hint="audit the cohort.parquet that `palpate train pretest` wrote",
            )
        if not set(self.card) & set(labels):
            raise ConfigError(
                "audit 'context', option 'card': the card tells of no model of the audited labels",
                hint="give the pretest.json that was written beside the cohort",
            )
        made, told = self._trainings(cohort), {model.job for model in self.card.values()} - {""}
        if made and told and made != told:
            raise ConfigError(
                "audit 'context', option 'card': the cohort's pre-test probabilities are of another training",
                hint="give the pretest.json that was written beside the cohort",
            )

    def _trainings(self, cohort: Cohort) -> set[str]:
        """Which trainings made the ready probabilities, as far as the cohort says so."""
        if JOB not in cohort.cases.columns:
            return set()
        own = cohort.cases.filter(cohort.cases["cohort"] == self._cohort(cohort))
        return set(own[JOB].drop_nulls().cast(str))

    def _check_mentions(self, cohort: Cohort) -> None:
        needs = {"substring": "prior", "affirmed": "prior", "earlier": "time"}.get(self.mentions)
        if needs is not None and needs not in cohort.cases.columns:
            raise CohortError(f"audit 'context': `mentions: {self.mentions}` needs the cohort's `{needs}:`")

    def _replicates(
        self, parts: dict[str, Measured], averages: dict[str, Measured], models: Sequence[str], labels: Sequence[str]
    ) -> Any:
        chosen = averages or ({name: parts[name] for name in (WHOLE, MATCHED, REWEIGHTED)} if len(labels) == 1 else {})
        label = MACRO if averages else labels[0]
        return replicates_frame([list(chosen.values())], models, label, ("auroc",)) if chosen else None

    def _provenance(self, plan: Plan, pretest: Pretest) -> dict[str, Any]:
        memory: _Memory = plan.memory
        return {
            "context": list(memory.sources.kinds),
            "pretest": pretest.origin,
            "training_cases": len(memory.training),
            "left_out": memory.n_left_out,
            "left_out_because": memory.sources.left_out,
            "quantiles": list(self.quantiles),
            "caliper": self.caliper,
            "unit": self.unit,
            "n_replicates": self.n_replicates,
        }


def _order_of(names: Sequence[str]) -> Ints:
    """A number for each case that belongs to its name: ties in the matching do not depend on the order of the rows."""
    digests = (hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names)
    return np.asarray([int.from_bytes(digest, "little", signed=True) for digest in digests], dtype=np.int64)
