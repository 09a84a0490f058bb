"""The pictures of docs/workbench.md, of synthetic patients: `python -m tests.workbench.screenshots DEMO DOCS`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from palpate.data.annotations import Annotation
from palpate.workbench.evidence.decisions import CODER, MODEL, ReviewedNote, make_set
from palpate.workbench.evidence.imports import MarkedNote, combine
from palpate.workbench.words import ratings
from tests.report.browser import find_chromium

from .server import Served

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


def main() -> None:
    demo, docs = map(Path, sys.argv[1:3])
    with (
        tempfile.TemporaryDirectory() as folder,
        Served(demo / "run", demo / "run-xrays", folder=Path(folder), show_notes=True) as served,
        sync_playwright() as driver,
    ):
        browser = driver.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        page = browser.new_context(viewport={"width": 960, "height": 640}).new_page()
        page.set_default_timeout(120_000)
        page.goto(f"{served.url}/enter#{served.token('Dr. Lee', 'coordinator rater viewer reviewer coder')}")
        page.wait_for_url(f"{served.url}/")
        take_words(page, served, docs)
        take_whatif(page, served, docs)
        take_reviews(page, served, docs)
        page.goto(f"{served.url}/runs/of/{demo.name}-run")
        save(page, docs / "workbench-runs.png")
        browser.close()


def take_words(page: Page, served: Served, docs: Path) -> None:
    """A rater's page, and the coordinator's, with three raters under way."""
    page.goto(f"{served.url}/words")
    page.fill("#title", "Words and readmission within 30 days")
    page.click("button:has-text('Make a sheet')")
    page.wait_for_url("**/progress")
    sheet = ratings.sheet_of(served.bench.store, 1)
    assert sheet is not None
    rng = np.random.default_rng(0)
    truth = rng.integers(1, 6, len(sheet.words))
    for name, share in (("Dr. Okafor", 1.0), ("Dr. Silva", 0.8), ("Dr. Lee", 0.25)):
        served.token(name, "rater") if name != "Dr. Lee" else None
        person = next(each for each in served.bench.register.everybody() if each.name == name)
        for place in ratings.own_order(sheet, person.id)[: int(share * len(sheet.words))]:
            score = float(np.clip(truth[place] + rng.integers(-1, 2), 1, 5))
            ratings.rate(served.bench.store, sheet, person.id, {place: score}, f"{place}")
    page.goto(f"{served.url}/words/1")
    save(page, docs / "workbench-words.png")
    page.goto(f"{served.url}/words/1/progress")
    save(page, docs / "workbench-agreement.png")


def take_whatif(page: Page, served: Served, docs: Path) -> None:
    """A short note about a made-up patient, changed."""
    page.goto(f"{served.url}/whatif")
    page.fill(
        "#note",
        "72 year old man from the Larkspur ward with heart failure and asthma. He lives alone. Discharged home.",
    )
    page.fill("#word", "Larkspur")
    page.fill("#replacement", "Medical")
    page.select_option("#to", "gender=female")
    page.click("text=Ask the models")
    page.wait_for_selector("#answers table")
    page.set_viewport_size({"width": 960, "height": 1000})
    page.evaluate("document.querySelector('form.card').scrollIntoView()")
    save(page, docs / "workbench-whatif.png")
    page.set_viewport_size({"width": 960, "height": 640})


def take_reviews(page: Page, served: Served, docs: Path) -> None:
    """An altered note, and a chart with the spans of a coder and of a model."""
    page.set_viewport_size({"width": 960, "height": 900})
    page.goto(f"{served.url}/alterations")
    page.fill("#to", "gender=female")
    page.fill("#n", "40")
    page.click("button:has-text('Draw altered notes')")
    page.wait_for_url("**/progress")
    page.goto(f"{served.url}/alterations/1?at=0")
    page.keyboard.press("r")
    page.wait_for_selector("#review:has-text('1 of 40 marked')")
    page.keyboard.press("w")
    page.wait_for_selector("#review:has-text('2 of 40 marked')")
    save(page, docs / "workbench-alterations.png")
    text = (
        "72 year old woman with acute on chronic systolic heart failure. Hypertension, treated with lisinopril.\n"
        "Type 2 diabetes without complications. No pneumonia on the film. Discharged home."
    )
    marked = {
        CODER: {"I50.23": "acute on chronic systolic heart failure", "I10": "Hypertension", "E11.9": "Type 2 diabetes"},
        MODEL: {"I50.23": "systolic heart failure", "I10": "Hypertension", "J18.9": "pneumonia"},
    }
    sides = [
        [MarkedNote(("1001", "1"), ReviewedNote(0, "1001", "1", "Discharge summary", text=text), spans)]
        for spans in (
            tuple(
                Annotation(text.index(words), text.index(words) + len(words), code, "ICD-10-CM")
                for code, words in side.items()
            )
            for side in marked.values()
        )
    ]
    charts = combine(sides[0], sides[1], {})
    make_set(served.bench.store, "Discharge summaries of March", charts.notes, charts.spans)
    page.goto(f"{served.url}/evidence/1?at=1")
    page.keyboard.press("x")
    page.wait_for_selector("#review:has-text('Rejected')")
    save(page, docs / "workbench-evidence.png")
    page.set_viewport_size({"width": 960, "height": 640})


def save(page: Page, path: Path) -> None:
    """A picture of few colours, so that it is small."""
    page.wait_for_timeout(500)
    page.screenshot(path=path)
    Image.open(path).convert("RGB").quantize(64).save(path, optimize=True)


if __name__ == "__main__":
    main()
