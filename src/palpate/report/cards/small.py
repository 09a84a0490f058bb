"""Small counts: cards and what a committee gets tell no count that Table 1 withholds, since all leave the hospital.

A count of fewer patients than `smallest_cell` of the audit `data` is not told, nor the one other count from which it
would follow; 1 tells all. The results have cases, not patients, in most rows: there the limit is one of cases, unless
Table 1 says more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from palpate.report.cards.entries import Statement
from palpate.results import Chart

SMALLEST = 5
"""Where a run has no audit `data` to state it, its default."""
COUNTS = ("n", "n_positive")
WITHHELD = "withheld"
_WHAT = (
    r"(?P<what> (?:[a-z-]+ )??(?:case|patient|note|chart|stay|admission|visit|film|image|record|row|event|alert|"
    r"prediction|step|span)s?)\b"
)
_NUMBER = r"(?<![\w.,=/'])(?P<n>\d[\d,]*)(?: of (?:the )?(?P<of>\d[\d,]*))?"
_COUNTED = re.compile(
    r"(?:only |up to )?(?:(?<![\w.,=/'])(?P<low>\d[\d,]*) to )?" + _NUMBER + _WHAT + r"(?: \(\d[\d.,]*%[^)]*\))?"
)
"""`only 3 cases`, `1 to 4 notes`, `2 of 40 audited notes (5.0%)`."""
_SINGLE = re.compile(
    _NUMBER + _WHAT + r"(?P<between>(?: (?!which|that|who|where|and)[^\s.;:,()]+){0,6}?) (?P<verb>has|is|was|does)\b"
    r"(?:(?P<rest>[^.;:]*? and) (?P<also>has|is|was|does)\b)?"
)
"""`1 prediction at or after the event does`: what is said instead is plural."""
_PLURAL = {"has": "have", "is": "are", "was": "were", "does": "do"}
_LIMIT = re.compile(
    r"(?:(?:fewer|less|more) than|at least|at most|about|under|over|needs?|no \w+ has|\d\.\d+ to|% to) $", re.IGNORECASE
)
"""What stands before a number that is no count of these data."""


class SmallCounts:
    """What a run's cards do not tell."""

    def __init__(self, manifest: Mapping[str, Any], table1: pl.DataFrame | None = None) -> None:
        self.smallest = int(manifest.get("audits", {}).get("data", {}).get("smallest_cell", SMALLEST))
        lines = [] if table1 is None else table1.select("characteristic", "value", "reason").rows()
        self._hidden = {f"{name}={value}" for name, value, reason in lines if reason == WITHHELD}
        self._divided = {name for name, _, reason in lines if reason == WITHHELD}
        """Where Table 1 withholds a count, and with it a second one."""

    def few(self, n: int) -> bool:
        """Whether a count is too small to be told; none is not."""
        return 0 < n < self.smallest

    def positives(self, label: str, n_positive: int, n: int) -> str | None:
        """What is said instead of the positive cases of a label; None: they can be told.

        What Table 1 withholds in one of its parts (splits, cohorts) is withheld of all.
        """
        if self.few(n_positive):
            return f"fewer than {self.smallest}"
        if self.few(n - n_positive):
            return f"all but fewer than {self.smallest}"
        return WITHHELD if f"{label}=events" in self._hidden else None

    def sentence(self, text: str) -> str:
        """The sentence with its small counts withheld."""
        return _COUNTED.sub(self._reworded, _SINGLE.sub(_in_plural, text)) if self.smallest > 1 else text

    def _reworded(self, found: re.Match[str]) -> str:
        low, n, of = (int((found[part] or "0").replace(",", "")) for part in ("low", "n", "of"))
        few, rest, range_ = self.few(n), self.few(of - n), not self.few(n) and self.few(low)
        if not (few or rest or range_) or _LIMIT.search(found.string, 0, found.start()):
            return found[0]
        if self.few(of):
            return f"{'0 of ' if n == 0 else ''}fewer than {self.smallest}{_plural(found['what'])}"
        of_all = "" if found["of"] is None else f" of {of:,}"
        most = f" to {n:,}" if range_ else ""
        return (
            f"{'all but ' if rest and not few else ''}fewer than {self.smallest}{most}{of_all}{_plural(found['what'])}"
        )

    def told(self, statements: Iterable[Statement]) -> tuple[Statement, ...]:
        """The sentences and numbers of one field without small counts."""
        given = tuple(statements)
        if self.smallest <= 1:
            return given
        hidden = [self._own(each.number) for each in given]
        for key in COUNTS:
            self._hide_second(key, given, hidden)
        return tuple(
            each._replace(text=self.sentence(each.text), number=_without(each.number, gone))
            for each, gone in zip(given, hidden, strict=True)
        )

    def chart(self, chart: Chart) -> Chart:
        """A chart of groups without the counts that Table 1 withholds, or that are too small themselves."""
        rows = [
            Statement("", "", {"name": row.get(chart.series or ""), "label": row.get(chart.facet or ""),
                               "group": row.get(chart.y.field), **{key: row.get(key) for key in COUNTS}})
            for row in chart.data
        ]  # fmt: skip
        told = [each.number or {} for each in self.told(rows)]
        if not any(WITHHELD in number for number in told):
            return chart
        known = {number["n"] for number in told} - {None}
        hides = any("n" in number.get(WITHHELD, ()) for number in told)
        kept = {None} if hides and len(known) < 2 else known  # one number alone would be taken for that of all
        data = tuple(
            {**row, "n": number["n"] if number["n"] in kept else None, "n_positive": number["n_positive"]}
            for row, number in zip(chart.data, told, strict=True)
        )
        return chart.model_copy(update={"data": data})

    def _own(self, number: Mapping[str, Any] | None) -> set[str]:
        """The counts of one row that are too small, or of a group that Table 1 withholds."""
        if number is None:
            return set()
        n, positive = (number.get(key) for key in COUNTS)
        if n is not None and (self.few(n) or number.get("group") in self._hidden):
            return set(COUNTS)
        small = positive is not None and (self.few(positive) or (n is not None and self.few(n - positive)))
        return {"n_positive"} if small else set()

    def _hide_second(self, key: str, statements: Sequence[Statement], hidden: list[set[str]]) -> None:
        """Where one group of an attribute is withheld alone, the smallest other one, too: it follows from the rest.

        Not beside a large group that Table 1 withholds: that is the second count already, of a group that is not here.
        """
        divisions: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
        for row, each in enumerate(statements):
            number = each.number or {}
            attribute, divided, _ = str(number.get("group", "")).partition("=")
            if divided and number.get(key):
                name = (number.get("name"), number.get("label"), attribute)
                divisions.setdefault(name, []).append((int(number[key]), row))
        for (_, _, attribute), groups in divisions.items():
            open_ones = sorted(group for group in groups if key not in hidden[group[1]])
            gone = [n for n, row in groups if key in hidden[row]]
            is_second = key == "n" and attribute in self._divided and not any(map(self.few, gone))
            if len(gone) == 1 and open_ones and not is_second:
                hidden[open_ones[0][1]].add(key)


def _plural(what: str) -> str:
    return what if what.endswith("s") else f"{what}s"


def _in_plural(found: re.Match[str]) -> str:
    """`1 case has` with the verb of more than one."""
    if found["n"] != "1" or _LIMIT.search(found.string, 0, found.start()):
        return found[0]
    start = found.string[found.start() : found.start("verb")]
    also = "" if found["also"] is None else f"{found['rest']} {_PLURAL[found['also']]}"
    return f"{start}{_PLURAL[found['verb']]}{also}"


def _without(number: Mapping[str, Any] | None, gone: set[str]) -> Mapping[str, Any] | None:
    if number is None or not gone:
        return number
    return {**number, **dict.fromkeys(gone), WITHHELD: sorted(gone)}
