"""Plans larger than memory: their columns are in files, and what is in memory on the way is small."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest

from palpate import Cohort
from palpate.audits.kit.thresholds import Thresholds
from palpate.audits.vocabulary import Vocabulary
from palpate.audits.vocabulary.measures import SwapEffects, lay_out
from palpate.cases import scratch
from palpate.results import ModelPredictions, Plan, Predictions
from palpate.run.execute import cut_calls
from palpate.run.execute.wanted import gather, want
from palpate.testing import KeywordModel

MOST_BYTES = 50
"""Per variant, at any time: the columns of one variant have more than 100."""
WORDS = tuple(f"target{k:02d}" for k in range(30))


class MemoryPeaks:
    """The most memory that was taken since the last look, without what is in files."""

    def since(self) -> int:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        return peak


@pytest.fixture
def peaks(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryPeaks]:
    monkeypatch.setattr(scratch, "IN_MEMORY", 1 << 14)
    monkeypatch.setattr(scratch, "AT_ONCE", 1 << 9)
    planned(2), wanted(planned(2))  # what is imported and compiled does not count
    tracemalloc.start()
    yield MemoryPeaks()
    tracemalloc.stop()


def planned(n_notes: int) -> Plan[Any]:
    rng = np.random.default_rng(0)
    texts = [f"note {k} " + " ".join(rng.permutation(WORDS)) for k in range(n_notes)]
    cohort = Cohort.from_frame(pl.DataFrame({"text": texts, "ill": np.arange(n_notes) % 2}), labels=["ill"])
    new = tuple(f"new{k}" for k in range(100))
    audit = Vocabulary(words=WORDS, filters=("uniform",), per_filter=40, vocabulary=new, threshold=0.5)
    return audit.plan(cohort, np.random.default_rng(0))


def wanted(plan: Plan[Any]) -> int:
    model = KeywordModel({"target01": 1.0})
    found = want(gather(plan.cohort, {"vocabulary": plan}), model)
    cut_calls(found.order, model, found.n_characters)
    return len(found.keys)


def analysed(plan: Plan[Any]) -> float:
    p = scratch.filled((len(plan.variants), 1), 0.5)
    answers = ModelPredictions(labels=("ill",), p=p, seen=np.ones(len(p), bool))
    thresholds = Thresholds(np.full((1, 1), 0.5), {})
    layout = lay_out(plan.memory.swaps, plan.cohort.patients)
    return float(SwapEffects(layout, Predictions({"m": answers}), thresholds, ("ill",)).sums(0).sum())


def test_the_columns_of_a_plan_are_not_in_memory(peaks: MemoryPeaks) -> None:
    plan = planned(60)
    n = len(plan.variants)
    taken = {"planning": peaks.since()}
    assert wanted(plan) > 60_000
    taken["keys and calls"] = peaks.since()
    assert analysed(plan) == 0.0
    taken["analysis"] = peaks.since()
    assert {what: size / n for what, size in taken.items() if size > MOST_BYTES * n} == {}
