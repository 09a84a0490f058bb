"""The committee's digest as a PDF of two pages."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from palpate.registry import optional
from palpate.report.committee import (
    NO_ANSWERS,
    NO_LIMITS,
    TIE,
    VERDICT_COLOURS,
    Digest,
    Grid,
    meanings_of,
    more_of,
    panels_of,
    scorecard_cells,
)
from palpate.report.committee.panels import Picture, plain_colour
from palpate.report.scorecard import ScorecardView

_COLUMN, _TALLEST = 3.3, 7.5
"""Inches: how wide and how tall a chart may be."""
_PAGE, _LINE, _LIMIT_LINE = 10.3, 0.14, 125
"""Inches of a page, of a line of limits, and its characters."""
_MOST_PANELS, _MOST_LIMITS = 12, 8
_HEADING = 0.4
"""Inches of a heading, and of the space around it."""
_BROAD, _QUESTION, _CELL_PADDING = 7.0, 2.0, 6
"""Inches of a table, how much wider a question is than an answer, and points beside the text of a cell."""
_NO_CHARTS = "The run has none of the charts that belong here."


def as_pdf(digest: Digest) -> bytes:
    """Two pages: verdicts, who was audited, and charts where there is room; further charts and limits."""
    pages = _Pages()
    first = [
        *pages.head(digest),
        *pages.scorecard(digest.scorecard),
        *(
            pages.grid(digest.table_one)
            if digest.table_one
            else [pages.text("No Table 1: the run has no audit `data`.")]
        ),
    ]
    limits = _shown(digest.limits)
    lines = sum(1 + len(each) // _LIMIT_LINE for each in limits) + len({each.chart for each in digest.pictures})
    rooms = (_PAGE - pages.height(first) - _HEADING, _PAGE - lines * _LINE - 2 * _HEADING)
    charts, told = _fitting(panels_of(digest.pictures, _MOST_PANELS), rooms), []
    for title, _, left_out in charts:
        told += [f"{title}: {more_of(left_out, 'panel')} in the report and the slides."] if left_out else []
    early, late = _on_pages([picture for _, panels, _ in charts for picture in panels], rooms[0])
    if not early and not late:
        return pages.made(digest.title, first, [pages.text(_NO_CHARTS), *pages.limits(limits)])
    second = [*pages.columns(late), *(pages.text(each, pages.small) for each in told), *pages.limits(limits)]
    return pages.made(digest.title, [*first, *pages.columns(early)], second)


def _shown(limits: Sequence[str]) -> list[str]:
    """The first limits, and how many more there are."""
    more = len(limits) - _MOST_LIMITS
    return [*limits[:_MOST_LIMITS], *([f"{more_of(more, 'limit')} in the report and the slides."] if more > 0 else [])]


def _on_pages(pictures: Sequence[Picture], room: float) -> tuple[list[Picture], list[Picture]]:
    """The pictures that the rest of the first page has room for, in two columns, and the others; their order stays."""
    n = next((k for k in range(len(pictures)) if _tallest(pictures[: k + 1]) > room), len(pictures))
    return list(pictures[:n]), list(pictures[n:])


def _tallest(pictures: Iterable[Picture]) -> float:
    """Inches of the taller one of two columns."""
    heights = [0.0, 0.0]
    for picture in pictures:
        heights[heights.index(min(heights))] += _height(picture)
    return max(heights)


def broken(name: str, width: float, measure: Callable[[str], float]) -> str:
    """A name in lines of at most this width: broken at blanks, then after hyphens and the like, never inside a part."""
    lines = [""]
    for part in re.findall(r"[^\s_/.-]*[\s_/.-]+|[^\s_/.-]+", name):
        if lines[-1] and measure(lines[-1] + part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.strip() for line in lines)


class _Pages:
    """reportlab's flowables in palpate's type and colours."""

    def __init__(self) -> None:
        needed = "the committee's PDF"
        self._platypus: Any = optional("reportlab.platypus", extra="cards", needed_for=needed)
        self._units: Any = optional("reportlab.lib.units", extra="cards", needed_for=needed)
        styles = optional("reportlab.lib.styles", extra="cards", needed_for=needed)
        self._colours: Any = optional("reportlab.lib.colors", extra="cards", needed_for=needed)
        font = _font()
        self._style = styles.ParagraphStyle("text", fontName=font, fontSize=9, leading=11.5)
        self.small = styles.ParagraphStyle("small", fontName=font, fontSize=7.5, leading=9.5)
        self._heading = styles.ParagraphStyle(
            "heading", fontName=font, fontSize=12, leading=15, spaceBefore=6, spaceAfter=3
        )
        self._title = styles.ParagraphStyle("title", fontName=font, fontSize=17, leading=21, spaceAfter=4)

    def text(self, text: str, style: Any = None, colour: str = "") -> Any:
        safe = _escaped(text).replace("\n", "<br/>")
        safe = f'<font color="{plain_colour(colour)}">{safe}</font>' if colour else safe
        return self._platypus.Paragraph(safe, style or self._style)

    def _width(self, text: str) -> float:
        """Points of a text in small letters."""
        metrics: Any = optional("reportlab.pdfbase.pdfmetrics", extra="cards", needed_for="the committee's PDF")
        return float(metrics.stringWidth(text, self.small.fontName, self.small.fontSize))

    def head(self, digest: Digest) -> list[Any]:
        lines = [self.text(digest.title, self._title), self.text(digest.run, self.small)]
        return [*lines, self.text("; ".join(digest.cohorts), self.small)]

    def scorecard(self, view: ScorecardView | None) -> list[Any]:
        if view is None:
            return [self.text(NO_ANSWERS)]
        share = _BROAD / (_QUESTION + len(view.heads)) * self._units.inch - 2 * _CELL_PADDING
        names = [broken(head.name, share, self._width) for head in view.heads]
        told = [f"{name}\n{head.metric} {head.number}" for name, head in zip(names, view.heads, strict=True)]
        head = [self.text(""), *(self.text(each, self.small) for each in told)]
        rows = [
            [self.text(text, self.small, VERDICT_COLOURS.get(verdict, "")) for text, verdict in row]
            for row in scorecard_cells(view)
        ]
        return [
            self.text("What is known", self._heading),
            *([self.text(view.choice)] if view.choice else []),
            self._table([head, *rows], first=_QUESTION),
            self.text(meanings_of(view), self.small),
        ]

    def grid(self, grid: Grid) -> list[Any]:
        rows = [[self.text(text, self.small) for text in row] for row in (grid.head, *grid.rows)]
        more = [self.text(f"{more_of(grid.left_out, 'row')} in the report.", self.small)] if grid.left_out else []
        return [self.text(grid.title, self._heading), self._table(rows, first=1.6), *more]

    def _table(self, rows: list[list[Any]], *, first: float) -> Any:
        width = _BROAD * self._units.inch
        share = width / (first + len(rows[0]) - 1)
        table = self._platypus.Table(rows, colWidths=[first * share, *([share] * (len(rows[0]) - 1))], repeatRows=1)
        line = self._colours.HexColor(plain_colour("var(--rule)"))
        rules = [("LINEBELOW", (0, 0), (-1, -1), 0.4, line), ("VALIGN", (0, 0), (-1, -1), "TOP")]
        table.setStyle(
            self._platypus.TableStyle(
                [*rules, ("TOPPADDING", (0, 0), (-1, -1), 2), ("BOTTOMPADDING", (0, 0), (-1, -1), 2)]
            )
        )
        return table

    def columns(self, pictures: Iterable[Picture]) -> list[Any]:
        """Charts in two columns of about the same height, each with its legend."""
        columns: list[list[Any]] = [[], []]
        heights = [0.0, 0.0]
        for picture in pictures:
            k = heights.index(min(heights))
            gap = [self._platypus.Spacer(1, 8)] if columns[k] else []
            columns[k] += [*gap, self.text(picture.title, self.small), self._image(picture), self._legend(picture)]
            heights[k] += _height(picture)
        if not any(columns):
            return []
        table = self._platypus.Table([columns], colWidths=[3.5 * self._units.inch] * 2)
        table.setStyle(self._platypus.TableStyle([("VALIGN", (0, 0), (-1, -1), "TOP")]))
        return [self.text("How good, and for whom", self._heading), table]

    def height(self, flowables: Iterable[Any]) -> float:
        """Inches of what stands below each other on a page."""
        width = 7.0 * self._units.inch
        tall = [each.wrap(width, 10_000)[1] + each.getSpaceBefore() + each.getSpaceAfter() for each in flowables]
        return float(sum(tall) / self._units.inch)

    def _image(self, picture: Picture) -> Any:
        width = min(_COLUMN, _TALLEST * picture.width / picture.height) * self._units.inch
        return self._platypus.Image(io.BytesIO(picture.png), width=width, height=width * picture.height / picture.width)

    def _legend(self, picture: Picture) -> Any:
        named = ((colour, _escaped(text).replace(" ", TIE)) for colour, text in picture.legend[:8])
        marks = " ".join(f'<font color="{colour}">■</font>{TIE}{text}' for colour, text in named)
        return self._platypus.Paragraph(marks, self.small)

    def limits(self, limits: Iterable[str]) -> list[Any]:
        told = [self.text(f"• {text}", self.small) for text in limits]
        return [self.text("Limits", self._heading), *(told or [self.text(NO_LIMITS, self.small)])]

    def made(self, title: str, *pages: list[Any]) -> bytes:
        """Each list on one page, made smaller where it would not fit."""
        out = io.BytesIO()
        margin = 0.6 * self._units.inch
        sizes = optional("reportlab.lib.pagesizes", extra="cards", needed_for="the committee's PDF")
        document = self._platypus.SimpleDocTemplate(
            out, pagesize=sizes.A4, title=title, author="palpate", creator="palpate", invariant=True,
            leftMargin=margin, rightMargin=margin, topMargin=margin, bottomMargin=margin,
        )  # fmt: skip
        story: list[Any] = []
        for page in pages:
            fitted = self._platypus.KeepInFrame(document.width, document.height - 12, page, mode="shrink")
            story += [*([self._platypus.PageBreak()] if story else []), fitted]
        document.build(story)
        return out.getvalue()


def _height(picture: Picture) -> float:
    """Inches of a chart with its title and legend."""
    return min(_TALLEST, _COLUMN * picture.height / picture.width) + 0.45


def _fitting(
    charts: list[tuple[str, list[Picture], int]], rooms: tuple[float, float]
) -> list[tuple[str, list[Picture], int]]:
    """As many panels as two pages have inches for: the first of every chart, then the second, and so on."""
    kept = [0] * len(charts)
    for place in range(_MOST_PANELS):
        for k, (_, panels, _) in enumerate(charts):
            if place >= len(panels) or kept[k] != place:
                continue
            more = [n + (other == k) for other, n in enumerate(kept)]
            _, late = _on_pages(
                [each for (_, own, _), n in zip(charts, more, strict=True) for each in own[:n]], rooms[0]
            )
            if place == 0 or _tallest(late) <= rooms[1]:
                kept = more
    return [
        (title, panels[:n], left_out + len(panels) - n)
        for (title, panels, left_out), n in zip(charts, kept, strict=True)
    ]


def _escaped(text: str) -> str:
    """Text that reportlab takes as it is."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _font() -> str:
    """A font with the signs that the scorecard uses, where the machine has one; Helvetica otherwise."""
    metrics = optional("reportlab.pdfbase.pdfmetrics", extra="cards", needed_for="the committee's PDF")
    fonts = optional("reportlab.pdfbase.ttfonts", extra="cards", needed_for="the committee's PDF")
    for name in ("DejaVuSans.ttf", "Vera.ttf"):
        try:
            metrics.registerFont(fonts.TTFont("palpate", name))
        except fonts.TTFError:
            continue
        return "palpate"
    return "Helvetica"
