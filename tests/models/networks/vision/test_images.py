"""Image files as squares of grey pixels: formats, middles, and sentences for what is no picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from palpate.errors import CohortError
from palpate.models.networks.vision.images import ImageFormat, read_all, read_pixels

LOOKS = ImageFormat(image_size=32, bits=16)


def saved(pixels: Any, file: Path, **options: Any) -> str:
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    image.save(file, **options)
    return str(file)


def ramp(height: int = 32, width: int = 32) -> Any:
    return (np.add.outer(np.arange(height) * 3, np.arange(width) * 4) % 256).astype(np.uint8)


def test_a_grey_square_of_the_right_size_is_left_alone(tmp_path: Path) -> None:
    assert np.array_equal(read_pixels(saved(ramp(), tmp_path / "a.png"), LOOKS), ramp())


def test_grey_is_the_same_in_every_format(tmp_path: Path) -> None:
    grey = Image.fromarray(ramp())
    for mode in ("RGB", "RGBA", "LA", "P"):
        found = read_pixels(saved(grey.convert(mode), tmp_path / f"{mode}.png"), LOOKS)
        np.testing.assert_allclose(found.astype(int), ramp(), atol=1, err_msg=mode)
    found = read_pixels(saved(grey.convert("RGB"), tmp_path / "a.jpg", quality=100), LOOKS)
    assert np.abs(found.astype(int) - ramp()).mean() < 2
    black = read_pixels(saved(grey.convert("1"), tmp_path / "one.png"), LOOKS)
    assert set(np.unique(black)) == {0, 255}


@given(value=st.integers(0, 65535), bits=st.integers(8, 16))
@settings(max_examples=40, deadline=None)
def test_16_bits_are_scaled_by_the_range_that_was_said(
    tmp_path_factory: pytest.TempPathFactory, value: int, bits: int
) -> None:
    file = saved(np.full((32, 32), value, dtype=np.uint16), tmp_path_factory.mktemp("deep") / "a.png")
    expected = min(255.0, 255 * value / (2**bits - 1))
    assert np.all(np.abs(read_pixels(file, ImageFormat(32, bits)) - expected) <= 0.51)


def test_16_bits_show_what_8_bits_show(tmp_path: Path) -> None:
    big = ramp(100, 80)
    eight = read_pixels(saved(big, tmp_path / "8.png"), LOOKS)
    sixteen = read_pixels(saved(big.astype(np.uint16) * 257, tmp_path / "16.png"), LOOKS)
    np.testing.assert_allclose(eight.astype(int), sixteen, atol=1)


def test_what_is_transparent_is_black(tmp_path: Path) -> None:
    layers = np.dstack([np.full((32, 32, 3), 200), np.full((32, 32, 1), 255)]).astype(np.uint8)
    layers[:16, :, 3] = 0
    found = read_pixels(saved(layers, tmp_path / "a.png"), LOOKS)
    assert set(np.unique(found[:16])) == {0}
    assert set(np.unique(found[16:])) == {200}


@pytest.mark.parametrize(("height", "width"), [(32, 64), (64, 32), (96, 64), (31, 200)])
def test_the_middle_of_the_longer_side_is_kept(height: int, width: int, tmp_path: Path) -> None:
    """Only what lies in the middle square is bright, so all of the result is."""
    pixels = np.zeros((height, width), dtype=np.uint8)
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    pixels[top : top + side + 1, left : left + side + 1] = 255
    found = read_pixels(saved(pixels, tmp_path / "a.png"), LOOKS)
    assert found[1:-1, 1:-1].min() > 250


def test_scaling_down_averages(tmp_path: Path) -> None:
    checkers = (np.indices((320, 320)).sum(axis=0) % 2 * 255).astype(np.uint8)
    found = read_pixels(saved(checkers, tmp_path / "a.png"), LOOKS)
    assert np.abs(found.astype(int) - 128).max() <= 3


def test_a_large_jpg_decoded_small_looks_the_same(tmp_path: Path) -> None:
    rows, columns = np.mgrid[0:1024, 0:768]
    smooth = (127 + 100 * np.sin(rows / 90) * np.cos(columns / 70)).astype(np.uint8)
    jpg = read_pixels(saved(smooth, tmp_path / "a.jpg", quality=95), LOOKS)
    png = read_pixels(saved(smooth, tmp_path / "a.png"), LOOKS)
    np.testing.assert_allclose(jpg.astype(int), png, atol=4)


def test_a_picture_is_turned_as_its_camera_says(tmp_path: Path) -> None:
    note = Image.Exif()
    note[0x0112] = 3  # upside down
    file = saved(ramp(), tmp_path / "a.png", exif=note)
    assert np.array_equal(read_pixels(file, LOOKS), ramp()[::-1, ::-1])


def test_many_are_read_in_order(tmp_path: Path) -> None:
    files = [saved(np.full((32, 32), k, dtype=np.uint8), tmp_path / f"{k}.png") for k in range(150)]
    found = list(read_all(files, [str(k) for k in range(150)], LOOKS))
    assert [int(pixels[0, 0]) for pixels in found] == list(range(150))


def damaged(folder: Path, what: str) -> str:
    file = folder / "a.jpg"
    if what == "text":
        file.write_text("no picture")
    elif what == "empty":
        file.write_bytes(b"")
    elif what == "folder":
        file.mkdir()
    elif what == "cut":
        saved(ramp(200, 200), file)
        file.write_bytes(file.read_bytes()[:900])
    elif what == "fractions":
        file = folder / "a.tiff"
        saved(np.zeros((32, 32), dtype=np.float32), file)
    return str(file)


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("text", "not an image"),
        ("empty", "not an image"),
        ("cut", "truncated"),
        ("folder", "directory"),
        ("fractions", "fractions"),
        ("nothing", "the image of case 'c7' was not found"),
    ],
)
def test_what_is_no_picture_is_named_with_its_case(what: str, why: str, tmp_path: Path) -> None:
    file = damaged(tmp_path, what)
    with pytest.raises(CohortError) as caught:
        list(read_all([file], ["c7"], LOOKS))
    assert file in str(caught.value)
    assert "'c7'" in str(caught.value)
    assert why in str(caught.value)
