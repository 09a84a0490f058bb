"""Cohorts from folders of DICOM films: counted against plain pydicom, and on films that nobody here made."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from palpate.cases.columns import films
from palpate.data.cohorts import BuiltCohort
from palpate.data.cohorts.dicom import DicomOptions, build_dicom
from palpate.data.hospitals.films import read_header
from palpate.errors import CohortError
from palpate.models.networks.vision.dicom import read_film
from tests.data.dicom_files import write_film
from tests.data.published import DICOM, needs_dicom

pydicom = pytest.importorskip("pydicom")
STORED = np.arange(64, dtype=np.uint16).reshape(8, 8)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Three studies of two patients, the first with two views; and files that are no films."""
    folder = tmp_path / "archive"
    (folder / "p1").mkdir(parents=True)

    def film(name: str, patient: str, study: str, view: str, **tags: Any) -> Path:
        more = {
            "StudyDate": "20200125",
            "StudyTime": "104702.8",
            "Manufacturer": "FUJI",
            "AccessionNumber": f"A{study}",
        }
        more |= {"PatientID": patient, "StudyInstanceUID": f"1.2.{study}", "ViewPosition": view} | tags
        return write_film(folder / name, STORED, **more)

    film("p1/IM1", "p1", "1", "PA", PatientAge="081Y", StudyDescription="CHEST PA AND LAT")
    film("p1/IM2", "p1", "1", "LL", PatientAge="081Y")
    film("c.dcm", "p2", "2", "AP", PatientAge="81", StudyDescription="XR CHEST PORTABLE", PatientSex="F")
    film("d.dcm", "p2", "3", "AP", PatientBirthDate="20191026", StudyDescription="Port. chest")
    film("e.dcm", "p2", "4", "AP", NumberOfFrames=2)
    film("f.dcm", "p2", "4", "AP", BurnedInAnnotation="YES")
    film("g.dcm", "p2", "4", "AP", pixels=False)
    film("h.dcm", "", "4", "AP")
    film("i.dcm", "p3", "5", "AP", Modality="MR")
    film("j.dcm", "p3", "5", "AP", SamplesPerPixel=3, PhotometricInterpretation="RGB", PlanarConfiguration=0)
    film("k.dcm", "p3", "5", "AP", PhotometricInterpretation="PALETTE COLOR")
    film("l.dcm", "p3", "5", "AP", Rows=9)
    (folder / "copy.dcm").write_bytes((folder / "c.dcm").read_bytes())
    (folder / "notes.txt").write_text("not a film")
    (folder / "DICOMDIR").write_bytes(b"")
    return folder


def labels(tmp_path: Path, text: str) -> Path:
    (tmp_path / "labels.csv").write_text(text, encoding="utf-8")
    return tmp_path / "labels.csv"


def build(archive: Path, table: Path, **options: Any) -> BuiltCohort:
    return build_dicom(archive, options=DicomOptions(labels=table, **options))


TABLE = "StudyInstanceUID,Pneumonia,Edema,remark\n1.2.1,1.0,,x\n1.2.2,-1.0,0.0,y\n1.2.3,0,1,z\n"


def test_a_study_is_one_case_with_all_of_its_films(archive: Path, tmp_path: Path) -> None:
    built = build(archive, labels(tmp_path, TABLE))
    cases = built.cohort.cases.sort("case_id")
    assert cases["case_id"].to_list() == ["1.2.1", "1.2.2", "1.2.3"]
    assert [len(films(image)) for image in cases["image"]] == [2, 1, 1]
    assert cases["n_films"].to_list() == [2, 1, 1]
    assert cases["view"].to_list() == ["LL+PA", "AP", "AP"]
    assert cases["portable"].to_list() == ["no", "yes", "yes"]
    assert cases["age"].to_list() == [81.0, 81.0, 0.0]
    assert cases["scanner"].to_list() == ["FUJI"] * 3
    assert str(cases["time"][0]) == "2020-01-25 10:47:02"
    assert built.cohort.labels == ("Pneumonia", "Edema")
    dropped = {step.name: step.n_dropped for step in built.flow if step.n_dropped}
    assert dropped == {
        "DICOM files": 1,
        "films with pixels": 1,
        "films with all of their pixels": 1,
        "films in grey": 2,
        "films of one frame": 1,
        "films without burned-in annotations": 1,
        "films with a patient": 1,
        "each film once": 1,
        "modality: CR, DX, DR, XR, RG, MG, PX, IO": 1,
    }
    assert [step.n_patients for step in built.flow[:2]] == [3, 3], "an empty PatientID is nobody"


def test_other_kinds_of_pictures_by_choice(archive: Path, tmp_path: Path) -> None:
    table = labels(tmp_path, TABLE + "1.2.5,1,,w\n")
    assert "1.2.5" in build(archive, table, modalities="dx,mr").cohort.cases["case_id"]
    assert "1.2.5" in build(archive, table, modalities="all").cohort.cases["case_id"]
    assert "1.2.5" not in build(archive, table).cohort.cases["case_id"]


@pytest.mark.parametrize("packed", [False, True])
def test_a_film_that_is_cut_short(packed: bool, archive: Path, tmp_path: Path) -> None:
    syntax = pydicom.uid.RLELossless if packed else None
    for cut in (0, 20):
        write_film(archive / "z.dcm", STORED, compress=syntax, cut=cut, StudyInstanceUID="1.2.9")
        built = build(archive, labels(tmp_path, TABLE + "1.2.9,1,,w\n"))
        dropped = {step.name: step.n_dropped for step in built.flow}
        assert dropped["films with all of their pixels"] == 1 + bool(cut)
        assert ("1.2.9" in built.cohort.cases["case_id"]) == (not cut)


def test_each_film_by_itself_and_frontal_views_only(archive: Path, tmp_path: Path) -> None:
    table = labels(tmp_path, TABLE)
    assert len(build(archive, table, per="film").cohort) == 4
    frontal = build(archive, table, per="film", views="frontal").cohort
    assert frontal.cases["view"].unique().to_list() != ["LL"]
    assert len(frontal) == 3


@pytest.mark.parametrize(("policy", "n", "positive"), [("zeros", 3, 1), ("ones", 3, 2), ("ignore", 2, 1)])
def test_uncertain_labels_by_policy(archive: Path, tmp_path: Path, policy: Any, n: int, positive: int) -> None:
    cohort = build(archive, labels(tmp_path, TABLE), uncertain=policy).cohort
    assert len(cohort) == n
    assert int(cohort.y[:, [0]].sum()) == positive


@pytest.mark.parametrize(
    "text",
    [
        "accession,ill\nA1,1\nA2,0\nA3,0\n",
        "file,ill\np1/IM1,1\np1/IM2,1\nc.dcm,0\nd.dcm,0\n",
        "name;ill\nIM1;1\nIM2;1\nc;0\nd;0\n",
        "name,ill\nIM1,1\nIM2,1\nc.dcm,0\nd,0\n",
        "name,ill\nim1.DCM,1\nim2.DCM,1\nC.DCM,0\nD.DCM,0\n",
        "MRN,ill\np1,1\np2,0\n",
    ],
)
def test_the_key_is_found_by_its_values(archive: Path, tmp_path: Path, text: str) -> None:
    cohort = build(archive, labels(tmp_path, text)).cohort
    assert dict(cohort.cases.select("case_id", pl.Series(cohort.y_true(np.arange(3))[:, 0])).iter_rows()) == {
        "1.2.1": 1,
        "1.2.2": 0,
        "1.2.3": 0,
    }


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("study,ill\n9.9,1\n", {}, "no cell of the table names a film"),
        (
            "StudyInstanceUID,ill\n1.2.1,maybe\n",
            {"columns": "ill"},
            "row 1, column 'ill': the cell is 'maybe', not a l",
        ),
        ("StudyInstanceUID,why\n1.2.1,maybe\n", {}, "no column of labels"),
        (
            "StudyInstanceUID,ill\n1.2.1,1\n1.2.1,0\n",
            {},
            "row 1, column 'StudyInstanceUID': this row names a case again",
        ),
        ("StudyInstanceUID,ill\n1.2.1,1\n", {"key": "study"}, "column 'study': column not found"),
        ("StudyInstanceUID,ill\n", {}, "the table has no rows"),
    ],
)
def test_what_is_wrong_with_the_table(
    archive: Path, tmp_path: Path, text: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(CohortError, match=message):
        build(archive, labels(tmp_path, text), **options)


def test_folders_without_films(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    table = labels(tmp_path, TABLE)
    with pytest.raises(CohortError, match="no files"):
        build(tmp_path / "empty", table)
    with pytest.raises(CohortError, match="not a folder"):
        build(tmp_path / "absent", table)
    (tmp_path / "empty" / "a.txt").write_text("x")
    with pytest.raises(CohortError, match=r"no cell of the table|no cases are left"):
        build(tmp_path / "empty", table)


@needs_dicom
def test_published_films_as_plain_pydicom_counts_them(tmp_path: Path) -> None:
    headers = {path.name: pydicom.dcmread(path, stop_before_pixels=True) for path in DICOM.glob("*.dcm")}
    rows = "".join(f"{header.StudyInstanceUID},1\n" for header in headers.values())
    cohort = build(DICOM, labels(tmp_path, f"uid,ill\n{rows}")).cohort
    films_of = {header.PatientID for header in headers.values() if header.Modality != "MR"}
    assert set(cohort.cases["patient_id"]) == films_of
    ages = dict(cohort.cases.select("patient_id", "age").iter_rows())
    assert ages["Covid0000"] == 81
    assert ages["9RG1"] == 64, "from the date of birth"
    assert cohort.cases.filter(pl.col("patient_id") == "9RG1")["view"].to_list() == ["PA"]


def test_the_synthetic_hospital_gives_the_same_cases_and_pictures_as_films(tmp_path: Path) -> None:
    from palpate.models.networks.vision.images import ImageFormat, read_pixels
    from palpate.synthetic import write_hospital

    hospital = tmp_path / "hospital"
    write_hospital(hospital, n_patients=25, seed=1, also=["dicom"], workers=1)
    table = hospital / "mimic-cxr-jpg" / "mimic-cxr-2.0.0-chexpert.csv.gz"
    cohort = build(hospital / "dicom", table, per="film").cohort
    written = pl.read_csv(hospital / "mimic-cxr-jpg" / "mimic-cxr-2.0.0-metadata.csv.gz")
    assert len(cohort) == written.height
    assert set(cohort.cases["patient_id"]) == set(written["subject_id"].cast(pl.String))
    truth = pl.read_csv(table).with_columns(case=pl.col("study_id").cast(pl.String))
    study = [Path(image).parent.name.removeprefix("s") for image in cohort.images]
    for label in ("Edema", "Pneumonia"):
        known = dict(truth.select("case", pl.col(label) == 1).fill_null(False).iter_rows())
        found = cohort.y_true(np.arange(len(cohort)), [label])[:, 0].astype(bool)
        assert found.tolist() == [known[name] for name in study]
    for image in cohort.images[:8]:
        (jpg,) = (hospital / "mimic-cxr-jpg").rglob(f"{Path(image).stem}.jpg")
        film, picture = (read_pixels(str(file), ImageFormat(64, 16)).astype(float) for file in (image, jpg))
        assert np.abs(film - picture).mean() < 4, "but for the loss of JPG"


@pytest.mark.parametrize(
    ("said", "device", "expected"),
    [
        ("CHEST PORTABLE", "", "yes"),
        ("XR CHEST 1 VIEW PORT", "", "yes"),
        ("PORT CHEST AP", "", "yes"),
        ("CHEST AP (PORT)", "", "yes"),
        ("CHEST, PORT, 1V", "", "yes"),
        ("Chest bedside", "", "yes"),
        ("CHEST 2 VIEWS", "MobileDaRt Evolution", "yes"),
        ("CHEST 2 VIEWS", "MOBILETT XP", "yes"),
        ("CHEST PORT PLACEMENT", "", "no"),
        ("PORT PLACEMENT", "", "no"),
        ("CHEST PORT-A-CATH CHECK", "", "no"),
        ("CHEST PORT A CATH", "", "no"),
        ("CHEST FOR PORT", "", "no"),
        ("IR PORT REMOVAL CHEST", "", "no"),
        ("PORT FILM THORAX", "", "no"),
        ("NON-PORTABLE CHEST", "", "no"),
        ("CHEST NOT PORTABLE", "", "no"),
        ("CHEST MEDIPORT", "", "no"),
        ("FLEXION MOBILITY SPINE", "", "no"),
    ],
)
def test_port_is_portable_only_where_it_is_short_for_it(said: str, device: str, expected: str, tmp_path: Path) -> None:
    film = write_film(tmp_path / "a.dcm", STORED, StudyDescription=said, ManufacturerModelName=device)
    assert read_header(film).portable == expected


@pytest.mark.parametrize(
    ("tag", "name", "expected"),
    [
        ("ManufacturerModelName", "MobileDaRt", "yes"),
        ("SeriesDescription", "MobileDaRt Evolution", "yes"),
        ("ManufacturerModelName", "SHIMADZU-MOBILEDART", "yes"),
        ("ManufacturerModelName", "Optima XR220amx", "yes"),
        ("ManufacturerModelName", "DRX-Revolution", "yes"),
        ("StationName", "PORTABLE2", "yes"),
        ("StationName", "ICU_PORT1", "yes"),
        ("StationName", "CR-BEDSIDE", "yes"),
        ("StationName", "NONPORTABLE", None),
        ("StationName", "SUPPORT1", None),
        ("StationName", "ROOM4", None),
        ("ManufacturerModelName", "AMXY 3", None),
        ("ManufacturerModelName", "IMMOBILIZER", None),
    ],
)
def test_a_device_that_is_portable_by_its_name(tag: str, name: str, expected: str | None, tmp_path: Path) -> None:
    film = write_film(tmp_path / "a.dcm", STORED, **{tag: name})
    assert read_header(film).portable == expected


def test_one_study_of_two_patients(archive: Path, tmp_path: Path) -> None:
    write_film(archive / "z.dcm", STORED, PatientID="SMITH^JOHN", StudyInstanceUID="1.2.2", SOPInstanceUID="1.2.9.9")
    table = labels(tmp_path, TABLE)
    with pytest.raises(CohortError) as caught:
        build(archive, table)
    said = "z.dcm: the film has the study of c.dcm, but another PatientID (1 such studies); correct PatientID or"
    assert said in str(caught.value)
    assert "SMITH" not in str(caught.value)
    assert len(build(archive, table, per="film").cohort) == 5


def test_a_leap_second_of_a_study(tmp_path: Path) -> None:
    film = write_film(tmp_path / "a.dcm", STORED, StudyDate="20161231", StudyTime="235960.5")
    assert str(read_header(film).time) == "2016-12-31 23:59:59"


@pytest.mark.parametrize(
    ("said", "born", "years"), [("999Y", "", None), ("414", "19400125", 80.0), ("120Y", "", 120.0)]
)
def test_an_age_that_nobody_reaches_is_not_known(said: str, born: str, years: float | None, tmp_path: Path) -> None:
    """Archives write 999 where the age is missing, and NIH's films have ages such as 414."""
    film = write_film(tmp_path / "a.dcm", STORED, StudyDate="20200125", PatientAge=said, PatientBirthDate=born)
    assert read_header(film).age == years


def test_a_bar_in_the_name_of_a_file(tmp_path: Path) -> None:
    """It parts the films of a study, so that two files would be looked for that are not there."""
    write_film(tmp_path / "a.dcm", STORED)
    write_film(tmp_path / "pa|lateral.dcm", STORED)
    with pytest.raises(CohortError, match=r"pa\|lateral\.dcm: the name has a bar \(\|\), which separates the films"):
        build_dicom(tmp_path)


def test_a_compression_that_nobody_decodes_is_counted(tmp_path: Path) -> None:
    """A film that stops every audit later is left out here, with the reason."""
    write_film(tmp_path / "a.dcm", STORED)
    for name, syntax in (("b.dcm", "1.2.840.10008.1.2.4.201"), ("c.dcm", "1.2.840.10008.1.2.4.51")):
        film = pydicom.dcmread(write_film(tmp_path / name, STORED, bits=12))
        film.PixelData = pydicom.encaps.encapsulate([bytes(100)])
        film.file_meta.TransferSyntaxUID = pydicom.uid.UID(syntax)
        film.save_as(tmp_path / name)
    built = build_dicom(tmp_path)
    assert len(built.cohort) == 1
    step = next(step for step in built.flow if step.name == "films whose compression can be decoded")
    assert (step.n_dropped, step.reason) == (2, "no installed decoder reads it")


def test_an_encoding_of_a_maker_is_not_called_damaged(tmp_path: Path) -> None:
    """General Electric's own has a number that pydicom takes for no transfer syntax."""
    write_film(tmp_path / "a.dcm", STORED)
    film = pydicom.dcmread(write_film(tmp_path / "b.dcm", STORED))
    content, ours = (tmp_path / "b.dcm").read_bytes(), pydicom.uid.UID("1.2.840.113619.5.2")
    film.file_meta.TransferSyntaxUID = ours
    film.save_as(tmp_path / "head.dcm", implicit_vr=False, little_endian=True)
    head = (tmp_path / "head.dcm").read_bytes()
    (tmp_path / "head.dcm").unlink()
    (tmp_path / "b.dcm").write_bytes(head[: _body(head)] + content[_body(content) :])
    assert pydicom.dcmread(tmp_path / "b.dcm").file_meta.TransferSyntaxUID == ours
    dropped = {step.name: step.n_dropped for step in build_dicom(tmp_path).flow if step.n_dropped}
    assert dropped == {"films whose compression can be decoded": 1}


def _body(content: bytes) -> int:
    """Where the header of a file ends and the film begins."""
    return 144 + int.from_bytes(content[140:144], "little")


def test_pydicoms_own_words_are_not_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A header that says one encoding and has another is read, without a warning of a library."""
    film = pydicom.dcmread(write_film(tmp_path / "a.dcm", STORED))
    explicit = (tmp_path / "a.dcm").read_bytes()
    film.file_meta.TransferSyntaxUID = pydicom.uid.ImplicitVRLittleEndian
    film.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    implicit = (tmp_path / "a.dcm").read_bytes()
    (tmp_path / "a.dcm").write_bytes(explicit[: _body(explicit)] + implicit[_body(implicit) :])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(build_dicom(tmp_path).cohort) == 1
        assert read_film(str(tmp_path / "a.dcm")).size == (8, 8)
    assert "VR" not in "".join(capfd.readouterr())
