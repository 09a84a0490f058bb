"""Sensitivity scores against their closed form, and the words that a budget goes on with."""

from __future__ import annotations

import numpy as np
import pytest

from palpate.audits.vocabulary.measures import (
    SwapEffects,
    lay_out,
    rank_words,
    score_words,
    unsettled_words,
)
from palpate.kit import Thresholds
from palpate.results import MACRO, Predictions
from palpate.testing import KeywordModel
from tests.audits.vocabulary.vocabulary_cases import Case, build, hospital, random_notes

WEIGHTS = {"fever": 1.5, "sepsis": -0.9, "cough": 0.4, "fall": 0.05, "pain": 0.0}
WORDS = (*WEIGHTS, "tumour")


@pytest.fixture(scope="module")
def case() -> Case:
    return build(hospital(random_notes(120, list(WEIGHTS))), WORDS)


def effects_of(case: Case, predictions: Predictions, threshold: object = 0.5, scheme: int = 0) -> SwapEffects:
    layout = lay_out(case.swaps, case.plan.cohort.patients, scheme=scheme)
    values = np.broadcast_to(threshold, (len(predictions.scored), len(case.plan.labels)))
    return SwapEffects(layout, predictions, Thresholds(values, {}), case.plan.labels)


def scored(case: Case, models: dict[str, KeywordModel], *, scheme: int = 0):
    effects = effects_of(case, case.ask(models), scheme=scheme)
    sums = effects.by_label(case.plan.labels)
    return {label: score_words(label, each, effects.layout, 0.95) for label, each in sums}, effects.layout


def sigmoid(x: float) -> float:
    return 1 / (1 + np.exp(-x))


def closed_form(case: Case, word: str, weights: dict[str, float], *, bias: float, all_of_them: bool = False):
    """(mean |change|, mean signed change, share of flips at 0.5) by counting words in the texts."""
    changes, flips = [], []
    for row in case.plan.cohort.rows(split="test"):
        tokens = case.plan.cohort.texts[row].lower().rstrip(".").split()
        if word not in tokens:
            continue
        before = bias + sum(weights.get(token, 0.0) for token in tokens)
        removed = tokens.count(word) if all_of_them else 1
        after = before - removed * weights.get(word, 0.0)
        changes.append(sigmoid(after) - sigmoid(before))
        flips.append((sigmoid(after) >= 0.5) != (sigmoid(before) >= 0.5))
    return np.mean(np.abs(changes)), np.mean(changes), np.mean(flips)


@pytest.mark.parametrize("scheme", [0, 1])
def test_scores_are_the_closed_form_and_ranks_are_recovered(case: Case, scheme: int) -> None:
    found, _ = scored(case, {"m": KeywordModel(WEIGHTS, bias=-0.3)}, scheme=scheme)
    value = found["ill"].value
    expected = [closed_form(case, word, WEIGHTS, bias=-0.3, all_of_them=scheme == 1) for word in WEIGHTS]
    for measure in range(3):
        for pool in range(3):  # every filter does the same to this model
            np.testing.assert_allclose(value[0, measure, pool, :5], np.array(expected)[:, measure], rtol=0, atol=1e-12)
    assert found["ill"].rank[0, :5].tolist() == [1, 2, 3, 4, 5]
    assert value[0, 1, 0, 0] < 0 < value[0, 1, 0, 1], "replacing a word that raises the risk lowers it"


def test_a_word_that_does_nothing_is_exactly_0_and_a_word_in_no_note_is_undefined(case: Case) -> None:
    found, layout = scored(case, {"m": KeywordModel(WEIGHTS)})
    scores = found["ill"]
    pain, tumour = WORDS.index("pain"), WORDS.index("tumour")
    assert (scores.value[0, :, :, pain] == 0).all()
    assert (scores.low[0, [0, 2, 3], :, pain] == 0).all()
    assert (scores.high[0, :, :, pain] > 0).all(), "that no patient moved is not certain of others"
    assert (scores.high[0, 0, :, pain] < 0.03).all()
    assert np.isnan(scores.value[0, :, :, tumour]).all()
    assert np.isnan(scores.rank[0, tumour])
    assert np.isnan(scores.rank_low[0, tumour])
    assert layout.n_notes[0, tumour] == 0
    np.testing.assert_array_equal(layout.n_notes[0], case.swaps.n_notes)


def test_a_note_is_the_plain_mean_over_its_filters_whatever_their_family() -> None:
    case = build(hospital(["x fever."] * 10), ["fever"], both_schemes=False)
    weights = {"fever": 1.0, "alpha": 0.5, "delta": -2.0}
    found, _ = scored(case, {"m": KeywordModel(weights)})
    change = {name: abs(sigmoid(1.0) - sigmoid(weights.get(name, 0.0))) for name in ("alpha", "beta", "gamma", "delta")}
    value = found["ill"].value[0, 0, :, 0]
    assert value[0] == pytest.approx(np.mean(list(change.values())), abs=1e-12)
    assert value[1] == pytest.approx(np.mean([change["alpha"], change["beta"], change["gamma"]]), abs=1e-12)
    assert value[2] == pytest.approx(change["delta"], abs=1e-12)


def test_notes_weigh_alike_whatever_their_number_of_filters() -> None:
    """A note with one filter counts as much as a note with four: the mean over notes is of note-level means."""
    case = build(hospital(["fever.", "fever rest."] * 5, per_patient=1), ["fever"], both_schemes=False)
    thin = (case.swaps.filter == 1) | (case.swaps.note % 2 == 0)
    kept = {name: getattr(case.swaps, name)[thin] for name in ("word", "note", "filter", "scheme", "variant")}
    case = case.with_swaps(**kept)
    found, _ = scored(case, {"m": KeywordModel({"fever": 1.0, "delta": -2.0})})
    small, large = abs(sigmoid(1.0) - 0.5), abs(sigmoid(1.0) - sigmoid(-2.0))
    even = np.mean([small, small, small, large])
    assert found["ill"].value[0, 0, 0, 0] == pytest.approx(np.mean([even, large]), abs=1e-12)


def test_labels_and_their_average() -> None:
    labels = ("a", "b")
    case = build(hospital(random_notes(60, list(WEIGHTS)), labels=labels), WORDS, both_schemes=False)
    model = KeywordModel({"fever": {"a": 1.0, "b": 0.2}, "cough": {"b": 2.0}}, labels=labels)
    found, _ = scored(case, {"m": model})
    assert set(found) == {"a", "b", MACRO}
    mean = (found["a"].value + found["b"].value) / 2
    np.testing.assert_allclose(found[MACRO].value, mean, rtol=0, atol=1e-15)
    assert found["a"].rank[0, 0] == 1
    assert found["b"].rank[0, WORDS.index("cough")] == 1


def test_flips_without_a_threshold_are_undefined_and_the_average_is_over_the_others() -> None:
    labels = ("a", "b")
    case = build(hospital(random_notes(60, list(WEIGHTS)), labels=labels), WORDS, both_schemes=False)
    effects = effects_of(case, case.ask({"m": KeywordModel(WEIGHTS, labels=labels)}), [[0.5, np.nan]])
    layout, sums = effects.layout, dict(effects.by_label(labels))
    flips = {label: layout.means(each)[0, 2, 0, 0] for label, each in sums.items()}
    assert np.isnan(flips["b"])
    assert flips[MACRO] == flips["a"] > 0
    undefined = score_words("b", sums["b"], layout, 0.95)
    assert np.isnan(undefined.low[:, 2]).all()
    assert not np.isnan(undefined.low[:, 0, 0, 0]).any()


def test_swaps_outside_the_window_count_as_no_change_and_are_counted() -> None:
    texts = ["fever rest rest rest rest.", "rest rest rest rest fever."] * 10
    case = build(hospital(texts, per_patient=2), ["fever"], both_schemes=False)
    effects = effects_of(case, case.ask({"m": KeywordModel({"fever": 1.0}, window_words=2)}))
    assert effects.outside()[0, 0] == 0.5
    assert effects.outside_overall() == {"m": 0.5}
    value = effects.layout.means(effects.sums(0))[0, 0, 0, 0]
    assert value == pytest.approx((sigmoid(1.0) - 0.5) / 2, abs=1e-12)


def test_an_ensemble_has_the_mean_of_its_members_scores(case: Case) -> None:
    models = {"x[1]": KeywordModel({"fever": 1.0}), "x[2]": KeywordModel({"cough": 3.0})}
    effects = effects_of(case, case.ask(models, ensembles=dict.fromkeys(models, "x")))
    value = effects.layout.means(effects.sums(0))
    assert len(value) == 3
    np.testing.assert_allclose(value[2], value[:2].mean(axis=0), rtol=0, atol=1e-15)
    assert list(effects.by_compared(value)) == ["x"]
    np.testing.assert_array_equal(effects.by_compared(value)["x"], value[2])


def test_ranks() -> None:
    np.testing.assert_array_equal(rank_words(np.array([0.1, np.nan, 0.3, 0.1, 0.0])), [2.5, np.nan, 1, 2.5, 4])
    nearly = np.array([0.1, 0.1 + 1e-16, 0.2])
    np.testing.assert_array_equal(rank_words(nearly), [2.5, 2.5, 1])


def test_a_swapped_note_needs_its_original(case: Case) -> None:
    broken = case.with_swaps(original=np.full(len(case.swaps.original), -1))
    with pytest.raises(ValueError, match="unedited"):
        lay_out(broken.swaps, case.plan.cohort.patients)


def test_no_swap_at_all() -> None:
    case = build(hospital(random_notes(20, ["fever"])), ["tumour", "stroke"])
    found, layout = scored(case, {"m": KeywordModel(WEIGHTS)})
    assert layout.n_patients == 0
    assert np.isnan(found["ill"].value).all()
    assert np.isnan(found["ill"].rank_high).all()


def test_unsettled_words(case: Case) -> None:
    """fever and sepsis compete for the first place; the others are surely behind them."""
    answers = case.ask({"m": KeywordModel({**WEIGHTS, "sepsis": -1.65})})

    def open_words(width: float | None, top: int | None) -> set[str]:
        found = unsettled_words(case.plan, answers, width=width, top=top, level=0.95)
        return {word for word, is_open in zip(WORDS, found, strict=True) if is_open}

    assert open_words(None, 1) == {"fever", "sepsis"}
    assert open_words(None, 2) == set()
    assert open_words(1e-9, None) == {"fever", "sepsis", "cough", "fall", "pain"}
    assert open_words(1.0, None) == set()
    assert open_words(None, None) == {"fever", "sepsis", "cough", "fall", "pain"}
