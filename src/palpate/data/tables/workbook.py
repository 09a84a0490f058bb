"""The cells of an Excel workbook, read with the standard library: texts and numbers as they are stored, no formulas."""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from palpate.errors import InputError

MOST_BYTES = 500 * 2**20
"""A part that unpacks to more than this is refused: no table of texts is that large."""

_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_LINK = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


def read_sheet(file: Path, sheet: str) -> Iterator[dict[str, str]]:
    """The rows below the first one, by the names in the first one; empty cells and columns without a name are absent.

    Of two columns with the same name the first counts.
    """
    try:
        with zipfile.ZipFile(file) as package:
            rows = _rows(package, _part_of(package, sheet, file), file)
    except (zipfile.BadZipFile, KeyError, ElementTree.ParseError, IndexError, ValueError):
        raise InputError("the file is no Excel workbook, or is damaged", file=file, hint="download it again") from None
    except OSError as error:
        raise InputError(f"the file can't be read ({error.strerror})", file=file, hint="check the path") from None
    if not rows:
        raise InputError(f"sheet '{sheet}' is empty", file=file, hint="download it again")
    names: dict[str, str] = {}
    for letter, name in rows[0].items():
        if name.strip() not in names.values():
            names[letter] = name.strip()
    return ({names[at]: value for at, value in row.items() if at in names} for row in rows[1:])


def _part_of(package: zipfile.ZipFile, sheet: str, file: Path) -> str:
    """The part of the package that holds a sheet."""
    book = _parse(package, "xl/workbook.xml", file)
    links = {entry.get("name", "").strip(): entry.get(_LINK) for entry in book.iter(f"{_MAIN}sheet")}
    if sheet not in links:
        raise InputError(f"there is no sheet '{sheet}'", file=file, hint=f"there are: {', '.join(links)}")
    relations = _parse(package, "xl/_rels/workbook.xml.rels", file)
    target = next(entry.get("Target", "") for entry in relations if entry.get("Id") == links[sheet])
    return target.lstrip("/") if target.startswith("/") else posixpath.normpath(f"xl/{target}")


def _rows(package: zipfile.ZipFile, part: str, file: Path) -> list[dict[str, str]]:
    shared: list[str] = []
    if "xl/sharedStrings.xml" in package.namelist():
        shared = [_text(item) for item in _parse(package, "xl/sharedStrings.xml", file)]
    rows = []
    for row in _parse(package, part, file).iter(f"{_MAIN}row"):
        cells = {re.sub(r"\d+", "", cell.get("r", "")): _value(cell, shared) for cell in row.iter(f"{_MAIN}c")}
        rows.append({at: value for at, value in cells.items() if value})
    return rows


def _value(cell: ElementTree.Element, shared: list[str]) -> str:
    if cell.get("t") == "inlineStr":
        return _text(cell)
    value = cell.findtext(f"{_MAIN}v") or ""
    return shared[int(value)] if cell.get("t") == "s" and value else value


def _text(item: ElementTree.Element) -> str:
    """A text in pieces of different fonts, without what says how to pronounce it."""
    spoken = {piece for note in item.iter(f"{_MAIN}rPh") for piece in note.iter(f"{_MAIN}t")}
    return "".join(piece.text or "" for piece in item.iter(f"{_MAIN}t") if piece not in spoken)


def _parse(package: zipfile.ZipFile, part: str, file: Path) -> ElementTree.Element:
    if package.getinfo(part).file_size > MOST_BYTES:
        raise InputError(f"'{part}' in the workbook is larger than palpate reads", file=file, hint="download it again")
    return ElementTree.fromstring(package.read(part))
