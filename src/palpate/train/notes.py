"""The training and validation notes of a cohort, checked; and their class weights.

The weights are those of the vocabulary paper (Appendix B.1): a positive example weighs the share of negatives, a
negative one the share of positives. They are scaled to a mean of 1, so that learning rates and penalties mean the same
with and without them, and computed on the training split, not on the entire dataset, so that nothing of the held-out
cases enters the fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from palpate.cases.cohort import SPLITS, Cohort
from palpate.cases.columns import ColumnCheck, check_one_split
from palpate.errors import CohortError
from palpate.privacy import hides

Floats = NDArray[np.float64]
_NAMED = 5


@hides("texts")
class Notes(NamedTuple):
    """Cases of one split."""

    texts: list[str]
    y: NDArray[np.uint8]
    """[case, label]"""
    patients: NDArray[np.int64]
    case_ids: Sequence[str] = ()


class Labelled(Protocol):
    """What every split has, whatever its cases are."""

    @property
    def y(self) -> NDArray[np.uint8]:
        """[case, label]"""

    @property
    def patients(self) -> NDArray[np.int64]:
        """The patient of each case."""


class Split(NamedTuple):
    """What a model is fitted on, and what its choices are made on."""

    train: Notes
    validation: Notes
    labels: tuple[str, ...]


def rows_of(cohort: Cohort, split: str) -> NDArray[np.int64]:
    """The cases of one split; unlike in `Cohort.rows`, a case without a split belongs to none."""
    if "split" not in cohort.cases.columns:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero((cohort.cases["split"] == split).fill_null(False).to_numpy())


def check_patients(cohort: Cohort) -> None:
    """Refuse a patient in two splits: a model would be tested on patients that it was trained on."""
    if "split" in cohort.cases.columns:
        check_one_split(ColumnCheck(cohort.cases["patient_id"]), cohort.cases["split"])


def split_notes(cohort: Cohort, *, rare_labels: bool = False) -> Split:
    """The notes to train with; the error says why a cohort can't be used.

    With `rare_labels` some labels may have only one class in the training split, as happens with thousands of codes.
    """
    if not cohort.has_text:
        raise CohortError("the cohort has no text to train on", hint="name the `text` column")
    rows = training_rows(cohort, rare_labels=rare_labels)
    texts, ids = cohort.cases["text"], cohort.cases["case_id"]
    train, validation = (
        Notes(texts[own].to_list(), cohort.y_true(own), cohort.patients[own], ids[own].to_list()) for own in rows
    )
    return Split(train, validation, cohort.labels)


def training_rows(cohort: Cohort, *, rare_labels: bool = False) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The cases to train on and those to validate on; the error says why a cohort can't be used."""
    train, validation = (rows_of(cohort, name) for name in SPLITS[:2])
    for name, rows in zip(SPLITS, (train, validation), strict=False):
        if not len(rows):
            raise CohortError(
                f"no case of the cohort is in the split '{name}'",
                hint="training needs a column `split` with train and validation (and test, which it never reads); "
                "`palpate cohort` writes one",
            )
    by_row = cohort.y.tocsr()
    _check_classes(np.asarray(by_row[train].sum(axis=0)).ravel(), len(train), cohort.labels, rare_labels=rare_labels)
    if not by_row[validation].sum():
        raise CohortError(
            "no case of the split 'validation' is positive, so no decision threshold can be chosen",
            hint="add cases to validation",
        )
    return train, validation


def _check_classes(n_positive: NDArray[np.int64], n: int, labels: Sequence[str], *, rare_labels: bool) -> None:
    single = np.flatnonzero((n_positive == 0) | (n_positive == n))
    if not len(single) or (rare_labels and len(single) < len(labels)):
        return
    names = ", ".join(f"'{labels[k]}'" for k in single[:_NAMED]) + (", ..." if len(single) > _NAMED else "")
    which = f"label {names} has" if len(single) == 1 else f"{len(single)} labels ({names}) have"
    raise CohortError(
        f"{which} only one class in the split 'train'",
        hint="leave such labels out: --cohort also accepts an audit.yaml, whose `cohort:` can list the others as "
        "`labels` (or set a `min_count` in its `label_list`)",
    )


def class_weights(y: NDArray[np.uint8], class_weight: str) -> Floats:
    """[label, class]: the weight of a negative and of a positive example for each label."""
    n, n_positive = len(y), y.sum(axis=0, dtype=np.float64)
    if class_weight == "none":
        return np.ones((y.shape[1], 2))
    share = n_positive / n
    paper = np.column_stack([share, 1 - share])
    return np.asarray(paper / (2 * share * (1 - share))[:, None])


def example_weights(y: NDArray[np.uint8], weights: Floats) -> Floats:
    """[case, label]: the weight of each example."""
    return np.where(y == 1, weights[:, 1], weights[:, 0])


def log_loss(y: NDArray[np.uint8], p: Floats, weight: Floats) -> float:
    """Weighted cross-entropy, averaged over cases and labels; probabilities are clipped, so that it stays finite."""
    likely = np.clip(p, 1e-7, 1 - 1e-7)
    losses = -(xlogy(y, likely) + xlogy(1 - y.astype(np.float64), 1 - likely))
    return float(np.average(losses, weights=weight))
