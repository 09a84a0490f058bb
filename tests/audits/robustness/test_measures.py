"""Changes and flips, against a slow obvious version."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from palpate.audits.robustness.measures import ChangeMeasures, ChangeSums
from palpate.perturb.robustness import Expectation
from palpate.stats.clustered import units_of


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), expects=st.sampled_from(["same", "down only", "up only"]))
def test_sums_by_patient_are_those_of_a_loop(seed: int, expects: Expectation) -> None:
    rng = np.random.default_rng(seed)
    n, groups, labels = int(rng.integers(1, 12)), 2, 3
    patients = rng.integers(0, 4, n)
    p, base, threshold = rng.random((n, groups, labels)), rng.random((n, labels)), rng.random(labels)
    p = np.where(rng.random(p.shape) < 0.3, base[:, None], p)
    units = units_of(patients)
    found = ChangeMeasures.of(ChangeSums.of(p, base, threshold, expects=expects, units=units), units)
    for g in range(groups):
        for j in range(labels):
            changes, flips = [], []
            for k in range(n):
                before, after = base[k, j] >= threshold[j], p[k, g, j] >= threshold[j]
                changes.append(p[k, g, j] - base[k, j])
                against = {"same": before != after, "down only": after and not before, "up only": before and not after}
                flips.append(against[expects])
            assert np.isclose(found.difference.value[g, j], np.mean(changes))
            assert np.isclose(found.absolute.value[g, j], np.mean(np.abs(changes)))
            assert np.isclose(found.flips.value[g, j], np.mean(flips))
            assert np.isclose(found.mean_probability.value[g, j], p[:, g, j].mean())
        assert np.allclose(found.as_written.value[0], base.mean(axis=0))


def test_an_ensemble_is_the_mean_of_its_members() -> None:
    rng = np.random.default_rng(0)
    units = units_of(np.arange(5) // 2)
    each = [
        ChangeSums.of(rng.random((5, 1, 1)), rng.random((5, 1)), np.full(1, 0.5), expects="same", units=units)
        for _ in range(3)
    ]
    whole = ChangeSums.mean(each)
    assert np.allclose(whole.moved, np.mean([part.moved for part in each], axis=0))
