"""Small pictures on disk with two planted findings, and the cohort of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from PIL import Image

from palpate.data.tables import TableSpec, read_cohort
from palpate.models import ModelSpec, load_model

LABELS = ("Opacity", "Device")
TINY: dict[str, Any] = {
    "image_size": 32,
    "epochs": 2,
    "batch_size": 16,
    "images_at_once": 8,
    "learning_rate": 1e-3,
    "n_replicates": 20,
    "threads": 1,
}


def picture(rng: np.random.Generator, opacity: bool, device: bool, size: int = 40) -> Any:
    pixels = rng.normal(100, 20, (size, size))
    if opacity:
        pixels[size // 2 :, :] += 60
    if device:
        pixels[:, size // 2 - 2 : size // 2 + 2] += 100
    return np.clip(pixels, 0, 255).astype(np.uint8)


def write_pictures(folder: Path, n: int = 60, seed: int = 0) -> Path:
    """The table `cases.parquet`, with paths relative to it, and its pictures."""
    rng = np.random.default_rng(seed)
    (folder / "pictures").mkdir(parents=True)
    rows = []
    for k in range(n):
        found = rng.random(2) < 0.5
        if k < 8:
            found = np.array([k % 2, k // 2 % 2], dtype=bool)  # both classes of both labels, in every split
        name = f"pictures/{k:03d}.png"
        Image.fromarray(picture(rng, *found)).save(folder / name)
        split = "test" if k % 5 == 4 else "validation" if k % 5 == 3 else "train"
        labels = {f"label:{label}": int(value) for label, value in zip(LABELS, found, strict=True)}
        rows.append({"case_id": f"c{k}", "patient_id": f"p{k}", "split": split, "image": name, **labels})
    file = folder / "cases.parquet"
    pl.DataFrame(rows).write_parquet(file)
    return file


def read(file: Path, **spec: Any) -> Any:
    return read_cohort(TableSpec(file=file, **spec))


def read_back(folder: Path, **options: Any) -> Any:
    """The model, on one thread: on a busy machine two threads of torch wait for each other most of the time."""
    return load_model(ModelSpec("m", f"palpate:{folder}", options={"threads": 1, **options}))
