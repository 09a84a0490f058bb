"""Reviewing alterations: through the pages' forms, to the stated interval, and to the same rate in the audit."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from palpate.commands.audit import audit
from palpate.commands.review import write_review
from palpate.data.annotations.reviews import read_review
from palpate.stats import wilson_interval
from palpate.workbench.alterations import marks
from palpate.workbench.alterations.marks import NoteMark
from palpate.workbench.pages import BenchProblem

from .server import Member, Served

CONFIG = """\
cohort: {file: notes.csv, labels: [ill]}
models: {lr: "palpate:models/lr"}
audits:
  characteristics: {alter: [gender], n_replicates: 100}
cache: scores.sqlite
"""


@pytest.fixture
def shown(project: Path, tmp_path: Path) -> Iterator[Served]:
    (project / "altered.yaml").write_text(CONFIG)
    options = {"config": project / "altered.yaml", "show_notes": True}
    with Served(project / "run", folder=tmp_path / "bench", **options) as started:
        yield started


def drawn(boss: Member, n: int = 10, to: str = "gender=female", seed: int = 3) -> int:
    answer = boss.send("/alterations", to=to, n=n, seed=seed)
    assert answer.status_code == 200, answer.text
    return int(str(answer.url.path).split("/")[2])


def mark(member: Member, sample: int, at: int, said: str, entry: str = "") -> int:
    entry = entry or f"{at}-{said}-{time.monotonic_ns()}"
    return member.send(f"/alterations/{sample}/mark", at=at, mark=said, entry=entry).status_code


def number(served: Served, name: str) -> int:
    return next(each.id for each in served.bench.register.everybody() if each.name == name)


def test_a_review_gives_the_stated_interval_and_the_same_rate_in_the_audit(shown: Served, project: Path) -> None:
    boss, ann = shown.member("Boss", "coordinator"), shown.member("Ann <b>", "reviewer")
    sample = drawn(boss)
    for at, said in enumerate(["right"] * 6 + ["wrong"] * 2 + ["unsure"]):
        assert mark(ann, sample, at, said) == 200
    for wrong in ("--5", "9" * 5_000):
        assert ann.get(f"/alterations/{sample}", params={"at": wrong}).status_code == 200
        assert ann.send(f"/alterations/{sample}/mark", at=wrong, mark="right", entry="e").status_code == 400
    low, high = wilson_interval(2 / 8, 8)
    stated = f"2 of 8 wrong: 25.0% (95% interval {100 * float(low):.1f}% to {100 * float(high):.1f}%)"
    assert stated in ann.get(f"/alterations/{sample}").text
    assert stated in boss.get(f"/alterations/{sample}/progress").text
    exported = boss.get(f"/alterations/{sample}/review/{number(shown, 'Ann <b>')}")
    assert "attachment" in exported.headers["content-disposition"]
    assert "secretnote" not in exported.text
    file = project / "exported-review.json"
    file.write_bytes(exported.content)
    read = read_review(file)
    assert (read.right, read.wrong, read.unsure, read.unmarked, read.reviewer) == (6, 2, 1, 1, "Ann <b>")
    asked = [f"characteristics.review={json.dumps([str(file)])}"]
    run = audit(project / "altered.yaml", out=project / "altered-by-hand", overrides=asked).run.path
    result = json.loads((run / "results" / "characteristics.json").read_text())
    assert result["provenance"]["reviews"][0]["error_rate"] == pytest.approx([0.25, float(low), float(high)])
    assert any("2 of 8 random alterations to gender=female wrong" in each["sentence"] for each in result["findings"])


def test_the_sample_is_that_of_the_command_line(shown: Served, project: Path, tmp_path: Path) -> None:
    sample = drawn(shown.member("Boss", "coordinator"), n=7, seed=5)
    kept = marks.samples(shown.bench.store, sample)[0]
    page = tmp_path / "review.html"
    write_review(page, project / "altered.yaml", ["gender=female"], n=7, seed=5)
    found = re.search(r'id="saved"[^>]*>(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    assert json.loads(found[1]) == kept.saved


@pytest.mark.slow
def test_the_audit_runs_from_the_page(shown: Served) -> None:
    boss, ann, bob = shown.member("Boss", "coordinator"), shown.member("Ann", "reviewer"), shown.member("B", "reviewer")
    sample = drawn(boss)
    assert boss.send(f"/alterations/{sample}/audit").status_code == 400  # nothing is marked
    mark(ann, sample, 0, "wrong")
    mark(bob, sample, 0, "right")
    boss.send(f"/alterations/{sample}/audit")
    deadline = time.monotonic() + 120
    while "The audit has ended" not in (page := boss.get(f"/alterations/{sample}/progress").text):
        assert "The audit failed" not in page, page
        assert time.monotonic() < deadline
        time.sleep(0.2)
    run = shown.options.home / "runs" / "characteristics-1"
    reviews = json.loads((run / "results" / "characteristics.json").read_text())["provenance"]["reviews"]
    assert [(each["right"], each["wrong"]) for each in reviews] == [(0, 1), (1, 0)]


def test_marks_reasons_and_taking_back(shown: Served) -> None:
    ann, sample = shown.member("Ann", "reviewer"), drawn(shown.member("Boss", "coordinator"))
    store, me = shown.bench.store, number(shown, "Ann")
    assert ann.send(f"/alterations/{sample}/reason", at=0, kind="own", reason="x", entry="e").status_code == 400
    page = ann.send(f"/alterations/{sample}/mark", at=0, mark="wrong", entry="a")
    assert page.url.params["at"] == "0"  # it stays, to ask why
    page = ann.send(f"/alterations/{sample}/reason", at=0, kind="somebody", entry="b")
    assert page.url.params["at"] == "1"
    ann.send(f"/alterations/{sample}/mark", at=1, mark="unsure", entry="c")
    ann.send(f"/alterations/{sample}/reason", at=1, kind="own", reason="  I can't\n tell ", entry="d")
    ann.send(f"/alterations/{sample}/mark", at=1, mark="unsure", entry="d")  # sent twice: counts once
    assert marks.marks_of(store, sample, me) == {
        0: NoteMark("wrong", "Words about somebody else changed"),
        1: NoteMark("unsure", "I can't tell"),
    }
    ann.send(f"/alterations/{sample}/undo")
    assert marks.marks_of(store, sample, me)[1] == NoteMark("unsure", "")
    for _ in range(3):
        ann.send(f"/alterations/{sample}/undo")
    assert marks.marks_of(store, sample, me) == {}
    assert "said=nothing" in str(ann.send(f"/alterations/{sample}/undo").url)


def test_another_mark_in_the_same_form_is_refused(shown: Served) -> None:
    ann, sample = shown.member("Ann", "reviewer"), drawn(shown.member("Boss", "coordinator"))
    for said, status in (("wrong", 200), ("wrong", 200), ("right", 409)):
        assert mark(ann, sample, 0, said, entry="same") == status
    assert mark(ann, sample, 1, "wrong", entry="same") == 409
    form = {"at": 0, "kind": "own", "entry": "samer"}
    for reason, status in (("", 200), ("", 200), ("because", 409)):
        assert ann.send(f"/alterations/{sample}/reason", reason=reason, **form).status_code == status
    ann.send(f"/alterations/{sample}/reason", reason="because", **{**form, "entry": "other"})
    assert mark(ann, sample, 0, "wrong", entry="same") == 200, "the same form, sent late"
    assert marks.marks_of(shown.bench.store, sample, number(shown, "Ann")) == {0: NoteMark("wrong", "because")}


def test_wrong_forms_are_refused(shown: Served) -> None:
    boss, ann = shown.member("Boss", "coordinator"), shown.member("Ann", "reviewer")
    sample = drawn(boss)
    for form in ({"at": 10}, {"at": -1}, {"mark": "maybe"}, {"mark": ""}, {"entry": ""}, {"entry": "x" * 65}):
        given = {"at": 0, "mark": "right", "entry": "e", **form}
        assert ann.send(f"/alterations/{sample}/mark", **given).status_code == 400
    mark(ann, sample, 0, "wrong")
    long = {"at": 0, "kind": "own", "entry": "l"}
    assert ann.send(f"/alterations/{sample}/reason", reason="x" * 501, **long).status_code == 400
    assert ann.send(f"/alterations/{sample}/reason", reason="x" * 20_000, **long).status_code == 413
    for form in ({"to": "gender"}, {"to": "gender=dragon"}, {"to": ""}, {"n": 0}, {"n": 1001}, {"seed": -1}):
        assert boss.send("/alterations", **{"to": "gender=male", "n": 5, "seed": 0, **form}).status_code == 400
    for to in ("", "gender", "gender=", "=male", "gender=male,"):
        said = boss.send("/alterations", to=to, n=5, seed=0).text
        assert "as characteristic=group, for example gender=female" in said
        assert "--" not in said.partition("<main")[2].partition("</main")[0]
    assert ann.get("/alterations/99").status_code == 404
    assert boss.get(f"/alterations/{sample}/review/999").status_code == 404
    assert boss.get(f"/alterations/{sample}/notes/10").status_code == 404


def test_reviewers_do_not_see_each_other_and_the_coordinator_sees_all(shown: Served) -> None:
    boss, ann, bob = (shown.member(*who) for who in (("Boss", "coordinator"), ("Ann", "reviewer"), ("Bob", "reviewer")))
    sample = drawn(boss)
    for at in range(4):
        mark(ann, sample, at, "wrong")
    ann.send(f"/alterations/{sample}/reason", at=3, kind="own", reason="<script>x</script> his", entry="z")
    page = bob.get(f"/alterations/{sample}").text + bob.get("/alterations").text
    assert "0 of 10 marked" in page
    assert "Ann" not in page
    assert "wrong:" not in page
    for path in ("progress", f"review/{number(shown, 'Ann')}", "notes/0"):
        answer = bob.get(f"/alterations/{sample}/{path}")
        assert answer.status_code == 403
        assert "Ann" not in answer.text
    for path in ("close", "audit"):
        assert bob.send(f"/alterations/{sample}/{path}").status_code == 403
    assert bob.send("/alterations", to="gender=male", n=3, seed=1).status_code == 403
    assert boss.get(f"/alterations/{sample}").status_code == 403  # who coordinates does not review
    mark(bob, sample, 0, "wrong")
    mark(bob, sample, 1, "right")
    told = boss.get(f"/alterations/{sample}/progress").text
    assert "&lt;script&gt;x&lt;/script&gt; his" in told
    assert "<script>x" not in told + boss.get(f"/alterations/{sample}/notes/3").text
    assert "4 of 4 wrong: 100.0%" in told
    given = list(marks.all_marks(shown.bench.store, sample).values())
    alpha, shared, same = marks.mark_agreement(marks.samples(shown.bench.store, sample)[0], given)
    assert (shared, same) == (2, 1)
    assert alpha == pytest.approx(0.0)
    assert "his" not in shown.logged()
    assert "secretnote" not in shown.logged()


@pytest.mark.parametrize("show", [False, True])
def test_notes_are_shown_only_if_asked_and_never_kept(project: Path, tmp_path: Path, show: bool) -> None:
    with Served(project / "run", folder=tmp_path / "bench", show_notes=show) as served:
        boss, ann = served.member("Boss", "coordinator"), served.member("Ann", "reviewer")
        sample = drawn(boss, n=3)
        pages = [ann.get(f"/alterations/{sample}?at={at}") for at in range(3)]
        pages += [boss.get(f"/alterations/{sample}/notes/0"), boss.get(f"/alterations/{sample}/progress")]
        assert ("secretnote" in "".join(page.text for page in pages)) is show
        assert (mark(ann, sample, 0, "right") == 200) is show
        assert ("read a note" in served.logged()) is show
        kept = b"".join(path.read_bytes() for path in served.options.home.rglob("*") if path.is_file())
        assert b"secretnote" not in kept


def test_script_in_a_note_is_text_and_changed_notes_are_refused(project: Path, tmp_path: Path) -> None:
    notes = tmp_path / "cohort.csv"
    text = "63 year old man <script>alert(1)</script> & \"quotes\". He is 'well'."
    pl.DataFrame({"text": [text]}).write_csv(notes)
    with Served(project / "run", folder=tmp_path / "bench", cohort=notes, show_notes=True) as served:
        boss, ann = served.member("Boss", "coordinator"), served.member("Ann", "reviewer")
        sample = drawn(boss, n=5)
        page = ann.get(f"/alterations/{sample}").text
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp;" in page
        assert "<del>" in page
        assert "5 were asked for, but there are no more" in page
    for other in ("64 year old man. He is well.", "x"):
        pl.DataFrame({"text": [other]}).write_csv(notes)
        with Served(project / "run", folder=tmp_path / "bench", cohort=notes, show_notes=True) as served:
            answer = served.member("Ann", "reviewer").get(f"/alterations/{sample}")
            assert answer.status_code == 400
            assert "not those that were altered" in answer.text


def test_a_closed_review_takes_nothing(shown: Served) -> None:
    boss, ann = shown.member("Boss", "coordinator"), shown.member("Ann", "reviewer")
    sample = drawn(boss, n=3)
    before = marks.samples(shown.bench.store, sample)[0]
    for _ in range(2):
        page = boss.send(f"/alterations/{sample}/close", close=1).text
    assert 'name="close" value="0"' in page
    assert mark(ann, sample, 0, "right") == 400
    with pytest.raises(BenchProblem, match="closed"):  # it was read before the end
        marks.enter_mark(shown.bench.store, before, number(shown, "Ann"), 0, NoteMark("right", ""), "late")
    assert ann.send(f"/alterations/{sample}/undo").status_code == 400
    boss.send(f"/alterations/{sample}/close", close=0)
    assert mark(ann, sample, 0, "right") == 200
