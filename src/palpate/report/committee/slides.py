"""The committee's digest as slides, for PowerPoint and its kin."""

from __future__ import annotations

import io
from typing import Any

from palpate.registry import optional
from palpate.report.committee import NO_LIMITS, Digest, Picture, scorecard_cells


def as_pptx(digest: Digest) -> bytes:
    """Slides: title, scorecard, Table 1, one per chart, limits."""
    pptx = optional("pptx", extra="cards", needed_for="slides")
    show = pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[0])
    slide.shapes.title.text = digest.title
    slide.placeholders[1].text = "\n".join([digest.run, *digest.cohorts])
    if digest.scorecard is not None:
        rows = [[text for text, _ in row] for row in scorecard_cells(digest.scorecard)]
        _table_slide(show, "What is known", ["", *digest.scorecard.models], rows)
    if digest.table_one is not None:
        _table_slide(
            show, digest.table_one.title, list(digest.table_one.head), [list(row) for row in digest.table_one.rows]
        )
    for picture in digest.pictures:
        _picture_slide(show, picture)
    slide = show.slides.add_slide(show.slide_layouts[1])
    slide.shapes.title.text = "Limits"
    slide.placeholders[1].text = "\n".join(digest.limits) or NO_LIMITS
    _sized(slide.placeholders[1].text_frame, 14)
    out = io.BytesIO()
    show.save(out)
    return out.getvalue()


def _sized(frame: Any, points: int) -> None:
    from pptx.util import Pt

    for paragraph in frame.paragraphs:
        paragraph.font.size = Pt(points)


def _table_slide(show: Any, title: str, head: list[str], rows: list[list[str]]) -> None:
    """A table on a slide, continued on further ones where it is long."""
    from pptx.util import Inches

    for start in range(0, max(1, len(rows)), 8):
        part = rows[start : start + 8]
        slide = show.slides.add_slide(show.slide_layouts[5])
        slide.shapes.title.text = title if start == 0 else f"{title} (continued)"
        shape = slide.shapes.add_table(len(part) + 1, len(head), Inches(0.4), Inches(1.4), Inches(9.2), Inches(5))
        for row, texts in enumerate([head, *part]):
            for column, text in enumerate(texts):
                cell = shape.table.cell(row, column)
                cell.text = text
                _sized(cell.text_frame, 11)


def _picture_slide(show: Any, picture: Picture) -> None:
    """A chart with its legend below and its description as the picture's alternative text."""
    from pptx.util import Inches

    slide = show.slides.add_slide(show.slide_layouts[5])
    slide.shapes.title.text = picture.title
    width = min(9.0, 4.6 * picture.width / picture.height)
    shape = slide.shapes.add_picture(io.BytesIO(picture.png), Inches(5 - width / 2), Inches(1.4), width=Inches(width))
    shape._element.nvPicPr.cNvPr.set("descr", picture.description)
    box = slide.shapes.add_textbox(Inches(0.5), Inches(6.6), Inches(9), Inches(0.6))
    box.text_frame.word_wrap = True
    _legend_runs(box.text_frame.paragraphs[0], picture)


def _legend_runs(paragraph: Any, picture: Picture) -> None:
    from pptx.dml.color import RGBColor
    from pptx.util import Pt

    for colour, text in picture.legend[:8]:
        mark, words = paragraph.add_run(), paragraph.add_run()
        mark.text, words.text = "■ ", f"{text}   "
        mark.font.color.rgb = RGBColor.from_string(colour.lstrip("#")[:6].upper().ljust(6, "0"))
        mark.font.size = words.font.size = Pt(12)
