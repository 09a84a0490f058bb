"""Small counts: cards and what a committee gets tell no count that Table 1 withholds, since all leave the hospital.

A count of fewer patients than `smallest_cell` of the audit `data` is not told, nor the one other count from which it
would follow; 1 tells all. The results have cases, not patients, in most rows: there the limit is one of cases, unless
Table 1 says more.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import polars as pl

from palpate.report.cards.entries import Statement
from palpate.results import Chart

SMALLEST = 5
"""Where a run has no audit `data` to state it, its default."""
COUNTS = ("n", "n_positive")
_WITHHELD = "withheld"
_COUNTED = re.compile(
    r"(?P<only>only )?(?<![\w.,=/'])(?P<n>\d[\d,]*)(?: of (?:the )?(?P<of>\d[\d,]*))?"
    r"(?P<what> (?:[a-z-]+ )??(?:case|patient|note|stay|film|event)s?)\b(?: \(\d[\d.,]*%[^)]*\))?"
)
"""`only 3 cases`, `2 of 40 audited notes (5.0%)`."""
_LIMITS = ("fewer than ", "less than ", "more than ", "at least ", "at most ", "about ", "from ", "under ", "over ")
"""Words before a number that is no count of these data."""


class SmallCounts:
    """What a run's cards do not tell."""

    def __init__(self, manifest: Mapping[str, Any], table1: pl.DataFrame | None = None) -> None:
        self.smallest = int(manifest.get("audits", {}).get("data", {}).get("smallest_cell", SMALLEST))
        lines = [] if table1 is None else table1.select("characteristic", "value", "reason").rows()
        self._hidden = {f"{name}={value}" for name, value, reason in lines if reason == _WITHHELD}
        self._divided = {name for name, _, reason in lines if reason in (None, _WITHHELD)}
        """What Table 1 tells by its values: it has withheld the second count already."""

    def few(self, n: int) -> bool:
        """Whether a count is too small to be told; none is not."""
        return 0 < n < self.smallest

    def positives(self, label: str, n_positive: int, n: int, *, several: bool = False) -> str | None:
        """What is said instead of the positive cases of a label; None: they can be told.

        Of `several` cohorts, Table 1 does not say here which one it withholds.
        """
        if self.few(n_positive):
            return f"fewer than {self.smallest}"
        if self.few(n - n_positive):
            return f"all but fewer than {self.smallest}"
        return _WITHHELD if not several and f"{label}=events" in self._hidden else None

    def sentence(self, text: str) -> str:
        """The sentence with its small counts withheld."""
        return _COUNTED.sub(self._reworded, text) if self.smallest > 1 else text

    def _reworded(self, found: re.Match[str]) -> str:
        before = found.string[: found.start()].lower()
        n, of = (None if found[part] is None else int(found[part].replace(",", "")) for part in ("n", "of"))
        few, rest = self.few(n or 0), of is not None and self.few(of - (n or 0))
        if not (few or rest) or before.endswith(_LIMITS):
            return found[0]
        of_all = "" if of is None else f" of {of:,}"
        plural = found["what"] if found["what"].endswith("s") else f"{found['what']}s"
        return f"{'' if few else 'all but '}fewer than {self.smallest}{of_all}{plural}"

    def told(self, statements: Iterable[Statement]) -> tuple[Statement, ...]:
        """The sentences and numbers of one field without small counts."""
        given = tuple(statements)
        if self.smallest <= 1:
            return given
        hidden = [self._own(each.number) for each in given]
        for key in COUNTS:
            _hide_second(key, given, hidden, self._divided if key == "n" else ())
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
        if not any(_WITHHELD in number for number in told):
            return chart
        known = {number["n"] for number in told} - {None}
        hides = any("n" in number.get(_WITHHELD, ()) for number in told)
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


def _hide_second(key: str, statements: Iterable[Statement], hidden: list[set[str]], done: Collection[str]) -> None:
    """Where one group of an attribute is withheld alone, the smallest other one, too: it would follow from the rest."""
    divisions: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for row, each in enumerate(statements):
        number = each.number or {}
        attribute, divided, _ = str(number.get("group", "")).partition("=")
        if divided and attribute not in done and number.get(key):
            name = (number.get("name"), number.get("label"), attribute)
            divisions.setdefault(name, []).append((int(number[key]), row))
    for groups in divisions.values():
        open_ones = sorted(group for group in groups if key not in hidden[group[1]])
        if len(open_ones) == len(groups) - 1 and open_ones:
            hidden[open_ones[0][1]].add(key)


def _without(number: Mapping[str, Any] | None, gone: set[str]) -> Mapping[str, Any] | None:
    if number is None or not gone:
        return number
    return {**number, **dict.fromkeys(gone), _WITHHELD: sorted(gone)}
