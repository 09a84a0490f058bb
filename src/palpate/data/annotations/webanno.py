"""WebAnno TSV 3.x, the export format of WebAnno and INCEpTION (evidence paper, Section 3.3 and Appendix E).

A file lists sentences. A sentence has its text, and a line for each token: its number, its offsets in UTF-16 units, the
token, and the columns of the layers that the header names. `_` means no annotation, and `*` an annotation without a
value. Values of several annotations on one token are separated by `|`; a number in brackets distinguishes annotations
that span several tokens or are stacked. A line with a number like `3-2.1` is a part of a token, or a position between
two characters (`8-8`). Relations, chains and slots are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from palpate.data.annotations import CODE_SYSTEMS, Annotation
from palpate.errors import CohortError
from palpate.privacy import hides

_TOKEN = re.compile(r"(\d+)-(\d+)(?:\.(\d+))?")
_OFFSETS = re.compile(r"(\d+)-(\d+)")
_FORMAT = re.compile(r"#FORMAT=WebAnno TSV 3(?:\.\d+)*\s*")
_ESCAPED = re.compile(r"\\(->|.)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f"}
_NUMBER = re.compile(r"(?s)(.*)(?<!\\)((?:\\\\)*)\[(\d+)\]")
CURATED = ("CURATION_USER", "INITIAL_CAS")
"""File names that are not annotators: the curated document and the original one."""


class Layer(NamedTuple):
    """A layer in the header, with its columns in order; T_SP is a span layer, T_RL relations, T_CH chains."""

    kind: str
    name: str
    columns: tuple[str, ...]

    @property
    def plain(self) -> tuple[int, ...]:
        """The columns that hold values; a slot has a column for its role and one for its target, which hold links."""
        slots = {k for k, name in enumerate(self.columns) if name.startswith("ROLE_")}
        kept = tuple(k for k in range(len(self.columns)) if k not in slots and k - 1 not in slots)
        return kept or (0,)


class LayerSpan(NamedTuple):
    """An annotation of a layer: its characters in the text, and the value of each feature (None: no value)."""

    begin: int
    end: int
    layer: str
    features: dict[str, str | None]


@hides("text", "raw")
class Document(NamedTuple):
    """A file: its text, with blanks in the gaps between sentences, and its spans."""

    text: str
    layers: tuple[Layer, ...]
    spans: tuple[LayerSpan, ...]
    raw: bytes | None = None
    """The file itself, where it is UIMA CAS JSON: it can be changed and keeps what palpate does not read."""


class _Line(NamedTuple):
    """A token, or part of one: its row in the file, its offsets in UTF-16 units, and its cells."""

    row: int
    begin: int
    end: int
    cells: list[str]


def read(file: str | Path) -> Document:
    """Read a document with its span annotations."""
    path = Path(file)
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise CohortError("file not found", file=path) from None
    return parse(raw, path)


def parse(raw: bytes, path: Path) -> Document:
    """A document from the content of its file; `path` is for messages."""
    try:
        content = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CohortError("the file is not UTF-8", file=path, hint="export it again") from None
    # Not splitlines: a note may contain other characters that Python takes for line ends.
    rows = content.replace("\r\n", "\n").split("\n")
    if not _FORMAT.fullmatch(rows[0]):
        raise CohortError(
            "the file does not start with #FORMAT=WebAnno TSV 3", file=path, row=1, hint="export as WebAnno TSV v3.3"
        )
    layers = tuple(_read_layer(row, k, path) for k, row in enumerate(rows, start=1) if row.startswith("#T_"))
    n_cells = 3 + sum(len(layer.columns) for layer in layers)
    text, lines = _sentences(rows, n_cells, path)
    place = _Utf16Offsets(text)
    spans = [
        LayerSpan(place.character(begin, row, path), place.character(end, row, path), layer.name, features)
        for layer, begin, end, row, features in _spans(layers, lines, path)
    ]
    spans.sort(key=lambda span: (span.begin, span.end, span.layer, str(span.features)))
    return Document(place.text, layers, tuple(spans))


def evidence(
    document: Document, *, layer: str, feature: str, code_system: str, file: str | Path | None = None
) -> tuple[Annotation, ...]:
    """The spans of a layer as evidence, with the feature's value as the code; spans without value or text are left out.

    The layer may be named by the last part of its name.
    """
    if code_system not in CODE_SYSTEMS:
        raise CohortError(f"unknown code system '{code_system}'", hint=f"use one of {', '.join(CODE_SYSTEMS)}")
    found = [known for known in document.layers if layer in (known.name, known.name.rsplit(".", 1)[-1])]
    if not found or feature not in found[0].columns:
        there = ", ".join(f"{known.name} ({', '.join(known.columns)})" for known in document.layers) or "none"
        raise CohortError(
            f"no span layer '{layer}' has a feature '{feature}'", file=file, hint=f"the layers are: {there}"
        )
    spans = (span for span in document.spans if span.layer == found[0].name and span.end > span.begin)
    return tuple(
        Annotation(span.begin, span.end, code, code_system)
        for span in spans
        if (code := (span.features.get(feature) or "").strip())
    )


# --- text -------------------------------------------------------------------------------------------------------


class _Utf16Offsets:
    """Converts UTF-16 units to characters: they differ after a character such as an emoji, which has two units."""

    def __init__(self, units: bytearray) -> None:
        self.text = units.decode("utf-16-le", errors="surrogatepass")
        self._units: dict[int, int] | None = None
        if 2 * len(self.text) != len(units):
            self._units = {}
            unit = 0
            for k, character in enumerate(self.text):
                self._units[unit] = k
                unit += 2 if ord(character) > 0xFFFF else 1
            self._units[unit] = len(self.text)

    def character(self, unit: int, row: int, file: Path) -> int:
        if self._units is None:
            return unit
        if unit not in self._units:
            raise CohortError("an offset lies inside a character", file=file, row=row, hint="export the file again")
        return self._units[unit]


def _sentences(rows: list[str], n_cells: int, file: Path) -> tuple[bytearray, list[_Line]]:
    """The text in UTF-16, and the lines of tokens; each sentence's text is checked against its tokens."""
    text, lines = bytearray(), list[_Line]()
    sentence: list[str] = []
    first = 0
    for number, row in enumerate([*rows, ""], start=1):
        if row.startswith("#Text="):
            if len(lines) > first:
                _place_sentence(text, sentence, lines[first:], file)
                sentence, first = [], len(lines)
            sentence.append(_unescape(row.removeprefix("#Text=")))
        elif row and not row.startswith("#"):
            lines.append(_line(row, number, n_cells, file))
            if not sentence:
                raise CohortError("a token comes before the text of its sentence", file=file, row=number)
        elif not row and len(lines) == first:
            # A sentence without tokens has no known position; blanks take its place.
            sentence = []
        elif row.startswith("#") and not row.startswith(("#FORMAT=", "#T_", "#Sentence.")) and "\t" in row:
            raise CohortError("the line is neither a token nor part of the header", file=file, row=number)
    if sentence and len(lines) > first:
        _place_sentence(text, sentence, lines[first:], file)
    return text, lines


def _place_sentence(text: bytearray, sentence: list[str], lines: list[_Line], file: Path) -> None:
    """Put a sentence at the offset of its first token, and check that every token is at its own offset."""
    # Before version 3.2, a line break in a sentence started another #Text line.
    units = "\n".join(sentence).encode("utf-16-le", errors="surrogatepass")
    head = _units(lines[0].cells[2])
    at = units.find(head)
    while at >= 0 and at % 2 == 1:
        at = units.find(head, at + 1)
    start = 2 * lines[0].begin - at
    if at < 0 or start < len(text):
        problem = (
            "the sentence overlaps the previous one" if at >= 0 else "the token is not in the text of its sentence"
        )
        raise CohortError(problem, file=file, row=lines[0].row, hint="export the file again and do not edit it")
    text += " ".encode("utf-16-le") * ((start - len(text)) // 2) + units
    for line in lines:
        if 2 * line.end > len(text):
            problem = f"the token ends at {line.end}, but its sentence ends at {len(text) // 2}"
            raise CohortError(problem, file=file, row=line.row, hint="export the file again and do not edit it")
        if bytes(text[2 * line.begin : 2 * line.end]) != _units(line.cells[2]):
            problem = f"the token differs from the text from {line.begin} to {line.end}"
            raise CohortError(problem, file=file, row=line.row, hint="export the file again and do not edit it")


def _units(cell: str) -> bytes:
    return _unescape(cell).encode("utf-16-le", errors="surrogatepass")


def _line(row: str, number: int, n_cells: int, file: Path) -> _Line:
    cells = row.split("\t")
    # A line ends with a tab, so an empty last cell is not a cell.
    if len(cells) == n_cells + 1 and not cells[-1]:
        cells.pop()
    if len(cells) != n_cells:
        problem = f"the line has {len(cells)} cells, but the header implies {n_cells}"
        raise CohortError(problem, file=file, row=number, hint="export the file again and do not edit it")
    offsets = _OFFSETS.fullmatch(cells[1])
    if not _TOKEN.fullmatch(cells[0]) or offsets is None:
        problem = "the line does not start with a token's number and its offsets"
        raise CohortError(problem, file=file, row=number, hint="write them like 1-1 and 0-5, separated by tabs")
    begin, end = int(offsets[1]), int(offsets[2])
    # A part of a token may be empty: an annotation between two characters.
    if begin > end or (begin == end and "." not in cells[0]):
        raise CohortError(f"the token goes from {begin} to {end}", file=file, row=number)
    return _Line(number, begin, end, cells)


# --- annotations ------------------------------------------------------------------------------------------------


def _spans(
    layers: tuple[Layer, ...], lines: list[_Line], file: Path
) -> Iterator[tuple[Layer, int, int, int, dict[str, str | None]]]:
    """Each annotation once: its layer, its offsets in UTF-16 units, the row where it starts, and its features."""
    first = 3
    for layer in layers:
        columns = slice(first, first + len(layer.columns))
        first = columns.stop
        if layer.kind == "T_SP":
            yield from _layer_spans(layer, columns, lines, file)


def _layer_spans(
    layer: Layer, columns: slice, lines: list[_Line], file: Path
) -> Iterator[tuple[Layer, int, int, int, dict[str, str | None]]]:
    several: dict[str, list[int]] = {}
    values: dict[str, dict[str, str | None]] = {}
    for line in lines:
        for number, features in _stacked(layer, line.cells[columns], line.row, file):
            if number is None:
                yield layer, line.begin, line.end, line.row, features
            elif number not in several:
                several[number], values[number] = [line.begin, line.end, line.row], features
            elif values[number] != features:
                problem = f"annotation [{number}] of the layer {layer.name} has two different values"
                raise CohortError(problem, file=file, row=line.row, hint="export the file again and do not edit it")
            else:
                several[number][1] = max(several[number][1], line.end)
    for number, (begin, end, row) in several.items():
        yield layer, begin, end, row, values[number]


def _stacked(
    layer: Layer, cells: list[str], row: int, file: Path
) -> Iterator[tuple[str | None, dict[str, str | None]]]:
    """The annotations of a layer on one token: their numbers, if they have any, and their features."""
    if all(cell == "_" for cell in cells):
        return
    stacks = [_split_outside_escapes(cells[k], "|") for k in layer.plain]
    if len({len(stack) for stack in stacks}) > 1:
        problem = f"the columns of the layer {layer.name} have different numbers of annotations"
        raise CohortError(problem, file=file, row=row, hint="export the file again and do not edit it")
    for one in zip(*stacks, strict=True):
        parts = [_without_number(value) for value in one]
        numbers = {number for _, number in parts}
        if len(numbers) > 1:
            problem = f"the columns of the layer {layer.name} disagree on the annotation's number"
            raise CohortError(problem, file=file, row=row, hint="export the file again and do not edit it")
        plain = (None if value in ("*", "_") else _unescape(value) for value, _ in parts)
        yield numbers.pop(), dict(zip((layer.columns[k] for k in layer.plain), plain, strict=True))


# --- headers and escapes ----------------------------------------------------------------------------------------


def _read_layer(row: str, number: int, file: Path) -> Layer:
    """Read a line such as `#T_SP=webanno.custom.Code|code|note`; a layer without features has one column."""
    kind, _, rest = row.removeprefix("#").partition("=")
    name, *columns = rest.strip().split("|")
    if kind not in ("T_SP", "T_RL", "T_CH") or not name:
        hint = "a layer's line looks like #T_SP=name|feature"
        raise CohortError("the header describes a layer in an unknown form", file=file, row=number, hint=hint)
    return Layer(kind, name, tuple(columns) or ("",))


def _unescape(value: str) -> str:
    """A value or text without the backslashes before special characters."""
    return _ESCAPED.sub(lambda match: _CONTROL.get(match[1], match[1]), value) if "\\" in value else value


def _split_outside_escapes(value: str, separator: str) -> list[str]:
    """Split at separators without a backslash before them; the parts are still escaped."""
    parts, start, k = [], 0, 0
    while k < len(value):
        if value[k] == "\\":
            k += 2
        elif value[k] == separator:
            parts.append(value[start:k])
            start = k = k + 1
        else:
            k += 1
    return [*parts, value[start:]]


def _without_number(value: str) -> tuple[str, str | None]:
    """A value, still escaped, and the number in brackets after it, if there is one."""
    match = _NUMBER.fullmatch(value)
    return (match[1] + match[2], match[3]) if match else (value, None)
