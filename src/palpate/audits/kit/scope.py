"""Rows of a split, for audits that learn words from training notes, show what they hold, or find thresholds."""

from __future__ import annotations

import numpy as np

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints


def training_rows(cohort: Cohort, name: str | None = None) -> Ints:
    """A cohort's rows of the training split, by default the first's; none where it has no splits."""
    return _rows(cohort, "train", name)


def validation_rows(cohort: Cohort, name: str | None = None) -> Ints:
    """The same of the validation split."""
    return _rows(cohort, "validation", name)


def _rows(cohort: Cohort, split: str, name: str | None) -> Ints:
    if "split" not in cohort.cases.columns:
        return np.zeros(0, dtype=np.int64)
    main = cohort.rows(cohort=name or cohort.names[0])
    rows: Ints = main[(cohort.cases[main]["split"] == split).fill_null(False).to_numpy()]
    return rows
