"""A notebook that uses palpate, executed by a real kernel; its outputs opened in a real browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.api.notes import notes_table
from tests.report.browser import Browser, find_chromium

CELLS = [
    "import pandas as pd, palpate\nframe = pd.read_csv('notes.csv')",
    "result = palpate.audit(frame, labels=['readmitted'], text='note', patient='subject_id', split='split',\n"
    "                       attributes=['sex', 'age'], models={'vendor': frame['score'], 'mine': lambda texts:\n"
    "                       [0.9 if 'sepsis' in text else 0.2 for text in texts]},\n"
    "                       audits={'performance': {'n_replicates': 200}, 'subgroups': {'n_replicates': 200}})\nresult",
    "result['performance']",
    "result.estimates(metric='auroc')",
    "result.chart('calibration')",
    "palpate.alter('He is a 60 year old man.', gender='female')",
    "palpate.suite('ade')",
    "import polars as pl\n"
    "palpate.Cohort.from_frame(pl.read_csv('notes.csv').rename({'note': 'text'}), labels=['readmitted'])",
    "result['performance'].to_pandas().head(3)",
]


def run_notebook(folder: Path) -> list[dict[str, str]]:
    """The data of each cell's result, by media type."""
    nbformat = pytest.importorskip("nbformat")  # seconds to import: not by every process that collects this file
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("pandas")
    notes_table().write_csv(folder / "notes.csv")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    outputs = [output for cell in book.cells for output in cell.outputs if "data" in output]
    return [dict(output["data"]) for output in outputs]


@pytest.mark.browser
@pytest.mark.skipif(find_chromium() is None, reason="chromium is not installed")
def test_outputs_of_a_notebook_show_in_a_browser(tmp_path: Path) -> None:
    outputs = run_notebook(tmp_path)
    assert len(outputs) == len(CELLS) - 1
    assert all("text/html" in output for output in outputs)
    assert "Patient 1 is" not in json.dumps(outputs)  # notes are patients
    page = tmp_path / "outputs.html"
    page.write_text("<!doctype html><meta charset=utf-8>" + "".join(output["text/html"] for output in outputs))
    with Browser() as browser:
        for dark in (False, True):
            opened = browser.open(page, dark=dark)
            assert opened.console_errors == []
            assert opened.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
            assert opened.evaluate("[...document.images].filter(image => image.naturalWidth > 100).length") >= 3
