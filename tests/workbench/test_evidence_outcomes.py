"""What comes of a review of evidence: who has read which note, what is disputed, what waits, how well coders agree."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.data.annotations import Annotation, mdace
from palpate.stats import fleiss_kappa, krippendorff_alpha
from palpate.workbench.evidence import decisions, exports, outcomes, reviewed
from palpate.workbench.evidence.decisions import ProposedSpan, SpanDecision
from palpate.workbench.evidence.passages import passages

from .server import Member, Served
from .test_evidence import CODED, TEXT, added, chart, decide, imported, packed, places, run, sent, unpacked, who

__all__ = ["run"]


@pytest.fixture
def served(run: Path, tmp_path: Path) -> Iterator[Served]:
    with Served(run, folder=tmp_path / "bench", show_notes=True) as started:
        yield started


def members(served: Served) -> tuple[Member, Member, Member]:
    boss, ann, bob = (served.member(*each) for each in (("Boss", "coordinator"), ("Ann", "coder"), ("Bob", "coder")))
    return boss, ann, bob


def with_bare_note(served: Served, boss: Member, folder: Path, *, text: str | None = TEXT) -> tuple[int, int]:
    """A set of two charts, of which one has no span: its number, and the place of that note."""
    charts = packed(folder / "g", chart(*CODED, text=text), chart(hadm_id=8, text=text))
    answer = sent(boss, {"coder_file": ("gold.zip", charts)})
    number = int(str(answer.url.path).split("/")[2])
    return number, next(one.place for one in decisions.notes_of_set(served.bench.store, number) if one.chart == "8")


def read(member: Member, number: int, note: int, *, there: bool = True) -> Any:
    return member.send(f"/evidence/{number}/notes/{note}/read", read="1" if there else "0")


def settled_codes(boss: Member, number: int, folder: Path) -> list[str]:
    """Of chart 8."""
    charts = mdace.read(unpacked(boss.get(f"/evidence/{number}/export/mdace").content, folder))
    return [one.code for each in charts if each.hadm_id == 8 for one in each.notes[0].annotations]


def test_a_span_of_one_coder_waits_until_another_has_read_the_note(served: Served, tmp_path: Path) -> None:
    boss, ann, bob = members(served)
    number, bare = with_bare_note(served, boss, tmp_path)
    added(ann, number, bare, first="fever", code="R50.9")
    for at in range(3):
        for coder in (ann, bob):
            decide(coder, number, at, "accept")
    progress = boss.get(f"/evidence/{number}/progress").text
    assert "Coders disagree about 0" in progress
    assert "3 of 4 spans are settled" in progress
    assert "Added spans that wait for a second coder: 1" in progress
    assert settled_codes(boss, number, tmp_path / "a") == []
    assert "Notes that all coders finished</dt><dd>1<" in progress, "nobody has said that they read the other"
    # Who reads it without adding the span has said no to it.
    page = bob.get(f"/evidence/{number}/notes/{bare}").text
    assert "I have read this note, and there is nothing to mark" in page
    page = read(bob, number, bare).text
    assert "You have read this note to its end" in page
    assert "I have read this note, and" not in page
    progress = boss.get(f"/evidence/{number}/progress").text
    assert "Coders disagree about 1" in progress
    assert "wait for a second coder" not in progress
    judged = boss.get(f"/evidence/{number}/judge").text
    assert all(text in judged for text in ("Added it", "Did not mark it"))
    assert "Notes that all coders finished</dt><dd>1<" in progress, "Ann has not said that she read it"
    read(ann, number, bare)
    before = exports.agreement(reviewed(served.bench, number))
    assert before.n_notes == 2
    assert before.hooper is not None
    assert before.hooper < 1
    assert "Notes that all coders finished</dt><dd>2<" in boss.get(f"/evidence/{number}/progress").text
    # Taken back, it waits again; and adding the same makes two who agree.
    read(bob, number, bare, there=False)
    progress = boss.get(f"/evidence/{number}/progress").text
    assert "Coders disagree about 0" in progress
    assert "wait for a second coder: 1" in progress
    assert "Notes that all coders finished</dt><dd>1<" in progress
    added(bob, number, bare, first="fever", code="R50.9")
    assert "4 of 4 spans are settled" in boss.get(f"/evidence/{number}/progress").text
    assert settled_codes(boss, number, tmp_path / "b") == ["R50.9"]


def test_reading_is_for_coders_and_for_notes_without_spans(served: Served, tmp_path: Path) -> None:
    boss, ann, bob = members(served)
    number, bare = with_bare_note(served, boss, tmp_path)
    assert "0 of 1 read" in ann.get(f"/evidence/{number}").text
    for at in range(3):
        page = decide(ann, number, at, "accept").text
    assert "Now please read the notes" in page
    assert f'href="/evidence/{number}/notes/{bare}"' in page
    assert "0 of 1 read" in ann.get("/evidence").text
    assert read(boss, number, bare).status_code == 403
    assert read(ann, number, 1 - bare).status_code == 400, "spans are decided about one by one"
    assert read(ann, number, 99).status_code == 404
    for _ in range(2):
        assert read(ann, number, bare).status_code == 200
    page = ann.get(f"/evidence/{number}").text
    assert "1 of 1 read" in page
    assert "or stop here" in page
    assert "0 of 1 read" in bob.get(f"/evidence/{number}").text, "the second coder is blind"
    assert "1 of 1" in boss.get(f"/evidence/{number}/progress").text
    boss.send(f"/evidence/{number}/close", close=1)
    assert read(bob, number, bare).status_code == 400
    boss.send(f"/evidence/{number}/close", close=1)
    assert read(bob, number, bare).status_code == 400, "closed twice is closed"
    boss.send(f"/evidence/{number}/close", close=0)
    assert read(bob, number, bare).status_code == 200
    boss.send(f"/evidence/{number}/delete", title="Charts")
    assert served.bench.store.read("SELECT * FROM evidence_read") == []


def test_a_note_with_spans_is_no_note_to_add_to_alone(served: Served, tmp_path: Path) -> None:
    boss, ann, _ = members(served)
    number, bare = with_bare_note(served, boss, tmp_path)
    page = ann.get(f"/evidence/{number}/notes/{1 - bare}").text
    assert "nobody marked anything" not in page.split('<p class="keys">')[0]
    assert "Span 1 of 3" in page


def test_what_waits_is_adjudicated_once_the_review_is_closed(served: Served, tmp_path: Path) -> None:
    boss, ann, _ = members(served)
    number = imported(boss, tmp_path)
    for at in range(5):
        decide(ann, number, at, "accept")
    added(ann, number, 0, first="No pneumonia", code="Z03.89")
    assert "5 of 6 spans are settled" in boss.get(f"/evidence/{number}/progress").text
    assert "to-judge" not in boss.get(f"/evidence/{number}/progress").text
    boss.send(f"/evidence/{number}/close", close=1)
    progress = boss.get(f"/evidence/{number}/progress").text
    assert "5 of 6 spans are settled" in progress
    assert "to-judge" in progress
    assert "Added it" in boss.get(f"/evidence/{number}/judge").text
    place = next(one.place for one in decisions.items_of_set(served.bench.store, number) if one.by == "added")
    decide(boss, number, place, "accept", "/judge")
    assert "6 of 6 spans are settled" in boss.get(f"/evidence/{number}/progress").text


def test_the_only_coder_waits_for_nobody(served: Served, tmp_path: Path) -> None:
    boss, ann = served.member("Boss", "coordinator"), served.member("Ann", "coder")
    number, bare = with_bare_note(served, boss, tmp_path)
    added(ann, number, bare, first="fever", code="R50.9")
    assert "1 of 4 spans are settled" in boss.get(f"/evidence/{number}/progress").text
    served.member("Late", "coder")
    assert "0 of 4 spans are settled" in boss.get(f"/evidence/{number}/progress").text
    served.bench.register.shut_out(who(served, "Late"))
    assert "1 of 4 spans are settled" in boss.get(f"/evidence/{number}/progress").text


def test_only_finished_notes_are_exported_as_documents(served: Served, tmp_path: Path) -> None:
    boss, ann, bob = members(served)
    number, bare = with_bare_note(served, boss, tmp_path)
    for at in range(3):
        decide(ann, number, at, "accept")

    def names() -> set[str]:
        content = boss.get(f"/evidence/{number}/export/cas").content
        return set(zipfile.ZipFile(io.BytesIO(content)).namelist())

    assert names() == {"annotation/7-77/Ann.json", "curation/7-77/CURATION_USER.json"}
    read(bob, number, bare)
    assert names() - {"annotation/7-77/Ann.json", "curation/7-77/CURATION_USER.json"} == {
        "annotation/8-78/Bob.json",
        "curation/8-78/CURATION_USER.json",
    }
    added(ann, number, bare, first="fever", code="R50.9")
    assert "curation/8-78/CURATION_USER.json" not in names(), "they disagree about it"


# --- what is kept ------------------------------------------------------------------------------------------------


def test_coders_who_keep_the_same_by_different_ways_do_not_disagree(served: Served, tmp_path: Path) -> None:
    boss, ann, bob = members(served)
    number = imported(boss, tmp_path)
    at = places(served, number)
    short, long = at["I50.9", "coder"], at["I50.9", "model"]
    # Ann takes the model's extent; Bob corrects the coder's span to that extent.
    decide(ann, number, short, "reject")
    decide(ann, number, long, "accept")
    decide(bob, number, short, "correct", words="systolic heart failure", code="I50.9")
    decide(bob, number, long, "reject")
    for place in sorted(set(at.values()) - {short, long}):
        for coder in (ann, bob):
            decide(coder, number, place, "accept")
    progress = boss.get(f"/evidence/{number}/progress").text
    assert "Coders disagree about 0" in progress
    assert "5 of 5 spans are settled" in progress
    charts = reviewed(served.bench, number)
    kept = exports.kept_spans(charts, charts.settled)[0]
    assert {(one.code, TEXT[one.begin : one.end]) for one in kept} == {
        ("I50.9", "systolic heart failure"),
        ("I10", "hypertension"),
        ("J18.9", "pneumonia"),
        ("R50.9", "fever"),
    }
    # As soon as one of them keeps something else, they do.
    decide(bob, number, short, "correct", words="Acute systolic heart failure", code="I50.9", entry="again")
    assert "Coders disagree about 2" in boss.get(f"/evidence/{number}/progress").text


def test_an_added_span_and_a_correction_to_it_are_the_same(served: Served, tmp_path: Path) -> None:
    boss, ann, bob = members(served)
    number = imported(boss, tmp_path)
    at = places(served, number)["J18.9", "coder"]
    for place in range(5):
        for coder in (ann, bob):
            decide(coder, number, place, "reject" if place == at else "accept")
    added(ann, number, 0, first="No pneumonia", code="Z03.89")
    assert "Coders disagree about 1" in boss.get(f"/evidence/{number}/progress").text
    decide(bob, number, at, "correct", words="No pneumonia", code="Z03.89")
    assert "Coders disagree about 0" in boss.get(f"/evidence/{number}/progress").text
    charts = reviewed(served.bench, number)
    assert [one.code for one in exports.kept_spans(charts, charts.settled)[0]].count("Z03.89") == 1


def test_a_span_that_was_corrected_can_be_added_beside_its_correction(served: Served, tmp_path: Path) -> None:
    boss, ann = served.member("Boss", "coordinator"), served.member("Ann", "coder")
    number = imported(boss, tmp_path)
    at = places(served, number)["J18.9", "coder"]
    decide(ann, number, at, "correct", words="No pneumonia", code="Z03.89")
    added(ann, number, 0, first="pneumonia", code="J18.9")
    charts = reviewed(served.bench, number)
    kept = {(one.code, TEXT[one.begin : one.end]) for one in exports.kept_spans(charts, charts.by_coder["Ann"])[0]}
    assert kept == {("Z03.89", "No pneumonia"), ("J18.9", "pneumonia")}


def test_what_is_disputed_and_settled() -> None:
    spans = [ProposedSpan(k, 0, 10 * k, 10 * k + 4, "A", "ICD-10-CM", "coder") for k in range(5)]
    yes, no = ([SpanDecision(each, one.begin, one.end, one.code) for one in spans] for each in ("accept", "reject"))
    other = SpanDecision("correct", 30, 35, "A")
    ann = {0: yes[0], 1: yes[1], 2: no[2], 3: other, 4: no[4]}
    bob = {0: yes[0]._replace(reason="sure"), 1: no[1], 2: no[2], 3: yes[3]}
    assert outcomes.disputed(spans, {1: ann, 2: bob}) == [1, 3]
    assert outcomes.disputed(spans, {1: ann, 2: {**bob, 3: other._replace(reason="why")}}) == [1]
    found = outcomes.settled(spans, {1: ann, 2: bob}, {3: other}, [1, 3])
    assert {place: given.decision for place, given in found.items()} == {
        0: "accept",
        2: "reject",
        3: "correct",
        4: "reject",
    }
    # The same words and code in another note are another span.
    moved = [*spans[:1], spans[1]._replace(note=1, begin=0, end=4)]
    swapped = {1: {0: yes[0], 1: no[1]}, 2: {0: no[0], 1: SpanDecision("accept", 0, 4, "A")}}
    assert outcomes.disputed(moved, swapped) == [0, 1]


def test_what_was_judged_away_does_not_come_back() -> None:
    spans = [ProposedSpan(k, 0, 10 * k, 10 * k + 4, "A", "ICD-10-CM", "coder") for k in range(3)]
    yes = [SpanDecision("accept", one.begin, one.end, one.code) for one in spans]
    no, onto = yes[0]._replace(decision="reject"), yes[0]._replace(decision="correct")
    said = {1: {0: yes[0], 1: onto, 2: yes[2]}, 2: {0: no, 2: yes[2]}}
    assert outcomes.disputed(spans, said) == [0]
    found = outcomes.settled(spans, said, {0: no}, [0])
    assert {place: one.decision for place, one in found.items()} == {0: "reject", 1: "reject", 2: "accept"}
    moved = SpanDecision("correct", 0, 6, "A")
    found = outcomes.settled(spans, said, {0: moved}, [0])
    assert [(one.begin, one.end) for one in found.values() if one.decision != "reject"] == [(0, 6), (20, 24)]
    found = outcomes.settled(spans, said, {0: yes[0]}, [0])
    assert [(one.begin, one.end) for one in found.values() if one.decision != "reject"] == [(0, 4), (0, 4), (20, 24)]


def test_a_rejected_span_is_not_exported_through_a_correction(served: Served, tmp_path: Path) -> None:
    boss, ann, bob = members(served)
    number = int(
        str(sent(boss, {"coder_file": ("g.zip", packed(tmp_path / "g", chart(*CODED)))}).url.path).split("/")[2]
    )
    at = places(served, number)
    decide(ann, number, at["I50.9", "coder"], "accept")
    decide(ann, number, at["I10", "coder"], "correct", words="heart failure", code="I50.9")
    decide(bob, number, at["I50.9", "coder"], "reject")
    assert decide(boss, number, at["I50.9", "coder"], "reject", "/judge").status_code == 200
    for coder in (ann, bob):
        decide(coder, number, at["J18.9", "coder"], "accept")
    charts = mdace.read(unpacked(boss.get(f"/evidence/{number}/export/mdace").content, tmp_path / "out"))
    assert [one.code for each in charts for one in each.notes[0].annotations] == ["J18.9"]


def test_swapped_corrections_lose_nothing() -> None:
    spans = [ProposedSpan(k, 0, 10 * k, 10 * k + 4, "A", "ICD-10-CM", "coder") for k in range(2)]
    first, second = (SpanDecision("accept", one.begin, one.end, one.code) for one in spans)
    swapped = {0: second._replace(decision="correct"), 1: first._replace(decision="correct")}
    for said in ({1: {0: first, 1: second}, 2: swapped}, {1: swapped, 2: {0: first, 1: second}}):
        assert outcomes.disputed(spans, said) == []
        assert {(one.begin, one.end) for one in outcomes.settled(spans, said, {}, []).values()} == {(0, 4), (10, 14)}


PLACES = [(0, 4, "A"), (2, 6, "A"), (2, 6, "B"), (8, 9, "B")]
SOME = st.tuples(*(st.sampled_from([None, *range(4)]) for _ in PLACES))


@given(st.lists(SOME, min_size=2, max_size=3))
def test_coders_disagree_if_and_only_if_they_keep_different_spans(chosen: list[tuple[int | None, ...]]) -> None:
    spans = [ProposedSpan(k, 0, *one, "ICD-10-CM", "coder") for k, one in enumerate(PLACES)]
    said = {
        who: {
            k: SpanDecision("reject", *PLACES[k])
            if to is None
            else SpanDecision("accept" if to == k else "correct", *PLACES[to])
            for k, to in enumerate(mine)
        }
        for who, mine in enumerate(chosen)
    }
    kept = [{PLACES[to] for to in mine if to is not None} for mine in chosen]
    found = outcomes.disputed(spans, said)
    assert (found == []) is all(each == kept[0] for each in kept)
    left = {one[1:4] for one in outcomes.settled(spans, said, {}, found).values() if one.decision != "reject"}
    assert all(left <= each for each in kept)
    assert found or left == kept[0]


# --- agreement ---------------------------------------------------------------------------------------------------


def test_agreement_without_text_is_that_of_characters(served: Served, tmp_path: Path) -> None:
    boss, ann, bob = members(served)
    number, bare = with_bare_note(served, boss, tmp_path, text=None)
    assert "measured by characters" not in boss.get(f"/evidence/{number}/progress").text, "nobody has finished any"
    for at in range(3):
        decide(ann, number, at, "accept")
        decide(bob, number, at, "reject" if at == 2 else "accept")
    last = max(one.end for one in CODED)
    marked = [range(each.begin, each.end) for each in sorted(CODED, key=lambda each: each.begin)]
    rows = [[float(k in each) for each in mine for k in range(last)] for mine in (marked, [*marked[:2], range(0)])]
    found = exports.agreement(reviewed(served.bench, number))
    assert found.alpha == pytest.approx(krippendorff_alpha(rows), abs=1e-12)
    counts = [[2 - sum(each), sum(each)] for each in zip(*rows, strict=True)]
    assert found.kappa == pytest.approx(fleiss_kappa(counts), abs=1e-12)
    assert found.hooper == pytest.approx(2 / 3)
    assert (found.n_notes, found.n_coders, found.unit) == (1, 2, "characters")
    page = boss.get(f"/evidence/{number}/progress").text
    assert f'id="alpha">{found.alpha:.3f}<' in page
    assert "measured by characters" in page
    # A note in which nobody marks anything has no characters, and is one that both finished.
    for member in (ann, bob):
        read(member, number, bare)
    again = exports.agreement(reviewed(served.bench, number))
    assert again == found._replace(n_notes=2)
    # One of them adds a span to it, and corrects one beyond what was marked before.
    added(ann, number, bare, begin=10**8, end=10**9, code="Z1")
    decide(bob, number, 0, "correct", begin=3, end=10**9, code="I10")
    again = exports.agreement(reviewed(served.bench, number))
    assert again.hooper is not None
    assert again.hooper < 1
    assert again.alpha is not None
    assert again.alpha < 0.5


def test_agreement_of_some_notes_with_text_and_some_without(served: Served, tmp_path: Path) -> None:
    boss, ann, bob = members(served)
    charts = packed(tmp_path / "g", chart(*CODED), chart(*CODED, hadm_id=8, text=None))
    number = int(str(sent(boss, {"coder_file": ("gold.zip", charts)}).url.path).split("/")[2])
    with_text = [
        one.place for one in decisions.items_of_set(served.bench.store, number) if one.note == text_note(served, number)
    ]
    for at in range(6):
        for coder in (ann, bob):
            if at in with_text:
                decide(coder, number, at, "reject" if coder is bob and at == with_text[0] else "accept")
    found = exports.agreement(reviewed(served.bench, number))
    assert (found.unit, found.n_notes) == ("words", 1)
    for at in range(6):
        for coder in (ann, bob):
            if at not in with_text:
                decide(coder, number, at, "accept")
    found = exports.agreement(reviewed(served.bench, number))
    assert (found.unit, found.n_notes) == ("characters", 2)
    assert found.alpha is not None
    assert 0 < found.alpha < 1


def text_note(served: Served, number: int) -> int:
    return next(one.place for one in decisions.notes_of_set(served.bench.store, number) if one.text is not None)


# --- hues --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("marks", "shown"),
    [
        ([("coder", "A"), ("model", "A")], "both"),
        ([("coder", "A"), ("model", "B")], "differ"),
        ([("both", "A"), ("coder", "B")], "both"),
        ([("coder", "A"), ("model", "B"), ("model", "A")], "both"),
        ([("coder", "A"), ("coder", "B")], "coder"),
        ([("model", "A"), ("added", "B")], "model"),
        ([("added", "A")], "added"),
    ],
)
def test_words_look_agreed_on_only_with_the_same_code(marks: list[tuple[str, str]], shown: str) -> None:
    spans = [ProposedSpan(k, 0, 2, 7, code, "ICD-10-CM", by) for k, (by, code) in enumerate(marks)]
    assert [piece.by for piece in passages("a fever b", spans, 0)] == ["", shown, ""]


def test_the_page_says_that_codes_differ(served: Served, tmp_path: Path) -> None:
    boss, ann = served.member("Boss", "coordinator"), served.member("Ann", "coder")
    begin = TEXT.index("fever")
    one, other = (Annotation(begin, begin + 5, code, "ICD-10-CM") for code in ("R50.9", "R50.8"))
    for model, differ in ((other, True), (one, False)):
        files = {
            "coder_file": ("gold.zip", packed(tmp_path / f"g{differ}", chart(one))),
            "model_file": ("model.zip", packed(tmp_path / f"m{differ}", chart(model, text=None))),
        }
        number = int(str(sent(boss, files).url.path).split("/")[2])
        page = ann.get(f"/evidence/{number}").text
        assert ("for different codes" in page) is differ
        assert ('class="span-differ here"' in page) is differ


class Forgetful(dict[Any, Any]):
    """What another thread empties at once, as it does when a set is deleted."""

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


def test_a_set_may_be_deleted_while_its_notes_are_listed(served: Served, tmp_path: Path) -> None:
    boss, _, _ = members(served)
    number, place = with_bare_note(served, boss, tmp_path)
    store = served.bench.store
    store.known = Forgetful()
    assert [note.place for note in decisions.unmarked_notes(store, number)] == [place]
