"""Where a decision lands: in its own form and setting of an admission, once in a document, at the nearest words."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from palpate.data.annotations import mdace
from palpate.data.annotations.uima_cas import write_json
from palpate.data.annotations.webanno import LayerSpan
from palpate.workbench.evidence import decisions
from palpate.workbench.evidence.additions import find_span
from palpate.workbench.evidence.passages import locate

from .server import Served
from .test_evidence import CODED, SAID, TEXT, added, chart, decide, imported, packed, places, run, sent, unpacked, who

__all__ = ["run"]  # a fixture


@pytest.fixture
def served(run: Path, tmp_path: Path) -> Iterator[Served]:
    with Served(run, folder=tmp_path / "bench", show_notes=True) as started:
        yield started


def test_another_decision_in_the_same_form_is_refused(served: Served, tmp_path: Path) -> None:
    boss, ann = served.member("Boss", "coordinator"), served.member("Ann", "coder")
    number = imported(boss, tmp_path)
    base = f"/evidence/{number}"
    for decision, status in (("reject", 200), ("reject", 200), ("accept", 409)):
        assert ann.send(f"{base}/decide", at=0, decision=decision, entry="a").status_code == status
    assert ann.send(f"{base}/decide", at=1, decision="reject", entry="a").status_code == 409
    for reason, status in (("", 200), ("", 200), ("why", 409)):
        assert ann.send(f"{base}/reason", at=0, kind="own", reason=reason, entry="ar").status_code == status
    ann.send(f"{base}/reason", at=0, kind="own", reason="because", entry="br")
    assert ann.send(f"{base}/decide", at=0, decision="reject", entry="a").status_code == 200, "the same form, sent late"
    said = decisions.decisions_of(served.bench.store, number, who(served, "Ann"))
    assert {place: (one.decision, one.reason) for place, one in said.items()} == {0: ("reject", "because")}
    for words, status in (("seen", 200), ("seen", 200), ("fever", 409)):
        assert added(ann, number, first=words, code="Z1", entry="n").status_code == status
    assert len(decisions.items_of_set(served.bench.store, number)) == 6


def test_both_settings_of_an_admission_come_back(served: Served, tmp_path: Path) -> None:
    boss, ann = served.member("Boss", "coordinator"), served.member("Ann", "coder")
    both = (chart(*CODED[:2]), replace(chart(CODED[2]), setting="Profee"))
    number = int(str(sent(boss, {"coder_file": ("z.zip", packed(tmp_path / "z", *both))}).url.path).split("/")[2])
    notes = decisions.notes_of_set(served.bench.store, number)
    assert [(one.chart, one.setting) for one in notes] == [("7", "Inpatient"), ("7", "Profee")]
    for place in range(3):
        assert decide(ann, number, place, "accept").status_code == 200
    content = boss.get(f"/evidence/{number}/export/mdace?text=1").content
    assert zipfile.ZipFile(io.BytesIO(content)).namelist() == [
        "Inpatient/ICD-10/1.0/7-ICD-10.json",
        "Profee/ICD-10/1.0/7-ICD-10.json",
    ]
    found = list(mdace.read(unpacked(content, tmp_path / "out")))
    assert [replace(each, file=None) for each in found] == list(both)
    # One side that names neither setting nor system is about the only chart that it can be.
    bare = replace(chart(*SAID), setting=None, system=None)
    files = {
        "coder_file": ("z.zip", packed(tmp_path / "c", both[0])),
        "model_file": ("m.zip", packed(tmp_path / "m", bare)),
    }
    number = int(str(sent(boss, files).url.path).split("/")[2])
    assert len(decisions.notes_of_set(served.bench.store, number)) == 1


def test_a_file_with_a_byte_order_mark_is_read(served: Served, tmp_path: Path) -> None:
    boss = served.member("Boss", "coordinator")
    mdace.write([chart(*CODED)], tmp_path / "g", include_text=True)
    content = b"\xef\xbb\xbf" + next((tmp_path / "g").rglob("*.json")).read_bytes()
    answer = sent(boss, {"coder_file": ("7-ICD-10.json", content)})
    assert answer.status_code == 200, answer.text
    assert len(decisions.items_of_set(served.bench.store, 1)) == 3


def test_a_correction_onto_a_span_that_is_there_leaves_one(served: Served) -> None:
    boss, ann = served.member("Boss", "coordinator"), served.member("Ann", "coder")
    made = [LayerSpan(one.begin, one.end, "custom.Code", {"icd": one.code}) for one in CODED]
    files = {"coder_file": ("7.json", write_json(TEXT, made).encode())}
    number = int(str(sent(boss, files, layer="Code", feature="icd").url.path).split("/")[2])
    at = places(served, number)
    decide(ann, number, at["I50.9", "coder"], "accept")
    for code in ("I10", "J18.9"):
        decide(ann, number, at[code, "coder"], "correct", words="heart failure", code="I50.9")
    content = boss.get(f"/evidence/{number}/export/cas").content
    packed_files = zipfile.ZipFile(io.BytesIO(content))
    for name in packed_files.namelist():
        rows = json.loads(packed_files.read(name))["%FEATURE_STRUCTURES"]
        assert [row["icd"] for row in rows if "icd" in row] == ["I50.9"], name
    decide(ann, number, at["I50.9", "coder"], "reject")
    rows = json.loads(got_curated(boss.get(f"/evidence/{number}/export/cas").content))["%FEATURE_STRUCTURES"]
    assert [row["icd"] for row in rows if "icd" in row] == ["I50.9"], "two corrections to the same"


def got_curated(content: bytes) -> bytes:
    packed_files = zipfile.ZipFile(io.BytesIO(content))
    return packed_files.read(next(name for name in packed_files.namelist() if name.startswith("curation/")))


@pytest.mark.parametrize(
    ("text", "words", "near", "found"),
    [
        ("Fever today. A fever of 39, then fever.", "Fever", 16, 15),
        ("fever a Fever", "Fever", 4, 8),
        ("fever Fever fever", "Fever", 7, 6),
        ("illness; the patient is ill.", "ill", 0, 24),
        ("illness", "ill", 0, 0),
        ("an ill-defined illness", "ill", 15, 3),
    ],
)
def test_words_are_found_nearest_and_whole(text: str, words: str, near: int, found: int) -> None:
    assert locate(text, words, near) == (found, found + len(words))


def test_selected_words_are_found_where_they_were_selected() -> None:
    text = "illness; the patient is ill, Ill."
    assert find_span(text, "ill", near=0) == (0, 3)
    assert find_span(text, "ill", near=29) == (29, 32)
    assert find_span(text, "ill") == (24, 27)
    assert find_span(text, "ill", which=2) == (0, 3)
