"""Another team's phrases for prior mentions: a folder of text files, a table, or YAML.

    phrases/mention/pleural_effusion.txt        phrases of a label, one per line; the file is named after the label
    phrases/unmention/pleural_effusion.txt      phrases in which they do not count ("pericardial effusion")

A folder with the text files alone has no exceptions. A table (CSV or TSV) has columns `label` and `phrase`; a YAML file
has `label: [phrase, ...]`. There, and in the audit's own option, an exception starts with `!`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from palpate.cases.columns import ColumnCheck, missing_column
from palpate.data.tables.formats import format_of
from palpate.errors import CohortError
from palpate.files import read_yaml
from palpate.perturb.mentions import EDGE, EXCEPT

_MENTION, _UNMENTION = "mention", "unmention"
_LAYOUT = "give a folder with mention/LABEL.txt, a table with the columns label and phrase, or a YAML file"


def read_phrases(path: Path) -> dict[str, tuple[str, ...]]:
    """The phrases of each label, in the order of the file; exceptions start with `EXCEPT`."""
    if path.is_dir():
        found = _folder(path)
    elif path.suffix.lower() in (".yaml", ".yml"):
        found = _yaml(path)
    else:
        found = _table(path)
    if not found:
        raise CohortError("no phrases are listed", file=path, hint=_LAYOUT)
    for label, phrases in found.items():
        if all(phrase.startswith(EXCEPT) for phrase in phrases):
            raise CohortError(f"label '{label}' has exceptions and no phrases", file=path, hint="add its phrases")
    return {label: tuple(dict.fromkeys(phrases)) for label, phrases in found.items()}


def _folder(path: Path) -> dict[str, list[str]]:
    inner = path / _MENTION
    found = {file.stem: _lines(file) for file in _texts(inner if inner.is_dir() else path)}
    for file in _texts(path / _UNMENTION):
        if file.stem not in found:
            raise CohortError(
                "these are exceptions to no phrases",
                file=file,
                hint=f"write the label's phrases to {_MENTION}/{file.name}",
            )
        found[file.stem] += [EXCEPT + phrase for phrase in _lines(file)]
    return found


def _texts(folder: Path) -> list[Path]:
    return sorted(file for file in folder.glob("*.txt") if file.is_file()) if folder.is_dir() else []


def _lines(file: Path) -> list[str]:
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise CohortError("the bytes are not UTF-8", file=file, hint="save the file as UTF-8") from None
    except OSError:
        raise CohortError("the file can't be read", file=file, hint="check the path and its permissions") from None
    phrases = [line.strip() for line in lines if line.strip()]
    if not phrases:
        raise CohortError("the file has no phrases", file=file, hint="write one phrase per line, or remove the file")
    for row, phrase in enumerate(phrases, start=1):
        if not _has_words(phrase):
            raise CohortError(
                "the phrase has no letters or digits", file=file, row=row, hint="correct or remove the line"
            )
    return phrases


def _yaml(path: Path) -> dict[str, list[str]]:
    node = read_yaml(path, needs="`label: [phrase, ...]`")
    found: dict[str, list[str]] = {}
    content = node.plain()
    if not isinstance(content, dict):  # `!!set`
        raise CohortError("the file is not a mapping of labels", file=path, hint="write `label: [phrase, ...]`")
    for label, value in content.items():
        phrases = [value] if isinstance(value, str) else value
        if not isinstance(phrases, list) or not all(isinstance(one, str) and _has_words(one) for one in phrases):
            raise CohortError(f"label '{label}': not a list of phrases", file=path, hint="write `label: [phrase, ...]`")
        found[str(label)] = phrases
    return found


def _table(path: Path) -> dict[str, list[str]]:
    if not path.exists():
        raise CohortError("the file or folder does not exist", file=path, hint=_LAYOUT)
    form = format_of(path)
    columns = form.columns(path)
    for wanted in ("label", "phrase"):
        if wanted not in columns:
            raise missing_column(wanted, columns, file=path)
    frame = form.frame(path, ["label", "phrase"], {})
    found: dict[str, list[str]] = {}
    checks = [ColumnCheck(frame[name].cast(pl.String), file=path) for name in frame.columns]
    for row, (label, phrase) in enumerate(zip(*(check.values for check in checks), strict=True)):
        for cell, check in zip((label, phrase), checks, strict=True):
            if not _has_words(cell or ""):
                raise check.error("the cell has no letters or digits", hint="fill it in or remove the row", at=row)
        found.setdefault(label.strip(), []).append(phrase.strip())
    return found


def _has_words(text: Iterable[str]) -> bool:
    return any(character.isalnum() for character in text if character not in (EDGE, EXCEPT))
