"""Are palpate's intervals, tests and verdicts as good as they claim? Measured on simulated data whose truth is known.

One module per audit, each with `cells(n_samples, seed, thin)`: it yields one `Cell` per setting as soon as it is known.
`make validity` runs all of them; `docs/validity.md` shows what it printed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

AUDITS = (
    "performance",
    "risks",
    "subgroups",
    "slices",
    "operating",
    "drift",
    "vocabulary",
    "characteristics",
    "capabilities",
    "evidence",
    "context",
    "robustness",
    "answers",
)


class Cell(NamedTuple):
    """A rate measured on `n` simulated data sets, and what it must not fall below or exceed."""

    what: str
    """What is measured: `coverage of AUROC`, `family-wise false alarms`, `power`, `wrong "acceptable"`."""
    setting: str
    """On which data: `60 patients, 5% positive, AUROC 0.95, 3 notes`."""
    rate: float
    n: int
    at_least: float = 0.0
    at_most: float = 1.0

    @property
    def passes(self) -> bool:
        """Whether the rate keeps its bound, up to two standard errors of the simulation itself."""
        low, high = self.at_least, self.at_most
        return self.rate >= low - _noise(low, self.n) and self.rate <= high + _noise(high, self.n)


def _noise(bound: float, n: int) -> float:
    """Two standard errors of a rate that equals the bound."""
    return 2.0 * math.sqrt(bound * (1.0 - bound) / max(n, 1))


COVERAGE = 0.93
"""What an interval of nominal 95% must reach."""
FALSE_ALARMS = 0.07
"""Family-wise: 5%, give or take 2."""
WRONG_VERDICTS = 0.05
