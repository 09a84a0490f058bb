"""What weights that depend on the outcome leave of rows by outcome and call, against plain sums over the rows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from palpate.stats import bootstrap
from palpate.stats.precision.called import FALSE_ALARM, FOUND, LEFT, MISSED, called, denominators, told
from palpate.stats.risks.core import core_replicates
from palpate.stats.risks.intervals import risk_intervals
from palpate.stats.risks.net_benefit import benefit_curves
from palpate.stats.score_intervals import Counts, class_units, cluster_sizes, metric_intervals, weighing

Floats = NDArray[np.float64]
METRICS = ("sensitivity", "specificity", "ppv", "npv", "flag_rate", "f1_1")
THRESHOLD = 0.2


class Sample:
    """All events are kept and one in ten of the others."""

    def __init__(self, n: int, seed: int = 3) -> None:
        rng = np.random.default_rng(seed)
        p = expit(rng.normal(size=n) * 1.2 - 2.6)
        y = rng.random(n) < p
        kept = y | (rng.random(n) < 0.1)
        self.y, self.p = y[kept], p[kept]
        self.weight = np.where(self.y, 1.0, 10.0)
        self.patient = np.arange(len(self.y))
        self.flagged = self.p >= THRESHOLD

    @property
    def outcome(self) -> NDArray[np.uint8]:
        return self.y[:, None].astype(np.uint8)

    def counts(self, weight: Floats | None = None) -> Counts:
        own = self.weight if weight is None else weight
        return Counts(
            np.asarray([len(self.y)]),
            self.outcome.sum(axis=0, dtype=np.int64),
            class_units(self.outcome, self.patient, "patient"),
            cluster_sizes(self.outcome, self.patient, "patient", weight=own),
            weighing(self.outcome, own),
        )

    def error(self, inside: NDArray[np.bool_], among: NDArray[np.bool_]) -> float:
        """The linearised standard error of a weighted share, row by row."""
        weight = self.weight * among
        share = weight[inside].sum() / weight.sum()
        return float(np.sqrt(((weight * (inside - share)) ** 2).sum()) / weight.sum())


def test_rates_are_as_long_as_rows_vary() -> None:
    """Kish's number of rows made the negative predictive value more than three times as long."""
    sample = Sample(25_000)
    shares = [name for name in METRICS if name not in ("flag_rate", "f1_1")]
    found = bootstrap(sample.outcome, sample.p[None, :, None], rng=1, metrics=(*shares, "prevalence"),
                      threshold=THRESHOLD, patient=sample.patient, weight=sample.weight, n_replicates=400)  # fmt: skip

    def with_flags(numbers: Floats) -> Floats:
        sens, spec, prevalence = numbers[:, 0], numbers[:, 1], numbers[:, 4]
        rate = sens * prevalence + (1 - spec) * (1 - prevalence)
        return np.concatenate([numbers, rate[:, None]], axis=1)

    names = (*shares, "prevalence", "flag_rate")
    ends = metric_intervals(names, with_flags(found.point), with_flags(found.values), sample.counts())
    everyone = np.ones(len(sample.y), bool)
    wanted = {
        "ppv": sample.error(sample.y, sample.flagged),
        "npv": sample.error(~sample.y, ~sample.flagged),
        "flag_rate": sample.error(sample.flagged, everyone),
        "prevalence": sample.error(sample.y, everyone),
    }
    for name, error in wanted.items():
        k = names.index(name)
        assert 0.98 <= (ends.high - ends.low)[0, k, 0] / (2 * 1.96 * error) < 1.2, name


def test_net_benefit_is_as_long_as_rows_vary_in_the_core_set_and_in_curves() -> None:
    sample = Sample(25_000)
    worth = sample.flagged * np.where(sample.y, 1.0, -THRESHOLD / (1 - THRESHOLD))
    value = np.average(worth, weights=sample.weight)
    error = np.sqrt(((sample.weight * (worth - value)) ** 2).sum()) / sample.weight.sum()
    found = core_replicates(sample.outcome, sample.p[None, :, None], threshold=THRESHOLD, benefit=(0.05, 0.6),
                            patient=sample.patient, rng=1, weight=sample.weight)  # fmt: skip
    ends = risk_intervals(found.metrics, found.point, found.values, sample.counts())
    k = list(found.metrics).index("net_benefit")
    assert 0.98 <= (ends.high - ends.low)[0, k, 0] / (2 * 1.96 * error) < 1.35
    curves = benefit_curves(sample.y, sample.p, thresholds=[THRESHOLD], patient=sample.patient, weight=sample.weight)
    assert curves.benefit.value[0, 0] == pytest.approx(value)
    assert 0.98 <= (curves.benefit.high - curves.benefit.low)[0, 0] / (2 * 1.96 * error) < 1.35


@pytest.mark.parametrize("n_false", [0, 1, 3])
def test_a_few_heavy_false_alarms_leave_much_doubt_about_the_predictive_value(n_false: int) -> None:
    """60 found and 3 heavy false alarms: the next sample may have one, or six."""
    y = np.repeat([True, False], [100, 400])
    flagged = (np.arange(500) < 60) | ((np.arange(500) >= 100) & (np.arange(500) < 100 + n_false))
    sample = Sample(10)
    sample.y, sample.flagged, sample.weight, sample.patient = y, flagged, np.where(y, 1.0, 10.0), np.arange(500)
    point = np.asarray([0.6, 1 - n_false / 400, 60 / (60 + 10 * n_false)])[None, :, None]
    rows = denominators(("sensitivity", "specificity", "ppv"), point, sample.counts())["ppv"].rows
    seen = n_false + 0.5
    share = 60.5 / (60.5 + 10 * seen)
    assert float(rows[0, 0]) == pytest.approx(1 / (share * (1 - share) * (1 / 60.5 + 1 / seen)))
    assert float(rows[0, 0]) < 0.4 * (60 + n_false)


def test_without_weights_and_with_equal_ones_rows_are_rows() -> None:
    sample = Sample(4_000)
    equal = sample.counts(np.ones(len(sample.y)))
    shares = np.asarray([[0.1]]), np.asarray([[0.2]])
    calls = called(equal, *shares)
    n = len(sample.y)
    np.testing.assert_allclose(calls.rows.sum(axis=0), n)
    flagged = told(equal, calls, (FOUND, FALSE_ALARM), (MISSED, LEFT), equal.total)
    assert float(flagged.rows[0, 0]) == pytest.approx(n, rel=0.01)
    plain = equal._replace(weighing=None)
    assert told(plain, calls, (FOUND,), (FALSE_ALARM,), plain.total).rows[0, 0] == n
