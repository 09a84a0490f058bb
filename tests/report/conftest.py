from __future__ import annotations

import pytest

from palpate.report.html import render

from .sample import Sample, thirteen_labels, two_models


@pytest.fixture(scope="session")
def readmission() -> Sample:
    return two_models(include_text=True)


@pytest.fixture(scope="session")
def readmission_html(readmission: Sample) -> str:
    return render(readmission.manifest, readmission.results, gate=readmission.gate)


@pytest.fixture(scope="session")
def radiographs_html() -> str:
    sample = thirteen_labels()
    return render(sample.manifest, sample.results, gate=None)
