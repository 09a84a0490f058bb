"""From a classifier's raw outputs to probabilities per label, in double precision."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

Activation = Literal["softmax", "sigmoid"]


def n_labels_of(n_outputs: int, activation: Activation) -> int:
    """How many labels that many outputs stand for."""
    return 1 if activation == "softmax" and n_outputs == 2 else n_outputs


def probabilities_of(logits: NDArray[np.float64], activation: Activation) -> NDArray[np.float64]:
    """A sigmoid per label, or a softmax over classes; of two classes only the second is kept."""
    values = np.asarray(logits, dtype=np.float64)
    if activation == "sigmoid":
        return np.asarray(expit(values))
    if values.shape[1] == 2:
        return np.asarray(expit(values[:, 1:] - values[:, :1]))
    return np.asarray(softmax(values, axis=1))
