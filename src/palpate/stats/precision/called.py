"""What sampling weights leave of rows by outcome and call, where the weights depend on the outcome.

Kish's number of rows takes weights to be independent of what is measured. If all events were kept and one in ten of the
others, they are not: the heavy rows are those without the event, and a share of rows with given calls varies as its own
rows do. With weights w, a share of rows inside against rows outside has the log odds log(sum w inside) - log(sum w
outside), and each sum varies as that of its own (sum w)^2 / sum w^2 rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from palpate.stats.inputs import Floats
from palpate.stats.precision import MANY, Counts

FOUND, FALSE_ALARM, MISSED, LEFT = range(4)
"""With the outcome or without it, called; with it or without it, not called."""
_WITH = (FOUND, MISSED)
_WITHOUT = (FALSE_ALARM, LEFT)
_AMONG = {
    "flag_rate": ((FOUND, FALSE_ALARM), (MISSED, LEFT)),
    "true_alerts": ((FOUND,), (FALSE_ALARM, MISSED, LEFT)),
    "false_alerts": ((FALSE_ALARM,), (FOUND, MISSED, LEFT)),
    "ppv": ((FOUND,), (FALSE_ALARM,)),
    "precision_1": ((FOUND,), (FALSE_ALARM,)),
    "npv": ((LEFT,), (MISSED,)),
    "precision_0": ((LEFT,), (MISSED,)),
    "f1_1": ((FOUND,), (FALSE_ALARM, MISSED)),
    "f1_0": ((LEFT,), (FALSE_ALARM, MISSED)),
}
"""The rows that a rate counts, and those that it counts them among besides; F1 has the odds of hits against errors."""
_OF_ALL = ("flag_rate", "true_alerts", "false_alerts")


class CalledRows(NamedTuple):
    """Rows by outcome and by whether a model calls them, [4, model, label]."""

    mass: Floats
    """Weighted share of all rows."""
    rows: Floats
    """As many of equal weight as would say as much, within the class."""


class RowsTold(NamedTuple):
    """What rows tell about a share, [model, label]."""

    rows: Floats
    """As many of equal weight as would say as much."""
    kept: Floats
    """The share of the rows that weights leave."""


def called(counts: Counts, found: Floats, false_alarms: Floats) -> CalledRows:
    """From the weighted shares of all rows that are found, and that are false alarms: [model, label]."""
    p = np.broadcast_to(counts.prevalence, found.shape)
    mass = np.clip(np.stack([found, false_alarms, p - found, 1.0 - p - false_alarms]), 0.0, 1.0)
    with_it, without = (
        np.divide(rows, share, out=np.zeros(p.shape), where=share > 0)
        for rows, share in ((counts.positive, p), (counts.negative, 1.0 - p))
    )
    return CalledRows(mass, mass * np.stack([with_it, without, with_it, without]))


def told(
    counts: Counts, calls: CalledRows, inside: tuple[int, ...], outside: tuple[int, ...], usual: Floats
) -> RowsTold:
    """What the calls tell about the share of those `inside` among them and those `outside`; `usual` without weights.

    Fewer rows than usual always count: a few heavy false alarms, or none yet, tell little about a predictive value.
    More count as far as there are many patients on both sides, and of each kind of call among the heavier class.
    """
    usual = np.broadcast_to(usual, calls.mass.shape[1:])
    kept = np.broadcast_to(counts.kept_of_all, usual.shape)
    if counts.weighing is None:
        return RowsTold(usual, kept)
    own = _rows_of_share(_one_more_half(counts, calls), inside, outside)
    sides = [_worth(calls, side) for side in (inside, outside)]
    fewest = np.minimum(np.minimum(*sides), _fewest_heavy(calls, (*inside, *outside))) / counts.per_unit
    known = np.maximum(1.0 - MANY / np.maximum(fewest, 1e-9), 0.0)
    return RowsTold(np.minimum(own, usual) + known * np.maximum(own - usual, 0.0), _kept(counts, known, kept))


def _kept(counts: Counts, known: Floats, kept: Floats) -> Floats:
    """What weights leave: as far as the classes are known, only weights that vary within a class count."""
    within = np.maximum((counts.positive + counts.negative) / np.maximum(counts.n, 1), kept)
    return np.asarray(kept + known * (within - kept))


def _one_more_half(counts: Counts, calls: CalledRows) -> CalledRows:
    """With half a row more of each kind of call, as a kind that was not seen may come next."""
    p = counts.prevalence
    with_it, without = (
        np.divide(share, 2.0 * rows, out=np.zeros(p.shape), where=rows > 0)
        for share, rows in ((p, counts.positive), (1.0 - p, counts.negative))
    )
    each = np.stack([with_it, without, with_it, without])[:, None]
    return CalledRows(calls.mass + each, calls.rows + 0.5)


def _rows_of_share(calls: CalledRows, inside: tuple[int, ...], outside: tuple[int, ...]) -> Floats:
    sides = [_worth(calls, side) for side in (inside, outside)]
    masses = [calls.mass[list(side)].sum(axis=0) for side in (inside, outside)]
    p = masses[0] / np.maximum(masses[0] + masses[1], 1e-300)
    apart = sum(1.0 / np.maximum(side, 1e-9) for side in sides)
    return np.asarray(1.0 / np.maximum(p * (1.0 - p) * apart, 1e-9))


def _worth(calls: CalledRows, which: tuple[int, ...]) -> Floats:
    """As many rows of equal weight as those of several kinds together are worth."""
    mass, rows = calls.mass[list(which)], calls.rows[list(which)]
    squares = np.divide(mass**2, rows, out=np.zeros_like(mass), where=rows > 0).sum(axis=0)
    return np.asarray(np.divide(mass.sum(axis=0) ** 2, squares, out=np.zeros_like(squares), where=squares > 0))


def _fewest_heavy(calls: CalledRows, which: tuple[int, ...]) -> Floats:
    """The smallest number of rows of one kind of call, in the class whose rows weigh more."""
    each, fewest = [], []
    for own in (_WITH, _WITHOUT):
        each.append(calls.mass[list(own)].sum(axis=0) / np.maximum(calls.rows[list(own)].sum(axis=0), 1e-9))
        fewest.append(calls.rows[[k for k in which if k in own]].min(axis=0, initial=np.inf))
    return np.asarray(np.where(each[0] > each[1], *fewest))


def denominators(metrics: Sequence[str], point: Floats, counts: Counts) -> dict[str, RowsTold]:
    """Of each rate: how many rows it is a share of, [model, label], and what weights leave of them."""
    shape = (len(point), point.shape[-1])
    positive, negative, everything, kept = (
        np.broadcast_to(each, shape) for each in (counts.positive, counts.negative, counts.total, counts.kept_of_all)
    )
    found = {name: RowsTold(positive, kept) for name in metrics if name.startswith("sensitivity") or name == "recall_1"}
    found |= {
        name: RowsTold(negative, kept) for name in metrics if name.startswith("specificity") or name == "recall_0"
    }
    found |= {name: RowsTold(everything, kept) for name in metrics if name in _OF_ALL}
    if "prevalence" in metrics:
        found["prevalence"] = RowsTold(*(np.broadcast_to(each, shape) for each in of_outcome(counts)))
    if "sensitivity" in metrics and "specificity" in metrics:
        hits, passes = (np.nan_to_num(point[:, list(metrics).index(name)]) for name in ("sensitivity", "specificity"))
        calls = called(counts, hits * counts.prevalence, (1.0 - passes) * (1.0 - counts.prevalence))
        tp, tn = hits * positive, passes * negative
        sizes = np.stack([tp, negative - tn, positive - tp, tn])
        for name in [name for name in metrics if name in _AMONG]:
            inside, outside = _AMONG[name]
            usual = everything if name in _OF_ALL else sizes[[*inside, *outside]].sum(axis=0) * counts.mixed
            found[name] = told(counts, calls, inside, outside, usual)
    return found


def of_shares(counts: Counts, shares: Floats) -> tuple[RowsTold, RowsTold]:
    """What rows tell about the shares of all that are found and that are false alarms, [2, model, label]."""
    calls = called(counts, shares[0], shares[1])
    found, false = (told(counts, calls, *_AMONG[name], counts.total) for name in ("true_alerts", "false_alerts"))
    return found, false


def of_outcome(counts: Counts) -> RowsTold:
    """What rows tell about the share with the outcome, [1, label]."""
    kept = counts.kept_of_all[None]
    known = np.maximum(1.0 - MANY / np.maximum(counts.units.min(axis=0), 1e-9), 0.0)
    return RowsTold(counts.of_outcome[None], kept if counts.weighing is None else _kept(counts, known, kept))
