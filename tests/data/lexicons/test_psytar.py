"""Effect phrases from a workbook: its cells, the words and patterns that are refused, the lexicon file."""

from __future__ import annotations

import importlib.util
import struct
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.data.lexicons import noun_phrases
from palpate.data.lexicons.noun_phrases import Tagger, load_tagger, reject_tags, reject_words
from palpate.data.lexicons.psytar import AGAIN, KEPT, extract_effects, lexicon_text, read_mentions, write_effects
from palpate.errors import InputError, MissingExtra
from palpate.perturb.suites import read_suite_yaml

_PSYTAR = Path(__file__).parents[4] / "shared" / "data" / "psytar" / "PsyTAR_dataset.xlsx"
_HAS_MODEL = importlib.util.find_spec("spacy") and any(map(importlib.util.find_spec, noun_phrases.MODELS))
needs_spacy = pytest.mark.skipif(not _HAS_MODEL, reason="the extra 'nlp' is not installed")

_MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_KEEP = 'xml:space="preserve"'
_PACKAGE = 'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"'


def workbook(file: Path, rows: list[list[str]], *, sheet: str = "ADR_Identified", inline: bool = False) -> Path:
    """A workbook of one sheet, written by hand; texts are shared strings, or stand in their cells."""
    texts = sorted({text for row in rows for text in row if text})
    lines = []
    for number, row in enumerate(rows, start=1):
        cells = []
        for at, text in enumerate(row):
            place = f"{chr(65 + at)}{number}"
            if text and inline:
                cells.append(f'<c r="{place}" t="inlineStr"><is><t>{escape(text)}</t></is></c>')
            elif text:
                cells.append(f'<c r="{place}" t="s"><v>{texts.index(text)}</v></c>')
            else:
                cells.append(f'<c r="{place}"/>')
        lines.append(f'<row r="{number}">{"".join(cells)}</row>')
    # A text in two fonts is in two pieces.
    shared = "".join(
        f"<si><r><t {_KEEP}>{escape(t[:2])}</t></r><r><t {_KEEP}>{escape(t[2:])}</t></r></si>" for t in texts
    )
    with zipfile.ZipFile(file, "w") as package:
        package.writestr(
            "xl/workbook.xml",
            f'<workbook {_MAIN} xmlns:r="{_LINKS}"><sheets><sheet name="{sheet}" r:id="r1"/></sheets></workbook>',
        )
        package.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships {_PACKAGE}><Relationship Id="r0" Target="no.xml"/>'
            f'<Relationship Id="r1" Type="{_LINKS}/worksheet" Target="worksheets/one.xml"/></Relationships>',
        )
        package.writestr(
            "_rels/.rels",
            f'<Relationships {_PACKAGE}><Relationship Id="r1" Type="{_LINKS}/officeDocument" '
            'Target="xl/workbook.xml"/></Relationships>',
        )
        table = f"<sheetData>{''.join(lines)}</sheetData>"
        package.writestr("xl/worksheets/one.xml", f"<worksheet {_MAIN}>{table}</worksheet>")
        if not inline:
            package.writestr("xl/sharedStrings.xml", f"<sst {_MAIN}>{shared}</sst>")
    return file


def encrypted_workbook(file: Path) -> Path:
    """What Excel saves with a password: an OLE container with a stream `EncryptedPackage`, here without content."""
    free, end = 0xFFFFFFFF, 0xFFFFFFFE

    def entry(name: str, kind: int, child: int) -> bytes:
        written = name.encode("utf-16-le") + bytes(2)
        tree = struct.pack("<HBB3I", len(written), kind, 1, free, free, child)
        return written.ljust(64, bytes(1)) + tree + bytes(36) + struct.pack("<IQ", end, 0)

    head = bytes.fromhex("D0CF11E0A1B11AE1") + bytes(16) + struct.pack("<5H", 0x3E, 3, 0xFFFE, 9, 6) + bytes(6)
    head += struct.pack("<118I", 0, 1, 1, 0, 4096, end, 0, end, 0, 0, *[free] * 108)
    sectors = struct.pack("<128I", 0xFFFFFFFD, end, *[free] * 126)
    folder = entry("Root Entry", 5, 1) + entry("EncryptedPackage", 2, free)
    file.write_bytes(head + sectors + folder.ljust(512, bytes(1)))
    return file


ROWS = [
    ["id", "sentences", "ADR1", "ADR2"],
    ["1", "I had sore knees and slept badly.", "sore knees", "slept badly"],
    ["2", "Sore knees & no sleep", "Sore knees", "sore  knees"],
    ["3", "", "", "sore knees"],
    ["4", "x", "", ""],
    ["5", "x", "no sleep", "pain/ache"],
]


@pytest.mark.parametrize("inline", [True, False])
def test_cells_are_read_by_the_first_row(tmp_path: Path, inline: bool) -> None:
    file = workbook(tmp_path / "w.xlsx", ROWS, inline=inline)
    assert read_mentions(file) == [
        *("sore knees", "slept badly", "Sore knees", "sore  knees", "sore knees", "no sleep", "pain/ache"),
    ]


def test_of_two_columns_with_the_same_name_the_first_counts(tmp_path: Path) -> None:
    rows = [["ADR1", "ADR1", "", " ADR2 "], ["sore knees", "cough", "chills", "hives"]]
    assert read_mentions(workbook(tmp_path / "w.xlsx", rows)) == ["sore knees", "hives"]


def test_wrong_workbooks_are_named(tmp_path: Path) -> None:
    (tmp_path / "no.xlsx").write_text("id,ADR1")
    with pytest.raises(InputError, match=r"no\.xlsx: the file is not an Excel workbook \(\.xlsx\), or it is damaged"):
        read_mentions(tmp_path / "no.xlsx")
    with pytest.raises(InputError, match=r"absent\.xlsx: file not found"):
        read_mentions(tmp_path / "absent.xlsx")
    with pytest.raises(InputError, match="can't be read"):
        read_mentions(tmp_path)
    with pytest.raises(InputError, match="the workbook is protected by a password"):
        read_mentions(encrypted_workbook(tmp_path / "secret.xlsx"))
    with pytest.raises(InputError, match="there is no sheet 'ADR_Identified'; the sheets are: other"):
        read_mentions(workbook(tmp_path / "a.xlsx", ROWS, sheet="other"))
    with pytest.raises(InputError, match="has no reactions in columns ADR1"):
        read_mentions(workbook(tmp_path / "b.xlsx", [row[:2] for row in ROWS]))
    with pytest.raises(InputError, match="has no reactions in columns ADR1"):
        read_mentions(workbook(tmp_path / "c.xlsx", []))
    whole = (tmp_path / "a.xlsx").read_bytes()
    (tmp_path / "cut.xlsx").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="damaged"):
        read_mentions(tmp_path / "cut.xlsx")


@pytest.mark.parametrize(
    ("phrase", "reason"),
    [
        ("sore knees", ""),
        ("a child's cough-like hiccup", ""),
        ("nausea/vomiting", "punctuation or a symbol"),
        ("cold feet.", "punctuation or a symbol"),
        ("3 nosebleeds", "a number"),
        ("a cramp in the arch of my left foot", "more than 7 tokens"),
        ("No appetite", "a negation"),
        ("eyes that don't focus", "a negation"),
        ("nausea after lunch", "a word for time or order"),
        ("Zoloft headache", "the name of a drug"),
        ("-", "no letters"),
    ],
)
def test_words_that_are_refused(phrase: str, reason: str) -> None:
    assert reject_words(phrase.split(), names=frozenset({"zoloft"})) == reason


@pytest.mark.parametrize(
    ("phrase", "tags", "reason"),
    [
        ("cough", "NN", ""),
        ("sore knees", "JJ NNS", ""),
        ("very sore left knee", "RB JJ JJ NN", ""),
        ("a strange tingling", "DT JJ VBG", ""),
        ("toe wiggling", "NN VBG", ""),
        ("sneezing", "VBG", ""),
        ("twitching of eyelids", "VBG IN NNS", ""),
        ("aches in my left foot", "NNS IN PRP$ JJ NN", ""),
        ("hiccups and burps", "NNS CC NNS", ""),
        ("loss of feeling in both feet", "NN IN VBG IN DT NNS", ""),
        ("swollen lips", "VBN NNS", ""),
        ("hiccups or burps", "NNS CC NNS", "another pattern of parts of speech"),
        ("knees sore", "NNS JJ", "another pattern of parts of speech"),
        ("gained weight", "VBN NN", "a verb"),
        ("biting nails", "VBG NNS", "a verb"),
        ("inability to walk", "NN TO VB", "a verb"),
        ("very dizzy", "RB JJ", "no noun"),
    ],
)
def test_patterns_of_parts_of_speech(phrase: str, tags: str, reason: str) -> None:
    words = phrase.split()
    assert reject_tags(words, [tags.split()]) == reason
    # Every sentence that the phrase was tagged in must agree.
    assert reject_tags(words, [["NN"] * len(words), tags.split()]) == reason


def by_rule(phrases: list[list[str]]) -> list[list[list[str]]]:
    return [[["VBD" if word == "slept" else "NN" for word in words]] for words in phrases]


RULE = Tagger("a rule", by_rule)  # type: ignore[arg-type]


def test_the_yield_and_the_reasons(tmp_path: Path) -> None:
    found = extract_effects(workbook(tmp_path / "w.xlsx", ROWS), tagger=RULE)
    assert found.phrases == ("sore knees", "Sore knees")
    assert dict(found.rejected) == {
        "slept badly": "a verb",
        "sore  knees": AGAIN,
        "no sleep": "a negation",
        "pain/ache": "punctuation or a symbol",
    }
    assert (found.n_mentions, found.n_distinct) == (7, 6)
    assert found.table.row(0) == (KEPT, 2, pytest.approx(1 / 3))
    assert found.table["n"].sum() == 6
    folded = extract_effects(workbook(tmp_path / "w.xlsx", ROWS), tagger=RULE, fold=True)
    assert folded.phrases == ("sore knees",)


def test_a_suite_reads_the_lexicon(tmp_path: Path) -> None:
    rows = [["ADR1"], ["sore knees"], ["null"], ["it's: odd"], ["yes"], ["Gänsehaut"]]
    found = extract_effects(workbook(tmp_path / "w.xlsx", rows), tagger=RULE)
    assert found.phrases == ("sore knees", "null", "yes", "Gänsehaut")
    write_effects(found, tmp_path / "lexicons" / "mine.yaml", name="mine")
    (tmp_path / "suite.yaml").write_text(
        """\
suite: small
labels: {positive: ADE, negative: no ADE}
lexicons: {effect: lexicons/mine.yaml}
capabilities:
  - id: harm
    tests:
      - {id: plain, type: MFT, templates: [{id: t1, label: ADE, text: "I have {effect}."}]}
"""
    )
    suite = read_suite_yaml(tmp_path / "suite.yaml")
    texts = suite.cases(list(range(suite.size()))).texts
    assert sorted(texts) == sorted(f"I have {phrase}." for phrase in found.phrases)
    assert "a rule" in lexicon_text(found)
    table = (tmp_path / "lexicons" / "mine.yaml.reasons.csv").read_text()
    assert table.startswith("outcome,n,share\nkept,4,")


def test_files_that_are_no_lexicon_are_refused(tmp_path: Path) -> None:
    found = extract_effects(workbook(tmp_path / "w.xlsx", ROWS), tagger=RULE)
    with pytest.raises(InputError, match=r"give a file name that ends in \.yaml"):
        write_effects(found, tmp_path / "out.csv")
    with pytest.raises(InputError, match="no phrases are left"):
        write_effects(found._replace(phrases=()), tmp_path / "out.yaml")


def test_without_spacy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noun_phrases, "MODELS", ("no_such_model",))
    with pytest.raises(MissingExtra, match=r"palpate\[nlp\]"):
        load_tagger()


@given(st.lists(st.text(min_size=1), min_size=1, max_size=9))
def test_any_words_are_judged(words: list[str]) -> None:
    reason = reject_words(words)
    assert reason or (len(words) <= 7 and any(char.isalpha() for word in words for char in word))


@needs_spacy
def test_the_english_model_finds_noun_phrases() -> None:
    tagger = load_tagger()
    phrases = ["swollen ankles", "sharp pain in my left knee", "loss of taste", "sneezing", "chills"]
    others = ["drank too much", "very dizzy", "could not see", "Dizzy"]
    judged = [reject_tags(words, tags) for words, tags in _tagged(tagger, phrases + others)]
    assert judged[: len(phrases)] == [""] * len(phrases)
    assert all(judged[len(phrases) :])


def _tagged(tagger: Tagger, phrases: list[str]) -> list[tuple[list[str], list[list[str]]]]:
    words = [phrase.split() for phrase in phrases]
    return list(zip(words, tagger.tag(words), strict=True))


@pytest.mark.skipif(not _PSYTAR.exists(), reason="../shared/data/psytar is not here")
def test_the_real_workbook_has_the_papers_denominator() -> None:
    mentions = read_mentions(_PSYTAR)
    # The paper's 1,227 phrases are 36.50% of the distinct ones.
    assert len(mentions) == 4813
    assert round(1227 / len(set(mentions)), 4) == 0.3650


@needs_spacy
@pytest.mark.slow
@pytest.mark.skipif(not _PSYTAR.exists(), reason="../shared/data/psytar is not here")
def test_the_real_yield_is_near_the_papers() -> None:
    found = extract_effects(_PSYTAR)
    assert found.n_distinct == 3362
    assert 0.35 < len(found.phrases) / found.n_distinct < 0.45
    assert max(len(phrase.split()) for phrase in found.phrases) <= 7
    assert len(set(found.phrases)) == len(found.phrases)
