"""Keys that come faster than the answers: each is about the word, note or span that its person has come to by then."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from palpate.workbench.words import ratings
from tests.report.browser import find_chromium

from .server import Served
from .test_evidence import imported, run

playwright = pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Browser, Route  # noqa: E402

from .test_in_browser import browser, enter  # noqa: E402

__all__ = ["browser", "run"]  # fixtures
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_chromium() is None, reason="chromium is not installed"),
]
WORDS = ("fever", "cough", "sepsis", "fall", "pain", "sleep", "walks", "aspirin", "home", "stable")


@pytest.fixture
def shown(run: Path, tmp_path: Path) -> Iterator[Served]:
    """A workbench with a sheet, altered notes and a chart."""
    notes = [f"{40 + k} year old man. He is home." for k in range(6)]
    pl.DataFrame({"text": notes}).write_csv(tmp_path / "notes.csv")
    with Served(run, folder=tmp_path / "bench", cohort=tmp_path / "notes.csv", show_notes=True) as served:
        boss = served.member("Boss", "coordinator")
        assert boss.send("/words", title="Words", source="list", words="\n".join(WORDS)).status_code == 200
        assert boss.send("/alterations", to="gender=female", n=4, seed=0).status_code == 200
        assert imported(boss, tmp_path) == 1
        yield served


def slowly(route: Route) -> None:
    time.sleep(0.15)
    route.continue_()


def entered(served: Served, table: str, first: str, second: str) -> list[tuple[Any, Any]]:
    rows = served.bench.store.read(f"SELECT {first}, {second} FROM {table}_entries WHERE undone = 0 ORDER BY id")
    return [(row[0], row[1]) for row in rows]


@pytest.mark.parametrize("wait", [0, 60])
def test_every_key_rates_the_word_that_comes_next(shown: Served, browser: Browser, wait: int) -> None:
    context = browser.new_context()
    page = enter(shown, context, "Ann", "rater")
    page.set_default_timeout(20_000)
    sheet = ratings.sheet_of(shown.bench.store, 1)
    me = next(each.id for each in shown.bench.register.everybody() if each.name == "Ann")
    assert sheet is not None
    order = ratings.own_order(sheet, me)
    page.goto(f"{shown.url}/words/1")
    keys = "3452134521"
    for key in keys:
        page.keyboard.press(key)
        page.wait_for_timeout(wait)
    page.wait_for_selector("#rate:has-text('10 of 10 rated')")
    expected = [(place, float(key)) for place, key in zip(order, keys, strict=True)]
    assert entered(shown, "words", "place", "score") == expected
    assert page.problems == []  # type: ignore[attr-defined]
    context.close()


def test_keys_are_taken_in_order_with_taking_back_and_reasons(shown: Served, browser: Browser) -> None:
    context = browser.new_context()
    page = enter(shown, context, "Ann", "rater,reviewer,coder")
    page.set_default_timeout(20_000)
    page.route("**/mark", slowly)
    page.route("**/decide", slowly)
    page.goto(f"{shown.url}/words/1")
    for key in ("3", "4", "u", "5"):
        page.keyboard.press(key)
    page.wait_for_selector("#rate:has-text('2 of 10 rated')")
    page.wait_for_timeout(500)
    assert [score for _, score in entered(shown, "words", "place", "score")] == [3.0, 5.0]
    page.goto(f"{shown.url}/alterations/1")
    for key in ("r", "w", "2", "u", "e", *"run on", "Enter", "r"):
        page.keyboard.press("Space" if key == " " else key)
    page.wait_for_selector("#review:has-text('3 of 4 marked')")
    page.wait_for_selector("#note:has-text('Note 4 of 4')")
    assert entered(shown, "alterations", "place", "mark")[:4] == [
        (0, "right"),
        (1, "wrong"),
        (1, "wrong"),
        (2, "unsure"),
    ]
    reasons = dict(entered(shown, "alterations", "place", "reason"))
    assert reasons[1] == shown.bench.texts("alterations.why.somebody")
    assert reasons[2] == "run on"
    page.goto(f"{shown.url}/evidence/1")
    for key in ("a", "x", "4", "a"):
        page.keyboard.press(key)
    page.wait_for_selector("#review:has-text('3 of 5 decided')")
    assert entered(shown, "evidence", "place", "decision") == [
        (0, "accept"),
        (1, "reject"),
        (1, "reject"),
        (2, "accept"),
    ]
    context.close()


def test_a_second_click_and_a_key_after_an_arrow_change_nothing(shown: Served, browser: Browser) -> None:
    context = browser.new_context()
    page = enter(shown, context, "Ann", "rater")
    page.set_default_timeout(20_000)
    page.route("**/rate", slowly)
    page.goto(f"{shown.url}/words/1")
    page.evaluate("for (const k of [2, 5]) document.querySelector(`button[value='${k}']`).click()")
    page.wait_for_selector("#rate:has-text('1 of 10 rated')")
    page.wait_for_timeout(500)
    assert [score for _, score in entered(shown, "words", "place", "score")] == [2.0]
    page.evaluate(
        "for (const key of ['ArrowRight', '5'])"
        " document.body.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}))"
    )
    page.wait_for_url("**?at=*")
    page.wait_for_timeout(300)
    assert len(entered(shown, "words", "place", "score")) == 1
    page.goto(f"{shown.url}/words/1/list")
    last = page.inner_text(".ranked li:last-child .word")
    page.evaluate("for (let k = 0; k < 3; k += 1) document.querySelector('.ranked li:last-child [value=up]').click()")
    page.wait_for_function(
        "word => document.querySelectorAll('.ranked .word')[6].innerText === word", arg=last, timeout=20_000
    )
    context.close()
