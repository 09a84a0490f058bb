"""Operating points: the model's own threshold, those that are given, and those that a capacity leaves.

A capacity is a share of patients ("flag 5%") or a number a day. Its threshold is chosen without looking at outcomes, on
the validation split where there is one; tied scores are flagged together, so that the share may be missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.thresholds import Thresholds
from palpate.audits.operating.plan import AUDIT
from palpate.errors import ConfigError
from palpate.stats import capacity_threshold
from palpate.stats.discrimination import Capacity

Floats = NDArray[np.float64]
OWN = "own"
_NOT_IN_NAMES = "[],="
"""A gate condition could not name such a point."""
_ROUNDING = 1e-6


@dataclass(frozen=True)
class PointRules:
    """The operating points that are asked for, besides each model's own."""

    thresholds: Mapping[str, float]
    shares: tuple[float, ...]
    per_day: tuple[float, ...]

    @classmethod
    def of(cls, thresholds: Mapping[str, float], capacity: Mapping[Any, float | tuple[float, ...]]) -> PointRules:
        """From the audit's options; what cannot be meant is refused."""
        given = {key: value if isinstance(value, tuple) else (value,) for key, value in capacity.items()}
        rules = cls(dict(thresholds), given.get("flag", ()), given.get("per_day", ()))
        rules._check()
        return rules

    def _check(self) -> None:
        for name, value in self.thresholds.items():
            if not 0.0 <= value <= 1.0:
                raise _error("thresholds", f"'{name}' is {value:g}, and a threshold lies between 0 and 1")
            if not name.strip() or any(mark in name for mark in _NOT_IN_NAMES):
                raise _error("thresholds", f"'{name}' cannot be the name of a threshold", "use letters and digits")
        for share in self.shares:
            if not 0.0 < share < 1.0:
                problem = f"`flag` is {share:g}, and a share lies between 0 and 1"
                raise _error("capacity", problem, "write 0.05 for 5%")
        for number in self.per_day:
            if not 0.0 < number < float("inf"):
                raise _error("capacity", f"`per_day` is {number:g}, and must be above 0")
        names = self.names
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            named = twice == OWN or twice in self.thresholds
            option, hint = ("thresholds", "rename one of them") if named else ("capacity", "give each number once")
            raise _error(option, f"two operating points are named '{twice}'", hint)

    @property
    def names(self) -> list[str]:
        """Of all points, each model's own first."""
        return [
            OWN,
            *self.thresholds,
            *(f"flag {100 * share:g}%" for share in self.shares),
            *(f"{number:g} a day" for number in self.per_day),
        ]

    @property
    def named(self) -> list[str]:
        """The points that the user asked for; each model's own where that is none."""
        return self.names[1:] or [OWN]


def _error(option: str, problem: str, hint: str | None = None) -> ConfigError:
    return ConfigError(f"audit '{AUDIT}', option '{option}': {problem}", hint=hint, at=(option,))


class AlertPoint(NamedTuple):
    """One operating point."""

    name: str
    threshold: Floats
    """[model, label]"""
    how: Mapping[str, str]
    """In words, where each model's threshold came from."""
    capacity: float | None = None
    """The share that can be looked at, where that is what decides."""
    flagged: Floats | None = None
    """[model, label]: the share that the threshold flags where it was chosen."""


def choose_points(
    rules: PointRules,
    own: Thresholds,
    y_score: Floats,
    models: Sequence[str],
    *,
    on_validation: bool,
    per_day: float | None,
    weight: Floats | None = None,
) -> list[AlertPoint]:
    """All points; `y_score`, [model, decision, label], are those that capacities are chosen on."""
    points = [AlertPoint(OWN, own.values, own.origin)]
    given = dict.fromkeys(models, "given")
    points += [AlertPoint(name, np.full(own.values.shape, value), given) for name, value in rules.thresholds.items()]
    where = "the validation split" if on_validation else "the audited cases themselves"
    names = iter(rules.names[1 + len(rules.thresholds) :])
    for share in (*rules.shares, *_shares(rules.per_day, per_day)):
        found = [[_capacity(column, share, weight) for column in scores.T] for scores in y_score]
        points.append(
            AlertPoint(
                next(names),
                np.asarray([[each.threshold for each in row] for row in found]),
                dict.fromkeys(models, f"flags {100 * share:.3g}% on {where}"),
                share,
                np.asarray([[each.flagged for each in row] for row in found]),
            )
        )
    return points


def joined_points(parts: Sequence[Sequence[AlertPoint]]) -> list[AlertPoint]:
    """The points of some labels each, as those of all labels; each part has the same ones."""
    joined = []
    for own in zip(*parts, strict=True):
        flagged = [each.flagged for each in own if each.flagged is not None]
        joined.append(
            own[0]._replace(
                threshold=np.concatenate([each.threshold for each in own], axis=1),
                flagged=np.concatenate(flagged, axis=1) if flagged else None,
            )
        )
    return joined


def _capacity(scores: NDArray[np.float64], share: float, weight: NDArray[np.float64] | None) -> Capacity:
    """Where everybody can be seen, nobody is left out: not even whose score is below all that were looked at."""
    return Capacity(0.0, 1.0) if share >= 1.0 else capacity_threshold(scores, share, weight=weight)


def _shares(numbers: Iterable[float], per_day: float | None) -> list[float]:
    return [] if per_day is None else [min(1.0, number / per_day) for number in numbers]


def check_days(rules: PointRules, per_day: float | None, least_weight: float) -> None:
    """Refuse a capacity by the day where no case has a time, or where weights do not count patients."""
    if rules.per_day and per_day is None:
        raise _error("capacity", "`per_day` needs the cohort's `time:`", "set it, or give a share such as `flag: 0.05`")
    if rules.per_day and least_weight < 1.0 - _ROUNDING:
        problem = (
            "`per_day` needs sampling weights that say how many patients each case stands for, 1 or more, and the "
            f"smallest is {least_weight:.3g}"
        )
        hint = "give 1 / the chance that a case was drawn as `weight:`, or a share such as `flag: 0.05`"
        raise _error("capacity", problem, hint)
