"""Evidence: does the model point at the text that a professional coder would point at?

Gold spans of codes in charts against what a model says it looked at (evidence paper, MDACE): a table of its evidence,
its own explanations, or, for every other model, what its answer loses when words are taken out. Beside this
plausibility, faithfulness: does the answer depend on what is pointed at?
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, InstanceOf

from palpate.audits.evidence.asking import (
    Asking,
    Memory,
    Source,
    ask_evidence,
    ask_words,
    occlusion_attributions,
    sources_of,
)
from palpate.audits.evidence.blocks import blocks_of
from palpate.audits.evidence.estimates import (
    Facts,
    corrected_faithfulness,
    difference_rows,
    faithfulness_rows,
    null_rows,
    score_rows,
    spread_rows,
)
from palpate.audits.evidence.examples import examples_of
from palpate.audits.evidence.faithfulness import Faithful, Removal, ask_removals, faithfulness, not_removed
from palpate.audits.evidence.findings import Story, findings_of
from palpate.audits.evidence.inputs import Placed, charts_of, place_evidence, place_notes, spans_in, strange_labels
from palpate.audits.evidence.marking import (
    OCCLUSION,
    TABLE,
    Found,
    Marking,
    Scale,
    graded_evidence,
    hard_evidence,
    scored_pieces,
)
from palpate.audits.evidence.measures import (
    Measured,
    Resampling,
    audited_gold,
    completeness,
    measure_all,
    wordless_gold,
)
from palpate.audits.kit.ensembles import families_of, members_of
from palpate.audits.kit.measured import Correction
from palpate.audits.kit.scope import validation_rows
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints, Variants
from palpate.cases.evidence import SUFFICIENT, EvidenceTable, NotesTable
from palpate.errors import CohortError, ConfigError
from palpate.results import AuditResult, Estimate, ModelPredictions, Plan, estimates_frame

Fraction = Annotated[float, Field(gt=0, lt=1)]


@dataclass(frozen=True)
class Evidence:
    """Evidence of models against that of coders."""

    name: ClassVar[str] = "evidence"

    gold: InstanceOf[EvidenceTable] | None = field(default=None, metadata={"source": "evidence"})
    """What coders marked: a table (`case_id, label, start, end`) or a folder in MDACE's layout."""
    notes: InstanceOf[NotesTable] | None = field(default=None, metadata={"source": "notes"})
    """Where notes lie in the cases' texts (`case_id, note_id, category, start, end`): for strata by category, and for
    MDACE's folders, whose offsets are those of notes."""
    predicted: dict[str, InstanceOf[EvidenceTable]] = field(default_factory=dict, metadata={"source": "evidence"})
    """Evidence of models, by their names: tables as `gold`, with a column `score` if it is graded, or folders."""
    explain: str | dict[str, str] = "auto"
    """How models without a table are asked: `auto` is the model's own way, or occlusion for those that have none;
    `occlusion`; `none`; or a way by its name (`attention`, `integrated_gradients`). Also by model."""
    threshold: float | None = None
    """From which score on a word is evidence; by default the best on the validation split."""
    step: Annotated[float, Field(gt=0, lt=1)] | Literal["auto"] = "auto"
    """Steps of the thresholds that are tried; `auto` is the paper's: 0.05 for tagging and 0.02 for the rest."""
    scale: Scale = "auto"
    """`raw` scores, or `relative` to the strongest word of the chart and label. `auto` is relative for occlusion, and
    where scores do not lie between 0 and 1."""
    code_threshold: Annotated[float, Field(ge=0, le=1)] | Literal["auto"] = "auto"
    """From which probability on a code is predicted: the model's own, else 0.5."""
    charts: Literal["all", "annotated"] = "all"
    """All charts of the split, or those with gold evidence; what is predicted in a chart without gold is false."""
    max_charts: Annotated[int, Field(ge=1)] | None = None
    """A random sample of so many charts, the same for all models, where occlusion of a slow model would take too long;
    of the validation split as many."""
    labels: tuple[str, ...] | None = None
    split: str = "test"
    cohort: str | None = None
    """Which cohort's charts; by default the first."""
    largest_number: Annotated[int, Field(ge=0)] | None = 10
    """Larger numbers are no words, as in the paper; null keeps all."""
    iou: Annotated[float, Field(ge=0, le=1)] = 0.5
    segments: Annotated[int, Field(ge=2)] = 32
    """Occlusion first takes out so many pieces of a chart, one at a time."""
    words_per_label: Annotated[int, Field(ge=1)] = 200
    """Then single words, at most so many for a chart and label."""
    replace_with: str = " "
    """What stands where words were taken out."""
    faithfulness: bool = True
    fractions: Annotated[tuple[Fraction, ...], Field(min_length=1)] = (0.01, 0.05, 0.1, 0.2, 0.5)
    """Shares of a chart's words that are taken out."""
    faithfulness_pairs: Annotated[int, Field(ge=1)] = 200
    """At most so many charts and labels a model, whole charts at random."""
    unit: Literal["chart", "patient"] = "chart"
    n_replicates: Annotated[int, Field(ge=100)] = 10_000
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    correction: Correction = "bonferroni"
    examples: Annotated[int, Field(ge=0)] = 8
    include_text: bool = False
    """Show pieces of charts with gold and predicted evidence."""

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan:
        """The audited charts, and those of the validation split that have gold evidence."""
        if self.gold is None:
            raise ConfigError("audit 'evidence' needs what coders marked", hint="give a table as `gold:`")
        main, labels = self._audited(cohort)
        places = place_notes(self.notes, cohort, main)
        gold = place_evidence(self.gold, cohort, main, labels, places, gold=True)
        codes = labels if self.labels else (*labels, *strange_labels(self.predicted.values(), cohort))
        tables = {name: place_evidence(each, cohort, main, codes, places) for name, each in self.predicted.items()}
        rows = cohort.rows(cohort=main, split=self.split)
        if self.charts == "annotated":
            rows = rows[np.isin(rows, gold.row)]
        rows = self._sample(rows, rng)
        if not np.isin(gold.row, rows).any():
            problem = f"no chart of cohort '{main}' in split '{self.split}' has gold evidence"
            raise CohortError(problem, file=self.gold.file, hint="set `split:` of the audit")
        validation = np.setdiff1d(np.intersect1d(validation_rows(cohort, main), gold.row), rows)
        validation = self._sample(validation, rng)
        self._check_threshold(tables, validation)
        charts = charts_of(cohort, np.concatenate([rows, validation]), places, self.largest_number)
        memory = Memory(
            charts=charts,
            n_audited=len(rows),
            gold=spans_in(charts, gold, len(cohort)),
            placed_gold=gold,
            places=places,
            tables=tables,
            n_codes=len(codes),
            seed=int(rng.integers(2**31)),
        )
        named = (*self.predicted, *(self.explain if isinstance(self.explain, dict) else ()))
        return Plan(
            cohort,
            Variants.of_cases(charts.rows),
            labels,
            cases=rows,
            memory=memory,
            names=tuple(dict.fromkeys(named)),
            windows=True,
        )

    def check_models(self, plan: Plan, models: Mapping[str, ModelPredictions]) -> None:
        """Refuse a way to explain that a model does not know, and scores for which no threshold can be found."""
        memory: Memory = plan.memory
        sources = sources_of(plan, models, self._asking)
        asked = [name for name, source in sources.items() if source.kind in ("explain", "occlusion")]
        if self.threshold is None and len(memory.charts.rows) == memory.n_audited and asked:
            raise self._no_threshold(asked[0])

    def plan_again(self, plan: Plan, predictions: dict[str, ModelPredictions], rng: np.random.Generator) -> Plan | None:  # noqa: ARG002  (the plan has drawn its seed)
        """Explanations and occlusion, then words, then removal; None when all is known."""
        memory: Memory = plan.memory
        if memory.stage == "cases" and (larger := ask_evidence(plan, predictions, self._asking)) is not None:
            return larger
        if memory.stage in ("cases", "evidence") and (more := ask_words(plan, predictions, self._asking)) is not None:
            return more
        if memory.stage == "removal" or not self.faithfulness:
            return None
        found = {name: each for name, each in self._found(plan, predictions).items() if isinstance(each, Found)}
        return ask_removals(
            plan, predictions, found, self._asking, fractions=self.fractions, n_pairs=self.faithfulness_pairs
        )

    def without_turns(self) -> Evidence:
        """For models that are asked only once: their evidence comes as a table, and nothing is taken out."""
        return replace(self, explain="none", faithfulness=False)

    def analyse(self, plan: Plan, predictions: dict[str, ModelPredictions], rng: np.random.Generator) -> AuditResult:
        """Scores by strata, differences, faithfulness; as rows, blocks and sentences."""
        memory: Memory = plan.memory
        units = plan.cohort.patients[plan.cases] if self.unit == "patient" else np.arange(memory.n_audited)
        how = Resampling(int(rng.integers(2**63)), self.n_replicates, self.level, units)
        facts = self._facts(memory, units)
        found = self._found(plan, predictions)
        families = families_of(predictions)
        known = {name: each for name, each in found.items() if isinstance(each, Found)}
        measured = measure_all(memory, known, predictions, families, how, iou=self.iou)
        faithful = self._faithful(memory, known, predictions, families, how)
        rows = self._rows(found, measured, faithful, families, facts)
        story = Story(
            rows=rows,
            found=found,
            measured=measured,
            faithful=faithful,
            models=[name for name in (*predictions, *families) if name not in members_of(families)],
            level=self.level,
            correction=self.correction,
            n_charts=memory.n_audited,
            n_without_gold=memory.n_audited - len(np.unique(audited_gold(memory).note)),
            sufficient=facts.sufficient,
            windows=_windows(predictions),
            cost={name: _n_copies(plan, name) for name in predictions},
            n_strange=memory.n_codes - len(plan.labels),
            n_wordless=wordless_gold(memory),
            family_of={name: family for family, members in families.items() for name in members},
        )
        shown = examples_of(plan, memory, found, self.examples) if self.include_text else None
        return AuditResult(
            audit=self.name,
            estimates=estimates_frame(rows),
            blocks=blocks_of(story, shown),
            findings=findings_of(story),
            provenance=self._provenance(plan, found, predictions),
        )

    @property
    def _asking(self) -> Asking:
        return Asking(self.explain, self.code_threshold, self.segments, self.words_per_label, self.replace_with)

    @property
    def _marking(self) -> Marking:
        return Marking(self.threshold, self.step, self.scale)

    def _audited(self, cohort: Cohort) -> tuple[str, tuple[str, ...]]:
        if not cohort.has_text:
            raise CohortError("audit 'evidence' compares pieces of text, and the cohort has none", hint="set `text:`")
        main = self.cohort or cohort.names[0]
        if main not in cohort.names:
            hint = f"there are: {', '.join(cohort.names)}"
            raise ConfigError(f"audit 'evidence': there is no cohort '{main}'", hint=hint)
        unknown = [label for label in self.labels or () if label not in cohort.labels]
        if unknown:
            raise ConfigError(f"audit 'evidence': the cohort has no label '{unknown[0]}'")
        return main, tuple(self.labels or cohort.labels)

    def _sample(self, rows: Ints, rng: np.random.Generator) -> Ints:
        if self.max_charts is None or len(rows) <= self.max_charts:
            return rows
        return np.sort(rng.choice(rows, size=self.max_charts, replace=False))

    def _check_threshold(self, tables: Mapping[str, Placed], validation: Ints) -> None:
        """Scores need a threshold, and that a validation split."""
        graded = [name for name, placed in tables.items() if placed.score is not None]
        if self.threshold is None and not len(validation) and graded:
            raise self._no_threshold(graded[0])

    def _no_threshold(self, model: str) -> CohortError:
        return CohortError(
            f"audit 'evidence': the evidence of model '{model}' has scores, and no validation chart has gold evidence "
            "from which a threshold could be chosen",
            hint="give one as `threshold:`",
        )

    def _found(self, plan: Plan, predictions: Mapping[str, ModelPredictions]) -> dict[str, Found | str]:
        """What each model points at; a string says why nothing is known."""
        found: dict[str, Found | str] = {}
        for name, source in sources_of(plan, predictions, self._asking).items():
            found[name] = source.reason or self._evidence_of(plan, name, source, predictions[name])
        return found

    def _evidence_of(self, plan: Plan, name: str, source: Source, answers: ModelPredictions) -> Found | str:
        memory: Memory = plan.memory
        table = memory.table_of(name, answers)
        n_cases = len(plan.cohort)
        if table is not None and table.score is None:
            return hard_evidence(memory.charts, memory.n_audited, table, n_cases)
        if table is not None:
            pieces, origin = scored_pieces(table), TABLE
        elif source.kind == "explain":
            if answers.attributions is None:
                return "it was not asked to explain"
            pieces, origin = answers.attributions, source.way
        else:
            pieces, origin = occlusion_attributions(memory, name, answers, self._asking), OCCLUSION
        return graded_evidence(memory.charts, memory.n_audited, memory.gold, pieces, origin, self._marking, n_cases)

    def _faithful(
        self,
        memory: Memory,
        found: Mapping[str, Found],
        predictions: Mapping[str, ModelPredictions],
        families: Mapping[str, list[str]],
        how: Resampling,
    ) -> dict[str, Faithful | str]:
        """What came of taking words out, of models and of the means over checkpoints; where that is nothing, why."""
        removal: dict[str, Removal] = dict(memory.removal)
        for name, each in found.items():
            if self.faithfulness and name not in removal:
                nothing = not_removed(memory, predictions[name], each, self._asking)
                if nothing is not None:
                    removal[name] = nothing
        groups = {name: [name] for name in removal}
        groups |= {family: names for family, names in families.items() if all(name in removal for name in names)}
        return {
            name: faithfulness(
                [(removal[each], predictions[each]) for each in names],
                how.unit,
                rng=how.seed,
                n_replicates=how.n_replicates,
            )
            for name, names in groups.items()
        }

    def _facts(self, memory: Memory, units: Ints) -> Facts:
        kinds = completeness(memory)
        sufficient = any(SUFFICIENT in kind for kind in kinds)
        return Facts(memory.n_audited, len(np.unique(units)), self.level, self.correction, sufficient)

    def _rows(
        self,
        found: Mapping[str, Found | str],
        measured: Mapping[str, Measured],
        faithful: Mapping[str, Faithful | str],
        families: Mapping[str, list[str]],
        facts: Facts,
    ) -> list[Estimate]:
        rows: list[Estimate] = []
        for name, each in found.items():
            rows += null_rows(name, each, facts) if isinstance(each, str) else score_rows(name, measured[name], facts)
        for family, members in families.items():
            if family in measured:
                rows += score_rows(family, measured[family], facts)
                rows += spread_rows(family, [measured[name] for name in members], facts)
            else:
                why = next(each for each in map(found.get, members) if isinstance(each, str))
                rows += null_rows(family, why, facts)
        checkpoints = members_of(families)
        rows += difference_rows({name: each for name, each in measured.items() if name not in checkpoints}, facts)
        # Checkpoints are corrected among themselves: a model is not tested more strictly for having more seeds.
        for some in (set(faithful) - checkpoints, checkpoints):
            drops = [faithfulness_rows(name, each, facts) for name, each in faithful.items() if name in some]
            rows += corrected_faithfulness([row for part in drops for row in part], facts)
        return rows

    def _provenance(
        self, plan: Plan, found: Mapping[str, Found | str], predictions: Mapping[str, ModelPredictions]
    ) -> dict[str, Any]:
        memory: Memory = plan.memory
        about: dict[str, dict[str, Any]] = {}
        for name, each in found.items():
            if isinstance(each, str):
                about[name] = {"evidence": None, "reason": each}
                continue
            about[name] = {
                "evidence": each.origin,
                "threshold": each.threshold,
                "threshold_from": each.threshold_origin,
                "scores": each.scale,
                "texts_asked": _n_copies(plan, name),
                "code_threshold": self._asking.threshold_for(predictions[name]),
            }
        return {
            "models": about,
            "charts": memory.n_audited,
            "validation_charts": len(memory.charts.rows) - memory.n_audited,
            "labels_only_predicted": memory.n_codes - len(plan.labels),
            "gold_spans_without_a_word": wordless_gold(memory),
            "words": int(memory.charts.words.first[memory.n_audited]),
            "asked": "labels with gold evidence in the chart, and labels that the model predicts there",
            "unit": self.unit,
            "n_replicates": self.n_replicates,
        }


def _n_copies(plan: Plan, model: str) -> int:
    """How many edited charts a model was asked for."""
    return int(plan.only[model][len(plan.memory.charts.rows) :].sum()) if model in plan.only else 0


def _windows(predictions: Mapping[str, ModelPredictions]) -> dict[str, str | None]:
    """What each model reads; a model of several checkpoints as its first."""
    windows: dict[str, str | None] = {}
    for name, each in predictions.items():
        windows[name] = each.facts.window
        windows.setdefault(each.family or name, each.facts.window)
    return windows
