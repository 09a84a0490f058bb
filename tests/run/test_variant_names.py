"""The variants of a run tell what they are about: word and filter, test, template and label, group; no note text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from palpate.audits.characteristics import Characteristics
from palpate.data.suites import read_suite_file
from palpate.results import Plan
from palpate.run.directory import RunDirectory
from tests.audits.capabilities import capability_runs
from tests.audits.vocabulary.test_audit import notes
from tests.audits.vocabulary.test_audit import quick as vocabulary

RNG = np.random.default_rng


def written(plan: Plan[Any], folder: Path) -> pl.DataFrame:
    run = RunDirectory(folder)
    run.write_variants("audit", plan)
    first = (folder / "variants/audit.parquet").read_bytes()
    run.write_variants("audit", plan)
    assert (folder / "variants/audit.parquet").read_bytes() == first  # a resumed run writes the same bytes
    return pl.read_parquet(folder / "variants/audit.parquet")


@pytest.mark.parametrize("swap", ["first", "all"])
def test_a_swap_names_its_word_and_filter(swap: str, tmp_path: Path) -> None:
    cohort = notes(60)
    offered = {"sepsis": ("grape",), "fall": ("lemon", "grape")}
    audit = vocabulary(filters=("uniform", "unigram"), replacements=offered, swap=swap)
    frame = written(audit.plan(cohort, RNG(0)), tmp_path)
    text = dict(zip(cohort.cases["case_id"].to_list(), cohort.texts, strict=True))
    swaps = frame.filter(pl.col("start").is_not_null())
    assert len(swaps) > 100
    for row in swaps.iter_rows(named=True):
        assert text[row["case_id"]][row["start"] : row["end"]].lower() == row["word"]
    assert set(swaps["filter"]) == {"uniform", "unigram", "own"}
    assert set(swaps.filter(pl.col("replacement").is_in(["grape", "lemon"]))["filter"]) == {"own"}
    assert set(swaps.filter(pl.col("replacement").is_in(["grape", "lemon"]))["word"]) == {"sepsis", "fall"}
    whole = frame.filter(pl.col("start").is_null())
    assert len(whole)
    assert whole["word"].null_count() == whole["filter"].null_count() == len(whole)
    assert set(frame["group"]) == {"original", "first swapped", "all swapped"}


@pytest.mark.parametrize("source", ["MIRRORED", "PAIRS"])
def test_a_sentence_names_its_test_template_and_label(source: str, tmp_path: Path) -> None:
    file = tmp_path / "suite.yaml"
    file.write_text(getattr(capability_runs, source))
    suite, label = read_suite_file(file), "ADE" if source == "MIRRORED" else "ill"
    cohort = capability_runs.cohort_of([f"note {k}" for k in range(20)], [k % 2 for k in range(20)], label=label)
    audit = capability_runs.quick(suite=file)
    frame = written(audit.plan(cohort, RNG(0)), tmp_path)
    made = frame.filter(pl.col("made_text").is_not_null())
    wanted = set()
    for case in suite.cases(np.arange(suite.size())):
        said = None if case.label is None else suite.labels.name(bool(case.label))
        named = (f"{case.capability}/{case.test}", case.template, said)
        wanted.add((case.text, *named, None))
        if case.changed:
            wanted.add((case.changed, *named, case.change))
    found = set(made.select("made_text", "test", "template", "label", "change").iter_rows())
    assert found <= wanted
    assert {row[2] for row in found} == {template.id for template in suite.templates}
    assert {row[4] for row in found} == {row[4] for row in wanted}
    own = frame.filter(pl.col("made_text").is_null())
    assert len(own) == 20
    assert all(own[name].null_count() == 20 for name in ("test", "template", "label", "change"))
    assert not any("note 3" in str(cell) for name in frame.columns for cell in frame[name])


def test_an_alteration_names_its_group_and_an_audit_without_names_has_no_more_columns(tmp_path: Path) -> None:
    cohort = capability_runs.cohort_of(["63 y/o M. He is well.", "63 y/o F. She is ill."], [0, 1])
    frame = written(Characteristics(alter=("gender",), observed="none").plan(cohort, RNG(0)), tmp_path)
    assert {"gender=male", "gender=female", "original"} <= set(frame["group"])
    assert frame.columns == ["cohort", "case_id", "variant", "group", "start", "end", "replacement", "made_text"]
