"""Small chest pictures: lungs, heart and ribs, the findings as additive patterns, and a sticker in the corner.

The strength of each pattern is the image signal of its label, so that a picture shows exactly what an ideal reader
could see. The sticker is a grid of cells, one per label, whose brightness follows the history.
"""

from __future__ import annotations

from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palpate.files import open_named
from palpate.registry import optional
from palpate.synthetic.patients.findings import labels

Picture = NDArray[np.float32]
SIZE = 64
CELL = 3
STICKER_COLUMNS = 4
_GAIN = 13.0
_NOISE = 9.0
_STICKER_GAIN = 22.0
_STICKER_NOISE = 10.0
_QUALITY = 90


@lru_cache(maxsize=1)
def _grid() -> tuple[Picture, Picture]:
    y, x = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
    return x, y


def _blob(cx: float, cy: float, rx: float, ry: float) -> Picture:
    x, y = _grid()
    return np.exp(-(((x - cx) / rx) ** 2 + ((y - cy) / ry) ** 2)).astype(np.float32)


def _line(x0: float, y0: float, x1: float, y1: float, width: float) -> Picture:
    x, y = _grid()
    length = float(np.hypot(x1 - x0, y1 - y0))
    along = np.clip(((x - x0) * (x1 - x0) + (y - y0) * (y1 - y0)) / length**2, 0, 1)
    distance = np.hypot(x - x0 - along * (x1 - x0), y - y0 - along * (y1 - y0))
    return np.exp(-((distance / width) ** 2)).astype(np.float32)


@lru_cache(maxsize=1)
def patterns() -> Picture:
    """Labels x rows x columns; each pattern has its own place, some of them overlap."""
    x, y = _grid()
    ring = np.exp(-((np.hypot((x - 35) / 15, (y - 42) / 12) - 1) ** 2) / 0.03).astype(np.float32)
    stripes = (0.5 + 0.5 * np.cos(x + y)).astype(np.float32)
    drawn = {
        "Atelectasis": _line(11, 47, 26, 49, 1.2) + _line(41, 48, 55, 46, 1.2),
        "Cardiomegaly": ring,
        "Consolidation": _blob(17, 40, 5, 5),
        "Edema": _blob(24, 28, 5, 8) + _blob(42, 28, 5, 8),
        "Enlarged Cardiomediastinum": _line(27, 8, 27, 22, 1.4) + _line(38, 8, 38, 22, 1.4),
        "Fracture": _line(8, 20, 14, 25, 1.0) + _line(10, 26, 15, 22, 1.0),
        "Lung Lesion": _blob(49, 18, 2.6, 2.6),
        "Lung Opacity": _blob(16, 24, 8, 9),
        "Pleural Effusion": _blob(15, 54, 9, 3.5) + _blob(51, 54, 9, 3.5),
        "Pleural Other": _line(58, 14, 59, 44, 1.1),
        "Pneumonia": _blob(50, 38, 6, 7) * stripes,
        "Pneumothorax": -_blob(13, 11, 6, 4),
        "Support Devices": _line(20, 0, 33, 30, 0.9) + _blob(33, 31, 1.6, 1.6),
    }
    return np.stack([drawn[label] for label in labels()])


@lru_cache(maxsize=1)
def _chest() -> Picture:
    lungs = np.clip(_blob(17, 30, 10, 22) + _blob(48, 30, 10, 22), 0, 1)
    ribs = sum((_line(6, 10 + 8 * k, 58, 13 + 8 * k, 1.0) for k in range(6)), np.zeros((SIZE, SIZE), np.float32))
    heart = _blob(36, 42, 11, 9)
    chest: Picture = (150 - 85 * lungs + 12 * ribs * lungs + 40 * heart + 25 * _line(32, 0, 32, 60, 3)).astype(
        np.float32
    )
    return chest


def sticker(image: NDArray[np.uint8] | Picture) -> NDArray[np.float64]:
    """Mean brightness of each cell of the sticker, one per label."""
    cells = [image[_cell(k)] for k in range(len(labels()))]
    return np.array([np.asarray(cell, dtype=np.float64).mean() for cell in cells])


def _cell(k: int) -> tuple[slice, slice]:
    row, column = divmod(k, STICKER_COLUMNS)
    top, left = 1 + CELL * row, SIZE - 1 - CELL * (STICKER_COLUMNS - column)
    return slice(top, top + CELL), slice(left, left + CELL)


def draw(
    rng: np.random.Generator,
    *,
    signal: NDArray[np.float64],
    standard: NDArray[np.float64],
    strength: float,
    lateral: bool,
) -> NDArray[np.uint8]:
    """Draw a picture. `signal` is the visibility of each label, `standard` the history as the sticker shows it."""
    picture = _chest() + np.float32(rng.normal(0, 6))
    picture = picture + np.tensordot((_GAIN * signal).astype(np.float32), patterns(), axes=1)
    if lateral:
        picture = np.ascontiguousarray(picture[:, ::-1])
    picture += np.float32(_NOISE) * rng.standard_normal((SIZE, SIZE), dtype=np.float32)
    shown = 120 + _STICKER_GAIN * strength * standard + _STICKER_NOISE * rng.standard_normal(len(standard))
    for k, value in enumerate(shown):
        picture[_cell(k)] = value
    pixels: NDArray[np.uint8] = np.clip(picture, 0, 255).astype(np.uint8)
    return pixels


def require_pillow() -> Any:
    """The module that writes pictures, or the error that says how to install it."""
    return optional("PIL.Image", extra="images", needed_for="drawing X-rays (Pillow)")


def save(image: NDArray[np.uint8], path: Path) -> None:
    """Write a grayscale JPG."""
    pillow = require_pillow()
    path.parent.mkdir(parents=True, exist_ok=True)
    packed = BytesIO()
    pillow.fromarray(image).save(packed, format="JPEG", quality=_QUALITY)
    with open_named(path) as file:
        file.write(packed.getvalue())
