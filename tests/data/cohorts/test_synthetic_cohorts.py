"""The builders on the synthetic hospital: the labels of the slow implementation, and no word of the stay's end."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from palpate.data.cohorts.outcomes import build_outcomes
from palpate.data.cohorts.readmission import ReadmissionOptions, build_readmission
from palpate.synthetic import write_hospital
from tests.data.cohorts.test_readmission import labels, slow_labels
from tests.data.mimic_files import START, Stay

DAY = 86400.0


@pytest.fixture(scope="module", params=[200, pytest.param(2000, marks=pytest.mark.slow)])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out: Path = tmp_path_factory.mktemp("hospital")
    write_hospital(out, n_patients=request.param, seed=4, images=False)
    return out


def rows(file: Path) -> Iterator[dict[str, str]]:
    csv.field_size_limit(2**31 - 1)
    with gzip.open(file, "rt", encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            yield {name.lower(): cell for name, cell in row.items()}


def days(cell: str) -> float:
    return (datetime.fromisoformat(cell) - START).total_seconds() / DAY


def stays(file: Path) -> list[Stay]:
    return [
        Stay(
            int(row["subject_id"]),
            days(row["admittime"]),
            days(row["dischtime"]) if row["dischtime"] else None,
            int(row["hadm_id"]),
            row["admission_type"],
            row["hospital_expire_flag"] == "1",
        )
        for row in rows(file)
    ]


@pytest.mark.parametrize("rules", [{}, {"electives": "ignore", "transfers": "drop"}, {"deaths": "keep", "days": 7}])
@pytest.mark.parametrize("layout", ["mimic-iii", "mimic-iv"])
def test_labels(folder: Path, layout: str, rules: dict[str, object]) -> None:
    options = ReadmissionOptions.model_validate(rules)
    built = build_readmission(folder / layout, options=options)
    third = layout == "mimic-iii"
    tables = folder / layout
    every = stays(tables / ("ADMISSIONS.csv.gz" if third else "hosp/admissions.csv.gz"))
    notes = tables / ("NOTEEVENTS.csv.gz" if third else "note/discharge.csv.gz")
    noted = {
        int(row["hadm_id"]) for row in rows(notes) if row.get("category", "Discharge summary") == "Discharge summary"
    }
    expected = {stay: label for stay, label in slow_labels(every, options).items() if stay in noted}
    assert labels(built) == expected
    assert 0 < sum(expected.values()) < len(expected)


def test_admission_notes_hold_no_later_section(folder: Path) -> None:
    built = build_outcomes(folder / "mimic-iii")
    summaries = {
        row["hadm_id"]: row["text"]
        for row in rows(folder / "mimic-iii" / "NOTEEVENTS.csv.gz")
        if row["category"] == "Discharge summary" and row["description"] == "Report"
    }
    later = re.compile(r"^(?:brief )?(?:hospital course|discharge \w+)[^\n]*\n(.+?)(?=\n\n)", re.I | re.M | re.S)
    n_checked = 0
    for case, text in zip(built.cohort.cases["case_id"], built.cohort.texts, strict=True):
        kept = set(text.splitlines())
        for section in later.findall(summaries[case]):
            lines = {line for line in section.splitlines() if len(line) > 40}
            # A line that is also in an earlier section (a home medication, continued) is no leak.
            early = summaries[case].split(section)[0]
            assert not {line for line in lines & kept if line not in early}
            n_checked += len(lines)
    assert n_checked > len(built.cohort)
