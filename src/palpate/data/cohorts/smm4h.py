"""Posts about medicines: the TSV files of SMM4H 2017 and 2021 and of NADE (ADE template paper, section 4.1.1).

A file belongs to the source whose mark (`2017`, `2021`, `nade`) is in its name or in the name of the nearest folder
above it that has a mark; files without a mark are not read. A header row (`tweet_id`, `user_id`, `class`, `text` or
`tweet`) names the columns. Without a header:

    SMM4H 2017   tweet_id, user_id, class (0 or 1), text
    SMM4H 2021   tweets.tsv: tweet_id, text    class.tsv: tweet_id, ADE or NoADE    spans*.tsv: not read
    NADE         text, or tweet_id, text; without a class every post counts as NoADE, because its ADE was negated

Texts and classes in the same folder are joined by `tweet_id`. Quotes have no special meaning. A row is a line of the
file, counted from 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from palpate.errors import CohortError

MARKS = {"smm4h-2021": "2021", "smm4h-2017": "2017", "nade": "nade"}
"""Sources and their marks. Of two copies of a text, the one from the source listed first is kept, as in Table 2."""
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


class PostTable(NamedTuple):
    """The cells of one file, by the role of their column."""

    file: Path
    columns: Mapping[str, list[str]]
    first: int
    """The row of the first post."""

    def error(self, at: int, column: str, problem: str, hint: str) -> CohortError:
        """The error for one cell."""
        return CohortError(problem, file=self.file, row=self.first + at, column=column, hint=hint)


def find_files(folder: Path, pattern: str) -> dict[str, list[Path]]:
    """The files of each source that has any, sorted by name."""
    found: dict[str, list[Path]] = {source: [] for source in MARKS}
    for file in sorted(path for path in folder.glob(pattern) if path.is_file()):
        source = _source_of(file, folder)
        if source is not None and not file.name.lower().startswith("spans"):
            found[source].append(file)
    return {source: files for source, files in found.items() if files}


def read_posts(files: Mapping[str, Sequence[Path]]) -> pl.DataFrame:
    """The posts of all sources: `source`, `post`, `user`, `label`, `text`; null where a file lacks a value."""
    frames = [frame for source in files for frame in _read_source(source, files[source])]
    return pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)


def _source_of(file: Path, folder: Path) -> str | None:
    """The source by the mark in the file's name, or in the nearest folder's name up to `folder` itself."""
    parts = [*reversed(file.relative_to(folder).parts), folder.resolve().name]
    for part in parts:
        sources = [source for source, mark in MARKS.items() if mark in part.lower()]
        if len(sources) > 1:
            raise CohortError(
                f"'{part}' has the marks of {' and '.join(sources)}", file=file, hint="rename it so that it has one"
            )
        if sources:
            return sources[0]
    return None


def _read_source(source: str, files: Sequence[Path]) -> Iterator[pl.DataFrame]:
    by_folder: dict[Path, list[PostTable]] = {}
    for file in files:
        by_folder.setdefault(file.parent, []).append(_read_cells(file, source))
    for tables in by_folder.values():
        classes = _classes_by_post([table for table in tables if "text" not in table.columns])
        for table in tables:
            if "text" in table.columns:
                yield _posts(table, source, classes)


def _posts(table: PostTable, source: str, classes: Mapping[str, int]) -> pl.DataFrame:
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


def _classes_by_post(tables: Sequence[PostTable]) -> dict[str, int]:
    classes: dict[str, int] = {}
    for table in tables:
        for at, post in enumerate(table.columns["post"]):
            label = _class(table, at)
            if classes.setdefault(post, label) != label:
                raise table.error(at, "class", f"post {post} has two classes", "keep the right one")
    return classes


def _class(table: PostTable, at: int) -> int:
    word = table.columns["label"][at].strip()
    if word.lower() not in _CLASSES:
        raise table.error(at, "class", f"'{word[:20]}' is not a class", "write ADE or NoADE, 1 or 0")
    return _CLASSES[word.lower()]


def _read_cells(file: Path, source: str) -> PostTable:
    try:
        # Only \n ends a row: posts contain other characters that Python takes for line ends.
        lines = file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as error:
        row = error.object[: error.start].count(b"\n") + 1
        raise CohortError("the file is not UTF-8 text", file=file, row=row, hint="export it as UTF-8") from None
    except OSError as error:
        raise CohortError(
            f"the file can't be read ({error.strerror})", file=file, hint="check its permissions"
        ) from None
    if not any(lines):
        raise CohortError("the file is empty", file=file, hint="copy or download it again")
    roles, first = _roles(lines[0], file, source)
    return _cut(lines, roles, file, first)


def _roles(top: str, file: Path, source: str) -> tuple[list[str | None], int]:
    """The role of each column (None: not needed), and the row of the first post."""
    cells = [cell.strip().strip('"').lower() for cell in top.split("\t")]
    named = [next((role for role, names in _NAMES.items() if cell in names), None) for cell in cells]
    if sum(role is not None for role in named) > len(cells) / 2 and not any(cell.isdigit() for cell in cells):
        roles: list[str | None] = named
        twice = next((role for role in roles if role is not None and roles.count(role) > 1), None)
        if twice is not None:
            raise CohortError(f"two columns hold the {twice}", file=file, row=1, hint="rename one of them")
        first = 2
    else:
        roles, first = list(_shape(file, source, len(cells))), 1
    if "text" not in roles and not {"post", "label"} <= set(roles):
        raise CohortError("no column holds the text", file=file, row=1, hint="add a header row that names it `text`")
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
            f"the file has {n_columns} columns, but {source} without a header has {expected}",
            file=file,
            row=1,
            hint="add a header row with tweet_id, class and text",
        )
    return shapes[n_columns]


def _cut(lines: Sequence[str], roles: Sequence[str | None], file: Path, first: int) -> PostTable:
    columns: dict[str, list[str]] = {role: [] for role in roles if role is not None}
    # A tab inside the last column, if that is the text, does no harm.
    cuts = len(roles) - 1 if roles[-1] == "text" else -1
    while lines and not lines[-1]:
        lines = lines[:-1]
    for at, line in enumerate(lines[first - 1 :]):
        cells = line.split("\t", cuts)
        if len(cells) != len(roles):
            raise CohortError(
                f"expected {len(roles)} columns but found {len(cells)}",
                file=file,
                row=first + at,
                hint="check for a line break or a tab inside a text",
            )
        for role, cell in zip(roles, cells, strict=True):
            if role is not None:
                columns[role].append(cell)
        if "post" in columns and not columns["post"][-1].strip():
            raise CohortError("the id is empty", file=file, row=first + at, column="tweet_id", hint="fill it in")
    return PostTable(file, columns, first)
