"""Evidence: does the model point at the text that a professional coder would point at?

Gold spans of codes in charts against what a model says it looked at (evidence paper, MDACE): a table of its evidence,
its own explanations, or, for every other model, what its predictions lose when words are taken out. Beside this
plausibility, faithfulness: do the predictions depend on what is pointed at?
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, InstanceOf

from palpate.audits.evidence.asking import PROTOCOLS, Asking, Codes, ask_evidence, ask_words, sources_of
from palpate.audits.evidence.blocks import evidence_blocks
from palpate.audits.evidence.estimates import METRICS, evidence_rows
from palpate.audits.evidence.faithfulness import Faithfulness, ask_removals, measure_faithfulness
from palpate.audits.evidence.findings import EvidenceAnalysis, evidence_answers, evidence_findings
from palpate.audits.evidence.inputs import place_inputs
from palpate.audits.evidence.marking import Marking, Scale, known_evidence, mark_evidence
from palpate.audits.evidence.measures import ALL, measure_evidence
from palpate.audits.evidence.plan import EvidenceMemory, OcclusionBudget, choose_charts, plan_charts, training_counts
from palpate.audits.evidence.ranking import measure_ranking
from palpate.audits.evidence.spans import span_tables
from palpate.audits.evidence.strata import AuditedCharts
from palpate.audits.kit.resampling import Correction, Family, Resampling
from palpate.audits.kit.rows import EstimateIndex
from palpate.audits.kit.scope import (
    Count,
    Level,
    Share,
    Unit,
    audited_cohort,
    audited_labels,
    audited_rows,
    require_text,
)
from palpate.cases.cohort import Cohort
from palpate.cases.evidence import EvidenceTable, NotesTable, is_category
from palpate.errors import CohortError, ConfigError
from palpate.results import ALL_LABELS, AuditResult, Plan, Predictions, estimates_frame
from palpate.results.verdicts import margins_with

Probability = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class Evidence:
    """Evidence of models against that of coders.

    >>> Evidence.name
    'evidence'
    """

    name: ClassVar[str] = "evidence"
    unweighted_because: ClassVar[str] = ""
    metrics: ClassVar[tuple[str, ...]] = METRICS
    questions: ClassVar[tuple[str, ...]] = ("pointing", "faithfulness")

    gold: InstanceOf[EvidenceTable] | None = field(default=None, metadata={"source": "evidence"})
    """What coders marked: a table (`case_id, label, start, end`) or a folder in MDACE's layout."""
    notes: InstanceOf[NotesTable] | None = field(
        default=None, metadata={"source": "notes", "not a list": "name categories of notes as `categories:`"}
    )
    """Where the notes are in the cases' texts (`case_id, note_id, category, start, end`): for results by category, and
    for MDACE's folders, whose offsets count from the start of a note."""
    predicted: dict[str, InstanceOf[EvidenceTable]] = field(default_factory=dict, metadata={"source": "evidence"})
    """Evidence of models, by model: tables like `gold`, with a column `score` where it has scores, or folders."""
    codes: Codes = "gold"
    """Whose evidence is compared: that of `gold` codes (with gold evidence in the chart, predicted or not), as in the
    paper; of `predicted` codes; of `correct` ones, which are both; or of `all`, where a table's rows for other codes
    count as false."""
    explain: str | dict[str, str] = "auto"
    """How models without a table are asked: `auto` is the model's own way, or occlusion for those that have none;
    `occlusion`; `none`; or a way by its name (`attention`, `integrated_gradients`). Also by model."""
    threshold: float | None = None
    """A word is evidence if its score is greater; by default the best on the validation split."""
    step: Share | Literal["auto"] = "auto"
    """Steps of the thresholds that are tried; `auto` is the paper's: 0.05 for tagging and 0.02 for the rest."""
    scale: Scale = "auto"
    """`raw` scores, or `relative` to the strongest word of the chart and label. `auto` is relative for occlusion, and
    where scores do not lie between 0 and 1."""
    code_threshold: Probability | Literal["auto"] = "auto"
    """The probability from which a code is predicted; `auto` is the model's own threshold, else 0.5."""
    charts: Literal["all", "annotated"] = "all"
    """All charts of the split, or those with gold evidence; what is predicted in a chart without gold is false."""
    max_charts: Count | None = None
    """A random sample of so many charts, the same for all models, where occlusion of a slow model would take too long;
    and as many of the validation split."""
    labels: tuple[str, ...] | None = None
    """Which labels of the cohort; all by default."""
    split: str = "test"
    """Which split is audited; a cohort without splits is used whole."""
    cohort: str | None = None
    """Which cohort's charts; the first by default."""
    largest_number: Annotated[int, Field(ge=0)] | None = None
    """Larger numbers are not words; by default all numbers are, as in the paper."""
    iou: Probability = 0.5
    """The intersection over union from which two spans match."""
    segments: Annotated[int, Field(ge=2)] = 32
    """Occlusion first takes out so many pieces of a chart, one at a time; charts of few words are taken apart word by
    word: those with no more words than `segments` and `words_per_label` together."""
    words_per_label: Count = 200
    """Then single words, at most so many per chart and label."""
    replace_with: str = " "
    """What replaces words that are taken out."""
    faithfulness: bool = True
    """Whether words are taken out to see if predictions depend on the evidence."""
    fractions: Annotated[tuple[Share, ...], Field(min_length=1)] = (0.01, 0.05, 0.1, 0.2, 0.5)
    """Shares of a chart's words that are taken out."""
    faithfulness_pairs: Count = 200
    """At most so many pairs of a chart and a label per model; whole charts at random."""
    sensitivity_draws: Annotated[int, Field(ge=0)] = 10
    """How many random tenths of a chart's words are taken out for sensitivity-n; 0 leaves it out."""
    coder_f1: Probability | None = None
    """Token F1 of one coder against another, where it is known: what the scorecard asks of a model. Without it, a model
    is asked to point at the coders' words more than chance would."""
    categories: tuple[str, ...] = ()
    """Categories of `notes` whose evidence is also scored together, by their first words: discharge, physician and
    radiology are the paper's code-able notes (Table 10)."""
    unit: Literal["chart", "patient"] = "chart"
    level: Level = 0.95
    correction: Correction = "bonferroni"
    family: Family = "question"
    """Which comparisons share a correction: those of one metric, or all of the `run`."""
    examples: Annotated[int, Field(ge=0)] = 8
    """How many codes are shown per model, with `include_text`."""
    include_text: bool = False
    """Show pieces of charts with gold and predicted evidence."""
    margins: dict[str, float] = field(default_factory=dict)
    """The smallest effects that matter, set for the whole run."""

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan[EvidenceMemory]:
        """The audited charts and, where a threshold may have to be chosen, those of the validation split with gold
        evidence."""
        if self.gold is None:
            raise ConfigError("audit 'evidence' needs what coders marked", hint="give a table as `gold:`")
        require_text(self.name, cohort)
        main = audited_cohort(self.name, cohort, self.cohort)
        labels = audited_labels(self.name, cohort, self.labels)
        inputs = place_inputs(
            cohort,
            main,
            labels,
            gold=self.gold,
            notes=self.notes,
            predicted=self.predicted,
            only_these=bool(self.labels) or self.codes != "all",
        )
        self._need_categories({*inputs.notes.category})
        rows = audited_rows(self.name, cohort, main, self.split)
        if self.charts == "annotated":
            rows = rows[np.isin(rows, inputs.gold.row)]
        scored = [name for name, placed in inputs.predicted.items() if placed.score is not None]
        chooses = self.threshold is None and (self.explain != "none" or bool(scored))
        chosen = choose_charts(cohort, main, rows, inputs.gold, self.max_charts, rng, validation=chooses)
        if not np.isin(inputs.gold.row, chosen[0]).any():
            problem = f"no chart of cohort '{main}' in split '{self.split}' has gold evidence"
            raise CohortError(problem, file=self.gold.file, hint="set `split:` of the audit")
        named = (*self.predicted, *(self.explain if isinstance(self.explain, dict) else ()))
        names, largest = tuple(dict.fromkeys(named)), self.largest_number
        plan = plan_charts(cohort, labels, inputs, chosen, largest_number=largest, names=names, rng=rng)
        self._need_threshold(plan, scored)
        return plan

    def check_models(self, plan: Plan[EvidenceMemory], models: Predictions) -> Plan[EvidenceMemory]:
        """Refuse ways of explaining that a model does not offer, and scores for which no threshold can be found.

        Models are asked about the charts of the validation split only if a threshold is chosen on what they say there.
        """
        sources = sources_of(plan, models, self._asking)
        self._need_threshold(plan, [name for name, each in sources.items() if each.kind in ("explain", "occlusion")])
        audited = np.arange(len(plan.variants)) < plan.memory.n_audited
        told = {name for name, each in sources.items() if each.kind in ("table", "none")}
        if self.codes in ("predicted", "correct"):
            told -= {name for name in told if plan.memory.has_scores(name, models[name])}
        only = dict.fromkeys(told, audited)
        return replace(plan, requests=replace(plan.requests, only=only)) if plan.memory.n_validation else plan

    def plan_again(
        self,
        plan: Plan[EvidenceMemory],
        predictions: Predictions,
        rng: np.random.Generator,  # noqa: ARG002  (the plan has drawn its seed)
    ) -> Plan[EvidenceMemory] | None:
        """Explanations and occlusion, then words, then removal; None when everything is known."""
        stage, asking = plan.memory.stage, self._asking
        if stage == "cases" and (larger := ask_evidence(plan, predictions, asking)) is not None:
            return larger
        if stage in ("cases", "evidence") and (larger := ask_words(plan, predictions, asking)) is not None:
            return larger
        if stage == "removal" or not self.faithfulness:
            return None
        known = known_evidence(mark_evidence(plan, predictions, asking, self._marking))
        n_pairs, n_draws = self.faithfulness_pairs, self.sensitivity_draws
        return ask_removals(
            plan, predictions, known, asking, fractions=self.fractions, n_pairs=n_pairs, n_draws=n_draws
        )

    def without_turns(self) -> Evidence:
        """For models that can be asked only once: their evidence comes as a table, and nothing is taken out."""
        return replace(self, explain="none", faithfulness=False)

    def analyse(
        self,
        plan: Plan[EvidenceMemory],
        predictions: Predictions,
        rng: np.random.Generator,  # noqa: ARG002  (nothing is random)
    ) -> AuditResult:
        """Agreement with the gold evidence by strata, differences between models, faithfulness."""
        unit: Unit = "patient" if self.unit == "patient" else "case"
        how = Resampling(level=self.level, correction=self.correction, unit=unit)
        patients = plan.cohort.patients[plan.cases]
        charts = AuditedCharts(
            plan.memory,
            patients,
            how,
            self.iou,
            n_training=training_counts(plan),
            categories=self.categories,
            all_codes=self.codes in ("all", "predicted"),
            weight=plan.cohort.weights_of(plan.memory.charts.rows[: plan.memory.n_audited]),
        )
        marked = mark_evidence(plan, predictions, self._asking, self._marking)
        known = known_evidence(marked)
        measured = measure_evidence(charts, known, predictions)
        faithful = measure_faithfulness(charts, known, predictions, self._asking) if self.faithfulness else {}
        ranked = measure_ranking(charts, known, predictions)
        rows = evidence_rows(charts, predictions, marked, measured, ranked, faithful, self.family)
        analysis = EvidenceAnalysis(
            estimates=EstimateIndex(rows, label=ALL_LABELS, group=ALL),
            plan=plan,
            predictions=predictions,
            charts=charts,
            marked=marked,
            measured=measured,
            faithfulness=faithful,
            coder_f1=self.coder_f1,
            budget=self._budget,
            codes=self.codes,
        )
        answers = evidence_answers(analysis, margins_with(self.margins))
        return AuditResult(
            audit=self.name,
            estimates=estimates_frame(rows),
            blocks=evidence_blocks(analysis, n_examples=self.examples if self.include_text else 0),
            findings=evidence_findings(analysis, answers),
            provenance=self._provenance(analysis),
            answers=answers,
            tables=span_tables(charts, marked, plan.cohort, include_text=self.include_text),
        )

    @property
    def _asking(self) -> Asking:
        return Asking(self.explain, self.code_threshold, self._budget, self.replace_with, self.codes)

    @property
    def _budget(self) -> OcclusionBudget:
        return OcclusionBudget(self.segments, self.words_per_label)

    @property
    def _marking(self) -> Marking:
        return Marking(self.threshold, self.step, self.scale)

    def _need_categories(self, known: set[str]) -> None:
        """Refuse a category that no note has."""
        for name in self.categories:
            if not any(is_category(name, each) for each in known):
                listed = ", ".join(sorted(known)) or "there are none: give `notes:`"
                raise ConfigError(f"audit 'evidence': no note has the category '{name}'", hint=f"categories: {listed}")

    def _need_threshold(self, plan: Plan[EvidenceMemory], models: list[str]) -> None:
        """Scores need a threshold, and choosing one needs a validation split."""
        if self.threshold is None and not plan.memory.n_validation and models:
            raise CohortError(
                f"audit 'evidence': the evidence of model '{models[0]}' has scores, and no chart of the validation "
                "split has gold evidence to choose a threshold on",
                hint="give one as `threshold:`",
            )

    def _provenance(self, analysis: EvidenceAnalysis) -> dict[str, Any]:
        memory = analysis.plan.memory
        about: dict[str, dict[str, Any]] = {}
        for name, found in analysis.marked.items():
            if isinstance(found, str):
                about[name] = {"evidence": None, "reason": found}
                continue
            about[name] = {
                "evidence": found.origin,
                "threshold": found.threshold,
                "threshold_from": found.threshold_origin,
                "scores": found.scale,
                "texts_asked": analysis.n_copies(name),
                "searches_cut": memory.cut[name]._asdict() if name in memory.cut else None,
                "code_threshold": self._asking.threshold_for(analysis.predictions[name]),
                "rows_of_other_codes": found.n_other,
                "faithfulness": _pairs_taken(analysis.faithfulness.get(name)),
            }
        return {
            "models": about,
            "charts": memory.n_audited,
            "validation_charts": memory.n_validation,
            "labels_only_predicted": analysis.n_only_predicted,
            "gold_spans_without_a_word": memory.n_wordless,
            "words": int(memory.charts.words.first[memory.n_audited]),
            "occlusion": self._budget._asdict(),
            "codes": self.codes,
            "asked": PROTOCOLS[self.codes],
            "largest_number": self.largest_number,
            "unit": self.unit,
        }


def _pairs_taken(found: Faithfulness | str | None) -> dict[str, int] | None:
    """Codes in question, those of them that the model predicts, and those whose words were taken out."""
    if not isinstance(found, Faithfulness):
        return None
    return {"codes_in_question": found.n_asked, "predicted": found.n_predicted, "taken": found.n_pairs}
