"""Count differences against full re-vectorising, which is slow and obvious."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from xgboost import XGBClassifier

from palpate.cases.edits import Edit, Inputs, VariantsBuilder, splice
from palpate.models.bagofwords import BagOfWordsModel, estimator_model
from palpate.models.bagofwords.counts import WordCounts
from palpate.models.bagofwords.token_patterns import is_local
from palpate.models.classes import ClassOptions
from palpate.models.estimators import EstimatorModel

NOTES = [
    "The patient has no chest-pain, no fever; BP 120/80. a b I am ok",
    "chest pain and fever in the patient\nseen by Dr. Müller ΣΑΣ naïve café",
    "fever fever fever! pain? the the no no İstanbul ß x-ray",
    "no pain no fever no chest-pain the patient is well café ﬁne ½ dose",
]
Y = [0, 1, 0, 1]
VECTORIZERS: dict[str, dict[str, Any]] = {
    "words": {},
    "bigrams": {"ngram_range": (1, 2)},
    "trigrams": {"ngram_range": (1, 3)},
    "only-bigrams": {"ngram_range": (2, 2)},
    "binary": {"binary": True},
    "stop-words": {"stop_words": "english", "ngram_range": (1, 2)},
    "accents": {"strip_accents": "unicode", "ngram_range": (1, 2)},
    "ascii": {"strip_accents": "ascii"},
    "as-written": {"lowercase": False},
    "short-words": {"token_pattern": r"(?u)\b\w+\b", "ngram_range": (1, 2)},
    "non-blanks": {"token_pattern": r"\S+"},
    "group": {"token_pattern": r"\b(\w+)-?\b"},
    "float32": {"dtype": np.float32, "ngram_range": (1, 2)},
}

WORDS = [
    "no",
    "fever",
    "pain",
    "chest",
    "the",
    "a",
    "Σ",
    "ΑΣ",
    "café",
    "cafe\u0301",
    "İ",
    "x",
    "patient",
    "ﬁ",
    "¨",
]
BLANK = [
    " ",
    "  ",
    "\n",
    "\t",
    "\r\n",
    "\u00a0",
    "\u2028",
    "\x85",
    "\u1680",
    "\x1c",
    "",
    "-",
    ".",
    ", ",
    "'",
    "\u0301",
]
text_parts = st.lists(st.sampled_from(WORDS + BLANK + ["NO", "Pain", "120", "😀", "\ud800"]), max_size=14)
texts = st.one_of(text_parts.map("".join), text_parts.map(" ".join))


@st.composite
def edited(draw: Any) -> tuple[str, list[Edit]]:
    """A text and edits of it: anywhere, adjacent, empty, joining words."""
    text = draw(texts)
    n_edits = draw(st.integers(0, 4))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), min_size=2 * n_edits, max_size=2 * n_edits)))
    words = draw(st.lists(texts | st.sampled_from(WORDS) | st.just(""), min_size=n_edits, max_size=n_edits))
    return text, [Edit(cuts[2 * k], cuts[2 * k + 1], words[k]) for k in range(n_edits)]


def as_inputs(cases: list[tuple[str, list[Edit]]]) -> Inputs:
    """Each case's parent once, and its edits."""
    builder = VariantsBuilder(n_cases=len(cases))
    for row, (_, edits) in enumerate(cases):
        builder.add(row, "edited", edits)
    variants = builder.build()
    return Inputs(
        parent=variants.parent,
        first_edit=variants.first_edit,
        start=variants.start,
        end=variants.end,
        replacement=variants.replacement,
        replacements=variants.replacements,
        parents=[text for text, _ in cases],
        case_ids=[str(k) for k in range(len(cases))],
        cohorts=[""] * len(cases),
    )


def counted(vectorizer: Any, inputs: Inputs) -> Any:
    words, rows = WordCounts(vectorizer), np.arange(len(inputs))
    return words.matrix(words.count(inputs, rows), rows)


def model_of(pipeline: Pipeline) -> EstimatorModel:
    return estimator_model(pipeline, ClassOptions(), fingerprint="f", file=Path("model.skops"))


@pytest.mark.parametrize("name", VECTORIZERS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cases=st.lists(edited(), min_size=1, max_size=4))
@example(cases=[("no pain", [Edit(2, 3, "")])])
@example(cases=[("no pain", [Edit(0, 2, "a"), Edit(2, 2, "b")])])
@example(cases=[("fever  pain", [Edit(0, 6, "no "), Edit(6, 6, "chest")])])
@example(cases=[("no the pain the fever", [Edit(0, 2, ""), Edit(16, 21, "")])])
@example(cases=[("no pain no fever chest pain", [Edit(3, 7, ""), Edit(11, 16, "a pain")])])
@example(cases=[("", [Edit(0, 0, "fever")])])
@example(cases=[("no-pain fever-chest", [Edit(3, 7, "fever"), Edit(8, 13, "no")])])
@example(cases=[("no ΑΣ", [Edit(5, 5, "Α")]), ("Σ", [Edit(0, 0, "Α")])])
@example(cases=[("fever\u2028pain", [Edit(0, 5, "no")]), ("no\u0301 pain", [Edit(2, 3, "")])])
def test_counts_are_those_of_the_whole_text(name: str, cases: list[tuple[str, list[Edit]]]) -> None:
    # "no pain" is a document of its own, so that n-grams of short texts are in the vocabulary.
    options = VECTORIZERS[name]
    spliced = [splice(text, edits) for text, edits in cases]
    vectorizer = CountVectorizer(**options).fit([*NOTES, "no pain", *spliced])
    ours, theirs = counted(vectorizer, as_inputs(cases)), vectorizer.transform(spliced)
    assert np.array_equal(ours.indptr, theirs.indptr)
    assert np.array_equal(ours.indices, theirs.indices)
    assert np.array_equal(ours.data, theirs.data)
    assert ours.dtype == theirs.dtype


PIPELINES = {
    "tfidf-linear": lambda: make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression()),
    "sublinear": lambda: make_pipeline(TfidfVectorizer(sublinear_tf=True, norm="l1"), LogisticRegression()),
    "no-idf": lambda: make_pipeline(TfidfVectorizer(use_idf=False, norm=None), LogisticRegression()),
    "count-tfidf-svd": lambda: make_pipeline(
        CountVectorizer(), TfidfTransformer(), TruncatedSVD(3, random_state=0), LogisticRegression()
    ),
    "count-xgboost": lambda: make_pipeline(CountVectorizer(), XGBClassifier(n_estimators=5, min_child_weight=0)),
    "tfidf-xgboost": lambda: make_pipeline(TfidfVectorizer(), XGBClassifier(n_estimators=5, min_child_weight=0)),
}


@pytest.mark.parametrize("name", PIPELINES)
@settings(max_examples=15, deadline=None)
@given(cases=st.lists(edited(), min_size=1, max_size=5))
def test_probabilities_are_those_of_the_whole_text(name: str, cases: list[tuple[str, list[Edit]]]) -> None:
    model = _fitted(name)
    spliced = [splice(text, edits) for text, edits in cases]
    assert isinstance(model, BagOfWordsModel)
    expected = model._estimator.predict_proba(spliced)[:, 1:]
    np.testing.assert_allclose(model.predict(as_inputs(cases)), expected, rtol=0, atol=1e-12)


_models: dict[str, EstimatorModel] = {}


def _fitted(name: str) -> EstimatorModel:
    if name not in _models:
        _models[name] = model_of(PIPELINES[name]().fit(NOTES * 5, Y * 5))
    return _models[name]


def test_a_word_that_goes_to_zero_is_missing_and_not_zero() -> None:
    inputs = as_inputs([(NOTES[2], [Edit(0, 5, "pain")]), ("fever", [Edit(0, 5, "pain")])])
    rows = counted(CountVectorizer().fit(NOTES), inputs)
    assert np.all(rows.data > 0)
    assert rows[[1]].nnz == 1


def test_many_edits_of_one_parent_are_read_once_and_equal_ones_are_scored_once(monkeypatch: Any) -> None:
    model = _fitted("count-tfidf-svd")
    asked: list[int] = []
    ask = model._ask
    monkeypatch.setattr(model, "_ask", lambda est, rows: asked.append(rows.shape[0]) or ask(est, rows))
    parent = NOTES[1]
    row = Inputs.from_texts([parent])
    many = Inputs(
        parent=np.zeros(6, dtype=np.int64),
        first_edit=np.arange(7),
        start=np.zeros(6, dtype=np.int64),
        end=np.full(6, 5),
        replacement=np.array([0, 1, 0, 1, 2, 2]),
        replacements=["unheardof", "fever", "alsounknown"],
        parents=row.parents,
        case_ids=["c"] * 6,
        cohorts=[""] * 6,
    )
    p = model.predict(many)
    assert asked == [2]
    np.testing.assert_allclose(p, model._estimator.predict_proba(many.texts)[:, 1:], atol=1e-12, rtol=0)


def test_texts_are_not_spliced(monkeypatch: Any) -> None:
    inputs = as_inputs([(NOTES[0], [Edit(4, 11, "man")])])
    _fitted("tfidf-linear").predict(inputs)
    assert "texts" not in vars(inputs)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?u)\b\w\w+\b",
        r"\w+",
        r"\S+",
        r"[^\s,.]+",
        r"(?i)[a-z]{2,}",
        r"\b(\w+)-?\b",
        r"\d+|[A-Z]+",
        r"(?:ab)+?c",
    ],
)
def test_patterns_that_stay_between_blanks(pattern: str) -> None:
    assert is_local(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r".+",
        r"\w*",
        r"\w+ \w+",
        r"\w+\s?",
        r"^\w+",
        r"\w+$",
        r"(?<=no )\w+",
        r"\w+(?= of)",
        r"[^,]+",
        r"\W+",
        r"\B\w",
        r"[\x00-z]+",
        r"(",
        r"\w+\n",
        r"(\w)\1",
    ],
)
def test_patterns_that_might_not(pattern: str) -> None:
    assert not is_local(pattern)


@pytest.mark.parametrize(
    "vectorizer",
    [
        TfidfVectorizer(analyzer="char"),
        TfidfVectorizer(tokenizer=str.split, token_pattern=None),
        TfidfVectorizer(preprocessor=str.upper),
        TfidfVectorizer(token_pattern=r"\w+(?: \w+)?"),
        TfidfVectorizer(strip_accents=str.title),
    ],
)
def test_other_vectorizers_read_plain_texts(vectorizer: Any) -> None:
    model = model_of(make_pipeline(vectorizer, LogisticRegression()).fit(NOTES, Y))
    assert not model.uses_edits
    inputs = as_inputs([(NOTES[0], [Edit(4, 11, "man")])])
    assert np.array_equal(model.predict(inputs), model.predict(Inputs.from_texts(inputs.texts)))
