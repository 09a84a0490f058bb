"""Estimates and curves as chart data."""

from __future__ import annotations

import numpy as np

from palpate.audits.kit.tables import harm_first
from palpate.kit import calibration_chart, calibration_points
from palpate.results import Estimate
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


def test_the_largest_loss_comes_first_within_a_metric() -> None:
    def row(model: str, metric: str, value: float | None) -> Estimate:
        return Estimate(audit="x", metric=metric, model=model, label="l", group="g", value=value, n=9, reference="r")

    rows = [
        row("a", "auroc", 0.1), row("b", "brier", -0.1), row("a", "auroc", None), row("b", "auroc", -0.2),
        row("a", "brier", 0.2), row("a", "auroc", -0.05),
    ]  # fmt: skip
    assert [(each.metric, each.value) for each in harm_first(rows)] == [
        ("auroc", -0.2), ("auroc", -0.05), ("auroc", 0.1), ("auroc", None), ("brier", 0.2), ("brier", -0.1)
    ]  # fmt: skip
    assert [each.value for each in harm_first(rows, either_way=True)] == [-0.2, 0.1, -0.05, None, 0.2, -0.1]
    by_model = [(each.model, each.metric, each.value) for each in harm_first(rows, by_model=True)]
    assert by_model[:3] == [("a", "auroc", -0.05), ("a", "auroc", 0.1), ("a", "auroc", None)]
