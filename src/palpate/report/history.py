"""The page of several runs: one number over time, and what changed from run to run. Self-contained, opens offline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from palpate.report import typeset
from palpate.results import Axis, Chart, Column, Table


class HistoryLine(NamedTuple):
    """One number of one run."""

    run: str
    created: str
    model: str
    label: str
    group: str
    value: float | None
    low: float | None
    high: float | None
    n: int | None
    reason: str
    changed: str
    """What is different from the run before, in words."""


class HistoryPage(NamedTuple):
    """What the page shows."""

    title: str
    metric: str
    lines: Sequence[HistoryLine]
    facts: Sequence[str]
    """What could not be read, as sentences."""


def render_history(page: HistoryPage) -> str:
    """The whole page as HTML."""
    # The charts' library takes a second to import, and the terminal needs only the lines.
    from palpate.report.html import blocks_as_html, chart_scripts, content_policy, page_environment, template_text

    models = list(dict.fromkeys(line.model for line in page.lines))
    runs = list(dict.fromkeys((line.run, line.created) for line in page.lines))
    blocks = blocks_as_html([_chart(page, runs), _table(page)], order=models)
    scripts = chart_scripts()
    return (
        page_environment()
        .get_template("history.html.j2")
        .render(
            title=typeset.shorten(page.title, 200),
            meta=f"{typeset.count_of(len(runs), 'run')}, {typeset.date(runs[0][1])} to {typeset.date(runs[-1][1])}",
            facts=list(page.facts),
            blocks=blocks,
            styles=Markup(template_text("theme.css") + template_text("report.css")),
            scripts=scripts,
            policy=content_policy(scripts),
        )
    )


def _chart(page: HistoryPage, runs: Sequence[tuple[str, str]]) -> Chart:
    place = {run: k for k, (run, _) in enumerate(runs)}
    several = len({(line.label, line.group) for line in page.lines}) > 1
    data: list[dict[str, Any]] = [
        {
            "run": place[line.run],
            "value": line.value,
            "low": line.low,
            "high": line.high,
            "n": line.n,
            "model": line.model,
            "panel": f"{line.label} · {line.group}",
            "text": line.run,
        }
        for line in page.lines
        if line.value is not None
    ]
    return Chart(
        kind="line",
        title=f"{page.metric} from run to run",
        caption="Bands are the runs' own intervals. Runs of the same patients are not independent of each other.",
        description=f"{page.metric} of each model in {len(runs)} runs.",
        x=Axis(field="run", title="Run", labels=tuple(typeset.shorten(run, 14) for run, _ in runs)),
        y=Axis(field="value", title=page.metric),
        series="model",
        facet="panel" if several else None,
        data=tuple(data),
    )


def _table(page: HistoryPage) -> Table:
    return Table(
        title="Every run",
        caption="In the order in which they were made; what changed is against the run before.",
        columns=(
            *(Column(name=name) for name in ("Run", "Made", "Model", "Label", "Group")),
            Column(name=page.metric, kind="interval"),
            Column(name="Cases", kind="integer"),
            Column(name="Changed since the run before"),
            Column(name="Why not computed"),
        ),
        rows=tuple(
            (
                line.run,
                typeset.date(line.created),
                line.model,
                line.label,
                line.group,
                (line.value, line.low, line.high),
                line.n,
                line.changed,
                line.reason,
            )
            for line in page.lines
        ),
    )
