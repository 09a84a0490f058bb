"""Numbers in sentences: one way to write each kind, in all audits. Tables are set by `report/typeset`."""

from __future__ import annotations

from collections.abc import Sequence

from palpate.results import Estimate
from palpate.results.verdicts import Answer

UNKNOWN = "unknown"
_MOST_DIGITS = 6


def number(value: float | None, *, signed: bool = False, digits: int = 3) -> str:
    """Three decimals, or as many as a small number needs to differ from 0, with a real minus sign."""
    if value is None:
        return UNKNOWN
    if value != 0 and abs(value) < 0.95 * 10.0 ** (1 - digits):
        digits += 1
    while value != 0 and round(value, digits) == 0 and digits < _MOST_DIGITS:
        digits += 1
    text = f"{value:+.{digits}f}" if signed else f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("+-")
    return text.replace("-", "−")


def percent(value: float | None) -> str:
    """A share in percent, with a decimal near 0 and near 1; what is not quite all or nothing never reads as such."""
    if value is None:
        return UNKNOWN
    if 0 < value < 0.0005:
        return "less than 0.1%"
    if 0.9995 <= value < 1:
        return "more than 99.9%"
    return f"{value:.1%}" if 0 < value < 0.0995 or 0.99 < value < 1 else f"{value:.0%}"


def interval(row: Estimate, *, signed: bool = False, digits: int = 3) -> str:
    """An estimate's interval, `95% interval 0.690 to 0.734`; without one, the reason."""
    if row.low is None:
        return row.reason or "no interval"
    low, high = (number(end, signed=signed, digits=digits) for end in (row.low, row.high))
    return f"{row.level or 0.95:.0%} interval {low} to {high}"


def p_value(row: Estimate) -> str:
    """`, corrected p = 0.012`, to follow an interval; empty where nothing was tested."""
    if row.p_value is None:
        return ""
    return ", corrected p < 0.001" if row.p_value < 0.001 else f", corrected p = {row.p_value:.3f}"


def ordinal(place: float) -> str:
    """1st, 2nd, 3rd, 4th, 11th; a shared rank such as 2.5 stays a number."""
    if place != round(place):
        return f"{place:g}"
    whole = round(place)
    ending = "th" if whole % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(whole % 10, "th")
    return f"{whole}{ending}"


def listed(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""


def quoted(names: Sequence[str], most: int = 5) -> str:
    """The first few names in quotes, and how many more there are: `'a', 'b' and 3 more`."""
    shown = [f"'{name}'" for name in names[:most]]
    more = len(names) - len(shown)
    return f"{', '.join(shown)} and {more} more" if more > 0 else listed(shown)


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """`1 case`, `1,200 cases`."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def settled_by(answer: Answer) -> str:
    """How an unsettled sentence goes on: `; about 1,200 patients would settle it`, or why nothing can be told."""
    if answer.reason:
        return f": {answer.reason}"
    where = "" if answer.where is None else f" in {answer.where}"
    return f"; about {answer.needed:,} patients{where} would settle it" if answer.needed else ""
