"""Delimited text as people save it: which encoding, which delimiter, and the rows, read exactly or not at all.

Rows are parsed with the standard library, because a table of patients must be read exactly: polars pads short rows
with nulls and can't say which row has an invalid byte. Text is UTF-8 unless `FileLayout.encoding` names another
encoding; a file that is something else is refused with the name of what it looks like. The delimiter is found: of
comma, semicolon, tab and bar, the one that cuts the header and the first rows into the same number of cells.

A large file of numbers has no quotes, no blank lines and as many cells in every row. Its bytes tell whether that is so;
polars then reads it to the same cells, many times faster (`plain_frame`).

A row is a record, counted from 1 without the header; a note that spans many lines is one row, and blank lines are not
counted.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TextIO, cast

from palpate.errors import CohortError

if TYPE_CHECKING:
    import polars as pl

BLOCK = 4 * 2**20
COPY_HINT = "copy or export the file again"
ENCODE_HINT = "save the file as UTF-8"
LONGEST_CELL = 2**24
"""Characters; the longest notes have a hundredth of that."""
TOO_LONG = f"the cell has more than {LONGEST_CELL:,} characters"
SPLIT_HINT = "a quote may be missing before it; a note that long must be cut"
_LONGEST_LINE = 4 * LONGEST_CELL
MOST_GROWTH, SMALL = 200, 64 * 2**20
"""How much larger any stretch of a gzip file may become, and a size up to which that is not looked at."""
_BLOCK = 2**22
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
SURROGATE = re.compile("[\ud800-\udfff]")
_DAMAGED_GZIP = (EOFError, gzip.BadGzipFile, zlib.error)
_HEAD, _HEAD_CHARACTERS, _ROWS_LOOKED_AT = 4096, 2**20, 20
_NOT_UTF8 = "the bytes are not UTF-8"
_ASCII = bytes(range(128))
_NOT_WINDOWS = re.compile(rb"[\x81\x8d\x8f\x90\x9d]|[A-Za-z][\x80-\x84\x86-\x89\x8b\x93-\x95\x98\x99\x9b][a-z]")
"""Bytes that Windows-1252 does not have, or has for a mark that is in no word: in older encodings they are letters."""
_NOT_PLAIN_STARTS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b"sep=", b"SEP=", b"Sep=")
_EXCEL_SAYS = re.compile(r"sep=(.)(?:\r?\n|$)", re.IGNORECASE)


class FileLayout(NamedTuple):
    """What a file does not say about itself; messages name these as options where `named` says that they are."""

    encoding: str | None = None
    delimiter: str | None = None
    sheet: str | int | None = None
    named: bool = False


AS_IT_IS = FileLayout()


def check_encoding(name: str) -> str:
    """A name that Python knows for an encoding of text; ValueError otherwise."""
    try:
        if codecs.lookup(name)._is_text_encoding:
            return name
    except LookupError:
        pass
    raise ValueError(f"'{name}' is not an encoding; write utf-8, latin-1, windows-1252, utf-16 or the like")


def check_delimiter(mark: str) -> str:
    r"""A single character, or `\t` as it is typed on a command line; ValueError otherwise."""
    mark = "\t" if mark in ("\\t", "tab") else mark
    if len(mark) != 1 or mark in '"\r\n':
        raise ValueError("the delimiter must be one character, and not a quote or a line break")
    return mark


# --- bytes and text -----------------------------------------------------------------------------------------


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """The file's bytes, decompressed."""
    try:
        with decompressed(path) if path.name.lower().endswith(".gz") else path.open("rb") as raw:
            yield raw
    except _DAMAGED_GZIP as error:
        problem = "the gzip file ends too early" if isinstance(error, EOFError) else "the gzip file is damaged"
        raise CohortError(problem, file=path, hint=COPY_HINT) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CohortError(f"the file can't be read ({reason})", file=path, hint="check its permissions") from None


@contextmanager
def decompressed(path: Path) -> Iterator[BinaryIO]:
    """A gzip file, up to a size that text does not reach: a few megabytes can hold gigabytes of one letter."""
    with path.open("rb") as packed, gzip.GzipFile(fileobj=packed) as whole:
        yield cast(BinaryIO, io.BufferedReader(_Limited(whole, packed, path), 2**18))


class _Limited(io.RawIOBase):
    """A stream that refuses any stretch that grows too much, before whoever reads it works through its lines."""

    def __init__(self, stream: gzip.GzipFile, packed: BinaryIO, path: Path) -> None:
        super().__init__()
        self._stream, self._packed, self._path = stream, packed, path
        self._ahead: deque[tuple[int, bytes]] = deque()
        self._at, self._ended = 0, False

    def readable(self) -> bool:
        """See `io.RawIOBase`."""
        return True

    def readinto(self, buffer: Any) -> int:
        """See `io.RawIOBase`."""
        if self._ahead and self._at == len(self._ahead[0][1]):
            self._ahead.popleft()
            self._at = 0
        if not self._at:
            self._look_ahead()
        part = self._ahead[0][1][self._at : self._at + len(buffer)] if self._ahead else b""
        self._at += len(part)
        buffer[: len(part)] = part
        return len(part)

    def _look_ahead(self) -> None:
        """Decompress until it is clear that the next stretch does not grow too much; text shows that at once."""
        while not self._ended and (not self._ahead or self._packed.tell() - self._ahead[0][0] < SMALL // MOST_GROWTH):
            if sum(len(block) for _, block in self._ahead) >= SMALL:
                problem = f"decompressed, the file is more than {MOST_GROWTH} times as large (over {SMALL:,} bytes)"
                raise CohortError(problem, file=self._path, hint="decompress it yourself if it is what it should be")
            before = self._packed.tell()
            block = self._stream.read(_BLOCK)
            self._ended = not block
            self._ahead.extend([(before, block)] if block else [])


@contextmanager
def open_text(
    path: Path, layout: FileLayout = AS_IT_IS, *, errors: str = "strict", newline: str = ""
) -> Iterator[TextIO]:
    """The file as text, decompressed and without a byte order mark."""
    encoding = layout.encoding or "utf-8"
    name = codecs.lookup(encoding).name
    if not name.startswith("utf"):
        _refuse_unicode(path, encoding)
    with open_bytes(path) as raw:
        if layout.encoding is None:
            _refuse_utf16(path, cast(io.BufferedReader, raw).peek(_HEAD)[:_HEAD], layout)
        yield io.TextIOWrapper(raw, "utf-8-sig" if name == "utf-8" else encoding, errors=errors, newline=newline)


def _refuse_utf16(path: Path, head: bytes, layout: FileLayout) -> None:
    """Refuse UTF-16, which Excel saves as "Unicode text": every other byte of English is zero."""
    wide = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    low, high = head[0::2].count(0), head[1::2].count(0)
    if wide or max(low, high) > len(head) / 8 > 0:
        name = "utf-16" if wide else "utf-16-be" if low > high else "utf-16-le"
        raise CohortError(f"{_NOT_UTF8} but look like UTF-16", file=path, hint=_encoding_hint(name, layout))


def _refuse_unicode(path: Path, encoding: str) -> None:
    """Refuse to read UTF-8 as an encoding in which any byte is some letter: it would be read, and wrongly."""
    decoder, more = codecs.getincrementaldecoder("utf-8")(), False
    try:
        with open_bytes(path) as raw:
            while block := raw.read(BLOCK):
                more |= not decoder.decode(block).isascii()
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return
    if more:
        hint = "remove `encoding:`, or letters with accents would be garbled"
        raise CohortError(f"the file is UTF-8, not {encoding}", file=path, hint=hint)


def looks_like(path: Path) -> str | None:
    """The encoding that a file which is not all UTF-8 looks like: "utf-8" if most of it is, None if it is not clear."""
    high: set[int] = set()
    decoder = codecs.getincrementaldecoder("utf-8")("ignore")
    with open_bytes(path) as raw:
        while block := raw.read(BLOCK):
            if not high and block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                return "utf-16"
            if not decoder.decode(block).isascii():
                return "utf-8"
            if _NOT_WINDOWS.search(block):
                return None
            high.update(block.translate(None, _ASCII))
    return "windows-1252" if any(byte < 0xA0 for byte in high) else "latin-1"


def not_unicode(path: Path, layout: FileLayout, *, row: int | None, column: str | None, cell: str = "") -> CohortError:
    """The error about bytes that are not UTF-8, with what they look like; `cell` was read with `surrogateescape`."""
    if layout.encoding is not None:
        problem = f"the bytes are not {layout.encoding.upper()}"
        return CohortError(problem, file=path, row=row, column=column, hint="correct `encoding:`, or leave it out")
    if not path.name.lower().endswith(".gz") and _begins(path, b"\x1f\x8b"):
        return CohortError("this is a gzip file", file=path, hint=f"name it {path.name}.gz, or unpack it")
    where = " in the header" if row is None and column is None and cell else ""
    name = looks_like(path)
    escaped = SURROGATE.search(cell)
    if name in (None, "utf-8") or escaped is None:
        return CohortError(f"{_NOT_UTF8}{where}", file=path, row=row, column=column, hint=_encoding_hint(name, layout))
    byte = escaped[0].encode("utf-8", "surrogateescape")
    problem = f"{_NOT_UTF8}{where} but look like {str(name).capitalize()}, in which {byte.hex().upper()} is "
    hint = _encoding_hint(name, layout)
    return CohortError(f"{problem}'{byte.decode(str(name))}'", file=path, row=row, column=column, hint=hint)


def _begins(path: Path, sign: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(sign)) == sign


def _encoding_hint(name: str | None, layout: FileLayout) -> str:
    if not layout.named or name == "utf-8":
        return ENCODE_HINT
    named = f"write `encoding: {name}`" if name else "name the encoding with `encoding:` (cp850, mac-roman, ...)"
    return f"{ENCODE_HINT}, or {named}"


# --- rows ---------------------------------------------------------------------------------------------------


def csv_rows(path: Path, layout: FileLayout = AS_IT_IS, *, errors: str = "strict") -> Iterator[list[str]]:
    """The header, then the rows, which all have the header's length."""
    csv.field_size_limit(LONGEST_CELL)  # Python's default, 131072, is shorter than the longest notes
    mark = layout.delimiter or find_delimiter(path, layout)
    done, width = 0, 0
    with open_text(path, layout, errors=errors) as lines:
        reader = csv.reader(_without_separator_line(lines, path), delimiter=mark, strict=True)
        while True:
            try:
                row = next(reader)
            except StopIteration:
                return
            except UnicodeError:
                raise _bad_byte(path, layout) from None
            except csv.Error as error:
                if "field limit" in str(error):
                    raise CohortError(TOO_LONG, file=path, row=done or None, hint=SPLIT_HINT) from None
                hint = 'double the quotes inside a quoted cell ("")'
                raise CohortError(
                    "a quote is not closed or not doubled", file=path, row=done or None, hint=hint
                ) from None
            if not row:
                continue
            width = width or len(row)
            if len(row) != width:
                problem = f"the row has {len(row)} cells and the header has {width}"
                hint = "quote cells that contain the delimiter or a line break"
                raise CohortError(problem, file=path, row=done, hint=hint)
            done += 1
            yield row


def plain_frame(path: Path, layout: FileLayout = AS_IT_IS, *, numbers: Collection[str] = ()) -> pl.DataFrame | None:
    """The cells of a file that needs no parser of quotes, as `csv_rows` has them; None for any other file.

    The columns in `numbers` are read as numbers, null where a cell is empty; None where one of them has other cells.
    """
    import polars as pl

    if layout.encoding is not None or path.suffix.lower() == ".gz":
        return None
    mark = layout.delimiter or find_delimiter(path, layout)
    header = _plain_header(path, mark)
    if header is None:
        return None
    kinds = {name: pl.Float64() if name in numbers else pl.String() for name in header}
    try:
        found = pl.read_csv(path, separator=mark, quote_char=None, schema=kinds, glob=False)
    except pl.exceptions.PolarsError:
        return None
    return found.with_columns(pl.col(pl.String).fill_null(""))


def _plain_header(path: Path, mark: str) -> list[str] | None:
    """The names of the columns, if the bytes of every row show where its cells are."""
    header: list[str] | None = None
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with path.open("rb") as file:
            while lines := file.read(BLOCK):
                lines += file.readline()
                decoder.decode(lines)
                if header is None:
                    header = lines.split(b"\n", 1)[0].removesuffix(b"\r").decode().split(mark)
                    if lines.startswith(_NOT_PLAIN_STARTS) or len({*header, ""}) <= max(len(header), 2):
                        return None
                if not _is_plain(lines, mark, len(header)):
                    return None
    except (UnicodeDecodeError, OSError):
        return None
    return header


def _is_plain(lines: bytes, mark: str, width: int) -> bool:
    """Whether whole lines have no quotes, and `width` cells each."""
    import numpy as np

    if b'"' in lines or b"\0" in lines or lines.count(b"\r") != lines.count(b"\r\n"):
        return False
    cells = np.frombuffer(lines if lines.endswith(b"\n") else lines + b"\n", np.uint8)
    ends = np.flatnonzero(cells == ord("\n"))
    marks = np.flatnonzero(cells == ord(mark))
    if len(marks) != len(ends) * (width - 1):
        return False
    by_line = marks.reshape(len(ends), width - 1)
    starts = np.concatenate([[-1], ends[:-1]])
    return bool((by_line[:, 0] > starts).all() and (by_line[:, -1] < ends).all())


def _without_separator_line(lines: TextIO, path: Path) -> Iterator[str]:
    """The lines without `sep=;`, with which Excel is told the delimiter, and without a byte order mark."""
    whole = bounded_lines(lines, path)
    first = next(whole, "").removeprefix("\ufeff")
    if not _EXCEL_SAYS.fullmatch(first):
        yield first
    yield from whole


def bounded_lines(lines: TextIO, path: Path) -> Iterator[str]:
    """The lines, none so long that it would fill the memory."""
    while line := lines.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            hint = "is it a table, with line breaks?"
            raise CohortError(f"a line has more than {_LONGEST_LINE:,} characters", file=path, hint=hint)
        yield line


def _bad_byte(path: Path, layout: FileLayout) -> CohortError:
    """Which cell has the byte that is not text: reads the file again and lets invalid bytes pass."""
    if layout.encoding is not None:
        return not_unicode(path, layout, row=None, column=None)
    rows = csv_rows(path, layout, errors="surrogateescape")
    header = next(rows, [])
    bad = next((cell for cell in header if SURROGATE.search(cell)), None)
    if bad is not None:
        return not_unicode(path, layout, row=None, column=None, cell=bad)
    for number, row in enumerate(rows, start=1):
        for name, cell in zip(header, row, strict=True):
            if SURROGATE.search(cell):
                return not_unicode(path, layout, row=number, column=name, cell=cell)
    return not_unicode(path, layout, row=None, column=None)


# --- the delimiter ------------------------------------------------------------------------------------------


def find_delimiter(path: Path, layout: FileLayout = AS_IT_IS) -> str:
    """What separates the cells; a file that can be read with two delimiters is refused."""
    usual = "\t" if ".tsv" in path.name.lower()[-7:] else ","
    said, widths = _widths(path, layout)
    if said is not None:
        return said
    cutting = [mark for mark, cells in widths.items() if cells[:1] > [1]]
    if usual == "\t" and usual in cutting:
        return usual
    even = [mark for mark in cutting if len(set(widths[mark])) == 1]
    if len(even) > 1:
        first, second = (DELIMITERS[mark] for mark in even[:2])
        hint = f'write `delimiter: "{even[0]}"` or `delimiter: "{even[1]}"`' if layout.named else "put names in quotes"
        raise CohortError(f"the cells may be separated by {first} or by {second}", file=path, hint=hint)
    likely = even or cutting
    return usual if usual in likely or not likely else likely[0]


def _widths(path: Path, layout: FileLayout) -> tuple[str | None, dict[str, list[int]]]:
    """The delimiter that the first line names, or the number of cells in the first rows with each delimiter."""
    try:
        with open_text(path, layout, errors="replace") as lines:
            head = lines.read(_HEAD_CHARACTERS).removeprefix("\ufeff")
    except UnicodeError:
        raise not_unicode(path, layout, row=None, column=None) from None
    said = _EXCEL_SAYS.match(head)
    if said:
        return said[1], {}
    csv.field_size_limit(LONGEST_CELL)
    widths = {}
    for mark in DELIMITERS:
        records = [row for row in csv.reader(io.StringIO(head, newline=""), delimiter=mark) if row]
        whole = records[:-1] if len(head) == _HEAD_CHARACTERS else records
        widths[mark] = [len(row) for row in whole[:_ROWS_LOOKED_AT]]
    return None, widths


def has_surrogate(cell: object) -> bool:
    """Whether a cell has half of a surrogate pair; with `surrogateescape`, that is a byte that is not UTF-8."""
    parts: Sequence[object] = cell if isinstance(cell, list) else [cell]
    return any(isinstance(part, str) and SURROGATE.search(part) is not None for part in parts)
