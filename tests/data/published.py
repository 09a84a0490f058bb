"""The public data beside the project, where it is there; none of it is in the project."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
MDACE = SHARED / "mdace"
TSV3 = SHARED / "inception" / "tsv3-suite"
GEM = SHARED / "gems" / "2018_I10gem.txt"

needs_mdace = pytest.mark.skipif(not MDACE.is_dir(), reason="MDACE's annotations are not beside the project")
needs_tsv3 = pytest.mark.skipif(not TSV3.is_dir(), reason="INCEpTION's samples of TSV 3 are not beside the project")
needs_gem = pytest.mark.skipif(not GEM.is_file(), reason="CMS's equivalence tables are not beside the project")
