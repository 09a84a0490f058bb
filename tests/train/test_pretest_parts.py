"""The parts of the pre-test search, each against scikit-learn or a slow obvious version."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV

from palpate.cases.cohort import Cohort
from palpate.data.cohorts.cxr import PRIOR_MARK
from palpate.errors import CohortError, ConfigError
from palpate.train.pretest.calibration import calibrate
from palpate.train.pretest.card import describe_search
from palpate.train.pretest.features import (
    CaseNotes,
    Features,
    average_notes,
    count_words,
    encode_table,
    read_notes,
    table_columns,
)
from palpate.train.pretest.grids import FOREST, XGBOOST, Setup, known_classifiers, make, setups
from palpate.train.pretest.options import FAMILIES, NOTE_MARK, PretestOptions
from palpate.train.pretest.search import Task, make_folds, scores_of, search
from tests.train.pretest_cohort import cohort

EVERY = {"bow": ["words"], "embeddings": ["enc"], "xgboost": ["words"], "tables": ["attributes"]}


def options(**given: Any) -> PretestOptions:
    return PretestOptions.model_validate({"threads": 1, "n_replicates": 0, **given})


def numbers(n: int = 300, p: int = 6, *, seed: int = 0) -> tuple[Any, Any, Any]:
    """Features, labels, patients: three cases each."""
    rng = np.random.default_rng(seed)
    x = rng.poisson(1.0, (n, p)).astype(np.float32)
    y = (rng.random(n) < 1 / (1 + np.exp(1.5 - x[:, 0] - 0.5 * x[:, 1]))).astype(np.uint8)
    return x, y, np.arange(n, dtype=np.int64) // 3


# --- features -----------------------------------------------------------------------------------------------------


def test_the_mark_is_that_of_the_cohort() -> None:
    assert NOTE_MARK == PRIOR_MARK


@settings(max_examples=30)
@given(
    st.lists(
        st.lists(st.sampled_from(["fever", "pain", "The", "x", "fever pain", "Pain, and", " "]), max_size=4),
        min_size=3,
        max_size=12,
    ),
    st.integers(1, 3),
    st.floats(0.3, 1.0),
    st.integers(1, 3),
)
def test_words_are_those_of_the_joined_notes(cases: list[list[str]], min_df: int, max_df: float, most: int) -> None:
    table = pl.DataFrame({"prior": [NOTE_MARK.join(notes) for notes in cases], "ill": [0] * len(cases)})
    notes = read_notes(Cohort.from_frame(table, labels=["ill"]), options())
    joined = [" \n ".join(part) for part in cases]
    slow = CountVectorizer(stop_words="english", min_df=min_df, max_df=max_df)
    chosen = options(min_df=min_df, max_df=max_df, min_patients=1)
    every = np.arange(len(cases))
    assert notes.present.tolist() == [any(part.strip() for part in case) for case in cases]
    try:
        expected = slow.fit_transform(joined)
    except ValueError:
        with pytest.raises(CohortError):
            count_words(notes, every, every, chosen)
        return
    found = count_words(notes, every, every, chosen)
    assert found.names is not None
    assert found.names.tolist() == slow.get_feature_names_out().tolist()
    assert (found.x != expected).nnz == 0
    fewer = count_words(notes, every, every, chosen.model_copy(update={"max_words": most}))
    often = np.asarray(expected.sum(axis=0)).ravel()
    assert fewer.x.sum() == np.sort(often)[::-1][:most].sum()


def test_the_vocabulary_comes_from_the_cases_to_learn_from() -> None:
    made = cohort()
    notes = read_notes(made, options())
    learn = np.flatnonzero((made.cases["split"] != "test").to_numpy())
    words = count_words(notes, made.patients, learn, options(max_df=1.0))
    assert words.names is not None
    assert {"fever", "chills", "cough"} <= set(words.names)
    assert not [name for name in words.names if name.startswith("named")]  # of one patient each
    other = made.cases.with_columns(
        prior=pl.when(pl.col("split") == "test").then(pl.lit("unheard unheard of")).otherwise("prior")
    )
    again = count_words(
        read_notes(Cohort(other, made.labels, made.y, made.attributes), options()),
        made.patients,
        learn,
        options(max_df=1.0),
    )
    assert again.names is not None
    assert again.names.tolist() == words.names.tolist()
    assert (again.x[learn] != words.x[learn]).nnz == 0


def test_embeddings_are_averaged_over_notes() -> None:
    has = sparse.csr_array(np.asarray([[1, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=np.float32))
    vectors = np.asarray([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], dtype=np.float32)
    assert average_notes(CaseNotes(["a", "b", "c"], has), vectors).x.tolist() == [
        [0.5, 0.5],
        pytest.approx([0.6, 0.8]),
        [0.0, 0.0],
    ]


def test_tables() -> None:
    made = cohort()
    learn = np.arange(200)
    found = encode_table(made, ["age", "gender"], learn)
    assert found.names is not None
    assert found.names.tolist() == ["age", "age is missing", "gender is F", "gender is M"]
    assert found.x[learn, 0].mean() == pytest.approx(0, abs=1e-6)
    assert found.x[learn, 0].std() == pytest.approx(1, abs=1e-6)
    missing = made.cases["age"].is_null().to_numpy()
    assert (found.x[:, 1] == missing).all()
    assert np.ptp(found.x[missing, 0]) == 0  # the median
    assert table_columns(made, options()) == ("age", "gender")
    with pytest.raises(CohortError, match=r"column 'weight': there is no such attribute.*age, gender"):
        table_columns(made, options(columns=["weight"]))
    constant = Cohort(made.cases.with_columns(age=pl.lit(3)), made.labels, made.y, made.attributes)
    with pytest.raises(CohortError, match="the same in all cases"):
        encode_table(constant, ["age"], learn)


# --- grids --------------------------------------------------------------------------------------------------------


def test_the_grids_have_the_paper_s_size() -> None:
    found = setups(EVERY, options())
    counts = {family: sum(setup.family == family for setup in found) for family in FAMILIES}
    # 3 Perceptron, 9 ridge penalties, 4, 27, 4, 9, 16; 3, 9, 4, 1, 4, 27, 4, 9, 3, 6; 60 draws; 4, 27, 60
    assert counts == {"bow": 72, "embeddings": 70, "xgboost": 60, "tables": 91}
    assert len(set(found)) == len(found)
    assert len(known_classifiers(["bow"])) == 7
    assert len(known_classifiers(["embeddings"])) == 10
    draws = [setup for setup in found if setup.family == "xgboost"]
    assert draws[:5] == [s for s in setups(EVERY, options(draws=5)) if s.family == "xgboost"]
    only = setups(EVERY, options(classifiers="LinearSVC"))
    assert {(setup.family, setup.classifier) for setup in only} == {("bow", "LinearSVC"), ("embeddings", "LinearSVC")}
    with pytest.raises(ConfigError, match=r"have no classifier 'SVM'; they have: Perceptron"):
        setups(EVERY, options(classifiers="SVM"))


GRIDS: dict[str, dict[str, dict[str, list[Any]]]] = {
    "bow": {
        "Perceptron": {"alpha": [1e-6, 1e-5, 1e-4]},
        "RidgeClassifier": {"alpha": list(np.logspace(-4, 4, 9))},
        "PassiveAggressiveClassifier": {"C": [0.001, 0.01, 0.1, 1.0]},
        FOREST: {"n_estimators": [50, 100, 200], "max_depth": [10, 20, None], "min_samples_leaf": [1, 5, 10]},
        "LinearSVC": {"C": [0.01, 0.1, 1.0, 10.0]},
        "SGDClassifier": {"alpha": [1e-6, 1e-5, 1e-4], "penalty": ["l1", "l2", "elasticnet"]},
        "DecisionTreeClassifier": {"max_depth": [5, 10, 20, None], "min_samples_leaf": [1, 5, 10, 20]},
    },
    "embeddings": {
        "Perceptron": {"alpha": [1e-5, 1e-4, 1e-3]},
        "RidgeClassifier": {"alpha": list(np.logspace(-4, 4, 9))},
        "PassiveAggressiveClassifier": {"C": [0.01, 0.1, 0.5, 1.0]},
        "GaussianNB": {},
        "LinearDiscriminantAnalysis": {"solver": ["lsqr", "eigen"], "shrinkage": [None, "auto"]},
        FOREST: {"n_estimators": [50, 100, 150], "max_depth": [None, 5, 10], "min_samples_leaf": [1, 5, 10]},
        "KNeighborsClassifier": {"n_neighbors": [3, 5, 7, 9]},
        "MLPClassifier": {"alpha": [1e-5, 1e-4, 1e-3], "hidden_layer_sizes": [(64,), (128,), (64, 32)]},
        "LinearSVC": {"C": [0.1, 1.0, 10.0]},
        "SGDClassifier": {"alpha": [1e-5, 1e-4, 1e-3], "penalty": ["l1", "l2"]},
    },
}
"""The paper's Tables A.11 and A.5."""


@pytest.mark.parametrize("family", ["bow", "embeddings"])
def test_the_grids_are_the_paper_s(family: str) -> None:
    found = setups({family: EVERY[family]}, options())
    assert {setup.classifier for setup in found} == set(GRIDS[family])
    for classifier, grid in GRIDS[family].items():
        own = [dict(setup.settings) for setup in found if setup.classifier == classifier]
        assert len(own) == np.prod([len(values) for values in grid.values()])
        assert all(set(settings) == set(grid) for settings in own)
        for name, values in grid.items():
            assert {settings[name] for settings in own} == set(values)


def test_the_base_configurations_are_the_paper_s() -> None:
    """Tables A.10 and A.4."""
    first = {setup.group[::2]: make(setup, 42).get_params() for setup in reversed(setups(EVERY, options(draws=1)))}

    def told(family: str, classifier: str, *names: str) -> list[Any]:
        return [first[family, classifier][name] for name in names]

    assert told("bow", "Perceptron", "penalty", "random_state", "max_iter", "tol") == ["l2", 42, 1000, 1e-3]
    assert told("bow", "LinearSVC", "max_iter", "random_state") == [2000, 42]
    assert told("embeddings", "LinearSVC", "max_iter", "random_state") == [1000, 42]
    assert told("bow", "SGDClassifier", "loss", "max_iter", "tol") == ["log_loss", 1000, 1e-3]
    network = ("early_stopping", "validation_fraction", "max_iter", "random_state")
    assert told("embeddings", "MLPClassifier", *network) == [True, 0.1, 300, 42]


def test_every_classifier_fits_and_tells_positives_from_negatives() -> None:
    x, y, _ = numbers()
    first: dict[tuple[str, str, str], Setup] = {}
    for setup in setups(EVERY, options(draws=1)):
        first.setdefault(setup.group, setup)
    assert len(first) == 7 + 10 + 1 + 3
    for setup in first.values():
        given = sparse.csr_matrix(x) if setup.features == "words" else x
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            score = scores_of(make(setup, 42).fit(given, y), given)
        assert score.shape == y.shape
        assert score[y == 1].mean() > score[y == 0].mean(), setup


def test_passive_aggressive_is_scikit_learn_s() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    if not hasattr(linear_model, "PassiveAggressiveClassifier"):
        pytest.skip("this scikit-learn has no such class any more")
    x, y, _ = numbers()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = linear_model.PassiveAggressiveClassifier(C=0.1, random_state=42, max_iter=1000, tol=1e-3).fit(x, y)
    ours = make(Setup("bow", "words", "PassiveAggressiveClassifier", (("C", 0.1),)), 42).fit(x, y)
    np.testing.assert_allclose(scores_of(ours, x), theirs.decision_function(x))


# --- choice -------------------------------------------------------------------------------------------------------


def test_folds_keep_patients_together() -> None:
    _, y, patients = numbers()
    fold = make_folds(y, patients, 5, 42)
    assert all(len(set(fold[patients == patient])) == 1 for patient in np.unique(patients))
    share = [y[fold == k].mean() for k in range(5)]
    assert max(share) - min(share) < 0.05


@pytest.mark.parametrize("classifier", ["LinearSVC", FOREST, "DecisionTreeClassifier"])
def test_the_full_search_is_a_grid_search(classifier: str) -> None:
    x, y, patients = numbers(150)
    own = options(search="full", classifiers=classifier)
    candidates = setups({"bow": ["words"]}, own)
    if classifier == FOREST:
        # Two sizes of one forest, which are grown as one.
        same = (("max_depth", 10), ("min_samples_leaf", 10))
        candidates = [setup for setup in candidates if setup.settings[1:] == same][:2]
    fold = make_folds(y, patients, 5, 42)
    found = search(Task({"words": Features(x)}, y, fold), candidates, own, lambda *_: None)
    grid = {
        name: sorted({dict(s.settings)[name] for s in candidates}, key=str) for name in dict(candidates[0].settings)
    }
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(5)]
    slow = GridSearchCV(make(candidates[0], 42), grid, scoring="roc_auc", cv=splits, refit=False).fit(x, y)
    expected = {
        tuple(sorted(params.items(), key=str)): score
        for params, score in zip(slow.cv_results_["params"], slow.cv_results_["mean_test_score"], strict=True)
    }
    assert len(found.tried) == len(expected)
    for tried in found.tried:
        assert tried.mean == pytest.approx(expected[tuple(sorted(tried.setup.settings, key=str))], abs=1e-12)
    assert found.best.mean == pytest.approx(slow.best_score_, abs=1e-12)


def test_halving_gives_most_up_and_keeps_one_of_each() -> None:
    x, y, patients = numbers()
    cheap = ["Perceptron", "RidgeClassifier", "LinearSVC", "DecisionTreeClassifier", XGBOOST]
    own = options(draws=4, search_rows=100, classifiers=cheap)
    candidates = setups({"bow": ["words"], "xgboost": ["words"]}, own)
    calls: list[tuple[int, int, int]] = []
    task = Task({"words": Features(sparse.csr_matrix(x))}, y, make_folds(y, patients, 5, 42))
    found = search(task, candidates, own, lambda *told: calls.append(told))
    n_folds = np.asarray([np.isfinite(tried.auroc).sum() for tried in found.tried])
    assert len(found.tried) == 36
    assert (n_folds >= 1).all()
    assert 12 <= (n_folds >= 3).sum() <= 17
    assert 4 <= (n_folds == 5).sum() <= 9
    assert {tried.setup.classifier for tried in found.tried if tried.finished} == set(cheap)
    assert found.best.mean == max(tried.mean for tried in found.tried if tried.finished)
    assert [call[0] for call in calls if call[1] == call[2]] == [0, 1, 2]
    again = search(task, candidates, own.model_copy(update={"threads": 2}), lambda *_: None)
    assert [one.setup for one in again.tried] == [one.setup for one in found.tried]
    assert all(np.array_equal(a.auroc, b.auroc, equal_nan=True) for a, b in zip(again.tried, found.tried, strict=True))


def discriminants(n_columns: int, *, seed: int = 0) -> tuple[Task, list[Setup]]:
    """300 cases and the linear discriminants of the embeddings' grid; one of them needs more cases than columns."""
    rng = np.random.default_rng(seed)
    _, y, patients = numbers()
    x = rng.normal(size=(300, n_columns)).astype(np.float32)
    x[:, 0] += y
    candidates = setups({"embeddings": ["enc"]}, options(classifiers="LinearDiscriminantAnalysis"))
    return Task({"enc": Features(x)}, y, make_folds(y, patients, 5, 42)), candidates


@pytest.mark.parametrize("kind", ["full", "halving"])
def test_a_setting_that_can_t_be_fitted_loses(kind: str) -> None:
    """A singular matrix ended the whole training."""
    task, candidates = discriminants(400)
    found = search(task, candidates, options(search=kind), lambda *_: None)
    (lost,) = (tried for tried in found.tried if not np.isfinite(tried.auroc).any())
    assert dict(lost.setup.settings) == {"solver": "eigen", "shrinkage": None}
    assert found.tried[-1] is lost
    assert found.best.finished
    assert describe_search(found)["n_not_fitted"] == 1
    nothing = search(task, [lost.setup], options(search=kind), lambda *_: None)
    assert not nothing.best.finished


def test_a_rare_label_keeps_its_positives() -> None:
    from palpate.train.pretest.search import _training_rows

    y = np.zeros(5000, dtype=np.uint8)
    y[::100] = 1
    task = Task({}, y, np.arange(5000, dtype=np.int64) % 5)
    rows = _training_rows(task, 0, options(search_rows=400))
    assert len(rows) == len(set(rows)) == 400
    assert y[rows].sum() == y[task.fold != 0].sum()
    assert not (task.fold[rows] == 0).any()


# --- calibration --------------------------------------------------------------------------------------------------

SVC = Setup("bow", "words", "LinearSVC", (("C", 0.1),))
GROVE = Setup("bow", "words", FOREST, (("n_estimators", 20), ("max_depth", 4), ("min_samples_leaf", 5)))


@pytest.mark.parametrize("setup", [SVC, GROVE])
@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_like_calibrated_classifier_cv(setup: Setup, method: str) -> None:
    x, y, patients = numbers(400)
    fold = make_folds(y, patients, 5, 42)
    new, _, _ = numbers(50, seed=1)
    made = calibrate(setup, x, new, y, fold, options(calibration=method), lambda *_: None)
    splits = [
        (np.flatnonzero(~np.isin(fold, pair)), np.flatnonzero(np.isin(fold, pair)))
        for pair in ((k, (k + 1) % 5) for k in range(5))
    ]
    name = "sigmoid" if method == "platt" else method
    theirs = CalibratedClassifierCV(make(setup, 42), method=name, cv=splits, ensemble=True).fit(x, y)
    np.testing.assert_allclose(made.p_rest, theirs.predict_proba(new)[:, 1], atol=2e-4)
    assert ((made.p_learn >= 0) & (made.p_learn <= 1)).all()


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_nothing_of_a_fold_is_in_its_probabilities(method: str) -> None:
    """Neither fit nor calibration: other labels in a fold leave the probabilities of that fold as they were."""
    x, y, patients = numbers(200)
    fold = make_folds(y, patients, 5, 42)
    own = options(calibration=method)
    before = calibrate(SVC, x, x[:0], y, fold, own, lambda *_: None).p_learn
    for k in range(5):
        wrong = np.where(fold == k, 1 - y, y).astype(np.uint8)
        after = calibrate(SVC, x, x[:0], wrong, fold, own, lambda *_: None).p_learn
        assert np.array_equal(after[fold == k], before[fold == k])
        assert not np.array_equal(after[fold != k], before[fold != k])


def test_weights_are_of_all_models() -> None:
    x, y, patients = numbers()
    fold = make_folds(y, patients, 5, 42)
    made = calibrate(SVC, x, x[:0], y, fold, options(), lambda *_: None)
    assert made.weight is not None
    assert np.argmax(np.abs(made.weight)) == 0
    assert np.abs(made.weight).sum() <= 1 + 1e-9
    nearest = Setup("embeddings", "enc", "KNeighborsClassifier", (("n_neighbors", 5),))
    assert calibrate(nearest, x, x[:0], y, fold, options(), lambda *_: None).weight is None


def test_constant_scores_give_the_prevalence() -> None:
    _, y, patients = numbers(200)
    fold = make_folds(y, patients, 5, 42)
    made = calibrate(SVC, np.ones((200, 1), dtype=np.float32), np.ones((3, 1)), y, fold, options(), lambda *_: None)
    assert made.p_rest == pytest.approx(y.mean(), abs=0.02)


# --- encoder ------------------------------------------------------------------------------------------------------


def test_embeddings_like_one_window_at_a_time(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from palpate.train.pretest.encoder import load_encoder
    from tests.models.tiny_checkpoints import checkpoint, note

    checkpoint(tmp_path, "Bert", max_length=16)
    rng = np.random.default_rng(0)
    texts = [note(rng, n) for n in (3, 40, 12, 100)]
    found = load_encoder(tmp_path, options(stride=4)).embed(texts, lambda _: None)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    network = transformers.AutoModel.from_pretrained(tmp_path).eval()
    for text, vector in zip(texts, found, strict=True):
        windows = tokenizer(text, max_length=16, truncation=True, stride=4, return_overflowing_tokens=True)["input_ids"]
        with torch.inference_mode():
            means = [network(torch.tensor([ids])).last_hidden_state[0].mean(dim=0).numpy() for ids in windows]
        slow = np.mean(means, axis=0)
        np.testing.assert_allclose(vector, slow / np.linalg.norm(slow), atol=1e-5)
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)


def test_a_forest_s_first_trees_are_the_smaller_forest() -> None:
    from palpate.train.pretest.search import _smaller

    x, y, _ = numbers(120)
    large = RandomForestClassifier(20, random_state=42).fit(x, y)
    for size, p in zip((5, 20), _smaller(large, x, [5, 20]), strict=True):
        small = RandomForestClassifier(size, random_state=42).fit(x, y)
        np.testing.assert_allclose(p, small.predict_proba(x)[:, 1], atol=1e-12)
