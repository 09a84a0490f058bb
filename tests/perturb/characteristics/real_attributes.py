"""The development set: real notes that were altered and read one by one, as offsets and hashes in real_attributes.tsv.

    python -m tests.perturb.characteristics.real_attributes    # what changed, as diffs to be read
    python -m tests.perturb.characteristics.real_attributes --write    # write the file anew, after reading them

The notes are read in place (`../shared/data`); none of their text is in the file. Its columns: file, id of the note,
characteristic, outcomes. An outcome is `group=start-end,...#hash` with the spans that are replaced in the note and the
hash of the altered note, `group=kept`, or `group=skipped: reason`.
"""

from __future__ import annotations

import csv
import hashlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from palpate.cases.edits import splice
from palpate.perturb.characteristics import Alterer, EditOutcome

DATA = Path(__file__).parents[4] / "shared" / "data"
FILE = Path(__file__).parent / "real_attributes.tsv"
GROUPS = {
    "age": ("25", "47", "80", "90+"),
    "ethnicity": ("none", "White", "African American", "Hispanic", "Asian"),
    "weight": ("underweight", "normal weight", "obese"),
    "wording": ("neutral", "stigmatizing"),
    "housing": ("none", "homeless", "housed"),
}
_FILES = {
    "aci_bench/train.csv": ("encounter_id", "note"),
    "aci_bench/valid.csv": ("encounter_id", "note"),
    "notes/MTS-Dialog-TrainingSet.csv": ("ID", "section_text"),
    "notes/MTS-Dialog-ValidationSet.csv": ("ID", "section_text"),
}


_HANDED = re.compile(r"\b[RL]H[MF]\b")
"""A right-handed man: where an adjective goes before this noun is read, and tested, with the gender."""


_LIVES = re.compile(r"\b(?:lives?|living|resid\w+|homeless|shelter)\b", re.IGNORECASE)
"""Only notes that may tell where the patient lives were read for it."""


class Expected(NamedTuple):
    """One line of the file."""

    file: str
    note: str
    characteristic: str
    outcomes: str


def is_here() -> bool:
    """Whether the notes are on this machine."""
    return all((DATA / name).exists() for name in _FILES)


def read_notes() -> dict[tuple[str, str], str]:
    """Every second note, by file and id: the half on which the rules were developed."""
    texts: list[tuple[tuple[str, str], str]] = []
    for name, (key, column) in _FILES.items():
        with (DATA / name).open(encoding="utf-8", newline="") as file:
            texts += [((name, row[key]), row[column]) for row in csv.DictReader(file)]
    return dict(texts[::2])


def read_expected() -> list[Expected]:
    """All lines."""
    lines = FILE.read_text("utf-8").splitlines()
    return [Expected(*line.split("\t")) for line in lines if not line.startswith("#")]


def told(text: str, outcome: EditOutcome) -> str:
    """An outcome as it is written in the file."""
    if not outcome.edits:
        return outcome.action if outcome.reason is None else f"skipped: {outcome.reason}"
    spans = ",".join(f"{edit.start}-{edit.end}" for edit in outcome.edits)
    return f"{spans}#{hashlib.sha256(splice(text, outcome.edits).encode()).hexdigest()[:8]}"


def outcomes(alterer: Alterer, text: str, name: str) -> str:
    """The outcomes of one note and characteristic; empty if nothing can be altered or contradicts."""
    found = alterer.plan(text)
    parts = {group: told(text, alterer.edits(found, (name, group))) for group in GROUPS[name]}
    if not any("#" in part or "contradictory" in part for part in parts.values()):
        return ""
    return "; ".join(f"{group}={part}" for group, part in parts.items())


def made() -> Iterator[Expected]:
    """The lines as the code makes them now."""
    alterer = Alterer(tuple(GROUPS), sure="normal")
    for (file, note), text in read_notes().items():
        for name in GROUPS:
            unread = name not in ("age", "housing") and _HANDED.search(text)
            unread = unread or (name == "housing" and not _LIVES.search(text))
            line = "" if unread else outcomes(alterer, text, name)
            if line:
                yield Expected(file, note, name, line)


def main() -> None:
    """Show the lines that changed, or write the file."""
    now = list(made())
    if "--write" in sys.argv:
        head = "# Written by real_attributes.py: file, id, characteristic, outcomes. No text of the notes is in here."
        FILE.write_text("\n".join([head, *("\t".join(line) for line in now)]) + "\n", encoding="utf-8")
        return
    before = {line[:3]: line.outcomes for line in read_expected()}
    after = {line[:3]: line.outcomes for line in now}
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key):
            sys.stdout.write("\n    ".join(["\t".join(key), str(before.get(key)), str(after.get(key))]) + "\n")


if __name__ == "__main__":
    main()
