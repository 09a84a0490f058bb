"""Each audit's section says whether its numbers use the sampling weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from palpate import Cohort, RunDirectory, registry
from palpate.audits.performance import Performance
from palpate.models import ModelSpec
from palpate.run.execute.cache import ScoreCache
from palpate.run.runner import Job, ModelEntry, run
from palpate.testing import KeywordModel
from tests.run.test_runner import MeanRisk

NOTES = pl.DataFrame(
    {
        "text": ["fever", "fever fever", "well", "pain"] * 5,
        "ill": [1, 0, 0, 1] * 5,
        "sampling_weight": [1.0, 3.0, 1.0, 1.0] * 5,
    }
)


def sentences(frame: pl.DataFrame, folder: Path) -> dict[str, list[tuple[str, str]]]:
    cohort = Cohort.from_frame(frame, labels=["ill"], name="ward")
    audits: dict[str, Any] = {"performance": Performance(n_replicates=100), "risk": MeanRisk()}
    model = ModelEntry("toy", [ModelSpec("toy", "")], loaded=[KeywordModel({"fever": 1.0})])
    found = run(Job(cohort, [model], audits), RunDirectory(folder / "run"), ScoreCache(folder / "s.sqlite"))
    return {
        each.audit: [(f.kind, f.sentence) for f in each.findings if "sampling weights" in f.sentence] for each in found
    }


def test_used_and_not_used(tmp_path: Path) -> None:
    found = sentences(NOTES, tmp_path)
    ((kind, sentence),) = found["performance"]
    assert kind == "fact"
    assert "20 cases of ward are as precise as 15 of equal weight" in sentence
    ((kind, sentence),) = found["risk"]
    assert kind == "caveat"
    assert "are not used here: its numbers are about the sampled cases" in sentence


def test_weights_that_leave_little_are_a_caveat(tmp_path: Path) -> None:
    heavy = NOTES.with_columns(sampling_weight=pl.when(pl.int_range(pl.len()) == 0).then(1000.0).otherwise(1.0))
    ((kind, sentence),) = sentences(heavy, tmp_path)["performance"]
    assert kind == "caveat"
    assert "20 cases of ward are as precise as 1 of equal weight (Kish). A few heavy cases decide" in sentence


@pytest.mark.parametrize("frame", [NOTES.drop("sampling_weight"), NOTES.with_columns(sampling_weight=pl.lit(2.0))])
def test_nothing_is_said_of_equal_weights(frame: pl.DataFrame, tmp_path: Path) -> None:
    assert not any(sentences(frame, tmp_path).values())


def test_every_audit_says_why_it_does_not_use_them() -> None:
    for name in registry.names("audits"):
        because = vars(registry.find("audits", name)).get("unweighted_because")
        assert because is not None, f"{name} says neither that it uses sampling weights nor why it does not"
