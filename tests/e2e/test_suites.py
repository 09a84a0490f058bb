"""`palpate suite` and the suites' files through the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from tests.data.lexicons.test_psytar import ROWS, needs_spacy, workbook
from tests.e2e.command_line import CommandLine
from tests.e2e.conftest import CONFIG

SUITE = """\
suite: pain
labels: {positive: in pain, negative: not in pain}
lexicons:
  where: [the back, both hands]
capabilities:
  - id: negation
    tests:
      - id: negated
        type: MFT
        templates:
          - {id: n1, label: not in pain, text: "The patient [has|reports] no pain in {where}."}
"""


def test_the_suites_are_listed_and_shown(palpate: CommandLine) -> None:
    listed = palpate("suite", "list")
    assert listed.code == 0, listed.err
    assert "11,265" in listed.out
    shown = palpate("suite", "show", "ade")
    assert "temporal_order" in shown.out
    assert "negation" in shown.out


def test_a_suite_is_expanded_for_a_model_elsewhere(tmp_path: Path, palpate: CommandLine) -> None:
    (tmp_path / "pain.yaml").write_text(SUITE)
    ran = palpate("suite", "expand", tmp_path / "pain.yaml", "-n", 4, "--out", tmp_path / "cases.csv")
    assert ran.code == 0, ran.err
    assert set(pl.read_csv(tmp_path / "cases.csv")["text"]) == {
        f"The patient {verb} no pain in {where}." for verb in ("has", "reports") for where in ("the back", "both hands")
    }
    needs = palpate("suite", "expand", "notes", "--out", tmp_path / "notes.csv")
    assert needs.code == 2
    assert "'finding'" in needs.err
    chosen = palpate("suite", "expand", "notes", "--set", "finding=[pneumonia]", "--out", tmp_path / "notes.csv")
    assert chosen.code == 0, chosen.err
    assert pl.read_csv(tmp_path / "notes.csv")["text"].str.contains("pneumonia").any()


def test_a_bad_suite_names_file_and_line(tmp_path: Path, palpate: CommandLine) -> None:
    (tmp_path / "pain.yaml").write_text(SUITE.replace("{where}", "{there}"))
    ran = palpate("suite", "show", tmp_path / "pain.yaml")
    assert ran.code == 2
    assert "pain.yaml" in ran.err
    assert "line 11" in ran.err
    assert "there" in ran.err


def test_templates_of_another_group_are_checked(tmp_path: Path, palpate: CommandLine) -> None:
    (tmp_path / "theirs.csv").write_text('capability,label,template\nnegation,0,"i took {drug}  and had no pain"\n')
    ran = palpate("suite", "import", tmp_path / "theirs.csv")
    assert ran.code == 0, ran.err
    assert "negation" in ran.out
    assert "!" in ran.out


def test_word_labels_and_slots_of_another_groups_file(tmp_path: Path, palpate: CommandLine) -> None:
    (tmp_path / "theirs.csv").write_text(
        'capability,label,template\nnegation,no ADE,"I took {drug} and had no {symptom}."\n'
        'negation,ADE,"I took {drug} and had a {symptom}."\n'
    )
    given = ("--positive", "ADE", "--set", "symptom=[cough, fever]")
    assert palpate("suite", "import", tmp_path / "theirs.csv").code == 2
    ran = palpate("suite", "import", tmp_path / "theirs.csv", *given)
    assert ran.code == 0, ran.err
    assert "positive: ADE" in ran.out
    ran = palpate("suite", "expand", tmp_path / "theirs.csv", *given, "--out", tmp_path / "cases.csv")
    assert ran.code == 0, ran.err
    assert pl.read_csv(tmp_path / "cases.csv")["text"].str.contains("no cough|no fever|a cough|a fever").all()


def test_a_slot_is_filled_from_a_lexicons_file(tmp_path: Path, palpate: CommandLine) -> None:
    (tmp_path / "mine.yaml").write_text("lexicon: effects\narticle: none\nvalues: [brain zaps]\n")
    ran = palpate(
        "suite", "expand", "ade", "--set", f"effect={tmp_path / 'mine.yaml'}", "--n", 500, "--out", tmp_path / "c.csv"
    )
    assert ran.code == 0, ran.err
    cases = pl.read_csv(tmp_path / "c.csv")
    assert cases["text"].str.contains("brain zaps").any()
    assert cases["capability"].n_unique() == 4  # every template alike, not every case
    missing = palpate("suite", "expand", "ade", "--set", "effect=nowhere.yaml", "--out", tmp_path / "d.csv")
    assert missing.code == 2
    assert "nowhere.yaml" in missing.err


def test_a_slot_that_a_file_does_not_have_is_told(tmp_path: Path, palpate: CommandLine) -> None:
    (tmp_path / "theirs.csv").write_text("capability,label,template\nnegation,0,I took {drug}.\n")
    (tmp_path / "cases.jsonl").write_text('{"text": "I took it.", "label": 0}\n')
    for name in ("theirs.csv", "cases.jsonl"):
        ran = palpate("suite", "show", tmp_path / name, "--set", "drgu=[Zoloft]")
        assert ran.code == 2
        assert "no slot 'drgu'" in ran.err


@needs_spacy
def test_effect_phrases_of_a_workbook_become_a_lexicon(tmp_path: Path, palpate: CommandLine) -> None:
    source, out = workbook(tmp_path / "psytar.xlsx", ROWS), tmp_path / "effects.yaml"
    ran = palpate("lexicon", "psytar", "--source", source, "--out", out)
    assert ran.code == 0, ran.err
    shares = dict(re.findall(r"(kept|a negation|punctuation or a symbol) +\d+ +([\d.]+%)", ran.out))
    assert shares == {"kept": "33.3%", "a negation": "16.7%", "punctuation or a symbol": "16.7%"}
    assert pl.read_csv(tmp_path / "effects.yaml.reasons.csv")["n"].sum() == 6
    ran = palpate("suite", "expand", "ade", "--set", f"effect={out}", "--n", 200, "--out", tmp_path / "cases.csv")
    assert ran.code == 0, ran.err
    assert pl.read_csv(tmp_path / "cases.csv")["text"].str.contains("(?i)sore knees").any()


CSV = 'capability,label,template\nnegation,0,"No fever in {where}."\nnegation,1,"Much fever in {where}."\n'
JSONL = '{"text": "No fever.", "label": 0}\n{"text": "Much fever.", "label": 1}\n'


@pytest.mark.parametrize(
    ("name", "content", "slots"),
    [
        ("pain.yaml", SUITE, {}),
        ("theirs.csv", CSV, {"where": ["the ward", "the clinic"]}),
        ("cases.jsonl", JSONL, {}),
    ],
)
def test_an_audit_takes_the_users_own_suite(
    project: Path, palpate: CommandLine, name: str, content: str, slots: dict[str, list[str]]
) -> None:
    (project / name).write_text(content)
    options = {"suite": name, "threshold": 0.5, "n_replicates": 100, **({"slots": slots} if slots else {})}
    config = CONFIG.replace("performance: {n_replicates: 200}", f"capabilities: {json.dumps(options)}")
    (project / "audit.yaml").write_text(config)
    ran = palpate("audit", project / "audit.yaml", "--out", project / "run")
    assert ran.code == 0, ran.err
    spec = json.loads((project / "run" / "manifest.json").read_text())["audits"]["capabilities"]
    assert spec["suite"] == str(project / name)
    assert spec["slots"] == (slots or None)
    assert pl.read_parquet(project / "run" / "results" / "capabilities.parquet").height > 0


def test_a_suites_file_is_read_before_the_cohort(project: Path, palpate: CommandLine) -> None:
    config = CONFIG.replace("performance: {n_replicates: 200}", "capabilities: {suite: nowhere.yaml}")
    (project / "audit.yaml").write_text(config.replace("notes.csv", "nowhere.csv"))
    ran = palpate("audit", project / "audit.yaml")
    assert ran.code == 2
    assert "nowhere.yaml: suite not found" in ran.err


def test_rows_of_another_groups_file_are_variations_of_base_templates(tmp_path: Path, palpate: CommandLine) -> None:
    rows = [f'negation,0,"I {verb} {{drug}} and had no {{symptom}}."' for verb in ("took", "used", "tried")]
    (tmp_path / "theirs.csv").write_text("\n".join(["capability,label,template", *rows, ""]))
    (tmp_path / "base.csv").write_text("\n".join(["capability,label,template", rows[0], ""]))
    (tmp_path / "symptoms.txt").write_text("cough\nfever\n")
    unknown = palpate("suite", "import", tmp_path / "theirs.csv")
    assert unknown.code == 2
    assert "--set symptom=FILE" in unknown.err
    given = ("--set", f"symptom={tmp_path / 'symptoms.txt'}")
    found = palpate("suite", "import", tmp_path / "theirs.csv", *given)
    assert found.code == 0, found.err
    assert "3 rows are variations of 1 base templates, grouped by their wording" in found.out
    out = tmp_path / "grouped.csv"
    exact = palpate("suite", "import", tmp_path / "theirs.csv", *given, "--base", tmp_path / "base.csv", "--out", out)
    assert exact.code == 0, exact.err
    assert "by the nearest row of the base file" in exact.out
    assert pl.read_csv(out)["base"].to_list() == ["base-1"] * 3
    refused = palpate("suite", "import", "ade", "--base", tmp_path / "base.csv")
    assert refused.code == 2
    assert "CSV" in refused.err
