"""Does the drug's name matter? Pass rates by what fills a slot, and a test that they are all alike.

ADE template paper, Section 5.2, Figure 4 and Table 7. Every value stands in the same templates, so values are compared
within a template: its pass rate with this name less its mean over names. If names do not matter, these differences are
as good as shuffled among the names of the template (a permutation test with the statistic of Friedman and Cochran's Q,
for rates). Each template counts alike, and the two labels are kept apart: a name that pulls towards one label gains
there what it loses on the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from palpate.audits.capabilities.plan import ExaminedCases
from palpate.audits.kit.resampling import FEWEST_FOR_INTERVAL, Resampling
from palpate.cases.edits import Ints
from palpate.stats.clustered_rates import PassRates, pass_rates

Floats = NDArray[np.float64]
MOST_VALUES = 200
"""A slot with more values in a run is not broken down: hardly any value would stand in two templates."""
_CELLS_PER_CHUNK = 4_000_000


class LabelledCapability(NamedTuple):
    """The cases of one capability with one label."""

    capability: str
    capability_title: str
    part: str
    label: str

    @property
    def group(self) -> str:
        """Its name in the estimates."""
        return f"{self.capability}: {self.label}"

    @property
    def title(self) -> str:
        """Its name for readers."""
        return f"{self.capability_title}: {self.label}"


class ValueRates(NamedTuple):
    """The pass rates with each value of a slot, for one capability and label."""

    scope: LabelledCapability
    slot: str
    names: tuple[str, ...]
    """The values."""
    codes: Ints
    """Their places among all values of the slot."""
    rates: list[PassRates]
    """For each value, the mean over templates of their pass rates; one column per model."""
    spread: Floats
    """[model] the highest rate less the lowest."""
    p_value: Floats
    """[model] not corrected; NaN where there are too few templates."""
    n_templates: int
    n_cases: int

    @property
    def group(self) -> str:
        """Its name in the estimates."""
        return f"{self.scope.group} | {self.slot}"

    @property
    def value_groups(self) -> list[str]:
        """The names of the values in the estimates."""
        return [f"{self.group}: {name}" for name in self.names]


def value_rates(examined: ExaminedCases, passed: Floats, how: Resampling, rng: np.random.Generator) -> list[ValueRates]:
    """Every capability, label and slot with at least two values, for tests that ask for a label.

    `passed` is [model, case].
    """
    scopes: dict[LabelledCapability, list[Ints]] = {}
    for test in examined.tests:
        if test.decides:
            scope = LabelledCapability(test.capability, test.capability_title, test.part, test.label)
            scopes.setdefault(scope, []).append(test.cases)
    out = []
    for scope, cases in scopes.items():
        inside = np.sort(np.concatenate(cases))
        for slot, use in examined.slots.items():
            rows = inside[use.code[inside] >= 0]
            values, code = np.unique(use.code[rows], return_inverse=True)
            if not 2 <= len(values) <= MOST_VALUES:
                continue
            names = tuple(use.values[v] for v in values.tolist())
            table = template_rates(passed[:, rows], examined.template[rows], code, len(values))
            there: NDArray[np.bool_] = ~np.isnan(table[0])
            rates = [_mean_over_templates(table[..., v], there[:, v], how.level) for v in range(len(values))]
            point = np.stack([part.rates.value for part in rates], axis=1)
            p_value = equality_p(np.nan_to_num(table), there, n_permutations=how.n_replicates, rng=rng)
            spread = point.max(axis=1) - point.min(axis=1)
            out.append(ValueRates(scope, slot, names, values, rates, spread, p_value, table.shape[1], len(rows)))
    return out


def _mean_over_templates(rates: Floats, there: NDArray[np.bool_], level: float) -> PassRates:
    """The mean over the templates that have the value, of [model, template] rates."""
    mine = np.flatnonzero(there)
    return pass_rates(mine, rates[:, mine], level=level)


def template_rates(passed: Floats, template: Ints, value: Ints, n_values: int) -> Floats:
    """[model, template, value] pass rates of each value in each template; NaN where a template lacks the value."""
    names, row = np.unique(template, return_inverse=True)
    cell = row * n_values + value
    n = np.bincount(cell, minlength=len(names) * n_values)
    sums = np.stack([np.bincount(cell, weights=np.nan_to_num(each), minlength=n.size) for each in passed])
    rates = np.where(n > 0, sums / np.maximum(n, 1), np.nan)
    return rates.reshape(len(passed), len(names), n_values)


def equality_p(rates: Floats, there: NDArray[np.bool_], *, n_permutations: int, rng: np.random.Generator) -> Floats:
    """The p-value of "no value is better than another", for each model.

    `rates` is [model, template, value], and `there` is [template, value]. All models see the same permutations. Where
    all templates order the values alike, p is computed exactly; otherwise it is never below 1 / (permutations + 1).
    """
    several = there.sum(axis=1) >= 2
    rates, there = rates[:, several], there[several]
    if len(there) < FEWEST_FOR_INTERVAL:
        return np.full(len(rates), np.nan)
    n_present = there.sum(axis=1)
    middle = np.where(there, rates, 0.0).sum(axis=2) / n_present
    residual = np.where(there, rates - middle[..., None], 0.0)
    n_templates = np.maximum(there.sum(axis=0), 1)
    observed = (residual.sum(axis=1) ** 2 / n_templates).sum(axis=-1)
    reached = np.zeros(len(rates), dtype=np.int64)
    step = max(1, _CELLS_PER_CHUNK // residual.size)
    for first in range(0, n_permutations, step):
        order = _shuffles(there, min(step, n_permutations - first), rng)
        for m, each in enumerate(residual):
            totals = _permuted_sums(each, there, order)
            statistic = (totals**2 / n_templates).sum(axis=-1)
            reached[m] += int((statistic >= observed[m] * (1 - 1e-9) - 1e-12).sum())
    p = (reached + 1) / (n_permutations + 1)
    exact = np.array([_p_of_agreement(each, there) for each in residual])
    return np.where(np.isnan(exact), p, exact)


def _shuffles(there: NDArray[np.bool_], n: int, rng: np.random.Generator) -> Ints:
    """[permutation, template, place]: the values of each template in random order, those that are absent last."""
    keys = rng.random((n, *there.shape), dtype=np.float32)
    keys[:, ~there] = 2.0
    return np.argsort(keys, axis=-1)


def _permuted_sums(residual: Floats, there: NDArray[np.bool_], order: Ints) -> Floats:
    """[permutation, value]: residuals given to other values of their template, summed over templates."""
    shuffled = np.take_along_axis(np.broadcast_to(residual, order.shape), order, axis=-1)
    if there.all():
        return np.asarray(shuffled.sum(axis=1))
    place = np.argsort(~there, axis=-1, kind="stable")
    back = np.empty_like(shuffled)
    np.put_along_axis(back, np.broadcast_to(place, order.shape), shuffled, axis=-1)
    return np.asarray(back.sum(axis=1))


def _p_of_agreement(residual: Floats, there: NDArray[np.bool_]) -> float:
    """The exact p-value where all templates that vary do so in the same way; NaN where they do not.

    No shuffle has a larger statistic, and a shuffle has the same one only if all templates stay alike: for each
    template after the first, one in as many as there are distinct orders (fewer than n! where values tie).
    """
    varies = (residual**2).sum(axis=1) > 1e-12
    alike = residual[varies]
    if not there.all() or len(alike) < 2 or not np.allclose(alike, alike[0], rtol=0, atol=1e-9):
        return float("nan")
    gaps = np.diff(np.sort(alike[0])) > 1e-9
    ties = np.diff(np.flatnonzero(np.concatenate([[True], gaps, [True]])))
    log_orders = gammaln(alike.shape[1] + 1) - gammaln(ties + 1).sum()
    return float(np.exp(-(len(alike) - 1) * log_orders))
