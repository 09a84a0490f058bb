"""The evidence audit's numbers as rows of the long table: levels, differences, and why a number is not there.

Metrics are named `MATCH_MEASURE` (`token_f1`), summed over codes, and `MATCH_MEASURE_by_code`, averaged over them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from palpate.audits.evidence.faithfulness import ARMS, MARKED, Faithful
from palpate.audits.evidence.measures import ALL, LOWER_BOUND, RANDOM, SHARES, Measured, Scores
from palpate.audits.kit.measured import FEWEST_FOR_TEST, Correction, corrected
from palpate.results import Estimate, finite
from palpate.stats import bootstrap_p_value, percentile_interval
from palpate.stats.evidence import AVERAGES, MATCHES, MEASURES
from palpate.stats.evidence.faithfulness import MeanDrops

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
        low = None if value is None or alone else finite(shares.low[k])
        rows.append(
            Estimate(
                AUDIT,
                model,
                name,
                LABEL,
                ALL,
                value,
                int(shares.n[k]),
                low=low,
                high=finite(shares.high[k]) if low is not None else None,
                level=facts.level,
                reason="nothing of which it could be a share" if value is None else _no_interval(low, facts.n_units),
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


def spread_rows(family: str, parts: Sequence[Measured], facts: Facts) -> list[Estimate]:
    """The standard deviation over a model's checkpoints, of all evidence (`token_f1_sd`)."""
    spread = np.std([part.scores.point[0] for part in parts], axis=0, ddof=1)
    rows = []
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
    why = _no_interval(low, facts.n_units)
    reasons = [] if why is None else [why]
    if facts.sufficient and MEASURES[j] != "recall" and group != "annotation=complete":
        reasons.append(LOWER_BOUND)
    return "; ".join(reasons) or None


def _no_interval(low: float | None, n_units: int) -> str | None:
    """Why a number that is known has no interval; None if it has one."""
    if low is not None:
        return None
    return "no interval: a single chart" if n_units < 2 else "no interval: undefined in more than 5% of the resamples"


def difference_rows(measured: Mapping[str, Measured], facts: Facts) -> list[Estimate]:
    """Every pair of models, and each against random evidence, on the same resamples; p is corrected by metric."""
    pairs = [
        row
        for (first, theirs), (second, ours) in itertools.combinations(measured.items(), 2)
        for row in _differences(second, first, ours.scores, theirs.scores, facts)
    ]
    chance = [
        row for name, each in measured.items() for row in _differences(name, RANDOM, each.scores, each.random, facts)
    ]
    return [
        *corrected(pairs, facts.correction, facts.level, headline=LABEL),
        *corrected(chance, facts.correction, facts.level, headline=LABEL),
    ]


def _differences(model: str, reference: str, ours: Scores, theirs: Scores, facts: Facts) -> Iterator[Estimate]:
    values = ours.values[0] - theirs.values[0]
    point = ours.point[0] - theirs.point[0]
    low, high = percentile_interval(values, level=facts.level)
    p_value = bootstrap_p_value(values, tail="normal")
    tested = facts.n_units >= FEWEST_FOR_TEST
    if facts.n_units < 2:
        low, high = np.full_like(low, np.nan), np.full_like(high, np.nan)
    for m, a, j in np.ndindex(point.shape):
        value = finite(point[m, a, j])
        lowest = finite(low[m, a, j]) if value is not None else None
        reason = _no_interval(lowest, facts.n_units) if tested else f"not tested: fewer than {FEWEST_FOR_TEST} charts"
        yield Estimate(
            AUDIT,
            model,
            metric_name(MATCHES[m], MEASURES[j], AVERAGES[a]),
            LABEL,
            ALL,
            value,
            facts.n_charts,
            reference=reference,
            low=lowest,
            high=finite(high[m, a, j]) if lowest is not None else None,
            level=facts.level,
            p_value=finite(p_value[m, a, j]) if value is not None and tested else None,
            reason=reason if value is not None else "undefined for one of the two",
        )


def faithfulness_rows(model: str, found: Faithful | str, facts: Facts) -> list[Estimate]:
    """Comprehensiveness and sufficiency by fraction and as their mean: evidence, random words, and the difference."""
    if isinstance(found, str):
        return [Estimate(AUDIT, model, f"{arm}_aopc", LABEL, AREA, None, 0, reason=found) for arm in ARMS]
    rows = []
    for arm in ARMS:
        for j, name in enumerate(found.fractions):
            rows += _drops(model, arm, fraction_name(name), j, *_of(found, arm, area=False), found.n_pairs, facts)
        # Without scores there is one set of words and no curve; the mean stands for it, so that models can be compared.
        rows += _drops(model, f"{arm}_aopc", AREA, 0, *_of(found, arm, area=True), found.n_pairs, facts)
    return rows


def corrected_faithfulness(rows: Sequence[Estimate], facts: Facts) -> list[Estimate]:
    """Rows of models, or of checkpoints, with p corrected by metric, among the rows that were tested."""
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
    lowest = finite(low) if drops.n_charts > 1 else None
    return Estimate(
        AUDIT,
        model,
        metric,
        LABEL,
        group,
        finite(point),
        n_pairs,
        low=lowest,
        high=finite(high) if lowest is not None else None,
        level=facts.level,
        reason=_no_interval(lowest, drops.n_charts),
    )
