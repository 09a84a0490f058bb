"""Estimates as answers: harm is counted from the right side, and the number is shown as it was measured."""

from __future__ import annotations

import pytest

from palpate.audits.kit.answers import Question
from palpate.kit import Estimate

TRAVEL = Question("travel", "Does it travel?", "auroc", 0.03, harm=-1)
REQUIRED = Question("separation", "Does it separate patients as required?", "auroc", 0.0, harm=-1, origin=0.70)


def row(value: float | None, low: float | None, high: float | None, label: str = "ill", **more: str) -> Estimate:
    return Estimate("performance", "m", "auroc", label, "b", value, 100, low=low, high=high, **more)  # type: ignore[arg-type]


def test_a_fall_is_harm() -> None:
    answer = TRAVEL.answer("m", [TRAVEL.effect(row(-0.10, -0.14, -0.06), 200)])
    assert answer is not None
    assert (answer.verdict, answer.value, answer.low, answer.high, answer.margin) == (
        "concern", pytest.approx(-0.10), pytest.approx(-0.14), pytest.approx(-0.06), pytest.approx(-0.03))  # fmt: skip
    gain = TRAVEL.answer("m", [TRAVEL.effect(row(0.02, -0.01, 0.05), 200)])
    assert gain is not None
    assert gain.verdict == "acceptable"


def test_a_level_is_held_against_what_is_required() -> None:
    verdicts = {}
    for low, high in ((0.71, 0.80), (0.65, 0.75), (0.55, 0.69)):
        answer = REQUIRED.answer("m", [REQUIRED.effect(row((low + high) / 2, low, high), 200)])
        assert answer is not None
        verdicts[low] = answer.verdict
        assert answer.low == pytest.approx(low)
    assert verdicts == {0.71: "acceptable", 0.65: "unsettled", 0.55: "concern"}


def test_no_interval_is_unsettled_with_its_reason() -> None:
    few = row(1.0, None, None, reason="no interval: fewer than 2 patients")
    answer = REQUIRED.answer("m", [REQUIRED.effect(few, 3)])
    assert answer is not None
    assert (answer.verdict, answer.reason) == ("unsettled", "no interval: fewer than 2 patients")
    assert REQUIRED.answer("m", [None]) is None


def test_the_worst_of_several_labels_is_named() -> None:
    rows = [row(-0.01, -0.02, 0.0, "a"), row(-0.02, -0.06, 0.02, "b"), row(0.0, -0.01, 0.01, "c")]
    answer = TRAVEL.answer("m", [TRAVEL.effect(each, 400) for each in rows])
    assert answer is not None
    assert (answer.verdict, answer.label, answer.n_labels, answer.n_unsettled) == ("unsettled", "b", 3, 1)
    assert answer.needed == 6400


def test_where_a_change_either_way_is_harm_both_must_be_excluded() -> None:
    shift = Question("gender", "Does gender change the answer?", "shift", 0.01, harm=0)
    verdicts = []
    for value, low, high in (
        (-0.02, -0.03, -0.015),
        (0.02, 0.015, 0.03),
        (0.001, -0.012, 0.008),
        (-0.001, -0.002, 0.0),
    ):
        answer = shift.answer("m", [shift.effect(row(value, low, high), 200)])
        assert answer is not None
        assert (answer.value, answer.low, answer.high) == pytest.approx((value, low, high))
        verdicts.append(answer.verdict)
    assert verdicts == ["concern", "concern", "unsettled", "acceptable"]
