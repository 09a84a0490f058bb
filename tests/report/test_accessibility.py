"""The report by axe-core's rules, which npm brings, on a wide screen and on a telephone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from palpate.report.history import HistoryLine, HistoryPage, render_history

from .browser import Browser, Page, find_chromium
from .test_browser import wide_run

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_chromium() is None, reason="chromium is not installed"),
]
RUN = """axe.run(document, {resultTypes: ["violations"]}).then(r => {
  window.found = JSON.stringify(r.violations.map(v => `${v.id}: ${v.nodes.length}, ${v.nodes[0].html.slice(0, 120)}`));
}); 0"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as started:
        yield started


def violations(page: Page, axe: str) -> list[str]:
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true; 0")
    page.evaluate(f"{axe}; window.found = null; 0")
    page.evaluate(RUN)
    for _ in range(200):
        found = page.evaluate("window.found")
        if found:
            return list(json.loads(found))
        time.sleep(0.1)
    raise TimeoutError


@pytest.mark.parametrize(("name", "width", "dark"), [("two", 1200, False), ("two", 390, True), ("many", 390, False)])
def test_no_rule_is_broken(
    name: str,
    width: int,
    dark: bool,
    axe: str,
    browser: Browser,
    readmission_html: str,
    radiographs_html: str,
    tmp_path: Path,
) -> None:
    file = tmp_path / "report.html"
    file.write_text(readmission_html if name == "two" else radiographs_html, encoding="utf-8")
    assert violations(browser.open(file, width=width, height=900, dark=dark), axe) == []


def test_nor_with_long_names(axe: str, browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "wide.html").write_text(wide_run(), encoding="utf-8")
    assert violations(browser.open(tmp_path / "wide.html", width=390, height=844), axe) == []


def test_nor_on_the_page_of_several_runs(axe: str, browser: Browser, tmp_path: Path) -> None:
    day = "2026-11-0{}T10:00:00+00:00"
    lines = [HistoryLine(f"r{k}", day.format(k), "m", "ill", "all", 0.7, 0.6, 0.8, 90, "", "") for k in (1, 2, 3)]
    page = HistoryPage("History of AUROC", "auroc", lines, ["run r0 could not be read"])
    (tmp_path / "history.html").write_text(render_history(page), encoding="utf-8")
    assert violations(browser.open(tmp_path / "history.html", width=390, height=844), axe) == []
