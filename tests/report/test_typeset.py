from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.report import typeset


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ((0.712, 0.69, 0.734), "0.712 (0.690–0.734)"),
        ((-0.021, -0.034, -0.008), "−0.021 (−0.034 to −0.008)"),
        ((0.01, -0.002, 0.022), "0.010 (−0.002 to 0.022)"),
        ((0.712, None, None), "0.712"),
        ((0.712, float("nan"), 0.8), "0.712"),
        ((None, 0.1, 0.2), "–"),
        ((12345.6, 12000.0, 13000.0), "12,346 (12,000–13,000)"),
    ],
)
def test_interval(parts: tuple[float | None, ...], text: str) -> None:
    assert typeset.interval(*parts) == text


def test_interval_in_percent_has_one_unit_at_each_end() -> None:
    assert typeset.interval(0.123, 0.1, 0.2, as_percent=True) == "12.3% (10.0–20.0%)"


@pytest.mark.parametrize(
    ("p", "text"), [(0.0002, "<0.001"), (0.001, "0.001"), (0.04999, "0.050"), (1.0, ">0.999"), (None, "–")]
)
def test_p_value(p: float | None, text: str) -> None:
    assert typeset.p_value(p) == text


def test_a_negative_that_rounds_to_zero_has_no_sign() -> None:
    assert typeset.number(-0.0001) == "0.000"
    assert typeset.number(-0.5) == "−0.500"


@given(st.one_of(st.floats(), st.none(), st.booleans(), st.text(max_size=5), st.integers()))
def test_number_never_raises_and_shows_no_nan(value: object) -> None:
    text = typeset.number(value)
    assert "nan" not in text.lower()
    assert "inf" not in text.lower()


@given(st.floats(min_value=-9, max_value=9))
def test_number_reads_back_to_within_half_a_thousandth(value: float) -> None:
    shown = float(typeset.number(value).replace(typeset.MINUS, "-"))
    assert math.isclose(shown, value, abs_tol=0.000501)


def test_words() -> None:
    assert typeset.listing(["a"]) == "a"
    assert typeset.listing(["a", "b", "c"]) == "a, b and c"
    assert typeset.count_of(1, "case") == "1 case"
    assert typeset.count_of(1200, "case") == "1,200 cases"
    assert typeset.shorten("abcdef", 4) == "abc…"
    assert typeset.date("2026-11-15T20:00:00Z") == "2026-11-15 20:00 UTC"
    assert typeset.date("yesterday") == "yesterday"
