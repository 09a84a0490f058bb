"""Where the context comes from: which columns of the cohort say what was known before the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.context.earlier import Earlier, earlier_labels
from palpate.audits.context.features import Features
from palpate.audits.context.pretest import Pretest, fit_pretest, ready
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints
from palpate.errors import CohortError, ConfigError

Source = Literal["pretest", "notes", "attributes", "earlier"]
Floats = NDArray[np.float64]
WITHOUT = {
    "pretest": "no pre-test probability",
    "notes": "no earlier note",
    "earlier": "no earlier case of the patient",
    "attributes": "no attribute known",
}


class Sources(NamedTuple):
    """What the pre-test probability is made of, for one cohort."""

    kinds: tuple[Source, ...]
    columns: Mapping[str, str]
    """The ready probability's column, by label."""
    attributes: tuple[str, ...]

    @property
    def left_out(self) -> str:
        """Why a case is left out."""
        return " and ".join(WITHOUT[kind] for kind in self.kinds if kind != "attributes") or WITHOUT["attributes"]


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
            raise ConfigError(
                f"audit 'context': the cohort has no attribute '{name}'",
                hint="name it under the cohort's `attributes:`",
            )
    has = {"notes": "prior" in cohort.cases.columns, "earlier": "time" in cohort.cases.columns}
    kinds = _best(has, bool(columns), bool(attributes)) if wanted == "auto" else tuple(wanted)
    for kind, column in (("notes", "prior"), ("earlier", "time")):
        if kind in kinds and not has[kind]:
            raise CohortError(f"audit 'context' is to use {kind}, and the cohort has no `{column}:`")
    if "attributes" in kinds and not attributes:
        raise ConfigError("audit 'context' is to use attributes", hint="name them in `attributes:` of the audit")
    if not kinds:
        raise CohortError(
            "audit 'context' finds nothing that was known before the test",
            hint="give the cohort `prior:` notes, `time:` or columns like pretest_<label>, or name `attributes:` here",
        )
    if "pretest" in kinds and len(kinds) > 1:
        raise ConfigError("audit 'context': a ready pre-test probability can't be joined with other sources")
    return Sources(kinds, columns, tuple(attributes))


def _best(has: Mapping[str, bool], ready_made: bool, named: bool) -> tuple[Source, ...]:
    """A ready probability, else earlier notes, else earlier labels; the last two with the attributes that are named."""
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
            raise ConfigError("audit 'context', option 'pretest': the pattern must hold {label}")
        found = {label: pretest.replace("{label}", label) for label in labels}
        there = {label: name for label, name in found.items() if name in cohort.cases.columns}
        if needed and not there:
            raise CohortError(f"the cohort has no column like '{pretest}'", hint="name it under `attributes:`")
    else:
        there = {label: name for label, name in pretest.items() if label in labels}
        for name in there.values():
            if name not in cohort.cases.columns:
                raise ConfigError(
                    f"audit 'context', option 'pretest': the cohort has no column '{name}'",
                    hint="name it under the cohort's `attributes:`",
                )
    for name in there.values():
        _check_probabilities(cohort, name)
    return there


def _check_probabilities(cohort: Cohort, name: str) -> None:
    column = cohort.cases[name]
    if not column.dtype.is_numeric():
        raise CohortError(f"column '{name}' should hold pre-test probabilities and holds {column.dtype}")
    wrong = ((column < 0) | (column > 1)).fill_null(False)
    if wrong.any():
        case = cohort.cases["case_id"].filter(wrong)[0]
        raise CohortError(
            f"column '{name}' should hold pre-test probabilities, and case '{case}' has one outside 0 to 1",
            hint="correct it, or leave the cell empty where it is not known",
        )


def known_rows(cohort: Cohort, sources: Sources, past: Earlier | None) -> NDArray[np.bool_]:
    """[row] whether anything is known of the case from before."""
    known = np.zeros(len(cohort), dtype=bool)
    for kind in sources.kinds:
        if kind == "pretest":
            for name in sources.columns.values():
                known |= ~np.isnan(_numbers(cohort, name))
        elif kind == "notes":
            known |= (cohort.cases["prior"].str.strip_chars() != "").fill_null(False).to_numpy()
        elif kind == "earlier" and past is not None:
            known |= past.n > 0
    if sources.kinds == ("attributes",):
        for name in sources.attributes:
            known |= cohort.cases[name].is_not_null().to_numpy()
    return known


def past_of(cohort: Cohort, labels: tuple[str, ...]) -> Earlier | None:
    """Labels of earlier cases, where the cohort has times."""
    return earlier_labels(cohort, labels) if "time" in cohort.cases.columns else None


def pretest_of(
    cohort: Cohort,
    labels: tuple[str, ...],
    sources: Sources,
    past: Earlier | None,
    *,
    training: Ints,
    audited: Ints,
    seed: int,
) -> Pretest:
    """The pre-test probabilities of the audited rows."""
    if sources.kinds == ("pretest",):
        names = [sources.columns.get(label) for label in labels]
        return ready([None if name is None else (name, _numbers(cohort, name)[audited]) for name in names])
    features = Features(
        attributes=[(name, cohort.cases[name]) for name in sources.attributes if "attributes" in sources.kinds],
        earlier=past if "earlier" in sources.kinds else None,
        labels=labels,
        notes=cohort.cases["prior"].to_list() if "notes" in sources.kinds else None,
    )
    y_true = cohort.y_true(np.arange(len(cohort)), labels)
    return fit_pretest(features, y_true, cohort.patients, training=training, audited=audited, seed=seed)


def _numbers(cohort: Cohort, name: str) -> Floats:
    column = cohort.cases[name].cast(float).fill_null(float("nan"))
    return column.to_numpy()
