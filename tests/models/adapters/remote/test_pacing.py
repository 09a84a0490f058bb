"""How long a server asks to be left alone, in the ways in which servers say it."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from palpate.models.adapters.remote.pacing import asked_to_wait, used_up


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0.0),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, 0.0),
        ({"retry-after": "inf"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9.0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 360.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "20ms"}, 0.02),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1h2m3.5s"}, 3723.5),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "12"}, 12.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "later"}, 0.0),
        ({"x-ratelimit-remaining-requests": "5", "x-ratelimit-reset-requests": "6m0s"}, 0.0),
        ({"x-ratelimit-remaining-requests": "0"}, 0.0),
    ],
)
def test_waits(headers: dict[str, str], seconds: float) -> None:
    assert asked_to_wait(headers) == pytest.approx(seconds)


def test_dates() -> None:
    assert asked_to_wait({"retry-after": formatdate(time.time() + 30, usegmt=True)}) == pytest.approx(30, abs=2)
    assert asked_to_wait({"retry-after": formatdate(time.time() - 30, usegmt=True)}) == 0.0
    reset = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": str(int(time.time()) + 40)}
    assert used_up(reset) == pytest.approx(40, abs=2)
