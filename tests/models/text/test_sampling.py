"""LIME and KernelSHAP: exact where the log-odds are a sum over words, the same whatever else is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError
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
