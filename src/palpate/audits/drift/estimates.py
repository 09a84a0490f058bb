"""The drift audit's numbers as rows: levels in every period, the latest against the first, changes and trends."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from palpate.audits.drift.measures import METRICS, TESTED, PeriodMeasures, Series
from palpate.audits.drift.plan import FIRST, LATEST, Periods
from palpate.audits.kit.differences import model_differences, population_differences
from palpate.audits.kit.metrics import level_rows
from palpate.audits.kit.rows import RowWriter
from palpate.cases.edits import Ints
from palpate.results import Estimate
from palpate.stats.changes import FEWEST_PATIENTS, change_test, trends

PATIENTS = "patients"
CHANGES = {metric: f"{metric}_change" for metric in TESTED}
TRENDS = {metric: f"{metric}_trend" for metric in TESTED}
_FEW = f"not tested: no date has {FEWEST_PATIENTS} patients who count on both sides"
_FEW_FOR_TREND = f"not tested: fewer than {FEWEST_PATIENTS} patients who count"


def level_estimates(writer: RowWriter, found: PeriodMeasures) -> Iterator[Estimate]:
    """Every metric of every period; one without enough cases has its counts and the reason."""
    for name, part in found.parts.items():
        n, n_positive = int(part.n[0]), int(part.n_positive[0])
        for model in part.models:
            yield writer.row(model, PATIENTS, found.label, name, found.n_patients[name], n=n, n_positive=n_positive)
        lacking = found.lacking(name)
        if lacking is None:
            yield from level_rows(writer, part)
            continue
        for model in part.models:
            for metric in METRICS:
                yield writer.row(model, metric, found.label, name, None, n=n, n_positive=n_positive, reason=lacking)


def difference_estimates(writer: RowWriter, found: PeriodMeasures, models: Sequence[str]) -> Iterator[Estimate]:
    """The latest periods less the first, and models within the latest; not corrected yet."""
    lacking = {name: found.lacking(name) for name in (LATEST, FIRST)}
    part = found.parts[LATEST]
    if lacking[LATEST] is None:
        yield from model_differences(writer, part, models)
    reason = lacking[LATEST] or (lacking[FIRST] and f"{lacking[FIRST]}, in the first periods")
    if reason is None:
        yield from population_differences(writer, part, found.parts[FIRST], models)
        return
    for model in models:
        for metric in METRICS:
            yield writer.row(
                model,
                metric,
                found.label,
                LATEST,
                None,
                n=int(part.n[0]),
                n_positive=int(part.n_positive[0]),
                reference=FIRST,
                reason=reason,
            )


def change_estimates(
    writer: RowWriter, series: Sequence[Series], patient: Ints, periods: Periods, rng: np.random.Generator
) -> list[Estimate]:
    """For every series the largest change at any date, corrected over all dates and series at once.

    A row's group is the first period after the date.
    """
    found = change_test(
        [each.excesses for each in series],
        periods.code,
        patient,
        len(periods.names),
        rng=rng,
        level=writer.level,
    )
    n_dates = int(found.n_dates.sum())
    rows = []
    for k, each in enumerate(series):
        known = found.after[k] >= 0
        row = writer.row(
            each.model,
            CHANGES[each.metric],
            each.label,
            periods.names[int(found.after[k])] if known else "",
            float(found.difference[k]),
            n=each.n,
            interval=(float(found.low[k]), float(found.high[k])),
            p_value=float(found.p_value[k]),
            reason=None if known else _FEW,
        )
        rows.append(_tested(row, n_dates, writer.level))
    return rows


def _tested(row: Estimate, n_family: int, level: float) -> Estimate:
    if row.p_value is None:
        return row
    return replace(row, significant=row.p_value < 1.0 - level, n_family=n_family)


def trend_estimates(writer: RowWriter, series: Sequence[Series], patient: Ints, periods: Periods) -> Iterator[Estimate]:
    """The change of every series in a year, by a straight line; not corrected yet."""
    time = np.asarray((periods.code + 0.5) * periods.years, np.float64)
    found = trends([each.excesses for each in series], time, patient, level=writer.level)
    for k, each in enumerate(series):
        known = not np.isnan(found.slope[k])
        yield writer.row(
            each.model,
            TRENDS[each.metric],
            each.label,
            "all",
            float(found.slope[k]),
            n=each.n,
            interval=(float(found.low[k]), float(found.high[k])),
            p_value=1.0 if known else None,  # `corrected` derives it from the interval
            reason=None if known else _FEW_FOR_TREND,
        )


def family(row: Estimate, models: Sequence[str]) -> Hashable:
    """Which comparisons share one correction: those of a metric over time, and between models; all trends."""
    if row.reference is None:
        return "trends"
    return row.reference in models, row.metric
