"""What an audit is about: its cohort, split, labels and rows, with the checks that every audit makes of them.

The option types are what the fields of an audit are annotated with, so that the same option has the same bounds
everywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints
from palpate.errors import CohortError, ConfigError

Share = Annotated[float, Field(gt=0, lt=1)]
Level = Annotated[float, Field(ge=0.5, le=0.9999)]
"""Of an interval: beyond these bounds it has no tails that replicates could tell."""
Count = Annotated[int, Field(ge=1, lt=2**31)]
Recall = Annotated[float, Field(gt=0, le=1)]
Replicates = Annotated[int, Field(ge=100, le=1_000_000)]
Threshold = Annotated[float, Field(ge=0, le=1)] | Literal["auto", "recall", "youden"]
Unit = Literal["patient", "case"]


def require_text(audit: str, cohort: Cohort) -> None:
    """Refuse a cohort without text."""
    if not cohort.has_text:
        raise CohortError(f"audit '{audit}' reads notes, and the cohort has no text", hint="set `text:` of the cohort")


def audited_cohort(audit: str, cohort: Cohort, name: str | None) -> str:
    """The name of the cohort that is audited: the given one, or the first."""
    if name is not None and name not in cohort.names:
        raise ConfigError(f"audit '{audit}': unknown cohort '{name}'", hint=f"the cohorts are: {_some(cohort.names)}")
    return name or cohort.names[0]


def audited_rows(audit: str, cohort: Cohort, name: str, split: str) -> Ints:
    """The rows of a cohort's held-out split; a cohort without splits is audited whole.

    A case whose sampling weight is 0 stands for nobody and is left out, so that no count includes it.
    """
    rows = cohort.rows(cohort=name, split=split)
    if not len(rows):
        raise CohortError(
            f"audit '{audit}': cohort '{name}' has no case in split '{split}'", hint="set `split:` of the audit"
        )
    return rows if cohort.weights_of(rows) is None else counted_rows(cohort, rows)


def counted_rows(cohort: Cohort, rows: Ints) -> Ints:
    """Rows without those whose sampling weight is 0: they stand for nobody."""
    return rows if cohort.weights is None else np.asarray(rows[cohort.weights[rows] > 0])


def sample_patients(audit: str, cohort: Cohort, rows: Ints, max_notes: int | None, rng: np.random.Generator) -> Ints:
    """All rows, or those of patients drawn at random until the next one does not fit into `max_notes`."""
    if max_notes is None or len(rows) <= max_notes:
        return rows
    patient = cohort.patients[rows]
    names, size = np.unique(patient, return_counts=True)
    order = rng.permutation(len(names))
    fits = np.cumsum(size[order]) <= max_notes
    if not fits[0]:
        raise ConfigError(
            f"audit '{audit}', option 'max_notes': a single patient has more notes",
            hint=f"use at least {int(size.max())}",
        )
    return rows[np.isin(patient, names[order[fits]])]


def audited_labels(
    audit: str,
    cohort: Cohort,
    labels: Sequence[str] | None,
    *,
    rows: Ints | None = None,
    most_common: int | None = None,
    reserved: Collection[str] = (),
) -> tuple[str, ...]:
    """The labels that are audited: the given ones, or those with most positive cases among `rows`, in cohort order.

    `reserved` are names that the audit's results use for averages over labels.
    """
    unknown = [label for label in labels or () if label not in cohort.labels]
    if unknown:
        raise ConfigError(
            f"audit '{audit}': the cohort has no label '{unknown[0]}'", hint=f"its labels are: {_some(cohort.labels)}"
        )
    chosen = tuple(labels or cohort.labels)
    if not labels and most_common is not None and rows is not None and len(chosen) > most_common:
        positive = np.asarray(cohort.y.tocsr()[rows].sum(axis=0, dtype=np.int64)).ravel()
        chosen = most_frequent_labels(cohort.labels, positive, most_common)
    if not chosen:
        raise CohortError(f"audit '{audit}': the cohort has no labels", hint="set `labels:` of the cohort")
    taken = [name for name in reserved if name in chosen]
    if taken and len(chosen) > 1:
        raise ConfigError(
            f"audit '{audit}': '{taken[0]}' is the name of an average over labels", hint="rename that label"
        )
    return chosen


def most_frequent_labels(labels: Sequence[str], n_positive: Ints, n: int) -> tuple[str, ...]:
    """The n labels with most positive cases, in the order of `labels`; of equals the first."""
    kept = np.sort(np.argsort(-n_positive, kind="stable")[:n])
    return tuple(labels[int(j)] for j in kept)


def training_rows(cohort: Cohort, name: str | None = None) -> Ints:
    """The rows of a cohort's training split, by default the first cohort's; none where it has no splits."""
    return _split_rows(cohort, "train", name)


def validation_rows(cohort: Cohort, name: str | None = None) -> Ints:
    """The rows of a cohort's validation split, by default the first cohort's; none where it has no splits."""
    return _split_rows(cohort, "validation", name)


def _split_rows(cohort: Cohort, split: str, name: str | None) -> Ints:
    if "split" not in cohort.cases.columns:
        return np.zeros(0, dtype=np.int64)
    main = cohort.rows(cohort=name or cohort.names[0])
    return counted_rows(cohort, main[(cohort.cases[main]["split"] == split).fill_null(False).to_numpy()])


def _some(names: Sequence[str], most: int = 10) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
