"""Cards tell no count that Table 1 withholds, in no format; `smallest_cell: 1` tells all, as it does there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from palpate.commands.audit import audit
from palpate.commands.cards import read_model_card, write_model_card
from palpate.commands.cards.recalibration import read_card, write_card
from palpate.report.cards.audited import Run
from palpate.report.cards.entries import Statement
from palpate.report.cards.measured import measure
from palpate.report.cards.small import SmallCounts
from palpate.report.committee import digest
from palpate.results import Chart
from palpate.run.directory import RunDirectory

KINDS = ("chai", "hti-1", "tripod-ai", "markdown")


def audited(folder: Path) -> Path:
    """300 patients: 3 of gender x, 3 with `rare`, all but 2 with `common`, 2 of the 30 of ethnicity c who died."""
    rng = np.random.default_rng(0)
    n = 300
    died, rare, common = rng.random(n) < 0.3, np.zeros(n, bool), np.ones(n, bool)
    gender, ethnicity = (rng.choice(values, n).astype(object) for values in (["f", "m"], ["a", "b"]))
    gender[[1, 2, 4]], ethnicity[:30], died[:30] = "x", "c", False
    died[[0, 7]], rare[[3, 50, 77]], common[[5, 90]] = True, True, False
    labels = {"died": died, "rare": rare, "common": common}
    whole = {name: y.astype(int) for name, y in labels.items()}
    attributes = {"gender": gender.astype(str), "ethnicity": ethnicity.astype(str)}
    pl.DataFrame({"id": np.arange(n), **whole, **attributes}).write_csv(folder / "cases.csv")
    scores = {name: np.clip(0.3 + 0.2 * y + rng.normal(0, 0.15, n), 0, 1) for name, y in labels.items()}
    pl.DataFrame({"id": np.arange(n), **scores}).write_csv(folder / "m.csv")
    config = {
        "cohort": {"file": "cases.csv", "case": "id", "labels": [*labels], "attributes": [*attributes]},
        "models": {"m": "predictions:m.csv"},
        "audits": {
            "data": {},
            "performance": {"n_replicates": 100},
            "subgroups": {"by": [*attributes], "n_replicates": 100},
        },
    }
    (folder / "audit.yaml").write_text(yaml.safe_dump(config))
    audit(folder / "audit.yaml", out=folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return audited(tmp_path_factory.mktemp("few"))


def numbers(run: Path, kind: str = "hti-1") -> list[dict[str, Any]]:
    facts = run.parent / "facts.yaml"
    facts.write_text("evaluation_kind: internal\n")
    card = read_model_card(run, kind, facts=facts)
    return [dict(each.number) for item in card.items for each in item.statements if each.number]


@pytest.mark.parametrize("kind", KINDS)
def test_no_small_count_is_in_a_card(run: Path, kind: str, tmp_path: Path) -> None:
    facts = tmp_path / "facts.yaml"
    facts.write_text("evaluation_kind: internal\n")
    card = read_model_card(run, kind, facts=facts)
    told = " ".join(each.text for item in card.items for each in item.statements)
    assert not re.search(r"(?<!than )\b[1-4] (cases|case|patients|patient)\b", told)
    assert "fewer than 5" in told
    for number in numbers(run, kind):
        n, positive = number["n"], number["n_positive"]
        assert n is None or n >= 5
        assert positive is None or positive == 0 or positive >= 5
        assert n is None or positive is None or n == positive or n - positive >= 5
    whole = write_model_card(run, kind, tmp_path / f"card{'.xml' if kind == 'chai' else '.json'}").file.read_text()
    assert "only 3 cases" not in whole
    assert "3 patients" not in whole


def test_what_the_card_says_instead(run: Path) -> None:
    text = "\n".join(item.text for item in read_model_card(run, "tripod-ai").items)
    assert "AUROC, died, gender=x: not known (not enough: fewer than 5 patients, at least 10 are needed)." in text
    assert "fewer than 5 cases of one class" in text
    positive = next(line for line in text.splitlines() if line.startswith("Cohort 'cases': 300 cases of 300 patients"))
    assert re.search(r"\bdied \d\d \(\d", positive)
    assert re.search(r"\brare fewer than 5[,.]", positive)
    assert re.search(r"\bcommon all but fewer than 5[,.]", positive)


def test_the_count_from_which_it_would_follow_is_withheld_too(run: Path) -> None:
    rows = [each for each in numbers(run) if each["name"] == "auroc" and each.get("group", "").startswith("gender=")]
    died = {each["group"]: each for each in rows if each["label"] == "died"}
    assert died["gender=x"]["n"] is None
    assert died["gender=x"]["withheld"] == ["n", "n_positive"]
    assert sum(each["n"] is None for each in died.values()) == 2
    dead = {
        each["group"]: each["n_positive"]
        for each in numbers(run)
        if each["name"] == "auroc" and each["label"] == "died"
    }
    assert [dead[f"ethnicity={name}"] is None for name in "abc"].count(True) == 2
    assert dead["ethnicity=c"] is None


def test_one_tells_all(run: Path) -> None:
    directory = RunDirectory(run)
    manifest = directory.read_manifest()
    manifest["audits"]["data"]["smallest_cell"] = 1
    measured = measure(Run(manifest, directory.read_results(), "m"), {})
    text = "\n".join(each.text for statements in measured.values() for each in statements)
    assert "not enough: 3 patients" in text
    assert "rare 3 (1.0%)" in text
    assert not any("withheld" in (each.number or {}) for statements in measured.values() for each in statements)


def test_sentences() -> None:
    small = SmallCounts({})
    for given_, wanted in (
        ("Of the audited cases, 2 of 40 notes and 0 of 31 patients stand in training.",
         "Of the audited cases, fewer than 5 of 40 notes and 0 of 31 patients stand in training."),
        ("only 1 case of one class", "fewer than 5 cases of one class"),
        ("only 1 case has it", "fewer than 5 cases have it"),
        ("3 predictions at or after the event do not count.",
         "fewer than 5 predictions at or after the event do not count."),
        ("1 prediction at or after the event does not count; 1 stay has no other and is left out",
         "fewer than 5 predictions at or after the event do not count; "
         "fewer than 5 stays have no other and are left out"),
        ("2 charts have no evidence", "fewer than 5 charts have no evidence"),
        ("200 cases from 3 patients", "200 cases from fewer than 5 patients"),
        ("1 to 4 notes", "fewer than 5 notes"),
        ("2 to 40 notes", "fewer than 5 to 40 notes"),
        ("up to 3 notes", "fewer than 5 notes"),
        ("2 of 3 patients", "fewer than 5 patients"),
        ("0 of 3 patients", "0 of fewer than 5 patients"),
        ("at least 1 case is needed; a method needs 2 patients; 0.3 to 4 events; 5 to 40 notes", None),
        ("3 audited notes (1.0%) are short", "fewer than 5 audited notes are short"),
        ("298 of 300 cases", "all but fewer than 5 of 300 cases"),
        ("no interval: fewer than 2 patients with or without the label", None),
        ("about 4 patients in a=b would settle it", None),
        ("1,204 cases; 1 of 2 labels; AUROC 0.3 (0.2-0.4); at least 3 events", None),
    ):  # fmt: skip
        assert small.sentence(given_) == (wanted or given_)
    assert SmallCounts({"audits": {"data": {"smallest_cell": 1}}}).sentence("1 case") == "1 case"
    assert SmallCounts({"audits": {"data": {"smallest_cell": 11}}}).sentence("10 cases") == "fewer than 11 cases"


@given(st.lists(st.integers(0, 40), min_size=2, max_size=6))
def test_no_withheld_count_follows_from_the_others(sizes: list[int]) -> None:
    """Who knows the total and all that is told is left with at least two groups, unless all are told."""
    rows = [
        Statement("", "", {"name": "auroc", "label": "y", "group": f"a={k}", "n": n, "n_positive": 0})
        for k, n in enumerate(sizes)
    ]
    told = [dict(each.number or {})["n"] for each in SmallCounts({}).told(rows)]
    gone = [n for n, shown in zip(sizes, told, strict=True) if shown is None]
    assert all(shown in (None, n) for n, shown in zip(sizes, told, strict=True))
    assert all(n in gone for n in sizes if 0 < n < 5)
    assert len(gone) != 1 or sum(n > 0 for n in sizes) == 1


def test_a_table_1_that_withholds_nothing_does_not_stop_it() -> None:
    """4 of gender f among 104 with a score: 104 less the 100 of gender m would tell them."""
    rows = [
        Statement(
            "", "", {"name": "auroc", "label": "y", **({"group": group} if group else {}), "n": n, "n_positive": 0}
        )
        for group, n in (("gender=f", 4), ("gender=m", 100), ("", 104))
    ]
    for withheld in (None, "withheld"):
        lines = {"characteristic": ["gender"] * 2, "value": ["f", "o"], "reason": [None, withheld]}
        small = SmallCounts({}, pl.DataFrame(lines, schema_overrides={"reason": pl.String}))
        assert [dict(each.number or {})["n"] for each in small.told(rows)] == [None, None, 104]


def test_positives_that_table_1_withholds_in_one_of_several_cohorts() -> None:
    lines = {"part": ["a", "b"], "characteristic": ["died"] * 2, "value": ["events"] * 2, "reason": ["withheld", None]}
    small = SmallCounts({}, pl.DataFrame(lines))
    cohorts = [{"name": name, "n": 100, "n_patients": 60, "n_labels": 1,
                "labels": [{"name": "died", "n_positive": 8}]} for name in "ab"]  # fmt: skip
    measured = measure(Run({"cohorts": cohorts}, [], "m", pl.DataFrame(lines)), {})
    told = " ".join(each.text for statements in measured.values() for each in statements)
    assert small.positives("died", 8, 100) == "withheld"
    assert "died withheld" in told
    assert "died 8" not in told


def test_who_was_audited_of_a_committee_has_no_small_count() -> None:
    made = digest({"cohorts": [{"name": "ward 3 notes", "n": 200, "n_patients": 3}]}, [])
    assert made.cohorts == ("ward 3 notes: 200 cases of fewer than 5 patients",)


def recalibrated(folder: Path, shared: int) -> Path:
    """50 patients of 4 cases in each of two splits; `rare` are all cases of two patients of each."""
    rng, n = np.random.default_rng(0), 400
    patient = [f"{'vt'[k // 200]}{k % 200 // 4}" for k in range(n)]
    patient = [
        f"v{k % 200 // 4}" if k >= 200 and k % 200 // 4 in range(2, 2 + shared) else patient[k] for k in range(n)
    ]
    died, rare = rng.random(n) < 0.4, np.arange(n) % 200 < 8
    p = np.clip(0.4 + 0.2 * died + rng.normal(0, 0.15, n), 0.01, 0.99)
    cases = {"id": np.arange(n), "patient": patient, "split": ["validation"] * 200 + ["test"] * 200}
    pl.DataFrame({**cases, "died": died.astype(int), "rare": rare.astype(int)}).write_csv(folder / "cases.csv")
    pl.DataFrame({"id": np.arange(n), "died": p, "rare": p}).write_csv(folder / "m.csv")
    config = {
        "cohort": {"file": "cases.csv", "case": "id", "patient": "patient", "labels": ["died", "rare"]},
        "models": {"m": "predictions:m.csv"},
        "audits": {"data": {}, "recalibration": {"n_replicates": 100, "methods": ["intercept"]}},
    }
    (folder / "audit.yaml").write_text(yaml.safe_dump(config))
    audit(folder / "audit.yaml", out=folder / "run")
    return folder / "run"


def test_the_card_of_a_recalibration_withholds_as_table_1(tmp_path: Path) -> None:
    run = recalibrated(tmp_path, shared=2)
    assert write_card(run, tmp_path / "card.json") == write_card(run, tmp_path / "card.md") == 2
    card, text = json.loads((tmp_path / "card.json").read_text()), (tmp_path / "card.md").read_text()
    died, rare = card["recalibrations"]
    assert died["fitted_on"]["events"] > 50
    assert rare["fitted_on"]["events"] == rare["tested_on"]["events"] == "withheld"
    assert "a number (withheld) with the outcome; tested on 200 cases, a number (withheld) with it." in text
    assert card["patients_in_both"] is None
    assert card["withheld"] == ["patients_in_both"]
    assert "- Fewer than 5 patients are in both splits, so that the gain looks larger than it is." in text
    assert "2 patients" not in text + json.dumps(card)
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["audits"]["data"]["smallest_cell"] = 1
    (run / "manifest.json").write_text(json.dumps(manifest))
    whole = read_card(run)
    assert whole["patients_in_both"] == 2
    assert "withheld" not in whole
    assert whole["limits"][0].startswith("2 patients are in both splits")


def test_a_card_is_still_data(run: Path, tmp_path: Path) -> None:
    card = json.loads(write_model_card(run, "hti-1", tmp_path / "h.json").file.read_text())
    assert "Small counts are withheld as in Table 1." in card["legend"]


def test_the_charts_of_a_committee_give_no_withheld_group_away(run: Path) -> None:
    """Table 1 withholds gender=f beside the 3 patients of gender=x; the forest's `n` would tell it."""
    directory = RunDirectory(run)
    manifest, table1 = directory.read_manifest(), directory.read_table("data", "table1")
    subgroups = next(each for each in directory.read_results() if each.audit == "subgroups")
    chart = next(each for each in subgroups.blocks if isinstance(each, Chart) and each.title == "AUROC in each group")
    shown, before = (
        {row["group"]: row["n"] for row in each.data if row["label"] == "died"}
        for each in (SmallCounts(manifest, table1).chart(chart), chart)
    )
    assert before["gender=f"] > 100
    assert shown == {**before, "gender=f": None}
    assert SmallCounts({"audits": {"data": {"smallest_cell": 1}}}).chart(chart) is chart
