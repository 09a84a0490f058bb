"""INCEpTION's exports: CAS JSON, XMI, zip files and folders; round trips with emoji, its own samples, bad files."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palpate.data.annotations import uima_cas, webanno
from palpate.data.annotations.inception import find_exports, read_export
from palpate.data.annotations.webanno import LayerSpan
from palpate.data.annotations.webanno_projects import import_evidence, measure_agreement, read_projects
from palpate.errors import CohortError, MissingExtra
from tests.data.annotations.webanno_files import LAYER, tsv, write_project
from tests.data.published import INCEPTION, TSV3, needs_inception, needs_tsv3

pytest.importorskip("cassis")
TEXT = "Chest 🫁 pain, no fever. 😊 Asystole seen."
TYPE_SYSTEM = f"""<?xml version="1.0"?>
<typeSystemDescription xmlns="http://uima.apache.org/resourceSpecifier"><types>
<typeDescription><name>{LAYER}</name><description/><supertypeName>uima.tcas.Annotation</supertypeName><features>
<featureDescription><name>code</name><description/><rangeTypeName>uima.cas.String</rangeTypeName></featureDescription>
</features></typeDescription></types></typeSystemDescription>"""


def mark(words: str, code: str | None, text: str = TEXT) -> LayerSpan:
    at = text.index(words)
    return LayerSpan(at, at + len(words), LAYER, {"code": code})


def xmi(text: str, spans: list[LayerSpan]) -> str:
    """As UIMA writes it; offsets in UTF-16 units, by encoding what comes before."""
    rows = []
    for k, span in enumerate(spans, start=10):
        begin, end = (len(text[:at].encode("utf-16-le")) // 2 for at in (span.begin, span.end))
        rows.append(f'<custom:Code xmi:id="{k}" sofa="1" begin="{begin}" end="{end}" code="{span.features["code"]}"/>')
    members = " ".join(str(k) for k in range(10, 10 + len(spans)))
    return (
        '<?xml version="1.0" encoding="UTF-8"?><xmi:XMI xmlns:xmi="http://www.omg.org/XMI" '
        'xmlns:cas="http:///uima/cas.ecore" xmlns:custom="http:///webanno/custom.ecore" xmi:version="2.0">'
        f'<cas:NULL xmi:id="0"/>{"".join(rows)}<cas:Sofa xmi:id="1" sofaNum="1" sofaID="_InitialView" '
        f'mimeType="text" sofaString="{text}"/><cas:View sofa="1" members="{members}"/></xmi:XMI>'
    )


CHARACTERS = st.sampled_from('ab é😊🫁\n\t"\\{|[]_中𝒳')


@settings(deadline=None, max_examples=40)
@given(
    text=st.text(CHARACTERS, min_size=1, max_size=30),
    marks=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.none() | st.text(CHARACTERS, max_size=4))),
)
def test_what_is_written_as_json_is_read(text: str, marks: list[tuple[int, int, str | None]]) -> None:
    places = [(min(a, b, len(text)), min(max(a, b), len(text)), value) for a, b, value in marks]
    spans = [LayerSpan(begin, end, LAYER, {"code": value}) for begin, end, value in places]
    found = uima_cas.read_json(uima_cas.write_json(text, spans).encode(), Path("note.json"))
    assert found.text == text
    key = lambda span: (span.begin, span.end, str(span.features))  # noqa: E731
    assert sorted(found.spans, key=key) == sorted(spans, key=key)


def test_offsets_in_the_file_are_utf_16_units() -> None:
    span = mark("Asystole", "I46.9")
    written = json.loads(uima_cas.write_json(TEXT, [span]))
    (row,) = [row for row in written["%FEATURE_STRUCTURES"] if row["%TYPE"] == LAYER]
    units = TEXT.encode("utf-16-le")
    assert units[2 * row["begin"] : 2 * row["end"]].decode("utf-16-le") == "Asystole"
    assert row["begin"] == span.begin + 2
    with pytest.raises(ValueError, match="span 0 is not inside the text"):
        uima_cas.write_json("short", [span])


@pytest.mark.parametrize("types", [None, TYPE_SYSTEM.encode()], ids=["no type system", "type system"])
def test_xmi(types: bytes | None) -> None:
    spans = [mark("Chest 🫁 pain", "R07.9"), mark("Asystole", "I46.9")]
    found = uima_cas.read_xmi(xmi(TEXT, spans).encode(), types, Path("note.xmi"))
    assert (found.text, list(found.spans)) == (TEXT, spans)


def project(folder: Path, ending: str) -> Path:
    """The same project in one of the formats."""
    marks = {"anna": [("Chest 🫁 pain", "R07.9"), ("Asystole", "I46.9")], "ben": [("pain", "R07.9")]}
    place = folder / "annotation" / "7.txt"
    place.mkdir(parents=True)
    for who, some in marks.items():
        spans = [mark(words, code) for words, code in some]
        if ending == ".json":
            (place / f"{who}.json").write_text(uima_cas.write_json(TEXT, spans), encoding="utf-8")
        elif ending == ".xmi":
            (place / f"{who}.xmi").write_text(xmi(TEXT, spans), encoding="utf-8")
            (place / "TypeSystem.xml").write_text(TYPE_SYSTEM)
        else:
            with zipfile.ZipFile(place / f"{who}.zip", "w") as packed:
                packed.writestr(f"{who}.xmi", xmi(TEXT, spans))
                packed.writestr("TypeSystem.xml", TYPE_SYSTEM)
    return folder


def zipped(folder: Path, file: Path) -> Path:
    with zipfile.ZipFile(file, "w") as packed:
        for each in sorted(folder.rglob("*")):
            packed.write(each, each.relative_to(folder))
    return file


@pytest.mark.parametrize("ending", [".json", ".xmi", ".zip"])
def test_a_project_in_every_format_and_as_the_downloaded_zip(tmp_path: Path, ending: str) -> None:
    folder = project(tmp_path / "p", ending)
    expected = [("R07.9", 0, 12), ("I46.9", 26, 34)]
    for source in (folder, zipped(folder, tmp_path / "exported.zip"), tmp_path):
        if source == tmp_path:
            (tmp_path / "exported.zip").unlink()
        found = import_evidence(source, annotator="anna")
        rows = list(found.evidence.select("label", "start", "end").iter_rows())
        assert rows == expected
        assert [TEXT[start:end] for _, start, end in rows] == ["Chest 🫁 pain", "Asystole"]
    assert measure_agreement(folder).measures["n_spans"][0] == 3


def test_tsv_in_a_zip_is_what_it_is_in_the_folder(tmp_path: Path) -> None:
    documents = {"one.txt": ("Chest pain and asystole.", {"anna": [("pain", "R07.9")], "INITIAL_CAS": []})}
    folder = write_project(tmp_path / "p", documents, curated={"one.txt": [("Chest pain", "R07.9")]})
    archive = zipped(folder, tmp_path / "q.zip")
    for curated in (False, True):
        ours, theirs = (read_projects(source, curated=curated) for source in (folder, archive))
        assert [one._replace(project="") for one in ours] == [one._replace(project="") for one in theirs]
        assert [one.annotator for one in ours] == (["CURATION_USER"] if curated else ["anna"])


def test_a_folder_that_was_packed_again(tmp_path: Path) -> None:
    folder = project(tmp_path / "outer" / "p", ".json")
    archive = zipped(folder.parent, tmp_path / "again.zip")
    assert [one.content for one in read_projects(archive)] == [one.content for one in read_projects(folder)]


def test_a_document_alone(tmp_path: Path) -> None:
    spans = [mark("Asystole", "I46.9")]
    (tmp_path / "7.json").write_text(uima_cas.write_json(TEXT, spans), encoding="utf-8")
    (tmp_path / "7.xmi").write_text(xmi(TEXT, spans), encoding="utf-8")
    (tmp_path / "7.tsv").write_text(tsv("no fever", [("fever", "R50.9")]), encoding="utf-8")
    with zipfile.ZipFile(tmp_path / "7.zip", "w") as packed:
        packed.writestr("7.xmi", xmi(TEXT, spans))
        packed.writestr("TypeSystem.xml", TYPE_SYSTEM)
    for ending, code in ((".json", "I46.9"), (".xmi", "I46.9"), (".zip", "I46.9"), (".tsv", "R50.9")):
        (one,) = read_projects(tmp_path / f"7{ending}")
        assert (one.document, one.annotator, one.content.spans[0].features["code"]) == ("7", "7", code)


def test_projects_that_were_packed_into_one_zip(tmp_path: Path) -> None:
    one, two = (zipped(project(tmp_path / name / "p", ".zip"), tmp_path / f"{name}.zip") for name in ("one", "two"))
    expected = [(who, each.content) for who in ("one", "two") for each in read_projects(tmp_path / f"{who}.zip")]
    for folder in ("", "all/"):
        with zipfile.ZipFile(tmp_path / "outer.zip", "w") as packed:
            for file in (one, two):
                packed.write(file, f"{folder}{file.name}")
        assert [(each.project, each.content) for each in read_projects(tmp_path / "outer.zip")] == expected


def test_a_folder_of_one_document_and_what_a_mac_adds(tmp_path: Path) -> None:
    """The unpacked zip of a document: its file and the type system."""
    (tmp_path / "7.xmi").write_text(xmi(TEXT, [mark("Asystole", "I46.9")]), encoding="utf-8")
    (tmp_path / "TypeSystem.xml").write_text(TYPE_SYSTEM)
    (tmp_path / "._7.xmi").write_bytes(b"\0\5\x16\7")
    (one,) = read_projects(tmp_path)
    assert (one.document, one.content.spans[0].features["code"]) == ("7", "I46.9")
    folder = project(tmp_path / "p", ".json")
    place = next(folder.rglob("*.json")).parent
    for name in (".DS_Store", "._anna.json"):
        (place / name).write_bytes(b"\0\5\x16\7")
    assert {each.annotator for each in read_projects(folder)} == {"anna", "ben"}
    archive = zipped(folder, tmp_path / "mac.zip")
    with zipfile.ZipFile(archive, "a") as packed:
        packed.writestr("__MACOSX/annotation/7.txt/._anna.json", b"\0")
    assert {each.annotator for each in read_projects(archive)} == {"anna", "ben"}


# --- what is wrong with a file ----------------------------------------------------------------------------------


def test_exports_that_hold_no_annotations(tmp_path: Path) -> None:
    place = tmp_path / "annotation" / "7.txt"
    place.mkdir(parents=True)
    with pytest.raises(
        CohortError, match=r"the folder has no annotated documents; palpate looks for annotation/DOCUMENT"
    ):
        read_projects(tmp_path)
    (place / "anna.txt").write_text("secret words")
    with pytest.raises(CohortError) as caught:
        read_projects(tmp_path)
    message = str(caught.value)
    assert "the project was exported as .txt, which has no annotations that can be read; in INCEpTION choose" in message
    assert "secret" not in message
    with pytest.raises(CohortError, match="file or folder not found; in INCEpTION choose"):
        read_projects(tmp_path / "nowhere")
    (tmp_path / "notes.docx").write_bytes(b"")
    with pytest.raises(CohortError, match=r"a file '\.docx' is not an export"):
        read_projects(tmp_path / "notes.docx")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.zip", b"secret", "the file is not a zip file; download the export again"),
        ("a.json", b'{"secret": 1}', "the file is not UIMA CAS JSON; export as"),
        ("a.json", b"secret", "the file is not UIMA CAS JSON; export as"),
        ("a.json", b'{"%TYPES": {}, "%FEATURE_STRUCTURES": [], "%VIEWS": {}}', "the document has no text"),
        ("a.xmi", b"<secret", "the file is not UIMA CAS XMI, or not of this type system; give the TypeSystem.xml"),
    ],
    ids=["zip", "other json", "no json", "no text", "xmi"],
)
def test_bad_files(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CohortError) as caught:
        read_projects(tmp_path / name)
    assert said in str(caught.value)
    assert str(tmp_path / name) in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("how", ["damaged", "locked"])
def test_a_file_in_a_zip_that_cannot_be_read(tmp_path: Path, how: str) -> None:
    content = bytearray(zipped(project(tmp_path / "p", ".json"), tmp_path / "q.zip").read_bytes())
    if how == "damaged":
        at = content.find(b"Asystole")
        content[at : at + 1] = b"a"
    else:
        for mark_, flag in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            at = content.find(mark_)
            while at >= 0:
                content[at + flag] |= 1
                at = content.find(mark_, at + 4)
    (tmp_path / "q.zip").write_bytes(content)
    with pytest.raises(CohortError, match="the file is damaged, or needs a password") as refused:
        read_projects(tmp_path / "q.zip")
    assert "annotation" in str(refused.value)


def test_the_path_of_a_bad_file_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "docs" / "7.txt").mkdir(parents=True)
    (tmp_path / "docs" / "7.txt" / "anna.json").write_text("{}")
    with pytest.raises(CohortError) as refused:
        read_projects(tmp_path / "docs")
    assert refused.value.file == tmp_path / "docs" / "7.txt" / "anna.json"


def test_a_span_outside_the_text_is_refused() -> None:
    content = uima_cas.write_json("asystole", [LayerSpan(0, 8, LAYER, {"code": "I46.9"})])
    with pytest.raises(CohortError):
        uima_cas.read_json(content.replace('"end": 8, "code"', '"end": 99, "code"').encode(), Path("a.json"))


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uima_cas, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'palpate\[inception\]'"):
        uima_cas.read_json(b"", Path("a.json"))


# --- INCEpTION's own samples ------------------------------------------------------------------------------------


@needs_tsv3
@pytest.mark.parametrize("sample", sorted(file.parent for file in TSV3.glob("*/reference.xmi")), ids=lambda p: p.name)
def test_xmi_has_the_spans_of_the_tsv_beside_it(sample: Path) -> None:
    """TSV does not say which blanks are between two sentences."""
    ours = uima_cas.read_xmi((sample / "reference.xmi").read_bytes(), None, sample / "reference.xmi")
    theirs = webanno.read(sample / "reference.tsv")
    said = [
        sorted((re.sub(r"\s+", " ", one.text[span.begin : span.end]), span.features.get("value")) for span in one.spans)
        for one in (ours, theirs)
    ]
    assert sorted(map(str, said[0])) == sorted(map(str, said[1]))


@needs_inception
def test_one_document_in_three_formats() -> None:
    """INCEpTION's `testSimpleSlotFeature`, as TSV, XMI and JSON."""
    folder = INCEPTION / "casjson" / "tsv3-testSimpleSlotFeature"
    types = (folder / "debug-typesystem.xml").read_bytes()
    read = [
        uima_cas.read_json((folder / "data.json").read_bytes(), folder),
        uima_cas.read_xmi((folder / "debug.xmi").read_bytes(), types, folder),
        uima_cas.read_xmi((folder / "debug.xmi").read_bytes(), None, folder),
        webanno.read(TSV3 / "testSimpleSlotFeature" / "reference.tsv"),
    ]
    places = [sorted((span.layer, span.begin, span.end) for span in one.spans) for one in read]
    assert places[0]
    assert all(place == places[0] for place in places)


@needs_inception
def test_emoji_of_the_sample() -> None:
    folder = INCEPTION / "casjson" / "casWithEmojiUnicodeTextAndAnnotations"
    found = uima_cas.read_json((folder / "data.json").read_bytes(), folder)
    units = found.text.encode("utf-16-le")
    raw = json.loads((folder / "data.json").read_text(encoding="utf-8"))["%FEATURE_STRUCTURES"]
    expected = [
        units[2 * row["begin"] : 2 * row["end"]].decode("utf-16-le")
        for row in raw
        if row["%TYPE"] == "uima.tcas.Annotation"
    ]
    assert [found.text[span.begin : span.end] for span in found.spans] == expected
    again = uima_cas.read_json(uima_cas.write_json(found.text, found.spans).encode(), folder)
    assert again.spans == found.spans
    types = (folder / "debug-typesystem.xml").read_bytes()
    assert uima_cas.read_xmi((folder / "debug.xmi").read_bytes(), types, folder).spans == found.spans


@needs_inception
def test_the_exported_zip() -> None:
    (file,) = (INCEPTION / "project_export").glob("*.zip")
    with pytest.raises(CohortError, match=r"was exported as \.txt"):
        read_projects(file)
    ((name, versions),) = read_export(find_exports(file, curated=True)[0], curated=True).items()
    assert (name, list(versions)) == ("example_sentence.txt", ["CURATION_USER"])
    assert [span.layer.rsplit(".", 1)[-1] for span in versions["CURATION_USER"].spans] == ["Chunk"]
