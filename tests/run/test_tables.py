"""Tables that are written part by part are those that are written whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Edit, VariantsBuilder
from palpate.results import ModelPredictions, Plan, VariantNames
from palpate.run import tables
from palpate.run.directory import RunDirectory


class Words:
    """Names the words of every third variant."""

    def variant_names(self) -> dict[str, VariantNames]:
        row = np.arange(0, 40, 3)
        return {"word": VariantNames(row, row % 2, ("fever", "cough"))}


def plan(cohort: Cohort) -> Plan[Words]:
    builder = VariantsBuilder(n_cases=len(cohort))
    for row in range(40):
        builder.add(row % 7, "altered", [Edit(k, k + 1, f"new{k}") for k in range(row % 3)])
    builder.make("a made text", "made")
    return Plan(cohort, builder.build(), cohort.labels, memory=Words())


@pytest.mark.parametrize("private", [False, True])
def test_parts_make_the_whole(cohort: Cohort, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, private: bool) -> None:
    asked = Plan(**{**vars(plan(cohort)), "private": private})
    p = np.random.default_rng(0).random((41, 2))
    p[5, 1] = np.nan
    parts = {name: ModelPredictions(("a", "b"), p, p[:, 0] > 0.1) for name in ("one", "two")}
    frames = []
    for size, name in ((1 << 18, "whole"), (6, "parts")):
        monkeypatch.setattr(tables, "ROWS_PER_PART", size)
        run = RunDirectory(tmp_path / name)
        run.write_variants("one", asked)
        run.write_predictions("m", parts)
        frames.append([pl.read_parquet(run.path / file) for file in ("variants/one.parquet", "predictions/m.parquet")])
    for whole, part in zip(*frames, strict=True):
        assert whole.schema == part.schema
        assert whole.equals(part)
    assert frames[0][0].height == 41 + sum(max(row % 3, 1) - 1 for row in range(40))
    assert frames[0][1].height == 80
    assert frames[0][0]["replacement"].null_count() == (frames[0][0].height if private else 15)


@pytest.mark.parametrize("size", [1 << 18, 6])
def test_audits_of_different_labels(cohort: Cohort, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(tables, "ROWS_PER_PART", size)
    p = np.random.default_rng(0).random((10, 3))
    builder = VariantsBuilder(n_cases=len(cohort))
    for row in range(6):
        builder.add(row, "as it is", [])
    run = RunDirectory(tmp_path / "run")
    parts = {
        "one": ModelPredictions(("a", "b", "c"), p, p[:, 0] > 0),
        "two": ModelPredictions(("c",), p[:6, :1], p[:6, 0] > 0),
        "three": ModelPredictions(("b", "a"), p[:6, :2], p[:6, 0] > 0),
    }
    for audit in ("two", "three"):
        run.write_variants(audit, Plan(cohort, builder.build(), cohort.labels, memory=None))
    run.write_predictions("m", parts)
    assert pl.read_parquet(run.path / "predictions" / "m.parquet").height == 22
    for label, column in (("b", 0), ("a", 1), ("c", 0)):
        scores = run.read_scores("m", label)
        assert scores is not None
        assert scores["p"].to_list() == p[:6, column].tolist()
        assert scores["case_id"].to_list() == cohort.cases["case_id"][:6].to_list()
