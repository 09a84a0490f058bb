"""The charts that the evidence audit wants scored first, and what it remembers from turn to turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.evidence.inputs import Charts, PlacedEvidence, PlacedInputs, charts_of
from palpate.audits.kit.scope import counted_rows, training_rows, validation_rows
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints, Variants
from palpate.perturb.occlusion import Pieces
from palpate.results import ModelPredictions, ModelRequests, Plan
from palpate.stats.evidence import Spans, cover

Stage = Literal["cases", "evidence", "words", "removal"]


class ChartLabelPairs(NamedTuple):
    """Pairs of a chart and a label, in columns."""

    chart: Ints
    label: Ints


class Occluded(NamedTuple):
    """Pieces of charts that were taken out, one per variant; `of` has each model's rows of them."""

    pieces: Pieces
    variant: Ints
    of: Mapping[str, Ints]


class OcclusionBudget(NamedTuple):
    """What occlusion may take out: so many pieces of a chart, and so many single words for each label."""

    segments: int
    words_per_label: int


class CutSearches(NamedTuple):
    """In how many of a model's pairs of an audited chart and a label the budget of occlusion left out pieces."""

    n: int
    of: int


def _nothing_occluded() -> Occluded:
    none = np.zeros(0, np.int64)
    return Occluded(Pieces(none, none, none), none, {})


class RandomSets(NamedTuple):
    """Sets of random words of one chart, each taken out in a copy of its own: one variant and one set of words each."""

    variant: Ints
    words: tuple[Ints, ...]


class Removal(NamedTuple):
    """Copies of charts that show one model's faithfulness: `variant` is [pair, arm, evidence or random, fraction]."""

    pairs: ChartLabelPairs
    fractions: tuple[str, ...]
    variant: NDArray[np.int64]
    reason: str = ""
    """Why there are none."""
    random: Mapping[int, RandomSets] = {}
    """By chart."""


@dataclass(frozen=True, eq=False)
class EvidenceMemory:
    """What the audit remembers from turn to turn."""

    inputs: PlacedInputs
    charts: Charts
    n_audited: int
    """The first charts are audited; the others are of the validation split."""
    gold: Spans
    seed: int
    stage: Stage = "cases"
    occluded: Occluded = field(default_factory=_nothing_occluded)
    cut: Mapping[str, CutSearches] = field(default_factory=dict)
    """By model whose words were looked for by occlusion."""
    removal: Mapping[str, Removal] = field(default_factory=dict)

    @cached_property
    def audited_gold(self) -> Spans:
        """The gold evidence of the audited charts."""
        return self.spans_in(self.gold, audited=True)

    @property
    def n_validation(self) -> int:
        """How many charts there are to choose a threshold on."""
        return len(self.charts.rows) - self.n_audited

    @property
    def n_without_gold(self) -> int:
        """Audited charts without gold evidence."""
        return self.n_audited - len(np.unique(self.audited_gold.note))

    @property
    def n_wordless(self) -> int:
        """Gold spans of the audited charts without a word, such as punctuation: nothing that could be found."""
        return int((np.diff(cover(self.charts.words, self.audited_gold).first) == 0).sum())

    def spans_in(self, found: Spans, *, audited: bool) -> Spans:
        """The spans in the audited charts, or those in the charts of the validation split."""
        kept = (found.note < self.n_audited) == audited
        return Spans(*(column[kept] for column in found))

    def has_scores(self, model: str, answers: ModelPredictions) -> bool:
        """Whether the model's table has scores."""
        table = self.table_of(model, answers)
        return table is not None and table.score is not None

    def table_of(self, model: str, answers: ModelPredictions) -> PlacedEvidence | None:
        """The model's own table, or that of the ensemble that it is a member of."""
        return self.inputs.predicted.get(model, self.inputs.predicted.get(answers.ensemble or model))


def choose_charts(
    cohort: Cohort,
    main: str,
    rows: Ints,
    gold: PlacedEvidence,
    most: int | None,
    rng: np.random.Generator,
    *,
    validation: bool,
) -> tuple[Ints, Ints]:
    """At most so many of `rows` at random, and as many charts of the validation split that have gold evidence."""
    rows = _sample(rows, most, rng)
    if not validation:
        return rows, np.zeros(0, np.int64)
    others = np.setdiff1d(np.intersect1d(counted_rows(cohort, validation_rows(cohort, main)), gold.row), rows)
    return rows, _sample(others, most, rng)


def chart_weights(plan: Plan[EvidenceMemory]) -> NDArray[np.float64] | None:
    """[chart] sampling weights, with a mean of 1 among the audited charts and among those of the validation split; None
    where all count alike."""
    rows, n = plan.memory.charts.rows, plan.memory.n_audited
    parts = [plan.cohort.weights_of(part) for part in (rows[:n], rows[n:])]
    if all(part is None for part in parts):
        return None
    sizes = (n, len(rows) - n)
    return np.concatenate([np.ones(k) if part is None else part for part, k in zip(parts, sizes, strict=True)])


def training_counts(plan: Plan[EvidenceMemory]) -> Ints | None:
    """How many training charts have each label; None if there are no training charts."""
    audited = int(plan.memory.charts.rows[0])
    rows = training_rows(plan.cohort, str(plan.cohort.cases["cohort"][audited]))
    return plan.cohort.y_true(rows, plan.labels).sum(axis=0, dtype=np.int64) if rows.size else None


def _sample(rows: Ints, most: int | None, rng: np.random.Generator) -> Ints:
    if most is None or len(rows) <= most:
        return rows
    return np.sort(rng.choice(rows, size=most, replace=False))


def plan_charts(
    cohort: Cohort,
    labels: tuple[str, ...],
    inputs: PlacedInputs,
    chosen: tuple[Ints, Ints],
    *,
    largest_number: int | None,
    names: tuple[str, ...],
    rng: np.random.Generator,
) -> Plan[EvidenceMemory]:
    """The audited charts and those of the validation split, without edits; `names` are models that options name."""
    audited, validation = chosen
    charts = charts_of(cohort, np.concatenate([audited, validation]), inputs.notes, largest_number)
    memory = EvidenceMemory(inputs, charts, len(audited), charts.spans(inputs.gold), seed=int(rng.integers(2**31)))
    return Plan(
        cohort,
        Variants.of_cases(charts.rows),
        labels,
        cases=audited,
        memory=memory,
        requests=ModelRequests(names=names, windows=True),
    )
