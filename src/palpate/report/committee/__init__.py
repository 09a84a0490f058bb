"""What a committee gets on two pages or a few slides: verdicts, who was audited, for whom it is worse, risks, limits.

The same scorecard, tables and charts as the report, fewer of them; nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import polars as pl

from palpate.report.blocks import view_table
from palpate.report.cards.small import SmallCounts
from palpate.report.committee.panels import Picture, pictures_of, worst_first
from palpate.report.headline import audited
from palpate.report.scorecard import ScorecardView, view_scorecard
from palpate.results import AuditResult, Chart, Table

CHARTS = (
    ("performance", "AUROC of each model"),
    ("subgroups", "AUROC in each group"),
    ("performance", "Smooth calibration curve"),
    ("performance", "Net benefit"),
)
"""The charts that a committee asks for, by audit and title, in their order."""
TABLE_ONE = ("data", "Who was audited (Table 1)")
VERDICT_COLOURS = {
    "concern": "var(--bad)",
    "caution": "var(--warning)",
    "unsettled": "var(--neutral)",
    "acceptable": "var(--good)",
}
TIE = "\N{NO-BREAK SPACE}"
MARKS = {"concern": "■", "caution": "▲", "unsettled": "?", "acceptable": "●"}
"""Beside the word, so that a copy without colours says the same."""
NO_ANSWERS = "No audit of this run answers a question of the scorecard."
NO_LIMITS = "No audit told of any."
_MOST_ROWS, _MOST_COLUMNS = 32, 5


class Grid(NamedTuple):
    """A table as texts; `left_out` counts the rows that did not fit."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int


class Digest(NamedTuple):
    """Everything on the two pages."""

    title: str
    run: str
    cohorts: tuple[str, ...]
    scorecard: ScorecardView | None
    table_one: Grid | None
    pictures: tuple[Picture, ...]
    limits: tuple[str, ...]


def digest(manifest: Mapping[str, Any], results: Sequence[AuditResult], table1: pl.DataFrame | None = None) -> Digest:
    """The run in short; what it did not measure is among the limits. Small counts are withheld as in Table 1."""
    small = SmallCounts(manifest, table1)
    by_name = {result.audit: result for result in results}
    made = f"Run {str(manifest.get('id'))[:8]}, {str(manifest.get('created'))[:10]}, palpate {manifest.get('palpate')}"
    cohorts = [
        f"{each['name']}: " + small.sentence(f"{each['n']:,} cases of {each['n_patients']:,} patients")
        for each in manifest.get("cohorts") or []
    ]
    found = {(audit, block.title): block for audit, result in by_name.items() for block in result.blocks}
    order = audited(manifest)
    worst = {audit: worst_first(result.answers) for audit, result in by_name.items()}
    pictures = [
        picture for audit, title in CHARTS if isinstance(chart := found.get((audit, title)), Chart)
        for picture in pictures_of(small.chart(chart), order, worst[audit])
    ]  # fmt: skip
    first = found.get(TABLE_ONE)
    grid = _grid(first) if isinstance(first, Table) else None
    return Digest(
        str(manifest.get("title") or "Audit"),
        made,
        tuple(cohorts),
        view_scorecard(results, manifest),
        grid,
        tuple(pictures),
        tuple(map(small.sentence, _limits(by_name))),
    )


def _limits(results: Mapping[str, AuditResult]) -> tuple[str, ...]:
    """What limits the answers: caveats and concerns about the data, and what was not asked."""
    told = [
        finding.sentence
        for result in results.values()
        for finding in result.findings
        if finding.kind == "caveat" or (finding.kind == "concern" and finding.question is None)
    ]
    open_ones: dict[str, list[str]] = {}
    for result in results.values():
        for answer in result.answers:
            if answer.verdict == "unsettled":
                open_ones.setdefault(answer.asks, []).append(answer.model)
    told += [f"Not settled by these data: {asks} ({', '.join(models)})" for asks, models in open_ones.items()]
    if "performance" not in results:
        told.append("Not measured: how well it separates patients, and whether its risks are right (no `performance`).")
    if "subgroups" not in results:
        told.append("Not measured: whether it is worse for some groups of patients (no audit `subgroups`).")
    return tuple(told)


def _grid(table: Table) -> Grid:
    """The first two columns, then those of audited cases before the others."""
    view = view_table(table)
    names = [column.name for column in table.columns]
    rest = sorted(range(2, len(names)), key=lambda k: ("test" not in names[k].split()[-1:], k))
    columns = sorted([0, 1, *rest[: _MOST_COLUMNS - 2]])
    rows = [tuple(row[k].text for k in columns) for row in view.rows[:_MOST_ROWS]]
    missing = [names[k] for k in range(len(names)) if k not in columns]
    title = f"{table.title}, without {', '.join(missing)}" if missing else table.title
    return Grid(title, tuple(names[k] for k in columns), tuple(rows), max(0, len(table.rows) - _MOST_ROWS))


def panels_of(pictures: Iterable[Picture], most: int) -> list[tuple[str, list[Picture], int]]:
    """Each chart's title, the first of its panels, and how many others it has."""
    charts = [(title, list(own)) for title, own in groupby(pictures, key=lambda each: each.chart)]
    return [(title, own[:most], len(own[most:])) for title, own in charts]


def more_of(n: int, what: str) -> str:
    """How many are not shown: `1 more row is`, `3 more rows are`."""
    return f"1 more {what} is" if n == 1 else f"{n:,} more {what}s are"


def meanings_of(view: ScorecardView) -> str:
    """What the verdicts mean; a sign and its word stay on one line."""
    return "; ".join(f"{MARKS[name]}{TIE}{word}: {means}" for name, word, means in view.legend)


def scorecard_cells(scorecard: ScorecardView) -> list[list[tuple[str, str]]]:
    """Rows of (text, verdict), the question first."""
    rows = []
    for question in scorecard.questions:
        row = [(question.asks, "")]
        for cell in question.cells:
            told = "not asked" if cell is None else f"{MARKS[cell.verdict]} {cell.word}\n{cell.number}"
            row.append((told, "" if cell is None else cell.verdict))
        rows.append(row)
    return rows
