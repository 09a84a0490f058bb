"""Where a probability becomes a decision: the threshold of each model and label.

The vocabulary paper (Section 2.2) takes the threshold that reaches 70% recall on the validation split. A model may
bring its own, and a user may give a number. All audits that speak of decisions use these rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.scope import Threshold, validation_rows
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints
from palpate.cases.parallel import n_cores
from palpate.errors import CohortError
from palpate.results import ModelPredictions, Plan
from palpate.stats import recall_threshold, youden_threshold

Rows = slice | Ints
_AT_ONCE, _FEW = 2_000_000, 1_000_000
"""Scores that are copied at a time, and up to which threads do not pay."""


@dataclass(frozen=True)
class ThresholdRule:
    """How a threshold is found.

    A number is used as it is. `recall` reaches `target_recall`, and `youden` maximises Youden's index, both on the
    validation split or, without one, on the audited cases, with their sampling weights. `auto` is the model's own, else
    `recall` where there is a validation split, else `youden`.
    """

    threshold: Threshold = "auto"
    target_recall: float = 0.70


class Thresholds(NamedTuple):
    """What was decided."""

    values: NDArray[np.float64]
    """[model, label]; NaN where none could be found."""
    origin: dict[str, str]
    """In words, where each model's came from."""
    optimistic: frozenset[str] = frozenset()
    """The models whose threshold was chosen on the audited cases: their decisions look better than they are."""

    def optimistic_among(self, models: Sequence[str], ensembles: Mapping[str, Sequence[str]]) -> list[str]:
        """Those of some models and ensembles whose threshold was chosen on the audited cases."""
        return [name for name in models if ensembles.get(name, [name])[0] in self.optimistic]


def check_rule(rule: ThresholdRule, cohort: Cohort) -> None:
    """Refuse, before any work, a rule that needs a validation split where there is none."""
    if rule.threshold == "recall" and not len(validation_rows(cohort)):
        raise CohortError(
            f"cohort '{cohort.names[0]}' has no validation split, which `threshold: recall` needs",
            hint="use `threshold: youden` or a number",
        )


def decide_thresholds(
    plan: Plan[Any],
    predictions: Mapping[str, ModelPredictions],
    *,
    rule: ThresholdRule,
    validation: Rows,
    main: Rows,
    known: NDArray[np.bool_] | None = None,
) -> Thresholds:
    """Every model's threshold for every label of the plan.

    `validation` and `main` are rows of `plan.variants` that hold unedited cases: those of the validation split (may be
    none), and those that are audited. `known` says which rows of the variants count for which label; by default all.
    """
    parent = plan.variants.parent
    on_validation = len(parent[validation]) > 0
    chosen = validation if on_validation else main
    y_true = plan.cohort.y_true(parent[chosen], plan.labels)
    y_score = [answers.p[chosen] for answers in predictions.values()]
    weight = plan.cohort.weights_of(parent[chosen])
    used = None if known is None else known[chosen]
    return thresholds_on(
        predictions, y_true, y_score, rule=rule, on_validation=on_validation, weight=weight, known=used
    )


def thresholds_on(
    predictions: Mapping[str, ModelPredictions],
    y_true: NDArray[np.uint8],
    y_score: Sequence[NDArray[np.float64]] | NDArray[np.float64],
    *,
    rule: ThresholdRule,
    on_validation: bool,
    weight: NDArray[np.float64] | None = None,
    known: NDArray[np.bool_] | None = None,
) -> Thresholds:
    """Thresholds of all models and labels, on the rows that they are chosen on; each y_score is [row, label].

    `known` says which rows count for which label; by default all.
    """
    where = "the validation split" if on_validation else "the audited cases themselves"
    out = np.full((len(predictions), y_true.shape[1]), np.nan)
    origin = {}
    for m, (name, answers) in enumerate(predictions.items()):
        own: float | str = rule.threshold
        if own == "auto":
            own = answers.threshold if answers.threshold is not None else "recall" if on_validation else "youden"
            origin[name] = "stored with the model"
        if isinstance(own, float | int):
            out[m] = own
            origin.setdefault(name, "given")
            continue
        reaches = f"reaches {rule.target_recall:.0%} recall" if own == "recall" else "maximises Youden's index"
        origin[name] = f"{reaches} on {where}"
        find = partial(recall_threshold, recall=rule.target_recall) if own == "recall" else youden_threshold
        if known is None:
            out[m] = _each_label(y_true, y_score[m], partial(find, weight=weight))
        else:
            out[m] = [_on_known(find, y_true, y_score[m], weight, known, j) for j in range(known.shape[1])]
    chosen_here = frozenset(name for name, how in origin.items() if how.endswith(where) and not on_validation)
    return Thresholds(out, origin, chosen_here)


def _on_known(
    find: Callable[..., float],
    y_true: NDArray[np.uint8],
    y_score: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    known: NDArray[np.bool_],
    label: int,
) -> float:
    """The threshold of one label on the rows that count for it; NaN where there are none."""
    rows = np.flatnonzero(known[:, label])
    if not len(rows):
        return np.nan
    own = None if weight is None else weight[rows]
    return find(y_true[rows, label], y_score[rows, label], weight=own)


def _each_label(
    y_true: NDArray[np.uint8],
    y_score: NDArray[np.float64],
    find: Callable[[NDArray[np.uint8], NDArray[np.float64]], float],
) -> list[float]:
    """A threshold for each label; some labels at a time are copied, so that those of one are side by side in memory."""
    step = max(1, _AT_ONCE // max(len(y_true), 1))
    found: list[float] = []
    for low in range(0, y_true.shape[1], step):
        part = slice(low, low + step)
        columns = zip(np.ascontiguousarray(y_true[:, part].T), np.ascontiguousarray(y_score[:, part].T), strict=True)
        if y_true.size < _FEW:
            found += [find(y, p) for y, p in columns]
        else:
            with ThreadPoolExecutor(n_cores()) as pool:  # sorting lets other threads run
                found += pool.map(lambda each: find(*each), columns)
    return found
