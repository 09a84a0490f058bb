"""Models of several seeds: scored one by one, and beside that one model."""

from __future__ import annotations

import numpy as np
import pytest

from palpate.kit import append_ensembles, ensemble_spread
from palpate.results import ModelPredictions, Predictions


def answers(p: float, ensemble: str | None = None, threshold: float | None = None) -> ModelPredictions:
    return ModelPredictions(("l",), np.full((3, 1), p), np.array([True, p > 0.5, False]), threshold, ensemble)


PREDICTIONS = Predictions(
    {
        "b[1]": answers(0.2, "b", 0.3),
        "solo": answers(0.9),
        "b[2]": answers(0.6, "b", 0.5),
        "c[1]": answers(0.1, "c"),
        "c[2]": answers(0.1, "c", 0.4),
    }
)


def test_ensembles_follow_the_models_that_were_scored() -> None:
    assert PREDICTIONS.names == ("b[1]", "solo", "b[2]", "c[1]", "c[2]", "b", "c") == tuple(PREDICTIONS)
    assert len(PREDICTIONS) == 7
    assert "b" in PREDICTIONS
    assert "d" not in PREDICTIONS
    assert PREDICTIONS.compared == ("solo", "b", "c")
    assert PREDICTIONS.ensembles == {"b": ("b[1]", "b[2]"), "c": ("c[1]", "c[2]")}
    assert PREDICTIONS.members("b") == ("b[1]", "b[2]")
    assert PREDICTIONS.members("solo") == ("solo",)


def test_an_ensemble_predicts_the_mean_of_its_members() -> None:
    whole = PREDICTIONS["b"]
    assert whole.p == pytest.approx(np.full((3, 1), 0.4))
    assert whole.seen.tolist() == [True, True, False]
    assert whole.threshold == pytest.approx(0.4)
    assert whole.ensemble is None
    assert PREDICTIONS["c"].threshold is None
    assert PREDICTIONS["b"] is whole
    with pytest.raises(KeyError):
        PREDICTIONS["d"]


def test_measures_of_members_are_averaged_in_the_order_of_names() -> None:
    values = np.arange(10.0).reshape(5, 2)
    assert append_ensembles(values, PREDICTIONS)[5:].tolist() == [[2.0, 3.0], [7.0, 8.0]]
    spread = ensemble_spread(values, PREDICTIONS)
    assert spread["b"].tolist() == pytest.approx([np.std([0, 4], ddof=1)] * 2)
    single = Predictions({"solo": answers(0.9)})
    assert append_ensembles(values[:1], single).tolist() == values[:1].tolist()
    assert ensemble_spread(values, single) == {}
