"""The files against the published schemas: names, types, keys, references."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import numpy as np
import polars as pl
import pytest

from palpate import synthetic
from palpate.files import open_named_text
from palpate.synthetic.layouts import open_gzip, schemas
from palpate.synthetic.patients.images import save
from tests.synthetic.conftest import read

# Written down here again, from the published documentation, so that a slip in schemas.yaml shows.
PUBLISHED = {
    "mimic-iii/PATIENTS": "ROW_ID,SUBJECT_ID,GENDER,DOB,DOD,DOD_HOSP,DOD_SSN,EXPIRE_FLAG",
    "mimic-iii/ADMISSIONS": "ROW_ID,SUBJECT_ID,HADM_ID,ADMITTIME,DISCHTIME,DEATHTIME,ADMISSION_TYPE,ADMISSION_LOCATION,"
    "DISCHARGE_LOCATION,INSURANCE,LANGUAGE,RELIGION,MARITAL_STATUS,ETHNICITY,EDREGTIME,EDOUTTIME,DIAGNOSIS,"
    "HOSPITAL_EXPIRE_FLAG,HAS_CHARTEVENTS_DATA",
    "mimic-iii/NOTEEVENTS": "ROW_ID,SUBJECT_ID,HADM_ID,CHARTDATE,CHARTTIME,STORETIME,CATEGORY,DESCRIPTION,CGID,"
    "ISERROR,TEXT",
    "mimic-iii/DIAGNOSES_ICD": "ROW_ID,SUBJECT_ID,HADM_ID,SEQ_NUM,ICD9_CODE",
    "mimic-iii/PROCEDURES_ICD": "ROW_ID,SUBJECT_ID,HADM_ID,SEQ_NUM,ICD9_CODE",
    "mimic-iii/D_ICD_DIAGNOSES": "ROW_ID,ICD9_CODE,SHORT_TITLE,LONG_TITLE",
    "mimic-iii/D_ICD_PROCEDURES": "ROW_ID,ICD9_CODE,SHORT_TITLE,LONG_TITLE",
    "mimic-iv/hosp/patients": "subject_id,gender,anchor_age,anchor_year,anchor_year_group,dod",
    "mimic-iv/hosp/admissions": "subject_id,hadm_id,admittime,dischtime,deathtime,admission_type,admit_provider_id,"
    "admission_location,discharge_location,insurance,language,marital_status,race,edregtime,edouttime,hospital_expire_flag",
    "mimic-iv/hosp/diagnoses_icd": "subject_id,hadm_id,seq_num,icd_code,icd_version",
    "mimic-iv/hosp/d_icd_diagnoses": "icd_code,icd_version,long_title",
    "mimic-iv/note/discharge": "note_id,subject_id,hadm_id,note_type,note_seq,charttime,storetime,text",
    "mimic-iv/note/radiology": "note_id,subject_id,hadm_id,note_type,note_seq,charttime,storetime,text",
    "mimic-cxr-jpg/mimic-cxr-2.0.0-metadata": "dicom_id,subject_id,study_id,PerformedProcedureStepDescription,"
    "ViewPosition,Rows,Columns,StudyDate,StudyTime,ProcedureCodeSequence_CodeMeaning,ViewCodeSequence_CodeMeaning,"
    "PatientOrientationCodeSequence_CodeMeaning",
    "mimic-cxr-jpg/mimic-cxr-2.0.0-chexpert": "subject_id,study_id,Atelectasis,Cardiomegaly,Consolidation,Edema,"
    "Enlarged Cardiomediastinum,Fracture,Lung Lesion,Lung Opacity,No Finding,Pleural Effusion,Pleural Other,Pneumonia,"
    "Pneumothorax,Support Devices",
    "mimic-cxr-jpg/mimic-cxr-2.0.0-split": "dicom_id,study_id,subject_id,split",
}
FORMATS = {
    "int": r"^-?\d+$",
    "float": r"^-?\d+\.\d+$",
    "date": r"^\d{4}-\d\d-\d\d$",
    "datetime": r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$",
    "str": r"(?s)^.+$",
}
III = "mimic-iii/"


def test_every_published_file_is_there_and_no_other() -> None:
    assert set(schemas()) == set(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_columns_and_types(small: Path, name: str) -> None:
    table = read(small, name)
    assert table.columns == PUBLISHED[name].split(",")
    for column, kind in schemas()[name].items():
        values = table[column]
        if not kind.endswith("?"):
            assert values.null_count() == 0, column
        known = values.drop_nulls()
        assert known.str.contains(FORMATS[kind.rstrip("?")]).all(), column


@pytest.mark.parametrize(
    ("name", "key"),
    [
        (III + "PATIENTS", ["SUBJECT_ID"]),
        (III + "ADMISSIONS", ["HADM_ID"]),
        (III + "NOTEEVENTS", ["ROW_ID"]),
        (III + "DIAGNOSES_ICD", ["HADM_ID", "SEQ_NUM"]),
        (III + "DIAGNOSES_ICD", ["HADM_ID", "ICD9_CODE"]),
        (III + "PROCEDURES_ICD", ["HADM_ID", "SEQ_NUM"]),
        (III + "D_ICD_DIAGNOSES", ["ICD9_CODE"]),
        (III + "D_ICD_PROCEDURES", ["ICD9_CODE"]),
        ("mimic-iv/hosp/patients", ["subject_id"]),
        ("mimic-iv/hosp/admissions", ["hadm_id"]),
        ("mimic-iv/hosp/diagnoses_icd", ["hadm_id", "seq_num", "icd_version"]),
        ("mimic-iv/hosp/d_icd_diagnoses", ["icd_code", "icd_version"]),
        ("mimic-iv/note/discharge", ["note_id"]),
        ("mimic-iv/note/radiology", ["note_id"]),
        ("mimic-cxr-jpg/mimic-cxr-2.0.0-metadata", ["dicom_id"]),
        ("mimic-cxr-jpg/mimic-cxr-2.0.0-chexpert", ["study_id"]),
        ("mimic-cxr-jpg/predictions/honest", ["case_id"]),
    ],
)
def test_keys_are_unique(small: Path, name: str, key: list[str]) -> None:
    table = read(small, name)
    assert table.select(key).is_unique().all()


@pytest.mark.parametrize(
    ("child", "parent", "columns"),
    [
        (III + "ADMISSIONS", III + "PATIENTS", ["SUBJECT_ID"]),
        (III + "NOTEEVENTS", III + "ADMISSIONS", ["SUBJECT_ID", "HADM_ID"]),
        (III + "DIAGNOSES_ICD", III + "ADMISSIONS", ["SUBJECT_ID", "HADM_ID"]),
        (III + "DIAGNOSES_ICD", III + "D_ICD_DIAGNOSES", ["ICD9_CODE"]),
        (III + "PROCEDURES_ICD", III + "ADMISSIONS", ["SUBJECT_ID", "HADM_ID"]),
        (III + "PROCEDURES_ICD", III + "D_ICD_PROCEDURES", ["ICD9_CODE"]),
        ("mimic-iv/hosp/admissions", "mimic-iv/hosp/patients", ["subject_id"]),
        ("mimic-iv/hosp/diagnoses_icd", "mimic-iv/hosp/admissions", ["subject_id", "hadm_id"]),
        ("mimic-iv/hosp/diagnoses_icd", "mimic-iv/hosp/d_icd_diagnoses", ["icd_code", "icd_version"]),
        ("mimic-iv/note/discharge", "mimic-iv/hosp/admissions", ["subject_id", "hadm_id"]),
        ("mimic-iv/note/radiology", "mimic-iv/hosp/admissions", ["subject_id", "hadm_id"]),
        (
            "mimic-cxr-jpg/mimic-cxr-2.0.0-metadata",
            "mimic-cxr-jpg/mimic-cxr-2.0.0-chexpert",
            ["subject_id", "study_id"],
        ),
        ("mimic-cxr-jpg/mimic-cxr-2.0.0-metadata", "mimic-iv/hosp/patients", ["subject_id"]),
        ("mimic-cxr-jpg/mimic-cxr-2.0.0-metadata", "mimic-cxr-jpg/mimic-cxr-2.0.0-split", ["dicom_id"]),
        ("latent_iii", III + "ADMISSIONS", ["hadm_id"]),
        ("latent_iv", "mimic-iv/hosp/admissions", ["hadm_id"]),
    ],
)
def test_references_lead_somewhere(small: Path, child: str, parent: str, columns: list[str]) -> None:
    there = read(small, parent).rename(str.lower).select([column.lower() for column in columns]).unique()
    here = read(small, child).rename(str.lower).select(there.columns).drop_nulls()
    assert here.height > 0
    assert here.join(there, on=there.columns, how="anti").height == 0


def test_predictions_answer_for_every_image(small: Path) -> None:
    images = set(read(small, "mimic-cxr-jpg/mimic-cxr-2.0.0-metadata")["dicom_id"])
    for model in ("honest", "shortcut", "pretest"):
        answers = pl.read_csv(small / f"mimic-cxr-jpg/predictions/{model}.csv.gz")
        assert set(answers["case_id"]) == images
        values = answers.drop("case_id").to_numpy()
        assert values.shape[1] == 13
        assert ((values >= 0) & (values <= 1)).all()


def test_times_are_in_order_and_shifted(small: Path) -> None:
    stays = read(small, III + "ADMISSIONS")
    assert (stays["ADMITTIME"] < stays["DISCHTIME"]).all()
    assert stays["ADMITTIME"].str.slice(0, 4).cast(int).is_between(2100, 2210).all()
    died = stays.filter(pl.col("HOSPITAL_EXPIRE_FLAG") == "1")
    assert (died["DEATHTIME"] == died["DISCHTIME"]).all()
    assert (died["DISCHARGE_LOCATION"] == "DEAD/EXPIRED").all()
    assert stays.filter(pl.col("HOSPITAL_EXPIRE_FLAG") == "0")["DEATHTIME"].null_count() == stays.height - died.height


@pytest.mark.slow
def test_the_very_old_were_born_300_years_ago(large: Path) -> None:
    born = read(large, III + "PATIENTS").select("SUBJECT_ID", year=pl.col("DOB").str.slice(0, 4).cast(int))
    state = read(large, "latent_iii").filter(pl.col("stay") == "0").rename({"subject_id": "SUBJECT_ID"})
    first = (
        read(large, III + "ADMISSIONS").group_by("SUBJECT_ID").agg(pl.col("ADMITTIME").min().str.slice(0, 4).cast(int))
    )
    table = state.join(born, on="SUBJECT_ID").join(first, on="SUBJECT_ID")
    gap = table["ADMITTIME"] - table["year"]
    old = table["age"].cast(float) >= 90
    assert old.sum() > 3
    assert (gap.filter(old) == 300).all()
    assert gap.filter(~old).max() <= 90


def test_cohort_builders_get_their_edge_cases(large: Path) -> None:
    stays = read(large, III + "ADMISSIONS").sort("SUBJECT_ID", "ADMITTIME")
    following = stays["ADMITTIME"].shift(-1)
    same = stays["SUBJECT_ID"] == stays["SUBJECT_ID"].shift(-1)
    assert set(stays["ADMISSION_TYPE"]) == {"EMERGENCY", "ELECTIVE", "URGENT", "NEWBORN"}
    assert (same & (following < stays["DISCHTIME"])).sum() > 0
    notes = read(large, III + "NOTEEVENTS")
    kinds = set(notes["CATEGORY"])
    assert kinds == {"Discharge summary", "Physician ", "Nursing", "Radiology"}
    assert "Addendum" in set(notes["DESCRIPTION"])
    assert notes["HADM_ID"].null_count() > 0
    summaries = notes.filter(pl.col("CATEGORY") == "Discharge summary")
    assert summaries["CHARTTIME"].null_count() == summaries.height


def test_posts_have_the_shared_task_layouts(large: Path) -> None:
    ids: list[str] = []
    positives = 0
    for split in ("train", "validation", "test"):
        rows = [line.split("\t") for line in (large / f"ade/smm4h-2017/{split}.tsv").read_text().splitlines()]
        assert all(len(row) == 4 and row[2] in "01" and row[3] for row in rows)
        ids += [row[0] for row in rows]
        folder = large / "ade/smm4h-2021" / split
        texts = dict(line.split("\t") for line in (folder / "tweets.tsv").read_text().splitlines())
        classes = dict(line.split("\t") for line in (folder / "class.tsv").read_text().splitlines())
        assert set(texts) == set(classes)
        assert set(classes.values()) <= {"ADE", "NoADE"}
        spans = [line.split("\t") for line in (folder / "spans_norms.tsv").read_text().splitlines()]
        assert {row[0] for row in spans} == {key for key, value in classes.items() if value == "ADE"}
        assert all(texts[key][int(begin) : int(end)] == text for key, _, begin, end, text in spans)
        ids += list(texts)
        positives += len(spans) + sum(row[2] == "1" for row in rows)
    assert len(ids) == len(set(ids)) == 1500
    assert 0.05 < positives / len(ids) < 0.12


def test_ratings(small: Path) -> None:
    table = pl.read_csv(small / "clinician_ratings.csv")
    assert table.columns == ["word", "rater_1", "rater_2", "rater_3"]
    assert table.height == table["word"].n_unique() == 49
    scores = table.drop("word").to_numpy()
    assert scores.min() >= 1
    assert scores.max() <= 5
    truth = json.loads((small / "truth.json").read_text())
    assert set(table["word"]) == set(truth["words"]["effects"])
    spurious = table.filter(pl.col("word") == truth["spurious_word"]["word"]).drop("word").to_numpy()
    assert spurious.mean() < 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is always full")
def test_a_full_disk_names_the_file() -> None:
    full = Path("/dev/full")

    def many(file: IO[str]) -> None:
        with file:
            file.writelines(f"{k}\n" for k in range(10**6))

    def gzipped() -> None:
        with ExitStack() as stack:
            many(open_gzip(full, stack))

    def pictured() -> None:
        save(np.zeros((64, 64), np.uint8), full)

    for write in (lambda: many(open_named_text(full)), gzipped, pictured):
        with pytest.raises(OSError, match="/dev/full") as caught:
            write()
        assert caught.value.filename == "/dev/full"


def test_the_second_process_says_which_file_it_was() -> None:
    said = "import sys; sys.stdout.write('..[28, \"notes.csv.gz\"]'); sys.exit(1)"
    worker = subprocess.Popen([sys.executable, "-c", said], stdout=subprocess.PIPE)
    with worker, pytest.raises(OSError, match=r"No space left on device: 'notes.csv.gz'"):
        synthetic._follow(worker, synthetic._Count(None, 4), 4)


def test_the_second_process_tells_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "notes.csv.gz")

    monkeypatch.setattr(synthetic, "write_iv", full)
    with pytest.raises(SystemExit):
        synthetic.mimic_iv_worker(json.dumps({"out": str(tmp_path), "plants": {}, "n_patients": 1}))
    assert json.loads(capsys.readouterr().out) == [28, "notes.csv.gz"]
