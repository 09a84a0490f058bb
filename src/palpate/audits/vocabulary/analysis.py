"""From the answers to the swaps to the vocabulary audit's result: scores, ranks, clinicians, frequency.

The statistics are in `vocabulary_scores` and `vocabulary_clinicians`; this module puts them in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from palpate.audits.kit.measured import corrected
from palpate.audits.kit.thresholds import Thresholds, decide_thresholds
from palpate.audits.vocabulary.blocks import blocks_of
from palpate.audits.vocabulary.clinicians import (
    Panel,
    Resampling,
    agreement,
    frequency_correlations,
    model_agreement,
    rank_gaps,
    rater_agreement,
)
from palpate.audits.vocabulary.estimates import Scribe, shared_words
from palpate.audits.vocabulary.findings import Settings, Story, findings_of
from palpate.audits.vocabulary.measures import (
    AVERAGE,
    Contestants,
    Floats,
    Layout,
    Scores,
    Swaps,
    affordable_replicates,
    in_both_schemes,
    lay_out,
    rank_words,
    score,
    sums_by_label,
)
from palpate.cases.edits import Ints
from palpate.errors import ConfigError
from palpate.perturb.words import Ratings, normalise_word
from palpate.results import AuditResult, Estimate, ModelPredictions, Plan, estimates_frame

__all__ = ["Settings", "analyse_swaps"]

AUDIT = "vocabulary"


class _Found(NamedTuple):
    """Estimates of words, and the overall label's scores, [model, word]."""

    rows: list[Estimate]
    sensitivity: Floats
    rank: Floats


def analyse_swaps(
    *,
    swaps: Swaps,
    plan: Plan,
    predictions: Mapping[str, ModelPredictions],
    ratings: Ratings | None,
    settings: Settings,
    rng: np.random.Generator,
) -> AuditResult:
    """The result of the audit; `plan.memory.validation` says which variants are the validation split, unedited."""
    patient_seed, word_seed = (int(seed) for seed in rng.integers(2**63, size=2))
    thresholds = _thresholds(swaps, plan, predictions, settings)
    contestants = Contestants(predictions, thresholds.values)
    layout = lay_out(swaps, plan.cohort.patients)
    overall = plan.labels[0] if len(plan.labels) == 1 else AVERAGE
    shown = _shown_labels(plan, swaps, settings.labels_shown)
    n_replicates = affordable_replicates(layout, len(contestants.names), settings.n_replicates)
    how = Resampling(AUDIT, settings.level, settings.n_replicates, word_seed)
    panel = None if ratings is None else Panel.of(ratings, swaps.words, layout.n_patients_of > 0)
    scribe = Scribe(AUDIT, swaps, layout, contestants, settings.level)
    found = _score_labels(scribe, plan.labels, shown, overall, panel, settings, how, n_replicates, patient_seed)
    schemes, frequency = _frequency(swaps, plan, contestants, layout, settings, overall, how)
    raters = [] if panel is None else rater_agreement(panel, overall, how)
    story = Story(
        rows=[*found.rows, *raters, *frequency],
        settings=settings,
        labels=shown,
        n_labels=len(plan.labels),
        overall=overall,
        panel=panel,
        unaudited=_unaudited(ratings, swaps.words),
        scheme_rank=schemes,
        threshold_origin=thresholds.origin,
        **_about_words(scribe, found),
    )
    provenance = {
        "threshold": thresholds.origin,
        "n_swaps": len(layout.variant),
        "n_replicates": n_replicates,
        "n_patients": layout.n_patients,
        "labels_shown": len(shown),
        "unit": "patient for scores and ranks, word for correlations",
    }
    return AuditResult(AUDIT, estimates_frame(story.rows), blocks_of(story), findings_of(story), provenance)


def _about_words(scribe: Scribe, found: _Found) -> dict[str, Any]:
    """The part of the story that is about words: what they rest on, and each compared model's scores of them."""
    swaps, layout, contestants = scribe.swaps, scribe.layout, scribe.contestants
    place = {name: contestants.names.index(name) for name in contestants.compared}
    return {
        "models": contestants.compared,
        "words": swaps.words,
        "families": swaps.families,
        "n_notes": layout.n_notes[0],
        "n_available": swaps.n_notes,
        "n_patients": layout.n_patients_of,
        "n_occurrences": swaps.n_occurrences,
        "rank": {name: found.rank[m] for name, m in place.items()},
        "sensitivity": {name: found.sensitivity[m] for name, m in place.items()},
        "outside": _outside(contestants, layout),
    }


def _thresholds(
    swaps: Swaps, plan: Plan, predictions: Mapping[str, ModelPredictions], settings: Settings
) -> Thresholds:
    return decide_thresholds(
        plan,
        predictions,
        rule=settings.threshold,
        validation=plan.memory.validation,
        main=_originals(swaps, plan),
    )


def _originals(swaps: Swaps, plan: Plan) -> Ints:
    """The variants that are the audited notes, unedited."""
    notes = np.unique(swaps.note) if plan.cases is None else plan.cases
    rows = swaps.original[notes]
    return rows[rows >= 0]


def _shown_labels(plan: Plan, swaps: Swaps, most: int) -> tuple[str, ...]:
    """The labels with rows of their own: all, or of many the most frequent, in their order."""
    if len(plan.labels) <= most:
        return plan.labels
    y_true = plan.cohort.y_true(plan.variants.parent[_originals(swaps, plan)], plan.labels)
    chosen = np.sort(np.argsort(-y_true.sum(axis=0, dtype=np.int64), kind="stable")[:most])
    return tuple(plan.labels[int(k)] for k in chosen)


def _score_labels(
    scribe: Scribe,
    labels: Sequence[str],
    shown: Sequence[str],
    overall: str,
    panel: Panel | None,
    settings: Settings,
    how: Resampling,
    n_replicates: int,
    seed: int,
) -> _Found:
    """All rows about words, label by label, so that only one label's replicates are in memory."""
    rows: list[Estimate] = []
    ranks: list[Estimate] = []
    agreements: list[Estimate] = []
    main: Scores | None = None
    for label, sums in sums_by_label(scribe.contestants, scribe.layout, labels, shown):
        scores = score(label, sums, scribe.layout, level=settings.level, n_replicates=n_replicates, seed=seed)
        rows += scribe.levels(scores)
        ranks += scribe.rank_differences(scores)
        levels, pairs = _with_clinicians(scribe, scores, overall, panel, how)
        rows += levels
        agreements += pairs
        if label == overall:
            main = scores._replace(ranks=np.zeros(0))
            rows += scribe.spread(scores) + scribe.outside(label)
        del scores
    if main is None:
        raise ConfigError(f"audit '{AUDIT}': there is no label to audit")
    for family in (ranks, agreements):
        rows += corrected(family, settings.correction, settings.level, headline=overall)
    return _Found(rows, main.value[:, 0, 0], main.rank)


def _with_clinicians(
    scribe: Scribe, scores: Scores, overall: str, panel: Panel | None, how: Resampling
) -> tuple[list[Estimate], list[Estimate]]:
    """One label's agreement with clinicians and between models, and its differences, which are not corrected yet."""
    models = scribe.contestants.compared
    place = [scribe.contestants.names.index(name) for name in models]
    sensitivity = scores.value[place, 0, 0]
    rows = model_agreement(scores.label, models, sensitivity, how)
    if panel is None:
        return rows, []
    levels, pairs = agreement(panel, scores.label, models, sensitivity, how)
    gaps = rank_gaps(panel, scribe.swaps.words, scores.label, models, sensitivity, how)
    return [*rows, *levels, *(gaps if scores.label == overall else [])], pairs


def _frequency(
    swaps: Swaps,
    plan: Plan,
    contestants: Contestants,
    layout: Layout,
    settings: Settings,
    overall: str,
    how: Resampling,
) -> tuple[dict[tuple[str, str], Floats], list[Estimate]]:
    """Ranks under each way of swapping, and their correlation with frequency, for the overall label."""
    layouts = [layout]
    if np.any(swaps.scheme == 1):
        patients = plan.cohort.patients
        layouts = [lay_out(in_both_schemes(swaps), patients), lay_out(swaps, patients, scheme=1)]
    place = [contestants.names.index(name) for name in contestants.compared]
    only = plan.labels if overall != AVERAGE else ()
    scores = []
    for each in layouts:
        *_, (_, sums) = sums_by_label(contestants, each, plan.labels, only)
        scores.append(each.means(sums)[place, 0, 0])
    scores = shared_words(scores)
    names = settings.schemes[: len(layouts)]
    ranks = {
        (model, scheme): rank_words(values[m])
        for m, model in enumerate(contestants.compared)
        for scheme, values in zip(names, scores, strict=True)
    }
    rows = frequency_correlations(names, scores, contestants.compared, swaps.n_occurrences, overall, how)
    return ranks, corrected(rows, settings.correction, settings.level, headline=overall)


def _outside(contestants: Contestants, layout: Layout) -> dict[str, float]:
    """The share of all swaps that each model can't see."""
    n = layout.n_swaps
    if not n.sum():
        return {}
    shares = np.nan_to_num(contestants.outside(layout)) @ n / n.sum()
    return {name: float(shares[contestants.names.index(name)]) for name in contestants.compared}


def _unaudited(ratings: Ratings | None, words: Sequence[str]) -> list[str]:
    known = {normalise_word(word) for word in words}
    return [] if ratings is None else [word for word in ratings.words if normalise_word(word) not in known]
