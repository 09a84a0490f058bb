"""The rule behind every verdict, and how many patients would settle an open question."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.results.verdicts import (
    MARGINS,
    VERDICTS,
    Answer,
    Effect,
    judge,
    patients_to_settle,
    rounded_up,
    scorecard,
    worst,
)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.04, 0.09, "concern"),
        (0.03, 0.09, "caution"),
        (0.001, 0.05, "caution"),
        (0.0, 0.05, "unsettled"),
        (-0.02, 0.03, "unsettled"),
        (-0.02, 0.029, "acceptable"),
        (0.001, 0.002, "acceptable"),
        (None, None, "unsettled"),
        (float("nan"), 0.1, "unsettled"),
    ],
)
def test_the_rule(low: float | None, high: float | None, verdict: str) -> None:
    assert judge(low, high, 0.03) == verdict


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0.001, 0.5))
def test_not_significant_is_never_acceptable_unless_harm_is_excluded(low: float, width: float, margin: float) -> None:
    verdict = judge(low, low + width, margin)
    assert (verdict == "acceptable") == (low + width < margin)
    assert (verdict == "concern") == (low > margin)


def test_patients_that_would_settle_a_question() -> None:
    """Four times the patients halve the interval: 0.01 ± 0.04 is below 0.03 when the half-width is 0.02."""
    assert patients_to_settle(0.01, -0.03, 0.05, 0.03, 100) == 400
    assert patients_to_settle(0.05, 0.01, 0.09, 0.03, 100) == 400
    assert patients_to_settle(0.03, 0.0, 0.06, 0.03, 100) is None
    assert patients_to_settle(0.0299999, 0.0, 0.06, 0.03, 100) is None


def test_patients_are_a_guess_of_two_digits_wherever_they_are_told() -> None:
    assert patients_to_settle(0.01, -0.03, 0.05, 0.03, 309) == 1300
    assert [rounded_up(n) for n in (7, 99, 100, 101, 256.2, 1234)] == [7, 99, 100, 110, 260, 1300]


def test_an_end_that_was_cut_off_at_0_says_nothing_about_the_width() -> None:
    """0.06 (0 to 0.14) is 0.08 wide towards the side that was not cut off; a lower end that was not stays its own."""
    assert patients_to_settle(0.06, 0.0, 0.14, 0.05, 100) == 6400
    assert patients_to_settle(0.06, 0.01, 0.14, 0.05, 100) == 2500


def test_the_worst_label_decides_and_what_could_not_be_seen_is_unsettled() -> None:
    fine = Effect("a", 0.0, -0.01, 0.01, 0.03, 500)
    blind = Effect("b", 0.0, -0.01, 0.01, 0.03, 500, reason="the history predicts nothing")
    shown = Effect("c", 0.08, 0.05, 0.11, 0.03, 500)
    worse = Effect("d", 0.09, 0.04, 0.14, 0.03, 500)
    assert [effect.verdict for effect in (fine, blind, shown)] == ["acceptable", "unsettled", "concern"]
    assert worst([fine, blind]).label == "b"
    assert worst([fine, shown, blind, worse]).label == "d"
    assert blind.needed is None
    seen = shown._replace(reason="the matched pairs are not alike")
    assert seen.verdict == "concern", "a reason keeps an answer from being acceptable, not harm from being shown"
    assert seen.not_judged("only 0 and 1").verdict == "unsettled"


def test_among_unsettled_effects_one_with_a_number_decides() -> None:
    blind = Effect("a", None, None, None, 0.03, 500, reason="too few patients")
    small = Effect("b", -0.02, -0.09, 0.05, 0.03, 500)
    large = Effect("c", 0.01, -0.06, 0.08, 0.03, 500)
    assert worst([blind, small]).label == "b"
    assert worst([blind, small, large]).label == "c"
    assert worst([blind]).label == "a"


def test_every_margin_has_its_reason() -> None:
    assert all(margin.value > 0 and len(margin.why) > 20 for margin in MARGINS.values())
    assert VERDICTS[0] == "concern"


def test_a_scorecard_has_a_row_per_question_and_a_cell_per_model() -> None:
    answer = Answer(question="travel", asks="Does it travel?", model="a", verdict="concern", metric="auroc", value=-0.1)
    (row,) = scorecard({"performance": [answer]}, ["a", "b"])
    assert (row["audit"], row["question"], row["models"]["b"]) == ("performance", "travel", None)
    assert row["models"]["a"]["verdict"] == "concern"


def test_a_scorecard_has_the_questions_that_decide_first() -> None:
    def answer(question: str, model: str, verdict: str) -> Answer:
        return Answer(question=question, asks=f"{question}?", model=model, verdict=verdict, metric="auroc")  # type: ignore[arg-type]

    rows = scorecard(
        {
            "performance": [answer("a", "m", "acceptable"), answer("b", "m", "unsettled"), answer("c", "m", "caution")],
            "context": [answer("a", "m", "unsettled"), answer("a", "k", "concern"), answer("d", "m", "unsettled")],
        },
        ["m", "k"],
    )
    order = [(row["audit"], row["question"]) for row in rows]
    assert order == [
        ("context", "a"), ("performance", "c"), ("performance", "b"), ("context", "d"), ("performance", "a")
    ]  # fmt: skip
    assert list(rows[0]["models"]) == ["m", "k"]
    assert "sentence" not in rows[0]["models"]["m"]


def test_the_page_about_verdicts_shows_the_margins_as_they_are() -> None:
    page = (Path(__file__).parents[2] / "docs" / "verdicts.md").read_text(encoding="utf-8")
    for name, margin in MARGINS.items():
        assert f"| `{name}` | {margin.value:g} | {margin.why} |" in page


def test_a_group_too_small_for_a_test_leads_no_sentence() -> None:
    small = Effect("small", 0.3, -0.1, 0.6, 0.03, 8, reason="not tested: fewer than 10 patients")
    large = Effect("large", 0.1, -0.05, 0.2, 0.03, 400)
    assert {each.verdict for each in (small, large)} == {"unsettled"}
    assert worst([small, large]).label == "large"
    shown = Effect("harm", 0.2, 0.1, 0.3, 0.03, 400)
    assert worst([small, large, shown]).label == "harm"
