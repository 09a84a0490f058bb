"""How numbers are set in type: one way for the same kind of number, everywhere in the report."""

from __future__ import annotations

import json
import math
from typing import Any

MISSING = "–"
MINUS = "\N{MINUS SIGN}"
EN_DASH = "\N{EN DASH}"


def as_number(value: Any) -> float | None:
    """A finite float, or None for anything that is not a number."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def as_count(value: Any) -> int | None:
    """A whole number, or None for anything that is not a number."""
    number = as_number(value)
    return None if number is None else round(number)


def decimals(*values: float | None) -> int:
    """How many decimals the largest of some numbers needs: three below 10, as AUROCs are printed."""
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    return 3 if largest < 10 else 2 if largest < 100 else 1 if largest < 1000 else 0


def fixed(value: float, places: int) -> str:
    """A number with this many decimals, thousands separated, and a minus sign that is as wide as a plus."""
    text = f"{value:,.{places}f}"
    if text.startswith("-"):
        return text[1:] if float(text.replace(",", "")) == 0 else MINUS + text[1:]
    return text


def number(value: Any) -> str:
    """A measured number."""
    cleaned = as_number(value)
    return MISSING if cleaned is None else fixed(cleaned, decimals(cleaned))


def signed(value: Any) -> str:
    """A difference: its sign is always written."""
    text = number(value)
    return f"+{text}" if text[0].isdigit() and float(text.replace(",", "")) > 0 else text


def integer(value: Any) -> str:
    """A count."""
    cleaned = as_number(value)
    return MISSING if cleaned is None else fixed(cleaned, 0)


def percent(value: Any) -> str:
    """A fraction of 1, as a percentage."""
    cleaned = as_number(value)
    return MISSING if cleaned is None else f"{fixed(100 * cleaned, 1)}%"


def p_value(value: Any) -> str:
    """A p-value; below a thousandth it says only that."""
    cleaned = as_number(value)
    if cleaned is None:
        return MISSING
    return "<0.001" if cleaned < 0.001 else ">0.999" if cleaned > 0.999 else f"{cleaned:.3f}"


def interval(value: Any, low: Any, high: Any, *, as_percent: bool = False) -> str:
    """An estimate with its interval: 0.712 (0.690–0.734), or −0.021 (−0.034 to −0.008) around a sign."""
    numbers = [as_number(part) for part in (value, low, high)]
    if as_percent:
        numbers = [None if part is None else 100 * part for part in numbers]
    point, start, end = numbers
    if point is None:
        return MISSING
    places, unit = (1, "%") if as_percent else (decimals(*numbers), "")
    if start is None or end is None:
        return fixed(point, places) + unit
    join = " to " if min(start, end, point) < 0 else EN_DASH
    return f"{fixed(point, places)}{unit} ({fixed(start, places)}{join}{fixed(end, places)}{unit})"


def flag(value: Any) -> str:
    """A yes or a no."""
    return MISSING if value is None else "Yes" if value else "No"


def shorten(value: Any, limit: int) -> str:
    """Text of at most `limit` characters, with an ellipsis where it was cut."""
    text = value if isinstance(value, str) else "" if value is None else str(value)
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def count_of(count: int, noun: str, plural: str | None = None) -> str:
    """`1 case`, `1,200 cases`."""
    return f"{integer(count)} {noun if count == 1 else plural or noun + 's'}"


def listing(names: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""


def date(created: Any) -> str:
    """`2026-11-15 20:00 UTC` from an ISO time, or what was given."""
    text = str(created or "")
    return f"{text[:10]} {text[11:16]} UTC" if len(text) >= 20 and text.endswith("Z") else text


def plain(value: Any) -> str:
    """A value of a manifest or of a provenance: numbers as they are, collections as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return flag(value)
    if isinstance(value, int):
        return integer(value) if abs(value) >= 10_000 else str(value)
    if isinstance(value, float):
        return f"{value:g}" if math.isfinite(value) else MISSING
    return json.dumps(value, ensure_ascii=False, default=str, sort_keys=False)
