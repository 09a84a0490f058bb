"""The readmission cohort from a NOTEEVENTS of MIMIC-III's size: seconds, and peak memory of a fresh process.

python benchmarks/build_cohort.py [--rows 200000 | --rows 2000000] [--kind readmission|outcomes] [SUFFIX ...]

Of the rows, one in 35 is a discharge summary of 10,000 characters, as in MIMIC-III (59,652 of 2,083,180); the
others are nursing and radiology notes of 1,700. Ends with 1 above 4 GB.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from io import TextIOWrapper
from pathlib import Path

import numpy as np

SUFFIXES = (".csv.gz", ".csv", ".parquet")
MOST_GB = 4.0
ONE_IN = 35
SECTIONS = (
    "Chief Complaint",
    "History of Present Illness",
    "Past Medical History",
    "Social History",
    "Physical Exam",
    "Pertinent Results",
    "Brief Hospital Course",
    "Medications on Admission",
    "Discharge Medications",
    "Discharge Instructions",
)
# VmHWM in a process of its own, because `ru_maxrss` of a child starts at what its parent held.
BUILD = """
import sys, time
from pathlib import Path
from palpate.data.cohorts import write_built_cohort
from palpate.data.cohorts.outcomes import build_outcomes
from palpate.data.cohorts.readmission import build_readmission

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**20

began = time.perf_counter()
def say(text):
    print(f"  {time.perf_counter() - began:6.1f} s  {peak():5.2f} GiB  {text}", file=sys.stderr)

build = {"readmission": build_readmission, "outcomes": build_outcomes}[sys.argv[2]]
built = build(Path(sys.argv[1]), progress=say)
say("writing")
write_built_cohort(built, Path(sys.argv[1]) / "cohort.parquet")
print(len(built.cohort), time.perf_counter() - began, peak())
"""


def texts(n: int, length: int, rng: np.random.Generator) -> list[str]:
    """Notes of drawn words, with line breaks, quotes and commas."""
    letters = np.array(list("etaoinshrdlu"))
    words = ["".join(rng.choice(letters, size)) for size in rng.integers(2, 11, 20_000)]
    pool = np.array([*words, '"stable",', "pt.\n", "b.i.d.,\n"], dtype=object)
    return [" ".join(pool[rng.integers(0, len(pool), length // 7)])[:length] for _ in range(n)]


def summary(parts: list[str], rng: np.random.Generator) -> str:
    """A discharge summary of ten sections."""
    drawn = rng.integers(0, len(parts), len(SECTIONS))
    return "\n\n".join(f"{name}:\n{parts[k]}" for name, k in zip(SECTIONS, drawn, strict=True))


def notes(n_rows: int) -> Iterator[list[object]]:
    """Rows of NOTEEVENTS."""
    rng = np.random.default_rng(0)
    parts, others = texts(3000, 1000, rng), texts(3000, 1700, rng)
    for row in range(1, n_rows + 1):
        stay, is_summary = row // ONE_IN + 1, row % ONE_IN == 0
        kind = ("Discharge summary", "Report") if is_summary else ("Nursing/other", "Report")
        text = summary(parts, rng) if is_summary else f"{row} {others[row % len(others)]}"
        yield [row, stay // 2, stay, "2150-01-01", "", "", *kind, "", "", text]


def stays(n_rows: int) -> Iterator[list[object]]:
    """Rows of ADMISSIONS: two stays a patient, every fourth patient back within a month."""
    begin = datetime(2100, 1, 1)
    for stay in range(1, n_rows // ONE_IN + 3):
        patient, second = stay // 2, stay % 2
        gap = 20 if patient % 4 == 0 else 400
        day = begin + timedelta(days=int(patient % 20_000) + second * gap)
        yield [
            *(stay, patient, stay, day, day + timedelta(days=5), "", "EMERGENCY"),
            *("Private", "WHITE", 1 if stay % 10 == 0 else 0),
        ]


def write(folder: Path, suffix: str, n_rows: int) -> None:
    """The four tables."""
    people = ([k, k, "F", "2060-01-01 00:00:00"] for k in range(n_rows // ONE_IN // 2 + 2))
    codes = ([k, 0, k, 1, "4280"] for k in range(1, n_rows // ONE_IN + 3))
    noted = "ROW_ID,SUBJECT_ID,HADM_ID,CHARTDATE,CHARTTIME,STORETIME,CATEGORY,DESCRIPTION,CGID,ISERROR,TEXT"
    admitted = "ROW_ID,SUBJECT_ID,HADM_ID,ADMITTIME,DISCHTIME,DEATHTIME,ADMISSION_TYPE,INSURANCE,ETHNICITY"
    tables: dict[str, tuple[str, Iterator[list[object]]]] = {
        "PATIENTS": ("ROW_ID,SUBJECT_ID,GENDER,DOB", people),
        "ADMISSIONS": (f"{admitted},HOSPITAL_EXPIRE_FLAG", stays(n_rows)),
        "DIAGNOSES_ICD": ("ROW_ID,SUBJECT_ID,HADM_ID,SEQ_NUM,ICD9_CODE", codes),
        "NOTEEVENTS": (noted, notes(n_rows)),
    }
    plain = ".csv" if suffix == ".parquet" else suffix
    for name, (header, rows) in tables.items():
        path = folder / f"{name}{plain}"
        zipped = plain.endswith("gz")
        with gzip.open(path, "wb", 1) if zipped else path.open("wb") as raw, TextIOWrapper(raw, newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(header.split(","))
            writer.writerows(rows)
        if suffix == ".parquet":
            _to_parquet(path)


def _to_parquet(path: Path) -> None:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET memory_limit = '2GB'")
        source = f"read_csv('{path}', all_varchar = true, header = true, parallel = false)"
        connection.execute(f"COPY (FROM {source}) TO '{path.with_suffix('.parquet')}' (FORMAT parquet)")
    path.unlink()


def main() -> None:
    """Print one line a format; end with 1 if one takes more memory than promised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suffixes", nargs="*", default=SUFFIXES)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--kind", default="readmission", choices=["readmission", "outcomes"])
    options = parser.parse_args()
    worst = 0.0
    for suffix in options.suffixes:
        with tempfile.TemporaryDirectory() as name:
            began = time.perf_counter()
            write(Path(name), suffix, options.rows)
            made = time.perf_counter() - began
            command = [sys.executable, "-c", BUILD, name, options.kind]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
            worst = max(worst, float(done[2]))
            print(
                f"{options.kind} {suffix:9} {options.rows:9,} notes  {int(done[0]):6,} cases  "
                f"{float(done[1]):6.1f} s  peak {float(done[2]):.2f} GiB  [tables made in {made:.0f} s]",
                flush=True,
            )
    sys.exit(worst > MOST_GB)


if __name__ == "__main__":
    main()
