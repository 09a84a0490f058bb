"""Cards as files: CHAI's XML, JSON, Markdown and Word."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

from palpate.registry import optional
from palpate.report.cards.entries import Item
from palpate.report.cards.items import LEGEND, Card
from palpate.report.cards.small import SmallCounts

CHAI = "https://mc.chai.org/v0.2/schema.xsd"
_MEASURED = ("results/", "manifest.json", "scorecard.json")
"""How sources in a run begin."""
_REPEATED = ("EHRCompatibility/EHR", "Keywords/Keyword")
_OPTIONAL = (
    "EHR", "Keyword", "RegulatoryApproval", "FoundationModels", "Security", "Transparency", "ThirdPartyInformation",
    "ClinicalTrial", "ReimbursementStatus",
)  # fmt: skip
_METRICS = {
    "UsefulnessUsabilityEfficacy": "To tell patients with the outcome from those without, with risks that are right.",
    "FairnessEquity": "To be no worse for some patients than for others.",
    "SafetyReliability": "To behave as expected when words, wording, time or data change.",
}
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold."""
_MARGIN, _FIRST, _SHORT = 0.8, 0.25, 6
"""Of a Word document: inches around a page, the share of the first column, and how many sentences a short row has."""
_FAR_RIGHT = re.compile("^ {4,}")
_MARKUP = re.compile(r"[\\*\[\]|#`~]|(?<!\w)_|_(?!\w)")
"""What Markdown takes for markup anywhere; an underscore within a word stays."""
_LIST_MARK, _RULE = re.compile(r"^(\s*\d*)([-+=.)])"), re.compile(r"^(\s*)([-=])(?=[-=]|\s*$)")
"""What it takes for a list or an underlined heading at the start of a text, and for a rule on a later line."""


def as_chai(card: Card) -> str:
    """CHAI's Applied Model Card v0.2. Optional fields that nobody filled are left out; required ones say who must."""
    ElementTree.register_namespace("", CHAI)
    root = ElementTree.Element(_tag("AppliedModelCard"))
    for item in card.items:
        if item.name.startswith("KeyMetrics/"):
            _add_metrics(_at(root, item.name), item, card)
        elif item.name.endswith(_REPEATED):
            texts = [part for each in item.statements for part in each.parts]
            parent = _at(root, item.name.rpartition("/")[0])
            _cite(parent, item)
            for text in texts:
                _add(parent, item.name.rpartition("/")[2], text)
        elif item.statements or not item.name.endswith(_OPTIONAL):
            _cite(_at(root, item.name.rpartition("/")[0]) if "/" in item.name else root, item)
            _at(root, item.name).text = _clean(_with_sources(item))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _tag(name: str) -> str:
    return f"{{{CHAI}}}{name}"


def _at(root: ElementTree.Element, path: str) -> ElementTree.Element:
    """The element at a path, made on the way where it is not there."""
    element = root
    for name in path.split("/"):
        found = element.find(_tag(name))
        element = ElementTree.SubElement(element, _tag(name)) if found is None else found
    return element


def _add(parent: ElementTree.Element, name: str, text: str) -> ElementTree.Element:
    child = ElementTree.SubElement(parent, _tag(name))
    child.text = _clean(text)
    return child


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


def _with_sources(item: Item) -> str:
    """The text; what was measured cites its rows in it, so that they survive where comments do not."""
    return item.text if _is_written(item) else f"{item.text}\nSources: {'; '.join(item.sources)}."


def _is_written(item: Item) -> bool:
    """Whether people wrote all of it: a name must stay a name, so its source is in a comment."""
    return not any(each.source.startswith(_MEASURED) for each in item.statements)


def _cite(parent: ElementTree.Element, item: Item) -> None:
    """A comment with the source of what people wrote."""
    if item.sources and _is_written(item):
        cited = re.sub("-(?=-|$)", "- ", _clean(f" {item.name.rpartition('/')[2]} is from {'; '.join(item.sources)} "))
        parent.append(ElementTree.Comment(cited))


def _add_metrics(element: ElementTree.Element, item: Item, card: Card) -> None:
    """One of CHAI's key metrics: every estimate as JSON with its source, and what they mean in words."""
    _add(element, "MetricGoal", _METRICS[item.name.rpartition("/")[2]])
    results = ElementTree.SubElement(element, _tag("Results"))
    for statement in item.statements:
        result = ElementTree.SubElement(results, _tag("MetricResult"))
        _add(result, "Label", statement.text)
        number: dict[str, Any] = dict(statement.number or {}) | {"source": statement.source}
        _add(result, "ValueJson", json.dumps(number, ensure_ascii=False, allow_nan=False))
    verdicts = [each.text for each in item.statements if each.number is None]
    _add(element, "Interpretation", "\n".join(verdicts) or "See the verdicts of the run's scorecard.")
    _add(element, "TestType", f"palpate {card.manifest.get('palpate')}, retrospective, on the run's cohorts")
    cohorts = [
        f"{each['name']}: {each['n']:,} cases of {each['n_patients']:,} patients" for each in card.manifest["cohorts"]
    ]
    _add(element, "TestingDataDescription", SmallCounts(card.manifest).sentence("; ".join(cohorts)))
    _add(
        element,
        "ValidationProcessAndJustification",
        f"{card.run}. Verdicts follow from intervals and margins stated before.",
    )


def as_json(card: Card) -> str:
    """The items as data, each with its sources and with what is missing."""
    items = [
        {
            "item": item.name,
            **({"section": item.section, "asks": item.asks} if item.asks else {}),
            "text": "\n".join(each.text for each in item.statements) or None,
            "sources": list(item.sources),
            "numbers": [{**each.number, "source": each.source} for each in item.statements if each.number],
            "missing": [each._asdict() for each in item.missing],
        }
        for item in card.items
    ]
    content = {"card": card.title, "run": card.run, "legend": LEGEND, "items": items}
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_markdown(card: Card) -> str:
    """A page: a section per part, an item per heading, the sources in small print."""
    lines = [
        f"# {card.title}",
        "",
        _escaped(card.run),
        "",
        f"*{LEGEND}* {card.summary}",
        "",
    ]
    section = ""
    for item in card.items:
        part, name = _named(item)
        if part != section:
            section = part
            lines += [f"## {section}", ""]
        lines += [f"### {name}", ""]
        lines += [_bullet(each.text, f"<sub>{_escaped(each.source)}</sub>") for each in item.statements]
        lines += [f"- **{_escaped(each.sentence)}**" for each in item.missing]
        lines.append("")
    return "\n".join(lines)


def _named(item: Item) -> tuple[str, str]:
    """The heading of the part and of the item; CHAI's are paths of element names."""
    if item.asks:
        return item.section.capitalize(), f"{item.name}. {item.asks}"
    part, _, name = item.name.partition("/")
    return _spaced(part), _spaced(name.replace("/", ": ") or part)


def _spaced(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)


def _bullet(text: str, source: str) -> str:
    """A statement as a list item; the lines of one that has several stay lines, with the source below them."""
    first, *others = (line.rstrip() for line in text.strip("\n").split("\n"))
    lines = [_escaped(first), *(_RULE.sub(r"\1\\\2", _markup_escaped(line)) for line in others)]
    if len(lines) == 1:
        return f"- {lines[0]} {source}"
    # Two blanks at the end of a line break it; four at its start would make it code.
    kept = [f"  {'' if k == 0 else _FAR_RIGHT.sub('   ', line)}" for k, line in enumerate(lines)]
    kept[0] = f"- {lines[0]}"
    broken = [f"{line}  " if line.strip() and after.strip() else line.rstrip() for line, after in pairwise([*kept, ""])]
    return "\n".join([*broken, "", f"  {source}"])


def _escaped(text: str) -> str:
    """Text that Markdown and HTML take as it is."""
    return _LIST_MARK.sub(r"\1\\\2", _markup_escaped(text))


def _markup_escaped(text: str) -> str:
    """The same for a line that may begin as a list does, which it then is."""
    safe = text.replace("\n", " ").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKUP.sub(r"\\\g<0>", safe)


def as_docx(card: Card) -> bytes:
    """The same as a Word document: a table with each item and its sentences, each with its source in small print."""
    docx = optional("docx", extra="cards", needed_for="cards as Word documents")
    document = docx.Document()
    document.core_properties.title, document.core_properties.author = card.title, "palpate"
    document.styles["Normal"].font.size = docx.shared.Pt(10)
    document.styles["Normal"].paragraph_format.space_after = docx.shared.Pt(2)
    for page in document.sections:
        page.left_margin = page.right_margin = page.top_margin = page.bottom_margin = docx.shared.Inches(_MARGIN)
    document.add_heading(card.title, 0)
    document.add_paragraph(card.run)
    document.add_paragraph(f"{LEGEND} {card.summary}")
    for section, items in _sections(card.items):
        document.add_heading(section, 1)
        _docx_table(docx, document, items)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def _docx_table(docx: Any, document: Any, items: Iterable[Item]) -> None:
    """One part of the card; its head is repeated on every page, and a short row is not cut by the end of a page."""
    page = document.sections[0]
    room = page.page_width - page.left_margin - page.right_margin
    table = document.add_table(rows=1, cols=2, style="Table Grid")
    table.autofit = False
    for cell, text in zip(table.rows[0].cells, ("Item", "Text, with the source of each sentence"), strict=True):
        cell.paragraphs[0].add_run(text).bold = True
    _mark(docx, table.rows[0], "w:tblHeader")
    for item in items:
        row = table.add_row()
        row.cells[0].text = _clean(_named(item)[1])
        lines = _CellSentences(docx, row.cells[1])
        for each in item.statements:
            lines.add(each.text, source=each.source)
        for missing in item.missing:
            lines.add(missing.sentence, open_one=True)
        if len(item.statements) + len(item.missing) <= _SHORT:
            _mark(docx, row, "w:cantSplit")
    for column, share in zip(table.columns, (_FIRST, 1 - _FIRST), strict=True):
        column.width = int(room * share)  # of the grid, which some programs go by
        for cell in column.cells:
            cell.width = int(room * share)


def _mark(docx: Any, row: Any, name: str) -> None:
    row._tr.get_or_add_trPr().append(docx.oxml.OxmlElement(name))


class _CellSentences:
    """The paragraphs of a cell, of which the first is there from the start."""

    def __init__(self, docx: Any, cell: Any) -> None:
        self._docx, self._cell, self._empty = docx, cell, True

    def add(self, text: str, *, source: str = "", open_one: bool = False) -> None:
        """A sentence and, in small print, its source; one that somebody has to write is bold."""
        paragraph = self._cell.paragraphs[0] if self._empty else self._cell.add_paragraph()
        self._empty = False
        paragraph.add_run(_clean(text)).bold = open_one
        if source:
            small = paragraph.add_run(f"  [{_clean(source)}]")
            small.font.size, small.font.color.rgb = self._docx.shared.Pt(7.5), self._docx.shared.RGBColor(90, 98, 110)


def _sections(items: Iterable[Item]) -> Iterable[tuple[str, list[Item]]]:
    parts: dict[str, list[Item]] = {}
    for item in items:
        parts.setdefault(_named(item)[0], []).append(item)
    return parts.items()


WRITERS: dict[tuple[str, str], Callable[[Card], str | bytes]] = {
    ("chai", ".xml"): as_chai,
    ("chai", ".json"): as_json,
    **{(kind, ".md"): as_markdown for kind in ("chai", "tripod-ai", "hti-1", "markdown")},
    **{(kind, ".docx"): as_docx for kind in ("chai", "tripod-ai", "hti-1", "markdown")},
    **{(kind, ".json"): as_json for kind in ("tripod-ai", "hti-1", "markdown")},
}
"""Which card can be written to which ending; the first of a kind is its default."""
EXTENSIONS = {"chai": ".xml", "tripod-ai": ".md", "hti-1": ".json", "markdown": ".md"}
