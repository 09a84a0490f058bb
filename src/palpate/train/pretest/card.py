"""What the card says about pre-test models (context paper, Tables 1, A.6, A.7 and A.12): data only, no note text.

Only words in the notes of at least ten patients are shown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from palpate.stats import NOISE, bootstrap
from palpate.stats.score_intervals import Counts, class_units, cluster_sizes, metric_intervals, weighing
from palpate.train.pretest.features import FeatureMatrix
from palpate.train.pretest.grids import Setup
from palpate.train.pretest.search import Floats, Ints, Labels, SearchResult, Tried
from palpate.train.tfidf import PATIENTS_OF_A_SHOWN_WORD

METRICS = ("auroc", "adaptive_calibration_error", "brier", "brier_skill_score")
_SEED = 0  # of the intervals, not of the fit
_SHOWN = 10
_FEW_VALUES = 20
LIMITS = (
    "Out-of-fold numbers come from the cases that also chose the model, so they are slightly optimistic; those of the "
    "test split are not.",
    "The vocabulary and the scaling of attributes come from all cases to learn from, without their labels.",
    "It knows only the population, the hospital and the years of its notes.",
)


def measure(y: Labels, p: Floats, patients: Ints, n_replicates: int, weight: Floats | None = None) -> dict[str, Any]:
    """AUROC and calibration with intervals; a number that can't be computed is null with its reason."""
    out: dict[str, Any] = {"n": len(y), "n_positive": int(y.sum()), "n_distinct": len(np.unique(p))}
    if not len(y):
        return {**out, **dict.fromkeys(METRICS), "reason": "no cases"}
    metrics = (*METRICS, NOISE)
    found = bootstrap(y, p, rng=_SEED, metrics=metrics, patient=patients, n_replicates=n_replicates, weight=weight)
    column = np.asarray(y, np.uint8)[:, None]
    counts = Counts(np.array([len(y)]), column.sum(axis=0), class_units(column, patients, "patient"))
    if weight is not None:
        sizes = cluster_sizes(column, patients, "patient", weight=weight)
        counts = counts._replace(sizes=sizes, weighing=weighing(column, weight))
    low, high, _ = metric_intervals(found.metrics, found.point, found.values, counts)
    for m, metric in enumerate(METRICS):
        out[metric] = number(found.point[0, m, 0])
        if n_replicates:
            out[f"{metric}_interval"] = [number(low[0, m, 0]), number(high[0, m, 0])]
    out["reason"] = "" if 0 < out["n_positive"] < len(y) else "only one class"
    return out


def number(value: float) -> float | None:
    """A number for JSON; undefined is null."""
    return round(float(value), 6) if math.isfinite(value) else None


def describe_setup(setup: Setup) -> dict[str, Any]:
    """Which model it is."""
    settings = {name: list(value) if isinstance(value, tuple) else value for name, value in setup.settings}
    return {
        "family": setup.family,
        "features": setup.features,
        "classifier": setup.classifier,
        "settings": settings,
    }


def describe_tried(tried: Tried) -> dict[str, Any]:
    """A model and how good it was on the folds."""
    return {
        **describe_setup(tried.setup),
        "cv_auroc": number(tried.mean),
        "n_folds": int(np.isfinite(tried.auroc).sum()),
        "fold_auroc": [number(value) for value in tried.auroc],
    }


def describe_search(found: SearchResult) -> dict[str, Any]:
    """How many models were tried, and the best one of each classifier, the best first."""
    best: dict[tuple[str, str, str], Tried] = {}
    for tried in found.tried:
        best.setdefault(tried.setup.group, tried)
    return {
        "n_tried": len(found.tried),
        "n_on_all_folds": sum(tried.finished for tried in found.tried),
        "n_not_fitted": sum(not np.isfinite(tried.auroc).any() for tried in found.tried),
        "classifiers": [describe_tried(tried) for tried in best.values()],
    }


def top_words(features: FeatureMatrix, weight: Floats | None) -> list[list[Any]]:
    """The ten features of largest weight among those that may be shown."""
    if weight is None or features.names is None:
        return []
    enough = np.ones(len(weight), dtype=bool)
    if features.n_patients is not None:
        enough = features.n_patients >= PATIENTS_OF_A_SHOWN_WORD
    allowed = np.flatnonzero(enough & (weight != 0))
    order = allowed[np.argsort(-np.abs(weight[allowed]), kind="stable")][:_SHOWN]
    return [[str(features.names[k]), round(float(weight[k]), 6)] for k in order]


def remarks(performance: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What a reader of the audit should know about these probabilities."""
    few = [name for name, row in performance.items() if 0 < row["n_distinct"] <= min(_FEW_VALUES, row["n"] - 1)]
    if not few:
        return []
    counts = ", ".join(f"{performance[name]['n_distinct']} in {name}" for name in few)
    return [f"the probabilities have few distinct values ({counts}): strata by quantile may be empty or uneven"]


def refused(label: str, y: Labels, reason: str) -> dict[str, Any]:
    """The entry of a label for which nothing can be learned."""
    return {"label": label, "n": len(y), "n_positive": int(y.sum()), "chosen": None, "reason": reason}


def table(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row per label: classifier, AUROC, ACE, Brier score and skill; on cases not learned from, if there are any.

    `reason` says why there is no model, or why a number is undefined.
    """
    rows = []
    for entry in entries:
        row: dict[str, Any] = {"label": entry["label"], "reason": entry["reason"]}
        if entry["chosen"] is not None:
            where = "other" if entry["performance"]["other"]["n"] else "out_of_fold"
            told = entry["performance"][where]
            row |= {"classifier": entry["chosen"]["classifier"], "features": entry["chosen"]["features"], "on": where}
            row |= {metric: told[metric] for metric in METRICS}
            row["reason"] = f"{told['reason']} among the {told['n']} cases measured" if told["reason"] else ""
        rows.append(row)
    return rows
