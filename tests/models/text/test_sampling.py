"""LIME and KernelSHAP: exact where the log-odds are a sum over words, the same whatever else is asked."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import factorial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError
from palpate.models import Model, Probabilities
from palpate.models.text.sampling import explain_by_sampling
from palpate.results import SAMPLED, Asked
from palpate.testing import CountingModel, KeywordModel
from tests.audits.evidence.evidence_charts import audit, charts, knower, quick, value

pytest.importorskip("captum")
TEXTS = ["Fever and chills, no cough today; fever again.", "", "cough", "...", "the patient walks"]
WEIGHTS = {"fever": 1.5, "chills": 0.75, "cough": -1.0}


def found(model: Any, pairs: list[tuple[int, int]], way: str) -> dict[tuple[int, int], dict[str, list[float]]]:
    asked = Asked(*(np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True)))
    out: dict[tuple[int, int], dict[str, list[float]]] = {}
    for row, label, start, end, score in zip(
        *explain_by_sampling(model, Inputs.from_texts(TEXTS), asked, way), strict=True
    ):
        word = TEXTS[row][start:end].lower()
        out.setdefault((int(row), int(label)), {}).setdefault(word, []).append(float(score))
    return out


def test_shapley_values_of_a_sum_are_its_terms() -> None:
    model = KeywordModel(WEIGHTS, labels=("a",))
    scores = found(model, [(4, 0), (0, 0), (1, 0), (2, 0), (3, 0)], "kernel_shap")
    assert set(scores) == {(0, 0), (2, 0), (4, 0)}
    for word, values in scores[0, 0].items():
        np.testing.assert_allclose(values, WEIGHTS.get(word, 0.0), atol=1e-3)
    assert len(scores[0, 0]["fever"]) == 2
    assert scores[2, 0]["cough"] == pytest.approx([-1.0])


def test_lime_ranks_words_as_their_weights() -> None:
    scores = found(KeywordModel(WEIGHTS, labels=("a",)), [(0, 0)], "lime")[0, 0]
    means = {word: float(np.mean(values)) for word, values in scores.items()}
    assert sorted(means, key=means.__getitem__, reverse=True)[:2] == ["fever", "chills"]
    assert min(means, key=means.__getitem__) == "cough"
    assert means["today"] == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("way", SAMPLED)
def test_labels_share_their_copies_and_do_not_depend_on_each_other(way: str) -> None:
    model = CountingModel(KeywordModel(WEIGHTS, labels=("a", "b", "c")))
    alone = found(model, [(0, 1)], way)
    once = model.rows
    together = found(model, [(0, 2), (0, 1), (0, 0)], way)
    assert together[0, 1] == alone[0, 1]
    assert model.rows <= 2.5 * once, "a second and a third label cost nearly nothing"


@pytest.mark.parametrize("way", SAMPLED)
def test_any_model_can_be_asked(tmp_path: Path, way: str) -> None:
    cohort, gold = charts(16, n_words=25)
    result = audit(quick(gold, explain=way, faithfulness=False), cohort, tmp_path, toy=knower())
    assert result.provenance["models"]["toy"]["evidence"] == way
    assert value(result, "token_precision") == 1.0
    with pytest.raises(ConfigError, match="it can by: occlusion, lime, kernel_shap"):
        audit(quick(gold, explain="magic"), cohort, tmp_path / "no", toy=knower())


def exact_shapley(log_odds: Callable[[list[str]], float], words: list[str]) -> list[float]:
    """Over all sets of the other words."""
    n, out = len(words), []
    for i in range(n):
        total = 0.0
        for size in range(n):
            for kept in combinations([j for j in range(n) if j != i], size):
                weight = factorial(size) * factorial(n - size - 1) / factorial(n)
                with_it, without = (log_odds([words[j] for j in sorted(some)]) for some in ((*kept, i), kept))
                total += weight * (with_it - without)
        out.append(total)
    return out


class Interacting(Model):
    """Severe sepsis together is more than either word, and "no" speaks against; the size of it all can be small."""

    labels, fingerprint = ("a",), "interacting"

    def __init__(self, size: float) -> None:
        self.size = size

    def log_odds(self, words: list[str]) -> float:
        there = set(words)
        return self.size * (2 * ({"severe", "sepsis"} <= there) + ("fever" in there) - 0.5 * ("no" in there)) - 1

    def predict(self, inputs: Inputs) -> Probabilities:
        return np.array([[1 / (1 + np.exp(-self.log_odds(text.split())))] for text in inputs.texts])


@pytest.mark.parametrize("size", [1.0, 0.01])
def test_interactions_and_weak_models(size: float) -> None:
    """Shapley values are near the exact ones; LIME does not lose a model whose log-odds hardly move."""
    words = ["no", "severe", "sepsis", "and", "fever", "seen", "today"]
    model, asked = Interacting(size), Asked(np.array([0]), np.array([0]))
    exact = np.array(exact_shapley(model.log_odds, words)) / size
    for way, error in (("kernel_shap", 0.35), ("lime", 0.5)):
        found = explain_by_sampling(model, Inputs.from_texts([" ".join(words)]), asked, way)
        assert found.score / size == pytest.approx(exact, abs=error)
        assert set(np.argsort(-found.score)[:3].tolist()) == {1, 2, 4}
    still = explain_by_sampling(Interacting(0.0), Inputs.from_texts([" ".join(words)]), asked, "lime")
    assert still.score.tolist() == [0.0] * len(words)
