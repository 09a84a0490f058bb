"""Reviews of alterations and of evidence in Chromium: by keyboard alone, without scripts, and by axe-core's rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from tests.report.browser import find_chromium

from .server import Served
from .test_evidence import TEXT, decide, imported, run
from .test_evidence_outcomes import with_bare_note

playwright = pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Browser, BrowserContext, Page  # noqa: E402

from .test_in_browser import AXE, browser, enter  # noqa: E402

__all__ = ["browser", "run"]  # fixtures
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_chromium() is None, reason="chromium is not installed"),
]
EVIL = "<img src=x onerror='window.intruded = true'><script>window.intruded = true</script>"
NOTES = [f"{40 + k} year old man {EVIL}. {'The lungs are clear. ' * 60}He is home." for k in range(6)]


@pytest.fixture
def shown(run: Path, tmp_path: Path) -> Iterator[Served]:
    """A workbench with altered notes and a chart; every note has a script in it."""
    pl.DataFrame({"text": NOTES}).write_csv(tmp_path / "notes.csv")
    with Served(run, folder=tmp_path / "bench", cohort=tmp_path / "notes.csv", show_notes=True) as served:
        boss = served.member("Boss", "coordinator")
        assert boss.send("/alterations", to="gender=female", n=4, seed=0).status_code == 200
        assert imported(boss, tmp_path) == 1
        yield served


def context_of(browser: Browser, **options: object) -> BrowserContext:
    return browser.new_context(**options)  # type: ignore[arg-type]


def press(page: Page, key: str, then: str) -> None:
    page.keyboard.press(key)
    page.wait_for_selector(f"#review:has-text('{then}')")


def test_a_reviewer_needs_no_mouse(shown: Served, browser: Browser) -> None:
    context = context_of(browser)
    page = enter(shown, context, "Ann", "reviewer")
    page.goto(f"{shown.url}/alterations/1")
    press(page, "r", "1 of 4 marked")
    assert page.evaluate("document.activeElement.id") == "note"
    press(page, "w", "1 of 2 wrong: 50.0% (95% interval 9.5% to 90.5%)")
    assert "Note 2 of 4" in page.inner_text("#note")  # it stays, to ask why
    page.keyboard.press("1")
    page.wait_for_selector("#note:has-text('Note 3 of 4')")
    press(page, "u", "1 unsure")
    page.keyboard.press("e")
    page.keyboard.type("I can not tell")
    page.keyboard.press("Enter")
    page.wait_for_selector("#note:has-text('Note 4 of 4')")
    press(page, "Backspace", "Unsure")
    assert page.input_value("#reason") == ""
    press(page, "Backspace", "2 of 4 marked")
    rows = shown.bench.store.read("SELECT place, mark, reason FROM alterations_entries WHERE undone = 0 ORDER BY id")
    assert [tuple(row) for row in rows] == [
        (0, "right", ""),
        (1, "wrong", ""),
        (1, "wrong", "Words of the old group remain"),
    ]
    assert page.evaluate("window.intruded") is None
    assert page.problems == []  # type: ignore[attr-defined]
    context.close()


def test_a_coder_needs_no_mouse(shown: Served, browser: Browser) -> None:
    context = context_of(browser)
    page = enter(shown, context, "Ann", "coder")
    page.goto(f"{shown.url}/evidence/1")
    press(page, "a", "1 of 5 decided")
    assert page.evaluate("document.activeElement.classList.contains('here')")
    press(page, "x", "Rejected")
    page.keyboard.press("4")
    page.wait_for_selector("#asked:has-text('Span 3 of 5')")
    page.keyboard.press("c")
    page.keyboard.press("Control+A")
    page.keyboard.type("No pneumonia")
    page.keyboard.press("Enter")
    page.wait_for_selector("#asked:has-text('Span 4 of 5')")
    rows = shown.bench.store.read('SELECT place, decision, begin, "end", reason FROM evidence_entries ORDER BY id')
    start = TEXT.index("No pneumonia")
    assert [tuple(row) for row in rows][2:] == [
        (1, "reject", rows[1]["begin"], rows[1]["end"], "Too much or too little is marked"),
        (2, "correct", start, start + len("No pneumonia"), ""),
    ]
    assert page.evaluate("window.intruded") is None
    assert page.problems == []  # type: ignore[attr-defined]
    context.close()


SELECTED = """words => {
  const texts = document.createTreeWalker(document.getElementById('chart'), NodeFilter.SHOW_TEXT);
  let last = null;
  while (texts.nextNode()) {
    const at = texts.currentNode.data.lastIndexOf(words);
    if (at < 0) continue;
    const range = document.createRange();
    range.setStart(texts.currentNode, at);
    range.setEnd(texts.currentNode, at + words.length);
    const box = range.getBoundingClientRect();
    last = [box.left, box.top + box.height / 2, box.right];
  }
  return last;
}"""


def test_a_coder_reads_a_note_without_marks_by_keyboard(shown: Served, browser: Browser, tmp_path: Path) -> None:
    number, bare = with_bare_note(shown, shown.member("Boss", "coordinator"), tmp_path)
    context = context_of(browser)
    page = enter(shown, context, "Ann", "coder")
    page.goto(f"{shown.url}/evidence/{number}")
    for done in (1, 2, 3):
        press(page, "a", f"{done} of 3 decided")
    page.click("text=Next note to read")
    page.wait_for_url(f"**/notes/{bare}")
    page.keyboard.press("n")
    page.keyboard.type("was seen")
    page.fill("#add-code", "Z03")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=there is nothing else to mark")
    page.locator("h1").click()
    page.keyboard.press("r")
    page.wait_for_selector("text=You have read this note to its end")
    assert [tuple(row) for row in shown.bench.store.read("SELECT number, note FROM evidence_read")] == [(number, bare)]
    page.click("text=Take it back")
    page.wait_for_selector("text=I have read this note, and")
    assert shown.bench.store.read("SELECT * FROM evidence_read") == []
    assert page.evaluate("window.intruded") is None
    assert page.problems == []  # type: ignore[attr-defined]
    context.close()


def test_a_coder_adds_a_span_with_the_mouse_and_with_the_keyboard(shown: Served, browser: Browser) -> None:
    context = context_of(browser)
    page = enter(shown, context, "Ann", "coder")
    page.goto(f"{shown.url}/evidence/1")
    left, middle, right = page.evaluate(SELECTED, "fever")  # the last of three, after an emoji and several labels
    page.mouse.move(left, middle)
    page.mouse.down()
    page.mouse.move(right, middle, steps=6)
    page.mouse.up()
    assert page.input_value("#first") == "fever"
    page.fill("#add-code", "R50.8")
    page.keyboard.press("Enter")
    page.wait_for_selector("#asked:has-text('Span 6 of 6')")
    assert page.evaluate("document.activeElement.classList.contains('here')")
    page.keyboard.press("n")
    page.keyboard.type("acute")
    page.keyboard.press("Tab")
    page.keyboard.type("heart failure")
    for _ in range(2):
        page.keyboard.press("Tab")
    page.keyboard.type("I50.21")
    page.keyboard.press("Enter")
    page.wait_for_selector("#asked:has-text('of 7')")
    sql = "SELECT code, begin, \"end\" FROM evidence_items WHERE by = 'added' ORDER BY code"
    found = [(row["code"], TEXT[row["begin"] : row["end"]]) for row in shown.bench.store.read(sql)]
    assert found == [("I50.21", "Acute systolic heart failure"), ("R50.8", "fever")]
    assert shown.bench.store.read(sql)[1]["begin"] == TEXT.rindex("fever")
    press(page, "Backspace", "of 6")
    assert page.evaluate("window.intruded") is None
    assert page.problems == []  # type: ignore[attr-defined]
    context.close()


def test_without_a_script_reviews_are_forms(shown: Served, browser: Browser) -> None:
    context = context_of(browser, java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{shown.url}/enter")
    page.fill("#token", shown.token("Ann", "coder reviewer"))
    page.click("button:has-text('Sign in')")
    page.goto(f"{shown.url}/alterations/1")
    page.click("button:text-is('Wrong')")
    page.click("button:has-text('It reads oddly')")
    page.wait_for_selector("text=1 of 4 marked")
    page.click("a:has-text('Open folded text')")
    assert page.locator(".chart details[open]").count()
    page.goto(f"{shown.url}/evidence/1")
    page.fill("#code", "I50.1")
    page.click("text=Save the correction")
    page.wait_for_selector("text=1 of 5 decided")
    page.fill("#first", "was seen")
    page.fill("#add-code", "Z03")
    page.click("text=Add the span")
    page.wait_for_selector("text=Span 6 of 6: Z03")
    context.close()


def test_a_page_that_loads_anew_keeps_the_focus(shown: Served, browser: Browser) -> None:
    ann = shown.member("Ann", "coder reviewer")
    ann.send("/alterations/1/mark", at=0, mark="wrong", entry="a")
    decide(ann, 1, 0, "accept")
    context = context_of(browser)
    page = enter(shown, context, "Boss", "coordinator")
    for path, part, link in (("alterations", "rates", "note-0"), ("evidence", "agreement", "file-")):
        page.goto(f"{shown.url}/{path}/1/progress")
        page.focus(f"[id^={link}]")
        focused = page.evaluate("document.activeElement.id")
        page.evaluate(f"document.getElementById('{part}').dataset.old = '1'")
        page.wait_for_selector(f"#{part}:not([data-old])")
        assert page.evaluate("document.activeElement.id") == focused
    context.close()


PAGES = (
    *("/alterations", "/alterations/1?at=0", "/alterations/1?at=1&open=1", "/alterations/1/progress"),
    *("/alterations/1/notes/0", "/evidence", "/evidence/1?at=0", "/evidence/1?at=4", "/evidence/1/progress"),
    "/evidence/1/judge",
    "/evidence/2/notes/{bare}",
)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark"), (390, "light")])
def test_no_rule_of_axe_is_broken_in_reviews(
    shown: Served,
    browser: Browser,
    axe: str,
    width: int,
    scheme: str,
    tmp_path: Path,
) -> None:
    number, bare = with_bare_note(shown, shown.member("Boss", "coordinator"), tmp_path)
    assert number == 2
    ann, bob = shown.member("Ann", "coder reviewer"), shown.member("Bob", "coder")
    ann.send("/alterations/1/mark", at=0, mark="wrong", entry="a")
    for member, first in ((ann, "reject"), (bob, "accept")):
        for place in range(5):
            decide(member, 1, place, first if place == 0 else "accept")
    ann.send("/evidence/1/add", note=0, first="was seen", code="Z03", entry="n")
    viewport = {"width": width, "height": 844}
    context = context_of(browser, viewport=viewport, color_scheme=scheme, bypass_csp=True, reduced_motion="reduce")
    page = enter(shown, context, "Cleo", "coordinator coder reviewer")
    page.goto(f"{shown.url}/evidence/1?at=0")
    press(page, "x", "Why?")
    page.fill("#first", "fever")
    page.fill("#add-code", "R50.8")
    page.click("text=Add the span")
    page.wait_for_selector("#asked:has-text('R50.8')")
    found: dict[str, list[str]] = {}
    for path in (each.format(bare=bare) for each in PAGES):
        page.goto(f"{shown.url}{path}")
        assert page.locator("h1").count(), path
        page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
        page.evaluate(axe)
        found[path] = page.evaluate(AXE)
        if page.evaluate("document.documentElement.scrollWidth") > width:
            found[path].append("wider than the screen")
    assert {path: broken for path, broken in found.items() if broken} == {}
    assert page.evaluate("window.intruded") is None
    context.close()
