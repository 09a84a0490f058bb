"""The bootstrap against the plain metrics, and against scikit-learn, on the rows that were really drawn."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from palpate import stats
from palpate.stats import METRICS, bootstrap, macro_average, resample_counts

MASK = (1 << 64) - 1
BINS, SPECIFICITY, THRESHOLD = 7, 0.8, 0.4


def plain(name, y, s, w=None):
    """A metric of the bootstrap, by the plain functions."""
    if len(y) == 0:
        return math.nan
    scores = stats.precision_recall_f1(y, s >= THRESHOLD, weight=w)
    mass = np.ones(len(y)) if w is None else w
    at = {"threshold": THRESHOLD, "weight": w}
    return {
        "auroc": lambda: stats.auroc(y, s, weight=w),
        "auprc": lambda: stats.auprc(y, s, weight=w),
        "brier": lambda: stats.brier(y, s, weight=w),
        "brier_skill_score": lambda: stats.brier_skill_score(y, s, weight=w),
        "adaptive_calibration_error": lambda: stats.adaptive_calibration_error(y, s, n_bins=BINS, weight=w),
        "sensitivity_at_specificity": lambda: stats.sensitivity_at_specificity(y, s, specificity=SPECIFICITY, weight=w),
        "sensitivity": lambda: stats.sensitivity_at_threshold(y, s, **at),
        "specificity": lambda: stats.specificity_at_threshold(y, s, **at),
        "ppv": lambda: stats.ppv(y, s, **at),
        "npv": lambda: stats.npv(y, s, **at),
        "precision_0": lambda: scores.precision[0],
        "recall_0": lambda: scores.recall[0],
        "f1_0": lambda: scores.f1[0],
        "precision_1": lambda: scores.precision[1],
        "recall_1": lambda: scores.recall[1],
        "f1_1": lambda: scores.f1[1],
        "prevalence": lambda: np.average(y, weights=mass) if mass.sum() > 0 else math.nan,
        "mean_score": lambda: np.average(s, weights=mass) if mass.sum() > 0 else math.nan,
    }[name]()


def cohort(seed, n=60, labels=3, models=2, n_patients=25):
    """Scores with and without ties; the last label is rare, so some replicates lack positives."""
    g = np.random.default_rng(seed)
    y = g.random((n, labels)) < np.linspace(0.7, 0.05, labels)
    y[0], y[1] = True, False
    s = np.clip(0.5 + 0.2 * (2 * y - 1) + g.normal(0, 0.3, (models, n, labels)), 0, 1)
    s[:, :, 0] = s[:, :, 0].round(1)
    return y.astype(int), s, g.integers(0, n_patients, n), g


def options(**more):
    return {"threshold": THRESHOLD, "specificity": SPECIFICITY, "n_bins": BINS, **more}


@pytest.mark.parametrize("unit", ["patient", "case"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("restricted", [False, True])
def test_every_replicate_equals_the_metric_of_the_rows_drawn(unit, weighted, restricted):
    y, s, patient, g = cohort(1)
    weight = g.random(y.shape).round(2) if weighted else None
    rows = g.random(y.shape) < 0.6 if restricted else None
    n = 8
    found = bootstrap(
        y,
        s,
        metrics=METRICS,
        unit=unit,
        patient=patient,
        weight=weight,
        rows=rows,
        n_replicates=n,
        rng=5,
        **options(),
    )
    assert found.metrics == METRICS
    assert found.values.shape == (2, len(METRICS), 3, n)
    n_undefined = 0
    for label in range(3):
        counts = resample_counts(rng=5, unit=unit, patient=patient, y_true=y[:, label], n_replicates=n)
        for replicate in range(-1, n):
            drawn = np.arange(60) if replicate < 0 else np.repeat(np.arange(60), counts[replicate])
            if rows is not None:
                drawn = drawn[rows[drawn, label]]
            w = None if weight is None else weight[drawn, label]
            for model in range(2):
                values = found.point if replicate < 0 else found.values[..., replicate]
                expected = [plain(name, y[drawn, label], s[model, drawn, label], w) for name in METRICS]
                np.testing.assert_allclose(values[model, :, label], expected, atol=1e-12, rtol=0)
                n_undefined += int(np.isnan(expected).any())
    if unit == "patient":
        assert n_undefined > 0, "the rare label should have been missing in some replicate"


@pytest.mark.parametrize("unit", ["patient", "case"])
def test_auroc_alone_equals_sklearn_on_larger_data(unit):
    y, s, patient, _ = cohort(2, n=3000, labels=4, models=1, n_patients=900)
    s[0, :, 1] = s[0, :, 1].round(2)
    found = bootstrap(y, s, unit=unit, patient=patient, n_replicates=150, rng=9)
    for label in range(4):
        counts = resample_counts(rng=9, unit=unit, patient=patient, y_true=y[:, label], n_replicates=150)
        for replicate in (0, 63, 64, 149):
            drawn = np.repeat(np.arange(3000), counts[replicate])
            expected = roc_auc_score(y[drawn, label], s[0, drawn, label])
            assert abs(found.values[0, 0, label, replicate] - expected) < 1e-12
            assert found.values[0, 0, label, replicate] == stats.auroc(y[drawn, label], s[0, drawn, label])


def test_auprc_with_weights_equals_sklearn():
    y, s, patient, g = cohort(3, n=400, n_patients=200)
    weight = g.random(400)
    found = bootstrap(y, s, metrics=["auprc", "auroc"], patient=patient, weight=weight, n_replicates=5, rng=1)
    counts = resample_counts(rng=1, patient=patient, n_replicates=5)
    for replicate in range(5):
        w = weight * counts[replicate]
        for model in range(2):
            ap = average_precision_score(y[:, 0], s[model, :, 0], sample_weight=w)
            auc = roc_auc_score(y[:, 0], s[model, :, 0], sample_weight=w)
            np.testing.assert_allclose(found.values[model, :, 0, replicate], [ap, auc], atol=1e-12)


@pytest.mark.parametrize("unit", ["patient", "case"])
@pytest.mark.parametrize("weighted", [False, True])
def test_threads_do_not_change_a_bit(unit, weighted):
    y, s, patient, g = cohort(4, n=500, n_patients=300)
    weight = g.random(500) if weighted else None
    one, two = (
        bootstrap(
            y, s, metrics=METRICS, unit=unit, patient=patient, weight=weight, n_replicates=200, rng=3,
            n_threads=threads, **options()
        )
        for threads in (1, 2)
    )  # fmt: skip
    assert one.values.tobytes() == two.values.tobytes()


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def slow_draws(seed, replicate, size):
    """splitmix64, two 32-bit numbers from each output (low half first), Lemire's rejection."""
    golden = 0x9E3779B97F4A7C15
    state = mix((mix((seed + golden) & MASK) + replicate * golden) & MASK)
    drawn = []
    while len(drawn) < size:
        state = (state + golden) & MASK
        z = mix(state)
        for half in (z & 0xFFFFFFFF, z >> 32):
            if (half * size) & 0xFFFFFFFF >= (1 << 32) % size and len(drawn) < size:
                drawn.append((half * size) >> 32)
    return np.bincount(drawn, minlength=size)


@pytest.mark.parametrize("size", [1, 7, 256, 1000])
def test_draws_are_the_stated_stream(size):
    counts = resample_counts(rng=MASK, patient=np.arange(size), n_replicates=3)
    for replicate in range(3):
        np.testing.assert_array_equal(counts[replicate], slow_draws(MASK, replicate, size))
    later = resample_counts(rng=MASK, patient=np.arange(size), n_replicates=1, first=2)
    np.testing.assert_array_equal(later[0], counts[2])


def test_draws_are_multinomial():
    """Totals are exact; means, variances and covariances are those of n draws from n units."""
    n, replicates = 20, 40_000
    counts = resample_counts(rng=11, patient=np.arange(n), n_replicates=replicates)
    assert (counts.sum(axis=1) == n).all()
    covariance = np.cov(counts.T)
    assert np.abs(counts.mean(axis=0) - 1).max() < 5 / math.sqrt(replicates)
    assert np.abs(np.diag(covariance) - (1 - 1 / n)).max() < 0.05
    assert np.abs(covariance[~np.eye(n, dtype=bool)] + 1 / n).max() < 0.03


def test_patients_come_with_all_their_rows_and_classes_keep_their_size():
    y, _, patient, _ = cohort(6)
    counts = resample_counts(rng=2, patient=patient, n_replicates=20)
    for name in np.unique(patient):
        assert (counts[:, patient == name] == counts[:, patient == name][:, :1]).all()
    for label in range(3):
        counts = resample_counts(rng=2, unit="case", y_true=y[:, label], n_replicates=20)
        assert (counts[:, y[:, label] == 1].sum(axis=1) == y[:, label].sum()).all()
        assert (counts.sum(axis=1) == len(y)).all()


def test_labels_models_and_chunks_share_resamples(monkeypatch):
    y, s, patient, _ = cohort(7)
    for unit in ("patient", "case"):
        keep = {"metrics": ("auroc", "brier"), "unit": unit, "patient": patient, "n_replicates": 70, "rng": 4}
        whole = bootstrap(y, s, **keep)
        np.testing.assert_array_equal(bootstrap(y[:, 1:2], s[:, :, 1:2], **keep).values, whole.values[:, :, 1:2])
        np.testing.assert_array_equal(bootstrap(y, s[1], **keep).values, whole.values[1:])
        monkeypatch.setattr(sys.modules["palpate.stats.bootstrap"], "_ROWS_PER_CHUNK", 1)
        cut = bootstrap(y, s, **keep)
        macro = bootstrap(y, s, average="macro", **keep)
        monkeypatch.undo()
        np.testing.assert_array_equal(cut.values, whole.values)
        np.testing.assert_array_equal(cut.point, whole.point)
        np.testing.assert_allclose(macro.values[:, :, 0], macro_average(whole.values, axis=2), atol=1e-12)
        np.testing.assert_allclose(macro.point[:, :, 0], macro_average(whole.point, axis=2), atol=1e-12)


def test_macro_average_skips_undefined_labels():
    np.testing.assert_allclose(macro_average([[1.0, math.nan], [3.0, math.nan]], axis=0), [2.0, math.nan])
    np.testing.assert_allclose(macro_average([[1.0, math.nan], [3.0, 4.0]], axis=0), [2.0, 4.0])


def test_groups_of_rows_are_paired():
    """With the same scores in both groups of every patient, the difference is 0 in every replicate."""
    g = np.random.default_rng(8)
    y, s, patient = g.integers(0, 2, 100), g.random(100), g.integers(0, 40, 100)
    twice = {"patient": np.tile(patient, 2), "rng": 3, "n_replicates": 50}
    first = np.arange(200) < 100
    a, b = (bootstrap(np.tile(y, 2), np.tile(s, 2), rows=rows, **twice) for rows in (first, ~first))
    np.testing.assert_array_equal(a.values, b.values)
    assert np.ptp(a.values) > 0
    alone = bootstrap(y, s, patient=patient, rng=3, n_replicates=50)
    np.testing.assert_array_equal(a.values, alone.values)


def test_micro_average_is_the_metric_of_pooled_rows():
    y, s, patient, _ = cohort(9)
    pooled = bootstrap(y.ravel(), s[0].ravel(), patient=np.repeat(patient, 3), rng=6, n_replicates=10)
    counts = resample_counts(rng=6, patient=patient, n_replicates=10)
    for replicate in range(10):
        drawn = np.repeat(np.arange(60), counts[replicate])
        expected = roc_auc_score(y[drawn].ravel(), s[0, drawn].ravel())
        assert abs(pooled.values[0, 0, 0, replicate] - expected) < 1e-12


def test_counts_above_255_are_not_wrapped():
    """Three patients drawn 2,000 times: more copies than a byte holds."""
    from palpate.stats import arguments as _rows
    from palpate.stats import kernels as _draws

    module = sys.modules["palpate.stats.bootstrap"]
    y, s, patient = np.array([0, 1, 0, 1]), np.array([0.1, 0.4, 0.3, 0.2]), np.array([0, 0, 1, 2])
    rows = _rows.check_rows(y, s, ("auroc",), threshold=None, unit="patient", patient=patient, rows=None, weight=None)
    rows = rows._replace(draws=np.array([[2000]]))
    chosen = module.BootstrapOptions(("auroc",), 0.95, 10, 40, np.uint64(1))
    _, values = module._evaluate(rows, chosen)
    counts = _draws.draw_matrix(np.uint64(1), np.arange(40), rows.sizes[0], rows.draws[0])
    assert counts.max() > 255
    for replicate in range(40):
        w = counts[replicate][patient].astype(float)
        assert values[0, 0, 0, replicate] == pytest.approx(stats.auroc(y, s, weight=w), abs=1e-12)


@pytest.mark.parametrize("kind", ["str", "object", "mixed", "float"])
def test_any_kind_of_patient_id(kind):
    y, s, patient, _ = cohort(10)
    ids = {
        "str": np.array([f"p{p:03d}" for p in patient]),
        "object": np.array([f"p{p:03d}" for p in patient], dtype=object),
        "mixed": np.array([int(p) if p % 2 else ("p", int(p)) for p in patient], dtype=object),
        "float": patient.astype(float),
    }[kind]
    counts = resample_counts(rng=1, patient=ids, n_replicates=4)
    for name in np.unique(patient):
        assert (counts[:, patient == name] == counts[:, patient == name][:, :1]).all()
    found = bootstrap(y, s, patient=ids, rng=1, n_replicates=4)
    drawn = np.repeat(np.arange(60), counts[3])
    assert found.values[0, 0, 0, 3] == stats.auroc(y[drawn, 0], s[0, drawn, 0])


def test_generators_and_integers():
    y, s, patient, _ = cohort(11)
    g = np.random.default_rng(0)
    a, b = (bootstrap(y, s, patient=patient, rng=g, n_replicates=20).values for _ in range(2))
    assert not np.array_equal(a, b)
    again = bootstrap(y, s, patient=patient, rng=np.random.default_rng(0), n_replicates=20).values
    np.testing.assert_array_equal(a, again)
    seed = int(np.random.default_rng(0).integers(0, 2**64, dtype=np.uint64))
    np.testing.assert_array_equal(a, bootstrap(y, s, patient=patient, rng=seed, n_replicates=20).values)
    longer = bootstrap(y, s, patient=patient, rng=seed, n_replicates=90).values
    np.testing.assert_array_equal(a, longer[..., :20])


def test_shapes():
    y, s, patient, _ = cohort(12)
    keep = {"patient": patient, "rng": 1, "n_replicates": 3}
    full = bootstrap(y[:, :1], s[:, :, :1], **keep).values
    assert full.shape == (2, 1, 1, 3)
    np.testing.assert_array_equal(bootstrap(y[:, 0], s[:, :, 0], **keep).values, full)
    np.testing.assert_array_equal(bootstrap(y[:, 0], s[1, :, 0], **keep).values, full[1:])
    thresholds = np.array([[0.2, 0.3, math.nan], [0.6, 0.7, 0.8]])
    found = bootstrap(y, s, metrics=("sensitivity",), threshold=thresholds, **keep).point
    for model, label in [(0, 0), (0, 1), (1, 2)]:
        t = thresholds[model, label]
        expected = stats.sensitivity_at_threshold(y[:, label], s[model, :, label], threshold=t)
        assert found[model, 0, label] == expected
    assert math.isnan(found[0, 0, 2])


def test_empty_groups_are_nan():
    y, s, patient, _ = cohort(13)
    found = bootstrap(
        y, s, metrics=METRICS, patient=patient, rows=np.zeros(60, bool), n_replicates=3, rng=1, **options()
    )
    assert np.isnan(found.values).all()
    assert np.isnan(found.point).all()
    one_class = bootstrap(np.zeros(60), s[0, :, 0], patient=patient, n_replicates=3, rng=1)
    assert np.isnan(one_class.values).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"patient": None}, "needs patient"),
        ({"patient": [1, 2]}, "patient has shape"),
        ({"patient": np.array([None] * 60, dtype=object)}, "missing"),
        ({"patient": np.full(60, math.nan)}, "missing"),
        ({"unit": "visit"}, "unit must be"),
        ({"metrics": ("accuracy",)}, "unknown metric 'accuracy'"),
        ({"metrics": ()}, "at least one metric"),
        ({"metrics": ("ppv",)}, "ppv needs a threshold"),
        ({"metrics": ("ppv",), "threshold": [0.1, 0.2]}, "threshold has shape"),
        ({"metrics": ("brier",), "y_score": np.full((60, 3), 2.0)}, r"\[0, 1\]"),
        ({"y_score": np.zeros((60, 2))}, "but y_true has"),
        ({"y_score": np.full((60, 3), math.nan)}, "finite"),
        ({"y_true": np.full((60, 3), 2)}, "0 and 1"),
        ({"weight": np.full(60, -1.0)}, "negative"),
        ({"weight": np.ones(59)}, "weight has shape"),
        ({"rows": np.ones(59, bool)}, "rows has shape"),
        ({"rng": -1}, "rng"),
        ({"n_threads": 0}, "n_threads"),
        ({"average": "micro"}, "average must be"),
        ({"n_bins": 0}, "n_bins"),
        ({"specificity": 95}, "specificity"),
    ],
)
def test_wrong_input_is_a_value_error(change, words):
    y, s, patient, _ = cohort(14)
    call = {"y_true": y, "y_score": s[0], "patient": patient, "rng": 1, "n_replicates": 2, **change}
    with pytest.raises(ValueError, match=words):
        bootstrap(call.pop("y_true"), call.pop("y_score"), **call)


def test_numba_is_imported_only_when_it_is_needed():
    code = "import sys, palpate.stats; sys.exit('numba' in sys.modules or 'sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def gaps(y, s, mass):
    """Observed less predicted in bins of equal mass, from high scores to low; scores without ties."""
    order = np.argsort(-s)
    reached = np.append(0.0, np.cumsum(mass[order]))
    amount = np.append(0.0, np.cumsum((mass * (y - s))[order]))
    edges = reached[-1] * np.arange(BINS + 1) / BINS
    return np.diff(np.interp(edges, reached, amount)) / (reached[-1] / BINS)


@pytest.mark.parametrize("weighted", [False, True])
def test_noise_is_how_far_the_bins_of_a_replicate_lie_from_those_of_the_data(weighted):
    y, s, patient, g = cohort(4)
    s = np.clip(s + g.uniform(0, 1e-6, s.shape), 0, 1)
    weight = g.uniform(0.5, 2, y.shape) if weighted else np.ones(y.shape)
    call = {"patient": patient, "n_bins": BINS, "rng": 3, "n_replicates": 6, "weight": weight if weighted else None}
    found = bootstrap(y, s, metrics=(stats.NOISE, "adaptive_calibration_error"), **call)
    assert (found.point[:, 0] == 0).all()
    for r, count in enumerate(resample_counts(rng=3, patient=patient, n_replicates=6)):
        for m, j in np.ndindex(2, 3):
            data, drawn = (gaps(y[:, j], s[m, :, j], weight[:, j] * mass) for mass in (np.ones(len(y)), count))
            assert found.values[m, 0, j, r] == pytest.approx(np.abs(drawn - data).mean(), abs=1e-12)
            assert found.values[m, 1, j, r] == pytest.approx(np.abs(drawn).mean(), abs=1e-12)


def test_groups_of_cases_are_ranked_as_by_themselves() -> None:
    """Scores that all labels share are sorted once; ties keep their order."""
    rng = np.random.default_rng(3)
    n, masks = 400, rng.random((400, 3)) < 0.5
    score = np.round(rng.random((2, n)), 1)
    y = rng.random(n) < 0.3
    shared = {
        "y_true": np.broadcast_to(y[:, None], masks.shape),
        "y_score": np.broadcast_to(score[:, :, None], (2, *masks.shape)),
    }
    copied = {name: np.ascontiguousarray(each) for name, each in shared.items()}
    options = {"patient": np.arange(n) // 2, "rows": masks, "rng": 1, "n_replicates": 40, "threshold": 0.5}
    found = [bootstrap(**each, metrics=METRICS, **options) for each in (shared, copied)]
    assert np.array_equal(found[0].point, found[1].point, equal_nan=True)
    assert np.array_equal(found[0].values, found[1].values, equal_nan=True)
