"""The public data beside the project, where it is there; none of it is in the project."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
MDACE = SHARED / "mdace"
MDACE_REPO = SHARED / "mdace_repo"
INCEPTION = SHARED / "inception"
DICOM = SHARED / "dicom"
READMISSION = SHARED / "subgroup" / "diabetic_data_every8th.csv"
TSV3 = SHARED / "inception" / "tsv3-suite"
GEM = SHARED / "gems" / "2018_I10gem.txt"
GEM_BACK = SHARED / "gems" / "2018_I9gem.txt"

needs_mdace = pytest.mark.skipif(not MDACE.is_dir(), reason="MDACE's annotations are not beside the project")
needs_repository = pytest.mark.skipif(
    not (MDACE.is_dir() and MDACE_REPO.is_dir()), reason="MDACE's repository is not beside the project"
)
needs_inception = pytest.mark.skipif(not INCEPTION.is_dir(), reason="INCEpTION's samples are not beside the project")
needs_tsv3 = pytest.mark.skipif(not TSV3.is_dir(), reason="INCEpTION's samples of TSV 3 are not beside the project")
needs_dicom = pytest.mark.skipif(not DICOM.is_dir(), reason="the films are not beside the project")
needs_gem = pytest.mark.skipif(not GEM.is_file(), reason="CMS's equivalence tables are not beside the project")


def published_repository(folder: Path) -> Path:
    """MDACE's repository as it is published: `data/` beside `predictions/` and `splits/`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "data").symlink_to(MDACE)
    for name in ("predictions", "splits"):
        (folder / name).symlink_to(MDACE_REPO / name)
    return folder
