from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from palpate.report.html import render
from palpate.results import AuditResult, Axis, Chart, Column, Finding, Table, estimates_frame
from palpate.results.verdicts import Answer

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


LONG = "pneumonoultramicroscopicsilicovolcanoconiosis_without_esophagitis"
SCROLLING = """(() => {
  for (const part of document.querySelectorAll('details')) part.open = true;
  return [...document.querySelectorAll('.scroller')].filter(e => e.scrollWidth > e.clientWidth + 1)
    .map(e => e.getAttribute('aria-label'));
})()"""


def wide_run() -> str:
    """Three models, long names without spaces, many columns, and panels whose titles differ in length."""
    models = ("a-rather-long-model-name-v2.3", "m2", "m3")
    asked: dict[str, Any] = {
        "metric": "auroc",
        "low": -0.4,
        "value": -0.2,
        "high": -0.1,
        "margin": -0.03,
        "n_labels": 14,
    }
    answers = tuple(
        Answer(question=f"q{k}", asks=f"Does it travel to {LONG}?", model=model, verdict="concern", label=LONG, **asked)
        for k in range(3)
        for model in models
    )
    names = ("Model", "Cohort", "Label", "Cases", "Positive", *(f"Precision, class {k}" for k in range(10)))
    kinds = ("text", "text", "text", "integer", "integer", *("interval",) * 10)
    columns = tuple(Column(name=name, kind=kind) for name, kind in zip(names, kinds, strict=True))  # type: ignore[arg-type]
    row = (models[0], "hospital a", LONG, 12_345, 1_234, *((-0.712, -0.69, 0.734),) * 10)
    points = [
        {"x": x / 4, "y": x / 4, "low": x / 5, "high": x / 3, "m": models[0], "f": f}
        for x in range(5)
        for f in (LONG, "b")
    ]
    axes = {"x": Axis(field="x", title="Predicted"), "y": Axis(field="y", title="Observed")}
    titled = "Calibration by group, 'diagnosis_of_a_rather_long_name_09'"
    chart = Chart(title=titled, kind="line", description="D", data=tuple(points), series="m", facet="f", **axes)
    findings = (Finding(sentence=f"{models[0]} ranks patients the wrong way for '{LONG}'.", kind="concern"),)
    blocks = (Table(title="T", columns=columns, rows=(row,) * 3), chart)
    one = AuditResult("performance", estimates_frame([]), blocks, findings=findings, answers=answers)
    return render({"models": [{"name": name} for name in models]}, [one], gate=None)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, readmission_html: str, radiographs_html: str) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("report")
    manifest, results, gate = hostile()
    texts = {
        "readmission": readmission_html,
        "radiographs": radiographs_html,
        "hostile": render(manifest, results, gate=gate),
        "wide": wide_run(),
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
@pytest.mark.parametrize("name", ["readmission", "radiographs", "hostile", "wide"])
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


@pytest.mark.parametrize("width", [1280, 1920])
@pytest.mark.parametrize("name", ["readmission", "radiographs", "wide"])
def test_every_column_is_in_view_on_a_screen(browser: Browser, pages: dict[str, Path], name: str, width: int) -> None:
    assert browser.open(pages[name], width=width).evaluate(SCROLLING) == []


def test_panels_are_of_one_size_however_long_their_titles(browser: Browser, pages: dict[str, Path]) -> None:
    for width in (390, 1280):
        page = browser.open(pages["wide"], width=width)
        drawn = "[...document.querySelectorAll('.panels .live svg.marks')]"
        sizes = page.evaluate(f"{drawn}.map(e => e.clientWidth + 'x' + e.clientHeight)")
        assert len(sizes) == 2
        assert len(set(sizes)) == 1


def test_five_questions_are_on_the_first_screen(browser: Browser, tmp_path: Path) -> None:
    seen: dict[str, Any] = {"metric": "flips", "low": 0.012, "value": 0.022, "high": 0.037, "margin": 0.02}
    answers = tuple(
        Answer(
            question=f"q{k}", asks="Does the patient's ethnicity change the answer?", model=model, verdict="caution",
            label="African American", n_labels=4, n_unsettled=2, needed=180_000, percent=True, **seen,
        )
        for k in range(9)
        for model in ("logistic", "xgboost")
    )  # fmt: skip
    one = AuditResult("performance", estimates_frame([]), answers=answers)
    manifest = {"title": "Readmission within 30 days", "models": [{"name": "logistic"}, {"name": "xgboost"}]}
    path = tmp_path / "report.html"
    path.write_text(render(manifest, [one], gate=None), encoding="utf-8")
    rows = "[...document.querySelectorAll('.score tbody tr')].filter(e => e.getBoundingClientRect().bottom <= 720)"
    assert browser.open(path, width=1280, height=720).evaluate(f"{rows}.length") >= 5


def test_keyboard_reaches_the_results_first(browser: Browser, pages: dict[str, Path]) -> None:
    page = browser.open(pages["readmission"])
    for kind in ("keyDown", "keyUp"):
        page.send("Input.dispatchKeyEvent", {"type": kind, "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9})
    assert page.evaluate("document.activeElement.textContent") == "Skip to the results"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left >= 0")


SMALLEST_LETTERS = """
Math.min(...[...document.querySelectorAll('.chart svg')].filter(svg => svg.checkVisibility()).map(svg =>
  12 * svg.getBoundingClientRect().width / (svg.viewBox.baseVal.width || svg.width.baseVal.value)))
"""


def test_prints_a_summary_with_axes_that_can_be_read(browser: Browser, pages: dict[str, Path], tmp_path: Path) -> None:
    page = browser.open(pages["readmission"], dark=True, width=1280)
    page.wait_until("document.documentElement.dataset.charts === 'drawn'")
    screen = page.evaluate("document.querySelector('.chart svg').getBoundingClientRect().width")
    n_pages = page.pdf(tmp_path / "report.pdf").read_bytes().count(b"/Type /Page\n")
    assert 1 <= n_pages <= 12
    assert page.evaluate("document.querySelector('.chart svg').getBoundingClientRect().width") == screen
    page.resize(710, 1000)  # A4 without its margins
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.send("Emulation.setEmulatedMedia", {"media": "print"})
    assert page.evaluate(SMALLEST_LETTERS) >= 8  # 6 points
    assert page.evaluate("[...document.querySelectorAll('details')].every(part => !part.checkVisibility())")
    assert page.evaluate("document.documentElement.scrollWidth") <= 710
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
