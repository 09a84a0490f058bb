"""Rating words: through the pages' forms, to the sheet that the audit reads, and to the audit's own numbers."""

from __future__ import annotations

import io
import re
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from palpate.commands.audit import audit
from palpate.data.lexicons import read_ratings
from palpate.stats import kendall_w, krippendorff_alpha
from palpate.workbench.people import Person
from palpate.workbench.store import BenchStore
from palpate.workbench.words import ratings
from palpate.workbench.words.ratings import WordSheet

from .conftest import WORDS
from .server import Member, Served


def made(served: Served, words: tuple[str, ...] = WORDS) -> int:
    return ratings.make_sheet(served.bench.store, "Fever", "Rate.", words)


def person(served: Served, name: str) -> Person:
    return next(each for each in served.bench.register.everybody() if each.name == name)


def rate(member: Member, served: Served, sheet: int, name: str, word: str, score: int, entry: str = "") -> int:
    """Rate one word as the page does, where the word stands in the rater's own order."""
    found = ratings.sheet_of(served.bench.store, sheet)
    assert found is not None
    at = [found.words[place] for place in ratings.own_order(found, person(served, name).id)].index(word)
    entry = entry or f"{name}-{word}-{score}"
    return member.send(f"/words/{sheet}/rate", at=at, score=score, entry=entry).status_code


def test_a_sheet_is_made_from_a_run_a_file_and_a_list(served: Served, project: Path) -> None:
    boss = served.member("Boss", "coordinator")
    form = {"title": "One", "instruction": "", "source": "run", "run": f"{project.name}-run"}
    assert boss.send("/words", **form).status_code == 200
    assert boss.send("/words", **{**form, "source": "list", "words": "fever\ncough\n"}).status_code == 200
    files = {"file": ("sheet.csv", b"word,rater_1\nfever,\nheart failure,\n")}
    sent = boss.post("/words", data={"csrf": boss.csrf, "title": "File", "source": "file"}, files=files)
    assert sent.status_code == 200
    found = {sheet.id: sheet for sheet in ratings.sheets(served.bench.store)}
    assert set(found[1].words) == set(WORDS)
    assert found[2].words == ("fever", "cough")
    assert found[3].words == ("fever", "heart failure")
    assert "1 = it does not matter" in found[1].instruction
    for wrong in ({"words": "fever\nFever"}, {"words": "fever"}, {"words": ""}, {"title": " ", "words": "a\nb"}):
        assert boss.send("/words", **{**form, "source": "list", **wrong}).status_code == 400
    assert boss.send("/words", **{**form, "run": "../../etc"}).status_code == 400


def test_the_scale_and_the_instruction_are_those_of_the_sheet(served: Served) -> None:
    boss, ann, store = served.member("Boss", "coordinator"), served.member("Ann", "rater"), served.bench.store
    form = {"title": "Seven", "source": "list", "words": "\n".join(WORDS), "low": 0, "high": 10}
    assert boss.send("/words", **form).status_code == 200
    page = ann.get("/words/1").text
    assert "0 = it does not matter, 10 = it matters most" in page
    assert [f'value="{k}"' in page for k in (0, 10, 11)] == [True, True, False]
    assert 'value="10" data-key="t"' in page
    for score, code in ((10, 200), (0, 200), (11, 400), (-1, 400)):
        assert rate(ann, served, 1, "Ann", "fever", score) == code
    assert ratings.scores_of(store, 1, person(served, "Ann").id) == {0: 0.0}
    ann.send("/words/1/move", place=4, how="to", to=1, entry="a")
    assert sorted(ratings.scores_of(store, 1, person(served, "Ann").id).values()) == pytest.approx(
        np.linspace(0, 10, len(WORDS)), abs=1e-6
    )
    content = boss.get("/words/1/ratings.csv").content
    told = ratings.sheet_of(store, 1).instruction.encode()  # type: ignore[union-attr]
    assert content.count(told) == 1
    sent = {"file": ("sheet.csv", content.replace(told, b"Say."))}
    assert boss.post("/words", data={"csrf": boss.csrf, "title": "F", "source": "file"}, files=sent).status_code == 200
    again = ratings.sheet_of(store, 2)
    assert again is not None
    assert (again.low, again.high, again.instruction, again.words) == (0, 10, "Say.", WORDS)
    for wrong in ((5, 5), (5, 1), (0, 11), (90, 101), ("x", 5), (-1, 5)):
        assert boss.send("/words", **{**form, "low": wrong[0], "high": wrong[1]}).status_code == 400
    half = {"file": ("sheet.csv", b"word,a,scale\nfever,,0.5 to 2\ncough,,\n")}
    assert boss.post("/words", data={"csrf": boss.csrf, "title": "F", "source": "file"}, files=half).status_code == 400


@pytest.mark.parametrize("scale", [(1, 5), (0, 10)])
def test_an_exported_sheet_comes_back_with_its_instruction_and_scale(served: Served, scale: tuple[int, int]) -> None:
    boss, ann, store = served.member("Boss", "coordinator"), served.member("Ann", "rater"), served.bench.store
    told = '=Rate, please: "how much"; 1 is not at all.'
    form = {"title": "One", "source": "list", "words": "\n".join(WORDS), "instruction": told}
    assert boss.send("/words", **form, low=scale[0], high=scale[1]).status_code == 200
    assert rate(ann, served, 1, "Ann", "fever", scale[1]) == 200
    sent = {"file": ("sheet.csv", boss.get("/words/1/ratings.csv").content)}
    given = {"csrf": boss.csrf, "title": "Two", "source": "file", "low": "2", "high": "4"}
    assert boss.post("/words", data=given, files=sent).status_code == 200
    first, again = ratings.sheet_of(store, 1), ratings.sheet_of(store, 2)
    assert first is not None
    assert again is not None
    assert first.instruction == told
    assert again == first._replace(id=2, title="Two")


def started(served: Served, sheet: int, folder: str, state: str) -> None:
    sql = "INSERT INTO jobs_started (audit, about, folder, state) VALUES ('vocabulary', ?, ?, ?)"
    served.bench.store.write(lambda db: db.execute(sql, (sheet, folder, state)) and None)


def test_a_sheet_leads_to_its_audit_after_a_restart(project: Path, tmp_path: Path) -> None:
    options = {"folder": tmp_path / "bench", "config": project / "audit.yaml"}
    with Served(project / "run", **options) as served:
        for _ in range(4):
            made(served)
        for number, state in ((1, "done"), (2, "running"), (3, "running"), (4, "done")):
            started(served, number, f"vocabulary-{number}", state)
        for number in (1, 3):  # the process outlived the workbench, or not
            shutil.copytree(project / "run", tmp_path / "bench" / "runs" / f"vocabulary-{number}")
    with Served(project / "run", **options) as served:
        boss = served.member("Boss", "coordinator")
        pages = {number: boss.get(f"/words/{number}/progress").text for number in range(1, 5)}
        for number in (1, 3):
            assert f'The audit has ended: <a href="/runs/of/vocabulary-{number}">' in pages[number]
            assert boss.get(f"/runs/of/vocabulary-{number}").status_code == 200
        assert "It was stopped with the workbench" in pages[2]
        assert "Its run is not there any more" in pages[4]
        assert "The audit has" not in boss.get(f"/words/{made(served)}/progress").text


def test_entries_of_an_earlier_palpate_are_1_to_5(tmp_path: Path) -> None:
    old = ratings.SCHEMA.replace(", low INTEGER NOT NULL DEFAULT 1, high INTEGER NOT NULL DEFAULT 5", "")
    assert old != ratings.SCHEMA
    BenchStore(tmp_path / "e.sqlite", [old]).close()
    for _ in range(2):
        store = BenchStore(tmp_path / "e.sqlite", [ratings.SCHEMA], later=ratings.LATER)
        store.write(
            lambda db: db.execute("INSERT INTO words_sheets (title, instruction, made) VALUES ('t', '', 0)").rowcount
        )
        sheet = ratings.sheet_of(store, 1)
        assert sheet is not None
        assert (sheet.low, sheet.high) == (1, 5)
        store.close()


def test_scores_are_kept_changed_and_taken_back(served: Served) -> None:
    ann, sheet = served.member("Ann", "rater"), made(served)
    store, me = served.bench.store, person(served, "Ann").id
    assert rate(ann, served, sheet, "Ann", "fever", 5) == 200
    assert rate(ann, served, sheet, "Ann", "fever", 2) == 200
    assert ratings.scores_of(store, sheet, me) == {0: 2.0}
    ann.send(f"/words/{sheet}/undo")
    assert ratings.scores_of(store, sheet, me) == {0: 5.0}
    ann.send(f"/words/{sheet}/undo")
    assert ratings.scores_of(store, sheet, me) == {}
    assert "nothing to take back" in ann.send(f"/words/{sheet}/undo").text
    for form in ({"score": 6}, {"score": 0}, {"at": 99}, {"at": -1}, {"score": "x"}, {"entry": ""}):
        given = {"at": 0, "score": 3, "entry": "e", **form}
        assert ann.send(f"/words/{sheet}/rate", **given).status_code == 400
    assert ratings.scores_of(store, sheet, me) == {}


def test_a_form_that_is_sent_twice_counts_once(served: Served) -> None:
    ann, sheet = served.member("Ann", "rater"), made(served)
    for score, status in ((4, 200), (4, 200), (1, 409)):
        assert rate(ann, served, sheet, "Ann", "fever", score, entry="same") == status
    assert "sent already with a different answer" in ann.send(f"/words/{sheet}/rate", at=5, score=2, entry="same").text
    assert ratings.scores_of(served.bench.store, sheet, person(served, "Ann").id) == {0: 4.0}
    assert len(served.bench.store.read("SELECT * FROM words_entries")) == 1


def test_a_move_that_is_sent_twice_counts_once(served: Served) -> None:
    ann, sheet = served.member("Ann", "rater"), made(served)
    store, me = served.bench.store, person(served, "Ann").id
    listed = ratings.sheet_of(store, sheet)
    assert listed is not None
    first = ratings.ranking(listed, me, {})
    for how, status in (("up", 200), ("up", 200), ("down", 409)):
        assert ann.send(f"/words/{sheet}/move", place=first[5], how=how, entry="same").status_code == status
    assert ratings.ranking(listed, me, ratings.scores_of(store, sheet, me)).index(first[5]) == 4


def test_moves_at_once_are_all_kept(served: Served) -> None:
    ann, sheet = served.member("Ann", "rater"), made(served)
    store, me = served.bench.store, person(served, "Ann").id
    listed = ratings.sheet_of(store, sheet)
    assert listed is not None
    moved = ratings.ranking(listed, me, {})[4:]

    def move(place: int) -> int:
        form = {"csrf": ann.csrf, "place": place, "how": "to", "to": 1, "entry": f"m{place}"}
        return ann.post(f"/words/{sheet}/move", data=form).status_code

    with ThreadPoolExecutor(6) as several:
        assert set(several.map(move, moved)) == {200}
    assert set(ratings.ranking(listed, me, ratings.scores_of(store, sheet, me))[: len(moved)]) == set(moved)


def test_the_list_says_what_the_first_move_does(served: Served) -> None:
    ann, sheet = served.member("Ann", "rater"), made(served)
    assert "Nothing is ranked yet" in ann.get(f"/words/{sheet}/list").text
    for word, score in (("sepsis", 5), ("fall", 4), ("aspirin", 1)):
        assert rate(ann, served, sheet, "Ann", word, score) == 200
    page = ann.get(f"/words/{sheet}/list").text
    assert re.findall(r'class="word">(\w+)<', page)[:3] == ["sepsis", "fall", "aspirin"]
    told = "Your first move replaces these scores"
    assert told in page
    assert "(3 of 10 words)" in page
    assert "Nothing is ranked yet" not in page
    for word in set(WORDS) - {"sepsis", "fall", "aspirin"}:
        rate(ann, served, sheet, "Ann", word, 3)
    assert told in ann.get(f"/words/{sheet}/list").text, "all words have a score, and none of them is of a ranking"
    page = ann.send(f"/words/{sheet}/move", place=4, how="down", entry="a").text
    assert told not in page
    assert "Nothing is ranked yet" not in page
    assert told in ann.send(f"/words/{sheet}/undo", where="list").text


def test_a_ranked_list_gives_evenly_spaced_scores(served: Served) -> None:
    ann, sheet = served.member("Ann", "rater"), made(served)
    store, me = served.bench.store, person(served, "Ann").id
    assert ann.send(f"/words/{sheet}/move", place=4, how="to", to=1, entry="a").status_code == 200
    scores = ratings.scores_of(store, sheet, me)
    assert scores[4] == 5.0
    assert sorted(scores.values()) == pytest.approx(np.linspace(1, 5, len(WORDS)), abs=1e-6)
    ann.send(f"/words/{sheet}/move", place=4, how="down", entry="b")
    listed = ratings.sheet_of(store, sheet)
    assert listed is not None
    assert ratings.ranking(listed, me, ratings.scores_of(store, sheet, me)).index(4) == 1
    ann.send(f"/words/{sheet}/undo", where="list")
    assert ratings.scores_of(store, sheet, me) == scores
    assert ann.send(f"/words/{sheet}/move", place=4, how="to", to=11, entry="c").status_code == 400


def test_raters_do_not_see_each_other(served: Served) -> None:
    ann, bob, sheet = served.member("Ann", "rater"), served.member("Bob", "rater"), made(served)
    for word in WORDS:
        rate(ann, served, sheet, "Ann", word, 5)
    page = bob.get(f"/words/{sheet}").text
    assert f"0 of {len(WORDS)} rated" in page
    assert 'aria-pressed="true"' not in page
    assert "Ann" not in page + bob.get("/words").text + bob.get(f"/words/{sheet}/list").text
    for path in ("progress", "ratings.csv"):
        answer = bob.get(f"/words/{sheet}/{path}")
        assert answer.status_code == 403
        assert "Ann" not in answer.text
    assert bob.send(f"/words/{sheet}/close").status_code == 403
    assert bob.send(f"/words/{sheet}/audit").status_code == 403
    boss = served.member("Boss", "coordinator")
    assert boss.get(f"/words/{sheet}").status_code == 403  # who coordinates does not rate, unless given the role
    assert boss.get("/words/99/progress").status_code == 404


def test_agreement_is_that_of_the_audit(served: Served) -> None:
    table = np.asarray([[5, 4, 5], [3, 3, 2], [1, 2, 1], [4, np.nan, 5], [2, 2, 3]], dtype=float)
    found = ratings.agreement(table)
    assert found.alpha == pytest.approx(krippendorff_alpha(table.T, level="ordinal"))
    assert found.w == pytest.approx(kendall_w(table[~np.isnan(table).any(axis=1)].T))
    assert (found.n_shared, found.n_complete, found.n_raters) == (5, 4, 3)
    assert ratings.agreement(table[:, :1]).alpha is None
    assert ratings.agreement(np.full((4, 0), np.nan)) == (None, None, 0, 0, 0)


def test_every_rater_has_an_order_of_their_own() -> None:
    sheet = WordSheet(1, "t", "i", False, tuple("abcdefghij"))
    orders = {tuple(ratings.own_order(sheet, person)) for person in range(8)}
    assert len(orders) == 8
    assert all(sorted(order) == list(range(10)) for order in orders)


@pytest.mark.slow
def test_the_sheet_goes_to_the_audit_and_the_audit_runs_from_here(served: Served, project: Path) -> None:
    sheet, boss = made(served), served.member("Boss", "coordinator")
    assert boss.get(f"/words/{sheet}/ratings.csv").status_code == 400  # nobody has rated yet
    for k, name in enumerate(("Ann", "=Bob")):
        member = served.member(name, "rater")
        for j, word in enumerate(WORDS):
            if (k, word) != (1, "fall"):
                rate(member, served, sheet, name, word, 1 + (j * (k + 2)) % 5)
    content = boss.get(f"/words/{sheet}/ratings.csv").content
    path = project / "exported.csv"
    path.write_bytes(content)
    read = read_ratings(path)
    assert read.raters == ("Ann", "=Bob")
    assert read.words == WORDS
    assert np.isnan(read.scores[WORDS.index("fall"), 1])
    boss.send(f"/words/{sheet}/audit")
    assert boss.send(f"/words/{sheet}/audit").status_code == 400  # one at a time
    deadline = time.monotonic() + 120
    while "The audit has ended" not in (page := boss.get(f"/words/{sheet}/progress").text):
        assert "The audit failed" not in page, page
        assert time.monotonic() < deadline
        time.sleep(0.2)
    other = made(served)
    assert "The audit" not in boss.get(f"/words/{other}/progress").text.replace("The audit can", "")
    run = served.options.home / "runs" / "vocabulary-1"
    by_hand = audit(
        project / "audit.yaml", out=project / "by-hand", only=["vocabulary"], overrides=[f"vocabulary.raters={path}"]
    ).run.path
    ours, theirs = (pl.read_parquet(each / "results" / "vocabulary.parquet") for each in (run, by_hand))
    assert ours.equals(theirs)
    assert ours.filter(metric="clinician_agreement")["value"].is_not_null().any()
    assert "vocabulary-1" in boss.get("/runs").text
    with Served(project / "run", folder=served.options.home, config=project / "audit.yaml") as again:
        page = again.member("Boss", "coordinator").get(f"/words/{sheet}/progress").text
        assert '<a href="/runs/of/vocabulary-1">' in page


def test_a_closed_sheet_takes_nothing(served: Served) -> None:
    ann, boss, sheet = served.member("Ann", "rater"), served.member("Boss", "coordinator"), made(served)
    assert 'name="close" value="1"' in boss.get(f"/words/{sheet}/progress").text
    for _ in range(2):
        page = boss.send(f"/words/{sheet}/close", close=1).text
    assert 'name="close" value="0"' in page
    assert rate(ann, served, sheet, "Ann", "fever", 5) == 400
    assert ann.send(f"/words/{sheet}/move", place=0, how="up", entry="a").status_code == 400
    assert ann.send(f"/words/{sheet}/undo").status_code == 400
    assert boss.send(f"/words/{sheet}/close").status_code == 400
    boss.send(f"/words/{sheet}/close", close=0)
    assert rate(ann, served, sheet, "Ann", "fever", 5) == 200


@pytest.mark.parametrize("show", [False, True])
def test_words_are_shown_in_notes_only_if_asked(project: Path, tmp_path: Path, show: bool) -> None:
    with Served(project / "run", folder=tmp_path / "bench", show_notes=show) as served:
        ann, sheet = served.member("Ann", "rater"), made(served, ("fever", "<script>x</script>"))
        pages = "".join(ann.get(f"/words/{sheet}?at={at}").text for at in (0, 1))
        assert ("secretnote" in pages) is show
        assert ("<mark>fever</mark>" in pages) is show
        assert "<script>x" not in pages
        assert "secretnote" not in served.logged()
        assert "fever" not in served.logged()


def test_what_is_written_and_read_again_is_the_same(tmp_path: Path) -> None:
    from palpate.data.lexicons import write_rating_sheet

    scores = np.asarray([[1.0, np.nan], [4.916667, 5.0]])
    write_rating_sheet(tmp_path / "s.csv", ["a b", "=c"], ["x", "y"], scores=scores)
    np.testing.assert_array_equal(read_ratings(tmp_path / "s.csv").scores, scores)
    frame = pl.read_csv(io.BytesIO((tmp_path / "s.csv").read_bytes()))
    assert frame["word"].to_list() == ["a b", "'=c"]
