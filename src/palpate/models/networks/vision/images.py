"""Image files as squares of grey pixels, the same for training and for audits.

As in the work that the context paper's vision models follow (Appendix A; Seyyed-Kalantari et al., 2020): the shorter
side is scaled to the wanted size, and the middle is cut out. Colour becomes grey, transparent becomes black, and the
orientation stored by the camera is applied. A large JPG is decoded at a fraction of its size, but at twice the wanted
size or more, which saves about a quarter of the time (benchmarks/cxr_training.py). DICOM films are read by `dicom`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.errors import CohortError
from palpate.models.networks.vision.dicom import is_dicom, read_film

if TYPE_CHECKING:
    from PIL import Image

Pixels = NDArray[np.uint8]
_DEEP = ("I;16", "I;16L", "I;16B", "I;16N", "I")
_BLOCK = 64


class ImageFormat(NamedTuple):
    """How images are read."""

    image_size: int
    bits: int
    """How many bits of a 16-bit image are used."""


def read_pixels(file: str, form: ImageFormat) -> Pixels:
    """One image, [row, column]; raises what pillow raises."""
    from PIL import Image, ImageOps

    size = form.image_size
    if is_dicom(file):
        grey = read_film(file)
    else:
        with Image.open(file) as image:
            image.draft("L", (2 * size, 2 * size))
            ImageOps.exif_transpose(image, in_place=True)
            grey = _grey(image, form.bits)
    side = min(grey.size)
    left, top = (grey.width - side) / 2, (grey.height - side) / 2
    box = (left, top, left + side, top + side)
    square = grey.resize((size, size), Image.Resampling.BILINEAR, box=box)
    pixels: Pixels = np.clip(np.rint(np.asarray(square)), 0, 255).astype(np.uint8)
    return pixels


def _grey(image: Image.Image, bits: int) -> Image.Image:
    """The image with one number per pixel, from 0 to 255."""
    from PIL import Image

    if image.mode in _DEEP:
        deep = np.asarray(image).astype(np.float32)
        return Image.fromarray(np.clip(deep * np.float32(255 / (2**bits - 1)), 0, 255))
    if image.mode == "F":
        raise ValueError("its pixels are fractions of unknown range")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", layer.size, (0, 0, 0, 255)), layer)
    return image if image.mode == "L" else image.convert("L")


def read_all(files: Sequence[str], case_ids: Sequence[str], form: ImageFormat) -> Iterator[Pixels]:
    """Images in order, several at a time in threads: decoding releases Python's lock."""
    from PIL import Image

    def read(row: int) -> Pixels:
        try:
            return read_pixels(files[row], form)
        except FileNotFoundError:
            raise missing_image(case_ids[row], files[row]) from None
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise CohortError(
                f"the image of case '{case_ids[row]}' can't be read ({_reason(error)})",
                file=files[row],
                hint="give a complete PNG, JPG or DICOM film, or leave the case out",
            ) from None

    with ThreadPoolExecutor() as pool:
        for first in range(0, len(files), _BLOCK):
            yield from pool.map(read, range(first, min(first + _BLOCK, len(files))))


def missing_image(case: str, file: str, hint: str = "paths are relative to the cohort's file") -> CohortError:
    """The error for an image file that does not exist."""
    return CohortError(f"the image of case '{case}' was not found", file=file, hint=hint)


def _reason(error: Exception) -> str:
    from PIL import UnidentifiedImageError

    if isinstance(error, UnidentifiedImageError):
        return "not an image"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).splitlines()[0] if str(error) else type(error).__name__
