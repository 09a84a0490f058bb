"""The committee's digest as a PDF of two pages."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

from palpate.registry import optional
from palpate.report.committee import (
    MARKS,
    NO_LIMITS,
    VERDICT_COLOURS,
    Digest,
    Grid,
    Picture,
    panels_of,
    plain_colour,
    scorecard_cells,
)
from palpate.report.scorecard import ScorecardView

_COLUMN, _TALLEST = 3.3, 7.5
"""Inches: how wide and how tall a chart may be."""
_MOST_PANELS = 6
NO_ANSWERS = "No audit of this run answers a question of the scorecard."


def as_pdf(digest: Digest) -> bytes:
    """Two pages: verdicts and who was audited; charts and limits."""
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
    second = [*pages.pictures(digest.pictures), *pages.limits(digest.limits)]
    return pages.made(digest.title, first, second)


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
        self._small = styles.ParagraphStyle("small", fontName=font, fontSize=7.5, leading=9.5)
        self._heading = styles.ParagraphStyle(
            "heading", fontName=font, fontSize=12, leading=15, spaceBefore=6, spaceAfter=3
        )
        self._title = styles.ParagraphStyle("title", fontName=font, fontSize=17, leading=21, spaceAfter=4)

    def text(self, text: str, style: Any = None, colour: str = "") -> Any:
        safe = text.replace("&", "&amp;").replace("<", "&lt;").replace("\n", "<br/>")
        safe = f'<font color="{plain_colour(colour)}">{safe}</font>' if colour else safe
        return self._platypus.Paragraph(safe, style or self._style)

    def head(self, digest: Digest) -> list[Any]:
        lines = [self.text(digest.title, self._title), self.text(digest.run, self._small)]
        return [*lines, self.text("; ".join(digest.cohorts), self._small)]

    def scorecard(self, view: ScorecardView | None) -> list[Any]:
        if view is None:
            return [self.text(NO_ANSWERS)]
        head = [
            self.text(""),
            *(self.text(f"{head.name}\n{head.metric} {head.number}", self._small) for head in view.heads),
        ]
        rows = [
            [self.text(text, self._small, VERDICT_COLOURS.get(verdict, "")) for text, verdict in row]
            for row in scorecard_cells(view)
        ]
        meanings = "; ".join(f"{MARKS[name]} {word}: {means}" for name, word, means in view.legend)
        return [
            self.text("What is known", self._heading),
            *([self.text(view.choice)] if view.choice else []),
            self._table([head, *rows], first=2.0),
            self.text(meanings, self._small),
        ]

    def grid(self, grid: Grid) -> list[Any]:
        rows = [[self.text(text, self._small) for text in row] for row in (grid.head, *grid.rows)]
        more = [self.text(f"{_more(grid.left_out, 'row')} in the report.", self._small)] if grid.left_out else []
        return [self.text(grid.title, self._heading), self._table(rows, first=1.6), *more]

    def _table(self, rows: list[list[Any]], *, first: float) -> Any:
        width = 7.0 * self._units.inch
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

    def pictures(self, pictures: Iterable[Picture]) -> list[Any]:
        """The charts in two columns of about the same height, each with its legend; of many panels, the first."""
        columns: list[list[Any]] = [[], []]
        heights = [0.0, 0.0]
        for title, panels, left_out in panels_of(pictures, _MOST_PANELS):
            for picture in panels:
                k = heights.index(min(heights))
                gap = [self._platypus.Spacer(1, 8)] if columns[k] else []
                columns[k] += [*gap, self.text(picture.title, self._small), self._image(picture), self._legend(picture)]
                heights[k] += _COLUMN * picture.height / picture.width + 0.4
            if left_out:
                told = f"{title}: {_more(left_out, 'panel')} in the report and the slides."
                columns[heights.index(max(heights))].append(self.text(told, self._small))
        if not any(columns):
            return [self.text("The run has none of the charts that belong here.")]
        table = self._platypus.Table([columns], colWidths=[3.5 * self._units.inch] * 2)
        table.setStyle(self._platypus.TableStyle([("VALIGN", (0, 0), (-1, -1), "TOP")]))
        return [self.text("How good, and for whom", self._heading), table]

    def _image(self, picture: Picture) -> Any:
        width = min(_COLUMN, _TALLEST * picture.width / picture.height) * self._units.inch
        return self._platypus.Image(io.BytesIO(picture.png), width=width, height=width * picture.height / picture.width)

    def _legend(self, picture: Picture) -> Any:
        marks = " ".join(f'<font color="{colour}">■</font> {text}' for colour, text in picture.legend[:8])
        return self._platypus.Paragraph(marks.replace("&", "&amp;"), self._small)

    def limits(self, limits: Iterable[str]) -> list[Any]:
        told = [self.text(f"• {text}", self._small) for text in limits]
        return [self.text("Limits", self._heading), *(told or [self.text(NO_LIMITS, self._small)])]

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


def _more(n: int, what: str) -> str:
    return f"1 more {what} is" if n == 1 else f"{n:,} more {what}s are"


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
