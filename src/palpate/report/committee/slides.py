"""The committee's digest as slides, for PowerPoint and its kin: the answer, who was audited, charts, limits."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

from palpate.registry import optional
from palpate.report.committee import (
    NO_ANSWERS,
    NO_LIMITS,
    TIE,
    VERDICT_COLOURS,
    Digest,
    meanings_of,
    more_of,
    panels_of,
    scorecard_cells,
)
from palpate.report.committee.panels import Picture, plain_colour

_WIDE, _HIGH, _EDGE = 13.333, 7.5, 0.5
"""Inches of a slide of 16:9, and of what stays empty around it."""
_TOP, _BOTTOM = 1.15, 6.75
"""Between which inches the content of a slide is: above is its title, below what explains it."""
_PANELS = 2
"""On a slide: of three, the letters are too small to be read from a distance, and half of the slide is empty."""
_BROADEST = 9.0
"""Inches of a picture, so that the letters of a small one are not larger than its title."""
_PER_INCH, _LINE, _PADDING = 120.0, 1.3, 0.1
"""Characters in an inch times points (10 of letters of 12), a line in heights of letters, inches around a cell."""
_MOST_LINES = 2
"""Of a caption and of a legend."""
_LONGEST_LINE, _LONGEST_TITLE, _LONG = 45, 160, 240
"""Characters of a title in large letters, of any title, and of a leading sentence in large letters."""

Cell = tuple[str, str]
"""A text, and its colour or nothing."""


class _TableSizes(NamedTuple):
    """A table before it is drawn: inches of its columns and of its rows, of which the first is the head."""

    widths: list[float]
    heights: list[float]
    points: int


def as_pptx(digest: Digest) -> bytes:
    """Slides: the answer, Table 1, one or more per chart, limits."""
    pptx = optional("pptx", extra="cards", needed_for="slides")
    show = pptx.Presentation()
    show.slide_width, show.slide_height = _inches(_WIDE), _inches(_HIGH)
    _answer(show, digest)
    if digest.table_one is not None:
        grid = digest.table_one
        rows = [[(text, "") for text in row] for row in grid.rows]
        below = f"{more_of(grid.left_out, 'row')} in the report." if grid.left_out else ""
        _tables(show, (grid.title, grid.title), [grid.head, *rows], first=1.3, below=below)
    for title, panels, _ in panels_of(digest.pictures, len(digest.pictures)):
        for start in range(0, len(panels), _PANELS):
            _picture_slide(show, f"{title} (continued)" if start else title, panels[start : start + _PANELS])
    _limits(show, [f"• {each}" for each in digest.limits] or [NO_LIMITS])
    out = io.BytesIO()
    show.save(out)
    return out.getvalue()


def _answer(show: Any, digest: Digest) -> None:
    """The first slide: what is known of each model, in a sentence and by question; of what and when, below."""
    view, made = digest.scorecard, "; ".join([*digest.cohorts, digest.run])
    if view is None:
        slide = _slide(show, digest.title)
        _text(slide, NO_ANSWERS, _TOP, 1, points=18)
        _text(slide, made, _BOTTOM, 0.5, points=11)
        return
    head = ["", *(f"{each.name}\n{each.metric} {each.number}" for each in view.heads)]
    rows = [[(text, VERDICT_COLOURS.get(verdict, "")) for text, verdict in row] for row in scorecard_cells(view)]
    below = f"{meanings_of(view)}\n{made}"
    _tables(show, (digest.title, "What is known"), [head, *rows], first=2.0, below=below, lead=view.choice)


def _limits(show: Any, told: Sequence[str]) -> None:
    """All limits, on as many slides as they need."""
    points, space, at = 16, 6, 0
    heights = [_lines(each, _WIDE - 2 * _EDGE - 0.2, points) * points * _LINE / 72 + space / 72 for each in told]
    while at < len(told):
        end, room = at, _BOTTOM - _TOP
        while end < len(told) and (end == at or heights[end] <= room):
            room -= heights[end]
            end += 1
        slide = _slide(show, "Limits (continued)" if at else "Limits")
        _text(slide, "\n".join(told[at:end]), _TOP, _BOTTOM - _TOP, points=points, space=space)
        at = end


# --- tables -------------------------------------------------------------------------------------------------


def _tables(
    show: Any, titles: tuple[str, str], rows: Sequence[Sequence[Any]], *, first: float, below: str, lead: str = ""
) -> None:
    """A table on a slide under a leading sentence, continued on further slides where it is long."""
    head, *body = [[cell if isinstance(cell, tuple) else (cell, "") for cell in row] for row in rows]
    points = 16 if len(lead) <= _LONG else 12
    height = _lines(lead, _WIDE - 2 * _EDGE - 0.2, points) * points * _LINE / 72 if lead else 0.0
    title, top, at = titles[0], _TOP + height + (0.1 if lead else 0), 0
    layout = _layout([head, *body], first, _BOTTOM - top)
    most = len(body) if lead else _even(layout)
    while at < len(body) or not at:
        slide = _slide(show, title)
        if lead:
            _text(slide, lead, _TOP, height, points=points)
        end = min(_fitting(layout, at, _BOTTOM - top), at + most)
        _table(slide, [head, *body[at:end]], layout, at, top)
        _text(slide, below, _BOTTOM, 0.6, points=11)
        title, top, lead, at = f"{titles[1]} (continued)", _TOP, "", end


def _layout(rows: Sequence[Sequence[Cell]], first: float, room: float) -> _TableSizes:
    """Widths of columns, the first one `first` times as wide as others, and heights for the lines in the cells.

    The letters are the largest with which the table fits on one slide, or as large as others if it never does.
    """
    columns = len(rows[0])
    share = (_WIDE - 2 * _EDGE) / (first + columns - 1)
    widths = [first * share, *([share] * (columns - 1))]
    usual = 12 if columns <= 4 else 11 if columns <= 5 else 10
    sizes = [_sized(rows, widths, points) for points in range(usual, 9, -1)]
    return next((each for each in sizes if sum(each.heights) <= room), sizes[0])


def _sized(rows: Sequence[Sequence[Cell]], widths: list[float], points: int) -> _TableSizes:
    lines = [
        max(_lines(text, width - 2 * _PADDING, points) for (text, _), width in zip(row, widths, strict=True))
        for row in rows
    ]
    return _TableSizes(widths, [n * points * _LINE / 72 + _PADDING for n in lines], points)


def _lines(text: str, width: float, points: int) -> int:
    """About how many lines a text takes; words are not cut, so that a line is seldom full."""
    most = max(1, int(width * _PER_INCH / points))
    return sum(max(1, -(-len(line) // most)) for line in text.split("\n"))


def _fitting(layout: _TableSizes, at: int, room: float) -> int:
    """Up to which row a slide goes, at least one."""
    head, *heights = layout.heights
    end, room = at, room - head
    while end < len(heights) and (end == at or heights[end] <= room):
        room -= heights[end]
        end += 1
    return max(end, at + 1)


def _even(layout: _TableSizes) -> int:
    """How many rows a slide has if all that are needed have about as many: none is left with one row."""
    at = slides = 0
    while at < len(layout.heights) - 1:
        at, slides = _fitting(layout, at, _BOTTOM - _TOP), slides + 1
    return -(-(len(layout.heights) - 1) // max(1, slides))


def _table(slide: Any, rows: Sequence[Sequence[Cell]], layout: _TableSizes, at: int, top: float) -> None:
    heights = [layout.heights[0], *layout.heights[1 + at : len(rows) + at]]
    size = [_inches(each) for each in (_EDGE, top, sum(layout.widths), sum(heights))]
    table = slide.shapes.add_table(len(rows), len(layout.widths), *size).table
    table.horz_banding = False
    for column, width in zip(table.columns, layout.widths, strict=True):
        column.width = _inches(width)
    for row, height in zip(table.rows, heights, strict=True):
        row.height = _inches(height)
    for k, cells in enumerate(rows):
        for cell, (text, colour) in zip(table.rows[k].cells, cells, strict=True):
            cell.margin_top = cell.margin_bottom = _inches(_PADDING / 2)
            cell.fill.solid()
            cell.fill.fore_color.rgb = _rgb("#e3e7ee" if k == 0 else "#f6f7f9" if k % 2 else "#ffffff")
            _write(cell.text_frame, text, points=layout.points, colour=colour or "var(--ink)", bold=k == 0)


# --- charts -------------------------------------------------------------------------------------------------


def _picture_slide(show: Any, title: str, panels: Sequence[Picture]) -> None:
    """Panels side by side as large as they can be, with their legend below and a description as alternative text."""
    slide = _slide(show, title)
    broad, tall = (_WIDE - 2 * _EDGE) / len(panels), _BOTTOM - _TOP - 0.4
    for k, picture in enumerate(panels):
        left = _EDGE + broad * k
        width = min(broad - 0.2, tall * picture.width / picture.height, _BROADEST)
        at = left + (broad - width) / 2
        size = {"left": _inches(at), "top": _inches(_TOP + 0.4), "width": _inches(width)}
        shape = slide.shapes.add_picture(io.BytesIO(picture.png), **size)
        shape._element.nvPicPr.cNvPr.set("descr", f"{picture.title}. {picture.description}")
        if len(panels) > 1 or picture.title != title:
            said = picture.title.removeprefix(f"{title.removesuffix(' (continued)')}: ")
            said, points = _shortened(said, broad, _MOST_LINES)
            _text(slide, said, _TOP, 0.35, points=points, left=left, width=broad)
    box = slide.shapes.add_textbox(*(_inches(each) for each in (_EDGE, _BOTTOM + 0.1, _WIDE - 2 * _EDGE, 0.5)))
    box.text_frame.word_wrap = True
    _legend_runs(box.text_frame.paragraphs[0], panels[0])


def _shortened(text: str, width: float, most: int) -> tuple[str, int]:
    """A text and the points in which it takes one line, or as many as there may be; what is longer is cut."""
    if _lines(text, width, 14) == 1:
        return text, 14
    longest = int(width * _PER_INCH / 10) * most
    return text if len(text) <= longest else f"{text[: longest - 1]}…", 10


def _legend_runs(paragraph: Any, picture: Picture) -> None:
    from pptx.util import Pt

    whole = "   ".join(f"■{TIE}{text}" for _, text in picture.legend[:8])
    points = next((size for size in (14, 12) if _lines(whole, _WIDE - 2 * _EDGE, size) <= _MOST_LINES), 10)
    for colour, text in picture.legend[:8]:
        mark, words = paragraph.add_run(), paragraph.add_run()
        mark.text, words.text = f"■{TIE}", f"{text}   "
        mark.font.color.rgb = _rgb(colour)
        mark.font.size = words.font.size = Pt(points)


# --- parts of a slide ---------------------------------------------------------------------------------------


def _slide(show: Any, title: str) -> Any:
    """An empty slide with its title, which is cut where it would not fit into two lines."""
    slide = show.slides.add_slide(show.slide_layouts[5])
    shape = slide.shapes.title
    shape.left, shape.top, shape.width, shape.height = map(_inches, (_EDGE, 0.25, _WIDE - 2 * _EDGE, _TOP - 0.3))
    shown = title if len(title) <= _LONGEST_TITLE else f"{title[: _LONGEST_TITLE - 1]}…"
    _write(shape.text_frame, shown, points=28 if len(title) <= _LONGEST_LINE else 20, colour="var(--ink)", bold=True)
    return slide


def _text(
    slide: Any,
    text: str,
    top: float,
    height: float,
    *,
    points: int,
    left: float = _EDGE,
    width: float = 0,
    space: int = 0,
) -> None:
    size = (left, top, width or _WIDE - 2 * _EDGE, height)
    box = slide.shapes.add_textbox(*map(_inches, size))
    _write(box.text_frame, text, points=points, space=space)


def _write(frame: Any, text: str, *, points: int, colour: str = "", bold: bool = False, space: int = 0) -> None:
    from pptx.enum.text import PP_ALIGN
    from pptx.util import Pt

    frame.word_wrap = True
    frame.text = text
    for paragraph in frame.paragraphs:
        paragraph.alignment = PP_ALIGN.LEFT
        paragraph.space_after = Pt(space)
        paragraph.font.size, paragraph.font.bold = Pt(points), bold
        if colour:
            paragraph.font.color.rgb = _rgb(plain_colour(colour))


def _inches(number: float) -> Any:
    from pptx.util import Inches

    return Inches(number)


def _rgb(colour: str) -> Any:
    from pptx.dml.color import RGBColor

    return RGBColor.from_string(colour.lstrip("#")[:6].upper().ljust(6, "0"))
