"""WebAnno TSV 3.x: files written here as INCEpTION writes them, then read; and files that are damaged."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from palpate.data.annotations import webanno
from palpate.data.annotations.webanno import LayerSpan
from palpate.errors import CohortError
from tests.data.published import TSV3, needs_tsv3

LAYER = "webanno.custom.Code"
HEAD = f"#FORMAT=WebAnno TSV 3.3\n#T_SP={LAYER}|code|note\n\n\n"
SAMPLE = (
    HEAD
    + "#Text=Acute chest pain, stable.\n"
    + "1-1\t0-5\tAcute\tR07.9[1]\t*[1]\t\n"
    + "1-2\t6-11\tchest\tR07.9[1]|R07.89[2]\t*[1]|sure\\_[2]\t\n"
    + "1-3\t12-16\tpain\tR07.9[1]|R07.89[2]\t*[1]|sure\\_[2]\t\n"
    + "1-4\t16-17\t,\t_\t_\t\n"
    + "1-5\t18-24\tstable\tI10\ta\\|b\\\\\t\n"
    + "1-5.1\t20-22\tab\tE11\t*\t\n"
    + "1-6\t24-25\t.\t_\t_\t\n"
    + "\n"
    + "#Text=No\\tfever\\nnow\n"
    + "2-1\t27-29\tNo\t_\t_\t\n"
    + "2-2\t30-35\tfever\t*\t*\t\n"
    + "2-3\t36-39\tnow\t_\t_\t\n"
)


def write(folder: Path, content: str) -> Path:
    path = folder / "note.tsv"
    path.write_bytes(content.encode("utf-8"))
    return path


def test_a_file(tmp_path: Path) -> None:
    document = webanno.read(write(tmp_path, SAMPLE))
    assert document.text == "Acute chest pain, stable.  No\tfever\nnow"
    assert document.spans == (
        LayerSpan(0, 16, LAYER, {"code": "R07.9", "note": None}),
        LayerSpan(6, 16, LAYER, {"code": "R07.89", "note": "sure_"}),
        LayerSpan(18, 24, LAYER, {"code": "I10", "note": "a|b\\"}),
        LayerSpan(20, 22, LAYER, {"code": "E11", "note": None}),
        LayerSpan(30, 35, LAYER, {"code": None, "note": None}),
    )


def test_evidence(tmp_path: Path) -> None:
    document = webanno.read(write(tmp_path, SAMPLE))
    found = webanno.evidence(document, layer="Code", feature="code", code_system="ICD-10-CM")
    assert [(a.begin, a.end, a.code, a.code_system, a.type) for a in found] == [
        (0, 16, "R07.9", "ICD-10-CM", "Human"),
        (6, 16, "R07.89", "ICD-10-CM", "Human"),
        (18, 24, "I10", "ICD-10-CM", "Human"),
        (20, 22, "E11", "ICD-10-CM", "Human"),
    ]
    with pytest.raises(CohortError, match=re.escape(f"the layers are: {LAYER} (code, note)")):
        webanno.evidence(document, layer="Code", feature="icd", code_system="ICD-10-CM")
    with pytest.raises(CohortError, match="unknown code system 'ICD-11'"):
        webanno.evidence(document, layer="Code", feature="code", code_system="ICD-11")


def test_windows_line_ends_and_byte_order_mark(tmp_path: Path) -> None:
    plain = webanno.read(write(tmp_path, SAMPLE))
    assert webanno.read(write(tmp_path, "\ufeff" + SAMPLE.replace("\n", "\r\n"))) == plain


def test_offsets_count_utf_16_units(tmp_path: Path) -> None:
    lines = "#Text=🫀 pain İ\n1-1\t0-2\t🫀\tI10\t*\t\n1-2\t3-7\tpain\tR52\t*\t\n1-3\t8-9\tİ\tA00\t*\t\n"
    document = webanno.read(write(tmp_path, HEAD + lines))
    assert document.text == "🫀 pain İ"
    assert [document.text[s.begin : s.end] for s in document.spans] == ["🫀", "pain", "İ"]


def test_other_layers_are_read_over(tmp_path: Path) -> None:
    head = (
        "#FORMAT=WebAnno TSV 3.2\n#T_SP=webanno.custom.Plain|\n#T_CH=de.Chain|referenceRelation|referenceType\n"
        "#T_SP=de.Frame|value|ROLE_de.Frame:slots_de.Link|de.Target\n"
        "#T_RL=webanno.custom.Of|kind|BT_webanno.custom.Plain\n\n"
    )
    lines = (
        "#Text=a b\n"
        "1-1\t0-1\ta\t*[1]\t*->1-1\tx[1]\tv[4]\trole;role2\t1-2[5];1-1\t_\t_\n"
        "1-2\t2-3\tb\t*[1]\t_\t_\t_\t_\t_\tpart\t1-1[1_0]\n"
    )
    document = webanno.read(write(tmp_path, head + lines))
    assert document.spans == (
        LayerSpan(0, 1, "de.Frame", {"value": "v"}),
        LayerSpan(0, 3, "webanno.custom.Plain", {"": None}),
    )


def test_a_place_between_two_characters_is_read_and_is_no_evidence(tmp_path: Path) -> None:
    lines = "#Text=ab c\n1-1\t0-2\tab\t_\t_\t\n1-1.1\t1-1\t\tI10\t*\t\n1-2\t3-4\tc\tE11\t*\t\n1-2.1\t4-4\t\tR52\t*\t\n"
    document = webanno.read(write(tmp_path, HEAD + lines))
    assert [(s.begin, s.end, s.features["code"]) for s in document.spans] == [
        (1, 1, "I10"),
        (3, 4, "E11"),
        (4, 4, "R52"),
    ]
    found = webanno.evidence(document, layer="Code", feature="code", code_system="ICD-10-CM")
    assert [(a.begin, a.end, a.code) for a in found] == [(3, 4, "E11")]


def test_a_sentence_over_several_text_lines(tmp_path: Path) -> None:
    """As versions before 3.2 wrote a line break."""
    lines = "#Text=a\n#Text=b\n1-1\t0-1\ta\tI10[1]\t*[1]\t\n1-2\t2-3\tb\tI10[1]\t*[1]\t\n"
    document = webanno.read(write(tmp_path, HEAD.replace("3.3", "3.1") + lines))
    assert document.text == "a\nb"
    assert [(s.begin, s.end) for s in document.spans] == [(0, 3)]


def test_a_sentence_without_tokens_is_passed_over(tmp_path: Path) -> None:
    lines = "#Text=a\n1-1\t0-1\ta\t_\t_\t\n\n#Text= \n\n#Text=b\n3-1\t4-5\tb\tI10\t*\t\n"
    document = webanno.read(write(tmp_path, HEAD + lines))
    assert document.text == "a   b"
    assert [(s.begin, s.end) for s in document.spans] == [(4, 5)]


# --- round trips ------------------------------------------------------------------------------------------------


def escape(value: str) -> str:
    out = re.sub(r"(->|[\\\[\]|_;*])", r"\\\1", value)
    return out.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def units(text: str) -> int:
    return len(text.encode("utf-16-le", errors="surrogatepass")) // 2


VALUE = st.text(st.sampled_from("I1.\\[]|_;*->\tn\nté🫀 "), min_size=1, max_size=6)
TOKEN = st.text(st.sampled_from("ab1\\[]|_*;->é🫀#"), min_size=1, max_size=4)


@given(
    st.lists(st.tuples(TOKEN, st.sampled_from(["", " ", "\n", "\t "])), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), VALUE), max_size=5),
)
@example([("a", " "), ("b", "")], [(0, 1, "["), (0, 1, "["), (1, 1, "\\[1]")])
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, tokens: list[tuple[str, str]], marks: list[tuple[int, int, str]]
) -> None:
    text, places = "", []
    for token, gap in tokens:
        places.append((len(text), len(text) + len(token)))
        text += token + gap
    ranges = [(min(a, b) % len(tokens), max(a, b) % len(tokens), v) for a, b, v in marks]
    ranges = [(min(a, b), max(a, b), v) for a, b, v in ranges]
    rows = [f"#Text={escape(text)}"]
    for k, (token, _) in enumerate(tokens):
        here = [(n, v) for n, (a, b, v) in enumerate(ranges, start=1) if a <= k <= b]
        numbered = len(here) > 1 or any(ranges[n - 1][0] != ranges[n - 1][1] for n, _ in here)
        cell = "|".join(escape(v) + (f"[{n}]" if numbered else "") for n, v in here) or "_"
        begin = units(text[: places[k][0]])
        rows.append(f"1-{k + 1}\t{begin}-{begin + units(token)}\t{escape(token)}\t{cell}\t")
    path = tmp_path_factory.mktemp("tsv") / "note.tsv"
    path.write_text(f"#FORMAT=WebAnno TSV 3.3\n#T_SP={LAYER}|code\n\n" + "\n".join(rows) + "\n", encoding="utf-8")
    document = webanno.read(path)
    assert document.text == text
    expected = sorted((places[a][0], places[b][1], v) for a, b, v in ranges)
    assert sorted((s.begin, s.end, str(s.features["code"])) for s in document.spans) == expected


# --- INCEpTION's own samples ------------------------------------------------------------------------------------


@needs_tsv3
@pytest.mark.parametrize("sample", sorted(file.parent for file in TSV3.glob("*/reference.xmi")), ids=lambda p: p.name)
def test_spans_are_those_of_the_xmi_beside_it(sample: Path) -> None:
    """INCEpTION wrote the same document in both formats. TSV does not say which blanks are between two sentences."""
    root = ElementTree.parse(sample / "reference.xmi").getroot()
    text = next(element.attrib["sofaString"] for element in root if "sofaString" in element.attrib)
    units = re.sub(r"\s", " ", text).encode("utf-16-le")
    expected = Counter(
        (units[2 * int(each.attrib["begin"]) : 2 * int(each.attrib["end"])].decode("utf-16-le"), each.get("value"))
        for each in root
        if "begin" in each.attrib and not each.tag.endswith(("}Token", "}Sentence", "}DocumentMetaData", "}Relation"))
    )
    found = webanno.read(sample / "reference.tsv")
    assert found.text.split() == text.split()
    spans = ((re.sub(r"\s", " ", found.text[a.begin : a.end]), a.features.get("value")) for a in found.spans)
    assert Counter(spans) == expected


# --- bad input --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("#FORMAT=WebAnno TSV 3.3", "#FORMAT=WebAnno TSV 2", "row 1: the file does not start with #FORMAT"),
        ("#T_SP=webanno", "#T_XX=webanno", "row 2: the header describes a layer in an unknown form"),
        ("1-1\t0-5\tAcute\tR07.9[1]\t*[1]\t", "1-1\t0-5\tAcute\tR07.9[1]", "row 6: the line has 4 cells, but"),
        ("1-1\t0-5", "1-1\t0:5", "row 6: the line does not start with a token's number and its offsets"),
        ("1-1\t0-5", "x\t0-5", "row 6: the line does not start with a token's number and its offsets"),
        ("1-2\t6-11", "1-2\t11-6", "row 7: the token goes from 11 to 6"),
        ("1-2\t6-11", "1-2\t6-6", "row 7: the token goes from 6 to 6"),
        ("1-5.1\t20-22", "1-5.1\t22-20", "row 11: the token goes from 22 to 20"),
        ("1-2\t6-11", "1-2\t7-12", "row 7: the token differs from the text from 7 to 12"),
        ("1-6\t24-25\t.", "1-6\t24-99\t.", "row 12: the token ends at 99, but its sentence ends at 25"),
        ("2-1\t27-29", "2-1\t17-19", "row 15: the sentence overlaps the previous one"),
        ("Acute\tR07.9[1]\t*[1]", "Acute\tR07.9[1]|I10\t*[1]", "row 6: the columns of the layer webanno.custom.Code"),
        ("Acute\tR07.9[1]\t*[1]", "Acute\tR07.9[1]\t*[2]", "disagree on the annotation's number"),
        (
            "Acute\tR07.9[1]",
            "Acute\tR07.0[1]",
            "row 7: annotation [1] of the layer webanno.custom.Code has two different",
        ),
        ("#Text=Acute chest pain, stable.\n", "", "row 5: a token comes before the text of its sentence"),
        ("1-1\t0-5\tAcute", "1-1\t0-5\tAkute", "row 6: the token is not in the text of its sentence"),
    ],
)
def test_bad_files(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in SAMPLE
    path = write(tmp_path, SAMPLE.replace(old, new, 1))
    with pytest.raises(CohortError) as caught:
        webanno.read(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert said in message
    assert not re.search("acute|chest|stable", message.replace(str(path), ""), re.IGNORECASE)


def test_files_that_are_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(CohortError, match="file not found"):
        webanno.read(tmp_path / "nowhere.tsv")
    (tmp_path / "x.tsv").write_bytes(b"\xff\xff")
    with pytest.raises(CohortError, match="not UTF-8"):
        webanno.read(tmp_path / "x.tsv")
