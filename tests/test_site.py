"""The site that `make docs` has built, opened as a file: nothing comes from elsewhere, and its search finds things."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import palpate
from palpate import kit, stats
from tests.report.browser import Browser, find_chromium

SITE = Path(__file__).parent.parent / "build" / "site"
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="the site is not built: make docs"),
    pytest.mark.skipif(find_chromium() is None, reason="chromium is not installed"),
]
LOADED = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=["']?(https?:[^"'\s>]+)""")
SEARCHED = """
(() => {
  const field = document.querySelector('input[data-md-component="search-query"]');
  document.querySelector('#__search').click();
  field.focus();
  field.value = 'specificity';
  field.dispatchEvent(new Event('input', {bubbles: true}));
  field.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true}));
})()
"""
RESULTS = "document.querySelectorAll('.md-search-result__item').length"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as started:
        yield started


@pytest.mark.parametrize("name", ["index.html", "methods.html", "gallery/readmission.html", "reference/palpate.html"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_opens_without_errors_and_without_a_network(browser: Browser, name: str, dark: bool) -> None:
    page = browser.open(SITE / name, dark=dark)
    assert page.console_errors == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:", "blob:", "about:"))] == []


def test_no_page_names_a_resource_elsewhere() -> None:
    own = [page for page in SITE.rglob("*.html") if not page.name.endswith("-report.html")]
    loaded = {url for page in own for url in LOADED.findall(page.read_text(encoding="utf-8"))}
    assert loaded == set()


def test_search_works_on_a_file(browser: Browser) -> None:
    page = browser.open(SITE / "index.html")
    page.evaluate(SEARCHED)
    page.wait_until(f"{RESULTS} > 3")


def test_the_reference_has_every_public_name() -> None:
    for name, module in {"palpate": palpate, "stats": stats, "kit": kit}.items():
        text = (SITE / "reference" / f"{name}.html").read_text(encoding="utf-8")
        headings = set(re.findall(r'<h2[^>]*id="([^"]+)"', text))
        ends = {heading.rpartition(".")[2].lower() for heading in headings}
        assert {each.lower() for each in module.__all__ if each[0] != "_"} - ends == set()


def test_methods_are_mathml_and_the_glossary_is_the_reports() -> None:
    methods = (SITE / "methods.html").read_text(encoding="utf-8")
    assert methods.count("<math") > 40
    assert "$$" not in methods
    assert "palpatepiece" not in methods
    assert "Benjamini–Hochberg" in (SITE / "glossary.html").read_text(encoding="utf-8")


def test_the_gallery_has_outputs_notebooks_and_reports() -> None:
    for name in ("readmission", "subgroups", "ade", "xray", "mdace"):
        text = (SITE / "gallery" / f"{name}.html").read_text(encoding="utf-8")
        assert 'class="output"' in text
        assert "palpatepiece" not in text
        assert (SITE / "gallery" / f"{name}.ipynb").stat().st_size > 2000
        assert (SITE / "gallery" / f"{name}-report.html").stat().st_size > 100_000
