"""The cells of Table 1: counts, quartiles and months of the cases of one column, with what the cases stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints


class PopulationPart(NamedTuple):
    """Cases that have a column of the table."""

    name: str
    rows: Ints
    n_patients: int


class ValueCount(NamedTuple):
    """How many cases have a value; `n` is None where so few patients have it that it is not told."""

    n: int | None
    of: int
    few: bool = False
    """Whether `n` is not told because of its own size, rather than because it would give away another one."""
    weighed: tuple[float, float] | None = None
    """The sampling weights of these cases and of all that they are among; None where cases have none, or `n` is."""


class Quartiles(NamedTuple):
    """Of a number; all None where too few patients have one."""

    median: float | None
    lower: float | None
    upper: float | None
    weighed: tuple[float, float, float] | None = None
    """The same with sampling weights."""


class MonthRange(NamedTuple):
    """From which month to which."""

    first: str | None
    last: str | None


Summary = ValueCount | Quartiles | MonthRange


class CaseWeights(NamedTuple):
    """What the cases stand for: as in a survey, counts are those of the cases, with weighted numbers beside them."""

    weight: NDArray[np.float64] | None
    """Of every case of the cohort; None where all count alike."""

    @classmethod
    def of(cls, cohort: Cohort, parts: Sequence[PopulationPart]) -> CaseWeights:
        """Where the cases of some part have unequal weights."""
        given = cohort.weights
        unequal = given is not None and any(len(np.unique(given[part.rows])) > 1 for part in parts)
        return cls(given if unequal else None)

    def counted(self, cell: ValueCount, rows: Ints, among: Ints) -> ValueCount:
        """A count with its weights; what is not told has none."""
        if self.weight is None or cell.n is None:
            return cell
        return cell._replace(weighed=(float(self.weight[rows].sum()), float(self.weight[among].sum())))

    def quartiles(self, values: NDArray[np.float64], rows: Ints) -> tuple[float, float, float] | None:
        """Median and quartiles: the smallest values that hold their share of the weight."""
        if self.weight is None or not (self.weight[rows] > 0).any():
            return None
        found = np.quantile(values[rows], [0.5, 0.25, 0.75], weights=self.weight[rows], method="inverted_cdf")
        return float(found[0]), float(found[1]), float(found[2])
