"""What earlier cases of the same patient say: labels found before, by `time`.

Earlier means strictly earlier: two cases of one moment know nothing of each other, and a case without a time neither
has a past nor belongs to one. So nothing of the present or the future reaches the pre-test probability.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints

Floats = NDArray[np.float64]


class Earlier(NamedTuple):
    """The past of each row of the cohort."""

    n: Ints
    """How many earlier cases the patient has."""
    share: Floats
    """[row, label] the share of the earlier cases with the label; 0 without earlier cases."""
    last: NDArray[np.uint8]
    """[row, label] whether a case of the latest earlier moment has it."""

    @property
    def ever(self) -> NDArray[np.bool_]:
        """[row, label] whether any earlier case has it."""
        return self.share > 0


def earlier_labels(cohort: Cohort, labels: tuple[str, ...]) -> Earlier:
    """The earlier labels of every row; nobody has a past in a cohort without `time`."""
    n_rows = len(cohort)
    y = cohort.y_true(np.arange(n_rows), labels)
    past = np.zeros(n_rows, dtype=np.int64)
    share = np.zeros(y.shape)
    last = np.zeros_like(y)
    if "time" not in cohort.cases.columns:
        return Earlier(past, share, last)
    known = cohort.cases["time"].is_not_null().to_numpy()
    moment = cohort.cases["time"].to_physical().fill_null(0).to_numpy().astype(np.int64)
    rows = np.flatnonzero(known)
    rows = rows[np.lexsort((moment[rows], cohort.patients[rows]))]
    if not len(rows):
        return Earlier(past, share, last)
    patient = cohort.patients[rows]
    new_patient = np.append(True, patient[1:] != patient[:-1])
    new_moment = new_patient | np.append(True, moment[rows][1:] != moment[rows][:-1])
    place = np.arange(len(rows))
    first = np.maximum.accumulate(np.where(new_patient, place, 0))
    now = np.maximum.accumulate(np.where(new_moment, place, 0))
    before = np.append(np.zeros((1, y.shape[1]), np.int64), np.cumsum(y[rows], axis=0, dtype=np.int64), axis=0)
    count = now - first
    past[rows] = count
    share[rows] = (before[now] - before[first]) / np.maximum(count, 1)[:, None]
    previous = now[np.maximum(now - 1, 0)]
    last[rows] = np.where((count > 0)[:, None], before[now] - before[previous] > 0, False)
    return Earlier(past, share, last)
