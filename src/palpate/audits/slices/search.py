"""Which slices of one half of the patients look worse, for one model and label."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.slices.plan import Sliced
from palpate.stats.groups.search import (
    MOST_BOUNDED,
    Conditions,
    HarmBound,
    Rules,
    bound_all,
    slice_evidence,
    worse_slices,
)
from palpate.stats.groups.slices import Codes, SliceCases, SliceMeasure, SliceTable, all_slices, combinations_of

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Metric = Literal["auroc", "sensitivity", "calibration", "brier"]
HARM = {"auroc": -1, "sensitivity": -1, "calibration": 0, "brier": 1}
"""1: a higher value is worse; -1: a lower one; 0: both."""
KEPT_WORDS = 30
"""Of the notes' own words, those that are combined with attributes: the ones that look worst alone."""


class Searching(NamedTuple):
    """How slices are searched."""

    metric: Metric
    depth: int
    smallest: int
    fewest_events: int
    most: int
    level: float
    margin: float
    weighted: bool = False
    """Whether cases have sampling weights. They do not count in the search, so it excludes nothing then."""

    @property
    def rules(self) -> Rules:
        """Of sensitivity, only cases with the outcome are looked at."""
        if self.metric == "sensitivity":
            return Rules(-1, self.fewest_events, 0, self.most)
        of_class = self.fewest_events if self.metric == "auroc" else 0
        return Rules(HARM[self.metric], self.smallest, of_class, self.most)


class Searched(NamedTuple):
    """What the search found."""

    found: tuple[Conditions, ...]
    """The slices that look worse, by the evidence."""
    n_slices: int
    """How many were looked at."""
    bound: HarmBound | None
    bound_name: str = ""
    """The slice that the bound is about."""


def slice_cases(
    y_true: Mask, y_score: Floats, threshold: float, patient: NDArray[np.int64], metric: Metric
) -> SliceCases:
    """What is averaged over a slice; of the AUROC, nothing is."""
    value: Floats | None = None
    if metric == "sensitivity":
        value = (y_score >= threshold).astype(np.float64)
    elif metric == "calibration":
        value = y_true - y_score
    elif metric == "brier":
        value = (y_true - y_score) ** 2
    return SliceCases(y_true, y_score, patient, value)


def search_slices(cases: SliceCases, sliced: Sliced, how: Searching) -> Searched:
    """The slices of the searched half that look worse; and whether all patients exclude that any slice is."""
    used = cases.y_true if how.metric == "sensitivity" else np.ones(len(cases.y_true), bool)
    searched = sliced.search & used
    kept = _kept(cases, sliced, searched, how)
    codes = [code[searched] for code in kept.codes]
    measure = SliceMeasure(cases.take(searched))
    table = _table(measure, codes, kept, how)
    found = worse_slices(measure, codes, table, how.rules) if len(table.stats.n) else []
    place = {k: _place(sliced, kept, k) for k in range(len(kept.names))}
    named = tuple(each._replace(pairs=tuple((place[a], v) for a, v in each.pairs)) for each in found)
    few = len(table.stats.n) <= MOST_BOUNDED and not how.weighted
    return Searched(named, len(table.stats.n), *_bounded(cases.take(used), used, kept, how) if few else (None, ""))


def _bounded(cases: SliceCases, used: Mask, kept: Sliced, how: Searching) -> tuple[HarmBound | None, str]:
    """What all patients exclude for every slice at once, and for which slice least."""
    measure, codes = SliceMeasure(cases), [code[used] for code in kept.codes]
    table = _table(measure, codes, kept, how)
    bound = bound_all(measure, codes, table, how.rules.harm, how.margin, how.level)
    return bound, "" if bound is None else kept.named(table.conditions(bound.row))


def _place(sliced: Sliced, kept: Sliced, k: int) -> int:
    return k if k < kept.n_attributes else sliced.names.index(kept.names[k], sliced.n_attributes)


def _table(measure: SliceMeasure, codes: list[Codes], kept: Sliced, how: Searching) -> SliceTable:
    rules = how.rules
    return all_slices(
        measure,
        codes,
        [len(levels) for levels in kept.levels],
        combinations_of(kept.n_attributes, len(kept.names) - kept.n_attributes, how.depth),
        fewest_patients=rules.fewest_patients,
        fewest_of_class=rules.fewest_of_class,
    )


def _kept(cases: SliceCases, sliced: Sliced, searched: Mask, how: Searching) -> Sliced:
    """The attributes and words that are combined: of the notes' own words, those that look worst on this half."""
    first = sliced.n_attributes
    if not sliced.own_words or len(sliced.names) - first <= KEPT_WORDS:
        return sliced
    measure = SliceMeasure(cases.take(searched))
    alone = sliced._replace(names=sliced.names[first:], levels=sliced.levels[first:], n_attributes=0)
    codes = [code[searched] for code in sliced.codes[first:]]
    table = _table(measure, codes, alone, how._replace(depth=1))
    value, variance, *_ = measure.one(np.ones(int(searched.sum()), bool))
    evidence, _ = slice_evidence(table, (value, variance), how.rules.harm)
    best = np.sort(table.attribute[np.argsort(-evidence, kind="stable")[:KEPT_WORDS], 0]) + first
    places = [*range(first), *best.tolist()]
    return sliced._replace(
        names=tuple(sliced.names[k] for k in places),
        levels=tuple(sliced.levels[k] for k in places),
        codes=tuple(sliced.codes[k] for k in places),
    )
