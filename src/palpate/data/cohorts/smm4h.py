"""Posts about medicines: the tsv files of SMM4H 2017 and 2021 and of NADE (ADE template paper, section 4.1.1).

A file belongs to the source whose mark (`2017`, `2021`, `nade`) is in its name or in the nearest folder above it that
has one; files without a mark are left alone. A header row (`tweet_id`, `user_id`, `class`, `text` or `tweet`) says what
the columns are. Without one:

    SMM4H 2017   tweet_id, user_id, class (0 or 1), text
    SMM4H 2021   tweets.tsv: tweet_id, text    class.tsv: tweet_id, ADE or NoADE    spans*.tsv: not read
    NADE         text, or tweet_id, text; without a class every post is one without an ADE, for so it was negated

Texts and classes of one folder are joined by `tweet_id`. There is no quoting: a quote is a quote. A row is a line of
the file, from 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from palpate.errors import CohortError

MARKS = {"smm4h-2021": "2021", "smm4h-2017": "2017", "nade": "nade"}
"""Sources and their marks. Of two copies of a text the one of the earlier source stays, as in the paper's Table 2."""
SCHEMA = {"source": pl.String, "post": pl.String, "user": pl.String, "label": pl.Int8, "text": pl.String}

_NAMES = {
    "post": ("tweet_id", "tweetid", "tweet id", "post_id", "id"),
    "user": ("user_id", "userid", "user id", "user"),
    "label": ("class", "label", "ade", "has_ade"),
    "text": ("text", "tweet", "post", "sentence"),
}
_CLASSES = {"1": 1, "ade": 1, "0": 0, "noade": 0, "no ade": 0, "no_ade": 0}
_GONE = "Not Available"
"""What the download scripts of the shared tasks write for a tweet that no longer exists."""


class Cells(NamedTuple):
    """The rows of one file by what their columns are."""

    file: Path
    columns: Mapping[str, list[str]]
    first: int
    """The row of the first entry."""

    def error(self, at: int, column: str, problem: str, hint: str) -> CohortError:
        """What is wrong in one cell."""
        return CohortError(problem, file=self.file, row=self.first + at, column=column, hint=hint)


def find_files(folder: Path, pattern: str) -> dict[str, list[Path]]:
    """The files of each source that has any, in order of their names."""
    found: dict[str, list[Path]] = {source: [] for source in MARKS}
    for file in sorted(path for path in folder.glob(pattern) if path.is_file()):
        source = _source_of(file, folder)
        if source is not None and not file.name.lower().startswith("spans"):
            found[source].append(file)
    return {source: files for source, files in found.items() if files}


def read_posts(files: Mapping[str, Sequence[Path]]) -> pl.DataFrame:
    """The posts of all sources: `source`, `post`, `user`, `label`, `text`; null where a file has none."""
    frames = [frame for source in files for frame in _read_source(source, files[source])]
    return pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)


def _source_of(file: Path, folder: Path) -> str | None:
    """The source by the file's name, or else by the nearest folder with a mark; `folder` itself is the last."""
    parts = [*reversed(file.relative_to(folder).parts), folder.resolve().name]
    for part in parts:
        sources = [source for source, mark in MARKS.items() if mark in part.lower()]
        if len(sources) > 1:
            raise CohortError(
                f"'{part}' has the marks of {' and '.join(sources)}", file=file, hint="rename it to one of them"
            )
        if sources:
            return sources[0]
    return None


def _read_source(source: str, files: Sequence[Path]) -> Iterator[pl.DataFrame]:
    by_folder: dict[Path, list[Cells]] = {}
    for file in files:
        by_folder.setdefault(file.parent, []).append(_read_cells(file, source))
    for tables in by_folder.values():
        classes = _classes_by_post([table for table in tables if "text" not in table.columns])
        for table in tables:
            if "text" in table.columns:
                yield _posts(table, source, classes)


def _posts(table: Cells, source: str, classes: Mapping[str, int]) -> pl.DataFrame:
    n = len(table.columns["text"])
    posts: Sequence[str | None] = table.columns.get("post", [None] * n)
    if "label" in table.columns:
        labels: list[int | None] = [_class(table, at) for at in range(n)]
    elif source == "nade" and not classes:
        labels = [0] * n
    else:
        labels = [classes.get(post or "") for post in posts]
    texts = [None if text.strip() in ("", _GONE) else text for text in table.columns["text"]]
    users = [user or None for user in table.columns.get("user", [""] * n)]
    columns = {"source": [source] * n, "post": posts, "user": users, "label": labels, "text": texts}
    return pl.DataFrame(columns, schema=SCHEMA)


def _classes_by_post(tables: Sequence[Cells]) -> dict[str, int]:
    classes: dict[str, int] = {}
    for table in tables:
        for at, post in enumerate(table.columns["post"]):
            label = _class(table, at)
            if classes.setdefault(post, label) != label:
                raise table.error(at, "class", f"post {post} has two classes", "keep the right one")
    return classes


def _class(table: Cells, at: int) -> int:
    word = table.columns["label"][at].strip()
    if word.lower() not in _CLASSES:
        raise table.error(at, "class", f"'{word[:20]}' is no class", "write ADE or NoADE, 1 or 0")
    return _CLASSES[word.lower()]


def _read_cells(file: Path, source: str) -> Cells:
    try:
        # Only \n ends a row: posts contain other marks that Python takes for the end of a line.
        lines = file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as error:
        row = error.object[: error.start].count(b"\n") + 1
        raise CohortError("the file is no UTF-8 text", file=file, row=row, hint="export it as UTF-8") from None
    except OSError as error:
        raise CohortError(f"the file can't be read ({error.strerror})", file=file, hint="check it") from None
    if not any(lines):
        raise CohortError("the file is empty", file=file, hint="copy or download it again")
    roles, first = _roles(lines[0], file, source)
    return _cut(lines, roles, file, first)


def _roles(top: str, file: Path, source: str) -> tuple[list[str | None], int]:
    """What each column is (None: not needed), and the row of the first entry."""
    cells = [cell.strip().strip('"').lower() for cell in top.split("\t")]
    named = [next((role for role, names in _NAMES.items() if cell in names), None) for cell in cells]
    if sum(role is not None for role in named) > len(cells) / 2 and not any(cell.isdigit() for cell in cells):
        roles: list[str | None] = named
        twice = next((role for role in roles if role is not None and roles.count(role) > 1), None)
        if twice is not None:
            raise CohortError(f"two columns are the {twice}", file=file, row=1, hint="name one of them otherwise")
        first = 2
    else:
        roles, first = list(_shape(file, source, len(cells))), 1
    if "text" not in roles and not {"post", "label"} <= set(roles):
        raise CohortError("there is no column with the text", file=file, row=1, hint="name it `text` in a header row")
    return roles, first


def _shape(file: Path, source: str, n_columns: int) -> tuple[str, ...]:
    """The columns of a file without a header."""
    name = file.name.lower()
    shapes: dict[int, tuple[str, ...]] = {}
    if source == "smm4h-2021":
        shapes = {2: ("post", "label") if name.startswith("class") else ("post", "text")}
    elif source == "smm4h-2017":
        shapes = {4: ("post", "user", "label", "text")}
    elif source == "nade":
        shapes = {1: ("text",), 2: ("post", "text")}
    if n_columns not in shapes:
        expected = " or ".join(", ".join(shape) for shape in shapes.values())
        raise CohortError(
            f"a file of {source} without a header has the columns {expected}, not {n_columns}",
            file=file,
            row=1,
            hint="give it a header row with tweet_id, class and text",
        )
    return shapes[n_columns]


def _cut(lines: Sequence[str], roles: Sequence[str | None], file: Path, first: int) -> Cells:
    columns: dict[str, list[str]] = {role: [] for role in roles if role is not None}
    # A tab in a text that comes last does no harm.
    cuts = len(roles) - 1 if roles[-1] == "text" else -1
    while lines and not lines[-1]:
        lines = lines[:-1]
    for at, line in enumerate(lines[first - 1 :]):
        cells = line.split("\t", cuts)
        if len(cells) != len(roles):
            raise CohortError(
                f"there are {len(cells)} columns, not {len(roles)}",
                file=file,
                row=first + at,
                hint="check for a line break or a tab inside a text",
            )
        for role, cell in zip(roles, cells, strict=True):
            if role is not None:
                columns[role].append(cell)
        if "post" in columns and not columns["post"][-1].strip():
            raise CohortError("the id is empty", file=file, row=first + at, column="tweet_id", hint="give one")
    return Cells(file, columns, first)
