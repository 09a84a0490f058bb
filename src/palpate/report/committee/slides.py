"""The committee's digest as slides, for PowerPoint and its kin."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from palpate.registry import optional
from palpate.report.committee import NO_LIMITS, Digest, Picture, panels_of, scorecard_cells

_PANELS, _TALL_PANELS, _TALL = 4, 2, 1.0
"""On a slide: how many, how many tall ones, and what is tall."""


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
    for title, panels, _ in panels_of(digest.pictures, len(digest.pictures)):
        most = _TALL_PANELS if any(each.height > _TALL * each.width for each in panels) else _PANELS
        for start in range(0, len(panels), most):
            _picture_slide(show, f"{title} (continued)" if start else title, panels[start : start + most])
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


def _picture_slide(show: Any, title: str, panels: Sequence[Picture]) -> None:
    """A chart with its legend below and its description as alternative text; up to four panels in two columns."""
    from pptx.util import Inches, Pt

    slide = show.slides.add_slide(show.slide_layouts[5])
    slide.shapes.title.text = title
    across, down = min(2, len(panels)), -(-len(panels) // 2)
    broad, tall = 9.0 / across, 5.0 / down
    for k, picture in enumerate(panels):
        left, top = 0.5 + broad * (k % 2), 1.5 + tall * (k // 2)
        width = min(broad - 0.1, (tall - 0.35) * picture.width / picture.height)
        at = Inches(left + (broad - width) / 2)
        shape = slide.shapes.add_picture(io.BytesIO(picture.png), at, Inches(top + 0.3), width=Inches(width))
        shape._element.nvPicPr.cNvPr.set("descr", f"{picture.title}. {picture.description}")
        if len(panels) > 1 or picture.title != title:
            box = slide.shapes.add_textbox(Inches(left), Inches(top - 0.05), Inches(broad), Inches(0.3))
            box.text_frame.text = picture.title.removeprefix(f"{title.removesuffix(' (continued)')}: ")
            box.text_frame.paragraphs[0].font.size = Pt(12)
    box = slide.shapes.add_textbox(Inches(0.5), Inches(6.6), Inches(9), Inches(0.6))
    box.text_frame.word_wrap = True
    _legend_runs(box.text_frame.paragraphs[0], panels[0])


def _legend_runs(paragraph: Any, picture: Picture) -> None:
    from pptx.dml.color import RGBColor
    from pptx.util import Pt

    for colour, text in picture.legend[:8]:
        mark, words = paragraph.add_run(), paragraph.add_run()
        mark.text, words.text = "■ ", f"{text}   "
        mark.font.color.rgb = RGBColor.from_string(colour.lstrip("#")[:6].upper().ljust(6, "0"))
        mark.font.size = words.font.size = Pt(12)
