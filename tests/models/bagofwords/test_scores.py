"""Scores from differences against the pipeline on whole texts: every weighting, linear models and trees."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from xgboost import XGBClassifier, XGBRFClassifier

from palpate.cases.edits import Edit, Inputs, VariantsBuilder
from palpate.models import bagofwords
from palpate.models.bagofwords import BagOfWordsModel, estimator_model
from palpate.models.bagofwords.trees import Forest, forest_of
from palpate.models.classes import ClassOptions

VOCABULARY = 300
SWAPPED, SUBSTITUTES = range(5, 45, 4), (0, 7, 60, 150, 290, 299)
ENDS = np.array([" ", " ", " ", ", ", ".\n", "/"])


@cache
def notes(n: int = 150, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, VOCABULARY + 1)
    drawn = rng.choice(VOCABULARY, size=(n, 70), p=share / share.sum())
    ends = ENDS[rng.integers(0, len(ENDS), size=drawn.shape)]
    return ["".join(f"word{w}{e}" for w, e in zip(*row, strict=True)) for row in zip(drawn, ends, strict=True)]


def labels(k: int = 0) -> Any:
    """1 where a note has one of three words, with some noise."""
    rng = np.random.default_rng(k)
    has = [sum(note.count(f"word{w + k}") for w in (5, 13, 21)) for note in notes()]
    return (np.array(has) + rng.normal(0, 1, len(has)) > np.median(has)).astype(int)


def classes() -> Any:
    return labels(0) + labels(1)


def several() -> Any:
    return np.column_stack([labels(0), labels(1), labels(2)])


@cache
def swaps(n: int = 15) -> Inputs:
    """The parents as they are; the first hit of some words swapped; all hits of one word swapped."""
    builder = VariantsBuilder(n_cases=n)
    parents = notes(n, seed=1)
    for parent, text in enumerate(parents):
        builder.add(parent, "original")
        for word in SWAPPED:
            places = [k for k in range(len(text)) if text.startswith(f"word{word}", k)]
            for substitute in (f"word{w}" for w in SUBSTITUTES):
                edits = [Edit(place, place + len(f"word{word}"), substitute) for place in places]
                if edits:
                    builder.add(parent, "first", edits[:1])
                if len(edits) > 1:
                    builder.add(parent, "all", edits)
            if places:
                builder.add(parent, "gone", [Edit(places[0], places[0] + 6, "")])
                builder.add(parent, "unknown", [Edit(places[0], places[0], "never seen")])
    variants = builder.build()
    columns = ("parent", "first_edit", "start", "end", "replacement", "replacements")
    return Inputs(
        **{name: getattr(variants, name) for name in columns},
        parents=parents,
        case_ids=["c"] * len(variants),
        cohorts=[""] * len(variants),
    )


def model_of(*steps: Any, y: Any = None) -> BagOfWordsModel:
    return as_model(make_pipeline(*map(clone, steps)).fit(notes(), labels() if y is None else y))


def as_model(pipeline: Any) -> BagOfWordsModel:
    model = estimator_model(pipeline, ClassOptions(), fingerprint="f", file=Path("model.skops"))
    assert isinstance(model, BagOfWordsModel)
    return model


def trees(**options: Any) -> XGBClassifier:
    given = {"n_estimators": 40, "max_depth": 4, "min_child_weight": 0, "n_jobs": 1, "random_state": 0} | options
    return XGBClassifier(**given)


def from_whole_texts(model: BagOfWordsModel, inputs: Inputs) -> Any:
    return model._ask(model._estimator, inputs.texts)


WEIGHTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "2-grams": {"ngram_range": (1, 2)},
    "only 2-grams": {"ngram_range": (2, 2)},
    "3-grams": {"ngram_range": (1, 3)},
    "sublinear": {"sublinear_tf": True},
    "no idf": {"use_idf": False},
    "idf not smooth": {"smooth_idf": False, "ngram_range": (1, 2)},
    "l1": {"norm": "l1"},
    "no norm": {"norm": None, "sublinear_tf": True},
    "binary": {"binary": True, "norm": "l1"},
    "all": {"ngram_range": (1, 2), "sublinear_tf": True, "use_idf": False, "norm": "l1"},
    "few words": {"vocabulary": ["word5", "word7", "word13 word0", "word21", "word0"], "ngram_range": (1, 2)},
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_trees_give_the_very_bits_of_whole_texts(name: str) -> None:
    model = model_of(TfidfVectorizer(**WEIGHTS[name]), trees())
    assert model.scores_differences
    assert np.array_equal(model.predict(swaps()), from_whole_texts(model, swaps()))


@pytest.mark.parametrize("name", WEIGHTS)
def test_linear_models_give_the_very_bits_of_whole_texts(name: str) -> None:
    model = model_of(TfidfVectorizer(**WEIGHTS[name]), LogisticRegression(C=100))
    assert model.scores_differences
    assert np.array_equal(model.predict(swaps()), from_whole_texts(model, swaps()))


def test_there_are_swaps_that_change_a_score_by_the_norm_alone() -> None:
    # Otherwise the tests above would not see whether intervals of norms are right.
    model, inputs = model_of(TfidfVectorizer(), trees()), swaps()
    used = forest_of(model._estimator[-1], model._words.n_columns).trees.column_slot >= 0  # type: ignore[union-attr]
    order = np.argsort(inputs.parent, kind="stable")
    counted = model._words.count(inputs, order)
    p = model.predict(inputs)[order, 0]
    spans = [slice(counted.row_start[k], counted.row_start[k] + counted.row_n[k]) for k in range(len(order))]
    unused = np.array([not used[counted.row_column[span]].any() for span in spans])
    parent = p[counted.first_row[:-1]][counted.owner]
    assert np.count_nonzero(unused & (p != parent)) > 10
    assert np.count_nonzero(~unused & (p == parent)) > 10


OTHER_ELIGIBLE: dict[str, Callable[[], BagOfWordsModel]] = {
    "counts": lambda: model_of(CountVectorizer(), trees()),
    "binary counts": lambda: model_of(CountVectorizer(binary=True), LogisticRegression()),
    "float counts": lambda: model_of(CountVectorizer(dtype=np.float64), LogisticRegression()),
    "counts, then tf-idf": lambda: model_of(CountVectorizer(), TfidfTransformer(), trees()),
    "counts, then tf-idf, linear": lambda: model_of(CountVectorizer(), TfidfTransformer(), LogisticRegression()),
    "multinomial": lambda: model_of(TfidfVectorizer(), LogisticRegression(), y=classes()),
    "one against the rest": lambda: model_of(TfidfVectorizer(), OneVsRestClassifier(LogisticRegression()), y=classes()),
    "labels": lambda: model_of(TfidfVectorizer(), OneVsRestClassifier(LogisticRegression()), y=several()),
    "outputs": lambda: model_of(TfidfVectorizer(), MultiOutputClassifier(LogisticRegression()), y=several()),
    "liblinear": lambda: model_of(TfidfVectorizer(), LogisticRegression(solver="liblinear")),
    "no intercept": lambda: model_of(TfidfVectorizer(), LogisticRegression(fit_intercept=False)),
    "trees a label": lambda: model_of(TfidfVectorizer(), MultiOutputClassifier(trees()), y=several()),
    "base score": lambda: model_of(TfidfVectorizer(), trees(base_score=0.40666667)),
    "parallel trees": lambda: model_of(TfidfVectorizer(), trees(num_parallel_tree=3, subsample=0.5)),
    "deep and lossguided": lambda: model_of(
        TfidfVectorizer(), trees(max_depth=0, max_leaves=40, grow_policy="lossguide")
    ),
    "exact": lambda: model_of(TfidfVectorizer(), trees(tree_method="exact", colsample_bytree=0.3)),
    "stumps": lambda: model_of(TfidfVectorizer(), trees(max_depth=1)),
    "no splits": lambda: model_of(TfidfVectorizer(), trees(min_child_weight=1e6)),
    "many": lambda: model_of(TfidfVectorizer(), trees(n_estimators=300, learning_rate=0.9)),
}


@pytest.mark.parametrize("name", OTHER_ELIGIBLE)
def test_other_models_that_are_scored_from_differences(name: str) -> None:
    model = OTHER_ELIGIBLE[name]()
    assert model.scores_differences
    ours, theirs = model.predict(swaps()), from_whole_texts(model, swaps())
    assert np.array_equal(ours, theirs)


def test_early_stopping_and_a_saved_booster(tmp_path: Path) -> None:
    vectorizer = TfidfVectorizer().fit(notes())
    x, y = vectorizer.transform(notes()), labels()
    stopped = trees(n_estimators=200, early_stopping_rounds=2, num_parallel_tree=2)
    stopped.fit(x[:100], y[:100], eval_set=[(x[100:], y[100:])], verbose=False)
    assert stopped.best_iteration + 1 < stopped.get_booster().num_boosted_rounds()
    stopped.save_model(tmp_path / "booster.json")
    read = XGBClassifier()
    read.load_model(tmp_path / "booster.json")
    for classifier in (stopped, read):
        model = as_model(make_pipeline(vectorizer, classifier))
        assert model.scores_differences
        assert np.array_equal(model.predict(swaps()), stopped.predict_proba(vectorizer.transform(swaps().texts))[:, 1:])


class Mine(LogisticRegression):
    def decision_function(self, X: Any) -> Any:
        return 2 * super().decision_function(X)


def sparsified() -> BagOfWordsModel:
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(notes(), labels())
    pipeline[-1].sparsify()
    return as_model(pipeline)


def negative_idf() -> BagOfWordsModel:
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(notes(), labels())
    pipeline[0].idf_ = -pipeline[0].idf_
    return as_model(pipeline)


NOT_ELIGIBLE: dict[str, Callable[[], BagOfWordsModel]] = {
    "calibrated": lambda: model_of(TfidfVectorizer(), CalibratedClassifierCV(LogisticRegression())),
    "a subclass": lambda: model_of(TfidfVectorizer(), Mine()),
    "cross-validated": lambda: model_of(TfidfVectorizer(), LogisticRegressionCV(cv=2, Cs=2)),
    "sgd": lambda: model_of(TfidfVectorizer(), SGDClassifier(loss="log_loss", random_state=0)),
    "naive Bayes": lambda: model_of(TfidfVectorizer(), MultinomialNB()),
    "float32": lambda: model_of(TfidfVectorizer(dtype=np.float32), LogisticRegression()),
    "scaled": lambda: model_of(TfidfVectorizer(), MaxAbsScaler(), LogisticRegression()),
    "weighed twice": lambda: model_of(TfidfVectorizer(), TfidfTransformer(), LogisticRegression()),
    "a chain": lambda: model_of(TfidfVectorizer(), ClassifierChain(LogisticRegression()), y=several()),
    "a random forest": lambda: model_of(TfidfVectorizer(), XGBRFClassifier(n_estimators=3, n_jobs=1)),
    "three classes": lambda: model_of(TfidfVectorizer(), trees(n_estimators=3), y=classes()),
    "several targets": lambda: model_of(TfidfVectorizer(), trees(n_estimators=3), y=several()),
    "dart": lambda: model_of(TfidfVectorizer(), trees(n_estimators=3, booster="dart")),
    "linear booster": lambda: model_of(TfidfVectorizer(), trees(n_estimators=3, booster="gblinear")),
    "zeros are missing": lambda: model_of(TfidfVectorizer(), trees(n_estimators=3, missing=0.0)),
    "a label that all have": lambda: model_of(
        TfidfVectorizer(), OneVsRestClassifier(LogisticRegression()), y=several() | np.array([1, 0, 0])
    ),
    "sparse coefficients": sparsified,
    "negative weights": negative_idf,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NOT_ELIGIBLE)
def test_all_else_goes_through_the_pipeline(name: str) -> None:
    model = NOT_ELIGIBLE[name]()
    assert not model.scores_differences
    inputs = swaps().take(np.arange(200))
    np.testing.assert_allclose(model.predict(inputs), from_whole_texts(model, inputs), rtol=0, atol=1e-6)


def test_a_disagreement_at_load_leaves_it_to_the_pipeline(monkeypatch: Any) -> None:
    def off(classifier: Any, n_columns: int) -> Forest | None:
        forest = forest_of(classifier, n_columns)
        assert forest is not None
        return Forest(forest.trees._replace(base=forest.trees.base + np.float32(1e-4)))

    monkeypatch.setattr(bagofwords, "forest_of", off)
    model = model_of(TfidfVectorizer(), trees())
    assert not model.scores_differences
    assert np.array_equal(model.predict(swaps()), from_whole_texts(model, swaps()))


@pytest.mark.parametrize("classifier", [trees(), LogisticRegression()])
@pytest.mark.parametrize("ngrams", [(1, 1), (1, 2)])
def test_answers_do_not_depend_on_how_rows_are_cut_and_ordered(classifier: Any, ngrams: tuple[int, int]) -> None:
    model = model_of(TfidfVectorizer(ngram_range=ngrams), classifier)
    inputs = swaps()
    n = len(inputs)
    whole = model.predict(inputs)
    mixed = np.random.default_rng(0).permutation(n)
    assert np.array_equal(model.predict(inputs.take(mixed)), whole[mixed])
    for size in (1, 17, 500):
        rows = range(0, n if size > 1 else 200, size)
        cut = [model.predict(inputs.take(np.arange(k, min(k + size, n)))) for k in rows]
        assert np.array_equal(np.concatenate(cut), whole[: sum(map(len, cut))])


@pytest.mark.parametrize("classifier", [trees(), LogisticRegression()])
def test_answers_do_not_depend_on_parents_threads_and_what_is_remembered(classifier: Any, monkeypatch: Any) -> None:
    model, inputs = model_of(TfidfVectorizer(ngram_range=(1, 2)), classifier), swaps()
    whole = model.predict(inputs)
    assert np.array_equal(model.predict(Inputs.from_texts(inputs.texts)), whole)
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        assert np.array_equal(model.predict(inputs), whole)
    finally:
        numba.set_num_threads(before)
    monkeypatch.setattr("palpate.models.bagofwords.counts.CACHE_SIZE", 0)
    monkeypatch.setattr(bagofwords, "BLOCK_PARENTS", 3)
    assert np.array_equal(model.predict(inputs), whole)
    assert np.array_equal(model.predict(inputs), whole)


def test_a_word_that_the_model_does_not_know_changes_nothing_at_all() -> None:
    for classifier in (trees(), LogisticRegression()):
        model = model_of(TfidfVectorizer(), classifier)
        text = notes()[0] + " unheard of"
        builder = VariantsBuilder(n_cases=1)
        builder.add(0, "as it is")
        builder.add(0, "swapped", [Edit(len(text) - 2, len(text), "somethingelse")])
        variants = builder.build()
        columns = ("parent", "first_edit", "start", "end", "replacement", "replacements")
        given = {name: getattr(variants, name) for name in columns}
        p = model.predict(Inputs(**given, parents=[text], case_ids=["c", "c"], cohorts=["", ""]))
        assert p[0] == p[1]


def test_only_answers_that_cost_something_are_remembered() -> None:
    assert not model_of(TfidfVectorizer(), LogisticRegression()).cached
    assert model_of(TfidfVectorizer(), MultinomialNB()).cached


def test_no_rows_and_empty_texts() -> None:
    for classifier in (trees(), LogisticRegression()):
        model = model_of(TfidfVectorizer(), classifier)
        assert model.predict(Inputs.from_texts([])).shape == (0, 1)
        empty = Inputs.from_texts(["", "  ", "unknown words"])
        assert np.array_equal(model.predict(empty), from_whole_texts(model, empty))
