"""Numbers in sentences: one way to write each kind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.kit import Estimate, counted, interval, listed, number, ordinal, p_value, percent, quoted


@pytest.mark.parametrize(
    ("value", "signed", "text"),
    [
        (-0.1234, False, "−0.123"),
        (-0.0002, False, "−0.0002"),
        (0.0002, True, "+0.0002"),
        (0.712, False, "0.712"),
        (0.0, True, "0.000"),
        (-0.0, False, "0.000"),
        (1e-9, True, "0.000000"),
        (0.0094, False, "0.0094"),
        (None, False, "unknown"),
    ],
)
def test_numbers(value: float | None, signed: bool, text: str) -> None:
    assert number(value, signed=signed) == text


@given(st.floats(-1, 1))
def test_a_number_never_reads_as_minus_zero_and_keeps_its_sign(value: float) -> None:
    text = number(value, signed=True)
    assert "-" not in text
    read = float(text.replace("−", "-"))
    assert read == pytest.approx(value, abs=0.00051)
    if read:
        assert (read > 0) == (value > 0)
        assert text[0] in "+−"
    else:
        assert text[0] == "0"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0%"),
        (1.0, "100%"),
        (0.0001, "less than 0.1%"),
        (0.9999, "more than 99.9%"),
        (0.0234, "2.3%"),
        (0.25, "25%"),
        (0.996, "99.6%"),
        (None, "unknown"),
    ],
)
def test_shares(value: float | None, text: str) -> None:
    assert percent(value) == text


@given(st.floats(0, 1))
def test_only_all_and_nothing_read_so(value: float) -> None:
    assert (percent(value) == "0%") == (value == 0)
    assert (percent(value) == "100%") == (value == 1)


def test_intervals_and_p_values() -> None:
    row = Estimate("a", "m", "auroc", "l", "g", 0.7, 10, low=-0.01, high=0.2, level=0.9, p_value=0.0123)
    assert interval(row) == "90% interval −0.010 to 0.200"
    assert interval(row, signed=True) == "90% interval −0.010 to +0.200"
    assert p_value(row) == ", corrected p = 0.012"
    few = Estimate("a", "m", "auroc", "l", "g", 0.7, 10, reason="no interval: fewer than 2 patients", p_value=1e-9)
    assert interval(few) == "no interval: fewer than 2 patients"
    assert p_value(few) == ", corrected p < 0.001"
    assert p_value(Estimate("a", "m", "auroc", "l", "g", 0.7, 10)) == ""


def test_lists_and_places() -> None:
    assert [ordinal(k) for k in (1, 2, 3, 4, 11, 12, 13, 21, 102, 111, 2.5)] == (
        ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th", "2.5"]
    )
    assert [listed(part) for part in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]
    assert quoted(["a", "b"]) == "'a' and 'b'"
    assert quoted(list("abcdefg"), most=2) == "'a', 'b' and 5 more"
    assert [counted(n, "case") for n in (0, 1, 1200)] == ["0 cases", "1 case", "1,200 cases"]
