"""Pictures that show the findings, and a sticker that shows the history."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image
from sklearn.metrics import roc_auc_score

from palpate.synthetic.patients.findings import findings, labels
from palpate.synthetic.patients.images import SIZE, draw, patterns, sticker
from palpate.synthetic.plants import Plants


def pictures(n: int, plants: Plants, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels with even odds, a history, and the picture for both."""
    made, rng = findings(plants, "a"), np.random.default_rng(seed)
    y = rng.random((n, 13)) < 0.5
    standard = rng.standard_normal((n, 13)) if plants.history_effect else np.zeros((n, 13))
    drawn = [
        draw(
            rng,
            signal=made.signal * row + rng.standard_normal(13),
            standard=context,
            strength=plants.visual_shortcut,
            lateral=False,
        )
        for row, context in zip(y, standard, strict=True)
    ]
    return np.array(drawn), y, standard


def test_a_template_score_finds_each_label_and_is_not_perfect() -> None:
    drawn, y, _ = pictures(400, Plants())
    flat = patterns().reshape(13, -1)
    weights = np.linalg.pinv(flat)
    scores = (drawn.reshape(len(drawn), -1) - drawn.mean(axis=0).ravel()) @ weights
    reached = np.array([roc_auc_score(y[:, k], scores[:, k]) for k in range(13)])
    ideal = findings(Plants(), "a").auroc["honest"]
    assert (reached > 0.68).all(), dict(zip(labels(), reached, strict=True))
    assert (reached < ideal + 0.06).all()
    assert reached.mean() > ideal.mean() - 0.05


def test_sticker_shows_the_history_only_when_planted() -> None:
    for strength, low, high in ((1.0, 0.7, 1.0), (0.0, -0.2, 0.2)):
        drawn, _, standard = pictures(200, Plants(visual_shortcut=strength))
        cells = np.array([sticker(image) for image in drawn])
        ties = np.array([np.corrcoef(cells[:, k], standard[:, k])[0, 1] for k in range(13)])
        assert low < ties.mean() < high


def test_files_are_where_the_metadata_says(small: Path) -> None:
    table = pl.read_csv(small / "mimic-cxr-jpg/mimic-cxr-2.0.0-metadata.csv.gz")
    root = small / "mimic-cxr-jpg/files"
    expected = {
        root / f"p{subject}"[:3] / f"p{subject}" / f"s{study}" / f"{dicom}.jpg"
        for dicom, subject, study in table.select("dicom_id", "subject_id", "study_id").iter_rows()
    }
    assert set(root.rglob("*.jpg")) == expected
    with Image.open(next(iter(expected))) as image:
        assert image.size == (SIZE, SIZE)
        assert image.mode == "L"


def test_the_saved_sticker_follows_the_written_history(small: Path) -> None:
    table = pl.read_csv(small / "latent_studies.csv.gz")
    made = findings(Plants(), "a")
    seen, told = [], []
    for dicom, subject, study in table.select("dicom_id", "subject_id", "study_id").head(150).iter_rows():
        name = f"p{subject}"
        with Image.open(small / "mimic-cxr-jpg/files" / name[:3] / name / f"s{study}" / f"{dicom}.jpg") as image:
            seen.append(sticker(np.asarray(image)))
    pretest = table.select(f"pretest:{label}" for label in labels()).head(150).to_numpy()
    told = made.standard(np.log(pretest / (1 - pretest)))
    ties = [np.corrcoef(np.array(seen)[:, k], told[:, k])[0, 1] for k in range(13)]
    assert np.mean(ties) > 0.5


@pytest.mark.parametrize("lateral", [False, True])
def test_pictures_are_bytes(lateral: bool) -> None:
    zero = np.zeros(13)
    image = draw(np.random.default_rng(0), signal=zero, standard=zero, strength=1.0, lateral=lateral)
    assert image.shape == (SIZE, SIZE)
    assert image.dtype == np.uint8
