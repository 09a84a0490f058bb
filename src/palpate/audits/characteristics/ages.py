"""The age curve: how much of it is noise between consecutive ages (the paper's "73 against 74", Section 5.2).

Roughness is the share of the variance of the mean-probability curve that is noise between neighbouring ages (see
`palpate.stats.curves`): 0 for a straight line, near 0 for a smooth curve or a single step, 1 for white noise, more
where neighbours alternate. The same notes are in all ages, but a model's noise also differs from note to note; what
that adds to both variances is estimated by the bootstrap, as V = mean of the replicates less the value on the data, and
taken off (twice in a replicate, which has it twice). So a model whose noise averages out over patients is not rough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.characteristics.measures import Curve, Spread
from palpate.stats import percentile_interval

Floats = NDArray[np.float64]
NO_EFFECT = "the prediction does not change with age"
NO_MORE_THAN_CHANCE = "age moves the mean prediction no more than chance does"


class Roughness(NamedTuple):
    """For each label the share of noise, and the size of the noise as a probability, with replicates."""

    share: Floats
    share_values: Floats
    jump: Floats
    jump_values: Floats
    reason: tuple[str | None, ...]

    def spreads(self, level: float) -> tuple[Spread, Spread]:
        """Share and jump with percentile intervals."""
        made = []
        for value, values in ((self.share, self.share_values), (self.jump, self.jump_values)):
            low, high = percentile_interval(values, level=level)
            made.append(Spread(value, np.asarray(low), np.asarray(high)))
        return made[0], made[1]


def roughness(curve: Curve) -> Roughness:
    """Roughness of every label's curve."""
    # In a replicate the sampling noise of the mean is there twice.
    added_noise = curve.noise_values.mean(axis=-1) - curve.noise
    added_total = curve.total_values.mean(axis=-1) - curve.total
    noise, total = curve.noise - added_noise, curve.total - added_total
    noise_values = curve.noise_values - 2.0 * added_noise[:, None]
    total_values = curve.total_values - 2.0 * added_total[:, None]
    share, share_values = np.full(noise.shape, np.nan), np.full(noise_values.shape, np.nan)
    np.divide(noise, total, out=share, where=(total > 0) & (curve.total > 0))
    np.divide(noise_values, total_values, out=share_values, where=total_values > 0)
    reasons = tuple(
        None if known else NO_EFFECT if flat else NO_MORE_THAN_CHANCE
        for known, flat in zip(np.isfinite(share), curve.total == 0, strict=True)
    )
    return Roughness(
        share,
        share_values,
        np.sqrt(np.maximum(noise, 0.0)),
        np.sqrt(np.maximum(noise_values, 0.0)),
        reasons,
    )


def mean_roughness(members: Sequence[Roughness]) -> Roughness:
    """The mean over a model's checkpoints: averaging their curves first would smooth the noise away."""
    reasons = tuple(next((r for r in each if r), None) for each in zip(*(m.reason for m in members), strict=True))
    arrays = [np.mean(parts, axis=0) for parts in zip(*(m[:4] for m in members), strict=True)]
    return Roughness(arrays[0], arrays[1], arrays[2], arrays[3], reasons)


class Step(NamedTuple):
    """The largest change of a label between two neighbouring ages."""

    label: int
    group: int
    next_group: int
    change: float


def sharpest_step(mean: Floats, run: NDArray[np.int64]) -> list[Step]:
    """For each label, the neighbouring ages between which the mean probability [group, label] changes most."""
    steps = np.diff(mean[run], axis=0)
    where = np.abs(steps).argmax(axis=0)
    return [Step(j, int(run[k]), int(run[k + 1]), float(steps[k, j])) for j, k in enumerate(where)]
