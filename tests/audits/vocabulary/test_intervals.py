"""Intervals of word scores and ranks: against slow and obvious versions, and where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import skew
from scipy.stats import t as student

from palpate.audits.vocabulary import Budget
from palpate.audits.vocabulary.intervals import (
    FEWEST_MOVED,
    PatientSums,
    change_interval,
    moments,
    one_sided,
    rank_interval,
    rate_interval,
    signed_interval,
)
from palpate.audits.vocabulary.measures import score_words
from palpate.stats import Interval
from palpate.testing import KeywordModel
from tests.audits.vocabulary.test_measures import effects_of
from tests.audits.vocabulary.vocabulary_cases import build, hospital


def sums(*changes: list[float], notes: list[list[float]] | None = None) -> PatientSums:
    """One list of changes per word, one change per patient; one note each unless `notes` says otherwise."""
    word = np.repeat(np.arange(len(changes)), [len(each) for each in changes])
    counts = np.ones(len(word)) if notes is None else np.concatenate(notes)
    return PatientSums(np.concatenate(changes), counts, word, len(changes))


def test_the_ends_are_students_below_and_on_a_log_scale_above() -> None:
    x = np.random.default_rng(0).lognormal(-4, 1, size=25)
    low, high = change_interval(moments(sums(list(x))), 0.95)
    error, q = x.std(ddof=1) / 5, student.ppf(0.975, 24)
    assert low[0] == pytest.approx(x.mean() - q * error)
    wider = 1 + 1.5 * skew(x, bias=False) / 5
    assert high[0] == pytest.approx(x.mean() * np.exp(q * error / x.mean() * wider))


def test_patients_with_several_notes_are_one_unit() -> None:
    """The same as the linearised variance of a ratio; and twice the notes of everyone change nothing."""
    rng = np.random.default_rng(1)
    notes, each = rng.integers(1, 4, size=30).astype(float), rng.lognormal(-4, 0.5, size=30)
    found = moments(sums(list(each * notes), notes=[list(notes)]))
    value = (each * notes).sum() / notes.sum()
    residual = (each - value) * notes
    assert found.value[0] == pytest.approx(value)
    assert found.error[0] == pytest.approx(np.sqrt(30 / 29 * (residual**2).sum()) / notes.sum())
    twice = moments(sums(list(2 * each * notes), notes=[list(2 * notes)]))
    np.testing.assert_allclose([part[0] for part in twice], [part[0] for part in found])


def test_if_few_patients_moved_the_strongest_word_says_how_far_others_might() -> None:
    strong = [0.04] * 10 + [0.06] * 10
    quiet = [0.0] * 30
    low, high = change_interval(moments(sums(strong, quiet, [0.01, *quiet[1:]])), 0.95)
    share = (q2 := student.ppf(0.975, 29) ** 2) / (30 + q2)
    assert high[1] == pytest.approx(share * 0.05)
    assert low[1] == low[2] == 0
    assert high[2] > high[1]
    assert change_interval(moments(sums(quiet)), 0.95).high[0] == 0, "a model that reacts to nothing has no scale"


def test_signed_changes_and_rates_have_real_widths() -> None:
    up = np.random.default_rng(2).lognormal(-3, 1, size=20)
    low, high = signed_interval(moments(sums(list(up), list(-up), [0.0] * 20)), 0.95)
    assert high[0] - up.mean() > up.mean() - low[0] > 0
    np.testing.assert_allclose([low[0], high[0]], [-high[1], -low[1]])
    assert low[2] < 0 < high[2]
    never, always, some = [0.0] * 20, [1.0] * 20, [1.0] * 8 + [0.0] * 12
    low, high = rate_interval(moments(sums(never, always, some)), 0.95)
    assert (low[0], high[1]) == (0, 1)
    assert high[0] > 0.1
    assert low[1] < 0.9
    assert low[2] < 0.4 < high[2]
    assert FEWEST_MOVED == 5


def test_ranks_are_those_that_pairwise_differences_leave_open() -> None:
    value = np.array([0.5, 0.1, np.nan, 0.3, 0.11, 0.0])
    low, high = rank_interval(value, Interval(value - 0.02, value + 0.02))
    np.testing.assert_array_equal(low, [1, 3, np.nan, 2, 3, 5])
    np.testing.assert_array_equal(high, [1, 4, np.nan, 2, 4, 5])
    unknown = np.where(np.arange(6) == 3, np.nan, value - 0.02), np.where(np.arange(6) == 3, np.nan, value + 0.02)
    low, high = rank_interval(value, Interval(*unknown))
    np.testing.assert_array_equal(low, [1, 2, np.nan, 1, 2, 4])
    np.testing.assert_array_equal(high, [2, 4, np.nan, 5, 4, 5])


def test_a_word_of_nine_patients_has_a_score_and_no_interval() -> None:
    texts = ["fever cough."] * 9 + ["cough rest."] * 6
    case = build(hospital(["rest."] * 4 + texts, per_patient=1), ["fever", "cough"], both_schemes=False)
    effects = effects_of(case, case.ask({"m": KeywordModel({"fever": 1.0, "cough": 0.5})}))
    (sums_of,) = (each for _, each in effects.by_label(case.plan.labels))
    scores = score_words("ill", sums_of, effects.layout, 0.95)
    assert effects.layout.n_patients_of.tolist() == [9, 15] or effects.layout.n_patients_of[0] < 10
    assert scores.value[0, 0, 0, 0] > 0
    assert np.isnan([scores.low[0, 0, 0, 0], scores.rank_low[0, 0]]).all()
    assert not np.isnan([scores.low[0, 0, 0, 1], scores.rank_low[0, 1]]).any()


def test_a_word_that_a_budget_may_look_at_more_often_has_wider_intervals() -> None:
    level = Budget(notes=50, turns=3).level(0.95, np.array([0, 50, 51, 100, 101, 10_000]))
    np.testing.assert_allclose(level, 1 - 0.05 / np.array([1, 1, 2, 2, 3, 3]))
    assert one_sided(0.95) == pytest.approx(0.90)
    assert one_sided(0.3) > 0
