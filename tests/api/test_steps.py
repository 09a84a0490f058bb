"""The steps by themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import skops.io
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

import palpate
from tests.api.notes import fitted, notes_table


def test_an_altered_note_shows_its_difference_and_hides_its_text() -> None:
    altered = palpate.alter("He is a 60 year old man <b>.", gender="female")
    assert altered.text == "She is a 60 year old woman <b>."
    assert "60 year" not in repr(altered)
    html = altered._repr_html_()
    assert "<del" in html
    assert "<ins" in html
    assert "&lt;b&gt;" in html


def test_a_loaded_model_takes_texts(tmp_path: Path) -> None:
    table = notes_table()
    pipeline = fitted(table)
    skops.io.dump(pipeline, tmp_path / "model.skops")
    texts = table["note"].to_list()
    model = palpate.load_model(f"sklearn:{tmp_path / 'model.skops'}")
    np.testing.assert_allclose(model.predict(texts)[:, 0], pipeline.predict_proba(texts)[:, 1])


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=14), st.sampled_from([None, 0.05, 0.2]))
def test_pairs_are_a_best_matching(rows: list[tuple[int, bool]], caliper: float | None) -> None:
    p = np.asarray([each / 20 for each, _ in rows])
    y = np.asarray([positive for _, positive in rows], int)
    pairs = palpate.match_pairs(p, y, caliper=caliper) if rows else np.zeros((0, 2), int)
    assert len(np.unique(pairs)) == pairs.size
    assert all(y[a] == 1 and y[b] == 0 for a, b in pairs)
    positives, negatives = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
    distance = np.abs(p[positives][:, None] - p[negatives][None, :])
    n_small = min(distance.shape)
    cost = np.abs(p[pairs[:, 0]] - p[pairs[:, 1]]).sum() if len(pairs) else 0.0
    if caliper is None:
        assert len(pairs) == n_small
        chosen = linear_sum_assignment(distance)
        assert cost == pytest.approx(distance[chosen].sum())
    else:
        priced = np.minimum(distance, caliper)
        least = priced[linear_sum_assignment(priced)].sum() if distance.size else 0.0
        assert cost + caliper * (n_small - len(pairs)) == pytest.approx(least)
