"""Realistic runs to report on: two models of readmission, and three of thirteen findings of a chest radiograph.

The numbers are made up, from a seeded generator; nothing here comes from a patient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from palpate.results import AuditResult

from .sample_images import FINDINGS_13, context, many_labels
from .sample_notes import capabilities, characteristics, performance, vocabulary, with_examples


class Sample(NamedTuple):
    """What `render` takes."""

    manifest: dict[str, Any]
    results: list[AuditResult]
    gate: list[dict[str, Any]]


def two_models(*, include_text: bool = False) -> Sample:
    """Readmission from discharge notes: two language models, one label, four audits."""
    models = ("bert-discharge", "tfidf-xgb")
    results = [performance(models), vocabulary(models), characteristics(models), capabilities(models)]
    if include_text:
        results[1] = with_examples(results[1])
    manifest = _manifest("30-day readmission from discharge notes", models, ("readmitted",), include_text)
    gate = [
        {"condition": "AUROC of bert-discharge at least 0.70", "passed": True, "detail": "0.743, lower end 0.721"},
        {
            "condition": "no gender gap above 0.02",
            "passed": False,
            "detail": "bert-discharge: −0.031 for transgender patients",
        },
        {"condition": "calibration error at most 0.05", "passed": True, "detail": "0.021"},
    ]
    return Sample(manifest, results, gate)


def thirteen_labels() -> Sample:
    """Findings of chest radiographs: three models, thirteen labels, two audits."""
    models = ("densenet121", "resnet50", "context-only")
    results = [many_labels(models), context(models)]
    manifest = _manifest("Chest radiograph findings, frontal views", models, FINDINGS_13, False)
    return Sample(manifest, results, [])


def _manifest(title: str, models: Sequence[str], labels: Sequence[str], include_text: bool) -> dict[str, Any]:
    positives = [480 if len(labels) == 1 else 2400 // (i + 1) for i in range(len(labels))]
    return {
        "schema": 1,
        "palpate": "0.1.0",
        "created": "2026-11-15T20:00:00Z",
        "title": title,
        "seed": 0,
        "include_text": include_text,
        "cohorts": [
            {
                "name": "internal",
                "file": "readmission.parquet",
                "n": 8000,
                "n_patients": 5200,
                "n_labels": len(labels),
                "labels": [{"name": n, "n_positive": p} for n, p in zip(labels, positives, strict=True)],
                "splits": {"train": 5600, "validation": 1200, "test": 1200},
            }
        ],
        "models": [
            {
                "name": name,
                "source": f"hf:models/{name}",
                "labels": list(labels),
                "window": "the first 512 tokens" if i == 0 else None,
                "threshold": 0.35 if i == 0 else None,
                "fingerprint": f"ab12{i}f" * 8,
                "ensemble": None,
            }
            for i, name in enumerate(models)
        ],
        "scoring": {
            name: {"asked": 124_000, "distinct": 118_250, "outside_window": 38_440 if i == 0 else 0}
            for i, name in enumerate(models)
        },
        "packages": {"numpy": "2.4.6", "polars": "2.1.0", "scikit-learn": "1.9.1", "altair": "6.3.0"},
        "config": {
            "cohort": "readmission.parquet",
            "models": {name: f"hf:models/{name}" for name in models},
            "audits": {"performance": {}, "characteristics": {"alter": ["gender", "age", "ethnicity"]}},
        },
    }
