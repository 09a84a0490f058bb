"""palpate's own torch networks, which `palpate train` writes: `coding` reads notes, `vision` reads images.

What every torch network needs is here: the extra that holds torch, threads, and probabilities from logits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from palpate.errors import MissingExtra

Activation = Literal["softmax", "sigmoid"]


def require_torch(needed_for: str, *also: str) -> None:
    """Import torch and the other packages named, or raise the sentence that says how to install them."""
    try:
        for package in ("torch", *also):
            import_module(package)
    except ImportError:
        raise MissingExtra("torch", needed_for=needed_for) from None


@contextmanager
def torch_threads(n: int | None) -> Iterator[None]:
    """Let torch use `n` threads for a while; None: its own choice."""
    import torch

    before = torch.get_num_threads()
    if n is not None:
        torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def n_labels_of(n_outputs: int, activation: Activation) -> int:
    """How many labels a number of outputs stands for."""
    return 1 if activation == "softmax" and n_outputs == 2 else n_outputs


def probabilities_of(logits: NDArray[np.float64], activation: Activation) -> NDArray[np.float64]:
    """Probabilities in double precision: a sigmoid per label, or a softmax over classes.

    Of two classes only the second is kept.
    """
    values = np.asarray(logits, dtype=np.float64)
    if activation == "sigmoid":
        return np.asarray(expit(values))
    if values.shape[1] == 2:
        return np.asarray(expit(values[:, 1:] - values[:, :1]))
    return np.asarray(softmax(values, axis=1))
