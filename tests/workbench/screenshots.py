"""The pictures of docs/workbench.md, of synthetic patients: `python -m tests.workbench.screenshots DEMO DOCS`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright

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
        page.goto(f"{served.url}/enter#{served.token('Dr. Lee', 'coordinator rater viewer')}")
        page.wait_for_url(f"{served.url}/")
        take_words(page, served, docs)
        take_whatif(page, served, docs)
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


def save(page: Page, path: Path) -> None:
    """A picture of few colours, so that it is small."""
    page.wait_for_timeout(500)
    page.screenshot(path=path)
    Image.open(path).convert("RGB").quantize(64).save(path, optimize=True)


if __name__ == "__main__":
    main()
