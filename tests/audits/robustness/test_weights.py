"""Sampling weights in the robustness audit: a note of weight 3 counts as three notes of its patient do."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from palpate.audits.robustness import Robustness
from palpate.cases.cohort import Cohort
from palpate.results import AuditResult
from palpate.testing import run_audit

from .written_notes import RuleModel, frame

AUDIT = Robustness(perturb=("brands", "contractions"), threshold=0.5)
BRANDED = RuleModel(lambda text: 0.9 if "Lasix" in text else 0.1 + 0.003 * (len(text) % 100), "branded")


def audited(table: pl.DataFrame) -> AuditResult:
    return run_audit(AUDIT, Cohort.from_frame(table, labels=["ill"], name="home"), {"m": BRANDED})


def test_a_weight_counts_as_so_many_notes_of_the_patient() -> None:
    table = frame(200, notes=2)
    weight = np.random.default_rng(1).integers(0, 4, table.height)
    weighted = audited(table.with_columns(sampling_weight=pl.Series(weight.astype(float))))
    again = table[np.repeat(np.arange(table.height), weight).tolist()]
    repeated = audited(again.with_columns(case_id=pl.Series([f"r{k}" for k in range(again.height)])))
    keys = ["metric", "label", "group", "reference"]
    both = weighted.estimates.join(repeated.estimates, on=keys, suffix="_repeated", nulls_equal=True)
    both = both.filter(pl.col("metric") != "outside_window", pl.col("value").is_not_null())
    assert set(both["metric"]) >= {"difference", "flip_rate", "mean_probability", "absolute_change"}
    for end in ("value", "low", "high", "p_value"):
        ours, theirs = (both[name].cast(pl.Float64).fill_null(-9.0).to_numpy() for name in (end, f"{end}_repeated"))
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12, err_msg=end)
    plain = audited(table).estimates.filter(metric="difference", group="brands=brand names").row(0, named=True)
    found = weighted.estimates.filter(metric="difference", group="brands=brand names").row(0, named=True)
    assert plain["value"] != pytest.approx(found["value"], abs=1e-4), "or weights would not matter"
    assert found["n"] <= (weight > 0).sum(), "notes are counted as they are"
    assert any("use the sampling weights" in each.sentence for each in weighted.findings)
