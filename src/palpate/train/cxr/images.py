"""The training images of a cohort: which are usable, their pixels in a file, and how they are augmented.

An image is decoded once, not once per epoch: the pixels of all training and validation images are kept in two files
beside the unfinished training (64 kB per image at 256 pixels), which all seeds share and which are deleted at the end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.cases.cohort import SPLITS, Cohort
from palpate.cases.columns import films
from palpate.errors import CohortError
from palpate.files import replacing
from palpate.models.networks.vision.images import ImageFormat, missing_image, read_all
from palpate.train.notes import rows_of, training_rows
from palpate.train.options import Progress, TrainStep

_SHOWN = 100


class ImageCases(NamedTuple):
    """Cases of one split."""

    files: list[str]
    case_ids: list[str]
    y: NDArray[np.uint8]
    """[case, label]"""
    patients: NDArray[np.int64]


class ImageSplit(NamedTuple):
    """What a network is fitted on, and what its choices are made on."""

    train: ImageCases
    validation: ImageCases
    labels: tuple[str, ...]
    left_out: dict[str, int]
    """Per split: cases whose image file does not exist."""


def usable(cohort: Cohort, missing_images: str) -> tuple[Cohort, dict[str, int]]:
    """The cases that have an image, and how many of each split have none; or an error that names the first."""
    if not cohort.has_images:
        raise CohortError("the cohort has no images to train on", hint="name the `image` column")
    before = {name: len(rows_of(cohort, name)) for name in SPLITS}
    if missing_images == "drop":
        cohort = cohort.with_images()
    else:
        # Images of the test split are never read, so they need not exist.
        for row in np.concatenate([rows_of(cohort, name) for name in SPLITS[:2]]).tolist():
            absent = next((film for film in films(cohort.images[row]) if not Path(film).is_file()), None)
            if absent is not None:
                hint = "give the file, or leave such cases out with missing_images=drop"
                raise missing_image(cohort.cases["case_id"][row], absent, hint)
    return cohort, {name: n - len(rows_of(cohort, name)) for name, n in before.items()}


def split_images(cohort: Cohort, left_out: dict[str, int]) -> ImageSplit:
    """The images to train with, each film of a case by itself; the error says why a cohort can't be used."""
    train, validation = (_each_film(cohort, rows) for rows in training_rows(cohort))
    return ImageSplit(train, validation, cohort.labels, left_out)


def _each_film(cohort: Cohort, rows: NDArray[np.int64]) -> ImageCases:
    own = [films(cohort.images[row]) for row in rows]
    rows = np.repeat(rows, [len(files) for files in own])
    files = [film for files in own for film in files]
    return ImageCases(files, cohort.cases["case_id"][rows].to_list(), cohort.y_true(rows), cohort.patients[rows])


# --- pixels -------------------------------------------------------------------------------------------------


def stored_pixels(
    cases: ImageCases, form: ImageFormat, file: Path, progress: Progress, stage: str
) -> NDArray[np.uint8]:
    """The pixels, [case, row, column], from a file that is written on first use."""
    if not file.is_file():
        shape = (len(cases.files), form.image_size, form.image_size)
        with replacing(file) as draft:
            store = np.lib.format.open_memmap(draft, mode="w+", dtype=np.uint8, shape=shape)
            for row, pixels in enumerate(read_all(cases.files, cases.case_ids, form)):
                store[row] = pixels
                if row % _SHOWN == 0:
                    progress(TrainStep(stage, row, len(store)))
            store.flush()
            del store
    stored: NDArray[np.uint8] = np.load(file, mmap_mode="r")
    progress(TrainStep(stage, len(stored), len(stored)))
    return stored


class Augmentation(NamedTuple):
    """How the images of one epoch are augmented, one row per image."""

    flipped: NDArray[np.bool_]
    degrees: NDArray[np.float32]

    def of(self, grey: Any, rows: NDArray[np.int64]) -> Any:
        """Images [image, 1, row, column], mirrored and rotated; corners that come in from outside are black."""
        import torch

        flips = torch.from_numpy(self.flipped[rows]).to(grey.device)
        if bool(flips.any()):
            grey = torch.where(flips[:, None, None, None], grey.flip(-1), grey)
        if not self.degrees[rows].any():
            return grey
        turn = torch.from_numpy(np.deg2rad(self.degrees[rows])).to(grey.device)
        zero = torch.zeros_like(turn)
        across = torch.stack([turn.cos(), -turn.sin(), zero], dim=1)
        down = torch.stack([turn.sin(), turn.cos(), zero], dim=1)
        grid = torch.nn.functional.affine_grid(
            torch.stack([across, down], dim=1), list(grey.shape), align_corners=False
        )
        return torch.nn.functional.grid_sample(grey, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def augment(n: int, rng: np.random.Generator, *, flip: float, rotate: float) -> Augmentation:
    """Mirroring with probability `flip`, and rotation by up to `rotate` degrees to either side."""
    flipped = rng.random(n) < flip
    return Augmentation(flipped, rng.uniform(-rotate, rotate, n).astype(np.float32))


def shuffled_batches(n: int, size: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Batches of `size` images in random order; a single last image joins the batch before, for batch norms."""
    order = rng.permutation(n)
    batches = [order[first : first + size] for first in range(0, n, size)]
    if len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [np.concatenate(batches[-2:])]
    return batches


def parts_of(rows: NDArray[np.int64], at_once: int) -> list[NDArray[np.int64]]:
    """A batch in parts of about equal size, at most `at_once`, none with a single image."""
    n_parts = max(1, min(-(-len(rows) // at_once), len(rows) // 2))
    return np.array_split(rows, n_parts)
