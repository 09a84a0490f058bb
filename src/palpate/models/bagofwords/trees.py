"""XGBoost's trees on tf-idf weights, walked again only where an edit can matter.

A parent walks down every tree once. For each tree its leaf is kept, the columns on the path, and the interval of norms
within which no split on the path changes. A row walks again only the trees that have a changed column on the path or
whose interval its norm leaves. Weights, thresholds and sums are rounded to float32 where XGBoost does, leaves are
added in its order, and an absent column is a missing value.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray
from sklearn.multioutput import MultiOutputClassifier

from palpate.compiled import njit
from palpate.models.bagofwords.counts import Counted
from palpate.models.bagofwords.tfidf import (
    Floats,
    Weights,
    changed_sum,
    norm_of,
    running_sums,
    size_of,
    weigh_changes,
    weigh_parent,
)

_MARGIN = 1e-6
"""Splits closer to their threshold than this (relative; float32 rounds by 6e-8) are always evaluated again."""


class Trees(NamedTuple):
    """All trees of all labels, node by node. A leaf is its own child on both sides, and its threshold is its value."""

    root: NDArray[np.int64]
    first_tree: NDArray[np.int64]
    """The first tree of each label; then the number of trees."""
    slot: NDArray[np.int64]
    """Which of the used columns a node splits on; -1 at a leaf."""
    threshold: NDArray[np.float32]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    missing: NDArray[np.int64]
    """The child for a missing value."""
    column_slot: NDArray[np.int64]
    """The slot of every column; -1 where no tree uses it."""
    n_slots: int
    depth: int
    base: NDArray[np.float32]
    """The value that each label's sum starts from."""


class Forest(NamedTuple):
    """Binary XGBoost classifiers, one per label."""

    trees: Trees

    def probabilities(self, counted: Counted, weights: Weights) -> Floats:
        """One row per text, one column per label."""
        out = np.empty((len(counted.owner), len(self.trees.base)), dtype=np.float32)
        frequency = weights.term_frequencies(counted.largest)
        _score(counted, frequency, weights.idf, weights.norm, self.trees, out)
        return out.astype(np.float64)


def forest_of(classifier: Any, n_columns: int) -> Forest | None:
    """A two-class XGBClassifier, or one per label, with plain trees; None for any other classifier."""
    parts = list(classifier.estimators_) if type(classifier) is MultiOutputClassifier else [classifier]
    if not parts or any(type(part).__module__.partition(".")[0] != "xgboost" for part in parts):
        return None
    import xgboost

    if any(type(part) is not xgboost.XGBClassifier for part in parts):
        return None
    read = [_read_booster(part, n_columns) for part in parts]
    labels = [label for label in read if label is not None]
    return Forest(_join(labels, n_columns)) if len(labels) == len(parts) else None


class _Label(NamedTuple):
    base: np.float32
    trees: list[dict[str, Any]]


def _read_booster(classifier: Any, n_columns: int) -> _Label | None:
    """The trees that `predict_proba` uses; None if they have anything that is not supported here."""
    booster = classifier.get_booster()
    learner = json.loads(booster.save_raw("json"))["learner"]
    parameters, model = learner["learner_model_param"], learner["gradient_booster"]
    plain = (
        learner["objective"]["name"] == "binary:logistic"
        and model["name"] == "gbtree"
        and int(parameters["num_class"]) <= 1
        and int(parameters.get("num_target", 1)) == 1
        and int(parameters["num_feature"]) == n_columns
        and int(classifier.n_classes_) == 2
        and np.isnan(classifier.missing)
    )
    if not plain:
        return None
    trees = model["model"]["trees"]
    if any(any(tree["split_type"]) or int(tree["tree_param"]["size_leaf_vector"]) > 1 for tree in trees):
        return None
    used = getattr(booster, "best_iteration", None) if booster.attr("best_iteration") is not None else None
    if used is not None:
        a_round = int(model["model"]["gbtree_model_param"]["num_parallel_tree"])
        trees = trees[: (used + 1) * max(1, a_round)]
    score, one = np.float32(str(parameters["base_score"]).strip("[]")), np.float32(1)
    if not 0 < score < 1:
        return None
    # In float64, because numpy's logarithm of a float32 is not always the nearest float32, whereas C's is.
    return _Label(np.float32(-np.log(np.float64(one / score - one))), trees)


def _join(labels: list[_Label], n_columns: int) -> Trees:
    every = [tree for label in labels for tree in label.trees]
    root = np.concatenate([[0], np.cumsum([len(tree["left_children"]) for tree in every])]).astype(np.int64)

    def column(name: str, kind: Any) -> Any:
        return np.concatenate([np.zeros(0, kind), *(np.asarray(tree[name], dtype=kind) for tree in every)])

    start = np.repeat(root[:-1], np.diff(root))
    leaf = column("left_children", np.int64) < 0
    own = np.arange(len(leaf))
    left = np.where(leaf, own, column("left_children", np.int64) + start)
    right = np.where(leaf, own, column("right_children", np.int64) + start)
    split = column("split_indices", np.int64)
    used = np.unique(split[~leaf])
    column_slot = np.full(n_columns, -1, dtype=np.int64)
    column_slot[used] = np.arange(len(used))
    return Trees(
        root=root[:-1],
        first_tree=np.cumsum([0, *(len(label.trees) for label in labels)]).astype(np.int64),
        slot=np.where(leaf, -1, column_slot[np.where(leaf, 0, split)]),
        threshold=column("split_conditions", np.float64).astype(np.float32),
        left=left,
        right=right,
        missing=np.where(column("default_left", np.int64) > 0, left, right),
        column_slot=column_slot,
        n_slots=len(used),
        depth=_depth(root[:-1], left, right),
        base=np.asarray([label.base for label in labels], dtype=np.float32),
    )


def _depth(root: NDArray[np.int64], left: NDArray[np.int64], right: NDArray[np.int64]) -> int:
    """The largest number of splits from a root to a leaf."""
    level, depth = root, 0
    while len(level := level[left[level] != level]):
        level, depth = np.concatenate([left[level], right[level]]), depth + 1
    return depth


@njit(cache=True, nogil=True, inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _child(trees: Any, node: Any, value: Any, norm: Any) -> Any:
    if np.isnan(value):
        return trees.missing[node]
    return trees.left[node] if np.float32(value / norm) < trees.threshold[node] else trees.right[node]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _leaf(trees: Any, tree: Any, values: Any, norm: Any) -> Any:
    node = trees.root[tree]
    while trees.slot[node] >= 0:
        node = _child(trees, node, values[trees.slot[node]], norm)
    return trees.threshold[node]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _walk_parent(
    trees: Any,
    values: Any,
    norm: Any,
    fixed: Any,
    leaf: Any,
    low: Any,
    high: Any,
    newest: Any,
    older: Any,
    tree_of: Any,
) -> None:
    """Each tree's leaf, its interval of norms, and for each used column a chain of the trees that split on it."""
    n = 0
    for tree in range(len(trees.root)):
        node = trees.root[tree]
        low[tree], high[tree] = -np.inf, np.inf
        while trees.slot[node] >= 0:
            slot = trees.slot[node]
            child = _child(trees, node, values[slot], norm)
            older[n], tree_of[n], newest[slot] = newest[slot], tree, n
            n += 1
            # Weights are positive, so no norm brings one below a threshold that is not positive.
            if not fixed and not np.isnan(values[slot]) and trees.threshold[node] > 0:
                turn = values[slot] / np.float64(trees.threshold[node])
                if child == trees.left[node]:
                    low[tree] = max(low[tree], turn * (1 + _MARGIN))
                else:
                    high[tree] = min(high[tree], turn * (1 - _MARGIN))
            node = child
        leaf[tree] = trees.threshold[node]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _logistic(margin: Any) -> Any:
    """XGBoost's own sigmoid, in float32."""
    return np.float32(1) / (np.exp(min(-margin, np.float32(88.7))) + np.float32(1))


@njit(cache=True, nogil=True, parallel=True)  # type: ignore[untyped-decorator, unused-ignore]
def _score(counted: Any, frequency: Any, idf: Any, norm: Any, trees: Any, out: Any) -> None:
    n_trees = len(trees.root)
    for parent in prange(len(counted.parent_n)):
        weight = weigh_parent(counted, parent, frequency, idf)
        values = np.full(trees.n_slots, np.nan)
        terms = np.empty(len(weight))
        for k in range(len(weight)):
            terms[k] = size_of(weight[k], norm)
            slot = trees.column_slot[counted.parent_column[counted.parent_start[parent] + k]]
            if slot >= 0:
                values[slot] = weight[k]
        sums = running_sums(terms)
        leaf = np.empty(n_trees, np.float32)
        low, high = np.empty(n_trees), np.empty(n_trees)
        newest = np.full(trees.n_slots, -1, np.int64)
        older, tree_of = np.empty(n_trees * trees.depth, np.int64), np.empty(n_trees * trees.depth, np.int64)
        size = norm_of(sums[-1], norm)
        _walk_parent(trees, values, size, norm == 0, leaf, low, high, newest, older, tree_of)

        first, last = counted.first_row[parent], counted.first_row[parent + 1]
        room = counted.row_n[first:last].max()
        place, known = np.empty(room, np.int64), np.empty(room, np.int64)
        then, now, before = np.empty(room), np.empty(room), np.empty(room)
        touched = np.full(n_trees, -1, np.int64)
        for row in range(first, last):
            changes, begin = counted.row_n[row], counted.row_start[row]
            weigh_changes(counted, parent, row, frequency, idf, place, known, now)
            for k in range(changes):
                then[k] = size_of(now[k], norm)
                slot = trees.column_slot[counted.row_column[begin + k]]
                if slot >= 0:
                    before[k] = values[slot]
                    values[slot] = now[k] if now[k] > 0 else np.nan
                    link = newest[slot]
                    while link >= 0:
                        touched[tree_of[link]] = row
                        link = older[link]
            size = norm_of(changed_sum(terms, sums, changes, place, known, then), norm)
            for label in range(len(trees.base)):
                margin = trees.base[label]
                for tree in range(trees.first_tree[label], trees.first_tree[label + 1]):
                    if touched[tree] == row or size < low[tree] or size > high[tree]:
                        margin += _leaf(trees, tree, values, size)
                    else:
                        margin += leaf[tree]
                out[row, label] = _logistic(margin)
            for k in range(changes):
                slot = trees.column_slot[counted.row_column[begin + k]]
                if slot >= 0:
                    values[slot] = before[k]
