"""How fast a server wants to be asked: Retry-After, retry-after-ms, and the x-ratelimit headers.

A pause holds for all requests of the endpoint, so that a server that is busy is left alone by all of them.
"""

from __future__ import annotations

import asyncio
import email.utils
import re
import time
from collections.abc import Mapping

_PARTS = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s|d)")
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_COUNTED = ("requests", "tokens")
_A_DATE = 1e9
"""A number this large is a time since 1970, not a wait."""


class Pacer:
    """Until when nothing is sent."""

    def __init__(self) -> None:
        self._until = 0.0

    def pause(self, seconds: float) -> None:
        """Send nothing for a while."""
        self._until = max(self._until, time.monotonic() + seconds)

    async def wait(self) -> None:
        """Return when requests may be sent."""
        while (left := self._until - time.monotonic()) > 0:
            await asyncio.sleep(left)


def asked_to_wait(headers: Mapping[str, str]) -> float:
    """Seconds that the server asks to be left alone after a refused request; 0 if it does not say."""
    exact = headers.get("retry-after-ms")
    if exact is not None:
        try:
            return max(float(exact) / 1000, 0.0)
        except ValueError:
            pass
    return max(retry_after(headers.get("retry-after")), used_up(headers))


def used_up(headers: Mapping[str, str]) -> float:
    """Seconds until the server takes requests again, where its headers say that the allowance is used up."""
    waits = [0.0]
    for what in _COUNTED:
        if headers.get(f"x-ratelimit-remaining-{what}", "").strip() == "0":
            waits.append(_duration(headers.get(f"x-ratelimit-reset-{what}", "")))
    return max(waits)


def retry_after(value: str | None) -> float:
    """Seconds to wait, from a number or a date; 0 if the server does not say."""
    if value is None:
        return 0.0
    try:
        return _from_now(float(value))
    except ValueError:
        pass
    try:
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError):
        return 0.0


def _duration(value: str) -> float:
    """`1s`, `6m0s`, `20ms`, a number of seconds, or a time since 1970."""
    try:
        return _from_now(float(value))
    except ValueError:
        pass
    parts = _PARTS.findall(value)
    if "".join(number + unit for number, unit in parts) != value.strip():
        return 0.0
    return float(sum(float(number) * _SECONDS[unit] for number, unit in parts))


def _from_now(number: float) -> float:
    seconds = number - time.time() if number > _A_DATE else number
    return max(seconds, 0.0) if seconds < float("inf") else 0.0
