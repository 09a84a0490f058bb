"""Reviewing evidence: import, review over a real server, export, and what is read again is what was entered."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from palpate.data.annotations import AnnotatedChart, AnnotatedNote, Annotation, mdace
from palpate.data.annotations.uima_cas import read_json, write_json
from palpate.data.annotations.webanno import LayerSpan
from palpate.data.annotations.webanno_projects import import_evidence, measure_agreement
from palpate.run.directory import SCHEMA
from palpate.workbench.evidence import decisions, exports, imports, reviewed
from palpate.workbench.evidence.decisions import SpanDecision
from tests.data.published import INCEPTION, needs_inception

from .server import Member, Served

MDACE = Path(__file__).parents[3] / "shared" / "data" / "mdace"
REPOSITORY = MDACE.parent / "mdace_repo"
TEXT = (
    "Acute systolic heart failure. <script>alert(1)</script> No pneumonia 😀 was seen;\nhypertension & fever, no fever."
)


def span(words: str, code: str, **more: str) -> Annotation:
    begin = TEXT.index(words)
    return Annotation(begin, begin + len(words), code, "ICD-10-CM", **more)


CODED = (
    span("heart failure", "I50.9", description="Heart failure"),
    span("hypertension", "I10"),
    span("pneumonia", "J18.9"),
)
SAID = (span("systolic heart failure", "I50.9"), span("hypertension", "I10"), span("fever", "R50.9"))


def packed(folder: Path, *charts: AnnotatedChart, include_text: bool = True) -> bytes:
    mdace.write(charts, folder, include_text=include_text)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for path in sorted(folder.rglob("*.json")):
            made.write(path, path.relative_to(folder))
    return out.getvalue()


def chart(*annotations: Annotation, hadm_id: int = 7, text: str | None = TEXT) -> AnnotatedChart:
    note = AnnotatedNote(70 + hadm_id, "Discharge summary", annotations, "Report", text)
    return AnnotatedChart(hadm_id, (note,), comment="a chart", setting="Inpatient", system="ICD-10")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run without results: charts come from files."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "manifest.json").write_text(json.dumps({"schema": SCHEMA}))
    return tmp_path / "run"


@pytest.fixture
def served(run: Path, tmp_path: Path) -> Iterator[Served]:
    with Served(run, folder=tmp_path / "bench", show_notes=True) as started:
        yield started


def sent(boss: Member, files: dict[str, tuple[str, bytes]], **fields: str) -> Any:
    return boss.post("/evidence", data={"csrf": boss.csrf, "title": "Charts", "source": "files", **fields}, files=files)


def imported(boss: Member, tmp_path: Path) -> int:
    """One chart with five spans: I50.9 of each side, I10 of both, J18.9 of the coder, R50.9 of the model."""
    files = {
        "coder_file": ("gold.zip", packed(tmp_path / "gold", chart(*CODED))),
        "model_file": ("model.zip", packed(tmp_path / "model", chart(*SAID, text=None))),
    }
    answer = sent(boss, files)
    assert answer.status_code == 200, answer.text
    return int(str(answer.url.path).split("/")[2])


def decide(member: Member, number: int, place: int, decision: str, base: str = "", **fields: object) -> Any:
    door = "correct" if decision == "correct" else "decide"
    given = {"at": place, "decision": decision, "entry": f"{place}{decision}{fields}"[:60], **fields}
    return member.send(f"/evidence/{number}{base}/{door}", **given)


def places(served: Served, number: int) -> dict[tuple[str, str], int]:
    return {(one.code, one.by): one.place for one in decisions.items_of_set(served.bench.store, number)}


def unpacked(content: bytes, folder: Path) -> Path:
    zipfile.ZipFile(io.BytesIO(content)).extractall(folder)
    return folder


def test_import_review_export_and_read_again(served: Served, tmp_path: Path) -> None:
    boss, ann = served.member("Boss", "coordinator"), served.member("Ann", "coder")
    number = imported(boss, tmp_path)
    at = places(served, number)
    assert set(at) == {("I50.9", "coder"), ("I50.9", "model"), ("I10", "both"), ("J18.9", "coder"), ("R50.9", "model")}
    decide(ann, number, at["I50.9", "coder"], "correct", words="Acute systolic heart failure", code="I50.21")
    decide(ann, number, at["I50.9", "model"], "reject")
    ann.send(f"/evidence/{number}/reason", at=at["I50.9", "model"], kind="extent", entry="why")
    decide(ann, number, at["I10", "both"], "accept")
    decide(ann, number, at["J18.9", "coder"], "reject")
    decide(ann, number, at["R50.9", "model"], "accept")
    entered = {("I50.21", "Acute systolic heart failure"), ("I10", "hypertension"), ("R50.9", "fever")}

    got = boss.get(f"/evidence/{number}/export/mdace?text=1")
    again = list(mdace.read(unpacked(got.content, tmp_path / "again")))
    assert [(one.hadm_id, one.comment, one.setting, one.system) for one in again] == [
        (7, "a chart", "Inpatient", "ICD-10")
    ]
    note = again[0].notes[0]
    assert (note.note_id, note.category, note.description, note.text) == (77, "Discharge summary", "Report", TEXT)
    assert {(a.code, TEXT[a.begin : a.end]) for a in note.annotations} == entered
    assert "text" not in got_chart(boss.get(f"/evidence/{number}/export/mdace").content)["notes"][0]

    cas = tmp_path / "cas.zip"
    cas.write_bytes(boss.get(f"/evidence/{number}/export/cas").content)
    for who in ("Ann", "CURATION_USER"):
        read = import_evidence(cas, annotator=who)
        assert read.cases["text"].to_list() == [TEXT]
        rows = read.evidence.select("label", "start", "end").iter_rows()
        assert {(code, TEXT[begin:end]) for code, begin, end in rows} == entered
    table = pl.read_csv(boss.get(f"/evidence/{number}/export/csv").content)
    assert table.filter(pl.col("reason") == "Too much or too little is marked")["decision"].to_list() == ["reject"]
    assert "pneumonia" not in table.write_csv()


def got_chart(content: bytes) -> dict[str, Any]:
    with zipfile.ZipFile(io.BytesIO(content)) as read:
        return dict(json.loads(read.read(read.namelist()[0])))


def test_cas_json_is_imported_and_comes_back(served: Served, tmp_path: Path) -> None:
    boss, ann = served.member("Boss", "coordinator"), served.member("Ann", "coder")
    layer = "custom.Code"
    spans = [LayerSpan(one.begin, one.end, layer, {"icd": one.code, "sure": "yes"}) for one in CODED]
    files = {"coder_file": ("../../dis charge<b>.json", write_json(TEXT, spans).encode())}
    refused = sent(boss, files)
    assert refused.status_code == 400
    assert "choose one with the field layer and the field feature" in refused.text
    answer = sent(boss, files, layer="Code", feature="icd")
    assert answer.status_code == 200, answer.text
    number = int(str(answer.url.path).split("/")[2])
    for at in range(3):
        decide(ann, number, at, "accept")
    (tmp_path / "cas.zip").write_bytes(boss.get(f"/evidence/{number}/export/cas").content)
    with zipfile.ZipFile(tmp_path / "cas.zip") as packed_again:
        for name in packed_again.namelist():
            assert packed_again.read(name) == files["coder_file"][1], "what everybody accepts comes back as it was"
    chosen = {"layer": "Code", "feature": "icd"}
    read = import_evidence(tmp_path / "cas.zip", annotator="CURATION_USER", **chosen)
    assert read.cases["case_id"].to_list() == ["dis charge_b_"]
    found = set(read.evidence.select("label", "start", "end").iter_rows())
    assert found == {(one.code, one.begin, one.end) for one in CODED}
    refused = boss.get(f"/evidence/{number}/export/mdace")  # MDACE's names are numbers
    assert refused.status_code == 400
    assert "by number" in refused.text


def sure_of(content: bytes) -> dict[str, dict[tuple[str, str], str | None]]:
    """Of each file of an export: the words and the code of each span, and its feature `sure`."""
    found = {}
    with zipfile.ZipFile(io.BytesIO(content)) as read:
        for name in read.namelist():
            spans = read_json(read.read(name), Path(name)).spans
            rows = [(TEXT[one.begin : one.end], one.features.get("icd"), one.features.get("sure")) for one in spans]
            found[name.rpartition("/")[2]] = {(words, str(code)): sure for words, code, sure in rows}
    return found


def test_cas_json_keeps_what_the_review_is_not_about(served: Served) -> None:
    boss, ann = served.member("Boss", "coordinator"), served.member("Ann", "coder")
    sides = {}
    for side, spans, sure in (("coder_file", CODED, "yes"), ("model_file", SAID, "0.7")):
        made = [LayerSpan(one.begin, one.end, "custom.Code", {"icd": one.code, "sure": sure}) for one in spans]
        sides[side] = ("7.json", write_json(TEXT, [*made, LayerSpan(0, 5, "custom.Other", {"x": "kept"})]).encode())
    number = int(str(sent(boss, sides, layer="Code", feature="icd").url.path).split("/")[2])
    at = places(served, number)
    decide(ann, number, at["I50.9", "coder"], "correct", words="Acute systolic heart failure", code="I50.21")
    decide(ann, number, at["I50.9", "model"], "reject")
    decide(ann, number, at["I10", "both"], "accept")
    decide(ann, number, at["J18.9", "coder"], "reject")
    decide(ann, number, at["R50.9", "model"], "accept")
    added(ann, number, first="😀", code="Z99")
    content = boss.get(f"/evidence/{number}/export/cas").content
    for name, found in sure_of(content).items():
        assert found == {
            ("Acute systolic heart failure", "I50.21"): "yes",
            ("hypertension", "I10"): "yes",
            ("fever", "R50.9"): "0.7",
            ("😀", "Z99"): None,
            ("Acute", "None"): None,
        }, name


@needs_inception
@pytest.mark.parametrize(
    ("file", "types", "lost"),
    [
        ("xmi_smileys/cas_with_smileys.xmi", "xmi_smileys/inception_typesystem.xml", 1),
        (
            "relation_xmi/relation_test.xmi",
            "relation_xmi/TypeSystem.xml",
            2,
        ),  # the span, and a relation
    ],
)
def test_documents_of_others_come_back_as_they_were(file: str, types: str, lost: int) -> None:
    cassis = pytest.importorskip("cassis")
    with (INCEPTION / types).open("rb") as system, (INCEPTION / file).open("rb") as document:
        cas = cassis.load_cas_from_xmi(document, typesystem=cassis.load_typesystem(system))
    raw = cas.to_json()
    charts = imports.combine(imports.read_file("a.json", raw.encode(), imports.ReadHow(), by_model=False), [], {})

    def exported(*rejected: int) -> str:
        given = {
            one.place: SpanDecision("reject" if one.place in rejected else "accept", one.begin, one.end, one.code)
            for one in charts.spans
        }
        content = exports.cas_files(exports.ReviewedCharts(charts.notes, charts.spans, {}, given, {}))
        with zipfile.ZipFile(io.BytesIO(content)) as read:
            return read.read(read.namelist()[0]).decode()

    assert exported() == raw
    again = cassis.load_cas_from_json(io.BytesIO(exported(0).encode()))
    assert len(again.select_all_annotations()) == len(cas.select_all_annotations()) - lost


def added(member: Member, number: int, at: int = 0, **fields: object) -> Any:
    return member.send(f"/evidence/{number}/add", **{"note": at, "code": "R99", "entry": f"n{fields}"[:60], **fields})


def own_spans(content: bytes, folder: Path) -> set[tuple[str, str]]:
    note = next(iter(mdace.read(unpacked(content, folder)))).notes[0]
    return {(one.code, TEXT[one.begin : one.end]) for one in note.annotations}


def test_a_span_that_nobody_proposed_is_added_blind_adjudicated_and_exported(served: Served, tmp_path: Path) -> None:
    boss, ann, bob = (served.member(*who) for who in (("Boss", "coordinator"), ("Ann", "coder"), ("Bob", "coder")))
    number = imported(boss, tmp_path)
    for at in range(5):
        for coder in (ann, bob):
            decide(coder, number, at, "accept")
    answer = added(ann, number, 0, first="No", last="seen", code="Z03.89", reason="ruled <b>out</b>")
    assert "Span 6 of 6: Z03.89" in answer.text
    assert "Added." in answer.text
    assert added(ann, number, 0, first="No", last="seen", code="Z03.89", reason="ruled <b>out</b>").status_code == 200
    spans = [one for one in decisions.items_of_set(served.bench.store, number) if one.by == "added"]
    assert [(TEXT[one.begin : one.end], one.code) for one in spans] == [("No pneumonia 😀 was seen", "Z03.89")]
    mine = spans[0].place
    # Nobody else sees it, or can decide about it, or how many there are.
    for page in (bob.get(f"/evidence/{number}").text, bob.get(f"/evidence/{number}?at={mine}").text):
        assert "Z03.89" not in page
        assert "of 6" not in page
        assert str(mine) not in page
    assert decide(bob, number, mine, "reject").status_code == 400
    assert bob.send(f"/evidence/{number}/reason", at=mine, kind="own", reason="x", entry="r").status_code == 400
    assert added(boss, number, 0, first="seen").status_code == 403
    # Bob finished the note without it: so they disagree.
    assert own_spans(boss.get(f"/evidence/{number}/export/mdace?who={who(served, 'Ann')}").content, tmp_path / "a") >= {
        ("Z03.89", "No pneumonia 😀 was seen")
    }
    progress = boss.get(f"/evidence/{number}/progress").text
    assert "5 of 6 spans are settled" in progress
    assert "Coders disagree about 1" in progress
    before = exports.agreement(reviewed(served.bench, number))
    assert before.hooper is not None
    assert before.hooper < 1
    judged = boss.get(f"/evidence/{number}/judge").text
    assert all(text in judged for text in ("Added it", "Did not mark it", "ruled &lt;b&gt;out&lt;/b&gt;"))
    decide(boss, number, mine, "accept", "/judge")
    settled = own_spans(boss.get(f"/evidence/{number}/export/mdace").content, tmp_path / "b")
    assert ("Z03.89", "No pneumonia 😀 was seen") in settled
    boss.send(f"/evidence/{number}/judge/undo")
    # Bob adds the same: they agree, and it is one span.
    answer = added(bob, number, 0, first="No pneumonia 😀 was seen", code="Z03.89")
    assert "ruled" not in answer.text.replace("negated or ruled out", "")
    assert "6 of 6 spans are settled" in boss.get(f"/evidence/{number}/progress").text
    assert exports.agreement(reviewed(served.bench, number)).hooper == 1
    table = pl.read_csv(boss.get(f"/evidence/{number}/export/csv").content)
    assert sorted(table.filter(marked_by="added")["who"].to_list()) == ["Ann", "Bob"]
    # Adjudicated and then taken back by those who added it: it stays adjudicated, and is told.
    decide(boss, number, mine, "accept", "/judge", entry="late")
    # Taken back, it is gone for who took it back.
    bob.send(f"/evidence/{number}/undo")
    assert "Z03.89" not in bob.get(f"/evidence/{number}").text
    assert "Coders disagree about 1" in boss.get(f"/evidence/{number}/progress").text
    ann.send(f"/evidence/{number}/undo")
    assert "6 of 6 spans are settled" in boss.get(f"/evidence/{number}/progress").text
    assert "(adjudicated)" in boss.get(f"/evidence/{number}/export/csv").text
    boss.send(f"/evidence/{number}/judge/undo")
    assert "5 of 5 spans are settled" in boss.get(f"/evidence/{number}/progress").text
    assert "Z03.89" not in table.filter(pl.col("marked_by") != "added").write_csv()
    assert "seen" not in served.logged()


def who(served: Served, name: str) -> int:
    return next(each.id for each in served.bench.register.everybody() if each.name == name)


def test_a_span_is_added_to_a_note_in_which_nobody_marked_anything(served: Served, tmp_path: Path) -> None:
    boss, ann, bob = (served.member(*who) for who in (("Boss", "coordinator"), ("Ann", "coder"), ("Bob", "coder")))
    charts = packed(tmp_path / "g", chart(*CODED), chart(hadm_id=8))
    number = int(str(sent(boss, {"coder_file": ("gold.zip", charts)}).url.path).split("/")[2])
    bare = next(one.place for one in decisions.notes_of_set(served.bench.store, number) if one.chart == "8")
    assert f"/evidence/{number}/notes/{bare}" in ann.get(f"/evidence/{number}").text
    page = ann.get(f"/evidence/{number}/notes/{bare}").text
    assert "&lt;script&gt;alert(1)" in page
    answer = added(ann, number, bare, first="fever", code="R50.9").text
    assert "Added." in answer
    assert "there is nothing else to mark" in answer
    assert "R50.9" in ann.get(f"/evidence/{number}/notes/{bare}").text
    assert "R50.9" not in bob.get(f"/evidence/{number}/notes/{bare}").text
    for at in range(3):
        for coder in (ann, bob):
            decide(coder, number, at, "accept")

    def exported(folder: Path) -> list[tuple[str, str]]:
        content = boss.get(f"/evidence/{number}/export/mdace").content
        again = {one.hadm_id: one for one in mdace.read(unpacked(content, folder))}
        return [(one.code, one.code_system) for one in again[8].notes[0].annotations]

    progress = boss.get(f"/evidence/{number}/progress").text
    assert "Coders disagree about 0" in progress
    assert "3 of 4 spans are settled" in progress, "one coder's word is not enough"
    assert exported(tmp_path / "a") == []
    bob.send(f"/evidence/{number}/notes/{bare}/read", read="1")
    assert "Coders disagree about 1" in boss.get(f"/evidence/{number}/progress").text
    mine = next(one.place for one in decisions.items_of_set(served.bench.store, number) if one.by == "added")
    decide(boss, number, mine, "accept", "/judge")
    assert exported(tmp_path / "b") == [("R50.9", "ICD-10-CM")]
    assert boss.get(f"/evidence/{number}/notes/{bare}").status_code == 403
    assert ann.get(f"/evidence/{number}/notes/99").status_code == 404


def test_added_words_are_found_and_wrong_ones_refused(served: Served, tmp_path: Path) -> None:
    boss, ann = served.member("Boss", "coordinator"), served.member("Ann", "coder")
    number, fever = imported(boss, tmp_path), [TEXT.index("fever"), TEXT.rindex("fever")]
    for code, fields, begin in (
        ("R1", {"which": 2}, fever[1]),
        ("R2", {"near": fever[1] + 2}, fever[1]),
        ("R3", {"near": 0, "which": 2}, fever[0]),
    ):
        assert added(ann, number, 0, first="Fever", code=code, **fields).status_code == 200
        last = [one for one in decisions.items_of_set(served.bench.store, number) if one.code == code]
        assert [(one.begin, one.end) for one in last] == [(begin, begin + 5)]
    assert "0 of 5 decided" in ann.get("/evidence").text, "added spans are not among the 5"
    # One that is proposed already is accepted instead.
    answer = added(ann, number, 0, first="hypertension", code="I10")
    assert "Accepted" in answer.text
    assert len(decisions.items_of_set(served.bench.store, number)) == 8
    for fields in (
        {"first": "not there"},
        {"first": ""},
        {"first": "fever", "which": 3},
        {"first": "fever", "which": 0},
        {"first": "seen", "last": "heart"},
        {"first": "seen", "code": ""},
        {"first": "seen", "code": "x" * 41},
        {"first": "seen", "reason": "x" * 501},
        {"first": "seen", "entry": ""},
        {"first": "seen", "note": "x"},
        {"first": "x" * 2_001},
    ):
        assert added(ann, number, **fields).status_code == 400, fields
    assert added(ann, number, 99, first="seen").status_code == 404
    boss.send(f"/evidence/{number}/close", close=1)
    assert added(ann, number, 0, first="seen").status_code == 400
    assert len(decisions.items_of_set(served.bench.store, number)) == 8


def test_a_span_is_added_where_the_text_is_not_here(served: Served, tmp_path: Path) -> None:
    boss, ann = served.member("Boss", "coordinator"), served.member("Ann", "coder")
    files = {"coder_file": ("gold.zip", packed(tmp_path / "gold", chart(*CODED, text=None)))}
    number = int(str(sent(boss, files).url.path).split("/")[2])
    assert added(ann, number, 0, begin=3, end=9).status_code == 200
    for begin, end in ((9, 9), (9, 3), (-1, 3), ("x", 3)):
        assert added(ann, number, 0, begin=begin, end=end).status_code == 400
    assert [
        (one.begin, one.end) for one in decisions.items_of_set(served.bench.store, number) if one.by == "added"
    ] == [(3, 9)]


def test_agreement_is_that_of_palpate_codes_agreement(served: Served, tmp_path: Path) -> None:
    boss, number = served.member("Boss", "coordinator"), 0
    charts = [chart(*CODED, hadm_id=k) for k in range(1, 4)]
    number = int(str(sent(boss, {"coder_file": ("gold.zip", packed(tmp_path / "g", *charts))}).url.path).split("/")[2])
    for name, wrong in (("Ann", {0, 4}), ("B/b", {0, 5, 7})):
        coder = served.member(name, "coder")
        for at in range(9):
            decide(coder, number, at, "reject" if at in wrong else "accept")
    found = exports.agreement(reviewed(served.bench, number))
    (tmp_path / "cas.zip").write_bytes(boss.get(f"/evidence/{number}/export/cas").content)
    theirs = measure_agreement(tmp_path / "cas.zip").measures.row(0, named=True)
    assert (found.alpha, found.kappa, found.hooper) == (theirs["alpha"], theirs["kappa"], theirs["hooper"])
    assert found.alpha is not None
    assert 0 < found.alpha < 1
    page = boss.get(f"/evidence/{number}/progress").text
    assert f'id="alpha">{found.alpha:.3f}<' in page
    assert f'id="hooper">{found.hooper:.3f}<' in page
    assert "Coders disagree about 3" in page


def test_the_second_coder_is_blind_and_the_coordinator_adjudicates(served: Served, tmp_path: Path) -> None:
    boss, ann, bob = (served.member(*who) for who in (("Boss", "coordinator"), ("Ann", "coder"), ("Bob", "coder")))
    number = imported(boss, tmp_path)
    at = places(served, number)["J18.9", "coder"]
    decide(ann, number, at, "reject")
    ann.send(f"/evidence/{number}/reason", at=at, kind="own", reason="<script>x</script> ruled out", entry="w")
    page = bob.get(f"/evidence/{number}?at={at}").text + bob.get("/evidence").text
    assert "0 of 5 decided" in page
    assert 'aria-pressed="true"' not in page
    assert "Ann" not in page
    assert "ruled out" not in page.replace("negated or ruled out", "")
    for path in ("progress", "judge", f"judge?at={at}", "export/mdace", "export/csv", "export/cas"):
        answer = bob.get(f"/evidence/{number}/{path}")
        assert answer.status_code == 403
        assert "Ann" not in answer.text
    for path in ("judge/decide", "judge/undo", "judge/correct", "judge/reason", "close", "delete"):
        assert bob.send(f"/evidence/{number}/{path}", at=at, decision="accept", entry="q").status_code == 403
    assert boss.get(f"/evidence/{number}").status_code == 403  # who coordinates does not code
    decide(bob, number, at, "accept")
    assert at not in reviewed(served.bench, number).settled
    judged = boss.get(f"/evidence/{number}/judge").text
    assert "&lt;script&gt;x&lt;/script&gt; ruled out" in judged
    assert "<script>x" not in judged
    assert "Bob" in judged
    decide(boss, number, at, "correct", "/judge", words="No pneumonia", code="Z03.89", reason="suspected")
    last = reviewed(served.bench, number).settled[at]
    assert (last.decision, TEXT[last.begin : last.end], last.code) == ("correct", "No pneumonia", "Z03.89")
    boss.send(f"/evidence/{number}/judge/undo")
    assert at not in reviewed(served.bench, number).settled
    assert "ruled out" not in served.logged()
    assert "pneumonia" not in served.logged()


def test_notes_are_shown_only_if_asked_and_escaped(run: Path, tmp_path: Path) -> None:
    for show in (True, False):
        with Served(run, folder=tmp_path / "bench", show_notes=show) as served:
            boss, ann = served.member("Boss", "coordinator"), served.member("Ann", "coder")
            number = imported(boss, tmp_path) if show else 1
            page = ann.get(f"/evidence/{number}")
            assert (page.status_code == 200) is show
            assert ("heart failure" in page.text) is show
            assert ("&lt;script&gt;alert(1)&lt;/script&gt;" in page.text) is show
            assert "<script>alert" not in page.text
            for at in range(5):
                assert (decide(ann, number, at, "accept").status_code == 200) is show
            for path, gives in (("export/cas", show), ("export/mdace?text=1", show), ("export/mdace", True)):
                answer = boss.get(f"/evidence/{number}/{path}")
                assert (answer.status_code == 200) is gives
            assert "heart failure" not in boss.get(f"/evidence/{number}/progress").text
            assert "heart failure" not in served.logged()


def test_wrong_input_is_refused(served: Served, tmp_path: Path) -> None:
    boss, ann = served.member("Boss", "coordinator"), served.member("Ann", "coder")
    number = imported(boss, tmp_path)
    for fields in (
        {"words": "not there", "code": "I10"},
        {"words": "", "code": "I10"},
        {"words": "fever", "code": ""},
        {"words": "fever", "code": "x" * 41},
        {"words": "fever", "code": "I10", "reason": "x" * 501},
        {"words": "fever", "code": "I10", "entry": ""},
        {"words": "fever", "code": "I10", "at": 5},
    ):
        assert decide(ann, number, 0, "correct", **fields).status_code == 400
    assert decide(ann, number, 0, "correct", words="x" * 30_000, code="I10").status_code == 413
    for decision in ("", "correct ", "delete"):
        assert decide(ann, number, 0, decision).status_code == 400
    assert ann.send(f"/evidence/{number}/reason", at=1, kind="own", reason="x", entry="e").status_code == 400
    assert decisions.all_decisions(served.bench.store, number) == {}
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as made:
        for k in range(11):
            made.writestr(f"{k}.json", b" " * 10_000_000)
    late = packed(tmp_path / "late", chart(span("fever", "R50.9"), text=None))
    early = packed(tmp_path / "early", chart(text="short"))
    for name, content in (
        ("a.json", b"{"),
        ("a.json", b"[" * 100_000),
        ("a.txt", b"{}"),
        ("a.zip", b"no zip"),
        ("a.zip", bomb.getvalue()),
        ("a.json", json.dumps({"hadm_id": "x", "notes": []}).encode()),
        ("a.json", json.dumps({"hadm_id": 1, "notes": []}).encode()),
    ):
        answer = sent(boss, {"coder_file": (name, content)})
        assert answer.status_code == 400, (name, content[:20])
        assert "/tmp" not in answer.text
    for damage in ({"end": 10**30}, {"code": "\ud800"}, {"end": -1}, {"code_system": "ICD-99"}):
        broken = got_chart(packed(tmp_path / "one", chart(*CODED, text=None)))
        broken["notes"][0]["annotations"][0].update(damage)
        assert sent(boss, {"coder_file": ("a.json", json.dumps(broken).encode())}).status_code == 400, damage
    assert sent(boss, {"coder_file": ("a.zip", early), "model_file": ("b.zip", late)}).status_code == 400
    assert sent(boss, {"coder_file": ("a.json", b" " * 50_000_000)}).status_code == 413
    assert sent(boss, {}).status_code == 400
    assert ann.post("/evidence", data={"csrf": ann.csrf, "title": "x"}).status_code == 403
    assert ann.get("/evidence/99").status_code == 404
    assert boss.get(f"/evidence/{number}/export/exe").status_code == 404
    assert boss.get(f"/evidence/{number}/export/mdace?who=99").status_code == 404


def test_paths_in_a_zip_lead_nowhere(served: Served, tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        content = json.dumps(got_chart(packed(tmp_path / "one", chart(*CODED))))
        made.writestr("../../../../tmp/Inpatient/ICD-10/escaped-ICD-10.json", content)
        made.writestr("/etc/palpate/other.json", json.dumps({"hadm_id": 9, "notes": []}))
    read = imports.read_file("a.zip", out.getvalue(), imports.ReadHow(), by_model=False)
    assert [(one.note.chart, one.note.system, one.note.setting) for one in read] == [("7", "ICD-10", "Inpatient")]
    assert not Path("/etc/palpate").exists()
    assert not Path("/tmp/Inpatient").exists()


def test_taking_back_closing_and_deleting(served: Served, tmp_path: Path) -> None:
    boss, ann = served.member("Boss", "coordinator"), served.member("Ann", "coder")
    number, store = imported(boss, tmp_path), served.bench.store
    assert any(b"systolic heart" in path.read_bytes() for path in served.options.home.iterdir())
    for wrong in ("--5", "9" * 5_000):
        assert ann.get(f"/evidence/{number}", params={"at": wrong}).status_code == 200
        assert ann.send(f"/evidence/{number}/decide", at=wrong, decision="accept", entry="e").status_code == 400
    me = next(each.id for each in served.bench.register.everybody() if each.name == "Ann")
    for _ in range(2):  # sent twice: counts once
        decide(ann, number, 0, "reject")
    decide(ann, number, 0, "accept")
    assert decisions.decisions_of(store, number, me)[0].decision == "accept"
    ann.send(f"/evidence/{number}/undo")
    assert decisions.decisions_of(store, number, me)[0].decision == "reject"
    ann.send(f"/evidence/{number}/undo")
    assert decisions.decisions_of(store, number, me) == {}
    assert "said=nothing" in str(ann.send(f"/evidence/{number}/undo").url)
    boss.send(f"/evidence/{number}/close", close=1)
    assert decide(ann, number, 0, "accept").status_code == 400
    assert boss.send(f"/evidence/{number}/delete", title="other").status_code == 400
    boss.send(f"/evidence/{number}/delete", title="Charts")
    assert decisions.sets(store) == []
    assert store.read("SELECT * FROM evidence_notes") == []
    assert not any(b"systolic heart" in path.read_bytes() for path in served.options.home.iterdir())
    last = store.write(lambda db: db.execute("INSERT INTO evidence_sets (title, made) VALUES ('other', 0)").lastrowid)
    assert last == number + 1, "a page that is still open must not decide in another set"


def test_charts_of_a_run(tmp_path: Path) -> None:
    from tests.audits.evidence.evidence_charts import audit, charts, knower, quick, table

    cohort, gold = charts(12)
    quiet = {"faithfulness": False, "explain": "none"}
    said = gold.filter(pl.col("label") == "J18")
    audit(quick(gold, predicted={"toy": table(said)}, include_text=True, **quiet), cohort, tmp_path, toy=knower())
    with Served(tmp_path / "run", folder=tmp_path / "bench", show_notes=True) as served:
        boss, ann = served.member("Boss", "coordinator"), served.member("Ann", "coder")
        name = f"{tmp_path.name}-run"
        form = {"csrf": boss.csrf, "title": "Run", "source": "run", "run": f"{name}\ntoy"}
        answer = boss.post("/evidence", data=form)
        assert answer.status_code == 200, answer.text
        spans = decisions.items_of_set(served.bench.store, 1)
        texts = {note.place: note.text or "" for note in decisions.notes_of_set(served.bench.store, 1)}
        assert {texts[one.note][one.begin : one.end] for one in spans if one.by == "both"} == {"pneumonia"}
        assert ann.get("/evidence/1").status_code == 200
        assert boss.post("/evidence", data={**form, "run": "../x\ntoy"}).status_code == 400


@pytest.mark.skipif(not REPOSITORY.is_dir(), reason="the published MDACE repository is not here")
def test_the_published_charts_and_predictions(served: Served, tmp_path: Path) -> None:
    boss, ann = served.member("Boss", "coordinator"), served.member("Ann", "coder")
    predicted = sorted((REPOSITORY / "predictions" / "supervised_attn" / "Inpatient" / "ICD-9").rglob("*.json"))[:3]
    gold = [next((MDACE / "Inpatient" / "ICD-9").rglob(path.name)) for path in predicted]
    files = {}
    for field, paths, top in (("coder_file", gold, MDACE), ("model_file", predicted, REPOSITORY)):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as made:
            for path in paths:
                made.write(path, path.relative_to(top))
        files[field] = ("charts.zip", out.getvalue())
    answer = sent(boss, files)
    assert answer.status_code == 200, answer.text
    assert "no text here" in answer.text
    spans = decisions.items_of_set(served.bench.store, 1)
    assert {one.by for one in spans} >= {"coder", "model"}
    for one in spans:
        decide(ann, 1, one.place, "accept" if one.by != "model" else "reject")
    content = boss.get("/evidence/1/export/mdace").content
    again = {one.hadm_id: one for one in mdace.read(unpacked(content, tmp_path / "again"))}
    for path in gold:
        chart = mdace.read_chart(path)
        for note in chart.notes:
            kept = next(each for each in again[chart.hadm_id].notes if each.note_id == note.note_id)
            assert set(kept.annotations) == set(note.annotations)
