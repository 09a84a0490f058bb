"""The thinned grid of `make validity`: intervals, tests and verdicts hold what they claim on simulated data."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from validity import AUDITS, Cell

SAMPLES = 80
"""Simulated data sets per cell: few miss only small faults; `make validity` has the whole grid with many."""
WRITTEN = [name for name in AUDITS if (Path(__file__).parents[2] / f"validity/{name}.py").exists()]


def test_the_bound_allows_for_the_noise_of_the_simulation_only() -> None:
    assert Cell("coverage", "", 0.91, 200, at_least=0.93).passes
    assert not Cell("coverage", "", 0.88, 200, at_least=0.93).passes
    assert not Cell("coverage", "", 0.91, 2000, at_least=0.93).passes
    assert not Cell("false alarms", "", 0.12, 200, at_most=0.07).passes


@pytest.mark.slow
@pytest.mark.parametrize("audit", WRITTEN)
def test_the_thinned_grid_holds(audit: str) -> None:
    missed = [
        f"{cell.what}, {cell.setting}: {cell.rate:.3f}"
        for cell in importlib.import_module(f"validity.{audit}").cells(SAMPLES, 0, thin=True)
        if not cell.passes
    ]
    assert not missed, "; ".join(missed)
