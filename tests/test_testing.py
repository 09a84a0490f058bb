from __future__ import annotations

import math
import pickle
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from palpate.audits.data import Data
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Inputs
from palpate.testing import CountingModel, FlakyModel, KeywordModel, NaNModel, SlowModel, run_audit

INPUTS = Inputs.from_texts(["Fever, fever! feverish", "no pain", ""], ["a", "b", "c"])


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_keywords_are_whole_words_in_any_case() -> None:
    p = KeywordModel({"fever": 0.7, "no pain": -2.0}, bias=0.1).predict(INPUTS)
    np.testing.assert_allclose(p[:, 0], [sigmoid(1.5), sigmoid(-1.9), sigmoid(0.1)], rtol=0, atol=1e-15)


def test_weights_for_each_label() -> None:
    model = KeywordModel({"fever": {"x": 1.0}, "pain": 2.0}, labels=("x", "y"))
    expected = [[sigmoid(2), 0.5], [sigmoid(2), sigmoid(2)], [0.5, 0.5]]
    np.testing.assert_allclose(model.predict(INPUTS), expected, rtol=0, atol=1e-15)
    with pytest.raises(ValueError, match="does not have"):
        KeywordModel({"fever": {"z": 1.0}})


@pytest.mark.parametrize("text", ["a fever b", "  a fever\n", "a", "", "a fever", "fever fever fever"])
def test_the_window_ends_where_it_says(text: str) -> None:
    model = KeywordModel({"fever": 1.0}, window_words=2)
    p = model.predict(Inputs.from_texts([text]))
    end = int(model.visible_ends([text])[0])
    assert p[0, 0] == sigmoid(len([word for word in text.split()[:2] if word == "fever"]))
    for at in range(end, len(text) + 1):
        for change in ("", "fever", " fever fever", "s"):
            for behind in range(at, len(text) + 1):
                assert np.array_equal(model.predict(Inputs.from_texts([text[:at] + change + text[behind:]])), p)


def test_the_window_is_as_small_as_it_can_be() -> None:
    model = KeywordModel({"fever": 1.0, "fevers": 2.0}, window_words=2)
    assert model.visible_ends(["a fever b"]).tolist() == [8]
    assert not np.array_equal(*(model.predict(Inputs.from_texts([text])) for text in ("a fever b", "a fevers b")))


def test_fingerprints_differ_with_anything_that_matters() -> None:
    models = [
        KeywordModel({"fever": 1.0}),
        KeywordModel({"fever": 2.0}),
        KeywordModel({"pain": 1.0}),
        KeywordModel({"fever": 1.0}, bias=1.0),
        KeywordModel({"fever": 1.0}, window_words=3),
        KeywordModel({"fever": 1.0}, labels=("x",)),
    ]
    assert len({model.fingerprint for model in models}) == len(models)
    copied = pickle.loads(pickle.dumps(models[0]))
    assert copied.fingerprint == models[0].fingerprint == KeywordModel({"fever": 1.0}).fingerprint


def test_counting() -> None:
    model = CountingModel(KeywordModel({"fever": 1.0}, window_words=2))
    model.predict(INPUTS)
    model.predict(INPUTS.take([0]))
    assert (model.calls, model.rows, model.rows_by_call) == (2, 4, [3, 1])
    assert model.window == "the first 2 words"
    assert model.visible_ends(["a b c"]).tolist() == [4]


def test_failing() -> None:
    chosen = FlakyModel(KeywordModel({}), fail_on=[2])
    regular = FlakyModel(KeywordModel({}), every=2)
    for model in (chosen, regular):
        model.predict(INPUTS)
        with pytest.raises(RuntimeError, match="planned failure of call 2"):
            model.predict(INPUTS)
        model.predict(INPUTS)
    chosen.predict(INPUTS)
    with pytest.raises(RuntimeError, match="call 4"):
        regular.predict(INPUTS)


def test_nan() -> None:
    by_case = NaNModel(KeywordModel({}), case_ids=["b"])
    assert np.isnan(by_case.predict(INPUTS)[:, 0]).tolist() == [False, True, False]
    regular = NaNModel(KeywordModel({}), every=2)
    assert np.isnan(regular.predict(INPUTS)[:, 0]).tolist() == [False, True, False]
    assert np.isnan(regular.predict(INPUTS)[:, 0]).tolist() == [True, False, True]


def test_slow() -> None:
    start = time.perf_counter()
    SlowModel(KeywordModel({}), seconds=0.05).predict(INPUTS)
    assert time.perf_counter() - start >= 0.05


def test_import_is_light() -> None:
    code = (
        "import sys, palpate.testing; print([m for m in ('torch', 'sklearn', 'xgboost', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_audit_is_held_to_what_it_declares(cohort: Cohort) -> None:
    """A gate is checked before a run by what an audit declares; an audit that declares nothing is left alone."""

    @dataclass(frozen=True)
    class Forgetful(Data):
        metrics: ClassVar[tuple[str, ...]] = ("known_notes",)

    model = KeywordModel({"fever": 1.0})
    with pytest.raises(ValueError, match=r"its `metrics` do not name: \['constant_labels'"):
        run_audit(Forgetful(), cohort, {"m": model})
    assert run_audit(Data(), cohort, {"m": model}).audit == "data"
