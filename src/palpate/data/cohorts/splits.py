"""Training, validation and test splits by patient: stratified, independent of the order of rows, and saved to a file.

The vocabulary paper splits 70/15/15 (section 2.1), the behavioural-testing paper 70/10/20 (section 4.1: its test set
has 9,829 of 48,745 notes; the ratios are those of the task's authors, van Aken et al. 2021).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import AfterValidator, BeforeValidator

from palpate.cases.columns import SPLITS, ColumnCheck, check_one_split, ids, missing_column, splits
from palpate.data.tables.formats import format_of, unescaped
from palpate.errors import ConfigError

VOCABULARY_RATIOS = (0.70, 0.15, 0.15)
BEHAVIOUR_RATIOS = (0.70, 0.10, 0.20)
PATIENT_COLUMNS = ("patient_id", "subject_id")


def _are_ratios(values: Sequence[float]) -> bool:
    return len(values) == len(SPLITS) and all(math.isfinite(v) and v >= 0 for v in values) and sum(values) > 0


def _checked(values: tuple[float, float, float]) -> tuple[float, float, float]:
    if not _are_ratios(values):
        raise ValueError("give three ratios of at least 0: train, validation and test")
    return values


def _separated(value: object) -> object:
    """Three ratios from `0.7,0.15,0.15`, as on the command line."""
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


Ratios = Annotated[tuple[float, float, float], BeforeValidator(_separated), AfterValidator(_checked)]


def assign_splits(
    patients: Sequence[str] | NDArray[np.str_] | pl.Series,
    positive: Sequence[bool] | NDArray[np.bool_] | pl.Series,
    *,
    ratios: Sequence[float] = VOCABULARY_RATIOS,
    seed: int = 0,
) -> pl.Series:
    """The split of each row: `train`, `validation` or `test`.

    All rows of a patient are in one split. Patients with a positive row and patients without one are split separately,
    each in the given ratios (on any scale), exactly up to rounding. A patient's rank in the draw is a hash of the seed
    and the patient's id, so neither the order of the rows nor how often a patient occurs matters.
    """
    shares = _shares(ratios)
    rows = pl.DataFrame(
        {
            "patient": pl.Series(list(patients), dtype=pl.String),
            "positive": pl.Series(list(positive), dtype=pl.Boolean),
        }
    )
    people = rows.group_by("patient").agg(pl.col("positive").any())
    draw = pl.Series("draw", [_draw(seed, name) for name in people["patient"]], dtype=pl.Binary)
    people = people.with_columns(draw).sort("draw", "patient")
    place = people.select(rank=pl.int_range(pl.len()).over("positive"), n=pl.len().over("positive"), patient="patient")
    cuts = np.cumsum(shares)[:-1]
    # Round half up, not to even, so that the cut depends only on the size of the stratum.
    edges = np.floor(place["n"].to_numpy()[:, None] * cuts[None, :] + 0.5)
    index = (place["rank"].to_numpy()[:, None] >= edges).sum(axis=1)
    names = pl.Series("split", SPLITS).gather(index)
    chosen = pl.DataFrame({"patient": place["patient"], "split": names})
    return rows.join(chosen, on="patient", how="left", maintain_order="left")["split"]


def read_splits(file: Path) -> pl.DataFrame:
    """A saved split: a table with `patient_id` (or `subject_id`) and `split`, one or more rows per patient."""
    form = format_of(file)
    columns = {column.lower(): column for column in form.columns(file)}
    patient = next((columns[name] for name in PATIENT_COLUMNS if name in columns), None)
    for name, found in (("patient_id", patient), ("split", columns.get("split"))):
        if found is None:
            raise missing_column(name, list(columns.values()), file=file)
    frame = form.frame(file, (str(patient), columns["split"]), {})
    if not form.typed:
        frame = unescaped(frame)
    people = ColumnCheck(frame[str(patient)], file=file)
    names, kinds = ids(people), splits(ColumnCheck(frame[columns["split"]], file=file))
    check_one_split(ColumnCheck(names, file=file, name=patient), kinds)
    return pl.DataFrame({"patient_id": names, "split": kinds}).unique("patient_id", maintain_order=True)


def _shares(ratios: Sequence[float]) -> NDArray[np.float64]:
    values = [float(ratio) for ratio in ratios]
    if not _are_ratios(values):
        raise ConfigError(
            f"a split needs three ratios of at least 0, not {', '.join(map(str, ratios)) or 'none'}",
            hint="write train, validation and test like 0.7, 0.15, 0.15",
        )
    return np.asarray(values) / sum(values)


def _draw(seed: int, patient: str) -> bytes:
    return hashlib.blake2b(f"{seed}\x1f{patient}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
