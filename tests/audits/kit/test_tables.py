"""Estimates and curves as chart data."""

from __future__ import annotations

import numpy as np

from palpate.kit import calibration_chart, calibration_points
from palpate.stats import calibration_curve


def test_a_calibration_curve_is_drawn_without_its_empty_bins() -> None:
    curve = calibration_curve(np.array([0, 0, 1, 1]), np.array([0.2, 0.2, 0.8, 0.8]), n_bins=2)
    data = calibration_points(curve, model="m", panel="home")
    assert [(row["x"], row["y"], row["n"], row["model"]) for row in data] == [(0.2, 0.0, 2, "m"), (0.8, 1.0, 2, "m")]
    assert all(row["low"] <= row["y"] <= row["high"] for row in data)
    empty = curve._replace(observed=np.array([np.nan, 1.0]))
    assert [row["x"] for row in calibration_points(empty)] == [0.8]
    chart = calibration_chart("Calibration", data, series="model")
    assert (chart.diagonal, chart.series, chart.facet) == (True, "model", None)
