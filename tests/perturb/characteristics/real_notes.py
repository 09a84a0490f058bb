"""Real notes and what they become: read in place from ../shared/data, never copied.

`real_notes.tsv` has one row per note that was altered and read: its file and id, the group, and either `skipped` with
the first word of the reason, or the SHA-256 (16 digits) of the text that is right. A row whose text the engine does not
reach yet is in the file, too: the rate of such rows is the error rate.
"""

from __future__ import annotations

import csv
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).parents[4] / "shared" / "data"
_TABLE = Path(__file__).parent / "real_notes.tsv"
_FILES = {
    "aci/train": ("aci_bench/train.csv", "encounter_id", "note"),
    "aci/valid": ("aci_bench/valid.csv", "encounter_id", "note"),
    "mts/train": ("notes/MTS-Dialog-TrainingSet.csv", "ID", "section_text"),
    "mts/valid": ("notes/MTS-Dialog-ValidationSet.csv", "ID", "section_text"),
}


class ReadNote(NamedTuple):
    """A note that was altered and read."""

    source: str
    id: str
    group: str
    expected: str
    """`skipped REASON`, or the digest of the altered text."""


@cache
def texts(source: str) -> dict[str, str]:
    """The notes of a file by id."""
    path, key, column = _FILES[source]
    with (DATA / path).open(encoding="utf-8", newline="") as file:
        return {row[key]: row[column] for row in csv.DictReader(file)}


def is_there() -> bool:
    """Whether the public data are here."""
    return all((DATA / path).exists() for path, _, _ in _FILES.values())


def read_notes() -> list[ReadNote]:
    """All rows of the table."""
    lines = _TABLE.read_text("utf-8").splitlines()
    return [ReadNote(*line.split("\t")) for line in lines if not line.startswith("#")]


def digest(text: str) -> str:
    """What stands for a text in the table."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def on_one_line(text: str, *, comma: bool) -> str:
    """A note as some archives store it: its line breaks turned into spaces or commas, its headings with a colon."""
    headed = re.sub(r"(?m)^([A-Z][A-Z /&-]{3,45})$", r"\1: ", text.strip())
    return re.sub(r"\s*\n\s*", "," if comma else " ", headed)
