"""What was known before the test: the columns of the cohort that say so, and the labels of earlier cases.

Earlier means strictly earlier: two cases at the same time know nothing of each other, and a case without a time neither
has a past nor is part of one. So nothing of the present or the future reaches the pre-test probability.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints
from palpate.errors import CohortError, ConfigError

Source = Literal["pretest", "notes", "attributes", "earlier"]
Floats = NDArray[np.float64]
WITHOUT = {
    "pretest": "no pre-test probability",
    "notes": "no earlier note",
    "earlier": "no earlier case of the patient",
    "attributes": "no known attribute",
}
LIST_COLUMN = "list it under the cohort's `attributes:`"


class Sources(NamedTuple):
    """What the pre-test probability of one cohort is made of."""

    kinds: tuple[Source, ...]
    columns: Mapping[str, str]
    """The column of ready probabilities, by label."""
    attributes: tuple[str, ...]

    @property
    def left_out(self) -> str:
        """Why a case is left out."""
        return " and ".join(WITHOUT[kind] for kind in self.kinds if kind != "attributes") or WITHOUT["attributes"]


class EarlierLabels(NamedTuple):
    """The past of each row of the cohort."""

    n: Ints
    """How many earlier cases the patient has."""
    share: Floats
    """[row, label] the share of earlier cases with the label; 0 without earlier cases."""
    last: NDArray[np.uint8]
    """[row, label] whether a case at the latest earlier time has it."""

    @property
    def ever(self) -> NDArray[np.bool_]:
        """[row, label] whether any earlier case has it."""
        return self.share > 0


def choose_sources(
    cohort: Cohort,
    labels: Sequence[str],
    wanted: Literal["auto"] | Sequence[Source],
    pretest: str | Mapping[str, str],
    attributes: Sequence[str],
) -> Sources:
    """The sources that are asked for, or the best that there are; refused if a column is missing."""
    columns = _pretest_columns(cohort, labels, pretest, needed=wanted != "auto" and "pretest" in wanted)
    for name in attributes:
        if name not in cohort.cases.columns:
            raise ConfigError(f"audit 'context': the cohort has no attribute '{name}'", hint=LIST_COLUMN)
    has = {"notes": "prior" in cohort.cases.columns, "earlier": "time" in cohort.cases.columns}
    kinds = _best(has, bool(columns), bool(attributes)) if wanted == "auto" else tuple(wanted)
    for kind, column in (("notes", "prior"), ("earlier", "time")):
        if kind in kinds and not has[kind]:
            raise CohortError(f"audit 'context', option 'context': '{kind}' needs the cohort's `{column}:`")
    if "attributes" in kinds and not attributes:
        raise ConfigError(
            "audit 'context', option 'context': 'attributes' needs the names of attributes",
            hint="list them in `attributes:` of the audit",
        )
    if not kinds:
        raise CohortError(
            "audit 'context': the cohort has nothing that was known before the test",
            hint="give the cohort `prior:` notes, `time:` or columns like pretest_<label>, or list `attributes:` here",
        )
    if "pretest" in kinds and len(kinds) > 1:
        raise ConfigError("audit 'context': ready pre-test probabilities can't be combined with other sources")
    return Sources(kinds, columns, tuple(attributes))


def _best(has: Mapping[str, bool], ready_made: bool, named: bool) -> tuple[Source, ...]:
    """Ready probabilities, else earlier notes, else earlier labels; the last two with the attributes that are named."""
    if ready_made:
        return ("pretest",)
    more: tuple[Source, ...] = ("attributes",) if named else ()
    if has["notes"]:
        return ("notes", *more)
    return ("earlier", *more) if has["earlier"] else more


def _pretest_columns(
    cohort: Cohort, labels: Sequence[str], pretest: str | Mapping[str, str], *, needed: bool
) -> dict[str, str]:
    if isinstance(pretest, str):
        if "{label}" not in pretest:
            raise ConfigError("audit 'context', option 'pretest': the pattern must contain {label}")
        found = {label: pretest.replace("{label}", label) for label in labels}
        there = {label: name for label, name in found.items() if name in cohort.cases.columns}
        if needed and not there:
            raise CohortError(f"the cohort has no column like '{pretest}'", hint=LIST_COLUMN)
    else:
        there = {label: name for label, name in pretest.items() if label in labels}
        for name in there.values():
            if name not in cohort.cases.columns:
                raise ConfigError(
                    f"audit 'context', option 'pretest': the cohort has no column '{name}'", hint=LIST_COLUMN
                )
    for name in there.values():
        _check_probabilities(cohort, name)
    return there


def _check_probabilities(cohort: Cohort, name: str) -> None:
    column = cohort.cases[name]
    if not column.dtype.is_numeric():
        raise CohortError(f"column '{name}' should hold pre-test probabilities but holds {column.dtype}")
    wrong = ((column < 0) | (column > 1)).fill_null(False)
    if wrong.any():
        case = cohort.cases["case_id"].filter(wrong)[0]
        raise CohortError(
            f"column '{name}' should hold pre-test probabilities, but that of case '{case}' is outside 0 to 1",
            hint="correct it, or leave the cell empty where it is not known",
        )


def known_rows(cohort: Cohort, sources: Sources, past: EarlierLabels | None) -> NDArray[np.bool_]:
    """[row] whether anything is known about the case from before."""
    known = np.zeros(len(cohort), dtype=bool)
    for kind in sources.kinds:
        if kind == "pretest":
            for name in sources.columns.values():
                known |= ~np.isnan(number_column(cohort, name))
        elif kind == "notes":
            known |= (cohort.cases["prior"].str.strip_chars() != "").fill_null(False).to_numpy()
        elif kind == "earlier" and past is not None:
            known |= past.n > 0
    if sources.kinds == ("attributes",):
        for name in sources.attributes:
            known |= cohort.cases[name].is_not_null().to_numpy()
    return known


def number_column(cohort: Cohort, name: str) -> Floats:
    """A column as floats, NaN where it is empty."""
    return cohort.cases[name].cast(float).fill_null(float("nan")).to_numpy()


def earlier_labels(cohort: Cohort, labels: tuple[str, ...]) -> EarlierLabels:
    """The earlier labels of every row of a cohort with `time`."""
    n_rows = len(cohort)
    y = cohort.y_true(np.arange(n_rows), labels)
    past = np.zeros(n_rows, dtype=np.int64)
    share = np.zeros(y.shape)
    last = np.zeros_like(y)
    known = cohort.cases["time"].is_not_null().to_numpy()
    moment = cohort.cases["time"].to_physical().fill_null(0).to_numpy().astype(np.int64)
    rows = np.flatnonzero(known)
    rows = rows[np.lexsort((moment[rows], cohort.patients[rows]))]
    if not len(rows):
        return EarlierLabels(past, share, last)
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
    return EarlierLabels(past, share, last)
