"""P-values of a family of comparisons, corrected: Bonferroni (as in the papers), Holm, Benjamini-Hochberg."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from palpate.stats.inputs import Floats

Method = Literal["bonferroni", "holm", "benjamini-hochberg"]


def adjust(p_values: ArrayLike, *, method: Method = "bonferroni") -> Floats:
    """Adjusted p-values, in the shape given. All of them are one family; nan stays nan and is not counted."""
    values = np.asarray(p_values, np.float64)
    known = ~np.isnan(values)
    p = values[known]
    if bool(np.any((p < 0) | (p > 1))):
        raise ValueError("p_values must lie in [0, 1]")
    order = np.argsort(p, kind="stable")
    rank = np.arange(1, p.size + 1)
    if method == "bonferroni":
        ordered = p[order] * p.size
    elif method == "holm":
        ordered = np.maximum.accumulate(p[order] * (p.size - rank + 1))
    elif method == "benjamini-hochberg":
        ordered = np.minimum.accumulate((p[order] * p.size / rank)[::-1])[::-1]
    else:
        raise ValueError(f"no method is named {method!r}; there are bonferroni, holm, benjamini-hochberg")
    adjusted = np.empty(p.size)
    adjusted[order] = np.minimum(ordered, 1.0)
    out = np.full(values.shape, np.nan)
    out[known] = adjusted
    return out
