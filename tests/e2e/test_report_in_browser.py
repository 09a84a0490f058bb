"""The report of a real run, looked at in headless Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest

from palpate.commands.audit import audit
from palpate.commands.demo import write_demo
from tests.report.browser import Browser

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    config = write_demo(folder / "demo", n_patients=800)
    return audit(config, overrides=["performance.n_replicates=500"]).report


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_it_opens_clean_and_fits(report: Path, tmp_path: Path, width: int, dark: bool) -> None:
    with Browser() as browser:
        page = browser.open(report, width=width, height=900, dark=dark)
        assert page.console_errors == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("innerWidth") == width
        assert page.evaluate("document.querySelectorAll('figure svg').length") >= 4
        assert "hospital b" in page.evaluate("document.body.innerText")
        columns = "[...document.querySelectorAll('.data th')].filter(e => e.textContent.trim() === 'AUROC')"
        ends = page.evaluate(f"{columns}.filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect().right)")
        assert 0 < max(ends) <= width - 25  # inside the card, without scrolling
        page.screenshot(tmp_path / "report.png")
        assert (tmp_path / "report.png").stat().st_size > 10_000


def test_it_prints_on_twelve_pages(report: Path, tmp_path: Path) -> None:
    with Browser() as browser:
        page = browser.open(report)
        page.wait_until("document.documentElement.dataset.charts === 'drawn'")
        pdf = page.pdf(tmp_path / "report.pdf").read_bytes()
    assert 1 < pdf.count(b"/Type /Page\n") <= 12
