"""Models of several seeds: the mean of the members' measures as a further model, and their standard deviation.

The vocabulary paper reports its models this way (Table 1: mean and standard deviation over five seeds).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from palpate.results import Predictions

Floats = NDArray[np.float64]


def append_ensembles(values: Floats, predictions: Predictions) -> Floats:
    """Measures of the scored models, [model, ...], with the mean of each ensemble's members appended.

    The result's first axis is `predictions.names`.
    """
    means = [values[place].mean(axis=0, keepdims=True) for place in member_places(predictions).values()]
    return np.concatenate([values, *means]) if means else values


def ensemble_spread(values: Floats, predictions: Predictions) -> dict[str, Floats]:
    """The standard deviation over each ensemble's members, of measures [model, ...] of the scored models."""
    return {name: values[place].std(axis=0, ddof=1) for name, place in member_places(predictions).items()}


def member_places(predictions: Predictions) -> Mapping[str, list[int]]:
    """Where each ensemble's members stand among the scored models."""
    scored = list(predictions.scored)
    return {name: [scored.index(member) for member in members] for name, members in predictions.ensembles.items()}
