"""The training split, for audits that learn words from it or show what it holds."""

from __future__ import annotations

import numpy as np

from palpate.cohort import Cohort
from palpate.edits import Ints


def training_rows(cohort: Cohort, name: str | None = None) -> Ints:
    """A cohort's rows of the training split, by default the first's; none where it has no splits."""
    if "split" not in cohort.cases.columns:
        return np.zeros(0, dtype=np.int64)
    main = cohort.rows(cohort=name or cohort.names[0])
    rows: Ints = main[(cohort.cases[main]["split"] == "train").fill_null(False).to_numpy()]
    return rows
