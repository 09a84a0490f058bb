"""Agreement with clinicians: the paper's Table 2, ties and gaps in ratings, and comparisons as paired."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr
from scipy.stats import t as student

from palpate.audits.vocabulary.clinicians import (
    CLINICIANS,
    ClinicianPanel,
    clinician_agreement,
    in_a_clinicians_place,
    mean_ratings,
    model_agreement,
    rank_gaps,
    rater_agreement,
    ratings_of,
)
from palpate.audits.vocabulary.correlations import WordCorrelations
from palpate.kit import Resampling, RowWriter
from palpate.perturb.words import Ratings
from palpate.stats import kendall_w, krippendorff_alpha, resample_counts
from tests.stats.paper_words import WORDS

WRITER = RowWriter("vocabulary")


def over_words(seed: int = 3) -> WordCorrelations:
    return WordCorrelations(WRITER, Resampling(n_replicates=1_000, seed=seed))


OVER_WORDS = over_words()
NAMES = tuple(word for word, *_ in WORDS)
MANUAL, LANGUAGE, TFIDF = np.array([ranks for _, *ranks in WORDS], float).T


def ratings(scores: np.ndarray, words: tuple[str, ...] = NAMES) -> Ratings:
    table = np.asarray(scores, float).reshape(len(words), -1)
    return Ratings(words, tuple(f"r{k}" for k in range(table.shape[1])), table)


def panel_of(scores: np.ndarray, words: tuple[str, ...] = NAMES, scored: np.ndarray | None = None) -> ClinicianPanel:
    known = np.ones(len(words), bool) if scored is None else scored
    return ClinicianPanel.of(ratings(scores, words), words, known)


PAPER = panel_of(5 - 4 * (MANUAL - 1) / 48)
SENSITIVITY = {"language": 1 / LANGUAGE, "tf-idf": 1 / TFIDF}


def test_the_papers_table_2() -> None:
    levels, pairs = clinician_agreement(PAPER, "readmitted", SENSITIVITY, OVER_WORDS)
    assert [round(row.value or 0, 4) for row in levels] == [0.5755, 0.1259]
    assert levels[0].low is not None
    assert levels[0].low > 0 > (levels[1].low or 0)
    assert pairs[0].value == pytest.approx(0.1259 - 0.5755, abs=1e-4)
    assert (pairs[0].model, pairs[0].reference, pairs[0].group, pairs[0].n) == ("tf-idf", "language", CLINICIANS, 49)
    assert pairs[0].p_value is not None
    assert pairs[0].p_value < 0.05


def test_intervals_are_those_of_resampled_words_on_fishers_scale() -> None:
    level = clinician_agreement(PAPER, "y", SENSITIVITY, OVER_WORDS)[0][0]
    counts = resample_counts(rng=3, n_replicates=1_000, patient=np.arange(49))
    rows = [np.repeat(np.arange(49), count) for count in counts]
    slow = np.arctanh([spearmanr(-LANGUAGE[row], -MANUAL[row]).statistic for row in rows])
    reach = student.ppf(0.975, 47) * slow.std(ddof=1) * np.sqrt(49 / 48)
    ends = np.tanh(np.arctanh(level.value or 0) + np.array([-1, 1]) * reach)
    assert (level.low, level.high) == (pytest.approx(ends[0], abs=1e-12), pytest.approx(ends[1], abs=1e-12))


def test_a_model_takes_the_place_of_each_clinician_in_turn() -> None:
    rng = np.random.default_rng(1)
    truth = rng.normal(size=(30, 1))
    scores = np.clip(np.rint(3 + truth + 0.5 * rng.normal(size=(30, 3))), 1, 5)
    words = tuple(f"w{k}" for k in range(30))
    few = np.arange(30) < 28
    panel = ClinicianPanel.of(ratings(scores, words), words, np.ones(30, bool), few)
    sensitivity = {"good": np.exp(truth[:, 0]), "odd": np.exp(-truth[:, 0])}
    levels, gaps = in_a_clinicians_place(panel, "y", sensitivity, OVER_WORDS)
    others = [np.delete(scores, j, axis=1).mean(axis=1)[:28] for j in range(3)]
    own = np.mean([spearmanr(scores[:28, j], others[j]).statistic for j in range(3)])
    for level, gap, model in zip(levels, gaps, sensitivity.values(), strict=True):
        in_place = np.mean([spearmanr(model[:28], other).statistic for other in others])
        assert level.value == pytest.approx(in_place)
        assert gap.value == pytest.approx(in_place - own)
        assert (gap.reference, gap.n) == (CLINICIANS, 28)
    assert (gaps[1].high or 0) < 0 < (gaps[0].high or 0)


def test_a_perfect_agreement_is_not_certain() -> None:
    panel = panel_of(np.arange(12), tuple("abcdefghijkl"))
    row = clinician_agreement(panel, "y", {"m": np.arange(12) / 100}, OVER_WORDS)[0][0]
    assert row.value == pytest.approx(1.0)
    assert row.high == pytest.approx(1.0)
    assert 0.7 < (row.low or 0) < 0.97


def test_no_interval_for_fewer_than_ten_words() -> None:
    row = clinician_agreement(panel_of(np.arange(9), tuple("abcdefghi")), "y", {"m": np.arange(9) % 5}, OVER_WORDS)[0][
        0
    ]
    assert row.value is not None
    assert (row.low, row.reason) == (None, "no interval: fewer than 10 words")


def test_models_are_compared_on_the_same_resampled_words() -> None:
    """Two models that nearly agree differ by little, although each is uncertain."""
    near = SENSITIVITY["language"] + 1e-4 * np.random.default_rng(0).random(49)
    levels, pairs = clinician_agreement(PAPER, "y", {"a": SENSITIVITY["language"], "b": near}, OVER_WORDS)
    alone = (levels[0].high or 0) - (levels[0].low or 0)
    assert (pairs[0].high or 0) - (pairs[0].low or 0) < 0.1 * alone


def test_the_overall_rank_is_that_of_the_mean_over_raters_with_ties_averaged() -> None:
    scores = np.array([[5, 5, 5], [4, 4, 1], [3, 3, 3], [1, 1, 1]], float)
    panel = panel_of(scores, ("a", "b", "c", "d"))
    np.testing.assert_array_equal(panel.rank, [1, 2.5, 2.5, 4])


def test_missing_ratings_are_left_out_of_the_mean() -> None:
    scores = np.array([[5, np.nan], [np.nan, np.nan], [2, 4]])
    np.testing.assert_array_equal(mean_ratings(scores), [5, np.nan, 3])
    panel = panel_of(scores, ("a", "b", "c"))
    np.testing.assert_array_equal(panel.rank, [1, np.nan, 2])


def test_only_words_that_both_sides_have_are_compared() -> None:
    words = ("a", "B  b", "c", "d", "e")
    given = ratings(np.array([5, 4, 3, 2, 1]), ("b b", "A", "x", "c", "d"))
    np.testing.assert_array_equal(ratings_of(given, words)[:, 0], [4, 5, 2, 1, np.nan])
    scored = np.array([True, True, False, True, True])
    panel = ClinicianPanel.of(given, words, scored)
    np.testing.assert_array_equal(panel.rank, [2, 1, np.nan, 3, np.nan])
    sensitivity = np.array([0.3, 0.1, np.nan, 0.2, 0.9])
    np.testing.assert_array_equal(panel.rank_of(sensitivity), [1, 3, np.nan, 2, np.nan])
    row = clinician_agreement(panel, "y", {"m": sensitivity}, OVER_WORDS)[0][0]
    assert row.n == 3
    assert row.value == pytest.approx(spearmanr([0.3, 0.1, 0.2], [4, 5, 1]).statistic)
    gaps = {(row.model, row.group): row for row in rank_gaps(panel, words, "y", {"m": sensitivity}, WRITER)}
    assert gaps["m", "B  b"].value == 2
    assert gaps["m", "B  b"].reference == CLINICIANS
    assert gaps[CLINICIANS, "a"].value == 2
    assert gaps["m", "e"].value is None
    assert "not rated" in str(gaps["m", "e"].reason)


def test_fewer_than_three_words_is_no_correlation() -> None:
    panel = panel_of(np.array([5, 1]), ("a", "b"))
    levels, pairs = clinician_agreement(panel, "y", {"m": np.array([0.1, 0.2]), "n": np.array([0.2, 0.1])}, OVER_WORDS)
    for row in (*levels, *pairs):
        assert (row.value, row.low, row.p_value) == (None, None, None)
        assert row.reason == "fewer than 3 words can be compared"


def test_a_model_that_reacts_to_nothing_and_raters_who_tell_nothing_apart() -> None:
    words = tuple("abcd")
    flat = clinician_agreement(panel_of(np.array([5, 4, 3, 1]), words), "y", {"m": np.zeros(4)}, OVER_WORDS)[0][0]
    assert (flat.value, flat.reason) == (None, "every word moves the model alike")
    same = clinician_agreement(panel_of(np.full(4, 3), words), "y", {"m": np.array([1.0, 2, 3, 4])}, OVER_WORDS)[0][0]
    assert (same.value, same.reason) == (None, "the other side does not tell the words apart")


def test_too_few_words_for_a_test() -> None:
    panel = panel_of(np.array([5, 4, 3, 1]), tuple("abcd"))
    _, pairs = clinician_agreement(
        panel, "y", {"m": np.array([4.0, 3, 2, 1]), "n": np.array([1.0, 2, 3, 4])}, OVER_WORDS
    )
    assert pairs[0].value == -2
    assert pairs[0].p_value is None
    assert pairs[0].reason is not None


def test_the_raters_own_agreement() -> None:
    rng = np.random.default_rng(1)
    truth = rng.integers(1, 6, size=(30, 1))
    scores = np.clip(truth + rng.integers(-1, 2, size=(30, 3)), 1, 5).astype(float)
    scores[0, 0] = np.nan
    panel = panel_of(scores, tuple(f"w{k}" for k in range(30)))
    found = {(row.metric, row.group): row for row in rater_agreement(panel, "y", OVER_WORDS)}
    assert found["krippendorff_alpha", CLINICIANS].value == krippendorff_alpha(scores.T, level="ordinal")
    assert found["kendall_w", CLINICIANS].value == kendall_w(scores[1:].T)
    assert found["kendall_w", CLINICIANS].n == 29
    each = [found["rater_agreement", f"r{k}"].value for k in range(3)]
    assert each[1] == pytest.approx(spearmanr(scores[:, 1], mean_ratings(scores[:, [0, 2]])).statistic)
    assert found["rater_agreement", CLINICIANS].value == pytest.approx(np.mean(each))  # type: ignore[arg-type]
    for row in found.values():
        assert row.low is not None
        assert row.low < (row.value or 0) < (row.high or 0)


def test_one_rater_and_raters_without_common_words() -> None:
    one = rater_agreement(panel_of(np.arange(1, 6)[:, None], tuple("abcde")), "y", OVER_WORDS)
    assert {row.reason for row in one} == {"there is only one rater"}
    scores = np.full((6, 2), np.nan)
    scores[:3, 0] = scores[3:, 1] = [1, 3, 5]
    apart = {(r.metric, r.group): r for r in rater_agreement(panel_of(scores, tuple("abcdef")), "y", OVER_WORDS)}
    assert apart["kendall_w", CLINICIANS].reason == "fewer than 3 words are rated by all raters"
    assert all(row.value is None and row.reason for row in apart.values())


def test_a_rater_who_tells_no_words_apart_is_left_out() -> None:
    rng = np.random.default_rng(3)
    scores = np.column_stack([rng.integers(1, 6, size=(20, 2)), np.full(20, 3)]).astype(float)
    each = [spearmanr(scores[:, j], np.delete(scores, j, axis=1).mean(axis=1)).statistic for j in range(2)]
    rows = {
        row.group: row
        for row in rater_agreement(panel_of(scores, tuple(map(str, range(20)))), "y", OVER_WORDS)
        if row.metric == "rater_agreement"
    }
    assert rows[CLINICIANS].value == pytest.approx(np.mean(each))
    assert rows["r2"].value is None
    assert "tells apart" in str(rows["r2"].reason)


def test_model_against_model() -> None:
    (row,) = model_agreement("y", SENSITIVITY, OVER_WORDS)
    assert row.value == pytest.approx(spearmanr(LANGUAGE, TFIDF).statistic)
    assert (row.model, row.group) == ("tf-idf", "language")


@pytest.mark.slow
def test_intervals_of_agreement_cover() -> None:
    """Words from a bivariate normal population: Spearman's true value is 6/pi asin(rho / 2)."""
    rho, inside = 0.6, []
    truth = 6 / np.pi * np.arcsin(rho / 2)
    rng = np.random.default_rng(4)
    words = tuple(f"w{k}" for k in range(49))
    for seed in range(500):
        a, b = rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], size=49).T
        row = clinician_agreement(panel_of(b, words), "y", {"m": a}, over_words(seed))[0][0]
        inside.append((row.low or 0) <= truth <= (row.high or 0))
    assert 0.90 <= np.mean(inside) <= 0.98, np.mean(inside)
