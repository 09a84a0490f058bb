from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from palpate.report.html import render

from .browser import Browser, Page, find_chromium
from .test_html import hostile

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_chromium() is None, reason="chromium is not installed"),
]

OVERFLOWING = """[...document.querySelectorAll('body *')].filter(e => {
  const r = e.getBoundingClientRect();
  return r.right > innerWidth + 1 && r.width > 1 && !e.closest('.scroller, .sprites, .skip, svg g');
}).map(e => e.tagName + '.' + (e.getAttribute('class') || '')).slice(0, 5)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as started:
        yield started


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, readmission_html: str, radiographs_html: str) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("report")
    manifest, results, gate = hostile()
    texts = {
        "readmission": readmission_html,
        "radiographs": radiographs_html,
        "hostile": render(manifest, results, gate=gate),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


def is_well(page: Page) -> None:
    assert page.console_errors == []
    assert all(url.startswith("file:") for url in page.requests)
    charts, drawn = page.evaluate(
        "[document.querySelectorAll('[data-chart]').length, document.querySelectorAll('.live svg.marks').length]"
    )
    assert charts == drawn > 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["readmission", "radiographs", "hostile"])
def test_opens_well(browser: Browser, pages: dict[str, Path], name: str, width: int, dark: bool) -> None:
    page = browser.open(pages[name], width=width, height=844, dark=dark)
    is_well(page)
    assert page.evaluate("innerWidth") == width
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(OVERFLOWING) == []
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert back == ("rgb(17, 21, 27)" if dark else "rgb(244, 246, 248)")


def test_charts_take_the_colours_of_the_page(browser: Browser, pages: dict[str, Path]) -> None:
    colour = "getComputedStyle(document.querySelector('.panels.forest .mark-symbol path')).stroke"
    light = browser.open(pages["readmission"], dark=False).evaluate(colour)
    dark = browser.open(pages["readmission"], dark=True).evaluate(colour)
    assert (light, dark) == ("rgb(11, 102, 176)", "rgb(111, 181, 255)")


def test_a_tooltip_shows_the_interval(browser: Browser, pages: dict[str, Path]) -> None:
    page = browser.open(pages["readmission"])
    spot = page.evaluate(
        "(() => { const mark = document.querySelector('.panels.forest .mark-symbol path');"
        "mark.scrollIntoView({block: 'center'}); const r = mark.getBoundingClientRect();"
        "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
    )
    page.send("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": spot[0], "y": spot[1]})
    page.wait_until("document.querySelector('.vg-tooltip.visible')")
    text = page.evaluate("document.querySelector('.vg-tooltip').innerText")
    assert "bert-discharge" in text
    assert "homeless" in text
    assert "1.6% (0.4–2.8%)" in text
    assert "300" in text


def test_without_javascript_there_are_images(browser: Browser, pages: dict[str, Path]) -> None:
    page = browser.open(pages["readmission"], width=390, scripts=False)
    charts, images = page.evaluate(
        "[document.querySelectorAll('[data-chart]').length, document.querySelectorAll('[data-chart] > svg').length]"
    )
    assert charts == images > 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_keyboard_reaches_the_results_first(browser: Browser, pages: dict[str, Path]) -> None:
    page = browser.open(pages["readmission"])
    for kind in ("keyDown", "keyUp"):
        page.send("Input.dispatchKeyEvent", {"type": kind, "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9})
    assert page.evaluate("document.activeElement.textContent") == "Skip to the results"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left >= 0")


def test_prints_open_and_light(browser: Browser, pages: dict[str, Path], tmp_path: Path) -> None:
    page = browser.open(pages["readmission"], dark=True)
    page.evaluate(
        "window.addEventListener('beforeprint', () => { window.folded ="
        " document.querySelectorAll('details:not([open])').length })"
    )
    assert page.pdf(tmp_path / "report.pdf").stat().st_size > 50_000
    assert page.evaluate("window.folded") == 0
    assert page.evaluate("document.querySelectorAll('details[open]').length") == 0
    scheme = [{"name": "prefers-color-scheme", "value": "dark"}]
    page.send("Emulation.setEmulatedMedia", {"media": "print", "features": scheme})
    assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--ink').trim()") == "#17202b"


def test_policy_stops_a_script_that_was_added(browser: Browser, pages: dict[str, Path], tmp_path: Path) -> None:
    html = pages["readmission"].read_text(encoding="utf-8")
    extra = "<script>window.intruded = true</script><img src='https://example.org/x.png'></main>"
    path = tmp_path / "added.html"
    path.write_text(html.replace("</main>", extra), encoding="utf-8")
    page = browser.open(path)
    assert page.evaluate("window.intruded") is None
    assert any("Content Security Policy" in error for error in page.console_errors)
