"""Pieces of a report for notebooks: a scorecard, findings, a table or a chart as HTML that needs no style sheet.

Viewers of notebooks (JupyterLab, VS Code, Colab, GitHub) run no scripts of an output and drop its style sheets, so
every style stands on its element, and a chart is an image that carries its own colours for light and dark.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from markupsafe import Markup

from palpate.report.blocks import view_table
from palpate.report.charts import Key, draw, static_svg
from palpate.report.html import page_environment, template_text
from palpate.report.scorecard import view_scorecard
from palpate.results import AuditResult, Chart, Finding, Table

_COLOUR = re.compile(r"var\(--(\w+)\)")


class _Image(NamedTuple):
    title: str
    source: str


class _Key(NamedTuple):
    source: str
    """A small image."""
    text: str


@dataclass(frozen=True)
class _ChartView:
    title: str
    caption: str
    description: str
    legend: tuple[_Key, ...]
    images: tuple[_Image, ...]
    notes: tuple[str, ...]


@cache
def _module() -> Any:
    return page_environment().get_template("inline.html.j2").module


def scorecard_html(results: Sequence[AuditResult], manifest: Mapping[str, Any]) -> Markup:
    """Questions and models with a verdict in each cell; empty where no audit answers a question."""
    view = view_scorecard(results, manifest)
    return Markup() if view is None else Markup(_module().scorecard(view))


def findings_html(findings: Sequence[Finding]) -> Markup:
    """Sentences, each with its verdict."""
    return Markup(_module().findings(findings))


def table_html(table: Table, *, total: int | None = None) -> Markup:
    """A table; a long one is cut and says so."""
    return Markup(_module().grid(view_table(table, total=total)))


def chart_svgs(chart: Chart, *, order: Sequence[str] = ()) -> list[tuple[str, str]]:
    """The title and the drawing of each panel; a drawing carries its own colours, for light and for dark pages."""
    theme = template_text("theme.css")
    made = []
    for number, panel in enumerate(draw(chart, order=order).panels):
        svg = static_svg(panel.spec, name=f"panel-{number}")
        # A notebook may be dark where the system is light, so the drawing brings the page that it stands on.
        page = f'<style>{theme}</style><rect width="100%" height="100%" fill="var(--surface)"/>'
        made.append((panel.title, svg.replace(">", f">{page}", 1)))
    return made


def chart_html(chart: Chart, *, order: Sequence[str] = ()) -> Markup:
    """A chart with its caption and legend."""
    drawn = draw(chart, order=order)
    images = [_Image(title, _image(svg)) for title, svg in chart_svgs(chart, order=order)]
    legend = [_Key(_mark(key), key.text) for key in drawn.legend]
    view = _ChartView(chart.title, chart.caption, chart.description, tuple(legend), tuple(images), drawn.notes)
    return Markup(_module().chart(view))


def _mark(key: Key) -> str:
    """A legend's mark as an image, in the colours of the chart whatever the page is."""
    shapes = {
        "line": f'<path d="M1 6h20" stroke="{key.colour}" stroke-width="3" stroke-dasharray="{key.dash}"/>',
        "area": f'<rect x="5" y="1" width="11" height="10" fill="{key.colour}"/>',
        "hollow": f'<circle cx="11" cy="6" r="4.5" fill="none" stroke="{key.colour}" stroke-width="2"/>',
    }
    drawn = shapes.get(key.mark, f'<circle cx="11" cy="6" r="5" fill="{key.colour}"/>')
    style = f"<style>{_colours_of(key.colour)}</style>"
    return _image(f'<svg xmlns="http://www.w3.org/2000/svg" width="22" height="12">{style}{drawn}</svg>')


def _image(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def _colours_of(colour: str) -> str:
    """The two values of a colour's variable: light, and dark."""
    named = _COLOUR.search(colour)
    values = re.findall(rf"--{named[1]}:\s*(#\w+);", template_text("theme.css")) if named else []
    if len(values) < 2 or named is None:
        return ""
    light, dark = (f":root{{--{named[1]}:{value}}}" for value in values[:2])
    return f"{light}@media (prefers-color-scheme:dark){{{dark}}}"
