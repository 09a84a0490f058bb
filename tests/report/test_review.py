"""The page on which altered notes are marked: what it holds, and how it works in a browser."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.audits.characteristics.review import error_rate
from palpate.cases.edits import Edit, splice
from palpate.data.annotations.reviews import read_review
from palpate.report.review import ReviewPage, note_parts, render_review
from palpate.stats import wilson_interval

from .browser import Browser, Page, find_chromium

HOSTILE = '</script><script>alert(1)</script><img src=x onerror=alert(2)> & "quoted"'
in_browser = pytest.mark.skipif(find_chromium() is None, reason="chromium is not installed")


def page_of(n: int) -> ReviewPage:
    long = "Unchanged. " * 200
    notes = [f"Mr. A is note {k}. {HOSTILE} {long} He is well." for k in range(n)]
    edits = [(Edit(0, 2, "Ms"), Edit(note.index("He is"), note.index("He is") + 2, "She")) for note in notes]
    saved = {
        "palpate_review": 1,
        "to": {"gender": "female"},
        "cohort": HOSTILE,
        "palpate": "0",
        "sample": f"test{time.time_ns()}",
        "reviewer": "",
        "marks": [{"note": k + 1, "altered": "00", "mark": ""} for k in range(n)],
    }
    parts = [note_parts(note, each) for note, each in zip(notes, edits, strict=True)]
    return ReviewPage(f"Notes {HOSTILE}", parts, [HOSTILE], saved, "review.json")


@given(st.text(max_size=3000), st.data())
def test_the_parts_are_the_note_and_the_altered_note(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    spans = list(zip(cuts[::2], cuts[1::2], strict=False))
    edits = [Edit(start, end, data.draw(st.text(max_size=5))) for start, end in spans]
    parts = note_parts(text, edits)
    unchanged = ("same", "folded")
    assert "".join(part.text for part in parts if part.kind in (*unchanged, "removed")) == text
    assert "".join(part.text for part in parts if part.kind in (*unchanged, "added")) == splice(text, edits)


def test_long_unchanged_text_is_folded_and_the_rest_is_open() -> None:
    parts = note_parts("a" * 2000 + "He" + "b" * 2000, [Edit(2000, 2002, "She")])
    assert [(part.kind, len(part.text)) for part in parts] == [
        ("folded", 1840),
        ("same", 160),
        ("removed", 2),
        ("added", 3),
        ("same", 160),
        ("folded", 1840),
    ]
    assert [part.kind for part in note_parts("He is well.", [Edit(0, 2, "She")])] == ["removed", "added", "same"]


def test_everything_is_escaped_and_the_page_says_that_it_holds_text() -> None:
    html = render_review(page_of(2))
    assert "contains text from patients" in html
    assert "<img" not in html
    assert html.count("<script") == html.count("</script>") == 2
    assert "default-src 'none'" in unescape(html)
    assert "http://" not in html
    assert "https://" not in html


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as started:
        yield started


def press(page: Page, *keys: str) -> None:
    for key in keys:
        text = {"text": key} if len(key) == 1 else {}
        page.send("Input.dispatchKeyEvent", {"type": "keyDown", "key": key, **text})
        page.send("Input.dispatchKeyEvent", {"type": "keyUp", "key": key})


def tally(page: Page) -> str:
    return str(page.evaluate("document.getElementById('tally').textContent"))


@pytest.mark.browser
@in_browser
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_it_opens_clean_and_fits(browser: Browser, tmp_path: Path, width: int, dark: bool) -> None:
    (tmp_path / "review.html").write_text(render_review(page_of(3)), encoding="utf-8")
    page = browser.open(tmp_path / "review.html", width=width, height=844, dark=dark)
    assert page.console_errors == []
    assert page.requests == [(tmp_path / "review.html").as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.browser
@in_browser
def test_marks_by_key_and_button_are_counted_and_saved(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "review.html").write_text(render_review(page_of(6)), encoding="utf-8")
    page = browser.open(tmp_path / "review.html")
    assert tally(page) == "Nothing is marked yet."
    press(page, "j", "r", "w", "r", "Backspace", "r", "u")
    page.evaluate("document.querySelector('#note-1 [data-mark=wrong]').click()")
    # Note 1 was marked right and then wrong; 2 wrong, 3 right, 4 was taken back and marked right, 5 unsure.
    assert page.evaluate("[...document.querySelectorAll('.note')].map(n => n.dataset.mark)") == [
        "wrong",
        "wrong",
        "right",
        "right",
        "unsure",
        "",
    ]
    assert tally(page).startswith("2 of 4 wrong: 50.0% (95% interval ")
    assert tally(page).endswith("1 unsure, 1 not marked")
    press(page, "k", "o")
    assert page.evaluate("document.querySelectorAll('.note.here details[open]').length") > 0
    page.evaluate("document.getElementById('reviewer').value = 'AB'")
    browser.send("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    press(page, "s")
    saved = tmp_path / "review.json"
    deadline = time.monotonic() + 20
    while not saved.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert HOSTILE[:20] not in json.dumps(json.loads(saved.read_text())["marks"])
    assert "note 3" not in saved.read_text()  # no text of a note
    review = read_review(saved)
    assert (review.right, review.wrong, review.unsure, review.unmarked, review.reviewer) == (2, 2, 1, 1, "AB")
    rate, low, high = error_rate(review)
    assert tally(page).startswith(f"2 of 4 wrong: {rate:.1%} (95% interval {low:.1%} to {high:.1%})")
    again = browser.open(tmp_path / "review.html")  # marks survive a reload
    assert tally(again) == tally(page)


@pytest.mark.browser
@in_browser
def test_the_interval_on_the_page_is_wilsons(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "review.html").write_text(render_review(page_of(7)), encoding="utf-8")
    page = browser.open(tmp_path / "review.html")
    press(page, "j")
    for n in range(1, 8):
        press(page, "w" if n in (3, 4) else "r")
        wrong = sum(k <= n for k in (3, 4))
        low, high = (float(end) for end in wilson_interval(wrong / n, n))
        assert f"{wrong} of {n} wrong: {wrong / n:.1%} (95% interval {low:.1%} to {high:.1%})" in tally(page)
