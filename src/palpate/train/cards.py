"""The model card: what the model is, what it was trained on, how good it is on validation, what it is not for.

The same facts go into `palpate.json`, for programs, and `MODEL_CARD.md`, for readers. No date and no note text: the
same training writes the same bytes, and only words in the notes of at least ten patients are shown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from palpate.cases.cohort import SPLITS, Cohort
from palpate.models import Probabilities
from palpate.registry import installed_versions
from palpate.stats import bootstrap, recall_threshold
from palpate.stats.score_intervals import Counts, class_units, mean_interval, metric_intervals
from palpate.train.notes import Labelled, rows_of
from palpate.train.options import Fitted, Kind, TrainOptions

CARD_FILE = "MODEL_CARD.md"
METRICS = ("auroc", "auprc", "brier")
_LABELS_SHOWN = 200
_SEED = 0  # of the intervals, not of the fit
_USE = (
    "A reference model for comparison in audits of clinical prediction models. It is not a medical device and must "
    "not inform the care of a patient."
)
_LIMITS = (
    "Validation chose the settings and the threshold, so its numbers are optimistic: audit the test split.",
    "It knows only the population, the hospital and the years of its training cases.",
)
_WEIGHTED = (
    "Classes were weighted equally, so the probabilities rank cases but are higher than the actual risks; recalibrate "
    "before reading them as risks."
)


def describe_cohort(cohort: Cohort) -> dict[str, Any]:
    """The sizes of the splits, and how often each label is positive."""
    splits = {}
    for name in SPLITS:
        rows = rows_of(cohort, name)
        positive = np.asarray(cohort.y.tocsr()[rows].sum(axis=0)).ravel()
        n_patients = len(np.unique(cohort.patients[rows]))
        splits[name] = {"n": len(rows), "n_patients": n_patients, "n_positive": _by_label(cohort.labels, positive)}
    return {"names": list(cohort.names), "fingerprint": cohort.fingerprint, "splits": splits}


def _by_label(labels: Sequence[str], positive: Any) -> dict[str, int]:
    if len(labels) > _LABELS_SHOWN:
        return {"all labels together": int(positive.sum())}
    return {label: int(n) for label, n in zip(labels, positive, strict=True)}


def measure(cases: Labelled, p: Probabilities, labels: Sequence[str], n_replicates: int) -> list[dict[str, Any]]:
    """Validation metrics with patient-bootstrap intervals: the mean over labels, and each label."""
    out: list[dict[str, Any]] = []
    if len(labels) > 1:
        out += _rows(cases, p, ["macro average"], n_replicates, average="macro")
    if len(labels) <= _LABELS_SHOWN:
        out += _rows(cases, p, labels, n_replicates, average="none")
    return out


def _rows(
    cases: Labelled, p: Probabilities, names: Sequence[str], n_replicates: int, *, average: Any
) -> list[dict[str, Any]]:
    found = bootstrap(
        cases.y, p, rng=_SEED, metrics=METRICS, patient=cases.patients, n_replicates=n_replicates, average=average
    )
    y = np.asarray(cases.y if average == "none" else cases.y.max(axis=1, keepdims=True))
    counts = Counts(np.full(y.shape[1], len(y)), y.sum(axis=0), class_units(y, cases.patients, "patient"))
    if average == "none":
        low, high, _ = metric_intervals(METRICS, found.point, found.values, counts)
    else:
        low, high, _ = mean_interval(found.point, found.values, counts)
    n_positive = cases.y.sum(axis=0) if average == "none" else [cases.y.sum()]
    return [
        {
            "metric": metric,
            "label": name,
            "value": (value := _number(found.point[0, m, k])),
            "low": _number(low[0, m, k]),
            "high": _number(high[0, m, k]),
            "level": 0.95,
            "n": len(cases.y),
            "n_positive": int(n_positive[k]),
            "reason": "" if value is not None else "only one class in the validation split",
        }
        for k, name in enumerate(names)
        for m, metric in enumerate(METRICS)
    ]


def _number(value: float) -> float | None:
    return round(float(value), 6) if math.isfinite(value) else None


class BestF1(NamedTuple):
    """The threshold with the highest micro-F1, and that F1."""

    threshold: float
    f1: float


def best_f1(y: Any, p: Probabilities) -> BestF1:
    """All case-label pairs pooled; the best of the thresholds in `p`, and of equally good ones the highest."""
    order = np.argsort(-p, axis=None, kind="stable")
    found, scores = np.cumsum(y.ravel()[order], dtype=np.int64), p.ravel()[order]
    f1 = 2 * found / (np.arange(1, found.size + 1) + max(int(found[-1]), 1))
    f1[:-1][scores[1:] == scores[:-1]] = -1.0  # a threshold includes all equal probabilities or none
    at = int(np.argmax(f1))
    return BestF1(float(scores[at]), float(f1[at]))


def choose_threshold(
    cases: Labelled, p: Probabilities, labels: Sequence[str], target_recall: float | None
) -> dict[str, Any]:
    """The threshold that reaches the target recall (Section 2.2), or without a target the one with the highest F1.

    With several labels, all case-label pairs are pooled.
    """
    if target_recall is None:
        best = best_f1(cases.y, p)
        return {**_at(best.threshold, cases, p, None), "f1": _number(best.f1)}
    value = recall_threshold(cases.y.ravel(), p.ravel(), recall=target_recall)
    out = _at(value, cases, p, target_recall)
    if 1 < len(labels) <= _LABELS_SHOWN:
        each = [recall_threshold(cases.y[:, k], p[:, k], recall=target_recall) for k in range(len(labels))]
        out["labels"] = {name: one if math.isfinite(one) else None for name, one in zip(labels, each, strict=True)}
    return out


def _at(value: float, cases: Labelled, p: Probabilities, target_recall: float | None) -> dict[str, Any]:
    called = p >= value
    return {
        "value": value,
        "target_recall": target_recall,
        "recall": _number(float(called[cases.y == 1].mean())),
        "specificity": _number(float((~called)[cases.y == 0].mean())) if (cases.y == 0).any() else None,
    }


def make_card(
    name: str,
    kind: Kind,
    options: TrainOptions,
    fitted: Fitted,
    *,
    cohort: Mapping[str, Any],
    validation: Sequence[Mapping[str, Any]],
    threshold: Mapping[str, Any],
    seed: int | None,
    job: str,
) -> dict[str, Any]:
    """The card as data."""
    weighted = (_WEIGHTED,) if options.class_weight == "balanced" else ()
    return {
        "kind": name,
        "what": kind.what,
        "seed": seed,
        "options": options.model_dump(mode="json"),
        "cohort": dict(cohort),
        "fit": dict(fitted.facts),
        "validation": [dict(row) for row in validation],
        "threshold": dict(threshold),
        "words": [list(pair) for pair in fitted.words],
        "use": _USE,
        "limits": [*_LIMITS, kind.keep, *weighted, *kind.limits],
        "versions": installed_versions(("palpate", "numpy", *kind.packages)),
        "job": job,
    }


def card_text(card: Mapping[str, Any], labels: Sequence[str]) -> str:
    """The card for readers, in Markdown."""
    named = ", ".join(labels[:10]) + (f" and {len(labels) - 10} more" if len(labels) > 10 else "")
    parts = [
        f"# Model card: {card['kind']}",
        f"{card['what']} It predicts the probability of: {named}.",
        "## Use",
        card["use"],
        "## Limits",
        "\n".join(f"- {limit}" for limit in card["limits"]),
        "## Trained on",
        _cohort_table(card["cohort"]),
        f"Cohort `{', '.join(card['cohort']['names'])}`, fingerprint `{card['cohort']['fingerprint']}`.",
        "## On the validation split",
        _metric_table(card["validation"]),
        _threshold_sentence(card["threshold"]),
        "## How it was trained",
        _list({"seed": card["seed"], **card["options"]}),
        "Chosen on the validation split:",
        _list(card["fit"]),
    ]
    if card["words"]:
        shown = ", ".join(f"{word} ({weight:g})" for word, weight in card["words"])
        parts += ["## Words that weigh most", f"Among words in the notes of at least ten patients: {shown}."]
    parts += ["## Versions", _list(card["versions"])]
    return "\n\n".join(parts) + "\n"


def _cohort_table(cohort: Mapping[str, Any]) -> str:
    lines = ["| split | cases | patients | positive |", "|---|---|---|---|"]
    for name, row in cohort["splits"].items():
        positive = "; ".join(
            f"{label} {n:,}" + (f" ({100 * n / row['n']:.1f}%)" if row["n"] and len(row["n_positive"]) == 1 else "")
            for label, n in list(row["n_positive"].items())[:20]
        )
        lines.append(f"| {name} | {row['n']:,} | {row['n_patients']:,} | {positive} |")
    return "\n".join(lines)


def _metric_table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = ["| label | metric | value | 95% interval | n | positive |", "|---|---|---|---|---|---|"]
    for row in rows:
        value = row["reason"] if row["value"] is None else f"{row['value']:.3f}"
        interval = "" if row["low"] is None else f"{row['low']:.3f} to {row['high']:.3f}"
        cells = (row["label"], row["metric"], value, interval, f"{row['n']:,}", f"{row['n_positive']:,}")
        lines.append("| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def _threshold_sentence(threshold: Mapping[str, Any]) -> str:
    pooled = ", all labels pooled" if "labels" in threshold else ""
    specificity = threshold["specificity"]
    also = "" if specificity is None else f" and its specificity {specificity:.3f}"
    if threshold["target_recall"] is None:
        why = f"the one with the highest micro-F1, {threshold['f1']:.3f}"
    else:
        why = f"the highest with a recall of at least {threshold['target_recall']:g}{pooled}"
    return f"Decision threshold: {threshold['value']:.4f}, {why}; its recall there is {threshold['recall']:.3f}{also}."


def _list(values: Mapping[str, Any]) -> str:
    return "\n".join(f"- {name}: {_cell(value)}" for name, value in values.items())


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_cell(one)}" for name, one in value.items())
    if isinstance(value, list):
        joint = "; " if any(isinstance(one, dict) for one in value) else ", "
        return joint.join(_cell(one) for one in value) or "none"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
