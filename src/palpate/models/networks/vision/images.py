"""Image files as squares of grey pixels, the same for training and for audits.

As in the work that the context paper's vision models follow (Appendix A; Seyyed-Kalantari et al., 2020): the shorter
side is scaled to the wanted size, and the middle is cut out. A colour picture becomes grey, what is transparent becomes
black, and a picture is turned as its camera says. A large JPG is decoded at a fraction of its size, but at twice the
wanted one or more, which saves about a quarter of the time (benchmarks/cxr_training.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from palpate.errors import CohortError

Pixels = NDArray[np.uint8]
_DEEP = ("I;16", "I;16L", "I;16B", "I;16N", "I")
_BLOCK = 64


class Looks(NamedTuple):
    """How pictures are read."""

    image_size: int
    bits: int
    """How many bits of a 16-bit picture are used."""


def read_pixels(file: str, looks: Looks) -> Pixels:
    """One picture, [row, column]; raises what pillow raises."""
    size = looks.image_size
    with Image.open(file) as image:
        image.draft("L", (2 * size, 2 * size))
        ImageOps.exif_transpose(image, in_place=True)
        grey = _grey(image, looks.bits)
        side = min(grey.size)
        left, top = (grey.width - side) / 2, (grey.height - side) / 2
        box = (left, top, left + side, top + side)
        square = grey.resize((size, size), Image.Resampling.BILINEAR, box=box)
    pixels: Pixels = np.clip(np.rint(np.asarray(square)), 0, 255).astype(np.uint8)
    return pixels


def _grey(image: Image.Image, bits: int) -> Image.Image:
    """The picture with one number a pixel, from 0 to 255."""
    if image.mode in _DEEP:
        deep = np.asarray(image).astype(np.float32)
        return Image.fromarray(np.clip(deep * np.float32(255 / (2**bits - 1)), 0, 255))
    if image.mode == "F":
        raise ValueError("its pixels are fractions, whose range is not known")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", layer.size, (0, 0, 0, 255)), layer)
    return image if image.mode == "L" else image.convert("L")


def read_all(files: Sequence[str], case_ids: Sequence[str], looks: Looks) -> Iterator[Pixels]:
    """Pictures in order, some at a time in threads: decoding leaves Python's lock alone."""

    def read(row: int) -> Pixels:
        try:
            return read_pixels(files[row], looks)
        except FileNotFoundError:
            raise missing_image(case_ids[row], files[row]) from None
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise CohortError(
                f"the image of case '{case_ids[row]}' can't be read ({_reason(error)})",
                file=files[row],
                hint="give a whole PNG or JPG, or leave the case out",
            ) from None

    with ThreadPoolExecutor() as pool:
        for first in range(0, len(files), _BLOCK):
            yield from pool.map(read, range(first, min(first + _BLOCK, len(files))))


def missing_image(case: str, file: str, hint: str = "relative paths are taken from the cohort's file") -> CohortError:
    """One sentence for an image that is not there."""
    return CohortError(f"there is no such image, which case '{case}' has", file=file, hint=hint)


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "it is no image"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).splitlines()[0] if str(error) else type(error).__name__
