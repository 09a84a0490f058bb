"""Bootstrap by counts: rows are sorted once, and a replicate is a vector of multiplicities.

The resampling unit is the patient or, as in the chest X-ray context paper (Section 3.5, "stratified bootstrapping"),
the case, drawn within the classes of each label. A replicate's counts depend only on the seed, the replicate's number
and the units. So calls with the same integer `rng` and the same units use the same resamples: other subsets of rows
(`rows`), other models, other labels and pooled rows can be compared replicate by replicate.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palpate.stats import inputs as _inputs
from palpate.stats.arguments import (
    GAPS,
    METRICS,
    NOISE,
    THRESHOLD_METRICS,
    Rows,
    Unit,
    check_rows,
    resampling_units,
    value_columns,
)

_ROWS_PER_CHUNK = 4_000_000
_VALUES_PER_CHUNK = 8_000_000
_one_at_a_time = threading.Lock()
Method = Literal["resample", "auto", "influence"]
DATA = np.array([-1], np.int64)
"""The number of the replicate that is the data itself."""


class Replicates(NamedTuple):
    """Metrics on the data and on its resamples; nan where a metric is undefined."""

    metrics: tuple[str, ...]
    point: NDArray[np.float64]  # [model, metric, label]
    values: NDArray[np.float64]  # [model, metric, label, replicate]


class BootstrapOptions(NamedTuple):
    """Checked options that all bootstraps of metrics share; see `bootstrap`."""

    metrics: tuple[str, ...]
    specificity: float
    n_bins: int
    n_replicates: int
    seed: np.uint64
    method: Method = "resample"

    @property
    def n_values(self) -> int:
        """How many values a kernel has to make room for."""
        return len(METRICS) + 1 + self.n_bins

    @property
    def noisy(self) -> bool:
        """Whether the calibration gaps of the data are needed."""
        return NOISE in self.metrics


def bootstrap(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    rng: np.random.Generator | int,
    metrics: Sequence[str] = ("auroc",),
    threshold: ArrayLike | None = None,
    specificity: float = 0.95,
    n_bins: int = 10,
    unit: Unit = "patient",
    patient: ArrayLike | None = None,
    rows: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    average: Literal["none", "macro"] = "none",
    n_replicates: int = 10_000,
    n_threads: int | None = None,
    method: Method = "resample",
) -> Replicates:
    """Metrics of every model and label, on the data and on each bootstrap replicate.

    y_true is [n] or [n, labels] of 0 and 1; y_score is [n], [n, labels] or [models, n, labels] ([models, n] if y_true
    is [n]). `METRICS` lists the metrics. Those in `THRESHOLD_METRICS` need `threshold`, a number, [labels] or
    [models, labels]: a row is predicted positive if its score is at least the threshold; a threshold of nan gives nan.
    `NOISE` is how far a replicate's calibration gaps are from the data's (see `error_interval`).

    unit="patient" draws as many patients as there are, with all their rows; all models, metrics and labels share one
    resample. unit="case" draws rows within each class of each label; all models and metrics share one resample.

    `rows` ([n] or [n, labels] of booleans) restricts the metrics, not the resampling. `weight` is [n] or [n, labels].
    Neither changes the resamples: for two groups of rows call twice with one integer `rng` and subtract the values.
    `rng` is a generator, from which one number is drawn, or that number: an integer below 2**64.

    average="macro" gives a label axis of length 1, the mean over labels, and never keeps the replicates of all labels
    in memory. For anything else with thousands of labels, call it on slices of labels with one integer `rng`.

    method="auto" does not resample labels that have so many rows and patients that each patient's influence tells how
    they vary (`precision.influence`); method="influence" resamples none. Two calls that share replicates must have as
    many rows.
    """
    options = check_options(metrics, specificity, n_bins, n_replicates, rng)._replace(method=method)
    if average not in ("none", "macro"):
        raise ValueError(f'average must be "none" or "macro", not {average!r}')
    checked = check_rows(
        y_true, y_score, options.metrics, threshold=threshold, unit=unit, patient=patient, rows=rows, weight=weight
    )
    with limited_threads(n_threads):
        return _macro(checked, options) if average == "macro" else _every_label(checked, options)


def resample_counts(
    *,
    rng: np.random.Generator | int,
    n_replicates: int,
    unit: Unit = "patient",
    patient: ArrayLike | None = None,
    y_true: ArrayLike | None = None,
    first: int = 0,
) -> NDArray[np.int32]:
    """How often `bootstrap` uses each row, [replicate, row], starting with replicate number `first`.

    unit="patient" needs `patient`; unit="case" needs `y_true` of one label, [n].
    """
    from palpate.stats import kernels as _draws

    positive = None if y_true is None else _inputs.binary(y_true).reshape(-1, 1)
    if unit == "case" and positive is None:
        raise ValueError('unit="case" needs y_true')
    if positive is None:
        positive = np.zeros((len(np.asarray(patient)), 1), np.bool_)
    codes, sizes = resampling_units(unit, patient, positive)
    numbers = np.arange(first, first + n_replicates, dtype=np.int64)
    with limited_threads(None):
        counts: NDArray[np.int32] = _draws.draw_matrix(seed_of(rng), numbers, sizes[0], sizes[0])
    return counts[:, codes[:, 0]]


def macro_average(values: ArrayLike, *, axis: int) -> NDArray[np.float64]:
    """The mean over the labels for which the metric is defined; nan if there are none."""
    numbers = np.asarray(values, np.float64)
    defined = ~np.isnan(numbers)
    n_defined = defined.sum(axis=axis)
    total = np.where(defined, numbers, 0.0).sum(axis=axis)
    return _quotient(total, n_defined)


def _quotient(total: NDArray[np.float64], count: NDArray[Any]) -> NDArray[np.float64]:
    out = np.full(total.shape, np.nan)
    np.divide(total, count, out=out, where=count > 0)
    return out


def check_options(
    metrics: Sequence[str], specificity: float, n_bins: int, n_replicates: int, rng: np.random.Generator | int
) -> BootstrapOptions:
    """Check the options that all bootstraps of metrics share."""
    least = _inputs.fraction(specificity, name="specificity")
    if n_bins < 1 or n_replicates < 0:
        raise ValueError("n_bins must be at least 1 and n_replicates at least 0")
    return BootstrapOptions(_known(metrics), least, n_bins, n_replicates, seed_of(rng))


def _known(metrics: Sequence[str]) -> tuple[str, ...]:
    names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    if not names or len(set(names)) < len(names):
        raise ValueError("metrics must name at least one metric, each once")
    for name in names:
        if name not in (*METRICS, NOISE):
            raise ValueError(f"unknown metric {name!r}; the metrics are {', '.join(METRICS)}")
    return names


def seed_of(rng: np.random.Generator | int) -> np.uint64:
    """The seed of all replicates: one number drawn from a generator, or the integer itself."""
    if isinstance(rng, np.random.Generator):
        return np.uint64(rng.integers(0, 2**64, dtype=np.uint64))
    if not 0 <= int(rng) < 2**64:
        raise ValueError("an integer rng must be at least 0 and below 2**64")
    return np.uint64(int(rng))


@contextmanager
def limited_threads(n_threads: int | None) -> Iterator[None]:
    """Limit numba's threads for a while. Its work queue can't be entered twice, so callers take turns."""
    import numba

    if n_threads is not None and n_threads < 1:
        raise ValueError("n_threads must be at least 1")
    with _one_at_a_time:
        before = numba.get_num_threads()
        if n_threads is not None:
            numba.set_num_threads(min(n_threads, numba.config.NUMBA_NUM_THREADS))
        try:
            yield
        finally:
            numba.set_num_threads(before)


def _chunks(rows: Rows, options: BootstrapOptions) -> Iterator[tuple[slice, Rows]]:
    """A few labels at a time, so that sorted copies and unfinished values need little memory."""
    n_models, n, n_labels = rows.score.shape
    n_values = n_models * len(options.metrics) * max(1, options.n_replicates)
    step = max(1, min(_ROWS_PER_CHUNK // (n * n_models), _VALUES_PER_CHUNK // n_values))
    for low in range(0, n_labels, step):
        part = slice(low, min(low + step, n_labels))
        yield part, _by_label(_some_labels(rows, part))


def _by_label(rows: Rows) -> Rows:
    """The same rows, with the scores of a label side by side in memory: they are sorted label by label."""
    if rows.orders is not None or rows.score.shape[2] == 1:
        return rows
    score = np.ascontiguousarray(rows.score.transpose(0, 2, 1)).transpose(0, 2, 1)
    return rows._replace(score=score, positive=np.asfortranarray(rows.positive))


def _every_label(rows: Rows, options: BootstrapOptions) -> Replicates:
    from palpate.stats.precision.moves import Settings
    from palpate.stats.precision.points import needs_no_order, point_metrics

    large = _not_resampled(rows, options)
    if large.any() and not large.all():
        return _joined(rows, options, large)
    every = options._replace(n_replicates=0) if large.any() else options
    if options.n_replicates == 0 and needs_no_order(rows):
        point = point_metrics(rows, options.metrics, Settings(options.specificity, options.n_bins))
        return Replicates(options.metrics, point, np.empty((*point.shape, 0)))
    point, values = _walked(rows, every)
    if large.any():
        from palpate.stats.precision.influence import influence_replicates

        how = Settings(options.specificity, options.n_bins)
        values = influence_replicates(
            rows, options.metrics, point, how, seed=int(options.seed), n_replicates=options.n_replicates
        )
    return Replicates(options.metrics, point, values)


def _walked(rows: Rows, options: BootstrapOptions) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Point [model, metric, label] and values [model, metric, label, replicate] of all labels."""
    n_models, _, n_labels = rows.score.shape
    shape = (n_models, len(options.metrics), n_labels)
    point, values = np.empty(shape), np.empty((*shape, options.n_replicates))
    for part, chunk in _chunks(rows, options):
        point[:, :, part], values[:, :, part] = _evaluate(chunk, options)
    return point, values


def _not_resampled(rows: Rows, options: BootstrapOptions) -> NDArray[np.bool_]:
    """The labels whose replicates come from influences."""
    from palpate.stats.precision.influence import can_stand_for_resamples

    if options.method == "resample" or options.n_replicates == 0:
        return np.zeros(rows.positive.shape[1], bool)
    if options.method == "influence":
        return np.ones(rows.positive.shape[1], bool)
    return can_stand_for_resamples(rows, options.n_replicates)


def _joined(rows: Rows, options: BootstrapOptions, large: NDArray[np.bool_]) -> Replicates:
    """Labels that are resampled beside labels that are not."""
    shape = (rows.score.shape[0], len(options.metrics), len(large))
    point, values = np.empty(shape), np.empty((*shape, options.n_replicates))
    methods: tuple[tuple[Method, NDArray[np.bool_]], ...] = (("influence", large), ("resample", ~large))
    for method, chosen in methods:
        some = _some_labels(rows, chosen)
        part = _every_label(_used_only(some) if method == "resample" else some, options._replace(method=method))
        point[:, :, chosen], values[:, :, chosen] = part.point, part.values
    return Replicates(options.metrics, point, values)


def _used_only(rows: Rows) -> Rows:
    """The rows and the patients that count for any label: the others need not be drawn."""
    keep = rows.used.any(axis=1)
    if not rows.shared or not keep.any() or keep.all():
        return rows
    known, code = np.unique(rows.unit[keep, 0], return_inverse=True)
    sizes = np.full((rows.positive.shape[1], 1), known.size, np.int64)
    return rows._replace(
        positive=rows.positive[keep],
        score=rows.score[:, keep],
        used=rows.used[keep],
        weight=None if rows.weight is None else rows.weight[keep],
        unit=np.broadcast_to(code.astype(np.uint32)[:, None], (code.size, rows.positive.shape[1])),
        sizes=sizes,
        draws=sizes,
        orders=None if rows.orders is None else {},
    )


def _some_labels(rows: Rows, part: slice | NDArray[np.bool_]) -> Rows:
    return rows._replace(
        positive=rows.positive[:, part],
        score=rows.score[:, :, part],
        threshold=rows.threshold[:, part],
        used=rows.used[:, part],
        weight=None if rows.weight is None else rows.weight[:, part],
        unit=rows.unit[:, part],
        sizes=rows.sizes[part],
        draws=rows.draws[part],
    )


def _macro(rows: Rows, options: BootstrapOptions) -> Replicates:
    shape = (rows.score.shape[0], len(options.metrics))
    total, count = np.zeros((*shape, 1 + options.n_replicates)), np.zeros((*shape, 1 + options.n_replicates))
    for _, chunk in _chunks(rows, options):
        point, values = _evaluate(chunk, options)
        both = np.concatenate([point[..., None], values], axis=-1)
        defined = ~np.isnan(both)
        total += np.where(defined, both, 0.0).sum(axis=2)
        count += defined.sum(axis=2)
    mean = _quotient(total, count)[:, :, None, :]
    return Replicates(options.metrics, mean[..., 0], mean[..., 1:])


def _evaluate(rows: Rows, options: BootstrapOptions) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Point [model, metric, label] and values [model, metric, label, replicate] of a few labels."""
    from palpate.stats import layout as _layout
    from palpate.stats.kernels import walks as _walks

    n_models, _, n_labels = rows.score.shape
    ranked = _layout.ranked(rows, options.n_bins)
    everything = np.arange(options.n_replicates, dtype=np.int64)

    def walk(names: Sequence[str], replicates: NDArray[np.int64]) -> NDArray[np.float64]:
        wanted = value_columns(names, options.n_bins)
        out = np.empty((n_labels * n_models, wanted.size, replicates.size))
        families = metric_families(names, options, weighted=rows.weight is not None)
        _walks.replicate_metrics(options.seed, replicates, ranked, families, wanted, options.n_values, out)
        return out

    if options.noisy:
        ranked.gap[:] = walk((GAPS,), DATA)[..., 0]
    point = walk(options.metrics, DATA)
    fast = "auroc" in options.metrics and options.n_replicates > 0 and _fits_lanes(rows)
    slow = [name for name in options.metrics if not (fast and name == "auroc")]
    values = np.empty((n_labels * n_models, len(options.metrics), options.n_replicates))
    if slow and options.n_replicates:
        values[:, [options.metrics.index(name) for name in slow]] = walk(slow, everything)
    if fast:
        values[:, options.metrics.index("auroc")] = _aurocs(rows, options, walk)
    shape = (n_labels, n_models, len(options.metrics))
    return (
        point.reshape(shape).transpose(1, 2, 0),
        values.reshape(*shape, options.n_replicates).transpose(1, 2, 0, 3),
    )


def gaps_of(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """[problem, bin] of the data, from [model, bin, label, 1]."""
    return values[..., 0].transpose(2, 0, 1).reshape(-1, values.shape[1])


def _fits_lanes(rows: Rows) -> bool:
    from palpate.stats.kernels.lanes import MOST_ROWS

    return rows.weight is None and rows.score.shape[1] < MOST_ROWS


def _aurocs(
    rows: Rows, options: BootstrapOptions, walk: Callable[[Sequence[str], NDArray[np.int64]], NDArray[np.float64]]
) -> NDArray[np.float64]:
    from palpate.stats import layout as _layout
    from palpate.stats.kernels import lanes as _lanes

    out = np.empty((rows.score.shape[0] * rows.score.shape[2], options.n_replicates))
    overflow = np.zeros(options.n_replicates, np.bool_)
    _lanes.replicate_aurocs(options.seed, options.n_replicates, _layout.crossed(rows), overflow, out)
    again = np.flatnonzero(overflow)
    if again.size:
        out[:, again] = walk(("auroc",), again)[:, 0]
    return out


def metric_families(names: Sequence[str], options: BootstrapOptions, *, weighted: bool) -> Any:
    """Which families of metrics the kernels have to compute for these names, with their settings."""
    from palpate.stats.kernels.walks import Families

    return Families(
        auroc="auroc" in names,
        auprc="auprc" in names,
        operating="sensitivity_at_specificity" in names,
        calibration=any(name in ("brier", "brier_skill_score", "prevalence", "mean_score") for name in names),
        adaptive=any(name in ("adaptive_calibration_error", NOISE, GAPS) for name in names),
        threshold=any(name in THRESHOLD_METRICS for name in names),
        specificity=options.specificity,
        # Sums of weights carry rounding errors, sums of counts do not.
        tolerance=1e-12 if weighted else 0.0,
    )
