"""The evidence audit's numbers as rows: levels, differences, faithfulness, and why a number is missing.

Metrics are named `MATCH_MEASURE` (`token_f1`), summed over codes, and `MATCH_MEASURE_by_code`, averaged over them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from palpate.audits.evidence.faithfulness import ARMS, MARKED, ArmDrops, Faithfulness
from palpate.audits.evidence.marking import MarkedEvidence
from palpate.audits.evidence.measures import ALL, RANDOM, SHARES, SPANS_TOUCHED, EvidenceMeasures, MatchScores, Shares
from palpate.audits.evidence.ranking import RANKED, WordRanking, ranking_rows
from palpate.audits.evidence.sensitivity import SENSITIVITY, sensitivity_rows
from palpate.audits.evidence.strata import AuditedCharts
from palpate.audits.kit.resampling import Family
from palpate.audits.kit.rows import RowWriter, corrected, one_family
from palpate.results import ALL_LABELS, Estimate, Predictions
from palpate.stats import interval_p_value
from palpate.stats.clustered_rates import paired_difference
from palpate.stats.evidence import AVERAGES, MATCHES, MEASURES
from palpate.stats.evidence.faithfulness import MeanDrops

AUDIT = "evidence"
AREA = "mean over fractions"
BY_CODE = "no interval: codes that one or two charts have do not show how much they vary"
LOWER_BOUND = "a lower bound: the annotators marked what suffices, and other evidence counts as false"


def metric_name(match: str, measure: str, average: str = "micro") -> str:
    """The name of a metric in the table."""
    return f"{match}_{measure}" + ("_by_code" if average == "macro" else "")


METRICS = (
    *(metric_name(*each) for each in product(MATCHES, MEASURES, AVERAGES)),
    *(f"chance_token_{name}" for name in MEASURES),
    *SHARES,
    *RANKED,
    SENSITIVITY,
    *(f"{arm}{form}" for arm in ARMS for form in ("", "_random", "_aopc", "_aopc_random")),
)


def fraction_name(fraction: str) -> str:
    """A fraction of the words, as a group of estimates."""
    return MARKED if fraction == MARKED else f"{100 * float(fraction):g}% of the words"


def evidence_rows(
    charts: AuditedCharts,
    predictions: Predictions,
    marked: Mapping[str, MarkedEvidence | str],
    measured: Mapping[str, EvidenceMeasures],
    ranked: Mapping[str, Mapping[str, WordRanking]],
    faithfulness: Mapping[str, Faithfulness | str],
    family: Family,
) -> list[Estimate]:
    """All rows: levels of models and ensembles, differences, faithfulness; p is corrected by metric."""
    writer = RowWriter(AUDIT, charts.resampling.level)
    rows: list[Estimate] = []
    for name in predictions:
        if name in measured:
            rows += _score_rows(writer, charts, name, measured[name])
        else:
            unknown = map(marked.get, predictions.members(name))
            rows += _null_rows(writer, charts, name, next(why for why in unknown if isinstance(why, str)))
        if name in measured and name in predictions.ensembles:
            parts = [measured[member] for member in predictions.members(name)]
            rows += _spread_rows(writer, charts, name, np.stack([part.scores.point[0] for part in parts]))
    rows += _difference_rows(
        writer, charts, {name: measured[name] for name in predictions.compared if name in measured}
    )
    rows += ranking_rows(writer, charts, predictions, ranked)
    known = {name: each for name, each in marked.items() if isinstance(each, MarkedEvidence)}
    rows += sensitivity_rows(writer, charts, known, predictions)
    for name, found in faithfulness.items():
        rows += _faithfulness_rows(writer, charts, name, found)

    def same_question(row: Estimate) -> Hashable:
        """Members of an ensemble are apart: a model is not tested more strictly for having more seeds."""
        return row.metric, row.reference == RANDOM, row.model in predictions.compared

    how = charts.resampling
    return corrected(rows, how.correction, how.level, family_of=one_family(family) or same_question)


def _score_rows(writer: RowWriter, charts: AuditedCharts, model: str, measured: EvidenceMeasures) -> Iterator[Estimate]:
    """Levels of all strata, of random evidence, and the shares."""
    for k, group in enumerate(measured.scores.strata):
        yield from _levels(writer, charts, model, measured.scores, k, group)
    yield from _levels(writer, charts, model, measured.random, 0, RANDOM)
    for name, value in zip(MEASURES, measured.chance, strict=True):
        reason = "nothing is predicted, or there is no gold evidence" if np.isnan(value) else None
        yield writer.row(model, f"chance_token_{name}", ALL_LABELS, ALL, value, n=charts.n, reason=reason)
    shares = measured.shares
    for k, name in enumerate(SHARES):
        yield _share_row(writer, charts, model, name, ALL, shares, k)
    for group, share in measured.touched.items():
        yield _share_row(writer, charts, model, SPANS_TOUCHED, group, share, 0)


def _share_row(
    writer: RowWriter, charts: AuditedCharts, model: str, name: str, group: str, shares: Shares, k: int
) -> Estimate:
    value, low, high = (float(part[k]) for part in shares.rates)
    row = writer.row(model, name, ALL_LABELS, group, value, n=int(shares.n[k]), interval=(low, high))
    n_units = int(shares.n_clusters[k])
    return _explained(writer, row, n_units, charts.unit, undefined="there is nothing to take a share of")


def _null_rows(writer: RowWriter, charts: AuditedCharts, model: str, reason: str) -> Iterator[Estimate]:
    """A model that gives no evidence stays visible."""
    for match in MATCHES:
        for name in MEASURES:
            yield writer.row(model, metric_name(match, name), ALL_LABELS, ALL, None, n=charts.n, reason=reason)


def _spread_rows(
    writer: RowWriter, charts: AuditedCharts, model: str, points: NDArray[np.float64]
) -> Iterator[Estimate]:
    """The standard deviation over an ensemble's members, of all evidence (`token_f1_sd`)."""
    spread = points.std(axis=0, ddof=1)
    for m, a, j in np.ndindex(spread.shape):
        name = f"{metric_name(MATCHES[m], MEASURES[j], AVERAGES[a])}_sd"
        reason = "undefined for one of the seeds" if np.isnan(spread[m, a, j]) else None
        yield writer.row(model, name, ALL_LABELS, ALL, spread[m, a, j], n=charts.n, reason=reason)


def _levels(
    writer: RowWriter, charts: AuditedCharts, model: str, scores: MatchScores, k: int, group: str
) -> Iterator[Estimate]:
    for m, a, j in np.ndindex(scores.point.shape[1:]):
        row = writer.row(
            model,
            metric_name(MATCHES[m], MEASURES[j], AVERAGES[a]),
            ALL_LABELS,
            group,
            scores.point[k, m, a, j],
            n=charts.n,
            n_positive=int(scores.n_gold[k, m]),
            interval=(scores.low[k, m, a, j], scores.high[k, m, a, j]),
        )
        n_units, undefined = int(scores.n_clusters[k, m, j]), _undefined(scores, k, m, j, group)
        row = _explained(writer, row, n_units, charts.unit, undefined=undefined, average=AVERAGES[a])
        if row.value is not None and charts.sufficient and MEASURES[j] != "recall" and group != "annotation=complete":
            row = replace(row, reason="; ".join(filter(None, (row.reason, LOWER_BOUND))))
        yield row


def _undefined(scores: MatchScores, k: int, m: int, j: int, group: str) -> str:
    """Why a score is undefined, if it is."""
    if group.startswith(("length=", "window=")) and MEASURES[j] != "recall":
        return "recall only: a false prediction belongs to no such group"
    if MEASURES[j] == "precision" and not scores.n_predicted[k, m]:
        return "nothing is predicted"
    return "undefined: a denominator is 0" if scores.n_gold[k, m] else "no gold evidence"


def _explained(
    writer: RowWriter, row: Estimate, n_units: int, unit: str, *, undefined: str = "", average: str = "micro"
) -> Estimate:
    """The row without what too few charts (or patients) cannot support, and with the reason for what is missing."""
    if row.value is None:
        return replace(row, reason=undefined)
    if average == "macro":
        return replace(row, low=None, high=None, p_value=None, reason=BY_CODE)
    row = writer.enough(row, n_units, f"{unit}s")
    return row if row.low is not None else replace(row, p_value=None)


def _difference_rows(
    writer: RowWriter, charts: AuditedCharts, measured: Mapping[str, EvidenceMeasures]
) -> Iterator[Estimate]:
    """Every pair of models, and each against random evidence, on the same charts."""
    for (reference, theirs), (model, ours) in combinations(measured.items(), 2):
        yield from _differences(writer, charts, model, reference, ours.scores, theirs.scores)
    for name, each in measured.items():
        yield from _differences(writer, charts, name, RANDOM, each.scores, each.random)


def _differences(
    writer: RowWriter, charts: AuditedCharts, model: str, reference: str, ours: MatchScores, theirs: MatchScores
) -> Iterator[Estimate]:
    point = ours.point[0] - theirs.point[0]
    found = paired_difference(ours.overall, theirs.overall)
    shape = (len(MATCHES), len(MEASURES))
    low, high = found.low.reshape(shape), found.high.reshape(shape)
    n_units = np.minimum(ours.n_clusters[0], theirs.n_clusters[0])
    for m, a, j in np.ndindex(point.shape):
        ends = (float(low[m, j]), float(high[m, j]))
        row = writer.row(
            model,
            metric_name(MATCHES[m], MEASURES[j], AVERAGES[a]),
            ALL_LABELS,
            ALL,
            point[m, a, j],
            n=charts.n,
            reference=reference,
            interval=ends,
            p_value=float(interval_p_value(point[m, a, j], *ends, level=writer.level)),
        )
        undefined = "undefined for one of the two"
        yield _explained(writer, row, int(n_units[m, j]), charts.unit, undefined=undefined, average=AVERAGES[a])


def _faithfulness_rows(
    writer: RowWriter, charts: AuditedCharts, model: str, found: Faithfulness | str
) -> Iterator[Estimate]:
    """Comprehensiveness and sufficiency by fraction and as their mean: evidence, random words, and the difference."""
    for arm in ARMS:
        if isinstance(found, str):
            yield writer.row(model, f"{arm}_aopc", ALL_LABELS, AREA, None, n=0, reason=found)
            continue
        for j, name in enumerate(found.fractions):
            yield from _drop_rows(writer, charts, model, arm, fraction_name(name), found.drops[arm], j, found.n_pairs)
        # Without scores there is one set of words and no curve; the mean stands for it, so that models can be compared.
        yield from _drop_rows(writer, charts, model, f"{arm}_aopc", AREA, found.areas[arm], 0, found.n_pairs)
        for group, each in found.strata.items():
            rows = _drop_rows(writer, charts, model, f"{arm}_aopc", group, each.areas[arm], 0, each.n_pairs)
            yield from (row for row in rows if row.reference is None)  # differences by stratum are not tested


def _drop_rows(
    writer: RowWriter, charts: AuditedCharts, model: str, metric: str, group: str, arm: ArmDrops, j: int, n_pairs: int
) -> Iterator[Estimate]:
    def row(metric: str, drops: MeanDrops, reference: str | None = None) -> Estimate:
        value, low, high = (float(part[j]) for part in drops.rates)
        row = writer.row(
            model,
            metric,
            ALL_LABELS,
            group,
            value,
            n=n_pairs,
            interval=(low, high),
            reference=reference,
            p_value=float(interval_p_value(value, low, high, level=writer.level)) if reference else None,
        )
        return _explained(writer, row, drops.n_charts, charts.unit)

    yield row(metric, arm.evidence)
    yield row(f"{metric}_random", arm.random)
    yield row(metric, arm.difference, RANDOM)
