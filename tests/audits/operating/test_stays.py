"""Alerts within stays against slow plain Python: one stay after the other."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.audits.kit.resampling import means_with_intervals
from palpate.audits.operating import Operating
from palpate.audits.operating.stays import median_with_interval
from palpate.cases.cohort import Cohort
from palpate.errors import CohortError, ConfigError
from tests.audits.operating.planted import QUICK, find, run, stays

T = 0.5


def slow(frame: pl.DataFrame, *, combine: str = "max", events: bool = True) -> dict[str, list]:
    """Stay by stay: the outcome, whether it is flagged, its alerts, hours to the first one, and lead time."""
    out: dict[str, list] = {name: [] for name in ("ill", "flagged", "alerts", "wait", "lead")}
    for _, rows in sorted(frame.group_by("stay_id"), key=lambda each: each[0]):
        ordered = rows.sort("time")
        ill = bool(ordered["ill"].max())
        event = ordered["event"].drop_nulls()
        when = datetime.fromisoformat(event[0]) if events and len(event) else None
        if when is not None and ill:
            ordered = ordered.filter(pl.col("time") < when)
        if ordered.is_empty():
            continue
        risk, time = ordered["risk"].to_list(), ordered["time"].to_list()
        alerts = [t for r, t in zip(risk, time, strict=True) if r >= T]
        out["ill"].append(ill)
        out["flagged"].append(risk[0] >= T if combine == "first" else bool(alerts))
        out["alerts"].append(len(alerts))
        if alerts:
            out["wait"].append((alerts[0] - time[0]).total_seconds() / 3600)
            if ill and when is not None:
                out["lead"].append((when - alerts[0]).total_seconds() / 3600)
    return out


@pytest.mark.parametrize("combine", ["max", "first"])
def test_stays_are_decided_as_wholes(combine: str) -> None:
    cohort, p, frame = stays()
    result = run(Operating(thresholds={"t": T}, combine=combine, **QUICK), cohort, {"m": p})
    expected = slow(frame, combine=combine, events=False)
    ill, flagged = np.asarray(expected["ill"]), np.asarray(expected["flagged"])
    assert find(result, "sensitivity", "t")["value"] == pytest.approx(flagged[ill].mean())
    assert find(result, "ppv", "t")["value"] == pytest.approx(ill[flagged].mean())
    row = find(result, "flag_rate", "t")
    assert row["value"] == pytest.approx(flagged.mean())
    assert row["n"] == 200


def test_a_stay_has_one_weight_the_largest_of_its_cases() -> None:
    """In rates, in alerts per stay, in the threshold of a capacity and in how many stays a day has."""
    cohort, p, frame = stays()
    weight = np.random.default_rng(3).integers(0, 5, frame.height).astype(float)
    weight[np.unique(frame["stay_id"].to_numpy(), return_index=True)[1]] = 1.0  # each stay counts
    own = replace(cohort, cases=cohort.cases.with_columns(sampling_weight=pl.Series(weight)))
    result = run(Operating(thresholds={"t": T}, capacity={"per_day": 30}, **QUICK), own, {"m": p})
    mass, ill, flagged, alerts = [], [], [], []
    with_weights = frame.with_columns(w=pl.Series(weight))
    for _, rows in with_weights.group_by("stay_id"):
        scored = rows.filter(pl.col("w") > 0)
        mass.append(max(rows["w"].to_list()))
        ill.append(bool(rows["ill"].max()))
        alerts.append(sum(risk >= T for risk in scored["risk"].to_list()))
        flagged.append(alerts[-1] > 0)
    whole, positive, hit = (np.asarray(each) for each in (mass, ill, flagged))
    assert find(result, "sensitivity", "t")["value"] == pytest.approx(
        np.average(hit[positive], weights=whole[positive])
    )
    assert find(result, "flag_rate", "t")["value"] == pytest.approx(np.average(hit, weights=whole))
    assert find(result, "alerts_per_stay", "t")["value"] == pytest.approx(np.average(alerts, weights=whole))
    n_days = frame["time"].dt.date().n_unique()
    rate = find(result, "flag_rate", "30 a day")["value"]
    assert find(result, "alerts_per_day", "30 a day")["value"] == pytest.approx(rate * whole.sum() / n_days)
    mixed = sum(rows.filter(pl.col("w") > 0)["w"].n_unique() > 1 for _, rows in with_weights.group_by("stay_id"))
    assert any(
        f"The cases of {mixed} stays have different sampling weights" in each.sentence for each in result.findings
    )


def test_alerts_first_alerts_and_lead_times() -> None:
    cohort, p, frame = stays()
    result = run(Operating(thresholds={"t": T}, event_time="event", **QUICK), cohort, {"m": p})
    expected = slow(frame)
    row = find(result, "alerts_per_stay", "t")
    assert row["value"] == pytest.approx(np.mean(expected["alerts"]))
    assert row["low"] < row["value"] < row["high"]
    flagged = [n for n in expected["alerts"] if n]
    assert find(result, "alerts_per_flagged_stay", "t")["value"] == pytest.approx(np.mean(flagged))
    assert find(result, "hours_to_alert", "t")["value"] == pytest.approx(np.median(expected["wait"]))
    lead = find(result, "lead_time_hours", "t")
    assert lead["value"] == pytest.approx(np.median(expected["lead"]))
    assert lead["n"] == len(expected["lead"])
    assert lead["low"] <= lead["value"] <= lead["high"]
    assert any("hours before it" in finding.sentence for finding in result.findings)


def test_predictions_after_the_event_do_not_count() -> None:
    cohort, p, frame = stays()
    early = frame.with_columns(
        pl.when(pl.col("ill") == 1).then(pl.lit("2024-03-01T06:00:00")).otherwise(None).alias("event")
    )
    cohort = Cohort.from_frame(early.drop("risk"), labels=["ill"], attributes=["event"])
    result = run(Operating(thresholds={"t": T}, event_time="event", **QUICK), cohort, {"m": p})
    expected = slow(early)
    assert find(result, "alerts_per_stay", "t")["value"] == pytest.approx(np.mean(expected["alerts"]))
    assert any("at or after the event do not count" in finding.sentence for finding in result.findings)
    at_start = early.with_columns(
        pl.when(pl.col("ill") == 1).then(pl.lit("2024-03-01T00:00:00")).otherwise(None).alias("event")
    )
    cohort = Cohort.from_frame(at_start.drop("risk"), labels=["ill"], attributes=["event"])
    result = run(Operating(thresholds={"t": T}, event_time="event", **QUICK), cohort, {"m": p})
    assert any("no earlier prediction that counts and are left out" in finding.sentence for finding in result.findings)
    assert find(result, "sensitivity", "t")["value"] is None


def test_a_stay_has_the_outcome_though_only_its_row_at_the_event_has_the_label() -> None:
    cohort, p, frame = stays()
    at = pl.col("time") == pl.col("time").max().over("stay_id")
    told = frame.with_columns(
        event=pl.when(pl.col("ill") == 1).then(pl.col("time").max().over("stay_id").dt.to_string("iso:strict")),
        ill=pl.when(at).then(pl.col("ill")).otherwise(0),
    )
    cohort = Cohort.from_frame(told.drop("risk"), labels=["ill"], attributes=["event"])
    result = run(Operating(thresholds={"t": T}, event_time="event", **QUICK), cohort, {"m": p})
    expected = slow(told)
    ill, flagged = np.asarray(expected["ill"]), np.asarray(expected["flagged"])
    row = find(result, "sensitivity", "t")
    assert row["n_positive"] == ill.sum() > 20
    assert row["value"] == pytest.approx(flagged[ill].mean())


def test_two_models_in_stays_that_both_flag() -> None:
    cohort, p, _ = stays()
    weak = np.clip(p * 0.8, 0, 1)
    result = run(
        Operating(thresholds={"t": T}, event_time="event", **QUICK), cohort, {"good": p, "weak": weak, "same": p}
    )
    row = find(result, "alerts_per_stay", "t", model="weak", reference="good")
    levels = [find(result, "alerts_per_stay", "t", model=name)["value"] for name in ("weak", "good")]
    assert row["value"] == pytest.approx(levels[0] - levels[1])
    assert row["significant"]
    assert find(result, "lead_time_hours", "t", model="weak", reference="good")["value"] <= 0
    assert find(result, "alerts_per_stay", "t", model="same", reference="good")["value"] == 0


def test_a_stay_without_a_time_is_refused() -> None:
    cohort, _, frame = stays()
    holed = frame.drop("risk").with_columns(pl.when(pl.int_range(pl.len()) > 3).then(pl.col("time")).alias("time"))
    cohort = Cohort.from_frame(holed, labels=["ill"], attributes=["event"])
    with pytest.raises(CohortError, match=r"4 of \d+ cases have a stay and no time"):
        Operating().plan(cohort, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("name", "said"), [("evnt", "there is no attribute 'evnt'; .*did you mean `event`"), ("event", None)]
)
def test_the_events_time_is_an_attribute(name: str, said: str | None) -> None:
    cohort, _, frame = stays()
    if said:
        with pytest.raises(ConfigError, match=said):
            Operating(event_time=name).plan(cohort, np.random.default_rng(0))
        return
    odd = frame.drop("risk").with_columns(pl.lit("yesterday").alias("event"))
    cohort = Cohort.from_frame(odd, labels=["ill"], attributes=["event"])
    with pytest.raises(CohortError, match="column 'event': the cell is 'yesterday', which is not a time"):
        Operating(event_time=name).plan(cohort, np.random.default_rng(0))


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60))
def test_a_medians_interval_is_that_of_a_sign_test(numbers: list[int]) -> None:
    values = np.asarray(numbers, float)
    found = median_with_interval(values, np.arange(len(values)))
    assert found.value == pytest.approx(np.median(values))
    if len(values) < 6:
        assert math.isnan(found.low)
        return
    below, above = (values < found.low).sum(), (values > found.high).sum()
    assert found.low <= found.value <= found.high
    # The ends are order statistics whose exact coverage is at least 93%.
    n = len(values)
    exact = 1 - sum(math.comb(n, k) for k in [*range(int(below) + 1), *range(n - int(above), n + 1)]) / 2**n
    distinct = len(set(numbers)) == n
    assert not distinct or exact >= 0.93


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 4)), min_size=1, max_size=40))
def test_weights_count_as_copies_in_medians_and_means(drawn: list[tuple[int, int]]) -> None:
    values, weight = np.asarray([each[0] for each in drawn], float), np.asarray([each[1] for each in drawn])
    patient, copied = np.arange(len(drawn)), np.repeat(np.arange(len(drawn)), weight)
    own = median_with_interval(values, patient, weight=weight / weight.mean())
    assert own.value == pytest.approx(np.median(values[copied]))
    assert own.n == len(drawn), "values are counted, not weighed"
    equal, plain = (
        median_with_interval(values, patient, weight=np.ones(len(drawn))),
        median_with_interval(values, patient),
    )
    np.testing.assert_array_equal(equal[:3], plain[:3])
    (mean,) = means_with_intervals(values[:, None], patient, rng=0, n_replicates=50, weight=weight / weight.mean())
    (copies,) = means_with_intervals(values[copied][:, None], copied, rng=0, n_replicates=50)
    np.testing.assert_allclose(mean[:3], copies[:3], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("combine", ["max", "first"])
def test_stays_without_an_earlier_prediction_are_counted(combine: str) -> None:
    """Where the first prediction alone decides, they were left out without a word."""
    cohort, p, frame = stays()
    early = frame.with_columns(
        event=pl.when(pl.col("event").is_not_null() & pl.col("stay_id").str.ends_with("7"))
        .then(pl.lit("2024-02-01T00:00:00"))
        .otherwise("event")
    )
    n_gone = early.filter(event="2024-02-01T00:00:00")["stay_id"].n_unique()
    assert n_gone > 1
    cohort = Cohort.from_frame(early.drop("risk"), labels=["ill"], attributes=["event"])
    result = run(Operating(combine=combine, event_time="event", **QUICK), cohort, {"m": p})
    told = " ".join(f.sentence for f in result.findings)
    assert f"{n_gone} stays have no earlier prediction that counts and are left out" in told
    assert find(result, "flag_rate", "own")["n"] == 200 - n_gone
