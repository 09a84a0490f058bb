"""The age curve: how much of it is noise between neighbouring ages (the paper's "73 against 74", Section 5.2).

Roughness is the share of the variance of the mean-probability curve that is noise between neighbouring ages (see
`palpate.stats.curves`): 0 for a straight line, near 0 for a smooth curve or a single step, 1 for white noise, more
where neighbours alternate. All ages hold the same notes, but a model's noise also differs from note to note. What this
adds to both variances is estimated by the bootstrap, as V = mean of the replicates less the value on the data, and
subtracted (twice in a replicate, which has it twice). So a model whose noise averages out over patients is not rough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.characteristics.arms import age_number
from palpate.cases.edits import Ints
from palpate.stats.curves import curve_variance

Floats = NDArray[np.float64]
NO_EFFECT = "the prediction does not change with age"
NO_MORE_THAN_CHANCE = "age moves the mean prediction no more than chance does"


def age_run(groups: Sequence[str]) -> Ints:
    """The longest run of equally spaced single ages (not "90+"), as indices of groups in order of age."""
    order = sorted((age_number(group), k) for k, group in enumerate(groups) if not group.endswith("+"))
    best: list[int] = []
    begin = 0
    for k in range(1, len(order) + 1):
        step = order[begin + 1][0] - order[begin][0] if begin + 1 < len(order) else 0
        if k == len(order) or (k > begin + 1 and order[k][0] - order[k - 1][0] != step):
            run = [index for _, index in order[begin:k]]
            best = run if len(run) > len(best) else best
            begin = k - 1
    return np.asarray(best, dtype=np.int64)


class AgeCurve(NamedTuple):
    """Noise and total variance of the age curve of each label: on the data, and [label, replicate]."""

    noise: Floats
    total: Floats
    noise_values: Floats
    total_values: Floats

    @classmethod
    def of(cls, point: Floats, values: Floats) -> AgeCurve:
        """From [age, label] mean probabilities (less a constant), and their replicates."""
        return cls(*curve_variance(point, axis=0), *curve_variance(values, axis=0))


class Roughness(NamedTuple):
    """For each label the share of noise, and the size of the noise as a probability, with replicates."""

    share: Floats
    share_values: Floats
    jump: Floats
    jump_values: Floats
    reason: tuple[str | None, ...]
    """Why a share is undefined."""


def roughness(curve: AgeCurve) -> Roughness:
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
    jump, jump_values = (np.sqrt(np.maximum(variance, 0.0)) for variance in (noise, noise_values))
    return Roughness(share, share_values, jump, jump_values, reasons)


def mean_roughness(members: Sequence[Roughness]) -> Roughness:
    """The mean over the members of an ensemble: averaging their curves first would smooth the noise away."""
    reasons = tuple(next((r for r in each if r), None) for each in zip(*(m.reason for m in members), strict=True))
    arrays = [np.mean(parts, axis=0) for parts in zip(*(m[:4] for m in members), strict=True)]
    return Roughness(arrays[0], arrays[1], arrays[2], arrays[3], reasons)


class AgeStep(NamedTuple):
    """The largest change between two neighbouring ages."""

    group: int
    next_group: int
    change: float


def sharpest_steps(mean: Floats, run: Ints) -> list[AgeStep]:
    """For each label, the neighbouring ages between which the mean probability [group, label] changes most."""
    steps = np.diff(mean[run], axis=0)
    where = np.abs(steps).argmax(axis=0)
    return [AgeStep(int(run[k]), int(run[k + 1]), float(steps[k, j])) for j, k in enumerate(where)]
