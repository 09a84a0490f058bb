"""Logistic regression on hashed runs of 2 to 5 letters within words, as a function that palpate can call.

`ade_real_run.py` copies this file beside its configuration: `python:ade_chars:probability` reads `ade_chars.npz`, the
fitted weights. It needs no download, and spelling variants share letters with the name that they vary.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import HashingVectorizer

HERE = Path(__file__).parent


@lru_cache(maxsize=1)
def _vectorizer() -> HashingVectorizer:
    return HashingVectorizer(analyzer="char_wb", ngram_range=(2, 5), n_features=2**18, alternate_sign=False)


def embed(texts: Sequence[str]) -> Any:
    """One sparse row per text."""
    return _vectorizer().transform(texts)


@lru_cache(maxsize=1)
def _fitted() -> tuple[NDArray[np.float64], float]:
    weights = np.load(HERE / "ade_chars.npz", allow_pickle=False)
    return weights["coefficients"], float(weights["intercept"])


def probability(texts: list[str]) -> NDArray[np.float64]:
    """The probability of an adverse drug event."""
    coefficients, intercept = _fitted()
    return np.asarray(1 / (1 + np.exp(-(embed(texts) @ coefficients + intercept))), dtype=np.float64)
