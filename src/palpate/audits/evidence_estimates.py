"""The evidence audit's numbers as rows of the long table: levels, differences, and why a number is not there.

Metrics are named `MATCH_MEASURE` (`token_f1`), summed over codes, and `MATCH_MEASURE_by_code`, averaged over them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from palpate.audits.evidence_measures import ALL, LOWER_BOUND, RANDOM, SHARES, Measured, Scores
from palpate.audits.evidence_removal import ARMS, MARKED, Faithful, Removal
from palpate.audits.measured import FEWEST_FOR_TEST, Correction, corrected
from palpate.results import Estimate, finite
from palpate.stats import bootstrap_p_value, percentile_interval
from palpate.stats.faithfulness import MeanDrops
from palpate.stats.spans import AVERAGES, MATCHES, MEASURES

AUDIT = "evidence"
LABEL = "all codes"
AREA = "mean over fractions"


@dataclass(frozen=True)
class Facts:
    """What all rows share."""

    n_charts: int
    n_units: int
    """Charts, or patients, that are resampled."""
    level: float
    correction: Correction
    sufficient: bool
    """Whether some annotation marks what suffices and not all, so that precision is a lower bound."""


def metric_name(match: str, measure: str, average: str = "micro") -> str:
    """The name of a metric in the table."""
    return f"{match}_{measure}" + ("_by_code" if average == "macro" else "")


def score_rows(model: str, measured: Measured, facts: Facts) -> list[Estimate]:
    """Levels of all strata, of random evidence, and the shares."""
    rows = [
        row
        for k, group in enumerate(measured.scores.strata)
        for row in _levels(model, measured.scores, k, group, facts)
    ]
    rows += _random_rows(model, measured.random, measured.chance, facts)
    shares, alone = measured.shares, facts.n_units < 2
    for k, name in enumerate(SHARES):
        value = finite(shares.point[k])
        reason = "nothing of which it could be a share" if value is None else "no interval: a single chart"
        rows.append(
            Estimate(
                AUDIT,
                model,
                name,
                LABEL,
                ALL,
                value,
                int(shares.n[k]),
                low=None if value is None or alone else finite(shares.low[k]),
                high=None if value is None or alone else finite(shares.high[k]),
                level=facts.level,
                reason=reason if value is None or alone else None,
            )
        )
    return rows


def _random_rows(model: str, random: Scores, chance: Sequence[float], facts: Facts) -> list[Estimate]:
    """As many random words: a draw of them, and what they reach on average."""
    nothing = "nothing is predicted, or there is no gold evidence"
    expected = [
        Estimate(AUDIT, model, f"chance_token_{name}", LABEL, ALL, value, facts.n_charts, reason=reason)
        for name, each in zip(MEASURES, chance, strict=True)
        for value in (finite(each),)
        for reason in (nothing if value is None else None,)
    ]
    return [*_levels(model, random, 0, RANDOM, facts), *expected]


def family_rows(family: str, scores: Scores, random: Scores, parts: Sequence[Measured], facts: Facts) -> list[Estimate]:
    """The mean over a model's checkpoints, of all evidence, and their standard deviation (`token_f1_sd`)."""
    spread = np.std([part.scores.point[0] for part in parts], axis=0, ddof=1)
    rows = list(_levels(family, scores, 0, ALL, facts))
    rows += _random_rows(family, random, np.mean([part.chance for part in parts], axis=0).tolist(), facts)
    for m, a, j in np.ndindex(spread.shape):
        name = f"{metric_name(MATCHES[m], MEASURES[j], AVERAGES[a])}_sd"
        value = finite(spread[m, a, j])
        reason = None if value is not None else "undefined for one of the checkpoints"
        rows.append(Estimate(AUDIT, family, name, LABEL, ALL, value, facts.n_charts, reason=reason))
    return rows


def null_rows(model: str, reason: str, facts: Facts) -> list[Estimate]:
    """A model that gives no evidence stays visible."""
    return [
        Estimate(AUDIT, model, metric_name(match, name), LABEL, ALL, None, facts.n_charts, reason=reason)
        for match in MATCHES
        for name in MEASURES
    ]


def _levels(model: str, scores: Scores, k: int, group: str, facts: Facts) -> Iterator[Estimate]:
    for m, a, j in np.ndindex(len(MATCHES), len(AVERAGES), len(MEASURES)):
        value = finite(scores.point[k, m, a, j])
        low = finite(scores.low[k, m, a, j]) if value is not None else None
        yield Estimate(
            AUDIT,
            model,
            metric_name(MATCHES[m], MEASURES[j], AVERAGES[a]),
            LABEL,
            group,
            value,
            facts.n_charts,
            low=low,
            high=finite(scores.high[k, m, a, j]) if low is not None else None,
            level=facts.level,
            n_positive=int(scores.n_gold[k, m]),
            reason=_reason(scores, k, m, j, group, value, low, facts),
        )


def _reason(
    scores: Scores, k: int, m: int, j: int, group: str, value: float | None, low: float | None, facts: Facts
) -> str | None:
    if value is None:
        if group.startswith(("length=", "window=")) and MEASURES[j] != "recall":
            return "recall only: a false prediction belongs to no such group"
        if MEASURES[j] == "precision" and not scores.n_predicted[k, m]:
            return "nothing is predicted"
        return "no gold evidence" if not scores.n_gold[k, m] else "undefined: a denominator is 0"
    reasons = []
    if low is None:
        reasons.append("no interval: too few charts, or undefined in more than 5% of the resamples")
    if facts.sufficient and MEASURES[j] != "recall" and group != "annotation=complete":
        reasons.append(LOWER_BOUND)
    return "; ".join(reasons) or None


def difference_rows(scores: Mapping[str, Scores], random: Mapping[str, Scores], facts: Facts) -> list[Estimate]:
    """Every pair of models, and each against random evidence, on the same resamples; p is corrected by metric."""
    names = list(scores)
    pairs = [
        row
        for second in range(1, len(names))
        for first in range(second)
        for row in _differences(names[second], names[first], scores[names[second]], scores[names[first]], facts)
    ]
    chance = [row for name in random for row in _differences(name, RANDOM, scores[name], random[name], facts)]
    return [
        *corrected(pairs, facts.correction, facts.level, headline=LABEL),
        *corrected(chance, facts.correction, facts.level, headline=LABEL),
    ]


def _differences(model: str, reference: str, ours: Scores, theirs: Scores, facts: Facts) -> Iterator[Estimate]:
    values = ours.values - theirs.values
    point = ours.point[0] - theirs.point[0]
    low, high = percentile_interval(values, level=facts.level)
    p_value = bootstrap_p_value(values, tail="normal")
    tested = facts.n_units >= FEWEST_FOR_TEST
    if facts.n_units < 2:
        low, high = np.full_like(low, np.nan), np.full_like(high, np.nan)
    for m, a, j in np.ndindex(point.shape):
        value = finite(point[m, a, j])
        reason = None if tested else f"not tested: fewer than {FEWEST_FOR_TEST} charts"
        yield Estimate(
            AUDIT,
            model,
            metric_name(MATCHES[m], MEASURES[j], AVERAGES[a]),
            LABEL,
            ALL,
            value,
            facts.n_charts,
            reference=reference,
            low=finite(low[m, a, j]) if value is not None else None,
            high=finite(high[m, a, j]) if value is not None else None,
            level=facts.level,
            p_value=finite(p_value[m, a, j]) if value is not None and tested else None,
            reason=reason if value is not None else "undefined for one of the two",
        )


def faithfulness_rows(model: str, removal: Removal, found: Faithful | None, facts: Facts) -> list[Estimate]:
    """Comprehensiveness and sufficiency by fraction and as their mean: evidence, random words, and the difference."""
    if found is None:
        return [
            Estimate(
                AUDIT, model, f"{arm}_aopc", LABEL, AREA, None, 0, reason=removal.reason or "nothing was taken out"
            )
            for arm in ARMS
        ]
    rows = []
    for arm in ARMS:
        for j, name in enumerate(found.fractions):
            rows += _drops(model, arm, fraction_name(name), j, *_of(found, arm, area=False), found.n_pairs, facts)
        # Without scores there is one set of words and no curve; the mean stands for it, so that models can be compared.
        rows += _drops(model, f"{arm}_aopc", AREA, 0, *_of(found, arm, area=True), found.n_pairs, facts)
    return rows


def corrected_faithfulness(rows: Sequence[Estimate], facts: Facts) -> list[Estimate]:
    """All models' rows with p corrected by metric, among the rows that were tested."""
    tested = [k for k, row in enumerate(rows) if row.reference is not None]
    out = list(rows)
    fixed = corrected([rows[k] for k in tested], facts.correction, facts.level, headline=LABEL)
    for k, row in zip(tested, fixed, strict=True):
        out[k] = row
    return out


def fraction_name(name: str) -> str:
    """A fraction for people."""
    return MARKED if name == MARKED else f"{100 * float(name):g}% of the words"


def _of(found: Faithful, arm: str, *, area: bool) -> tuple[MeanDrops, MeanDrops, MeanDrops]:
    if area:
        return found.aopc_evidence[arm], found.aopc_random[arm], found.aopc_less_random[arm]
    return found.evidence[arm], found.random[arm], found.less_random[arm]


def _drops(
    model: str,
    metric: str,
    group: str,
    j: int,
    evidence: MeanDrops,
    random: MeanDrops,
    less: MeanDrops,
    n_pairs: int,
    facts: Facts,
) -> list[Estimate]:
    few = evidence.n_charts < FEWEST_FOR_TEST
    level = _drop_row(model, metric, group, evidence.point[j], evidence.values[j], evidence, n_pairs, facts)
    other = _drop_row(model, f"{metric}_random", group, random.point[j], random.values[j], random, n_pairs, facts)
    both = _drop_row(model, metric, group, less.point[j], less.values[j], less, n_pairs, facts)
    both = replace(
        both,
        reference=RANDOM,
        p_value=None if few else finite(less.p_value[j]),
        reason=f"not tested: fewer than {FEWEST_FOR_TEST} charts" if few else both.reason,
    )
    return [level, other, both]


def _drop_row(
    model: str,
    metric: str,
    group: str,
    point: float,
    values: NDArray[np.float64],
    drops: MeanDrops,
    n_pairs: int,
    facts: Facts,
) -> Estimate:
    low, high = percentile_interval(values, level=facts.level)
    alone = drops.n_charts < 2
    return Estimate(
        AUDIT,
        model,
        metric,
        LABEL,
        group,
        finite(point),
        n_pairs,
        low=None if alone else finite(low),
        high=None if alone else finite(high),
        level=facts.level,
        reason="no interval: a single chart" if alone else None,
    )
