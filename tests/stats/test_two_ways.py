"""Rates of cases that belong to a template and to a note: doubt about other wordings and about other notes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import t as student

from palpate.stats.clustered_rates import AveragedRates, pass_rates
from palpate.stats.intervals import wilson_interval

RNG = np.random.default_rng
Floats = NDArray[np.float64]


def crossed(
    rng: np.random.Generator, k: int, h: int, cases: int, sd: tuple[float, float]
) -> tuple[Floats, Floats, Floats]:
    """Template, note and outcome of `cases` per template; both shift the logit."""
    template = np.repeat(np.arange(k), cases)
    host = (template + np.tile(np.arange(cases), k)) % h
    logit = 0.5 + sd[0] * rng.normal(size=k)[template] + sd[1] * rng.normal(size=h)[host]
    return template, host, (rng.random(len(template)) < 1 / (1 + np.exp(-logit))).astype(np.float64)


def doubt(code: Floats, passed: Floats, *, whole: bool) -> float:
    """1 / n of as many independent cases, by the definition; `whole`: with two added clusters and Student's t."""
    groups = [passed[code == c] for c in np.unique(code)]
    n, k = len(passed), len(groups)
    extra = n / k if whole else 0.0
    middle = (passed.sum() + extra) / (n + 2 * extra)
    if middle in (0.0, 1.0):
        return 0.0
    variance = extra**2 * (middle**2 + (1 - middle) ** 2)
    for group in groups:
        shrink = 1 - len(group) / (n + 2 * extra) if whole else 1.0
        variance += ((group.sum() - middle * len(group)) / shrink) ** 2
    variance /= (n + 2 * extra) ** 2
    equal = n**2 / sum(len(group) ** 2 for group in groups)
    wider = student.ppf(0.975, max(equal - 1, 1)) / 1.959963984540054 if whole else 1.0
    return float(variance / (middle * (1 - middle)) * wider**2)


@pytest.mark.parametrize("seed", range(6))
def test_the_doubts_add_up_less_what_both_count(seed: int) -> None:
    template, host, passed = crossed(RNG(seed), 5, 7, 9, (1.0, 1.0))
    found = pass_rates(template, passed[None], other=host, n_other=7).rates
    by_template, by_host = (doubt(code, passed, whole=True) for code in (template, host))
    both = by_template + by_host - doubt(template * 100 + host, passed, whole=False)
    ends = wilson_interval(passed.mean(), 1 / max(by_template, by_host, both), level=0.95)
    assert (found.value[0], found.low[0], found.high[0]) == pytest.approx(
        (passed.mean(), float(ends.low), float(ends.high))
    )


@pytest.mark.parametrize("seed", range(6))
def test_it_is_never_narrower_than_either_way(seed: int) -> None:
    template, host, passed = crossed(RNG(seed), 6, 4, 10, (0.0, 0.0) if seed % 2 else (2.0, 2.0))
    both = pass_rates(template, passed[None], other=host, n_other=4).rates
    for code in (template, host):
        one = pass_rates(code, passed[None]).rates
        assert both.low[0] <= one.low[0] + 1e-12
        assert both.high[0] >= one.high[0] - 1e-12


def test_notes_that_decide_widen_what_templates_leave_narrow() -> None:
    """Every template passes in the same 3 of 6 notes: by template there seems to be no doubt."""
    template, host = np.repeat(np.arange(40), 6), np.tile(np.arange(6), 40)
    passed = (host < 3).astype(np.float64)[None]
    alone, both = pass_rates(template, passed).rates, pass_rates(template, passed, other=host, n_other=6).rates
    assert alone.high[0] - alone.low[0] < 0.2
    assert both.high[0] - both.low[0] > 0.6


def coverage(n: int, *, two_ways: bool) -> float:
    rng, covered = RNG(0), []
    draws = rng.normal(size=(200_000, 2))
    truth = float(np.mean(1 / (1 + np.exp(-(0.5 + 0.5 * draws[:, 0] + 2.0 * draws[:, 1])))))
    for _ in range(n):
        template, host, passed = crossed(rng, 30, 8, 8, (0.5, 2.0))
        found = pass_rates(template, passed[None], **({"other": host, "n_other": 8} if two_ways else {})).rates
        covered.append(found.low[0] <= truth <= found.high[0])
    return float(np.mean(covered))


def test_the_truth_about_other_notes_is_covered() -> None:
    assert coverage(300, two_ways=True) >= 0.93
    assert coverage(300, two_ways=False) < 0.7


def test_tests_in_the_same_notes_are_not_independent() -> None:
    """Two tests that pass in the same notes: their mean is as uncertain as each; in other notes, it is less so."""
    template, host = np.repeat(np.arange(20), 8), np.tile(np.arange(8), 20)
    same = (host < 4).astype(np.float64)[None]
    first = pass_rates(template, same, other=host, n_other=8)
    second = pass_rates(template, (host % 2).astype(np.float64)[None], other=host, n_other=8)
    alike, apart = AveragedRates([first, first]).rates, AveragedRates([first, second]).rates
    assert alike.high[0] - alike.low[0] == pytest.approx(first.rates.high[0] - first.rates.low[0], rel=0.05)
    assert apart.high[0] - apart.low[0] < 0.8 * (alike.high[0] - alike.low[0])
    models = np.concatenate([same, 1 - same])
    pair = AveragedRates([pass_rates(template, models, other=host, n_other=8)] * 2)
    one = pair.parts[0].paired_difference(0, 1)
    assert pair.paired_difference(0, 1).high - one.high == pytest.approx(0.0, abs=0.05)
