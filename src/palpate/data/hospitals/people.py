"""What sources call a patient's gender, in one form for every layout, so that groups of two hospitals can be compared.

`F` and `M` are MIMIC's and DICOM's letters; FHIR and OMOP say female and male, MEDS either. Words that are not listed
stay as they are. Race and ethnicity are the source's own words: what they mean differs between countries and systems.
"""

from __future__ import annotations

import polars as pl

GENDERS = {
    **dict.fromkeys(("f", "female", "woman"), "F"),
    **dict.fromkeys(("m", "male", "man"), "M"),
    **dict.fromkeys(("o", "other"), "other"),
    **dict.fromkeys(("u", "unk", "unknown"), "unknown"),
}
"""Spellings in lower case, and their form in a cohort."""


def normal_gender(column: str = "gender") -> pl.Expr:
    """A column of genders in one form; other words, and none, as they are."""
    said = pl.col(column).cast(pl.String).str.strip_chars()
    known = said.str.to_lowercase().replace_strict(GENDERS, default=None, return_dtype=pl.String)
    return pl.coalesce(known, said).alias(column)
