"""Metrics of models x labels: how many patients stand behind a number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.kit import class_units


@pytest.mark.parametrize("masked", [False, True])
@given(seed=st.integers(0, 10_000))
def test_units_of_each_class_are_those_of_a_slow_loop(masked: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    y, patient = rng.integers(0, 2, (n, 3)).astype(np.uint8), rng.integers(50, 50 + n, n)
    rows = rng.random((n, 3)) < 0.6 if masked else np.ones((n, 3), bool)
    for unit, names in (("patient", patient), ("case", np.arange(n))):
        found = class_units(y, patient, unit, rows if masked else None)  # type: ignore[arg-type]
        for j in range(3):
            for k, side in enumerate((1, 0)):
                assert found[k, j] == len({names[i] for i in range(n) if rows[i, j] and y[i, j] == side})
