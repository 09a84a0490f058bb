"""From checked arrays to the sorted, concatenated layouts that the bootstrap kernels walk through."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from palpate.stats.arguments import Rows
from palpate.stats.inputs import Floats
from palpate.stats.kernels.lanes import Crossed
from palpate.stats.kernels.walks import Ranked

_FEW = 100_000
"""Rows of all problems together up to which threads do not pay."""


class _Problem(NamedTuple):
    unit: NDArray[np.uint32]
    positive: NDArray[np.bool_]
    score: Floats
    weight: NDArray[Any]
    above: int


def _problem(rows: Rows, model: int, label: int) -> _Problem:
    used = rows.ranked(model, label)
    score = rows.score[model, used, label]
    weight: NDArray[Any] = np.ones(score.size, np.int64)
    if rows.weight is not None:
        weight = rows.weight[used, label]
    threshold = rows.threshold[model, label]
    above = int(np.searchsorted(-score, -threshold, side="right")) if threshold == threshold else -1
    return _Problem(rows.unit[used, label], rows.positive[used, label], score, weight, above)


def _problems(rows: Rows) -> list[_Problem]:
    n_models, n, n_labels = rows.score.shape
    every = [(model, label) for label in range(n_labels) for model in range(n_models)]
    if n * len(every) < _FEW or rows.orders is not None:
        return [_problem(rows, *each) for each in every]
    with ThreadPoolExecutor(get_num_threads()) as pool:  # sorting lets other threads run
        return list(pool.map(lambda each: _problem(rows, *each), every))


def _starts(parts: list[NDArray[Any]]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum([part.size for part in parts])]).astype(np.int64)


def ranked(rows: Rows, n_bins: int) -> Ranked:
    """The layout for the walks over every metric; its gaps are 0."""
    problems = _problems(rows)
    scores = [p.score for p in problems]
    last = [np.append(s[1:] != s[:-1], True)[: s.size] for s in scores]
    return Ranked(
        start=_starts(list(scores)),
        unit=np.concatenate([p.unit for p in problems]),
        positive=np.concatenate([p.positive for p in problems]),
        score=np.concatenate(scores),
        last=np.concatenate(last),
        weight=np.concatenate([p.weight for p in problems]),
        above=np.array([p.above for p in problems], np.int64),
        gap=np.zeros((len(problems), n_bins)),
        sizes=rows.sizes,
        draws=rows.draws,
        n_models=rows.score.shape[0],
        shared=rows.shared,
    )


class _Cross(NamedTuple):
    common: NDArray[np.uint32]
    after: NDArray[np.int64]
    n_asking: NDArray[np.int64]
    asker: NDArray[np.uint32]
    flipped: bool


def _cross(problem: _Problem) -> _Cross:
    # The lanes are walked from low to high scores, but the rows are sorted from high to low.
    positive, unit, score = problem.positive[::-1], problem.unit[::-1], problem.score[::-1]
    flipped = 2 * int(positive.sum()) > positive.size
    rare = ~positive if flipped else positive
    common_score, rare_score = score[~rare], score[rare]
    after = np.searchsorted(common_score, rare_score, side="left")
    up_to = np.searchsorted(common_score, rare_score, side="right")
    asker = unit[rare]
    if bool(np.any(up_to > after)):
        after = np.concatenate([after, up_to])
        asker = np.concatenate([asker, asker])
        order = np.argsort(after, kind="stable")
        after, asker = after[order], asker[order]
    stops, n_asking = np.unique(after, return_counts=True)
    return _Cross(unit[~rare], stops.astype(np.int64), n_asking.astype(np.int64), asker, flipped)


def crossed(rows: Rows) -> Crossed:
    """The layout for the AUROC of many replicates side by side."""
    crosses = [_cross(problem) for problem in _problems(rows)]
    return Crossed(
        common_start=_starts([c.common for c in crosses]),
        common=np.concatenate([c.common for c in crosses]),
        stop_start=_starts([c.after for c in crosses]),
        after=np.concatenate([c.after for c in crosses]),
        asker_start=np.concatenate([[0], *[c.n_asking for c in crosses]]).cumsum(),
        asker=np.concatenate([c.asker for c in crosses]),
        flipped=np.array([c.flipped for c in crosses]),
        sizes=rows.sizes,
        draws=rows.draws,
        n_models=rows.score.shape[0],
        shared=rows.shared,
    )
