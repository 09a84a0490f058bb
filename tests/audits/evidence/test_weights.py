"""Sampling weights in the evidence audit: a chart of weight 3 counts as three charts of its patient do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from palpate.audits.evidence.measures import SHARES
from palpate.audits.evidence.ranking import RANKED
from palpate.cases.cohort import Cohort
from palpate.results import AuditResult
from palpate.stats.clustered_rates import clustered_ratios
from palpate.stats.evidence import MATCHES, Spans, evidence_threshold, spans, tokenise
from tests.audits.evidence.evidence_charts import ExplainingModel, audit, charts, quick, row

SAYS = {
    "J18": {"pneumonia": 0.8, "walking home": 0.8, "on a": 0.8, "slowly again": 0.8},
    "A41": {"sepsis": 0.8},
    "I50": {"acute heart": 0.9, "again": 0.3},
    "E11": {"daily": 0.5, "diabetes": 0.2},
}
KEYS = ["metric", "group", "reference"]


def weighted(cohort: Cohort, weight: np.ndarray) -> Cohort:
    return replace(cohort, cases=cohort.cases.with_columns(sampling_weight=pl.Series(weight.astype(float))))


def repeated(cohort: Cohort, gold: pl.DataFrame, times: np.ndarray) -> tuple[Cohort, pl.DataFrame]:
    """As many copies of each chart, of the same patient, and of its gold evidence."""
    rows = np.repeat(np.arange(len(cohort)), times)
    names = [f"r{k}" for k in range(len(rows))]
    old = cohort.cases["case_id"].gather(rows)
    copies = pl.DataFrame({"case_id": old, "copy": names}).join(gold, on="case_id", maintain_order="left")
    cases = cohort.cases[rows].with_columns(case_id=pl.Series(names))
    again = replace(cohort, cases=cases, y=cohort.y.tocsr()[rows].tocsc())
    return again, copies.drop("case_id").rename({"copy": "case_id"}).select(gold.columns)


def audited(cohort: Cohort, gold: pl.DataFrame, folder: Path) -> AuditResult:
    options = {"unit": "patient", "codes": "all", "sensitivity_draws": 2, "fractions": (0.1,)}
    return audit(quick(gold, **options), cohort, folder, toy=ExplainingModel(SAYS))


@pytest.fixture(scope="module")
def sample() -> tuple[Cohort, pl.DataFrame]:
    return charts(72, seed=4)


def test_a_weight_counts_as_so_many_charts_of_the_patient(sample: tuple[Cohort, pl.DataFrame], tmp_path: Path) -> None:
    cohort, gold = sample
    times = np.random.default_rng(3).integers(0, 4, len(cohort))
    times[cohort.rows(split="train")] = 1  # how many training charts have a code is a count
    ours = audited(weighted(cohort, times), gold, tmp_path / "ours")
    theirs = audited(*repeated(cohort, gold, times), tmp_path / "theirs")
    plain = audited(cohort, gold, tmp_path / "plain")
    both = ours.estimates.join(theirs.estimates, on=KEYS, suffix="_repeated", nulls_equal=True)
    # Random words are drawn chart by chart, and words without a score are taken out by lot.
    exact = both.filter(
        pl.col("group") != "random evidence",
        pl.col("reference").is_null(),
        (pl.col("group") == "marked words")
        | ~pl.col("metric").str.contains("comprehensiveness|sufficiency|sensitivity"),
        ~pl.col("metric").str.ends_with("_random"),
    )
    named = {f"{match}_{measure}" for match in MATCHES for measure in ("precision", "recall", "f1", "f1_by_code")}
    assert {*named, *SHARES, *RANKED, "comprehensiveness", "chance_token_f1"} <= {*exact["metric"]}
    assert {"length=2 words", "chapter=Diseases of the respiratory system"} & {*exact["group"]}
    found, wanted = (exact[name].fill_null(-9.0).to_numpy() for name in ("value", "value_repeated"))
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
    # The next chart may be a heavy one, which copies do not say: the interval of weights is no shorter.
    rows = exact.filter(~pl.col("metric").is_in(RANKED)).drop_nulls(["low", "low_repeated"])
    shorter = rows.filter(pl.col("high") - pl.col("low") < pl.col("high_repeated") - pl.col("low_repeated") - 1e-9)
    assert rows.height > 20
    assert not shorter.height, shorter
    moved = ours.estimates.join(plain.estimates, on=KEYS, suffix="_plain", nulls_equal=True)
    for metric in ("token_f1", "token_f1_by_code", "spans_touched", "word_auprc", "chance_token_f1"):
        rows = moved.filter(pl.col("reference").is_null(), metric=metric, group="all")
        assert abs(rows["value"][0] - rows["value_plain"][0]) > 1e-4, metric
    counted = int((times[cohort.rows(split="test")] > 0).sum())
    assert row(ours, "token_f1")["n"] == counted, "charts are counted, not weighed"
    assert any("use the sampling weights" in each.sentence for each in ours.findings)


def test_equal_weights_change_nothing(sample: tuple[Cohort, pl.DataFrame], tmp_path: Path) -> None:
    cohort, gold = sample
    plain = audited(cohort, gold, tmp_path / "plain")
    same = audited(weighted(cohort, np.full(len(cohort), 3.0)), gold, tmp_path / "same")
    assert same.estimates.equals(plain.estimates)


def test_the_threshold_is_chosen_with_the_weights() -> None:
    texts = ["fever and cough"] * 3
    marks = spans([0, 0, 1, 2], [0, 10, 0, 0], [5, 15, 5, 5], [0, 0, 0, 0])
    said = spans([0, 0, 1, 1, 2], [0, 10, 0, 6, 6], [5, 15, 5, 9, 9], [0] * 5)
    score = [0.9, 0.3, 0.9, 0.5, 0.5]
    times = np.array([5, 1, 1])
    again = np.repeat(np.arange(3), times)
    copies = [np.flatnonzero(again == note).tolist() for note in range(3)]

    def repeat(side: Spans) -> tuple[Spans, list[int]]:
        rows = [(copy, i) for i, note in enumerate(side.note.tolist()) for copy in copies[note]]
        at = [i for _, i in rows]
        return spans([copy for copy, _ in rows], side.begin[at], side.end[at], side.code[at]), at

    (gold, _), (found, at) = repeat(marks), repeat(said)
    ours = evidence_threshold(tokenise(texts), marks, said, score, step=0.1, weight=times)
    theirs = evidence_threshold(tokenise([texts[0]] * 7), gold, found, np.asarray(score)[at], step=0.1)
    np.testing.assert_allclose(ours.f1, theirs.f1, rtol=1e-12)
    assert ours.chosen == theirs.chosen == 0.2
    assert evidence_threshold(tokenise(texts), marks, said, score, step=0.1).chosen == 0.8


@pytest.mark.parametrize("n", [20, 100])
def test_weighted_intervals_hold_the_truth(n: int) -> None:
    """Of 3,000 samples of n charts with one to six spans, of which 60% are found; one chart in ten stands for eight."""
    rng, shape = np.random.default_rng(n), (n, 3000)
    size = rng.integers(1, 7, shape)
    hits = rng.binomial(size, rng.beta(3, 2, shape))
    weight = np.where(rng.random(shape) < 0.1, 8.0, 1.0)
    low, high = clustered_ratios(hits * weight, size * weight).rates[1:]
    assert np.mean((low <= 0.6) & (high >= 0.6)) > 0.935
