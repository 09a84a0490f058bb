"""DICOM films as pictures: against the standard's formulas by hand, and films that nobody here made."""

from __future__ import annotations

import warnings
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.data.hospitals.films import read_header
from palpate.models.networks.vision import combined
from palpate.models.networks.vision.dicom import is_dicom, read_film
from palpate.models.networks.vision.images import ImageFormat, read_all, read_pixels
from tests.data.dicom_files import write_film
from tests.data.published import DICOM, needs_dicom

pydicom = pytest.importorskip("pydicom")
STORED = np.arange(64, dtype=np.uint16).reshape(8, 8) * 60


def shown(path: Path) -> np.ndarray:
    return np.asarray(read_film(str(path)))


def by_hand(value: float, *, center: float, width: float) -> float:
    """PS3.3 C.11.2.1.2.1, with black at 0 and white at 255."""
    if value <= center - 0.5 - (width - 1) / 2:
        return 0.0
    if value > center - 0.5 + (width - 1) / 2:
        return 255.0
    return ((value - (center - 0.5)) / (width - 1) + 0.5) * 255


@pytest.mark.parametrize(("slope", "intercept"), [(1, 0), (0.684, 200), (2, -1024), (-1, 4095)])
@pytest.mark.parametrize("photometric", ["MONOCHROME1", "MONOCHROME2"])
def test_rescale_window_and_inversion_are_the_standards(
    tmp_path: Path, slope: float, intercept: float, photometric: str
) -> None:
    film = {"RescaleSlope": slope, "RescaleIntercept": intercept, "WindowCenter": 1500, "WindowWidth": 900}
    path = write_film(tmp_path / "a.dcm", STORED, bits=12, PhotometricInterpretation=photometric, **film)
    expected = [[by_hand(v * slope + intercept, center=1500, width=900) for v in row] for row in STORED.tolist()]
    if photometric == "MONOCHROME1":
        expected = 255 - np.asarray(expected)
    np.testing.assert_allclose(shown(path), expected, atol=1e-3)


def test_a_signed_film_with_a_window(tmp_path: Path) -> None:
    path = write_film(tmp_path / "a.dcm", STORED.astype(np.int16) - 1000, WindowCenter=0, WindowWidth=2000)
    expected = [[by_hand(v - 1000, center=0, width=2000) for v in row] for row in STORED.tolist()]
    np.testing.assert_allclose(shown(path), expected, atol=1e-3)


def test_without_a_window_deep_films_are_stretched_and_others_are_not(tmp_path: Path) -> None:
    deep = write_film(tmp_path / "a.dcm", STORED + 100, bits=16)
    np.testing.assert_allclose(shown(deep), STORED / STORED.max() * 255, atol=1e-3)
    eight = write_film(tmp_path / "b.dcm", (STORED // 60 + 7).astype(np.uint8))
    np.testing.assert_allclose(shown(eight), STORED // 60 + 7, atol=1e-3)
    flat = write_film(tmp_path / "c.dcm", np.full((8, 8), 500, np.uint16))
    assert np.ptp(shown(flat)) == 0


def test_padding_is_black_and_does_not_count(tmp_path: Path) -> None:
    padded = STORED.copy()
    padded[0] = 60_000
    path = write_film(
        tmp_path / "a.dcm", padded, bits=16, PixelPaddingValue=60_000, PhotometricInterpretation="MONOCHROME1"
    )
    assert (shown(path)[0] == 0).all()
    assert shown(path)[1:].max() == pytest.approx(255)


def test_a_table_of_the_file_itself_is_used(tmp_path: Path) -> None:
    from pydicom.dataset import Dataset
    from pydicom.sequence import Sequence

    table = Dataset()
    table.LUTDescriptor = [4096, 0, 8]
    table.add_new("LUTData", "US", [value % 256 for value in range(4096)])
    path = write_film(tmp_path / "a.dcm", STORED, bits=12, VOILUTSequence=Sequence([table]))
    np.testing.assert_allclose(shown(path), STORED % 256, atol=1e-3)


def test_colour_becomes_grey(tmp_path: Path) -> None:
    path = write_film(tmp_path / "a.dcm", np.full((8, 8, 3), [200, 100, 50], np.uint8))
    np.testing.assert_allclose(shown(path), 0.299 * 200 + 0.587 * 100 + 0.114 * 50, atol=1e-3)


def test_a_compressed_film_is_the_same_film(tmp_path: Path) -> None:
    from pydicom.uid import RLELossless

    plain = write_film(tmp_path / "a.dcm", STORED, bits=12, WindowCenter=1000, WindowWidth=1500)
    packed = write_film(tmp_path / "b.dcm", STORED, bits=12, compress=RLELossless, WindowCenter=1000, WindowWidth=1500)
    np.testing.assert_array_equal(shown(plain), shown(packed))


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"NumberOfFrames": 3}, "3 frames"),
        ({"BurnedInAnnotation": "YES"}, "burned into the picture"),
        ({"pixels": False}, "without pixels"),
        ({"cut": 200}, "cut short"),
    ],
)
def test_what_cannot_be_used_says_why_and_quotes_nobody(tmp_path: Path, how: dict[str, Any], reason: str) -> None:
    path = write_film(tmp_path / "a.dcm", STORED, PatientName="SECRET^PATIENT", **how)
    with pytest.raises(ValueError, match=reason) as caught:
        read_film(str(path))
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"not an image at all", b"\x00" * 4000, bytes(range(256)) * 20])
def test_a_file_that_only_claims_to_be_dicom(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.dcm").write_bytes(content)
    with pytest.raises(ValueError, match="DICOM"):
        read_film(str(tmp_path / "a.dcm"))


def test_a_film_is_known_by_its_mark(tmp_path: Path) -> None:
    film = write_film(tmp_path / "IM000001", STORED)
    (tmp_path / "short").write_bytes(b"DICM")
    assert is_dicom(str(film))
    assert not is_dicom(str(tmp_path / "short"))
    assert read_pixels(str(film), ImageFormat(32, 16)).shape == (32, 32)


def test_the_error_names_the_case_and_the_file(tmp_path: Path) -> None:
    from palpate.errors import CohortError

    film = write_film(tmp_path / "a.dcm", STORED, pixels=False)
    with pytest.raises(CohortError, match=r"a\.dcm: the image of case 'c7' can't be read \(a DICOM file without pix"):
        list(read_all([str(film)], ["c7"], ImageFormat(32, 16)))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.sampled_from(["mean", "max"]), st.integers(0, 99))
def test_films_of_a_case_are_combined(n_films: list[int], how: Any, seed: int) -> None:
    p = np.random.default_rng(seed).random((sum(n_films), 2))
    bounds = np.cumsum([0, *n_films])
    expected = [getattr(p[a:b], how)(axis=0) for a, b in pairwise(bounds)]
    np.testing.assert_allclose(combined(p, n_films, how), expected)


@needs_dicom
def test_published_films_have_dark_air_and_bright_bone() -> None:
    """The lungs of a chest film are darker than its spine, whatever the photometric interpretation."""
    for name in ("nih_cxr_sample.dcm", "RG1_J2KI_chest.dcm"):
        grey = read_pixels(str(DICOM / name), ImageFormat(256, 16)).astype(float)
        assert grey[60:140, 120:136].mean() > grey[60:140, 60:100].mean() + 30, name
    for path in sorted(DICOM.glob("*.dcm")):
        assert np.ptp(read_pixels(str(path), ImageFormat(64, 16))) > 20, path.name


def test_every_film_that_pydicom_brings_is_a_picture_or_a_sentence() -> None:
    """Its test files are of every kind: compressed in all ways, damaged, without pixels, structured reports."""
    root = Path(pydicom.__file__).parent / "data"
    files = [each for each in sorted(root.rglob("*")) if each.is_file() and each.suffix not in (".py", ".pyc", ".json")]
    small = [each for each in files if each.stat().st_size < 200_000]
    assert len(small) > 100
    outcomes = Counter(_outcome(each) for each in small)
    assert outcomes["picture"] > 40
    assert outcomes.keys() <= {"picture", "left out", "refused"}


def _outcome(file: Path) -> str:
    """What becomes of a file; whatever else is raised fails the test, as does a reason of several lines."""
    left_out = read_header(file).dropped
    refusal = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert min(read_film(str(file)).size) > 0
    except ValueError as error:
        refusal = str(error)
    assert "\n" not in refusal
    return "refused" if refusal else "left out" if left_out else "picture"
