"""The chest X-ray cohort: what was known before a study and what was not, against a slow second implementation."""

from __future__ import annotations

import shutil
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palpate.data.cohorts import BuiltCohort, write_built_cohort
from palpate.data.cohorts.cxr import PRIOR_MARK, CxrCohortOptions, build_cxr
from palpate.data.hospitals.mimic import XRAY_LABELS
from palpate.data.tables import TableSpec, read_cohort
from palpate.errors import CohortError
from palpate.synthetic import write_hospital
from tests.data.cohorts.cxr_files import STEM, Note, Study, dicom, write_xrays
from tests.data.cohorts.test_synthetic_cohorts import rows
from tests.data.mimic_files import START, Stay
from tests.e2e.command_line import CommandLine

SECOND = 1 / 86400


def build(folder: Path, stays: list[Stay], notes: list[Note], studies: list[Study], **options: object) -> BuiltCohort:
    write_xrays(folder, stays, notes, studies)
    return build_cxr(folder, options=CxrCohortOptions.model_validate(options))


def priors(built: BuiltCohort) -> dict[str, list[str]]:
    """The earlier notes of each case."""
    cases = built.cohort.cases
    return {case: text.split(PRIOR_MARK) for case, text in zip(cases["case_id"], cases["prior"], strict=True)}


def slow_priors(stays: list[Stay], notes: list[Note], studies: list[Study]) -> dict[str, list[str]]:
    """The rule of Section 3.1, one study at a time."""
    answer = {}
    for study in studies:
        known: dict[tuple[int, str], tuple[Any, ...]] = {}
        for note in notes:
            stay = note.stay
            if note.charted is None or stay.discharged is None or stay.patient != study.patient:
                continue
            charted = (START + timedelta(days=note.charted)).replace(microsecond=0)
            since = max(charted, stay.discharged, stay.admitted)
            if since < study.time:
                key = (stay.id, note.text)
                place = (since, stay.admitted, stay.id, note.kind == "AD", note.id)
                known[key] = min(known.get(key, place), place)
        if known:
            answer[dicom(study, 0)] = [text for (_, text), _ in sorted(known.items(), key=lambda item: item[1])]
    return answer


FIRST, SECOND_STAY, THIRD = Stay(1, 0, 5, 1), Stay(1, 50, 55, 2), Stay(1, 90, 95, 3)
STAYS = [FIRST, SECOND_STAY, THIRD]
NOTES = [Note(FIRST, 5, "one", 1), Note(SECOND_STAY, 54.5, "two", 2), Note(THIRD, 94.5, "three", 3)]


def test_only_notes_of_ended_admissions(tmp_path: Path) -> None:
    studies = [
        Study(1, -3, 10),  # before any admission
        Study(1, 2, 11),  # in the first one
        Study(1, 5, 12),  # the second of the discharge: not before
        Study(1, 5 + 2 * SECOND, 13),
        Study(1, 52, 14),
        Study(1, 60, 15),
        Study(1, 91, 16),
        Study(1, 400, 17),
    ]
    built = build(tmp_path, STAYS, NOTES, studies)
    names = {study.id: dicom(study, 0) for study in studies}
    assert priors(built) == {
        names[13]: ["one"],
        names[14]: ["one"],
        names[15]: ["one", "two"],
        names[16]: ["one", "two"],
        names[17]: ["one", "two", "three"],
    }
    assert {step.reason: step.n_dropped for step in built.flow if step.n_dropped} == {
        "no admission ended before the study": 3
    }
    assert built.cohort.cases["time"].to_list() == [study.time for study in studies[3:]]


def test_charted_later_than_the_study(tmp_path: Path) -> None:
    studies = [Study(1, 20, 10), Study(1, 30, 11)]
    notes = [Note(FIRST, 25, "late", 1), Note(FIRST, None, "never charted", 2)]
    built = build(tmp_path, STAYS, notes, studies)
    assert priors(built) == {dicom(studies[1], 0): ["late"]}
    dropped = {step.reason: step.n_dropped for step in built.flow if step.n_dropped}
    assert dropped == {
        "charttime is empty, so it is unknown whether the note precedes a study": 1,
        "no summary of an earlier stay was charted before it": 1,
    }


def test_labels_by_name_and_only_positives(tmp_path: Path) -> None:
    cells = {"No Finding": "1.0", "Edema": "-1.0", "Fracture": "0.0", "Pleural Other": "1", "Pneumonia": ""}
    studies = [
        Study(1, 20, 10, positive=("Lung Opacity", "Support Devices"), cells=cells),
        Study(1, 30, 11, positive=("Pleural Effusion",)),
    ]
    built = build(tmp_path, STAYS, NOTES, studies)
    assert built.cohort.labels == XRAY_LABELS
    assert len(XRAY_LABELS) == 13
    found = [{name for name, flag in zip(XRAY_LABELS, row, strict=True) if flag} for row in built.cohort.y.toarray()]
    assert found == [{"Lung Opacity", "Support Devices", "Pleural Other"}, {"Pleural Effusion"}]


def test_what_earlier_studies_found(tmp_path: Path) -> None:
    studies = [
        Study(1, 2, 9, positive=("Edema",)),  # has no context of its own, and is still an earlier study
        Study(1, 20, 10, positive=("Fracture",)),
        Study(1, 20, 11, positive=("Pneumonia",)),  # at the same moment: not earlier
        Study(1, 30, 12),
        Study(2, 10, 20, positive=("Pneumothorax",)),
    ]
    cases = build(tmp_path, [*STAYS, Stay(2, 0, 1, 8)], [*NOTES, Note(Stay(2, 0, 1, 8), 0, "b")], studies).cohort.cases
    told = cases.select("n_earlier_studies", *(f"earlier_{name}" for name in ("Edema", "Fracture", "Pneumonia")))
    assert told.rows() == [(1, 1, 0, 0), (1, 1, 0, 0), (3, 1, 1, 1), (0, None, None, None)]


def test_images_and_studies(tmp_path: Path) -> None:
    studies = [Study(1, 20, 10, views=("LATERAL", "AP", "PA")), Study(1, 30, 11, views=("LATERAL",))]
    write_xrays(tmp_path, STAYS, NOTES, studies)
    every = build_cxr(tmp_path, options=CxrCohortOptions(image_folder=""))
    assert every.cohort.cases["image"][0] == f"files/p1/p1/s10/{dicom(studies[0], 0)}.jpg"
    assert len(every.cohort) == 4
    assert every.cohort.cases["prior"].n_unique() == 1
    one = build_cxr(tmp_path, options=CxrCohortOptions(per="study", image_folder="x/"))
    assert one.cohort.cases["case_id"].to_list() == ["10", "11"]
    assert one.cohort.cases["image"].to_list() == [
        f"x/files/p1/p1/s10/{dicom(studies[0], 2)}.jpg",
        f"x/files/p1/p1/s11/{dicom(studies[1], 0)}.jpg",
    ]
    frontal = build_cxr(tmp_path, options=CxrCohortOptions(views="frontal"))
    assert frontal.cohort.cases["case_id"].to_list() == [dicom(studies[0], 1), dicom(studies[0], 2)]
    assert Path(frontal.cohort.cases["image"][0]).is_relative_to((tmp_path / "mimic-cxr-jpg").resolve())


def test_notes_options(tmp_path: Path) -> None:
    notes = [*NOTES, Note(FIRST, 6, "one more", 4, "AD"), Note(FIRST, 7, "one", 5)]
    studies = [Study(1, 400, 10)]
    write_xrays(tmp_path, STAYS, notes, studies)
    (every,) = priors(build_cxr(tmp_path)).values()
    assert every == ["one", "one more", "two", "three"]  # the copy of "one" is no further note
    (last,) = priors(build_cxr(tmp_path, options=CxrCohortOptions(max_notes=2))).values()
    assert last == ["two", "three"]
    (without,) = priors(build_cxr(tmp_path, options=CxrCohortOptions(addenda="leave"))).values()
    assert without == ["one", "two", "three"]


def test_age_sex_and_split(tmp_path: Path) -> None:
    stays = [Stay(p, 0, 1, p) for p in range(1, 41)]
    notes = [Note(stay, 1, f"note {stay.id}") for stay in stays]
    studies = [
        Study(p, 370 * (1 + p % 2), 100 + 2 * p + k, positive=XRAY_LABELS[: p % 2])
        for p in range(1, 41)
        for k in (0, 1)
    ]
    built = build(tmp_path, stays, notes, studies)
    cases = built.cohort.cases
    assert cases.filter(pl.col("patient_id") == "1").select("age", "gender").row(0) == (51, "F")
    assert cases.filter(pl.col("patient_id") == "2").select("age", "gender").row(0) == (50, "M")
    counts = dict(built.splits.group_by("split").len().rows())
    assert counts == {"train": 32, "validation": 4, "test": 4}
    assert built.splits.height == 40  # nobody is in two splits


days = st.integers(0, 40).map(lambda n: n / 4)


@st.composite
def hospitals(draw: st.DrawFn) -> tuple[list[Stay], list[Note], list[Study]]:
    stays, notes, studies = [], [], []
    for k in range(draw(st.integers(1, 6))):
        begin = draw(days)
        end = draw(st.none() | days)  # also backwards: tables have such rows
        stays.append(Stay(draw(st.integers(1, 3)), begin, end, k + 1))
    for k in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["DS", "AD"]))
        notes.append(Note(draw(st.sampled_from(stays)), draw(st.none() | days), draw(st.sampled_from("abc")), k, kind))
    for k in range(draw(st.integers(1, 6))):
        studies.append(Study(draw(st.integers(1, 3)), draw(days), 50 + k, positive=("Edema",) if k % 2 else ()))
    return stays, notes, studies


def built_in_scratch(stays: list[Stay], notes: list[Note], studies: list[Study]) -> pl.DataFrame | None:
    scratch = Path(tempfile.mkdtemp())
    try:
        write_xrays(scratch, stays, notes, studies)
        return build_cxr(scratch, options=CxrCohortOptions(image_folder="")).cohort.cases
    except CohortError as error:
        if "no cases are left" not in str(error):
            raise
        return None
    finally:
        shutil.rmtree(scratch)


@settings(max_examples=20)
@given(hospitals())
def test_like_the_slow_one(made: tuple[list[Stay], list[Note], list[Study]]) -> None:
    expected = slow_priors(*made)
    cases = built_in_scratch(*made)
    found = (
        {}
        if cases is None
        else dict(zip(cases["case_id"], cases["prior"].str.split(PRIOR_MARK).to_list(), strict=True))
    )
    assert found == expected


@settings(max_examples=12)
@given(hospitals(), st.data())
def test_the_future_changes_nothing(made: tuple[list[Stay], list[Note], list[Study]], data: st.DataObject) -> None:
    """Whatever is charted, admitted, discharged or found at or after a study, its row stays as it was."""
    stays, notes, studies = made
    study = data.draw(st.sampled_from(studies))
    later = Stay(study.patient, study.day + data.draw(days), study.day + 20, 90)
    open_now = Stay(study.patient, max(study.day - 3, -1), study.day + data.draw(days), 91)
    held = [stay for stay in stays if stay.patient == study.patient and stay.end is not None]
    future = [
        Note(later, study.day + data.draw(days), "secret", 91),
        Note(open_now, study.day - 1, "secret", 92),  # charted before, of the current admission
        *(
            Note(stay, study.day + data.draw(days), data.draw(st.sampled_from("abc")), 93 + k)
            for k, stay in enumerate(held)
        ),
    ]
    seen = Study(study.patient, study.day + data.draw(days), 99, positive=XRAY_LABELS)
    before = built_in_scratch(stays, notes, studies)
    after = built_in_scratch([*stays, later, open_now], [*notes, *future], [*studies, seen])
    name = pl.col("case_id") == dicom(study, 0)
    if before is None or not before.filter(name).height:
        assert after is None or not after.filter(name).height
    else:
        assert after is not None
        # The split is drawn among all patients that have a case, so another patient may move it.
        assert after.filter(name).drop("split").equals(before.filter(name).drop("split"))


# --- the synthetic hospital, and wrong input ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out: Path = tmp_path_factory.mktemp("hospital")
    write_hospital(out, n_patients=150, seed=4, images=False)
    return out


def test_synthetic_hospital(hospital: Path, tmp_path: Path) -> None:
    built = build_cxr(hospital)
    cases = built.cohort.cases
    with_prior = {
        row["dicom_id"]: row["time"] for row in rows(hospital / "latent_studies.csv.gz") if row["has_prior"] == "1"
    }
    assert set(cases["case_id"]) == set(with_prior)
    assert all(str(time) == with_prior[case] for case, time in zip(cases["case_id"], cases["time"], strict=True))
    discharged = {
        row["hadm_id"]: row["dischtime"] for row in rows(hospital / "mimic-iv" / "hosp" / "admissions.csv.gz")
    }
    when = {
        row["text"].strip(): discharged[row["hadm_id"]]
        for row in rows(hospital / "mimic-iv" / "note" / "discharge.csv.gz")
    }
    for time, prior in zip(cases["time"], cases["prior"], strict=True):
        assert all(when[note.strip()] < str(time) for note in prior.split(PRIOR_MARK))
    write_built_cohort(built, tmp_path / "cxr.parquet")
    again = read_cohort(TableSpec(file=tmp_path / "cxr.parquet"), name="cxr")
    assert again.cases.drop("cohort").equals(cases.drop("cohort").select(again.cases.columns[1:]))
    assert (again.y != built.cohort.y).nnz == 0


def broken(folder: Path, table: str, column: str, cell: str) -> Path:
    """The small hospital with one wrong cell in its second row."""
    write_xrays(folder, STAYS, NOTES, [Study(1, 20, 10), Study(1, 30, 11)])
    file = folder / "mimic-cxr-jpg" / f"{STEM}{table}.csv"
    frame = pl.read_csv(file, infer_schema=False)
    at = frame.columns.index(column)
    frame[1, at] = cell
    frame.write_csv(file)
    return folder


@pytest.mark.parametrize(
    ("table", "column", "cell", "said"),
    [
        ("metadata", "StudyDate", "2180-05-06", "column 'StudyDate': the cell is '2180-05-06', which is not a date"),
        ("metadata", "StudyDate", "21801306", "which is not a date"),
        (
            "metadata",
            "StudyTime",
            "256000.0",
            "row 2, column 'StudyTime': the cell is '256000.0', which is not a time of day",
        ),
        ("metadata", "study_id", "s1", "column 'study_id': the cell is 's1', which is not a whole number"),
        ("metadata", "dicom_id", "", "row 2, column 'dicom_id': the cell is empty"),
        (
            "metadata",
            "dicom_id",
            "0000000a-00000000",
            "row 2, column 'dicom_id': dicom_id '0000000a-00000000' is also in row 1",
        ),
        ("chexpert", "Lung Opacity", "2.0", "row 2, column 'Lung Opacity': the cell is '2.0', which is not a label"),
        ("chexpert", "Edema", "yes", "row 2, column 'Edema': the cell is 'yes', which is not a label"),
    ],
)
def test_wrong_cells(tmp_path: Path, table: str, column: str, cell: str, said: str) -> None:
    with pytest.raises(CohortError) as error:
        build_cxr(broken(tmp_path, table, column, cell))
    assert said in str(error.value)
    assert f"{STEM}{table}.csv" in str(error.value)


def test_missing_parts(tmp_path: Path) -> None:
    write_xrays(tmp_path, STAYS, NOTES, [Study(1, 20, 10)])
    labels = tmp_path / "mimic-cxr-jpg" / f"{STEM}chexpert.csv"
    pl.read_csv(labels, infer_schema=False).drop("Pneumonia").write_csv(labels)
    with pytest.raises(CohortError, match="column 'pneumonia': column not found"):
        build_cxr(tmp_path)
    labels.unlink()
    with pytest.raises(CohortError, match=r"the table mimic-cxr-2\.0\.0-chexpert of MIMIC-CXR-JPG is missing"):
        build_cxr(tmp_path)
    (tmp_path / "mimic-iv" / "note" / "discharge.csv").unlink()
    with pytest.raises(CohortError, match="the table DISCHARGE is missing"):
        build_cxr(tmp_path)
    with pytest.raises(CohortError, match="folder not found"):
        build_cxr(tmp_path / "nowhere")


def test_nothing_left_and_unknown_people(tmp_path: Path) -> None:
    with pytest.raises(CohortError, match=r"with an earlier admission.*no admission ended before the study"):
        build(tmp_path / "a", STAYS, NOTES, [Study(1, 2, 10)])
    write_xrays(tmp_path / "b", STAYS, NOTES, [Study(1, 20, 10), Study(7, 20, 11)], people=[1])
    flow = {step.reason: step.n_dropped for step in build_cxr(tmp_path / "b").flow}
    assert flow["subject_id is not in MIMIC-IV's patients"] == 1


def test_other_arrangements(tmp_path: Path) -> None:
    """PhysioNet's folders with versions, beside another hospital with tables of the same names; zipped or Parquet."""
    studies = [Study(1, 20, 10), Study(1, 60, 11)]
    expected = priors(build(tmp_path / "plain", STAYS, NOTES, studies))
    for suffix in (".csv.gz", ".parquet"):
        home = tmp_path / suffix
        write_xrays(home / "made", STAYS, NOTES, studies, suffix=suffix)
        (home / "x" / "mimic-iii").mkdir(parents=True)
        (home / "x" / "mimic-iii" / "ADMISSIONS.csv").write_text("ROW_ID,SUBJECT_ID\n1,1\n")
        for old, new in (("hosp", "mimiciv/3.0/hosp"), ("note", "mimic-iv-note/2.2/note")):
            (home / "x" / new).parent.mkdir(parents=True)
            (home / "made" / "mimic-iv" / old).rename(home / "x" / new)
        (home / "made" / "mimic-cxr-jpg").rename(home / "x" / "mimic-cxr-jpg")
        assert priors(build_cxr(home / "x")) == expected


def test_several_hospitals_are_not_one(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first was taken without a word."""
    studies = [Study(1, 20, 10)]
    for site in ("site-a", "site-b"):
        write_xrays(tmp_path / site, STAYS, NOTES, studies)
    ran = CommandLine(capsys, monkeypatch)("cohort", "cxr", "--source", tmp_path, "--out", tmp_path / "cxr.parquet")
    assert ran.code == 2
    assert "several folders have the table patients: site-a/mimic-iv, site-b/mimic-iv" in " ".join(ran.err.split())
    assert not (tmp_path / "cxr.parquet").exists()
    shutil.rmtree(tmp_path / "site-b" / "mimic-iv")
    with pytest.raises(CohortError, match=f"{STEM}metadata: site-a/mimic-cxr-jpg, site-b/mimic-cxr-jpg"):
        build_cxr(tmp_path)
    shutil.rmtree(tmp_path / "site-b")
    assert len(build_cxr(tmp_path).cohort) == 1  # one hospital, one folder up
    write_xrays(tmp_path / "site-a" / "old", STAYS, NOTES, [Study(1, 20, 10), Study(1, 21, 11)])
    assert len(build_cxr(tmp_path / "site-a").cohort) == 1  # the nearest, not an older copy in a folder below


def test_folders_that_may_not_be_looked_into_are_passed_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `lost+found` beside the data on a disk of its own; root, who may run the tests, may look anywhere."""
    write_xrays(tmp_path, STAYS, NOTES, [Study(1, 20, 10)])
    (tmp_path / "lost+found").mkdir()
    look = Path.iterdir

    def refuse(folder: Path) -> Any:
        if folder.name == "lost+found":
            raise PermissionError(13, "Permission denied", str(folder))
        return look(folder)

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert len(build_cxr(tmp_path).cohort) == 1
