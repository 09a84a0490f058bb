"""The workbench in Debian's Chromium through Playwright: a real server, real SQLite, people with keyboards."""

from __future__ import annotations

import asyncio
import csv
import io
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import palpate
from palpate.stats import kendall_w, krippendorff_alpha
from tests.e2e.command_line import CommandLine
from tests.report.browser import find_chromium
from tests.stats.paper_words import WORDS as PAPER

from .conftest import make_project
from .server import Served

playwright = pytest.importorskip("playwright.sync_api")
from playwright.async_api import Page as AsyncPage  # noqa: E402
from playwright.async_api import async_playwright  # noqa: E402
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright  # noqa: E402

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_chromium() is None, reason="chromium is not installed"),
]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
WORDS = tuple(word for word, *_ in PAPER)
NOTE = "63 year old man with cough and sepsis. He is stable."
AXE = """axe.run(document, {resultTypes: ["violations"]}).then(r =>
  r.violations.map(v => `${v.id}: ${v.nodes.length}, ${v.nodes[0].html.slice(0, 160)}`))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def command_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return CommandLine(capsys, monkeypatch)


@pytest.fixture
def shown(project: Path, tmp_path: Path) -> Iterator[Served]:
    """A workbench that may show notes."""
    options = {"folder": tmp_path / "bench", "config": project / "audit.yaml", "show_notes": True}
    with Served(project / "run", **options) as started:
        yield started


def enter(served: Served, context: BrowserContext, name: str, roles: str) -> Page:
    """A person opens their link."""
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.problems = []  # type: ignore[attr-defined]
    page.on("console", lambda said: page.problems.append(said.text) if said.type in ("error", "warning") else None)  # type: ignore[attr-defined]
    page.on("pageerror", lambda error: page.problems.append(str(error)))  # type: ignore[attr-defined]
    page.goto(f"{served.url}/enter#{served.token(name, roles)}")
    page.wait_for_url(f"{served.url}/")
    return page


def make_sheet(page: Page, served: Served, words: tuple[str, ...]) -> int:
    """The coordinator makes a sheet of a list of words."""
    page.goto(f"{served.url}/words")
    page.fill("#title", "Words and readmission")
    page.check("input[value=list]")
    page.fill("#words", "\n".join(words))
    page.click("button:has-text('Make a sheet')")
    page.wait_for_url("**/progress")
    return int(page.url.split("/")[-2])


async def rate_by_keys(page: AsyncPage, url: str, sheet: int, scores: dict[str, int]) -> None:
    """Rate every word with the number keys alone."""
    await page.goto(f"{url}/words/{sheet}")
    for done in range(len(scores)):
        word = await page.inner_text("#word")
        await page.keyboard.press(str(scores[word]))
        await page.wait_for_selector(f"#rate:has-text('{done + 1} of {len(scores)} rated')", timeout=60_000)


async def all_rate(served: Served, sheet: int, ratings: dict[str, dict[str, int]], tokens: dict[str, str]) -> None:
    """All raters at once, each in a browser context of their own."""
    async with async_playwright() as driver:
        started = await driver.chromium.launch(executable_path=find_chromium(), args=FLAGS)

        async def one(name: str) -> None:
            page = await (await started.new_context()).new_page()
            page.set_default_timeout(60_000)
            await page.goto(f"{served.url}/enter#{tokens[name]}")
            await page.wait_for_url(f"{served.url}/")
            await rate_by_keys(page, served.url, sheet, ratings[name])

        await asyncio.gather(*(one(name) for name in ratings))
        await started.close()


def rho(run: Path) -> list[tuple[str, float]]:
    rows = pl.read_parquet(run / "results" / "vocabulary.parquet").filter(
        pl.col("metric") == "clinician_agreement", pl.col("reference").is_null()
    )
    return list(zip(rows["model"], rows["value"], strict=True))


def test_three_raters_rate_49_words_at_once_and_the_audit_takes_them(tmp_path: Path, command_line: CommandLine) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    make_project(folder, words=WORDS)
    rng = np.random.default_rng(3)
    truth = rng.integers(1, 6, len(WORDS))
    ratings = {
        name: {word: int(np.clip(score + rng.integers(-1, 2), 1, 5)) for word, score in zip(WORDS, truth, strict=True)}
        for name in ("Dr. A", "Dr. B", "Dr. C")
    }
    with Served(folder / "run", folder=tmp_path / "bench", config=folder / "audit.yaml") as served:
        tokens = {name: served.token(name, "rater") for name in ratings}
        boss = served.member("Boss", "coordinator")
        boss.send("/words", title="Words", source="run", run="project-run")
        asyncio.run(all_rate(served, 1, ratings, tokens))
        page = boss.get("/words/1/progress").text
        table = np.asarray([[ratings[name][word] for word in WORDS] for name in ratings], dtype=float)
        assert f'<dd id="alpha">{krippendorff_alpha(table, level="ordinal"):.3f}</dd>' in page
        assert f'<dd id="w">{kendall_w(table):.3f}</dd>' in page
        exported = boss.get("/words/1/ratings.csv").content
        rows = {row["word"]: row for row in csv.DictReader(io.StringIO(exported.decode("utf-8-sig")))}
        assert {(name, word): int(rows[word][name]) for name in ratings for word in WORDS} == {
            (name, word): score for name in ratings for word, score in ratings[name].items()
        }
        boss.send("/words/1/audit")
        (folder / "ratings.csv").write_bytes(exported)
        words = ["audit", folder / "audit.yaml", "--out", folder / "by-hand", "--only", "vocabulary"]
        ran = command_line(*words, "--set", "vocabulary.raters=ratings.csv")
        assert ran.code == 0, ran.err
        deadline = time.monotonic() + 240
        while "The audit has ended" not in (page := boss.get("/words/1/progress").text):
            assert "The audit failed" not in page
            assert time.monotonic() < deadline
            time.sleep(0.3)
        here = rho(tmp_path / "bench" / "runs" / "vocabulary-1")
    assert here == rho(folder / "by-hand")
    assert dict(here)["lr"] is not None
    audited = pl.read_parquet(folder / "by-hand" / "results" / "vocabulary.parquet")
    assert audited.filter(metric="krippendorff_alpha")["value"].item() == pytest.approx(
        krippendorff_alpha(table, level="ordinal")
    )


def test_what_if_equals_the_models_own_answer(shown: Served, project: Path, browser: Browser) -> None:
    context = browser.new_context()
    page = enter(shown, context, "Ann", "viewer")
    page.goto(f"{shown.url}/whatif")
    page.fill("#note", NOTE)
    page.fill("#word", "sepsis")
    page.fill("#replacement", "a fall")
    page.select_option("#to", "gender=female")
    page.click("text=Ask the models")
    page.wait_for_selector("#answers table")
    seen = page.eval_on_selector_all("#answers [data-p]", "cells => cells.map(c => Number(c.dataset.p))")
    changed = "63 year old woman with cough and a fall. She is stable."
    wanted: list[float] = []
    for name in ("lr", "small"):
        wanted += palpate.load_model(f"palpate:{project}/models/{name}").predict([NOTE, changed]).ravel().tolist()
    assert seen == wanted
    assert page.inner_text("#answers ins >> nth=0") == "woman"
    page.fill("#sentence", "unicorn")
    page.click("text=Ask the models")
    page.wait_for_selector("form .problem:has-text('no sentence of the note has these words')")
    assert page.input_value("#note") == NOTE  # nothing that was written is lost
    page.problems.clear()  # type: ignore[attr-defined]  # the browser notes that something was refused
    assert page.problems == []  # type: ignore[attr-defined]
    context.close()


CUT = """() => [...document.querySelectorAll("#answers tbody :is(th, td)")].filter((cell) => {
  const box = cell.getBoundingClientRect();
  const around = cell.closest(".scroller").getBoundingClientRect();
  return box.width === 0 || box.left < around.left - 1 || box.right > Math.min(around.right, innerWidth) + 1;
}).map((cell) => cell.textContent)"""
PAGES = (
    *("/", "/runs", "/runs/of/{run}", "/runs/compare?run={run}", "/runs/history", "/people", "/people/log"),
    *("/words", "/words/1", "/words/1/list", "/words/1/progress", "/whatif?case=c2", "/whatif/templates"),
)


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_no_rule_of_axe_is_broken(
    shown: Served, project: Path, browser: Browser, axe: str, width: int, scheme: str
) -> None:
    # axe is put into the page from outside, which the page's own policy forbids.
    context = browser.new_context(
        viewport={"width": width, "height": 844}, color_scheme=scheme, bypass_csp=True, reduced_motion="reduce"
    )
    page = enter(shown, context, "Ann", "coordinator viewer rater")
    make_sheet(page, shown, ("fever", "sepsis", "cough"))
    found: dict[str, list[str]] = {}
    for path in PAGES:
        page.goto(f"{shown.url}{path.format(run=f'{project.name}-run')}")
        if path.startswith("/whatif?"):
            page.fill("#word", "man")
            page.fill("#replacement", "person")
            page.click("text=Ask the models")
            page.wait_for_selector("#answers table")
            assert page.evaluate(CUT) == [], "every number is seen without scrolling to the side"
        if path == "/whatif/templates":
            page.click("text=Fill in and ask")
            page.wait_for_selector("#filled table")
        page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
        page.evaluate(axe)
        broken = page.evaluate(AXE)
        if page.evaluate("document.documentElement.scrollWidth") > width:
            broken.append("wider than the screen")
        found[path] = broken
    page.context.clear_cookies()
    page.goto(f"{shown.url}/enter")
    page.evaluate(axe)
    found["/enter"] = page.evaluate(AXE)
    assert {path: broken for path, broken in found.items() if broken} == {}
    context.close()


def test_long_names_and_titles_do_not_widen_a_small_screen(shown: Served, project: Path, browser: Browser) -> None:
    name, title = "N" * 60, "T" * 120
    context = browser.new_context(viewport={"width": 390, "height": 844})
    member = shown.member(name, "coordinator viewer rater reviewer coder")
    assert member.send("/words", title=title, words="fever\ncough", instruction="I" * 120).status_code == 200
    member.send("/words/1/rate", at="0", score="3", entry="e")
    member.send("/whatif/keep", title=title, note=NOTE, changed="")
    page = enter(shown, context, name, "coordinator viewer rater reviewer coder")
    widths = {}
    for path in (*PAGES, "/evidence", "/alterations", "/whatif"):
        page.goto(f"{shown.url}{path.format(run=f'{project.name}-run')}")
        page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
        widths[path] = page.evaluate("document.documentElement.scrollWidth")
    assert {path: width for path, width in widths.items() if width > 390} == {}
    context.close()


def test_a_rater_needs_no_mouse(shown: Served, browser: Browser) -> None:
    context = browser.new_context()
    boss = enter(shown, context, "Boss", "coordinator")
    sheet = make_sheet(boss, shown, ("fever", "sepsis", "cough"))
    context.close()
    context = browser.new_context()
    page = enter(shown, context, "Ann", "rater")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.goto(f"{shown.url}/words/{sheet}")
    first = page.inner_text("#word")
    page.keyboard.press("4")
    page.wait_for_selector("#rate:has-text('1 of 3 rated')")
    assert page.evaluate("document.activeElement.id") == "word"
    page.wait_for_function("document.getElementById('said').textContent.startsWith('Saved.')")
    page.keyboard.press("u")
    page.wait_for_selector("#rate:has-text('0 of 3 rated')")
    assert page.inner_text("#word") == first
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**?at=1")
    page.goto(f"{shown.url}/words/{sheet}/list")
    page.focus(".ranked li:nth-child(3) input[name=to]")
    last = page.inner_text(".ranked li:nth-child(3) .word")
    page.keyboard.type("1")
    page.keyboard.press("Enter")
    page.wait_for_function("word => document.querySelector('.ranked .word').innerText === word", arg=last)
    focused = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert float(focused.removesuffix("px")) >= 2
    page.uncheck("#keys")
    page.goto(f"{shown.url}/words/{sheet}")
    before = shown.bench.store.read("SELECT max(id) AS last FROM words_entries")[0]["last"]
    page.keyboard.press("5")
    page.wait_for_timeout(300)
    assert shown.bench.store.read("SELECT max(id) AS last FROM words_entries")[0]["last"] == before  # keys are off
    context.close()


def test_without_a_script_everything_is_a_form(shown: Served, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{shown.url}/enter")
    page.fill("#token", shown.token("Ann", "coordinator rater viewer"))
    page.click("button:has-text('Sign in')")
    sheet = make_sheet(page, shown, ("fever", "sepsis"))
    page.goto(f"{shown.url}/words/{sheet}")
    page.click("button:text-is('5')")
    page.wait_for_selector("text=1 of 2 rated")
    page.click("text=Take back the last entry")
    page.wait_for_selector("text=0 of 2 rated")
    page.goto(f"{shown.url}/whatif")
    page.fill("#note", NOTE)
    page.click("text=Ask the models")
    page.wait_for_selector("#answers table")
    context.close()


def test_scripts_in_names_words_and_notes_do_not_run(shown: Served, browser: Browser) -> None:
    evil = "<img src=x onerror='window.intruded = true'><script>window.intruded = true</script>"
    context = browser.new_context()
    page = enter(shown, context, evil[:58], "coordinator rater viewer")
    sheet = make_sheet(page, shown, (evil, "fever"))
    for path in ("/people", f"/words/{sheet}", f"/words/{sheet}?at=1", f"/words/{sheet}/progress", "/people/log"):
        page.goto(f"{shown.url}{path}")
        assert page.evaluate("window.intruded") is None
    page.goto(f"{shown.url}/whatif")
    page.fill("#note", f"fever {evil}")
    page.fill("#word", "fever")
    page.fill("#replacement", evil)
    page.click("text=Ask the models")
    page.wait_for_selector("#answers table")
    assert page.evaluate("window.intruded") is None
    # Not even what got into a page could run or be loaded: the policy stops it.
    page.evaluate("document.body.append(Object.assign(document.createElement('img'), {src: 'http://evil.example/x'}))")
    page.wait_for_timeout(200)
    assert any("Content Security Policy" in problem for problem in page.problems)  # type: ignore[attr-defined]
    context.close()


def test_nothing_stays_in_the_browser(shown: Served, browser: Browser) -> None:
    context = browser.new_context()
    page = enter(shown, context, "Ann", "viewer")
    page.goto(f"{shown.url}/whatif?case=c2")
    assert "secretnote2" in page.input_value("#note")
    page.click("text=Sign out")
    page.wait_for_url("**/enter")
    page.go_back()
    page.wait_for_load_state()
    assert "secretnote" not in page.content()
    assert context.cookies() == []
    context.close()


def test_the_report_is_inside_and_draws_its_charts(shown: Served, project: Path, browser: Browser) -> None:
    context = browser.new_context()
    page = enter(shown, context, "Ann", "viewer")
    page.goto(f"{shown.url}/runs/of/{project.name}-run")
    frame = page.frame_locator("iframe.report")
    frame.locator("[data-chart] .live svg.marks").first.wait_for()
    assert frame.locator("h1").inner_text() == "<b>Fever</b> & falls"
    page.emulate_media(media="print")
    assert not page.locator(".top nav").is_visible()
    assert page.problems == []  # type: ignore[attr-defined]
    context.close()
