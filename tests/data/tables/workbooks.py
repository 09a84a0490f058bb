"""Excel workbooks written by hand: sheets of texts, numbers, dates and truth values."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from xml.sax.saxutils import escape

Cell = str | float | int | bool | datetime | None
_MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = 'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"'
_FORMATS = '<cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="22" applyNumberFormat="1"/></cellXfs>'


def _cell(place: str, value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
    if isinstance(value, datetime):
        days = (value - datetime(1899, 12, 30)).total_seconds() / 86400
        return f'<c r="{place}" s="1"><v>{days!r}</v></c>'
    if isinstance(value, str):
        return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
    return f'<c r="{place}"><v>{value!r}</v></c>'


def _sheet(rows: Sequence[Sequence[Cell]]) -> str:
    lines = (
        f'<row r="{number}">{"".join(_cell(f"{chr(65 + k)}{number}", cell) for k, cell in enumerate(row))}</row>'
        for number, row in enumerate(rows, start=1)
    )
    return f"<worksheet {_MAIN}><sheetData>{''.join(lines)}</sheetData></worksheet>"


def write_workbook(file: Path, sheets: Mapping[str, Sequence[Sequence[Cell]]]) -> Path:
    """A workbook with these sheets, by name."""
    names = list(sheets)
    listed = "".join(
        f'<sheet name="{escape(name)}" sheetId="{k}" r:id="r{k}"/>' for k, name in enumerate(names, start=1)
    )
    links = "".join(
        f'<Relationship Id="r{k}" Type="{_LINKS}/worksheet" Target="worksheets/s{k}.xml"/>'
        for k in range(1, len(names) + 1)
    )
    styles = f'<Relationship Id="s" Type="{_LINKS}/styles" Target="styles.xml"/>'
    with zipfile.ZipFile(file, "w") as package:
        package.writestr(
            "xl/workbook.xml", f'<workbook {_MAIN} xmlns:r="{_LINKS}"><sheets>{listed}</sheets></workbook>'
        )
        package.writestr("xl/_rels/workbook.xml.rels", f"<Relationships {_PACKAGE}>{links}{styles}</Relationships>")
        package.writestr("xl/styles.xml", f"<styleSheet {_MAIN}>{_FORMATS}</styleSheet>")
        package.writestr(
            "_rels/.rels",
            f'<Relationships {_PACKAGE}><Relationship Id="r1" Type="{_LINKS}/officeDocument" '
            'Target="xl/workbook.xml"/></Relationships>',
        )
        for k, name in enumerate(names, start=1):
            package.writestr(f"xl/worksheets/s{k}.xml", _sheet(sheets[name]))
    return file
